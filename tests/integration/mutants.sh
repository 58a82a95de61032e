#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # $dir, $last and $with_faults are mutants.sh's
#
# The tests can fail: the library is built with each of its deliberate faults (WEIR_MUTANT in
# src/core/types.h) in turn, and mutant_run.c must notice every one of them, and nothing without.
# What has no faults in it comes from the build, which is not sanitized. Needs SOURCE_DIR, the
# source tree, BUILD_DIR and CC. Prints a line a test.
#
# Labels: slow
set -u

: "${BUILD_DIR:?is the build}"
# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/mutants.sh"

# What has a deliberate fault in it comes before the library as it is.
build()
{
	# shellcheck disable=SC2046 # file names in the tree have no blanks
	mutants_build "$1" -O1 $(mutants_with "$1") "$BUILD_DIR/libweir_internal.a"
}

mutants_find WEIR_MUTANT 7 src
last=7 # the others are those of replica_mutants.sh
mutants_test tests/integration/mutant_run.c -O1
build 0
timeout 60 "$dir/run" >"$dir/log" 2>&1 || fail "the library as it is: exit status $?" "$dir/log"
echo "ok - as it is: $(tail -n 1 "$dir/log")"
# Wrong bytes or a trap. That a call fails, or a hang, would not say that the fault shows.
mutants_try ' is [0-9a-f]{8} and should be |A kernel touched memory'
