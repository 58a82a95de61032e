/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The solvers' CUDA kernels, seen from a program that is built without CUDA. They lie in
 * a shared library, libweir-solver-cuda.so (target `cuda`), that is opened at run time.
 */
#ifndef WEIR_SOLVER_CUDA_H
#define WEIR_SOLVER_CUDA_H

#include "workloads/solver/cuda/plugin.h"

/** Open the library, as cuda_plugin_load() does; the variable is WEIR_SOLVER_KERNELS. */
int solver_cuda_load(void);

/*
 * int solver_cuda_run_<name>(void *stream, const void *args): queue a kernel, as described in
 * cuda/plugin.h. Returns 0, -ENOSYS (not loaded) or the error of the kernel's function; logged.
 */
#define DECLARE(name) int solver_cuda_run_##name(void *stream, const void *args);
SOLVER_CUDA_KERNELS(DECLARE)
#undef DECLARE

#endif
