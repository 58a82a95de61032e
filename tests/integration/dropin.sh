#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir and $programs are dropin.sh's
#
# `weir run` from the outside: a program that knows nothing of weir computes the same under it on the
# driver without a GPU, however it reaches the driver and with less GPU memory than it allocates;
# what is said of it, and recorded; and what is refused. Needs WEIR, BUILD_DIR, SOURCE_DIR,
# FAKECUDA_DRIVER, CC and python3. Prints a line a test. WEIR_TEST_LONG: arrays of megabytes, more
# passes, and all budgets and modes for all ways to the driver and all programs.
#
# A library cannot be put before a sanitizer's, so this is for builds without one.
#
# Long: yes
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/dropin.sh"
without_sanitizer
export FAKECUDA_HBM_BYTES=67108864
cases=$programs/cases

# under STATUS OPTIONS -- ARGS...: run it under weir, into out and err.
under()
{
	status=$1
	shift
	"$WEIR" run "$@" >out 2>err
	rc=$?
	[ "$rc" = "$status" ] || fail "run $* exits with $rc, not $status" out err
}

# Every way to the driver, everywhere in memory: the same sums as without weir.
passes=4
[ -z "${WEIR_TEST_LONG-}" ] || passes=12
for ways in "" "--reach dlsym --threads 3 --streams 4" "--reach proc --async --ask" \
	"--reach proc-first --async --threads 4" "--reach per-thread --async --threads 3" \
	"--async --streams 0 --threads 2 --arrays 30 --bytes 262144 --ask"; do
	ways="$ways --passes $passes"
	# shellcheck disable=SC2086 # words
	"$program" $ways >plain || fail "the program fails by itself" plain
	for budget in 60MiB 1MiB; do
		# shellcheck disable=SC2086 # words
		under 0 --mode fixed --gpu-budget $budget -- "$program" $ways
		cmp -s plain out || fail "'$ways' differs with $budget" plain out err
		has err '^weir: GPU 0: .* of its memory and .* of the host' '^weir: .* at most'
	done
done
echo "ok - programs compute the same, whatever their way to the driver"

has err '^weir: the GPU.s 1\.0 MB are full: ' \
	'^weir: .* at most; 1\.0 MB of it in the GPU.s memory, and [0-9.]+ MB in the host'
under 1 --mode fixed --quiet -- "$program" --plant
has err 'word .* is .*, not'
if grep -q '^weir:' err; then
	fail "--quiet is not quiet" err
fi
echo "ok - a wrong word is found, and is the program's own failure"

# Where memory moves: the same sums with a half and a fifth of it, by every way, each in one mode
# with the one and in the other with the other; what came and went is told, and no block moved
# beneath a kernel.
few=131072
[ -z "${WEIR_TEST_LONG-}" ] || few=1048576
for ways in "--arrays 10 --bytes $((2 * few))" "--arrays 10 --bytes $((2 * few)) --async --streams 3" \
	"--arrays 8 --bytes $few --reach dlsym --threads 3 --async --spin" \
	"--arrays 8 --bytes $few --reach proc-first --streams 0 --threads 2 --ask" \
	"--arrays 8 --bytes $((2 * few)) --reach per-thread --threads 2 --async"; do
	# shellcheck disable=SC2086 # words
	"$program" $ways --passes $passes >plain || fail "the program fails by itself" plain
	take_modes "safe fast" "" # that which has the smaller budget, and the other one the larger
	for first in $modes; do
		for mode in safe fast; do
			budget=$((4 * few))
			[ "$first" = $mode ] || budget=$((10 * few))
			: >report
			# shellcheck disable=SC2086 # words
			FAKECUDA_REPORT="$dir/report" under 0 --mode $mode --when always --gpu-budget $budget \
				--stats moved.json -- "$program" $ways --passes $passes
			cmp -s plain out || fail "'$ways' differs, $mode with $budget" plain out err
			has err '^weir: .* came to it over the link, and .* went back; .*'
			has report ' races 0 .* problem none$'
			has moved.json "\"mode\": \"$mode\"" '"moved_in_bytes": [1-9]'
		done
	done
done
# A busy computer may answer too late for what is looked at: then that is said instead.
for _ in 1 2 3 4 5; do
	under 0 --mode fast --when always --explain --gpu-budget 10MiB -- "$program" --arrays 10 \
		--bytes 2097152 --passes 4
	grep -q 'kernel gather .* could not be looked at in time' err || break
done
has err '^weir: kernel gather may use any allocation: an allocation that it names holds' \
	'may use any allocation: memory of the driver.s holds addresses'
under 0 --mode fast --gpu-budget 8MiB --trace moved.trace -- "$program" --arrays 8 --bytes 2097152 \
	--passes 4
