#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# How near plans come to the lower bound where the search, what is learnt of the links, or where
# blocks are at neighbours decides: the GCN on simulated machines, without bytes. Each limit is about 2 %
# above what it takes; in the long form also at twice the sizes. Needs WEIR and SOURCE_DIR. Prints a line
# a test.
#
# Labels: slow
# Timeout: 300
# Long: yes
set -euo pipefail

: "${WEIR:?is the program to test}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

# within NAME LIMIT: an epoch takes at most so many times its bound.
within()
{
	python3 - "$dir/$1.json" "$2" <<'END' || fail "$1: farther from its bound" "$dir/$1.out"
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    result = json.load(file)
sys.exit(result["epoch_median_s"] > float(sys.argv[2]) * result["bound_s"])
END
	echo "ok - $1"
}

run host --machine laptop --nodes 3M --manager weir
within host 1.19
near=(--machine h200x4 --manager weir+near)
run one "${near[@]}" --nodes 10M --gpu-budget 16.8GB --near gpu1:55GB
within one 1.24
run three "${near[@]}" --nodes 15M --gpu-budget 16.8GB --near gpu1:55GB,gpu2:55GB,gpu3:55GB
within three 1.275
if [ -n "${WEIR_TEST_LONG-}" ]; then
	run one "${near[@]}" --nodes 20M --gpu-budget 33.67GB --near gpu1:110GB
	within one 1.24
	run three "${near[@]}" --nodes 30M --gpu-budget 33.67GB --near gpu1:110GB,gpu2:110GB,gpu3:110GB
	within three 1.245
fi
