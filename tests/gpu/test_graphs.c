/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms on graphs, on a GPU: right answers under every manager and budget and in launches
 * of many shapes, and exactly the work that a simulated machine counts: what a round expands does
 * not depend on the order within. Kernels that are not there are told.
 *
 *   test_graphs [--small] [MANAGER]     small: for tools under which all is slow
 *
 * GRAPHS_SCALE is that of the largest graph, GRAPHS_CASES how many random ones there are. Files in
 * the folder that WEIR_GRAPH_DIR names are run on, too. Under a sanitizer there are fewer graphs of
 * long lists and large ones, but for WEIR_TEST_LONG.
 *
 * Takes 30 s of a processor under sanitizers: each graph under each manager.
 *
 * Timeout: 300
 * Long: GRAPHS_CASES=12
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/machine.h"
#include "src/base/util.h"
#include "tests/support/amount.h"
#include "tests/support/driver.h"
#include "tests/support/graph_run.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/cuda.h"
#include "workloads/graph/input.h"

#define UNDERS_MAX 24u
#define LARGE_EDGES 65536u /* from so many on it is run in all ways to page */
#define PAGE_SMALL KIB(4)
#define PAGE_LARGE KIB(64)
/* Sums of ranks are added in another order, and what they give along an edge has 24 bits. */
#define RANK_DIFFERENCE 1e-6

static const char *only_manager; /* NULL: all */
static uint32_t largest_scale, nr_cases;
static bool all_shapes; /* of long lists and large graphs; else most */

/* ------------------------------------------------------------------ one run, on both machines */

/* One graph, with its vertices to search from, and all that runs on it need. */
struct job {
	struct weir_machine *machine, *simulated;
	const struct csr *g;
	uint64_t sources[RUN_SOURCES], random;
	uint32_t *degree;
	bool large; /* all ways to page; only the simulated machine's answer is checked */
	struct run_under under[UNDERS_MAX];
	uint32_t nr_unders;
};

static void expect_same(const struct graph_result *r, const struct graph_result *wanted,
			const struct graph_params *p, const struct run_under *under)
{
	const uint64_t nr = p->graph->nr_vertices;
	double difference = 0;
	bool same = r->nr_reached == wanted->nr_reached;

	for (uint64_t v = 0; r->value && v < nr; v++)
		same = same && r->value[v] == wanted->value[v];
	for (uint64_t v = 0; r->rank && v < nr; v++)
		difference += fabs(r->rank[v] - wanted->rank[v]);
	if (!same || !(difference <= RANK_DIFFERENCE))
		fail_msg("%s, %s: not the simulated machine's answer (ranks: %g)",
			 graph_algorithm_name(p->algorithm), under->manager, difference);
	assert_memory_equal(&r->work, &wanted->work, sizeof(r->work));
	assert_int_equal(r->edge_bytes, wanted->edge_bytes);
}

/* Blocks and warps by chance; a large graph has enough of them to be done soon. */
static void choose_shape(struct job *j, struct graph_params *p)
{
	static const uint32_t blocks[] = {0, 1, 16}, threads[] = {32, 512, 1024};

	p->blocks = blocks[run_random(&j->random) % ARRAY_LEN(blocks)];
	p->threads = threads[run_random(&j->random) % ARRAY_LEN(threads)];
	if (j->large && p->blocks == 1)
		p->threads = 1024;
	p->agents = 1 + 3 * (uint32_t)(run_random(&j->random) % 2);
}

static void run_algorithm(struct job *j, enum graph_algorithm algorithm)
{
	const struct run_under plain = {.manager = "native"};
	struct graph_params p = run_params(algorithm, j->g, j->sources);
	struct graph_result wanted, r;

	if (!(j->g->flags & CSR_SYMMETRIC))
		p.degree = j->degree;
	if (j->large && algorithm == GRAPH_PAGERANK)
		p.iterations = 5;
	p.passes = 1;
	p.warm_up = 0;
	run_under(j->simulated, &plain, &p, &wanted);
	p.passes = 2; /* frames are cold in both, counting is in the first */
	p.check = !j->large;
	for (uint32_t i = 0; i < j->nr_unders; i++) {
		choose_shape(j, &p);
		run_under(j->machine, &j->under[i], &p, &r);
		expect_same(&r, &wanted, &p, &j->under[i]);
		graph_result_free(&r);
	}
	graph_result_free(&wanted);
}

/* ------------------------------------------------------------------ what it is under */

static void under_add(struct job *j, const struct run_under *under)
{
	if (only_manager && strcmp(only_manager, under->manager) != 0)
		return;
	assert_true(j->nr_unders < UNDERS_MAX);
	j->under[j->nr_unders++] = *under;
}

/* Frames for nearly nothing, a part, and all of the edges; in all ways of choosing what comes in,
 * or for a small graph in one, by chance. */
