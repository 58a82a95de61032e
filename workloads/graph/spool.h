/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges that were read from text: kept in a scratch file, numbered when all are known, and then a
 * source of edges that can be passed over as often as needed.
 *
 * Ids may have gaps. Vertices are numbered in the order of their ids, which are kept unless they
 * are 0, 1, 2, ... themselves. The set of ids is made by sorting: what comes is put by, and merged
 * into the sorted set whenever the memory for it is full.
 *
 * Memory: up to memory_bytes while edges are added; 16 bytes a vertex, 9 once all were added. On
 * disk 24 bytes an edge.
 */
#ifndef WEIR_GRAPH_SPOOL_H
#define WEIR_GRAPH_SPOOL_H

#include "workloads/graph/section.h"
#include "workloads/graph/source.h"

enum spool_weights { SPOOL_WEIGHTS_UNKNOWN, SPOOL_UNWEIGHTED, SPOOL_WEIGHTED };

struct spool {
	int fd; /* borrowed */
	/* Set by who adds edges, before the first one. Ids are numbers below nr_vertices, and
	 * vertices may be without edges; 0: the vertices are those that edges have. */
	uint64_t nr_vertices;
	enum spool_weights weights;
	uint64_t nr_edges;
	struct section section;
	/* Ids: those that came last, in any order, and before them the sorted set. */
	uint64_t *recent, nr_recent, recent_room, recent_max;
	uint64_t *id, nr_ids;
	/* Once closed: ids whose upper bits are below i number start[i]. */
	uint64_t *start;
	unsigned int shift;
};

/* fd: an empty file, open for reading and writing. */
void spool_init(struct spool *spool, int fd, uint64_t memory_bytes);
void spool_fini(struct spool *spool);

/* Add an edge between ids. 0, -ENOMEM, or what writing says. */
int spool_add(struct spool *spool, const struct edge *edge);

/*
 * No more edges: number the vertices, and be a source. There is a vertex.
 *
 * @param [out] out  Borrows the spool. Written on success only.
 * @return as spool_add().
 */
int spool_close(struct spool *spool, struct edge_source *out);

#endif
