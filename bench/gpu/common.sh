# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# common.sh: what the scripts of this folder that measure real GPUs begin with, and bench/replicas:
# surroundings, running a command with a time limit, and counting what came of it. A script sets
# before it sources this: pack (the folder that tests/gpu/pack made, or a build), out (where results
# go), limit_s (nothing starts later), machine (a description, or empty), and simulate and quick (true
# or false).

[ -x "$pack/weir" ] || {
	echo "$0: $pack is not there: build the target gpu-pack" >&2
	exit 2
}
mkdir -p "$out" || exit 2

# The measurements are the same whatever the caller has set.
for name in $(compgen -e | grep "^WEIR_" | grep -v "_KERNELS$" || true); do
	unset "$name"
done
export WEIR_MACHINE_PATH=$pack/machines
blas=$([ ! -x "$pack/find-cublas" ] || "$pack/find-cublas") # which a build has not
# For weir alone: what the pack carries is older than what Python may be built with.
readonly libraries=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}${blas:+:$blas}

# What a run that fails for want of memory is judged by.
{
	date -u +%FT%TZ
	cat "$pack/VERSION"
	grep -E '^(MemTotal|MemAvailable):' /proc/meminfo
	cat /sys/fs/cgroup/memory.max 2>/dev/null
	nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv,noheader
} >>"$out/run.log" 2>&1

# For awk: what a member of the line's JSON object is, and the same of a text.
# shellcheck disable=SC2016,SC2034 # it is awk's, in the scripts
readonly json_fields='
	function field(name) {
		if (!match($0, "\"" name "\":[^,}]*"))
			return ""
		return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
	}
	function text(name) {
		return substr(field(name), 2, length(field(name)) - 2)
	}
'

# For awk, behind that: of the results of solvers, seconds of a pass and its bound, by "WORKLOAD GPUS"
# and manager; order, the n of these keys on several GPUs.
# shellcheck disable=SC2016,SC2034 # as above
readonly solver_fields='
	function speed_up(key, manager, part) {
		split(key, part, " ")
		return seconds[key, manager] ? single[part[1]] / seconds[key, manager] : 0
	}
	function times_bound(key, manager) {
		return bound[key, manager] ? seconds[key, manager] / bound[key, manager] : 0
	}
	text("status") == "ok" {
		key = text("workload") " " field("devices")
		manager = text("manager")
		seconds[key, manager] = field("epoch_median_s") + 0
		bound[key, manager] = field("bound_s") + 0
		if (manager == "single")
			single[text("workload")] = seconds[key, manager]
		else if (!(key in seen)) {
			seen[key] = 1
			order[++n] = key
		}
	}
'

# ---------------------------------------------------------------- running

nr_done=0 nr_failed=0

# step LIMIT OUT COMMAND...: one command; what it writes goes to OUT, what it complains of to the
# log, its time to the screen.
step() {
	local limit=$1 to=$2 begin=$SECONDS status=0 how='done'
	shift 2
	if [ $SECONDS -ge "$limit_s" ]; then
		echo "not started, $limit_s s are over: $*"
		nr_failed=$((nr_failed + 1))
		return 1
	fi
	echo "\$ $*" >>"$out/run.log"
	timeout --foreground -k 5 "$limit" "$@" >>"$to" 2>>"$out/run.log" </dev/null || status=$?
	[ $status -eq 0 ] || how="FAILED with $status"
	printf '%4d s  %s  %s\n' $((SECONDS - begin)) "$how" "${*#"$pack"/}"
	if [ $status -ne 0 ]; then
		nr_failed=$((nr_failed + 1))
		tail -n 1 "$out/run.log" | sed 's/^/        /'
		return 1
	fi
	nr_done=$((nr_done + 1))
}

# weir LIMIT ARGS...: its tables are kept apart from what it complains of.
weir() {
	local limit=$1
	shift
	LD_LIBRARY_PATH=$libraries step "$limit" "$out/tables.log" "$pack/weir" "$@"
}

# gcn STAGE LIMIT ARGS...: results are added to the stage's file.
gcn() {
	local stage=$1 limit=$2 on=(--machine cuda --measured "$machine")
	shift 2
	$simulate && on=(--machine "$machine")
	weir "$limit" bench gcn "${on[@]}" "$@" --json "$out/part.json"
	[ ! -e "$out/part.json" ] || cat "$out/part.json" >>"$out/$stage.jsonl"
	# A result, but hardly the one that is wanted.
	! grep -qs '"status":"out-of-memory"' "$out/part.json" ||
		echo "        out of memory: $out/run.log begins with what there was"
	rm -f "$out/part.json"
}

# passes STAGE LIMIT WORKLOAD ARGS...: the same for the other workloads, which need no description.
passes() {
	local stage=$1 limit=$2 workload=$3 on=(--machine cuda)
	shift 3
	[ -z "$machine" ] || on+=(--measured "$machine")
	$simulate && on=(--machine "$machine")
	weir "$limit" bench "$workload" "$@" "${on[@]}" --json "$out/part.json"
	[ ! -e "$out/part.json" ] || cat "$out/part.json" >>"$out/$stage.jsonl"
	rm -f "$out/part.json"
}

# size N: millions of nodes, or thousands to try the script.
size() {
	if $quick; then
		echo "$1k"
	else
		echo "$1M"
	fi
}

# Measure the GPUs, and their kernels by one small training; machine is the description then. One that
# is named is not measured again.
measure_machine() {
	local measured=$out/machine-rates.json options=()

	[ -z "$machine" ] || return 0
	$quick && options=(--quick)
	weir 180 info --measure --machine cuda "${options[@]}" -o "$measured" || return 0
	machine=$measured
	weir 60 bench gcn --machine cuda --measured "$measured" --nodes "$(size 1)" --manager native \
		--fit-kernels "$out/machine.json" --json "$out/machine.jsonl" &&
		machine=$out/machine.json
}
