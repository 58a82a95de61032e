/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a graph file out of edges that come in any order, in bounded memory.
 *
 * One pass over the edges counts the degrees. Vertices are then divided into ranges whose edges fit
 * into the memory given, and for each range a pass places its edges into their lists, which are
 * sorted and written. So reading is repeated, writing is in sequence, nothing is kept beside the
 * output, and what comes out depends neither on the memory nor on the number of threads.
 *
 * Memory: memory_bytes, or what all edges need if that is less (8 bytes an edge that is written, 16
 * with wide ids, of which qsort() may take as much again for each list); 8 bytes a vertex; less
 * than 1 MiB a thread.
 */
#ifndef WEIR_GRAPH_BUILD_H
#define WEIR_GRAPH_BUILD_H

#include "workloads/gcn/pool.h"
#include "workloads/graph/source.h"

enum csr_weights {
	CSR_WEIGHTS_NONE,
	CSR_WEIGHTS_KEEP, /* those of the source, if it has any */
	CSR_WEIGHTS_GEN,  /* gen_weight() of the vertices' numbers */
};

struct csr_build {
	const struct edge_source *source;
	bool transpose;	    /* turn each edge around, before all else */
	bool symmetrize;    /* add the reverse of each edge (of a loop there is none), unless the
			     * source is symmetric */
	bool dedupe;	    /* of edges between the same vertices keep one, of the least weight */
	bool no_self_loops; /* leave out edges from a vertex to itself */
	bool wide;	    /* neighbours of 64 bits though 32 would do; for tests */
	enum csr_weights weights;
	uint64_t seed; /* of generated weights */
	uint64_t memory_bytes;
	struct gcn_pool *pool;		 /* NULL: the calling thread alone */
	const struct graph_watch *watch; /* NULL: nobody */
};

struct csr_built {
	uint64_t nr_edges, nr_loops_dropped, nr_duplicates_dropped, nr_passes;
};

/**
 * Write a graph file.
 *
 * @param [in]  fd   Open for reading and writing, empty. On error its contents mean nothing.
 * @param [out] out  Written on success only. May be NULL.
 * @param [out] err  One line on error, but not for -ECANCELED.
 * @return 0, or
 *   -ECANCELED  the watch asked to stop
 *   -ENOMEM     the host has less memory, or one vertex has more edges than memory_bytes holds
 *   -ERANGE     too many vertices or edges for the format
 *   other       what reading the source or writing says
 */
int csr_build(const struct csr_build *build, int fd, struct csr_built *out, char *err,
	      size_t err_bytes);

#endif