static void unders_paged(struct job *j, uint32_t page_bytes, uint64_t edge_bytes)
{
	static const char *const ways[] = {"weir-paged", "weir-paged+fill", "weir-paged+auto"};
	const uint64_t nr_pages = edge_bytes / page_bytes;
	const uint64_t frames[] = {j->large ? 16 : 1, j->large ? nr_pages / 4 + 1 : 8,
				   2 * nr_pages + 4};

	for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
		struct run_under under = {.gpu_bytes = frames[i] * page_bytes,
					  .page_bytes = page_bytes,
					  .kernels = &graph_cuda_kernels};
		const size_t chosen = run_random(&j->random) % ARRAY_LEN(ways);

		for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
			under.manager = ways[w];
			if (j->large || w == chosen)
				under_add(j, &under);
		}
	}
}

static void unders_all(struct job *j)
{
	static const char *const managers[] = {"native", "zerocopy", "uvm", "weir"};
	const uint64_t block = weir_machine_describe(j->machine)->vmm.granularity_bytes;
	const uint64_t edge_bytes = j->g->nr_edges * sizeof(uint32_t);
	const bool small_pages = run_random(&j->random) % 2; /* a small graph's */

	for (size_t i = 0; i < ARRAY_LEN(managers); i++)
		under_add(j, &(struct run_under){.manager = managers[i]});
	under_add(j, &(struct run_under){.manager = "weir",
					 .gpu_bytes = (edge_bytes / 4 / block + 2) * block,
					 .block_bytes = block});
	if (j->large || small_pages)
		unders_paged(j, PAGE_SMALL, edge_bytes);
	if (j->large || !small_pages)
		unders_paged(j, PAGE_LARGE, edge_bytes);
}

/* ------------------------------------------------------------------ one graph */

static uint64_t source_of(const struct csr *g, uint64_t *random)
{
	uint64_t v = run_random(random) % g->nr_vertices;

	/* One that leads somewhere, mostly. */
	for (uint32_t i = 0; i < 8 && !csr_degree(g, v); i++)
		v = run_random(random) % g->nr_vertices;
	return v;
}

static struct weir_machine *machine_of(struct backend *b)
{
	struct weir_machine *machine;

	assert_int_equal(machine_wrap(b, &machine), 0);
	return machine;
}

/* Everything on a graph; the machine is closed. */
static void run_all(struct weir_machine *machine, const struct csr *g, uint64_t seed)
{
	const bool large = g->nr_edges >= LARGE_EDGES;
	struct job j = {.machine = machine, .g = g, .random = seed, .large = large};

	j.simulated = run_simulated(WEIR_DATA_REAL, large ? UINT64_C(16) << 30 : 0);
	j.degree = run_degrees(g);
	for (uint32_t i = 0; i < RUN_SOURCES; i++)
		j.sources[i] = source_of(g, &j.random);
	unders_all(&j);
	for (int a = 0; a < GRAPH_ALGORITHM_NR; a++)
		run_algorithm(&j, (enum graph_algorithm)a);
	free(j.degree);
	weir_machine_close(j.simulated);
	weir_machine_close(machine);
}

/* The same, and nothing is left of it. */
static void run_on(const struct csr *g, uint64_t seed)
{
	struct backend *b;

	assert_int_equal(test_cuda_open(&test_fake_config, &b), 0);
	run_all(machine_of(b), g, seed);
	test_cuda_nothing_left(NULL);
}

/* ------------------------------------------------------------------ graphs */

static void test_graphs_random(void **state)
{
	uint64_t random = RUN_SEED;
	struct csr g;

	(void)state;
	print_message("seed %u\n", RUN_SEED);
	for (uint32_t i = 0; i < nr_cases; i++) {
		run_graph_random(&random, &g);
		run_on(&g, run_random(&random));
		csr_close(&g);
	}
}

static void test_graphs_long_lists(void **state)
{
	struct csr g;

	(void)state;
	for (int symmetric = all_shapes ? 0 : 1; symmetric < 2; symmetric++) {
		run_graph_long(symmetric, &g);
		run_on(&g, RUN_SEED + (uint64_t)symmetric);
		csr_close(&g);
	}
}

static void test_graphs_least(void **state)
{
	struct csr g;

	(void)state;
	for (int loops = 0; loops < 2; loops++) {
		run_graph_least(loops, &g);
		run_on(&g, RUN_SEED + (uint64_t)loops);
		csr_close(&g);
	}
}

static void test_graphs_weights(void **state)
{
	uint64_t random = RUN_SEED;
	struct csr g;

	(void)state;
	run_graph_weights(&random, &g);
	run_on(&g, RUN_SEED);
	csr_close(&g);
}

static void run_input(const struct graph_input_params *params)
{
	struct graph_input input;
	char err[512];

	if (graph_input_open(params, &input, err, sizeof(err)))
		fail_msg("%s", err);
	run_on(&input.graph, RUN_SEED);
	graph_input_close(&input);
}

