/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary between the program and the solvers' CUDA kernels, a shared library of their own
 * (libweir-solver-cuda.so): the program is built where no CUDA is.
 *
 * For each kernel of workloads/solver/kernels.h there is
 *
 *   int solver_cuda_<name>(void *stream, const void *args);
 *
 * which queues the kernel on a CUstream and does not wait. args is the kernel's struct, read before
 * the call returns. The device's primary context is current in the calling thread. Returns 0, or a
 * negative errno and a text in solver_cuda_error():
 *
 *   -EINVAL  sizes or addresses that the kernel cannot take
 *   -EIO     anything that CUDA refuses
 */
#ifndef WEIR_SOLVER_CUDA_PLUGIN_H
#define WEIR_SOLVER_CUDA_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "workloads/solver/kernels.h"

/* All kernels: X(name) */
#define SOLVER_CUDA_KERNELS(X) \
	X(jacobi)              \
	X(diffusion)           \
	X(als)                 \
	X(pagerank)            \
	X(relax)               \
	X(commit)              \
	X(fill)                \
	X(hash)

#ifdef __cplusplus
extern "C" {
#endif

#define SOLVER_CUDA_EXPORT __attribute__((visibility("default")))

#define DECLARE(name) SOLVER_CUDA_EXPORT int solver_cuda_##name(void *stream, const void *args);
SOLVER_CUDA_KERNELS(DECLARE)
#undef DECLARE

/* solver_cuda_abi_here() of the library: another number means that the two do not belong together.
 */
SOLVER_CUDA_EXPORT uint64_t solver_cuda_abi(void);

/* What went wrong in the calling thread's last call that failed. Static text, never NULL. */
SOLVER_CUDA_EXPORT const char *solver_cuda_error(void);

/* Change the constant when a function or its meaning changes; sizes of arguments show anyway. */
static inline uint64_t solver_cuda_abi_here(void)
{
	return (UINT64_C(3) << 32) + sizeof(struct solver_stencil_args) +
	       sizeof(struct solver_als_args) + sizeof(struct solver_pagerank_args) +
	       sizeof(struct solver_relax_args) + sizeof(struct solver_commit_args) +
	       sizeof(struct solver_fill_args) + sizeof(struct solver_hash_args);
}

/* What the kernels can take. */
static inline bool solver_cuda_shape_valid(const struct solver_shape *shape)
{
	return shape->slices && shape->rows && shape->columns &&
	       shape->columns % SOLVER_COLUMNS_UNIT == 0;
}

static inline bool solver_cuda_range_valid(const struct solver_shape *shape,
					   const struct solver_range *range)
{
	const uintptr_t addresses = (uintptr_t)range->in | (uintptr_t)range->out |
				    (uintptr_t)range->before | (uintptr_t)range->behind;

	return range->nr && range->first < shape->slices &&
	       range->nr <= shape->slices - range->first && addresses % 16 == 0;
}

static inline bool solver_cuda_als_valid(const struct solver_als_args *p)
{
	uintptr_t addresses = (uintptr_t)p->out;

	if (p->side > 1 || !p->nr_parts || p->nr_parts > WEIR_DEVICES_MAX || !p->nr)
		return false;
	for (uint32_t i = 0; i < p->nr_parts; i++)
		addresses |= (uintptr_t)p->part[i];
	return p->first < p->ratings.side[p->side].nr &&
	       p->nr <= p->ratings.side[p->side].nr - p->first && addresses % 16 == 0;
}

static inline bool solver_cuda_rows_valid(const struct solver_rows *rows,
					  const struct solver_vector *in)
{
	return rows->nr && rows->nr <= UINT32_MAX - rows->first && rows->offset &&
	       rows->nr_pieces <= rows->nr_edges / SOLVER_PIECE_EDGES * 2 &&
	       (rows->piece || !rows->nr_pieces) && in->nr_parts <= WEIR_DEVICES_MAX;
}

static inline bool solver_cuda_commit_valid(const struct solver_commit_args *p)
{
	bool valid = p->nr_ranges && p->nr_ranges <= SOLVER_RANGES_MAX;

	for (uint32_t i = 0; valid && i < p->nr_ranges; i++)
		valid = p->range[i].nr > 0;
	return valid;
}

static inline bool solver_cuda_stencil_valid(const struct solver_stencil_args *p)
{
	if (!solver_cuda_shape_valid(&p->shape) || !p->nr_ranges || p->nr_ranges > 2)
		return false;
	for (uint32_t i = 0; i < p->nr_ranges; i++)
		if (!solver_cuda_range_valid(&p->shape, &p->range[i]))
			return false;
	return true;
}

#ifdef __cplusplus
}
#endif

#endif
