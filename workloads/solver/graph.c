/* SPDX-License-Identifier: Apache-2.0 */
/* See graph.h. */
#include "workloads/solver/graph.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/solver/graph_summary.h"
#include "workloads/solver/kernels.h"

/* ------------------------------------------------------------------ a random graph in the mean */

/* Of the generator: a bit of an edge's two ends is 0 0, 0 1 or 1 0, or 1 1, so often. */
#define BITS_00 0.57
#define BITS_01 0.19
#define BITS_11 0.05

static double binomial(uint32_t n, uint32_t k)
{
	return exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0));
}

/* How many vertices have a drawn edge to some part of all vertices. Before they are renamed, those
 * with k bits set have lambda edges in the mean, and their number is nearly Poisson's. */
static double mean_met(uint32_t scale, double nr_drawn, double part)
{
	double sum = 0;

	for (uint32_t k = 0; k <= scale; k++) {
		const double lambda = 2 * nr_drawn * pow(BITS_00 + BITS_01, scale - k) *
				      pow(BITS_01 + BITS_11, k);

		sum += binomial(scale, k) * -expm1(-lambda * part);
	}
	return sum;
}

/* How many edges are left, in both directions, without loops and of each several times one: of the
 * pairs that are equal in k bits that are 0 and l that are 1, and differ in the others. */
static double mean_edges(uint32_t scale, double nr_drawn)
{
	double sum = 0;

	for (uint32_t k = 0; k <= scale; k++)
		for (uint32_t l = 0; k + l < scale; l++) {
			const uint32_t differ = scale - k - l;
			const double lambda = 2 * nr_drawn * pow(BITS_00, k) * pow(BITS_11, l) *
					      pow(BITS_01, differ);

			sum += binomial(scale, k) * binomial(scale - k, l) * ldexp(1, (int)differ) *
			       -expm1(-lambda);
		}
	return sum;
}

/* ------------------------------------------------------------------ opening and closing */

static void phantom_open(const struct solver_graph_params *p, struct solver_graph *g)
{
	const double nr_drawn = ldexp((double)p->degree, (int)p->scale);

	g->nr_edges = (uint64_t)mean_edges(p->scale, nr_drawn);
	g->nr_isolated = g->nr_vertices - (uint64_t)mean_met(p->scale, nr_drawn, 1);
}

/* The first vertex with edges that is drawn, as bench draws its sources. */
static int source_find(struct solver_graph *g, char *err, size_t err_bytes)
{
	const uint64_t key = gen_key(g->seed, GEN_SOURCES);
	const struct csr *csr = &g->input.graph;
	uint64_t drawn = 0, v;

	if (!csr->nr_edges) {
		snprintf(err, err_bytes, "the generated graph has no edges; choose another --seed");
		return -EINVAL;
	}
	do
		v = (gen_bits(key, drawn++) >> 32) * csr->nr_vertices >> 32;
	while (!csr_degree(csr, v));
	g->source = (uint32_t)v;
	return 0;
}

static int real_open(const struct solver_graph_params *p, struct solver_graph *g, char *err,
		     size_t err_bytes)
{
	struct graph_input_params ask = {
		.kind = GEN_KRONECKER,
		.scale = p->scale,
		.degree = p->degree,
		.seed = p->seed,
		.symmetrize = true,
		.weights = p->weights,
		.memory_bytes = UINT64_C(4) << 30,
		.machine = p->machine,
		.watch = p->watch,
	};
	int rc = gcn_pool_create(0, &ask.pool);

	if (rc) {
		snprintf(err, err_bytes, "cannot start threads: %s", strerror(-rc));
		return rc;
	}
	rc = graph_input_open(&ask, &g->input, err, err_bytes);
	gcn_pool_destroy(ask.pool);
	if (rc)
		return rc;
	g->nr_edges = g->input.graph.nr_edges;
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		g->nr_isolated += !csr_degree(&g->input.graph, v);
		g->nr_pieces += solver_graph_pieces(csr_degree(&g->input.graph, v));
	}
	rc = source_find(g, err, err_bytes);
	if (rc)
		graph_input_close(&g->input);
	return rc;
}

int solver_graph_open(const struct solver_graph_params *params, struct solver_graph *out, char *err,
		      size_t err_bytes)
{
	struct solver_graph g = {
		.scale = params->scale,
		.degree = params->degree,
		.seed = params->seed,
		.nr_vertices = UINT64_C(1) << params->scale,
		.phantom = params->phantom,
	};
	int rc = 0;

	if (params->phantom)
		phantom_open(params, &g);
	else
		rc = real_open(params, &g, err, err ? err_bytes : 0);
	if (!rc)
		*out = g;
	return rc;
}

