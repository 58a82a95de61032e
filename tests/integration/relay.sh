#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_relay, on simulated machines and on the driver without a GPU: with one, two and four GPUs all
# bytes arrive that are relayed, links together are as fast as the host's port lets them be, copies
# that are only queued on other GPUs' streams are no faster than one link, nothing races or is left
# over, and one line and a status for each thing that can be wrong. Needs BUILD_DIR, SOURCE_DIR,
# FAKECUDA and python3. Prints a line a test.
#
# Takes 6 s of a processor: real bytes, which are made, copied twice and compared.
#
# Labels: slow
set -euo pipefail

program=${BUILD_DIR:?the build}/bench/bench_relay
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"
# shellcheck source=/dev/null
. "$SOURCE_DIR/tests/support/refused.sh"

# relay ERRORS ARGUMENT...: it ends well; what it prints is in $dir/out, and so many lines of errors.
relay() {
	local errors=$1
	shift
	"$program" "$@" >"$dir/out" 2>"$dir/err" || fail "$*: status $?" "$dir/err"
	[ "$(wc -l <"$dir/err")" -eq "$errors" ] || fail "$*: not $errors lines" "$dir/err"
}

# holds TEXT...: Python expressions about the lines of $dir/out, and of() them that are such.
holds() {
	python3 - "$dir/out" "$SOURCE_DIR/machines/h200x4.json" "$@" <<'END' >"$dir/not" 2>&1 ||
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
machine = json.load(open(sys.argv[2]))
port = {p["links"]: p for p in machine["port"] if p["memory"] == "host"}

def of(test, staged=True):
    return [l for l in lines if l["test"] == test and l["staged"] == staged]

def most(links, way):
    """What the host's port carries, in GB/s."""
    return port[links]["send_bytes_per_s" if way == "in" else "receive_bytes_per_s"]["value"] / 1e9

def usual(test, staged=True):
    """Not those of other sizes."""
    return [l for l in of(test, staged) if l["piece_bytes"] == 16 << 20 and l["buffers"] == 4]

for text in sys.argv[3:]:
    if not eval(text):
        sys.exit(text)
END
		fail "not so" "$dir/not" "$dir/out"
}

# Lines: in, out and both by the number of links; queued ones both ways from two on; both ways and
# both at once in other sizes; kernels.
shapes='len(of("in")) + len(of("out")) + len(of("both")) == 3 * n + 3 * sizes and
	len(of("in", False)) == len(of("out", False)) == n - 1 and
	len(of("kernels")) == 3 * (n > 1) and
	all(sum(l.get(w + "_pieces", [])) * l["piece_bytes"] in (0, l["bytes_each_way"])
		for l in lines for w in ("in", "out")) and
	all(len(l["samples_ns"]) == 2 and l["checked"] for l in lines)'
shapes=${shapes//$'\n\t'/ }

small=(--check --bytes 8MiB --piece 512KiB --samples 2)
for n in 1 2 4; do
	machine=h200x$n notes=0 sizes=5
	[ $n -gt 1 ] || machine=h200 notes=1 sizes=2
	relay $notes --machine $machine "${small[@]}"
	holds "(lambda n, sizes: $shapes)($n, $sizes)"
	[ $notes -eq 0 ] || has "$dir/err" 'there is no relay'
	echo "ok - all bytes arrive, simulated GPUs: $n"
done

relay 0 --machine h200x4 --samples 1
holds 'all(0.95 * most(l["links"], w) < l["gb_per_s"] <= most(l["links"], w)
	for w in ("in", "out") for l in usual(w) if l["links"] > 1)' \
	'all([l["links"] for l in usual(t)] == [1, 2, 3, 4] for t in ("in", "out", "both"))' \
	'all(a["gb_per_s"] < 0.95 * b["gb_per_s"]
	for t in ("in", "out", "both") for a, b in zip(usual(t), usual(t)[1:]))' \
	'all(l["gb_per_s"] < 1.02 * usual(w)[0]["gb_per_s"] for w in ("in", "out")
	for l in of(w, False))' \
	'all(1 <= l["slowed"] < 1.1 and l["beside_kernels"] > 100 for l in of("kernels"))' \
	'all(l["apart_ns"]["p99"] < 0.05 * l["ns"]["median"] for l in usual("in") + usual("out"))'
echo "ok - links together, up to the host's port"

# On the CUDA backend times are this computer's, and bytes real.
ln -s "${FAKECUDA:?the fake driver}" "$dir/libcuda.so.1"
export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FAKECUDA_REPORT=$dir/report
export FAKECUDA_HBM_BYTES=$((64 << 20)) FAKECUDA_HOST_BYTES=$((64 << 20))
export WEIR_PROBE_KERNELS=$BUILD_DIR/tests/fakecuda/libweir-probe-fake.so
small=(--machine cuda --check --bytes 2MiB --piece 64KiB --samples 2)
for n in 1 2 4; do
	notes=0 sizes=5
	[ $n -gt 1 ] || notes=1 sizes=2
	FAKECUDA_DEVICES=$n relay $notes "${small[@]}"
	holds "(lambda n, sizes: $shapes)($n, $sizes)"
	echo "ok - all bytes arrive, GPUs of the driver without one: $n"
done
FAKECUDA_DEVICES=2 FAKECUDA_NO_PEERS=1 relay 1 "${small[@]}" --test in,queued,kernels
holds 'len(lines) == 1 and lines[0]["links"] == 1'
has "$dir/err" 'there is no relay'

export FAKECUDA_DEVICES=2
FAKECUDA_HOST_BYTES=$((3 << 20)) refused 1 "memory 'host': chunk" "${small[@]}"
FAKECUDA_HBM_BYTES=$((9 << 20)) refused 1 "memory 'gpu1': a buffer" --machine cuda --buffers 8 \
	--bytes 1MiB --piece 256KiB
WEIR_PROBE_KERNELS=/none refused 1 'kernels: ' "${small[@]}" --test kernels
FAKECUDA_DEVICES=-1 refused 1 "machine 'cuda'" "${small[@]}"
if "$program" "${small[@]}" --test in >/dev/full 2>"$dir/err"; then
	fail "a full disk is not noticed"
fi
has "$dir/err" 'writing the results'
[ "$(wc -l <"$dir/report")" -ge 9 ] || fail "runs that did not report" "$dir/report"
bad=$(grep -v '^calls [0-9]* races 0 unmaps 0 leaks 0 problem none$' "$dir/report") &&
	fail "the driver reports: $bad"
echo "ok - what fails is named, and nothing is left"

"$program" --help >"$dir/out" || fail "--help" "$dir/out"
has "$dir/out" '--piece S' '\[16MiB\]' 'h200x4'
refused 2 "nowhere: no such machine" --machine nowhere
refused 2 "--test 'inn': no such one" --test in,inn
refused 2 "--test 'in': listed twice" --test in,in
refused 2 "--piece '0'" --piece 0
refused 2 "--piece '10000'" --piece 10000
refused 2 "--piece: 4 of them are no multiple" --machine h200x4 --piece 64KiB --bytes 16MiB
refused 2 'choose a multiple of 4 pieces' --bytes 100MiB
refused 2 "--buffers '9'" --buffers 9
refused 2 "--samples '0'" --samples 0
refused 2 'no option --byte' --byte 1GiB
echo "ok - wrong options"
