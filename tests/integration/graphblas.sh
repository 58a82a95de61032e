#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A second opinion on bfs, sssp, cc and pagerank: graphblas_run.c computes them with
# SuiteSparse:GraphBLAS on generated graphs, directed and not. Nothing else needs that library
# (libgraphblas-dev): without it there is nothing to do, and a line says so.
# Needs WEIR, SOURCE_DIR and CC. Prints a line a test.
#
# Labels: slow
set -u

: "${WEIR:?is the program}" "${SOURCE_DIR:?is the source tree}" "${CC:=cc}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

if ! echo '#include <GraphBLAS.h>' | $CC -E - >/dev/null 2>&1; then
	echo "left out: GraphBLAS.h is not here (libgraphblas-dev)"
	exit 0
fi

cd "$SOURCE_DIR" || exit 1
# shellcheck disable=SC2086 # CC may have arguments
$CC -std=c11 -D_GNU_SOURCE -O1 -I. -Iinclude -o "$dir/run" tests/integration/graphblas_run.c \
	workloads/graph/csr.c workloads/graph/fail.c workloads/graph/reference_*.c \
	-lgraphblas -lm || exit 1

# opinion NAME ARGUMENT...: of a generated graph.
opinion()
{
	name=$1
	shift
	echo "# $name"
	"$WEIR" graph generate "$@" "$dir/raw.csr" >/dev/null &&
		"$WEIR" graph convert --dedupe "$dir/raw.csr" "$dir/g.csr" >/dev/null &&
		"$WEIR" graph convert --transpose "$dir/g.csr" "$dir/t.csr" >/dev/null || exit 1
	# Its threads cost more than they bring here.
	OMP_NUM_THREADS=1 "$dir/run" "$dir/g.csr" "$dir/t.csr" || exit 1
}

opinion 'directed, Kronecker' --kron 11 --raw --weights gen
opinion 'undirected, Kronecker' --kron 11 --weights gen
opinion 'directed, sparse, without weights' --uniform 12 --degree 1 --raw
