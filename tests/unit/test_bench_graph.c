/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `weir bench bfs`, sssp, cc and pagerank do around their runs: options, sources that are
 * drawn, degrees of a directed graph, answers as they are written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench_graph_input.h"
#include "cli/bench_graph_options.h"
#include "cli/bench_graph_output.h"

static char err[256];

#define PARSE(algorithm, out, ...) parse(algorithm, out, (char *[]){__VA_ARGS__, NULL})

static int parse(enum graph_algorithm algorithm, struct bench_graph_params *out, char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	err[0] = '\0';
	return bench_graph_parse(algorithm, argc, argv, out, err, sizeof(err));
}

static int machine(void **state)
{
	(void)state;
	return setenv("WEIR_MACHINE", "h200", 1);
}

/* ------------------------------------------------------------------ options */

static void test_bench_graph_defaults(void **state)
{
	struct bench_graph_params p;

	(void)state;
	assert_int_equal(PARSE(GRAPH_BFS, &p, "edges.txt"), 0);
	assert_string_equal(p.file, "edges.txt");
	assert_false(p.symmetrize);
	assert_false(p.one_source);
	assert_int_equal(p.nr_sources, 16);
	assert_int_equal(p.pass.nr_page_bytes, 1);
	assert_int_equal(p.pass.page_bytes[0], 4096);
	assert_int_equal(p.pass.nr_budgets, 1);
	assert_true(p.pass.budget[0].fraction == 1);
	assert_int_equal(p.pass.threads, GRAPH_THREADS);
	assert_int_equal(p.pass.base.nr_managers, 3);
	assert_string_equal(p.pass.base.manager[2], "weir-paged");
	assert_int_equal(p.pass.base.epochs, 5);
	assert_int_equal(p.pass.base.warm_up, 1);
	bench_graph_params_fini(&p);

	assert_int_equal(PARSE(GRAPH_PAGERANK, &p, "--uniform", "9"), 0);
	assert_null(p.file);
	assert_int_equal(p.kind, GEN_UNIFORM);
	assert_int_equal(p.scale, 9);
	assert_int_equal(p.degree, 16);
	assert_true(p.symmetrize);
	assert_int_equal(p.nr_sources, 0);
	assert_int_equal(p.iterations, GRAPH_ITERATIONS);
	assert_true(p.damping == GRAPH_DAMPING);
	bench_graph_params_fini(&p);
}

static void test_bench_graph_options(void **state)
{
	struct bench_graph_params p;

	(void)state;
	assert_int_equal(PARSE(GRAPH_SSSP, &p, "--kron", "7", "--degree", "3", "--seed", "9",
			       "--source", "18446744073709551615", "--delta", "40", "--gpu-budget",
			       "100%,12.5%,8KiB", "--page-size", "64KiB,4KiB", "--output", "o",
			       "--agents", "4", "--warm"),
			 0);
	assert_int_equal(p.kind, GEN_KRONECKER);
	assert_int_equal(p.degree, 3);
	assert_int_equal(p.pass.base.seed, 9);
	assert_true(p.one_source && p.source == UINT64_MAX);
	assert_int_equal(p.nr_sources, 1);
	assert_int_equal(p.delta, 40);
	assert_int_equal(p.pass.nr_budgets, 3);
	assert_true(p.pass.budget[1].fraction == 0.125);
	assert_int_equal(p.pass.budget[2].bytes, 8192);
	assert_int_equal(p.pass.nr_page_bytes, 2);
	assert_int_equal(p.pass.page_bytes[0], 65536);
	assert_int_equal(p.pass.agents, 4);
	assert_true(p.pass.warm);
	assert_string_equal(p.output, "o");
	bench_graph_params_fini(&p);
}

/* Frames: of what is managed, in whole pages. */
static void test_bench_graph_budgets(void **state)
{
	const struct bench_budget part = {.fraction = 0.3}, bytes = {.bytes = 10000};

	(void)state;
	assert_int_equal(bench_pass_budget(&part, 10 * 4096, 4096), 3 * 4096);
	assert_int_equal(bench_pass_budget(&part, 3 * 4096, 4096), 0);
	assert_int_equal(bench_pass_budget(&bytes, 1, 4096), 8192);
	assert_int_equal(bench_pass_budget(&bytes, 1 << 30, 65536), 0);
}

static void refused(enum graph_algorithm algorithm, char **argv, const char *part)
{
	struct bench_graph_params p;

	assert_int_equal(parse(algorithm, &p, argv), -EINVAL);
	if (!strstr(err, part) || strchr(err, '\n'))
		fail_msg("'%s' lacks '%s'", err, part);
}

