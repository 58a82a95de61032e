#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench bfs`, sssp, cc and pagerank from the outside, on simulated machines: every algorithm
# under every manager with several budgets and pages, on graphs of several shapes, gives the right
# answer, the same one under all of them, and the answer of another program; and one line and status
# 2 for each thing that can be wrong. WEIR_GRAPH_DIR is a folder of more graphs, lists of edges
# NAME.txt, which are no part of weir.
#
# Takes 10 s of a processor: all algorithms under all managers. WEIR_TEST_LONG: each algorithm under
# each manager alone, and every budget of a random graph.
#
# Labels: slow
# Long: yes
# Timeout: 300
set -euo pipefail

: "${SOURCE_DIR:?}" "${BUILD_DIR:?}"
weir=${WEIR:?the program}
# shellcheck source=tests/support/environment.sh
. "$SOURCE_DIR/tests/support/environment.sh"
for name in PAGE_SIZE BLOCKS BLOCK_THREADS AGENTS; do
	unset "WEIR_$name"
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export WEIR_MACHINE=h200 TMPDIR=$dir
cd "$dir"
managers=native,malloc,zerocopy,uvm,weir,weir-paged,weir-paged+fill,weir-paged+page

# bench ARGUMENT...: a run that is all right and complains of nothing. Its results are in json, its
# table in out.
bench() {
	"$weir" bench "$@" --json - >json 2>out || fail "$*" out
	! grep '^weir:' out || fail "$* complains" out
}

# ---------------------------------------------------------------- graphs of several shapes

# Directed, with gaps in the ids, duplicates and self-loops; two vertices point at themselves alone.
awk 'BEGIN {
	x = 1
	for (i = 0; i < 3000; i++) {
		x = x * 48271 % 2147483647
		y = x * 16807 % 2147483647
		print x % 500 * 7 + 3, int(x / 500) % 400 * 11
		if (i % 10 == 0)
			print x % 500 * 7 + 3, int(x / 500) % 400 * 11
	}
	print "100000 100000"; print "4294967299 4294967299"
}' >directed.txt
"$weir" graph convert --symmetrize --dedupe --weights gen directed.txt undirected.csr >out
"$weir" graph generate --uniform 12 --degree 8 --seed 5 uniform.csr >out
# A tree, a path: many rounds of one vertex. And a star: one list of many pages.
awk 'BEGIN { for (i = 1; i < 150; i++) print i - 1, i }' >path.txt
awk 'BEGIN { for (i = 1; i < 9000; i++) print 0, i }' >star.txt
printf '%%%%MatrixMarket matrix coordinate pattern general\n5 5 0\n' >empty.mtx
printf '%%%%MatrixMarket matrix coordinate pattern general\n1 1 0\n' >one.mtx
# Vertices 6 to 9 are isolated, and 1 has a loop.
printf '%%%%MatrixMarket matrix coordinate integer symmetric\n9 9 4\n2 1 3\n3 2 1\n5 4 2\n1 1 9\n' \
	>isolated.mtx

# Shortest paths and components by another program, from a list of edges. Weights: 1.
cat >other.py <<'PY'
import collections, sys

what, name, source = sys.argv[1], sys.argv[2], int(sys.argv[3])
edges = [tuple(map(int, line.split())) for line in open(name)]
out = collections.defaultdict(list)
for u, v in edges:
    out[u].append(v)
    if what == "cc":
        out[v].append(u)
ids = sorted({v for edge in edges for v in edge})


def search(v):
    level, queue = {v: 0}, collections.deque([v])
    while queue:
        v = queue.popleft()
        for w in out[v]:
            if w not in level:
                level[w] = level[v] + 1
                queue.append(w)
    return level


if what == "bfs":
    value = search(source)
    far = 9223372036854775807
elif what == "cc":
    value = {}
    for v in ids:
        if v not in value:
            value.update({w: v for w in search(v)})
else:
    value = dict.fromkeys(ids, 1 / len(ids))
    for _ in range(20):
        spread = sum(value[v] for v in ids if not out[v]) / len(ids)
        new = dict.fromkeys(ids, 0.15 / len(ids) + 0.85 * spread)
        for u in ids:
            for v in out[u]:
                new[v] += 0.85 * value[u] / len(out[u])
        value = new
