/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of training: each is one launch of one kernel, with the uses that the kernel has. The
 * uses are tested against what the kernels touch; a use that says too little breaks the results,
 * one that says too much costs time.
 */
#include <math.h>

#include "src/base/util.h"
#include "workloads/gcn/internal.h"
#include "workloads/gcn/rng.h"

#define LEARNING_RATE 0.01
#define BETA1 0.9
#define BETA2 0.999

static char *at(const struct gcn_tensor *t, uint64_t offset)
{
	/* A step that a failed allocation made void still computes its arguments. */
	return t->addr ? (char *)t->addr + offset : NULL;
}

static struct weir_use use_read_part(const struct gcn_tensor *t, uint64_t offset, uint64_t bytes)
{
	return (struct weir_use){
		.addr = at(t, offset),
		.bytes = bytes,
		.kind = WEIR_READ,
		.pattern = WEIR_STREAM,
		.read_bytes = bytes,
	};
}

static struct weir_use use_read(const struct gcn_tensor *t)
{
	return use_read_part(t, 0, t->bytes);
}

static struct weir_use use_overwrite(const struct gcn_tensor *t)
{
	return (struct weir_use){
		.addr = t->addr,
		.bytes = t->bytes,
		.kind = WEIR_OVERWRITE,
		.pattern = WEIR_STREAM,
		.write_bytes = t->bytes,
	};
}

/* Not touched, and nobody needs it any more. */
static struct weir_use use_discard(const struct gcn_tensor *t)
{
	return (struct weir_use){.addr = t->addr, .bytes = t->bytes, .kind = WEIR_DISCARD};
}

/* Read and written, each byte once. */
static struct weir_use use_update(const struct gcn_tensor *t)
{
	return (struct weir_use){
		.addr = t->addr,
		.bytes = t->bytes,
		.kind = WEIR_WRITE,
		.pattern = WEIR_STREAM,
		.read_bytes = t->bytes,
		.write_bytes = t->bytes,
	};
}

/* nr pieces of granule bytes, anywhere in the tensor. */
static struct weir_use use_read_pieces(const struct gcn_tensor *t, uint32_t granule, uint64_t nr)
{
	return (struct weir_use){
		.addr = t->addr,
		.bytes = t->bytes,
		.kind = WEIR_READ,
		.pattern = WEIR_RANDOM,
		.read_bytes = granule * nr,
		.granule = granule,
	};
}

static struct weir_use use_update_pieces(const struct gcn_tensor *t, uint32_t granule, uint64_t nr)
{
	struct weir_use use = use_read_pieces(t, granule, nr);

	use.kind = WEIR_WRITE;
	use.write_bytes = use.read_bytes;
	return use;
}

#define LAUNCH(g, kernel, args, uses, ops) \
	gcn_launch(g, kernel, &(args), sizeof(args), uses, (uint32_t)ARRAY_LEN(uses), ops)

void gcn_zero(struct gcn *g, struct gcn_tensor *out)
{
	struct gcn_zero_args args = {g->pool, out->addr, out->bytes};
	struct weir_use uses[] = {use_overwrite(out)};

	LAUNCH(g, &gcn_kernel_zero, args, uses, 0);
}

void gcn_gather(struct gcn *g, const struct gcn_tensor *index, uint64_t first, uint64_t nr,
		const struct gcn_tensor *src, uint32_t width, struct gcn_tensor *out)
{
	struct gcn_gather_args args = {
		.pool = g->pool,
		.index = (const int64_t *)(void *)at(index, 8 * first),
		.src = src->addr,
		.out = out->addr,
		.nr = nr,
		.width = width,
	};
	struct weir_use uses[] = {
		use_read_part(index, 8 * first, 8 * nr),
		use_read_pieces(src, 4 * width, nr),
		use_overwrite(out),
	};

	LAUNCH(g, &gcn_kernel_gather, args, uses, 0);
}

void gcn_scale(struct gcn *g, const struct gcn_tensor *weight, uint64_t first, uint64_t nr,
	       const struct gcn_tensor *in, uint32_t width, struct gcn_tensor *out)
{
	struct gcn_scale_args args = {
		.pool = g->pool,
		.in = in->addr,
		.weight = (const float *)(void *)at(weight, 4 * first),
		.out = out->addr,
		.nr = nr,
		.width = width,
	};
	struct weir_use uses[] = {
		use_read(in),
		use_read_part(weight, 4 * first, 4 * nr),
		use_overwrite(out),
	};

	LAUNCH(g, &gcn_kernel_scale, args, uses, 0);
}

