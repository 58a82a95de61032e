# SPDX-License-Identifier: Apache-2.0
#
# What `make install` puts where. DESTDIR is honoured by CMake itself.

# Manual pages: docs/man/NAME.SECTION.scd, built with everything else.
find_program(WEIR_SCDOC scdoc)
file(GLOB man_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.scd)
if(man_sources AND NOT WEIR_SCDOC)
	message(STATUS "scdoc is missing: manual pages are not built")
elseif(man_sources)
	set(man_pages)
	file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/man)
	foreach(source IN LISTS man_sources)
		cmake_path(GET source STEM LAST_ONLY name)
		if(NOT name MATCHES "\\.([1-8])$")
			message(FATAL_ERROR "${source}: the name is not NAME.SECTION.scd")
		endif()
		set(section ${CMAKE_MATCH_1})
		set(page ${CMAKE_BINARY_DIR}/man/${name})
		add_custom_command(OUTPUT ${page}
			COMMAND sh -c "\"$1\" <\"$2\" >\"$3.part\" && mv \"$3.part\" \"$3\"" sh
				${WEIR_SCDOC} ${source} ${page}
			DEPENDS ${source} VERBATIM COMMENT "Manual page ${name}")
		list(APPEND man_pages ${page})
		install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
	endforeach()
	add_custom_target(man ALL DEPENDS ${man_pages})
	if(TARGET tests_optimised)
		add_dependencies(tests_optimised man) # package.install looks for them
	endif()
endif()

if(WEIR_SANITIZE)
	return()
endif()

install(TARGETS weir_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${static_library} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	FILES_MATCHING PATTERN *.h PATTERN *.cuh)

# Folders relative to the prefix where they can be, so that pkg-config can move it.
foreach(folder LIBDIR INCLUDEDIR)
	if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
		set(pc_${folder} ${CMAKE_INSTALL_${folder}})
	else()
		set(pc_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
	endif()
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/weir.pc.in weir.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET weir)
	install(TARGETS weir RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	install(DIRECTORY ${PROJECT_SOURCE_DIR}/machines/ DESTINATION ${CMAKE_INSTALL_DATADIR}/weir/machines
		FILES_MATCHING PATTERN *.json)
endif()
