/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms on graphs, on a simulated machine: right answers under every manager and budget,
 * for graphs of many shapes; the lines that are counted are those of a plain model; every failure
 * of a backend leaves nothing behind.
 *
 * Labels: threads
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/graph.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/fail.h"
#include "workloads/graph/reference.h"
#include "workloads/graph/run.h"

#define RANDOM_CASES 40
#define RANDOM_SEED 20261u
#define SOURCES 3u

static const char *const managers[] = {"native", "malloc",     "zerocopy",	 "uvm",
				       "weir",	 "weir-paged", "weir-paged+fill"};
#define NR_MANAGERS (sizeof(managers) / sizeof(*managers))

static struct weir_machine *open_machine(enum weir_data data)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;

	test_machine(&desc);
	desc.uvm = (struct weir_uvm_desc){256, 1000, 10, 5000, 100, 50};
	assert_int_equal(weir_machine_simulate(&desc, data, &machine), 0);
	return machine;
}

/* frames: of weir-paged, with its option or not; others have room for all. */
static int run(struct weir_machine *machine, const char *name, const struct graph_params *p,
	       uint64_t frame_bytes, struct graph_result *out, char *err)
{
	bool paged = strncmp(name, "weir-paged", strlen("weir-paged")) == 0;
	struct manager_config config = {.machine = machine,
					.gpu_budget_bytes = paged ? frame_bytes : 0,
					.page_bytes = 4096,
					.options = ""};
	struct manager *m;
	int ret = manager_create(name, &config, &m), check;

	err[0] = '\0';
	if (ret)
		return ret;
	ret = graph_run(m, p, out, err, 256);
	check = m->ops->check(m);
	if (!ret && check != -EIO) /* which a test injects */
		assert_int_equal(check, 0);
	m->ops->destroy(m);
	return ret;
}

static struct graph_params params_of(enum graph_algorithm algorithm, const struct csr *g,
				     const uint64_t *sources)
{
	bool search = algorithm == GRAPH_BFS || algorithm == GRAPH_SSSP;

	return (struct graph_params){
		.algorithm = algorithm,
		.graph = g,
		.sources = search ? sources : NULL,
		.nr_sources = search ? SOURCES : 0,
		.iterations = algorithm == GRAPH_PAGERANK ? GRAPH_ITERATIONS : 0,
		.damping = GRAPH_DAMPING,
		.passes = 3,
		.warm_up = 1,
		.check = true,
		.threads = GRAPH_THREADS,
		.agents = 1,
	};
}

/* ------------------------------------------------------------------ counting */

/* Lines of one round and of all, bit by bit. */
struct model {
	const struct csr *g;
	bool *met, *ever;
	uint64_t nr_lines; /* of the graph */
	uint64_t lines, first, edges, rounds;
};

static void model_vertex(struct model *m, uint64_t v)
{
	m->edges += csr_degree(m->g, v);
	for (uint64_t e = m->g->offset[v]; e < m->g->offset[v + 1]; e++)
		m->met[e / 32] = true;
}

static void model_round(struct model *m)
{
	uint64_t before = m->lines;

	for (uint64_t i = 0; i < m->nr_lines; i++) {
		m->lines += m->met[i];
		m->first += m->met[i] && !m->ever[i];
		m->ever[i] |= m->met[i];
		m->met[i] = false;
	}
	m->rounds += m->lines != before;
}

static void model_bfs(struct model *m, uint64_t source)
{
	uint64_t *level = malloc(m->g->nr_vertices * sizeof(*level));

	assert_non_null(level);
	assert_int_equal(reference_bfs(m->g, source, level), 0);
	for (uint64_t round = 0; round < m->g->nr_vertices; round++) {
		for (uint64_t v = 0; v < m->g->nr_vertices; v++)
			if (level[v] == round)
				model_vertex(m, v);
		model_round(m);
	}
	free(level);
}

