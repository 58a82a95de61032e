#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench mvt`, `atax` and `bicg` from the outside: results of every manager and their members,
# the same bytes twice, on the driver without a GPU too, a page of the results, and one line and
# status 2 for each thing that can be wrong.
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
for name in SIZE PAGE_SIZE WARM DEVICES BLOCKS BLOCK_THREADS AGENTS; do
	unset "WEIR_$name"
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export WEIR_MACHINE=h200
managers=native,malloc,zerocopy,uvm,weir,weir-paged,weir-paged+fill,weir-paged+page

# members: JSON lines of what ran, in $dir/ran, all right.
members() {
	python3 - "$dir/ran" <<'PY'
import json, math, sys

lines = []
for ran in open(sys.argv[1]):
    name, workload, nr = ran.split()
    mine = [json.loads(line) for line in open(name)]
    assert len(mine) == int(nr) > 0, (name, len(mine))
    assert all(r["workload"] == workload for r in mine), name
    lines += mine
assert len(lines) > 30, len(lines)
for r in lines:
    p = r["parameters"]
    who = (r["manager"], p)
    assert r["schema"] == "weir-result-1", who
    assert r["status"] == "ok" and r["check"] == {"wrong": None, "passed": True}, (who, r)
    assert len(r["epoch_s"]) == p["epochs"] and min(r["epoch_s"]) > 0, who
    assert p["bytes"] == 4 * p["rows"] * p["columns"] == r["needs_bytes"], who
    assert math.isclose(r["useful_bytes_per_s"] * r["epoch_median_s"], 2 * p["bytes"]), who
    paged = r["manager"].startswith("weir-paged")
    assert all((v is not None) == paged for v in r["pages"].values()), (who, r["pages"])
    moved = [sum(way.values()) for way in r["bytes"].values()]
    if r["machine"] != "cuda":
        assert min(r["epoch_s"]) >= r["bound_s"] > 0, (who, r["bound_s"])
    if paged:
        least = 2 * p["bytes"] - r["budget_bytes"] * (2 if p["warm"] else 1)
        pieces = p["page_bytes"] // 4096
        got = (r["pages"]["in"] + r["pages"]["in_place"] / pieces) * p["page_bytes"]
        assert got >= least and r["pages"]["out"] == 0, (who, r["pages"])
        assert moved[0] >= p["epochs"] * least and moved[1] == 0, (who, moved)
        if r["manager"] == "weir-paged+fill" and r["machine"] != "cuda":
            assert got == least, (who, r["pages"]) # exactly what has no room
    if r["manager"] in ("native", "malloc"):
        assert moved == [0, 0], who
PY
}

# bench WORKLOAD LINES ARGUMENT...: a run of so many results, for members().
bench() {
	local workload=$1 lines=$2
	shift 2
	local json
	json=$(mktemp "$dir/XXXXXX")
	"$weir" bench "$workload" "$@" --json "$json" >"$dir/out" 2>"$dir/err" ||
		fail "$workload $*" "$dir/out" "$dir/err"
	[ ! -s "$dir/err" ] || fail "$workload $* says something" "$dir/err"
	echo "$json $workload $lines" >>"$dir/ran"
	cat "$json" >>"$dir/all.json"
}

bench mvt 8 --manager $managers --size 1024 --page-size 4KiB --epochs 2 --check
grep -q '^1024 *1024 *4 MiB *4 MiB *4 KiB  weir-paged .* right ' "$dir/out" ||
	fail "no such row" "$dir/out"
for workload in mvt atax bicg; do
	bench $workload 6 --size 32x16384,256x1024 --page-size 4KiB --epochs 1 \
		--manager zerocopy,weir,weir-paged --gpu-budget 25%
	bench $workload 4 --manager weir-paged+page,weir-paged+fill --size 32x16384 --page-size 8KiB,64KiB --warm \
		--gpu-budget 50% --agents 3 --epochs 2
done

# The same twice, and in the other stream with -.
again=(atax --manager "$managers" --size 96x4096 --gpu-budget 512KiB --epochs 2)
"$weir" bench "${again[@]}" --json - >"$dir/one" 2>"$dir/table" || fail "to stdout" "$dir/table"
"$weir" bench "${again[@]}" --json - >"$dir/two" 2>/dev/null
cmp "$dir/one" "$dir/two" || fail "two runs differ" "$dir/one" "$dir/two"
grep -q '^-*$' "$dir/table" || fail "no table" "$dir/table"

# Warm, with frames for all of it, nothing comes in; and what does not fit is out of memory.
"$weir" bench bicg --manager weir-paged --size 64x4096 --warm --json "$dir/json" >/dev/null
grep -q '"pages":{"in":0,"out":0,"in_place":0,' "$dir/json" || fail "warm" "$dir/json"
"$weir" bench bicg --manager native,weir-paged --size 1024x4096 --gpu-budget 1MiB >"$dir/out"
grep -q 'native *out-of-memory' "$dir/out" || fail "it fits" "$dir/out"

# Phantom data, where nothing pages: as large as on a GPU.
"$weir" bench mvt --manager native,zerocopy,uvm --data phantom --size 65536 --json "$dir/json" \
	>/dev/null
