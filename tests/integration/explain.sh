#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What was planned and what happened: every workload of `weir bench`, and `weir replay`, say it with
# --explain, in the same words of help; what they say adds up, is in the results as in the text, and
# changes nothing else in these; and the page of `weir report` has it. Under a sanitizer one
# workload of each kind.
#
# Timeout: 600
set -euo pipefail

: "${SOURCE_DIR:?}" "${BUILD_DIR:?}"
weir=${WEIR:?the program}
# shellcheck source=tests/support/environment.sh
. "$SOURCE_DIR/tests/support/environment.sh"
export COLUMNS=200
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# checked: what the commands of explained() said, and their results, with --explain and without; of
# each, to NAME.said, a line a device with a plan: the manager, the device, its stages, and the period
# over the median epoch.
checked() {
	python3 - "$dir" "${names[@]}" <<'PY'
import json, math, sys

TIMES = ["planned_s", "measured_s", "kernels_s", "waited_s", "calls_s"]
BLOCKS = ["brought", "ahead", "late", "out", "calls"]


def check(results, text, said_to):
    rows = {}
    for line in text:
        if line.startswith("row "):
            row = rows.setdefault(int(line[4:line.index(",")]), [])
        elif line.startswith("    all "):
            row.append([float(x) for x in line.split()[1:]])
    for number, r in enumerate(results):
        assert "explain" in r, r["manager"]
        if r["explain"] is None:
            assert number + 1 not in rows, number
            assert not r["manager"].startswith("weir") or "paged" in r["manager"], r["manager"]
            continue
        assert r["manager"].startswith("weir"), r["manager"]
        said = iter(rows[number + 1])
        for d in r["explain"]:
            who = (r["workload"], d["device"])
            if d["why"]:
                assert not d["stages"] and "modelled_s" not in d, who
                continue
            sums = {name: sum(s[name] for s in d["stages"])
                    for name in ["brackets"] + TIMES + BLOCKS}
            for s in d["stages"]:
                assert s["brackets"] > 0 and all(s[name] >= 0 for name in TIMES + BLOCKS), (who, s)
                assert math.isclose(s["kernels_s"] + s["waited_s"], s["measured_s"],
                                    rel_tol=1e-9, abs_tol=1e-12), (who, s)
            all_ = next(said)
            assert all_[0] == sums["brackets"], (who, all_)
            columns = ["planned_s", "measured_s", "kernels_s", "waited_s"] + BLOCKS + ["calls_s"]
            for value, name in zip(all_[1:], columns):
                is_time = name in TIMES
                off = abs(value - sums[name] * (1e3 if is_time else 1))
                assert off <= (0.00051 if is_time else 0.051), (who, name, value, sums[name])
            budgets = [sum(n for name, n in s["room"].items() if name != "filled")
                       for s in d["stages"] if s["room"]]
            # Each block of the budget is accounted for; that of managers of passes is a little
            # larger.
            for s, blocks in zip((s for s in d["stages"] if s["room"]), budgets):
                assert s["room"]["filled"] <= s["room"]["arenas"] and blocks == budgets[0], (who, s)
            if r["workload"] in ("gcn", "replay"):
                assert len(budgets) == len(d["stages"]), who
                assert budgets[0] == r["budget_bytes"] // d["chunk_bytes"], (who, budgets[0])
            assert sums["planned_s"] <= 1.01 * d["modelled_s"], who
            period = sums["measured_s"] / r["epoch_median_s"]
            print(r["manager"], d["device"], len(d["stages"]), period, file=said_to)


def same(explained, plain):
    """Nothing else is in the results, and each has its counterpart."""
    assert len(explained) == len(plain) > 0
    for a, b in zip(explained, plain):
        a = dict(a)
        del a["explain"]
        a["command"] = a["command"].replace(" --explain", "")
        assert list(a.items()) == list(b.items()), "results differ"


for name in sys.argv[2:]:
    path = sys.argv[1] + "/" + name
    results = [json.loads(line) for line in open(path + ".json")]
    try:
        with open(path + ".said", "w") as said_to:
            check(results, open(path + ".out").read().splitlines(), said_to)
        same(results, [json.loads(line) for line in open(path + ".plain.json")])
    except BaseException:
        print("what is said of %s does not add up" % name, file=sys.stderr)
        raise
PY
}

# explained NAME COMMAND...: with --explain and without, for checked().
names=()
explained() {
	local name=$1
	shift
	names+=("$name")
	"$weir" "$@" --explain --json "$dir/$name.json" >"$dir/$name.out" 2>"$dir/err" ||
		fail "$* --explain" "$dir/$name.out" "$dir/err"
	"$weir" "$@" --json "$dir/$name.plain.json" >"$dir/plain.out" 2>"$dir/err" ||
		fail "$*" "$dir/plain.out" "$dir/err"
	! grep -q explain "$dir/$name.plain.json" "$dir/plain.out" || fail "$*: it says so unasked"
	"$weir" "${@:1:2}" --help >"$dir/help"
	grep -q '^  --explain  *show, stage by stage' "$dir/help" || fail "$1 $2: --help lacks it"
}

# planned NAME LEAST MOST: that there is a plan, and that a period under it takes this part of an
# epoch.
planned() {
	awk -v least="$2" -v most="$3" '$4 < least || $4 > most { exit 1 } { nr++ }
		END { exit !nr }' "$dir/$1.said" ||
		fail "$1: not planned, or the period is another" "$dir/$1.said"
}

