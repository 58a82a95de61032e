/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a graph: from files of each kind and generated, with every option, and that whatever is
 * wrong ends in one line and leaves nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/graph.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/fail.h"
#include "workloads/graph/input.h"

static char folder[] = "/tmp/weir-test-input.XXXXXX";
static char path[sizeof(folder) + 8];

static int make_folder(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	return setenv("TMPDIR", folder, 1);
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder); /* fails unless it is empty: scratch files have no name */
}

static void put_bytes(const void *bytes, size_t nr_bytes)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, nr_bytes, file), nr_bytes);
	assert_int_equal(fclose(file), 0);
}

static void put_text(const char *text)
{
	put_bytes(text, strlen(text));
}

/* Put a graph file of edges there. */
static void put_graph(uint64_t nr_vertices, const struct edge *edge, uint64_t nr_edges,
		      bool weighted, bool symmetrize)
{
	struct csr g;

	graph_of(nr_vertices, edge, nr_edges, weighted, symmetrize, &g);
	put_bytes(g.map, g.map_bytes);
	csr_close(&g);
}

/* A file unless it is changed. */
static struct graph_input_params usual(void)
{
	return (struct graph_input_params){.file = path, .seed = 5, .memory_bytes = 1 << 20};
}

static void open_input(const struct graph_input_params *params, struct graph_input *in)
{
	char err[GRAPH_ERROR_BYTES] = "";

	if (graph_input_open(params, in, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(csr_check("test", &in->graph, NULL, err, sizeof(err)), 0);
}

/* That opening fails, with one line that has the text. */
static void refuse(const struct graph_input_params *params, int error, const char *text)
{
	struct graph_input in = {.graph.nr_edges = 77};
	char err[GRAPH_ERROR_BYTES] = "";

	assert_int_equal(graph_input_open(params, &in, err, sizeof(err)), error);
	if (!strstr(err, text) || strchr(err, '\n'))
		fail_msg("'%s' instead of '%s'", err, text);
	assert_int_equal(in.graph.nr_edges, 77);
	assert_int_equal(graph_input_open(params, &in, NULL, 0), error);
}

/* The edges of a graph as text: "0-1 0-2:7 ". */
static const char *edges_of(const struct csr *g)
{
	static char text[512];
	size_t used = 0;

	text[0] = '\0';
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		for (uint64_t e = g->offset[v]; e < g->offset[v + 1] && used < sizeof(text); e++) {
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%u-%u",
						 (unsigned int)v,
						 (unsigned int)csr_neighbour(g, e));
			if (g->weight && used < sizeof(text))
				used += (size_t)snprintf(text + used, sizeof(text) - used, ":%u",
							 g->weight[e]);
			if (used < sizeof(text))
				used += (size_t)snprintf(text + used, sizeof(text) - used, " ");
		}
	}
	assert_true(used < sizeof(text));
	return text;
}

/* Open, and hold the edges to what they are to be; in: those turned around, NULL: none. */
static void expect(const struct graph_input_params *params, const char *graph, const char *in)
{
	struct graph_input input;

	open_input(params, &input);
	assert_string_equal(edges_of(&input.graph), graph);
	assert_int_equal(input.graph.weight != NULL, params->weights);
	assert_int_equal(!!(input.graph.flags & CSR_WEIGHTED), params->weights);
	if (in)
		assert_string_equal(edges_of(&input.in), in);
	else
		assert_int_equal(input.in.nr_vertices, 0);
	graph_input_close(&input);
	assert_int_equal(input.graph.nr_vertices, 0);
	graph_input_close(&input);
}

/* ------------------------------------------------------------------ text */

