/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph read from a directory: nodes.txt with features, labels and split, edges.txt with
 * undirected edges. docs/gcn.md describes both files.
 */
#ifndef WEIR_GRAPH_H
#define WEIR_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#define GRAPH_NODES_MAX (UINT64_C(1) << 31)
#define GRAPH_FEATURES_MAX (1u << 20)
#define GRAPH_CLASSES_MAX (1u << 16)

enum graph_split { GRAPH_NONE, GRAPH_TRAIN, GRAPH_VAL, GRAPH_TEST, GRAPH_SPLIT_NR };

/*
 * Invariants: nr_nodes, nr_edges, nr_features, nr_classes and nr_split[GRAPH_TRAIN] are above 0;
 * feature_start[0] = 0, it never falls, and feature_start[nr_nodes] is the length of feature; each
 * index is below its count; a node in a split has a label; edges are unique, u < v, sorted.
 */
struct graph {
	uint64_t nr_nodes, nr_edges;
	uint32_t nr_features, nr_classes;
	uint64_t nr_split[GRAPH_SPLIT_NR];
	uint8_t *split;		 /* enum graph_split, one a node */
	int32_t *label;		 /* -1: none */
	uint64_t *feature_start; /* nr_nodes + 1 */
	uint32_t *feature;	 /* node i has those from feature_start[i] to [i + 1] */
	uint32_t *edge_u, *edge_v;
	uint64_t nr_duplicates, nr_self_loops; /* lines of edges.txt that were left out */
};

/* One file in memory. name: for messages. */
struct graph_text {
	const char *name;
	const char *text; /* not terminated */
	size_t bytes;
};

/*
 * Read DIR/nodes.txt and DIR/edges.txt. out is written on success only; graph_fini() it.
 * 0, -EINVAL (what the files say), -ENOMEM, or the error of reading a file; then err has one line
 * that names file, line and remedy. err may be NULL.
 */
int graph_load(const char *dir, struct graph *out, char *err, size_t err_bytes);

/* The same from memory. */
int graph_parse(const struct graph_text *nodes, const struct graph_text *edges, struct graph *out,
		char *err, size_t err_bytes);

void graph_fini(struct graph *g);

#endif
