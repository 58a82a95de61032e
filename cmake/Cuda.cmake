# SPDX-License-Identifier: Apache-2.0
#
# Target `cuda`: compile every .cu of the tree into an object, to know that it compiles. Nothing
# links them here. Without nvcc the target says so and does nothing.

find_program(WEIR_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
set(WEIR_CUDA_FLAGS "-gencode;arch=compute_80,code=sm_80;-gencode;arch=compute_90,code=[sm_90,compute_90]"
	CACHE STRING "Architectures that nvcc compiles for")

set(cuda_globs)
foreach(folder src workloads managers bench examples tests/gpu)
	list(APPEND cuda_globs ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
endforeach()
weir_glob(cuda_sources ${cuda_globs})

if(NOT WEIR_NVCC)
	list(LENGTH cuda_sources nr)
	add_custom_target(cuda COMMAND ${CMAKE_COMMAND} -E echo
		"no nvcc here: ${nr} CUDA files are not compiled")
	return()
endif()

set(cuda_options -std=c++17 -O2 -lineinfo ${WEIR_CUDA_FLAGS} -I${PROJECT_SOURCE_DIR}
	-I${PROJECT_SOURCE_DIR}/include -Xcompiler -Wall,-Wextra)
if(WEIR_WERROR)
	list(APPEND cuda_options -Werror all-warnings)
endif()

set(cuda_objects)
foreach(source IN LISTS cuda_sources)
	cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
	set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
	cmake_path(GET object PARENT_PATH folder)
	file(MAKE_DIRECTORY ${folder})
	add_custom_command(OUTPUT ${object}
		COMMAND ${WEIR_NVCC} ${cuda_options} -MD -MF ${object}.d -c ${source} -o ${object}
		DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "Compiling ${name}")
	list(APPEND cuda_objects ${object})
endforeach()
add_custom_target(cuda DEPENDS ${cuda_objects})
