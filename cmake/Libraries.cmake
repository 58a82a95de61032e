# SPDX-License-Identifier: Apache-2.0
#
# The two libraries that are installed. Both show weir_* and nothing else, so that they can be
# loaded into, or linked with, programs that have names of their own.

# Before 1.0 a minor version may change the interface, so it is part of the name.
set(soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
	set(soversion 0.${PROJECT_VERSION_MINOR})
endif()

set(symbol_map ${PROJECT_SOURCE_DIR}/src/weir.map)
add_library(weir_shared SHARED $<TARGET_OBJECTS:weir_objects>)
set_target_properties(weir_shared PROPERTIES OUTPUT_NAME weir VERSION ${PROJECT_VERSION}
	SOVERSION ${soversion} LINK_DEPENDS ${symbol_map} LINKER_LANGUAGE C)
target_link_options(weir_shared PRIVATE -Wl,--version-script=${symbol_map} -Wl,--no-undefined
	-Wl,-z,relro,-z,now)
target_link_libraries(weir_shared PRIVATE Threads::Threads m)

# Hidden visibility means nothing inside an archive: its members still see each other's symbols,
# and so does the program. Joined into one object, they can be made local. The price: a program
# that uses one function links them all.
set(static_library ${CMAKE_BINARY_DIR}/libweir.a)
set(joined ${CMAKE_BINARY_DIR}/weir_joined.o)
add_custom_command(OUTPUT ${static_library}
	COMMAND ${CMAKE_LINKER} -r -o ${joined} $<TARGET_OBJECTS:weir_objects>
	COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${joined}
	COMMAND ${CMAKE_COMMAND} -E rm -f ${static_library}
	COMMAND ${CMAKE_AR} crsD ${static_library} ${joined}
	DEPENDS weir_objects $<TARGET_OBJECTS:weir_objects>
	COMMAND_EXPAND_LISTS VERBATIM COMMENT "Joining libweir.a")
add_custom_target(weir_static ALL DEPENDS ${static_library})
