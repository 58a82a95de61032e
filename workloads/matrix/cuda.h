/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA kernels on a matrix, seen from a program that is built without CUDA. They lie in
 * a shared library, libweir-matrix-cuda.so (target `cuda`), that is opened at run time.
 */
#ifndef WEIR_MATRIX_CUDA_H
#define WEIR_MATRIX_CUDA_H

#include "weir/paged.h"
#include "workloads/matrix/cuda/plugin.h"

/** Open the library, as cuda_plugin_load() does; the variable is WEIR_MATRIX_KERNELS. */
int matrix_cuda_load(void);

/* For pools that the kernels page in; they use the library, once it is open. */
extern const struct weir_paged_kernels matrix_cuda_kernels;

/*
 * int matrix_cuda_run_<name>(void *stream, const void *args): queue a kernel, as described in
 * cuda/plugin.h. Returns 0, -ENOSYS (not loaded) or the error of the kernel's function; logged.
 */
#define DECLARE(name) int matrix_cuda_run_##name(void *stream, const void *args);
MATRIX_CUDA_KERNELS(DECLARE)
#undef DECLARE

#endif
