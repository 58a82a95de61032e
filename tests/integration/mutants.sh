#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The tests can fail: the library is built with each of its deliberate faults (WEIR_MUTANT in
# src/core/types.h) in turn, and mutant_run.c must notice every one of them, and nothing without.
# Needs SOURCE_DIR, the source tree, and CC. Prints a line a test.
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
	[ -f "$dir/log" ] && sed 's|^|# |' "$dir/log"
	exit 1
}

# compile MUTANT OBJECTS SOURCES...: two at a time, each into the folder OBJECTS.
compile()
{
	mutant=$1
	objects=$2
	shift 2
	mkdir -p "$objects"
	# shellcheck disable=SC2016 # the inner shell expands it
	printf '%s\n' "$@" | MUTANT=$mutant OBJECTS=$objects CC=$CC xargs -P 2 -I '{}' sh -c '
		exec $CC -std=c11 -D_GNU_SOURCE -O1 -g -I. -Iinclude -DWEIR_MUTANT="$MUTANT" \
			-c "$1" -o "$OBJECTS/$(echo "$1" | tr / _).o"' sh '{}' >"$dir/log" 2>&1 ||
		fail "mutant $mutant does not compile"
}

# build MUTANT: what has a deliberate fault in it comes before the library as it is.
build()
{
	# shellcheck disable=SC2086 # words are meant to be split
	compile "$1" "$dir/$1" $with_faults
	# shellcheck disable=SC2086
	$CC -o "$dir/$1/run" "$dir/$1"/*.o "$dir/libweir.a" -lpthread -lm >"$dir/log" 2>&1 ||
		fail "mutant $1 does not link"
}

# File names in the tree have no blanks.
# shellcheck disable=SC2046
compile 0 "$dir/objects" tests/integration/mutant_run.c $(find src -name '*.c')
ar rcs "$dir/libweir.a" "$dir/objects"/*.o
with_faults=$(grep -rlE '\<WEIR_MUTANT [!=]= ' --include='*.c' src)
last=$(grep -rhoE '\<WEIR_MUTANT [!=]= [0-9]+' --include='*.c' src |
	grep -oE '[0-9]+$' | sort -n | tail -n 1)
[ "${last:-0}" -ge 3 ] || fail "mutants 1 to 3 are not there"

build 0
timeout 60 "$dir/0/run" >"$dir/log" 2>&1 || fail "the library as it is: exit status $?"
echo "ok - as it is: $(tail -n 1 "$dir/log")"

mutant=1
while [ "$mutant" -le "$last" ]; do
	build $mutant
	timeout 60 "$dir/$mutant/run" >"$dir/log" 2>&1
	status=$?
	# Wrong bytes or a trap: 1. That a call fails, an assertion or a hang is noticed as well.
	[ $status -ne 0 ] || fail "mutant $mutant is not noticed"
	echo "ok - mutant $mutant: $(tail -n 1 "$dir/log")"
	mutant=$((mutant + 1))
done
