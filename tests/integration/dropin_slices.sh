#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir and $programs are dropin.sh's
#
# Programs that go through a large allocation slice by slice (tests/dropin/steady.c), with a third of it
# as memory: launches are taken to use the slice that they are given, and the results are right, also
# where a kernel uses more than that. Needs WEIR, BUILD_DIR, SOURCE_DIR, FAKECUDA_DRIVER. Prints a
# line a test. WEIR_TEST_LONG: each of these programs in all modes, else in mode fast or safe.
#
# A library cannot be put before a sanitizer's, so this is for builds without one.
#
# Long: yes
set -u

# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/dropin.sh"
without_sanitizer
export FAKECUDA_HBM_BYTES=268435456 FAKECUDA_REPORT="$dir/report"

for name in slices slices-written strays; do
	"$programs/steady" $name >plain || fail "the program fails by itself: $name" plain
	take_modes "fast safe" fixed
	for mode in $modes; do
		same "$mode" 23MiB "$programs/steady" $name
		windows='[1-9][0-9]+'
		[ "$mode" != fixed ] || windows=0
		has stats.json "\"windows\": $windows"
	done
	echo "ok - $name is right"
done
