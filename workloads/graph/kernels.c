/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on the CPU, for edges at an address; kernels.h says what they do. One thread. */
#include "workloads/graph/kernels.h"

#include <string.h>

#include "workloads/graph/cuda.h"
#include "workloads/graph/ops.h"

static void round_cpu(const void *p)
{
	graph_round(p);
}

static void begin_cpu(const void *p)
{
	const struct graph_args *g = p;
	double spread = 0;

	for (uint64_t v = 0; v < g->nr_vertices; v++)
		spread += graph_vertex_begin(g, v);
	g->control->spread[0] = spread;
	for (uint64_t i = 0; g->changed && i <= (g->nr_vertices - 1) / 32; i++) {
		g->changed[i] = 0;
		if (g->seen)
			g->seen[i] = 0;
	}
	if (g->changed)
		graph_bit_set(g->changed, g->source);
}

/* ------------------------------------------------------------------ items */

/* Whether the vertex's list is expanded in this round; what is then noted of it. */
static bool activate(const struct graph_args *g, uint64_t v)
{
	struct graph_control *c = g->control;

	if (g->algorithm == GRAPH_BFS) {
		if (!graph_bit(g->changed, v) || graph_bit(g->seen, v))
			return false;
		g->seen[v / 32] |= 1u << v % 32;
		g->level[v] = c->level;
	} else if (g->algorithm == GRAPH_SSSP) {
		if (!graph_bit(g->changed, v))
			return false;
		if (g->distance[v] >= c->limit) {
			c->nr_left++;
			if (g->distance[v] < c->nearest)
				c->nearest = g->distance[v];
			return false;
		}
		g->changed[v / 32] &= ~(1u << v % 32);
	}
	return true;
}

/* The next item; end: of the item before. Two items of a run may share a sector. */
static void run_count(struct graph_control *c, uint64_t end, const struct graph_item *item)
{
	const bool goes_on = graph_goes_on(end, item) && c->nr_items % GRAPH_BATCH;

	c->nr_runs += !goes_on;
	c->nr_sectors += graph_touches(item->begin, item->nr);
	c->nr_sectors -= goes_on && item->begin % GRAPH_SECTOR_EDGES;
}

static void items_cpu(const void *p)
{
	const struct graph_args *g = p;
	struct graph_control *c = g->control;
	uint64_t end = UINT64_MAX;

	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		uint64_t begin = g->offset[v], nr = activate(g, v) ? graph_active_edges(g, v) : 0;

		c->nr_edges += nr;
		while (nr) {
			struct graph_item item = graph_item_at(v, begin, nr);

			if (g->from)
				g->from[c->nr_items] = g->distance[v];
			run_count(c, end, &item);
			g->item[c->nr_items++] = item;
			end = begin += item.nr;
			nr -= item.nr;
		}
	}
}

/* ------------------------------------------------------------------ rounds */

static void expand_cpu(const void *p)
{
	const struct graph_args *g = p;

	for (uint64_t i = 0; i < g->control->nr_items; i++) {
		const struct graph_item *item = &g->item[i];
		uint64_t from = g->from ? g->from[i] : 0;
		double sum = 0;

		for (uint64_t e = item->begin; e < item->begin + item->nr; e++)
			sum += graph_edge(g, g->algorithm, item->vertex, from, g->neighbour[e],
					  g->weight ? g->weight[e] : 1);
		if (g->sum)
			g->sum[item->vertex] += sum;
	}
}

static void finish_cpu(const void *p)
{
	const struct graph_args *g = p;
	double spread = 0;

	for (uint64_t v = 0; v < g->nr_vertices; v++)
		spread += graph_vertex_finish(g, v);
	g->control->spread[(g->round + 1) % 3] = spread;
	g->control->next = 0;
}

static void sample_cpu(const void *p)
{
	const struct graph_args *g = p;

	for (uint64_t i = 0; i < GRAPH_SAMPLES; i++)
		g->sample[i] = g->label[graph_sampled(g, i)];
}

static void lines_cpu(const void *p)
{
	const struct graph_args *g = p;
	struct graph_control *c = g->control;
	const uint64_t nr_words = (g->nr_edges / GRAPH_LINE_EDGES) / 32 + 1;

	memset(g->met, 0, nr_words * sizeof(*g->met));
	for (uint64_t i = 0; i < c->nr_items; i++) {
		const struct graph_item *item = &g->item[i];
		uint64_t last = (item->begin + item->nr - 1) / GRAPH_LINE_EDGES;

		for (uint64_t line = item->begin / GRAPH_LINE_EDGES; line <= last; line++) {
			if (!graph_bit_set(g->met, line))
				continue;
			c->nr_lines++;
			c->nr_first += graph_bit_set(g->ever, line);
		}
	}
}

#define KERNEL(kernel)                                     \
	const struct weir_kernel graph_kernel_##kernel = { \
		.name = "graph_" #kernel, .cpu = kernel##_cpu, .cuda = graph_cuda_run_##kernel};
KERNEL(round)
KERNEL(begin)
KERNEL(items)
KERNEL(expand)
KERNEL(finish)
KERNEL(sample)
KERNEL(lines)
