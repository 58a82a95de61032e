#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Timelines of `weir bench gcn` and of solvers: what is in them fits the results, recording changes
# no result, bad targets are refused; and the same on the CUDA backend, with a driver without a GPU.
# Needs WEIR, SOURCE_DIR, BUILD_DIR, FAKECUDA and python3. Prints a line a test.
#
# WEIR_TEST_LONG: results without recording also of whole runs of each workload; and wider layers and
# a larger graph.
#
# Takes 31 s of a processor: each kind of run, with and without recording.
#
# Labels: slow
# Timeout: 300
# Long: yes
set -u

: "${WEIR:?is the program to test}"
: "${FAKECUDA:?is the CUDA driver without a GPU}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

# check NAME OPTIONS...: the timeline NAME.trace against NAME.json
check()
{
	name=$1
	shift
	python3 "$SOURCE_DIR/tests/integration/timeline_check.py" "$@" "$dir/$name.trace" \
		"$dir/$name.json" >"$dir/check.out" 2>&1 || fail "$name: timeline" "$dir/check.out"
	cat "$dir/check.out"
}

run last --nodes 2M --gpu-budget 50% --timeline "$dir/last.trace"
check last --overlap
run plain --nodes 2M --gpu-budget 50%
for kind in json out err; do
	cmp "$dir/last.$kind" "$dir/plain.$kind" || fail "recording changes the $kind"
done
echo "ok - a process a run, the last epoch of each, and results as without"

run all --nodes 500k --slice 1M --gpu-budget 50% --manager weir,zerocopy --timeline "$dir/all.trace" \
	--timeline-all
check all --whole --overlap
run plain --nodes 500k --slice 1M --gpu-budget 50% --manager weir,zerocopy
cmp "$dir/all.json" "$dir/plain.json" || fail "recording all changes results"
run all --nodes 500k --slice 1M --gpu-budget 50% --manager weir,zerocopy --timeline "$dir/again.trace" \
	--timeline-all
cmp "$dir/all.trace" "$dir/again.trace" || fail "two timelines of one run differ"
echo "ok - whole runs: bytes add up to those of the results, and timelines repeat"

real="--machine laptop --nodes 4k --slice 4k --block-size 64KiB --check --epochs 1"
[ -n "${WEIR_TEST_LONG-}" ] || real="$real --hidden 16"
# shellcheck disable=SC2086 # so many words
run real $real --gpu-budget 40% --manager weir --timeline "$dir/real.trace" --timeline-all
check real --whole --overlap
# shellcheck disable=SC2086
run plain $real --gpu-budget 40% --manager weir
cmp "$dir/real.json" "$dir/plain.json" || fail "recording changes results on real data"
echo "ok - real data, through arenas, host copies and all"

# solver NAME ARGS...: a run of a solver with a timeline.
solver()
{
	name=$1
	shift
	"$WEIR" bench "$@" --json "$dir/$name.json" --timeline "$dir/$name.trace" >"$dir/$name.out" \
		2>"$dir/$name.err" || fail "bench $*" "$dir/$name.err"
}

# same NAME ARGS...: without one results are those of NAME.
same()
{
	name=$1
	shift
	"$WEIR" bench "$@" --json "$dir/plain.json" >"$dir/plain.out" 2>&1 ||
		fail "bench $*" "$dir/plain.out"
	cmp "$dir/$name.json" "$dir/plain.json" || fail "recording changes results of $*"
	cmp "$dir/$name.out" "$dir/plain.out" || fail "recording changes the table of $*"
}

by_hand=single,memcpy,overlap,rdl
all=$by_hand,weir,weir+all,weir+whole,weir+nopublish
jacobi="jacobi --machine h200x4 --size 64x256 --iterations 6 --devices 1,2,4"
slow="--machine gv100x16-pcie3" # by hand elements go as packets
for workload in "$jacobi" "als --machine h200x4 --size 8kx1k --iterations 2 --devices 4" \
	"pagerank $slow --devices 8 --kron 18 --iterations 2" \
	"sssp $slow --devices 4 --kron 16 --iterations 4"; do
	# shellcheck disable=SC2086 # so many words
	set -- $workload --manager "$all"
	solver last "$@"
	check last
	same last "$@"
	solver whole "$@" --timeline-all
	check whole --whole
	if [ "$workload" = "$jacobi" ] || [ -n "${WEIR_TEST_LONG-}" ]; then
		same whole "$@"
	fi
