#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench jacobi`, `diffusion`, `als` and, on several devices, `pagerank` and `sssp` from the outside: fields of every manager on several
# numbers of devices, all the same; members of the results, the same bytes twice, on the driver
# without a GPU too; the usual sizes on phantom data in little time, a page of the results, and one
# line and status 2 for each thing that can be wrong. Under a sanitizer without the usual sizes.
#
# WEIR_TEST_LONG: larger graphs, and each budget on each number of devices.
#
# Timeout: 120
# Long: yes
set -euo pipefail

: "${SOURCE_DIR:?}" "${BUILD_DIR:?}"
weir=${WEIR:?the program}
# shellcheck source=tests/support/environment.sh
. "$SOURCE_DIR/tests/support/environment.sh"
# Tables in one part.
export COLUMNS=200
for name in SIZE DEVICES EPOCHS DATA GPU_BUDGET; do
	unset "WEIR_$name"
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export WEIR_MACHINE=h200x4

# members FILE WORKLOAD LINES: JSON lines of a workload; checked ones are right and the same.
members() {
	python3 - "$@" <<'PY'
import json, math, sys

name, workload, nr = sys.argv[1], sys.argv[2], int(sys.argv[3])
lines = [json.loads(line) for line in open(name)]
assert len(lines) == nr, len(lines)
single = {}
for r in lines:
    p = r["parameters"]
    size = p["bytes"]
    who = (r["manager"], p)
    assert r["schema"] == "weir-result-1" and r["workload"] == workload, who
    assert r["status"] == "ok" and len(r["epoch_s"]) == p["epochs"], who
    assert size == 4 * p.get("planes", 1) * p["rows"] * p["columns"], who
    assert r["needs_bytes"] == 2 * size and r["bound_s"] > 0, who
    assert r["machine"] == "cuda" or r["bound_s"] <= r["epoch_median_s"] * (1 + 1e-12), who
    assert math.isclose(r["iteration_s"] * p["iterations"], r["epoch_median_s"]), who
    assert math.isclose(r["useful_bytes_per_s"] * r["iteration_s"], 2 * size), who
    if r["manager"] == "single":
        assert "devices" not in p and size not in single, who
        single[size] = r
    assert r["in_memory_s"] == single[size]["epoch_median_s"], who
    assert r["hash"] == single[size]["hash"], who
    assert (r["hash"] is None) == (p["data"] == "phantom"), who
    first = r is lines[0] and "--check" not in r["command"]
    right = None if first or p["data"] == "phantom" else True
    assert r["check"]["passed"] is right and r["check"]["wrong"] is None, (who, r["check"])
    halo = size // p.get("planes", p["rows"])
    cause = {"single": None, "memcpy": "demand", "overlap": "prefetch", "rdl": "in-place"}
    rounds = p["iterations"] * (p["epochs"] + p["warm_up"]) + 2 * (r["manager"] != "rdl")
    for way, causes in r["bytes"].items():
        one, other = sorted(way.split("->"))
        near = one[3:].isdigit() and other[3:].isdigit() and int(other[3:]) == int(one[3:]) + 1
        for c, nr_bytes in causes.items():
            want = halo * rounds if near and c == cause[r["manager"]] else 0
            assert nr_bytes == want, (who, way, c, nr_bytes, want)
    ways = 2 * (p.get("devices", 1) - 1)
    assert sum(sum(c.values()) for c in r["bytes"].values()) == halo * rounds * ways, who
PY
}

# bench WORKLOAD LINES ARGUMENT...: runs, all right.
bench() {
	local workload=$1 lines=$2
	shift 2
	"$weir" bench "$workload" "$@" --json "$dir/json" >"$dir/out" 2>"$dir/err" ||
		fail "$workload $*" "$dir/out" "$dir/err"
	[ ! -s "$dir/err" ] || fail "$workload $* says something" "$dir/err"
	members "$dir/json" "$workload" "$lines" || fail "$workload $*: members" "$dir/json"
	cat "$dir/json" >>"$dir/all.json"
}