/* ------------------------------------------------------------------ what is asked of it */

uint32_t solver_graph_pieces(uint64_t nr_edges)
{
	return nr_edges > SOLVER_PIECE_EDGES ? (uint32_t)div_round_up(nr_edges, SOLVER_PIECE_EDGES)
					     : 0;
}

static uint64_t listed_before(const struct solver_share *share, uint64_t vertex)
{
	uint64_t at;

	SEARCH_SORTED(at, 0, share->nr_listed, share->listed[at] < vertex);
	return at;
}

double solver_graph_listed(const struct solver_graph *g, uint32_t nr_devices, uint32_t device,
			   uint32_t of, uint32_t first_vertex, uint32_t nr)
{
	const struct solver_share *share = &g->split[nr_devices]->share[device];
	const struct solver_share *owner = &g->split[nr_devices]->share[of];

	if (g->phantom)
		return (double)share->nr_listed_of[of] * nr /
		       ((owner[1].first - owner->first) * (double)SOLVER_GRAPH_SLICE);
	return (double)(listed_before(share, (uint64_t)first_vertex + nr) -
			listed_before(share, first_vertex));
}

bool solver_graph_changes(const struct solver_graph *g, uint32_t round, uint32_t device,
			  uint32_t block, uint32_t nr)
{
	const uint64_t bits =
		gen_bits(gen_key(g->seed, GEN_SOURCES) + round, (uint64_t)device << 32 | block);

	return round < ARRAY_LEN(graph_summary_changed) &&
	       ldexp((double)(bits >> 11), -53) < -expm1(-graph_summary_changed[round] * nr);
}

static int share_make_up(const struct solver_graph *g, struct solver_split *split, uint32_t d)
{
	struct solver_share *share = &split->share[d];
	uint64_t nr = 0;

	share->listed = malloc((share->nr_listed + 1) * sizeof(*share->listed)); /* never empty */
	if (!share->listed)
		return -ENOMEM;
	for (uint32_t of = 0; of < split->nr_devices; of++) {
		const uint64_t first = (uint64_t)split->share[of].first * SOLVER_GRAPH_SLICE;
		const uint64_t end = (uint64_t)split->share[of + 1].first * SOLVER_GRAPH_SLICE;
		const uint64_t listed = share->nr_listed_of[of];

		for (uint64_t i = 0; i < listed; i++) {
			const uint64_t at = (end - first) * i / listed;
			const uint64_t room = (end - first) * (i + 1) / listed - at;
			const uint64_t bits = gen_bits(g->seed + d, first + at) >> 32;

			share->listed[nr++] = (uint32_t)(first + at + (bits * room >> 32));
		}
	}
	return 0;
}

int solver_graph_make_lists(struct solver_graph *g, uint32_t nr_devices)
{
	int err = 0;

	for (uint32_t d = 0; d < nr_devices && !err; d++)
		if (!g->split[nr_devices]->share[d].listed)
			err = share_make_up(g, g->split[nr_devices], d);
	return err;
}

uint32_t solver_graph_rounds(void)
{
	return ARRAY_LEN(graph_summary_changed);
}

static void split_free(struct solver_split *split)
{
	for (uint32_t d = 0; split && d < split->nr_devices; d++)
		free(split->share[d].listed);
	if (split)
		free(split->changes.changed);
	free(split);
}

void solver_graph_close(struct solver_graph *g)
{
	for (uint32_t nr = 0; nr <= WEIR_DEVICES_MAX; nr++)
		split_free(g->split[nr]);
	graph_input_close(&g->input);
	memset(g, 0, sizeof(*g));
}

/* ------------------------------------------------------------------ the split */

/* Edges that end at vertices of the slices before this one. */
static uint64_t edges_before(const struct solver_graph *g, uint32_t slice)
{
	if (!g->phantom)
		return g->input.graph.offset[(uint64_t)slice * SOLVER_GRAPH_SLICE];
	return (uint64_t)((double)g->nr_edges * slice / solver_graph_slices(g));
}

uint64_t solver_graph_edges(const struct solver_graph *g, uint32_t first_slice, uint32_t end_slice)
{
	return edges_before(g, end_slice) - edges_before(g, first_slice);
}

/* Where a device begins: no less than its part of the edges are before it, and one slice at least
 * is each device's. */
