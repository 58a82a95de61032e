#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `weir trace` from the outside: a run of the benchmark that is traced has the results of one that is
# not; what info, show, convert, cut and replay make of its trace; and what they refuse. Needs WEIR,
# SOURCE_DIR and python3. Prints a line a test.
#
# Labels: sanitized-only
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"
cd "$dir" || exit 1

set -- --nodes 50k --gpu-budget 50% --block-size 2MiB --manager weir --epochs 2
run plain "$@"
export WEIR_TRACE="$dir/gcn.trace"
run traced "$@"
unset WEIR_TRACE
cmp plain.json traced.json || fail "a trace changes results"
echo "ok - results as without a trace"

# trace ARGS...: `weir trace` into out; the status must be 0, and nothing on standard error.
trace()
{
	if ! "$WEIR" trace "$@" >out 2>err || [ -s err ]; then
		fail "trace $* exits with $?" out err
	fi
}

for command in "" info show convert cut; do
	# shellcheck disable=SC2086 # one word or none
	trace $command --help
	has out '^usage: weir trace'
done
trace info gcn.trace
has out '^machine +rtx5090$' '^mode +planned$' '^marks +9$' '^recording +ended as it should$' \
	'^kernels +zero$' '^plans made +[1-9]'
trace info --json gcn.trace
cp out info.json
trace show gcn.trace
cp out show
trace show gcn.trace --from 'epoch 3' --to 'epoch 4'
has out '^ *[0-9.]+ us mark +epoch 3$' '^ *[0-9.]+ us end +stream 0 bracket [0-9]+, scatter_add' \
	'^ +read life [0-9]+ \[0, [0-9]+\) random of [0-9]+, reads'
! grep -q 'mark *epoch 4' out || fail "--to is not left out" out
trace convert gcn.trace --csv gcn.csv --timeline gcn.json
trace convert gcn.trace --csv -
cmp out gcn.csv || fail "- is not standard output"
python3 - <<'END' || fail "what traces are converted to does not fit together"
import csv, json

info = json.load(open("info.json"))
rows = list(csv.DictReader(open("gcn.csv")))
kinds = {}
for row in rows:
    assert None not in row and None not in row.values()
    kinds[row["kind"]] = kinds.get(row["kind"], 0) + 1
for kind in ("alloc", "free", "begin", "end", "move", "time", "mark", "plan", "write"):
    assert kinds[kind] == info["events"][kind], kind
assert kinds["end"] == info["brackets"] and info["ended"] and info["machine"] == "rtx5090"
assert sum(int(row["nr"]) for row in rows if row["kind"] == "begin") == kinds["use"]
assert sum(info["moves"].values()) == kinds["move"] > 0

events = json.load(open("gcn.json"))["traceEvents"]
spans = [event for event in events if event["ph"] == "X"]
named = {event["name"] for event in spans}
assert {"epoch 1", "epoch 4", "gather", "copy in", "copy out", "begin"} <= named
blocks = sum(event["args"]["pieces"] for event in spans if event["name"].startswith("copy"))
assert blocks == kinds["move"]
budget = info["budget_bytes"]["gpu0"]
resident = [event["args"]["gpu0"] for event in events
            if event["ph"] == "C" and event["name"] == "resident bytes"]
assert 0 <= min(resident) and budget * 0.9 < max(resident) <= budget
END
echo "ok - info, show, tables and timelines"

trace cut gcn.trace whole.trace
trace show whole.trace
cmp out show || fail "a trace that was cut nowhere differs"
trace cut gcn.trace part.trace --from 'epoch 3' --to 'epoch 4'
trace cut part.trace again.trace
trace show gcn.trace --from 'epoch 3' --to 'epoch 4'
grep -c ' end ' out >want
trace show part.trace
grep -c ' end ' out >got
cmp want got || fail "a part has other brackets" out
trace info part.trace
has out '^marks +3$' '^recording +ended as it should$'
trace show part.trace --from 'epoch 4'
has out '^ *[0-9.]+ us mark +epoch 4$'
[ "$(wc -l <out)" -eq 2 ] || fail "more behind the mark of --to than a stop" out
trace cut gcn.trace one.trace --from end
trace convert part.trace --timeline part.json --csv part.csv
echo "ok - parts"

