#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Two runs give the same output byte for byte, with real bytes and without, whatever the number of
# threads that compute. Needs WEIR and SOURCE_DIR. Prints a line a test.
#
# Takes 8 s of a processor: everything runs twice. WEIR_TEST_LONG: more nodes, wider layers, and
# larger blocks.
#
# Labels: slow
# Long: yes
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

# twice NAME ARGS...: bench under two names, in different surroundings, and compare.
twice()
{
	name=$1
	shift
	for n in 1 2; do
		# shellcheck disable=SC2086 # so many words
		OPENBLAS_NUM_THREADS=$n WEIR_THREADS=$n PADDING=$(printf "%0$((n * 777))d" 0) \
			"$WEIR" bench gcn "$@" --verbose --json "$dir/$name.$n.json" \
			>"$dir/$name.$n.out" 2>"$dir/$name.$n.err" || {
			echo "not ok - bench gcn $* exits with $?"
			sed 's|^|# |' "$dir/$name.$n.err"
			exit 1
		}
	done
	for kind in json out err; do
		cmp "$dir/$name.1.$kind" "$dir/$name.2.$kind" || {
			echo "not ok - $name: two runs differ"
			diff "$dir/$name.1.$kind" "$dir/$name.2.$kind" | sed 's|^|# |'
			exit 1
		}
	done
	[ -s "$dir/$name.1.json" ] || {
		echo "not ok - $name: nothing to compare"
		exit 1
	}
	echo "ok - $name"
}

size="--nodes 8M --gpu-budget 17GB" width="--nodes 1k --hidden 64 --block-size 4KiB"
if [ -n "${WEIR_TEST_LONG-}" ]; then
	size="--nodes 15M --gpu-budget 33.67GB" width="--nodes 3k --block-size 16KiB"
fi
# shellcheck disable=SC2086 # so many words
twice phantom $size --manager native,malloc,zerocopy,weir
twice phantom-tight --machine laptop --nodes 2M --gpu-budget 30% --manager weir
# Plans that take virtual time to make.
sed 's|"launch_ns"|"plan_work_ns": {"value": 2, "origin": "assumed", "source": "a test"}, &|' \
	"$SOURCE_DIR/machines/laptop.json" >"$dir/late.json"
twice late-plans --machine "$dir/late.json" --nodes 2M --gpu-budget 30% --manager weir
# shellcheck disable=SC2086
twice real --machine laptop --slice 2k $width --data real \
	--epochs 2 --gpu-budget 40% --manager native,zerocopy,weir
