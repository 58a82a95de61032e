/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making graph files; see build.h.
 *
 * An edge waits for its list as an entry, which sorts as its neighbour and then its weight do: one
 * 64-bit word with the neighbour in its upper half, or two words where neighbours are wide.
 *
 * place[v] is, in turn: the number of edges of v; where the next of them goes among those of its
 * range, so that once all are placed it is the end of v's list and the beginning of the next; and
 * the number of edges of v that were written. Threads place in any order; sorting makes it one.
 */
#include "workloads/graph/build.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/graph/fail.h"
#include "workloads/graph/section.h"
#include "workloads/graph/sort.h"
#include "workloads/graph/write.h"

#define CHUNK_EDGES UINT64_C(2048)  /* read at once by a thread, on its stack */
#define TURN_CHUNKS UINT64_C(512)   /* between two looks at who watches */
#define SORT_VERTICES UINT64_C(256) /* sorted at once by a thread */
#define WRITE_VERTICES 65536u	    /* written between two looks */
#define SORT_PARTS UINT64_C(256)    /* between two looks */

struct wide_entry {
	uint64_t v, weight;
};

struct builder {
	const struct csr_build *build;
	const struct edge_source *source;
	struct csr_header header; /* for as many edges as there may be */
	bool wide, weighted, symmetrize;
	uint64_t weight_key;
	_Atomic uint64_t *place; /* nr_vertices; relaxed: runs of the pool order them */
	/* The range that is placed: vertices first to end - 1. */
	uint64_t first, end;
	void *entries;
	/* The run of the pool: chunks or parts from this one on. */
	uint64_t run_first;
	void (*use)(struct builder *b, uint64_t u, uint64_t v, uint32_t weight);
	_Atomic int error; /* the first of any thread */
	_Atomic uint64_t nr_loops;
	struct section neighbours, weights;
	struct csr_built built;
	char *err;
	size_t err_bytes;
};

static int fail_memory(const struct builder *b)
{
	return graph_fail(b->err, b->err_bytes, -ENOMEM,
			  "no memory on the host for this graph: give a smaller --memory, or "
			  "fewer vertices");
}

/* ------------------------------------------------------------------ passing over the edges */

/* One edge of the source, as the one or two that it stands for. */
static void expand(struct builder *b, const struct edge *edge)
{
	const struct csr_build *build = b->build;
	uint64_t u = build->transpose ? edge->v : edge->u, v = build->transpose ? edge->u : edge->v;
	uint32_t weight = 0;

	if (b->weighted)
		weight = build->weights == CSR_WEIGHTS_GEN ? gen_weight(b->weight_key, u, v)
							   : edge->weight;
	b->use(b, u, v, weight);
	if (b->symmetrize && u != v)
		b->use(b, v, u, weight);
}

static void chunk_run(const void *arg, uint64_t part)
{
	struct builder *b = *(struct builder *const *)arg;
	uint64_t first = (b->run_first + part) * CHUNK_EDGES, left = b->source->nr_edges - first;
	uint64_t nr = left < CHUNK_EDGES ? left : CHUNK_EDGES, nr_loops = 0;
	struct edge edge[CHUNK_EDGES];
	int none = 0, rc = b->source->read(b->source->arg, first, nr, edge);

	if (rc) {
		atomic_compare_exchange_strong(&b->error, &none, rc);
		return;
	}
	for (uint64_t i = 0; i < nr; i++) {
		if (b->build->no_self_loops && edge[i].u == edge[i].v)
			nr_loops++;
		else
			expand(b, &edge[i]);
	}
	atomic_fetch_add_explicit(&b->nr_loops, nr_loops, memory_order_relaxed);
}

/* Run parts 0 to nr - 1 of a step, in turns. */
static int run(struct builder *b, uint64_t nr, uint64_t turn, gcn_pool_fn fn, const char *label)
{
	atomic_store(&b->error, 0);
	for (b->run_first = 0; b->run_first < nr; b->run_first += turn) {
		uint64_t left = nr - b->run_first;
		int rc;

		if (graph_watch_stop(b->build->watch, (double)b->run_first / (double)nr, label))
			return -ECANCELED;
		gcn_pool_run(b->build->pool, MIN(left, turn), fn, &b);
		rc = atomic_load(&b->error);
		if (rc)
			return graph_fail(b->err, b->err_bytes, rc, "cannot read the edges: %s",
					  rc == -EINVAL ? "the input is damaged; see weir graph "
							  "info --check"
							: strerror(-rc));
	}
	return 0;
}

/* Hand every edge to use(). */
static int pass(struct builder *b, const char *label,
		void (*use)(struct builder *b, uint64_t u, uint64_t v, uint32_t weight))
{
	uint64_t nr_chunks = div_round_up(b->source->nr_edges, CHUNK_EDGES);

	b->use = use;
	atomic_store(&b->nr_loops, 0);
	return run(b, nr_chunks, TURN_CHUNKS, chunk_run, label);
}

static void count_edge(struct builder *b, uint64_t u, uint64_t v, uint32_t weight)
{
	(void)v;
	(void)weight;
	atomic_fetch_add_explicit(&b->place[u], 1, memory_order_relaxed);
}

