/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms on graphs, on a simulated machine: right answers under every manager and budget,
 * for graphs of many shapes; the lines that are counted are those of a plain model; every failure
 * of a backend leaves nothing behind.
 *
 * Labels: threads
 * Long: yes
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/amount.h"
#include "tests/support/graph_run.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/reference.h"

static const char *const managers[] = {
	"native", "malloc",	"zerocopy",	   "uvm",
	"weir",	  "weir-paged", "weir-paged+page", "weir-paged+fill"};
#define NR_MANAGERS (sizeof(managers) / sizeof(*managers))

/* frames: of weir-paged, with its option or not; others have room for all. */
static struct run_under under_of(const char *name, uint64_t frame_bytes)
{
	bool paged = strncmp(name, "weir-paged", strlen("weir-paged")) == 0;

	return (struct run_under){
		.manager = name, .gpu_bytes = paged ? frame_bytes : 0, .page_bytes = 4096};
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

/* All algorithms, managers and agents; the same work everywhere. */
static void run_everywhere(const struct csr *g, const uint64_t *sources, uint64_t frame_bytes,
			   uint32_t agents)
{
	uint32_t *degree = run_degrees(g);

	for (int a = 0; a < GRAPH_ALGORITHM_NR; a++) {
		struct graph_params p = run_params((enum graph_algorithm)a, g, sources);
		struct graph_work work = {0};

		p.agents = agents;
		if (!(g->flags & CSR_SYMMETRIC))
			p.degree = degree;
		for (size_t i = 0; i < NR_MANAGERS; i++) {
			const struct run_under under = under_of(managers[i], frame_bytes);
			struct weir_machine *machine = run_simulated(WEIR_DATA_REAL, 0);
			struct graph_result r;

			run_under(machine, &under, &p, &r);
			if (i)
				assert_memory_equal(&r.work, &work, sizeof(work));
			else
				check_work(&p, &r.work);
			work = r.work;
			graph_result_free(&r);
			weir_machine_close(machine);
		}
	}
	free(degree);
}

static void test_graph_run_random(void **state)
{
	static const struct test_amount cases = {8, TEST_TSAN ? 1 : 3, 200};
	const uint64_t nr = test_amount(NULL, cases);
	uint64_t random = RUN_SEED;

	(void)state;
	print_message("seed %u\n", RUN_SEED);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t sources[RUN_SOURCES], frames = 1 + run_random(&random) % 16;
		struct csr g;

		run_graph_random(&random, &g);
		for (uint32_t s = 0; s < RUN_SOURCES; s++)
			sources[s] = run_random(&random) % g.nr_vertices;
		run_everywhere(&g, sources, frames * 4096,
			       1 + 3 * (uint32_t)(run_random(&random) % 2));
		csr_close(&g);
	}
}

static void test_graph_run_long(void **state)
{
	struct csr g;

	(void)state;
	for (int symmetric = 0; symmetric < 2; symmetric++) {
		run_graph_long(symmetric, &g);
		run_everywhere(&g, (const uint64_t[RUN_SOURCES]){0, 5, g.nr_vertices - 1}, 3 * 4096,
			       1);
		csr_close(&g);
	}
}

static void test_graph_run_least(void **state)
{
	static const uint64_t sources[RUN_SOURCES] = {0, 0, 0};
	struct csr g;

	(void)state;
	for (int loops = 0; loops < 2; loops++) {
		run_graph_least(loops, &g);
		run_everywhere(&g, sources, 4096, 1);
		csr_close(&g);
	}
}

/* Buckets of any width. */
static void test_graph_run_delta(void **state)
{
	static const uint64_t deltas[] = {1, 3, 1000, UINT32_MAX, UINT64_MAX};
	static const uint64_t sources[RUN_SOURCES] = {0, 3, 5};
	const struct run_under under = under_of("native", 0);
	uint64_t random = RUN_SEED;
	struct csr g;

	(void)state;
	run_graph_weights(&random, &g);
	for (size_t d = 0; d < sizeof(deltas) / sizeof(*deltas); d++) {
		struct graph_params p = run_params(GRAPH_SSSP, &g, sources);
		struct weir_machine *machine = run_simulated(WEIR_DATA_REAL, 0);
		struct graph_result r;

		p.delta = deltas[d];
		run_under(machine, &under, &p, &r);
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
	good = run_params(GRAPH_PAGERANK, &g, NULL);
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
	const struct run_under under = under_of("native", 0);
	struct weir_machine *machine = run_simulated(WEIR_DATA_PHANTOM, 0);
	struct graph_result r;
	struct graph_params p;
	char err[256];
	struct csr g;

	(void)state;
	run_graph_least(false, &g);
	p = run_params(GRAPH_CC, &g, NULL);
	assert_int_equal(run_under_try(machine, &under, &p, &r, err, sizeof(err)), -ENOTSUP);
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
	static const uint64_t sources[RUN_SOURCES] = {0, 1, 2};
	const struct run_under under = under_of("weir-paged", 4096);
	struct graph_result r;
	char err[256];
	struct csr g;

	(void)state;
	graph_of(4, edge, 3, true, false, &g);
	for (uint32_t at = 1; at < 12; at++) {
		struct weir_machine *machine = run_simulated(WEIR_DATA_REAL, 0);
		struct graph_params p = run_params(GRAPH_BFS, &g, sources);
		uint32_t left = at;

		p.progress = stop_at;
		p.progress_arg = &left;
		assert_int_equal(run_under_try(machine, &under, &p, &r, err, sizeof(err)), -EINTR);
		assert_non_null(strstr(err, "interrupted"));
		weir_machine_close(machine);
	}
	csr_close(&g);
}

/* ------------------------------------------------------------------ simulated time */

/* What stays in place costs what it costs by address: with a frame, in which hardly anything is,
 * passes take as long. */
static void test_graph_run_in_place(void **state)
{
	static const uint64_t sources[RUN_SOURCES] = {0, 1, 2};
	static const char *const names[] = {"zerocopy", "weir-paged+auto"};
	struct csr g;

	(void)state;
	run_graph_long(true, &g);
	for (int a = 0; a < GRAPH_ALGORITHM_NR; a++) {
		struct graph_params p = run_params((enum graph_algorithm)a, &g, sources);
		double pass_s[2];

		for (size_t i = 0; i < 2; i++) {
			const struct run_under under = under_of(names[i], 4096);
			struct weir_machine *machine = run_simulated(WEIR_DATA_REAL, 0);
			struct graph_result r;

			run_under(machine, &under, &p, &r);
			pass_s[i] = r.passes.pass_s[0];
			graph_result_free(&r);
			weir_machine_close(machine);
		}
		assert_in_range((int)(1000 * pass_s[1] / pass_s[0]), 900, 1100);
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
		cmocka_unit_test(test_graph_run_stopped), cmocka_unit_test(test_graph_run_in_place),
		cmocka_unit_test(test_graph_run_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