# refused COMMAND PATTERN ARGS...: status 2, and one line of error that fits.
refused()
{
	above=$1 pattern=$2
	shift 2
	"$WEIR" "$above" "$@" >out 2>err
	status=$?
	[ $status -eq 2 ] || fail "$above $* exits with $status, not 2" err
	[ "$(wc -l <err)" -eq 1 ] || fail "$above $*: not one line" err
	has err "$pattern"
}

size=$(wc -c <part.trace)
head -c $((size - 4096)) part.trace >short.trace
head -c 5000 part.trace >shorter.trace
cp part.trace flipped.trace
# Another byte than the one that is there.
byte=$(od -An -tu1 -j9999 -N1 part.trace)
# shellcheck disable=SC2059 # an octal number
printf "\\$(printf '%03o' $((byte ^ 255)))" | dd of=flipped.trace bs=1 seek=9999 conv=notrunc 2>dd.err
cp part.trace newer.trace
printf '\011' | dd of=newer.trace bs=1 seek=8 conv=notrunc 2>dd.err
echo "weir" >text
for command in info show "convert --csv -" "cut o.trace"; do
	# shellcheck disable=SC2086 # a command with its options
	set -- $command
	name=$1
	shift
	refused trace '^weir: short.trace: the trace is cut off: [0-9]+ bytes of [0-9]+$' "$name" short.trace "$@"
	refused trace '^weir: shorter.trace: the trace is cut off' "$name" shorter.trace "$@"
	refused trace '^weir: flipped.trace: the trace is damaged at byte 4096: ' "$name" flipped.trace "$@"
	refused trace '^weir: newer.trace: the trace is damaged at byte 0: ' "$name" newer.trace "$@"
	refused trace '^weir: text: this is no trace$' "$name" text "$@"
	refused trace '^weir: nowhere: No such file' "$name" nowhere "$@"
	refused trace '^weir: .*weir trace [a-z]+ --help$' "$name"
done
[ ! -e o.trace ] || fail "an output of a damaged trace"
refused trace 'no mark .epoch 9. in the trace' show part.trace --from 'epoch 9'
refused trace 'it is there, and no trace' cut part.trace text
refused trace 'an input of this command' cut part.trace part.trace
refused trace 'nothing to write' convert part.trace
refused trace 'did you mean info' inf part.trace
echo "ok - what is damaged, and what is not meant, is refused"

# weir replay: on the machine that recorded each manager's epochs are those of the benchmark, to the
# nanosecond.
set -- --gpu-budget 50% --nodes 50k --block-size 2MiB --epochs 2
run managers "$@" --manager weir,zerocopy,uvm
"$WEIR" replay gcn.trace --manager weir,zerocopy,uvm --json replayed.json >out 2>err ||
	fail "replay exits with $?" err
has out '^GPU budget +manager +epoch s +bound s +distance$' ' zerocopy '
"$WEIR" replay gcn.trace --no-think --gpu-budget 25%,50%,200% --warm-up 1 --machine h200 \
	--manager native,weir --json other.json >out 2>err || fail "replay exits with $?" err
python3 - <<'END' || fail "what is replayed is not what was"
import json

def read(name):
    return [json.loads(line) for line in open(name)]

pairs = list(zip(read("managers.json"), read("replayed.json")))
assert len(pairs) == 3
for bench, replay in pairs:
    assert bench["manager"] == replay["manager"] and replay["workload"] == "replay"
    assert len(replay["epoch_s"]) == 2
    for a, b in zip(bench["epoch_s"], replay["epoch_s"]):
        assert abs(a - b) < 1e-9, (bench["manager"], a, b)
    assert 0 < replay["bound_s"] < replay["epoch_median_s"]
other = read("other.json")
assert [r["status"] for r in other] == ["out-of-memory", "ok"] * 2 + ["ok"] * 2
assert other[1]["epoch_median_s"] >= other[3]["epoch_median_s"] >= other[5]["epoch_median_s"]
assert other[0]["machine"] == "h200" and len(other[5]["epoch_s"]) == 3
assert other[0]["parameters"]["think"] is False
END
echo "ok - a trace under other managers, budgets and machines"