static void place_edge(struct builder *b, uint64_t u, uint64_t v, uint32_t weight)
{
	uint64_t at;

	if (u < b->first || u >= b->end)
		return;
	at = atomic_fetch_add_explicit(&b->place[u], 1, memory_order_relaxed);
	if (b->wide)
		((struct wide_entry *)b->entries)[at] = (struct wide_entry){v, weight};
	else
		((uint64_t *)b->entries)[at] = v << 32 | weight;
}

/* ------------------------------------------------------------------ sorting */

static int compare_wide(const void *a, const void *b)
{
	const struct wide_entry *x = a, *y = b;

	if (x->v != y->v)
		return x->v < y->v ? -1 : 1;
	return (x->weight > y->weight) - (x->weight < y->weight);
}

static uint64_t place_of(const struct builder *b, uint64_t vertex)
{
	return atomic_load_explicit(&b->place[vertex], memory_order_relaxed);
}

/* Where the list of a vertex of the range begins, once all are placed. */
static uint64_t list_begin(const struct builder *b, uint64_t vertex)
{
	return vertex == b->first ? 0 : place_of(b, vertex - 1);
}

static void sort_run(const void *arg, uint64_t part)
{
	struct builder *b = *(struct builder *const *)arg;
	uint64_t v = b->first + (b->run_first + part) * SORT_VERTICES;
	uint64_t end = b->end - v < SORT_VERTICES ? b->end : v + SORT_VERTICES;

	for (; v < end; v++) {
		uint64_t at = list_begin(b, v), nr = place_of(b, v) - at;

		if (nr < 2)
			continue;
		if (b->wide)
			qsort((struct wide_entry *)b->entries + at, nr, sizeof(struct wide_entry),
			      compare_wide);
		else
			sort_words((uint64_t *)b->entries + at, nr);
	}
}

/* ------------------------------------------------------------------ writing */

static struct wide_entry entry_at(const struct builder *b, uint64_t i)
{
	uint64_t word;

	if (b->wide)
		return ((const struct wide_entry *)b->entries)[i];
	word = ((const uint64_t *)b->entries)[i];
	return (struct wide_entry){.v = word >> 32, .weight = word & UINT32_MAX};
}

static int write_entry(struct builder *b, struct wide_entry entry)
{
	const uint32_t narrow = (uint32_t)entry.v, weight = (uint32_t)entry.weight;
	int rc;

	if (b->wide)
		rc = section_put(&b->neighbours, &entry.v, sizeof(entry.v));
	else
		rc = section_put(&b->neighbours, &narrow, sizeof(narrow));
	if (!rc && b->weighted)
		rc = section_put(&b->weights, &weight, sizeof(weight));
	return rc;
}

/* Write one list. What was written of it, or a negative errno. */
static int64_t write_list(struct builder *b, uint64_t begin, uint64_t end)
{
	uint64_t last = 0;
	int64_t nr = 0;

	for (uint64_t i = begin; i < end; i++) {
		struct wide_entry entry = entry_at(b, i);
		int rc;

		/* The first of equal ones has the least weight. */
		if (b->build->dedupe && nr && entry.v == last) {
			b->built.nr_duplicates_dropped++;
			continue;
		}
		rc = write_entry(b, entry);
		if (rc)
			return write_fail(b->err, b->err_bytes, rc);
		last = entry.v;
		nr++;
	}
	return nr;
}

/* Write the lists of the range; place becomes what was written of each. */
static int write_range(struct builder *b)
{
	uint64_t begin = 0;

	for (uint64_t v = b->first; v < b->end; v++) {
		uint64_t end = place_of(b, v);
		int64_t nr = write_list(b, begin, end);

		if (nr < 0)
			return (int)nr;
		if (v % WRITE_VERTICES == 0 &&
		    graph_watch_stop(b->build->watch, (double)v / (double)b->source->nr_vertices,
				     "writing edges"))
			return -ECANCELED;
		atomic_store_explicit(&b->place[v], (uint64_t)nr, memory_order_relaxed);
		b->built.nr_edges += (uint64_t)nr;
		begin = end;
	}
	return 0;
}

/* ------------------------------------------------------------------ ranges */

static uint64_t entry_bytes(const struct builder *b)
{
	return b->wide ? sizeof(struct wide_entry) : sizeof(uint64_t);
}

static int fail_vertex(const struct builder *b, uint64_t vertex, uint64_t bytes)
{
	return graph_fail(b->err, b->err_bytes, -ENOMEM,
			  "vertex %llu has more edges than fit into --memory: give at least %llu",
			  (unsigned long long)vertex, (unsigned long long)bytes);
}

/* That the edges of any one vertex fit: known before hours of work. */
static int check_room(const struct builder *b, uint64_t room)
{
	for (uint64_t v = 0; v < b->source->nr_vertices; v++)
		if (place_of(b, v) > room)
			return fail_vertex(b, v, place_of(b, v) * entry_bytes(b));
	return 0;
}

