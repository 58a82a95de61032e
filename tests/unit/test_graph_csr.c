/* SPDX-License-Identifier: Apache-2.0 */
/* Graph files: the bytes of a known one, and one line for each way in which one can be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/graph.h"

/* 0 -> 1 (5), 0 -> 2 (3), 2 -> 2 (9); vertex 1 has no edges out. */
static const struct edge edges[] = {{2, 2, 9}, {0, 2, 3}, {0, 1, 5}};

#define FILE_BYTES ((size_t)(4 * CSR_ALIGN))

/* The graph's file in memory; free() it. */
static unsigned char *file_bytes(void)
{
	unsigned char *bytes = malloc(FILE_BYTES);
	struct csr g;

	graph_of(3, edges, 3, true, false, &g);
	assert_non_null(bytes);
	assert_int_equal(g.map_bytes, FILE_BYTES);
	memcpy(bytes, g.map, FILE_BYTES);
	csr_close(&g);
	return bytes;
}

static void test_graph_csr_bytes(void **state)
{
	static const uint64_t offsets[] = {0, 2, 2, 3};
	static const uint32_t neighbours[] = {1, 2, 2}, weights[] = {5, 3, 9};
	static const unsigned char start[] = {'w', 'e', 'i', 'r', '-', 'c', 's', 'r',
					      1,   0,	0,   0,	  2,   0,   0,	 0};
	static const uint64_t header[] = {3, 3, 65536, 0, 131072, 196608, 262144};
	unsigned char *bytes = file_bytes(), *expected = calloc(1, FILE_BYTES);
	uint64_t checksum = UINT64_C(0xcbf29ce484222325);

	(void)state;
	assert_non_null(expected);
	memcpy(expected, start, sizeof(start));
	memcpy(expected + 16, header, sizeof(header));
	for (int i = 0; i < 72; i++)
		checksum = (checksum ^ expected[i]) * UINT64_C(0x100000001b3);
	memcpy(expected + 72, &checksum, 8);
	memcpy(expected + 65536, offsets, sizeof(offsets));
	memcpy(expected + 131072, neighbours, sizeof(neighbours));
	memcpy(expected + 196608, weights, sizeof(weights));
	assert_memory_equal(bytes, expected, FILE_BYTES);
	free(expected);
	free(bytes);
}

/* Overwrite a word, keep the checksum right, and view. */
static void refuse(uint64_t at, uint64_t value, unsigned int word_bytes, const char *want)
{
	unsigned char *bytes = file_bytes();
	uint64_t checksum = UINT64_C(0xcbf29ce484222325);
	char err[256] = "";
	struct csr g;
	int rc;

	memcpy(bytes + at, &value, word_bytes);
	for (int i = 0; i < 72; i++)
		checksum = (checksum ^ bytes[i]) * UINT64_C(0x100000001b3);
	if (at != 72)
		memcpy(bytes + 72, &checksum, 8);
	rc = csr_view("f", bytes, FILE_BYTES, &g, err, sizeof(err));
	if (!rc)
		rc = csr_check("f", &g, NULL, err, sizeof(err));
	assert_int_equal(rc, -EINVAL);
	if (strncmp(err, "f: ", 3) != 0 || !strstr(err, want))
		fail_msg("'%s' lacks '%s'", err, want);
	free(bytes);
}

static void test_graph_csr_refused(void **state)
{
	(void)state;
	refuse(0, 0, 1, "not a graph file");
	refuse(8, 2, 4, "version 2");
	refuse(72, 0, 8, "checksum");
	refuse(12, 16, 4, "contradicts");
	/* As large, but it means something else. */
	refuse(12, 2 | CSR_WIDE, 4, "from vertex 0 to 8589934593");
	refuse(12, 2 | CSR_ORIGINAL, 4, "contradicts");
	refuse(16, 0, 8, "contradicts");
	refuse(16, UINT64_MAX, 8, "contradicts");
	refuse(16, (UINT64_C(1) << 32) + 1, 8, "contradicts");
	refuse(24, UINT64_MAX / 2, 8, "contradicts");
	refuse(32, 0, 8, "contradicts");
	refuse(64, 5 * CSR_ALIGN, 8, "contradicts");
	refuse(65536, 1, 8, "first offset");
	refuse(65544, 3, 8, "offsets of vertex 1");
	refuse(65544, UINT64_MAX, 8, "offsets of vertex 0");
	refuse(65560, 2, 8, "last offset");
	refuse(131072, 3, 4, "from vertex 0 to 3");
	refuse(131072, 2, 4, "edges of vertex 0 are out of order");
}

