/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the loss and of the accuracy, over rows that were gathered before. Labels stay where
 * they are and are looked up by the rows' nodes.
 */
#include "workloads/gcn/kernels.h"

#include <math.h>

#include "workloads/gcn/cuda.h"
#include "workloads/gcn/parts.h"
#include "workloads/gcn/shape.h"

static uint64_t loss_unit(uint64_t nr)
{
	return gcn_nr_parts(nr, GCN_LOSS_PARTS);
}

static void log_softmax(const float *restrict row, float *restrict log_p, uint32_t width)
{
	float max = row[0], sum, log_sum;

	for (uint32_t j = 1; j < width; j++)
		max = row[j] > max ? row[j] : max;
	sum = expf(row[0] - max);
	for (uint32_t j = 1; j < width; j++)
		sum += expf(row[j] - max);
	log_sum = logf(sum) + max;
	for (uint32_t j = 0; j < width; j++)
		log_p[j] = row[j] - log_sum;
}

/* Parts beyond the last row are empty: their sums are written as 0. */
static void loss_part(const void *p, uint64_t part)
{
	const struct gcn_loss_args *a = p;
	uint64_t unit = loss_unit(a->nr);
	struct gcn_run r = {0, 0};
	double sum = 0;

	if (part < gcn_nr_parts(a->nr, unit))
		r = gcn_part(part, unit, a->nr);
	for (uint64_t i = r.first; i < r.end; i++) {
		log_softmax(a->rows + i * a->width, a->log_p + i * a->width, a->width);
		sum -= (double)a->log_p[i * a->width + (uint64_t)a->label[a->index[i]]];
	}
	a->loss[1 + part] = sum;
}

static void loss_cpu(const void *p)
{
	const struct gcn_loss_args *a = p;
	double sum = 0;

	gcn_pool_run(a->pool, GCN_LOSS_PARTS, loss_part, a);
	for (uint32_t part = 0; part < GCN_LOSS_PARTS; part++)
		sum += a->loss[1 + part];
	a->loss[0] = sum / (double)a->nr;
}

const struct weir_kernel gcn_kernel_loss = {
	.name = "loss", .cpu = loss_cpu, .cuda = gcn_cuda_run_loss};

static void loss_grad_part(const void *p, uint64_t part)
{
	const struct gcn_loss_grad_args *a = p;
	struct gcn_run r = gcn_part(part, gcn_rows_unit(a->width), a->nr);
	float scale = 1 / (float)a->nr;

	for (uint64_t i = r.first; i < r.end; i++) {
		const float *restrict log_p = a->log_p + i * a->width;
		float *restrict grad = a->grad + i * a->width;
		uint64_t label = (uint64_t)a->label[a->index[i]];

		for (uint32_t j = 0; j < a->width; j++)
			grad[j] = (expf(log_p[j]) - (j == label ? 1.0f : 0.0f)) * scale;
	}
}

static void loss_grad_cpu(const void *p)
{
	const struct gcn_loss_grad_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, gcn_rows_unit(a->width)), loss_grad_part, a);
}

const struct weir_kernel gcn_kernel_loss_grad = {
	.name = "loss_grad", .cpu = loss_grad_cpu, .cuda = gcn_cuda_run_loss_grad};

/* One thread: it runs once a training, over a split. */
static void accuracy_cpu(const void *p)
{
	const struct gcn_accuracy_args *a = p;
	uint64_t right = 0;

	for (uint64_t i = 0; i < a->nr; i++) {
		const float *row = a->rows + i * a->width;
		uint32_t best = 0;

		for (uint32_t j = 1; j < a->width; j++)
			best = row[j] > row[best] ? j : best;
		right += best == (uint64_t)a->label[a->index[i]];
	}
	*a->right = right;
}

const struct weir_kernel gcn_kernel_accuracy = {
	.name = "accuracy", .cpu = accuracy_cpu, .cuda = gcn_cuda_run_accuracy};