/* The end of the range from first on: as many vertices as fit, counts turned into places. */
static void plan_range(struct builder *b, uint64_t room)
{
	uint64_t nr = 0;

	for (b->end = b->first; b->end < b->source->nr_vertices; b->end++) {
		uint64_t degree = place_of(b, b->end);

		if (degree > room - nr)
			break;
		atomic_store_explicit(&b->place[b->end], nr, memory_order_relaxed);
		nr += degree;
	}
}

static int build_range(struct builder *b)
{
	uint64_t nr_parts = div_round_up(b->end - b->first, SORT_VERTICES);
	int rc = pass(b, "placing edges", place_edge);

	if (!rc)
		rc = run(b, nr_parts, SORT_PARTS, sort_run, "sorting edges");
	return rc ? rc : write_range(b);
}

static int build_ranges(struct builder *b, uint64_t nr_placed)
{
	uint64_t room = b->build->memory_bytes / entry_bytes(b);
	int rc = check_room(b, room);

	if (rc)
		return rc;
	if (room > nr_placed)
		room = nr_placed;
	b->entries = malloc((room ? room : 1) * entry_bytes(b));
	if (!b->entries)
		return fail_memory(b);
	for (b->first = 0; !rc && b->first < b->source->nr_vertices; b->first = b->end) {
		plan_range(b, room);
		b->built.nr_passes++;
		rc = build_range(b);
	}
	free(b->entries);
	if (rc)
		return rc;
	rc = section_flush(&b->neighbours);
	if (!rc && b->weighted)
		rc = section_flush(&b->weights);
	return rc ? write_fail(b->err, b->err_bytes, rc) : 0;
}

/* ------------------------------------------------------------------ the file */

static int write_offsets(const struct builder *b, int fd, const struct csr_header *header)
{
	struct section offsets;
	uint64_t sum = 0;
	int rc;

	section_begin(&offsets, fd, header->offsets_at);
	rc = section_put(&offsets, &sum, sizeof(sum));
	for (uint64_t v = 0; !rc && v < header->nr_vertices; v++) {
		sum += place_of(b, v);
		rc = section_put(&offsets, &sum, sizeof(sum));
	}
	return rc ? rc : section_flush(&offsets);
}

/* All but the edges, once these are written. */
static int finish(struct builder *b, int fd)
{
	struct csr_header header;
	int rc = write_settle(fd, &b->header, b->built.nr_edges, &header);

	if (!rc)
		rc = write_offsets(b, fd, &header);
	if (!rc && header.ids_at)
		rc = section_write_all(fd, b->source->id, header.nr_vertices * 8, header.ids_at);
	if (!rc)
		rc = section_write_all(fd, &header, sizeof(header), 0);
	return rc ? write_fail(b->err, b->err_bytes, rc) : 0;
}

/* Count degrees, and lay the file out for as many edges as there may be. */
static int count(struct builder *b, uint64_t *nr_placed)
{
	const uint64_t nr_vertices = b->source->nr_vertices;
	uint32_t flags = (b->wide ? CSR_WIDE : 0) | (b->weighted ? CSR_WEIGHTED : 0) |
			 (b->source->id ? CSR_ORIGINAL : 0) |
			 (b->symmetrize || b->source->symmetric ? CSR_SYMMETRIC : 0);
	int rc = pass(b, "counting edges", count_edge);

	if (rc)
		return rc;
	b->built.nr_loops_dropped = atomic_load(&b->nr_loops);
	for (uint64_t v = 0; v < nr_vertices; v++)
		*nr_placed += place_of(b, v);
	rc = csr_layout(nr_vertices, *nr_placed, flags, &b->header);
	return rc ? graph_fail(b->err, b->err_bytes, rc,
			       "%llu vertices and %llu edges are more than a graph file holds",
			       (unsigned long long)nr_vertices, (unsigned long long)*nr_placed)
		  : 0;
}

int csr_build(const struct csr_build *build, int fd, struct csr_built *out, char *err,
	      size_t err_bytes)
{
	const struct edge_source *source = build->source;
	struct builder *b = calloc(1, sizeof(*b));
	uint64_t nr_placed = 0;
	int rc;

	if (!b)
		return graph_fail(err, err_bytes, -ENOMEM, "no memory on the host");
	b->build = build;
	b->source = source;
	b->wide = build->wide || source->nr_vertices > CSR_NARROW_VERTICES;
	b->weighted = build->weights == CSR_WEIGHTS_GEN ||
		      (build->weights == CSR_WEIGHTS_KEEP && source->weighted);
	b->symmetrize = build->symmetrize && !source->symmetric;
	b->weight_key = gen_key(build->seed, GEN_WEIGHTS);
	b->err = err;
	b->err_bytes = err_bytes;
	b->place = calloc(source->nr_vertices, sizeof(*b->place));
	rc = b->place ? count(b, &nr_placed) : fail_memory(b);
	if (!rc) {
		section_begin(&b->neighbours, fd, b->header.neighbours_at);
		section_begin(&b->weights, fd, b->header.weights_at);
		rc = build_ranges(b, nr_placed);
	}
	if (!rc)
		rc = finish(b, fd);
	if (!rc && out)
		*out = b->built;
	free(b->place);
	free(b);
	return rc;
}
