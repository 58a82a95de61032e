#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench --near`: other GPUs' memory as a place of blocks and as the home of pages, on simulated
# machines of two and of four GPUs and on the driver without a GPU: losses, bytes by link, peaks within budgets, report and
# timeline of several memories, and what is refused. Needs WEIR, SOURCE_DIR, FAKECUDA and python3.
# Prints a line a test.
#
# Takes 24 s of a processor: each manager on real data, and each thing that can be wrong.
# WEIR_TEST_LONG adds a size.
#
# Labels: slow
# Long: yes
set -u

: "${WEIR:?is the program to test}"
: "${FAKECUDA:?is the CUDA driver without a GPU}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

# Two of the invented small machine's GPUs, with a link between them that is five times as fast as
# the one to the host; and the same three, of which the third has a link to the first one alone.
"$WEIR" info --machine laptop --json >"$dir/laptop.json" || fail "no description"
python3 - "$dir" <<'END'
import copy
import json
import sys

folder = sys.argv[1]
with open(folder + "/laptop.json", encoding="utf-8") as file:
    one = json.load(file)


def add(machine, number, neighbours):
    name = "gpu%d" % number
    machine["memory"].append(dict(machine["memory"][1], name=name))
    machine["device"].append(dict(machine["device"][0], name=name, memory=name))
    machine["link"].append(dict(machine["link"][0], b=name))
    for neighbour in neighbours:
        link = copy.deepcopy(machine["link"][0])
        link.update(a=neighbour, b=name)
        for key, constant in link.items():
            if "bytes_per_s" in key:
                constant["value"] *= 5
        machine["link"].append(link)


add(one, 1, ["gpu0"])
for name in ("two", "three"):
    one["name"] = name
    with open("%s/%s.json" % (folder, name), "w", encoding="utf-8") as file:
        json.dump(one, file)
    add(one, 2, ["gpu0"])
END

# ------------------------------------------------------------------ what is refused

# refused PATTERN ARGS...: exit status 2, one line, no results.
refused()
{
	pattern=$1
	shift
	"$WEIR" bench "$@" --json "$dir/none.json" >"$dir/out" 2>"$dir/err"
	status=$?
	[ $status -eq 2 ] || fail "weir bench $* exits with $status, not 2" "$dir/err"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "weir bench $*: not one line" "$dir/err"
	grep -Eq -- "$pattern" "$dir/err" || fail "weir bench $*: no /$pattern/" "$dir/err"
	[ -s "$dir/out" ] && fail "weir bench $* writes to standard output"
	[ -e "$dir/none.json" ] && fail "weir bench $* leaves results"
}

bad()
{
	pattern=$1
	shift
	refused "$pattern" gcn --machine "$dir/three.json" --manager weir+near "$@"
}

bad "names a memory twice" --near gpu1:1GB,gpu1:50%
bad "the device's own memory, which --gpu-budget is for" --near gpu0:1GB
bad "the device's own memory" --device gpu1 --near gpu1:1GB
bad "the host's memory, which --host-budget is for" --near host:1GB
bad "no such memory; choose from gpu1 gpu2" --near gpu7:1GB
bad "no such memory" --near gpu:1GB
bad "no such memory" --near gpu11:1GB
bad "no link between gpu2 and gpu1; leave it out" --near gpu1:1GB,gpu2:1GB
bad "no link between gpu2 and gpu1; leave it out" --device 1 --near gpu0:1GB,gpu2:1GB
bad "not a memory and how much" --near gpu1
bad "not a memory and how much" --near host
bad "not a memory and how much" --near gpu1:
bad "not a memory and how much" --near :1GB
bad "an item is missing" --near gpu1:1GB,
bad "'much': not a size" --near gpu1:much
bad "'0%': out of range" --near gpu1:0%
bad "'4KiB': below two blocks; choose at least 8192 bytes" --near gpu1:4KiB
bad "'0': below two blocks" --near gpu1:0
bad "below two blocks" --near gpu1:64MiB --block-size 64MiB
bad "budget of gpu1 is below two blocks" --near gpu1:1MiB
bad "gpu1:0.0001%' is .*, below two blocks, 8 KiB; choose more" --near gpu1:0.0001% --nodes 10k
bad "budget of gpu1 is below two blocks" --near gpu1:1MiB --gpu-budget 90% --nodes 1M
bad "beyond what is free of memory 'gpu1', 8 GB \(8000000000 bytes\)" --near gpu1:9GB
bad "gpu1:1000%' is .* beyond what is free there, 8 GB; choose less" --near gpu1:1000% --nodes 1M
bad "'0B/s': moves nothing" --near gpu1:1GB --near-rate 0B/s
bad "'150GB': not a rate; write for example 150GB/s" --near gpu1:1GB --near-rate 150GB
bad "'/s': not a rate" --near gpu1:1GB --near-rate /s
bad "'-1B/s': not a rate" --near gpu1:1GB --near-rate -1B/s
bad "manager 'weir\+near' uses other GPUs' memories: name them with --near"
bad "name them with --near" --near-rate 1GB/s
refused "is for --near; give both" gcn --machine "$dir/two.json" --near-rate 1GB/s
refused "is for managers whose names end in \+near" gcn --machine "$dir/two.json" \
	--manager native,weir --near gpu1:1GB
