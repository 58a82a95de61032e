/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training: the order of allocations, launches and frees of an epoch. The order is the workload,
 * and makes its peak: do not tidy it. Names in capitals follow docs/gcn.md.
 */
#include "workloads/gcn/internal.h"

#include "src/base/util.h"

/* What the forward pass leaves for the backward pass. */
struct saved {
	struct gcn_tensor input; /* of the first layer: x, or x after dropout */
	struct gcn_tensor relu, dropout, mask;
	struct gcn_tensor out; /* O2 */
};

static uint64_t matrix_bytes(const struct gcn *g, uint32_t width)
{
	return 4 * g->s.nodes * width;
}

/* out[to] += weight * in[from], over all entries, a slice at a time. */
static void aggregate(struct gcn *g, const struct gcn_tensor *from, const struct gcn_tensor *to,
		      const struct gcn_tensor *in, uint32_t width, struct gcn_tensor *out)
{
	struct gcn_tensor rows, scaled;

	for (uint64_t first = 0; first < g->s.entries && !g->status; first += g->s.slice) {
		uint64_t left = g->s.entries - first;
		uint64_t nr = MIN(left, g->s.slice);

		gcn_alloc(g, &rows, "slice rows", 4 * nr * width);
		gcn_gather(g, from, first, nr, in, width, &rows);
		gcn_alloc(g, &scaled, "slice scaled", 4 * nr * width);
		gcn_scale(g, &g->weight, first, nr, &rows, width, &scaled);
		gcn_scatter_add(g, to, first, nr, &scaled, width, out);
		gcn_free(g, &rows);
		gcn_free(g, &scaled);
	}
}

/* One layer without its activation: out = aggregate(linear(in)). */
static void layer_forward(struct gcn *g, const struct gcn_layer *layer, const struct gcn_tensor *in,
			  const char *name_linear, const char *name_out, struct gcn_tensor *out)
{
	uint64_t bytes = matrix_bytes(g, layer->width_out);
	struct gcn_tensor linear;

	gcn_alloc(g, &linear, name_linear, bytes);
	gcn_linear(g, layer, in, &linear);
	gcn_alloc(g, out, name_out, bytes);
	gcn_zero(g, out);
	aggregate(g, &g->src, &g->dst, &linear, layer->width_out, out);
	gcn_free(g, &linear);
}

static void forward(struct gcn *g, struct saved *s)
{
	uint64_t bytes = matrix_bytes(g, g->s.hidden);
	struct gcn_tensor o1;

	s->input = g->x;
	if (g->s.input_dropout) {
		struct gcn_tensor mask;

		gcn_alloc(g, &s->input, "X dropout", g->x.bytes);
		gcn_alloc(g, &mask, "X mask", g->x.bytes / 4);
		gcn_dropout(g, 0, &g->x, &s->input, &mask);
		gcn_free(g, &mask); /* x has no gradient */
	}
	layer_forward(g, &g->layer[0], &s->input, "A1", "O1", &o1);
	gcn_alloc(g, &s->relu, "R", bytes);
	gcn_relu(g, &o1, &s->relu);
	gcn_free(g, &o1);
	gcn_alloc(g, &s->dropout, "D", bytes);
	gcn_alloc(g, &s->mask, "D mask", bytes / 4);
	gcn_dropout(g, 1, &s->relu, &s->dropout, &s->mask);
	layer_forward(g, &g->layer[1], &s->dropout, "A2", "O2", &s->out);
}

/* Rows of O2 at the nodes of a mask, and their indexes. */
static void gather_split(struct gcn *g, const struct gcn_tensor *mask, uint64_t nr,
			 struct gcn_tensor *out, struct gcn_tensor *index, struct gcn_tensor *rows)
{
	gcn_alloc(g, index, "split index", 8 * nr);
	gcn_select(g, mask, index, nr);
	gcn_alloc(g, rows, "split rows", 4 * nr * g->s.classes);
	gcn_gather(g, index, 0, nr, out, g->s.classes, rows);
	gcn_free(g, out);
}