static void test_graph_input_edges(void **state)
{
	struct graph_input_params p = usual();
	struct graph_input input;

	(void)state;
	put_text("# loops, duplicates, an edge both ways\n30 10\n10 30\n30 30\n10 20\n10 20\n");
	expect(&p, "0-1 0-1 0-2 2-0 2-2 ", NULL);
	p.transpose = true;
	expect(&p, "0-1 0-1 0-2 2-0 2-2 ", "0-2 1-0 1-0 2-0 2-2 ");
	p.symmetrize = true;
	expect(&p, "0-1 0-2 1-0 2-0 ", "0-1 0-2 1-0 2-0 ");
	p.weights = true;
	open_input(&p, &input);
	assert_true(input.graph.flags & CSR_SYMMETRIC);
	assert_int_equal(csr_id(&input.graph, 2), 30);
	for (uint64_t e = 0; e < 4; e++) {
		assert_in_range(input.graph.weight[e], 1, GEN_WEIGHT_MAX);
		/* 0-1 and 1-0, 0-2 and 2-0 */
		assert_int_equal(input.graph.weight[e], input.graph.weight[e ^ 2]);
	}
	assert_int_equal(input.graph.weight[0], gen_weight(gen_key(5, GEN_WEIGHTS), 0, 1));
	graph_input_close(&input);
}

static void test_graph_input_weights(void **state)
{
	struct graph_input_params p = usual();

	(void)state;
	put_text("0 1 9\n1 0 4\n1 2 7\n1 2 3\n");
	expect(&p, "0-1 1-0 1-2 1-2 ", NULL);
	p.weights = p.transpose = true;
	expect(&p, "0-1:9 1-0:4 1-2:3 1-2:7 ", "0-1:4 1-0:9 2-1:3 2-1:7 ");
	p.symmetrize = true;
	expect(&p, "0-1:4 1-0:4 1-2:3 2-1:3 ", "0-1:4 1-0:4 1-2:3 2-1:3 ");
	/* What stands in a weight's place counts only where weights are wanted. */
	put_text("0 1 0.5\n");
	refuse(&p, -EINVAL, "file:1: weight '0.5'");
	p = usual();
	expect(&p, "0-1 ", NULL);
}

static void test_graph_input_matrix(void **state)
{
	struct graph_input_params p = usual();

	(void)state;
	put_text(TEXT_MATRIX_BANNER " matrix coordinate integer symmetric\n4 4 2\n2 1 8\n3 3 6\n");
	p.transpose = true;
	expect(&p, "0-1 1-0 2-2 ", "0-1 1-0 2-2 ");
	p.weights = true;
	expect(&p, "0-1:8 1-0:8 2-2:6 ", "0-1:8 1-0:8 2-2:6 ");
	p.symmetrize = true;
	expect(&p, "0-1:8 1-0:8 ", "0-1:8 1-0:8 ");
	put_text(TEXT_MATRIX_BANNER " matrix coordinate pattern general\n2 2 1\n2 1\n");
	p = usual();
	p.transpose = true;
	expect(&p, "1-0 ", "0-1 ");
}

/* ------------------------------------------------------------------ graph files */

static void test_graph_input_file(void **state)
{
	static const struct edge edge[] = {{0, 1, 5}, {1, 2, 6}, {2, 1, 2}, {2, 2, 1}};
	struct graph_input_params p = usual();
	struct graph_input input;

	(void)state;
	put_graph(3, edge, 4, true, false);
	expect(&p, "0-1 1-2 2-1 2-2 ", NULL);
	p.weights = p.transpose = true;
	expect(&p, "0-1:5 1-2:6 2-1:2 2-2:1 ", "1-0:5 1-2:2 2-1:6 2-2:1 ");
	p.symmetrize = true;
	expect(&p, "0-1:5 1-0:5 1-2:2 2-1:2 ", "0-1:5 1-0:5 1-2:2 2-1:2 ");
	/* One that is symmetric keeps its loop, also where it gets weights. */
	put_graph(3, edge + 2, 2, false, true);
	p.weights = false;
	expect(&p, "1-2 2-1 2-2 ", "1-2 2-1 2-2 ");
	p.weights = true;
	open_input(&p, &input);
	assert_int_equal(input.graph.nr_edges, 3);
	assert_int_equal(input.graph.weight[0], input.graph.weight[1]);
	assert_ptr_equal(input.in.narrow, input.graph.narrow);
	graph_input_close(&input);
}

