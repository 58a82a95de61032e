/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expanding items on the CPU where the edges are paged: agents, each of which takes every nr-th
 * batch of items, and goes through them by runs. With one agent everything happens in one order.
 */
#include "workloads/agents.h"
#include "workloads/graph/cuda.h"
#include "workloads/graph/ops.h"

/* A run's edges and weights, as far as there are any, at addresses. */
struct edges {
	struct paging_span neighbour, weight;
};

/* From an edge on, so many of them, which lie in one page. */
static int edges_get(struct paging_agent *agent, const struct graph_paged_args *a, uint64_t begin,
		     uint64_t nr, struct edges *out)
{
	const uint64_t offset = begin * sizeof(uint32_t);
	const unsigned flags = PAGING_TOUCHES(graph_touches(begin, nr));
	int err = paging_span_get(agent, a->neighbour, offset, flags, &out->neighbour);

	if (err || !a->args.weight)
		return err;
	return paging_span_get(agent, a->weight, offset, flags, &out->weight);
}

static int edges_put(struct paging_agent *agent, const struct graph_paged_args *a,
		     const struct edges *edges)
{
	int err = paging_span_put(agent, &edges->neighbour);

	return err || !a->args.weight ? err : paging_span_put(agent, &edges->weight);
}

static void expand_item(const struct graph_args *g, uint64_t i, const uint32_t *neighbour,
			const uint32_t *weight)
{
	const struct graph_item *item = &g->item[i];
	uint64_t from = g->from ? g->from[i] : 0;
	double sum = 0;

	for (uint32_t e = 0; e < item->nr; e++)
		sum += graph_edge(g, g->algorithm, item->vertex, from, neighbour[e],
				  weight ? weight[e] : 1);
	if (g->sum)
		graph_add_double(&g->sum[item->vertex], sum);
}

/* Where the run of the items from first on ends, at end at the latest. */
static uint64_t run_end(const struct graph_args *g, uint64_t first, uint64_t end)
{
	uint64_t i = first + 1;

	while (i < end && graph_goes_on(g->item[i - 1].begin + g->item[i - 1].nr, &g->item[i]))
		i++;
	return i;
}

static int expand_run(struct paging_agent *agent, const struct graph_paged_args *a, uint64_t first,
		      uint64_t end)
{
	const struct graph_args *g = &a->args;
	const uint64_t begin = g->item[first].begin;
	const uint64_t nr = g->item[end - 1].begin + g->item[end - 1].nr - begin;
	struct edges edges = {0};
	int err = edges_get(agent, a, begin, nr, &edges);

	if (err)
		return err;
	for (uint64_t i = first; i < end; i++) {
		uint64_t at = g->item[i].begin - begin;

		expand_item(g, i, (const uint32_t *)edges.neighbour.addr + at,
			    g->weight ? (const uint32_t *)edges.weight.addr + at : NULL);
	}
	return edges_put(agent, a, &edges);
}

static int expand_share(struct paging_agent *agent, uint32_t first, uint32_t nr, void *arg)
{
	const struct graph_paged_args *a = arg;
	const uint64_t nr_items = a->args.control->nr_items;
	int err = 0;

	for (uint64_t i = (uint64_t)first * GRAPH_BATCH; i < nr_items;
	     i += (uint64_t)nr * GRAPH_BATCH) {
		uint64_t end = nr_items - i < GRAPH_BATCH ? nr_items : i + GRAPH_BATCH;

		for (uint64_t at = i, next; at < end && !err; at = next) {
			next = run_end(&a->args, at, end);
			err = expand_run(agent, a, at, next);
		}
	}
	return err;
}

static void expand_paged_cpu(const void *p)
{
	const struct graph_paged_args *a = p;
	int err = agents_run(&a->view, 0, a->args.agents, expand_share, (void *)(uintptr_t)a);

	if (err)
		*a->args.status = err;
}

const struct weir_kernel graph_kernel_expand_paged = {
	.name = "graph_expand_paged", .cpu = expand_paged_cpu, .cuda = graph_cuda_run_expand_paged};
