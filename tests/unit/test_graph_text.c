/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text: what is read, and that each kind of bad input is refused with file and line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/graph.h"

#define MATRIX "%%MatrixMarket matrix coordinate "

static void test_graph_text_edges(void **state)
{
	static const char text[] = "# a comment\n% another\n\n  \t\n 10\t20 \r\n"
				   "18446744073709551615 10\n20 4294967296\n";
	struct edge_source source;
	struct edge edge[3];
	struct spool spool;
	bool symmetric;
	char err[256];

	(void)state;
	assert_int_equal(graph_spool(text, true, &spool, &symmetric, err, sizeof(err)), 0);
	assert_int_equal(spool_close(&spool, &source), 0);
	assert_int_equal(source.nr_vertices, 4);
	assert_int_equal(source.nr_edges, 3);
	assert_false(source.weighted);
	assert_int_equal(source.id[2], UINT64_C(4294967296));
	assert_int_equal(source.id[3], UINT64_MAX);
	assert_int_equal(source.read(source.arg, 0, 3, edge), 0);
	assert_int_equal(edge[1].u, 3);
	assert_int_equal(edge[1].v, 0);
	assert_int_equal(edge[2].v, 2);
	/* Beyond the end there is nothing, which is an error and no edge. */
	assert_int_equal(source.read(source.arg, 2, 2, edge), -EIO);
	graph_unspool(&spool);
}

