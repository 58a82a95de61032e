/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of a run and the formula of its peak. Computes only: nothing is allocated here. That the
 * formula agrees with what a run allocates is checked by test, byte for byte.
 */
#include "workloads/gcn/shape.h"

#include <errno.h>
#include <stdio.h>

#include "src/base/util.h"

static int shape_check_params(const struct gcn_params *p, char *err, size_t err_bytes)
{
	if (p->epochs == 0) {
		snprintf(err, err_bytes, "gcn: no epochs to train: ask for at least 1");
		return -EINVAL;
	}
	if (p->hidden > GCN_HIDDEN_MAX) {
		snprintf(err, err_bytes, "gcn: a hidden layer of %u is too wide: take at most %u",
			 p->hidden, GCN_HIDDEN_MAX);
		return -EINVAL;
	}
	if (!p->graph_dir && (p->nodes < GCN_NODES_MIN || p->nodes > GCN_NODES_MAX)) {
		snprintf(err, err_bytes,
			 "gcn: a random graph of %llu nodes is out of range: take %u to %llu",
			 (unsigned long long)p->nodes, GCN_NODES_MIN,
			 (unsigned long long)GCN_NODES_MAX);
		return -EINVAL;
	}
	return 0;
}

static void shape_random(struct gcn_shape *s, const struct gcn_params *p)
{
	s->nodes = p->nodes;
	s->edges = p->nodes * GCN_RANDOM_DEGREE;
	s->train = p->nodes / 10;
	s->features = GCN_RANDOM_FEATURES;
	s->classes = GCN_RANDOM_CLASSES;
	s->hidden = p->hidden ? p->hidden : GCN_HIDDEN_RANDOM;
}

static void shape_graph(struct gcn_shape *s, const struct gcn_params *p, const struct graph *graph)
{
	s->nodes = graph->nr_nodes;
	s->edges = graph->nr_edges;
	s->train = graph->nr_split[GRAPH_TRAIN];
	s->test = graph->nr_split[GRAPH_TEST];
	s->features = graph->nr_features;
	s->classes = graph->nr_classes;
	s->hidden = p->hidden ? p->hidden : GCN_HIDDEN_GRAPH;
	s->input_dropout = true;
}

int gcn_shape_init(struct gcn_shape *s, const struct gcn_params *p, const struct graph *graph,
		   char *err, size_t err_bytes)
{
	int ret = shape_check_params(p, err, err_bytes);

	if (ret)
		return ret;
	*s = (struct gcn_shape){0};
	if (graph)
		shape_graph(s, p, graph);
	else
		shape_random(s, p);
	s->entries = 2 * s->edges + s->nodes;
	s->slice = p->slice ? p->slice : GCN_SLICE_DEFAULT;
	s->slice = MIN(s->slice, s->entries);
	s->grad_part_rows = MAX(div_round_up(s->nodes, GCN_GRAD_PARTS_MAX), GCN_GRAD_PART_ROWS_MIN);
	s->grad_parts = (uint32_t)div_round_up(s->nodes, s->grad_part_rows);
	return 0;
}

uint64_t gcn_shape_workspace(const struct gcn_shape *s)
{
	uint64_t first = (uint64_t)s->features * s->hidden + s->hidden;
	uint64_t second = (uint64_t)s->hidden * s->classes + s->classes;

	return 4 * (uint64_t)s->grad_parts * MAX(first, second);
}

/* What lives from the first epoch to the last. */
static uint64_t shape_resident(const struct gcn_shape *s)
{
	uint64_t params = (uint64_t)s->features * s->hidden + s->hidden +
			  (uint64_t)s->hidden * s->classes + s->classes;

	return s->nodes * (4 * (uint64_t)s->features + 8 + 1) + 16 * s->edges + 20 * s->entries +
	       16 * params + gcn_shape_workspace(s) + 8 * (1 + GCN_LOSS_PARTS);
}

/*
 * The phases that can be the peak; all others hold a subset of one of these. h and c are one
 * hidden-sized and one class-sized matrix.
 */
uint64_t gcn_shape_peak(const struct gcn_shape *s)
{
	uint64_t n = s->nodes;
	uint64_t h = 4 * n * s->hidden, c = 4 * n * s->classes;
	uint64_t input = s->input_dropout ? 4 * n * s->features : 0;
	uint64_t input_mask = s->input_dropout ? n * s->features : 0;
	uint64_t saved = input + 2 * h + n * s->hidden; /* ReLU output, dropout output, mask */
	uint64_t peak;

	peak = input + input_mask;
	peak = MAX(peak, input + 2 * h + 8 * s->slice * s->hidden);
	peak = MAX(peak, saved + 2 * c + 8 * s->slice * s->classes);
	peak = MAX(peak, saved + c + s->train * (8 + 4 * (uint64_t)s->classes));
	peak = MAX(peak, saved + 2 * c + h); /* the dropout output's gradient */
	return shape_resident(s) + peak;
}

uint64_t gcn_peak_bytes(const struct gcn_params *p)
{
	struct gcn_shape s;
	struct graph graph;
	uint64_t peak = UINT64_MAX;

	if (p->graph_dir && graph_load(p->graph_dir, &graph, NULL, 0))
		return 0;
	if (!gcn_shape_init(&s, p, p->graph_dir ? &graph : NULL, NULL, 0))
		peak = gcn_shape_peak(&s);
	if (p->graph_dir)
		graph_fini(&graph);
	return peak;
}