gcn=(--machine h200 --nodes 200k --slice 50k --gpu-budget 50% --block-size 2MiB)
explained gcn bench gcn "${gcn[@]}" --manager native,weir --epochs 8
# Recorded in a timeline, too, and in a trace, by managers that stand before weir.
WEIR_TRACE=$dir/gcn.trace "$weir" bench gcn "${gcn[@]}" --manager weir --epochs 8 --explain \
	--timeline "$dir/t.json" --json "$dir/t2.json" >/dev/null 2>"$dir/err" || fail "with a timeline" "$dir/err"
cmp <(grep -o '"explain":\[.*' "$dir/gcn.json") <(grep -o '"explain":\[.*' "$dir/t2.json") ||
	fail "another plan with a timeline"

# Of the trace.
explained replay replay "$dir/gcn.trace" --manager weir,native --gpu-budget 50%

explained jacobi bench jacobi --machine h200x4 --devices 2 --size 4096 --manager memcpy,weir
if [ -z "${WEIR_SANITIZE-}" ]; then
	explained diffusion bench diffusion --machine h200x4 --devices 2 --size 128 --manager weir
	explained als bench als --machine h200x4 --devices 2 --size 200kx20k --manager weir
	explained pagerank2 bench pagerank --machine h200x4 --devices 2 --kron 12 --manager weir
fi
explained sssp2 bench sssp --machine h200x4 --devices 2 --kron 9 --manager weir

# A launch or a few a pass: little is planned, or nothing.
small=(--machine h200 --manager 'weir,zerocopy' --epochs 3)
explained layers bench layers "${small[@]}" --ranges 10 --range-bytes 1MiB --gpu-budget 50% \
	--split none,best
passes=(pagein gups) matrices=(mvt atax bicg) graphs=(bfs sssp cc pagerank)
if [ -n "${WEIR_SANITIZE-}" ]; then
	passes=(pagein) matrices=(atax) graphs=(pagerank)
fi
for workload in "${passes[@]}"; do
	explained "$workload" bench "$workload" "${small[@]}" --gpu-budget 50% --bytes 1MiB
done
for workload in "${matrices[@]}"; do
	explained "$workload" bench "$workload" "${small[@]}" --gpu-budget 50% --size 64x4096
done
for workload in "${graphs[@]}"; do
	explained "$workload" bench "$workload" "${small[@]}" --kron 10
done
checked 2>"$dir/err" || fail "what is said does not add up" "$dir/err"
# A period is an epoch, in which stages follow one another: what is left of it is less than 1 %.
planned gcn 0.99 1.01
planned replay 0.99 1.01
# An iteration of a hundred.
planned jacobi 0.0095 0.0105
[ "$(wc -l <"$dir/jacobi.said")" = 2 ] || fail "jacobi: not both devices" "$dir/jacobi.said"
[ -n "${WEIR_SANITIZE-}" ] || planned diffusion 0.0095 0.0105

# The page has a table for each device with a plan, with the sums of the result.
pages=(gcn replay jacobi layers)
[ -z "${WEIR_SANITIZE-}" ] || pages=(gcn layers)
for name in "${pages[@]}"; do
	"$weir" report "$dir/$name.json" -o "$dir/$name.html" >/dev/null 2>"$dir/err" ||
		fail "no page of $name" "$dir/err"
	python3 "$SOURCE_DIR/tests/integration/report_page.py" "$dir/$name.html" "$dir/$name.json" \
		>"$dir/out" || fail "the page of $name" "$dir/out"
done
python3 - "$dir" "${pages[@]}" <<'PY' || fail "tables of the pages"
import json, re, sys


def check(page, devices):
    page = page[page.index('<h2 id="explain">'):page.index('<h2 id="words">')]
    parts = page.split("<h3 ")[1:]
    assert len(parts) == len(devices), (len(parts), len(devices))
    for part, d in zip(parts, devices):
        if d["why"]:
            assert d["why"] in part and "<table>" not in part
            continue
        rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in part.split("<tr>")[2:]]
        assert len(rows) == len(d["stages"]) + 1, (len(rows), len(d["stages"]))
        for row, stage in zip(rows, d["stages"]):
            assert row[1] == (stage["name"] or ""), (row, stage)
            shown = [float(x) for x in row[2:5] + row[6:]]
            is_ = [stage["brackets"], 1e3 * stage["planned_s"], 1e3 * stage["measured_s"],
                   1e3 * stage["kernels_s"], 1e3 * stage["waited_s"], stage["brought"],
                   stage["ahead"], stage["late"], stage["out"], stage["calls"],
                   1e3 * stage["calls_s"]]
            assert all(abs(a - b) < 0.051 for a, b in zip(shown, is_)), (row, stage)
        measured = sum(stage["measured_s"] for stage in d["stages"])
        assert rows[-1][0] == "all" and abs(float(rows[-1][4]) - 1e3 * measured) < 0.0006, rows[-1]
        assert '<rect x="0.0" y="7"' in part
        assert ("Room in GPU memory" in part) == any(s["room"] for s in d["stages"])


for name in sys.argv[2:]:
    path = sys.argv[1] + "/" + name
    check(open(path + ".html").read(),
          [d for line in open(path + ".json") for d in json.loads(line)["explain"] or []])
PY
sed 's/"kernels_s":/"kernels":/' "$dir/gcn.json" >"$dir/bad.json"
"$weir" report "$dir/bad.json" -o "$dir/bad.html" >"$dir/out" 2>"$dir/err" &&
	fail "a page of bad.json"
grep -q 'bad.json:2: "explain": "kernels_s" of stage 0 is no number from 0 to 1e20: give a file' \
	"$dir/err" || fail "another error" "$dir/err"
[ ! -e "$dir/bad.html" ] || fail "a page is left"
echo "ok - what was planned and what happened adds up"