bench jacobi 10 --size 64 --check --iterations 9
grep -q '^64x64 *4 *overlap .* right' "$dir/out" || fail "no such row" "$dir/out"
bench jacobi 26 --size 40x128,1000x16 --check --iterations 20 --devices 4,3,2,1
bench diffusion 13 --size 11x9x16 --check --iterations 5 --devices 1,2,3,4 --epochs 2
# Without --check runs are compared with the first one, which nothing says is right.
"$weir" bench diffusion --size 8 --data real --json "$dir/json" >/dev/null
[ "$(grep -c '"passed":true' "$dir/json")" -eq 9 ] || fail "not compared" "$dir/json"
[ "$(grep -c '"passed":null' "$dir/json")" -eq 1 ] || fail "compared with what?" "$dir/json"

# Fields of weir+nopublish are wrong: they are compared with none, and none with them.
"$weir" bench jacobi --size 64 --check --devices 1,2 --manager weir+nopublish,weir --iterations 9 \
	--json "$dir/json" >"$dir/out" 2>&1 || fail "a limit is compared" "$dir/out"
[ "$(grep -c '"passed":null' "$dir/json")" -eq 2 ] || fail "a limit is compared" "$dir/json"

# The usual sizes, in little time: more devices are faster, and hardly anything is lost by hand.
usual=(jacobi diffusion)
[ -z "${WEIR_SANITIZE-}" ] || usual=()
for workload in "${usual[@]}"; do
	bench "$workload" 10
	python3 - "$dir/json" <<'PY' || fail "$workload: times" "$dir/json"
import json, sys

at = {}
for line in open(sys.argv[1]):
    r = json.loads(line)
    at[r["manager"], r["parameters"].get("devices", 1)] = r["iteration_s"]
single = at["single", 1]
for nr in 2, 4:
    assert single / nr < at["overlap", nr] < at["memcpy", nr] < single, nr
    assert at["overlap", nr] < 1.05 * single / nr and at["rdl", nr] < 1.05 * single / nr, nr
PY
done