void gcn_scatter_add(struct gcn *g, const struct gcn_tensor *index, uint64_t first, uint64_t nr,
		     const struct gcn_tensor *in, uint32_t width, struct gcn_tensor *out)
{
	struct gcn_scatter_add_args args = {
		.pool = g->pool,
		.index = (const int64_t *)(void *)at(index, 8 * first),
		.in = in->addr,
		.out = out->addr,
		.nr = nr,
		.out_rows = g->s.nodes,
		.width = width,
	};
	struct weir_use uses[] = {
		use_read_part(index, 8 * first, 8 * nr),
		use_read(in),
		use_update_pieces(out, 4 * width, nr),
	};

	LAUNCH(g, &gcn_kernel_scatter_add, args, uses, 0);
}

void gcn_select(struct gcn *g, const struct gcn_tensor *mask, struct gcn_tensor *index,
		uint64_t nr_index)
{
	struct gcn_select_args args = {g->pool, mask->addr, index->addr, g->s.nodes, nr_index};
	struct weir_use uses[] = {use_read(mask), use_overwrite(index)};

	LAUNCH(g, &gcn_kernel_select, args, uses, 0);
}

static double product_ops(const struct gcn *g, const struct gcn_layer *layer)
{
	return 2.0 * (double)g->s.nodes * layer->width_in * layer->width_out;
}

void gcn_linear(struct gcn *g, const struct gcn_layer *layer, const struct gcn_tensor *in,
		struct gcn_tensor *out)
{
	const struct gcn_tensor *weight = &layer->weight.value, *bias = &layer->bias.value;
	struct gcn_linear_args args = {
		.pool = g->pool,
		.in = in->addr,
		.weight = weight->addr,
		.bias = bias->addr,
		.out = out->addr,
		.nr = g->s.nodes,
		.width_in = layer->width_in,
		.width_out = layer->width_out,
	};
	struct weir_use uses[] = {
		use_read(in),
		use_read(weight),
		use_read(bias),
		use_overwrite(out),
	};

	LAUNCH(g, &gcn_kernel_linear, args, uses, product_ops(g, layer));
}

void gcn_linear_grad_in(struct gcn *g, const struct gcn_layer *layer, const struct gcn_tensor *in,
			const struct gcn_tensor *grad_out, struct gcn_tensor *grad_in)
{
	const struct gcn_tensor *weight = &layer->weight.value;
	struct gcn_linear_grad_in_args args = {
		.pool = g->pool,
		.grad_out = grad_out->addr,
		.weight = weight->addr,
		.grad_in = grad_in->addr,
		.nr = g->s.nodes,
		.width_in = layer->width_in,
		.width_out = layer->width_out,
	};
	struct weir_use uses[] = {
		use_read(grad_out),
		use_read(weight),
		use_overwrite(grad_in),
		use_discard(in),
	};

	LAUNCH(g, &gcn_kernel_linear_grad_in, args, uses, product_ops(g, layer));
}

void gcn_linear_grad_weight(struct gcn *g, struct gcn_layer *layer, const struct gcn_tensor *in,
			    const struct gcn_tensor *grad_out)
{
	struct gcn_tensor partial = g->workspace; /* as much of it as this layer needs */
	struct gcn_linear_grad_weight_args args = {
		.pool = g->pool,
		.in = in->addr,
		.grad_out = grad_out->addr,
		.partial = partial.addr,
		.grad_weight = layer->weight.grad.addr,
		.grad_bias = layer->bias.grad.addr,
		.nr = g->s.nodes,
		.part_rows = g->s.grad_part_rows,
		.nr_parts = g->s.grad_parts,
		.width_in = layer->width_in,
		.width_out = layer->width_out,
	};
	struct weir_use uses[5];

	partial.bytes =
		4 * (uint64_t)g->s.grad_parts * ((uint64_t)layer->width_in + 1) * layer->width_out;
	uses[0] = use_read(in);
	uses[1] = use_read(grad_out);
	uses[2] = use_overwrite(&partial);
	uses[2].read_bytes = partial.bytes;
	uses[3] = use_update(&layer->weight.grad);
	uses[4] = use_update(&layer->bias.grad);
	LAUNCH(g, &gcn_kernel_linear_grad_weight, args, uses, product_ops(g, layer));
}

void gcn_relu(struct gcn *g, const struct gcn_tensor *in, struct gcn_tensor *out)
{
	struct gcn_relu_args args = {g->pool, in->addr, out->addr, out->bytes / 4};
	struct weir_use uses[] = {use_read(in), use_overwrite(out)};

	LAUNCH(g, &gcn_kernel_relu, args, uses, 0);
}

