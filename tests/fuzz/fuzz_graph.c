/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the reader of graph directories. An input is both files: nodes.txt up to the first
 * line that is "%%", edges.txt after it. What is accepted must keep every invariant of struct
 * graph; what is refused must be explained in one line.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/gcn/graph.h"

#define SEPARATOR "%%\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_nodes(const struct graph *g)
{
	uint64_t nr_split[GRAPH_SPLIT_NR] = {0};

	require(g->nr_nodes && g->nr_nodes <= GRAPH_NODES_MAX);
	require(g->nr_features && g->nr_features <= GRAPH_FEATURES_MAX);
	require(g->nr_classes && g->nr_classes <= GRAPH_CLASSES_MAX);
	require(g->feature_start[0] == 0);
	for (uint64_t i = 0; i < g->nr_nodes; i++) {
		require(g->split[i] < GRAPH_SPLIT_NR);
		nr_split[g->split[i]]++;
		require(g->label[i] >= (g->split[i] == GRAPH_NONE ? -1 : 0));
		require(g->label[i] < (int64_t)g->nr_classes);
		require(g->feature_start[i] <= g->feature_start[i + 1]);
	}
	for (uint64_t i = 0; i < g->feature_start[g->nr_nodes]; i++)
		require(g->feature[i] < g->nr_features);
	require(nr_split[GRAPH_TRAIN] > 0);
	require(!memcmp(nr_split, g->nr_split, sizeof(nr_split)));
}

static void check_edges(const struct graph *g)
{
	require(g->nr_edges > 0);
	for (uint64_t i = 0; i < g->nr_edges; i++) {
		require(g->edge_u[i] < g->edge_v[i] && g->edge_v[i] < g->nr_nodes);
		require(!i || g->edge_u[i] > g->edge_u[i - 1] ||
			(g->edge_u[i] == g->edge_u[i - 1] && g->edge_v[i] > g->edge_v[i - 1]));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const uint8_t *cut = bytes ? memmem(data, bytes, SEPARATOR, strlen(SEPARATOR)) : NULL;
	struct graph_text nodes = {"nodes.txt", (const char *)data, bytes};
	struct graph_text edges = {"edges.txt", (const char *)data + bytes, 0};
	char err[256] = "";
	struct graph g;
	int ret;

	if (cut) {
		nodes.bytes = (size_t)(cut - data);
		edges.text = (const char *)cut + strlen(SEPARATOR);
		edges.bytes = bytes - nodes.bytes - strlen(SEPARATOR);
	}
	ret = graph_parse(&nodes, &edges, &g, err, sizeof(err));
	if (ret) {
		require(ret == -EINVAL || ret == -ENOMEM);
		require(err[0] && !strchr(err, '\n'));
		return 0;
	}
	check_nodes(&g);
	check_edges(&g);
	graph_fini(&g);
	return 0;
}
