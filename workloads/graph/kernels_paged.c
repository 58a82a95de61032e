/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expanding items on the CPU where the edges are paged: agents, each of which takes every nr-th
 * item. With one agent everything happens in one order.
 */
#include <pthread.h>

#include "src/paging/paging.h"
#include "workloads/graph/cuda.h"
#include "workloads/graph/ops.h"
#include "workloads/graph/run.h"

struct share {
	struct paging *pool;
	const struct graph_paged_args *args;
	uint32_t first, nr; /* which of how many shares it is */
	int err;
};

/* An item's edges and weights, as far as there are any, at addresses. */
struct edges {
	struct paging_span neighbour, weight;
};

static int edges_get(struct paging_agent *agent, const struct graph_paged_args *a,
		     const struct graph_item *item, struct edges *out)
{
	uint64_t offset = item->begin * sizeof(uint32_t);
	int err = paging_span_get(agent, a->neighbour, offset, 0, &out->neighbour);

	if (err || !a->args.weight)
		return err;
	return paging_span_get(agent, a->weight, offset, 0, &out->weight);
}

static int edges_put(struct paging_agent *agent, const struct graph_paged_args *a,
		     const struct edges *edges)
{
	int err = paging_span_put(agent, &edges->neighbour);

	return err || !a->args.weight ? err : paging_span_put(agent, &edges->weight);
}

static int expand_item(struct paging_agent *agent, const struct graph_paged_args *a, uint64_t i)
{
	const struct graph_args *g = &a->args;
	const struct graph_item *item = &g->item[i];
	uint64_t from = g->from ? g->from[i] : 0;
	const uint32_t *neighbour, *weight;
	struct edges edges = {0};
	double sum = 0;
	int err = edges_get(agent, a, item, &edges);

	if (err)
		return err;
	neighbour = edges.neighbour.addr;
	weight = edges.weight.addr;
	for (uint32_t e = 0; e < item->nr; e++)
		sum += graph_edge(g, g->algorithm, item->vertex, from, neighbour[e],
				  weight ? weight[e] : 1);
	if (g->sum)
		graph_add_double(&g->sum[item->vertex], sum);
	return edges_put(agent, a, &edges);
}

static void *share_run(void *arg)
{
	struct share *s = arg;
	const struct graph_args *g = &s->args->args;
	struct paging_agent *agent;

	s->err = paging_enter(s->pool, &agent);
	if (s->err)
		return NULL;
	for (uint64_t i = s->first; i < g->control->nr_items && !s->err; i += s->nr)
		s->err = expand_item(agent, s->args, i);
	if (s->err)
		paging_abandon(agent);
	else
		s->err = paging_leave(agent);
	return NULL;
}

/* All shares; the first on this thread. A thread that does not start has its share done here. */
static int shares_run(struct paging *pool, const struct graph_paged_args *a)
{
	struct share share[GRAPH_AGENTS_MAX];
	pthread_t thread[GRAPH_AGENTS_MAX];
	bool started[GRAPH_AGENTS_MAX] = {false};
	const uint32_t nr = a->args.agents;
	int err = 0;

	for (uint32_t i = 0; i < nr; i++) {
		share[i] = (struct share){.pool = pool, .args = a, .first = i, .nr = nr};
		started[i] = i && !pthread_create(&thread[i], NULL, share_run, &share[i]);
	}
	for (uint32_t i = 0; i < nr; i++)
		if (!started[i])
			share_run(&share[i]);
	for (uint32_t i = 0; i < nr; i++) {
		if (started[i])
			pthread_join(thread[i], NULL);
		err = err ? err : share[i].err;
	}
	return err;
}

static void expand_paged_cpu(const void *p)
{
	const struct graph_paged_args *a = p;
	struct paging *pool;
	int err = paging_over(&a->view, 0, &pool);

	if (!err) {
		err = shares_run(pool, a);
		paging_destroy(pool);
	}
	if (err)
		*a->args.status = err;
}

const struct weir_kernel graph_kernel_expand_paged = {
	.name = "graph_expand_paged", .cpu = expand_paged_cpu, .cuda = graph_cuda_run_expand_paged};
