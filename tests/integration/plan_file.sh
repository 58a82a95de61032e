#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench gcn --plan-input` and `--plan`: what a plan is made from is written, levels for it are
# followed, and files that are wrong or made for something else are refused, in one line each. Needs
# WEIR, SOURCE_DIR and python3.
#
# Labels: sanitized-only
set -euo pipefail

: "${SOURCE_DIR:?}"
weir=${WEIR:?the program}
# shellcheck source=tests/support/environment.sh
. "$SOURCE_DIR/tests/support/environment.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

case=(--machine h200 --hidden 64 --slice 10M --data phantom --epochs 4)

rest=(--nodes 1M --gpu-budget 50% --manager weir) # what some give otherwise

# bench STATUS ARGUMENT...
bench() {
	local want=$1 status=0
	shift
	"$weir" bench gcn "${case[@]}" "$@" "${rest[@]}" >"$dir/out" 2>"$dir/err" || status=$?
	[ "$status" = "$want" ] || fail "$* exits with $status" "$dir/out" "$dir/err"
}

# refused STATUS TEXT ARGUMENT...: one line, which has the text, and no file.
refused() {
	local status=$1 text=$2
	shift 2
	bench "$status" "$@"
	[ "$(wc -l <"$dir/err")" = 1 ] || fail "$*: not one line" "$dir/err"
	grep -qF -- "$text" "$dir/err" || fail "$*: no '$text'" "$dir/err"
}

bench 0 --plan-input "$dir/input" --json "$dir/own"

# Levels: nothing is ever resident; and one file for each thing that can be wrong.
python3 - "$dir" <<'END' || fail "what a plan is made from" "$dir/input"
import json, sys

folder = sys.argv[1]
with open(folder + "/input", encoding="utf-8") as file:
    given = json.load(file)
steps, lives = given["steps"], given["lives"]
assert given["schema"] == 1 and given["budget_blocks"] > 2, given["budget_blocks"]
assert all(use["life"] < len(lives) for step in steps for use in step["uses"])
assert all(step["compute_ns"] > 0 for step in steps)


def write(name, resident, **more):
    plan = {"schema": 1, "fingerprint": given["fingerprint"], "resident": resident}
    with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
        json.dump({**plan, **more}, file)


none = [[0] * len(steps) for _ in lives]
write("none", none)
write("schema", none, schema=2)
write("print", none, fingerprint="12")
write("other", none, fingerprint="0" * 16)
write("short", [row[1:] for row in none])
write("uneven", none[1:] + [[0]])
write("few", none[1:])
write("minus", none[1:] + [[-1] * len(steps)])
write("words", none[1:] + [["all"] * len(steps)])
write("empty", [])
END
bench 0 --plan "$dir/none" --json "$dir/followed"
python3 - "$dir/own" "$dir/followed" <<'END' || fail "levels were not followed" "$dir/followed"
import json, sys

own, followed = (json.loads(open(name, encoding="utf-8").readline()) for name in sys.argv[1:])
assert followed["status"] == "ok" and followed["bound_s"] == own["bound_s"]
assert followed["epoch_median_s"] > 1.5 * own["epoch_median_s"], followed["epoch_median_s"]
END
# The plan's input is the same with it.
bench 0 --plan "$dir/none" --plan-input "$dir/again"
python3 - "$dir/input" "$dir/again" <<'END' || fail "another fingerprint" "$dir/again"
import json, sys

one, two = (json.load(open(name, encoding="utf-8")) for name in sys.argv[1:])
assert one["fingerprint"] == two["fingerprint"] and one["lives"] == two["lives"]
END

# Malformed: nothing runs.
echo '{"schema":' >"$dir/cut"
refused 2 "--plan $dir/cut:" --plan "$dir/cut"
refused 2 "--plan $dir/absent:" --plan "$dir/absent"
refused 2 "no plan of schema 1" --plan "$dir/schema"
refused 2 "fingerprint" --plan "$dir/print"
refused 2 "different lengths" --plan "$dir/uneven"
refused 2 "no number of blocks" --plan "$dir/minus"
refused 2 "no number of blocks" --plan "$dir/words"
refused 2 "no list of lists" --plan "$dir/empty"

# Made for something else: a failed run.
refused 1 "the program repeats" --plan "$dir/short"
refused 1 "the program repeats" --plan "$dir/few"
refused 1 "other uses, sizes or another budget" --plan "$dir/other"
rest=(--nodes 1M --gpu-budget 60% --manager weir)
refused 1 "other uses, sizes or another budget" --plan "$dir/none"

# Not of one run of weir; an input that would be replaced; a run without a plan.
rest=(--nodes 1M --gpu-budget 50% --manager native)
refused 2 "--manager weir" --plan "$dir/none"
rest=(--nodes "1M,2M" --gpu-budget 50% --manager weir)
refused 2 "one size" --plan-input "$dir/never"
rest=(--nodes 1M --gpu-budget 50% --manager weir)
refused 2 "$dir/none" --plan "$dir/none" --plan-input "$dir/none"
WEIR_PLANS=0 refused 1 "no repetition was recognised" --plan-input "$dir/never"
[ ! -e "$dir/never" ] || fail "a file of nothing"
echo "plan_file: passed"
