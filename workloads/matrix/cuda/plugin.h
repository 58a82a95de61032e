/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary between the program and the CUDA kernels on a matrix, a shared library of their own
 * (libweir-matrix-cuda.so): the program is built where no CUDA is.
 *
 * For each kernel of workloads/matrix/kernels.h there is
 *
 *   int matrix_cuda_<name>(void *stream, const void *args);
 *
 * which queues the kernel on a CUstream and does not wait. args is a struct matrix_args, for the
 * paged ones a struct matrix_paged_args, for add a struct matrix_add_args, read before the call
 * returns. The device's primary context
 * is current in the calling thread. Returns 0, or a negative errno and a text in
 * matrix_cuda_error():
 *
 *   -EINVAL  sizes or addresses that the kernel cannot take
 *   -EIO     anything that CUDA refuses
 */
#ifndef WEIR_MATRIX_CUDA_PLUGIN_H
#define WEIR_MATRIX_CUDA_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/paged.h"
#include "workloads/matrix/kernels.h"

/* All kernels: X(name) */
#define MATRIX_CUDA_KERNELS(X) \
	X(rows)                \
	X(columns)             \
	X(paged_rows)          \
	X(paged_columns)       \
	X(add)

#ifdef __cplusplus
extern "C" {
#endif

#define MATRIX_CUDA_EXPORT __attribute__((visibility("default")))

#define DECLARE(name) MATRIX_CUDA_EXPORT int matrix_cuda_##name(void *stream, const void *args);
MATRIX_CUDA_KERNELS(DECLARE)
#undef DECLARE

/* What a pool of paged memory needs: as struct weir_paged_kernels has them. */
MATRIX_CUDA_EXPORT int matrix_cuda_home(void *stream, const struct weir_paged_view *view,
					int evict);
MATRIX_CUDA_EXPORT int matrix_cuda_settle(void *stream, const struct weir_paged_view *view,
					  struct weir_paged_left *left);

/* matrix_cuda_abi_here() of the library: another number means that the two do not belong together.
 */
MATRIX_CUDA_EXPORT uint64_t matrix_cuda_abi(void);

/* What went wrong in the calling thread's last call that failed. Static text, never NULL. */
MATRIX_CUDA_EXPORT const char *matrix_cuda_error(void);

/* Change the constant when a function or its meaning changes; sizes of arguments show anyway. */
static inline uint64_t matrix_cuda_abi_here(void)
{
	return (UINT64_C(2) << 32) + sizeof(struct matrix_args) + sizeof(struct matrix_paged_args) +
	       sizeof(struct matrix_add_args);
}

/* What the kernels can take. */
static inline bool matrix_cuda_valid(const struct matrix_args *p)
{
	return p->rows && p->rows % MATRIX_BATCH == 0 && p->columns &&
	       p->columns % MATRIX_PIECE == 0 && p->exact >= MATRIX_BATCH && p->threads &&
	       p->threads % 32 == 0 && p->threads <= MATRIX_THREADS_MAX &&
	       (uintptr_t)p->in % 16 == 0 && (uintptr_t)p->out % 16 == 0;
}

static inline bool matrix_cuda_add_valid(const struct matrix_add_args *p)
{
	return p->size && p->nr && (uintptr_t)p->in % 8 == 0 && (uintptr_t)p->out % 8 == 0;
}

static inline bool matrix_cuda_bare_valid(const struct matrix_args *p)
{
	return matrix_cuda_valid(p) && (uintptr_t)p->elements % 16 == 0;
}

static inline bool matrix_cuda_paged_valid(const struct matrix_paged_args *p)
{
	const struct matrix_args *m = &p->matrix;
	const uint64_t page_bytes = UINT64_C(1) << p->view.page_shift;
	const uint64_t nr_pieces = page_bytes / MATRIX_PIECE_BYTES;
	const uint64_t row_bytes = m->columns * sizeof(float);

	return matrix_cuda_valid(m) && p->range < WEIR_PAGED_RANGES_MAX && nr_pieces &&
	       m->threads / 32 % nr_pieces == 0 && row_bytes % page_bytes == 0 &&
	       p->view.range[p->range].bytes / row_bytes >= m->rows;
}

#ifdef __cplusplus
}
#endif

#endif
