/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each kernel touches, against what its launch declares; and what it computes, against a
 * plain re-implementation that also counts the bytes it reads and writes.
 *
 * Small trainings are run, and every launch of them is examined: all tensors lie in pages of their
 * own, all protected; faults show which pages the kernel reads and writes. It runs again with
 * other garbage in what it overwrites, and must leave the same bytes. Slices are such that their
 * parts of the entry arrays are whole pages.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/test_gcn_fake.h"
#include "tests/unit/test_gcn_planted.h"
#include "workloads/gcn/gcn.h"
#include "workloads/gcn/kernels.h"
#include "workloads/gcn/rng.h"
#include "workloads/gcn/shape.h"

#define PAGE 4096u
#define SLICE 1024u /* entries: 8 KiB of indexes, 4 KiB of weights */
#define USES_MAX 8

/* ------------------------------------------------------------------ pages touched */

enum page_state { PAGE_UNTOUCHED, PAGE_READ, PAGE_WRITTEN };

static struct fake *traced; /* while a kernel runs under protection */
static uint8_t *page_state[FAKE_TENSORS_MAX];

static void trace_fault(int sig, siginfo_t *info, void *context)
{
	struct fake_tensor *t = NULL;
	size_t page;

	(void)context;
	/* By whole pages: the tail of a tensor's last page is protected with it. */
	for (int i = 0; traced && !t && i < FAKE_TENSORS_MAX; i++) {
		char *base = traced->tensor[i].base, *at = info->si_addr;

		if (base && at >= base && at < base + traced->tensor[i].mapped_bytes)
			t = &traced->tensor[i];
	}
	if (!t) {
		signal(sig, SIG_DFL);
		return;
	}
	page = (size_t)((char *)info->si_addr - t->base) / PAGE;
	/* The first fault of a page may be of either kind: a write faults a second time. */
	page_state[t - traced->tensor][page]++;
	mprotect(t->base + page * PAGE, PAGE,
		 page_state[t - traced->tensor][page] == PAGE_READ ? PROT_READ
								   : PROT_READ | PROT_WRITE);
}

static void trace_run(struct fake *f, const struct weir_launch *launch)
{
	struct sigaction action = {.sa_sigaction = trace_fault, .sa_flags = SA_SIGINFO}, old;

	for (int i = 0; i < FAKE_TENSORS_MAX; i++) {
		if (!f->tensor[i].addr)
			continue;
		page_state[i] = calloc(f->tensor[i].mapped_bytes / PAGE, 1);
		assert_non_null(page_state[i]);
		assert_int_equal(mprotect(f->tensor[i].base, f->tensor[i].mapped_bytes, PROT_NONE),
				 0);
	}
	traced = f;
	sigaction(SIGSEGV, &action, &old);
	launch->kernel->cpu(launch->args);
	sigaction(SIGSEGV, &old, NULL);
	traced = NULL;
	for (int i = 0; i < FAKE_TENSORS_MAX; i++) {
		if (f->tensor[i].addr)
			mprotect(f->tensor[i].base, f->tensor[i].mapped_bytes,
				 PROT_READ | PROT_WRITE);
	}
}

/* The strongest access that the uses allow to a page: of a write use, if any. */
static const struct weir_use *use_of_page(const struct weir_launch *launch, const char *page)
{
	const struct weir_use *found = NULL;

	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];
		const char *first = use->addr;

		if (page + PAGE > first && page < first + use->bytes &&
		    (!found || use->kind != WEIR_READ))
			found = use;
	}
	return found;
}

static void check_page(const struct weir_launch *launch, const struct fake_tensor *t, size_t page,
		       uint8_t state)
{
	const struct weir_use *use = use_of_page(launch, t->base + page * PAGE);
	bool wrong = false;

	if (!use || use->kind == WEIR_DISCARD)
		wrong = state != PAGE_UNTOUCHED;
	else if (use->kind == WEIR_READ)
		wrong = state == PAGE_WRITTEN ||
			(use->pattern == WEIR_STREAM && state == PAGE_UNTOUCHED);
	else if (use->kind == WEIR_OVERWRITE || use->pattern == WEIR_STREAM)
		wrong = state != PAGE_WRITTEN;
	if (wrong)
		fail_msg("%s: page %zu of '%s' has state %u, declared kind %d",
			 launch->kernel->name, page, t->name, state, use ? (int)use->kind : -1);
}

