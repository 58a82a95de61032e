/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that generate a graph on a device, and their arguments; gpu_gen.c puts them together.
 * They know ranges of vertices: an edge that begins in one is a key, (u - first) << scale | v, so
 * that keys in order are lists in order. A scale up to 32 leaves room for any range.
 */
#ifndef WEIR_GRAPH_GEN_KERNELS_H
#define WEIR_GRAPH_GEN_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/weir.h"
#include "workloads/graph/gen.h"

/* Beyond it keys have no room. */
#define GRAPH_GEN_SCALE_MAX 32u

/* Edges first to first + nr - 1 of a generator: as they are drawn, or both directions of each and
 * no loops. */
struct graph_gen_draw {
	struct gen gen;
	uint64_t first, nr;
	bool raw;
};

/* count[u >> shift]++ for each edge from u; additions are atomic. */
struct graph_gen_count_args {
	struct graph_gen_draw draw;
	uint32_t shift;
	uint64_t *count;
};
extern const struct weir_kernel graph_kernel_gen_count;

/* Append the keys of edges that begin at vertices first to end - 1 to *nr keys, in any order; *nr
 * says how many there are then, of which the first nr_max are kept. */
struct graph_gen_keep_args {
	struct graph_gen_draw draw;
	uint64_t first, end;
	uint64_t *key, nr_max, *nr;
};
extern const struct weir_kernel graph_kernel_gen_keep;

/* What sorting and keeping one of each need besides, for nr keys: a quarter of a byte each for
 * counters, and some slack. */
#define GRAPH_GEN_TEMP_BYTES(nr) ((nr) / 2 + (UINT64_C(1) << 20))
#define GRAPH_GEN_KEYS_MAX (UINT64_C(1) << 30)

/* Put keys of nr_bits bits in ascending order. nr: up to GRAPH_GEN_KEYS_MAX. */
struct graph_gen_sort_args {
	uint64_t *key, *other; /* nr each; what is left in other means nothing */
	void *temp;	       /* GRAPH_GEN_TEMP_BYTES(nr) */
	uint64_t nr;
	uint32_t nr_bits; /* > 0 */
};
extern const struct weir_kernel graph_kernel_gen_sort;

/* Copy one of each of sorted keys, in order, and say how many there are. nr: as above. */
struct graph_gen_unique_args {
	const uint64_t *key;
	uint64_t *out; /* nr */
	void *temp;    /* GRAPH_GEN_TEMP_BYTES(nr) */
	uint64_t nr;
	uint64_t *nr_out;
};
extern const struct weir_kernel graph_kernel_gen_unique;

/* What the lists of a range from first on have for nr keys: neighbours, and gen_weight()s unless
 * weight is NULL. */
struct graph_gen_lists_args {
	const uint64_t *key;
	uint64_t nr, first;
	uint32_t scale;
	uint64_t weight_key;
	uint32_t *neighbour, *weight; /* nr each */
};
extern const struct weir_kernel graph_kernel_gen_lists;

/* offset[i] = before + where the list of the range's vertex from + i begins in its nr keys. */
struct graph_gen_offsets_args {
	const uint64_t *key; /* sorted */
	uint64_t nr;
	uint32_t scale;
	uint64_t from, nr_vertices, before;
	uint64_t *offset; /* nr_vertices */
};
extern const struct weir_kernel graph_kernel_gen_offsets;

/* The first of nr sorted keys that is at least `least`; nr: there is none. */
GEN_FN uint64_t graph_gen_bound(const uint64_t *key, uint64_t nr, uint64_t least)
{
	uint64_t low = 0;

	while (low < nr) {
		uint64_t middle = low + (nr - low) / 2;

		if (key[middle] < least)
			low = middle + 1;
		else
			nr = middle;
	}
	return low;
}

#endif
