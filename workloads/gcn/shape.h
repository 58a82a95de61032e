/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes: everything about a run that can be known without its data, and the peak that follows.
 */
#ifndef WEIR_GCN_SHAPE_H
#define WEIR_GCN_SHAPE_H

#include <stdbool.h>

#include "workloads/gcn/gcn.h"
#include "workloads/gcn/graph.h"

#define GCN_RANDOM_FEATURES 128u
#define GCN_RANDOM_CLASSES 10u
#define GCN_RANDOM_DEGREE 10u /* directed edges a node */

/*
 * Weight gradients are summed from at most this many partial products, each over a fixed run of
 * rows: the order of additions then depends on the number of nodes alone. The workspace that holds
 * them is about as large as the one that a vendor's BLAS keeps for the same purpose.
 */
#define GCN_GRAD_PARTS_MAX 137u
#define GCN_GRAD_PART_ROWS_MIN 256u

/* Likewise for the loss, whose buffer holds the mean and then one sum a part. */
#define GCN_LOSS_PARTS UINT64_C(64)

/*
 * Invariants: entries = 2 * edges + nodes; 0 < train <= nodes; test <= nodes; no product of two of
 * the counts with a size of an element overflows 64 bits.
 */
struct gcn_shape {
	uint64_t nodes, edges, entries;
	uint64_t train, test; /* nodes of these splits */
	uint32_t features, hidden, classes;
	uint32_t grad_parts;
	uint64_t grad_part_rows;
	uint64_t slice;
	bool input_dropout; /* a graph that was read; the random one has none */
};

/*
 * The shape of a run, graph NULL for the random graph. -EINVAL: a parameter is out of range; err
 * gets one line.
 */
int gcn_shape_init(struct gcn_shape *s, const struct gcn_params *p, const struct graph *graph,
		   char *err, size_t err_bytes);

/* Bytes allocated at the peak. */
uint64_t gcn_shape_peak(const struct gcn_shape *s);

/* Bytes of the partial products of the larger layer. */
uint64_t gcn_shape_workspace(const struct gcn_shape *s);

#endif
