/* SPDX-License-Identifier: Apache-2.0 */
/* Generating a graph on a GPU: what is going on, and its steps. */
#ifndef WEIR_GRAPH_GPU_GEN_INTERNAL_H
#define WEIR_GRAPH_GPU_GEN_INTERNAL_H

#include "src/backend/backend.h"
#include "workloads/graph/gen_kernels.h"
#include "workloads/graph/gpu_gen.h"

struct generator {
	const struct graph_gpu *gpu;
	struct backend *b;
	stream_id_t stream;
	int fd;
	uint32_t scale, shift; /* a bucket is 2^shift vertices */
	uint64_t nr_vertices, nr_buckets;
	uint64_t *count; /* edges of each bucket; on the host */
	uint64_t nr_placed;
	/* One allocation of the GPU's memory, and what it is cut into. */
	char *memory;
	uint64_t memory_bytes;
	uint64_t *device_count, *device_nr, *key, *other;
	void *temp;
	uint64_t nr_keys_max; /* room for these in key and in other */
	char *staging;	      /* the host's, pinned */
	uint64_t staging_bytes;
	struct csr_header room; /* the file, for as many edges as there may be */
	struct csr_built built; /* nr_edges: those that are in the file */
	char *err;
	size_t err_bytes;
};

/* Say that the machine failed; returns error. */
int generator_fail(const struct generator *g, int error);

/*
 * Each returns 0, -ECANCELED: the watch asked to stop, or an error with a line in g->err. Ranges of
 * vertices are half-open. Keys are at most nr_keys_max.
 */

/* Draw all edges and fill count, nr_placed and how many loops there were. */
int generator_count(struct generator *g);

/* Draw them again, and have the keys of those that begin in a range, which are nr, in key. */
int generator_keep(struct generator *g, uint64_t first, uint64_t end, uint64_t nr);

/* Sort nr keys, of a range of nr_vertices. */
int generator_sort(struct generator *g, uint64_t nr_vertices, uint64_t nr);

/* Put one of each of the sorted keys into other; *nr becomes how many those are. */
int generator_unique(struct generator *g, uint64_t *nr);

/* Write where the lists of a range begin, of which there are nr keys. Before its lists. */
int generator_write_offsets(struct generator *g, const uint64_t *key, uint64_t nr, uint64_t first,
			    uint64_t end);

/* Write the lists of a range, which become edges of the file. */
int generator_write_lists(struct generator *g, const uint64_t *key, uint64_t nr, uint64_t first);

#endif
