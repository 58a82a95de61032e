/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libweir-gcn-fake.so: the GCN workload's CUDA kernels (workloads/gcn/cuda/plugin.h) for the fake
 * driver. Each is the CPU's, queued as a kernel that touches the arrays of its arguments, so that a
 * training on the CUDA backend has the bits of one on the simulator. WEIR_CUDA_KERNELS names it.
 *
 * It runs kernels on the driver's threads and without a pool. It needs nothing of a stream, but for
 * the stream's device to be the thread's where the real library would take memory there.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/fakecuda/plugin.h"
#include "workloads/gcn/cuda/plugin.h"
#include "workloads/gcn/shape.h"

/*
 * Rows of what is looked up by a node's number: sources of gather, and labels. Their arguments do
 * not say, and indexes cannot be read here, where work is queued. Every epoch begins with a linear
 * layer over all nodes. Trainings on several numbers of nodes at a time are not for this library.
 */
static atomic_uint_fast64_t nr_nodes;

const char *gcn_cuda_error(void)
{
	return error_text;
}

uint64_t gcn_cuda_abi(void)
{
	return gcn_cuda_abi_here();
}

static bool device_is_current(void *stream)
{
	return fakecuda_stream_device(stream) == fakecuda_current_device();
}

int gcn_cuda_stream_add(void *stream)
{
	if (device_is_current(stream))
		return 0;
	snprintf(error_text, sizeof(error_text), "the stream is of device %d, the thread of %d",
		 fakecuda_stream_device(stream), fakecuda_current_device());
	return -EIO;
}

void gcn_cuda_stream_del(void *stream)
{
	if (!device_is_current(stream))
		abort(); /* a call that cannot fail has no other way to tell a test */
}

/* ---- queueing */

/* Queue the CPU's kernel with these touches; a is a copy of the arguments. */
#define QUEUE(name, stream, a, ...)                                                        \
	do {                                                                               \
		const struct fakecuda_touch touch[] = {__VA_ARGS__};                       \
                                                                                           \
		(a).pool = NULL;                                                           \
		return queue(stream, #name, gcn_kernel_##name.cpu, &(a), sizeof(a), touch, \
			     sizeof(touch) / sizeof(touch[0]));                            \
	} while (0)

/* ---- kernels */

int gcn_cuda_zero(void *stream, const void *args)
{
	struct gcn_zero_args a = *(const struct gcn_zero_args *)args;

	QUEUE(zero, stream, a, {a.out, a.bytes, true});
}

int gcn_cuda_gather(void *stream, const void *args)
{
	struct gcn_gather_args a = *(const struct gcn_gather_args *)args;

	QUEUE(gather, stream, a, READS(a.index, a.nr), READS(a.src, nr_nodes * a.width),
	      WRITES(a.out, a.nr * a.width));
}

int gcn_cuda_scale(void *stream, const void *args)
{
	struct gcn_scale_args a = *(const struct gcn_scale_args *)args;

	QUEUE(scale, stream, a, READS(a.in, a.nr * a.width), READS(a.weight, a.nr),
	      WRITES(a.out, a.nr * a.width));
}

int gcn_cuda_scatter_add(void *stream, const void *args)
{
	struct gcn_scatter_add_args a = *(const struct gcn_scatter_add_args *)args;

	QUEUE(scatter_add, stream, a, READS(a.index, a.nr), READS(a.in, a.nr * a.width),
	      WRITES(a.out, a.out_rows * a.width));
}

int gcn_cuda_select(void *stream, const void *args)
{
	struct gcn_select_args a = *(const struct gcn_select_args *)args;

	QUEUE(select, stream, a, READS(a.mask, a.nr), WRITES(a.index, a.nr_index));
}

int gcn_cuda_linear(void *stream, const void *args)
{
	struct gcn_linear_args a = *(const struct gcn_linear_args *)args;

	nr_nodes = a.nr;
	QUEUE(linear, stream, a, READS(a.in, a.nr * a.width_in),
	      READS(a.weight, (uint64_t)a.width_in * a.width_out), READS(a.bias, a.width_out),
	      WRITES(a.out, a.nr * a.width_out));
}

