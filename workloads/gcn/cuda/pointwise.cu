/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that compute each element from those at the same place: ReLU, dropout, Adam; and filling
 * with zero. Bit for bit what kernels_pointwise.c computes: the same operations in the same order,
 * none of them contracted, and dropout draws from the same generator.
 */
#include <stdint.h>

/* The generator of the CPU's kernels, compiled for the device too. */
#define inline __host__ __device__ inline
#include "workloads/gcn/rng.h"
#undef inline

#include "workloads/gcn/cuda/launch.cuh"

/* ---- zero: not cudaMemsetAsync(), which may refuse a range whose parts lie in several memories */

__global__ void __launch_bounds__(BLOCK) zero_kernel(char *out, uint64_t bytes)
{
	/* Up to 15 bytes before the first whole pack, and after the last. */
	const uint64_t before = min(-(uint64_t)out % 16, bytes);
	const uint64_t packs = (bytes - before) / 16, after = before + 16 * packs;
	uint4 *pack = (uint4 *)(out + before);
	uint64_t i = blockIdx.x * (uint64_t)BLOCK + threadIdx.x;

#pragma unroll 4
	for (; i < packs; i += gridDim.x * (uint64_t)BLOCK)
		__stcs(&pack[i], make_uint4(0, 0, 0, 0));
	if (blockIdx.x == 0 && threadIdx.x < before)
		out[threadIdx.x] = 0;
	if (blockIdx.x == 0 && threadIdx.x < bytes - after)
		out[after + threadIdx.x] = 0;
}

int gcn_cuda_zero(void *stream, const void *args)
{
	const struct gcn_zero_args *a = (const struct gcn_zero_args *)args;
	unsigned int grid = grid_of(div_round_up(a->bytes, BLOCK * 16 * 4));

	if (a->bytes == 0)
		return 0;
	zero_kernel<<<grid, BLOCK, 0, (cudaStream_t)stream>>>((char *)a->out, a->bytes);
	return gcn_cuda_launched("zero");
}

/* ---- ReLU */

struct relu_op {
	const float *in;
	float *out;

	static constexpr uint32_t unroll = 4;

	template <int V> using loaded = pack<V>;

	template <int V> __device__ void load(uint64_t i, pack<V> &x) const
	{
		x = load_once<V>(in + i);
	}

	template <int V> __device__ void store(uint64_t i, pack<V> x) const
	{
#pragma unroll
		for (int k = 0; k < V; k++)
			x.f[k] = x.f[k] > 0 ? x.f[k] : 0;
		store_once<V>(out + i, x);
	}
};

int gcn_cuda_relu(void *stream, const void *args)
{
	const struct gcn_relu_args *a = (const struct gcn_relu_args *)args;
	struct relu_op op = {a->in, a->out};

	return pointwise_launch("relu", stream, op, a->nr,
				(address(a->in) | address(a->out)) % 16 == 0);
}

struct relu_grad_op {
	const float *out, *grad_out;
	float *grad_in;

	static constexpr uint32_t unroll = 2;

	template <int V> struct loaded {
		pack<V> out, grad;
	};

	template <int V> __device__ void load(uint64_t i, loaded<V> &x) const
	{
		x.out = load_once<V>(out + i);
		x.grad = load_once<V>(grad_out + i);
	}

	template <int V> __device__ void store(uint64_t i, loaded<V> x) const
	{
#pragma unroll
		for (int k = 0; k < V; k++)
			x.grad.f[k] = x.out.f[k] > 0 ? x.grad.f[k] : 0;
		store_once<V>(grad_in + i, x.grad);
	}
};

int gcn_cuda_relu_grad(void *stream, const void *args)
{
	const struct gcn_relu_grad_args *a = (const struct gcn_relu_grad_args *)args;
	struct relu_grad_op op = {a->out, a->grad_out, a->grad_in};
	uintptr_t bits = address(a->out) | address(a->grad_out) | address(a->grad_in);

	return pointwise_launch("relu_grad", stream, op, a->nr, bits % 16 == 0);
}

/* ---- dropout: a pack of four never crosses a word of 64 random bits */

struct dropout_op {
	const float *in;
	float *out;
	uint8_t *mask;
	uint64_t key;

	static constexpr uint32_t unroll = 4;

	template <int V> using loaded = pack<V>;

	template <int V> __device__ void load(uint64_t i, pack<V> &x) const
	{
		x = load_once<V>(in + i);
	}

	template <int V> __device__ void store(uint64_t i, pack<V> x) const
	{
		uint32_t keep = (uint32_t)(gcn_rng_bits(key, i / 64) >> i % 64);

#pragma unroll
		for (int k = 0; k < V; k++)
			x.f[k] = keep >> k & 1 ? 2 * x.f[k] : 0;
		store_once<V>(out + i, x);
		if constexpr (V == 4)
			__stcs((uchar4 *)(mask + i),
			       make_uchar4(keep & 1, keep >> 1 & 1, keep >> 2 & 1, keep >> 3 & 1));
		else
			mask[i] = keep & 1;
	}
};

