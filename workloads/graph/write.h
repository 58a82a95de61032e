/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makers of graph files share. They lay a file out for as many edges as there may be, write
 * the edges in sequence, settle it at as many as there are, and write the header last.
 */
#ifndef WEIR_GRAPH_WRITE_H
#define WEIR_GRAPH_WRITE_H

#include "workloads/graph/csr.h"

/*
 * Give a file whose neighbours and weights are written its final layout and length.
 *
 * @param [in]  room      What it was laid out for.
 * @param [in]  nr_edges  Up to those of room.
 * @param [out] out       Where the other sections go, and what goes before all. Written on success
 *                        only.
 * @return 0 or a negative errno.
 */
int write_settle(int fd, const struct csr_header *room, uint64_t nr_edges, struct csr_header *out);

/* Say that a graph cannot be written; returns error. err may be NULL. */
int write_fail(char *err, size_t err_bytes, int error);

#endif
