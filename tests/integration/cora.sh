#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A graph network that does not fit its GPU learns what it would learn otherwise: Cora at 30 % of
# the memory it needs, mean test accuracy over seeds at least 80.5 %; and a generated graph whose
# classes are planted, at least 95 % (one seed; three with WEIR_TEST_LONG). Cora is not part of weir:
# WEIR_CORA_DIR is its folder (nodes.txt and edges.txt), WEIR_CORA_SEEDS how many seeds are run (none;
# the figure to compare with published ones is of 10). Without it only the planted graph is trained on.
# Each seed of Cora takes 16 s of a processor: 200 epochs, and as many of native to compare with.
# Needs WEIR, SOURCE_DIR and CC. Prints a line a test.
#
# Labels: slow
# Timeout: 300
# Long: WEIR_CORA_SEEDS=10
set -u

: "${WEIR:?is the program to test}" "${SOURCE_DIR:?is the source tree}" "${CC:=cc}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cora=${WEIR_CORA_DIR:-$SOURCE_DIR/../shared/data/cora}
seeds=${WEIR_CORA_SEEDS:-0}

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

fail()
{
	echo "not ok - $1"
	for file in "$dir"/err "$dir"/out "$dir"/*.json; do
		[ -f "$file" ] && sed 's|^|# |' "$file"
	done
	exit 1
}

# bytes FILE DIRECTION CAUSE
bytes()
{
	sed "s/.*\"$2\":{\([^}]*\)}.*/\1/; s/.*\"$3\":\([0-9]*\).*/\1/" "$1"
}

# train NAME GRAPH SEEDS LEAST: mean accuracy of weir at 30 %, losses as native's, bytes moved.
train()
{
	sum=0
	seed=1
	while [ "$seed" -le "$3" ]; do
		file=$dir/$1.$seed.json
		"$WEIR" bench gcn --graph "$2" --machine laptop --manager weir --gpu-budget 30% \
			--seed "$seed" --json "$file" >"$dir/out" 2>"$dir/err" ||
			fail "$1, seed $seed: exit status $?"
		grep -q '"status":"ok".*"passed":true' "$file" ||
			fail "$1, seed $seed: no result, or losses unlike native's"
		[ "$(bytes "$file" 'gpu0->host' eviction)" -gt 1000000 ] ||
			fail "$1, seed $seed: nothing was evicted"
		accuracy=$(grep -o '"test_accuracy":[0-9.]*' "$file" | cut -d: -f2)
		echo "# $1, seed $seed: test accuracy $accuracy"
		sum=$(echo "$sum $accuracy" | awk '{ printf "%.6f", $1 + $2 }')
		seed=$((seed + 1))
	done
	mean=$(echo "$sum $3" | awk '{ printf "%.4f", $1 / $2 }')
	echo "$mean $4" | awk '{ exit !($1 >= $2) }' ||
		fail "$1: mean test accuracy $mean, not at least $4"
	echo "ok - $1: mean test accuracy $mean over $3 seeds, at least $4 wanted"
}

cat >"$dir/planted.c" <<'END'
#include "tests/unit/test_gcn_planted.h"

int main(int argc, char **argv)
{
	uint64_t state = 15;

	return argc != 3 || planted_nodes(argv[1], 600, &state) ||
	       planted_edges(argv[2], 600, &state);
}
END
mkdir "$dir/planted" || exit 1
"$CC" -D_GNU_SOURCE -I"$SOURCE_DIR" -o "$dir/plant" "$dir/planted.c" 2>"$dir/err" ||
	fail "the generator of the planted graph does not compile"
"$dir/plant" "$dir/planted/nodes.txt" "$dir/planted/edges.txt" ||
	fail "the planted graph cannot be written"
planted=1
[ -z "${WEIR_TEST_LONG-}" ] || planted=3
train planted "$dir/planted" "$planted" 0.95

if [ "$seeds" -eq 0 ]; then
	echo "ok - cora # skipped: WEIR_CORA_SEEDS is not set"
elif [ -f "$cora/nodes.txt" ] && [ -f "$cora/edges.txt" ]; then
	train cora "$cora" "$seeds" 0.805
else
	echo "ok - cora # skipped: WEIR_CORA_DIR is not set"
fi