int gcn_cuda_dropout(void *stream, const void *args)
{
	const struct gcn_dropout_args *a = (const struct gcn_dropout_args *)args;
	struct dropout_op op = {a->in, a->out, a->mask, a->key};
	bool packed = (address(a->in) | address(a->out) | 4 * address(a->mask)) % 16 == 0;

	return pointwise_launch("dropout", stream, op, a->nr, packed);
}

struct dropout_grad_op {
	const float *grad_out;
	const uint8_t *mask;
	float *grad_in;

	static constexpr uint32_t unroll = 4;

	template <int V> struct loaded {
		pack<V> grad;
		uchar4 keep;
	};

	template <int V> __device__ void load(uint64_t i, loaded<V> &x) const
	{
		x.grad = load_once<V>(grad_out + i);
		if constexpr (V == 4)
			x.keep = __ldcs((const uchar4 *)(mask + i));
		else
			x.keep.x = mask[i];
	}

	template <int V> __device__ void store(uint64_t i, loaded<V> x) const
	{
		x.grad.f[0] = x.keep.x ? 2 * x.grad.f[0] : 0;
		if constexpr (V == 4) {
			x.grad.f[1] = x.keep.y ? 2 * x.grad.f[1] : 0;
			x.grad.f[2] = x.keep.z ? 2 * x.grad.f[2] : 0;
			x.grad.f[3] = x.keep.w ? 2 * x.grad.f[3] : 0;
		}
		store_once<V>(grad_in + i, x.grad);
	}
};

int gcn_cuda_dropout_grad(void *stream, const void *args)
{
	const struct gcn_dropout_grad_args *a = (const struct gcn_dropout_grad_args *)args;
	struct dropout_grad_op op = {a->grad_out, a->mask, a->grad_in};
	bool packed = (address(a->grad_out) | address(a->grad_in) | 4 * address(a->mask)) % 16 == 0;

	return pointwise_launch("dropout_grad", stream, op, a->nr, packed);
}

/* ---- Adam, each operation rounded for itself. Parameters are few: they stay in the caches. */

#define ADAM_BETA1 0.9f
#define ADAM_BETA1_REST 0.1f
#define ADAM_BETA2 0.999f
#define ADAM_BETA2_REST 0.001f
#define ADAM_EPSILON 1e-8f

struct adam_op {
	struct gcn_adam_args a;

	static constexpr uint32_t unroll = 1;

	template <int V> struct loaded {
		pack<V> param, moment1, moment2, grad;
	};

	template <int V> __device__ void load(uint64_t i, loaded<V> &x) const
	{
		x.param = *(const pack<V> *)(a.param + i);
		x.moment1 = *(const pack<V> *)(a.moment1 + i);
		x.moment2 = *(const pack<V> *)(a.moment2 + i);
		x.grad = *(const pack<V> *)(a.grad + i);
	}

	__device__ void step(float &param, float &moment1, float &moment2, float grad) const
	{
		grad = __fadd_rn(grad, __fmul_rn(a.weight_decay, param));
		moment1 =
			__fadd_rn(__fmul_rn(ADAM_BETA1, moment1), __fmul_rn(ADAM_BETA1_REST, grad));
		moment2 = __fadd_rn(__fmul_rn(ADAM_BETA2, moment2),
				    __fmul_rn(__fmul_rn(ADAM_BETA2_REST, grad), grad));
		float root = __fmul_rn(__fsqrt_rn(moment2), a.moment2_scale);
		float move =
			__fdiv_rn(__fmul_rn(a.step_size, moment1), __fadd_rn(root, ADAM_EPSILON));

		param = __fsub_rn(param, move);
	}

	template <int V> __device__ void store(uint64_t i, loaded<V> x) const
	{
#pragma unroll
		for (int k = 0; k < V; k++)
			step(x.param.f[k], x.moment1.f[k], x.moment2.f[k], x.grad.f[k]);
		*(pack<V> *)(a.param + i) = x.param;
		*(pack<V> *)(a.moment1 + i) = x.moment1;
		*(pack<V> *)(a.moment2 + i) = x.moment2;
	}
};

int gcn_cuda_adam(void *stream, const void *args)
{
	const struct gcn_adam_args *a = (const struct gcn_adam_args *)args;
	struct adam_op op = {*a};
	uintptr_t bits =
		address(a->param) | address(a->moment1) | address(a->moment2) | address(a->grad);

	return pointwise_launch("adam", stream, op, a->nr, bits % 16 == 0);
}
