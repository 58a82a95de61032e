/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a run: made on the host a piece at a time and written through the manager. Only the
 * degrees of the nodes are held whole. On a phantom machine the same writes are made, of nothing.
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/gcn/internal.h"
#include "workloads/gcn/parts.h"
#include "workloads/gcn/rng.h"

#define PIECE_BYTES (UINT64_C(32) << 20) /* of one write: whole blocks of any usual size */
#define PART_BYTES (UINT64_C(256) << 10) /* of one part of a piece, for the pool */

/* Where elements come from. Constant while a tensor is filled. */
struct source {
	const struct graph *graph; /* NULL: random */
	uint64_t nodes, edges, train;
	uint32_t features, classes;
	uint64_t seed;
	uint64_t key; /* of the tensor that is filled */
	const _Atomic uint32_t *degree;
	enum graph_split split;
	float limit; /* of initial weights */
};

/* Write elements [first, first + nr) of a tensor to out. */
typedef void (*fill_fn)(const struct source *s, uint64_t first, uint64_t nr, void *out);

struct fill {
	const struct source *source;
	fill_fn fn;
	uint64_t element_bytes;
	uint64_t first, nr; /* elements of the piece */
	char *out;
};

static uint64_t elements_of(uint64_t bytes, uint64_t element_bytes)
{
	return element_bytes < bytes ? bytes / element_bytes : 1;
}

static void fill_part(const void *p, uint64_t part)
{
	const struct fill *f = p;
	struct gcn_run r = gcn_part(part, elements_of(PART_BYTES, f->element_bytes), f->nr);

	f->fn(f->source, f->first + r.first, r.end - r.first, f->out + r.first * f->element_bytes);
}

/* Fill a tensor of elements of a size, or write nothing of the same sizes. */
static void fill(struct gcn *g, struct gcn_tensor *t, const struct source *source,
		 uint64_t element_bytes, fill_fn fn)
{
	uint64_t total = t->bytes / element_bytes;
	uint64_t step = elements_of(PIECE_BYTES, element_bytes);
	struct fill f = {.source = source, .fn = fn, .element_bytes = element_bytes};

	if (g->status)
		return;
	step = MIN(step, total);
	if (!g->phantom) {
		f.out = malloc(step * element_bytes);
		if (!f.out) {
			gcn_fail(g, -ENOMEM, "gcn: no memory on the host for a piece of '%s'",
				 t->name);
			return;
		}
	}
	for (f.first = 0; f.first < total && !g->status; f.first += f.nr) {
		f.nr = step < total - f.first ? step : total - f.first;
		if (f.out)
			gcn_pool_run(g->pool,
				     gcn_nr_parts(f.nr, elements_of(PART_BYTES, element_bytes)),
				     fill_part, &f);
		gcn_write(g, t, f.first * element_bytes, f.out, f.nr * element_bytes);
		gcn_poll(g);
	}
	free(f.out);
}

/* ---- nodes; an element of the features is a row */

/* Standard normal, two from two uniform draws; the number of features is even. */
static void fill_features_random(const struct source *s, uint64_t first, uint64_t nr, void *out)
{
	float *x = out;
	uint64_t base = first * s->features;

	for (uint64_t i = 0; i < nr * s->features; i += 2) {
		double radius = sqrt(-2 * log(gcn_rng_unit(s->key, base + i)));
		double angle = 2 * M_PI * gcn_rng_unit(s->key, base + i + 1);

		x[i] = (float)(radius * cos(angle));
		x[i + 1] = (float)(radius * sin(angle));
	}
}

static void fill_features_graph(const struct source *s, uint64_t first, uint64_t nr, void *out)
{
	float *x = out;

	memset(x, 0, nr * s->features * sizeof(*x));
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t begin = s->graph->feature_start[first + i];
		uint64_t end = s->graph->feature_start[first + i + 1];

		for (uint64_t j = begin; j < end; j++)
			x[i * s->features + s->graph->feature[j]] = 1 / (float)(end - begin);
	}
}

/* A node without a label has the label 0: no split names it, so that nobody looks. */
static void fill_labels(const struct source *s, uint64_t first, uint64_t nr, void *out)
{
	int64_t *label = out;

	for (uint64_t i = 0; i < nr; i++) {
		if (s->graph)
			label[i] = s->graph->label[first + i] < 0 ? 0 : s->graph->label[first + i];
		else
			label[i] = (int64_t)gcn_rng_below(s->key, first + i, s->classes);
	}
}

