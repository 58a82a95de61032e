#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The tests can fail: the library is built with each of its deliberate faults (WEIR_MUTANT in
# src/core/types.h) in turn, and mutant_run.c must notice every one of them, and nothing without.
# What has no faults in it comes from the build, which is not sanitized. Needs SOURCE_DIR, the
# source tree, BUILD_DIR and CC. Prints a line a test.
#
# Labels: slow
set -u

: "${SOURCE_DIR:?is the source tree}" "${BUILD_DIR:?is the build}" "${CC:=cc}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$SOURCE_DIR" || exit 1

fail()
{
	echo "not ok - $1"
	[ -f "$dir/log" ] && sed 's|^|# |' "$dir/log"
	exit 1
}

# build MUTANT: what has a deliberate fault in it comes before the library as it is.
build()
{
	# shellcheck disable=SC2086 # file names in the tree have no blanks
	$CC -std=c11 -D_GNU_SOURCE -O1 -g -I. -Iinclude -DWEIR_MUTANT="$1" -o "$dir/run" \
		tests/integration/mutant_run.c $with_faults "$BUILD_DIR/libweir_internal.a" \
		-lpthread -lm >"$dir/log" 2>&1 || fail "mutant $1 does not build"
}

with_faults=$(grep -rlE '\<WEIR_MUTANT [!=]= ' --include='*.c' src)
last=$(grep -rhoE '\<WEIR_MUTANT [!=]= [0-9]+' --include='*.c' src |
	grep -oE '[0-9]+$' | sort -n | tail -n 1)
[ "${last:-0}" -ge 7 ] || fail "mutants 1 to 7 are not there"

build 0
timeout 60 "$dir/run" >"$dir/log" 2>&1 || fail "the library as it is: exit status $?"
echo "ok - as it is: $(tail -n 1 "$dir/log")"

mutant=1
while [ "$mutant" -le "$last" ]; do
	build "$mutant"
	timeout 60 "$dir/run" >"$dir/log" 2>&1
	status=$?
	# Wrong bytes or a trap: 1. That a call fails, an assertion or a hang is noticed as well.
	[ $status -ne 0 ] || fail "mutant $mutant is not noticed"
	echo "ok - mutant $mutant: $(tail -n 1 "$dir/log")"
	mutant=$((mutant + 1))
done