"$WEIR" replay moved.trace --machine h200 --manager weir --gpu-budget 8MB --no-think >out 2>err ||
	fail "the trace of memory that moves cannot be replayed" out err
echo "ok - programs compute the same while their memory moves"

under 0 --mode fixed --gpu-budget 60MiB --stats stats.json --trace run.trace --mark fill:4 -- \
	"$program" --arrays 20 --passes 40 --streams 1
python3 - <<'END' || fail "the statistics do not fit together" stats.json
import json

s = json.load(open("stats.json"))
assert s["gpu"] == 0 and s["gpu_budget_bytes"] == 60 << 20, s
assert s["allocated_peak_bytes"] >= 20 * 65536 and s["host_peak_bytes"] == 0, s
assert s["allocations"] > 20 and s["allocations_refused"] == 0, s
assert s["brackets"] > 500 and s["brackets_missed"] == 0, s
assert s["ranges_named"] >= s["brackets"], s
END
"$WEIR" trace info run.trace >out || fail "the trace cannot be read" out
has out '^recording +ended as it should$' '^brackets +[0-9]{3,}$' '^marks +[0-9]{2}$' \
	'^mode +fixed$'
marks=$(sed -n 's/^marks *//p' out)
under 0 --mode fixed --trace every.trace --mark fill -- "$program" --arrays 20 --passes 40 --streams 1
"$WEIR" trace info every.trace >out || fail "the trace cannot be read" out
every=$(sed -n 's/^marks *//p' out) # the last one is the end's
[ "$marks" = $(((every - 1 + 3) / 4 + 1)) ] || fail "$marks marks of $every" out
"$WEIR" replay run.trace --machine h200 --manager weir,native \
	--gpu-budget 100MB --no-think >out 2>err || fail "the trace cannot be replayed" out err
has out 'weir +[0-9.]+' 'native +[0-9.]+'
echo "ok - what launches name is recorded, and replayed"

# What programs rarely do: the same results as without weir, and no race that it would not have, by
# turns without a trace and with one.
for name in sizes destroy other-context same-context kept kept-captured \
	per-thread child child-uses pool refused frees free-relaxed free-local; do
	FAKECUDA_DEVICES=2 timeout 20 "$cases" $name >plain || fail "case $name fails" plain
	take_modes "plain trace" ""
	for how in $modes; do
		trace=
		[ "$how" = plain ] || trace="--trace cases.trace"
		: >report
		# shellcheck disable=SC2086 # words
		FAKECUDA_DEVICES=2 FAKECUDA_REPORT="$dir/report" timeout 20 \
			"$WEIR" run --mode fixed --gpu-budget 30MiB --host-budget 30MiB $trace \
			--stats "$dir/$name.json" -- "$cases" $name >out 2>err || fail "case $name $trace exits with $?" out err
		cmp -s plain out || fail "case $name $trace differs" plain out err
		has err '^weir: GPU 0: '
		[ "$(grep -c '^weir: .* at most' err)" = 1 ] || fail "$name: not one summary" err
		has report ' races 0 unmaps 0 .* problem none$'
		has "$name.json" '"lost_bytes": 0,'
	done
done
has kept.json '"allocations_reused": 3,'
echo "ok - what programs rarely do"

# Where memory moves, too: a process that fork() made of one that uses the GPU can do nothing, one made
# before can do all; a capture is not spoiled by another thread's cuMemFree(), and the memory comes back.
for name in child-uses child-first free-relaxed free-local attributes; do
	timeout 20 "$cases" $name >plain || fail "case $name fails" plain
	fixed=${WEIR_TEST_LONG:+fixed}
	case $name in # the others ran in that mode above
	child-first | attributes) fixed=fixed ;;
	esac
	for mode in $fixed "safe --when always" "fast --when oom" \
		${WEIR_TEST_LONG:+"safe --when oom" "fast --when always"}; do
		: >report
		# shellcheck disable=SC2086 # words
		FAKECUDA_REPORT="$dir/report" timeout 30 "$WEIR" run --mode $mode --gpu-budget 16MiB \
			--host-budget 44MiB --stats case.json -- "$cases" $name >out 2>err ||
			fail "case $name exits with $? in mode $mode" out err
		cmp -s plain out || fail "case $name differs in mode $mode" plain out err
		has report ' races 0 unmaps 0 .* problem none$'
		has case.json '"lost_bytes": 0,'
	done
done
echo "ok - children, and captures beside cuMemFree; what is said of addresses"

# Where a kernel has broken the context the driver says so of every call, and weir does.
"$cases" broken >plain || fail "case broken fails" plain
has plain '^alloc 700$' '^info 700$'
for mode in fixed safe fast; do
	under 0 --mode $mode --gpu-budget 16MiB -- "$cases" broken
	cmp -s plain out || fail "case broken differs in mode $mode" plain out err
