/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph as one file that is mapped into memory: compressed sparse rows (CSR). Vertices are
 * numbered from 0; the edges of a vertex are one list, in ascending order. docs/graph.md has the
 * file byte by byte.
 *
 * The file must not be changed while it is mapped: what was checked would not hold, and reading
 * beyond the end of one that was cut is a bus error. weir replaces files whole, which is no change.
 */
#ifndef WEIR_GRAPH_CSR_H
#define WEIR_GRAPH_CSR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workloads/graph/watch.h"

#define CSR_MAGIC "weir-csr"
#define CSR_VERSION 1u
/* Sections begin at multiples of this, and so does the end of the file. */
#define CSR_ALIGN UINT64_C(65536)
/* Limits keep all sums of bytes within 64 bits. */
#define CSR_VERTICES_MAX (UINT64_C(1) << 48)
#define CSR_EDGES_MAX (UINT64_C(1) << 56)
/* Up to so many vertices their numbers take 32 bits. */
#define CSR_NARROW_VERTICES (UINT64_C(1) << 32)

enum csr_flags {
	CSR_WIDE = 1,	  /* numbers of neighbours have 64 bits, not 32 */
	CSR_WEIGHTED = 2, /* each edge has a weight */
	CSR_ORIGINAL = 4, /* vertices had other ids, which are kept */
	CSR_SYMMETRIC =
		8, /* every edge is there in both directions, equally often, of one weight */
	CSR_FLAGS = 15,
};

/* The first bytes of the file, little endian; zeros follow up to CSR_ALIGN. */
struct csr_header {
	char magic[8];
	uint32_t version, flags;
	uint64_t nr_vertices, nr_edges;
	uint64_t offsets_at, ids_at, neighbours_at,
		weights_at; /* bytes; 0: there is no such section */
	uint64_t file_bytes;
	uint64_t checksum; /* FNV-1a, 64 bits, of all bytes before it */
};

/*
 * A graph in memory.
 * Invariants: offset[0] = 0, it never falls, offset[nr_vertices] = nr_edges; nr_vertices > 0; ids
 * ascend. Once csr_check() agreed: neighbours are below nr_vertices, and each list ascends.
 */
struct csr {
	uint64_t nr_vertices, nr_edges;
	uint32_t flags;
	const uint64_t *offset; /* nr_vertices + 1; vertex v has edges offset[v] to offset[v + 1] */
	const uint32_t *narrow; /* neighbour of each edge; NULL: they are wide */
	const uint64_t *wide;	/* NULL: they are narrow */
	const uint32_t *weight; /* NULL: none */
	const uint64_t *id;	/* what each vertex was called in the input; NULL: its number */
	void *map;		/* what csr_close() unmaps */
	size_t map_bytes;
};

static inline uint64_t csr_neighbour(const struct csr *g, uint64_t edge)
{
	return g->narrow ? g->narrow[edge] : g->wide[edge];
}

static inline uint64_t csr_degree(const struct csr *g, uint64_t vertex)
{
	return g->offset[vertex + 1] - g->offset[vertex];
}

static inline uint64_t csr_id(const struct csr *g, uint64_t vertex)
{
	return g->id ? g->id[vertex] : vertex;
}

/*
 * The one layout that a graph of these counts and flags has: fill the whole header.
 * @return 0, or -ERANGE: no vertices, or a count beyond its limit.
 */
int csr_layout(uint64_t nr_vertices, uint64_t nr_edges, uint32_t flags, struct csr_header *out);

/**
 * Take a graph out of memory that has a whole file, without copying it.
 *
 * Checks the header and passes over offsets and ids; not over the edges, see csr_check().
 *
 * @param [in]  name   For messages.
 * @param [in]  bytes  Aligned to 8. Borrowed for as long as the graph is used.
 * @param [out] out    Written on success only.
 * @param [out] err    On error one line that names the file and what to do. May be NULL.
 * @return 0, or -EINVAL.
 */
int csr_view(const char *name, const void *bytes, size_t nr_bytes, struct csr *out, char *err,
	     size_t err_bytes);

/* Map a file, read only: as csr_view(), or what opening and mapping say. csr_close() it. */
int csr_open(const char *name, struct csr *out, char *err, size_t err_bytes);

/* The same of a file that is open for reading. fd is borrowed, and may be closed at once. */
int csr_map(const char *name, int fd, struct csr *out, char *err, size_t err_bytes);

void csr_close(struct csr *g);

/* Whether a file begins as graph files do; one that cannot be read does not. A pipe is not opened:
 * whoever writes to it would see it closed. */
bool csr_is_file(const char *name);

/**
 * Pass over all edges: neighbours in range and in order.
 *
 * @param [in] watch  May be NULL.
 * @return 0, -EINVAL with one line in err, or -ECANCELED: watch asked to stop.
 */
int csr_check(const char *name, const struct csr *g, const struct graph_watch *watch, char *err,
	      size_t err_bytes);

#endif
