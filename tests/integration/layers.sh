#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench layers` from the outside: right bytes under every manager and in every order, the same
# bytes twice, on the driver without a GPU too, a page of the results, what the rule without a plan
# makes of orders, and one line and status 2 for each thing that can be wrong.
#
# Labels: sanitized-only
# Timeout: 60
set -euo pipefail

: "${SOURCE_DIR:?}" "${BUILD_DIR:?}"
weir=${WEIR:?the program}
# shellcheck source=tests/support/environment.sh
. "$SOURCE_DIR/tests/support/environment.sh"
export COLUMNS=200 WEIR_MACHINE=h200
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# bench LINES ARGUMENT...: runs whose results are all right, appended to all.json.
bench() {
	local lines=$1
	shift
	"$weir" bench layers "$@" --check --json "$dir/json" >"$dir/out" 2>"$dir/err" ||
		fail "$*" "$dir/out" "$dir/err"
	[ ! -s "$dir/err" ] || fail "$* says something" "$dir/err"
	python3 - "$dir/json" "$lines" <<'PY' || fail "$*: members" "$dir/json"
import json, math, sys

lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) == int(sys.argv[2]), len(lines)
for r in lines:
    p = r["parameters"]
    who = (r["manager"], p)
    assert r["workload"] == "layers" and r["status"] == "ok", who
    assert r["check"] == {"wrong": None, "passed": True}, (who, r["check"])
    assert len(r["epoch_s"]) == p["epochs"] and min(r["epoch_s"]) > 0, who
    assert p["bytes"] == p["ranges"] * p["range_bytes"], who
    if r["machine"] != "cuda":
        assert min(r["epoch_s"]) >= r["bound_s"] > 0, (who, r["bound_s"])
    asked = r["useful_bytes_per_s"] * r["epoch_median_s"]
    assert asked > p["bytes"] * (2 if p["access"] == "both" else 1), who
PY
	cat "$dir/json" >>"$dir/all.json"
}

small=(--ranges 10 --range-bytes 1MiB --data real --epochs 2)
managers=native,malloc,zerocopy,uvm,uvm+prefetch,weir
bench 6 "${small[@]}" --gpu-budget 200% --manager $managers --write
bench 6 "${small[@]}" --gpu-budget 200% --manager $managers --compute 3
bench 10 "${small[@]}" --gpu-budget 50% --manager weir --split none,best \
	--order cyclic,permuted,random,skewed,moving --write
bench 5 "${small[@]}" --gpu-budget 60% --manager weir --order cyclic,permuted,random,skewed,moving
bench 2 --ranges 3 --range-bytes 64KiB --data real --gpu-budget 2MiB --manager weir --split none,0

# The same twice, and in the other stream with -.
again=("${small[@]}" --gpu-budget 50% --manager "weir,uvm" --order cyclic --write)
"$weir" bench layers "${again[@]}" --json - >"$dir/one" 2>"$dir/table" || fail "to stdout" "$dir/table"
"$weir" bench layers "${again[@]}" --json - >"$dir/two" 2>/dev/null
cmp "$dir/one" "$dir/two" || fail "two runs differ" "$dir/one" "$dir/two"
grep -q '^-*$' "$dir/table" || fail "no table" "$dir/table"

# Out of memory is a result.
"$weir" bench layers --manager native --gpu-budget 50% >"$dir/out" || fail "native" "$dir/out"
grep -q 'native *out-of-memory' "$dir/out" || fail "it fits" "$dir/out"