/* Counts that agree with each other, and not with the file. */
static void test_graph_csr_cut(void **state)
{
	unsigned char *bytes = file_bytes();
	char err[256];
	struct csr g;
	int fd;

	(void)state;
	for (size_t nr = 0; nr < FILE_BYTES; nr += nr < 100 ? 1 : 9973) {
		assert_int_equal(csr_view("f", bytes, nr, &g, err, sizeof(err)), -EINVAL);
		assert_null(strchr(err, '\n'));
	}
	fd = graph_file(bytes, FILE_BYTES);
	assert_int_equal(graph_open(fd, &g, err, sizeof(err)), 0);
	assert_int_equal(csr_neighbour(&g, 1), 2);
	csr_close(&g);
	assert_int_equal(graph_open(graph_file("", 0), &g, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "empty"));
	assert_int_equal(csr_open("/", &g, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "no regular file"));
	assert_int_equal(csr_open("/no/such", &g, NULL, 0), -ENOENT);
	free(bytes);
}

/* Ids must ascend. */
static void test_graph_csr_ids(void **state)
{
	struct edge_source source;
	struct csr_build build = {.source = &source, .memory_bytes = 65536};
	struct spool spool;
	bool symmetric;
	char err[256];
	struct csr g;
	unsigned char *bytes;

	(void)state;
	assert_int_equal(graph_spool("7 9\n", false, &spool, &symmetric, err, sizeof(err)), 0);
	assert_int_equal(spool_close(&spool, &source), 0);
	assert_int_equal(graph_build(&build, &g, NULL, err, sizeof(err)), 0);
	assert_int_equal(g.id[0], 7);
	bytes = malloc(g.map_bytes);
	assert_non_null(bytes);
	memcpy(bytes, g.map, g.map_bytes);
	bytes[131072] = 9;
	assert_int_equal(csr_view("f", bytes, g.map_bytes, &g, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "ids of vertices 0 and 1"));
	free(bytes);
	csr_close(&g);
	graph_unspool(&spool);
}

/* Up to 2^32 vertices their numbers have 32 bits; one more, and they need 64. */
static void test_graph_csr_layout(void **state)
{
	const uint64_t most = CSR_NARROW_VERTICES;
	struct csr_header h;

	(void)state;
	assert_int_equal(csr_layout(0, 0, 0, &h), -ERANGE);
	assert_int_equal(csr_layout(most, 10, 0, &h), 0);
	assert_int_equal(csr_layout(most + 1, 10, 0, &h), -ERANGE);
	assert_int_equal(csr_layout(most + 1, 10, CSR_WIDE, &h), 0);
	assert_int_equal(csr_layout(CSR_VERTICES_MAX, CSR_EDGES_MAX, CSR_FLAGS, &h), 0);
	assert_int_equal(h.ids_at, h.offsets_at + CSR_VERTICES_MAX * 8 + CSR_ALIGN);
	assert_int_equal(h.neighbours_at, h.ids_at + CSR_VERTICES_MAX * 8);
	assert_int_equal(h.weights_at, h.neighbours_at + CSR_EDGES_MAX * 8);
	assert_int_equal(h.file_bytes, h.weights_at + CSR_EDGES_MAX * 4);
	assert_int_equal(csr_layout(1, CSR_EDGES_MAX + 1, CSR_WIDE, &h), -ERANGE);
	assert_int_equal(csr_layout(CSR_VERTICES_MAX + 1, 1, CSR_WIDE, &h), -ERANGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_csr_bytes),	 cmocka_unit_test(test_graph_csr_refused),
		cmocka_unit_test(test_graph_csr_cut),	 cmocka_unit_test(test_graph_csr_ids),
		cmocka_unit_test(test_graph_csr_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