refused "is for managers whose names end in \+near" pagein --machine "$dir/two.json" \
	--manager weir-paged,zerocopy --near gpu1:1GB
refused "manager 'weir-paged\+page\+near' uses other GPUs' memories: name them with --near" pagein \
	--machine "$dir/two.json" --manager weir-paged+page+near
refused "machine 'h200' has one GPU" bfs --kron 8 --machine h200 --manager weir-paged+near \
	--near gpu1:1GB
refused "the device's own memory" gups --machine "$dir/two.json" --manager weir-paged+near \
	--near gpu0:1GB
refused "beyond what is free of memory 'gpu1'" mvt --machine "$dir/two.json" \
	--manager weir-paged+near --near gpu1:9GB
refused "uvm\+near is for --machine cuda" pagein --machine "$dir/two.json" --manager uvm+near \
	--near gpu1:1GB
refused "more than one other GPU's memory has a budget: name one" pagein --machine h200x4 \
	--manager zerocopy+near --near gpu1:1GB,gpu2:1GB
refused "no options 'nearby'; there are weir, weir\+near and weir\+near-copy" gcn \
	--machine "$dir/two.json" --manager weir+nearby
refused "machine 'h200' has one GPU, which has no neighbour" gcn --machine h200 \
	--manager weir+near --near gpu1:1GB
refused "machine 'h200' has one GPU" gups --machine h200 --manager weir+near --near gpu1:1GB
refused "names a memory twice" mvt --machine h200x4 --manager weir+near --near gpu1:1GB,gpu1:1GB
refused "beyond what is free there" pagein --machine "$dir/two.json" --manager weir+near \
	--bytes 1GiB --data phantom --near gpu1:900%
refused "budget of gpu1 is below two blocks" pagein --machine "$dir/two.json" --manager weir+near \
	--bytes 1GiB --data phantom --gpu-budget 1%,100% --near gpu1:2MiB
echo "ok - what cannot be is refused, by one line"

# ------------------------------------------------------------------ what is moved

# looked NAME MEMORY [copies]: losses are native's where there are any, nothing is held beyond a
# budget, other GPUs' memories are used by the manager that is for it, MEMORY among them; and, if
# it says so, blocks are copied over the link to it in both directions.
looked()
{
	python3 - "$dir/$1.json" "$2" "${3-}" <<'END' >"$dir/look.out" 2>&1 || fail "$1" "$dir/look.out" "$dir/$1.json"
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    results = [json.loads(line) for line in file]
near = [r for r in results if "near" in r["manager"]]
assert near, "no results"
for r in results:
    if r["status"] != "ok":
        assert r["manager"] == "native", r["manager"]
        continue
    assert r["check"]["passed"] or not r["check"]["loss"][0], r["manager"]
    neighbours = r.get("near_budget_bytes", {})
    assert bool(neighbours) == (r in near), r["manager"]
    for memory, peak in r["peak_bytes"].items():
        budget = {"host": r["parameters"]["host_budget_bytes"], "gpu0": r["budget_bytes"],
                  **neighbours}.get(memory, 0)
        assert peak <= budget, (r["manager"], memory, peak, budget)
    ends = ["host"] + list(neighbours)
    assert list(r["bytes"])[:2] == ["host->gpu0", "gpu0->host"], list(r["bytes"])
    for way in [end + "->gpu0" for end in ends] + ["gpu0->" + end for end in ends]:
        assert way in r["bytes"], (r["manager"], way, list(r["bytes"]))
for r in near:
    if r["manager"] == "weir+near-copy":  # where use in place pays, it has nothing to copy
        continue
    assert r["peak_bytes"][sys.argv[2]] > 0, (r["manager"], r["peak_bytes"])
    for way in ("gpu0->" + sys.argv[2], sys.argv[2] + "->gpu0"):
        causes = dict(r["bytes"][way])
        causes.pop("in-place")
        assert sum(causes.values()) > 0 or not sys.argv[3], (r["manager"], way)
    if r["oracle"]:
        # MIN is for the long run. A run may have copied a block before the first of its epochs
        # that it has not again after the last.
        for copies in ("copy_ins", "host_copy_ins"):
            assert (r["oracle"][copies] >=
                    r["oracle"]["min_" + copies] - 1 / r["oracle"]["epochs"]), r["oracle"]
        assert r["oracle"]["copy_ins"] > 0, r["oracle"]
    if "real_gpu" in r:
        continue
    assert 0 < r["bound_s"] <= r["epoch_median_s"] * (1 + 1e-9), (r["manager"], r["bound_s"])
    others = [o["bound_s"] for o in results if o["manager"] == "weir" and
              o["parameters"]["nodes"] == r["parameters"]["nodes"]]
    assert all(r["bound_s"] <= bound * (1 + 1e-9) for bound in others), (r["manager"], others)
END
}

