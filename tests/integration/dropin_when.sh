#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # $options is for dropin.sh, $dir and $programs are its
#
# `weir run --when oom`, the default: programs that know nothing of weir are left alone while their memory fits,
# on the driver without a GPU, and compute the same when it does not from some point on, whatever was
# queued, copied, captured or freed before. Needs WEIR, BUILD_DIR, SOURCE_DIR and FAKECUDA_DRIVER.
# Prints a line a test. WEIR_TEST_LONG: more ways to the driver, budgets and repetitions, and modes
# safe and fast for all programs; else most run in one, that which dropin_modes.sh has not.
#
# A library cannot be put before a sanitizer's, so this is for builds without one; unit.when is for
# the others.
#
# Timeout: 240
# Long: yes
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/dropin.sh"
without_sanitizer
export FAKECUDA_HBM_BYTES=67108864 FAKECUDA_REPORT="$dir/report"
options="--when oom"

# It fitted: no call was looked at.
was_left_alone()
{
	has stats.json '"when": "oom"' '"brackets": 0, "brackets_missed": 0, "ranges_named": 0,' \
		'"switched": false, "moves": false, "passed": [1-9]' '"switched_allocation": 0,' \
		'"host_peak_bytes": 0,' '"moved_in_bytes": 0, "moved_out_bytes": 0,'
	! grep -q 'full' err || fail "it says that something is full" err
}

# It did not, from some allocation on; that is said once.
was_switched()
{
	has stats.json '"when": "oom"' '"brackets": [1-9]' '"brackets_missed": 0,' \
		'"switched": true,' '"switched_allocation": [1-9]'
	has err '^weir: the GPU.s [0-9.]+ .B are full: from here on memory moves$'
	[ "$(grep -c 'full' err)" = 1 ] || fail "it is said more than once" err
}

# Arrays of addresses are copied: of those that kernels make, mode fast may know too late.
arrays=10 bytes=150000 # three blocks each, the last one not full
all_ways()
{
	threads=$1
	shift
	set -- --arrays $arrays --bytes $bytes --passes 3 --threads "$threads" --copied "$@"
	"$programs/program" "$@" >plain || fail "the program fails by itself: $*" plain
	take_modes "fast safe" ""
	for mode in $modes; do
		same "$mode" 60MiB "$programs/program" "$@"
		was_left_alone
	done
	for mode in $modes; do
		for part in 3 ${WEIR_TEST_LONG:+2}; do
			same "$mode" $((threads * arrays * 3 * 65536 / part)) "$programs/program" "$@"
			was_switched
		done
	done
}

all_ways 1
all_ways 2 --reach dlsym --streams 3 --async
all_ways 3 --reach per-thread --async --streams 0
all_ways 3 --reach proc-first --async
all_ways 1 --spin --async --streams 3
all_ways 1 --reach per-thread --spin --streams 2
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
echo "ok - programs compute the same, and are left alone while all fits"

# What was copied, queued, freed and captured before memory moves, with a third of what there is.
for round in 1 ${WEIR_TEST_LONG:+2 3 4 5 6 7 8 9 10}; do
	for name in copied copied-unified copied-on variable ${WEIR_TEST_LONG:+running} running-destroyed \
		running-context blocked freed capture threads growers; do
		timeout 30 "$programs/late" "$name" >plain || fail "$name fails by itself" plain
		take_modes "fast safe" ""
		for mode in $modes; do
			same "$mode" 1MiB "$programs/late" "$name"
			was_switched
		done
	done
done
# Memory moved in the end; on a busy machine a short program may be done before.
timeout 30 "$programs/late" running >plain || fail "running fails by itself" plain
for mode in safe fast; do
	for try in 1 2 3 4 5 6 7 8 9 10; do
		same "$mode" 1MiB "$programs/late" running
		was_switched
		! grep -q '"moves": true,' stats.json || break
	done
	has stats.json '"moves": true,' '"moved_in_bytes": [1-9]' '"switch_waited_ns": [1-9]'
done
echo "ok - what was before does not matter ($round rounds, $try tries)"

# What kernels use beyond what their launches name, and copies of all kinds.
turn=0
for name in hidden/copied hidden/copied-async hidden/copied-unified hidden/copied-on \
	hidden/variable hidden/list hidden/graph textures/linear textures/picture textures/maps \
	streams/other-context streams/side streams/waiting streams/waiting-chain \
	streams/waiting-thread; do
	timeout 30 "$programs/${name%/*}" "${name#*/}" >plain || fail "$name fails by itself" plain
	take_modes "fast safe" ""
	for mode in $modes; do
		same "$mode" 512KiB "$programs/${name%/*}" "${name#*/}"
		was_switched
	done
done
# In mode fast what kernels store, or follow in some launches alone, may end with a fault.
turn=0
for name in stored stored-large stored-late both-modes; do
	timeout 30 "$programs/hidden" $name >plain || fail "$name fails by itself" plain
	take_modes "none safe" ""
	for mode in $modes; do
		[ "$mode" != none ] || continue # dropin_modes.sh has it in mode safe
		same safe 512KiB "$programs/hidden" $name
		was_switched
	done
	right_or_explained 512KiB oom "$programs/hidden" $name
done
turn=0
for streams in all thread; do
	timeout 30 "$programs/copies" $streams >plain || fail "copies fail by themselves" plain
	take_modes "fast safe" ""
	for mode in $modes; do
		same "$mode" 1MiB "$programs/copies" $streams
		was_switched
		same "$mode" 32MiB "$programs/copies" $streams
		was_left_alone
	done
done
echo "ok - what a launch does not name is there, and so is what is copied"

# Full budgets are out of memory, for the allocation alone.
FAKECUDA_HBM_BYTES=8388608 timeout 30 "$programs/streams" full >plain || fail "full fails by itself" plain
for mode in safe fast; do
	timeout 30 "$WEIR" run --mode $mode --when oom --gpu-budget 1MiB --host-budget 2MiB -- \
		"$programs/streams" full >out 2>err || fail "full exits with $? in mode $mode" out err
	cmp -s plain out || fail "full differs in mode $mode" plain out err
	has err '^weir: .* asked for, and both budgets are full' 'from here on memory moves$'
done
echo "ok - full budgets are out of memory"

"$WEIR" run --mode fast --when oom --explain --gpu-budget 1MiB -- "$programs/late" running \
	>out 2>err || fail "--explain changes something" out err
has err '^weir: allocation [0-9]+, of 65\.5 kB, has no room beside '
! grep -q 'queued without brackets is done' err ||
	has err '^weir: all that was queued without brackets is done, after [0-9.]+ ms: memory moves$'
"$WEIR" run --mode fast --gpu-budget 1MiB --stats stats.json -- "$programs/late" running >out \
	2>err || fail "late fails without --when" out err
has stats.json '"when": "oom", "switched": true, "moves": true, "passed": [1-9]'
"$WEIR" run --mode safe --when always --gpu-budget 1MiB --stats stats.json -- \
	"$programs/late" running >out 2>err || fail "late fails with --when always" out err
has stats.json '"when": "always", "switched": false, "moves": true, "passed": 0,'
echo "ok - it is explained, and is not what holds without it"

refused '--when late: write always or oom' --mode fast --when late -- "$program"
refused '--when is for --mode safe and fast' --mode fixed --when always -- "$program"
refused '--trace records all launches' --mode safe --when oom --trace t -- "$program"
echo "ok - what --when is not for is refused"
