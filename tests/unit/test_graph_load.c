/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading graph directories: what is accepted and what comes of it, and that each kind of bad
 * input is refused with one line that names file, line and remedy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "tests/unit/test_gcn_planted.h"
#include "workloads/gcn/graph.h"

#define NODES "# tiny: 3 nodes; 5 features, 2 classes\ntrain 0 2 4 1\n- -1 0\ntest 1 1 0\n"
#define EDGES "# tiny: 2 undirected edges\n0 1\n2 1\n"

static int parse(const char *nodes, const char *edges, struct graph *g, char *err, size_t err_bytes)
{
	struct graph_text n = {"nodes.txt", nodes, strlen(nodes)};
	struct graph_text e = {"edges.txt", edges, strlen(edges)};

	return graph_parse(&n, &e, g, err, err_bytes);
}

static void graph_parse_tiny(void **state)
{
	struct graph g;

	(void)state;
	assert_int_equal(parse(NODES, EDGES, &g, NULL, 0), 0);
	assert_int_equal(g.nr_nodes, 3);
	assert_int_equal(g.nr_features, 5);
	assert_int_equal(g.nr_classes, 2);
	assert_int_equal(g.nr_edges, 2);
	assert_int_equal(g.nr_split[GRAPH_TRAIN], 1);
	assert_int_equal(g.nr_split[GRAPH_TEST], 1);
	assert_int_equal(g.nr_split[GRAPH_NONE], 1);
	assert_int_equal(g.split[2], GRAPH_TEST);
	assert_int_equal(g.label[0], 0);
	assert_int_equal(g.label[1], -1);
	assert_int_equal(g.label[2], 1);
	assert_int_equal(g.feature_start[1], 2);
	assert_int_equal(g.feature_start[2], 2);
	assert_int_equal(g.feature_start[3], 3);
	assert_int_equal(g.feature[0], 4);
	assert_int_equal(g.edge_u[1], 1);
	assert_int_equal(g.edge_v[1], 2);
	graph_fini(&g);
}

/* Edges may be listed in either direction, again, and from a node to itself; the count that is
 * stated may be that of the lines or of what remains. */
static void graph_parse_drops_duplicates(void **state)
{
	static const char *const stated[] = {"", "# 6 edges\n", "# 2 edges\n"};
	struct graph g;
	char edges[128];

	(void)state;
	for (int i = 0; i < 3; i++) {
		snprintf(edges, sizeof(edges), "%s1 0\n0 1\n1 1\n2 1\n1 2\n1 2\n", stated[i]);
		assert_int_equal(parse(NODES, edges, &g, NULL, 0), 0);
		assert_int_equal(g.nr_edges, 2);
		assert_int_equal(g.nr_duplicates, 3);
		assert_int_equal(g.nr_self_loops, 1);
		graph_fini(&g);
	}
}

/* Counts that no comment states follow from the data. */
static void graph_parse_without_comments(void **state)
{
	struct graph g;

	(void)state;
	assert_int_equal(
		parse("train 0 2\t4 1\r\n- -1 0\r\ntest 6 1 0\r\n", "0 1\r\n", &g, NULL, 0), 0);
	assert_int_equal(g.nr_features, 5);
	assert_int_equal(g.nr_classes, 7);
	graph_fini(&g);
}

