#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir and $with_faults are mutants.sh's
#
# The same as mutants.sh of the deliberate faults in what keeps an eBPF policy inside its bounds
# (BPF_MUTANT in src/policy/bpf_internal.h): unit.bpf has to notice each of them. Needs SOURCE_DIR,
# the source tree, BUILD_DIR and CC. Prints a line a test.
#
# Labels: slow
set -u

: "${BUILD_DIR:?is the build}"
# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/mutants.sh"

# What has a deliberate fault in it comes before the library as it is.
build()
{
	# shellcheck disable=SC2086 # file names in the tree have no blanks
	mutants_build "$1" -O1 $with_faults tests/support/bpf_file.c \
		"$BUILD_DIR/libweir_internal.a"
}

mutants_find BPF_MUTANT 5 src/policy
mutants_test tests/unit/test_bpf.c -O1
build 0
timeout 60 "$dir/run" >"$dir/log" 2>&1 || fail "the interpreter as it is: exit status $?" "$dir/log"
echo "ok - as it is"
mutants_try 'FAILED *\] test_bpf_'
