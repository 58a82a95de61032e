#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The CUDA backend without a GPU: random programs against the shadow model, on two to four devices,
# some of them with the others' memories as places, or with replicated ranges, also where the devices
# are parts of one GPU; threads, and each call of the backend failing in turn, all on the fake driver,
# which also watches for copies, kernels and mapping calls that meet.
#
# Takes 13 s of a processor: the driver without a GPU has a thread a stream.
#
# Labels: sanitized-only
# Timeout: 300
# Long: yes
set -euo pipefail

export WEIR_TEST_MACHINE=cuda
# The simulator has these at length, and is faster: the fake has a thread for each stream.
more=1 programs=1
[ -z "${WEIR_TEST_LONG-}" ] || more=5 programs=10
if [ -n "${WEIR_SANITIZE-}" ]; then
	export WEIR_SEQUENCES=$((24 * programs)) CHUNK_SEEDS=$((2 * more))
	export MEM_SEEDS=$((2 * more))
else
	export WEIR_SEQUENCES=$((200 * programs)) CHUNK_SEEDS=$((4 * more))
	export MEM_SEEDS=$((3 * more))
fi
"$BUILD_DIR/tests/property/test_space_random"
WEIR_SEQUENCES=$((WEIR_SEQUENCES / 8)) "$BUILD_DIR/tests/property/test_replica_random"
"$BUILD_DIR/tests/contract/test_space_threads"
# What a device lacks of its copy is copied there whole, also where another one's open bracket reads,
# through its view of that copy, what is there already: the same bytes (copy_beside of backend.h). The
# driver cannot tell; every kernel looks at what it reads.
FAKECUDA_COPIES_BESIDE=1 "$BUILD_DIR/tests/property/test_replica_threads"
"$BUILD_DIR/tests/unit/test_space_atomic"
"$BUILD_DIR/tests/unit/test_replica_lists"
"$BUILD_DIR/tests/unit/test_replica_unordered"
"$BUILD_DIR/tests/property/test_chunk_random"
"$BUILD_DIR/tests/property/test_mem_random"
WEIR_TEST_SPLIT=4 WEIR_SEQUENCES=$((WEIR_SEQUENCES / 4)) "$BUILD_DIR/tests/property/test_space_random"

# The same in debug mode, which refuses what core must not do and takes access from what nobody
# declared.
export WEIR_CUDA_DEBUG=1
"$BUILD_DIR/tests/property/test_space_random"
WEIR_SEQUENCES=$((WEIR_SEQUENCES / 8)) "$BUILD_DIR/tests/property/test_replica_random"
"$BUILD_DIR/tests/contract/test_space_threads"
"$BUILD_DIR/tests/unit/test_space_atomic"
"$BUILD_DIR/tests/unit/test_replica_unordered"
