#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The kernels that the library carries as text are those of their sources: by the sum of the
# sources that a text names, and where the same nvcc is here, word for word. A source that was changed
# since is noticed.
#
# Labels: slow
set -euo pipefail

cd "${SOURCE_DIR:?the source tree}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tools/kernel-ptx --check

mkdir -p "$work/tools" "$work/src/backend/cuda"
cp tools/kernel-ptx "$work/tools"
for changed in cuda/packet.h cuda/digest_args.h digest.h; do
	cp src/backend/cuda/packet.* src/backend/cuda/digest* "$work/src/backend/cuda"
	cp src/backend/digest.h "$work/src/backend"
	echo >>"$work/src/backend/$changed"
	if "$work/tools/kernel-ptx" --check 2>"$work/said"; then
		echo "FAILED: with another $changed the texts are taken for those of their sources"
		exit 1
	fi
	grep -q "made of other sources" "$work/said"
done