static void test_graph_input_bad_file(void **state)
{
	static const struct edge edge[] = {{0, 1, 0}, {1, 0, 0}};
	struct graph_input_params p = usual();
	struct csr g;
	char *bytes;

	(void)state;
	graph_of(2, edge, 2, false, false, &g);
	bytes = malloc(g.map_bytes);
	assert_non_null(bytes);
	memcpy(bytes, g.map, g.map_bytes);
	put_bytes(bytes, g.map_bytes - 8);
	refuse(&p, -EINVAL, "cut short");
	put_bytes(bytes, 9);
	refuse(&p, -EINVAL, "9 bytes are no graph file");
	bytes[17] ^= 1;
	put_bytes(bytes, g.map_bytes);
	refuse(&p, -EINVAL, "the header is damaged");
	bytes[17] ^= 1;
	/* A neighbour that is not there is found before anything is indexed by it. */
	bytes[(const char *)g.narrow - (const char *)g.map] = 2;
	put_bytes(bytes, g.map_bytes);
	refuse(&p, -EINVAL, "an edge leads from vertex 0 to 2, which is not there");
	p.symmetrize = true;
	refuse(&p, -EINVAL, "which is not there");
	free(bytes);
	csr_close(&g);
}

/* ------------------------------------------------------------------ what is refused */

static void test_graph_input_bad_text(void **state)
{
	struct graph_input_params p = usual();

	(void)state;
	put_text("");
	refuse(&p, -EINVAL, "the file has no edge");
	put_text("# nothing else\n");
	refuse(&p, -EINVAL, "the file has no edge");
	put_text("0 1\n2 3");
	refuse(&p, -EINVAL, "file:2: the file ends in mid-line");
	put_text("0 1\n2 x\n");
	refuse(&p, -EINVAL, "file:2:");
	put_text("0 18446744073709551616\n");
	refuse(&p, -EINVAL, "beyond 64 bits");
	put_text(TEXT_MATRIX_BANNER " matrix coordinate pattern general\n2 2 3\n2 1\n");
	refuse(&p, -EINVAL, "file:");
	put_text(TEXT_MATRIX_BANNER " matrix coordinate pattern general\n"
				    "999999999999999999 999999999999999999 1\n1 1\n");
	refuse(&p, -EINVAL, "file:2:");
	put_bytes("\x1f\x8b\x08\x00", 4);
	refuse(&p, -EINVAL, "the file is compressed");
	p.file = folder;
	refuse(&p, -EISDIR, "Is a directory");
	p.file = "/nowhere/at/all";
	refuse(&p, -ENOENT, "/nowhere/at/all: No such file");
}

static void test_graph_input_bad_parameters(void **state)
{
	struct graph_input_params p = usual();

	(void)state;
	p.file = NULL;
	p.scale = 4;
	refuse(&p, -EINVAL, "degree 0");
	p.degree = GRAPH_INPUT_DEGREE_MAX + 1;
	refuse(&p, -EINVAL, "degree 65537");
	p.degree = 1;
	p.scale = GEN_SCALE_MAX + 1;
	refuse(&p, -EINVAL, "scale 41");
	p.scale = 14;
	p.degree = 16;
	p.memory_bytes = 8;
	refuse(&p, -ENOMEM, "more edges than fit");
	p.memory_bytes = 1 << 20;
	setenv("TMPDIR", "/nowhere", 1);
	refuse(&p, -ENOENT, "no scratch file can be made in /nowhere");
	put_text("0 1\n");
	p.file = path;
	refuse(&p, -ENOENT, "no scratch file can be made in /nowhere");
	setenv("TMPDIR", folder, 1);
}