done
echo "ok - a broken context gives no memory"

# --stats has a line of each process that managed the GPU, and none of an earlier run: two one after the
# other, eight at once, and again one.
echo 'of an earlier run' >all.json
FAKECUDA_DEVICES=2 under 0 --mode fixed --gpu-budget 16MiB --stats all.json -- "$cases" child-first
python3 "$SOURCE_DIR/tests/support/stats_lines.py" 2 all.json || fail "not two processes" all.json
export program
# shellcheck disable=SC2016 # the shell that is run expands it
under 0 --mode fixed --gpu-budget 4MiB --stats all.json -- sh -c 'for one in 1 2 3 4 5 6 7 8; do
	"$program" --arrays 4 --passes 2 >/dev/null & done; wait'
python3 "$SOURCE_DIR/tests/support/stats_lines.py" 8 all.json || fail "not eight processes" all.json
under 0 --mode fixed --gpu-budget 4MiB --stats all.json -- "$program" --arrays 4 --passes 2
python3 "$SOURCE_DIR/tests/support/stats_lines.py" 1 all.json || fail "not one process" all.json
echo "ok - statistics of several processes"

# Out of memory is the program's to deal with.
under 1 --mode fixed --gpu-budget 1MiB --host-budget 1MiB -- "$program" --arrays 30 --bytes 262144
has err '^weir: .* asked for, and both budgets are full'
echo "ok - full budgets are out of memory"

# The same where the host lets no memory be pinned, or less than its budget: that is said.
FAKECUDA_HOST_BYTES=4096 refused '^weir: GPU 0 cannot be managed: .* no host memory be pinned: ' \
	--gpu-budget 1MiB -- "$programs/hidden" list
for mode in fixed safe fast; do
	FAKECUDA_HOST_BYTES=524288 under 1 --mode $mode --gpu-budget 512KiB -- "$programs/hidden" list
	has err ': the program is told that there is no memory.*; host: cannot create a chunk beyond'
	[ "$(grep -c 'there is no memory' err)" = 1 ] || fail "that is said more than once" err
done
echo "ok - host memory that cannot be pinned"

# A child of the program, and helpers, are left alone; arguments and status are the program's own.
# shellcheck disable=SC2016 # the shell that is run expands it
under 7 --mode fixed --quiet -- sh -c 'echo "$0 $1"; exit 7' one two
has out '^one two$'
under 0 --mode fixed -- sh -c "\"$program\" --arrays 2"
has out ' ok$'
unset PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF
# shellcheck disable=SC2016 # the shell under weir expands them
under 0 --mode fixed --quiet -- sh -c 'echo "$PYTORCH_ALLOC_CONF,$PYTORCH_CUDA_ALLOC_CONF"'
has out '^backend:cudaMallocAsync,backend:cudaMallocAsync$'
# shellcheck disable=SC2016
PYTORCH_CUDA_ALLOC_CONF=own under 0 --mode fixed --quiet -- \
	sh -c 'echo "${PYTORCH_ALLOC_CONF-none},$PYTORCH_CUDA_ALLOC_CONF"'
has out '^none,own$'
echo "ok - scripts and children"

refused 'a program is missing' --gpu-budget 1GB
refused 'a program is missing' --
refused 'unexpected argument' "$program"
refused "no program 'nowhere'" -- nowhere
refused 'write a size above zero' --gpu-budget 0 -- "$program"
refused 'write a size above zero' --host-budget none -- "$program"
refused 'write the number of a GPU' --gpu first -- "$program"
refused 'write off, fixed, safe or fast' --mode slow -- "$program"
refused 'write milliseconds' --hold 0 -- "$program"
refused 'write a size above zero' --block 0 -- "$program"
refused 'is for --trace' --mark kernel -- "$program"
refused "write a part of a kernel's name" --trace t --mark :3 -- "$program"
refused 'has an empty value' --stats '' -- "$program"
refused 'under weir run already' -- "$WEIR" run -- "$program"
refused '^weir: --gpu-budget is 8\.00 GB, and GPU 0 has 67\.1 MB' --gpu-budget 8GB \
	--stats left.json --trace left.trace -- "$program"
refused 'a budget of .* is beyond memory .host.' --host-budget 999TB -- "$program"
refused 'the budget of gpu0 is below two blocks' --gpu-budget 1 -- "$program"
refused 'it has to be a multiple of 65\.5 kB' --block 1KiB -- "$program"
for left in left.json left.trace; do
	[ ! -e $left ] || fail "what is refused leaves a file" $left