#define REFUSED(algorithm, part, ...) refused(algorithm, (char *[]){__VA_ARGS__, NULL}, part)

static void test_bench_graph_refuses(void **state)
{
	(void)state;
	REFUSED(GRAPH_BFS, "one graph is needed", "--check");
	REFUSED(GRAPH_BFS, "one graph is needed", "a", "b");
	REFUSED(GRAPH_BFS, "one graph is needed", "a", "--kron", "3");
	REFUSED(GRAPH_BFS, "one graph is needed", "--uniform", "3", "--kron", "3");
	REFUSED(GRAPH_BFS, "--kron '32': out of range", "--kron", "32");
	REFUSED(GRAPH_BFS, "--degree '0'", "--kron", "3", "--degree", "0");
	REFUSED(GRAPH_BFS, "--degree is for", "a", "--degree", "16");
	REFUSED(GRAPH_BFS, "--symmetrize is for files", "--kron", "3", "--symmetrize");
	REFUSED(GRAPH_BFS, "contradict", "a", "--source", "0", "--sources", "16");
	REFUSED(GRAPH_BFS, "--source '-1'", "a", "--source", "-1");
	REFUSED(GRAPH_BFS, "--source '1x'", "a", "--source", "1x");
	REFUSED(GRAPH_BFS, "--source '18446744073709551616'", "a", "--source",
		"18446744073709551616");
	REFUSED(GRAPH_BFS, "--sources '0'", "a", "--sources", "0");
	REFUSED(GRAPH_BFS, "--sources '5k'", "a", "--sources", "5k");
	REFUSED(GRAPH_BFS, "no option --delta", "a", "--delta", "3");
	REFUSED(GRAPH_CC, "no option --sources", "a", "--sources", "3");
	REFUSED(GRAPH_CC, "no option --damping", "a", "--damping", "1");
	REFUSED(GRAPH_SSSP, "--delta '0'", "a", "--delta", "0");
	REFUSED(GRAPH_PAGERANK, "--damping '1.01'", "a", "--damping", "1.01");
	REFUSED(GRAPH_PAGERANK, "--damping 'nan'", "a", "--damping", "nan");
	REFUSED(GRAPH_PAGERANK, "--iterations '0'", "a", "--iterations", "0");
	REFUSED(GRAPH_CC, "depends on the edges", "a", "--data", "phantom");
	REFUSED(GRAPH_CC, "listed twice", "a", "--gpu-budget", "50%,50%");
	REFUSED(GRAPH_CC, "no memory at all", "a", "--gpu-budget", "0");
	REFUSED(GRAPH_CC, "not the standard output", "a", "--output", "-");
}

/* ------------------------------------------------------------------ the graph */

/* A file of these lines, whose name the caller frees and removes. */
static char *file_of(const char *text)
{
	char *name = strdup("/tmp/weir-test-graph.XXXXXX");
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return name;
}

static int open_text(enum graph_algorithm algorithm, const char *text, const char *source,
		     struct bench_graph_input *out)
{
	char *name = file_of(text), option[64], *argv[] = {name, source ? option : NULL, NULL};
	struct bench_graph_params p;
	int rc;

	snprintf(option, sizeof(option), "--source=%s", source ? source : "");
	assert_int_equal(parse(algorithm, &p, argv), 0);
	rc = bench_graph_open(&p, NULL, out, err, sizeof(err));
	bench_graph_params_fini(&p);
	unlink(name);
	free(name);
	return rc;
}

static void test_bench_graph_source(void **state)
{
	struct bench_graph_input in;

	(void)state;
	assert_int_equal(open_text(GRAPH_BFS, "7 3\n3 900\n", "900", &in), 0);
	assert_int_equal(in.nr_sources, 1);
	assert_int_equal(in.source[0], 2);
	assert_null(in.degree);
	bench_graph_close(&in);
	assert_int_equal(open_text(GRAPH_BFS, "7 3\n3 900\n", "5", &in), -ENOENT);
	assert_non_null(strstr(err, "--source '5'"));
}

static void draw(char *seed, uint64_t source[64])
{
	struct bench_graph_params p;
	struct bench_graph_input in;

	assert_int_equal(PARSE(GRAPH_BFS, &p, "--kron=10", "--sources=64", "--seed", seed), 0);
	assert_int_equal(bench_graph_open(&p, NULL, &in, err, sizeof(err)), 0);
	assert_string_equal(in.name, "kron10 degree 16");
	assert_int_equal(in.nr_sources, 64);
	for (uint32_t i = 0; i < 64; i++) {
		assert_true(csr_degree(in.edges, in.source[i]) > 0);
		source[i] = in.source[i];
	}
	bench_graph_close(&in);
	bench_graph_params_fini(&p);
}

