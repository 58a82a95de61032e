/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random graphs on every way from text to a file, against a model that is a sorted array of edges:
 * lists of edges with ids anywhere in 64 bits, matrices, and graph files again; with every option,
 * several memories and numbers of threads. WEIR_SEED repeats a run.
 *
 * Labels: threads
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/graph.h"

#define ROUNDS 400
#define EDGES_MAX 300
#define TEXT_BYTES 32768

struct options {
	bool transpose, symmetrize, dedupe, no_self_loops, wide, keep;
	enum csr_weights weights;
	uint64_t memory_bytes;
};

/* What a graph should be: vertices by id, edges by id, both sorted. */
struct model {
	uint64_t id[2 * EDGES_MAX];
	struct edge edge[2 * EDGES_MAX];
	uint64_t nr_ids, nr_edges;
	bool weighted;
};

static uint64_t state, nr_passes;

static uint64_t draw(uint64_t below)
{
	return gen_bits(state++, 0) % below;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int compare_edges(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->u != y->u)
		return x->u < y->u ? -1 : 1;
	if (x->v != y->v)
		return x->v < y->v ? -1 : 1;
	return (x->weight > y->weight) - (x->weight < y->weight);
}

static uint64_t rank_of(const struct model *m, uint64_t id)
{
	uint64_t rank = 0;

	while (m->id[rank] != id)
		rank++;
	return rank;
}

static void model_vertices(struct model *m, const struct edge *edge, uint64_t nr)
{
	m->nr_ids = 0;
	for (uint64_t i = 0; i < nr; i++) {
		m->id[2 * i] = edge[i].u;
		m->id[2 * i + 1] = edge[i].v;
	}
	qsort(m->id, 2 * nr, sizeof(*m->id), compare_ids);
	for (uint64_t i = 0; i < 2 * nr; i++)
		if (!i || m->id[i] != m->id[i - 1])
			m->id[m->nr_ids++] = m->id[i];
}

/* The vertices are in the model. weighted: the edges have weights. */
static void model_edges(struct model *m, const struct edge *edge, uint64_t nr, bool weighted,
			const struct options *o)
{
	const uint64_t key = gen_key(7, GEN_WEIGHTS);
	uint64_t kept = 0;

	m->nr_edges = 0;
	m->weighted = o->weights == CSR_WEIGHTS_GEN || (o->weights == CSR_WEIGHTS_KEEP && weighted);
	for (uint64_t i = 0; i < nr; i++) {
		struct edge e = edge[i];

		if (o->no_self_loops && e.u == e.v)
			continue;
		if (o->transpose)
			e = (struct edge){.u = e.v, .v = e.u, .weight = e.weight};
		if (!m->weighted)
			e.weight = 0;
		else if (o->weights == CSR_WEIGHTS_GEN)
			e.weight = gen_weight(key, rank_of(m, e.u), rank_of(m, e.v));
		m->edge[m->nr_edges++] = e;
		if (o->symmetrize && e.u != e.v)
			m->edge[m->nr_edges++] =
				(struct edge){.u = e.v, .v = e.u, .weight = e.weight};
	}
	qsort(m->edge, m->nr_edges, sizeof(*m->edge), compare_edges);
	for (uint64_t i = 0; o->dedupe && i < m->nr_edges; i++)
		if (!kept || m->edge[i].u != m->edge[kept - 1].u ||
		    m->edge[i].v != m->edge[kept - 1].v)
			m->edge[kept++] = m->edge[i];
	m->nr_edges = o->dedupe ? kept : m->nr_edges;
}

static void compare(const struct model *m, const struct csr *g)
{
	uint64_t e = 0;

	assert_int_equal(g->nr_vertices, m->nr_ids);
	assert_int_equal(g->nr_edges, m->nr_edges);
	assert_int_equal(g->weight != NULL, m->weighted);
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		assert_int_equal(csr_id(g, v), m->id[v]);
		for (; e < g->offset[v + 1]; e++) {
			assert_int_equal(m->edge[e].u, m->id[v]);
			assert_int_equal(m->edge[e].v, csr_id(g, csr_neighbour(g, e)));
			if (g->weight)
				assert_int_equal(m->edge[e].weight, g->weight[e]);
		}
	}
}

/* With the memory of some edges, and more until the edges of the largest vertex fit. */
static void build_and_compare(const struct options *o, const struct edge_source *source,
			      const struct model *m, struct gcn_pool *pool, struct csr *g)
{
	struct csr_build build = {.source = source,
				  .transpose = o->transpose,
				  .symmetrize = o->symmetrize,
				  .dedupe = o->dedupe,
				  .no_self_loops = o->no_self_loops,
				  .wide = o->wide,
				  .weights = o->weights,
				  .seed = 7,
				  .memory_bytes = o->memory_bytes,
				  .pool = pool};
	struct csr_built built = {0};
	char err[256] = "";
	int rc;

	while ((rc = graph_build(&build, g, &built, err, sizeof(err))) == -ENOMEM)
		build.memory_bytes *= 2;
	if (rc)
		fail_msg("%s", err);
	nr_passes += built.nr_passes;
	assert_int_equal(!!(g->flags & CSR_WIDE), o->wide);
	compare(m, g);
}

/* Ids: dense, with gaps, or anywhere. */
static uint64_t draw_id(unsigned int kind, uint64_t nr_ids)
{
	uint64_t k = draw(nr_ids);

	return kind == 0 ? k : kind == 1 ? k * 3 + 5 : gen_bits(99, k);
}

