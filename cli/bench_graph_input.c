/* SPDX-License-Identifier: Apache-2.0 */
/* See bench_graph_input.h. */
#include "cli/bench_graph_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_check.h"
#include "workloads/graph/fail.h"

#define DRAWS_A_LOOK (UINT64_C(1) << 24)

static void set_name(const struct bench_graph_params *p, struct bench_graph_input *in)
{
	const char *slash = p->file ? strrchr(p->file, '/') : NULL;

	if (p->file)
		snprintf(in->name, sizeof(in->name), "%s", slash ? slash + 1 : p->file);
	else
		snprintf(in->name, sizeof(in->name), "%s%u degree %llu",
			 p->kind == GEN_KRONECKER ? "kron" : "uniform", p->scale,
			 (unsigned long long)p->degree);
}

/* On a real GPU, which generates graphs itself. */
static int open_on(const struct bench_graph_params *p, struct graph_input_params *ask,
		   struct graph_input *out, char *err, size_t err_bytes)
{
	const struct bench_params *base = &p->pass.base;
	int rc;

	if (!base->real_gpu || p->file)
		return graph_input_open(ask, out, err, err_bytes);
	rc = weir_machine_cuda(bench_measured(base), &ask->machine);
	if (rc)
		return graph_fail(err, err_bytes, rc, "the GPU cannot be opened: %s",
				  weir_strerror(rc));
	ask->device = base->device;
	rc = graph_input_open(ask, out, err, err_bytes);
	weir_machine_close(ask->machine);
	return rc;
}

/* Sorting takes a quarter of this computer's memory, or less. */
static int open_graph(const struct bench_graph_params *p, const struct graph_watch *watch,
		      struct bench_graph_input *in, char *err, size_t err_bytes)
{
	const uint64_t ram = bench_ram_bytes();
	struct graph_input_params ask = {
		.file = p->file,
		.kind = p->kind,
		.scale = p->scale,
		.degree = p->degree,
		.seed = p->pass.base.seed,
		.symmetrize = p->symmetrize,
		.weights = p->algorithm == GRAPH_SSSP,
		.transpose = p->algorithm == GRAPH_PAGERANK,
		.memory_bytes = ram == UINT64_MAX ? UINT64_C(1) << 30 : ram / 4,
		.watch = watch,
	};
	int rc = gcn_pool_create(0, &ask.pool);

	if (rc)
		return graph_fail(err, err_bytes, rc, "cannot start threads: %s", strerror(-rc));
	rc = open_on(p, &ask, &in->input, err, err_bytes);
	gcn_pool_destroy(ask.pool);
	in->edges = ask.transpose ? &in->input.in : &in->input.graph;
	return rc;
}

/* ------------------------------------------------------------------ sources */

static int find_source(const struct bench_graph_params *p, struct bench_graph_input *in, char *err,
		       size_t err_bytes)
{
	if (!graph_vertex_of(in->edges, p->source, in->source))
		return 0;
	return graph_fail(err, err_bytes, -ENOENT,
			  "--source '%llu': %s has no such vertex; choose another",
			  (unsigned long long)p->source, in->name);
}

/* Each uniform among the vertices with edges: others are drawn again. */
static int draw_sources(const struct bench_graph_params *p, const struct graph_watch *watch,
			struct bench_graph_input *in, char *err, size_t err_bytes)
{
	const uint64_t key = gen_key(p->pass.base.seed, GEN_SOURCES);
	const struct csr *g = in->edges;
	uint64_t drawn = 0;

	if (!g->nr_edges)
		return graph_fail(err, err_bytes, -EINVAL,
				  "%s has no edges to begin from: name a vertex with --source",
				  in->name);
	for (uint32_t i = 0; i < in->nr_sources;) {
		uint64_t v = (gen_bits(key, drawn++) >> 32) * g->nr_vertices >> 32;

		if (csr_degree(g, v))
			in->source[i++] = v;
		if (drawn % DRAWS_A_LOOK == 0 && graph_watch_stop(watch, 0, "sources"))
			return -ECANCELED;
	}
	return 0;
}

static int set_sources(const struct bench_graph_params *p, const struct graph_watch *watch,
		       struct bench_graph_input *in, char *err, size_t err_bytes)
{
	in->nr_sources = p->nr_sources;
	if (!p->nr_sources)
		return 0;
	in->source = calloc(p->nr_sources, sizeof(*in->source));
	if (!in->source)
		return graph_fail(err, err_bytes, -ENOMEM, "not enough memory on this computer");
	return p->one_source ? find_source(p, in, err, err_bytes)
			     : draw_sources(p, watch, in, err, err_bytes);
}

/* ------------------------------------------------------------------ degrees */

static int set_degrees(struct bench_graph_input *in, char *err, size_t err_bytes)
{
	const struct csr *g = &in->input.graph;

	if (in->edges == g || g->flags & CSR_SYMMETRIC)
		return 0;
	in->degree = calloc(g->nr_vertices, sizeof(*in->degree));
	if (!in->degree)
		return graph_fail(err, err_bytes, -ENOMEM, "not enough memory on this computer");
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		uint64_t degree = csr_degree(g, v);

		if (degree > UINT32_MAX)
			return graph_fail(err, err_bytes, -ERANGE,
					  "%s: vertex %llu has %llu edges, more than 2^32 - 1; "
					  "choose another graph",
					  in->name, (unsigned long long)csr_id(g, v),
					  (unsigned long long)degree);
		in->degree[v] = (uint32_t)degree;
	}
	return 0;
}

/* ------------------------------------------------------------------ all of it */

int bench_graph_open(const struct bench_graph_params *params, const struct graph_watch *watch,
		     struct bench_graph_input *out, char *err, size_t err_bytes)
{
	int rc;

	memset(out, 0, sizeof(*out));
	set_name(params, out);
	rc = open_graph(params, watch, out, err, err_bytes);
	if (!rc && out->edges->nr_vertices > UINT32_MAX)
		rc = graph_fail(err, err_bytes, -ERANGE,
				"%s has %llu vertices, more than 2^32 - 1; choose another graph",
				out->name, (unsigned long long)out->edges->nr_vertices);
	if (!rc)
		rc = set_sources(params, watch, out, err, err_bytes);
	if (!rc)
		rc = set_degrees(out, err, err_bytes);
	if (rc)
		bench_graph_close(out);
	return rc;
}

void bench_graph_close(struct bench_graph_input *input)
{
	graph_input_close(&input->input);
	free(input->degree);
	free(input->source);
	memset(input, 0, sizeof(*input));
}