/* Drawn sources have edges out; a seed gives one set of them, another one another. */
static void test_bench_graph_sources(void **state)
{
	uint64_t a[64], again[64], b[64], nr_same = 0;

	(void)state;
	draw("1", a);
	draw("1", again);
	draw("2", b);
	assert_memory_equal(a, again, sizeof(a));
	for (uint32_t i = 0; i < 64; i++)
		nr_same += a[i] == b[i];
	assert_true(nr_same < 8);
}

/* Vertices without edges out are never drawn, all others are. */
static void test_bench_graph_sources_are_uniform(void **state)
{
	unsigned int nr[9] = {0};
	struct bench_graph_params p;
	struct bench_graph_input in;
	char *name = file_of("0 8\n1 8\n2 8\n3 8\n4 5\n4 6\n4 7\n4 8\n");

	(void)state;
	assert_int_equal(PARSE(GRAPH_SSSP, &p, name, "--sources", "4000"), 0);
	assert_int_equal(bench_graph_open(&p, NULL, &in, err, sizeof(err)), 0);
	assert_non_null(in.edges->weight);
	for (uint32_t i = 0; i < in.nr_sources; i++)
		nr[in.source[i]]++;
	for (unsigned int v = 0; v < 5; v++)
		assert_in_range(nr[v], 700, 900); /* 800 expected, standard deviation 25 */
	for (unsigned int v = 5; v < 9; v++)
		assert_int_equal(nr[v], 0);
	bench_graph_close(&in);
	bench_graph_params_fini(&p);
	unlink(name);
	free(name);
}

/* pagerank goes through edges where they end, and needs to know how many begin at a vertex. */
static void test_bench_graph_degrees(void **state)
{
	static const uint32_t degree[] = {2, 1, 0}, into[] = {0, 1, 2};
	struct bench_graph_input in;

	(void)state;
	assert_int_equal(open_text(GRAPH_PAGERANK, "0 1\n0 2\n1 2\n", NULL, &in), 0);
	assert_null(in.source);
	for (uint64_t v = 0; v < 3; v++) {
		assert_int_equal(in.degree[v], degree[v]);
		assert_int_equal(csr_degree(in.edges, v), into[v]);
	}
	bench_graph_close(&in);
	assert_int_equal(open_text(GRAPH_CC, "0 1\n0 2\n1 2\n", NULL, &in), 0);
	assert_null(in.degree);
	assert_int_equal(csr_degree(in.edges, 0), 2);
	bench_graph_close(&in);
}

/* ------------------------------------------------------------------ answers */

static void writes(enum graph_algorithm algorithm, const struct graph_result *result,
		   const char *expected)
{
	static const uint64_t id[] = {5, 70, 18446744073709551615u};
	static const struct csr graph = {.nr_vertices = 3, .id = id};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	bench_graph_write(out, algorithm, &graph, result);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, expected);
	free(text);
}

static void test_bench_graph_answers(void **state)
{
	uint64_t value[] = {0, 1, GRAPH_FAR};
	double rank[] = {0.1, 1e-300, 1};
	const struct graph_result values = {.value = value}, ranks = {.rank = rank};

	(void)state;
	writes(GRAPH_BFS, &values, "5 0\n70 1\n18446744073709551615 9223372036854775807\n");
	writes(GRAPH_SSSP, &values, "5 0\n70 1\n18446744073709551615 infinity\n");
	writes(GRAPH_PAGERANK, &ranks,
	       "5 0.10000000000000001\n70 1e-300\n18446744073709551615 1\n");
	value[2] = 1;
	writes(GRAPH_CC, &values, "5 5\n70 70\n18446744073709551615 70\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bench_graph_defaults),
		cmocka_unit_test(test_bench_graph_options),
		cmocka_unit_test(test_bench_graph_budgets),
		cmocka_unit_test(test_bench_graph_refuses),
		cmocka_unit_test(test_bench_graph_source),
		cmocka_unit_test(test_bench_graph_sources),
		cmocka_unit_test(test_bench_graph_sources_are_uniform),
		cmocka_unit_test(test_bench_graph_degrees),
		cmocka_unit_test(test_bench_graph_answers),
	};

	return cmocka_run_group_tests(tests, machine, NULL);
}