static void fill_mask(const struct source *s, uint64_t first, uint64_t nr, void *out)
{
	uint8_t *mask = out;

	for (uint64_t i = 0; i < nr; i++)
		mask[i] = s->graph ? s->graph->split[first + i] == s->split : first + i < s->train;
}

/* ---- edges; an entry is an edge, an edge reversed, or a node's edge to itself */

struct ends {
	uint64_t src, dst;
};

static struct ends edge_at(const struct source *s, uint64_t edge)
{
	uint64_t key;

	if (s->graph)
		return (struct ends){s->graph->edge_u[edge], s->graph->edge_v[edge]};
	key = gcn_rng_key(s->seed, GCN_RNG_EDGES, 0, 0);
	return (struct ends){gcn_rng_below(key, 2 * edge, s->nodes),
			     gcn_rng_below(key, 2 * edge + 1, s->nodes)};
}

static struct ends entry_at(const struct source *s, uint64_t entry)
{
	struct ends e;

	if (entry < s->edges)
		return edge_at(s, entry);
	if (entry < 2 * s->edges) {
		e = edge_at(s, entry - s->edges);
		return (struct ends){e.dst, e.src};
	}
	return (struct ends){entry - 2 * s->edges, entry - 2 * s->edges};
}

static void fill_edges(const struct source *s, uint64_t first, uint64_t nr, void *out)
{
	int64_t *edge = out;

	for (uint64_t i = 0; i < nr; i++) {
		uint64_t k = first + i;

		edge[i] =
			(int64_t)(k < s->edges ? edge_at(s, k).src : edge_at(s, k - s->edges).dst);
	}
}

static void fill_src(const struct source *s, uint64_t first, uint64_t nr, void *out)
{
	for (uint64_t i = 0; i < nr; i++)
		((int64_t *)out)[i] = (int64_t)entry_at(s, first + i).src;
}

static void fill_dst(const struct source *s, uint64_t first, uint64_t nr, void *out)
{
	for (uint64_t i = 0; i < nr; i++)
		((int64_t *)out)[i] = (int64_t)entry_at(s, first + i).dst;
}

static void fill_weights(const struct source *s, uint64_t first, uint64_t nr, void *out)
{
	for (uint64_t i = 0; i < nr; i++) {
		struct ends e = entry_at(s, first + i);
		uint32_t src = atomic_load_explicit(&s->degree[e.src], memory_order_relaxed);
		uint32_t dst = atomic_load_explicit(&s->degree[e.dst], memory_order_relaxed);

		((float *)out)[i] = (float)(1 / sqrt((double)src * (double)dst));
	}
}

/* Ends of edges, counted by node. */
struct degrees {
	const struct source *source;
	_Atomic uint32_t *degree;
};

#define DEGREE_EDGES (UINT64_C(1) << 16) /* of one part */

/* Sums of whole numbers: the order does not show, and the pool's end orders them before reads. */
static void count_part(const void *p, uint64_t part)
{
	const struct degrees *d = p;
	struct gcn_run r = gcn_part(part, DEGREE_EDGES, d->source->edges);

	for (uint64_t i = r.first; i < r.end; i++) {
		struct ends e = edge_at(d->source, i);

		atomic_fetch_add_explicit(&d->degree[e.src], 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&d->degree[e.dst], 1, memory_order_relaxed);
	}
}

/* The number of entries that end at each node: at least 1, its own. NULL: no memory. */
static _Atomic uint32_t *count_degrees(const struct gcn *g, const struct source *s)
{
	struct degrees d = {.source = s, .degree = malloc(s->nodes * sizeof(*d.degree))};

	if (!d.degree)
		return NULL;
	for (uint64_t i = 0; i < s->nodes; i++)
		atomic_init(&d.degree[i], 1);
	gcn_pool_run(g->pool, gcn_nr_parts(s->edges, DEGREE_EDGES), count_part, &d);
	return d.degree;
}

static void create_edges(struct gcn *g, struct source *s)
{
	_Atomic uint32_t *degree = NULL;

	gcn_alloc(g, &g->edge, "edges", 16 * s->edges);
	fill(g, &g->edge, s, 8, fill_edges);
	gcn_alloc(g, &g->src, "src", 8 * g->s.entries);
	fill(g, &g->src, s, 8, fill_src);
	gcn_alloc(g, &g->dst, "dst", 8 * g->s.entries);
	fill(g, &g->dst, s, 8, fill_dst);
	gcn_alloc(g, &g->weight, "weight", 4 * g->s.entries);
	if (!g->phantom && !g->status) {
		degree = count_degrees(g, s);
		if (!degree)
			gcn_fail(g, -ENOMEM, "gcn: no memory on the host for the degrees");
	}
	s->degree = degree;
	fill(g, &g->weight, s, 4, fill_weights);
	s->degree = NULL;
	free(degree);
}

