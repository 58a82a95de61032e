/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads on a dense matrix of floats, row by row: each pass sweeps over it twice, once for sums
 * along rows and once for sums along columns, as PolyBench's kernels of these names do.
 *
 *   mvt   x1 += A y1, x2 += A^T y2
 *   atax  t = A x, y = A^T t
 *   bicg  q = A p, s = A^T r
 *
 * docs/matrix.md says what is in them and how sums are checked. The matrix is a manager's, memory
 * that kernels only read. Vectors are not what is managed: they lie in the device's own memory.
 *
 * Several devices have some of the rows each, and vectors of their own. Then there are sums along
 * columns on each, of its rows, which the first device adds up.
 */
#ifndef WEIR_MATRIX_H
#define WEIR_MATRIX_H

#include "workloads/agents.h"
#include "workloads/matrix/kernels.h"
#include "workloads/passes.h"
#include "workloads/workload.h"

#define MATRIX_SEED_DEFAULT 2025u
#define MATRIX_BLOCKS_MAX (1u << 16)
#define MATRIX_SIZE_MAX (1u << 18) /* rows, columns: no two of them are the same */

enum matrix_kind { MATRIX_MVT, MATRIX_ATAX, MATRIX_BICG, MATRIX_KIND_NR };

struct matrix_params {
	enum matrix_kind kind;
	uint32_t rows, columns; /* a row has whole pages; rows in multiples of MATRIX_BATCH */
	uint32_t page_bytes;	/* 4, 8, 16 or 64 KiB */
	uint64_t seed;		/* any */
	uint32_t passes;	/* in all, warm-up included; > 0 */
	uint32_t warm_up;	/* of them */
	bool warm;		/* what a pass left on the device is there for the next one */
	bool check;		/* read the matrix back at the end */
	/* Of a launch on a GPU: blocks, 0: as many as are resident; threads of each, whole warps,
	 * as many as a page has pieces or a multiple. */
	uint32_t blocks, threads;
	uint32_t agents;	       /* threads that page, on the CPU */
	uint32_t devices;	       /* of the manager, that rows are split between; 0: 1 */
	workload_progress_fn progress; /* called with passes done; may be NULL */
	void *progress_arg;
};

static inline uint64_t matrix_bytes(const struct matrix_params *p)
{
	return (uint64_t)p->rows * p->columns * sizeof(float);
}

static inline uint32_t matrix_devices(const struct matrix_params *p)
{
	return p->devices ? p->devices : 1;
}

/* The first row of the index-th device; of the one behind the last, how many rows there are. */
static inline uint32_t matrix_first_row(const struct matrix_params *p, uint32_t index)
{
	return (uint32_t)((uint64_t)(p->rows / MATRIX_BATCH) * index / matrix_devices(p)) *
	       MATRIX_BATCH;
}

/* "mvt", "atax", "bicg". Static. */
const char *matrix_kind_name(enum matrix_kind kind);

/* -EINVAL: a figure out of range, err says which. For programs that ask before they run. */
WEIR_MUST_CHECK int matrix_params_check(const struct matrix_params *p, char *err, size_t err_bytes);

/*
 * Run all passes. m: by this thread alone; on return nothing that the run allocated is left in it,
 * and no queued work. out: written on success only; passes_result_free() it. err: on failure one
 * line, cut to err_bytes. May be NULL.
 *
 * Wrong sums are a result (out->passed), not an error. On a phantom machine nothing is compared.
 *
 * 0, or -ENOMEM: the manager cannot hold the matrix (a result), or the device's memory the vectors;
 * -EAGAIN: this computer has no memory for what a run needs; -EINTR: progress asked to stop;
 * -EINVAL; -ENOTSUP: the manager has one device; or an error of the manager. Blocks.
 */
WEIR_MUST_CHECK int matrix_run(struct manager *m, const struct matrix_params *p,
			       struct passes_result *out, char *err, size_t err_bytes);

#endif
