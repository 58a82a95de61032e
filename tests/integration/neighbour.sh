#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_neighbour, at small sizes: a neighbour that trains is slower while another GPU trains in its
# memory, and less so when less may cross the link, for which the other one pays; one line and a
# status for what can be wrong. Needs BUILD_DIR, SOURCE_DIR and python3. Takes 2 s.
set -euo pipefail

program=${BUILD_DIR:?the build}/bench/bench_neighbour
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/environment.sh"

# neighbour NAME STATUS ARGUMENT...: what it prints is in $dir/NAME.
neighbour() {
	local name=$1 status=0
	"$program" "${@:3}" >"$dir/$name" 2>"$dir/err" || status=$?
	[ "$status" -eq "$2" ] || fail "${*:3}: status $status" "$dir/err"
}

# 3 million nodes have 22 GB at their peak.
neighbour free 0 h200x2 3 0.5 6 14
neighbour limited 0 h200x2 3 0.5 6 14 100
python3 - "$dir/free" "$dir/limited" <<'END_PY' || fail "not so" "$dir/free" "$dir/limited"
import json, sys
free, limited = (json.load(open(name)) for name in sys.argv[1:])
assert free["covered"] and limited["covered"]
assert free["alone_s"] == limited["alone_s"] and free["free_s"] == limited["free_s"]
assert 1.02 < free["ratio"] < 1.2, free
assert 1 < limited["ratio"] < free["ratio"] - 0.01, limited
assert limited["lent_s"] > 1.02 * limited["free_s"], limited
END_PY
echo "ok - what a neighbour pays, and what a limit does"

# A training that is over too soon covers nothing.
neighbour short 1 h200x2 0.1 3 33 14
grep -q '"covered":false' "$dir/short" || fail "it is covered" "$dir/short"

# wrong WORDS ARGUMENT...: it says so in one line, and prints nothing.
wrong() {
	neighbour out 2 "${@:2}"
	[ ! -s "$dir/out" ] || fail "${*:2}: it prints" "$dir/out"
	[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "${*:2}: not one line" "$dir/err"
	grep -q -- "$1" "$dir/err" || fail "${*:2}" "$dir/err"
}
wrong 'nowhere' nowhere
wrong "machine 'h200': its first two GPUs" h200
wrong "'0': it takes a number" h200x2 0
wrong "'3M': it takes a number" h200x2 20 3M
wrong "'-1': it takes a number" h200x2 20 3 33.67 94 -1
neighbour out 1 h200x2 0.1 60
grep -q '^bench_neighbour: gcn: no memory for' "$dir/err" || fail "no room" "$dir/err"
echo "ok - what can be wrong"