small="--nodes 500 --slice 4k"
pair="--machine $dir/two.json $small --hidden 64 --check --block-size 16KiB --gpu-budget 40%"

# Two GPUs, each manager twice, and with a limit to the rate; four GPUs without bytes.
plans()
{
	# shellcheck disable=SC2086 # words are meant to be split
	run pair $pair --epochs 1 --manager native,weir,weir+near,weir+near-copy --near gpu1:30%
	looked pair gpu1 copies
	has "$dir/pair.json" '"manager":"weir\+near",.*"passed":true' \
		'"manager":"weir\+near-copy",.*"passed":true' '"near_bytes_per_s":null'
	has "$dir/pair.out" '^manager +near ' '^weir\+near +[0-9.]+ [MG]i?B ' '^GB by link' \
		'weir\+near +gpu1->gpu0 +[0-9]' '^weir +- '
	# shellcheck disable=SC2086
	run again $pair --epochs 1 --manager native,weir,weir+near,weir+near-copy --near gpu1:30% \
		--timeline "$dir/trace" --timeline-all
	cmp "$dir/pair.json" "$dir/again.json" || fail "JSON differs between two runs"
	cmp "$dir/pair.out" "$dir/again.out" || fail "the table differs between two runs"
	# shellcheck disable=SC2086
	run rate $pair --epochs 3 --manager weir+near --near gpu1:1MiB --near-rate 1.5GB/s --oracle
	has "$dir/rate.json" '"near_budget_bytes":\{"gpu1":1048576\},"near_bytes_per_s":1.5e\+09,' \
		'--near gpu1:1MiB --near-rate 1.5GB/s'
	has "$dir/rate.out" ' from host +its MIN'
	looked rate gpu1
	run sizes --machine h200x4 --nodes "200k${WEIR_TEST_LONG:+,500k}" --gpu-budget 2GB \
		--near gpu2:500MB --oracle --manager native,weir,weir+near-copy,weir+near
	looked sizes gpu2
}

plans
# shellcheck disable=SC2086
run second $pair --epochs 1 --device 1 --manager weir+near --near gpu0:1MiB
has "$dir/second.json" '"near_budget_bytes":\{"gpu0":1048576\}.*"passed":true'
echo "ok - two GPUs, real bytes: the losses are those of native"

# shellcheck disable=SC2086
run four --machine h200x4 $small --epochs 1 --check --block-size 2MiB --gpu-budget 50% \
	--manager native,weir,weir+near,weir+near-copy --near gpu1:6MiB,gpu2:40%,gpu3:4MiB
looked four gpu1
echo "ok - four GPUs"

