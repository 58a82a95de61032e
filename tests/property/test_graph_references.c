/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The references against brute force on tiny random graphs: all pairs of shortest paths (Floyd,
 * Warshall) for levels and distances, reachability for components, a dense matrix for PageRank.
 * And what a graph looks like, counted edge by edge. WEIR_SEED repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/graph.h"
#include "workloads/graph/reference.h"
#include "workloads/graph/stats.h"

#define ROUNDS 500
#define VERTICES_MAX 12
#define EDGES_MAX 40
#define FAR REFERENCE_FAR

struct matrix {
	uint64_t nr;
	uint64_t count[VERTICES_MAX][VERTICES_MAX];  /* edges */
	uint64_t weight[VERTICES_MAX][VERTICES_MAX]; /* the least; FAR: no edge */
};

static uint64_t state;

static uint64_t draw(uint64_t below)
{
	return gen_bits(state++, 0) % below;
}

static void to_matrix(const struct csr *g, struct matrix *m)
{
	m->nr = g->nr_vertices;
	memset(m->count, 0, sizeof(m->count));
	memset(m->weight, 0xff, sizeof(m->weight));
	for (uint64_t u = 0; u < m->nr; u++) {
		for (uint64_t e = g->offset[u]; e < g->offset[u + 1]; e++) {
			uint64_t v = csr_neighbour(g, e), weight = g->weight ? g->weight[e] : 1;

			m->count[u][v]++;
			if (weight < m->weight[u][v])
				m->weight[u][v] = weight;
		}
	}
}

/* Least sums of weights between all pairs. unit: each edge counts 1. both: either direction. */
static void all_pairs(const struct matrix *m, bool unit, bool both,
		      uint64_t d[VERTICES_MAX][VERTICES_MAX])
{
	const uint64_t n = m->nr;

	for (uint64_t i = 0; i < n; i++) {
		for (uint64_t k = 0; k < n; k++) {
			bool edge = m->count[i][k] || (both && m->count[k][i]);

			d[i][k] = i == k ? 0 : !edge ? FAR : unit ? 1 : m->weight[i][k];
		}
	}
	for (uint64_t k = 0; k < n; k++)
		for (uint64_t i = 0; i < n; i++)
			for (uint64_t j = 0; j < n; j++)
				if (d[i][k] != FAR && d[k][j] != FAR && d[i][k] + d[k][j] < d[i][j])
					d[i][j] = d[i][k] + d[k][j];
}

static void check_paths(const struct csr *g, const struct matrix *m)
{
	uint64_t expected[VERTICES_MAX][VERTICES_MAX], got[VERTICES_MAX];

	all_pairs(m, true, false, expected);
	for (uint64_t s = 0; s < m->nr; s++) {
		assert_int_equal(reference_bfs(g, s, got), 0);
		assert_memory_equal(got, expected[s], m->nr * sizeof(*got));
	}
	all_pairs(m, false, false, expected);
	for (uint64_t s = 0; s < m->nr; s++) {
		assert_int_equal(reference_sssp(g, s, got), 0);
		assert_memory_equal(got, expected[s], m->nr * sizeof(*got));
	}
}

static void check_components(const struct csr *g, const struct matrix *m)
{
	uint64_t d[VERTICES_MAX][VERTICES_MAX], got[VERTICES_MAX];

	all_pairs(m, true, true, d);
	assert_int_equal(reference_cc(g, got), 0);
	for (uint64_t v = 0; v < m->nr; v++) {
		uint64_t least = 0;

		while (d[v][least] == FAR)
			least++;
		assert_int_equal(got[v], least);
	}
}

/* transposed: the graph's, as reference_pagerank() wants it. */
static void check_pagerank(const struct csr *transposed, const struct matrix *m)
{
	const double d = REFERENCE_PAGERANK_DAMPING, n = (double)m->nr;
	double rank[VERTICES_MAX], next[VERTICES_MAX] = {0}, got[VERTICES_MAX], sum = 0;

	for (uint64_t v = 0; v < m->nr; v++)
		rank[v] = 1 / n;
	for (unsigned int i = 0; i < REFERENCE_PAGERANK_ITERATIONS; i++) {
		for (uint64_t v = 0; v < m->nr; v++)
			next[v] = (1 - d) / n;
		for (uint64_t u = 0; u < m->nr; u++) {
			double degree = 0;

			for (uint64_t v = 0; v < m->nr; v++)
				degree += (double)m->count[u][v];
			for (uint64_t v = 0; v < m->nr; v++)
				next[v] += d * rank[u] *
					   (degree > 0 ? (double)m->count[u][v] / degree : 1 / n);
		}
		memcpy(rank, next, sizeof(rank));
	}
	assert_int_equal(reference_pagerank(transposed, d, REFERENCE_PAGERANK_ITERATIONS, got), 0);
	for (uint64_t v = 0; v < m->nr; v++) {
		assert_true(fabs(got[v] - rank[v]) < 1e-14);
		sum += got[v];
	}
	assert_true(fabs(sum - 1) < 1e-13);
}