static void check_work(const struct graph_params *p, const struct graph_work *work)
{
	struct model m = {.g = p->graph, .nr_lines = p->graph->nr_edges / 32 + 1};

	m.met = calloc(m.nr_lines, sizeof(bool));
	m.ever = calloc(m.nr_lines, sizeof(bool));
	assert_true(m.met && m.ever);
	for (uint32_t i = 0; p->algorithm == GRAPH_BFS && i < p->nr_sources; i++)
		model_bfs(&m, p->sources[i]);
	for (uint32_t i = 0; p->algorithm == GRAPH_PAGERANK && i < p->iterations; i++) {
		for (uint64_t v = 0; v < m.g->nr_vertices; v++)
			model_vertex(&m, v);
		model_round(&m);
	}
	if (p->algorithm == GRAPH_BFS || p->algorithm == GRAPH_PAGERANK) {
		assert_int_equal(work->line_bytes, m.lines * 128);
		assert_int_equal(work->first_bytes, m.first * 128);
		assert_int_equal(work->nr_edges, m.edges);
		assert_int_equal(work->nr_rounds, m.rounds);
	}
	assert_true(work->first_bytes <= work->line_bytes);
	free(m.met);
	free(m.ever);
}

/* ------------------------------------------------------------------ right */

/* Edges out of each vertex, where the graph has those that end there. */
static uint32_t *degrees_of(const struct csr *in)
{
	uint32_t *degree = calloc(in->nr_vertices, sizeof(*degree));

	assert_non_null(degree);
	for (uint64_t e = 0; e < in->nr_edges; e++)
		degree[csr_neighbour(in, e)]++;
	return degree;
}

/* All algorithms, managers and agents; the same work everywhere. */
static void run_everywhere(const struct csr *g, const uint64_t *sources, uint64_t frame_bytes,
			   uint32_t agents)
{
	uint32_t *degree = degrees_of(g);
	char err[256];

	for (int a = 0; a < GRAPH_ALGORITHM_NR; a++) {
		struct graph_params p = params_of((enum graph_algorithm)a, g, sources);
		struct graph_work work = {0};

		p.agents = agents;
		if (!(g->flags & CSR_SYMMETRIC))
			p.degree = degree;
		for (size_t i = 0; i < NR_MANAGERS; i++) {
			struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
			struct graph_result r = {0};
			int ret = run(machine, managers[i], &p, frame_bytes, &r, err);

			if (ret || !r.passes.passed)
				fail_msg("%s, %s: %d, %s %s", graph_algorithm_name(p.algorithm),
					 managers[i], ret, err, ret ? "" : r.passes.wrong);
			assert_true(r.passes.checked);
			if (i)
				assert_memory_equal(&r.work, &work, sizeof(work));
			else
				check_work(&p, &r.work);
			work = r.work;
			for (uint32_t k = 0; k < r.passes.nr_passes; k++)
				assert_true(r.passes.pass_s[k] > 0);
			graph_result_free(&r);
			weir_machine_close(machine);
		}
	}
	free(degree);
}

static uint64_t next_random(uint64_t *state)
{
	*state += UINT64_C(0x9e3779b97f4a7c15);
	return gen_mix(*state);
}

/* A graph of a size, density and kind at random. */
static void random_graph(uint64_t *random, struct csr *out)
{
	uint32_t scale = 1 + (uint32_t)(next_random(random) % 9);
	struct gen gen = gen_init(next_random(random) % 2 ? GEN_KRONECKER : GEN_UNIFORM, scale,
				  next_random(random));
	uint64_t nr_edges = next_random(random) % (UINT64_C(12) << scale);
	struct edge_source source = edge_source_gen(&gen, nr_edges);
	struct csr_build build = {
		.source = &source,
		.symmetrize = next_random(random) % 2,
		.dedupe = next_random(random) % 2,
		.no_self_loops = next_random(random) % 2,
		.wide = next_random(random) % 4 == 0,
		.weights = next_random(random) % 4 ? CSR_WEIGHTS_GEN : CSR_WEIGHTS_NONE,
		.seed = next_random(random),
		.memory_bytes = MIB(64),
	};
	struct csr_built built;
	char err[GRAPH_ERROR_BYTES];

	if (graph_build(&build, out, &built, err, sizeof(err)))
		fail_msg("%s", err);
}