static uint32_t weight_of(const char *text)
{
	struct edge_source source;
	struct spool spool;
	struct edge edge;
	bool symmetric;
	char err[256];

	if (graph_spool(text, true, &spool, &symmetric, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(spool_close(&spool, &source), 0);
	assert_true(source.weighted);
	assert_int_equal(source.read(source.arg, 0, 1, &edge), 0);
	graph_unspool(&spool);
	return edge.weight;
}

static void test_graph_text_weights(void **state)
{
	(void)state;
	assert_int_equal(weight_of("1 2 0\n"), 0);
	assert_int_equal(weight_of("1 2 4294967295\n"), UINT32_MAX);
	assert_int_equal(weight_of("1 2 2.50e1\n"), 25);
	assert_int_equal(weight_of(MATRIX "real general\n2 2 1\n1 2 7.0000\n"), 7);
	assert_int_equal(weight_of(MATRIX "integer symmetric\n2 2 1\n2 1 +8\n"), 8);
}

/* Without weights, what stands in their place does not matter. */
static void test_graph_text_no_weights(void **state)
{
	/* The banner is told by its own case, the rest of its line by any. */
	static const char *const text[] = {
		"1 2 -0.5\n1 3\n",
		"%%MatrixMarket MATRIX Coordinate REAL General\n3 3 1\n1 2 -0.5\n",
	};
	struct edge_source source;
	struct spool spool;
	bool symmetric;
	char err[256];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(graph_spool(text[i], false, &spool, &symmetric, err, sizeof(err)),
				 0);
		assert_int_equal(spool_close(&spool, &source), 0);
		assert_false(source.weighted);
		graph_unspool(&spool);
	}
}

static void test_graph_text_matrix(void **state)
{
	struct edge_source source;
	struct edge edge[2];
	struct spool spool;
	bool symmetric;
	char err[256];

	(void)state;
	assert_int_equal(graph_spool(MATRIX "Pattern SYMMETRIC\n% c\n\n9 9 2\n% d\n3 1\n\n9 9\n",
				     true, &spool, &symmetric, err, sizeof(err)),
			 0);
	assert_true(symmetric);
	assert_int_equal(spool_close(&spool, &source), 0);
	assert_int_equal(source.nr_vertices, 9);
	assert_null(source.id);
	assert_int_equal(source.read(source.arg, 0, 2, edge), 0);
	assert_int_equal(edge[0].u, 2);
	assert_int_equal(edge[0].v, 0);
	assert_int_equal(edge[1].v, 8);
	graph_unspool(&spool);
}

static const struct {
	const char *text, *want;
} bad[] = {
	{"", "test:0: the file has no edge"},
	{"# only\n", "test:1: the file has no edge"},
	{"1 2\n3 4", "test:2: the file ends in mid-line"},
	{"1 2\n3\n", "test:2: the line ends where the second vertex"},
	{"1 x\n", "test:1: 'x' is not the second vertex"},
	{"-1 2\n", "test:1: '-1' is not a vertex"},
	{"1.0 2\n", "'1.0' is not a vertex"},
	{"1,2\n", "'1,2' is not a vertex"},
	{"18446744073709551616 2\n", "test:1: '18446744073709551616' is beyond 64 bits"},
	{"1 99999999999999999999999\n", "beyond 64 bits"},
	{"1 2 3 4\n", "test:1: '4' is more than"},
	{"1 2 3\n1 2\n", "test:2: the edge has no weight"},
	{"1 2\n1 2 3\n", "test:2: the edge has a weight"},
	{"1 2 x\n", "'x' is not a weight"},
	{"1 2 0x10\n", "'0x10' is not a weight"},
	{"1 2 inf\n", "'inf' is not a weight"},
	{"1 2 -\n", "'-' is not a weight"},
	{"1 2 -1\n", "weight '-1' is not a whole number from 0"},
	{"1 2 0.5\n", "weight '0.5' is not a whole number"},
	{"1 2 4294967296\n", "weight '4294967296' is not"},
	{"1 2 1e999\n", "weight '1e999' is not"},
	{"1 \x1b[2J\n", "'?[2J' is not the second vertex"},
	{"%%MatrixMarket\n", "test:1: '' is no kind of object"},
	{"%%MatrixMarket vector coordinate real general\n", "'vector' is no kind of object"},
	{"%%MatrixMarket matrix array real general\n", "'array' is no format"},
	{MATRIX "complex general\n", "'complex' is no kind of numbers"},
	{MATRIX "real skew-symmetric\n", "'skew-symmetric' is no symmetry"},
	{MATRIX "complex hermitian\n", "'complex' is no"},
	{MATRIX "real general more\n", "'more' is more than"},
	{MATRIX "real general\n", "test:1: the file ends before the line of sizes"},
	{MATRIX "real general\n2 3 1\n", "test:2: 2 rows and 3 columns"},
	{MATRIX "real general\n0 0 0\n", "test:2: 0 rows"},
	{MATRIX "real general\n999999999999999 999999999999999 0\n", "a graph has 1 to"},
	{MATRIX "real general\n2 2\n", "where the number of entries"},
	{MATRIX "pattern general\n2 2 1\n0 1\n", "test:3: row 0 is not there: they are 1 to 2"},
	{MATRIX "pattern general\n2 2 1\n1 3\n", "column 3 is not there"},
	{MATRIX "pattern general\n2 2 1\n1 1 1\n", "'1' is more than"},
	{MATRIX "real general\n2 2 1\n1 1\n", "test:3: the line ends where a weight"},
	{MATRIX "real general\n2 2 1\n1 1 0.5\n", "not a whole number"},
	{MATRIX "pattern symmetric\n2 2 1\n1 2\n", "test:3: the entry is above the diagonal"},
	{MATRIX "pattern general\n2 2 2\n1 1\n", "test:3: 2 entries are announced, 1 are here"},
	{MATRIX "pattern general\n2 2 1\n1 1\n2 2\n", "test:4: more than the 1 entries"},
	{MATRIX "pattern general\n2 2 1\n1 1", "ends in mid-line"},
};

static void test_graph_text_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct spool spool;
		bool symmetric;
		char err[256] = "";

		assert_int_equal(
			graph_spool(bad[i].text, true, &spool, &symmetric, err, sizeof(err)),
			-EINVAL);
		if (!strstr(err, bad[i].want) || strchr(err, '\n'))
			fail_msg("'%s' gives '%s', which lacks '%s'", bad[i].text, err,
				 bad[i].want);
		graph_unspool(&spool);
	}
}