/* ---- layers */

static void fill_uniform(const struct source *s, uint64_t first, uint64_t nr, void *out)
{
	float *x = out;

	for (uint64_t i = 0; i < nr; i++)
		x[i] = (float)(2 * gcn_rng_unit(s->key, first + i) - 1) * s->limit;
}

static void create_param(struct gcn *g, struct gcn_param *param, uint64_t bytes, const char *name)
{
	gcn_alloc(g, &param->value, name, bytes);
	gcn_alloc(g, &param->grad, "gradient", bytes);
	gcn_alloc(g, &param->moment1, "moment 1", bytes);
	gcn_alloc(g, &param->moment2, "moment 2", bytes);
	gcn_zero(g, &param->moment1);
	gcn_zero(g, &param->moment2);
}

/* Weights uniform with the variance 2 / (width_in + width_out), after Glorot and Bengio; bias 0. */
static void create_layer(struct gcn *g, struct gcn_layer *layer, uint32_t i, struct source *s)
{
	static const char *const weight_name[] = {"W1", "W2"}, *const bias_name[] = {"b1", "b2"};
	uint32_t in = layer->width_in, out = layer->width_out;

	create_param(g, &layer->weight, 4 * (uint64_t)in * out, weight_name[i]);
	create_param(g, &layer->bias, 4 * (uint64_t)out, bias_name[i]);
	s->key = gcn_rng_key(s->seed, GCN_RNG_WEIGHTS, i, 0);
	s->limit = (float)sqrt(6.0 / ((double)in + out));
	fill(g, &layer->weight.value, s, 4, fill_uniform);
	gcn_zero(g, &layer->bias.value);
}

static void create_layers(struct gcn *g, struct source *s)
{
	const float decay = 5e-4f;
	uint32_t widths[] = {g->s.features, g->s.hidden, g->s.classes};

	for (uint32_t i = 0; i < 2; i++) {
		struct gcn_layer *layer = &g->layer[i];

		layer->width_in = widths[i];
		layer->width_out = widths[i + 1];
		/* On a graph that was read the second layer has none, as published. */
		layer->weight.weight_decay = i && s->graph ? 0 : decay;
		layer->bias.weight_decay = layer->weight.weight_decay;
		create_layer(g, layer, i, s);
	}
	gcn_alloc(g, &g->workspace, "workspace", gcn_shape_workspace(&g->s));
	gcn_alloc(g, &g->loss, "loss", 8 * (1 + GCN_LOSS_PARTS));
}

static struct source source_of(const struct gcn *g, const struct graph *graph)
{
	return (struct source){
		.graph = graph,
		.nodes = g->s.nodes,
		.edges = g->s.edges,
		.train = g->s.train,
		.features = g->s.features,
		.classes = g->s.classes,
		.seed = g->p->seed,
		.split = GRAPH_TRAIN,
	};
}

void gcn_data_create(struct gcn *g, const struct graph *graph)
{
	struct source s = source_of(g, graph);

	gcn_alloc(g, &g->x, "x", 4 * g->s.nodes * g->s.features);
	s.key = gcn_rng_key(s.seed, GCN_RNG_FEATURES, 0, 0);
	fill(g, &g->x, &s, 4 * (uint64_t)g->s.features,
	     graph ? fill_features_graph : fill_features_random);
	gcn_alloc(g, &g->label, "labels", 8 * g->s.nodes);
	s.key = gcn_rng_key(s.seed, GCN_RNG_LABELS, 0, 0);
	fill(g, &g->label, &s, 8, fill_labels);
	gcn_alloc(g, &g->train_mask, "training mask", g->s.nodes);
	fill(g, &g->train_mask, &s, 1, fill_mask);
	create_edges(g, &s);
	create_layers(g, &s);
}

void gcn_data_split(struct gcn *g, const struct graph *graph, enum graph_split split,
		    struct gcn_tensor *t)
{
	struct source s = source_of(g, graph);

	s.split = split;
	fill(g, t, &s, 1, fill_mask);
}
