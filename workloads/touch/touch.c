/* SPDX-License-Identifier: Apache-2.0 */
/* A run: parameters, the table, passes and their times, what was right, everything given back. */
#include "workloads/touch/touch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/paging/view.h"
#include "workloads/touch/cuda.h"
#include "workloads/touch/internal.h"

static const char *const pattern_names[] = {"stream", "random", "strided"};
static const char *const access_names[] = {"read", "write", "both"};

const char *touch_pattern_name(enum touch_pattern pattern)
{
	return pattern_names[pattern];
}

const char *touch_access_name(enum touch_access access)
{
	return access_names[access];
}

void touch_fail(struct touch *t, int status, const char *format, ...)
{
	const char *name = t->p->kind == TOUCH_GUPS ? "gups: " : "pagein: ";
	size_t used = strlen(name);
	va_list ap;

	if (t->status)
		return;
	t->status = status;
	snprintf(t->err, t->err_bytes, "%s", name);
	if (used >= t->err_bytes)
		return;
	va_start(ap, format);
	vsnprintf(t->err + used, t->err_bytes - used, format, ap);
	va_end(ap);
}

/* ------------------------------------------------------------------ parameters */

int touch_params_check(const struct touch_params *p, char *err, size_t err_bytes)
{
	const struct touch_shape *s = &p->shape;
	bool gups = p->kind == TOUCH_GUPS;
	const char *what = NULL;

	if (!view_page_valid(p->page_bytes))
		what = "pages have 4, 8, 16 or 64 KiB";
	else if (!p->bytes || p->bytes % p->page_bytes || p->bytes > TOUCH_BYTES_MAX)
		what = "the table has whole pages, at least one and up to 1 TiB";
	else if (gups && !is_power_of_2(p->bytes))
		what = "the table of gups has a power of two bytes";
	else if (gups && (!p->updates || p->updates > TOUCH_UPDATES_MAX))
		what = "a pass has 1 to 2^32 updates";
	else if (!gups && (p->pattern >= TOUCH_PATTERN_NR || p->access >= TOUCH_ACCESS_NR))
		what = "no such pattern or access";
	else if (!gups && p->pages > p->bytes / p->page_bytes)
		what = "a pass touches at most the pages that there are";
	else if (!gups && p->pages && p->access != TOUCH_READ)
		what = "what is not wholly touched can be read only";
	else if (p->passes <= p->warm_up)
		what = "no pass is left after the warm-up";
	else if (s->blocks > TOUCH_BLOCKS_MAX)
		what = "a launch has up to 65536 blocks";
	else if (!s->threads || s->threads % 32 || s->threads > TOUCH_THREADS_MAX)
		what = "a block has whole warps: a multiple of 32 threads, up to 1024";
	else if (!s->agents || s->agents > AGENTS_MAX)
		what = "1 to 64 agents page on the CPU";
	if (!what)
		return 0;
	snprintf(err, err ? err_bytes : 0, "%s: %s", gups ? "gups" : "pagein", what);
	return -EINVAL;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static struct touch_order order_of(const struct touch_params *p)
{
	struct touch_order order = {.nr = p->bytes / p->page_bytes, .stride = 1};

	order.nr_touched = p->pages ? p->pages : order.nr;
	if (p->kind == TOUCH_PAGEIN && p->pattern == TOUCH_STRIDED) {
		order.stride = TOUCH_STRIDE_MIN;
		while (common_divisor(order.nr, order.stride) != 1)
			order.stride++;
	}
	if (p->kind == TOUCH_PAGEIN && p->pattern == TOUCH_RANDOM) {
		order.nr_bits = 1;
		while (UINT64_C(1) << order.nr_bits < order.nr)
			order.nr_bits++;
	}
	return order;
}

/* ------------------------------------------------------------------ memory */

static void *table_alloc(struct touch *t, const char *name, uint64_t bytes)
{
	void *addr = NULL;
	int err = t->status ? 0 : t->m->ops->alloc(t->m, bytes, name, &addr);

	if (err)
		touch_fail(t, err, "no memory for '%s' (%.3f MB): %s", name, (double)bytes / 1e6,
			   weir_strerror(err));
	return err ? NULL : addr;
}

static void table_create(struct touch *t)
{
	t->sum = table_alloc(t, "sum", sizeof(*t->sum));
	t->words = table_alloc(t, "table", t->p->bytes);
	t->buffer_bytes = t->p->bytes < TOUCH_BUFFER_BYTES ? t->p->bytes : TOUCH_BUFFER_BYTES;
	if (t->status || t->phantom)
		return;
	t->buffer = malloc(t->buffer_bytes);
	if (!t->buffer)
		touch_fail(t, -EAGAIN, "this computer has no memory for a buffer of %llu bytes",
			   (unsigned long long)t->buffer_bytes);
}

/*
 * Nothing queued may outlive the run. A sync that fails has either waited and reports the work, or
 * was itself refused: a second one tells these apart.
 */
static void table_destroy(struct touch *t)
{
	int err = t->m->ops->sync(t->m);

	if (err) {
		touch_fail(t, err, "waiting for the end of the run failed: %s", weir_strerror(err));
		(void)t->m->ops->sync(t->m);
	}
	if (t->words)
		t->m->ops->free(t->m, t->words);
	if (t->sum)
		t->m->ops->free(t->m, t->sum);
	free(t->buffer);
}

/* ------------------------------------------------------------------ launches */

/* What a kernel does with the table. granule: bytes of one access. */
static struct weir_use updates_use(const struct touch *t, uint32_t granule)
{
	uint64_t bytes = t->p->updates * sizeof(uint64_t);

	return (struct weir_use){
		.addr = t->words,
		.bytes = t->p->bytes,
		.kind = WEIR_WRITE,
		.pattern = WEIR_RANDOM,
		.granule = granule,
		.read_bytes = bytes,
		.write_bytes = bytes,
	};
}

static struct weir_use pages_use(const struct touch *t, const struct touch_pages_args *args,
				 uint32_t granule)
{
	uint64_t bytes = args->order.nr_touched * args->page_bytes;
	struct weir_use use = {
		.addr = t->words,
		.bytes = t->p->bytes,
		.kind = WEIR_WRITE,
		.pattern = WEIR_RANDOM,
		.granule = granule,
	};

	if (!args->order.nr_bits && args->order.stride == 1)
		use.pattern = WEIR_STREAM;
	if (args->access == TOUCH_READ)
		use.kind = WEIR_READ;
	else if (args->access == TOUCH_WRITE)
		use.kind = WEIR_OVERWRITE;
	use.read_bytes = args->access == TOUCH_WRITE ? 0 : bytes;
	use.write_bytes = args->access == TOUCH_READ ? 0 : bytes;
	return use;
}

/* Bytes that an access counts for, read or written, where a warp pages word by word: its lanes'
 * words are one access, and two, half of the bytes each, where they are read and then written. */
static uint32_t elements_granule(enum touch_access access)
{
	const uint32_t bytes = TOUCH_LANES * (uint32_t)sizeof(uint64_t);

	return access == TOUCH_BOTH ? bytes / 2 : bytes;
}

/* A kernel by either way to the table. */
static int launch(struct touch *t, const struct weir_kernel *kernel, const void *args, size_t bytes,
		  const struct weir_use *table, bool sums)
{
	const struct weir_use uses[] = {
		*table,
		{.addr = t->sum,
		 .bytes = sizeof(*t->sum),
		 .kind = WEIR_WRITE,
		 .read_bytes = sizeof(*t->sum),
		 .write_bytes = sizeof(*t->sum)},
	};
	struct weir_launch l = {
		.kernel = kernel,
		.args = args,
		.args_bytes = bytes,
		.uses = uses,
		.nr_uses = sums ? 2 : 1,
	};

	return t->m->ops->launch(t->m, &l);
}

/* Let the next launch page the table. */
static int paged_begin(struct touch *t, struct weir_paged_view *view, uint32_t *range)
{
	int err = t->m->ops->paged_range(t->m, t->words, range);

	return err ? err : t->m->ops->paged_begin(t->m, view);
}

static int launch_updates(struct touch *t, const struct touch_updates_args *args)
{
	struct weir_use use = updates_use(t, sizeof(uint64_t));
	struct touch_paged_updates_args paged = {.updates = *args};
	int err, err_end;

	if (!t->m->ops->paged_begin)
		return launch(t, &touch_kernel_updates, args, sizeof(*args), &use, false);
	err = paged_begin(t, &paged.view, &paged.range);
	if (err)
		return err;
	err = launch(t, &touch_kernel_paged_updates, &paged, sizeof(paged), &use, false);
	err_end = t->m->ops->paged_end(t->m);
	return err ? err : err_end;
}

static int launch_pages(struct touch *t, const struct touch_pages_args *args)
{
	struct weir_use use = pages_use(t, args, args->page_bytes);
	struct touch_paged_pages_args paged = {.pages = *args};
	int err, err_end;

	if (!t->m->ops->paged_begin)
		return launch(t, &touch_kernel_pages, args, sizeof(*args), &use, true);
	err = paged_begin(t, &paged.view, &paged.range);
	if (err)
		return err;
	if (args->elements)
		use.granule = elements_granule(args->access);
	err = launch(t, &touch_kernel_paged_pages, &paged, sizeof(paged), &use, true);
	err_end = t->m->ops->paged_end(t->m);
	return err ? err : err_end;
}

/* All of the table once, in order, as it is before the first pass. By a kernel: the host would take
 * longer for a large one than all passes do. */
static int fill(struct touch *t)
{
	struct touch_pages_args args = {
		.words = t->words,
		.sum = t->sum,
		.order = {.nr = t->order.nr, .nr_touched = t->order.nr, .stride = 1},
		.seed = t->p->seed,
		.page_bytes = t->p->page_bytes,
		.access = TOUCH_WRITE,
		.shape = t->p->shape,
	};
	int failed = 0, err;

	args.shape.status = &failed;
	err = launch_pages(t, &args);
	if (!err)
		err = t->m->ops->sync(t->m);
	return err ? err : failed;
}

static void table_fill(struct touch *t)
{
	const uint64_t zero = 0;
	int err = t->m->ops->write(t->m, t->sum, t->phantom ? NULL : &zero, sizeof(zero));

	if (err)
		touch_fail(t, err, "clearing the sum failed: %s", weir_strerror(err));
	err = t->status ? 0 : fill(t);
	if (err)
		touch_fail(t, err, "filling the table failed: %s", weir_strerror(err));
}

static int launch_pass(struct touch *t, int *status)
{
	struct touch_updates_args updates = {
		.words = t->words,
		.nr_words = t->p->bytes / sizeof(uint64_t),
		.nr = t->p->updates,
		.seed = t->p->seed,
		.shape = t->p->shape,
	};
	struct touch_pages_args pages = {
		.words = t->words,
		.sum = t->sum,
		.order = t->order,
		.seed = t->p->seed,
		.times = t->times + (t->p->access != TOUCH_READ),
		.page_bytes = t->p->page_bytes,
		.access = t->p->access,
		.elements = t->p->elements,
		.shape = t->p->shape,
	};

	updates.shape.status = pages.shape.status = status;
	return t->p->kind == TOUCH_GUPS ? launch_updates(t, &updates) : launch_pages(t, &pages);
}

/* ------------------------------------------------------------------ passes */

/* Do a step of a pass unless one failed. */
static void step(struct touch *t, int err, const char *what)
{
	if (err)
		touch_fail(t, err, "%s failed: %s", what, weir_strerror(err));
}

/* The sum of all passes so far: it is never cleared, since a write could move the table. */
static void sum_check(struct touch *t, struct passes_result *r)
{
	uint64_t sum = 0;

	step(t, t->m->ops->read(t->m, t->phantom ? NULL : &sum, t->sum, sizeof(sum)),
	     "reading the sum");
	if (t->status || t->phantom || t->p->access == TOUCH_WRITE)
		return;
	r->checked = true;
	if (sum == t->want || r->wrong[0])
		return;
	r->passed = false;
	snprintf(r->wrong, sizeof(r->wrong), "the words read add up to %016llx and not to %016llx",
		 (unsigned long long)sum, (unsigned long long)t->want);
}

static void pass_run(struct touch *t, struct passes_result *r, uint32_t pass)
{
	bool pagein = t->p->kind == TOUCH_PAGEIN;
	struct pass_moment begin, end;
	int failed = 0;

	step(t, pass_idle(t->m, !t->p->warm || !pass), "emptying the device's memory");
	if (t->status)
		return;
	pass_begin(t->m, &begin);
	step(t, launch_pass(t, &failed), "launching the kernel");
	step(t, t->m->ops->sync(t->m), "the kernel");
	if (failed)
		touch_fail(t, failed, "an agent failed: %s", weir_strerror(failed));
	pass_end(t->m, &end);
	if (t->status)
		return;
	if (pass >= t->p->warm_up)
		pass_note(r, pass - t->p->warm_up, &begin, &end);
	if (pagein && !t->phantom)
		t->want += touch_sum(t);
	t->times += !pagein || t->p->access != TOUCH_READ;
	if (pagein)
		sum_check(t, r);
}

static void passes_run(struct touch *t, struct passes_result *r)
{
	bool writes = t->p->kind == TOUCH_GUPS || t->p->access != TOUCH_READ;

	for (uint32_t pass = 0; pass < t->p->passes && !t->status; pass++) {
		if (t->p->progress && t->p->progress(t->p->progress_arg, pass, t->p->passes)) {
			touch_fail(t, -EINTR, "interrupted after %u of %u passes", pass,
				   t->p->passes);
			return;
		}
		pass_run(t, r, pass);
	}
	if (t->status || t->phantom || !writes || !t->p->check || r->wrong[0])
		return;
	r->checked = true;
	r->passed = touch_check(t, r->wrong, sizeof(r->wrong));
}

/* ------------------------------------------------------------------ a run */

/* What the kernels need where they are CUDA's. */
static void kernels_load(struct touch *t)
{
	void *stream = t->m->ops->stream ? t->m->ops->stream(t->m) : NULL;
	int err = stream ? touch_cuda_load() : 0;

	if (err)
		touch_fail(t, err, "no kernels for the GPU: %s", weir_strerror(err));
}

static int result_init(struct passes_result *r, const struct touch_params *p)
{
	bool gups = p->kind == TOUCH_GUPS;
	int err = passes_result_init(r, p->passes - p->warm_up);

	if (err)
		return err;
	r->distinct_bytes = p->pages && !gups ? p->pages * p->page_bytes : p->bytes;
	r->read_bytes = gups ? p->updates * sizeof(uint64_t) : r->distinct_bytes;
	r->write_bytes = r->read_bytes;
	if (!gups && p->access == TOUCH_READ)
		r->write_bytes = 0;
	else if (!gups && p->access == TOUCH_WRITE)
		r->read_bytes = 0;
	if (gups) {
		err = touch_distinct(p, &r->distinct_bytes);
		r->distinct_bytes *= sizeof(uint64_t);
	}
	if (err)
		passes_result_free(r);
	return err ? -EAGAIN : 0;
}

int touch_run(struct manager *m, const struct touch_params *p, struct passes_result *out, char *err,
	      size_t err_bytes)
{
	struct touch t = {
		.m = m,
		.p = p,
		.phantom = m->backend->data == WEIR_DATA_PHANTOM,
		.err = err,
		.err_bytes = err ? err_bytes : 0,
	};
	struct passes_result result;
	int ret = touch_params_check(p, err, err_bytes);

	if (ret)
		return ret;
	ret = result_init(&result, p);
	if (ret) {
		touch_fail(&t, ret, "this computer has no memory for what a run keeps");
		return ret;
	}
	t.order = order_of(p);
	kernels_load(&t);
	table_create(&t);
	if (!t.status)
		table_fill(&t);
	if (!t.status)
		passes_run(&t, &result);
	if (!t.status && p->progress)
		(void)p->progress(p->progress_arg, p->passes, p->passes);
	table_destroy(&t);
	if (t.status)
		passes_result_free(&result);
	else
		*out = result;
	return t.status;
}
