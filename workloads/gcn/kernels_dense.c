/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the linear layers. The products are OpenBLAS's, one thread a call, on runs of rows
 * whose lengths follow from the sizes: OpenBLAS rounds differently for different cuts, so it may
 * not choose them by its own count of threads.
 */
#include <cblas.h>

#include "workloads/gcn/kernels.h"
#include "workloads/gcn/cuda.h"
#include "workloads/gcn/parts.h"

/* Few enough that a call's counts are small, many enough that packing the weights is amortised. */
#define DENSE_ROWS 1024u

static void linear_part(const void *p, uint64_t part)
{
	const struct gcn_linear_args *a = p;
	struct gcn_run r = gcn_part(part, DENSE_ROWS, a->nr);
	int width_in = (int)a->width_in, width_out = (int)a->width_out;
	float *out = a->out + r.first * a->width_out;

	for (uint64_t i = 0; i < r.end - r.first; i++) {
		for (uint32_t j = 0; j < a->width_out; j++)
			out[i * a->width_out + j] = a->bias[j];
	}
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)(r.end - r.first), width_out,
		    width_in, 1, a->in + r.first * a->width_in, width_in, a->weight, width_out, 1,
		    out, width_out);
}

static void linear_cpu(const void *p)
{
	const struct gcn_linear_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, DENSE_ROWS), linear_part, a);
}

const struct weir_kernel gcn_kernel_linear = {
	.name = "linear", .cpu = linear_cpu, .cuda = gcn_cuda_run_linear};

static void linear_grad_in_part(const void *p, uint64_t part)
{
	const struct gcn_linear_grad_in_args *a = p;
	struct gcn_run r = gcn_part(part, DENSE_ROWS, a->nr);
	int width_in = (int)a->width_in, width_out = (int)a->width_out;

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)(r.end - r.first), width_in,
		    width_out, 1, a->grad_out + r.first * a->width_out, width_out, a->weight,
		    width_out, 0, a->grad_in + r.first * a->width_in, width_in);
}

static void linear_grad_in_cpu(const void *p)
{
	const struct gcn_linear_grad_in_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, DENSE_ROWS), linear_grad_in_part, a);
}

const struct weir_kernel gcn_kernel_linear_grad_in = {
	.name = "linear_grad_in", .cpu = linear_grad_in_cpu, .cuda = gcn_cuda_run_linear_grad_in};

static uint64_t grad_weight_partial(const struct gcn_linear_grad_weight_args *a)
{
	return ((uint64_t)a->width_in + 1) * a->width_out;
}

/* One partial product: width_in rows of it, then the row of bias sums. */
static void linear_grad_weight_part(const void *p, uint64_t part)
{
	const struct gcn_linear_grad_weight_args *a = p;
	struct gcn_run r = gcn_part(part, a->part_rows, a->nr);
	int width_in = (int)a->width_in, width_out = (int)a->width_out;
	const float *grad_out = a->grad_out + r.first * a->width_out;
	float *partial = a->partial + part * grad_weight_partial(a);
	float *bias = partial + (uint64_t)a->width_in * a->width_out;

	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, width_in, width_out,
		    (int)(r.end - r.first), 1, a->in + r.first * a->width_in, width_in, grad_out,
		    width_out, 0, partial, width_out);
	for (uint32_t j = 0; j < a->width_out; j++)
		bias[j] = 0;
	for (uint64_t i = 0; i < r.end - r.first; i++) {
		for (uint32_t j = 0; j < a->width_out; j++)
			bias[j] += grad_out[i * a->width_out + j];
	}
}

/* One row of the gradients, of the bias for the last: its partial sums, added in order. */
static void linear_grad_weight_sum(const void *p, uint64_t row)
{
	const struct gcn_linear_grad_weight_args *a = p;
	uint64_t stride = grad_weight_partial(a);
	const float *partial = a->partial + row * a->width_out;
	float *grad = row < a->width_in ? a->grad_weight + row * a->width_out : a->grad_bias;

	for (uint32_t part = 0; part < a->nr_parts; part++) {
		for (uint32_t j = 0; j < a->width_out; j++)
			grad[j] += partial[part * stride + j];
	}
}

static void linear_grad_weight_cpu(const void *p)
{
	const struct gcn_linear_grad_weight_args *a = p;

	gcn_pool_run(a->pool, a->nr_parts, linear_grad_weight_part, a);
	gcn_pool_run(a->pool, (uint64_t)a->width_in + 1, linear_grad_weight_sum, a);
}

const struct weir_kernel gcn_kernel_linear_grad_weight = {.name = "linear_grad_weight",
							  .cpu = linear_grad_weight_cpu,
							  .cuda = gcn_cuda_run_linear_grad_weight};
