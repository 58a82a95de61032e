#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench pagein` and `weir bench gups` from the outside: results of every manager and their
# members, the same bytes twice, on the driver without a GPU too, a page of the results, and one line
# and status 2 for each thing that can be wrong.
#
# Labels: slow
# Timeout: 120
set -euo pipefail

: "${SOURCE_DIR:?}" "${BUILD_DIR:?}"
weir=${WEIR:?the program}
# shellcheck source=tests/support/environment.sh
. "$SOURCE_DIR/tests/support/environment.sh"
# Tables in one part.
export COLUMNS=200
for name in BYTES PAGE_SIZE WARM BLOCKS BLOCK_THREADS AGENTS PATTERN ACCESS UPDATES; do
	unset "WEIR_$name"
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export WEIR_MACHINE=h200
managers=native,malloc,zerocopy,uvm,weir,weir-paged,weir-paged+fill,weir-paged+auto

# members FILE WORKLOAD LINES: JSON lines of a workload, all right.
members() {
	python3 - "$@" <<'PY'
import json, math, sys

name, workload, nr = sys.argv[1], sys.argv[2], int(sys.argv[3])
lines = [json.loads(line) for line in open(name)]
assert len(lines) == nr, len(lines)
for r in lines:
    p = r["parameters"]
    who = (r["manager"], p)
    assert r["schema"] == "weir-result-1" and r["workload"] == workload, who
    assert r["status"] == "ok" and r["check"] == {"wrong": None, "passed": True}, (who, r)
    assert len(r["epoch_s"]) == p["epochs"] and min(r["epoch_s"]) > 0, who
    assert r["epoch_median_s"] == sorted(r["epoch_s"])[len(r["epoch_s"]) // 2], who
    if r["machine"] != "cuda":
        assert min(r["epoch_s"]) >= r["bound_s"] > 0, (who, r["bound_s"])
    ways = {"read": 1, "write": 1, "both": 2}[p["access"]]
    asked = 16 * p["updates"] if workload == "gups" else ways * p["bytes"]
    assert math.isclose(r["useful_bytes_per_s"] * r["epoch_median_s"], asked), who
    if workload == "gups":
        assert math.isclose(r["updates_per_s"] * r["epoch_median_s"], p["updates"]), who
    else:
        assert r["updates_per_s"] is None, who
    paged = r["manager"].startswith("weir-paged")
    assert all((v is not None) == paged for v in r["pages"].values()), (who, r["pages"])
    moved = [sum(way.values()) for way in r["bytes"].values()]
    if paged:
        host, gpu = r["peak_bytes"]["host"], list(r["peak_bytes"].values())[1]
        assert host >= p["bytes"] and r["budget_bytes"] <= gpu < 2 * r["budget_bytes"] + (8 << 20), r
        # Warm-up moves as a pass does, and so does filling the table.
        if workload == "pagein":
            nr = p["epochs"] + p["warm_up"] + 1
            assert moved[0] >= (nr - 1) * p["bytes"] * (p["access"] != "write"), (who, moved)
            # Words in place, and then their page in a frame: out twice.
            if p["access"] != "read":
                assert moved[1] >= nr * p["bytes"], (who, moved)
                assert p["elements"] or moved[1] == nr * p["bytes"], (who, moved)
    if r["manager"] in ("native", "malloc"):
        assert moved == [0, 0], who
PY
}

# bench WORKLOAD LINES ARGUMENT...: runs, all right.
bench() {
	local workload=$1 lines=$2
	shift 2
	"$weir" bench "$workload" "$@" --check --json "$dir/json" >"$dir/out" 2>"$dir/err" ||
		fail "$workload $*" "$dir/out" "$dir/err"
	[ ! -s "$dir/err" ] || fail "$workload $* says something" "$dir/err"
	members "$dir/json" "$workload" "$lines" || fail "$workload $*: members" "$dir/json"
	cat "$dir/json" >>"$dir/all.json"
}

bench pagein 48 --manager $managers --bytes 1MiB --page-size 4KiB,64KiB --access both \
	--pattern stream,random,strided --epochs 3
grep -q '^ *1 MiB *1 MiB *64 KiB  random *both *weir-paged .* right *-$' "$dir/out" ||
	fail "no such row" "$dir/out"
bench pagein 1 --manager weir-paged --bytes 1MiB --access write --gpu-budget 25% --page-size 4KiB
bench pagein 1 --manager weir-paged --bytes 256KiB --access both --elements --gpu-budget 50%
bench pagein 1 --manager weir-paged --bytes 1MiB --access both --agents 3 --gpu-budget 128KiB
bench pagein 6 --manager native,weir-paged --bytes 1MiB --gpu-budget 100%,50%,128KiB
grep -o '"budget_bytes":[0-9]*' "$dir/json" | uniq -c | tr -s ' \n' ' ' |
	grep -q '^ 2 "budget_bytes":1048576 2 "budget_bytes":524288 2 "budget_bytes":131072 $' ||
	fail "the budgets" "$dir/json"
bench gups 8 --manager $managers --bytes 1MiB --updates 20k --page-size 4KiB
bench gups 1 --manager weir-paged --bytes 1MiB --updates 20k --gpu-budget 12.5%

# The same twice, and in the other stream with -.
again=(pagein --manager "$managers" --bytes 1MiB --access both --gpu-budget 512KiB --epochs 2)
"$weir" bench "${again[@]}" --json - >"$dir/one" 2>"$dir/table" || fail "to stdout" "$dir/table"
"$weir" bench "${again[@]}" --json - >"$dir/two" 2>/dev/null
cmp "$dir/one" "$dir/two" || fail "two runs differ" "$dir/one" "$dir/two"
grep -q '^-*$' "$dir/table" || fail "no table" "$dir/table"

# Warm, with frames for all of it, nothing comes in.
"$weir" bench pagein --manager weir-paged --bytes 1MiB --warm --json "$dir/json" >/dev/null
grep -q '"pages":{"in":0,"out":0,"in_place":0,' "$dir/json" || fail "warm" "$dir/json"

# With frames for a quarter, that much stays where nothing is evicted.
"$weir" bench pagein --manager weir-paged+fill --bytes 1MiB --warm --gpu-budget 25% --pattern stream \
	--json "$dir/json" >/dev/null
grep -q '"pages":{"in":0,"out":0,"in_place":12,' "$dir/json" || fail "filled" "$dir/json"
"$weir" bench pagein --manager weir-paged+full --bytes 1MiB >"$dir/out" 2>&1 &&
	fail "an option that there is not" "$dir/out"
grep -q "no options 'full'; there are weir-paged, weir-paged+page, weir-paged+fill and weir-paged+auto" "$dir/out" ||
	fail "what the options are" "$dir/out"

# What does not fit is out of memory, and no failure.
"$weir" bench pagein --manager native,weir-paged --bytes 16MiB --gpu-budget 1MiB >"$dir/out"
grep -q 'native *out-of-memory' "$dir/out" || fail "it fits" "$dir/out"
"$weir" bench pagein --manager weir-paged --bytes 16MiB --host-budget 1MiB >"$dir/out"
grep -q 'weir-paged *out-of-memory' "$dir/out" || fail "the host's budget" "$dir/out"

# Phantom data, where nothing pages.
"$weir" bench pagein --manager native,zerocopy,uvm --data phantom --bytes 8GiB --json "$dir/json" \
	>/dev/null
[ "$(grep -c '"passed":null' "$dir/json")" -eq 3 ] || fail "phantom" "$dir/json"

# On the driver without a GPU.
ln -s "${FAKECUDA:?the fake driver}" "$dir/libcuda.so.1"
(
	export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} WEIR_MACHINE=cuda
	export WEIR_TOUCH_KERNELS=$BUILD_DIR/tests/fakecuda/libweir-touch-fake.so
	export FAKECUDA_HBM_BYTES=$((64 << 20)) FAKECUDA_HOST_BYTES=$((1 << 30))
	bench pagein 3 --manager native,zerocopy,weir-paged --bytes 1MiB --access both \
		--gpu-budget 50% --epochs 3
	bench gups 2 --manager zerocopy,weir-paged --bytes 1MiB --updates 1k --gpu-budget 50%
	# More managed memory than may be had is a result.
	"$weir" bench pagein --manager uvm,zerocopy --bytes 16MiB --json "$dir/json" >"$dir/out" ||
		fail "managed memory" "$dir/out"
	grep -q '"manager":"uvm",.*"status":"refused","error":".*1/8 of the card' "$dir/json" ||
		fail "not refused" "$dir/json"
	grep -q 'uvm *refused ' "$dir/out" || fail "not refused" "$dir/out"
)

