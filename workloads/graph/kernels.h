/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the algorithms on graphs, for the CPU and for CUDA, and the arrays they work on.
 * Edges (and weights) are the manager's memory, at an address or paged by the kernels themselves;
 * everything that has an entry a vertex is in the device's own.
 *
 * Edges are gone through by items: parts of a vertex's list that do not cross a multiple of
 * GRAPH_PIECE edges. So a long list is work for many warps, and an item lies in one page of
 * whatever size. A round (an iteration, a frontier) makes its items from the vertices that are
 * active, in their order, then expands them: each edge of each item once.
 */
#ifndef WEIR_GRAPH_KERNELS_H
#define WEIR_GRAPH_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/paging/view.h"
#include "weir/weir.h"

#define GRAPH_PIECE 1024u     /* edges: 4 KiB, the smallest page */
#define GRAPH_LINE_EDGES 32u  /* of 4 bytes in a line of 128 bytes, what a link moves at best */
#define GRAPH_SECTOR_EDGES 8u /* of 4 bytes in a sector of 32 bytes */
/* Items that an agent on the CPU takes: more than a warp, since warps beside each other read in
 * order together, an agent alone. */
#define GRAPH_BATCH 1024u
#define GRAPH_SAMPLES 1024u  /* labels that are looked at for the most frequent one */
#define GRAPH_NEAR_EDGES 2u  /* of each list that CC links before it leaves lists out */
#define GRAPH_FAR UINT64_MAX /* distance: there is no path */
#define GRAPH_LEVEL_FAR UINT32_MAX

enum graph_algorithm { GRAPH_BFS, GRAPH_SSSP, GRAPH_CC, GRAPH_PAGERANK, GRAPH_ALGORITHM_NR };

struct graph_item {
	uint64_t begin; /* its first edge */
	uint32_t nr;	/* > 0 */
	uint32_t vertex;
};

/* What rounds tell the host and each other. Zero before the first one, but for the limit. */
struct graph_control {
	uint64_t nr_items, nr_edges; /* of this round */
	uint64_t nr_left; /* sssp: vertices that changed and are too far for this round */
	uint64_t nearest; /* the least distance of these */
	uint64_t limit;	  /* sssp: vertices nearer than that are expanded */
	uint64_t next;	  /* item that no warp has taken */
	uint64_t nr_lines, nr_first; /* counted: lines of this round; those never met before */
	/* On the CPU, else 0: runs of this round's items, see graph_goes_on(), and their
	 * sectors. */
	uint64_t nr_runs, nr_sectors;
	/* pagerank: rank of vertices without edges. An iteration's is read, the next one's added
	 * to, and that after it cleared, whether anything is expanded or not. */
	double spread[3];
	uint32_t level;	  /* bfs: of the vertices that are expanded */
	uint32_t started; /* there was a round */
};

/* All of one run. Arrays in the device's memory, but those that are said to be the manager's. */
struct graph_args {
	uint32_t algorithm;
	uint64_t nr_vertices, nr_edges;
	const uint64_t *offset;	   /* nr_vertices + 1 */
	const uint32_t *neighbour; /* the manager's; not looked at where it is paged, as weight */
	const uint32_t *weight;	   /* the manager's; NULL: each is 1 */
	struct graph_item *item;   /* room for all */
	uint64_t *from; /* sssp: of each item, its vertex's distance at the round's begin */
	struct graph_control *control;
	uint32_t *seen;		/* bits of vertices: bfs: when the last round's items were made */
	uint32_t *changed;	/* the same: bfs: reached; sssp: nearer, and not yet expanded */
	uint32_t *level;	/* bfs */
	uint64_t *distance;	/* sssp */
	uint32_t *label;	/* cc: parents, at last roots */
	uint32_t *sample;	/* GRAPH_SAMPLES */
	const uint32_t *degree; /* pagerank: edges out of each vertex; others: NULL */
	float *share;		/* what each vertex gives along an edge */
	double *sum, *rank;
	uint32_t *met, *ever; /* counting: bits of lines, of this round and of all */

	uint64_t source; /* bfs, sssp */
	uint64_t delta;	 /* sssp: > 0 */
	uint32_t round;	 /* pagerank: from 0 */
	bool near;	 /* cc: items are the first GRAPH_NEAR_EDGES edges of each list */
	bool skips;	 /* cc: lists of vertices with the label `skip` are left out */
	uint32_t skip;
	double damping;

	uint32_t blocks, threads; /* on a GPU; blocks 0: as many as are resident */
	uint32_t agents;	  /* threads that page, on the CPU */
	int *status;		  /* on the CPU: set to an error of an agent; else left alone */
};

/* Edges that kernels page: ranges of a pool. */
struct graph_paged_args {
	struct weir_paged_view view;
	uint32_t neighbour, weight; /* the latter only where args.weight is not NULL */
	struct graph_args args;
};

/* A round begins: what the last one left in *control decides what it expands. */
extern const struct weir_kernel graph_kernel_round;
/* Before the first round: levels, distances, labels, ranks, bits. */
extern const struct weir_kernel graph_kernel_begin;
/* The items of a round. */
extern const struct weir_kernel graph_kernel_items;
/* All items: each algorithm's step for each edge. Once for the items made. */
extern const struct weir_kernel graph_kernel_expand, graph_kernel_expand_paged;
/* For all vertices: cc: parents become roots; pagerank: ranks of sums, and the items may be
 * expanded once more. */
extern const struct weir_kernel graph_kernel_finish;
/* cc: sample[i] = the label of the i-th vertex of a fixed random sequence. */
extern const struct weir_kernel graph_kernel_sample;
/* Count the lines that this round's items go to. */
extern const struct weir_kernel graph_kernel_lines;

#endif
