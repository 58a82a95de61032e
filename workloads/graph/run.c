/* SPDX-License-Identifier: Apache-2.0 */
/* A run: parameters, passes and their times, the answer, everything given back. */
#include "workloads/graph/run.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/cost/cost.h"
#include "workloads/cuda_plugin.h"
#include "workloads/graph/cuda.h"
#include "workloads/graph/run_internal.h"

static const char *const algorithm_names[] = {"bfs", "sssp", "cc", "pagerank"};

const char *graph_algorithm_name(enum graph_algorithm algorithm)
{
	return algorithm_names[algorithm];
}

void graph_job_fail(struct graph_job *j, int status, const char *format, ...)
{
	int used;
	va_list ap;

	if (j->status)
		return;
	j->status = status;
	used = snprintf(j->err, j->err_bytes, "%s: ", graph_algorithm_name(j->p->algorithm));
	if ((size_t)used >= j->err_bytes)
		return;
	va_start(ap, format);
	vsnprintf(j->err + used, j->err_bytes - (size_t)used, format, ap);
	va_end(ap);
}

void graph_job_step(struct graph_job *j, int err, const char *what)
{
	if (err)
		graph_job_fail(j, err, "%s failed: %s", what, weir_strerror(err));
}

bool graph_job_stopped(struct graph_job *j)
{
	if (!j->status && j->p->progress &&
	    j->p->progress(j->p->progress_arg, j->pass, j->p->passes))
		graph_job_fail(j, -EINTR, "interrupted after %u of %u passes", j->pass,
			       j->p->passes);
	return j->status;
}

/* ------------------------------------------------------------------ parameters */

static bool sources_valid(const struct graph_params *p)
{
	for (uint32_t i = 0; i < p->nr_sources; i++)
		if (p->sources[i] >= p->graph->nr_vertices)
			return false;
	return true;
}

int graph_params_check(const struct graph_params *p, char *err, size_t err_bytes)
{
	const bool search = p->algorithm == GRAPH_BFS || p->algorithm == GRAPH_SSSP;
	const char *what = NULL;

	if (p->algorithm >= GRAPH_ALGORITHM_NR) {
		snprintf(err, err ? err_bytes : 0, "no such algorithm");
		return -EINVAL;
	}
	if (!p->graph->nr_vertices || p->graph->nr_vertices > UINT32_MAX)
		what = "a graph has 1 to 2^32 - 1 vertices";
	else if (search ? !p->nr_sources || p->nr_sources > GRAPH_SOURCES_MAX : p->nr_sources)
		what = "searches, and only they, have 1 to 4096 sources";
	else if (!sources_valid(p))
		what = "a source is no vertex of the graph";
	else if (p->algorithm == GRAPH_PAGERANK && !p->iterations)
		what = "pagerank has at least one iteration";
	else if (p->algorithm == GRAPH_PAGERANK && !(p->damping >= 0 && p->damping <= 1))
		what = "damping is from 0 to 1";
	else if (p->passes <= p->warm_up)
		what = "no pass is left after the warm-up";
	else if (!p->threads || p->threads % 32 || p->threads > 1024)
		what = "a block has whole warps: a multiple of 32 threads, up to 1024";
	else if (!p->agents || p->agents > AGENTS_MAX)
		what = "1 to 64 agents page on the CPU";
	if (!what)
		return 0;
	snprintf(err, err ? err_bytes : 0, "%s: %s", graph_algorithm_name(p->algorithm), what);
	return -EINVAL;
}

/*
 * With weights drawn evenly, a vertex of degree d has about delta * d / mean edges within a bucket:
 * GPUs want many of them at a time, and not much more than that is done twice (measured in
 * docs/results.md).
 */
static uint64_t delta_of(const struct graph_params *p)
{
	const struct csr *g = p->graph;
	const uint64_t nr = MIN(g->nr_edges, GRAPH_SAMPLES);
	uint64_t sum = 0;

	if (p->delta)
		return p->delta;
	for (uint64_t i = 0; i < nr && g->weight; i++)
		sum += g->weight[i * (g->nr_edges / nr)];
	return sum ? div_round_up(sum, nr) : 1;
}

/* ------------------------------------------------------------------ passes */

/* All searches, or the algorithm. The first pass also counts, and is checked. */
static void pass_work(struct graph_job *j, struct graph_result *r)
{
	const uint32_t nr = j->p->nr_sources ? j->p->nr_sources : 1;

	for (uint32_t i = 0; i < nr && !j->status; i++) {
		uint64_t source = j->p->nr_sources ? j->p->sources[i] : 0;

		graph_job_rounds(j, source);
		if (j->pass || !j->p->check)
			continue;
		graph_job_answer(j, r);
		graph_job_check(j, r, source);
	}
}