void gcn_relu_grad(struct gcn *g, const struct gcn_tensor *out, const struct gcn_tensor *grad_out,
		   struct gcn_tensor *grad_in)
{
	struct gcn_relu_grad_args args = {g->pool, out->addr, grad_out->addr, grad_in->addr,
					  out->bytes / 4};
	struct weir_use uses[] = {use_read(out), use_read(grad_out), use_overwrite(grad_in)};

	LAUNCH(g, &gcn_kernel_relu_grad, args, uses, 0);
}

void gcn_dropout(struct gcn *g, uint32_t layer, const struct gcn_tensor *in, struct gcn_tensor *out,
		 struct gcn_tensor *mask)
{
	struct gcn_dropout_args args = {
		.pool = g->pool,
		.in = in->addr,
		.out = out->addr,
		.mask = mask->addr,
		.nr = mask->bytes,
		.key = gcn_rng_key(g->p->seed, GCN_RNG_DROPOUT, g->epoch, layer),
	};
	struct weir_use uses[] = {use_read(in), use_overwrite(out), use_overwrite(mask)};

	LAUNCH(g, &gcn_kernel_dropout, args, uses, 0);
}

void gcn_dropout_grad(struct gcn *g, const struct gcn_tensor *grad_out,
		      const struct gcn_tensor *mask, struct gcn_tensor *grad_in)
{
	struct gcn_dropout_grad_args args = {g->pool, grad_out->addr, mask->addr, grad_in->addr,
					     mask->bytes};
	struct weir_use uses[] = {use_read(grad_out), use_read(mask), use_overwrite(grad_in)};

	LAUNCH(g, &gcn_kernel_dropout_grad, args, uses, 0);
}

void gcn_loss(struct gcn *g, const struct gcn_tensor *rows, const struct gcn_tensor *index,
	      uint64_t nr, struct gcn_tensor *log_p)
{
	struct gcn_loss_args args = {
		.pool = g->pool,
		.rows = rows->addr,
		.index = index->addr,
		.label = g->label.addr,
		.log_p = log_p->addr,
		.loss = g->loss.addr,
		.nr = nr,
		.width = g->s.classes,
	};
	struct weir_use uses[] = {
		use_read(rows),	      use_read(index),	       use_read_pieces(&g->label, 8, nr),
		use_overwrite(log_p), use_overwrite(&g->loss),
	};

	uses[4].read_bytes = 8 * GCN_LOSS_PARTS;
	LAUNCH(g, &gcn_kernel_loss, args, uses, 0);
}

void gcn_loss_grad(struct gcn *g, const struct gcn_tensor *log_p, const struct gcn_tensor *index,
		   uint64_t nr, struct gcn_tensor *grad)
{
	struct gcn_loss_grad_args args = {
		.pool = g->pool,
		.log_p = log_p->addr,
		.index = index->addr,
		.label = g->label.addr,
		.grad = grad->addr,
		.nr = nr,
		.width = g->s.classes,
	};
	struct weir_use uses[] = {
		use_read(log_p),
		use_read(index),
		use_read_pieces(&g->label, 8, nr),
		use_overwrite(grad),
	};

	LAUNCH(g, &gcn_kernel_loss_grad, args, uses, 0);
}

void gcn_accuracy(struct gcn *g, const struct gcn_tensor *rows, const struct gcn_tensor *index,
		  uint64_t nr, struct gcn_tensor *right)
{
	struct gcn_accuracy_args args = {
		.pool = g->pool,
		.rows = rows->addr,
		.index = index->addr,
		.label = g->label.addr,
		.right = right->addr,
		.nr = nr,
		.width = g->s.classes,
	};
	struct weir_use uses[] = {
		use_read(rows),
		use_read(index),
		use_read_pieces(&g->label, 8, nr),
		use_overwrite(right),
	};

	LAUNCH(g, &gcn_kernel_accuracy, args, uses, 0);
}

void gcn_adam(struct gcn *g, struct gcn_param *param, uint32_t t)
{
	struct gcn_adam_args args = {
		.pool = g->pool,
		.param = param->value.addr,
		.moment1 = param->moment1.addr,
		.moment2 = param->moment2.addr,
		.grad = param->grad.addr,
		.nr = param->value.bytes / 4,
		.step_size = (float)(LEARNING_RATE / (1 - pow(BETA1, t))),
		.moment2_scale = (float)(1 / sqrt(1 - pow(BETA2, t))),
		.weight_decay = param->weight_decay,
	};
	struct weir_use uses[] = {
		use_update(&param->value),
		use_update(&param->moment1),
		use_update(&param->moment2),
		use_read(&param->grad),
	};

	LAUNCH(g, &gcn_kernel_adam, args, uses, 0);
}
