#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The pack that is carried to a GPU machine, and the script that runs it there, on the driver
# without a GPU: every test passes as it runs there, a failing one is counted, the summary is
# a line of JSON each. What else runs on that driver, as gpu.* or in integration.cuda, is left out
# but for WEIR_TEST_LONG.
#
# Takes 12 s of a processor: the tests for a GPU run, each as a program of its own.
#
# Labels: slow
# Timeout: 300
# Long: yes
set -euo pipefail

: "${SOURCE_DIR:?}" "${BUILD_DIR:?}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
	echo "not ok - $*"
	exit 1
}

"$SOURCE_DIR/tests/gpu/pack" --fake "$BUILD_DIR" "$dir/pack"

# A cuBLAS among Python's packages is found, unless there is another.
site=$dir/site/nvidia/cu13/lib
mkdir -p "$site"
touch "$site/libcublas.so.13"
found=$(PYTHONPATH=$dir/site "$dir/pack/find-cublas")
case $found in
"$site") ;;
"") ldconfig -p | grep -q libcublas || ls /usr/local/cuda/lib64/libcublas.so.1[23] >/dev/null ||
	fail "no cuBLAS was found" ;;
*) fail "cuBLAS was found in '$found'" ;;
esac
found=$(PYTHONPATH=$dir/site LD_LIBRARY_PATH=$site "$dir/pack/find-cublas")
[ -z "$found" ] || fail "a cuBLAS that is named was looked for: '$found'"
export OUT=$dir/out

skip=()
if [ -z "${WEIR_TEST_LONG-}" ]; then
	for name in backend spaces remap memory matrix solver graph space_atomic space_threads \
		_lists chunk_random mem_random; do
		skip+=(--skip "$name")
	done
fi
status=0
"$dir/pack/run" --fake --quick "${skip[@]}" | tee "$dir/text" || status=$?
[ $status -eq 0 ] || fail "status $status"
tail -n 1 "$dir/text" | grep -Eq '^[0-9]+ passed, 0 failed$' || fail "no last line"
nr=$(grep -c ' passed$' "$dir/text")
[ "$nr" -ge 14 ] || fail "$nr tests only"
[ "$(grep -c '"passed":true' "$OUT/summary.jsonl")" -eq "$nr" ] || fail "the summary differs"
python3 -c 'import json, sys; [json.loads(line) for line in sys.stdin]' <"$OUT/summary.jsonl"

# With several GPUs the driver refuses what threads do at once.
FAKECUDA_DEVICES=2 "$dir/pack/run" --fake --quick --only mem_random >"$dir/text" ||
	fail "two GPUs: $(cat "$dir/text")"

# What is broken is told: the kernels' library is another one.
cp "$dir/pack/fake/libcuda-fake.so.1" "$dir/pack/fake/libweir-test-fake.so"
status=0
"$dir/pack/run" --fake --only spaces >"$dir/text" || status=$?
[ $status -eq 1 ] || fail "status $status of tests that fail"
grep -q 'FAILED' "$dir/text" || fail "no test is said to have failed"
[ "$(tail -n 1 "$dir/text")" = "0 passed, 1 failed" ] || fail "the last line is not right"

status=0
"$dir/pack/run" --fake --only nonesuch 2>"$dir/text" || status=$?
[ $status -eq 2 ] || fail "status $status for a name that is none"
grep -q 'no test is called so' "$dir/text" || fail "a name that is none is not told"
echo "ok - $nr tests"