# A page of all of them: a row a result with its rate, and a chart.
"$weir" report "$dir/all.json" -o "$dir/page.html" || fail "no page"
python3 - "$dir/all.json" "$dir/page.html" <<'PY' || fail "the page is not right"
import json, re, sys

results = [json.loads(line) for line in open(sys.argv[1])]
page = open(sys.argv[2]).read()
rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
rows = [row for row in rows if row and row[0].startswith(("pagein, ", "gups, "))]
assert len(rows) == len(results) > 40, (len(rows), len(results))
for row, r in zip(rows, results):
    assert row[1].endswith(r["manager"]), (row, r)
    assert row[3] == "%.4g" % (r["useful_bytes_per_s"] / 1e9), (row, r)
    assert row[-1] == "right", (row, r)
assert page.count('class="wide"') >= 1 and page.count("Tables and matrices") >= 1
PY

# ---------------------------------------------------------------- refused

# refused TEXT ARGUMENT...: status 2 and one line with the text.
refused() {
	local status=0 text=$1
	shift
	"$weir" bench "$@" >"$dir/out" 2>"$dir/err" || status=$?
	[ $status -eq 2 ] || fail "status $status: $*" "$dir/err"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "not one line: $*" "$dir/err"
	grep -qF -- "$text" "$dir/err" || fail "not '$text': $*" "$dir/err"
	[ ! -s "$dir/out" ] || fail "something on stdout: $*" "$dir/out"
}

