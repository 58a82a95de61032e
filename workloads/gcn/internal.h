/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the GCN workload share: the run and its steps.
 *
 * A step that fails stores its error in the run, and every step after it does nothing: the order
 * of a training epoch, which is what this workload is about, then reads as it is written in
 * docs/gcn.md. Whoever loops over steps, or needs their outcome, looks at status.
 */
#ifndef WEIR_GCN_INTERNAL_H
#define WEIR_GCN_INTERNAL_H

#include "workloads/gcn/gcn.h"
#include "workloads/gcn/kernels.h"
#include "workloads/gcn/shape.h"

/* Memory of the manager. addr NULL: not allocated. */
struct gcn_tensor {
	void *addr;
	uint64_t bytes;
	const char *name;
};

/* A parameter tensor, and what training keeps for it. */
struct gcn_param {
	struct gcn_tensor value, grad, moment1, moment2;
	float weight_decay;
};

struct gcn_layer {
	struct gcn_param weight, bias;
	uint32_t width_in, width_out;
};

/* Most tensors that live at one time: 7 of data, 18 of the layers and workspaces, 9 of a phase. */
#define GCN_LIVE_MAX 48u

/*
 * One run. Invariant: live[0 .. nr_live) are the addresses allocated from the manager and not yet
 * freed, in order of allocation.
 */
struct gcn {
	struct manager *m;	    /* borrowed */
	const struct gcn_params *p; /* borrowed */
	struct gcn_shape s;
	struct gcn_pool *pool; /* NULL on a phantom machine */
	bool phantom;

	int status; /* the first error; steps do nothing once it is set */
	char *err;  /* what became of it, in words */
	size_t err_bytes;

	void *live[GCN_LIVE_MAX];
	uint32_t nr_live;
	uint32_t nr_launches; /* since progress was polled */
	uint32_t epoch;	      /* in progress; = epochs done */

	struct gcn_tensor x, label, train_mask;
	struct gcn_tensor edge; /* [2, edges] as given: kept, as a program would, and not used */
	struct gcn_tensor src, dst, weight;
	struct gcn_layer layer[2];
	struct gcn_tensor workspace; /* of weight gradients */
	struct gcn_tensor loss;	     /* doubles: the mean, then partial sums */
};

/* ---- run.c: status, memory, launches */

/* Set the status, unless one is set, and the line for it (printf). */
__attribute__((format(printf, 3, 4))) void gcn_fail(struct gcn *g, int status, const char *format,
						    ...);

void gcn_alloc(struct gcn *g, struct gcn_tensor *t, const char *name, uint64_t bytes);

/* Done whatever the status; nothing when t is not allocated. */
void gcn_free(struct gcn *g, struct gcn_tensor *t);

/* Free all that lives, last allocated first, whatever the status. */
void gcn_free_all(struct gcn *g);

void gcn_launch(struct gcn *g, const struct weir_kernel *kernel, const void *args,
		size_t args_bytes, const struct weir_use *uses, uint32_t nr_uses, double ops);

/* data: NULL on a phantom machine. */
void gcn_write(struct gcn *g, const struct gcn_tensor *t, uint64_t offset, const void *data,
	       uint64_t bytes);
void gcn_read(struct gcn *g, void *data, const struct gcn_tensor *t, uint64_t bytes);
void gcn_sync(struct gcn *g);

/* Ask progress whether to go on. */
void gcn_poll(struct gcn *g);

/* ---- steps.c: one launch each, with the uses it declares */

void gcn_zero(struct gcn *g, struct gcn_tensor *out);

/* Entries [first, first + nr) of index, or of weight. */
void gcn_gather(struct gcn *g, const struct gcn_tensor *index, uint64_t first, uint64_t nr,
		const struct gcn_tensor *src, uint32_t width, struct gcn_tensor *out);
void gcn_scale(struct gcn *g, const struct gcn_tensor *weight, uint64_t first, uint64_t nr,
	       const struct gcn_tensor *in, uint32_t width, struct gcn_tensor *out);
void gcn_scatter_add(struct gcn *g, const struct gcn_tensor *index, uint64_t first, uint64_t nr,
		     const struct gcn_tensor *in, uint32_t width, struct gcn_tensor *out);
void gcn_select(struct gcn *g, const struct gcn_tensor *mask, struct gcn_tensor *index,
		uint64_t nr_index);

void gcn_linear(struct gcn *g, const struct gcn_layer *layer, const struct gcn_tensor *in,
		struct gcn_tensor *out);
/* Discards in, the layer's input: nobody reads it after the gradients of the weights. */
void gcn_linear_grad_in(struct gcn *g, const struct gcn_layer *layer, const struct gcn_tensor *in,
			const struct gcn_tensor *grad_out, struct gcn_tensor *grad_in);
/* Adds to the gradients of the layer's parameters. */
void gcn_linear_grad_weight(struct gcn *g, struct gcn_layer *layer, const struct gcn_tensor *in,
			    const struct gcn_tensor *grad_out);

void gcn_relu(struct gcn *g, const struct gcn_tensor *in, struct gcn_tensor *out);
void gcn_relu_grad(struct gcn *g, const struct gcn_tensor *out, const struct gcn_tensor *grad_out,
		   struct gcn_tensor *grad_in);

/* layer: tells the dropouts of an epoch apart. */
void gcn_dropout(struct gcn *g, uint32_t layer, const struct gcn_tensor *in, struct gcn_tensor *out,
		 struct gcn_tensor *mask);
void gcn_dropout_grad(struct gcn *g, const struct gcn_tensor *grad_out,
		      const struct gcn_tensor *mask, struct gcn_tensor *grad_in);

/* Of nr rows, whose nodes are in index. */
void gcn_loss(struct gcn *g, const struct gcn_tensor *rows, const struct gcn_tensor *index,
	      uint64_t nr, struct gcn_tensor *log_p);
void gcn_loss_grad(struct gcn *g, const struct gcn_tensor *log_p, const struct gcn_tensor *index,
		   uint64_t nr, struct gcn_tensor *grad);
void gcn_accuracy(struct gcn *g, const struct gcn_tensor *rows, const struct gcn_tensor *index,
		  uint64_t nr, struct gcn_tensor *right);

/* t: steps done, this one included. */
void gcn_adam(struct gcn *g, struct gcn_param *param, uint32_t t);

/* ---- data.c: from parameters or a graph (NULL: random) to the resident tensors */

void gcn_data_create(struct gcn *g, const struct graph *graph);

/* The mask of a split of a graph, nodes bytes, into t. */
void gcn_data_split(struct gcn *g, const struct graph *graph, enum graph_split split,
		    struct gcn_tensor *t);

/* ---- train.c */

/* One epoch: clear gradients, forward, loss, backward, step. */
void gcn_epoch(struct gcn *g);

/* Forward without dropout; the share of the test split that is right, left alone when phantom. */
void gcn_evaluate(struct gcn *g, const struct graph *graph, double *accuracy);

#endif
