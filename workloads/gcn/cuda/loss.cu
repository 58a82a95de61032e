/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the loss and of the accuracy, over rows that were gathered before. Labels stay where
 * they are and are looked up by the rows' nodes.
 *
 * Sums of the loss are in double precision and in an order that the number of rows alone decides:
 * the CPU's GCN_LOSS_PARTS parts, each cut again in SPLIT, a block each; no atomics. They are the
 * same bits on every run and every GPU, and differ from the CPU's by rounding and by expf, logf.
 */
#include "workloads/gcn/cuda/launch.cuh"
#include "workloads/gcn/shape.h"

#define WARPS (BLOCK / 32)
#define SPLIT 16u
#define LOSS_BLOCKS (GCN_LOSS_PARTS * SPLIT)
#define NARROW_MAX 32u /* floats of a row that one thread works on: 33 KiB of shared memory */
#define LOADS 5u /* of a thread that are in flight together: rows of 10 floats take two rounds */

static_assert(LOSS_BLOCKS <= SCRATCH_WORDS, "a sum a block");

/* ---- loss */

struct loss_rows {
	uint64_t first, end;
};

/* What the block owns: its share of its part. Empty where there are fewer rows than blocks. */
__device__ static struct loss_rows loss_rows_of_block(uint64_t nr)
{
	const uint64_t unit = (nr + GCN_LOSS_PARTS - 1) / GCN_LOSS_PARTS;
	const uint64_t part = min(blockIdx.x / SPLIT * unit, nr);
	const uint64_t part_end = min(part + unit, nr);
	const uint64_t share = (unit + SPLIT - 1) / SPLIT;
	const uint64_t first = min(part + blockIdx.x % SPLIT * share, part_end);
	struct loss_rows rows = {first, min(first + share, part_end)};

	return rows;
}

/* Of all threads, in a fixed order, by thread 0 to sums[block]. */
__device__ static void loss_block_sum(double mine, double *sums)
{
	__shared__ double shared[WARPS];
	double sum = 0;

	for (uint32_t offset = 16; offset > 0; offset /= 2)
		mine += __shfl_xor_sync(~0u, mine, offset);
	if (threadIdx.x % 32 == 0)
		shared[threadIdx.x / 32] = mine;
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	for (uint32_t warp = 0; warp < WARPS; warp++)
		sum += shared[warp];
	sums[blockIdx.x] = sum;
}

/* In place, by one thread. */
__device__ static void log_softmax(float *row, uint32_t width)
{
	float max = row[0], sum = 0, log_sum;

	for (uint32_t j = 1; j < width; j++)
		max = row[j] > max ? row[j] : max;
	for (uint32_t j = 0; j < width; j++)
		sum += expf(row[j] - max);
	log_sum = logf(sum) + max;
	for (uint32_t j = 0; j < width; j++)
		row[j] -= log_sum;
}

/* Floats first, first + 32, ... of nr, LOADS of them, to their places in shared memory. Beyond the
 * end the last one is taken again, so that all loads are in flight together. */
__device__ static void loss_stage(const float *in, float *shared, uint32_t first, uint32_t nr,
				  uint32_t width, uint32_t inverse)
{
	float x[LOADS];

#pragma unroll
	for (uint32_t u = 0; u < LOADS; u++)
		x[u] = load_once<1>(in + min(first + 32 * u, nr - 1)).f[0];
#pragma unroll
	for (uint32_t u = 0; u < LOADS; u++) {
		uint32_t e = min(first + 32 * u, nr - 1), row = rows_of(e, inverse);

		shared[row * (width | 1) + e - row * width] = x[u];
	}
}

/*
 * Rows that are narrow: a warp takes 32, a thread each. They go through shared memory, so that
 * neighbours read and write side by side; there a row begins an odd number of floats after the one
 * before, so that threads do not meet in a bank. inverse: of the width, for rows_of().
 */
__global__ void __launch_bounds__(BLOCK)
	loss_narrow_kernel(const struct gcn_loss_args a, uint32_t inverse, double *sums)
{
	extern __shared__ float shared_rows[];
	const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, stride = a.width | 1;
	const struct loss_rows rows = loss_rows_of_block(a.nr);
	float *mine = shared_rows + warp * 32 * stride;
	double sum = 0;

	for (uint64_t row = rows.first + warp * 32; row < rows.end; row += BLOCK) {
		const uint32_t nr = (uint32_t)min(rows.end - row, (uint64_t)32);
		const float *in = a.rows + row * a.width;
		float *out = a.log_p + row * a.width;
		int64_t label = 0;

		if (lane < nr)
			label = a.label[a.index[row + lane]];
		for (uint32_t e = lane; e < nr * a.width; e += 32 * LOADS)
			loss_stage(in, mine, e, nr * a.width, a.width, inverse);
		__syncwarp();
		if (lane < nr) {
			log_softmax(mine + lane * stride, a.width);
			sum -= (double)mine[lane * stride + label];
		}
		__syncwarp();
		for (uint32_t e = lane; e < nr * a.width; e += 32) {
			uint32_t r = rows_of(e, inverse);

			__stcs(out + e, mine[r * stride + e - r * a.width]);
		}
		__syncwarp();
	}
	loss_block_sum(sum, sums);
}

__device__ static float warp_max(float x)
{
	for (uint32_t offset = 16; offset > 0; offset /= 2)
		x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
	return x;
}

__device__ static float warp_sum(float x)
{
	for (uint32_t offset = 16; offset > 0; offset /= 2)
		x += __shfl_xor_sync(~0u, x, offset);
	return x;
}

