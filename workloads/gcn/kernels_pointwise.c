/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that compute each element from those at the same place: ReLU, dropout, Adam.
 */
#include "workloads/gcn/kernels.h"

#include <math.h>

#include "workloads/gcn/cuda.h"
#include "workloads/gcn/parts.h"
#include "workloads/gcn/rng.h"

/* A multiple of 64: a dropout part begins at a word of random bits. */
#define UNIT 65536u

static void relu_part(const void *p, uint64_t part)
{
	const struct gcn_relu_args *a = p;
	struct gcn_run r = gcn_part(part, UNIT, a->nr);

	for (uint64_t i = r.first; i < r.end; i++)
		a->out[i] = a->in[i] > 0 ? a->in[i] : 0;
}

static void relu_cpu(const void *p)
{
	const struct gcn_relu_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, UNIT), relu_part, a);
}

const struct weir_kernel gcn_kernel_relu = {
	.name = "relu", .cpu = relu_cpu, .cuda = gcn_cuda_run_relu};

static void relu_grad_part(const void *p, uint64_t part)
{
	const struct gcn_relu_grad_args *a = p;
	struct gcn_run r = gcn_part(part, UNIT, a->nr);

	for (uint64_t i = r.first; i < r.end; i++) {
		float grad =
			a->grad_out[i]; /* read in any case: the load is declared as a stream */

		a->grad_in[i] = a->out[i] > 0 ? grad : 0;
	}
}

static void relu_grad_cpu(const void *p)
{
	const struct gcn_relu_grad_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, UNIT), relu_grad_part, a);
}

const struct weir_kernel gcn_kernel_relu_grad = {
	.name = "relu_grad", .cpu = relu_grad_cpu, .cuda = gcn_cuda_run_relu_grad};

static void dropout_part(const void *p, uint64_t part)
{
	const struct gcn_dropout_args *a = p;
	struct gcn_run r = gcn_part(part, UNIT, a->nr);

	for (uint64_t word = r.first; word < r.end; word += 64) {
		uint64_t bits = gcn_rng_bits(a->key, word / 64);
		uint64_t end = r.end - word < 64 ? r.end : word + 64;

		for (uint64_t i = word; i < end; i++) {
			uint8_t keep = bits >> (i - word) & 1;
			float in = a->in[i];

			a->mask[i] = keep;
			a->out[i] = keep ? 2 * in : 0;
		}
	}
}

static void dropout_cpu(const void *p)
{
	const struct gcn_dropout_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, UNIT), dropout_part, a);
}

const struct weir_kernel gcn_kernel_dropout = {
	.name = "dropout", .cpu = dropout_cpu, .cuda = gcn_cuda_run_dropout};

static void dropout_grad_part(const void *p, uint64_t part)
{
	const struct gcn_dropout_grad_args *a = p;
	struct gcn_run r = gcn_part(part, UNIT, a->nr);

	for (uint64_t i = r.first; i < r.end; i++) {
		float grad = a->grad_out[i];

		a->grad_in[i] = a->mask[i] ? 2 * grad : 0;
	}
}

static void dropout_grad_cpu(const void *p)
{
	const struct gcn_dropout_grad_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, UNIT), dropout_grad_part, a);
}

const struct weir_kernel gcn_kernel_dropout_grad = {
	.name = "dropout_grad", .cpu = dropout_grad_cpu, .cuda = gcn_cuda_run_dropout_grad};

/* The complements are not computed: 1 - 0.999f is off by 1e-5 of itself. */
#define ADAM_BETA1 0.9f
#define ADAM_BETA1_REST 0.1f
#define ADAM_BETA2 0.999f
#define ADAM_BETA2_REST 0.001f
#define ADAM_EPSILON 1e-8f

static void adam_part(const void *p, uint64_t part)
{
	const struct gcn_adam_args *a = p;
	struct gcn_run r = gcn_part(part, UNIT, a->nr);

	for (uint64_t i = r.first; i < r.end; i++) {
		float grad = a->grad[i] + a->weight_decay * a->param[i];
		float m1 = ADAM_BETA1 * a->moment1[i] + ADAM_BETA1_REST * grad;
		float m2 = ADAM_BETA2 * a->moment2[i] + ADAM_BETA2_REST * grad * grad;

		a->moment1[i] = m1;
		a->moment2[i] = m2;
		a->param[i] -= a->step_size * m1 / (sqrtf(m2) * a->moment2_scale + ADAM_EPSILON);
	}
}

static void adam_cpu(const void *p)
{
	const struct gcn_adam_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, UNIT), adam_part, a);
}

const struct weir_kernel gcn_kernel_adam = {
	.name = "adam", .cpu = adam_cpu, .cuda = gcn_cuda_run_adam};
