#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir, $last and $with_faults are mutants.sh's
#
# The test of the lower bound with a neighbour's memory can fail: the bound is built with each of
# its deliberate faults (BOUND_MUTANT in workloads/bound*.c) in turn, and the test must find a
# schedule that is shorter than what each calls a bound. Needs SOURCE_DIR, the source tree,
# BUILD_DIR and CC. Prints a line a test.
#
# Labels: slow
set -u

: "${BUILD_DIR:?is the build tree}"
# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/mutants.sh"

# What has a fault comes before the library as it is.
build()
{
	# shellcheck disable=SC2086 # file names in the tree have no blanks
	mutants_build "$1" -O2 tests/support/bound_case.c $with_faults \
		"$BUILD_DIR/libweir_tools.a" "$BUILD_DIR/libweir_internal.a"
}

mutants_find BOUND_MUTANT 13 workloads/bound*.c
mutants_test tests/property/test_bound_near_brute.c -O2
mutants_try 'exceeds a schedule'
