/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test kernels (tests/gpu/kernels.h) as a program launches them: on the simulator the CPU's
 * versions run, on CUDA those of the library that WEIR_TEST_KERNELS names.
 */
#ifndef WEIR_TEST_KERNELS_H
#define WEIR_TEST_KERNELS_H

#include "tests/gpu/kernels.h"
#include "weir/weir.h"

/* test_kernel_<name>: what struct weir_launch names. On the simulator `gate`, `spin` and `rally` do
 * nothing: nothing there runs before the host waits, and time is virtual. */
#define DECLARE(name) extern const struct weir_kernel test_kernel_##name;
TEST_KERNELS(DECLARE)
#undef DECLARE

/* test_cpu_<name>(args): the CPU's versions. `gate` and `spin` take real time here. */
#define DECLARE(name) void test_cpu_##name(const void *args);
TEST_KERNELS(DECLARE)
#undef DECLARE

/*
 * Open the library that WEIR_TEST_KERNELS names; once open it stays open. No device is touched.
 * @return 0, -ENOENT (no such library), -ELIBBAD (not of this version); said on standard error.
 */
int test_kernels_load(void);

/* Load the kernels onto the current device: see test_cuda_prepare(). They are open. */
int test_kernels_prepare(void);

#endif