static const struct {
	const char *nodes, *edges;
	const char *want; /* in the message */
} bad[] = {
	{"", EDGES, "nodes.txt:0: the file has 0 nodes"},
	{"# nothing\n", EDGES, "nodes.txt:1: the file has 0 nodes"},
	{NODES, "", "edges.txt:0: the file has no edge"},
	{NODES, "1 1\n", "edges.txt:1: the file has no edge"},
	{"train 0 1 0\n\ntest 0 1 0\n", EDGES, "nodes.txt:2: the line is empty"},
	{"train 0 1 0\ntest 0 1", EDGES, "nodes.txt:2: the file ends in mid-line"},
	{NODES, "0 1\n1 2", "edges.txt:2: the file ends in mid-line"},
	{"Train 0 1 0\n", EDGES, "nodes.txt:1: 'Train' is not a split"},
	{"train\n", EDGES, "nodes.txt:1: the line ends where a label"},
	{"train 0\n", EDGES, "nodes.txt:1: the line ends where the number of features"},
	{"train x 1 0\n", EDGES, "nodes.txt:1: 'x' is not a label"},
	{"train -2 1 0\n", EDGES, "nodes.txt:1: '-2' is not a label"},
	{"train 99999999999999999999 1 0\n", EDGES, "is not a label"},
	{"train 65536 1 0\n", EDGES, "nodes.txt:1: label 65536 is out of range"},
	{"# 2 classes\ntrain 2 1 0\n", EDGES, "nodes.txt:2: label 2 is out of range"},
	{"train -1 1 0\n", EDGES, "nodes.txt:1: a node of a split has no label"},
	{"train 0 2 0\n", EDGES, "nodes.txt:1: the line has fewer than the 2 features"},
	{"train 0 3 10 11\n", EDGES, "nodes.txt:1: the line ends where a feature"},
	{"train 0 1 0 1\n", EDGES, "nodes.txt:1: '1' is more than the line should have"},
	{"train 0 1000000000000000000 1\n", EDGES, "is not the number of features"},
	{"train 0 2 3 3\n", EDGES, "nodes.txt:1: feature 3 is listed twice"},
	{"# 5 features\ntrain 0 1 5\n", EDGES, "nodes.txt:2: feature 5 is out of range"},
	{"train 0 1 1048576\n", EDGES, "feature 1048576 is out of range"},
	{"train 0 0\n", EDGES, "no node has a feature"},
	{"test 0 1 0\n", EDGES, "no node is of the split train"},
	{"# 4 nodes\ntrain 0 1 0\n", EDGES, "4 nodes are stated, 1 are here"},
	{"# 0 classes\ntrain 0 1 0\n", EDGES, "nodes.txt:1: the comment states 0 classes"},
	{"# 99999999 features\ntrain 0 1 0\n", EDGES, "states 99999999 features"},
	{NODES, "# 4 nodes\n0 1\n", "edges.txt:1: the comment states 4 nodes, an earlier one 3"},
	{NODES, "# 3 edges\n0 1\n", "edges.txt:2: 3 edges are stated, 1 are here"},
	{NODES, "0 3\n", "edges.txt:1: node 3 is out of range: the largest is 2"},
	{NODES, "0 -1\n", "edges.txt:1: '-1' is not a node"},
	{NODES, "0 1 2\n", "edges.txt:1: '2' is more than the line should have"},
	{NODES, "0\n", "edges.txt:1: the line ends where a node"},
	{NODES, "0 \x1b[2J\n", "edges.txt:1: '?[2J' is not a node"},
};

static void graph_parse_refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct graph g = {.nr_nodes = 77};
		char err[256] = "";

		assert_int_equal(parse(bad[i].nodes, bad[i].edges, &g, err, sizeof(err)), -EINVAL);
		if (!strstr(err, bad[i].want))
			fail_msg("case %zu: '%s' does not say '%s'", i, err, bad[i].want);
		assert_null(strchr(err, '\n'));
		assert_int_equal(g.nr_nodes, 77); /* not written */
	}
}

/* A message is cut to its buffer, whatever its size. */
static void graph_parse_short_message(void **state)
{
	struct graph g;
	char err[64];

	(void)state;
	for (size_t bytes = 0; bytes < sizeof(err); bytes++) {
		memset(err, '#', sizeof(err));
		assert_int_equal(parse(NODES, "0 9\n", &g, err, bytes), -EINVAL);
		for (size_t i = bytes; i < sizeof(err); i++)
			assert_int_equal(err[i], '#');
	}
}

/* Cutting a good file anywhere is noticed: in mid-line, or by the count that it states. */
static void graph_parse_truncated(void **state)
{
	struct graph_text n = {"nodes.txt", NODES, strlen(NODES)};
	struct graph_text e = {"edges.txt", EDGES, strlen(EDGES)};
	struct graph g;

	(void)state;
	for (n.bytes = 0; n.bytes < strlen(NODES); n.bytes++)
		assert_int_equal(graph_parse(&n, &e, &g, NULL, 0), -EINVAL);
	n.bytes = strlen(NODES);
	for (e.bytes = 0; e.bytes < strlen(EDGES); e.bytes++)
		assert_int_equal(graph_parse(&n, &e, &g, NULL, 0), -EINVAL);
}

static void graph_load_directory(void **state)
{
	char dir[PLANTED_DIR_BYTES], path[128], err[256] = "";
	struct graph g;

	(void)state;
	assert_int_equal(planted_create(dir, 100, 1), 0);
	assert_int_equal(graph_load(dir, &g, NULL, 0), 0);
	assert_int_equal(g.nr_nodes, 100);
	assert_int_equal(g.nr_split[GRAPH_TRAIN], 12);
	assert_true(g.nr_edges > 300 && g.nr_edges <= 400);
	graph_fini(&g);

	snprintf(path, sizeof(path), "%s/edges.txt", dir);
	unlink(path);
	assert_int_equal(graph_load(dir, &g, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, path));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(graph_load(dir, &g, err, sizeof(err)), -EINVAL);
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(graph_load(dir, &g, err, sizeof(err)), -EISDIR);
	rmdir(path);
	planted_remove(dir);
	assert_int_equal(graph_load(dir, &g, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "nodes.txt: No such file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(graph_parse_tiny),
		cmocka_unit_test(graph_parse_drops_duplicates),
		cmocka_unit_test(graph_parse_without_comments),
		cmocka_unit_test(graph_parse_refuses),
		cmocka_unit_test(graph_parse_short_message),
		cmocka_unit_test(graph_parse_truncated),
		cmocka_unit_test(graph_load_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
