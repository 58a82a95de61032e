/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the workloads on a dense matrix, for the CPU and for CUDA. Each sweep is there
 * twice: for a matrix at an address, and for one that the kernel pages for itself.
 *
 * Elements are small whole numbers, and so are those of vectors: sums are exact, whatever order
 * they are made in.
 */
#ifndef WEIR_MATRIX_KERNELS_H
#define WEIR_MATRIX_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/paging/view.h"
#include "weir/weir.h"

/* What is taken at a time: so many columns of one row, 4 KiB, a part of one page; and of so many
 * rows the same part. */
#define MATRIX_PIECE 1024u
#define MATRIX_BATCH 32u
#define MATRIX_THREADS_MAX 512u /* of a block: the pieces of the largest page */
#define MATRIX_PIECE_BYTES (MATRIX_PIECE * sizeof(float))
#define MATRIX_SECTOR_BYTES 32u /* the least that a link moves: a touch */

/* One sweep over the matrix: out += A in (rows), or out += A^T in (columns). */
struct matrix_args {
	const float *elements; /* row by row; aligned to 16; not looked at where it is paged */
	uint32_t rows;	       /* a multiple of MATRIX_BATCH */
	uint32_t columns;      /* a multiple of MATRIX_PIECE; paged, of a page's */
	const int64_t *in;     /* of rows: an element a column; of columns: one a row */
	int64_t *out;	       /* the other way round; aligned to 16, as in */
	/* So many products of an element and one of in, of any sign, add up exactly in a float;
	 * at least MATRIX_BATCH. The CPU does not mind. */
	uint32_t exact;
	uint32_t blocks;  /* on a GPU; 0: as many as are resident */
	uint32_t threads; /* of a block: warps, paged as many as a page has pieces or a multiple */
	uint32_t agents;  /* threads that page, on the CPU */
	int *status;	  /* on the CPU: set to an error of an agent; else left alone */
};
extern const struct weir_kernel matrix_kernel_rows, matrix_kernel_columns;

/* The same of range `range` of a pool, whose pages begin and end with pieces. */
struct matrix_paged_args {
	struct weir_paged_view view;
	uint32_t range;
	struct matrix_args matrix;
};
extern const struct weir_kernel matrix_kernel_paged_rows, matrix_kernel_paged_columns;

/* out = the sum of nr vectors of `size` elements each, one behind the other; with `keep` what was
 * in out besides. How devices that have rows of a matrix each put their sums along columns
 * together. */
struct matrix_add_args {
	int64_t *out;
	const int64_t *in;
	uint32_t size, nr;
	bool keep;
};
extern const struct weir_kernel matrix_kernel_add;

#endif