for v in ids:
    print(v, value[v] if v in value else far)
PY

# near A B: the same vertices, and values that differ by no more than 1e-5 in all.
near() {
	paste -d ' ' "$1" "$2" | awk '
		$1 != $3 || NF != 4 { exit 1 }
		{ sum += $2 > $4 ? $2 - $4 : $4 - $2 }
		END { exit !(NR && sum <= 1e-5) }'
}

# alike ALGORITHM A B: the same answers, ranks nearly.
alike() {
	if [ "$1" = pagerank ]; then
		near "$2" "$3"
	else
		cmp "$2" "$3"
	fi
}

# all NAME BUDGETS [ARGUMENT...]: every algorithm is right under every manager, and with more agents
# and other pages. The arguments are a search's.
all() {
	local graph=$1 budgets=$2 algorithm
	shift 2
	for algorithm in bfs sssp cc pagerank; do
		local args=("$algorithm" "$graph" --epochs 1 --check)
		[[ $algorithm != @(bfs|sssp) ]] || args+=("$@")
		bench "${args[@]}" --manager $managers --gpu-budget "$budgets" \
			--output "answer.$algorithm"
		grep -qv '"passed":true' json && fail "${args[*]}" json
		bench "${args[@]}" --manager weir-paged --agents 4 --page-size 64KiB,4KiB \
			--output answer.agents
		alike $algorithm "answer.$algorithm" answer.agents || fail "$graph, 4 agents: $algorithm"
	done
}

# alone ALGORITHM: the managers that each() runs it under.
alone() {
	if [ -n "${WEIR_TEST_LONG-}" ]; then
		echo zerocopy weir weir-paged weir-paged+fill weir-paged+page
		return
	fi
	case $1 in
	bfs) echo zerocopy weir-paged ;;
	sssp) echo weir weir-paged+fill ;;
	cc) echo weir-paged+page zerocopy ;;
	pagerank) echo weir-paged weir ;;
	esac
}

# each NAME BUDGET [ARGUMENT...]: the answers of all() are those of each manager.
each() {
	local graph=$1 budget=$2 algorithm manager
	shift 2
	for algorithm in bfs sssp cc pagerank; do
		local args=("$algorithm" "$graph" --epochs 1 --gpu-budget "$budget")
		[[ $algorithm != @(bfs|sssp) ]] || args+=("$@")
		for manager in $(alone $algorithm); do
			bench "${args[@]}" --manager "$manager" --output answer
			alike $algorithm "answer.$algorithm" answer || fail "$graph $manager: $algorithm"
		done
	done
}

all directed.txt 100%,50% --source 3
for algorithm in bfs cc pagerank; do
	python3 other.py $algorithm directed.txt 3 >other
	near other answer.$algorithm || fail "$algorithm of directed.txt" other answer.$algorithm
done
all undirected.csr 100%,50% --sources 3
each undirected.csr 50% --sources 3
for algorithm in bfs sssp cc pagerank; do
	cp answer.$algorithm answer.undirected.$algorithm
done
all uniform.csr "100%,${WEIR_TEST_LONG:+50%,25%,}10%" --sources 2
all path.txt 100% --source 0
python3 other.py bfs path.txt 0 | cmp - answer.bfs || fail "bfs of path.txt" answer.bfs
# Backwards there is nothing to reach.
bench bfs path.txt --source 149 --output answer
[ "$(grep -c ' 9223372036854775807$' answer)" -eq 149 ] || fail "the path's end" answer
all star.txt 100%,25% --source 0
all empty.mtx 100% --source 2
[ "$(tr '\n' ' ' <answer.sssp)" = "0 infinity 1 infinity 2 0 3 infinity 4 infinity " ] ||
	fail "sssp without edges" answer.sssp
[ "$(tr '\n' ' ' <answer.cc)" = "0 0 1 1 2 2 3 3 4 4 " ] || fail "cc without edges" answer.cc
all one.mtx 100% --source 0
[ "$(cat answer.pagerank)" = "0 1" ] || fail "pagerank of one vertex" answer.pagerank
all isolated.mtx 100% --source 0
[ "$(tr '\n' ' ' <answer.sssp)" = "0 0 1 3 2 4 3 infinity 4 infinity 5 infinity 6 infinity 7 \
infinity 8 infinity " ] || fail "sssp of isolated.mtx" answer.sssp
[ "$(tr '\n' ' ' <answer.cc)" = "0 0 1 0 2 0 3 3 4 3 5 5 6 6 7 7 8 8 " ] ||
	fail "cc of isolated.mtx" answer.cc