static void check_pages(struct fake *f, const struct weir_launch *launch)
{
	for (int i = 0; i < FAKE_TENSORS_MAX; i++) {
		struct fake_tensor *t = &f->tensor[i];

		if (!t->addr)
			continue;
		for (size_t page = 0; page < t->mapped_bytes / PAGE; page++)
			check_page(launch, t, page, page_state[i][page]);
		free(page_state[i]);
		page_state[i] = NULL;
	}
}

/* ------------------------------------------------------------------ contents */

static char *snapshot[FAKE_TENSORS_MAX];

static void snapshot_take(struct fake *f)
{
	for (int i = 0; i < FAKE_TENSORS_MAX; i++) {
		if (!f->tensor[i].addr)
			continue;
		snapshot[i] = malloc(f->tensor[i].mapped_bytes);
		assert_non_null(snapshot[i]);
		memcpy(snapshot[i], f->tensor[i].base, f->tensor[i].mapped_bytes);
	}
}

static void snapshot_drop(void)
{
	for (int i = 0; i < FAKE_TENSORS_MAX; i++) {
		free(snapshot[i]);
		snapshot[i] = NULL;
	}
}

/* Back to the snapshot, with garbage in what is declared as overwritten or discarded. */
static void prepare(struct fake *f, const struct weir_launch *launch, int garbage)
{
	for (int i = 0; i < FAKE_TENSORS_MAX; i++) {
		if (f->tensor[i].addr)
			memcpy(f->tensor[i].base, snapshot[i], f->tensor[i].mapped_bytes);
	}
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		if (launch->uses[i].kind == WEIR_OVERWRITE || launch->uses[i].kind == WEIR_DISCARD)
			memset(launch->uses[i].addr, garbage, launch->uses[i].bytes);
	}
}

static char *output[USES_MAX];

static void outputs_save(const struct weir_launch *launch)
{
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];

		output[i] = NULL;
		if (use->kind == WEIR_READ || use->kind == WEIR_DISCARD)
			continue;
		output[i] = malloc(use->bytes);
		assert_non_null(output[i]);
		memcpy(output[i], use->addr, use->bytes);
	}
}

static void outputs_check(const struct weir_launch *launch)
{
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];

		if (output[i] && memcmp(output[i], use->addr, use->bytes))
			fail_msg("%s: use %u depends on what it overwrites, or is not written "
				 "whole",
				 launch->kernel->name, i);
	}
}

/* Put the kernel's own outputs back, and drop them. */
static void outputs_restore(const struct weir_launch *launch)
{
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		if (output[i])
			memcpy(launch->uses[i].addr, output[i], launch->uses[i].bytes);
		free(output[i]);
		output[i] = NULL;
	}
}

/* No byte outside the written and discarded parts has changed, tails of pages included. */
static void check_bystanders(struct fake *f, const struct weir_launch *launch)
{
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];
		struct fake_tensor *t = fake_find(f, use->addr, use->bytes);

		if (use->kind != WEIR_READ)
			memcpy(snapshot[t - f->tensor] + ((char *)use->addr - t->base), use->addr,
			       use->bytes);
	}
	for (int i = 0; i < FAKE_TENSORS_MAX; i++) {
		struct fake_tensor *t = &f->tensor[i];

		if (t->addr && memcmp(t->base, snapshot[i], t->mapped_bytes))
			fail_msg("%s: wrote to '%s' outside its uses", launch->kernel->name,
				 t->name);
	}
}

/* ------------------------------------------------------------------ the re-implementation */

static const struct weir_launch *counted; /* the launch that is re-implemented */
static uint64_t read_bytes[USES_MAX], write_bytes[USES_MAX];

static uint32_t use_at(const void *addr)
{
	for (uint32_t i = 0; i < counted->nr_uses; i++) {
		const char *first = counted->uses[i].addr;

		if ((const char *)addr >= first &&
		    (const char *)addr < first + counted->uses[i].bytes)
			return i;
	}
	fail_msg("%s: touches what no use names", counted->kernel->name);
	return 0;
}

/* They count and touch; p is evaluated twice. */
#define LD(p) (read_bytes[use_at(p)] += sizeof(*(p)), *(p))
#define ST(p, v) (write_bytes[use_at(p)] += sizeof(*(p)), *(p) = (v))