/* Loss over the training rows and its way back to O2: takes O2, leaves its gradient. */
static void loss(struct gcn *g, struct gcn_tensor *out, struct gcn_tensor *grad_out)
{
	uint64_t nr = g->s.train;
	struct gcn_tensor index, rows, log_p, grad_rows;

	gather_split(g, &g->train_mask, nr, out, &index, &rows);
	gcn_alloc(g, &log_p, "log P", rows.bytes);
	gcn_loss(g, &rows, &index, nr, &log_p);
	gcn_free(g, &rows);

	gcn_alloc(g, &grad_rows, "grad split rows", log_p.bytes);
	gcn_loss_grad(g, &log_p, &index, nr, &grad_rows);
	gcn_free(g, &log_p);
	gcn_alloc(g, grad_out, "grad O2", matrix_bytes(g, g->s.classes));
	gcn_zero(g, grad_out);
	gcn_scatter_add(g, &index, 0, nr, &grad_rows, g->s.classes, grad_out);
	gcn_free(g, &grad_rows);
	gcn_free(g, &index);
}

/* Back through an aggregation: source and destination change places. */
static void aggregate_grad(struct gcn *g, const struct gcn_tensor *grad_out, uint32_t width,
			   const char *name, struct gcn_tensor *grad_in)
{
	gcn_alloc(g, grad_in, name, matrix_bytes(g, width));
	gcn_zero(g, grad_in);
	aggregate(g, &g->dst, &g->src, grad_out, width, grad_in);
}

/* Takes what forward saved, and the gradient of O2. */
static void backward(struct gcn *g, struct saved *s, struct gcn_tensor *grad_o2)
{
	uint64_t bytes = matrix_bytes(g, g->s.hidden);
	struct gcn_tensor grad_a2, grad_d, grad_r, grad_o1, grad_a1;

	aggregate_grad(g, grad_o2, g->s.classes, "grad A2", &grad_a2);
	gcn_linear_grad_weight(g, &g->layer[1], &s->dropout, &grad_a2);
	gcn_alloc(g, &grad_d, "grad D", bytes); /* the peak */
	gcn_linear_grad_in(g, &g->layer[1], &s->dropout, &grad_a2, &grad_d);
	gcn_free(g, &s->dropout);
	gcn_free(g, &grad_a2);
	gcn_free(g, grad_o2);

	gcn_alloc(g, &grad_r, "grad R", bytes);
	gcn_dropout_grad(g, &grad_d, &s->mask, &grad_r);
	gcn_free(g, &grad_d);
	gcn_free(g, &s->mask);

	gcn_alloc(g, &grad_o1, "grad O1", bytes);
	gcn_relu_grad(g, &s->relu, &grad_r, &grad_o1);
	gcn_free(g, &s->relu);
	gcn_free(g, &grad_r);

	aggregate_grad(g, &grad_o1, g->s.hidden, "grad A1", &grad_a1);
	gcn_free(g, &grad_o1);
	gcn_linear_grad_weight(g, &g->layer[0], &s->input, &grad_a1);
	gcn_free(g, &grad_a1);
	if (g->s.input_dropout)
		gcn_free(g, &s->input);
}

void gcn_epoch(struct gcn *g)
{
	struct saved s;
	struct gcn_tensor grad_o2;

	for (int i = 0; i < 2; i++) {
		gcn_zero(g, &g->layer[i].weight.grad);
		gcn_zero(g, &g->layer[i].bias.grad);
	}
	forward(g, &s);
	loss(g, &s.out, &grad_o2);
	backward(g, &s, &grad_o2);
	for (int i = 0; i < 2; i++) {
		gcn_adam(g, &g->layer[i].weight, g->epoch + 1);
		gcn_adam(g, &g->layer[i].bias, g->epoch + 1);
	}
}

void gcn_evaluate(struct gcn *g, const struct graph *graph, double *accuracy)
{
	uint64_t nr = g->s.test, nr_right = 0;
	struct gcn_tensor o1, relu, o2, mask, index, rows, right;

	layer_forward(g, &g->layer[0], &g->x, "A1", "O1", &o1);
	gcn_alloc(g, &relu, "R", matrix_bytes(g, g->s.hidden));
	gcn_relu(g, &o1, &relu);
	gcn_free(g, &o1);
	layer_forward(g, &g->layer[1], &relu, "A2", "O2", &o2);
	gcn_free(g, &relu);

	gcn_alloc(g, &mask, "test mask", g->s.nodes);
	gcn_data_split(g, graph, GRAPH_TEST, &mask);
	gather_split(g, &mask, nr, &o2, &index, &rows);
	gcn_free(g, &mask);
	gcn_alloc(g, &right, "right", sizeof(nr_right));
	gcn_accuracy(g, &rows, &index, nr, &right);
	gcn_read(g, &nr_right, &right, sizeof(nr_right));
	gcn_free(g, &right);
	gcn_free(g, &rows);
	gcn_free(g, &index);
	if (!g->status && !g->phantom)
		*accuracy = (double)nr_right / (double)nr;
}
