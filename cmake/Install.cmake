# SPDX-License-Identifier: Apache-2.0
#
# What `make install` puts where, and the target `product`, which builds that and nothing else.
# DESTDIR is honoured by CMake itself. What is installed can be moved as a whole.

add_custom_target(product)
if(TARGET tests_plain)
	add_dependencies(tests_plain product) # integration.install installs it
endif()

# Manual pages: docs/man/NAME.SECTION.scd, built with everything else. The library alone has those of
# section 3.
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
		if(TARGET weir OR section EQUAL 3)
			install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
		endif()
	endforeach()
	add_custom_target(man ALL DEPENDS ${man_pages})
	add_dependencies(product man)
endif()

if(WEIR_SANITIZE)
	return()
endif()

# ---------------------------------------------------------------- libraries

set(libraries weir)
if(TARGET weir_machine_shared)
	list(APPEND libraries weir_machine)
else()
	set(no_machine_header PATTERN machine_file.h EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
	FILES_MATCHING PATTERN *.h PATTERN *.cuh ${no_machine_header})
install(FILES ${static_libraries} DESTINATION ${CMAKE_INSTALL_LIBDIR})

# For pkg-config, with folders relative to that of the file where they can be.
file(RELATIVE_PATH pc_up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_up "${pc_up}")
foreach(folder LIBDIR INCLUDEDIR)
	if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
		set(pc_${folder} ${CMAKE_INSTALL_${folder}})
	else()
		set(pc_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
	endif()
endforeach()

# For CMake: find_package(weir) gives weir::weir and, if it was built, weir::machine.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
foreach(library IN LISTS libraries)
	string(REPLACE _ - name ${library})
	string(REGEX REPLACE "^weir_" "" export ${library})
	set_target_properties(${library}_shared PROPERTIES EXPORT_NAME ${export})
	target_include_directories(${library}_shared INTERFACE
		$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
	install(TARGETS ${library}_shared EXPORT weir LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
	configure_file(${PROJECT_SOURCE_DIR}/${name}.pc.in ${name}.pc @ONLY)
	install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
	add_dependencies(product ${library}_shared ${library}_static)
endforeach()
install(EXPORT weir NAMESPACE weir:: FILE weir-targets.cmake DESTINATION ${package_folder})
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weir-config-version.cmake
	COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/weir-config.cmake
	${CMAKE_BINARY_DIR}/weir-config-version.cmake DESTINATION ${package_folder})

# ---------------------------------------------------------------- the program, what is read

if(TARGET weir)
	install(TARGETS weir RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	install(DIRECTORY ${PROJECT_SOURCE_DIR}/machines/ DESTINATION ${CMAKE_INSTALL_DATADIR}/weir/machines
		FILES_MATCHING PATTERN *.json)
	add_dependencies(product weir)
endif()

# What `weir run` puts into programs. Not for linking.
if(TARGET weir AND TARGET weir_dropin_shared)
	install(TARGETS weir_dropin_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
	add_dependencies(product weir_dropin_shared)
	add_dependencies(weir weir_dropin_shared)
endif()

# Policies as objects, where they were built, and their sources, which are examples.
install(FILES ${policy_objects} DESTINATION ${CMAKE_INSTALL_DATADIR}/weir/policies)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/policies/ DESTINATION ${CMAKE_INSTALL_DATADIR}/weir/policies
	FILES_MATCHING PATTERN *.[ch])
add_dependencies(product policies)

# As in the source tree, so that what refers to each other there does here.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
	DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
	FILES_MATCHING PATTERN *.md PATTERN *.svg PATTERN man EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
	FILES_MATCHING PATTERN *.c PATTERN *.h PATTERN *.cu PATTERN *.py)

# Last: what was installed, for tools/uninstall.
install(CODE "set(manifest \"${CMAKE_INSTALL_DATADIR}/weir/installed-files\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/Manifest.cmake)
