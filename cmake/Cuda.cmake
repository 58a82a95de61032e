# SPDX-License-Identifier: Apache-2.0
#
# Target `cuda`: what needs nvcc. Every .cu of the tree is compiled into an object, to know that it
# compiles. Of these are linked
#
#   workloads/NAME/cuda/*.cu  libweir-NAME-cuda.so, which the program opens at run time
#   tests/gpu/kernels.cu      gpu/libweir-test-cuda.so, which test programs open at run time
#   tests/gpu/NAME.cu         gpu/NAME, a program of its own, to be run where a GPU is
#   examples/unmodified.cu    gpu/unmodified, which has nothing of weir, for `weir run`
#   bench/launches.cu         gpu/bench_launches, likewise
#   tests/dropin/random/kernels.cu  gpu/random.ptx, which that program loads
#
# Target `cuda-check` is the same for one architecture, in build/cuda-check, to know that all of it
# compiles and links: nothing is optimised that need not be. The assembler sees the library, workloads,
# and tests with assembly of their own; other tests are left as PTX.
#
# All carry the runtimes of CUDA and C++ in themselves: where they run, they need the driver alone,
# and cuBLAS for the linear layers. Without nvcc the targets say so and do nothing.

find_program(WEIR_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
set(WEIR_CUDA_FLAGS "-gencode;arch=compute_80,code=sm_80;-gencode;arch=compute_90,code=[sm_90,compute_90]"
	CACHE STRING "Architectures that nvcc compiles for")
# What is no workload is not installed: for older GPUs it is compiled there, when it is loaded, which
# saves a third of the time here.
string(REPLACE "code=sm_80" "code=compute_80" cuda_late_flags "${WEIR_CUDA_FLAGS}")
# The oldest one: what is assembled for it is for newer ones, too.
set(cuda_check_flags -O0 -Xptxas -O0 -gencode;arch=compute_80,code=sm_80)
set(cuda_check_late_flags -O0 -gencode;arch=compute_80,code=compute_80)

set(cuda_globs)
foreach(folder src workloads managers bench examples tests/gpu tests/dropin/random)
	list(APPEND cuda_globs ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
endforeach()
weir_glob(cuda_sources ${cuda_globs})

if(NOT WEIR_NVCC)
	list(LENGTH cuda_sources nr)
	foreach(target cuda cuda-check)
		add_custom_target(${target} COMMAND ${CMAKE_COMMAND} -E echo
			"no nvcc here: ${nr} CUDA files are not compiled")
	endforeach()
	return()
endif()

set(cuda_options -std=c++17 -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include
	-Xcompiler -Wall,-Wextra,-fPIC,-fvisibility=hidden)
if(WEIR_WERROR)
	list(APPEND cuda_options -Werror all-warnings)
endif()
# A tenth of the size, where nvcc can do it: what is built here may be carried to a GPU.
execute_process(COMMAND ${WEIR_NVCC} --help OUTPUT_VARIABLE nvcc_help ERROR_QUIET)
if(nvcc_help MATCHES "-compress-mode")
	list(APPEND cuda_options -compress-mode=size)
endif()

set(cuda_link_options -cudadevrt none -Xcompiler -static-libstdc++,-static-libgcc)
# A library is loaded where nothing of CUDA but the driver may be; programs, of which there are many,
# share one runtime, which tests/gpu/pack carries.
set(cuda_link_library -cudart static)
cmake_path(GET WEIR_NVCC PARENT_PATH nvcc_folder)
set(cuda_link_program -cudart shared -Xlinker -rpath,${nvcc_folder}/../lib64)

# Programs that have nothing of weir in them.
set(cuda_unmodified_examples/unmodified.cu unmodified)
set(cuda_unmodified_bench/launches.cu bench_launches)

# Sanitized archives would need the sanitizer's runtime.
set(cuda_link_tests FALSE)
if(TARGET weir_tools AND NOT WEIR_SANITIZE)
	set(cuda_link_tests TRUE)
endif()

# cuda_target(NAME FOLDER PATTERN FLAGS LATE_FLAGS): all of it in a folder; flags of sources whose
# names match, and of the rest.
function(cuda_target target out pattern flags late_flags)
	set(outputs)
	set(plugins)
	file(MAKE_DIRECTORY ${out}/gpu)
	foreach(source IN LISTS cuda_sources)
		cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
		set(object ${out}/cuda/${name}.o)
		cmake_path(GET object PARENT_PATH folder)
		file(MAKE_DIRECTORY ${folder})
		set(architectures ${late_flags})
		if(name MATCHES "${pattern}")
			set(architectures ${flags})
		endif()
		# What launches the C compiler, such as ccache, launches this one, too.
		add_custom_command(OUTPUT ${object}
			COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${WEIR_NVCC} ${cuda_options} ${architectures}
				-MD -MF ${object}.d -c ${source} -o ${object}
			DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "Compiling ${name}")
		list(APPEND outputs ${object})

		if(name MATCHES "^workloads/([a-z]+)/cuda/")
			set(plugin ${out}/libweir-${CMAKE_MATCH_1}-cuda.so)
			list(APPEND plugins ${plugin})
			list(APPEND objects_${plugin} ${object})
		elseif(name STREQUAL tests/gpu/kernels.cu)
			set(plugin ${out}/gpu/libweir-test-cuda.so)
			list(APPEND plugins ${plugin})
			list(APPEND objects_${plugin} ${object})
		elseif(DEFINED cuda_unmodified_${name})
			set(program ${out}/gpu/${cuda_unmodified_${name}})
			add_custom_command(OUTPUT ${program}
				COMMAND ${WEIR_NVCC} ${flags} ${cuda_link_options} ${cuda_link_library}
					-o ${program} ${object}
				DEPENDS ${object}
				VERBATIM COMMENT "Linking gpu/${cuda_unmodified_${name}}")
			list(APPEND outputs ${program})
		elseif(name STREQUAL tests/dropin/random/kernels.cu)
			set(image ${out}/gpu/random.ptx)
			add_custom_command(OUTPUT ${image}
				COMMAND ${WEIR_NVCC} ${cuda_options} -ptx -arch=compute_80 ${source} -o ${image}
				DEPENDS ${source} VERBATIM COMMENT "Compiling gpu/random.ptx")
			list(APPEND outputs ${image})
		elseif(name MATCHES "^tests/gpu/" AND cuda_link_tests)
			cmake_path(GET source STEM stem)
			set(program ${out}/gpu/${stem})
			add_custom_command(OUTPUT ${program}
				COMMAND ${WEIR_NVCC} ${flags} ${cuda_link_options} ${cuda_link_program}
					-o ${program} ${object}
					$<TARGET_FILE:weir_tools> $<TARGET_FILE:weir_internal>
					-lpthread -ldl -lm
				DEPENDS ${object} weir_tools weir_internal
				VERBATIM COMMENT "Linking gpu/${stem}")
			list(APPEND outputs ${program})
		endif()
	endforeach()

	# Visible is what a library's header exports, and nothing of the CUDA runtime.
	list(REMOVE_DUPLICATES plugins)
	foreach(plugin IN LISTS plugins)
		cmake_path(GET plugin FILENAME name)
		add_custom_command(OUTPUT ${plugin}
			COMMAND ${WEIR_NVCC} ${flags} ${cuda_link_options} ${cuda_link_library} -shared
				-Xlinker --exclude-libs,ALL -Xlinker -z,defs
				-o ${plugin} ${objects_${plugin}}
			DEPENDS ${objects_${plugin}} VERBATIM COMMENT "Linking ${name}")
		list(APPEND outputs ${plugin})
	endforeach()

	add_custom_target(${target} DEPENDS ${outputs})
endfunction()

set(cuda_optimised -O2 -lineinfo)
cuda_target(cuda ${CMAKE_BINARY_DIR} "^workloads/" "${cuda_optimised};${WEIR_CUDA_FLAGS}"
	"${cuda_optimised};${cuda_late_flags}")
cuda_target(cuda-check ${CMAKE_BINARY_DIR}/cuda-check "^(workloads|src)/|kernels|litmus"
	"${cuda_check_flags}" "${cuda_check_late_flags}")
