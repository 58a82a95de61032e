#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The packets' kernels that the library carries as text are those of their source: by the sum of the
# source that the text names, and where the same nvcc is here, word for word. A source that was
# changed since is noticed.
#
# Labels: slow
set -euo pipefail

cd "${SOURCE_DIR:?the source tree}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tools/packet-ptx --check

mkdir -p "$work/tools" "$work/src/backend/cuda"
cp tools/packet-ptx "$work/tools"
cp src/backend/cuda/packet.* "$work/src/backend/cuda"
echo >>"$work/src/backend/cuda/packet.h"
if "$work/tools/packet-ptx" --check 2>"$work/said"; then
	echo "FAILED: another source is taken for the one that the text was made of"
	exit 1
fi
grep -q "made of other sources" "$work/said"