static void check_stats(const struct csr *g, const struct matrix *m)
{
	uint64_t nr_loops = 0, nr_duplicates = 0, nr_isolated = 0, label[VERTICES_MAX] = {0};
	uint64_t degree[VERTICES_MAX] = {0}, nr_components = 0, sorted[VERTICES_MAX] = {0};
	bool symmetric = true;
	struct csr_degrees degrees;
	struct csr_stats stats;

	for (uint64_t u = 0; u < m->nr; u++) {
		uint64_t nr = 0;

		for (uint64_t v = 0; v < m->nr; v++) {
			nr += m->count[u][v] + m->count[v][u];
			degree[u] += m->count[u][v];
			nr_duplicates += m->count[u][v] ? m->count[u][v] - 1 : 0;
			/* Weights are compared by the least alone: see draw_graph(). */
			symmetric &= m->count[u][v] == m->count[v][u] &&
				     m->weight[u][v] == m->weight[v][u];
		}
		nr_loops += m->count[u][u];
		nr_isolated += !nr;
	}
	for (uint64_t i = 0; i < m->nr; i++) {
		uint64_t k = i;

		for (; k && sorted[k - 1] > degree[i]; k--)
			sorted[k] = sorted[k - 1];
		sorted[k] = degree[i];
	}
	assert_int_equal(reference_cc(g, label), 0);
	for (uint64_t v = 0; v < m->nr; v++)
		nr_components += label[v] == v;
	csr_degrees(g, &degrees);
	assert_int_equal(csr_stats(g, NULL, &stats), 0);
	assert_int_equal(degrees.min, sorted[0]);
	assert_int_equal(degrees.median, sorted[(m->nr - 1) / 2]);
	assert_int_equal(degrees.max, sorted[m->nr - 1]);
	assert_int_equal(stats.nr_self_loops, nr_loops);
	assert_int_equal(stats.nr_duplicates, nr_duplicates);
	assert_int_equal(stats.nr_isolated, nr_isolated);
	assert_int_equal(stats.nr_components, nr_components);
	assert_int_equal(stats.symmetric, symmetric);
}

/* Edges between the same vertices have one weight in each direction. */
static uint64_t draw_graph(struct edge *edge, uint64_t nr_vertices)
{
	uint64_t nr = draw(EDGES_MAX), kind = draw(3);

	for (uint64_t i = 0; i < nr; i++) {
		uint64_t u = draw(nr_vertices), v = draw(nr_vertices);

		edge[i] = (struct edge){.u = u, .v = v};
		edge[i].weight = (uint32_t)(kind == 0	? 0
					    : kind == 1 ? gen_bits(1, u * VERTICES_MAX + v) % 9
							: gen_weight(1, u, v) << 24);
	}
	return nr;
}

static void one_graph(void)
{
	struct edge edge[EDGES_MAX];
	const uint64_t nr_vertices = 1 + draw(VERTICES_MAX);
	const uint64_t nr = draw_graph(edge, nr_vertices);
	const bool weighted = draw(3) > 0, symmetrize = draw(2);
	struct csr g, transposed;
	struct matrix m;

	graph_of(nr_vertices, edge, nr, weighted, symmetrize, &g);
	for (uint64_t i = 0; i < nr; i++)
		edge[i] = (struct edge){.u = edge[i].v, .v = edge[i].u, .weight = edge[i].weight};
	graph_of(nr_vertices, edge, nr, weighted, symmetrize, &transposed);
	to_matrix(&g, &m);
	check_paths(&g, &m);
	check_components(&g, &m);
	check_pagerank(&transposed, &m);
	/* Turned around, duplicates of one weight in the model may have two. */
	if (!symmetrize || !weighted)
		check_stats(&g, &m);
	csr_close(&g);
	csr_close(&transposed);
}

static void test_graph_references_random(void **cmocka_state)
{
	const char *given = getenv("WEIR_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

	(void)cmocka_state;
	print_message("seed %llu (WEIR_SEED)\n", (unsigned long long)seed);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		state = gen_bits(seed, round);
		one_graph();
	}
}

/* Larger than brute force can: what must hold of any shortest paths. */
static void test_graph_references_kronecker(void **cmocka_state)
{
	const struct gen gen = gen_init(GEN_KRONECKER, 12, 4);
	const struct edge_source source = edge_source_gen(&gen, 8 << 12);
	const struct csr_build build = {.source = &source,
					.symmetrize = true,
					.weights = CSR_WEIGHTS_GEN,
					.memory_bytes = 1 << 24};
	uint64_t *level = malloc(sizeof(*level) << 12), *distance = malloc(sizeof(*level) << 12);
	uint64_t *label = malloc(sizeof(*label) << 12), start = 0;
	struct csr g;

	(void)cmocka_state;
	assert_true(level && distance && label);
	assert_int_equal(graph_build(&build, &g, NULL, NULL, 0), 0);
	while (!csr_degree(&g, start))
		start++;
	assert_int_equal(reference_bfs(&g, start, level), 0);
	assert_int_equal(reference_sssp(&g, start, distance), 0);
	assert_int_equal(reference_cc(&g, label), 0);
	for (uint64_t u = 0; u < g.nr_vertices; u++) {
		uint64_t nearest = FAR;

		assert_int_equal(level[u] == FAR, label[u] != label[start]);
		assert_int_equal(distance[u] == FAR, label[u] != label[start]);
		for (uint64_t e = g.offset[u]; level[u] != FAR && e < g.offset[u + 1]; e++) {
			uint64_t v = csr_neighbour(&g, e);

			assert_true(level[v] <= level[u] + 1);
			assert_true(distance[v] <= distance[u] + g.weight[e]);
			if (distance[v] + g.weight[e] < nearest)
				nearest = distance[v] + g.weight[e];
		}
		/* Someone is just before it on the way. */
		if (distance[u] != FAR && u != start)
			assert_int_equal(distance[u], nearest);
	}
	csr_close(&g);
	free(level);
	free(distance);
	free(label);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_references_random),
		cmocka_unit_test(test_graph_references_kronecker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
