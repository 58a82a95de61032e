#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_training, on simulated machines and on the driver without a GPU: the pairs of each state and
# their medians, the trace that it leaves, busy threads that run in half of the epochs alone,
# priorities, and one line and a status for each thing that can be wrong. Needs WEIR, BUILD_DIR,
# SOURCE_DIR, FAKECUDA and python3. Prints a line a test. Under a sanitizer graphs are smaller.
#
# Labels: slow
set -euo pipefail

weir=${WEIR:?the program}
program=${BUILD_DIR:?the build}/bench/bench_training
bench=("$program")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

nodes=200000 longer=1M
if [ -n "${WEIR_SANITIZE-}" ]; then
	nodes=50000 longer=100k
fi
small=(--machine h200 --nodes "$nodes" --gpu-budget 1GB)

# train ARGUMENT...: it ends well; what it prints is in $dir/out.
train() {
	"${bench[@]}" "$@" >"$dir/out" 2>"$dir/err" || fail "$*: status $?" "$dir/err"
	[ ! -s "$dir/err" ] || fail "$*: it complains" "$dir/err"
}

# holds TEXT...: Python expressions about the lines of $dir/out: `pairs` and, with medians, `ends`.
holds() {
	python3 - "$dir/out" "$@" <<'END' >"$dir/not" 2>&1 || fail "not so" "$dir/not" "$dir/out"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
pairs = [line for line in lines if "pair" in line]
ends = [line for line in lines if "median_ratio" in line]
assert len(pairs) + len(ends) == len(lines)
for text in sys.argv[2:]:
    if not eval(text):
        sys.exit(text)
END
}

# refused STATUS TEXT ARGUMENT...: this status, and one line on stderr that has the text.
refused() {
	local status=0 wanted=$1 text=$2
	shift 2
	"${bench[@]}" "$@" >"$dir/out" 2>"$dir/err" || status=$?
	[ $status -eq "$wanted" ] || fail "$*: status $status" "$dir/err"
	[ ! -s "$dir/out" ] || fail "$*: a result" "$dir/out"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "$*: not one line" "$dir/err"
	[[ $(cat "$dir/err") == "bench_training: "*"$text"* ]] || fail "$*: no '$text'" "$dir/err"
}

train "${small[@]}" --what trace "$dir/run.trace" --pairs 4 --epochs-each 3 --warm-up 2
holds '[p["first"] for p in pairs] == ["off", "on", "off", "on"]' \
	'all(len(p[k]) == 3 for p in pairs for k in ("off_s", "on_s", "off_cpu_s", "on_cpu_s"))' \
	'len(ends) == 1 and ends[0]["pairs"] == 4 and ends[0]["what"] == "trace"' \
	'ends[0]["median_off_s"] > 0 and ends[0]["worst_ratio"] >= ends[0]["median_ratio"]' \
	'ends[0]["gpu_budget_bytes"] == 1000000000 and ends[0]["nodes"] == '$nodes \
	"ends[0]['trace_bytes'] == $(stat -c %s "$dir/run.trace") > 0"
# The last pair begins with recording, behind the one before it, which ends so: 6 epochs.
"$weir" trace show "$dir/run.trace" >"$dir/show" || fail "the trace is none" "$dir/show"
[ "$(grep -c 'epoch [0-9]' "$dir/show")" -eq 6 ] || fail "not 6 epochs in it" "$dir/show"
echo "ok - recording and not, in turn, into one file"

# Small slices, for epochs of some ms.
long=(--machine h200 --nodes "$longer" --slice 20k --pairs 3)
train "${long[@]}" --what busy 1
holds '[p["first"] for p in pairs] == ["off", "on", "off"]' \
	'len(ends) == 1 and ends[0]["priority"] == "none"' \
	'ends[0]["busy_threads"] == ends[0]["processors"] > 0' \
	'ends[0]["median_on_cpu_s"] > 1.3 * ends[0]["median_off_cpu_s"]'
echo "ok - busy threads, and none, in turn"

several=none
[ "$(nproc)" -lt 2 ] || several=none,pin
train "${small[@]}" --what busy 2 --pairs 2 --priority "$several"
holds "[e['priority'] for e in ends] == '$several'.split(',')" \
	'len(pairs) == 2 * len(ends)' \
	'ends[0]["busy_threads"] == 2 * ends[0]["processors"]'
