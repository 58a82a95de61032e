#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # $options is for dropin.sh, $dir and $programs are its
#
# `weir run --mode`: programs that know nothing of weir compute the same in each mode on the driver
# without a GPU, with less GPU memory than they allocate; also where kernels use what their launches
# do not name. In mode fast such a program may end with a fault, and then it is said. Needs WEIR,
# BUILD_DIR, SOURCE_DIR, FAKECUDA_DRIVER. Prints a line a test. WEIR_TEST_LONG: all ways to the
# driver with all numbers of streams and threads, another budget, and all modes for all programs;
# else most programs run in mode safe or fast, and with --when oom, in dropin_when.sh, in the other.
#
# A library cannot be put before a sanitizer's, so this is for builds without one.
#
# Timeout: 240
# Long: yes
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/dropin.sh"
without_sanitizer
export FAKECUDA_HBM_BYTES=67108864 FAKECUDA_REPORT="$dir/report"

# Arrays of addresses are copied: of those that kernels make, mode fast may know too late.
arrays=10 bytes=150000 # three blocks each, the last one not full
all_ways()
{
	threads=$1
	shift
	set -- --arrays $arrays --bytes $bytes --passes 3 --threads "$threads" --copied "$@"
	"$programs/program" "$@" >plain || fail "the program fails by itself: $*" plain
	take_modes "safe fast" fixed
	for part in 3 ${WEIR_TEST_LONG:+2}; do
		for mode in $modes; do
			same "$mode" $((threads * arrays * 3 * 65536 / part)) \
				"$programs/program" "$@"
		done
	done
}

all_ways 1
all_ways 2 --reach dlsym --streams 3 --async
all_ways 1 --reach proc --async --ask --streams 1
all_ways 3 --reach proc-first --async
all_ways 3 --reach per-thread --async --streams 0
all_ways 1 --reach per-thread --spin --streams 2
all_ways 1 --spin --async --streams 3
all_ways 2 --streams 0 --ask
if [ -n "${WEIR_TEST_LONG-}" ]; then
	for reach in linked dlsym proc proc-first per-thread; do
		for streams in 0 1 2 3; do
			for threads in 1 2 3; do
				all_ways "$threads" --reach "$reach" --streams "$streams" --ask
				all_ways "$threads" --reach "$reach" --streams "$streams" --async
			done
		done
		all_ways 1 --reach "$reach" --spin --streams 2
		all_ways 1 --reach "$reach" --spin --streams 3 --async
	done
fi
echo "ok - programs compute the same in all modes"

# Kernels that use what their launches do not name, with three times the budget.
turn=0
for name in copied copied-async copied-unified copied-on variable list graph; do
	timeout 30 "$programs/hidden" $name >plain || fail "$name fails by itself" plain
	take_modes "safe fast" fixed
	for mode in $modes; do
		same "$mode" 512KiB "$programs/hidden" $name
	done
done
echo "ok - what a launch does not name is there"

# Streams that share memory, contexts, calls that fail.
turn=0
for name in side other-context set-before fills no-events graph-late reset-open; do
	timeout 30 "$programs/streams" $name >plain || fail "$name fails by itself" plain
	take_modes "safe fast" fixed
	for mode in $modes; do
		same "$mode" 512KiB "$programs/streams" $name
	done
done
echo "ok - streams find their memory"

# A kernel by a handle that was another one's, whose context is gone.
export FAKECUDA_REUSE=1 FAKECUDA_DEVICES=2
for name in reused released reset; do
	timeout 30 "$programs/hidden" $name >plain || fail "$name fails by itself" plain
	has plain '^the same handle 1$'
	take_modes "safe fast" fixed
	for mode in $modes; do
		same "$mode" 512KiB "$programs/hidden" $name
	done
done
timeout 30 "$programs/streams" reused >plain || fail "reused fails by itself" plain
has plain '^the same handle 1$'
take_modes "safe fast" fixed
for mode in $modes; do
	same "$mode" 512KiB "$programs/streams" reused
done
unset FAKECUDA_REUSE FAKECUDA_DEVICES
echo "ok - handles that are used again"