# budgets DEVICES BUDGETS MANAGERS ARGUMENT...: of single, overlap and these managers of weir; with
# budgets, the first of which is 100%, and which others do not take, fields are the same.
budgets() {
	local devices=$1 of=$2 managers=$3
	shift 3
	"$weir" bench jacobi --size 6144x1024 --iterations 2 --data real --devices "$devices" \
		--gpu-budget "$of" --manager "single,overlap,$managers" "$@" \
		--json "$dir/json" >"$dir/out" 2>"$dir/err" || fail "budgets" "$dir/out" "$dir/err"
	cat "$dir/json" >>"$dir/all.json"
	python3 - "$dir/json" "$dir/out" "$devices" "$of" "$managers" <<'PY' ||
import json, sys

lines = [json.loads(line) for line in open(sys.argv[1])]
rows = [line.split() for line in open(sys.argv[2]) if "x1024" in line]
page = 2 << 20
devices, asked, managers = (text.split(",") for text in sys.argv[3:])
nr = 1 + len(devices) * (1 + len(managers) * len(asked))
assert len(lines) == len(rows) == nr, (len(lines), len(rows), nr)
budgets = {}
limit = {}
for r, row in zip(lines, rows):
    devices = r["parameters"].get("devices", 1)
    assert r["bound_s"] <= r["epoch_median_s"], r
    if r["manager"] == "weir+nopublish":
        assert r["hash"] is None and r["check"]["passed"] is None, r
        limit.setdefault((devices, r["budget_bytes"]), r["epoch_median_s"])
    else:
        assert r["hash"] == lines[0]["hash"] and (r["check"]["passed"] or r is lines[0]), r
    if r["manager"] in ("single", "overlap"):
        assert row[3] == "all", row
    else:
        budgets.setdefault((r["manager"], devices), []).append(r["budget_bytes"])
for (manager, devices), of in budgets.items():
    # What does not fit is used where it is.
    in_place = [sum(c["in-place"] for c in r["bytes"].values()) for r in lines
                if (r["manager"], r["parameters"].get("devices", 1)) == (manager, devices)]
    assert min(in_place[1:]) > 6144 * 4096, (manager, devices, in_place)
    # The largest part of 4 KiB slices and two more, in whole pages, of two arrays.
    slab, halo = -(-6144 // devices), 2 if devices > 2 else 1
    least, most = 2 * 4096 * (slab + halo), 2 * 4096 * (slab + halo) + 4 * page
    assert least <= of[0] <= most, (manager, devices, of)
    assert len(of) == len(asked) > 1, of
    for text, nr_bytes in zip(asked, of):
        want = of[0] * int(text[:-1]) // 100 if text.endswith("%") else int(text[:-3]) << 20
        assert nr_bytes == want - want % page, (manager, devices, of)
for r, row in zip(lines, rows):
    s = limit.get((r["parameters"].get("devices", 1), r["budget_bytes"]))
    if s and r["manager"].startswith("weir"):
        assert any(f"{100 * s / r['epoch_median_s']:.1f}" == cell for cell in row), (row, s)
PY
		fail "budgets" "$dir/json" "$dir/out"
}

# Under a sanitizer unit tests alone do so.
if [ -n "${WEIR_TEST_LONG-}" ] && [ -z "${WEIR_SANITIZE-}" ]; then
	budgets 2,3 100%,60%,30%,8MiB weir,weir+all,weir+nopublish
elif [ -z "${WEIR_SANITIZE-}" ]; then
	budgets 2 100%,60%,8MiB weir --epochs 1
	budgets 3 100%,30% weir,weir+all,weir+nopublish --epochs 1
fi

# als: the same factors everywhere; the usual size in little time.
als() {
	"$weir" bench als "$@" --json "$dir/json" >"$dir/out" 2>"$dir/err" ||
		fail "als $*" "$dir/out" "$dir/err"
	cat "$dir/json" >>"$dir/all.json"
	python3 - "$dir/json" <<'PY' || fail "als $*: members" "$dir/json"
import json, sys

lines = [json.loads(line) for line in open(sys.argv[1])]
single = lines[0]
for r in lines:
    p = r["parameters"]
    assert r["workload"] == "als" and r["status"] == "ok", r
    assert p["bytes"] == r["needs_bytes"] == 256 * (p["users"] + p["items"]), p
    assert p["columns"] == 64 and r["hash"] == single["hash"], r
    assert (r["hash"] is None) == (p["data"] == "phantom"), r
    assert r["check"]["passed"] is (None if p["data"] == "phantom" else True), r
    assert r["machine"] == "cuda" or r["bound_s"] <= r["epoch_median_s"] * (1 + 1e-12), r
    others = p.get("devices", 1) - 1
    rounds = p["iterations"] * (p["epochs"] + p["warm_up"]) + 1
    if r["manager"] in ("memcpy", "overlap"):
        moved = sum(sum(c.values()) for c in r["bytes"].values())
        assert moved == others * p["bytes"] * rounds, (r["manager"], p, moved)
PY
}
factors=100x40
[ -z "${WEIR_TEST_LONG-}" ] || [ -n "${WEIR_SANITIZE-}" ] || factors=300x80
als --size $factors --check --iterations 2 --devices 1,2,4 --manager single,memcpy,overlap,rdl,weir
[ -n "${WEIR_SANITIZE-}" ] || als --iterations 3
[ -n "${WEIR_SANITIZE-}" ] || python3 - "$dir/json" <<'PY' || fail "als: times" "$dir/json"
import json, sys

at = {}
for line in open(sys.argv[1]):
    r = json.loads(line)
    at[r["manager"], r["parameters"].get("devices", 1)] = r["iteration_s"]
for nr in 2, 4:
    assert at["overlap", nr] < at["memcpy", nr] < at["single", 1] < at["rdl", 1] * 1.01
    assert at["overlap", nr] < 1.15 * at["single", 1] / nr
PY

# graphs WORKLOAD ARGUMENT...: the same vectors everywhere.
graphs() {
	"$weir" bench "$@" --json "$dir/json" >"$dir/out" 2>"$dir/err" ||
		fail "$*" "$dir/out" "$dir/err"
	[ ! -s "$dir/err" ] || fail "$* says something" "$dir/err"
	cat "$dir/json" >>"$dir/all.json"
	python3 - "$dir/json" "$1" <<'PY' || fail "$*: members" "$dir/json"
import json, sys

lines = [json.loads(line) for line in open(sys.argv[1])]
single = lines[0]
for r in lines:
    p = r["parameters"]
    assert r["workload"] == sys.argv[2] and r["status"] == "ok", r
    assert p["bytes"] == 4 * p["nr_vertices"] and r["needs_bytes"] == 2 * p["bytes"], p
    assert (r.get("nr_rounds", 0) > 8) == (r["workload"] == "sssp"), r
    assert p["graph"].startswith("kron") and p["nr_edges"] == single["parameters"]["nr_edges"], p
    assert r["hash"] == (None if r["manager"] == "weir+nopublish" else single["hash"]), r
    assert (single["hash"] is None) == (p["data"] == "phantom"), r
    right = None if p["data"] == "phantom" or r["manager"] == "weir+nopublish" else True
    assert r["check"]["passed"] is right, r
    assert r["machine"] == "cuda" or r["bound_s"] <= r["epoch_median_s"] * (1 + 1e-12), r
PY
}
scale=10 devices=1,2,4
[ -z "${WEIR_SANITIZE-}" ] || scale=8 devices=1,3
all=single,memcpy,overlap,rdl,weir,weir+all,weir+whole,weir+nopublish
graphs pagerank --devices $devices --kron $scale --degree 8 --check --iterations 4 --manager $all
graphs sssp --devices $devices --kron $scale --degree 8 --check --manager ${all%,*}
if [ -z "${WEIR_SANITIZE-}" ]; then
	graphs pagerank --devices 3 --kron 20 --degree 1 --check --iterations 2 --epochs 1 --gpu-budget 60% \
		--manager single,weir
	scale=22
	[ -z "${WEIR_TEST_LONG-}" ] || scale=24
	graphs pagerank --devices=2,4 --kron $scale --iterations 5 --manager $all
	cp "$dir/json" "$dir/pagerank"
	graphs sssp --devices 2,4 --kron $scale --manager $all
	cat "$dir/json" >>"$dir/pagerank"
	python3 - "$dir/pagerank" <<'PY' || fail "graphs: times" "$dir/pagerank"
import json, sys

at = {}
for line in open(sys.argv[1]):
    r = json.loads(line)
    at[r["workload"], r["manager"], r["parameters"].get("devices", 1)] = r["iteration_s"]
for name in "pagerank", "sssp":
    single = at[name, "single", 1]
    for nr in 2, 4:
        limit, weir, overlap, memcpy = (at[name, manager, nr] for manager in
                                        ("weir+nopublish", "weir", "overlap", "memcpy"))
        assert limit <= overlap < memcpy < single, (name, nr)
        assert overlap < 1.15 * single / nr and weir < 1.15 * overlap, (name, nr)
PY
fi

# The same twice, and in the other stream with -.
again=(jacobi --size 48x32 --data real --iterations 4)
"$weir" bench "${again[@]}" --json - >"$dir/one" 2>"$dir/table" || fail "to stdout" "$dir/table"
"$weir" bench "${again[@]}" --json - >"$dir/two" 2>/dev/null
cmp "$dir/one" "$dir/two" || fail "two runs differ" "$dir/one" "$dir/two"
grep -q '^-*$' "$dir/table" || fail "no table" "$dir/table"

# What does not fit one device is out of memory there.
"$weir" bench jacobi --size 262144 --devices 2,4 --iterations 2 >"$dir/out" ||
	fail "out of memory" "$dir/out"
grep -q ' 1 *single *all *out-of-memory' "$dir/out" || fail "it fits" "$dir/out"
grep -q ' 2 *overlap *all *out-of-memory' "$dir/out" || fail "it fits in two" "$dir/out"
grep -q ' 4 *overlap *all *[0-9]' "$dir/out" || fail "it does not fit in four" "$dir/out"

# bounds FROM: where the last run's bounds have their kernels from, and so the time in memory. If they
# are measured single comes first, and its bound is its time.
bounds() {
	python3 - "$dir/json" "$dir/out" "$1" <<'PY' || fail "bounds are not $1" "$dir/json" "$dir/out"
import json, math, sys

lines = [json.loads(line) for line in open(sys.argv[1])]
for what in "bound", "in_memory":
    assert {r["real_gpu"][what] for r in lines} == {sys.argv[3]}, (what, lines)
singles = [r for r in lines if r["manager"] == "single"]
assert singles == (lines[:1] if sys.argv[3] == "measured" else []), singles
for r in singles:
    assert math.isclose(r["bound_s"], r["epoch_median_s"]), r
rows = [row.split() for row in open(sys.argv[2])]
rows = [row for row in rows if row[1:3] == ["1", "single"]]
assert [row[8] for row in rows] == ["1.000"] * len(singles), rows
PY
}

# On the driver without a GPU.
ln -s "${FAKECUDA:?the fake driver}" "$dir/libcuda.so.1"
(
	export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} WEIR_MACHINE=cuda
	export WEIR_SOLVER_KERNELS=$BUILD_DIR/tests/fakecuda/libweir-solver-fake.so
	export WEIR_GRAPH_KERNELS=$BUILD_DIR/tests/fakecuda/libweir-graph-fake.so
	export FAKECUDA_DEVICES=3 FAKECUDA_HBM_BYTES=$((64 << 20)) FAKECUDA_HOST_BYTES=$((1 << 30))
	bench jacobi 10 --size 64x128 --check --iterations 3 --devices 1,2,3
	bounds measured
	grep -q "kernels are those of single" "$dir/out" || fail "nothing on kernels" "$dir/out"
	bench diffusion 10 --size 16 --iterations 2 --epochs 3
	bounds measured
	als --size 40x20 --check --iterations 2 --devices 1,3
	bounds measured
	graphs pagerank --devices 1,3 --kron 8 --check --iterations 2
	bounds measured
	graphs sssp --devices 1,3 --kron 7 --check --manager rdl,overlap,single,weir
	bounds measured
	"$weir" bench jacobi --size 64x128 --devices 1,2 --manager overlap,memcpy --iterations 9 \
		--json "$dir/json" >"$dir/out"
	bounds modelled
)

