/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary between the program and the CUDA kernels that touch a table, a shared library of
 * their own (libweir-touch-cuda.so): the program is built where no CUDA is.
 *
 * For each kernel of workloads/touch/kernels.h there is
 *
 *   int touch_cuda_<name>(void *stream, const void *args);
 *
 * which queues the kernel on a CUstream and does not wait. args is a struct touch_<name>_args, read
 * before the call returns. The device's primary context is current in the calling thread. Returns
 * 0, or a negative errno and a text in touch_cuda_error():
 *
 *   -EINVAL  sizes or addresses that the kernel cannot take
 *   -EIO     anything that CUDA refuses
 */
#ifndef WEIR_TOUCH_CUDA_PLUGIN_H
#define WEIR_TOUCH_CUDA_PLUGIN_H

#include <stdint.h>

#include "workloads/touch/kernels.h"

/* All kernels: X(name) */
#define TOUCH_CUDA_KERNELS(X) \
	X(pages)              \
	X(layer)              \
	X(updates)            \
	X(paged_pages)        \
	X(paged_updates)

#ifdef __cplusplus
extern "C" {
#endif

#define TOUCH_CUDA_EXPORT __attribute__((visibility("default")))

#define DECLARE(name) TOUCH_CUDA_EXPORT int touch_cuda_##name(void *stream, const void *args);
TOUCH_CUDA_KERNELS(DECLARE)
#undef DECLARE

/* What a pool of paged memory needs: as struct weir_paged_kernels has them. */
TOUCH_CUDA_EXPORT int touch_cuda_home(void *stream, const struct weir_paged_view *view, int evict);
TOUCH_CUDA_EXPORT int touch_cuda_settle(void *stream, const struct weir_paged_view *view,
					struct weir_paged_left *left);

/* touch_cuda_abi_here() of the library: another number means that the two do not belong together.
 */
TOUCH_CUDA_EXPORT uint64_t touch_cuda_abi(void);

/* What went wrong in the calling thread's last call that failed. Static text, never NULL. */
TOUCH_CUDA_EXPORT const char *touch_cuda_error(void);

/* Change the constant when a function or its meaning changes; sizes of arguments show anyway. */
static inline uint64_t touch_cuda_abi_here(void)
{
	uint64_t abi = UINT64_C(1) << 32;

#define ADD_SIZE(name) abi += sizeof(struct touch_##name##_args);
	TOUCH_CUDA_KERNELS(ADD_SIZE)
#undef ADD_SIZE
	return abi;
}

#ifdef __cplusplus
}
#endif

#endif
