#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The test of GPU-driven paging on a GPU, on warps without one (tests/paging/warps.h), in an order
# of lanes drawn from a seed; WEIR_SEEDS names others. Needs SOURCE_DIR; without a C++ compiler there
# is nothing to ask.
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

# build PROGRAM FLAG...
build() {
	local program=$1
	shift
	"$cxx" -x c++ -std=c++17 -O1 -g -Wall -Wextra -Wno-unknown-pragmas -D_GNU_SOURCE "$@" \
		-I"$SOURCE_DIR" -I"$SOURCE_DIR/include" -include tests/paging/warps.h \
		"$SOURCE_DIR/tests/gpu/test_paging.cu" -o "$program" >"$dir/log" 2>&1 && return
	echo "not ok - test_paging.cu does not compile for the CPU"
	sed 's|^|# |' "$dir/log"
	exit 1
}

build "$dir/right" -fsanitize=undefined -fno-sanitize-recover=all
for seed in ${WEIR_SEEDS:-1}; do
	if WEIR_SEED=$seed timeout 100 "$dir/right" --small >"$dir/out" 2>&1; then
		echo "ok - seed $seed: $(tail -n 1 "$dir/out")"
	else
		echo "not ok - seed $seed"
		grep -v '^ok' "$dir/out" | sed 's|^|# |'
		status=1
	fi
done
exit $status