/* A value that is left out must be there all the same. */
static void test_graph_text_value_missing(void **state)
{
	struct spool spool;
	bool symmetric;
	char err[256] = "";

	(void)state;
	assert_int_equal(graph_spool(MATRIX "real general\n2 2 1\n1 1\n", false, &spool, &symmetric,
				     err, sizeof(err)),
			 -EINVAL);
	assert_non_null(strstr(err, "where a value"));
	graph_unspool(&spool);
}

/* Lines that cross the buffer's end, up to the longest and beyond. */
static void test_graph_text_long(void **state)
{
	char *text = malloc(3 * (size_t)LINES_BUFFER_BYTES);
	struct spool spool;
	bool symmetric;
	char err[256] = "";
	size_t used = 0;

	(void)state;
	assert_non_null(text);
	for (int i = 0; i < 150000; i++)
		used += (size_t)sprintf(text + used, "%d 12345\n", i % 1000);
	assert_true(used > LINES_BUFFER_BYTES);
	assert_int_equal(graph_spool(text, true, &spool, &symmetric, err, sizeof(err)), 0);
	assert_int_equal(spool.nr_edges, 150000);
	graph_unspool(&spool);

	memset(text, '#', LINES_BUFFER_BYTES - 1);
	memcpy(text + LINES_BUFFER_BYTES - 1, "\n1 2\n", sizeof("\n1 2\n"));
	assert_int_equal(graph_spool(text, true, &spool, &symmetric, err, sizeof(err)), 0);
	graph_unspool(&spool);
	text[LINES_BUFFER_BYTES - 1] = '#';
	assert_int_equal(graph_spool(text, true, &spool, &symmetric, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "test:1: the line is longer"));
	graph_unspool(&spool);
	free(text);
}

/* More ids than are put by at once: the set of ids is merged several times. */
static void test_graph_text_many_ids(void **state)
{
	const uint64_t nr = 60000;
	struct edge_source source;
	struct spool spool;
	struct edge edge;

	(void)state;
	spool_init(&spool, graph_file("", 0), 65536);
	for (uint64_t i = 0; i < nr; i++) {
		/* 7919 and nr have no common factor: every multiple of 5 comes, twice. */
		edge = (struct edge){.u = i * 7919 % nr * 5, .v = (nr - 1 - i) * 5};
		assert_int_equal(spool_add(&spool, &edge), 0);
	}
	assert_int_equal(spool_close(&spool, &source), 0);
	assert_int_equal(source.nr_vertices, nr);
	for (uint64_t i = 0; i < nr; i++) {
		assert_int_equal(source.id[i], 5 * i);
		assert_int_equal(source.read(source.arg, i, 1, &edge), 0);
		assert_int_equal(edge.u, i * 7919 % nr);
		assert_int_equal(edge.v, nr - 1 - i);
	}
	graph_unspool(&spool);
}

/* The scratch file cannot be written: the line that was read when that showed is named. */
static void test_graph_text_no_scratch(void **state)
{
	char text[32768] = "", err[256] = "";
	int fd, scratch = open("/dev/null", O_RDONLY);
	struct lines lines;
	struct spool spool;

	(void)state;
	for (size_t used = 0; used + 5 < sizeof(text); used += 4)
		memcpy(text + used, "1 2\n", 5);
	fd = graph_file(text, strlen(text));
	assert_true(scratch >= 0);
	spool_init(&spool, scratch, 65536);
	assert_int_equal(lines_open(&lines, "test", fd, NULL, err, sizeof(err)), 0);
	assert_int_equal(text_read_edges(&lines, false, &spool), -EBADF);
	/* The buffer of 65,536 bytes holds 2,730 edges. */
	assert_non_null(strstr(err, "test:2731: cannot write the scratch file"));
	lines_close(&lines);
	close(fd);
	graph_unspool(&spool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_text_edges),
		cmocka_unit_test(test_graph_text_weights),
		cmocka_unit_test(test_graph_text_no_weights),
		cmocka_unit_test(test_graph_text_matrix),
		cmocka_unit_test(test_graph_text_bad),
		cmocka_unit_test(test_graph_text_value_missing),
		cmocka_unit_test(test_graph_text_long),
		cmocka_unit_test(test_graph_text_many_ids),
		cmocka_unit_test(test_graph_text_no_scratch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
