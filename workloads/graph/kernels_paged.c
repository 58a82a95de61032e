/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expanding items on the CPU where the edges are paged: agents, each of which takes every nr-th
 * item. With one agent everything happens in one order.
 */
#include "workloads/agents.h"
#include "workloads/graph/cuda.h"
#include "workloads/graph/ops.h"

/* An item's edges and weights, as far as there are any, at addresses. */
struct edges {
	struct paging_span neighbour, weight;
};

static int edges_get(struct paging_agent *agent, const struct graph_paged_args *a,
		     const struct graph_item *item, struct edges *out)
{
	const uint64_t offset = item->begin * sizeof(uint32_t);
	const unsigned flags = PAGING_TOUCHES(graph_touches(item->begin, item->nr));
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

static int expand_share(struct paging_agent *agent, uint32_t first, uint32_t nr, void *arg)
{
	const struct graph_paged_args *a = arg;
	int err = 0;

	for (uint64_t i = first; i < a->args.control->nr_items && !err; i += nr)
		err = expand_item(agent, a, i);
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
