#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir and $programs are dropin.sh's
#
# Random programs (tests/dropin/random) on the driver without a GPU, by themselves and under
# `weir run` in each mode, with a third and a half of the memory that they allocate. Needs WEIR,
# BUILD_DIR, SOURCE_DIR, FAKECUDA_DRIVER. Prints a line a test, and what repeats a program that is
# wrong. WEIR_TEST_LONG: 100 times as many, and some with all work held up.
#
# A library cannot be put before a sanitizer's: a build with one runs the programs by themselves.
#
# Long: yes
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/dropin.sh"
export FAKECUDA_GRANULARITY=16384 FAKECUDA_REPORT="$dir/report"
random=$programs/random
bytes=786432 # that live at most, in blocks of 16 KiB
seeds=10

# right WHAT COMMAND...: all programs are right, and nothing had no order.
right()
{
	what=$1
	shift
	rm -f report
	if ! "$@" --seeds $seeds --ops 120 --bytes $bytes --jobs 2 >out 2>err; then
		echo "# it ran under: FAKECUDA_GRANULARITY=16384 LD_LIBRARY_PATH=$FAKECUDA_DRIVER $*" >>err
		fail "random programs $what" out err
	fi
	grep -vE ' races 0 unmaps 0 .* problem none$' report >wrong &&
		fail "random programs $what: right, but not in order" wrong
}

right "by themselves" "$random"
echo "ok - random programs are right"

if "$random" --seed 3 --plant >out 2>err; then
	fail "a wrong byte is not found" out
fi
has err '^random: seed 3, .* byte [0-9]+ is 0x.*, not 0x' \
	'^random: repeat it with: random --seed 3 --ops [0-9]+ --bytes [0-9]+$'
echo "ok - a wrong byte is found, and what repeats it is said"

if [ -n "${WEIR_SANITIZE-}" ]; then
	echo "ok - skipped: a build with a sanitizer has no library for programs"
	exit 0
fi

# in_modes BUDGET WHEN MODE...
in_modes()
{
	budget=$1
	when=$2
	shift 2
	for mode in "$@"; do
		right "in mode $mode with $budget, $when" \
			"$WEIR" run --quiet --mode "$mode" --when "$when" --gpu-budget "$budget" -- "$random"
	done
}

right "in mode fixed" "$WEIR" run --quiet --mode fixed --gpu-budget $((bytes / 3)) -- "$random"
in_modes $((bytes / 3)) always safe fast
in_modes $((bytes / 2)) oom safe fast
echo "ok - random programs are right in all modes"

if [ -n "${WEIR_TEST_LONG-}" ]; then
	seeds=1000
	for part in 2 3; do
		in_modes $((bytes / part)) always safe fast
	done
	in_modes $((bytes / 3)) oom safe fast
	seeds=300
	export FAKECUDA_DELAY_NS=30000
	in_modes $((bytes / 3)) always safe fast
	in_modes $((bytes / 3)) oom safe fast
	echo "ok - many random programs"
fi