# What was sent, by mechanism, adds up to what was sent by cause.
python3 - "$dir/all.json" <<'PY' || fail "mechanisms"
import json, sys

seen = {"whole": 0, "runs": 0, "packets": 0, "blocks": 0, "in-place": 0}
for line in open(sys.argv[1]):
    r = json.loads(line)
    p = r["parameters"]
    who = (r["manager"], p, r["budget_bytes"], r["mechanisms"])
    causes = "demand", "prefetch", "eviction", "write-back", "in-place"
    by_cause = {c: sum(way[c] for way in r["bytes"].values()) for c in causes}
    how = {name: m["bytes"] for name, m in r["mechanisms"].items()}
    # Copies inside one memory cross no link. Lists come from the host, where packets go by them.
    local = how.pop("local")
    lists = how.pop("lists")
    assert (lists > 0) == (how["packets"] > 0 and r["manager"].startswith("weir")), who
    assert how.keys() == seen.keys() and how["in-place"] == by_cause["in-place"], who
    assert sum(how.values()) - local == sum(by_cause.values()), (who, by_cause)
    assert not local or r["manager"].startswith("weir") and p["data"] == "real", who
    for name, nr_bytes in how.items():
        nr = r["mechanisms"][name].get("messages")
        assert (nr is None) == (name in ("blocks", "in-place")), who
        assert nr is None or nr * 4 <= nr_bytes and (nr > 0) == (nr_bytes > 0), who
        seen[name] += nr_bytes
    assert not how["blocks"] or r["manager"].startswith("weir"), who
    if r["manager"] in ("single", "weir+nopublish"):
        assert not how["whole"] + how["runs"] + how["packets"], who
    # By hand, jacobi and diffusion: one for each halo that is exchanged.
    if r["manager"] in ("memcpy", "overlap") and r["workload"] in ("jacobi", "diffusion"):
        halo = p["bytes"] // p.get("planes", p["rows"])
        assert r["mechanisms"]["whole"]["messages"] * halo == how["whole"] == sum(how.values()), who