# Beside the share of the table there is room for what others have next to it.
for case in 'gups --updates 25k --bytes 8MiB' 'pagein --access write --bytes 8MiB' \
	'mvt --size 128x16384'; do
	# shellcheck disable=SC2086
	"$WEIR" bench $case --machine "$dir/two.json" --manager native,weir,weir+near --epochs 1 \
		--gpu-budget 25% --check --near gpu1:60% --json "$dir/pass.json" >"$dir/pass.out" \
		2>"$dir/pass.err" || fail "bench $case" "$dir/pass.err"
	has "$dir/pass.json" '"manager":"weir",.*"gpu1":0}.*"passed":true' \
		'"manager":"weir\+near",.*"gpu1->gpu0".*"peak_bytes":\{[^}]*"gpu1":[1-9][0-9]*\}.*"near_budget_bytes":\{"gpu1":5033164\}.*"passed":true'
	python3 - "$dir/pass.json" <<'END' >"$dir/look.out" 2>&1 || fail "bench $case" "$dir/look.out"
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    result = {r["manager"]: r for r in map(json.loads, file)}
weir, near = result["weir"], result["weir+near"]
assert 0 < near["bound_s"] <= min(near["epoch_s"]), near["bound_s"]
assert near["bound_s"] <= weir["bound_s"], (near["bound_s"], weir["bound_s"])
END
done
echo "ok - workloads that make passes"

# paged BUDGET ARGS...: half of what is paged is at gpu1, and BUDGET bytes may be; the results are
# right, pages come over both links, and what lies at the neighbour is within the budget.
paged()
{
	budget=$1
	shift
	"$WEIR" bench "$@" --json "$dir/paged.json" >"$dir/paged.out" 2>"$dir/paged.err" ||
		fail "bench $*" "$dir/paged.err"
	python3 - "$dir/paged.json" "$budget" <<'END' >"$dir/look.out" 2>&1 || fail "$*" "$dir/look.out"
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    results = [json.loads(line) for line in file]
assert results
for r in results:
    who = (r["workload"], r["manager"])
    near = "+near" in r["manager"]
    assert r["status"] == "ok" and r["check"]["passed"], who
    assert r.get("near_budget_bytes", {}) == ({"gpu1": int(sys.argv[2])} if near else {}), who
    peak = r["peak_bytes"]["gpu1"]
    if not near:
        assert peak == 0 and "gpu1->gpu0" not in r["bytes"], who
        continue
    assert 0 < peak <= int(sys.argv[2]), (who, peak)
    assert (r["bound_s"] is None) == (r["workload"] == "pagerank"), who
    assert "real_gpu" in r or 0 < (r["bound_s"] or 1e-12) <= min(r["epoch_s"]), (who, r["bound_s"])
    crossed = {way: sum(causes.values()) for way, causes in r["bytes"].items()}
    assert crossed["gpu1->gpu0"] > 0, (who, crossed)
    if not r["manager"].startswith("zerocopy"):
        both = crossed["gpu1->gpu0"] + crossed["host->gpu0"]
        assert 0.4 < crossed["gpu1->gpu0"] / both < 0.6, (who, crossed)
END
}

all=weir-paged,weir-paged+near,weir-paged+page+near,weir-paged+fill+near,weir-paged+auto+near
two="--machine $dir/two.json --epochs 1 --check --gpu-budget 25%"
# shellcheck disable=SC2086
paged 2097152 pagein $two --bytes 4MiB --access both --near gpu1:50% --manager $all
# shellcheck disable=SC2086
paged 2097152 gups $two --bytes 4MiB --updates 25k --near gpu1:2MiB --manager $all
# shellcheck disable=SC2086
paged 2097152 mvt $two --size 64x16384 --near gpu1:50% --manager $all
# shellcheck disable=SC2086
paged 2097152 pagerank $two --kron 15 --near gpu1:2MiB --iterations 3 --manager weir-paged+near
# shellcheck disable=SC2086
paged 25165824 pagein $two --bytes 16MiB --near gpu1:24MiB --manager zerocopy+near
cp "$dir/paged.json" "$dir/again.paged"
# shellcheck disable=SC2086
paged 25165824 pagein $two --bytes 16MiB --near gpu1:24MiB --manager zerocopy+near
cmp "$dir/paged.json" "$dir/again.paged" || fail "JSON differs between two runs"
echo "ok - pages at a neighbour"

