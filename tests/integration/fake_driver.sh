#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Programs that know of the CUDA driver alone, on the fake one, without weir. One computes the same
# in all ways to reach the driver and to allocate, and notices a wrong word and too little memory;
# one is written with cuda.h, where the build found it.
set -uo pipefail

readonly program=$BUILD_DIR/tests/dropin/program
export LD_LIBRARY_PATH=$FAKECUDA_DRIVER
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
readonly report=$tmp/report
export FAKECUDA_REPORT=$report

status=0
fail() {
	echo "fake_driver: $*" >&2
	status=1
}

# same WANTED ARGUMENTS: a run whose line is that one.
same() {
	local wanted=$1 line
	shift
	line=$("$program" "$@") || fail "failed: $*"
	[ "$line" = "$wanted" ] || fail "$*: not '$wanted' but '$line'"
}

first=$("$program") || fail "does not run"
case $first in
*" ok") ;;
*) fail "no ok: $first" ;;
esac
for reach in linked dlsym proc proc-first per-thread; do
	same "$first" --ask --reach $reach
	same "$first" --streams 0 --reach $reach
	same "$first" --async --ask --streams 4 --reach $reach
done

threads=$("$program" --threads 3 --bytes 20004) || fail "threads: failed"
for reach in linked proc per-thread; do
	same "$threads" --threads 3 --bytes 20004 --async --streams 3 --reach $reach
	same "$threads" --threads 3 --bytes 20004 --async --streams 0 --reach $reach
done

spin=$("$program" --spin --threads 2) || fail "spin: failed"
same "$spin" --spin --threads 2 --async --streams 3 --reach per-thread

for header in header header_per_thread; do
	"$BUILD_DIR/tests/dropin/$header"
	case $? in
	0) ;;
	77) echo "fake_driver: no cuda.h, or one of a later CUDA" ;;
	*) fail "$header: failed" ;;
	esac
done

# The programs order all that they do, and give all back.
lines=$(wc -l <"$report")
[ "$lines" -ge 25 ] || fail "only $lines runs reported"
bad=$(grep -v '^calls [0-9]* races 0 unmaps 0 leaks 0 problem none$' "$report") &&
	fail "the driver reports: $bad"

# A function of the driver's that is preloaded takes its place for the program, and for the driver
# itself does not. Sanitizers want to be the first that is preloaded.
if [ -z "$WEIR_SANITIZE" ]; then
	echo 'int cuMemAlloc_v2(void) { return 999; }' >"$tmp/other.c"
	"$CC" -shared -fPIC -o "$tmp/other.so" "$tmp/other.c" || fail "$CC failed"
	LD_PRELOAD=$tmp/other.so "$program" 2>"$tmp/errors" && fail "preloading has no effect"
	grep -q 999 "$tmp/errors" || fail "preloading: $(cat "$tmp/errors")"
	preloaded=$(LD_PRELOAD=$tmp/other.so "$program" --reach proc) || fail "preloaded: failed"
	[ "$preloaded" = "$first" ] || fail "preloaded: $preloaded"
fi

if "$program" --plant 2>/dev/null; then
	fail "a wrong word is not found"
fi
if FAKECUDA_HBM_BYTES=0x40000 "$program" 2>/dev/null; then
	fail "runs in too little memory"
fi
exit $status