done
# With longer parts under weir, too.
scale=22
[ -z "${WEIR_TEST_LONG-}" ] || scale=24
# shellcheck disable=SC2086
solver whole pagerank $slow --devices 8 --kron $scale --iterations 1 --manager weir --timeline-all
check whole --whole
grep -q '"packets":{"messages":[1-9]' "$dir/whole.json" || fail "no packets" "$dir/whole.json"
# shellcheck disable=SC2086
solver whole $jacobi --manager "$all" --check --timeline-all
check whole --whole
echo "ok - solvers: messages of the last pass, and of all, which add up to those of the results"

# refused WHAT ARGS...: status 2, WHAT in the one line of the error, nothing written.
refused()
{
	what=$1
	shift
	"$WEIR" bench gcn --nodes 1M --manager native "$@" >"$dir/out" 2>"$dir/err"
	[ $? -eq 2 ] || fail "bench gcn $* is not refused" "$dir/err"
	grep -q -- "$what" "$dir/err" || fail "no '$what' in the error" "$dir/err"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "more than a line" "$dir/err"
}

refused 'give --timeline another place' --timeline "$dir/none/x"
refused 'give --timeline a file in it' --timeline "$dir"
refused 'not the standard output' --timeline -
refused 'cannot be one file' --timeline "$dir/x" --json "$dir/x"
refused 'give both' --timeline-all
for option in '--timeline -' --timeline-all; do
	# shellcheck disable=SC2086
	"$WEIR" bench jacobi $option >"$dir/out" 2>"$dir/err"
	[ $? -eq 2 ] || fail "bench jacobi $option is not refused" "$dir/err"
	grep -q 'not the standard output\|give both' "$dir/err" || fail "no reason" "$dir/err"
done
[ -e "$dir/x" ] && fail "a refused run has written its file"
find "$dir" -name '.*.tmp' | grep -q . && fail "a partial file is left"
echo "ok - bad targets are refused"

# ------------------------------------------------------------------ CUDA, without a GPU

mkdir "$dir/driver"
ln -s "$FAKECUDA" "$dir/driver/libcuda.so.1"
WEIR_CUDA_KERNELS=$(dirname "$FAKECUDA")/libweir-gcn-fake.so
export LD_LIBRARY_PATH="$dir/driver" WEIR_CUDA_KERNELS FAKECUDA_GRANULARITY=4096
gpu="--machine cuda --slice 4k --block-size 16KiB"
if [ -n "${WEIR_TEST_LONG-}" ]; then
	gpu="$gpu --nodes 3k --hidden 48 --epochs 2"
else
	gpu="$gpu --nodes 1k --hidden 32 --epochs 1"
fi

# shellcheck disable=SC2086
run cuda $gpu --gpu-budget 50% --manager zerocopy,weir --check --timeline "$dir/cuda.trace"
check cuda
grep -q '"manager":"weir".*"passed":true' "$dir/cuda.json" || fail "losses" "$dir/cuda.json"
[ -s "$dir/cuda.err" ] && fail "a pipe is not silent" "$dir/cuda.err"
# shellcheck disable=SC2086
run whole $gpu --gpu-budget 50% --manager weir --timeline "$dir/whole.trace" --timeline-all
check whole --whole
export WEIR_SOLVER_KERNELS="$BUILD_DIR/tests/fakecuda/libweir-solver-fake.so"
export WEIR_GRAPH_KERNELS="$BUILD_DIR/tests/fakecuda/libweir-graph-fake.so"
unset FAKECUDA_GRANULARITY
export FAKECUDA_DEVICES=3 FAKECUDA_HBM_BYTES=$((64 << 20)) FAKECUDA_HOST_BYTES=$((1 << 30))
for workload in "jacobi --size 64x128 --iterations 3" "pagerank --kron 10 --iterations 2"; do
	# shellcheck disable=SC2086
	set -- $workload --machine cuda --devices 3 --manager "$by_hand,weir" --check --epochs 2
	if [ "${workload%% *}" = jacobi ] || [ -n "${WEIR_TEST_LONG-}" ]; then
		solver gpus "$@"
		check gpus
	fi
	solver gpus "$@" --timeline-all
	check gpus --whole
	grep -q '"manager":"weir".*"passed":true' "$dir/gpus.json" || fail "wrong with a record"
done
echo "ok - on the CUDA backend"