if [ -n "${WEIR_GRAPH_DIR-}" ]; then
	for file in "$WEIR_GRAPH_DIR"/*.txt; do
		for algorithm in bfs sssp cc pagerank; do
			bench $algorithm "$file" --check --epochs 1 --gpu-budget 100%,25%
		done
		echo "ok - $file"
	done
fi
echo "ok - answers"

# ---------------------------------------------------------------- on the driver without a GPU

ln -s "${FAKECUDA:?the fake driver}" libcuda.so.1
(
	export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} WEIR_MACHINE=cuda
	export WEIR_GRAPH_KERNELS=$BUILD_DIR/tests/fakecuda/libweir-graph-fake.so
	export FAKECUDA_HBM_BYTES=$((64 << 20)) FAKECUDA_HOST_BYTES=$((1 << 30))
	for algorithm in bfs sssp cc pagerank; do
		args=("$algorithm" undirected.csr --epochs 1 --check)
		[[ $algorithm != @(bfs|sssp) ]] || args+=(--sources 3)
		bench "${args[@]}" --manager native,zerocopy,weir-paged --gpu-budget 100%,50% \
			--output answer
		[ "$(grep -c '"passed":true.*"real_gpu":' json)" -eq 6 ] || fail "$algorithm: cuda" json
		alike $algorithm answer.undirected.$algorithm answer || fail "$algorithm: cuda"
	done
	bench bfs --kron 10 --sources 2 --manager zerocopy --check
	# More managed memory than may be had is a result, and the answer is the next manager's.
	FAKECUDA_HBM_BYTES=$((32 << 20)) bench cc --uniform 16 --epochs 1 --manager uvm,zerocopy --output answer
	grep -q '"manager":"uvm",.*"status":"refused","error":".*1/8 of the card' json ||
		fail "not refused" json
	[ "$(wc -l <answer)" -eq 65536 ] || fail "no answer of zerocopy"
)
echo "ok - the driver without a GPU"

# ---------------------------------------------------------------- results

# What a result says of a run adds up.
bench bfs --kron 10 --sources 4 --manager $managers --gpu-budget 100%,25%,10% --check --epochs 3
cp json bfs.json
bench pagerank --uniform 10 --iterations 5 --damping 0.5 --manager zerocopy,weir-paged --check
cp json pagerank.json
bench sssp --kron 10 --source 1 --delta 100 --warm --manager weir-paged --check
cp json sssp.json
bench sssp --kron 10 --source 1 --delta 100 --manager weir-paged
cp json cold.json
bench cc directed.txt --symmetrize --manager native
cp json cc.json
cat bfs.json pagerank.json sssp.json cold.json cc.json >some.json
python3 - some.json <<'PY' || fail "members" some.json
import json, math, sys

lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) == 24 + 2 + 2 + 1, len(lines)
for r in lines:
    p, kind = r["parameters"], r["workload"]
    who = (kind, r["manager"], r["budget_bytes"])
    assert r["schema"] == "weir-result-1" and r["status"] == "ok", who
    assert len(r["epoch_s"]) == p["epochs"] and min(r["epoch_s"]) > 0, who
    words = 2 if kind == "sssp" else 1
    assert r["needs_bytes"] == r["edge_bytes"] == 4 * words * p["nr_edges"], who
    assert p["symmetric"] is True and p["page_bytes"] == 4096, who
    assert r["budget_bytes"] % 4096 == 0, who
    assert math.isclose(r["useful_bytes_per_s"] * r["epoch_median_s"], r["line_bytes"]), who
    assert r["line_bytes"] % 128 == 0, who
    assert 0 < r["first_bytes"] <= r["line_bytes"] and r["first_bytes"] % 128 == 0, who
    assert r["first_bytes"] <= r["edge_bytes"] + 256, who
    assert min(r["epoch_s"]) >= r["bound_s"] > 0 or r["manager"] in ("native", "malloc"), who
    paged = r["manager"].startswith("weir-paged")
    assert all((v is not None) == paged for v in r["pages"].values()), who
    if kind == "bfs":
        assert p["graph"] == "kron10 degree 16" and p["sources"] == 4 and p["source"] is None, who
        teps = r["edges_expanded"] / 2
        assert 0 < r["reached"] <= p["nr_vertices"] == 1024, who
        assert r["edges_expanded"] <= 4 * p["nr_edges"], who
        assert r["check"] == {"wrong": None, "passed": True}, who
    elif kind == "pagerank":
        assert p["iterations"] == r["nr_rounds"] == 5 and p["damping"] == 0.5, who
        assert r["edges_expanded"] == 5 * p["nr_edges"] and r["reached"] is None, who
        assert 0 <= r["rank_error"] <= 1e-5, who
        teps = r["edges_expanded"]
    else:
        teps = None
    if kind == "sssp":
        assert p["source"] == 1 and p["sources"] == 1 and p["delta"] == 100, who
    if kind == "cc":
        assert p["graph"] == "directed.txt" and r["check"] == {"wrong": None, "passed": None}, who
        assert r["reached"] > 1, who
    if teps is None:
        assert r["teps_per_s"] is None, who
    else:
        assert math.isclose(r["teps_per_s"] * r["epoch_median_s"], teps), who
# The same work under all managers, and frames for all of it bring each page once.
bfs = [r for r in lines if r["workload"] == "bfs"]
for member in ("nr_rounds", "edges_expanded", "line_bytes", "first_bytes", "reached"):
    assert len({r[member] for r in bfs}) == 1, member
whole = [r for r in bfs if r["manager"] == "weir-paged+page" and r["budget_bytes"] >= r["edge_bytes"]]
assert len(whole) == 1 and whole[0]["pages"]["in_place"] == 0, whole
assert whole[0]["pages"]["in"] == math.ceil(whole[0]["edge_bytes"] / 4096), whole
# Warm, nothing comes, and the bound knows.
warm, cold = [r for r in lines if r["workload"] == "sssp"]
assert warm["parameters"]["warm"] and not cold["parameters"]["warm"]
assert warm["pages"]["in"] == 0 < cold["pages"]["in"] and warm["bound_s"] < cold["bound_s"]
PY
grep -q '^kron10 degree 16: 1024 vertices, [0-9]* edges, symmetric$' <("$weir" bench cc --kron 10) ||
	fail "no word of the graph"

# The same twice, and in the other stream with -.
again=(sssp --kron 8 --manager "$managers" --gpu-budget "100%,50%" --epochs 2)
"$weir" bench "${again[@]}" --json - >one 2>table || fail "to stdout" table
"$weir" bench "${again[@]}" --json - >two 2>/dev/null
cmp one two || fail "two runs differ" one two
grep -q '^-*$' table || fail "no table" table

# Out of memory is a result, and then the answer is the next manager's.
bench bfs --uniform 16 --sources 1 --gpu-budget 10% --epochs 1 --manager native,zerocopy --output answer
grep -q 'native *out-of-memory' out || fail "it fits" out
[ "$(wc -l <answer)" -eq 65536 ] || fail "no answer of zerocopy"
rm answer
status=0
"$weir" bench bfs --uniform 16 --sources 1 --gpu-budget 10% --epochs 1 --manager native \
	--output answer >out 2>err || status=$?
[[ $status -eq 1 && ! -e answer ]] || fail "status $status without an answer" err
grep -q 'no answer' err || fail "no word of the answer" err

# A page of all of them: a row a result, and a chart.
"$weir" report some.json -o page.html || fail "no page"
python3 - some.json page.html <<'PY' || fail "the page is not right"
import json, re, sys

results = [json.loads(line) for line in open(sys.argv[1])]
page = open(sys.argv[2]).read()
rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
rows = [row for row in rows if row and re.match("(bfs|sssp|cc|pagerank) of ", row[0])]
assert len(rows) == len(results), (len(rows), len(results))
for row, r in zip(rows, results):
    assert row[0].startswith(r["workload"] + " of " + r["parameters"]["graph"]), (row, r)
    assert row[1].endswith(r["manager"]), (row, r)
    assert row[2] == "%.4g" % r["epoch_median_s"], (row, r)
    assert row[-2] == "%.2f" % (r["epoch_median_s"] / r["bound_s"]), (row, r)
    assert row[-1] == {True: "right", None: "not compared"}[r["check"]["passed"]], (row, r)
assert page.count('class="wide"') >= 1 and "<h2 id=\"graphs\">" in page
assert "weir-paged takes" in page
PY
echo "ok - results"

# ---------------------------------------------------------------- refused

# refused TEXT ARGUMENT...: status 2, one line with the text, and no answer.
refused() {
	local status=0 text=$1
	shift
	"$weir" bench "$@" --output none >out 2>err || status=$?
	[ $status -eq 2 ] || fail "status $status: $*" err
	[ "$(wc -l <err)" -eq 1 ] || fail "not one line: $*" err
	grep -qF -- "$text" err || fail "not '$text': $*" err
	[ ! -s out ] || fail "something on stdout: $*" out
	[ ! -e none ] || fail "an answer: $*"
	[ -z "$(find . -name '.*.tmp')" ] || fail "something is left: $*"
}

: >empty.txt
printf '1 2\n3 x\n' >bad.txt
printf '1 2\n3 4' >cut.txt
printf '1 2\n1 18446744073709551616\n' >large.txt
head -c 70000 undirected.csr >cut.csr
cp undirected.csr damaged.csr
printf '\377\377\377\377' | dd of=damaged.csr bs=65536 seek=3 conv=notrunc 2>/dev/null
printf '%%%%MatrixMarket matrix coordinate pattern general\n5 4 1\n1 1\n' >oblong.mtx
for algorithm in bfs pagerank; do
	refused 'empty.txt:0: the file has no edge' $algorithm empty.txt
	refused "bad.txt:2: 'x'" $algorithm bad.txt
	refused 'cut.txt:2: the file ends in mid-line' $algorithm cut.txt
	refused "large.txt:2: '18446744073709551616' is beyond 64 bits" $algorithm large.txt
	refused 'cut.csr: 70000 bytes where the header says' $algorithm cut.csr
	refused 'damaged.csr: ' $algorithm damaged.csr
	refused 'oblong.mtx:2' $algorithm oblong.mtx
	refused 'none.txt: No such file' $algorithm none.txt
	refused '.: Is a directory' $algorithm .
done
refused "--source '4': directed.txt has no such vertex" bfs directed.txt --source 4
refused "--source '5': empty.mtx has no such vertex" sssp empty.mtx --source 5
refused "has no edges to begin from" bfs empty.mtx
refused "one graph is needed" cc
refused "depends on the edges" cc star.txt --data phantom
refused "choose at least a page" cc star.txt --gpu-budget 1%
refused "no more than the device" cc star.txt --gpu-budget 1TiB
refused "simulating uvm out of order" bfs --kron 15 --gpu-budget 50% --manager uvm
refused "no manager 'paged'" bfs star.txt --manager paged
refused "no options 'swift'" bfs star.txt --manager uvm+swift
refused "cannot write" bfs star.txt --json none/json
for algorithm in bfs sssp cc pagerank; do
	"$weir" bench $algorithm --help >help
	grep -q "^usage: weir bench $algorithm (FILE" help || fail "--help" help
	for option in --kron --gpu-budget --output --check weir-paged; do
		grep -q -- "$option" help || fail "--help lacks $option" help
	done
	"$weir" bench --help | grep -q "^  $algorithm " || fail "no $algorithm among the workloads"
done
echo "ok - what is refused"

# ---------------------------------------------------------------- signals

# interrupted ARGUMENT...: status 130, one line, and nothing is left.
interrupted() {
	local pid status=0
	env --default-signal=INT "$weir" bench "$@" --json none --output none.too >out 2>err &
	pid=$!
	sleep 0.7
	kill -s INT $pid
	wait $pid || status=$?
	[ $status -eq 130 ] || fail "status $status after SIGINT: $*" err
	[ "$(wc -l <err)" -eq 1 ] || fail "not one line after SIGINT: $*" err
	grep -q interrupted err || fail "no word of an interrupt: $*" err
	[[ ! -e none && ! -e none.too ]] || fail "something after SIGINT: $*"
	[ -z "$(find . -name '.*.tmp' -o -name '.weir-graph*')" ] || fail "left after SIGINT: $*"
}

interrupted bfs --kron 22
interrupted pagerank --kron 14 --epochs 100000
echo "ok - SIGINT"