refused "addresses; leave it out" gcn --manager weir-paged
refused "--page-size '5KiB': no page size" pagein --page-size 5KiB
refused "listed twice" pagein --page-size 4KiB,4KiB
refused "--gpu-budget '50%': listed twice" pagein --gpu-budget 25%,50%,50%
refused "an item is missing" pagein --pattern stream,
refused "no such pattern" pagein --pattern zigzag
refused "no such access" pagein --access peek
refused "whole pages" pagein --bytes 100000
refused "a power of two" gups --bytes 192KiB
refused "no option --pattern" gups --pattern stream
refused "no option --updates" pagein --updates 1
refused "no whole warps" pagein --threads 33
refused "out of range" pagein --agents 0
refused "real bytes only" pagein --data phantom --manager weir-paged
refused "nothing to --check" pagein --data phantom --check --manager native
refused "no such kind of data" pagein --data unreal
refused "choose at least a page" pagein --gpu-budget 1% --bytes 64KiB
refused "not a percentage" pagein --gpu-budget half%
refused "no manager 'paged'" pagein --manager paged
refused "no options 'swift'" pagein --manager uvm+swift
refused "more than half of this computer's memory" pagein --bytes 1TiB --gpu-budget 1GiB
refused "no more than the device" pagein --bytes 1TiB
refused "cannot write" pagein --bytes 64KiB --json "$dir/none/json"
refused "no workload 'pageout'" pageout

for workload in pagein gups; do
	"$weir" bench $workload --help >"$dir/help"
	for option in --bytes --page-size --gpu-budget --warm --check weir-paged; do
		grep -q -- "$option" "$dir/help" || fail "--help lacks $option" "$dir/help"
	done
done
"$weir" bench --help | grep -q '^  gups ' || fail "no gups among the workloads"
echo "ok - pagein and gups"