static void test_graph_run_random(void **state)
{
	uint64_t random = RANDOM_SEED;

	(void)state;
	print_message("seed %u\n", RANDOM_SEED);
	for (int i = 0; i < RANDOM_CASES; i++) {
		uint64_t sources[SOURCES], frames = 1 + next_random(&random) % 16;
		struct csr g;

		random_graph(&random, &g);
		for (uint32_t s = 0; s < SOURCES; s++)
			sources[s] = next_random(&random) % g.nr_vertices;
		run_everywhere(&g, sources, frames * 4096,
			       1 + 3 * (uint32_t)(next_random(&random) % 2));
		csr_close(&g);
	}
}

/* Lists that are longer than an item, begin anywhere and end anywhere. */
static void test_graph_run_long(void **state)
{
	enum { STARS = 5, LEAVES = 3000 };
	struct edge *edge = calloc(STARS * LEAVES, sizeof(*edge));
	const uint64_t sources[SOURCES] = {0, STARS, LEAVES - 1};
	struct csr g;

	(void)state;
	assert_non_null(edge);
	for (uint64_t s = 0; s < STARS; s++)
		for (uint64_t i = 0; i < LEAVES; i++)
			edge[s * LEAVES + i] =
				(struct edge){s, (i * 7 + s) % LEAVES, (uint32_t)(i % 250 + 1)};
	for (int symmetric = 0; symmetric < 2; symmetric++) {
		graph_of(LEAVES, edge, STARS * LEAVES - 17, true, symmetric, &g);
		run_everywhere(&g, sources, 3 * 4096, 1);
		csr_close(&g);
	}
	free(edge);
}

/* One vertex, no edges; and only loops. */
static void test_graph_run_least(void **state)
{
	static const struct edge loop[] = {{0, 0, 5}, {1, 1, 1}, {1, 1, 0}};
	static const uint64_t sources[SOURCES] = {0, 0, 0};
	struct csr g;

	(void)state;
	graph_of(1, NULL, 0, false, false, &g);
	run_everywhere(&g, sources, 4096, 1);
	csr_close(&g);
	graph_of(3, loop, 3, true, false, &g);
	run_everywhere(&g, sources, 4096, 1);
	csr_close(&g);
}

/* Weights up to 2^32 - 1, 0 among them, and buckets of any width. */
static void test_graph_run_delta(void **state)
{
	static const uint64_t deltas[] = {1, 3, 1000, UINT32_MAX, UINT64_MAX};
	static const uint64_t sources[SOURCES] = {0, 3, 5};
	struct edge edge[200];
	uint64_t random = RANDOM_SEED;
	char err[256];
	struct csr g;

	(void)state;
	for (uint32_t i = 0; i < 200; i++) {
		uint64_t bits = next_random(&random);

		edge[i] = (struct edge){bits % 40, bits / 64 % 40,
					bits >> 60 ? (uint32_t)(bits >> 32) % 9 : UINT32_MAX};
	}
	graph_of(40, edge, 200, true, false, &g);
	for (size_t d = 0; d < sizeof(deltas) / sizeof(*deltas); d++) {
		struct graph_params p = params_of(GRAPH_SSSP, &g, sources);
		struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
		struct graph_result r = {0};

		p.delta = deltas[d];
		assert_int_equal(run(machine, "native", &p, 0, &r, err), 0);
		if (!r.passes.passed)
			fail_msg("delta %llu: %s", (unsigned long long)deltas[d], r.passes.wrong);
		graph_result_free(&r);
		weir_machine_close(machine);
	}
	csr_close(&g);
}

/* ------------------------------------------------------------------ parameters, failures */

