/* SPDX-License-Identifier: Apache-2.0 */
/* A run's memory: edges of the manager, all else of the device's own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/graph/run_internal.h"

#define CHUNK_EDGES (UINT64_C(16) << 20)
#define BITS_BYTES(nr) (((nr) + 31) / 32 * sizeof(uint32_t))

/* ------------------------------------------------------------------ copies */

void graph_job_get(struct graph_job *j, void *data, const void *from, uint64_t bytes,
		   const char *what)
{
	int err = j->status ? 0 : manager_wait(j->m);

	graph_job_step(j, err, "the kernels");
	err = j->status ? 0 : j->b->ops->download(j->b, j->copies, data, from, bytes);
	graph_job_step(j, err, what);
}

void graph_job_put(struct graph_job *j, void *to, const void *data, uint64_t bytes,
		   const char *what)
{
	int err = j->status ? 0 : manager_wait(j->m);

	graph_job_step(j, err, "the kernels");
	err = j->status ? 0 : j->b->ops->upload(j->b, j->copies, to, data, bytes);
	graph_job_step(j, err, what);
}

/* ------------------------------------------------------------------ of the device */

static void *device_alloc(struct graph_job *j, uint64_t bytes, const char *what)
{
	const struct weir_machine_desc *desc = &j->b->desc;
	void *addr = NULL;
	int err;

	if (j->status)
		return NULL;
	err = j->b->ops->device_alloc(j->b, desc->device[j->m->device].memory, bytes, &addr);
	if (err) {
		graph_job_fail(j, err, "no memory of the device for %s (%.3f MB): %s", what,
			       (double)bytes / 1e6, weir_strerror(err));
		return NULL;
	}
	j->array[j->nr_arrays++] = addr;
	return addr;
}

static void *device_copy(struct graph_job *j, const void *data, uint64_t bytes, const char *what)
{
	void *addr = device_alloc(j, bytes, what);

	graph_job_put(j, addr, data, bytes, what);
	return addr;
}

/* Items of one round, at most: those of all lists. */
static uint64_t items_max(const struct csr *g)
{
	uint64_t nr = g->nr_edges / GRAPH_PIECE + 1;

	for (uint64_t v = 0; v < g->nr_vertices; v++)
		nr += csr_degree(g, v) != 0;
	return nr;
}

static void zeros_put(struct graph_job *j, void *to, uint64_t bytes)
{
	void *zeros = j->status ? NULL : calloc(1, bytes);

	if (!j->status && !zeros)
		graph_job_fail(j, -EAGAIN, "this computer has no memory for a buffer of %llu bytes",
			       (unsigned long long)bytes);
	graph_job_put(j, to, zeros, bytes, "clearing");
	free(zeros);
}

static void vertices_create(struct graph_job *j)
{
	const struct csr *csr = j->p->graph;
	const uint64_t n = csr->nr_vertices, nr_lines = csr->nr_edges / GRAPH_LINE_EDGES + 1;
	const uint64_t nr_items = items_max(csr);
	const uint64_t item_bytes = csr->nr_edges * sizeof(*csr->narrow) / nr_items;
	struct graph_args *g = &j->args;

	j->item_bytes = item_bytes ? (uint32_t)item_bytes : sizeof(*csr->narrow);
	g->offset = device_copy(j, csr->offset, (n + 1) * sizeof(*g->offset), "offsets");
	g->item = device_alloc(j, nr_items * sizeof(*g->item), "items");
	g->control = device_alloc(j, sizeof(*g->control), "counts");
	g->met = device_alloc(j, BITS_BYTES(nr_lines), "bits of lines");
	g->ever = device_alloc(j, BITS_BYTES(nr_lines), "bits of lines");
	zeros_put(j, g->ever, BITS_BYTES(nr_lines));
	switch (j->p->algorithm) {
	case GRAPH_BFS:
		g->seen = device_alloc(j, BITS_BYTES(n), "bits of vertices");
		g->changed = device_alloc(j, BITS_BYTES(n), "bits of vertices");
		g->level = device_alloc(j, n * sizeof(*g->level), "levels");
		break;
	case GRAPH_SSSP:
		g->changed = device_alloc(j, BITS_BYTES(n), "bits of vertices");
		g->distance = device_alloc(j, n * sizeof(*g->distance), "distances");
		g->from = device_alloc(j, nr_items * sizeof(*g->from), "items' distances");
		break;
	case GRAPH_CC:
		g->label = device_alloc(j, n * sizeof(*g->label), "labels");
		g->sample = device_alloc(j, GRAPH_SAMPLES * sizeof(*g->sample), "samples");
		break;
	default:
		g->share = device_alloc(j, n * sizeof(*g->share), "shares");
		g->sum = device_alloc(j, n * sizeof(*g->sum), "sums");
		g->rank = device_alloc(j, n * sizeof(*g->rank), "ranks");
		if (j->p->degree)
			g->degree = device_copy(j, j->p->degree, n * sizeof(*g->degree), "degrees");
	}
}