/* Rows of any width: a warp takes one. */
__global__ void __launch_bounds__(BLOCK)
	loss_wide_kernel(const struct gcn_loss_args a, double *sums)
{
	const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const struct loss_rows rows = loss_rows_of_block(a.nr);
	double loss = 0;

	for (uint64_t row = rows.first + warp; row < rows.end; row += WARPS) {
		const float *in = a.rows + row * a.width;
		float *out = a.log_p + row * a.width;
		float max = -INFINITY, sum = 0, log_sum;

		for (uint32_t j = lane; j < a.width; j += 32)
			max = fmaxf(max, in[j]);
		max = warp_max(max);
		for (uint32_t j = lane; j < a.width; j += 32)
			sum += expf(in[j] - max);
		log_sum = logf(warp_sum(sum)) + max;
		for (uint32_t j = lane; j < a.width; j += 32)
			__stcs(out + j, in[j] - log_sum);
		if (lane == 0)
			loss -= (double)(in[a.label[a.index[row]]] - log_sum);
	}
	loss_block_sum(loss, sums);
}

/* One block of GCN_LOSS_PARTS threads: the sums of the parts, and their mean over the rows. */
__global__ void loss_mean_kernel(const double *sums, double *loss, uint64_t nr)
{
	__shared__ double part[GCN_LOSS_PARTS];
	double sum = 0;

	for (uint32_t i = 0; i < SPLIT; i++)
		sum += sums[threadIdx.x * SPLIT + i];
	part[threadIdx.x] = sum;
	loss[1 + threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	sum = 0;
	for (uint32_t i = 0; i < GCN_LOSS_PARTS; i++)
		sum += part[i];
	loss[0] = sum / (double)nr;
}

int gcn_cuda_loss(void *stream, const void *args)
{
	const struct gcn_loss_args *a = (const struct gcn_loss_args *)args;
	cudaStream_t cs = (cudaStream_t)stream;
	struct gcn_cuda_stream s;
	double *sums;
	int ret;

	if (a->nr == 0 || a->width == 0)
		return gcn_cuda_fail(-EINVAL, "loss: no rows");
	ret = gcn_cuda_stream_get(stream, false, &s);
	if (ret)
		return ret;
	sums = (double *)s.scratch;
	if (a->width <= NARROW_MAX) {
		size_t shared = BLOCK * (a->width | 1) * sizeof(float);

		loss_narrow_kernel<<<LOSS_BLOCKS, BLOCK, shared, cs>>>(*a, rows_inverse(a->width),
								       sums);
	} else {
		loss_wide_kernel<<<LOSS_BLOCKS, BLOCK, 0, cs>>>(*a, sums);
	}
	loss_mean_kernel<<<1, GCN_LOSS_PARTS, 0, cs>>>(sums, a->loss, a->nr);
	return gcn_cuda_launched("loss");
}

/* ---- loss_grad */

struct loss_grad_op {
	const float *log_p;
	const int64_t *index, *label;
	float *grad;
	float scale;

	typedef uint64_t key; /* the label */

	__device__ key key_of(uint64_t row) const
	{
		return load_index(label + load_index(index + row));
	}

	template <int V> __device__ pack<V> load(key, uint64_t at, uint32_t) const
	{
		return load_once<V>(log_p + at);
	}

	template <int V>
	__device__ void store(key own, uint64_t at, uint32_t column, pack<V> x, bool valid) const
	{
#pragma unroll
		for (int k = 0; k < V; k++)
			x.f[k] = (expf(x.f[k]) - (column + k == own ? 1.0f : 0.0f)) * scale;
		store_once<V>(grad + at, x, valid);
	}
};

int gcn_cuda_loss_grad(void *stream, const void *args)
{
	const struct gcn_loss_grad_args *a = (const struct gcn_loss_grad_args *)args;
	struct loss_grad_op op = {a->log_p, a->index, a->label, a->grad, 1 / (float)a->nr};

	return rows_launch("loss_grad", stream, op, a->nr, a->width,
			   address(a->log_p) | address(a->grad));
}

/* ---- accuracy: it runs once a training, over a split. Counts are whole, so atomics do. */

__global__ void __launch_bounds__(BLOCK) accuracy_kernel(const struct gcn_accuracy_args a)
{
	uint64_t i = blockIdx.x * (uint64_t)BLOCK + threadIdx.x;
	uint32_t right = 0;

	for (; i < a.nr; i += gridDim.x * (uint64_t)BLOCK) {
		const float *row = a.rows + i * a.width;
		uint32_t best = 0;
		float max = row[0];

		for (uint32_t j = 1; j < a.width; j++) {
			float x = row[j];

			best = x > max ? j : best;
			max = x > max ? x : max;
		}
		right += best == (uint64_t)a.label[a.index[i]];
	}
	right = __reduce_add_sync(~0u, right);
	if (threadIdx.x % 32 == 0 && right > 0)
		atomicAdd((unsigned long long *)a.right, (unsigned long long)right);
}

int gcn_cuda_accuracy(void *stream, const void *args)
{
	const struct gcn_accuracy_args *a = (const struct gcn_accuracy_args *)args;
	struct gcn_zero_args zero = {NULL, a->right, sizeof(*a->right)};
	int ret = gcn_cuda_zero(stream, &zero);

	if (ret || a->nr == 0)
		return ret;
	accuracy_kernel<<<grid_of(div_round_up(a->nr, BLOCK)), BLOCK, 0, (cudaStream_t)stream>>>(
		*a);
	return gcn_cuda_launched("accuracy");
}
