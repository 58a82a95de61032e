#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `weir info --measure` from the outside: a simulated machine gives its own constants, a description
# goes where it is asked to and can be read back, and nothing is left of a measurement that fails
# or is interrupted. The GPUs of this computer are those of the fake driver.
#
# Labels: slow
set -euo pipefail

weir=${WEIR:?the program}
# A line a constant.
export COLUMNS=400
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export WEIR_MACHINE_PATH=${SOURCE_DIR:?the source tree}/machines

fail() {
	echo "FAILED: $*" >&2
	[[ -f $scratch/err ]] && cat "$scratch/err" >&2
	exit 1
}

# expect_error TEXT ARGUMENT...: status 2, nothing on stdout, one line on stderr that has the text.
expect_error() {
	local text=$1 status=0
	shift
	"$weir" info "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
	[[ $status == 2 ]] || fail "info $*: status $status"
	[[ ! -s $scratch/out ]] || fail "info $*: something on stdout"
	[[ $(wc -l <"$scratch/err") == 1 ]] || fail "info $*: not one line"
	grep -q -e "$text" "$scratch/err" || fail "info $*: no '$text'"
}

# constants FILE: its numbers alone, without what is assumed and what managed memory costs.
constants() {
	"$weir" info --machine "$1" --origins | grep -v ' assumed ' |
		awk '/^[a-z]/ { managed = /^managed/ } /^  / && !managed { print $1, $2, $3 }'
}

# managed FILE: what managed memory costs in it.
managed() {
	"$weir" info --machine "$1" | sed -n '/^managed memory/,/^$/p'
}

# A description of its own, and a table, each where it belongs; twice the same.
"$weir" info --measure --machine h200 -o "$scratch/again.json" >"$scratch/table" 2>"$scratch/err"
[[ ! -s $scratch/err ]] || fail "something on stderr"
grep -q '^constant .*estimate .*median' "$scratch/table" || fail "no table"
grep -q '"name": "again"' "$scratch/again.json" || fail "it does not bear the file's name"
"$weir" info --measure --machine h200 >"$scratch/h200.json" 2>"$scratch/table"
grep -q '^constant ' "$scratch/table" || fail "no table on stderr"
diff <(grep -v '"name": "again"' "$scratch/again.json") \
	<(grep -v '"name": "h200"' "$scratch/h200.json") || fail "two outputs differ"
"$weir" info --machine "$scratch/h200.json" --json | cmp - "$scratch/h200.json"
diff <(constants h200 | sort) <(constants "$scratch/h200.json" | sort) >"$scratch/diff" || true
# Assumed in one of them, or left out there; all others come back to the last digit on this machine.
grep '^[<>]' "$scratch/diff" | grep -v -e set_access_device_ns -e inplace_request_bytes -e ' bytes ' \
	-e ops_per_s -e launch -e malloc_ns -e 'set_access_busy_in_ns 0 ns' && fail "constants differ"
# That is not measured: it stays.
[[ -n $(managed h200) && $(managed h200) == "$(managed "$scratch/h200.json")" ]] ||
	fail "managed memory differs"

# What was measured can be simulated.
"$weir" bench gcn --machine "$scratch/again.json" --nodes 10k --manager native >/dev/null

# The device that is asked for, and no other.
"$weir" info --measure --quick --machine h200x4 --device 2 -o "$scratch/one.json" >"$scratch/table"
grep -q '^device\[2\].hbm' "$scratch/table" || fail "device 2 is not measured"
grep -q '^device\[1\]' "$scratch/table" && fail "device 1 is measured"
"$weir" info --machine "$scratch/one.json" --origins >"$scratch/text"
grep -q 'assumed *simulated h200x4: an estimate: not measured' "$scratch/text" || fail "origins"
grep -q '^at_once\|^pieces\|^beside\|^events' "$scratch/table" && fail "one device, and what two do"

# Two: what they do together is in the table, and no constant.
"$weir" info --measure --quick --machine h200x2 -o "$scratch/two.json" >"$scratch/table"
grep -q '^link\[2\]: gpu0 (a) - gpu1 (b)$' "$scratch/table" || fail "which link is which"
for line in at_once.to_gpus.all_bytes_per_s at_once.in_and_out.gpu0_to_gpu1_bytes_per_s \
	events.round_ns pieces.gpu0_to_gpu1.64_kib_in_batches_bytes_per_s \
	pieces.both_ways.64_mib_in_batches_bytes_per_s beside.gpu0_to_gpu1.unmap_ns 'link\[2\].rows_added_to_bytes_per_s'; do
	grep -q "^$line  *- " "$scratch/table" || fail "no line of $line"
done
grep -q '^link\[2\].inplace_serial  *0.768  *0.768  ' "$scratch/table" || fail "what does not overlap"
grep -q '^link\[2\].inplace_serial_random  *0  *0  ' "$scratch/table" || fail "and at random"
grep -q '^link\[2\].event_ns  *5.7 us  *5.7 us  ' "$scratch/table" || fail "events between GPUs"
grep -q 'at_once\|pieces\.[bg]\|beside\.' "$scratch/two.json" && fail "no constants, in a description"
diff <(constants h200x2 | sort) <(constants "$scratch/two.json" | sort) >"$scratch/diff" || true
grep '^[<>]' "$scratch/diff" | grep -v -e set_access_device_ns -e inplace_request_bytes -e ' bytes ' \
	-e ops_per_s -e launch -e malloc_ns -e inplace_large -e inplace_reach -e inplace_update \
	-e copy_ns -e inplace_duplex_bytes -e inplace_serial -e factor -e ' send_bytes' -e ' receive_bytes' &&
	fail "constants of two GPUs differ"

