/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workload's CUDA kernels, seen from a program that is built without CUDA. They lie in a shared
 * library, libweir-gcn-cuda.so (target `cuda`), that is opened at run time.
 */
#ifndef WEIR_GCN_CUDA_H
#define WEIR_GCN_CUDA_H

#include "workloads/gcn/cuda/plugin.h"

/** Open the library, as cuda_plugin_load() does; the variable is WEIR_CUDA_KERNELS. */
int gcn_cuda_load(void);

/**
 * Make what kernels need on a stream, so that no launch has to allocate: 32 MiB of the device's
 * memory and a cuBLAS handle. The device's primary context is current, as stream_call of the
 * backend makes it.
 *
 * @return 0, -ENOSYS (not loaded), or what gcn_cuda_stream_add() returns; logged.
 * Threads: safe, one at a time on a stream.
 */
int gcn_cuda_prepare(void *stream);

/* Undo it, before the stream is destroyed; the context is current. Waits for the device. Nothing if
 * it was not done. */
void gcn_cuda_forget(void *stream);

/*
 * int gcn_cuda_run_<name>(void *stream, const void *args): queue a kernel, as described in
 * cuda/plugin.h. Returns 0, -ENOSYS (not loaded) or the error of the kernel's function; logged.
 */
#define DECLARE(name) int gcn_cuda_run_##name(void *stream, const void *args);
GCN_CUDA_KERNELS(DECLARE)
#undef DECLARE

#endif
