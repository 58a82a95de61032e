#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every interleaving of the paging protocol's steps, for a few agents on a few pages and fewer frames:
# tests/paging/model.pml, explored by spin over the step machine as it is. Nothing may be found in
# it, and something in each of its deliberate faults (PT_MUTANT in include/weir/paging/pt_arch.h) but those
# of memory order alone. Needs SOURCE_DIR and CC. Prints a line a test.
#
# Two agents begin with page 0 in each state that it may be in ("every-start"). Most other models begin
# with it absent, clean or dirty, but in all states with WEIR_PAGING_MODEL=full, which explores more,
# takes minutes and up to 10 GB for each of two runs at a time: two agents with two operations while
# the epoch advances, and with three; cycles of pages that are not only filled, more of those that
# are, and of read-only ones; two agents with two operations and three with one, with all starts; and
# three agents with two operations, of which states are told apart by a hash, so that some may be left
# out.
#
# Takes 45 s of a processor: every interleaving, in 31 models that are compiled and explored.
#
# Labels: slow
# Timeout: 600
# Long: WEIR_PAGING_MODEL=full
set -u

: "${SOURCE_DIR:?is the source tree}" "${CC:=cc}"
model=$SOURCE_DIR/tests/paging/model.pml

command -v spin >/dev/null || {
	echo "not ok - spin is missing: make deps installs it"
	exit 1
}

# explore NAME "MODEL DEFINITIONS" "C DEFINITIONS": prints "NAME found|nothing STATES", or why not.
# Every byte of a state counts: NOCOMP spares looking for those that do not. It does not go with -l,
# COLLAPSE or BITSTATE.
explore()
{
	mkdir -p "$dir/$1" && cd "$dir/$1" || exit 1
	# With -O2 a short search takes less, and compiling it more than that.
	kind=-DSAFETY look="" optimise=-O1
	[ "${WEIR_PAGING_MODEL-}" != full ] || optimise=-O2
	case $3 in
	*-DNP*) kind="" look=-l ;;
	*-DBITSTATE*) look=-w34 ;;
	*-DCOLLAPSE*) ;;
	*) kind="-DSAFETY -DNOCOMP" ;;
	esac
	# A table of a size that fits: clearing spin's usual one takes longer than meeting most mutants.
	case $1 in
	mutant-*) look=-w18 ;;
	*) [ "${WEIR_PAGING_MODEL-}" = full ] || look="$look -w22" ;;
	esac
	# shellcheck disable=SC2086 # words are meant to be split
	if spin $2 -a "$model" >log 2>&1 &&
		$CC -std=gnu11 $optimise -w $kind -DNOREDUCE -DPT_ARCH_MODEL -DMEMLIM=10000 \
			-I"$SOURCE_DIR" -I"$SOURCE_DIR/include" $3 pan.c -o pan >>log 2>&1; then
		./pan $look -m200000 >>log 2>&1
	fi
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' log)
	if ! grep -q 'errors: ' log || grep -qE 'max search depth|out of memory|not completed' log &&
		grep -q 'errors: 0' log; then
		echo "$1 not explored: $(grep -vE '^$' log | tail -n 3 | tr '\n' ' ')"
	elif grep -q 'errors: 0' log; then
		echo "$1 nothing $states"
	else
		echo "$1 found $states"
	fi
	rm -f pan pan.*
}

# What is explored is gigabytes, met at random: in large pages that takes half of the time.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1

# Two at a time. The operations: 1 reads, 2 additions, 4 pinned additions, 8 hints, 16 spans that are
# read. FILL_ONLY and READ_ONLY: bits of pages.
if [ "${1-}" = explore ]; then
	dir=$2
	explore "$3" "$4" "$5"
	exit
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
run()
{
	xargs -P 2 -n 3 sh "$0" explore "$dir" >"$dir/results"
}

