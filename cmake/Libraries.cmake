# SPDX-License-Identifier: Apache-2.0
#
# The libraries that are installed, each shared and static. They show weir_* and nothing else, so that
# they can be loaded into, or linked with, programs that have names of their own.

# Before 1.0 a minor version may change the interface, so it is part of the name.
set(soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
	set(soversion 0.${PROJECT_VERSION_MINOR})
endif()

set(symbol_map ${PROJECT_SOURCE_DIR}/src/weir.map)
set(static_libraries)

# weir_library(NAME OBJECTS LIBRARY...): libNAME.so, the target NAME_shared with '_' for '-', and
# libNAME.a, of the objects of a target. The rest is what the shared one links.
function(weir_library name objects)
	string(REPLACE - _ target ${name})
	add_library(${target}_shared SHARED $<TARGET_OBJECTS:${objects}>)
	# Where one needs the other, it finds it beside itself.
	set_target_properties(${target}_shared PROPERTIES OUTPUT_NAME ${name}
		VERSION ${PROJECT_VERSION} SOVERSION ${soversion} LINK_DEPENDS ${symbol_map}
		LINKER_LANGUAGE C INSTALL_RPATH $ORIGIN)
	target_link_options(${target}_shared PRIVATE -Wl,--version-script=${symbol_map}
		-Wl,--no-undefined -Wl,-z,relro,-z,now)
	target_link_libraries(${target}_shared PRIVATE ${ARGN})

	# Hidden visibility means nothing inside an archive: its members still see each other's
	# symbols, and so does the program. Joined into one object, they can be made local. The
	# price: a program that uses one function links them all.
	set(static ${CMAKE_BINARY_DIR}/lib${name}.a)
	set(joined ${CMAKE_BINARY_DIR}/${target}_joined.o)
	add_custom_command(OUTPUT ${static}
		COMMAND ${CMAKE_LINKER} -r -o ${joined} $<TARGET_OBJECTS:${objects}>
		COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${joined}
		COMMAND ${CMAKE_COMMAND} -E rm -f ${static}
		COMMAND ${CMAKE_AR} crsD ${static} ${joined}
		DEPENDS ${objects} $<TARGET_OBJECTS:${objects}>
		COMMAND_EXPAND_LISTS VERBATIM COMMENT "Joining lib${name}.a")
	add_custom_target(${target}_static ALL DEPENDS ${static})
	set(static_libraries ${static_libraries} ${static} PARENT_SCOPE)
endfunction()
