#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_mechanisms, on simulated machines and on the driver without a GPU: on two GPUs, also where
# readers are parts of one, all bytes arrive by each mechanism, ratios are those of the times, what
# is chosen is near the best by virtual time, nothing races or is left over; one line and a status
# for each thing that can be wrong; and the stage of bench/gpu/many that runs it. Needs BUILD_DIR,
# SOURCE_DIR, WEIR, FAKECUDA and python3. Prints a line a test.
#
# WEIR_TEST_LONG: what is chosen where there are several readers, too.
#
# Labels: slow
# Long: yes
set -euo pipefail

program=${BUILD_DIR:?the build}/bench/bench_mechanisms
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"
# shellcheck source=/dev/null
. "$SOURCE_DIR/tests/support/refused.sh"

# mechanisms ARGUMENT...: it ends well; what it prints is in $dir/out.
mechanisms() {
	"$program" "$@" >"$dir/out" 2>"$dir/err" || fail "$*: status $?" "$dir/err"
	[ ! -s "$dir/err" ] || fail "$*: it complains" "$dir/err"
}

# holds TEXT...: Python expressions about the lines of $dir/out.
holds() {
	python3 - "$dir/out" "$@" <<'END' >"$dir/not" 2>&1 || fail "not so" "$dir/not" "$dir/out"
import json, math, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
cases, end = lines[:-1], lines[-1]
ways = ("whole", "runs", "packets")

def ns(case, way):
    return case[way + "_ns"] or math.inf

for text in sys.argv[2:]:
    if not eval(text):
        sys.exit(text)
END
}

# figures TEXT...: the lines fit each other, all bytes arrived, and what is given besides is so.
figures() {
	holds 'end["cases"] == len(cases) > 20 and end["left_out"] == 0' \
		'sorted(c["case"] for c in cases) == list(range(1, len(cases) + 1))' \
		'all(ns(c, c["best"]) == min(ns(c, w) for w in ways) for c in cases)' \
		'all(abs(c["ratio"] - ns(c, c["chosen"]) / ns(c, c["best"])) < 1e-3 for c in cases)' \
		'end["within"] == sum(c["ratio"] <= 1.1 for c in cases)' \
		'end["worst"] == max(c["ratio"] for c in cases)' \
		'sum(end["best_" + w] for w in ways) == len(cases)' \
		'all((c["runs_ns"] is None) == (c["pieces"] > 256) and c["whole_ns"] for c in cases)' \
		'all(c["packets_ns"] for c in cases) and end["fetched"] == 0' \
		'end["checked"] and end["wrong"] == 0 and all(c["wrong"] == 0 for c in cases)' "$@"
}

for machine in h200x2 h200x4; do
	mechanisms --machine $machine --quick --check
	figures '{c["fan_out"] for c in cases} == {1, 3}'
	echo "ok - all bytes arrive, simulated: $machine"
done
mechanisms --machine h200x2 --quick --check --readers 1
holds '{c["fan_out"] for c in cases} == {1}'

# Virtual time. What is sent alone and at once is best sent now by one mechanism, now by another.
readers=(--readers 1) least=150
[ -z "${WEIR_TEST_LONG-}" ] || readers=() least=300
mechanisms --machine h200x2 --rounds 1 "${readers[@]}"
holds 'end["worst"] <= 1.1 and end["net_within"] == end["cases"]' "end['cases'] > $least" \
	'all(end["best_" + w] > 5 for w in ways) and not end["checked"]'
echo "ok - what is chosen is near the best"

ln -s "${FAKECUDA:?the fake driver}" "$dir/libcuda.so.1"
export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FAKECUDA_REPORT=$dir/report
export FAKECUDA_HBM_BYTES=$((256 << 20)) FAKECUDA_HOST_BYTES=$((512 << 20)) FAKECUDA_DEVICES=2
export WEIR_PROBE_KERNELS=$BUILD_DIR/tests/fakecuda/libweir-probe-fake.so
mechanisms --machine cuda --quick
figures '{c["fan_out"] for c in cases} == {1, 3}'
FAKECUDA_DEVICES=4 mechanisms --machine cuda --quick --measured h200x4 --readers 2
holds 'end["cases"] == len(cases) > 20 and end["checked"] and end["gpus"] == 4'
echo "ok - all bytes arrive, GPUs of the driver without one"

# A pack as the stage wants it.
pack=$dir/many/build/gpu-pack
mkdir -p "$dir/many/bench" "$pack/gpu"
cp -r "$SOURCE_DIR/bench/gpu" "$dir/many/bench/"
cp -r "$SOURCE_DIR/machines" "$pack/"
ln -s "$program" "$pack/gpu/"
ln -s "${WEIR:?the program}" "$pack/weir"
echo none >"$pack/VERSION"
for options in '' --simulate; do
	# shellcheck disable=SC2086 # none, or one
	"$dir/many/bench/gpu/many" $options --quick --out "$dir/results" \
		--machine "$SOURCE_DIR/machines/h200x2.json" mechanisms >"$dir/out" 2>"$dir/err" ||
		fail "many $options" "$dir/out" "$dir/err"
	has "$dir/out" '^mechanisms: [0-9]+ of [0-9]+ cases within 1.10 of the best' '^1 done, 0 failed$'
	[ "$(grep -c '"cases":' "$dir/results/mechanisms.jsonl")" -eq 1 ] ||
		fail "many $options: results" "$dir/results/mechanisms.jsonl"
	rm -r "$dir/results"
done
echo "ok - the stage of bench/gpu/many"

FAKECUDA_DEVICES=1 refused 2 'cuda has one GPU' --machine cuda --quick
FAKECUDA_HOST_BYTES=4096 refused 1 "machine 'cuda'" --machine cuda --quick
WEIR_PROBE_KERNELS=/none refused 1 '' --machine cuda --quick
[ "$(wc -l <"$dir/report")" -ge 3 ] || fail "runs that did not report" "$dir/report"
bad=$(grep -v '^calls [0-9]* races 0 unmaps 0 leaks 0 problem none$' "$dir/report") &&
	fail "the driver reports: $bad"
echo "ok - what fails is named, and nothing is left"

"$program" --help >"$dir/out" || fail "--help" "$dir/out"
has "$dir/out" '--rounds N' '--seconds S' '--quick'
refused 2 "nowhere: no such machine" --machine nowhere
refused 2 'h200 has one GPU' --machine h200
refused 2 "--measured 'h200x2'" --machine h200x2 --measured h200x2
refused 2 "--rounds '0'" --rounds 0
refused 2 "--readers '8'" --readers 8
refused 2 'no option --round' --round 1
echo "ok - wrong options"
