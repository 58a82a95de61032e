/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generating a graph on a GPU, in its own memory: the file that csr_build() makes of the same
 * generator, byte for byte, in a small part of the time.
 *
 * The GPU draws all edges once to count them, and then once for each range of vertices whose edges
 * fit into its memory: it keeps those that begin in the range, sorts them, drops duplicates, and
 * writes lists into a buffer of the host, from which the file is written.
 *
 * Memory: of the GPU up to memory_bytes, or what all edges need if that is less: 16.5 bytes for
 * each, loops apart, of up to 2^30 at a time; of the host up to 64 MiB, pinned.
 */
#ifndef WEIR_GRAPH_GPU_GEN_H
#define WEIR_GRAPH_GPU_GEN_H

#include "weir/weir.h"
#include "workloads/graph/build.h"

struct graph_gpu {
	struct weir_machine *machine; /* borrowed; a simulated one, with real bytes, for tests */
	uint32_t device;
	const struct gen *gen; /* of a scale up to GRAPH_GEN_SCALE_MAX */
	uint64_t nr_edges;     /* that are drawn; > 0 */
	bool raw;     /* as they are drawn; else in both directions, no loops or duplicates */
	bool weights; /* gen_weight()s of the seed */
	uint64_t seed;
	uint64_t memory_bytes;		 /* of the GPU's, at most; 0: most of what is free there */
	struct gcn_pool *pool;		 /* writes the file; NULL: the calling thread alone */
	const struct graph_watch *watch; /* NULL: nobody */
};

/**
 * Write a graph file. On a real GPU the CUDA kernels are loaded, if they are not yet.
 *
 * @param [in]  fd   Open for reading and writing, empty; a memfd for a graph in memory. On error
 *                   its contents mean nothing.
 * @param [out] out  Written on success only. May be NULL.
 * @param [out] err  One line on error, but not for -ECANCELED; weir's log may say more. May
 *                   be NULL.
 * @return 0, or
 *   -ECANCELED  the watch asked to stop
 *   -EINVAL     no such device
 *   -ENOENT     the kernels' library is not there; -ELIBBAD: it is another version's
 *   -ENOMEM     memory_bytes, or what the GPU has free, is less than some vertices' edges need;
 *               or the host has none to pin
 *   -ENOTSUP    a machine without bytes
 *   -ERANGE     a scale beyond GRAPH_GEN_SCALE_MAX
 *   other       what writing says, or the GPU
 */
WEIR_MUST_CHECK int graph_gpu_generate(const struct graph_gpu *gpu, int fd, struct csr_built *out,
				       char *err, size_t err_bytes);

/* Whether a machine's device is a GPU of this computer and not a simulated one. */
bool graph_gpu_real(struct weir_machine *machine, uint32_t device);

#endif
