#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The test of GPU-driven paging on a GPU, on warps without one (tests/paging/warps.h), in an order
# of lanes drawn from a seed, and the kernels on a matrix (tests/paging/matrix.cu); WEIR_SEEDS names
# other seeds. Needs SOURCE_DIR; without a C++ compiler there is nothing to ask.
#
# Labels: slow
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

# build PROGRAM SOURCE
build() {
	"$cxx" -x c++ -std=c++17 -O1 -g -Wall -Wextra -Wno-unknown-pragmas -D_GNU_SOURCE \
		-fsanitize=undefined -fno-sanitize-recover=all -I"$SOURCE_DIR" \
		-I"$SOURCE_DIR/include" -include tests/paging/warps.h "$SOURCE_DIR/$2" -o "$1" \
		>"$dir/log" 2>&1 && return
	echo "not ok - $2 does not compile for the CPU"
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

build "$dir/paging" tests/gpu/test_paging.cu
build "$dir/matrix" tests/paging/matrix.cu
for seed in ${WEIR_SEEDS:-1}; do
	run "$seed" "$dir/paging" --small
	run "$seed" "$dir/matrix"
done
exit $status
