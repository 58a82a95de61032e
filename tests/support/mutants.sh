# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034 # what is set here is for the test
#
# Sourced by the tests that build a program with deliberate faults in the sources, one at a time,
# each behind a number of a macro: the program has to notice every one of them. Needs SOURCE_DIR,
# and CC, which may be left out; makes $dir, a folder for what is built, which goes with the test.
: "${SOURCE_DIR:?is the source tree}" "${CC:=cc}"
# shellcheck source=/dev/null
. "$SOURCE_DIR/tests/support/environment.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$SOURCE_DIR" || exit 1

# What would be read of debugging is not linked, and where lld is, it links in a part of the time.
fast_link=-Wl,--strip-debug
! command -v ld.lld >/dev/null || fast_link="$fast_link -fuse-ld=lld -Wl,--threads=1"

# mutants_find MACRO LEAST FILE...: $with_faults is the files, or those in the folders, that have a
# fault, and $last the highest number, which must be no less than LEAST.
mutants_find()
{
	macro=$1
	least=$2
	shift 2
	with_faults=$(grep -rlE --include='*.c' "\\<$macro [!=]= " "$@")
	last=$(grep -rohE --include='*.c' "\\<$macro [!=]= [0-9]+" "$@" | grep -oE '[0-9]+$' |
		sort -n | tail -n 1)
	[ "${last:-0}" -ge "$least" ] || fail "mutants 1 to $least are not there"
}

# mutants_with NUMBER: of $with_faults those with that fault; the others may come from a library.
mutants_with()
{
	# shellcheck disable=SC2086 # words are meant to be split
	grep -lE "\\<$macro [!=]= $1\\>" $with_faults
}

# mutants_test FILE OPTION...: $dir/test.o, which has no fault in it.
mutants_test()
{
	# shellcheck disable=SC2046 # words are meant to be split
	$CC -std=c11 -D_GNU_SOURCE -I. -Iinclude -c -o "$dir/test.o" "$@" \
		$(pkg-config --cflags cmocka) >"$dir/log" 2>&1 ||
		fail "the test does not build" "$dir/log"
}

# mutants_compile NUMBER SOURCE OBJECT OPTION
mutants_compile()
{
	$CC -std=c11 -D_GNU_SOURCE -I. -Iinclude -D"$macro=$1" "$4" -c -o "$3" "$2" \
		>"$dir/log" 2>&1 || fail "mutant $1 does not build" "$dir/log"
}

# mutants_build NUMBER OPTION FILE...: $dir/run, of the test and what else cc takes, with a fault; 0:
# none. The option is for sources, of which those without that fault are compiled once.
mutants_build()
{
	number=$1
	option=$2
	inputs=
	shift 2
	for input; do
		object=$dir/$(echo "$input" | tr / _).o
		case $input in
		*.c)
			if grep -qE "\\<$macro [!=]= $number\\>" "$input"; then
				object=$dir/mutant_$(basename "$input").o
				mutants_compile "$number" "$input" "$object" "$option"
			elif [ ! -e "$object" ]; then
				mutants_compile 0 "$input" "$object" "$option"
			fi
			input=$object
			;;
		esac
		inputs="$inputs $input"
	done
	# shellcheck disable=SC2046,SC2086 # words are meant to be split
	$CC $fast_link -o "$dir/run" "$dir/test.o" $inputs $(pkg-config --libs cmocka) -lpthread \
		-lm >"$dir/log" 2>&1 || fail "mutant $number does not build" "$dir/log"
}

# mutants_try PATTERN [FIRST]: for each number from FIRST or 1 on, build NUMBER, a function of the test's, and $dir/run must
# fail. Of what it writes the first line with the pattern is shown; without one it fails in another
# way.
mutants_try()
{
	mutant=${2:-1}
	while [ "$mutant" -le "$last" ]; do
		build "$mutant"
		timeout 60 "$dir/run" >"$dir/log" 2>&1 && fail "mutant $mutant is not noticed"
		why=$(grep -E -m 1 "$1" "$dir/log") ||
			fail "mutant $mutant fails in another way" "$dir/log"
		echo "ok - mutant $mutant: $why"
		mutant=$((mutant + 1))
	done
}
