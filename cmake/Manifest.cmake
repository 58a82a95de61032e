# SPDX-License-Identifier: Apache-2.0
#
# Runs at the end of an installation: lists its files in the file that `manifest` names, which is
# relative to the prefix or absolute. So are the files. Those of an earlier installation that are
# still there stay listed.
set(listed)
cmake_path(ABSOLUTE_PATH manifest BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
if(EXISTS "$ENV{DESTDIR}${manifest}")
	file(STRINGS "$ENV{DESTDIR}${manifest}" listed)
endif()
foreach(file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
	cmake_path(IS_PREFIX CMAKE_INSTALL_PREFIX "${file}" NORMALIZE below)
	if(below)
		cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
	endif()
	list(APPEND listed "${file}")
endforeach()
list(REMOVE_DUPLICATES listed)
set(text)
foreach(file IN LISTS listed)
	cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE path)
	if(EXISTS "$ENV{DESTDIR}${path}" OR IS_SYMLINK "$ENV{DESTDIR}${path}")
		string(APPEND text "${file}\n")
	endif()
endforeach()
file(WRITE "$ENV{DESTDIR}${manifest}" "${text}")