assert all(seen[name] for name in ("whole", "in-place")), seen
PY

# Over slow links weir sends elements as packets. The table of --verbose has the same numbers.
if [ -z "${WEIR_SANITIZE-}" ]; then
	"$weir" bench pagerank --machine gv100x16-pcie3 --devices 8 --kron $scale --iterations 1 --manager \
		overlap,weir --verbose --json "$dir/json" >"$dir/out" || fail "--verbose" "$dir/out"
	python3 - "$dir/json" "$dir/out" <<'PY' || fail "--verbose: numbers" "$dir/json" "$dir/out"
import json, sys

rows = [row.split() for row in open(sys.argv[2]).read().split("packets", 1)[1].splitlines()]
for line in open(sys.argv[1]):
    r = json.loads(line)
    row = next(row for row in rows if r["manager"] in row)
    m = r["mechanisms"]
    assert m["packets"]["messages"] > 0 or r["manager"] != "weir", m
    assert not m["local"]["bytes"], m
    lists = m.pop("lists")["bytes"]
    assert (lists > 0) == (r["manager"] == "weir"), lists
    assert sum(m[how]["bytes"] for how in m) == sum(sum(c.values()) for c in r["bytes"].values()), m
    # A size is two words.
    at = row.index("all")
    assert row[at + 1::3][:3] == [str(m[how]["messages"]) for how in ("whole", "runs", "packets")], row
