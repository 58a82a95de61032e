/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that use paged memory, beside the same on plain pointers: so that device.cuh is compiled,
 * and so that a test can compare the registers that they take. Nobody launches them.
 */
#include "weir/device.cuh"

__global__ void device_check_raw(const float *in, const uint64_t *index, float *out, uint64_t nr)
{
	uint64_t stride = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < nr; i += stride)
		out[i] = in[index[i]];
}

__global__ void device_check_read(const __grid_constant__ struct weir_paged_view view,
				  const uint64_t *index, float *out, uint64_t nr)
{
	uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
	uint64_t first = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint64_t i = first; i < nr; i += stride) {
		out[i] = weir_paged_read<float>(&w, 0, index[i]);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

__global__ void device_check_add(const __grid_constant__ struct weir_paged_view view,
				 const uint64_t *index, uint64_t nr)
{
	uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
	uint64_t first = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint64_t i = first; i < nr; i += stride) {
		weir_paged_atomic_add<float>(&w, 0, index[i], 1.0f);
		weir_paged_write<float>(&w, 1, index[i], 1.0f);
	}
	weir_paged_leave(&w);
}

/* device_check_read() by objects: no register more. */
__global__ void device_check_array(const __grid_constant__ struct weir_paged_view view,
				   const uint64_t *index, float *out, uint64_t nr)
{
	uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
	uint64_t first = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
	weir_paged_scope scope(view);
	weir_paged_array<float> in(scope, 0);

	for (uint64_t i = first; i < nr; i += stride) {
		out[i] = in[index[i]];
		scope.quiesce();
	}
}

/* A warp a page: rows through spans. */
__global__ void device_check_span(const __grid_constant__ struct weir_paged_view view, float *out,
				  uint64_t nr_pages)
{
	uint64_t warp = (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x) / 32;
	uint64_t nr_warps = (uint64_t)gridDim.x * blockDim.x / 32;
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;
	float sum = 0;

	for (uint64_t page = warp; page < nr_pages; page += nr_warps) {
		const float *at = (const float *)weir_paged_span_get(&w, 0, page << view.page_shift,
								     PT_READ, &span);

		for (uint32_t i = weir_paged_lane(); at && i < 1u << (view.page_shift - 2); i += 32)
			sum += at[i];
		weir_paged_span_put(&w, &span);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
	atomicAdd(out, sum);
}
