# SPDX-License-Identifier: Apache-2.0
#
# find_package(weir [COMPONENTS weir machine]): the targets weir::weir and weir::machine, of the shared
# libraries. The latter is not there where the library was installed alone.
include(${CMAKE_CURRENT_LIST_DIR}/weir-targets.cmake)
foreach(component IN LISTS weir_FIND_COMPONENTS)
	if(TARGET weir::${component})
		set(weir_${component}_FOUND TRUE)
	elseif(weir_FIND_REQUIRED_${component})
		set(weir_FOUND FALSE)
		set(weir_NOT_FOUND_MESSAGE "weir has no ${component} here")
	endif()
endforeach()
