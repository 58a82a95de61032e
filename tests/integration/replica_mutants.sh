#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # $dir, $last and $with_faults are mutants.sh's
#
# The same as mutants.sh of the deliberate faults of replicated ranges (WEIR_MUTANT from 8 on, in
# src/core/types.h): property.replica_random has to notice each of them, or property.replica_orders or
# unit.replica_arrange, which are asked where that one found nothing. Needs SOURCE_DIR, the source tree, BUILD_DIR and CC.
# Prints a line a test.
#
# Labels: slow
set -u

: "${BUILD_DIR:?is the build}"
# shellcheck source=/dev/null
. "${SOURCE_DIR:?is the source tree}/tests/support/mutants.sh"

export WEIR_TEST_LOG=1
readonly wrong='words wrong|not what seed|^weir: kernel .* on stream|they have no order|^weir: replicated range [0-9]'

# What has a deliberate fault in it comes before the library as it is.
build()
{
	# shellcheck disable=SC2046 # file names in the tree have no blanks
	mutants_build "$1" -O1 $(mutants_with "$1") "$BUILD_DIR/tests/libreplica-random.a" \
		"$BUILD_DIR/tests/libweir_test_support_objects.a" \
		"$BUILD_DIR/libweir_internal.a" -ldl
}

# as_it_is FOLDER TEST: without a fault it finds nothing; all of each is a test of its own.
as_it_is()
{
	mutants_test "tests/$1/test_$2.c" -O1
	build 0
	amount=WEIR_SEQUENCES
	[ "$2" != replica_orders ] || amount=WEIR_SEQUENCE # one of them
	env $amount=100 timeout 60 "$dir/run" >"$dir/log" 2>&1 ||
		fail "$2, the library as it is: exit status $?" "$dir/log"
	echo "ok - $2, as it is"
}

# What the random programs hardly ever come to: two messages to one place under way together; and
# copies exchanged beside an open bracket.
readonly orders=13 exchanged=21

mutants_find WEIR_MUTANT 21 src/replica
highest=$last
as_it_is property replica_random
last=$((orders - 1))
mutants_try "$wrong" 8
last=$((exchanged - 1))
mutants_try "$wrong" $((orders + 1))
last=$highest
mutants_try "$wrong" $((exchanged + 1))
as_it_is property replica_orders
last=$orders
mutants_try "$wrong" "$orders"
as_it_is unit replica_arrange
last=$exchanged
mutants_try "$wrong|ERROR" "$exchanged"
