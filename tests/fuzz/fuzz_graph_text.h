/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of graphs as text share. The first byte of an input chooses options. */
#ifndef WEIR_TESTS_FUZZ_GRAPH_TEXT_H
#define WEIR_TESTS_FUZZ_GRAPH_TEXT_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workloads/graph/build.h"
#include "workloads/graph/text.h"

/* A matrix may state more vertices than are worth a file. */
#define FUZZ_VERTICES_MAX 100000

static inline void require(int condition)
{
	if (!condition)
		abort();
}

/* An empty file that is used again and again. */
static inline int fuzz_file(int *fd)
{
	if (!*fd)
		*fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(*fd > 0 && !ftruncate(*fd, 0) && lseek(*fd, 0, SEEK_SET) == 0);
	return *fd;
}

static inline void fuzz_graph_build(const struct edge_source *source, unsigned int options)
{
	static int file;
	const struct csr_build build = {.source = source,
					.symmetrize = options & 1,
					.dedupe = options & 2,
					.no_self_loops = options & 4,
					.wide = options & 8,
					.weights = CSR_WEIGHTS_KEEP,
					.memory_bytes = 1 << 20};
	int fd = fuzz_file(&file);
	char err[512] = "";
	struct csr g;

	require(!csr_build(&build, fd, NULL, err, sizeof(err)));
	require(!csr_map("built", fd, &g, err, sizeof(err)));
	require(!csr_check("built", &g, NULL, err, sizeof(err)));
	require(g.nr_vertices == source->nr_vertices);
	require((options & 6) || g.nr_edges >= source->nr_edges);
	csr_close(&g);
}

static inline void fuzz_graph_text(const unsigned char *data, size_t bytes, bool matrix)
{
	static int text_file, spool_file;
	int fd = fuzz_file(&text_file), rc;
	unsigned int options = bytes ? data[0] : 0;
	bool keep = options & 16, symmetric = false;
	char err[512] = "";
	struct edge_source source;
	struct lines lines;
	struct spool spool;

	require(!section_write_all(fd, data + (bytes > 0), bytes - (bytes > 0), 0));
	require(!lines_open(&lines, "fuzz", fd, NULL, err, sizeof(err)));
	spool_init(&spool, fuzz_file(&spool_file), 65536);
	rc = matrix ? text_read_matrix(&lines, keep, &spool, &symmetric)
		    : text_read_edges(&lines, keep, &spool);
	lines_close(&lines);
	if (rc) {
		require(rc == -EINVAL && !strncmp(err, "fuzz:", 5) && !strchr(err, '\n'));
	} else {
		require(!spool_close(&spool, &source));
		require(source.nr_vertices && (matrix || source.nr_edges));
		if (source.nr_vertices <= FUZZ_VERTICES_MAX)
			fuzz_graph_build(&source, options | symmetric);
	}
	spool_fini(&spool);
}

#endif
