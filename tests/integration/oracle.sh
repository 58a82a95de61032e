#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench --oracle`: copies in are never fewer than MIN's, and at the size and budget that weir
# is measured at hardly more; looking changes nothing. Needs WEIR, the program, and SOURCE_DIR, the
# source tree. Prints a line a test.
#
# Takes 9 s of a processor: the goal is one at 15M nodes.
#
# Labels: slow
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

fail()
{
	echo "not ok - $1"
	cat "$dir/out" "$dir/err" 2>/dev/null | sed 's|^|# |'
	exit 1
}

# run NAME ARGS...: bench into $dir/NAME.json and $dir/out.
run()
{
	name=$1
	shift
	"$WEIR" bench gcn "$@" --json "$dir/$name.json" >"$dir/out" 2>"$dir/err" ||
		fail "bench gcn $* exits with $?"
}

# within NAME MOST [LEAST]: in each result copy-ins are LEAST to MOST times MIN's. LEAST is 1, or a
# little below for runs that are not steady yet: docs/oracle.md.
within()
{
	"$SOURCE_DIR/tools/json-fields" parameters.nodes oracle.copy_ins oracle.min_copy_ins \
		oracle.exact <"$dir/$1.json" >"$dir/fields" || fail "$1: no JSON"
	awk -F '\t' -v most="$2" -v least="${3:-1}" '
	$2 + 0 < least * $3 || $2 + 0 > most * $3 || !($3 + 0 > 0) || $4 != "true" { bad = 1 }
	{ printf "# %s nodes: %s copies in an epoch, MIN %s\n", $1, $2, $3 }
	END { exit bad || !NR }' "$dir/fields" || fail "$1: not within $2 of MIN"
}

run goal --machine rtx5090 --gpu-budget 33.67GB --nodes 15M --manager weir --oracle
within goal 1.1
grep -q 'copy-ins .*over MIN' "$dir/out" || fail "no table of the oracle"
echo "ok - 15M nodes: at most 10 % above MIN"

run more --machine h200 --gpu-budget 16.8GB --nodes 6M,10M --manager native,weir --oracle \
	--epochs 3
grep -c '"manager":"native".*"oracle":null' "$dir/more.json" | grep -q '^2$' ||
	fail "native has an oracle"
grep '"manager":"weir"' "$dir/more.json" >"$dir/weir.json"
within weir 2 0.94
echo "ok - sizes beside each other, managers that move nothing"

# Parts that come and go are copied in each loop, where the link would be idle.
for budget in 80% 50% 25%; do
	run part --machine h200 --gpu-budget $budget --nodes 5M --manager weir --oracle --epochs 4
	within part 2.2
done
echo "ok - budgets"

# The last of these again.
run plain --machine h200 --gpu-budget 25% --nodes 5M --manager weir --epochs 4
sed 's|"oracle":{[^}]*}|"oracle":null|; s| --oracle"|"|' "$dir/part.json" >"$dir/without.json"
cmp -s "$dir/plain.json" "$dir/without.json" || fail "a run that is looked at is another run"
grep -q 'over MIN' "$dir/out" && fail "a table of the oracle without --oracle"
echo "ok - looking changes nothing"

for wrong in "--manager native,zerocopy" "--graph $dir/graph --epochs 2"; do
	mkdir -p "$dir/graph"
	printf 'train 0 1 0\ntrain 1 1 1\ntest 0 1 0\n' >"$dir/graph/nodes.txt"
	printf '0 1\n1 2\n' >"$dir/graph/edges.txt"
	# shellcheck disable=SC2086 # words are meant to be split
	"$WEIR" bench gcn --oracle $wrong >"$dir/out" 2>"$dir/err"
	[ $? -eq 2 ] || fail "--oracle $wrong is not refused"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "more than a line about $wrong"
	grep -q -- '--oracle' "$dir/err" || fail "the culprit is not named"
done
run graph --graph "$dir/graph" --epochs 3 --manager weir --oracle
grep -q '"oracle":{"epochs":1,' "$dir/graph.json" || fail "no oracle of a graph"
echo "ok - what it cannot look at is refused"