static void ref_zero(const void *p)
{
	const struct gcn_zero_args *a = p;

	for (uint64_t i = 0; i < a->bytes; i++)
		ST((uint8_t *)a->out + i, 0);
}

static void ref_gather(const void *p)
{
	const struct gcn_gather_args *a = p;

	for (uint64_t i = 0; i < a->nr; i++) {
		int64_t row = LD(a->index + i);

		for (uint32_t j = 0; j < a->width; j++)
			ST(a->out + i * a->width + j, LD(a->src + row * a->width + j));
	}
}

static void ref_scale(const void *p)
{
	const struct gcn_scale_args *a = p;

	for (uint64_t i = 0; i < a->nr; i++) {
		float weight = LD(a->weight + i);

		for (uint32_t j = 0; j < a->width; j++)
			ST(a->out + i * a->width + j, weight * LD(a->in + i * a->width + j));
	}
}

static void ref_scatter_add(const void *p)
{
	const struct gcn_scatter_add_args *a = p;

	for (uint64_t i = 0; i < a->nr; i++) {
		int64_t row = LD(a->index + i);
		float *out = a->out + row * a->width;

		for (uint32_t j = 0; j < a->width; j++)
			ST(out + j, LD(out + j) + LD(a->in + i * a->width + j));
	}
}

static void ref_select(const void *p)
{
	const struct gcn_select_args *a = p;
	int64_t *index = a->index;

	for (uint64_t i = 0; i < a->nr; i++) {
		if (!LD(a->mask + i))
			continue;
		ST(index, (int64_t)i);
		index++;
	}
}

/* A copy of a matrix, each element loaded once. */
static float *ref_load(const float *from, uint64_t nr)
{
	float *to = malloc(nr * sizeof(*to));

	assert_non_null(to);
	for (uint64_t i = 0; i < nr; i++)
		to[i] = LD(from + i);
	return to;
}

static void ref_linear(const void *p)
{
	const struct gcn_linear_args *a = p;
	float *in = ref_load(a->in, a->nr * a->width_in);
	float *weight = ref_load(a->weight, (uint64_t)a->width_in * a->width_out);
	float *bias = ref_load(a->bias, a->width_out);

	for (uint64_t i = 0; i < a->nr; i++) {
		for (uint32_t j = 0; j < a->width_out; j++) {
			double sum = (double)bias[j];

			for (uint32_t k = 0; k < a->width_in; k++)
				sum += (double)in[i * a->width_in + k] *
				       (double)weight[k * a->width_out + j];
			ST(a->out + i * a->width_out + j, (float)sum);
		}
	}
	free(in);
	free(weight);
	free(bias);
}

static void ref_linear_grad_in(const void *p)
{
	const struct gcn_linear_grad_in_args *a = p;
	float *grad_out = ref_load(a->grad_out, a->nr * a->width_out);
	float *weight = ref_load(a->weight, (uint64_t)a->width_in * a->width_out);

	for (uint64_t i = 0; i < a->nr; i++) {
		for (uint32_t k = 0; k < a->width_in; k++) {
			double sum = 0;

			for (uint32_t j = 0; j < a->width_out; j++)
				sum += (double)grad_out[i * a->width_out + j] *
				       (double)weight[k * a->width_out + j];
			ST(a->grad_in + i * a->width_in + k, (float)sum);
		}
	}
	free(grad_out);
	free(weight);
}

/* Partial sums are made as declared; only their total is compared, in the gradients. */
static void ref_linear_grad_weight(const void *p)
{
	const struct gcn_linear_grad_weight_args *a = p;
	float *in = ref_load(a->in, a->nr * a->width_in);
	float *grad_out = ref_load(a->grad_out, a->nr * a->width_out);
	uint64_t partial = ((uint64_t)a->width_in + 1) * a->width_out;

	for (uint64_t e = 0; e < partial; e++) {
		uint64_t k = e / a->width_out, j = e % a->width_out;
		float *grad = k < a->width_in ? a->grad_weight + e : a->grad_bias + j;
		float total = LD(grad);

		for (uint64_t part = 0; part < a->nr_parts; part++) {
			double sum = 0;

			for (uint64_t i = part * a->part_rows;
			     i < a->nr && i < (part + 1) * a->part_rows; i++)
				sum += (k < a->width_in ? (double)in[i * a->width_in + k] : 1) *
				       (double)grad_out[i * a->width_out + j];
			ST(a->partial + part * partial + e, (float)sum);
			total += LD(a->partial + part * partial + e);
		}
		ST(grad, total);
	}
	free(in);
	free(grad_out);
}

