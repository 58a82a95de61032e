/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs for tests, in files that are memory. What fails here fails the test. */
#ifndef WEIR_TESTS_SUPPORT_GRAPH_H
#define WEIR_TESTS_SUPPORT_GRAPH_H

#include "workloads/graph/build.h"
#include "workloads/graph/gpu_gen.h"
#include "workloads/graph/text.h"

/* An empty file, or one with these bytes, to be read from the beginning. close() it. */
int graph_file(const void *bytes, size_t nr_bytes);

/* Open a graph file by its descriptor, which is closed. As csr_open(). */
int graph_open(int fd, struct csr *out, char *err, size_t err_bytes);

/*
 * Read text (a matrix if it begins like one) into a spool on a file of its own: as the functions of
 * text.h. graph_unspool() it either way.
 */
int graph_spool(const char *text, bool keep_weights, struct spool *spool, bool *symmetric,
		char *err, size_t err_bytes);
void graph_unspool(struct spool *spool);

/* Build and open: as csr_build(), then csr_open() and csr_check(). */
int graph_build(const struct csr_build *build, struct csr *out, struct csr_built *built, char *err,
		size_t err_bytes);

/* Generate on a device, and hold what comes out to csr_build()'s of the same: file and counts. How
 * many ranges it took. */
uint64_t graph_gpu_same(const struct graph_gpu *gpu);

/* A graph of edges, given as pairs of vertices below nr_vertices. csr_close() it. */
void graph_of(uint64_t nr_vertices, const struct edge *edge, uint64_t nr_edges, bool weighted,
	      bool symmetrize, struct csr *out);

#endif
