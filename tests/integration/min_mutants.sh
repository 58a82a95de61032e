#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir, $last and $with_faults are mutants.sh's
#
# The test of MIN against brute force can fail: MIN is built with each of its deliberate faults
# (MIN_MUTANT in workloads/min.c) in turn, and the test must notice every one of them, and nothing
# without. Needs SOURCE_DIR, the source tree, and CC. Prints a line a test.
#
# Labels: slow
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/mutants.sh"

build()
{
	mutants_build "$1" -O1 workloads/min.c
}

mutants_find MIN_MUTANT 7 workloads/min.c
mutants_test tests/property/test_min_brute.c -O1
build 0
timeout 60 "$dir/run" >"$dir/log" 2>&1 || fail "MIN as it is: exit status $?" "$dir/log"
echo "ok - as it is: $(grep seeds "$dir/log")"
mutants_try 'brute force'