# Textures hide addresses from launches, and tensor maps may.
turn=0
for name in linear picture reference maps; do
	timeout 30 "$programs/textures" $name >plain || fail "$name fails by itself" plain
	options=--explain
	same fast 512KiB "$programs/textures" $name
	options=
	if [ $name = maps ]; then
		grep -q 'may use any' err && fail "an address that stands in a tensor map is not seen" err
		has stats.json '"brackets_open": 0,'
	else
		has err '^weir: a texture lies in an allocation: from here on any kernel may use any'
	fi
	take_modes "safe fixed" ""
	for mode in $modes; do
		same "$mode" 512KiB "$programs/textures" $name
	done
done
FAKECUDA_HIDE_MAPS=1 "$programs/textures" maps >plain || fail "maps fails by itself" plain
export FAKECUDA_HIDE_MAPS=1
for mode in safe ${WEIR_TEST_LONG:+fixed}; do
	same "$mode" 512KiB "$programs/textures" maps
done
options=--explain
same fast 512KiB "$programs/textures" maps
options=
unset FAKECUDA_HIDE_MAPS
has err '^weir: the address of an allocation is hidden in a tensor map: from here on any kernel'
echo "ok - textures and tensor maps"

# All calls that copy, fill, or have a stream wait for a word.
turn=0
for streams in all thread; do
	timeout 30 "$programs/copies" $streams >plain || fail "copies fail by themselves" plain
	take_modes "safe fast" fixed
	for mode in $modes; do
		same "$mode" 1MiB "$programs/copies" $streams
	done
	export FAKECUDA_UNEXPORTED=1
	timeout 30 "$programs/copies" $streams asked >plain ||
		fail "copies fail by themselves" plain
	take_modes "safe fast" fixed
	for mode in $modes; do
		same "$mode" 1MiB "$programs/copies" $streams asked
	done
	unset FAKECUDA_UNEXPORTED
	turn=$((turn + 1)) # with the next streams, too, each in the other mode
done
echo "ok - copies and fills find their memory"

# What kernels themselves store need not be seen in mode fast: right, or a fault that is explained. So
# it is where a kernel follows pointers in some launches alone.
turn=0
for name in stored stored-large stored-late variable-stored both-modes; do
	timeout 30 "$programs/hidden" $name >plain || fail "$name fails by itself" plain
	take_modes "safe fixed" ""
	for mode in $modes; do
		same "$mode" 512KiB "$programs/hidden" $name
	done
	right_or_explained 512KiB always "$programs/hidden" $name
done
timeout 30 "$programs/hidden" stored-place >plain || fail "stored-place fails by itself" plain
same fast 512KiB "$programs/hidden" stored-place # it is looked at again
echo "ok - a fault is explained"

# Kernels that wait for later launches, on other streams: while nothing has to make room, and with a
# third of the memory, where what comes later waits for them no longer than --hold says. Each is run
# in both modes, and each mode in all three ways.
turn=0
for name in waiting waiting-chain waiting-thread; do
	timeout 30 "$programs/streams" $name >plain || fail "$name fails by itself" plain
	take_modes "safe-room,fast-few safe-few,fast-hold safe-hold,fast-room" fixed
	for how in $(echo "$modes" | tr , ' '); do
		budget=512KiB
		case $how in
		*-room) budget=16MiB ;;
		*-hold) options="--hold 50" ;;
		esac
		same "${how%-*}" "$budget" "$programs/streams" $name
		options=
	done
done
echo "ok - kernels that wait for later ones"

# Memory that is freed behind another stream's use of it, or before that, with nothing to order the
# two. What is read then nobody promises; but it is there, and in modes that move it is what it was,
# since the next owner's launches come behind those that were queued. So they wait without end where
# that use itself waits for what is launched behind them, as docs/dropin.md says.
timeout 30 "$programs/streams" freed-behind >plain || fail "freed-behind fails by itself" plain
same fixed 512KiB "$programs/streams" freed-behind
for mode in safe fast; do
	timeout 2 "$WEIR" run --mode $mode --gpu-budget 512KiB -- "$programs/streams" freed-behind \
		>out 2>err
	rc=$?
	[ $rc = 124 ] || cmp -s plain out ||
		fail "freed-behind ends with $rc in mode $mode, and is wrong" plain out err