# The results of plans() and the timeline of its second run, as pages.
reports()
{
	"$WEIR" report "$dir/sizes.json" -o "$dir/sizes.html" >"$dir/out" 2>"$dir/err" ||
		fail "report" "$dir/err"
	python3 "$SOURCE_DIR/tests/integration/report_page.py" "$dir/sizes.html" "$dir/sizes.json" \
		>"$dir/page.out" 2>&1 || fail "the page is not as it should be" "$dir/page.out"
	has "$dir/sizes.html" '<th scope="col">other GPUs.+ memory</th>' '<td>500 MB</td>' \
		'gpu2 → gpu0' '<dt>.*weir\+near-copy</dt>'
	echo "ok - a report of several memories"

	# Of a run on real bytes, above.
	python3 "$SOURCE_DIR/tests/integration/timeline_check.py" --whole "$dir/trace" "$dir/again.json" \
		>"$dir/check.out" 2>&1 || fail "the timeline is not as it should be" "$dir/check.out"
	has "$dir/trace" '"near_budget_bytes":\{"gpu1":[0-9]+\}' '"name":"bytes in gpu1 by name"' \
		'"resident bytes".*"gpu1":[1-9]' '"copy between GPUs".*"between":[1-9]' \
		'"near_read":[1-9]' '"link gpu0-gpu1 bytes/s".*"gpu1->gpu0":[1-9]'
	"$WEIR" report "$dir/again.json" --timeline "$dir/trace" -o "$dir/drawn.html" >"$dir/out" \
		2>"$dir/err" || fail "report of a timeline" "$dir/err"
	echo "ok - a timeline of several memories"
}

reports

"$WEIR" info --machine h200x4 >"$dir/info.out" || fail "info"
has "$dir/info.out" '^link gpu0 \(a\) - gpu1 \(b\)' '^link gpu2 \(a\) - gpu3 \(b\)'
echo "ok - info shows links between GPUs"

# ------------------------------------------------------------------ CUDA, without a GPU

mkdir "$dir/driver"
ln -s "$FAKECUDA" "$dir/driver/libcuda.so.1"
WEIR_CUDA_KERNELS=$(dirname "$FAKECUDA")/libweir-gcn-fake.so
export LD_LIBRARY_PATH="$dir/driver" WEIR_CUDA_KERNELS FAKECUDA_HBM_BYTES=67108864
cuda="--machine cuda --nodes 500 --slice 4k --epochs 1 --hidden 64 --gpu-budget 2MB"
# shellcheck disable=SC2086
FAKECUDA_DEVICES=2 run cuda $cuda --check --manager native,weir,weir+near,weir+near-copy \
	--near gpu1:6MiB
looked cuda gpu1
# shellcheck disable=SC2086
FAKECUDA_DEVICES=3 run debug $cuda --check --debug --manager weir+near --near gpu1:2MiB,gpu2:50%
looked debug gpu1
export FAKECUDA_DEVICES=2
WEIR_TOUCH_KERNELS=$(dirname "$FAKECUDA")/libweir-touch-fake.so
WEIR_MATRIX_KERNELS=$(dirname "$FAKECUDA")/libweir-matrix-fake.so
export WEIR_TOUCH_KERNELS WEIR_MATRIX_KERNELS
two="--machine cuda --epochs 1 --check --gpu-budget 25%"
# shellcheck disable=SC2086
paged 524288 pagein $two --bytes 1MiB --access both --near gpu1:50% \
	--manager weir-paged,weir-paged+near,weir-paged+fill+near
# shellcheck disable=SC2086
paged 524288 mvt $two --size 64x4096 --near gpu1:50% --manager weir-paged+near,weir-paged+page+near
# shellcheck disable=SC2086
paged 4194304 pagein $two --bytes 1MiB --near gpu1:4MiB --manager zerocopy+near
# shellcheck disable=SC2086
"$WEIR" bench pagein $two --bytes 1MiB --near gpu1:4MiB --manager uvm+near --json "$dir/uvm.json" \
	>"$dir/uvm.out" 2>&1 || fail "uvm+near" "$dir/uvm.out"
has "$dir/uvm.json" '"manager":"uvm\+near",.*"near_budget_bytes":\{"gpu1":4194304\}.*"passed":true'
# shellcheck disable=SC2086
refused "beyond what is free of memory 'gpu1', 64 MiB" gcn $cuda --manager weir+near \
	--near gpu1:66MiB
# shellcheck disable=SC2086
refused "no such memory; choose from gpu1$" gcn $cuda --manager weir+near --near gpu2:6MiB
export FAKECUDA_DEVICES=1
# shellcheck disable=SC2086
refused "machine 'cuda' has one GPU" gcn $cuda --manager weir+near --near gpu1:6MiB
echo "ok - on the CUDA backend"
