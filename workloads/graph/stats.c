/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph looks like; see stats.h. */
#include "workloads/graph/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/graph/reference.h"

#define WATCH_VERTICES 65536

/* Vertices of at most this degree. */
static uint64_t nr_up_to(const struct csr *g, uint64_t degree)
{
	uint64_t nr = 0;

	for (uint64_t v = 0; v < g->nr_vertices; v++)
		nr += csr_degree(g, v) <= degree;
	return nr;
}

void csr_degrees(const struct csr *g, struct csr_degrees *out)
{
	uint64_t low, high, v = 0;

	*out = (struct csr_degrees){.min = UINT64_MAX};
	/* There is a vertex. */
	do {
		uint64_t degree = csr_degree(g, v);

		out->min = MIN(degree, out->min);
		out->max = MAX(degree, out->max);
		out->nr_without += !degree;
	} while (++v < g->nr_vertices);
	/*
	 * The least degree that half of the vertices do not exceed: no memory, few passes. Fewer
	 * than half of them have more than twice the mean (Markov).
	 */
	low = out->min;
	high = 2 * (g->nr_edges / g->nr_vertices) + 2;
	if (high > out->max)
		high = out->max;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (nr_up_to(g, middle) >= (g->nr_vertices + 1) / 2)
			high = middle;
		else
			low = middle + 1;
	}
	out->median = low;
}

/*
 * Take the edges of u, into vertices that have nr_in edges so far. In a symmetric graph, edges into
 * v come in the order of v's own list, since both are in the order of the vertex at the other end.
 */
static void take_list(const struct csr *g, uint64_t u, uint64_t *nr_in, struct csr_stats *out)
{
	for (uint64_t e = g->offset[u]; e < g->offset[u + 1]; e++) {
		uint64_t v = csr_neighbour(g, e), back = g->offset[v] + nr_in[v]++;

		out->nr_self_loops += u == v;
		out->nr_duplicates += e > g->offset[u] && csr_neighbour(g, e - 1) == v;
		if (back >= g->offset[v + 1] || csr_neighbour(g, back) != u ||
		    (g->weight && g->weight[back] != g->weight[e]))
			out->symmetric = false;
	}
}

static void take_weights(const struct csr *g, struct csr_stats *out)
{
	if (!g->weight || !g->nr_edges)
		return;
	out->weight_min = UINT32_MAX;
	for (uint64_t e = 0; e < g->nr_edges; e++) {
		if (g->weight[e] < out->weight_min)
			out->weight_min = g->weight[e];
		if (g->weight[e] > out->weight_max)
			out->weight_max = g->weight[e];
	}
}

/* Labels are least vertices: where v is its own, a component begins. Overwrites them. */
static void take_components(const struct csr *g, uint64_t *label, struct csr_stats *out)
{
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		uint64_t least = label[v];

		/* label[least] is the component's size from here on. */
		label[least] = least == v ? 1 : label[least] + 1;
		out->nr_components += least == v;
		if (label[least] > out->largest_component)
			out->largest_component = label[least];
	}
}

int csr_stats(const struct csr *g, const struct graph_watch *watch, struct csr_stats *out)
{
	uint64_t *word = calloc(g->nr_vertices, sizeof(*word));
	int rc = 0;

	if (!word)
		return -ENOMEM;
	*out = (struct csr_stats){.symmetric = true};
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		if (v % WATCH_VERTICES == 0 &&
		    graph_watch_stop(watch, (double)v / (double)g->nr_vertices, "comparing edges"))
			rc = -ECANCELED;
		if (rc)
			goto out;
		take_list(g, v, word, out);
	}
	for (uint64_t v = 0; v < g->nr_vertices; v++)
		out->nr_isolated += !word[v] && !csr_degree(g, v);
	take_weights(g, out);
	if (graph_watch_stop(watch, 0, "finding components")) {
		rc = -ECANCELED;
		goto out;
	}
	rc = reference_cc(g, word);
	if (!rc)
		take_components(g, word, out);
out:
	free(word);
	return rc;
}
