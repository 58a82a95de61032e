/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs for tests; see graph.h. */
#include "tests/support/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int graph_file(const void *bytes, size_t nr_bytes)
{
	int fd = memfd_create("graph", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(section_write_all(fd, bytes, nr_bytes, 0), 0);
	return fd;
}

int graph_open(int fd, struct csr *out, char *err, size_t err_bytes)
{
	int rc = csr_map("test", fd, out, err, err_bytes);

	close(fd);
	return rc;
}

int graph_spool(const char *text, bool keep_weights, struct spool *spool, bool *symmetric,
		char *err, size_t err_bytes)
{
	int fd = graph_file(text, strlen(text)), rc;
	struct lines lines;

	spool_init(spool, graph_file("", 0), 65536);
	assert_int_equal(lines_open(&lines, "test", fd, NULL, err, err_bytes), 0);
	rc = text_read(&lines, keep_weights, false, spool, symmetric);
	lines_close(&lines);
	close(fd);
	return rc;
}

void graph_unspool(struct spool *spool)
{
	close(spool->fd);
	spool_fini(spool);
}

int graph_build(const struct csr_build *build, struct csr *out, struct csr_built *built, char *err,
		size_t err_bytes)
{
	int fd = graph_file("", 0), rc = csr_build(build, fd, built, err, err_bytes);

	if (rc) {
		close(fd);
		return rc;
	}
	rc = graph_open(fd, out, err, err_bytes);
	return rc ? rc : csr_check("test", out, NULL, err, err_bytes);
}

uint64_t graph_gpu_same(const struct graph_gpu *gpu)
{
	const struct edge_source source = edge_source_gen(gpu->gen, gpu->nr_edges);
	const struct csr_build build = {.source = &source,
					.symmetrize = !gpu->raw,
					.dedupe = !gpu->raw,
					.no_self_loops = !gpu->raw,
					.weights =
						gpu->weights ? CSR_WEIGHTS_GEN : CSR_WEIGHTS_NONE,
					.seed = gpu->seed,
					.memory_bytes = UINT64_C(1) << 30};
	int fd = graph_file("", 0);
	struct csr_built built, own;
	struct csr g = {0}, wanted = {0};
	char err[512] = "";

	assert_int_equal(graph_build(&build, &wanted, &built, NULL, 0), 0);
	if (graph_gpu_generate(gpu, fd, &own, err, sizeof(err)) ||
	    graph_open(fd, &g, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(own.nr_edges, built.nr_edges);
	assert_int_equal(own.nr_loops_dropped, built.nr_loops_dropped);
	assert_int_equal(own.nr_duplicates_dropped, built.nr_duplicates_dropped);
	assert_int_equal(g.map_bytes, wanted.map_bytes);
	assert_memory_equal(g.map, wanted.map, g.map_bytes);
	csr_close(&g);
	csr_close(&wanted);
	return own.nr_passes;
}

static int array_read(const void *arg, uint64_t first, uint64_t nr, struct edge *out)
{
	memcpy(out, (const struct edge *)arg + first, nr * sizeof(*out));
	return 0;
}

void graph_of(uint64_t nr_vertices, const struct edge *edge, uint64_t nr_edges, bool weighted,
	      bool symmetrize, struct csr *out)
{
	const struct edge_source source = {.nr_vertices = nr_vertices,
					   .nr_edges = nr_edges,
					   .weighted = weighted,
					   .read = array_read,
					   .arg = edge};
	const struct csr_build build = {.source = &source,
					.symmetrize = symmetrize,
					.weights = CSR_WEIGHTS_KEEP,
					.memory_bytes = 1 << 24};
	char err[256] = "";

	if (graph_build(&build, out, NULL, err, sizeof(err)))
		fail_msg("%s", err);
}
