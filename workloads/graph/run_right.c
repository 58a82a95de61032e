/* SPDX-License-Identifier: Apache-2.0 */
/* What a run found, and whether that is right: held to references that share no code with it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "workloads/graph/reference.h"
#include "workloads/graph/run_internal.h"

/* Ranks add up to 1. Shares have 24 bits, which leaves 2^-24 of each rank or less, at random; and
 * an iteration passes on less than it gets. */
#define RANK_ERROR 1e-5

/* Numbers of 32 bits, of which one means that there is none. */
static void widen(uint64_t *to, const uint32_t *from, uint64_t nr, uint32_t none)
{
	for (uint64_t v = 0; v < nr; v++)
		to[v] = from[v] == none ? GRAPH_FAR : from[v];
}

static void narrow_get(struct graph_job *j, uint64_t *value, const uint32_t *from, uint32_t none)
{
	const uint64_t nr = j->p->graph->nr_vertices;
	uint32_t *buffer = malloc(nr * sizeof(*buffer));

	if (!buffer) {
		graph_job_fail(j, -EAGAIN, "this computer has no memory for the answer");
		return;
	}
	graph_job_get(j, buffer, from, nr * sizeof(*buffer), "reading the answer");
	if (!j->status)
		widen(value, buffer, nr, none);
	free(buffer);
}

/* Vertices that a search reached, or components. */
static uint64_t reached(const struct graph_job *j, const uint64_t *value)
{
	bool cc = j->p->algorithm == GRAPH_CC;
	uint64_t nr = 0;

	for (uint64_t v = 0; v < j->p->graph->nr_vertices; v++)
		nr += cc ? value[v] == v : value[v] != GRAPH_FAR;
	return nr;
}

void graph_job_answer(struct graph_job *j, struct graph_result *r)
{
	const uint64_t n = j->p->graph->nr_vertices;

	switch (j->p->algorithm) {
	case GRAPH_BFS:
		narrow_get(j, r->value, j->args.level, GRAPH_LEVEL_FAR);
		break;
	case GRAPH_SSSP:
		graph_job_get(j, r->value, j->args.distance, n * sizeof(*r->value),
			      "reading the answer");
		break;
	case GRAPH_CC:
		narrow_get(j, r->value, j->args.label, UINT32_MAX);
		break;
	default:
		graph_job_get(j, r->rank, j->args.rank, n * sizeof(*r->rank), "reading the answer");
	}
	if (!j->status && r->value)
		r->nr_reached = reached(j, r->value);
}

/* ------------------------------------------------------------------ right */

static void say_wrong(struct graph_result *r, uint64_t v, uint64_t is, uint64_t want)
{
	char a[24] = "none", b[24] = "none";

	if (is != GRAPH_FAR)
		snprintf(a, sizeof(a), "%llu", (unsigned long long)is);
	if (want != GRAPH_FAR)
		snprintf(b, sizeof(b), "%llu", (unsigned long long)want);
	r->passes.passed = false;
	snprintf(r->passes.wrong, sizeof(r->passes.wrong), "vertex %llu has %s and not %s",
		 (unsigned long long)v, a, b);
}

static int check_values(const struct graph_job *j, struct graph_result *r, uint64_t source)
{
	const struct csr *g = j->p->graph;
	uint64_t *want = malloc(g->nr_vertices * sizeof(*want));
	int err = want ? 0 : -ENOMEM;

	if (!err && j->p->algorithm == GRAPH_BFS)
		err = reference_bfs(g, source, want);
	else if (!err && j->p->algorithm == GRAPH_SSSP)
		err = reference_sssp(g, source, want);
	else if (!err)
		err = reference_cc(g, want);
	for (uint64_t v = 0; v < g->nr_vertices && !err && r->passes.passed; v++)
		if (r->value[v] != want[v])
			say_wrong(r, v, r->value[v], want[v]);
	free(want);
	return err;
}

static int check_ranks(const struct graph_job *j, struct graph_result *r)
{
	const struct csr *g = j->p->graph;
	double *want = malloc(g->nr_vertices * sizeof(*want));
	int err = want ? reference_pagerank(g, j->p->damping, j->p->iterations, want) : -ENOMEM;

	r->error = 0;
	for (uint64_t v = 0; v < g->nr_vertices && !err; v++)
		r->error += fabs(r->rank[v] - want[v]);
	if (!err && !(r->error <= RANK_ERROR)) {
		r->passes.passed = false;
		snprintf(r->passes.wrong, sizeof(r->passes.wrong),
			 "ranks differ from the reference by %.3g in all", r->error);
	}
	free(want);
	return err;
}

void graph_job_check(struct graph_job *j, struct graph_result *r, uint64_t source)
{
	int err;

	if (j->status || !r->passes.passed)
		return;
	err = r->rank ? check_ranks(j, r) : check_values(j, r, source);
	if (err == -ENOMEM)
		graph_job_fail(j, -EAGAIN, "this computer has no memory for the reference");
	graph_job_step(j, err, "the reference");
	r->passes.checked = !err;
}
