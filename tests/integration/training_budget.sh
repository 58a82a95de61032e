#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_training --what budget, on simulated machines: samples of 1 GiB that is taken back of a
# neighbour's memory while a training runs, their classes, that the same seed gives the same, and one
# line and a status for each thing that can be wrong. Needs BUILD_DIR, SOURCE_DIR and python3. Prints
# a line a test.
#
# Labels: slow
# Timeout: 300
set -euo pipefail

program=${BUILD_DIR:?the build}/bench/bench_training
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

# 9 GB, of which 4 GB fit: 3 GB of the rest at the neighbour.
small=(--what budget gpu1 --machine h200x2 --nodes 2M --slice 1M --gpu-budget 4GB)
near=(--near gpu1:3GB)

# take ARGUMENT...: it ends well; what it prints is in $dir/out.
take() {
	"$program" "${small[@]}" "${near[@]}" "$@" >"$dir/out" 2>"$dir/err" ||
		fail "$*: status $?" "$dir/err"
	[ ! -s "$dir/err" ] || fail "$*: it complains" "$dir/err"
}

# holds TEXT: a Python expression about the lines of $dir/out.
holds() {
	python3 - "$dir/out" "$1" <<'END' || fail "not so: $1" "$dir/out"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
samples = [line for line in lines if "sample" in line]
calls = [line for line in lines if "calls_before_ns" in line]
classes = [line for line in lines if "class" in line and "within" in line]
pairs = [line for line in lines if "pair" in line]
ends = [line for line in lines if "median_ratio" in line]
assert len(samples) + len(calls) + len(classes) + len(pairs) + len(ends) == len(lines)
sys.exit(not eval(sys.argv[2]))
END
}

# classes: each sample is of the first class that its members say.
classes() {
	holds 'all(s["class"] == "short" or s["class"] == ("in use" if s["used_blocks"] else "dirty" if s["evicted_bytes"] + s["written_back_bytes"] else "waited" if s["waits"] else "clean" if s["blocks"] else "free") for s in samples)'
}

# refused TEXT ARGUMENT...: status 2, and one line on stderr that has the text.
refused() {
	local status=0 text=$1
	shift
	"$program" "$@" >"$dir/out" 2>"$dir/err" || status=$?
	[ $status -eq 2 ] || fail "$*: status $status" "$dir/err"
	[ ! -s "$dir/out" ] || fail "$*: a result" "$dir/out"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "$*: not one line" "$dir/err"
	[[ $(cat "$dir/err") == "bench_training: "*"$text"* ]] || fail "$*: no '$text'" "$dir/err"
}

take --samples 5 --pairs 2
holds '[s["sample"] for s in samples] == [1, 2, 3, 4, 5]'
holds 'len(pairs) == 2 and len(calls) == 1 and len(ends) == 1'
holds 'all(line["what"] == "budget" and line["memory"] == "gpu1" for line in lines)'
holds 'ends[0]["samples"] == 5 and ends[0]["near_bytes"] == 3000000000'
# Epochs 5 and 6 are a pair, the second with samples; 7 and 8 one, the first with samples.
holds '[s["epoch"] for s in samples] == [6, 6, 7, 7, 7]'
holds 'all(a["epoch"] < b["epoch"] or a["point"] < b["point"] for a, b in zip(samples, samples[1:]))'
holds '{c["class"]: c["samples"] for c in classes} == {c["class"]: sum(s["class"] == c["class"] for s in samples) for c in classes}'
holds 'len(classes) == 6 and sum(c["samples"] for c in classes) == 5'
echo "ok - samples, and of which class they are"

# What leaves is 1 GiB in whole blocks, or less where the memory was not full. Times are virtual:
# those of the calls, of the waits, in which other calls may be made, and a microsecond for each copy
# that is queued (copy_host_ns) explain all of it; some of the training's own may be among these.
holds 'all(s["freed_bytes"] // calls[0]["block_bytes"] in (calls[0]["calls_chunks"], calls[0]["calls_chunks"] + 1) for s in samples if s["class"] != "short" and not s["busy"])'
holds 'any(s["class"] != "short" for s in samples) and any(s["blocks"] for s in samples)'
holds 'all(max(s["calls_ns"], s["waited_ns"]) <= s["set_budget_ns"] <= s["calls_ns"] + s["waited_ns"] + 1000 * (8 + (s["evicted_bytes"] + s["written_back_bytes"]) / calls[0]["block_bytes"]) for s in samples)'
# One may fall where the program waits for copies, and the device has done all that was queued.
holds 'all((s["queued_launches"] > 0) == (s["queued_ns"] > 0) for s in samples)'
holds 'sum(s["queued_launches"] > 0 for s in samples) >= 4'
classes
holds 'all((s["used_blocks"] > 0) == (s["used_ns"] > 0) for s in samples)'
holds 'calls[0]["calls_before_ns"] == calls[0]["calls_after_ns"]'
echo "ok - what a sample is made of"

