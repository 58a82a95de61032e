/* SPDX-License-Identifier: Apache-2.0 */
/* Making graph files when something is in the way: memory, the disk, the source, a signal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/graph.h"

/* Memory that is not had is an error, under the address sanitizer too. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

/* A star: vertex 0 has edges to all others. */
static int star_read(const void *arg, uint64_t first, uint64_t nr, struct edge *out)
{
	(void)arg;
	for (uint64_t i = 0; i < nr; i++)
		out[i] = (struct edge){.v = first + i + 1};
	return 0;
}

static int broken_read(const void *arg, uint64_t first, uint64_t nr, struct edge *out)
{
	if (first >= 4096)
		return *(const int *)arg;
	return star_read(NULL, first, nr, out);
}

#define NR_EDGES UINT64_C(10000)

static struct edge_source star(void)
{
	return (struct edge_source){
		.nr_vertices = NR_EDGES + 1, .nr_edges = NR_EDGES, .read = star_read};
}

static void test_graph_build_large_vertex(void **state)
{
	const struct edge_source source = star();
	struct csr_build build = {.source = &source, .memory_bytes = NR_EDGES * 8 - 1};
	struct csr_built built;
	char err[256] = "";
	struct csr g;

	(void)state;
	assert_int_equal(graph_build(&build, &g, NULL, err, sizeof(err)), -ENOMEM);
	assert_non_null(strstr(err, "vertex 0 has more edges"));
	assert_non_null(strstr(err, "at least 80000"));
	build.memory_bytes++;
	assert_int_equal(graph_build(&build, &g, &built, err, sizeof(err)), 0);
	assert_int_equal(built.nr_passes, 1);
	csr_close(&g);
	/* With edges back there are twice as many, so the others take a pass of their own. */
	build.symmetrize = true;
	assert_int_equal(graph_build(&build, &g, &built, err, sizeof(err)), 0);
	assert_int_equal(built.nr_passes, 2);
	assert_int_equal(csr_degree(&g, NR_EDGES), 1);
	csr_close(&g);
}

static void test_graph_build_broken_source(void **state)
{
	static const int errors[] = {-EIO, -EINVAL};
	struct edge_source source = star();
	const struct csr_build build = {.source = &source, .memory_bytes = 1 << 20};
	char err[256];
	struct csr g;

	(void)state;
	source.read = broken_read;
	for (int i = 0; i < 2; i++) {
		source.arg = &errors[i];
		assert_int_equal(graph_build(&build, &g, NULL, err, sizeof(err)), errors[i]);
		assert_non_null(strstr(err, i ? "damaged" : "Input/output error"));
	}
}

/* A graph file may be opened before anybody passed over its edges. */
static void test_graph_build_damaged_graph(void **state)
{
	static const struct edge edge[] = {{0, 1, 0}, {1, 0, 0}};
	struct csr good, bad;
	struct edge_source source;
	const struct csr_build build = {.source = &source, .memory_bytes = 1 << 20};
	uint32_t neighbours[2] = {1, 2};
	char err[256];
	struct csr g;

	(void)state;
	graph_of(2, edge, 2, false, false, &good);
	bad = good;
	bad.narrow = neighbours;
	source = edge_source_csr(&bad);
	assert_int_equal(graph_build(&build, &g, NULL, err, sizeof(err)), -EINVAL);
	csr_close(&good);
}

/* Each edge four times, of weights 9 to 12. */
static int fourfold_read(const void *arg, uint64_t first, uint64_t nr, struct edge *out)
{
	(void)arg;
	for (uint64_t i = 0; i < nr; i++)
		out[i] = (struct edge){.u = (first + i) / 4 % NR_EDGES,
				       .v = NR_EDGES,
				       .weight = 12 - (uint32_t)(first + i) % 4};
	return 0;
}