int gcn_cuda_linear_grad_in(void *stream, const void *args)
{
	struct gcn_linear_grad_in_args a = *(const struct gcn_linear_grad_in_args *)args;

	QUEUE(linear_grad_in, stream, a, READS(a.grad_out, a.nr * a.width_out),
	      READS(a.weight, (uint64_t)a.width_in * a.width_out),
	      WRITES(a.grad_in, a.nr * a.width_in));
}

int gcn_cuda_linear_grad_weight(void *stream, const void *args)
{
	struct gcn_linear_grad_weight_args a = *(const struct gcn_linear_grad_weight_args *)args;
	uint64_t product = (uint64_t)a.width_in * a.width_out;

	QUEUE(linear_grad_weight, stream, a, READS(a.in, a.nr * a.width_in),
	      READS(a.grad_out, a.nr * a.width_out),
	      WRITES(a.partial, a.nr_parts * (product + a.width_out)),
	      WRITES(a.grad_weight, product), WRITES(a.grad_bias, a.width_out));
}

int gcn_cuda_relu(void *stream, const void *args)
{
	struct gcn_relu_args a = *(const struct gcn_relu_args *)args;

	QUEUE(relu, stream, a, READS(a.in, a.nr), WRITES(a.out, a.nr));
}

int gcn_cuda_relu_grad(void *stream, const void *args)
{
	struct gcn_relu_grad_args a = *(const struct gcn_relu_grad_args *)args;

	QUEUE(relu_grad, stream, a, READS(a.out, a.nr), READS(a.grad_out, a.nr),
	      WRITES(a.grad_in, a.nr));
}

int gcn_cuda_dropout(void *stream, const void *args)
{
	struct gcn_dropout_args a = *(const struct gcn_dropout_args *)args;

	QUEUE(dropout, stream, a, READS(a.in, a.nr), WRITES(a.out, a.nr), WRITES(a.mask, a.nr));
}

int gcn_cuda_dropout_grad(void *stream, const void *args)
{
	struct gcn_dropout_grad_args a = *(const struct gcn_dropout_grad_args *)args;

	QUEUE(dropout_grad, stream, a, READS(a.grad_out, a.nr), READS(a.mask, a.nr),
	      WRITES(a.grad_in, a.nr));
}

int gcn_cuda_loss(void *stream, const void *args)
{
	struct gcn_loss_args a = *(const struct gcn_loss_args *)args;

	QUEUE(loss, stream, a, READS(a.rows, a.nr * a.width), READS(a.index, a.nr),
	      READS(a.label, nr_nodes), WRITES(a.log_p, a.nr * a.width),
	      WRITES(a.loss, 1 + (uint64_t)GCN_LOSS_PARTS));
}

int gcn_cuda_loss_grad(void *stream, const void *args)
{
	struct gcn_loss_grad_args a = *(const struct gcn_loss_grad_args *)args;

	QUEUE(loss_grad, stream, a, READS(a.log_p, a.nr * a.width), READS(a.index, a.nr),
	      READS(a.label, nr_nodes), WRITES(a.grad, a.nr * a.width));
}

int gcn_cuda_accuracy(void *stream, const void *args)
{
	struct gcn_accuracy_args a = *(const struct gcn_accuracy_args *)args;

	QUEUE(accuracy, stream, a, READS(a.rows, a.nr * a.width), READS(a.index, a.nr),
	      READS(a.label, nr_nodes), WRITES(a.right, 1));
}

int gcn_cuda_adam(void *stream, const void *args)
{
	struct gcn_adam_args a = *(const struct gcn_adam_args *)args;

	QUEUE(adam, stream, a, READS(a.grad, a.nr), WRITES(a.param, a.nr), WRITES(a.moment1, a.nr),
	      WRITES(a.moment2, a.nr));
}
