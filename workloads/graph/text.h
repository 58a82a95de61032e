/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as text: lists of edges, and matrices of the Matrix Market's coordinate format (Boisvert,
 * Pozo, Remington, 1996). Lines go into a spool one by one.
 */
#ifndef WEIR_GRAPH_TEXT_H
#define WEIR_GRAPH_TEXT_H

#include "workloads/graph/lines.h"
#include "workloads/graph/spool.h"

/*
 * Read a list of edges: "u v" or "u v weight" a line, between blanks; empty lines, and those that
 * begin with # or %, are left out. Several lists may go into one spool.
 *
 * @param [in] keep_weights  All edges of the spool have one, or none has. False: what stands in the
 *                           third place is left out.
 * @return 0, -EINVAL, -ENOMEM, -ECANCELED, or what reading and writing say; with a line in the
 *   reader's err, but not for -ECANCELED.
 */
int text_read_edges(struct lines *l, bool keep_weights, struct spool *spool);

/*
 * Read a matrix: the entry in row i and column j is an edge from vertex i - 1 to j - 1. Square,
 * general or symmetric, pattern, integer or real. The spool is empty. Otherwise as
 * text_read_edges().
 *
 * @param [out] symmetric  Entries off the diagonal stand for two edges. Written on success only.
 */
int text_read_matrix(struct lines *l, bool keep_weights, struct spool *spool, bool *symmetric);

/*
 * Read a list of edges, or a matrix if it begins like one. Of several files into one spool, all are
 * lists. What is a compressed file, or a graph file, is refused.
 *
 * @param [in]  keep_weights  As above; so are spool and what is returned.
 * @param [in]  several       There are other files.
 * @param [out] symmetric     It is a matrix, of which entries off the diagonal stand for two edges.
 */
int text_read(struct lines *l, bool keep_weights, bool several, struct spool *spool,
	      bool *symmetric);

/* How a matrix begins. */
#define TEXT_MATRIX_BANNER "%%MatrixMarket"

/* Say why an edge could not be added; returns rc. */
int text_fail_add(const struct lines *l, int rc);

#endif