static void test_graphs_large(void **state)
{
	struct graph_input_params params = {
		.degree = 16, .seed = RUN_SEED, .weights = true, .memory_bytes = MIB(4096)};

	(void)state;
	assert_int_equal(gcn_pool_create(0, &params.pool), 0);
	for (uint32_t below = 0; below < (all_shapes ? 3 : 2); below++) {
		params.kind = below == 1 ? GEN_UNIFORM : GEN_KRONECKER;
		params.symmetrize = params.kind == GEN_KRONECKER;
		params.scale = largest_scale - below;
		run_input(&params);
	}
	gcn_pool_destroy(params.pool);
}

static void test_graphs_given(void **state)
{
	struct graph_input_params params = {
		.seed = RUN_SEED, .weights = true, .memory_bytes = MIB(4096)};
	const char *folder = getenv("WEIR_GRAPH_DIR");
	DIR *dir = folder && *folder ? opendir(folder) : NULL;
	struct dirent *entry;
	char file[4096];

	(void)state;
	if (!folder || !*folder)
		skip();
	if (!dir) {
		fail_msg("WEIR_GRAPH_DIR: %s cannot be read", folder);
		return;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(file, sizeof(file), "%s/%s", folder, entry->d_name);
		params.file = file;
		run_input(&params);
	}
	(void)closedir(dir);
}

/* ------------------------------------------------------------------ kernels that are not there */

static void note_log(void *arg, enum weir_log_level level, const char *message)
{
	if (level == WEIR_LOG_ERROR)
		(void)snprintf(arg, 512, "%s", message);
}

/* Before test_cuda_open(): what the driver takes with the first kernels is not looked at. */
static struct weir_machine *machine_first(void)
{
	const struct cuda_config config = {.library = test_cuda_library()};
	struct backend *b;

	assert_int_equal(cuda_create(&config, &b), 0);
	return machine_of(b);
}

/* First of all: a library that was found stays open. */
static void test_graphs_no_kernels(void **state)
{
	static const char *const managers[] = {"native", "weir-paged"};
	const char *named = getenv("WEIR_GRAPH_KERNELS");
	char *kernels = named ? strdup(named) : NULL, err[256], log[512];
	struct weir_machine *machine = machine_first();
	struct graph_result r;
	struct csr g;

	(void)state;
	run_graph_long(false, &g);
	assert_int_equal(setenv("WEIR_GRAPH_KERNELS", "/nonesuch/kernels.so", 1), 0);
	weir_log_set(note_log, log);
	for (size_t i = 0; i < ARRAY_LEN(managers); i++) {
		const struct run_under under = {.manager = managers[i],
						.gpu_bytes = MIB(2),
						.kernels = &graph_cuda_kernels};
		struct graph_params p = run_params(GRAPH_CC, &g, NULL);

		log[0] = '\0';
		assert_int_equal(run_under_try(machine, &under, &p, &r, err, sizeof(err)), -ENOENT);
		assert_non_null(strstr(err, "cc: no kernels for the GPU"));
		assert_non_null(strstr(log, "/nonesuch/kernels.so"));
		assert_non_null(strstr(log, "WEIR_GRAPH_KERNELS"));
	}
	test_log_begin();
	assert_int_equal(kernels ? setenv("WEIR_GRAPH_KERNELS", kernels, 1)
				 : unsetenv("WEIR_GRAPH_KERNELS"),
			 0);
	free(kernels);
	csr_close(&g);
	weir_machine_close(machine);
}

/* ------------------------------------------------------------------ all of it */

static int setup(void **state)
{
	struct csr g;

	(void)state;
	if (test_machine_kind() != TEST_GPU)
		return 0;
	run_graph_long(true, &g);
	run_all(machine_first(), &g, RUN_SEED);
	csr_close(&g);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest without[] = {cmocka_unit_test(test_graphs_no_kernels)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graphs_random), cmocka_unit_test(test_graphs_long_lists),
		cmocka_unit_test(test_graphs_least),  cmocka_unit_test(test_graphs_weights),
		cmocka_unit_test(test_graphs_large),  cmocka_unit_test(test_graphs_given),
	};
	bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
	bool gpu = test_machine_kind() == TEST_GPU;
	const struct test_amount scale = {small ? 8 : gpu ? 20 : 10, 8, gpu ? 20 : 12};
	const struct test_amount cases = {small ? 2 : gpu ? 24 : 6, 1, 24};

	only_manager = argv[small ? 2 : 1];
	largest_scale = (uint32_t)test_amount("GRAPHS_SCALE", scale);
	nr_cases = (uint32_t)test_amount("GRAPHS_CASES", cases);
	all_shapes = test_amount(NULL, (struct test_amount){1, 0, 1});
	if (cmocka_run_group_tests(without, test_cuda_required, NULL))
		return 1;
	return cmocka_run_group_tests(tests, setup, NULL);
}
