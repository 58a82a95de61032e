#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What paged access costs a kernel in registers, as ptxas counts them for sm_90 in
# src/paging/device_check.cu: a read of one element takes at most 28 more than the plain kernel's, so
# 40 (a GPU hands them out by eights), as many through objects as through functions, and no kernel
# spills. What the slow path, called by the ABI, saves of a kernel's is no spill of it. Needs
# SOURCE_DIR; without nvcc there is nothing to ask.
#
# Labels: slow
set -u

: "${SOURCE_DIR:?is the source tree}"
most=28
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
cd "$SOURCE_DIR" || exit 1

if ! command -v nvcc >/dev/null; then
	echo "ok - no nvcc here: nothing is asked"
	exit 0
fi
if ! nvcc -std=c++17 -O2 -arch=sm_90 -I. -Iinclude -Xptxas -v -c src/paging/device_check.cu \
	-o "$dir/object" >"$dir/log" 2>&1; then
	echo "not ok - device_check.cu does not compile"
	sed 's|^|# |' "$dir/log"
	exit 1
fi

# registers KERNEL: what its entry uses, with all that it calls.
registers()
{
	awk -v kernel="$1" '/Compiling entry function/ { here = index($0, kernel) }
		here && /Used [0-9]+ registers/ { print $5; exit }' "$dir/log"
}
raw=$(registers device_check_raw)
read=$(registers device_check_read)
array=$(registers device_check_array)
status=0
if [ -z "$raw" ] || [ -z "$read" ]; then
	echo "not ok - ptxas does not say how many registers are used"
	status=1
elif [ $((read - raw)) -gt $most ]; then
	echo "not ok - $read registers, $raw with a plain pointer: $((read - raw)) more, not $most"
	status=1
else
	echo "ok - $read registers, $raw with a plain pointer"
fi
if [ "$array" = "$read" ]; then
	echo "ok - $array registers through weir_paged_array"
else
	echo "not ok - $array registers through weir_paged_array, $read with functions"
	status=1
fi
if awk '/Function properties for/ { kernel = /for _Z[0-9]+device_check_/ }
	kernel && /spill stores/ && !/ 0 bytes spill stores, 0 bytes spill loads/ { found = 1 }
	END { exit !found }' "$dir/log"; then
	echo "not ok - registers are spilled"
	status=1
else
	echo "ok - nothing is spilled"
fi
exit $status
