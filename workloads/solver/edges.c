/* SPDX-License-Identifier: Apache-2.0 */
/* See edges.h. */
#include "workloads/solver/edges.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "workloads/solver/graph.h"

#define WEIGHTS_AT_ONCE (UINT64_C(16) << 20)

static const struct solver_share *share_of(const struct solver_job *job, uint32_t device)
{
	return &job->p->graph->split[job->p->devices]->share[device];
}

static uint32_t first_vertex(const struct solver_job *job, uint32_t device)
{
	return share_of(job, device)->first * SOLVER_GRAPH_SLICE;
}

static uint32_t nr_vertices(const struct solver_job *job, uint32_t device)
{
	return first_vertex(job, device + 1) - first_vertex(job, device);
}

/* The number of a device's first edge; of a phantom graph edges have none. */
static uint64_t edges_before(const struct solver_job *job, uint32_t device)
{
	const struct solver_graph *g = job->p->graph;

	return g->phantom ? 0 : g->input.graph.offset[first_vertex(job, device)];
}

/* ------------------------------------------------------------------ memory */

void *solver_device_alloc(struct solver_job *job, uint32_t device, uint64_t bytes, const char *what)
{
	struct backend *b = job->m->backend;
	void *addr = NULL;
	int err = job->status;

	if (!err)
		err = b->ops->device_alloc(b, b->desc.device[device].memory, MAX(bytes, 1), &addr);
	if (err)
		solver_fail(job, err, "%s %s, %.3f MB on %s: %s",
			    err == -ENOMEM ? "no memory for" : "allocating", what,
			    (double)bytes / 1e6, b->desc.device[device].name, weir_strerror(err));
	return err ? NULL : addr;
}

static void put(struct solver_job *job, stream_id_t stream, void *to, const void *from,
		uint64_t bytes)
{
	struct backend *b = job->m->backend;

	if (!job->status && bytes)
		solver_did(job, b->ops->upload(b, stream, to, from, bytes), "writing the edges");
}

/* A byte each. */
static void weights_put(struct solver_job *job, stream_id_t stream, uint8_t *to, uint64_t first,
			uint64_t nr)
{
	uint8_t *buffer = malloc(MIN(nr, WEIGHTS_AT_ONCE) + 1);

	if (!buffer)
		solver_fail(job, -EAGAIN, "this computer has no memory for a buffer");
	for (uint64_t done = 0; buffer && done < nr && !job->status; done += WEIGHTS_AT_ONCE) {
		const uint64_t part = MIN(nr - done, WEIGHTS_AT_ONCE);

		for (uint64_t i = 0; i < part; i++)
			buffer[i] = (uint8_t)job->p->graph->input.graph.weight[first + done + i];
		put(job, stream, to + done, buffer, part);
	}
	free(buffer);
}

/* List the pieces of a device's rows; out NULL: count them. */
static uint32_t pieces_list(const struct solver_job *job, uint32_t d, struct solver_piece *out)
{
	const struct csr *csr = &job->p->graph->input.graph;
	uint32_t nr = 0;

	for (uint32_t v = first_vertex(job, d); v < first_vertex(job, d + 1); v++) {
		const uint32_t of_row = solver_graph_pieces(csr_degree(csr, v));

		for (uint32_t i = 0; i < of_row && out; i++)
			out[nr + i] = (struct solver_piece){.vertex = v, .index = i};
		nr += of_row;
	}
	return nr;
}

static void pieces_alloc(struct solver_job *job, struct solver_edges *edges, uint32_t d)
{
	const uint32_t nr = pieces_list(job, d, NULL);
	struct solver_piece *list = malloc(nr * sizeof(*list) + 1);

	if (!list) {
		solver_fail(job, -EAGAIN, "this computer has no memory for what a run keeps");
		return;
	}
	(void)pieces_list(job, d, list);
	edges->host_piece[d] = list;
	edges->nr_pieces[d] = nr;
	edges->piece[d] = solver_device_alloc(job, d, nr * sizeof(*list), "rows' pieces");
}

static void device_fill(struct solver_job *job, struct solver_edges *edges, uint32_t d)
{
	const struct csr *csr = &job->p->graph->input.graph;
	const uint64_t first = edges_before(job, d), nr = share_of(job, d)->nr_edges;
	struct backend *b = job->m->backend;
	stream_id_t stream;
	int err = b->ops->stream_create(b, d, BACKEND_COMPUTE, &stream);

	solver_did(job, err, "making a stream");
	if (err)
		return;
	put(job, stream, edges->offset[d], csr->offset + first_vertex(job, d),
	    (nr_vertices(job, d) + UINT64_C(1)) * sizeof(*csr->offset));
	put(job, stream, edges->neighbour[d], csr->narrow + first, nr * sizeof(*csr->narrow));
	put(job, stream, edges->piece[d], edges->host_piece[d],
	    edges->nr_pieces[d] * sizeof(**edges->piece));
	if (edges->weight[d])
		weights_put(job, stream, edges->weight[d], first, nr);
	b->ops->stream_destroy(b, stream);
}

void solver_edges_init(struct solver_job *job)
{
	struct solver_edges *edges = &job->edges;

	for (uint32_t d = 0; d < job->p->devices && !job->status; d++) {
		const uint64_t nr = share_of(job, d)->nr_edges;

		edges->offset[d] = solver_device_alloc(
			job, d, (nr_vertices(job, d) + UINT64_C(1)) * sizeof(*edges->offset[d]),
			"offsets");
		edges->neighbour[d] =
			solver_device_alloc(job, d, nr * sizeof(*edges->neighbour[d]), "edges");
		if (job->p->kind == SOLVER_SSSP)
			edges->weight[d] = solver_device_alloc(job, d, nr, "weights");
		if (!job->p->graph->phantom)
			pieces_alloc(job, edges, d);
		if (!job->p->graph->phantom && !job->status)
			device_fill(job, edges, d);
	}
}