static void ref_relu(const void *p)
{
	const struct gcn_relu_args *a = p;

	for (uint64_t i = 0; i < a->nr; i++)
		ST(a->out + i, fmaxf(LD(a->in + i), 0));
}

static void ref_relu_grad(const void *p)
{
	const struct gcn_relu_grad_args *a = p;

	for (uint64_t i = 0; i < a->nr; i++)
		ST(a->grad_in + i, (LD(a->out + i) > 0) * LD(a->grad_out + i));
}

static void ref_dropout(const void *p)
{
	const struct gcn_dropout_args *a = p;
	uint64_t nr_kept = 0;

	for (uint64_t i = 0; i < a->nr; i++) {
		uint8_t keep = gcn_rng_bits(a->key, i / 64) >> i % 64 & 1;

		nr_kept += keep;
		ST(a->mask + i, keep);
		ST(a->out + i, LD(a->in + i) * (keep ? 2.0f : 0.0f));
	}
	/* Within six standard deviations of a half. */
	assert_true(fabs((double)nr_kept - (double)a->nr / 2) < 3 * sqrt((double)a->nr));
}

static void ref_dropout_grad(const void *p)
{
	const struct gcn_dropout_grad_args *a = p;

	for (uint64_t i = 0; i < a->nr; i++)
		ST(a->grad_in + i, 2 * LD(a->grad_out + i) * (float)LD(a->mask + i));
}

static void ref_loss(const void *p)
{
	const struct gcn_loss_args *a = p;
	uint64_t part_rows = (a->nr + GCN_LOSS_PARTS - 1) / GCN_LOSS_PARTS;
	double part[GCN_LOSS_PARTS] = {0}, loss = 0;

	for (uint64_t i = 0; i < a->nr; i++) {
		float *row = ref_load(a->rows + i * a->width, a->width);
		int64_t node = LD(a->index + i), label = LD(a->label + node);
		double sum = exp((double)row[0]);

		for (uint32_t j = 1; j < a->width; j++)
			sum += exp((double)row[j]);
		for (uint32_t j = 0; j < a->width; j++)
			ST(a->log_p + i * a->width + j, (float)((double)row[j] - log(sum)));
		part[i / part_rows] -= (double)row[label] - log(sum);
		free(row);
	}
	for (uint32_t i = 0; i < GCN_LOSS_PARTS; i++) {
		ST(a->loss + 1 + i, part[i]);
		loss += LD(a->loss + 1 + i);
	}
	ST(a->loss, loss / (double)a->nr);
}

static void ref_loss_grad(const void *p)
{
	const struct gcn_loss_grad_args *a = p;

	for (uint64_t i = 0; i < a->nr; i++) {
		int64_t node = LD(a->index + i), label = LD(a->label + node);

		for (uint32_t j = 0; j < a->width; j++) {
			double prob = exp((double)LD(a->log_p + i * a->width + j));

			ST(a->grad + i * a->width + j,
			   (float)((prob - (j == label)) / (double)a->nr));
		}
	}
}

static void ref_accuracy(const void *p)
{
	const struct gcn_accuracy_args *a = p;
	uint64_t right = 0;

	for (uint64_t i = 0; i < a->nr; i++) {
		float *row = ref_load(a->rows + i * a->width, a->width);
		int64_t node = LD(a->index + i), label = LD(a->label + node), best = 0;

		for (uint32_t j = 0; j < a->width; j++)
			best = row[j] > row[best] ? (int64_t)j : best;
		right += best == label;
		free(row);
	}
	ST(a->right, right);
}

static void ref_adam(const void *p)
{
	const struct gcn_adam_args *a = p;

	for (uint64_t i = 0; i < a->nr; i++) {
		double param = (double)LD(a->param + i);
		double grad = (double)LD(a->grad + i) + (double)a->weight_decay * param;
		double m1 = 0.9 * (double)LD(a->moment1 + i) + 0.1 * grad;
		double m2 = 0.999 * (double)LD(a->moment2 + i) + 0.001 * grad * grad;

		ST(a->moment1 + i, (float)m1);
		ST(a->moment2 + i, (float)m2);
		ST(a->param + i,
		   (float)(param - (double)a->step_size * m1 /
					   (sqrt(m2) * (double)a->moment2_scale + 1e-8)));
	}
}

