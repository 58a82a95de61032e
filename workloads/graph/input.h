/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How programs that run on graphs get one: from a graph file, which is mapped; from text, which is
 * built into a file without a name first; or a random one, which is generated. Whatever comes out
 * has been checked, so that kernels may index memory by its neighbours.
 *
 * Files without a name are made in the folder that TMPDIR names, or /tmp; nothing is left of them
 * however the program ends.
 */
#ifndef WEIR_GRAPH_INPUT_H
#define WEIR_GRAPH_INPUT_H

#include "weir/weir.h"
#include "workloads/gcn/pool.h"
#include "workloads/graph/csr.h"
#include "workloads/graph/gen.h"

#define GRAPH_INPUT_DEGREE_MAX 65536u

struct graph_input_params {
	const char *file;   /* a graph file, a list of edges or a matrix; NULL: generated */
	enum gen_kind kind; /* of a generated graph, as are scale and degree */
	uint32_t scale;	    /* it has 2^scale vertices; up to GEN_SCALE_MAX */
	uint64_t degree;    /* edges drawn for each vertex; 1 to GRAPH_INPUT_DEGREE_MAX */
	uint64_t seed;	    /* of generated edges, and of generated weights of any graph */
	/* Each edge in both directions, no loops, no duplicates; but a graph file that says that it
	 * is symmetric is taken as it is. False: edges as they are, generated ones as drawn. */
	bool symmetrize;
	bool weights;	/* all edges have one: the input's, or generated ones if it has none */
	bool transpose; /* the edges that end at a vertex are wanted, too */
	uint64_t memory_bytes; /* for edges that are being sorted, as struct csr_build has it */
	struct gcn_pool *pool; /* NULL: the calling thread alone */
	/* If its device is a real GPU, that generates a graph of up to GRAPH_GEN_SCALE_MAX, in its
	 * own memory; else, or NULL, the CPU does, the same graph. Borrowed until open returns. */
	struct weir_machine *machine;
	uint32_t device;
	const struct graph_watch *watch; /* NULL: nobody */
};

struct graph_input {
	struct csr graph; /* the lists of the edges that begin at a vertex */
	/* With transpose, the lists of the edges that end at a vertex: a symmetric graph's own, or
	 * those of another graph. All zero without. */
	struct csr in;
};

/**
 * Get a graph.
 *
 * A graph file that needs no change is mapped, and must not be changed meanwhile. A graph that a
 * GPU generates is in memory of this process. All others are built into files without a name, of
 * the size that csr_layout() says; text takes 24 bytes an edge more while it is read.
 *
 * @param [in]  params  Borrowed until this returns.
 * @param [out] out     graph_input_close() it. Written on success only.
 * @param [out] err     One line on error, but not for -ECANCELED. May be NULL.
 * @return 0, or
 *   -EINVAL     a parameter out of range, or the file is no graph, damaged, cut short or empty
 *   -ECANCELED  the watch asked to stop
 *   -ENOMEM     the host has less memory, or one vertex has more edges than memory_bytes holds
 *   -ENOSPC     no room for the file without a name
 *   -ERANGE     too many vertices or edges for the format
 *   other       what opening, reading or writing says, or graph_gpu_generate()
 * Threads: safe for different out. Blocks.
 */
WEIR_MUST_CHECK int graph_input_open(const struct graph_input_params *params,
				     struct graph_input *out, char *err, size_t err_bytes);

/* Give everything back. All zero, or one that was not opened: nothing. */
void graph_input_close(struct graph_input *input);

/**
 * Find the vertex that the input called id.
 *
 * @param [out] vertex  Written on success only.
 * @return 0, or -ENOENT: there is none.
 */
WEIR_MUST_CHECK int graph_vertex_of(const struct csr *g, uint64_t id, uint64_t *vertex);

#endif
