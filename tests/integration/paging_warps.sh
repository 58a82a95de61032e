#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The tests of GPU-driven paging on a GPU, on warps without one (tests/paging/warps.h), in orders of
# lanes drawn from a seed, or from eight with WEIR_TEST_LONG, since one alone meets few; and the
# kernels on a matrix and of the solvers (tests/paging/matrix.cu, solver.cu). WEIR_SEEDS names other
# seeds. A quiescent point that is passed with spans held (PT_MUTANT 20) must be noticed. Needs SOURCE_DIR;
# without a C++ compiler there is nothing to ask.
#
# Takes 22 s of a processor: it compiles three large sources, one of them twice, and each lane is a
# fiber.
#
# Labels: slow
# Timeout: 600
# Long: yes
set -u

: "${SOURCE_DIR:?is the source tree}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cxx=${CXX:-g++}
status=0

if ! command -v "$cxx" >/dev/null; then
	echo "ok - no C++ compiler here: nothing is asked"
	exit 0
fi

# build PROGRAM SOURCE OPTION...
build() {
	local program=$1 source=$2
	shift 2
	"$cxx" -x c++ -std=c++17 -O1 -Wall -Wextra -Wno-unknown-pragmas -D_GNU_SOURCE \
		-I"$SOURCE_DIR" -I"$SOURCE_DIR/include" -include tests/paging/warps.h "$@" \
		"$SOURCE_DIR/$source" \
		-o "$program" >"$dir/log" 2>&1 && return
	echo "not ok - $source does not compile for the CPU"
	sed 's|^|# |' "$dir/log"
	exit 1
}

# run SEED PROGRAM ARGUMENT...
run() {
	local seed=$1
	shift
	if WEIR_SEED=$seed timeout 100 "$@" >"$dir/out" 2>&1; then
		echo "ok - seed $seed, ${1##*/}: $(tail -n 1 "$dir/out")"
	else
		echo "not ok - seed $seed, ${1##*/}"
		grep -v '^ok' "$dir/out" | sed 's|^|# |'
		status=1
	fi
}

undefined=(-fsanitize=undefined -fno-sanitize-recover=all)
build "$dir/paging" tests/gpu/test_paging.cu "${undefined[@]}"
build "$dir/paging_use" tests/gpu/test_paging_use.cu "${undefined[@]}"
build "$dir/matrix" tests/paging/matrix.cu "${undefined[@]}"
build "$dir/solver" tests/paging/solver.cu "${undefined[@]}"
# shellcheck disable=SC2086 # words are meant to be split
for seed in ${WEIR_SEEDS:-1 ${WEIR_TEST_LONG:+2 3 4 5 6 7 8}}; do
	run "$seed" "$dir/paging" --small
	run "$seed" "$dir/paging_use" --small
	run "$seed" "$dir/matrix"
	run "$seed" "$dir/solver"
done
build "$dir/mutant" tests/gpu/test_paging_use.cu -DPT_MUTANT=20
if timeout 100 "$dir/mutant" --small >"$dir/out" 2>&1 ||
	! grep -q '^FAIL spans held' "$dir/out"; then
	echo "not ok - mutant 20 is not noticed"
	status=1
else
	echo "ok - mutant 20: $(tail -n 1 "$dir/out")"
fi
exit $status