void solver_edges_fini(struct solver_job *job)
{
	const struct solver_edges *edges = &job->edges;
	struct backend *b = job->m->backend;

	for (uint32_t d = 0; d < job->p->devices; d++) {
		b->ops->device_free(b, edges->offset[d]);
		b->ops->device_free(b, edges->neighbour[d]);
		b->ops->device_free(b, edges->weight[d]);
		b->ops->device_free(b, edges->piece[d]);
		free(edges->host_piece[d]);
	}
}

uint64_t solver_edge_bytes(const struct solver_params *p)
{
	const struct solver_graph *g = p->graph;

	return (g->nr_vertices + p->devices) * sizeof(uint64_t) +
	       g->nr_edges * (sizeof(uint32_t) + (p->kind == SOLVER_SSSP)) +
	       g->nr_pieces * sizeof(struct solver_piece);
}

/* ------------------------------------------------------------------ a launch's part */

static void own_add(struct solver_rows_part *part, const void *addr, uint64_t bytes)
{
	if (bytes)
		part->own[part->nr_own++] = (struct weir_use){.addr = (void *)(uintptr_t)addr,
							      .bytes = bytes,
							      .kind = WEIR_READ,
							      .read_bytes = bytes};
}

/* The pieces of a part's rows, which a launch keeps what it needs for them in. */
static void pieces_part(const struct solver_job *job, uint32_t device, struct solver_rows_part *out)
{
	const struct solver_piece *all = job->edges.host_piece[device];
	const uint32_t nr = job->edges.nr_pieces[device];
	struct solver_rows *rows = &out->rows;
	uint64_t begin, end, bytes;

	SEARCH_SORTED(begin, 0, nr, all[begin].vertex < rows->first);
	SEARCH_SORTED(end, begin, nr, all[end].vertex < rows->first + rows->nr);
	if (begin == end)
		return;
	rows->piece = job->edges.piece[device] + begin;
	rows->nr_pieces = (uint32_t)(end - begin);
	bytes = rows->nr_pieces * sizeof(*rows->piece);
	out->own[out->nr_own++] = (struct weir_use){.addr = rows->piece,
						    .bytes = bytes,
						    .kind = WEIR_WRITE,
						    .read_bytes = bytes,
						    .write_bytes = bytes};
}

void solver_edges_part(const struct solver_job *job, uint32_t device, uint32_t first_slice,
		       uint32_t nr_slices, struct solver_rows_part *out)
{
	const struct solver_graph *g = job->p->graph;
	const struct solver_edges *edges = &job->edges;
	const uint32_t first = first_slice * SOLVER_GRAPH_SLICE;
	const uint32_t nr = nr_slices * SOLVER_GRAPH_SLICE;
	const uint64_t skipped = solver_graph_edges(g, share_of(job, device)->first, first_slice);

	*out = (struct solver_rows_part){
		.rows =
			{
				.first = first,
				.nr = nr,
				.offset =
					edges->offset[device] + (first - first_vertex(job, device)),
				.neighbour = edges->neighbour[device] + skipped,
				.nr_edges =
					solver_graph_edges(g, first_slice, first_slice + nr_slices),
			},
	};
	own_add(out, out->rows.offset, (nr + UINT64_C(1)) * sizeof(*out->rows.offset));
	own_add(out, out->rows.neighbour, out->rows.nr_edges * sizeof(uint32_t));
	if (edges->weight[device]) {
		out->rows.weight = edges->weight[device] + skipped;
		own_add(out, out->rows.weight, out->rows.nr_edges);
	}
	pieces_part(job, device, out);
}

void solver_edges_write(struct solver_rows_part *part, void *addr, uint64_t bytes)
{
	part->own[part->nr_own++] = (struct weir_use){
		.addr = addr, .bytes = bytes, .kind = WEIR_OVERWRITE, .write_bytes = bytes};
}

void solver_edges_reads(const struct solver_job *job, uint32_t array, uint32_t device,
			const struct solver_rows_part *part, struct solver_step *step)
{
	const uint64_t all = job->p->graph->nr_vertices;
	const uint64_t at[] = {0, first_vertex(job, device), first_vertex(job, device + 1), all};

	for (uint32_t i = 0; i < 3; i++) {
		const uint64_t nr = at[i + 1] - at[i];
		const double share = (double)nr / (double)all;

		/* At least one: what is in no part is read by no launch. */
		if (nr)
			step->use[step->nr_uses++] = (struct solver_use){
				.array = array,
				.offset = at[i] * sizeof(float),
				.bytes = nr * sizeof(float),
				.kind = WEIR_READ,
				.random_bytes =
					sizeof(float) *
					MAX((uint64_t)ceil(share * (double)part->rows.nr_edges), 1),
				.granule = sizeof(float),
				.listed = i != 1,
			};
	}
}

void solver_edges_vector(const struct solver_job *job, uint32_t array, uint32_t device,
			 struct solver_vector *out)
{
	out->nr_parts = 0;
	for (uint32_t d = 0; d < job->p->devices; d++) {
		const uint32_t first = first_vertex(job, d);
		const float *part = job->m->ops->at(job->m, array, device, first * sizeof(float));
		const uint32_t before = out->nr_parts ? out->part_first[out->nr_parts - 1] : 0;

		if (out->nr_parts && out->part[out->nr_parts - 1] + (first - before) == part)
			continue;
		out->part_first[out->nr_parts] = first;
		out->part[out->nr_parts++] = part;
	}
	out->part_first[out->nr_parts] = (uint32_t)job->p->graph->nr_vertices;
}