PY
fi

# A page of all of them: a row a result with its speed-up, and a chart.
"$weir" report "$dir/all.json" -o "$dir/page.html" >"$dir/out" || fail "no page" "$dir/out"
python3 - "$dir/all.json" "$dir/page.html" <<'PY' || fail "the page is not right"
import json, re, sys

results = [json.loads(line) for line in open(sys.argv[1])]
page = open(sys.argv[2]).read()
rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
names = "jacobi", "diffusion", "als", "pagerank", "sssp"
rows = [row for row in rows if row and row[0].split(",")[0] in names]
assert len(rows) == len(results) > 50, (len(rows), len(results))
for row, r in zip(rows, results):
    p = r["parameters"]
    if "graph" in p:
        assert "%s, %d GPU" % (p["graph"], p.get("devices", 1)) in row[0], row
    else:
        sides = p.get("items", p.get("rows")), p["columns"], p.get("devices", 1)
        assert "%d x %d, %d GPU" % sides in row[0], row
        assert row[0].count(" x ") == 1 + ("planes" in p or "users" in p), row
    assert row[1].endswith(r["manager"]), (row, r)
    assert row[3] == "%.4g" % (r["iteration_s"] * 1e6), (row, r)
    assert row[5] == "%.3f" % (r["in_memory_s"] / r["epoch_median_s"]), (row, r)
    limits = [l["epoch_median_s"] for l in results if l["manager"] == "weir+nopublish" and
              l["parameters"] == p and l["budget_bytes"] == r["budget_bytes"]]
    if limits:
        assert row[6] == "%.1f" % (100 * limits[0] / r["epoch_median_s"]), (row, r)
    assert row[7] == "%.3f" % (r["epoch_median_s"] / r["bound_s"]), (row, r)
    assert row[8] == "%.4g" % (r["budget_bytes"] / 1e9), (row, r)
    causes = ("demand", "prefetch", "in-place")
    for cell, cause in zip(row[9:], causes):
        assert cell == "%.4g" % (sum(c[cause] for c in r["bytes"].values()) / 1e6), (row, cause)
    assert row[-1] == {True: "right", None: "not compared"}[r["check"]["passed"]], (row, r)
assert page.count('id="solvers"') == 1
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