/* So many duplicates that the weights begin elsewhere than they would with them. */
static void test_graph_build_shrinks(void **state)
{
	const struct edge_source source = {.nr_vertices = NR_EDGES + 1,
					   .nr_edges = 4 * NR_EDGES,
					   .weighted = true,
					   .read = fourfold_read};
	struct csr_build build = {
		.source = &source, .weights = CSR_WEIGHTS_KEEP, .memory_bytes = 1 << 16};
	struct csr_built built;
	struct csr all, g;

	(void)state;
	assert_int_equal(graph_build(&build, &all, NULL, NULL, 0), 0);
	build.dedupe = true;
	assert_int_equal(graph_build(&build, &g, &built, NULL, 0), 0);
	assert_int_equal(built.nr_duplicates_dropped, 3 * NR_EDGES);
	assert_true(all.map_bytes - g.map_bytes >= 3 * CSR_ALIGN);
	for (uint64_t e = 0; e < NR_EDGES; e++) {
		assert_int_equal(all.weight[4 * e + 3], 12);
		assert_int_equal(csr_neighbour(&g, e), NR_EDGES);
		assert_int_equal(g.weight[e], 9);
	}
	/* Nothing is left of what was moved. */
	for (size_t i = (size_t)((const char *)(g.weight + NR_EDGES) - (const char *)g.map);
	     i < g.map_bytes; i++)
		assert_int_equal(((const char *)g.map)[i], 0);
	csr_close(&all);
	csr_close(&g);
}

/* More vertices than there are addresses. */
static void test_graph_build_no_memory(void **state)
{
	struct edge_source source = star();
	const struct csr_build build = {.source = &source, .memory_bytes = 1 << 20};
	char err[256] = "";
	struct csr g;

	(void)state;
	source.nr_vertices = CSR_VERTICES_MAX;
	assert_int_equal(graph_build(&build, &g, NULL, err, sizeof(err)), -ENOMEM);
	assert_non_null(strstr(err, "no memory on the host"));
}

struct stopper {
	int left; /* looks until it stops */
};

static bool stop(void *arg, double fraction, const char *label)
{
	struct stopper *stopper = arg;

	assert_true(fraction >= 0 && fraction <= 1);
	assert_non_null(label);
	return stopper->left-- == 0;
}

/* Each look may be the one that stops; in the end nobody does. */
static void test_graph_build_stopped(void **state)
{
	const struct edge_source source = star();
	struct stopper stopper;
	const struct graph_watch watch = {.stop = stop, .arg = &stopper};
	const struct csr_build build = {.source = &source,
					.memory_bytes = NR_EDGES * 8,
					.symmetrize = true,
					.watch = &watch};
	int looks = 0, rc;
	struct csr g;

	(void)state;
	do {
		stopper.left = looks++;
		rc = graph_build(&build, &g, NULL, NULL, 0);
		assert_true(!rc || rc == -ECANCELED);
	} while (rc);
	/* Counting once; placing, sorting and writing twice. */
	assert_true(looks > 5);
	csr_close(&g);
}

/* The limit is the disk's stand-in: EFBIG where a full one says ENOSPC. */
static void test_graph_build_full_disk(void **state)
{
	const struct edge_source source = star();
	const struct csr_build build = {.source = &source, .memory_bytes = 1 << 20};
	struct rlimit old, little;
	char err[256] = "";
	struct csr g;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	assert_ptr_not_equal(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
	for (uint64_t bytes = 0; bytes < 4 * CSR_ALIGN; bytes += CSR_ALIGN / 2) {
		little = (struct rlimit){.rlim_cur = bytes, .rlim_max = old.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
		assert_int_equal(graph_build(&build, &g, NULL, err, sizeof(err)), -EFBIG);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_non_null(strstr(err, "cannot write the graph"));
	}
	assert_int_equal(graph_build(&build, &g, NULL, err, sizeof(err)), 0);
	assert_int_equal(g.map_bytes, 4 * CSR_ALIGN);
	csr_close(&g);
}

static void test_graph_build_not_for_reading(void **state)
{
	const struct edge_source source = star();
	const struct csr_build build = {.source = &source, .memory_bytes = 1 << 20};
	int fd = open("/dev/null", O_RDONLY);
	char err[256] = "";

	(void)state;
	assert_int_equal(csr_build(&build, fd, NULL, err, sizeof(err)), -EBADF);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_build_large_vertex),
		cmocka_unit_test(test_graph_build_broken_source),
		cmocka_unit_test(test_graph_build_damaged_graph),
		cmocka_unit_test(test_graph_build_shrinks),
		cmocka_unit_test(test_graph_build_no_memory),
		cmocka_unit_test(test_graph_build_stopped),
		cmocka_unit_test(test_graph_build_full_disk),
		cmocka_unit_test(test_graph_build_not_for_reading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
