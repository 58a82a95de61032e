/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary between the program and the CUDA kernels that measure a machine, a shared library of
 * their own (libweir-probe-cuda.so): the program is built where no CUDA is.
 *
 * For each kernel of workloads/probe/kernels.h there is
 *
 *   int probe_cuda_<name>(void *stream, const void *args);
 *
 * which queues the kernel on a CUstream and does not wait. args is a struct probe_<name>_args, read
 * before the call returns. The device's primary context is current in the calling thread. Returns
 * 0, or a negative errno and a text in probe_cuda_error():
 *
 *   -EINVAL  sizes or addresses that the kernel cannot take
 *   -EIO     anything that CUDA refuses
 */
#ifndef WEIR_PROBE_CUDA_PLUGIN_H
#define WEIR_PROBE_CUDA_PLUGIN_H

#include <stdint.h>

#include "workloads/probe/kernels.h"

/* All kernels: X(name) */
#define PROBE_CUDA_KERNELS(X) \
	X(empty)              \
	X(read)               \
	X(write)              \
	X(copy)               \
	X(gather)             \
	X(update)             \
	X(add)                \
	X(mixed)              \
	X(list)

#ifdef __cplusplus
extern "C" {
#endif

#define PROBE_CUDA_EXPORT __attribute__((visibility("default")))

#define DECLARE(name) PROBE_CUDA_EXPORT int probe_cuda_##name(void *stream, const void *args);
PROBE_CUDA_KERNELS(DECLARE)
#undef DECLARE

/* probe_cuda_abi_here() of the library: another number means that the two do not belong together.
 */
PROBE_CUDA_EXPORT uint64_t probe_cuda_abi(void);

/* What went wrong in the calling thread's last call that failed. Static text, never NULL. */
PROBE_CUDA_EXPORT const char *probe_cuda_error(void);

/* Change the constant when a function or its meaning changes; sizes of arguments show anyway. */
static inline uint64_t probe_cuda_abi_here(void)
{
	uint64_t abi = UINT64_C(5) << 32;

#define ADD_SIZE(name) abi += sizeof(struct probe_##name##_args);
	PROBE_CUDA_KERNELS(ADD_SIZE)
#undef ADD_SIZE
	return abi;
}

#ifdef __cplusplus
}
#endif

#endif