for priority in nice:-5 fifo; do
	if "${bench[@]}" "${small[@]}" --what busy 1 --pairs 1 --priority none,$priority \
		>"$dir/out" 2>"$dir/err"; then
		holds "[e['priority'] for e in ends] == ['none', '$priority']"
	else
		refused 1 "--priority '$priority': this process may not set it" "${small[@]}" \
			--what busy 1 --priority none,$priority
	fi
done
echo "ok - priorities, or that this process may not set them"

# The same where nobody may set them: whoever runs this is root, or else it was tested above.
limited=(setpriv --bounding-set=-sys_nice)
if "${limited[@]}" true 2>"$dir/err" && [ "$(ulimit -e)$(ulimit -r)" = 00 ]; then
	bench=("${limited[@]}" "$program")
	refused 1 "--priority 'nice:-5': this process may not set it: Permission denied" \
		"${small[@]}" --what busy 1 --priority nice:-5
	refused 1 "--priority 'fifo': this process may not set it: Operation not permitted" \
		"${small[@]}" --what busy 1 --priority none,fifo
	bench=("$program")
	echo "ok - without the capability"
fi

# On the CUDA backend times are this computer's.
ln -s "${FAKECUDA:?the fake driver}" "$dir/libcuda.so.1"
LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FAKECUDA_HBM_BYTES=$((64 << 20)) \
	FAKECUDA_HOST_BYTES=$((1 << 30)) \
	WEIR_CUDA_KERNELS=$BUILD_DIR/tests/fakecuda/libweir-gcn-fake.so \
	train --machine cuda --nodes 1k --slice 4k --hidden 64 --gpu-budget 4MB --pairs 2 \
	--what trace "$dir/run.trace"
holds 'ends[0]["data"] == "real" and ends[0]["gpu_budget_bytes"] == 4000000' \
	'len({p[k][0] for p in pairs for k in ("off_s", "on_s")}) > 1'
echo "ok - on a GPU's backend"

"${bench[@]}" --help >"$dir/out" || fail "--help" "$dir/out"
has "$dir/out" '--what trace FILE' '--priority P' '\[9\]'
busy=(--what busy 1)
refused 2 "--what '': choose" --machine h200
refused 2 "--what 'nothing': choose" --what nothing
refused 2 'one word, a file' --what trace
refused 2 'one word, a number, and not 2' --what busy 1 2
refused 2 "busy '0'" --what busy 0
refused 2 "busy 'x'" --what busy x
refused 2 "--priority 'nice:5'" "${busy[@]}" --priority nice:5
refused 2 "--priority 'nice:-21'" "${busy[@]}" --priority none,nice:-21
refused 2 "--priority 'none': listed twice" "${busy[@]}" --priority none,none
refused 2 'an item is missing' "${busy[@]}" --priority none,
refused 2 '--priority is for --what busy' --what trace "$dir/run.trace" --priority none
refused 2 "--pairs '0'" "${busy[@]}" --pairs 0
refused 2 "--epochs-each 'x'" "${busy[@]}" --epochs-each x
refused 2 "--warm-up '0'" "${busy[@]}" --warm-up 0
refused 2 '20000004 epochs in all' "${busy[@]}" --pairs 10k --epochs-each 1k
refused 2 "--nodes '1'" "${busy[@]}" --nodes 1
refused 2 '--nodes: several' "${busy[@]}" --nodes 1M,2M
refused 2 '--gpu-budget: a percentage' "${busy[@]}" --gpu-budget 50%
refused 2 "nowhere: no such machine" "${busy[@]}" --machine nowhere
refused 2 'no option --node' "${busy[@]}" --node 1M
WEIR_TRACE=$dir/other.trace refused 2 'WEIR_TRACE is set' --what trace "$dir/run.trace"
[ ! -e "$dir/other.trace" ] || fail "a run that is refused writes a trace"
bench=(taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" "$program")
refused 2 "--priority 'pin': this process has one processor" "${busy[@]}" --priority pin
echo "ok - wrong options"