# Without a plan: what fits of a walk over more than fits stays, and is no slower than advice makes
# it; nothing is lost where the order is another one. Its form as a policy is within 5 % of it. Times
# are the same under a sanitizer, which small sizes are enough for.
accesses=("" --write)
[ -z "${WEIR_SANITIZE-}" ] || accesses=()
for access in "${accesses[@]}"; do
	# shellcheck disable=SC2086
	"$weir" bench layers $access --manager weir --gpu-budget 33.67GB,45GB --split none,best \
		--order cyclic,permuted,random,skewed,moving --epochs 10 --warm-up 5 \
		--json "$dir/json" >/dev/null
	# shellcheck disable=SC2086
	"$weir" bench layers $access --manager weir --policy recency --gpu-budget 33.67GB,45GB \
		--order cyclic,permuted,random,skewed,moving --epochs 10 --warm-up 5 --json - \
		>>"$dir/json" 2>/dev/null
	python3 - "$dir/json" <<'PY' || fail "the rule $access" "$dir/json"
import json, sys

mean = {}
for line in open(sys.argv[1]):
    r = json.loads(line)
    p = r["parameters"]
    of = mean.setdefault((p["pattern"], r["budget_bytes"]), {})
    kind = "policy" if "policy=" in r["manager"] else "none" if p["split"] is None else "split"
    of[kind] = sum(r["epoch_s"]) / len(r["epoch_s"])
assert len(mean) == 10, mean
for case, s in mean.items():
    assert s["none"] <= 1.1 * s["split"], (case, s)
    assert abs(s["policy"] - s["none"]) <= 0.05 * s["none"], (case, s)
PY
done

# On the driver without a GPU.
ln -s "${FAKECUDA:?the fake driver}" "$dir/libcuda.so.1"
(
	export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} WEIR_MACHINE=cuda
	export WEIR_TOUCH_KERNELS=$BUILD_DIR/tests/fakecuda/libweir-touch-fake.so
	export FAKECUDA_HBM_BYTES=$((64 << 20)) FAKECUDA_HOST_BYTES=$((1 << 30))
	bench 4 --ranges 8 --range-bytes 1MiB --gpu-budget 20MiB --epochs 2 --manager native,zerocopy \
		--order cyclic,random --write
	bench 2 --ranges 24 --range-bytes 1MiB --gpu-budget 12MiB --epochs 2 --manager weir \
		--split none,6 --write
)

# A page of all of them: a row a result with its rate.
"$weir" report "$dir/all.json" -o "$dir/page.html" || fail "no page"
grep -q 'layers, cyclic both: 10 MB in 10 ranges' "$dir/page.html" ||
	grep -q 'layers, cyclic both: 10 MiB in 10 ranges' "$dir/page.html" || fail "no such row" \
	"$dir/page.html"
grep -q 'ranges advised' "$dir/page.html" || fail "no split" "$dir/page.html"

# ---------------------------------------------------------------- refused

# refused TEXT ARGUMENT...: status 2 and one line with the text.
refused() {
	local status=0 text=$1
	shift
	"$weir" bench layers "$@" >"$dir/out" 2>"$dir/err" || status=$?
	[ $status -eq 2 ] || fail "status $status: $*" "$dir/err"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "not one line: $*" "$dir/err"
	grep -qF -- "$text" "$dir/err" || fail "not '$text': $*" "$dir/err"
}

refused "no such order" --order backwards
refused "--order 'cyclic': listed twice" --order cyclic,random,cyclic
refused "no number from 1" --compute 0.5
refused "no number from 1" --compute many
refused "out of range" --ranges 0
refused "out of range" --split 61
refused "--split 'best': listed twice" --split best,best
refused "whole pages" --range-bytes 100000
refused "nothing to --check" --check
refused "no option --page-size" --page-size 4KiB
refused "no option --agents" --agents 2
refused "takes too long" --manager uvm --order random
refused "addresses; leave it out" --manager weir-paged
refused "no more than the device's memory" --gpu-budget 1TB
"$weir" bench layers --help >"$dir/help"
for option in --ranges --order --split --compute --warm-up; do
	grep -q -- "$option" "$dir/help" || fail "--help lacks $option" "$dir/help"
done
grep -q -- '--page-size' "$dir/help" && fail "--help has --page-size" "$dir/help"
"$weir" bench --help | grep -q '^  layers ' || fail "no layers among the workloads"
echo "ok - layers"
