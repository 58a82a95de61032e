/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary between the program and the CUDA kernels of graphs, a shared library of their own
 * (libweir-graph-cuda.so): the program is built where no CUDA is.
 *
 * For each kernel of workloads/graph/kernels.h and gen_kernels.h there is
 *
 *   int graph_cuda_<name>(void *stream, const void *args);
 *
 * which queues the kernel on a CUstream and does not wait. args is read before the call returns: a
 * struct graph_args, for names that end in _paged a struct graph_paged_args, for those that begin
 * with gen_ a struct graph_<name>_args. The device's primary context is current in the calling
 * thread. Returns 0, or a negative errno and a text in graph_cuda_error():
 *
 *   -EINVAL  sizes or addresses that the kernel cannot take
 *   -EIO     anything that CUDA refuses
 */
#ifndef WEIR_GRAPH_CUDA_PLUGIN_H
#define WEIR_GRAPH_CUDA_PLUGIN_H

#include <stdint.h>

#include "workloads/graph/gen_kernels.h"
#include "workloads/graph/kernels.h"

/* Those that generate: X(name) */
#define GRAPH_CUDA_GEN_KERNELS(X) \
	X(gen_count)              \
	X(gen_keep)               \
	X(gen_sort)               \
	X(gen_unique)             \
	X(gen_lists)              \
	X(gen_offsets)

/* All kernels. */
#define GRAPH_CUDA_KERNELS(X) \
	X(round)              \
	X(begin)              \
	X(items)              \
	X(expand)             \
	X(expand_paged)       \
	X(finish)             \
	X(sample)             \
	X(lines)              \
	GRAPH_CUDA_GEN_KERNELS(X)

#ifdef __cplusplus
extern "C" {
#endif

#define GRAPH_CUDA_EXPORT __attribute__((visibility("default")))

#define DECLARE(name) GRAPH_CUDA_EXPORT int graph_cuda_##name(void *stream, const void *args);
GRAPH_CUDA_KERNELS(DECLARE)
#undef DECLARE

/* What a pool of paged memory needs: as struct weir_paged_kernels has them. */
GRAPH_CUDA_EXPORT int graph_cuda_home(void *stream, const struct weir_paged_view *view, int evict);
GRAPH_CUDA_EXPORT int graph_cuda_settle(void *stream, const struct weir_paged_view *view,
					struct weir_paged_left *left);

/* graph_cuda_abi_here() of the library: another number means that the two do not belong together.
 */
GRAPH_CUDA_EXPORT uint64_t graph_cuda_abi(void);

/* What went wrong in the calling thread's last call that failed. Static text, never NULL. */
GRAPH_CUDA_EXPORT const char *graph_cuda_error(void);

/* Change the constant when a function or its meaning changes; sizes of arguments show anyway. */
static inline uint64_t graph_cuda_abi_here(void)
{
	uint64_t abi = (UINT64_C(2) << 32) + (sizeof(struct graph_args) << 16) +
		       sizeof(struct graph_paged_args);

#define ADD_SIZE(name) abi += sizeof(struct graph_##name##_args);
	GRAPH_CUDA_GEN_KERNELS(ADD_SIZE)
#undef ADD_SIZE
	return abi;
}

#ifdef __cplusplus
}
#endif

#endif
