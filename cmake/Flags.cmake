# SPDX-License-Identifier: Apache-2.0
#
# How everything is compiled: one interface target, weir_flags, that every other target links.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

add_library(weir_flags INTERFACE)
target_include_directories(weir_flags INTERFACE ${PROJECT_SOURCE_DIR}
	${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(weir_flags INTERFACE _GNU_SOURCE)

# No contraction: results are the same bits under gcc and clang, with and without fused
# multiply-add in the instruction set.
target_compile_options(weir_flags INTERFACE -ffp-contract=off
	-Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes)
# In tables whose elements have an index, fields that are left out are 0, which gcc takes as it is.
if(CMAKE_C_COMPILER_ID MATCHES Clang)
	target_compile_options(weir_flags INTERFACE -Wno-missing-field-initializers)
endif()

if(WEIR_WERROR)
	target_compile_options(weir_flags INTERFACE -Werror)
endif()

# What is installed says nothing of where it was built, in messages or for debuggers: run these in the
# source tree. What is sanitized is not installed.
if(NOT WEIR_SANITIZE)
	target_compile_options(weir_flags INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
		-ffile-prefix-map=${CMAKE_BINARY_DIR}=.)
endif()

if(WEIR_DEBUG_CHECKS)
	target_compile_definitions(weir_flags INTERFACE WEIR_DEBUG_CHECKS=1)
endif()

# Links 200 programs in a third of the time, where it is. One thread takes less of the processor for a
# program than several.
find_program(WEIR_LLD ld.lld)
set(weir_fast_link -fuse-ld=lld -Wl,--threads=1)

if(WEIR_SANITIZE)
	target_compile_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE}
		-fno-sanitize-recover=all -fno-omit-frame-pointer)
	target_link_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE})
	if(WEIR_LLD AND CMAKE_C_COMPILER_ID STREQUAL Clang)
		target_link_options(weir_flags INTERFACE ${weir_fast_link})
	endif()
endif()

# Of what is sanitized, these sources are not optimised: what they do takes less time than that
# would. Those that fuzzers run again and again are.
function(weir_unoptimised)
	set(sources ${ARGN})
	list(FILTER sources INCLUDE REGEX "/(cli|managers)/")
	list(FILTER sources EXCLUDE REGEX "/cli/(report|size|trace)")
	if(WEIR_SANITIZE AND sources)
		set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS -O0)
	endif()
endfunction()

# One build serves tests and fuzzers: of these sources, what reads files, and fuzzers themselves, are
# instrumented for coverage. Other code would be three to five times as slow for it.
set(fuzzed "/(cli|machine|src/base|tests/fuzz|workloads/graph)/|/src/backend/machine_check\\.c"
	"|/src/mem/mem_file|/src/policy/bpf_|/workloads/gcn/graph\\.c")
string(JOIN "" fuzzed ${fuzzed})
function(weir_fuzzed)
	set(sources ${ARGN})
	list(FILTER sources INCLUDE REGEX ${fuzzed})
	if(WEIR_FUZZ AND sources)
		set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS
			-fsanitize=fuzzer-no-link)
	endif()
endfunction()

if(WEIR_FUZZ)
	include(CheckCSourceCompiles)
	set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
	set(CMAKE_REQUIRED_LINK_OPTIONS -fsanitize=fuzzer)
	check_c_source_compiles("
		#include <stddef.h>
		int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
		int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
		{ (void)data; (void)size; return 0; }" WEIR_HAVE_LIBFUZZER)
	unset(CMAKE_REQUIRED_FLAGS)
	unset(CMAKE_REQUIRED_LINK_OPTIONS)
	if(NOT WEIR_HAVE_LIBFUZZER)
		unset(WEIR_HAVE_LIBFUZZER CACHE) # ask again once it is installed
		message(FATAL_ERROR "${CMAKE_C_COMPILER} has no libFuzzer: `make check` installs clang "
			"and libclang-rt, -DWEIR_FUZZ=OFF does without the fuzzers")
	endif()
endif()