[ "$(grep -c '"passed":null' "$dir/json")" -eq 3 ] || fail "phantom" "$dir/json"

# Rows split between GPUs, right, in less time than on one.
for nr in 1 2; do
	"$weir" bench mvt --machine h200x2 --manager weir --size 65536 --data phantom --devices $nr \
		--json "$dir/devices$nr" >/dev/null || fail "$nr devices"
done
python3 - "$dir/devices1" "$dir/devices2" <<'PY' || fail "devices" "$dir/devices1" "$dir/devices2"
import json, sys

one, two = [json.load(open(name)) for name in sys.argv[1:]]
assert "devices" not in one["parameters"] and two["parameters"]["devices"] == 2
assert two["epoch_median_s"] >= two["bound_s"] > 0
assert one["epoch_median_s"] > 1.8 * two["epoch_median_s"]
assert min(two["peak_bytes"]["gpu0"], two["peak_bytes"]["gpu1"]) > 8e9
PY
for nr in 2 3; do
	"$weir" bench mvt --machine h200x4 --size 512x4096 --gpu-budget 30% --devices $nr --check \
		--json "$dir/json" >"$dir/out" || fail "$nr devices" "$dir/out"
	grep -q '"passed":true' "$dir/json" || fail "$nr devices: wrong" "$dir/json"
	cat "$dir/json" >>"$dir/all.json"
done

# On the driver without a GPU.
ln -s "${FAKECUDA:?the fake driver}" "$dir/libcuda.so.1"
(
	export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} WEIR_MACHINE=cuda
	export WEIR_MATRIX_KERNELS=$BUILD_DIR/tests/fakecuda/libweir-matrix-fake.so
	export FAKECUDA_HBM_BYTES=$((64 << 20)) FAKECUDA_HOST_BYTES=$((1 << 30))
	bench atax 3 --manager native,zerocopy,weir-paged --size 64x4096 --check --epochs 2
	bench mvt 4 --manager weir-paged,weir-paged+fill --size 32x16384 --page-size 4KiB,64KiB \
		--gpu-budget 50% --epochs 1
)
members 2>"$dir/err" || fail "members" "$dir/err" "$dir/all.json"

# A page of all of them: a row a result with its rate, and a chart.
"$weir" report "$dir/all.json" -o "$dir/page.html" || fail "no page"
python3 - "$dir/all.json" "$dir/page.html" <<'PY' || fail "the page is not right"
import json, re, sys

results = [json.loads(line) for line in open(sys.argv[1])]
page = open(sys.argv[2]).read()
rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
rows = [row for row in rows if row and row[0].split(",")[0] in ("mvt", "atax", "bicg")]
assert len(rows) == len(results) > 30, (len(rows), len(results))
for row, r in zip(rows, results):
    p = r["parameters"]
    assert row[0].startswith("%s, %d x %d" % (r["workload"], p["rows"], p["columns"])), row
    assert ("warm" in row[0]) == p["warm"], row
    assert (", %d GPUs" % p.get("devices", 1) in row[0]) == ("devices" in p), row
    assert row[1].endswith(r["manager"]), (row, r)
    assert row[3] == "%.4g" % (r["useful_bytes_per_s"] / 1e9), (row, r)
    assert row[-1] == "right", (row, r)
assert page.count("Tables and matrices") >= 1
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

refused "--size '0': no size" mvt --size 0
refused "machine 'h200x2' has 2" mvt --machine h200x2 --devices 3
refused "machine 'h200' has 1" mvt --devices 2
refused "native runs kernels on one device" mvt --machine h200x2 --devices 2 --manager weir,native
refused "leave --device out" mvt --machine h200x2 --devices 2 --device 1
refused "which --gpu-budget is for" mvt --machine h200x4 --devices 2 --manager weir+near --near gpu1:1GB
refused "32 rows at least" mvt --machine h200x4 --devices 3 --size 64x4096
refused "out of range" mvt --devices 0
refused "no size" mvt --size 64x
refused "no size" mvt --size x64
refused "no size" mvt --size 64x64x64
refused "no size" mvt --size 1M
refused "listed twice" mvt --size 4096,4096x4096
refused "an item is missing" mvt --size 4096,
refused "rows come in multiples of 32" bicg --size 33x4096
refused "a row has whole pages" atax --size 64x4096 --page-size 64KiB
refused "no page size" mvt --page-size 5KiB
refused "no option --bytes" mvt --bytes 1MiB
refused "no option --size" pagein --size 64
refused "out of range" mvt --agents 65
refused "real bytes only" mvt --data phantom --manager weir-paged
refused "choose at least a page" mvt --gpu-budget 1% --size 32x4096
refused "more than half of this computer's memory" mvt --size 262144 --gpu-budget 1GiB
refused "no more than the device" mvt --size 262144
refused "cannot write" mvt --size 32x4096 --json "$dir/none/json"

for workload in mvt atax bicg; do
	"$weir" bench $workload --help >"$dir/help"
	for option in --size --devices --page-size --gpu-budget --warm --check weir-paged; do
		grep -q -- "$option" "$dir/help" || fail "--help lacks $option" "$dir/help"
	done
	"$weir" bench --help | grep -q "^  $workload " || fail "no $workload among the workloads"
done
echo "ok - mvt, atax and bicg"
