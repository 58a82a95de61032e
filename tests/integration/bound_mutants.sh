#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The test of the lower bound with a neighbour's memory can fail: the bound is built with each of
# its deliberate faults (BOUND_MUTANT in workloads/bound*.c) in turn, and the test must find a
# schedule that is shorter than what each calls a bound. Needs SOURCE_DIR, the source tree,
# BUILD_DIR and CC. Prints a line a test.
#
# Labels: slow
set -u

: "${SOURCE_DIR:?is the source tree}" "${BUILD_DIR:?is the build tree}" "${CC:=cc}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$SOURCE_DIR" || exit 1

fail()
{
	echo "not ok - $1"
	[ -f "$dir/log" ] && sed 's|^|# |' "$dir/log"
	exit 1
}

# What has a fault comes before the library as it is.
with_faults=$(grep -lE '\<BOUND_MUTANT [!=]= ' workloads/bound*.c)
last=$(grep -ohE '\<BOUND_MUTANT [!=]= [0-9]+' workloads/bound*.c | grep -oE '[0-9]+$' |
	sort -n | tail -n 1)
[ "${last:-0}" -ge 8 ] || fail "mutants 1 to 8 are not there"
# shellcheck disable=SC2046 # words are meant to be split
$CC -std=c11 -D_GNU_SOURCE -O2 -I. -Iinclude -c -o "$dir/test.o" \
	tests/property/test_bound_near_brute.c $(pkg-config --cflags cmocka) >"$dir/log" 2>&1 ||
	fail "the test does not build"
mutant=1
while [ "$mutant" -le "$last" ]; do
	# shellcheck disable=SC2046,SC2086 # words are meant to be split
	$CC -std=c11 -D_GNU_SOURCE -O2 -I. -Iinclude -DBOUND_MUTANT="$mutant" -o "$dir/run" \
		"$dir/test.o" tests/support/bound_case.c \
		$with_faults "$BUILD_DIR/libweir_tools.a" "$BUILD_DIR/libweir_internal.a" \
		$(pkg-config --cflags --libs cmocka) -lm >"$dir/log" 2>&1 ||
		fail "mutant $mutant does not build"
	timeout 60 "$dir/run" >"$dir/log" 2>&1 && fail "mutant $mutant is not noticed"
	grep -q 'exceeds a schedule' "$dir/log" || fail "mutant $mutant fails in another way"
	echo "ok - mutant $mutant: $(grep -o 'seed [0-9]*: bound.*' "$dir/log" | head -n 1)"
	mutant=$((mutant + 1))
done
