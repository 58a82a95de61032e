#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir and $programs are dropin.sh's
#
# Programs that go through a large allocation slice by slice (tests/dropin/steady.c), with a third of it
# as memory: launches are taken to use the slice that they are given, and the results are right, also
# where a kernel uses more than that. Needs WEIR, BUILD_DIR, SOURCE_DIR, FAKECUDA_DRIVER. Prints a
# line a test.
#
# A library cannot be put before a sanitizer's, so this is for builds without one.
#
# Labels: optimised
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/dropin.sh"
without_sanitizer
export FAKECUDA_HBM_BYTES=67108864 FAKECUDA_REPORT="$dir/report"

for name in slices slices-written strays; do
	"$programs/steady" $name >plain || fail "the program fails by itself: $name" plain
	for mode in fast safe; do
		same $mode 7MiB "$programs/steady" $name
		has stats.json '"windows": [1-9][0-9]{2,}'
	done
	same fixed 7MiB "$programs/steady" $name
	has stats.json '"windows": 0'
	echo "ok - $name is right"
done
