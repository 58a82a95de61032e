/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA kernels that measure a machine, seen from a program that is built without CUDA. They lie
 * in a shared library, libweir-probe-cuda.so (target `cuda`), that is opened at run time.
 */
#ifndef WEIR_PROBE_CUDA_H
#define WEIR_PROBE_CUDA_H

#include "workloads/probe/cuda/plugin.h"

/** Open the library, as cuda_plugin_load() does; the variable is WEIR_PROBE_KERNELS. */
int probe_cuda_load(void);

/*
 * int probe_cuda_run_<name>(void *stream, const void *args): queue a kernel, as described in
 * cuda/plugin.h. Returns 0, -ENOSYS (not loaded) or the error of the kernel's function; logged.
 */
#define DECLARE(name) int probe_cuda_run_##name(void *stream, const void *args);
PROBE_CUDA_KERNELS(DECLARE)
#undef DECLARE

#endif