static void test_graph_run_refused(void **state)
{
	static const uint64_t far[1] = {7};
	struct graph_params good, p;
	char err[256];
	struct csr g;

	(void)state;
	graph_of(3, NULL, 0, false, false, &g);
	good = params_of(GRAPH_PAGERANK, &g, NULL);
	assert_int_equal(graph_params_check(&good, err, sizeof(err)), 0);
#define REFUSED(change, text)                                                        \
	do {                                                                         \
		p = good;                                                            \
		change;                                                              \
		assert_int_equal(graph_params_check(&p, err, sizeof(err)), -EINVAL); \
		assert_non_null(strstr(err, text));                                  \
		assert_int_equal(graph_params_check(&p, NULL, 0), -EINVAL);          \
	} while (0)
	REFUSED(p.algorithm = GRAPH_ALGORITHM_NR, "algorithm");
	REFUSED(p.iterations = 0, "iteration");
	REFUSED(p.damping = 1.5, "damping");
	REFUSED(p.damping = NAN, "damping");
	REFUSED(p.warm_up = 3, "warm-up");
	REFUSED(p.threads = 33, "warps");
	REFUSED(p.agents = 0, "agents");
	REFUSED(p.nr_sources = 1, "sources");
	REFUSED(p.algorithm = GRAPH_BFS, "sources");
	REFUSED((p.algorithm = GRAPH_BFS, p.nr_sources = 1, p.sources = far), "no vertex");
#undef REFUSED
	csr_close(&g);
}

static void test_graph_run_phantom(void **state)
{
	struct weir_machine *machine = open_machine(WEIR_DATA_PHANTOM);
	struct graph_result r = {0};
	struct graph_params p;
	char err[256];
	struct csr g;

	(void)state;
	graph_of(3, NULL, 0, false, false, &g);
	p = params_of(GRAPH_CC, &g, NULL);
	assert_int_equal(run(machine, "native", &p, 0, &r, err), -ENOTSUP);
	assert_non_null(strstr(err, "real data"));
	csr_close(&g);
	weir_machine_close(machine);
}

static int stop_at(void *arg, uint32_t done, uint32_t total)
{
	uint32_t *left = arg;

	(void)total;
	(void)done;
	return !--*left;
}

static void test_graph_run_stopped(void **state)
{
	static const struct edge edge[] = {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}};
	static const uint64_t sources[SOURCES] = {0, 1, 2};
	struct graph_result r = {0};
	char err[256];
	struct csr g;

	(void)state;
	graph_of(4, edge, 3, true, false, &g);
	for (uint32_t at = 1; at < 12; at++) {
		struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
		struct graph_params p = params_of(GRAPH_BFS, &g, sources);
		uint32_t left = at;

		p.progress = stop_at;
		p.progress_arg = &left;
		assert_int_equal(run(machine, "weir-paged", &p, 4096, &r, err), -EINTR);
		assert_non_null(strstr(err, "interrupted"));
		weir_machine_close(machine);
	}
	csr_close(&g);
}

/* ------------------------------------------------------------------ bound */

static void test_graph_run_bound(void **state)
{
	struct graph_result r = {.edge_bytes = 1000000,
				 .work = {.line_bytes = 20000000, .first_bytes = 1000000}};
	struct weir_machine_desc desc;
	double all, half, none;

	(void)state;
	test_machine(&desc);
	all = graph_bound_s(&desc, 0, &r, 1000000);
	half = graph_bound_s(&desc, 0, &r, 500000);
	none = graph_bound_s(&desc, 0, &r, 0);
	assert_true(fabs(half / none - 10.5 / 20) < 1e-9);
	assert_true(all < half);
	assert_true(graph_bound_s(&desc, 0, &r, UINT64_MAX) <= all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_run_random),  cmocka_unit_test(test_graph_run_long),
		cmocka_unit_test(test_graph_run_least),	  cmocka_unit_test(test_graph_run_delta),
		cmocka_unit_test(test_graph_run_refused), cmocka_unit_test(test_graph_run_phantom),
		cmocka_unit_test(test_graph_run_stopped), cmocka_unit_test(test_graph_run_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
