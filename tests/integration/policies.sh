#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# weir bench --policy: policies that say what the driver does change no byte of a result; each
# manager runs with each policy, and results, tables and the report name both; what cannot be is
# refused in one line. Needs WEIR, the program. Prints a line a test.
#
# Labels: sanitized-only
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

fail() {
	echo "not ok - $1"
	exit 1
}

# Larger sizes are no other code: under a sanitizer a small one is enough.
nodes=400k
[ -z "${WEIR_SANITIZE-}" ] || nodes=50k

# gcn NAME OPTIONS...: a training run that takes a second, with its results in $dir/NAME.json.
gcn() {
	name=$1
	shift
	"$WEIR" bench gcn --machine rtx5090 --nodes "$nodes" --gpu-budget 60% "$@" \
		--json "$dir/$name.json" >"$dir/$name.out" 2>"$dir/$name.err" ||
		{ cat "$dir/$name.err"; fail "$name: failed"; }
}

# A result without what it is called and decided.
plain() {
	sed -E 's/"command":"[^"]*",//; s/"manager":"[^"]*",//; s/"policy":[^,]*//
		s/,"decisions":\{.*\}\},"status"/,"status"/' "$dir/$1.json"
}

# same NAME NAME: the two have one result.
same() {
	[ "$(plain "$1")" = "$(plain "$2")" ] || fail "$1 and $2 differ"
	echo "ok - $1 is $2"
}

gcn driver --manager uvm
gcn max --manager uvm+max
gcn tree --manager uvm --policy tree
gcn whole --manager uvm --policy whole
gcn fifo --manager uvm --policy fifo
gcn lru --manager uvm --policy lru
gcn recency --manager uvm --policy recency
same tree driver
same whole max
same fifo driver
# Nothing is admitted there: what is left of the rule is who was not used for longest.
same recency lru
[ "$(plain driver)" != "$(plain max)" ] || fail "uvm+max is uvm"

gcn two --manager uvm+prefetch,weir --policy lru --policy more:k=2
cp "$dir/two.json" "$dir/first.json"
cp "$dir/two.out" "$dir/first.out"
gcn two --manager uvm+prefetch,weir --policy lru --policy more:k=2
cmp -s "$dir/two.json" "$dir/first.json" || fail "another result, from the same run"
cmp -s "$dir/two.out" "$dir/first.out" || fail "another table, from the same run"
grep -o '"manager":"[^"]*"' "$dir/two.json" >"$dir/names"
cat >"$dir/want" <<'END'
"manager":"uvm+prefetch policy=lru"
"manager":"uvm+prefetch policy=more:k=2"
"manager":"weir policy=lru"
"manager":"weir policy=more:k=2"
END
cmp -s "$dir/names" "$dir/want" || { cat "$dir/names"; fail "other managers"; }
grep -q '"policy":"more:k=2","decisions":{.*"globals":{"k":2}}' "$dir/two.json" ||
	fail "no decisions in the result"
grep -q '^Decisions of policies' "$dir/two.out" || fail "no table of decisions"
grep -q -- '--policy lru --policy more:k=2' "$dir/two.json" || fail "another command"
"$WEIR" report "$dir/two.json" -o "$dir/page.html" >"$dir/out" 2>&1 ||
	{ cat "$dir/out"; fail "no page"; }
grep -q 'uvm+prefetch policy=more:k=2' "$dir/page.html" || fail "the page does not name them"
grep -q 'Decisions of policies' "$dir/page.html" || fail "the page has no decisions"
echo "ok - managers with policies"

# refuses WORDS OPTIONS...: one line that says so, and exit status 2.
refuses() {
	words=$1
	shift
	"$WEIR" bench "$@" --machine rtx5090 >"$dir/out" 2>&1
	[ $? -eq 2 ] || { cat "$dir/out"; fail "$*: was not refused"; }
	[ "$(grep -c '^weir: ' "$dir/out")" -eq 1 ] || { cat "$dir/out"; fail "$*: not one line"; }
	grep -q -- "$words" "$dir/out" || { cat "$dir/out"; fail "$*: does not say '$words'"; }
	echo "ok - $*: $words"
}

refuses "policy 'nobody': there is no built-in policy" gcn --manager uvm --policy nobody
refuses "has no tunable 'l'" gcn --manager uvm --policy more:l=1
refuses "native takes no decisions" gcn --policy lru
refuses "malloc takes no decisions" gcn --manager weir,malloc --policy lru
refuses "weir-paged takes no decisions" pagein --manager weir-paged --policy lru
refuses "no manager 'uvm policy=lru'" gcn --manager 'uvm policy=lru'