done
for mode in fixed "safe --when oom" "safe --when always" "fast --when oom" "fast --when always"; do
	rm -f report
	# shellcheck disable=SC2086 # words
	timeout 30 "$WEIR" run --mode $mode --gpu-budget 512KiB -- "$programs/streams" freed-early \
		>out 2>err || fail "freed-early exits with $? in mode $mode" out err
	has out '^copied (11 11|22 22)$' '^next 22 22$'
	[ "$mode" = fixed ] || has out '^copied 11 11$'
	has report ' races 0 unmaps 0 .* problem none$'
done
timeout 30 "$programs/streams" graph-first >plain || fail "graph-first fails by itself" plain
options="--hold 500"
export FAKECUDA_DELAY_NS=100000
for mode in safe fast; do
	same $mode 512KiB "$programs/streams" graph-first
done
unset FAKECUDA_DELAY_NS
options=
echo "ok - memory that is freed while it is used"

# Full budgets are out of memory in each mode, for the allocation alone: later work goes on.
# By itself the program fills what memory there is, which may be as little.
FAKECUDA_HBM_BYTES=8388608 timeout 30 "$programs/streams" full >plain || fail "full fails by itself" plain
for mode in fixed safe fast; do
	rm -f report
	timeout 30 "$WEIR" run --mode $mode --gpu-budget 1MiB --host-budget 2MiB -- \
		"$programs/streams" full >out 2>err || fail "full exits with $? in mode $mode" out err
	cmp -s plain out || fail "full differs in mode $mode" plain out err
	has err '^weir: .* asked for, and both budgets are full'
	has report ' races 0 unmaps 0 .* problem none$'
done
echo "ok - full budgets are out of memory"

# A signal's handler ends the process, often within a call, whose locks nobody can wait for then. The
# driver of the tests has some, too, which its report is written with.
for run in 1 2 3 ${WEIR_TEST_LONG:+4 5 6 7 8 9}; do
	for mode in safe fast; do
		env -u FAKECUDA_REPORT timeout 10 "$WEIR" run --mode $mode --when always --gpu-budget 512KiB -- \
			"$programs/streams" interrupted >out 2>err
		rc=$?
		[ $rc = 3 ] || fail "interrupted ends with $rc in mode $mode, run $run" out err
		has err '^weir: (.* at most, with|the program ended within a call)'
	done
done
echo "ok - a handler ends the process"

"$WEIR" run --mode quick -- "$programs/program" >out 2>err
[ $? = 2 ] || fail "--mode quick is not refused" out err
has err "--mode quick: write off, fixed, safe or fast"
[ "$(wc -l <err)" = 1 ] || fail "--mode quick says more than a line" err
echo "ok - other modes are refused"

for mode in safe fast; do
	timeout 30 "$WEIR" run --mode $mode --gpu-budget 1MiB --trace $mode.trace --mark fill:10 -- \
		"$programs/program" --arrays 20 --passes 10 --copied >out 2>err ||
		fail "a trace in mode $mode fails" out err
	"$WEIR" trace info $mode.trace >out || fail "the trace of mode $mode cannot be read" out
	has out '^recording +ended as it should$' '^mode +planned$' '^marks +[0-9]+$'
	"$WEIR" replay $mode.trace --machine h200 --manager weir,native --gpu-budget 100MB \
		--no-think >out 2>err || fail "the trace of mode $mode cannot be replayed" out err
	has out 'weir +[0-9.]+' 'native +[0-9.]+'
done
echo "ok - traces of modes that move"

# Many launches on a stream share an event, which none misses that is captured or destroyed then.
timeout 60 "$programs/steady" many >plain || fail "many fails by itself" plain
for mode in safe fast; do
	same $mode 16MiB "$programs/steady" many
	has stats.json '"brackets_grouped": [0-9]{3,}' '"events_refused": 0'
done
echo "ok - launches that share events"
