/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the solvers, for the CPU and for CUDA. All of them take addresses, know nothing of
 * devices, and can do any range of slices; what they compute depends neither on the range nor on
 * who runs it, to the last bit (point.h).
 *
 * A field is a box of floats: `slices` of `rows` by `columns` elements each, one behind the other.
 * A field of two dimensions has slices of one row; a factor of als is one, SOLVER_WIDTH wide.
 * Slices are what is split between devices.
 */
#ifndef WEIR_SOLVER_KERNELS_H
#define WEIR_SOLVER_KERNELS_H

#include <stdint.h>

#include "weir/weir.h"
#include "workloads/solver/ratings.h"

#define SOLVER_COLUMNS_UNIT 4u /* columns come in multiples of it: 16 bytes */

struct solver_shape {
	uint32_t slices, rows, columns;
};

static inline uint64_t solver_slice_elements(const struct solver_shape *shape)
{
	return (uint64_t)shape->rows * shape->columns;
}

static inline uint64_t solver_slice_bytes(const struct solver_shape *shape)
{
	return solver_slice_elements(shape) * sizeof(float);
}

/* Slices that follow each other. Addresses are multiples of 16 bytes. */
struct solver_range {
	uint32_t first, nr; /* of the field's slices; nr > 0 */
	const float *in;    /* their elements, */
	/* those of the slice before them, and of the one behind; not read where the field ends */
	const float *before, *behind;
	float *out; /* their elements in the other array */
};

/*
 * One step in time for up to two ranges: out is computed from in. What lies on the border of the
 * field stays what it is, and is copied.
 */
struct solver_stencil_args {
	struct solver_shape shape; /* of the whole field */
	struct solver_range range[2];
	uint32_t nr_ranges;
};
extern const struct weir_kernel solver_kernel_jacobi, solver_kernel_diffusion;

#define SOLVER_WIDTH 64u /* elements of a row of als */

/*
 * als: rows of one side from all of the other's. Each row becomes what SOLVER_ALS_STEPS steps of
 * conjugate gradients from zero make of the least squares problem of its own ratings.
 */
struct solver_als_args {
	struct ratings ratings;
	uint32_t side;	    /* RATINGS_USERS, RATINGS_ITEMS: whose rows are computed */
	uint32_t first, nr; /* of these */
	float *out;	    /* their elements */
	/* The other side's rows, in parts that follow each other: the first row of each part and,
	 * behind the last, how many rows there are; where the part begins. */
	uint32_t nr_parts;
	uint32_t part_first[WEIR_DEVICES_MAX + 1];
	const float *part[WEIR_DEVICES_MAX];
};
#define SOLVER_ALS_STEPS 2u
extern const struct weir_kernel solver_kernel_als;

/* A vector of floats, in parts that follow each other: the first element of each part and, behind
 * the last, how many there are; where the part begins. */
struct solver_vector {
	uint32_t nr_parts;
	uint32_t part_first[WEIR_DEVICES_MAX + 1];
	const float *part[WEIR_DEVICES_MAX];
};

/* Rows of a graph: the vertices that the edges of some vertices come from. */
struct solver_rows {
	uint32_t first, nr;	/* which vertices */
	const uint64_t *offset; /* nr + 1: where the edges of each begin, and the last ones end */
	const uint32_t *neighbour; /* of all their edges, of which offset[0] are others' before */
	const uint8_t *weight;	   /* of sssp: of each of these; else NULL */
	uint64_t nr_edges;
	struct solver_piece *piece; /* of all of these rows that have several, for GPUs alone */
	uint32_t nr_pieces;
};

/* Edges of a row are added in so many sums, the i-th one to sum i modulo their number, and then
 * halves of the sums onto each other. A GPU has a lane for each sum. */
#define SOLVER_ROW_LANES 32u
#define SOLVER_LONG_ROW 1024u /* rows of more edges than that have */
#define SOLVER_LONG_ROW_LANES 256u

/*
 * Such a row is cut into pieces of so many edges each, from its first edge on, the last one with
 * what is left. Each is added by itself; then their sums are, as edges of a row that is not long.
 * On a GPU the blocks of a launch that begin first have a piece each of those rows that have
 * several, so that no launch waits for the row that has most edges.
 */
#define SOLVER_PIECE_EDGES 8192u

/* Pieces of a row follow each other. */
struct solver_piece {
	uint32_t vertex;  /* whose row it is of */
	uint32_t index;	  /* which of the row's pieces, from 0 on */
	float sum;	  /* scratch: what its edges were joined to */
	uint32_t nr_done; /* scratch, of a row's first piece: how many are; 0 between launches */
};

/*
 * pagerank: what each of some vertices gives along each of its edges, (base + damping * sum of in
 * over its edges) / their number; 0 if it has none. With in.nr_parts 0 the sum is 0.
 */
struct solver_pagerank_args {
	struct solver_rows rows;
	struct solver_vector in;
	float base, damping;
	float *out; /* of rows.first and on */
};
extern const struct weir_kernel solver_kernel_pagerank;

/*
 * sssp, a round: the distance of each of some vertices is the least of its own before and of those
 * of the vertices that edges to it come from, plus the edge's weight. Vertices are in blocks of
 * 2^block_log2, counted from rows.first; `changed` of a block becomes the round's number, which is
 * no other's, where a distance became less.
 */
struct solver_relax_args {
	struct solver_rows rows;
	struct solver_vector in;
	float *next; /* of rows.first and on */
	uint32_t *changed;
	uint32_t block_log2, round;
};
extern const struct weir_kernel solver_kernel_relax;

/* Copy ranges of distances to where they are shared; or, with from NULL, those of a beginning: 0 of
 * the source, infinity of all others. */
#define SOLVER_RANGES_MAX 8u
struct solver_commit_range {
	const float *from;
	float *to;
	uint32_t first, nr; /* vertices */
};
struct solver_commit_args {
	uint32_t nr_ranges;
	struct solver_commit_range range[SOLVER_RANGES_MAX];
	uint32_t source;
};
extern const struct weir_kernel solver_kernel_commit;

/* The contents that a field begins with: range.out alone is written. */
struct solver_fill_args {
	struct solver_shape shape;
	struct solver_range range;
};
extern const struct weir_kernel solver_kernel_fill;

/* Add a number that stands for what is in range.in, and where, to *sum; the numbers of parts add up
 * to that of the whole. */
struct solver_hash_args {
	struct solver_shape shape;
	struct solver_range range;
	uint64_t *sum;
};
extern const struct weir_kernel solver_kernel_hash;

#endif
