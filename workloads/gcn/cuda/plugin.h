/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary between the program and its CUDA kernels, a shared library of their own
 * (libweir-gcn-cuda.so): the program is built where no CUDA is, and opens it at run time.
 *
 * For each kernel of workloads/gcn/kernels.h there is
 *
 *   int gcn_cuda_<name>(void *stream, const void *args);
 *
 * which queues the kernel on a CUstream and does not wait. args is a struct gcn_<name>_args, read
 * before the call returns; its pointers are addresses that the stream's device can use, of any
 * alignment that their types have (16 bytes are faster); its pool is ignored. The device's primary
 * context is current in the calling thread. Any threads, but one at a time on a stream. Returns 0,
 * or a negative errno and a text in gcn_cuda_error():
 *
 *   -EINVAL  sizes that the kernel cannot take
 *   -ENOENT  a product of matrices, and there is no cuBLAS
 *   -ENOMEM  the device or the host has no memory for what a stream needs, see below
 *   -ENOSPC  more streams than there is room for
 *   -EIO     anything else that CUDA or cuBLAS refuses
 *
 * What queued kernels do wrong shows where the stream is waited for.
 *
 * For each stream there are 32 MiB of workspace for cuBLAS and 8 KiB for partial sums on the
 * device, and a cuBLAS handle. gcn_cuda_stream_add() makes them; if it was not called, the first
 * kernel that needs them does, and then allocates.
 */
#ifndef WEIR_GCN_CUDA_PLUGIN_H
#define WEIR_GCN_CUDA_PLUGIN_H

#include <stdint.h>

#include "workloads/gcn/kernels.h"

/* All kernels: X(name) */
#define GCN_CUDA_KERNELS(X)   \
	X(zero)               \
	X(gather)             \
	X(scale)              \
	X(scatter_add)        \
	X(select)             \
	X(linear)             \
	X(linear_grad_in)     \
	X(linear_grad_weight) \
	X(relu)               \
	X(relu_grad)          \
	X(dropout)            \
	X(dropout_grad)       \
	X(loss)               \
	X(loss_grad)          \
	X(accuracy)           \
	X(adam)

#ifdef __cplusplus
extern "C" {
#endif

#define GCN_CUDA_EXPORT __attribute__((visibility("default")))

#define DECLARE(name) GCN_CUDA_EXPORT int gcn_cuda_##name(void *stream, const void *args);
GCN_CUDA_KERNELS(DECLARE)
#undef DECLARE

/* gcn_cuda_abi_here() of the library: another number means that the two do not belong together. */
GCN_CUDA_EXPORT uint64_t gcn_cuda_abi(void);

/* What went wrong in the calling thread's last call that failed. Static text, never NULL. */
GCN_CUDA_EXPORT const char *gcn_cuda_error(void);

/*
 * Make what kernels need on a stream. Again for the same stream: nothing. -ENOENT: there is no
 * cuBLAS; all but the products of matrices work. -ENOMEM, -ENOSPC, -EIO as above.
 */
GCN_CUDA_EXPORT int gcn_cuda_stream_add(void *stream);

/* Free it. Waits for the device. Nothing for a stream that has none. */
GCN_CUDA_EXPORT void gcn_cuda_stream_del(void *stream);

/* Change the constant when a function or its meaning changes; sizes of arguments show anyway. */
static inline uint64_t gcn_cuda_abi_here(void)
{
	uint64_t abi = UINT64_C(1) << 32;

#define ADD_SIZE(name) abi += sizeof(struct gcn_##name##_args);
	GCN_CUDA_KERNELS(ADD_SIZE)
#undef ADD_SIZE
	return abi;
}

#ifdef __cplusplus
}
#endif

#endif