static void pass_run(struct graph_job *j, struct graph_result *r)
{
	struct pass_moment begin, end;

	graph_job_step(j, pass_idle(j->m, !j->p->warm || !j->pass), "emptying the device's memory");
	if (j->status)
		return;
	j->counts = !j->pass;
	pass_begin(j->m, &begin);
	pass_work(j, r);
	if (!j->status)
		graph_job_step(j, j->m->ops->sync(j->m), "the kernels");
	pass_end(j->m, &end);
	if (!j->status && j->pass >= j->p->warm_up)
		pass_note(&r->passes, j->pass - j->p->warm_up, &begin, &end);
}

static void passes_run(struct graph_job *j, struct graph_result *r)
{
	for (j->pass = 0; j->pass < j->p->passes && !j->status; j->pass++)
		pass_run(j, r);
	graph_job_answer(j, r);
	r->work = j->work;
	r->passes.read_bytes = j->work.line_bytes;
	r->passes.distinct_bytes = j->work.first_bytes;
}

/* ------------------------------------------------------------------ a run */

static int result_init(struct graph_result *r, const struct graph_params *p)
{
	const uint64_t n = p->graph->nr_vertices;
	int err;

	memset(r, 0, sizeof(*r));
	err = passes_result_init(&r->passes, p->passes - p->warm_up);
	if (p->algorithm == GRAPH_PAGERANK)
		r->rank = malloc(n * sizeof(*r->rank));
	else
		r->value = malloc(n * sizeof(*r->value));
	if (!err && (r->rank || r->value))
		return 0;
	graph_result_free(r);
	return -EAGAIN;
}

void graph_result_free(struct graph_result *r)
{
	passes_result_free(&r->passes);
	free(r->value);
	free(r->rank);
	memset(r, 0, sizeof(*r));
}

/* What the kernels need where they are CUDA's. */
static void kernels_load(struct graph_job *j)
{
	void *stream = j->m->ops->stream ? j->m->ops->stream(j->m) : NULL;
	int err = stream ? graph_cuda_load() : 0;

	if (err)
		graph_job_fail(j, err, "no kernels for the GPU: %s", weir_strerror(err));
}

static void job_init(struct graph_job *j, int *failed)
{
	const struct graph_params *p = j->p;

	j->args = (struct graph_args){
		.algorithm = p->algorithm,
		.nr_vertices = p->graph->nr_vertices,
		.nr_edges = p->graph->nr_edges,
		.damping = p->damping,
		.delta = p->delta,
		.blocks = p->blocks,
		.threads = p->threads,
		.agents = p->agents,
		.status = failed,
	};
	if (j->b->data == WEIR_DATA_PHANTOM)
		graph_job_fail(j, -ENOTSUP,
			       "the machine is simulated without bytes, and what is "
			       "done depends on them: use real data");
}

int graph_run(struct manager *m, const struct graph_params *params, struct graph_result *out,
	      char *err, size_t err_bytes)
{
	struct graph_params p = *params;
	struct graph_job j = {
		.m = m, .p = &p, .b = m->backend, .err = err, .err_bytes = err ? err_bytes : 0};
	struct graph_result result;
	int failed = 0, ret = graph_params_check(params, err, err_bytes);

	if (ret)
		return ret;
	ret = result_init(&result, params);
	if (ret) {
		graph_job_fail(&j, ret, "this computer has no memory for the answer");
		return ret;
	}
	p.delta = delta_of(params);
	job_init(&j, &failed);
	if (!j.status)
		kernels_load(&j);
	if (!j.status) {
		graph_job_create(&j);
		result.edge_bytes = p.graph->nr_edges * sizeof(uint32_t) * (j.args.weight ? 2 : 1);
		passes_run(&j, &result);
		if (failed)
			graph_job_fail(&j, failed, "an agent failed: %s", weir_strerror(failed));
		graph_job_destroy(&j);
	}
	if (!j.status && p.progress)
		(void)p.progress(p.progress_arg, p.passes, p.passes);
	if (j.status)
		graph_result_free(&result);
	else
		*out = result;
	return j.status;
}

/* ------------------------------------------------------------------ bound */

double graph_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		     const struct graph_result *r, uint64_t resident_bytes)
{
	const struct weir_device_desc *dev = &desc->device[device];
	const uint32_t host = cost_host_memory(desc);
	const int found = cost_link_find(desc, host, dev->memory);
	const double touched = (double)r->work.line_bytes, first = (double)r->work.first_bytes;
	double resident = 1, link_per_s;

	if (found < 0)
		return touched / dev->hbm_bytes_per_s;
	if (resident_bytes < r->edge_bytes)
		resident = (double)resident_bytes / (double)r->edge_bytes;
	link_per_s = cost_copy_bytes_per_s(&desc->link[found], host);
	return fmax((first + (touched - first) * (1 - resident)) / link_per_s,
		    touched / (dev->hbm_bytes_per_s + link_per_s));
}