enum element { FLOATS, DOUBLES, BYTES };

/* What each kernel is compared with, and as what its outputs are read. */
static struct {
	const struct weir_kernel *kernel;
	void (*ref)(const void *args);
	enum element element;
	double tolerance; /* relative to the largest element of the output */
	double dense_ops; /* per row, width_in and width_out: 2 for products */
	uint64_t nr_seen;
} kernels[] = {
	{&gcn_kernel_zero, ref_zero, BYTES, 0, 0, 0},
	{&gcn_kernel_gather, ref_gather, BYTES, 0, 0, 0},
	{&gcn_kernel_scale, ref_scale, BYTES, 0, 0, 0},
	{&gcn_kernel_scatter_add, ref_scatter_add, BYTES, 0, 0, 0},
	{&gcn_kernel_select, ref_select, BYTES, 0, 0, 0},
	{&gcn_kernel_linear, ref_linear, FLOATS, 1e-5, 2, 0},
	{&gcn_kernel_linear_grad_in, ref_linear_grad_in, FLOATS, 1e-5, 2, 0},
	{&gcn_kernel_linear_grad_weight, ref_linear_grad_weight, FLOATS, 1e-5, 2, 0},
	{&gcn_kernel_relu, ref_relu, FLOATS, 0, 0, 0},
	{&gcn_kernel_relu_grad, ref_relu_grad, FLOATS, 0, 0, 0},
	{&gcn_kernel_dropout, ref_dropout, FLOATS, 0, 0, 0},
	{&gcn_kernel_dropout_grad, ref_dropout_grad, FLOATS, 0, 0, 0},
	{&gcn_kernel_loss, ref_loss, FLOATS, 1e-5, 0, 0},
	{&gcn_kernel_loss_grad, ref_loss_grad, FLOATS, 1e-5, 0, 0},
	{&gcn_kernel_accuracy, ref_accuracy, BYTES, 0, 0, 0},
	{&gcn_kernel_adam, ref_adam, FLOATS, 1e-5, 0, 0},
};
#define NR_KERNELS (sizeof(kernels) / sizeof(kernels[0]))

static size_t kernel_index(const struct weir_launch *launch)
{
	size_t i = 0;

	while (i < NR_KERNELS && kernels[i].kernel != launch->kernel)
		i++;
	if (i == NR_KERNELS)
		fail_msg("%s has no re-implementation", launch->kernel->name);
	return i;
}

static double element_at(const void *p, enum element element, uint64_t i)
{
	if (element == DOUBLES)
		return ((const double *)p)[i];
	return element == FLOATS ? (double)((const float *)p)[i] : (double)((const uint8_t *)p)[i];
}

/* The outputs of the kernel, saved, against those of the re-implementation, in place. */
static void check_results(const struct weir_launch *launch, size_t kernel, uint32_t use_index)
{
	const struct weir_use *use = &launch->uses[use_index];
	enum element element = kernels[kernel].element;
	double scale = 0, tolerance = kernels[kernel].tolerance;
	uint64_t nr;

	if (launch->kernel == &gcn_kernel_loss && use_index == 4)
		element = DOUBLES;
	if (launch->kernel == &gcn_kernel_dropout && use_index == 2)
		element = BYTES;
	nr = use->bytes / (element == DOUBLES ? 8 : element == FLOATS ? 4 : 1);
	for (uint64_t i = 0; i < nr; i++)
		scale = fmax(scale, fabs(element_at(use->addr, element, i)));
	for (uint64_t i = 0; i < nr; i++) {
		double got = element_at(output[use_index], element, i);
		double want = element_at(use->addr, element, i);

		if (!(fabs(got - want) <= tolerance * scale))
			fail_msg("%s: use %u, element %llu is %g, should be %g",
				 launch->kernel->name, use_index, (unsigned long long)i, got, want);
	}
}

