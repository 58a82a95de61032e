# SPDX-License-Identifier: Apache-2.0
#
# libweir-machine, which reads and writes machine descriptions and needs jansson. The program and the
# tests link the same objects.

weir_glob(machine_sources ${PROJECT_SOURCE_DIR}/machine/*.c)
weir_fuzzed(${machine_sources})
add_library(weir_machine_objects OBJECT ${machine_sources})
set_target_properties(weir_machine_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(weir_machine_objects PRIVATE weir_flags PkgConfig::JANSSON)

# How descriptions are found from where a program or the library is installed.
set(machines ${CMAKE_INSTALL_FULL_DATADIR}/weir/machines)
file(RELATIVE_PATH from_program ${CMAKE_INSTALL_FULL_BINDIR} ${machines})
file(RELATIVE_PATH from_library ${CMAKE_INSTALL_FULL_LIBDIR} ${machines})
target_compile_definitions(weir_machine_objects PRIVATE WEIR_MACHINE_DIR="${machines}"
	WEIR_MACHINE_FROM_PROGRAM="${from_program}" WEIR_MACHINE_FROM_LIBRARY="${from_library}")

add_library(weir_machine_internal STATIC $<TARGET_OBJECTS:weir_machine_objects>)
target_link_libraries(weir_machine_internal PUBLIC weir_internal PkgConfig::JANSSON
	${CMAKE_DL_LIBS})

if(NOT WEIR_SANITIZE)
	weir_library(weir-machine weir_machine_objects PkgConfig::JANSSON
		${CMAKE_DL_LIBS})
	target_link_libraries(weir_machine_shared PUBLIC weir_shared) # its header is that one's, too
endif()

# What is built into a folder finds the source tree's descriptions beside it. (In a build in the
# source tree itself they are there.)
function(weir_machines_beside folder)
	file(MAKE_DIRECTORY ${folder})
	if(NOT EXISTS ${folder}/machines)
		file(CREATE_LINK ${PROJECT_SOURCE_DIR}/machines ${folder}/machines SYMBOLIC)
	endif()
endfunction()