static uint32_t first_of(const struct solver_graph *g, const struct solver_split *split, uint32_t d)
{
	const uint32_t slices = solver_graph_slices(g), nr = split->nr_devices;
	const uint64_t edges = (uint64_t)((double)g->nr_edges * d / nr);
	uint32_t at;

	SEARCH_SORTED(at, d ? split->share[d - 1].first + 1 : 0, slices,
		      edges_before(g, at) < edges);
	return d == nr ? slices : MIN(at, slices - (nr - d));
}

static uint32_t owner_of(const struct solver_split *split, uint64_t vertex)
{
	uint32_t d = 0;

	while (vertex / SOLVER_GRAPH_SLICE >= split->share[d + 1].first)
		d++;
	return d;
}

/* What a device's edges come from, as bits of vertices. */
static void sources_mark(const struct solver_graph *g, const struct solver_split *split, uint32_t d,
			 uint64_t *bits)
{
	const struct csr *csr = &g->input.graph;
	const uint64_t first = (uint64_t)split->share[d].first * SOLVER_GRAPH_SLICE;
	const uint64_t end = (uint64_t)split->share[d + 1].first * SOLVER_GRAPH_SLICE;

	memset(bits, 0, div_round_up(g->nr_vertices, 64) * sizeof(*bits));
	for (uint64_t e = csr->offset[first]; e < csr->offset[end]; e++) {
		const uint64_t u = csr_neighbour(csr, e);

		if (u < first || u >= end)
			bits[u / 64] |= UINT64_C(1) << u % 64;
	}
}

static int share_list(const struct solver_graph *g, struct solver_split *split, uint32_t d,
		      uint64_t *bits)
{
	struct solver_share *share = &split->share[d];
	const uint64_t nr_words = div_round_up(g->nr_vertices, 64);
	uint64_t nr = 0;

	sources_mark(g, split, d, bits);
	for (uint64_t i = 0; i < nr_words; i++)
		nr += (uint64_t)__builtin_popcountll(bits[i]);
	share->listed = malloc((nr + 1) * sizeof(*share->listed)); /* never empty */
	if (!share->listed)
		return -ENOMEM;
	for (uint64_t i = 0; i < nr_words; i++)
		for (uint64_t left = bits[i]; left; left &= left - 1) {
			const uint64_t u = i * 64 + (uint64_t)__builtin_ctzll(left);

			share->listed[share->nr_listed++] = (uint32_t)u;
			share->nr_listed_of[owner_of(split, u)]++;
		}
	return 0;
}

static int lists_make(const struct solver_graph *g, struct solver_split *split)
{
	uint64_t *bits = malloc(div_round_up(g->nr_vertices, 64) * sizeof(*bits));
	int err = bits ? 0 : -ENOMEM;

	for (uint32_t d = 0; d < split->nr_devices && !err; d++)
		err = share_list(g, split, d, bits);
	free(bits);
	return err;
}

/* In the mean a device's edges come from as many vertices as have an edge to its part of all. */
static void lists_guess(const struct solver_graph *g, struct solver_split *split)
{
	const double nr_drawn = ldexp((double)g->degree, (int)g->scale);
	const double met = mean_met(g->scale, nr_drawn, 1.0 / split->nr_devices);

	for (uint32_t d = 0; d < split->nr_devices; d++)
		for (uint32_t of = 0; of < split->nr_devices; of++) {
			struct solver_share *share = &split->share[d];
			const double slices = split->share[of + 1].first - split->share[of].first;

			if (of == d)
				continue;
			share->nr_listed_of[of] = (uint64_t)(met * slices / solver_graph_slices(g));
			share->nr_listed += share->nr_listed_of[of];
		}
}

int solver_graph_split(struct solver_graph *g, uint32_t nr_devices)
{
	struct solver_split *split;
	int err = 0;

	if (!nr_devices || nr_devices > MIN(solver_graph_slices(g), WEIR_DEVICES_MAX))
		return -EINVAL;
	if (g->split[nr_devices])
		return 0;
	split = calloc(1, sizeof(*split));
	if (!split)
		return -ENOMEM;
	split->nr_devices = nr_devices;
	for (uint32_t d = 0; d <= nr_devices; d++)
		split->share[d].first = first_of(g, split, d);
	for (uint32_t d = 0; d < nr_devices; d++)
		split->share[d].nr_edges =
			solver_graph_edges(g, split->share[d].first, split->share[d + 1].first);
	if (g->phantom)
		lists_guess(g, split);
	else
		err = lists_make(g, split);
	if (err)
		split_free(split);
	else
		g->split[nr_devices] = split;
	return err;
}
