#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# No run beats the lower bound that is printed beside it: every epoch of every manager, on machines
# and budgets from "all fits" to a quarter of what is needed, takes at least bound_s. Needs WEIR, the
# program. Prints a line a test. WEIR_TEST_LONG: more sizes.
#
# Takes 6 s of a processor: sizes at which plans and evictions are those of real runs.
#
# Labels: slow
# Long: yes
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# holds MACHINE BUDGET NODES MANAGERS: run them, compare every measured epoch with the bound.
holds() {
	if ! "$WEIR" bench gcn --machine "$1" --gpu-budget "$2" --nodes "$3" --manager "$4" \
		--epochs 3 --json "$dir/runs" >"$dir/out" 2>&1; then
		cat "$dir/out"
		echo "not ok - $1, $2: the runs failed"
		exit 1
	fi
	# One object a line; epoch_s is a list, bound_s a number or null.
	awk -v what="$1, $2, $3" '
	/"status": *"ok"/ {
		line = $0
		sub(/.*"bound_s": */, "", line)
		bound = line + 0
		line = $0
		sub(/.*"epoch_s": *\[/, "", line)
		sub(/\].*/, "", line)
		n = split(line, epoch, /, */)
		for (i = 1; i <= n; i++) {
			nr++
			# The last digit printed may be rounded.
			if (!(bound > 0) || epoch[i] * (1 + 1e-9) < bound) {
				print "not ok - " what ": an epoch of " epoch[i] " s, bound " bound " s"
				bad = 1
			}
		}
	}
	END {
		if (!nr)
			print "not ok - " what ": nothing ran"
		else if (!bad)
			print "ok - " what ": " nr " epochs at or above their bounds"
		exit bad || !nr
	}' "$dir/runs" || exit 1
}

plain=native,malloc,zerocopy,weir
holds rtx5090 16.8GB 500k,4M,7.5M $plain
holds rtx5090 25% 1M,4.5M $plain
holds h200 16.8GB 2.5M,6M $plain
holds laptop 60% 300k,1M $plain

driver=uvm,uvm+max,uvm+prefetch,uvm+prefetch+max
holds rtx5090 75% 1M $driver

if [ -n "${WEIR_TEST_LONG-}" ]; then
	holds rtx5090 33.67GB 1M,5M,8M,10M,13M,15M,16M,20M $plain
	holds rtx5090 25% 2M,5M,9M $plain
	holds h200 33.67GB 5M,12M,15M $plain
	holds laptop 60% 2M $plain
	holds rtx5090 75% 2M $driver
	holds rtx5090 33.67GB 1M,8M,10M,14M $driver
	holds h200 33.67GB 12M uvm+prefetch+max
fi
