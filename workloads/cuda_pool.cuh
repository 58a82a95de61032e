/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool of paged memory needs of a library of kernels: as struct weir_paged_kernels has it,
 * with errors in cuda_launch_error(). */
#ifndef WEIR_CUDA_POOL_CUH
#define WEIR_CUDA_POOL_CUH

#include "weir/paged_home.cuh"
#include "workloads/cuda_launch.cuh"

static inline int cuda_pool_failed(const char *what, int err)
{
	if (err)
		snprintf(cuda_launch_error(), CUDA_LAUNCH_ERROR_BYTES, "%s failed", what);
	return err;
}

static inline int cuda_pool_home(void *stream, const struct weir_paged_view *view, int evict)
{
	int err = cuda_launch_hold();

	return err ? err
		   : cuda_pool_failed("bringing pages home",
				      weir_paged_kernels_cuda.home(stream, view, evict));
}

static inline int cuda_pool_settle(void *stream, const struct weir_paged_view *view,
				   struct weir_paged_left *left)
{
	int err = cuda_launch_hold();

	return err ? err
		   : cuda_pool_failed("taking pins back",
				      weir_paged_kernels_cuda.settle(stream, view, left));
}

#endif