static struct options draw_options(void)
{
	struct options o = {.transpose = draw(4) == 0,
			    .symmetrize = draw(2),
			    .dedupe = draw(2),
			    .no_self_loops = draw(2),
			    .wide = draw(3) == 0,
			    .weights = (enum csr_weights)draw(3)};

	o.memory_bytes = UINT64_C(64) << draw(8);
	return o;
}

static void text_put(char *text, size_t *used, const struct edge *edge, bool weighted)
{
	char weight[16] = "";

	if (weighted)
		snprintf(weight, sizeof(weight), " %u", edge->weight);
	*used += (size_t)snprintf(text + *used, TEXT_BYTES - *used, "%llu%s%llu%s%s\n",
				  (unsigned long long)edge->u, draw(2) ? "\t" : "  ",
				  (unsigned long long)edge->v, weight,
				  draw(8) ? "" : "\r\n# comment\n");
	assert_true(*used < TEXT_BYTES);
}

/* The graph file that was made, once more through the builder. */
static void again(const struct csr *g, const struct model *first, struct gcn_pool *pool)
{
	static struct model m;
	struct options o = draw_options();
	struct edge_source source = edge_source_csr(g);
	struct csr g2;
	bool asked;

	m = *first;
	/* What is symmetric stays as it is. */
	asked = o.symmetrize;
	o.symmetrize &= !source.symmetric;
	model_edges(&m, first->edge, first->nr_edges, first->weighted, &o);
	o.symmetrize = asked;
	build_and_compare(&o, &source, &m, pool, &g2);
	assert_int_equal(!!(g2.flags & CSR_SYMMETRIC), asked || source.symmetric);
	csr_close(&g2);
}

static void one_list(struct gcn_pool *pool)
{
	static struct model m;
	static char text[TEXT_BYTES];
	const uint64_t nr = 1 + draw(EDGES_MAX / 2), nr_ids = 1 + draw(40);
	const unsigned int kind = (unsigned int)draw(3);
	const bool weighted = draw(2);
	struct edge edge[EDGES_MAX];
	struct options o = draw_options();
	struct edge_source source;
	struct spool spool;
	char err[256] = "";
	bool symmetric;
	size_t used = 0;
	struct csr g;

	for (uint64_t i = 0; i < nr; i++) {
		edge[i] = (struct edge){.u = draw_id(kind, nr_ids),
					.v = draw_id(kind, nr_ids),
					.weight = (uint32_t)draw(4)};
		text_put(text, &used, &edge[i], weighted);
	}
	if (graph_spool(text, o.weights == CSR_WEIGHTS_KEEP, &spool, &symmetric, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(spool_close(&spool, &source), 0);
	model_vertices(&m, edge, nr);
	model_edges(&m, edge, nr, weighted, &o);
	build_and_compare(&o, &source, &m, pool, &g);
	/* Twice the edges in the model have no room: only smaller ones go through again. */
	if (m.nr_edges <= EDGES_MAX)
		again(&g, &m, pool);
	csr_close(&g);
	graph_unspool(&spool);
}

static void one_matrix(struct gcn_pool *pool)
{
	static struct model m;
	static char text[TEXT_BYTES];
	const uint64_t nr = draw(EDGES_MAX / 2), nr_ids = 1 + draw(40);
	const bool weighted = draw(2), symmetric = draw(2);
	struct edge edge[EDGES_MAX];
	struct options o = draw_options();
	struct edge_source source;
	struct spool spool;
	char err[256] = "";
	bool stated;
	struct csr g;
	size_t used = (size_t)snprintf(
		text, sizeof(text),
		"%%%%MatrixMarket matrix coordinate %s %s\n%% c\n%llu %llu "
		"%llu\n",
		weighted ? "integer" : "pattern", symmetric ? "symmetric" : "general",
		(unsigned long long)nr_ids, (unsigned long long)nr_ids, (unsigned long long)nr);

	for (uint64_t i = 0; i < nr; i++) {
		uint64_t u = draw(nr_ids), v = draw(symmetric ? u + 1 : nr_ids);

		edge[i] = (struct edge){.u = u, .v = v, .weight = (uint32_t)draw(4)};
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%llu %llu",
					 (unsigned long long)u + 1, (unsigned long long)v + 1);
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 weighted ? " %u\n" : "\n", edge[i].weight);
		assert_true(used < sizeof(text));
	}
	if (graph_spool(text, o.weights == CSR_WEIGHTS_KEEP, &spool, &stated, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(stated, symmetric);
	o.symmetrize |= symmetric;
	assert_int_equal(spool_close(&spool, &source), 0);
	for (m.nr_ids = 0; m.nr_ids < nr_ids; m.nr_ids++)
		m.id[m.nr_ids] = m.nr_ids;
	model_edges(&m, edge, nr, weighted, &o);
	build_and_compare(&o, &source, &m, pool, &g);
	csr_close(&g);
	graph_unspool(&spool);
}

static void test_graph_random(void **cmocka_state)
{
	const char *given = getenv("WEIR_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	struct gcn_pool *pool;

	(void)cmocka_state;
	assert_int_equal(gcn_pool_create(3, &pool), 0);
	print_message("seed %llu (WEIR_SEED)\n", (unsigned long long)seed);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		state = gen_bits(seed, round);
		if (round % 3)
			one_list(draw(2) ? pool : NULL);
		else
			one_matrix(draw(2) ? pool : NULL);
	}
	gcn_pool_destroy(pool);
	/* The premise: files were made in several passes. */
	assert_true(nr_passes > 2 * ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