short=(--samples 2 --pairs 1 --warm-up 2)
take "${short[@]}"
holds 'any(s["used_blocks"] for s in samples)'
mv "$dir/out" "$dir/first"
take "${short[@]}"
sed 's/"o[nf]*_cpu_s":\[[^]]*\],//g; s/"median_o[nf]*_cpu_s":[0-9.]*//g' "$dir/first" >"$dir/a"
sed 's/"o[nf]*_cpu_s":\[[^]]*\],//g; s/"median_o[nf]*_cpu_s":[0-9.]*//g' "$dir/out" >"$dir/b"
cmp "$dir/a" "$dir/b" || fail "the same seed gives others" "$dir/out"
take "${short[@]}" --seed 7
sed 's/"o[nf]*_cpu_s":\[[^]]*\],//g; s/"median_o[nf]*_cpu_s":[0-9.]*//g' "$dir/out" >"$dir/b"
[ "$(grep -c '"sample":' "$dir/b")" -eq 2 ] || fail "not 2 samples" "$dir/out"
! cmp -s "$dir/a" "$dir/b" || fail "another seed gives the same" "$dir/out"
echo "ok - by the seed"

# So many of each class, at points where they come; none is short. There are no pairs.
each() {
	"$program" --what budget gpu1 --machine h200x2 --nodes 2M --slice 4M --gpu-budget 4GB --near gpu1:2GB \
		"$@" >"$dir/out" 2>"$dir/err" || fail "$*: status $?" "$dir/err"
	[ ! -s "$dir/err" ] || fail "$*: it complains" "$dir/err"
}

# ended TEXT: of() is the number of samples of a class, end the last line.
ended() {
	python3 - "$dir/out" "$1" <<'END' || fail "not so: $1" "$dir/out"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
end = lines[-1]
samples = [line for line in lines if "sample" in line]

def of(name):
    return sum(s["class"] == name for s in samples)

sys.exit(not eval(sys.argv[2]))
END
}

each --each 2 --classes dirty,in-use
ended 'end["complete"] and of("dirty") >= 2 and of("in use") >= 2 and of("short") == 0'
ended 'end["samples"] == len(samples) and all(s["epoch"] > 4 for s in samples) and end["each"] == 2'
ended 'all(s["used_ns"] > 0 for s in samples if s["used_blocks"])'
ended 'not any("pair" in line for line in lines)'
each --each 1000 --seconds 2
ended 'not end["complete"] and end["limit_s"] == 2 and end["samples"] == len(samples)'
echo "ok - so many of each class"

"$program" --help >"$dir/out" || fail "--help" "$dir/out"
has "$dir/out" '--what budget MEMORY' '--samples N' '\[100\]' '--near GPU:S'
refused 'no other GPU' "${small[@]}"
refused 'one word, a memory' --what budget "${near[@]}"
refused "'gpu2': is none of --near" --what budget gpu2 "${small[@]:3}" "${near[@]}"
refused "'host': is none of --near" --what budget host "${small[@]:3}" "${near[@]}"
refused 'a percentage is no size' "${small[@]}" --near gpu1:50%
refused "'gpu1': 1 GiB and two blocks" "${small[@]}" --near gpu1:1GB
refused 'points for them' "${small[@]}" "${near[@]}" --samples 1000
refused "--samples '0'" "${small[@]}" "${near[@]}" --samples 0
refused 'one GPU' --what budget gpu1 --machine h200 "${near[@]}"
refused '--near-rate' "${small[@]}" "${near[@]}" --near-rate 3
refused '--each: it has no' "${small[@]}" "${near[@]}" --each 3 --pairs 2
refused '--each: it has no' "${small[@]}" "${near[@]}" --each 3 --samples 2
refused "--each '0'" "${small[@]}" "${near[@]}" --each 0
refused "--classes 'free': no such one" "${small[@]}" "${near[@]}" --each 3 --classes free
refused "--classes 'dirty': listed twice" "${small[@]}" "${near[@]}" --each 3 --classes dirty,dirty
refused '--classes and --seconds are for --each' "${small[@]}" "${near[@]}" --seconds 3
refused '--each is for --what budget' --what busy 1 --machine h200x2 --each 3
refused '--priority is for' "${small[@]}" "${near[@]}" --priority none
refused '--samples is for' --what busy 1 --machine h200x2 --samples 3
refused '--near and --near-rate are for' --what busy 1 --machine h200x2 "${near[@]}"
echo "ok - wrong options"