/* ------------------------------------------------------------------ of the manager */

/* Neighbours of 64 bits, which are below 2^32. */
static void narrow_put(struct graph_job *j, uint32_t *to, const uint64_t *wide, uint64_t nr,
		       uint32_t *buffer)
{
	for (uint64_t i = 0; i < nr; i++)
		buffer[i] = (uint32_t)wide[i];
	graph_job_step(j, j->m->ops->write(j->m, to, buffer, nr * sizeof(*to)), "writing edges");
}

/* narrow or wide: nr_edges of them, > 0. */
static uint32_t *edges_create(struct graph_job *j, const uint32_t *narrow, const uint64_t *wide,
			      const char *name)
{
	const uint64_t nr = j->p->graph->nr_edges, chunk = nr < CHUNK_EDGES ? nr : CHUNK_EDGES;
	uint32_t *buffer = wide ? malloc(chunk * sizeof(*buffer)) : NULL, *to = NULL;
	void *addr = NULL;
	int err;

	if (wide && !buffer)
		graph_job_fail(j, -EAGAIN, "this computer has no memory for a buffer");
	err = j->status ? 0 : manager_alloc_constant(j->m, nr * sizeof(*to), name, &addr);
	if (err)
		graph_job_fail(j, err, "no memory for '%s' (%.3f MB): %s", name,
			       (double)(nr * sizeof(*to)) / 1e6, weir_strerror(err));
	to = addr;
	for (uint64_t at = 0; at < nr && !j->status; at += chunk) {
		uint64_t part = nr - at < chunk ? nr - at : chunk;

		if (wide)
			narrow_put(j, to + at, wide + at, part, buffer);
		else
			graph_job_step(
				j, j->m->ops->write(j->m, to + at, narrow + at, part * sizeof(*to)),
				"writing edges");
		(void)graph_job_stopped(j);
	}
	free(buffer);
	return to;
}

void graph_job_create(struct graph_job *j)
{
	const struct csr *g = j->p->graph;
	int err = j->b->ops->stream_create(j->b, j->m->device, BACKEND_COMPUTE, &j->copies);

	graph_job_step(j, err, "making a stream");
	j->has_copies = !err;
	if (g->nr_edges)
		j->args.neighbour = edges_create(j, g->narrow, g->wide, "edges");
	if (g->nr_edges && j->p->algorithm == GRAPH_SSSP && g->weight)
		j->args.weight = edges_create(j, g->weight, NULL, "weights");
	vertices_create(j);
}

/*
 * Nothing queued may outlive the run. A sync that fails has either waited and reports the work, or
 * was itself refused: a second one tells these apart.
 */
void graph_job_destroy(struct graph_job *j)
{
	int err = j->m->ops->sync(j->m);

	if (err) {
		graph_job_fail(j, err, "waiting for the end of the run failed: %s",
			       weir_strerror(err));
		(void)j->m->ops->sync(j->m);
	}
	for (uint32_t i = 0; i < j->nr_arrays; i++)
		j->b->ops->device_free(j->b, j->array[i]);
	if (j->args.weight)
		j->m->ops->free(j->m, (void *)(uintptr_t)j->args.weight);
	if (j->args.neighbour)
		j->m->ops->free(j->m, (void *)(uintptr_t)j->args.neighbour);
	if (j->has_copies)
		j->b->ops->stream_destroy(j->b, j->copies);
}
