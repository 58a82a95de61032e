# SPDX-License-Identifier: Apache-2.0
#
# Target `policies`: each policies/NAME.c as an eBPF object, policies/NAME.o in the build, of the same
# source that is compiled into the library. It needs a clang that compiles for eBPF; without one the
# target does nothing, and tests of these objects are skipped.

find_program(WEIR_CLANG_BPF NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14)
set(policy_objects)
if(WEIR_CLANG_BPF)
	execute_process(COMMAND ${WEIR_CLANG_BPF} --print-targets OUTPUT_VARIABLE clang_targets
		ERROR_QUIET)
endif()
if(NOT clang_targets MATCHES "bpfel|bpf ")
	message(STATUS "no clang that compiles for eBPF: policies are built into weir alone")
	add_custom_target(policies)
	return()
endif()

file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/policies)
foreach(source IN LISTS policy_sources)
	cmake_path(GET source STEM name)
	set(object ${CMAKE_BINARY_DIR}/policies/${name}.o)
	add_custom_command(OUTPUT ${object}
		COMMAND ${WEIR_CLANG_BPF} -O2 -g -target bpf -mcpu=v3 -ffreestanding -Wall -Werror
			-ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -Iinclude -c policies/${name}.c
			-o ${object}
		DEPENDS ${source} ${PROJECT_SOURCE_DIR}/include/weir/policy.h
			${PROJECT_SOURCE_DIR}/policies/recency.h
		WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM COMMENT "eBPF object ${name}.o")
	list(APPEND policy_objects ${object})
endforeach()
add_custom_target(policies ALL DEPENDS ${policy_objects})