# ports FILE: a line for each constant of its ports, in two digits: measured ones are within a percent.
ports() {
	"$weir" info --machine "$1" --origins |
		awk '/^[a-z]/ { port = /^port of/ ? $3 $4 : "" }
			/^  / && port { printf "%s %s %.2g %s\n", port, $1, $2, $3 }' | sort
}

# Four and eight: what memories carry over several links is in the table by their names, and in the
# description, which has again what the machine was described with, and numbers of links besides.
for gpus in 4 8; do
	"$weir" info --measure --quick --machine "h200x$gpus" -o "$scratch/many.json" >"$scratch/table"
	for line in "host.send.$gpus" "host.receive.$gpus" "host.both_ways.send.$gpus" \
		"gpu0.send.$((gpus - 1))" gpu0.receive.2 "gpu0.both_ways.receive.$((gpus - 1))" \
		gpu0.stores.3 "gpu0.loads.$((gpus - 1))"; do
		grep -q "^ports.${line}_links_bytes_per_s " "$scratch/table" || fail "no line of $line"
	done
	grep -q '^ports.gpu2.read_by_two.gpu1_bytes_per_s ' "$scratch/table" || fail "two at a third"
	grep -q '^port\[' "$scratch/table" && fail "ports by number"
	comm -23 <(ports "h200x$gpus" | grep -v '^host,6 ') <(ports "$scratch/many.json") >"$scratch/diff"
	[[ ! -s $scratch/diff ]] || fail "other ports: $(cat "$scratch/diff")"
	"$weir" info --machine "$scratch/many.json" --origins | sed -n '/^port of gpu1, 3/,/^$/p' |
		grep -q "send.* measured *simulated h200x$gpus: copies from the first GPU's memory" ||
		fail "the origin of a port"
done
grep -q '^ports.third.*not measured: takes three GPUs' <("$weir" info --measure --quick \
	--machine h200x2 -o "$scratch/two.json") || fail "no word of a third GPU"
grep -q '^ports' <("$weir" info --measure --quick --machine h200x4 --device 1 -o "$scratch/one.json") &&
	fail "one device, and ports"

# What can be wrong.
expect_error 'for measuring: write --measure' --output "$scratch/x.json"
expect_error 'for measuring: write --measure' --quick --machine h200
expect_error 'leave --json, --origins out' --measure --json
expect_error "no device" --measure --machine h200 --device x
expect_error 'device 1: there is none such; they go from 0 to 0' --measure --machine h200 --device 1
expect_error 'device 2: there is none such; they go from 0 to 1' --measure --machine h200x2 \
	--device 2
expect_error 'nosuch: no such machine' --measure --machine nosuch
expect_error "cannot write '$scratch/no/x.json'" --measure --machine h200 -o "$scratch/no/x.json"
[[ ! -e $scratch/x.json ]] || fail "a file of a measurement that failed"

# This computer's GPUs: the fake driver's, under the name that is looked for.
mkdir "$scratch/lib"
ln -s "${FAKECUDA:?the fake driver}" "$scratch/lib/libcuda.so.1"
fakes=$(dirname "$FAKECUDA")
export WEIR_CUDA_KERNELS=$fakes/libweir-gcn-fake.so WEIR_PROBE_KERNELS=$fakes/libweir-probe-fake.so
export LD_LIBRARY_PATH=$scratch/lib FAKECUDA_HBM_BYTES=33554432 FAKECUDA_HOST_BYTES=67108864
"$weir" info --measure --quick -o "$scratch/gpu.json" >"$scratch/table" 2>"$scratch/err" ||
	fail "the fake GPU"
grep -q '"source": "Fake H200, CUDA 13.0.*, 20[0-9-]*: a kernel that reads in place"' \
	"$scratch/gpu.json" || fail "no source"
"$weir" info --machine "$scratch/gpu.json" >/dev/null
WEIR_PROBE_KERNELS=$scratch/none.so expect_error 'measuring gpu0: .*none.so' --measure
WEIR_CUDA_KERNELS=$scratch/none.so "$weir" info --measure --quick >"$scratch/text" 2>/dev/null ||
	fail "without products of matrices"
grep -q 'an estimate: no kernels for products of matrices' "$scratch/text" || fail "no reason"

# Two of them, which do not reach each other.
FAKECUDA_DEVICES=2 FAKECUDA_NO_PEERS=1 "$weir" info --measure --quick -o "$scratch/apart.json" \
	>"$scratch/table" 2>"$scratch/err" || fail "two fake GPUs"
grep -q '^link.gpu0_to_gpu1_bytes_per_s .*not measured: neither of the two GPUs reaches' \
	"$scratch/table" || fail "no word of the link that is not there"
grep -q '"a": "gpu0", "b": "gpu1"' "$scratch/apart.json" && fail "a link that is not there"

# An interrupt leaves nothing behind.
for signal in INT TERM; do
	status=0
	env --default-signal=INT timeout --foreground --preserve-status -s $signal 0.4 \
		"$weir" info --measure -o "$scratch/stopped.json" >"$scratch/out" 2>"$scratch/err" ||
		status=$?
	[[ $status == $((128 + $(kill -l $signal))) ]] || fail "SIG$signal: status $status"
	[[ ! -s $scratch/out && $(wc -l <"$scratch/err") == 1 ]] || fail "SIG$signal: output"
	grep -q 'interrupted; nothing was written' "$scratch/err" || fail "SIG$signal: no word of it"
	compgen -G "$scratch/*stopped*" && fail "SIG$signal: a file is left"
	compgen -G "$scratch/.*.tmp" && fail "SIG$signal: a partial file is left"
done

echo passed