/* A limit on the size of files stands for a disk that is full. */
static void test_graph_input_full(void **state)
{
	struct graph_input_params text = usual(), p = usual();
	struct rlimit before, small = {.rlim_cur = 1 << 16};
	FILE *file = fopen(path, "we");

	(void)state;
	assert_non_null(file);
	for (int i = 0; i < 20000; i++)
		fprintf(file, "%d 0\n", i);
	assert_int_equal(fclose(file), 0);
	p.file = NULL;
	p.scale = 14;
	p.degree = 16;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	refuse(&p, -EFBIG, "the generated graph: no room for the graph in a scratch file");
	refuse(&text, -EFBIG, "file: no room for the graph in a scratch file");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* ------------------------------------------------------------------ generated graphs */

static void same_as_built(const struct graph_input_params *p)
{
	const struct gen gen = gen_init(p->kind, p->scale, p->seed);
	const struct edge_source source = edge_source_gen(&gen, p->degree << p->scale);
	const struct csr_build build = {.source = &source,
					.symmetrize = p->symmetrize,
					.dedupe = p->symmetrize,
					.no_self_loops = p->symmetrize,
					.weights = p->weights ? CSR_WEIGHTS_GEN : CSR_WEIGHTS_NONE,
					.seed = p->seed,
					.memory_bytes = 1 << 24};
	struct graph_input input;
	struct csr g;

	assert_int_equal(graph_build(&build, &g, NULL, NULL, 0), 0);
	open_input(p, &input);
	assert_int_equal(input.graph.map_bytes, g.map_bytes);
	assert_memory_equal(input.graph.map, g.map, g.map_bytes);
	graph_input_close(&input);
	csr_close(&g);
}

static void test_graph_input_generated(void **state)
{
	struct graph_input_params p = usual();
	struct weir_machine_desc desc;

	(void)state;
	/* A simulated machine is none to generate on. */
	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &p.machine), 0);
	p.file = NULL;
	p.scale = 9;
	p.degree = 7;
	for (int i = 0; i < 8; i++) {
		p.kind = i & 1 ? GEN_KRONECKER : GEN_UNIFORM;
		p.symmetrize = i & 2;
		p.weights = i & 4;
		same_as_built(&p);
	}
	weir_machine_close(p.machine);
}

/* ------------------------------------------------------------------ stopping */

/* arg: looks until it stops. */
static bool stop(void *arg, double fraction, const char *label)
{
	unsigned int *left = arg;

	assert_true(fraction >= 0 && fraction <= 1);
	assert_non_null(label);
	if (!*left)
		return true;
	--*left;
	return false;
}

/* At each look there is, also of those at a file, and nothing is left open. */
static void test_graph_input_stopped(void **state)
{
	unsigned int left, looks = 0;
	const struct graph_watch watch = {stop, &left};
	struct graph_input_params p = usual();
	struct graph_input input;
	int before = dup(0), after, rc = -ECANCELED;

	(void)state;
	close(before);
	p.watch = &watch;
	p.symmetrize = true;
	p.transpose = true;
	put_graph(3, (const struct edge[]){{0, 1, 0}, {1, 2, 0}}, 2, false, false);
	for (; rc == -ECANCELED; looks++) {
		left = looks;
		rc = graph_input_open(&p, &input, NULL, 0);
	}
	assert_int_equal(rc, 0);
	graph_input_close(&input);
	assert_true(looks > 3); /* checking, counting, placing, sorting */
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

/* ------------------------------------------------------------------ vertices by id */

static void test_graph_input_vertex_of(void **state)
{
	static const uint64_t ids[] = {3, 8, 9, UINT64_MAX};
	struct csr g = {.nr_vertices = 4};
	uint64_t v = 77;

	(void)state;
	assert_int_equal(graph_vertex_of(&g, 3, &v), 0);
	assert_int_equal(v, 3);
	assert_int_equal(graph_vertex_of(&g, 4, &v), -ENOENT);
	assert_int_equal(v, 3);
	g.id = ids;
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(graph_vertex_of(&g, ids[i], &v), 0);
		assert_int_equal(v, i);
	}
	assert_int_equal(graph_vertex_of(&g, 0, &v), -ENOENT);
	assert_int_equal(graph_vertex_of(&g, 4, &v), -ENOENT);
	assert_int_equal(graph_vertex_of(&g, 10, &v), -ENOENT);
	g.nr_vertices = 1;
	assert_int_equal(graph_vertex_of(&g, 3, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(graph_vertex_of(&g, 8, &v), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_input_edges),
		cmocka_unit_test(test_graph_input_weights),
		cmocka_unit_test(test_graph_input_matrix),
		cmocka_unit_test(test_graph_input_file),
		cmocka_unit_test(test_graph_input_bad_file),
		cmocka_unit_test(test_graph_input_bad_text),
		cmocka_unit_test(test_graph_input_bad_parameters),
		cmocka_unit_test(test_graph_input_full),
		cmocka_unit_test(test_graph_input_generated),
		cmocka_unit_test(test_graph_input_stopped),
		cmocka_unit_test(test_graph_input_vertex_of),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