static void check_counts(const struct weir_launch *launch, size_t kernel)
{
	counted = launch;
	memset(read_bytes, 0, sizeof(read_bytes));
	memset(write_bytes, 0, sizeof(write_bytes));
	kernels[kernel].ref(launch->args);
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];

		if (use->read_bytes != read_bytes[i] || use->write_bytes != write_bytes[i])
			fail_msg("%s: use %u declares %llu read, %llu written; it is %llu, %llu",
				 launch->kernel->name, i, (unsigned long long)use->read_bytes,
				 (unsigned long long)use->write_bytes,
				 (unsigned long long)read_bytes[i],
				 (unsigned long long)write_bytes[i]);
		if (output[i])
			check_results(launch, kernel, i);
	}
	counted = NULL;
}

/* Operations of a product: twice its three dimensions, which the sizes of its matrices give. */
static void check_ops(const struct weir_launch *launch, size_t kernel)
{
	double want = 0;

	if (kernels[kernel].dense_ops > 0) {
		const struct weir_use *u = launch->uses;
		bool grad_weight = launch->kernel == &gcn_kernel_linear_grad_weight;
		double a = (double)u[0].bytes / 4;
		double b = (double)u[1].bytes / 4;
		double c = (double)u[grad_weight ? 3 : launch->nr_uses - 1].bytes / 4;

		want = kernels[kernel].dense_ops * sqrt(a * b * c);
	}
	assert_true(fabs(launch->ops - want) <= 1e-9 * want);
}

static void check_use_shape(const struct weir_launch *launch)
{
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];

		if (use->pattern == WEIR_RANDOM &&
		    (!use->granule || use->read_bytes % use->granule))
			fail_msg("%s: use %u has no whole granules", launch->kernel->name, i);
		for (uint32_t j = 0; j < i; j++)
			assert_ptr_not_equal(launch->uses[j].addr, use->addr);
	}
}

/* What is declared as read and written is read: other contents, another result. */
static void check_updates(struct fake *f, const struct weir_launch *launch)
{
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];

		if (use->kind != WEIR_WRITE)
			continue;
		prepare(f, launch, 0x5a);
		memset(use->addr, 0x3e, use->bytes);
		launch->kernel->cpu(launch->args);
		if (!memcmp(output[i], use->addr, use->bytes))
			fail_msg("%s: use %u overwrites, and declares to read as well",
				 launch->kernel->name, i);
	}
}

static void examine(struct fake *f, const struct weir_launch *launch)
{
	size_t kernel = kernel_index(launch);

	assert_true(launch->nr_uses <= USES_MAX);
	kernels[kernel].nr_seen++;
	check_use_shape(launch);
	check_ops(launch, kernel);
	snapshot_take(f);
	prepare(f, launch, 0xa5);
	trace_run(f, launch);
	check_pages(f, launch);
	outputs_save(launch);
	prepare(f, launch, 0x5a);
	launch->kernel->cpu(launch->args);
	outputs_check(launch);
	check_updates(f, launch);
	prepare(f, launch, 0x77);
	check_counts(launch, kernel);
	outputs_restore(launch);
	check_bystanders(f, launch);
	snapshot_drop();
}

/* ------------------------------------------------------------------ tests */

static void run_examined(const struct gcn_params *p)
{
	struct workload_result r;
	struct fake f;
	char err[256] = "";

	fake_init(&f, WEIR_DATA_REAL);
	f.own_pages = true;
	f.hook = examine;
	assert_int_equal(gcn_run(&f.manager, p, &r, err, sizeof(err)), 0);
	assert_int_equal(f.live_bytes, 0);
	assert_int_equal(f.nr_bad_uses, 0);
	gcn_result_free(&r);
}

static void gcn_uses_random_graph(void **state)
{
	struct gcn_params p = {
		.nodes = 700, .slice = SLICE, .epochs = 2, .seed = 3, .hidden = 48, .threads = 1};

	(void)state;
	run_examined(&p);
}

static void gcn_uses_real_graph(void **state)
{
	struct gcn_params p = {.slice = SLICE, .epochs = 2, .seed = 3, .threads = 1};
	char dir[PLANTED_DIR_BYTES];

	(void)state;
	assert_int_equal(planted_create(dir, 600, 1), 0);
	p.graph_dir = dir;
	run_examined(&p);
	planted_remove(dir);
}

static void gcn_uses_every_kernel_seen(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_KERNELS; i++) {
		if (!kernels[i].nr_seen)
			fail_msg("%s was never launched", kernels[i].kernel->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gcn_uses_random_graph),
		cmocka_unit_test(gcn_uses_real_graph),
		cmocka_unit_test(gcn_uses_every_kernel_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