# as_bench NAME MANAGERS REPLAY_OPTION -- WORKLOAD ARGS...: record under weir, run the benchmark with
# the managers, and replay: the same epochs.
as_bench()
{
	name=$1 managers=$2 option=$3
	shift 4
	WEIR_TRACE="$dir/$name.trace" "$WEIR" bench "$@" --manager weir >out 2>err ||
		fail "bench $* exits with $?" err
	"$WEIR" bench "$@" --manager "$managers" --json "$name.json" >out 2>err ||
		fail "bench $* exits with $?" err
	"$WEIR" replay "$name.trace" --warm-up 1 "$option" --manager "$managers" \
		--json "$name-replayed.json" >out 2>err || fail "replay of $name exits with $?" err
	for file in "$name" "$name-replayed"; do
		"$SOURCE_DIR/tools/json-fields" manager status epoch_s <"$file.json" >"$file.epochs"
	done
	cmp "$name.epochs" "$name-replayed.epochs" ||
		fail "$name replayed is another" "$name.epochs" "$name-replayed.epochs"
}

as_bench pagein native,malloc,zerocopy,uvm,weir --cold -- pagein --machine rtx5090 --bytes 32MiB \
	--gpu-budget 50% --epochs 2 --data phantom
as_bench warm uvm,weir --no-advice -- pagein --machine rtx5090 --bytes 32MiB --gpu-budget 50% \
	--epochs 2 --data phantom --warm
as_bench devices weir --no-advice -- mvt --machine h200x4 --size 4096 --epochs 2 --data phantom \
	--devices 2
echo "ok - cold and warm passes, several devices"

# The oracle: what a replay copies is held against MIN as what the benchmark does, and looking changes
# nothing. Half of the memory is too little for one launch's blocks, all of it is enough.
run looked --nodes 50k --gpu-budget 50% --block-size 2MiB --epochs 2 --manager weir --oracle
"$WEIR" replay gcn.trace --oracle --manager weir,uvm --json looked-replayed.json >out 2>err ||
	fail "replay --oracle exits with $?" err
has out 'over MIN$' ' weir .* (-|[0-9.]+)$' ' uvm .* -$' # weir: the least may be none
[ "$(wc -l <err)" -eq 1 ] || fail "not one line of the oracle's" err
has err '^weir: --oracle, uvm: a launch needs more blocks than .*there is no least number of copies$'
"$WEIR" replay gcn.trace --oracle --manager uvm --gpu-budget 95% --json enough.json >out 2>err ||
	fail "replay --oracle exits with $?" err
has out ' uvm .* [0-9.]+$'
python3 - <<'END' || fail "the oracle of a replay is another one"
import json

def read(name):
    return [json.loads(line) for line in open(name)]

bench, replay = read("looked.json")[0], read("looked-replayed.json")
assert bench["oracle"] == replay[0]["oracle"] and bench["oracle"]["copy_ins"] > 0
assert replay[1]["oracle"] is None and replay[1]["status"] == "ok"
plain = read("replayed.json")
assert [r["epoch_s"] for r in replay] == [plain[0]["epoch_s"], plain[2]["epoch_s"]]
enough = read("enough.json")[0]["oracle"]
assert enough["block_bytes"] == 2 << 20 and enough["copy_ins"] >= enough["min_copy_ins"] > 0
END
# Setting up is among these epochs: they are replayed all the same.
trace cut gcn.trace setup.trace --from 'epoch 1' --to 'epoch 3'
"$WEIR" replay setup.trace --oracle --manager weir --gpu-budget 60% >out 2>err ||
	fail "a replay without a least number exits with $?" err
[ "$(wc -l <err)" -eq 1 ] || fail "not one line of the oracle's" err
has err '^weir: --oracle, weir: the epochs do not end with the allocations that they began with$'
has out ' weir +[0-9.]+ .* -$'
echo "ok - a replay against the oracle"

refused replay '^weir: flipped.trace: the trace is damaged' flipped.trace
refused replay 'fewer than two marks' one.trace
refused replay 'no kernels that could run' gcn.trace --machine cuda
refused replay 'takes one trace' gcn.trace part.trace
refused replay "^weir: --manager 'weir-paged'" gcn.trace --manager weir-paged
refused replay '^weir: --gpu-budget: ' gcn.trace --gpu-budget 1TB
refused replay '^weir: --warm-up' gcn.trace --warm-up 4
refused replay "^weir: --manager 'weir,uvm'" devices.trace --manager weir,uvm
refused replay 'oracle is for traces of one device' devices.trace --oracle
refused replay 'has brackets of 2 devices' devices.trace --machine rtx5090
"$WEIR" replay --help >out || fail "replay --help"
has out '^usage: weir replay'
! grep -q -- '--debug' out || fail "an option that is not there" out
echo "ok - what cannot be replayed is refused"
