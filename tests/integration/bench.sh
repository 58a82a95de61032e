#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `weir bench gcn` as its users run it: tables, JSON lines, the same output twice, checked losses.
# Needs WEIR, the program, and SOURCE_DIR, the source tree. Prints a line a test.
#
# Takes 11 s of a processor: each option of the command is a run.
#
# Labels: sanitized-only
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

lines()
{
	[ "$(wc -l <"$1")" -eq "$2" ] || fail "$1 has not $2 lines" "$1"
}

run plain --nodes 1M,8M --manager native,malloc,zerocopy
lines "$dir/plain.json" 6
[ -s "$dir/plain.err" ] && fail "a pipe is not silent" "$dir/plain.err"
(
	unset WEIR_MACHINE
	WEIR_CUDA_KERNELS=/none run default --nodes 10k --manager native
) || exit 1
lines "$dir/default.err" 1
has "$dir/default.err" '^weir: no GPU to run on: .*; simulating rtx5090$'
has "$dir/plain.out" '1M .*native' '8M .*native +out-of-memory' '8M .*malloc +out-of-memory' \
	'8M .*zerocopy +[0-9]'
has "$dir/plain.json" '"manager":"native".*"status":"ok"' \
	'"nodes":8000000.*"manager":"native".*"status":"out-of-memory","epoch_s":\[\]' \
	'^\{"schema":"weir-result-1","command":"weir bench gcn --machine rtx5090 --manager native,malloc,zerocopy --nodes 1M,8M","workload":"gcn","parameters":\{' \
	'"host->gpu0":\{"demand":0,"prefetch":0,"eviction":0,"write-back":0,"in-place":[1-9]' \
	'"budget_bytes":33670000000,' '"check":\{"loss":\[null,null,null,null\]'
[ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' "$dir/plain.out")" -le 80 ] ||
	fail "a table is wider than 80 columns" "$dir/plain.out"
COLUMNS=120 "$WEIR" bench gcn --manager native >"$dir/wide.out" || fail "bench gcn exits with $?"
has "$dir/wide.out" '^nodes  GPU budget  manager .* distance  check$'
echo "ok - plain managers, sizes that fit and that do not"

# Larger sizes are no other code: under a sanitizer the small ones are enough.
sizes="100k 1M" small="--nodes 4000 --slice 10000 --seed 7"
if [ -z "${WEIR_SANITIZE-}" ]; then
	run again --nodes 1M,8M --manager native,malloc,zerocopy
	cmp -s "$dir/plain.json" "$dir/again.json" || fail "JSON differs between two runs"
	cmp -s "$dir/plain.out" "$dir/again.out" || fail "the table differs between two runs"
	echo "ok - two runs give the same bytes"
else
	sizes=100k small="--nodes 2000 --slice 5000 --seed 7"
fi

"$WEIR" bench gcn --nodes 1M --manager native --json - >"$dir/stdout" 2>"$dir/stderr" ||
	fail "--json - fails" "$dir/stderr"
lines "$dir/stdout" 1
has "$dir/stdout" '^\{.*\}$'
has "$dir/stderr" '^nodes: 1M' '^native  *[0-9]'
echo "ok - JSON on standard output, the table beside it"

# shellcheck disable=SC2086 # words are meant to be split
run small $small --data real --manager native,zerocopy --epochs 1
has "$dir/small.json" '"manager":"native".*"loss":\[2\.[0-9]*,.*"passed":true' \
	'"manager":"zerocopy".*"passed":true'
has "$dir/small.out" 'zerocopy .* same '
echo "ok - real data: losses are compared, and the same"

# shellcheck disable=SC2086
run capped $small --check --manager native,malloc,zerocopy,weir --epochs 1 --gpu-budget 50% \
	--verbose
has "$dir/capped.json" '"manager":"native".*"status":"out-of-memory"' \
	'"manager":"malloc".*"status":"out-of-memory"' '"manager":"zerocopy".*"passed":true' \
	'"manager":"weir".*"status":"ok".*"passed":true'
has "$dir/capped.out" 'GB by cause' 'demand +prefetch +eviction +write-back +in-place'
echo "ok - half of what native needs: out of memory plainly, the same losses under weir"

# needs FILE MEMBER: a number of the first result.
needs()
{
	head -n 1 "$1" | sed "s/.*\"$2\":\([0-9]*\).*/\1/"
}

for nodes in $sizes; do
	run needs --nodes "$nodes" --manager native,malloc,weir --gpu-budget 100%
	[ "$(grep -c '"status":"ok"' "$dir/needs.json")" -eq 3 ] ||
		fail "all that native needs is too little for $nodes nodes" "$dir/needs.json"
	bytes=$(needs "$dir/needs.json" needs_bytes)
	live=$(needs "$dir/needs.json" live_peak_bytes)
	held=$(needs "$dir/needs.json" gpu0)
	if [ "$live" -ge "$held" ] || [ "$held" -gt "$bytes" ]; then
		fail "native has $live, holds $held, needs $bytes bytes" "$dir/needs.json"
	fi
	[ "$(grep -c "\"live_peak_bytes\":$live," "$dir/needs.json")" -eq 3 ] ||
		fail "what is live is not the same under all managers" "$dir/needs.json"
	run less --nodes "$nodes" --manager native --gpu-budget $((bytes - 2097152))
	has "$dir/less.json" '"status":"out-of-memory"'
done
echo "ok - 100% is what native needs, and the least"

one=$(grep -o '"loss":\[[^]]*\]' "$dir/small.json" | sort -u | wc -l)
[ "$one" -eq 1 ] || fail "losses differ between managers" "$dir/small.json"
echo "ok - one series of losses"

mkdir "$dir/graph"
awk 'BEGIN {
	for (i = 0; i < 40; i++)
		printf "%s %d 2 %d %d\n", i < 20 ? "train" : "test", i % 2, i % 2, 2 + i % 3
}' >"$dir/graph/nodes.txt"
awk 'BEGIN { for (i = 0; i + 2 < 40; i++) print i, i + 2 }' >"$dir/graph/edges.txt"
run graph --graph "$dir/graph" --hidden 8 --epochs 20 --manager native,zerocopy
has "$dir/graph.json" '"nodes":40,.*"hidden":8,"epochs":20,"warm_up":0' '"test_accuracy":[01]' \
	'"manager":"zerocopy".*"passed":true'
has "$dir/graph.out" 'accuracy'
echo "ok - a graph directory, every epoch listed"

# What takes minutes is said before it begins.
"$WEIR" bench gcn --nodes 20M --gpu-budget 33.67GB --manager uvm >"$dir/long.out" 2>"$dir/long.err" &
pid=$!
tries=0
until grep -q '^weir: uvm, 20M nodes: every page fault is simulated.* about 2 minutes' "$dir/long.err"; do
	tries=$((tries + 1))
	[ $tries -lt 200 ] || fail "no word of a long simulation" "$dir/long.err"
	sleep 0.1
done
kill $pid
wait $pid
run short --nodes "${sizes##* }" --manager uvm
[ -s "$dir/short.err" ] && fail "a short simulation is warned of" "$dir/short.err"
echo "ok - a warning before a simulation that takes minutes"

WEIR_MANAGER=native WEIR_NODES=3M run environment --epochs 1
lines "$dir/environment.json" 1
has "$dir/environment.json" '"command":"weir bench gcn --machine rtx5090 --manager native --nodes 3M --epochs 1"' \
	'"nodes":3000000.*"manager":"native"'
echo "ok - options from the environment"

ln -s "$dir/link.target" "$dir/link.json"
echo old >"$dir/link.target"
run link --nodes 1M --manager native
[ -L "$dir/link.json" ] || fail "a symbolic link was replaced"
has "$dir/link.target" '^\{'
find "$dir" -name '.*.tmp' | grep -q . && fail "a partial file is left"
echo "ok - the target of a link is replaced, nothing partial is left"
