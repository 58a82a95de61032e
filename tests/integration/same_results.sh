#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The same results wherever the bytes are: the losses of every epoch of a training run under weir,
# with a half and a quarter of the memory it needs, are bit for bit those of a GPU that holds all
# of it, and those of host memory used in place. That blocks moved, and were used in place, is
# checked beside it. Needs WEIR and SOURCE_DIR. Prints a line a test.
#
# Takes 10 s of a processor: real training, with 1,500 blocks so that many move. WEIR_TEST_LONG: with
# more nodes and wider layers, and blocks as much larger.
#
# Labels: slow
# Long: yes
set -u

: "${WEIR:?is the program to test}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

width="--nodes 2k --hidden 64" block=4096
[ -z "${WEIR_TEST_LONG-}" ] || width="--nodes 5k" block=16384
# Small slices and blocks, so that there are 1,500 blocks and many brackets; with the two epochs of
# warm-up, the last two follow a plan.
common="--machine laptop --slice 1k $width --block-size $block --data real"
common="$common --epochs 2"

# result FILE MANAGER: its line.
result()
{
	grep "\"manager\":\"$2\"" "$1" || fail "$1 has no result of $2" "$1"
}

# losses FILE MANAGER: as they are written, 17 digits each.
losses()
{
	result "$1" "$2" | grep -o '"loss":\[[^]]*\]'
}

# bytes FILE MANAGER DIRECTION CAUSE
bytes()
{
	result "$1" "$2" | sed "s/.*\"$3\":{\([^}]*\)}.*/\1/; s/.*\"$4\":\([0-9]*\).*/\1/"
}

# peak FILE MANAGER: bytes of the GPU's memory.
peak()
{
	result "$1" "$2" | sed 's/.*"peak_bytes":{\([^}]*\)}.*/\1/; s/.*"gpu0":\([0-9]*\).*/\1/'
}

# at_least WHAT VALUE LEAST FILE
at_least()
{
	[ "$2" -ge "$3" ] || fail "$1: $2, not at least $3" "$4"
}

# shellcheck disable=SC2086 # words are meant to be split
run whole $common --manager native
want=$(losses "$dir/whole.json" native)
echo "$want" | grep -Eq '^"loss":\[(2\.[0-9]{10,},?){4}\]$' ||
	fail "no four losses" "$dir/whole.json"
peak=$(peak "$dir/whole.json" native)
at_least "native's peak, bytes" "$peak" $((500 * block)) "$dir/whole.json"
echo "ok - native in all of the GPU's memory: $peak bytes"

for percent in 50 25; do
	file=$dir/$percent.json
	others=weir # zerocopy uses nearly all in place, whatever there is
	[ $percent != 25 ] || others="zerocopy,weir"
	# shellcheck disable=SC2086
	run $percent $common --manager native,malloc,$others --gpu-budget $((peak * percent / 100))
	for manager in native malloc; do
		result "$file" $manager |
			grep -q '"status":"out-of-memory","epoch_s":\[\]' ||
			fail "$manager holds what does not fit" "$file"
	done
	for manager in $(echo "$others" | tr , ' '); do
		result "$file" "$manager" | grep -q '"status":"ok"' || fail "$manager fails" "$file"
		[ "$(losses "$file" "$manager")" = "$want" ] ||
			fail "$manager's losses at $percent % are not native's: $want" "$file"
	done
	in=$(bytes "$file" weir 'host->gpu0' demand)
	in=$((in + $(bytes "$file" weir 'host->gpu0' prefetch)))
	out=$(bytes "$file" weir 'gpu0->host' eviction)
	out=$((out + $(bytes "$file" weir 'gpu0->host' write-back)))
	at_least 'blocks copied in' $((in / block)) 300 "$file"
	at_least 'blocks copied out' $((out / block)) 300 "$file"
	[ "$(peak "$file" weir)" -le $((peak * percent / 100)) ] ||
		fail "weir takes more than its budget" "$file"
	echo "ok - $percent %: $((in / block)) blocks in, $((out / block)) out, the same losses"
done

at_least 'bytes read in place' "$(bytes "$dir/25.json" weir 'host->gpu0' in-place)" 1000000 \
	"$dir/25.json"
at_least 'bytes written in place' "$(bytes "$dir/25.json" weir 'gpu0->host' in-place)" 1000000 \
	"$dir/25.json"
echo "ok - a quarter: some of it is used in place"
