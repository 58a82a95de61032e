#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench --machine cuda` from the outside, on the fake driver: what runs, also in debug mode and
# on another device than the first, and one line and a status for each thing that can be wrong.
#
# Takes 5 s of a processor: each workload on the driver without a GPU.
#
# Labels: sanitized-only
# Timeout: 300
set -euo pipefail

weir=${WEIR:?the program}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ln -s "${FAKECUDA:?the fake driver}" "$scratch/libcuda.so.1"
export LD_LIBRARY_PATH=$scratch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export WEIR_CUDA_KERNELS=${BUILD_DIR:?the build}/tests/fakecuda/libweir-gcn-fake.so
export FAKECUDA_HBM_BYTES=$((64 << 20)) FAKECUDA_HOST_BYTES=$((1 << 30))

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

small=(--machine cuda --nodes 1k --slice 4k --epochs 1 --hidden 64)

# expect STATUS TEXT ARGUMENT...: this status, and one line on stderr that has the text.
expect() {
	local status=0 wanted=$1 text=$2
	shift 2
	"$weir" bench gcn "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
	[[ $status == "$wanted" ]] || fail "$*: status $status: $(cat "$scratch/err")"
	[[ $(wc -l <"$scratch/err") == 1 ]] || fail "$*: not one line: $(cat "$scratch/err")"
	[[ $(cat "$scratch/err") == "weir: "*"$text"* ]] || fail "$*: $(cat "$scratch/err")"
}

# run ARGUMENT...: all managers train, and the losses are the same.
run() {
	"$weir" bench gcn "${small[@]}" --check "$@" >"$scratch/out" 2>"$scratch/err" ||
		fail "$*: $(cat "$scratch/err")"
	! grep -q 'failed\|differs\|out-of-memory' "$scratch/out" || fail "$*: $(cat "$scratch/out")"
}

run --manager native,weir,zerocopy
run --manager weir --gpu-budget 4MB
run --manager weir --gpu-budget 4MB --debug
FAKECUDA_DEVICES=3 run --device 2 --manager native,malloc,zerocopy,weir
FAKECUDA_DEVICES=2 run --device 1 --manager weir --gpu-budget 4MB --debug

# Without --check losses are compared with those of native on the GPU, where that fits.
passed() {
	"$weir" bench gcn "${small[@]}" --manager weir --gpu-budget 1MB --json "$scratch/json" \
		>"$scratch/out" 2>"$scratch/err" || fail "losses: $(cat "$scratch/err")"
	grep -q "\"manager\":\"weir\".*\"status\":\"ok\".*\"passed\":$1" "$scratch/json" ||
		fail "passed is not $1: $(cat "$scratch/json")"
}
passed true
FAKECUDA_HBM_BYTES=$((2 << 20)) passed null

FAKECUDA_DEVICES=-1 expect 2 'no GPU' "${small[@]}"
FAKECUDA_VERSION=12010 expect 2 'update the driver' "${small[@]}"
FAKECUDA_HOST_BYTES=4096 expect 2 'no host memory be pinned' "${small[@]}"
expect 2 "beyond memory 'gpu0', which has 64 MiB" "${small[@]}" --gpu-budget 70MB
expect 2 "no such device; machine 'cuda' has 0 to 0" "${small[@]}" --device 1
WEIR_CUDA_DEBUG=please expect 2 "WEIR_CUDA_DEBUG is 'please'" "${small[@]}"
# The host's memory ends in the middle: a result, not a failure.
FAKECUDA_HOST_BYTES=$((2 << 20)) "$weir" bench gcn "${small[@]}" --manager weir --gpu-budget 1MB \
	>"$scratch/out" 2>"$scratch/err" || fail "out of memory: $(cat "$scratch/err")"
grep -q 'weir *out-of-memory' "$scratch/out" || fail "out of memory: $(cat "$scratch/out")"
