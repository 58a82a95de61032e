/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the linear layers: products by cuBLAS in plain fp32, and what goes around them.
 *
 * cuBLAS knows matrices by columns: what is n x m here, by rows, is its m x n. So out = in * weight
 * is asked for as transposed out = transposed weight * transposed in, and nothing is transposed.
 *
 * Results are the same bits on every run on one kind of GPU and version of cuBLAS. They differ from
 * the CPU's by rounding: the order of additions in a product is cuBLAS's.
 */
#include "workloads/gcn/cuda/blas.cuh"
#include "workloads/gcn/cuda/launch.cuh"

/* Rows of one product, which then has no size beyond 31 bits. */
#define DENSE_ROWS (UINT64_C(1) << 20)

/* What cuBLASLt takes for granted of its matrices unless told. */
#define ALIGNMENT_MAX 256u

static const float one = 1, none = 0;

/* Things of the stream, cuBLAS among them, for a layer of these widths. */
static int dense_begin(const char *name, void *stream, uint32_t width_in, uint32_t width_out,
		       struct gcn_cuda_stream *s)
{
	if (width_in == 0 || width_out == 0 || width_in > INT32_MAX || width_out > INT32_MAX)
		return gcn_cuda_fail(-EINVAL, "%s: no layer is %u x %u", name, width_in, width_out);
	return gcn_cuda_stream_get(stream, true, s);
}

static uint64_t rows_at_once(uint64_t left)
{
	return left < DENSE_ROWS ? left : DENSE_ROWS;
}

/* ---- linear */

struct bias_op {
	const float *bias;
	float *out;

	typedef uint32_t key; /* none: the bias is the same for all rows */

	__device__ key key_of(uint64_t) const
	{
		return 0;
	}

	template <int V> __device__ pack<V> load(key, uint64_t at, uint32_t) const
	{
		return load_once<V>(out + at);
	}

	template <int V>
	__device__ void store(key, uint64_t at, uint32_t column, pack<V> x, bool valid) const
	{
#pragma unroll
		for (int k = 0; k < V; k++)
			x.f[k] += __ldg(bias + column + k);
		store_once<V>(out + at, x, valid);
	}
};

/* The product, then a pass over it for the bias. */
static int linear_two_passes(const struct gcn_cuda_stream *s, const struct gcn_linear_args *a)
{
	const struct blas *b = gcn_cuda_blas();
	struct bias_op op = {a->bias, a->out};
	int width_in = (int)a->width_in, width_out = (int)a->width_out;
	int ret = gcn_cuda_blas_checked(
		b->cublasSgemm_v2((cublasHandle_t)s->blas, CUBLAS_OP_N, CUBLAS_OP_N, width_out,
				  (int)a->nr, width_in, &one, a->weight, width_out, a->in, width_in,
				  &none, a->out, width_out),
		"linear");

	if (ret)
		return ret;
	return rows_launch("linear", s->stream, op, a->nr, a->width_out, address(a->out));
}

/* What cuBLASLt wants to know of a product with bias. */
struct fused {
	cublasLtMatmulDesc_t product;
	cublasLtMatrixLayout_t weight, in, out;
	cublasLtMatmulPreference_t preference;
	cublasLtMatmulHeuristicResult_t found;
};

static uint32_t alignment_of(uintptr_t bits)
{
	uintptr_t lowest = bits & -bits;

	return lowest && lowest < ALIGNMENT_MAX ? (uint32_t)lowest : ALIGNMENT_MAX;
}