starts=-DLAST_START=3
[ "${WEIR_PAGING_MODEL-}" != full ] || starts=-DLAST_START=8
{
	echo "2-agents-every-start -DNR=2 '-DNR_OPS=1 -DKINDS=15'"
	echo "3-agents-1-operation '-DNR=3 -DLAST_START=0' '-DNR_OPS=1 -DNR_AGENTS=3 -DENDS=1 -DADVANCES=0'"
	echo "aborted-at-any-time -DNR=2 '-DNR_OPS=1 -DADVANCES=1 -DABORTS=1'"
	echo "2-agents-2-operations $starts '-DNR_OPS=2 -DENDS=1 -DADVANCES=0'"
	echo "2-agents-2-hints $starts '-DNR_OPS=2 -DKINDS=9 -DENDS=1 -DADVANCES=1'"
	echo "guest-beside-agent $starts '-DNR_OPS=1 -DGUESTS=1 -DKINDS=15'"
	echo "guests-alone '-DNR=2 -DLAST_START=0' '-DNR_OPS=2 -DGUESTS=3 -DENDS=1'"
	echo "touched-twice -DLAST_START=2 '-DNR_OPS=2 -DADMIT=2 -DENDS=1 -DADVANCES=0'"
	echo "read-only $starts '-DNR_OPS=1 -DKINDS=19 -DREAD_ONLY=2'"
	echo "filled $starts '-DNR_OPS=1 -DKINDS=15 -DFILL_ONLY=3'"
	echo "filled-read-only $starts '-DNR_OPS=1 -DKINDS=31 -DFILL_ONLY=2 -DREAD_ONLY=2'"
	echo "filled-no-endless-cycle $starts '-DNR_OPS=1 -DADVANCES=1 -DKINDS=23 -DFILL_ONLY=2 -DREAD_ONLY=2 -DNP'"
	echo "filled-two-frames-beside-evicting '-DLAST_START=0 -DNR_PAGES=3' '-DNR_OPS=2 -DNR_PAGES=3 -DNR_FRAMES=2 -DFILL_ONLY=6 -DENDS=1 -DADVANCES=0'"
	if [ "${WEIR_PAGING_MODEL-}" = full ]; then
		echo "2-agents-2-operations-advanced -DNR=2 '-DNR_OPS=2 -DENDS=1 -DADVANCES=1'"
		echo "2-agents-3-operations -DLAST_START=0 '-DNR_OPS=3 -DENDS=1 -DADVANCES=0'"
		echo "no-endless-cycle -DNR=2 '-DNR_OPS=1 -DADVANCES=1 -DKINDS=7 -DNP'"
		echo "read-only-beside-all -DNR=2 '-DNR_OPS=1 -DKINDS=31 -DREAD_ONLY=2'"
		echo "filled-beside-evicting -DNR=2 '-DNR_OPS=1 -DKINDS=31 -DFILL_ONLY=2'"
		echo "filled-read-only-3-operations -DLAST_START=0 '-DNR_OPS=3 -DKINDS=7 -DFILL_ONLY=2 -DREAD_ONLY=2 -DENDS=1 -DADVANCES=0'"
		echo "filled-two-frames '-DLAST_START=0 -DNR_PAGES=3' '-DNR_OPS=2 -DKINDS=7 -DNR_PAGES=3 -DNR_FRAMES=2 -DFILL_ONLY=7 -DENDS=1 -DADVANCES=0'"
		echo "2-agents-2-pinned -DNR=2 '-DNR_OPS=2 -DENDS=1 -DADVANCES=1 -DKINDS=5 -DCOLLAPSE'"
		echo "3-agents-every-start -DNR=3 '-DNR_OPS=1 -DNR_AGENTS=3 -DENDS=1 -DADVANCES=0 -DCOLLAPSE'"
		echo "3-agents-2-operations-hashed '-DNR=3 -DLAST_START=0' '-DNR_OPS=2 -DENDS=1 -DNR_AGENTS=3 -DADVANCES=0 -DBITSTATE'"
	fi
} | run
status=0
while read -r name result states; do
	if [ "$result" = nothing ]; then
		echo "ok - $name: nothing wrong in $states states"
	else
		echo "not ok - $name: $result $states"
		status=1
	fi
done <"$dir/results"
[ -s "$dir/results" ] || status=1

# What it takes to meet each fault; one operation each by default. Most are met after a moment, which
# optimising is not worth. T_REVERSE tries choices from the last one on: it meets some sooner. Some
# starts before the first one show nothing, in up to a million states.
for mutant in 1 2 3 4 5 6 7 8 9 10 11 12 15 16 17 18 19 21; do
	first=0
	case $mutant in
	1) how="-DNR_OPS=2 -DENDS=1 -DADVANCES=0 -DT_REVERSE" ;;
	4 | 12) first=1 how="-DNR_OPS=2 -DT_REVERSE" ;;
	6) first=2 how="-DT_REVERSE -DNR_OPS=2 -DENDS=1 -DADVANCES=2 -DKINDS=4" ;;
	16) how="-DNR_OPS=1 -DFILL_ONLY=2" ;;
	17) how="-DNR_OPS=1 -DFILL_ONLY=2 -DT_REVERSE" ;;
	21) how="-DNR_OPS=1 -DFILL_ONLY=3 -DT_REVERSE" ;;
	18) how="-DNR_OPS=1 -DGUESTS=1" ;;
	19) how="-DNR_OPS=2 -DENDS=1 -DADVANCES=1 -DKINDS=9" ;;
	*) how="-DNR_OPS=1" ;;
	esac
	echo "mutant-$mutant -DFIRST_START=$first '-O0 $how -DPT_MUTANT=$mutant'"
done | run
while read -r name result states; do
	if [ "$result" = found ]; then
		echo "ok - $name: found after $states states"
	else
		echo "not ok - $name: $result $states"
		status=1
	fi
done <"$dir/results"
[ "$(wc -l <"$dir/results")" -eq 18 ] || status=1
exit $status
