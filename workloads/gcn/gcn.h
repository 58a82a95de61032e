/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GCN workload: a two-layer graph convolutional network, trained full-batch on a random graph
 * or on one read from a directory. docs/gcn.md says what is computed, in which order memory is
 * taken and given back, and where the peak comes from.
 *
 * It knows managers, not residency: the losses of two runs with the same parameters are the same
 * bit for bit, whatever the manager, the addresses and the number of threads.
 */
#ifndef WEIR_GCN_H
#define WEIR_GCN_H

#include "workloads/workload.h"

#define GCN_SLICE_DEFAULT 2000000u
#define GCN_SEED_DEFAULT 2025u
#define GCN_HIDDEN_RANDOM 256u
#define GCN_HIDDEN_GRAPH 16u

#define GCN_NODES_MIN 10u /* a tenth of the nodes train */
#define GCN_NODES_MAX (UINT64_C(1) << 36)
#define GCN_HIDDEN_MAX (1u << 16)

struct gcn_params {
	uint64_t nodes;	       /* of the random graph; not looked at with graph_dir */
	uint64_t slice;	       /* entries aggregated at a time; 0: GCN_SLICE_DEFAULT */
	uint32_t epochs;       /* trained in all, warm-up included; > 0 */
	uint64_t seed;	       /* of data, weights and dropout; any value */
	const char *graph_dir; /* with nodes.txt and edges.txt; NULL: the random graph */
	uint32_t hidden;       /* width of the hidden layer; 0: 256 (random), 16 (graph_dir) */
	uint32_t threads;      /* that run kernels; 0: one a processor */
	workload_progress_fn progress; /* called with epochs done; may be NULL */
	void *progress_arg;
};

/*
 * Train, and with a graph that has a test split measure the accuracy on it.
 *
 * m:   allocated from and launched through, by this thread alone. On return nothing that the run
 *      allocated is left in it, and no queued work of the run.
 * out: written on success only; gcn_result_free() it.
 * err: on failure one line, cut to err_bytes, that names the thing and the remedy. May be NULL.
 *
 * On a phantom machine no data is built: every allocation, launch, write and read is made, in the
 * same order and of the same sizes, with no buffer.
 *
 * 0, or -ENOMEM: the manager cannot hold it (a result), or the host cannot hold the graph;
 * -EINTR: progress asked to stop; -EINVAL: parameters, or the graph's files; -ENOENT and other
 * errors of reading them; or an error of the manager. Blocks.
 */
WEIR_MUST_CHECK int gcn_run(struct manager *m, const struct gcn_params *p,
			    struct workload_result *out, char *err, size_t err_bytes);

/* Free a result's arrays. NULL, and a result that was never written but zeroed, are allowed. */
void gcn_result_free(struct workload_result *r);

/*
 * The most bytes that gcn_run() has allocated at any time: the sum of what it asks for, without
 * any rounding of the manager's. Reads the graph when there is one.
 *
 * UINT64_MAX: too large to be run, or parameters that gcn_run() refuses; 0: the graph cannot be
 * read (gcn_run() says why).
 */
uint64_t gcn_peak_bytes(const struct gcn_params *p);

#endif
