/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the GCN workload and their arguments. steps.c declares what each one touches;
 * nothing here allocates. Matrices are dense, by rows, fp32; index arrays are int64.
 *
 * Results depend on the data alone: work is cut into parts that write disjoint memory, and where
 * sums cross parts, the cuts and the order of addition follow from the sizes, never from the
 * number of threads or from addresses.
 *
 * Every argument begins with the pool that runs the parts; NULL runs them on the caller.
 */
#ifndef WEIR_GCN_KERNELS_H
#define WEIR_GCN_KERNELS_H

#include <stdint.h>

#include "weir/weir.h"
#include "workloads/gcn/pool.h"

/* out = 0, bytes of it. */
struct gcn_zero_args {
	struct gcn_pool *pool;
	void *out;
	uint64_t bytes;
};
extern const struct weir_kernel gcn_kernel_zero;

/* out[i] = src[index[i]], rows of width floats, nr of them. */
struct gcn_gather_args {
	struct gcn_pool *pool;
	const int64_t *index;
	const float *src;
	float *out;
	uint64_t nr;
	uint32_t width;
};
extern const struct weir_kernel gcn_kernel_gather;

/* out[i] = in[i] * weight[i], rows of width floats, nr of them. */
struct gcn_scale_args {
	struct gcn_pool *pool;
	const float *in, *weight;
	float *out;
	uint64_t nr;
	uint32_t width;
};
extern const struct weir_kernel gcn_kernel_scale;

/* out[index[i]] += in[i]: each row receives its additions in the order of i; on CUDA in any. */
struct gcn_scatter_add_args {
	struct gcn_pool *pool;
	const int64_t *index;
	const float *in;
	float *out;
	uint64_t nr, out_rows;
	uint32_t width;
};
extern const struct weir_kernel gcn_kernel_scatter_add;

/* index = the rows whose mask byte is not 0, in order; there are nr_index of them. */
struct gcn_select_args {
	struct gcn_pool *pool;
	const uint8_t *mask;
	int64_t *index;
	uint64_t nr, nr_index;
};
extern const struct weir_kernel gcn_kernel_select;

/* out = in * weight + bias: in nr x width_in, weight width_in x width_out. */
struct gcn_linear_args {
	struct gcn_pool *pool;
	const float *in, *weight, *bias;
	float *out;
	uint64_t nr;
	uint32_t width_in, width_out;
};
extern const struct weir_kernel gcn_kernel_linear;

/* grad_in = grad_out * transposed weight. */
struct gcn_linear_grad_in_args {
	struct gcn_pool *pool;
	const float *grad_out, *weight;
	float *grad_in;
	uint64_t nr;
	uint32_t width_in, width_out;
};
extern const struct weir_kernel gcn_kernel_linear_grad_in;

/*
 * grad_weight += transposed in * grad_out; grad_bias += sum of grad_out's rows. partial: nr_parts
 * times width_in * width_out products and width_out sums, overwritten; part p covers rows
 * [p * part_rows, (p + 1) * part_rows).
 */
struct gcn_linear_grad_weight_args {
	struct gcn_pool *pool;
	const float *in, *grad_out;
	float *partial, *grad_weight, *grad_bias;
	uint64_t nr, part_rows;
	uint32_t nr_parts;
	uint32_t width_in, width_out;
};
extern const struct weir_kernel gcn_kernel_linear_grad_weight;

/* out = max(in, 0); grad_in = out > 0 ? grad_out : 0. */
struct gcn_relu_args {
	struct gcn_pool *pool;
	const float *in;
	float *out;
	uint64_t nr;
};
extern const struct weir_kernel gcn_kernel_relu;

struct gcn_relu_grad_args {
	struct gcn_pool *pool;
	const float *out, *grad_out;
	float *grad_in;
	uint64_t nr;
};
extern const struct weir_kernel gcn_kernel_relu_grad;

/* Drop with probability 1/2: mask[i] = bit i of key's sequence, out = mask ? 2 * in : 0. */
struct gcn_dropout_args {
	struct gcn_pool *pool;
	const float *in;
	float *out;
	uint8_t *mask;
	uint64_t nr, key;
};
extern const struct weir_kernel gcn_kernel_dropout;

struct gcn_dropout_grad_args {
	struct gcn_pool *pool;
	const float *grad_out;
	const uint8_t *mask;
	float *grad_in;
	uint64_t nr;
};
extern const struct weir_kernel gcn_kernel_dropout_grad;

/*
 * log_p = log-softmax of each of nr rows; loss[0] = mean over the rows i of -log_p[i] at the label
 * of node index[i]; loss[1 ..] = the sums of GCN_LOSS_PARTS runs of rows.
 */
struct gcn_loss_args {
	struct gcn_pool *pool;
	const float *rows;
	const int64_t *index, *label;
	float *log_p;
	double *loss;
	uint64_t nr;
	uint32_t width;
};
extern const struct weir_kernel gcn_kernel_loss;

/* grad = (exp(log_p) - one-hot label) / nr. */
struct gcn_loss_grad_args {
	struct gcn_pool *pool;
	const float *log_p;
	const int64_t *index, *label;
	float *grad;
	uint64_t nr;
	uint32_t width;
};
extern const struct weir_kernel gcn_kernel_loss_grad;

/* *right = the number of rows whose largest element, the first of equals, is at their label. */
struct gcn_accuracy_args {
	struct gcn_pool *pool;
	const float *rows;
	const int64_t *index, *label;
	uint64_t *right;
	uint64_t nr;
	uint32_t width;
};
extern const struct weir_kernel gcn_kernel_accuracy;

/* One step of Adam on nr parameters; weight decay is added to the gradient. */
struct gcn_adam_args {
	struct gcn_pool *pool;
	float *param, *moment1, *moment2;
	const float *grad;
	uint64_t nr;
	float step_size;     /* learning rate / (1 - beta1^t) */
	float moment2_scale; /* 1 / sqrt(1 - beta2^t) */
	float weight_decay;
};
extern const struct weir_kernel gcn_kernel_adam;

#endif
