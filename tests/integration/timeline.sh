#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Timelines of `weir bench gcn`: what is in them fits the results, recording changes no result, bad
# targets are refused; and the same on the CUDA backend, with a driver without a GPU. Needs WEIR,
# SOURCE_DIR, FAKECUDA and python3. Prints a line a test.
#
# Takes 14 s of a processor: each kind of run, with and without recording.
#
# Labels: slow
# Timeout: 300
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

real="--machine laptop --nodes 3k --slice 4k --block-size 64KiB --check --epochs 1"
# shellcheck disable=SC2086 # so many words
run real $real --gpu-budget 40% --manager weir --timeline "$dir/real.trace" --timeline-all
check real --whole --overlap
# shellcheck disable=SC2086
run plain $real --gpu-budget 40% --manager weir
cmp "$dir/real.json" "$dir/plain.json" || fail "recording changes results on real data"
echo "ok - real data, through arenas, host copies and all"

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
[ -e "$dir/x" ] && fail "a refused run has written its file"
find "$dir" -name '.*.tmp' | grep -q . && fail "a partial file is left"
echo "ok - bad targets are refused"

# ------------------------------------------------------------------ CUDA, without a GPU

mkdir "$dir/driver"
ln -s "$FAKECUDA" "$dir/driver/libcuda.so.1"
WEIR_CUDA_KERNELS=$(dirname "$FAKECUDA")/libweir-gcn-fake.so
export LD_LIBRARY_PATH="$dir/driver" WEIR_CUDA_KERNELS FAKECUDA_GRANULARITY=4096
gpu="--machine cuda --nodes 3k --slice 4k --hidden 48 --block-size 16KiB --epochs 2"

# shellcheck disable=SC2086
run cuda $gpu --gpu-budget 50% --manager zerocopy,weir --check --timeline "$dir/cuda.trace"
check cuda
grep -q '"manager":"weir".*"passed":true' "$dir/cuda.json" || fail "losses" "$dir/cuda.json"
[ -s "$dir/cuda.err" ] && fail "a pipe is not silent" "$dir/cuda.err"
# shellcheck disable=SC2086
run whole $gpu --gpu-budget 50% --manager weir --timeline "$dir/whole.trace" --timeline-all
check whole --whole
echo "ok - on the CUDA backend"