refused "machine 'h200x4' has 4; choose no more" jacobi --devices 5
refused "machine 'h200' has 1; choose no more" jacobi --devices 1,2 --machine h200
refused "out of range" jacobi --devices 0
refused "out of range" jacobi --devices 17
refused "listed twice" diffusion --devices 2,2
refused "an item is missing" diffusion --devices 2,
refused "not a count" diffusion --devices two
refused "a slice at least" jacobi --size 3x64 --devices 1,4
refused "columns come in multiples of 4" jacobi --size 64x63
refused "no size" jacobi --size 0
refused "no size" jacobi --size 64x
refused "no size" jacobi --size 64x64x64
refused "no size" diffusion --size 64x64
refused "no size" diffusion --size 64x64x64x64
refused "no size" als --size 64x64x64
refused "no size" als --size 268435457
refused "a slice at least" als --size 64x3 --devices 4
refused "no size" jacobi --size 2M
refused "listed twice" jacobi --size 64,64x64
refused "out of range" pagerank --devices 2 --kron 4
refused "out of range" pagerank --devices 2 --kron 32
refused "listed twice" pagerank --devices 2 --kron 20,20
refused "a slice at least" pagerank --devices 4 --kron 6
refused "out of range" pagerank --devices 2 --degree 0
refused "no option --size" pagerank --devices 2 --size 64
refused "no option --kron" jacobi --kron 20
refused "this computer's memory" pagerank --devices 2 --data real --kron 31
refused "no such manager; there are single, memcpy, overlap, rdl" jacobi --manager native
refused "listed twice" jacobi --manager rdl,rdl
refused "an item is missing" jacobi --manager single,,rdl
refused "out of range" jacobi --iterations 0
refused "out of range" jacobi --gpu-budget 0%
refused "no memory at all" jacobi --gpu-budget 0
refused "listed twice" jacobi --gpu-budget 1GB,50%,1GB
refused "choose at least two pages, 4 MiB" jacobi --gpu-budget 4194303
refused "choose at least two pages, 4 MiB" diffusion --size 64 --gpu-budget 10%
refused "no more than its memory, 139 GiB" jacobi --gpu-budget 1TB
refused "out of range" jacobi --epochs 0
refused "no such kind of data" jacobi --data some
refused "nothing to --check" jacobi --data phantom --check
refused "this computer's memory" jacobi --data real --size 1048576
refused "no option --device" jacobi --device 1
refused "no option --near" jacobi --near gpu1:1GB
refused "cannot write" jacobi --size 64 --json "$dir/none/json"
refused "nosuch" jacobi --machine nosuch

for workload in jacobi diffusion als; do
	"$weir" bench $workload --help >"$dir/help"
	for option in --size --devices --iterations --check overlap; do
		grep -q -- "$option" "$dir/help" || fail "--help lacks $option" "$dir/help"
	done
	"$weir" bench --help | grep -q "^  $workload " || fail "no $workload among the workloads"
done
# One command on one device or several: which it is, --devices says.
"$weir" bench pagerank --help >"$dir/help"
grep -q -- "--uniform" "$dir/help" || fail "not of one device" "$dir/help"
grep -q -- "--devices N" "$dir/help" || fail "nothing of several devices" "$dir/help"
"$weir" bench pagerank --devices 2 --help >"$dir/help"
for option in --kron --degree --seed --devices --check overlap; do
	grep -q -- "$option" "$dir/help" || fail "--help lacks $option" "$dir/help"
done

# The table of docs/solver.md, of small sizes. It takes long under a sanitizer.
if [ -n "${WEIR_SANITIZE-}" ]; then
	echo "ok - jacobi, diffusion, als, pagerank and sssp"
	exit
fi
"$SOURCE_DIR/bench/replicas" --build "$BUILD_DIR" --quick --json "$dir/json" h200x2 >"$dir/out" \
	2>"$dir/err" || fail "bench/replicas ends with $?" "$dir/err"
[ "$(grep -c '"status":"ok"' "$dir/json")" = 20 ] || fail "five workloads under four" "$dir/json"
for name in jacobi diffusion als pagerank sssp 'geometric mean'; do
	grep -qE "\| $name( \| [0-9]+\.[0-9]+){5} \|" "$dir/out" || fail "no $name" "$dir/out"
done
"$SOURCE_DIR/bench/replicas" --jobs 0 2>"$dir/err" && fail "no jobs" "$dir/err"
"$SOURCE_DIR/bench/replicas" --build "$BUILD_DIR" h200 2>"$dir/err" && fail "one GPU" "$dir/err"
echo "ok - jacobi, diffusion, als, pagerank and sssp"