static cublasStatus_t fused_prepare(struct fused *f, const struct blas *b,
				    const struct gcn_cuda_stream *s,
				    const struct gcn_linear_args *a)
{
	const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
	const size_t workspace_bytes = WORKSPACE_BYTES;
	const uint32_t align_weight = alignment_of(address(a->weight));
	const uint32_t align_in = alignment_of(address(a->in));
	const uint32_t align_out = alignment_of(address(a->out) | address(a->bias));
	cublasStatus_t status;
	int nr = 0;

#define TRY(call)                                    \
	do {                                         \
		status = (call);                     \
		if (status != CUBLAS_STATUS_SUCCESS) \
			return status;               \
	} while (0)
#define SET_PRODUCT(name, value)                                                               \
	TRY(b->cublasLtMatmulDescSetAttribute(f->product, CUBLASLT_MATMUL_DESC_##name, &value, \
					      sizeof(value)))
#define SET_PREFERENCE(name, value)                                                             \
	TRY(b->cublasLtMatmulPreferenceSetAttribute(f->preference, CUBLASLT_MATMUL_PREF_##name, \
						    &value, sizeof(value)))

	TRY(b->cublasLtMatmulDescCreate(&f->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	SET_PRODUCT(EPILOGUE, epilogue);
	SET_PRODUCT(BIAS_POINTER, a->bias);
	TRY(b->cublasLtMatrixLayoutCreate(&f->weight, CUDA_R_32F, a->width_out, a->width_in,
					  a->width_out));
	TRY(b->cublasLtMatrixLayoutCreate(&f->in, CUDA_R_32F, a->width_in, a->nr, a->width_in));
	TRY(b->cublasLtMatrixLayoutCreate(&f->out, CUDA_R_32F, a->width_out, a->nr, a->width_out));
	TRY(b->cublasLtMatmulPreferenceCreate(&f->preference));
	SET_PREFERENCE(MAX_WORKSPACE_BYTES, workspace_bytes);
	SET_PREFERENCE(MIN_ALIGNMENT_A_BYTES, align_weight);
	SET_PREFERENCE(MIN_ALIGNMENT_B_BYTES, align_in);
	SET_PREFERENCE(MIN_ALIGNMENT_C_BYTES, align_out);
	SET_PREFERENCE(MIN_ALIGNMENT_D_BYTES, align_out);
	TRY(b->cublasLtMatmulAlgoGetHeuristic((cublasLtHandle_t)s->blas, f->product, f->weight,
					      f->in, f->out, f->out, f->preference, 1, &f->found,
					      &nr));
	return nr > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
#undef TRY
#undef SET_PRODUCT
#undef SET_PREFERENCE
}

static void fused_drop(const struct fused *f, const struct blas *b)
{
	if (f->preference)
		b->cublasLtMatmulPreferenceDestroy(f->preference);
	if (f->out)
		b->cublasLtMatrixLayoutDestroy(f->out);
	if (f->in)
		b->cublasLtMatrixLayoutDestroy(f->in);
	if (f->weight)
		b->cublasLtMatrixLayoutDestroy(f->weight);
	if (f->product)
		b->cublasLtMatmulDescDestroy(f->product);
}

/* The product with the bias in its epilogue: out is written once and not read, which counts where
 * out lies behind a link. A cuBLAS handle is a cuBLASLt handle too. */
static cublasStatus_t linear_fused(const struct gcn_cuda_stream *s, const struct gcn_linear_args *a)
{
	const struct blas *b = gcn_cuda_blas();
	struct fused f = {};
	cublasStatus_t status = fused_prepare(&f, b, s, a);

	if (status == CUBLAS_STATUS_SUCCESS)
		status = b->cublasLtMatmul((cublasLtHandle_t)s->blas, f.product, &one, a->weight,
					   f.weight, a->in, f.in, &none, a->out, f.out, a->out,
					   f.out, &f.found.algo, s->workspace, WORKSPACE_BYTES,
					   (cudaStream_t)s->stream);
	fused_drop(&f, b);
	return status;
}

/* cuBLASLt need not know every product, and is not asked for those that are vectors. */
static int linear_rows(const struct gcn_cuda_stream *s, const struct gcn_linear_args *a)
{
	cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;

	if (a->width_in > 1 && a->width_out > 1 && a->nr > 1)
		status = linear_fused(s, a);
	if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
		return linear_two_passes(s, a);
	return gcn_cuda_blas_checked(status, "linear");
}

int gcn_cuda_linear(void *stream, const void *args)
{
	struct gcn_linear_args a = *(const struct gcn_linear_args *)args;
	struct gcn_cuda_stream s;
	int ret = dense_begin("linear", stream, a.width_in, a.width_out, &s);

	for (uint64_t left = a.nr; left > 0 && !ret; left -= a.nr) {
		a.nr = rows_at_once(left);
		ret = linear_rows(&s, &a);
		a.in += a.nr * a.width_in;
		a.out += a.nr * a.width_out;
	}
	return ret;
}

/* ---- linear_grad_in */

int gcn_cuda_linear_grad_in(void *stream, const void *args)
{
	struct gcn_linear_grad_in_args a = *(const struct gcn_linear_grad_in_args *)args;
	struct gcn_cuda_stream s;
	int width_in = (int)a.width_in, width_out = (int)a.width_out;
	int ret = dense_begin("linear_grad_in", stream, a.width_in, a.width_out, &s);

	for (uint64_t left = a.nr; left > 0 && !ret; left -= a.nr) {
		a.nr = rows_at_once(left);
		ret = gcn_cuda_blas_checked(
			gcn_cuda_blas()->cublasSgemm_v2((cublasHandle_t)s.blas, CUBLAS_OP_T,
							CUBLAS_OP_N, width_in, (int)a.nr, width_out,
							&one, a.weight, width_out, a.grad_out,
							width_out, &none, a.grad_in, width_in),
			"linear_grad_in");
		a.grad_out += a.nr * a.width_out;
		a.grad_in += a.nr * a.width_in;
	}
	return ret;
}

/* ---- linear_grad_weight
 *
 * As on the CPU, a sum of nr_parts partial products; but the parts are equally long here, since
 * they run side by side, and the fewer than nr_parts rows that remain make a product of their own.
 * One batch of partial products occupies the GPU where one product, of few elements and millions
 * of terms, would not, and keeps sums of fp32 short.
 */

#define BIAS_BLOCK 512u
#define BIAS_LOADS 8u /* in flight a thread: there is about one block on a multiprocessor */

struct bias_sums {
	const float *grad_out;
	float *sums; /* of the first part; others follow at stride */
	uint64_t nr, part_rows, stride;
	uint32_t width;
};

template <int V> __device__ __forceinline__ pack<V> pack_sum(pack<V> a, pack<V> b)
{
#pragma unroll
	for (int k = 0; k < V; k++)
		a.f[k] += b.f[k];
	return a;
}

/*
 * Sums of the columns of grad_out: a block has a part (x; the last also the rows that remain) and
 * up to BIAS_BLOCK columns of packs (y). A thread keeps to its column, in every n-th row.
 */
template <int V>
__global__ void __launch_bounds__(BIAS_BLOCK, 2) bias_sums_kernel(const struct bias_sums a)
{
	__shared__ pack<V> shared[BIAS_BLOCK];
	const uint32_t first_column = blockIdx.y * BIAS_BLOCK;
	const uint32_t columns = min(a.width / V - first_column, BIAS_BLOCK);
	const uint32_t at_once = BIAS_BLOCK / columns;
	const uint32_t column = threadIdx.x % columns, r = threadIdx.x / columns;
	const uint64_t first = blockIdx.x * a.part_rows;
	const uint64_t end = blockIdx.x + 1 == gridDim.x ? a.nr : first + a.part_rows;
	const float *in = a.grad_out + (uint64_t)(first_column + column) * V;
	pack<V> sum = {};

	if (r < at_once) {
		uint64_t row = first + r;

		for (; row + (BIAS_LOADS - 1) * at_once < end; row += BIAS_LOADS * at_once) {
			pack<V> x[BIAS_LOADS];

#pragma unroll
			for (uint32_t u = 0; u < BIAS_LOADS; u++)
				x[u] = load_once<V>(in + (row + u * at_once) * a.width);
#pragma unroll
			for (uint32_t u = 0; u < BIAS_LOADS; u++)
				sum = pack_sum<V>(sum, x[u]);
		}
		for (; row < end; row += at_once)
			sum = pack_sum<V>(sum, load_once<V>(in + row * a.width));
		shared[threadIdx.x] = sum;
	}
	__syncthreads();
	if (r != 0)
		return;
	for (uint32_t other = 1; other < at_once; other++)
		sum = pack_sum<V>(sum, shared[other * columns + column]);
#pragma unroll
	for (int k = 0; k < V; k++)
		a.sums[blockIdx.x * a.stride + (first_column + column) * (uint64_t)V + k] =
			sum.f[k];
}

static int bias_sums_launch(void *stream, const struct gcn_linear_grad_weight_args *a,
			    uint64_t part_rows)
{
	uint64_t products = (uint64_t)a->width_in * a->width_out;
	struct bias_sums sums = {a->grad_out, a->partial + products,   a->nr,
				 part_rows,   products + a->width_out, a->width_out};
	uint32_t width = pack_width(address(a->grad_out) | 4 * (uintptr_t)a->width_out);
	dim3 grid(a->nr_parts, (unsigned int)div_round_up(a->width_out / width, BIAS_BLOCK));
	cudaStream_t cs = (cudaStream_t)stream;

	if (width == 4)
		bias_sums_kernel<4><<<grid, BIAS_BLOCK, 0, cs>>>(sums);
	else if (width == 2)
		bias_sums_kernel<2><<<grid, BIAS_BLOCK, 0, cs>>>(sums);
	else
		bias_sums_kernel<1><<<grid, BIAS_BLOCK, 0, cs>>>(sums);
	return gcn_cuda_launched("linear_grad_weight");
}

/* Add all parts to the gradients, in their order: an element a thread. */
__global__ void __launch_bounds__(BLOCK)
	grad_weight_sum_kernel(const struct gcn_linear_grad_weight_args a)
{
	const uint64_t products = (uint64_t)a.width_in * a.width_out;
	const uint64_t stride = products + a.width_out;
	uint64_t e = blockIdx.x * (uint64_t)BLOCK + threadIdx.x;

	for (; e < stride; e += gridDim.x * (uint64_t)BLOCK) {
		float *grad = e < products ? a.grad_weight + e : a.grad_bias + (e - products);
		float sum = *grad;

#pragma unroll 8
		for (uint32_t part = 0; part < a.nr_parts; part++)
			sum += __ldcs(a.partial + part * stride + e);
		*grad = sum;
	}
}

static int grad_weight_products(const struct gcn_cuda_stream *s,
				const struct gcn_linear_grad_weight_args *a, uint64_t part_rows)
{
	const struct blas *b = gcn_cuda_blas();
	cublasHandle_t handle = (cublasHandle_t)s->blas;
	uint64_t done = part_rows * a->nr_parts;
	int width_in = (int)a->width_in, width_out = (int)a->width_out;
	cublasStatus_t status = b->cublasSgemmStridedBatched(
		handle, CUBLAS_OP_N, CUBLAS_OP_T, width_out, width_in, (int)part_rows, &one,
		a->grad_out, width_out, (long long)(part_rows * a->width_out), a->in, width_in,
		(long long)(part_rows * a->width_in), &none, a->partial, width_out,
		((long long)width_in + 1) * width_out, (int)a->nr_parts);

	if (status == CUBLAS_STATUS_SUCCESS && done < a->nr)
		status = b->cublasSgemm_v2(
			handle, CUBLAS_OP_N, CUBLAS_OP_T, width_out, width_in, (int)(a->nr - done),
			&one, a->grad_out + done * a->width_out, width_out,
			a->in + done * a->width_in, width_in, &one, a->grad_weight, width_out);
	return gcn_cuda_blas_checked(status, "linear_grad_weight");
}

int gcn_cuda_linear_grad_weight(void *stream, const void *args)
{
	const struct gcn_linear_grad_weight_args *a =
		(const struct gcn_linear_grad_weight_args *)args;
	uint64_t part_rows, elements = ((uint64_t)a->width_in + 1) * a->width_out;
	struct gcn_cuda_stream s;
	int ret = dense_begin("linear_grad_weight", stream, a->width_in, a->width_out, &s);

	if (ret || a->nr == 0)
		return ret;
	part_rows = a->nr_parts > 0 ? a->nr / a->nr_parts : 0;
	if (part_rows == 0 || part_rows > INT32_MAX || a->nr_parts > INT32_MAX)
		return gcn_cuda_fail(-EINVAL, "linear_grad_weight: %u parts of %llu rows",
				     a->nr_parts, (unsigned long long)a->nr);
	ret = bias_sums_launch(stream, a, part_rows);
	if (!ret)
		ret = grad_weight_products(&s, a, part_rows);
	if (ret)
		return ret;
	grad_weight_sum_kernel<<<grid_of(div_round_up(elements, BLOCK)), BLOCK, 0,
				 (cudaStream_t)stream>>>(*a);
	return gcn_cuda_launched("linear_grad_weight");
}