done
echo 'int main(void) { return 0; }' >static.c
if "${CC:?is the compiler}" -static static.c -o static 2>/dev/null; then
	refused 'is linked statically' -- ./static
fi
# Programs that do not heed LD_PRELOAD; who is not root has to find some.
cp /bin/true rights
if chown 1:1 rights 2>/dev/null && chmod 4755 rights; then
	refused 'runs with more rights than its user has' -- ./rights
	chmod 2755 rights
	refused 'runs with more rights than its user has' -- ./rights
	printf '#!%s/rights\n' "$dir" >script
	chmod +x script
	refused '/rights runs with more rights than its user has' -- ./script
fi
rights=$(find /bin/ /usr/bin/ -perm -4001 ! -user "$(id -u)" 2>/dev/null | head -n 1)
[ -z "$rights" ] || refused 'runs with more rights than its user has' -- "$rights"
# A library of the driver's functions that would not be called any more; one that is named as the
# driver counts as the driver.
echo 'int cuMemAlloc_v2(void) { return 2; }' >other.c
"$CC" -shared -fPIC -o libother.so other.c || fail "a library cannot be made"
LD_PRELOAD="$dir/libother.so" \
	refused '/libother\.so is in LD_PRELOAD and has the driver.s cuMemAlloc_v2, too' -- "$program"
mkdir other
cp "$FAKECUDA_DRIVER/libcuda.so.1" other
LD_PRELOAD="$dir/other/libcuda.so.1" under 0 --mode fixed --gpu-budget 1MiB -- "$program" --arrays 30
has err '^weir: the GPU.s 1\.0 MB are full'
echo text >text
chmod +x text
refused 'neither a program nor a script' -- ./text
chmod -x text
refused '/text is no program that can be started: Permission denied$' -- ./text
refused '/nothing is no program that can be started: No such file' -- ./nothing
refused '/other is no program that can be started: it is no file$' -- ./other
: >empty
chmod +x empty
refused 'neither a program nor a script' -- ./empty
for interpreter in /nowhere "$dir/other" "$dir/text"; do
	echo "#!$interpreter" >script
	refused "the script ./script cannot be started: its interpreter $interpreter: " -- ./script
done
for option in --stats --trace; do
	refused "$option nowhere/file: No such file or directory$" $option nowhere/file -- "$program"
	refused "$option other: Is a directory$" $option other -- "$program"
	refused "$option text/file: Not a directory$" $option text/file -- "$program"
done
[ ! -e nowhere ] || fail "what is refused leaves something"
under 0 --quiet --stats /dev/full -- "$program"
has err '^weir: --stats: /dev/full: No space left on device$'
refused 'stats and --trace are one file' --stats one --trace one -- "$program"
refused 'stats and --learn are one file' --stats one --learn one -- "$program"
[ ! -e one ] || fail "what is refused leaves a file" one
refused '--explain says much, --quiet nothing' --quiet --explain -- "$program"
refused '--hold is for --mode safe and fast' --mode fixed --hold 5 -- "$program"
refused '--gpu-budget is given twice' --gpu-budget 1GB --gpu-budget 2GB -- "$program"
LD_LIBRARY_PATH='' refused 'no NVIDIA driver' -- "$program"
mkdir public
chmod 777 public
mkdir -m 777 public/weir
chmod 777 public/weir
XDG_CACHE_HOME="$dir/public" refused 'you alone may write to' -- "$program"
FAKECUDA_VERSION=12000 refused 'weir needs 12\.2' -- "$program"
FAKECUDA_DEVICES=-1 "$program" >plain 2>&1
FAKECUDA_DEVICES=-1 "$WEIR" run --quiet -- "$program" >out 2>&1
cmp -s plain out || fail "without a GPU the program says something else" plain out
echo "ok - what cannot be is refused"

# The driver is the program's where weir cannot manage: another GPU, contexts of its own.
under 0 --mode fixed --gpu 3 --stats none.json -- "$program"
[ ! -e none.json ] || fail "a program without memory of weir's has statistics" none.json
grep -q 'the driver has no GPU 3 (--gpu)' err || fail "it is not said that there is no such GPU" err
echo "ok - other GPUs are the driver's"

# What it is started with is made once, and made again if it is not what it should be.
stub=$(echo "$dir"/cache/weir/cuda-*/libcuda.so.1)
echo damaged >"$stub"
under 0 --mode fixed --quiet -- "$program"
[ "$(head -c 4 "$stub" | tail -c 3)" = ELF ] || fail "a damaged stub stays"
[ "$(find "$dir/cache/weir" -name 'libcuda.so.1*' | wc -l)" = 1 ] || fail "stubs are left over"
echo "ok - the cache"
