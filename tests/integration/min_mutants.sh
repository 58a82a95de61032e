#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The test of MIN against brute force can fail: MIN is built with each of its deliberate faults
# (MIN_MUTANT in workloads/min.c) in turn, and the test must notice every one of them, and nothing
# without. Needs SOURCE_DIR, the source tree, and CC. Prints a line a test.
#
# Labels: slow
set -u

: "${SOURCE_DIR:?is the source tree}" "${CC:=cc}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$SOURCE_DIR" || exit 1

fail()
{
	echo "not ok - $1"
	sed 's|^|# |' "$dir/log"
	exit 1
}

# run MUTANT: build and run the test; its status.
run()
{
	# shellcheck disable=SC2046 # words are meant to be split
	$CC -std=c11 -D_GNU_SOURCE -O1 -I. -DMIN_MUTANT="$1" -o "$dir/run" \
		tests/property/test_min_brute.c workloads/min.c \
		$(pkg-config --cflags --libs cmocka) -lm >"$dir/log" 2>&1 ||
		fail "mutant $1 does not compile"
	timeout 60 "$dir/run" >"$dir/log" 2>&1
}

run 0 || fail "MIN as it is: exit status $?"
echo "ok - as it is: $(grep seeds "$dir/log")"

last=$(grep -oE '\<MIN_MUTANT [!=]= [0-9]+' workloads/min.c | grep -oE '[0-9]+$' | sort -n |
	tail -n 1)
[ "${last:-0}" -ge 7 ] || fail "mutants 1 to 7 are not there"
mutant=1
while [ "$mutant" -le "$last" ]; do
	run "$mutant" && fail "mutant $mutant is not noticed"
	grep -q 'brute force' "$dir/log" || fail "mutant $mutant fails in another way"
	echo "ok - mutant $mutant: $(grep 'brute force' "$dir/log" | head -n 1)"
	mutant=$((mutant + 1))
done
