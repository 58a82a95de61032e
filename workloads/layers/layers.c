/* SPDX-License-Identifier: Apache-2.0 */
/* A run: ranges, passes over them and their times, what was right, everything given back. */
#include "workloads/layers/layers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/touch/cuda.h"
#include "workloads/touch/touch.h"

#define PAGE_WORDS (LAYERS_PAGE_BYTES / sizeof(uint64_t))
#define BUFFER_PAGES UINT64_C(256)
#define TEMPORARY_MOST 4u /* of a range, one part in so many at most, and half of that at least */

/* What one launch uses. */
struct launch {
	uint32_t range;
	uint64_t temporary_pages;
};

/* One run. A step that fails stores its error, and every step after it does nothing. */
struct run {
	struct manager *m;	       /* borrowed */
	const struct layers_params *p; /* borrowed */
	bool phantom;
	struct layers_walk walk;
	uint64_t *words[LAYERS_RANGES_MAX]; /* of the manager, as sum; NULL: not allocated */
	uint64_t times[LAYERS_RANGES_MAX];  /* that a range was written after it was filled */
	uint64_t *sum, want;		    /* what kernels read, added up, and should be */
	uint64_t *buffer;		    /* of buffer_pages; NULL if phantom */
	uint64_t buffer_pages;
	struct launch launch[LAYERS_RANGES_MAX]; /* of the present pass */

	int status; /* the first error */
	char *err;  /* what became of it, in words */
	size_t err_bytes;
};

__attribute__((format(printf, 3, 4))) static void fail(struct run *r, int status,
						       const char *format, ...)
{
	char text[160];
	va_list ap;

	if (r->status)
		return;
	r->status = status;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	snprintf(r->err, r->err_bytes, "layers: %s", text);
}

/* Do a step unless one failed. */
static void step(struct run *r, int err, const char *what)
{
	if (err)
		fail(r, err, "%s failed: %s", what, weir_strerror(err));
}

int layers_params_check(const struct layers_params *p, char *err, size_t err_bytes)
{
	const char *what = NULL;

	if (!p->nr_ranges || p->nr_ranges > LAYERS_RANGES_MAX)
		what = "1 to 4096 ranges";
	else if (!p->range_bytes || p->range_bytes % LAYERS_PAGE_BYTES ||
		 p->range_bytes > LAYERS_BYTES_MAX / p->nr_ranges)
		what = "a range has whole pages of 64 KiB, at least one; all together up to 4 TiB";
	else if (p->order >= LAYERS_ORDER_NR)
		what = "no such order";
	else if (!(p->compute >= 1) || p->compute > 1e6)
		what = "a kernel takes 1 to 1000000 times what reading its range takes";
	else if (p->split != LAYERS_NO_SPLIT && p->split > p->nr_ranges)
		what = "a split has at most the ranges that there are";
	else if (p->passes <= p->warm_up)
		what = "no pass is left after the warm-up";
	else if (!p->threads || p->threads % 32 || p->threads > 1024)
		what = "a block has whole warps: a multiple of 32 threads, up to 1024";
	if (!what)
		return 0;
	snprintf(err, err ? err_bytes : 0, "layers: %s", what);
	return -EINVAL;
}

uint64_t layers_temporary_bytes(const struct layers_params *p)
{
	uint64_t pages = p->range_bytes / LAYERS_PAGE_BYTES / TEMPORARY_MOST;

	return MAX(pages, UINT64_C(1)) * LAYERS_PAGE_BYTES;
}

/* ------------------------------------------------------------------ launches */

/* Pages of a range, or of a temporary. */
static struct touch_pages_args pages_args(const struct run *r, uint64_t *words, uint64_t nr,
					  enum touch_access access)
{
	return (struct touch_pages_args){
		.words = words,
		.sum = r->sum,
		.order = {.nr = nr, .nr_touched = nr, .stride = 1},
		.page_bytes = LAYERS_PAGE_BYTES,
		.access = access,
		.shape = {.blocks = r->p->blocks, .threads = r->p->threads, .agents = 1},
	};
}

static uint64_t range_pages(const struct run *r)
{
	return r->p->range_bytes / LAYERS_PAGE_BYTES;
}

/* Contents of a range and of no other one. */
static uint64_t range_seed(const struct run *r, uint32_t range)
{
	return touch_mix(r->p->seed ^ ((uint64_t)range + 1) * TOUCH_STEP);
}

static struct weir_use pages_use(const struct touch_pages_args *args, uint64_t nr)
{
	static const enum weir_use_kind kinds[] = {WEIR_READ, WEIR_OVERWRITE, WEIR_WRITE};

	return (struct weir_use){
		.addr = args->words,
		.bytes = args->order.nr * LAYERS_PAGE_BYTES,
		.kind = kinds[args->access],
		.read_bytes = args->access == TOUCH_WRITE ? 0 : nr * LAYERS_PAGE_BYTES,
		.write_bytes = args->access == TOUCH_READ ? 0 : nr * LAYERS_PAGE_BYTES,
	};
}

static struct weir_use sum_use(const struct run *r)
{
	return (struct weir_use){.addr = r->sum,
				 .bytes = sizeof(*r->sum),
				 .kind = WEIR_WRITE,
				 .read_bytes = sizeof(*r->sum),
				 .write_bytes = sizeof(*r->sum)};
}

/* Contents as they are before the first pass. */
static int launch_fill(struct run *r, uint32_t range)
{
	struct touch_pages_args args = pages_args(r, r->words[range], range_pages(r), TOUCH_WRITE);
	const struct weir_use uses[] = {pages_use(&args, args.order.nr), sum_use(r)};
	const struct weir_launch launch = {.kernel = &touch_kernel_pages,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = ARRAY_LEN(uses)};

	args.seed = range_seed(r, range);
	return r->m->ops->launch(r->m, &launch);
}

/* Pages of the temporary that make up for what the range is not of the kernel's bytes. */
static uint64_t nr_written(const struct run *r, uint64_t temporary_pages)
{
	double of_range = (double)range_pages(r) * (r->p->write ? 2 : 1);
	double rest = r->p->compute * (double)range_pages(r) - of_range;

	return rest > (double)temporary_pages ? (uint64_t)rest : temporary_pages;
}

static int launch_layer(struct run *r, const struct launch *l, uint64_t *temporary)
{
	enum touch_access access = r->p->write ? TOUCH_BOTH : TOUCH_READ;
	struct touch_layer_args args = {
		.range = pages_args(r, r->words[l->range], range_pages(r), access),
		.temporary = pages_args(r, temporary, l->temporary_pages, TOUCH_WRITE),
		.nr_written = nr_written(r, l->temporary_pages),
	};
	const struct weir_use uses[] = {pages_use(&args.range, args.range.order.nr),
					pages_use(&args.temporary, args.nr_written), sum_use(r)};
	const struct weir_launch launch = {.kernel = &touch_kernel_layer,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = ARRAY_LEN(uses)};

	return r->m->ops->launch(r->m, &launch);
}

/* The next launch of the walk. */
static struct launch next_launch(struct run *r)
{
	uint64_t most = layers_temporary_bytes(r->p) / LAYERS_PAGE_BYTES, least = (most + 1) / 2;
	uint64_t random = touch_mix(~r->p->seed + r->walk.next * TOUCH_STEP);

	return (struct launch){
		.range = layers_walk_next(&r->walk),
		.temporary_pages = least + random % (most - least + 1),
	};
}

static void launch_one(struct run *r, const struct launch *l)
{
	void *temporary = NULL;
	int err = r->m->ops->alloc(r->m, l->temporary_pages * LAYERS_PAGE_BYTES, "temporary",
				   &temporary);

	if (err) {
		fail(r, err, "no memory for a temporary: %s", weir_strerror(err));
		return;
	}
	step(r, launch_layer(r, l, temporary), "launching a kernel");
	r->m->ops->free(r->m, temporary);
}

/* ------------------------------------------------------------------ memory */

static void *ranges_alloc_one(struct run *r, const char *name, uint64_t bytes)
{
	void *addr = NULL;
	int err = r->status ? 0 : r->m->ops->alloc(r->m, bytes, name, &addr);

	if (err)
		fail(r, err, "no memory for '%s' (%.3f MB): %s", name, (double)bytes / 1e6,
		     weir_strerror(err));
	return err ? NULL : addr;
}

/* The first of the walk's ranks stay in the device's memory, the others in the host's. */
static void advise(struct run *r)
{
	for (uint32_t i = 0; i < r->p->nr_ranges && !r->status; i++)
		step(r,
		     manager_prefer(r->m, r->words[r->walk.rank[i]],
				    i < r->p->split ? MANAGER_OWN : MANAGER_HOST),
		     "advising");
}

static void ranges_create(struct run *r)
{
	const uint64_t zero = 0;

	r->sum = ranges_alloc_one(r, "sum", sizeof(*r->sum));
	for (uint32_t i = 0; i < r->p->nr_ranges; i++)
		r->words[i] = ranges_alloc_one(r, "range", r->p->range_bytes);
	if (!r->phantom && !r->status) {
		r->buffer_pages = MIN(range_pages(r), BUFFER_PAGES);
		r->buffer = malloc(r->buffer_pages * LAYERS_PAGE_BYTES);
		if (!r->buffer)
			fail(r, -EAGAIN, "this computer has no memory for a buffer");
	}
	if (!r->status && r->p->split != LAYERS_NO_SPLIT)
		advise(r);
	if (!r->status)
		step(r, r->m->ops->write(r->m, r->sum, r->phantom ? NULL : &zero, sizeof(zero)),
		     "clearing the sum");
	for (uint32_t i = 0; i < r->p->nr_ranges && !r->status; i++)
		step(r, launch_fill(r, i), "filling a range");
}

/*
 * Nothing queued may outlive the run. A sync that fails has either waited and reports the work, or
 * was itself refused: a second one tells these apart.
 */
static void ranges_destroy(struct run *r)
{
	int err = r->m->ops->sync(r->m);

	if (err) {
		step(r, err, "waiting for the end of the run");
		(void)r->m->ops->sync(r->m);
	}
	for (uint32_t i = 0; i < r->p->nr_ranges; i++)
		if (r->words[i])
			r->m->ops->free(r->m, r->words[i]);
	if (r->sum)
		r->m->ops->free(r->m, r->sum);
	free(r->buffer);
}

/* ------------------------------------------------------------------ what is right */

/* Of what a launch adds to the sum, and of how often its range was written. */
static void expect(struct run *r, const struct launch *l)
{
	const struct touch_order order = {
		.nr = range_pages(r), .nr_touched = range_pages(r), .stride = 1};

	if (!r->phantom)
		r->want += touch_order_sum(&order, PAGE_WORDS, range_seed(r, l->range),
					   r->times[l->range]);
	r->times[l->range] += r->p->write;
}

/* The sum of all passes so far. */
static void sum_check(struct run *r, struct passes_result *out)
{
	uint64_t sum = 0;

	step(r, r->m->ops->read(r->m, r->phantom ? NULL : &sum, r->sum, sizeof(sum)),
	     "reading the sum");
	if (r->status || r->phantom)
		return;
	out->checked = true;
	if (sum == r->want || out->wrong[0])
		return;
	out->passed = false;
	snprintf(out->wrong, sizeof(out->wrong),
		 "the words read add up to %016llx and not to %016llx", (unsigned long long)sum,
		 (unsigned long long)r->want);
}

/* Pages that are in the buffer. */
static bool pages_right(const struct run *r, uint32_t range, uint64_t first, uint64_t nr)
{
	const uint64_t *word = r->buffer;

	for (uint64_t page = first; page < first + nr; page++) {
		uint64_t value = touch_first(range_seed(r, range), page, r->times[range]);

		for (uint64_t j = 0; j < PAGE_WORDS; j++)
			if (*word++ != value + j * TOUCH_STEP)
				return false;
	}
	return true;
}

static void range_check(struct run *r, uint32_t range, struct passes_result *out)
{
	for (uint64_t page = 0; page < range_pages(r) && out->passed; page += r->buffer_pages) {
		uint64_t nr = MIN(range_pages(r) - page, r->buffer_pages);

		step(r,
		     r->m->ops->read(r->m, r->buffer, r->words[range] + page * PAGE_WORDS,
				     nr * LAYERS_PAGE_BYTES),
		     "reading a range");
		if (r->status)
			return;
		out->passed = pages_right(r, range, page, nr);
		if (!out->passed)
			snprintf(out->wrong, sizeof(out->wrong),
				 "range %u is wrong in one of the %llu pages from %llu on", range,
				 (unsigned long long)nr, (unsigned long long)page);
	}
}

/* ------------------------------------------------------------------ passes */

/* What a pass asks for: in the result, the least of those that count. */
static void pass_asked(const struct run *r, struct passes_result *out)
{
	uint64_t bytes = r->p->nr_ranges * r->p->range_bytes, distinct = 0;
	uint64_t written = r->p->write ? bytes : 0;
	uint8_t seen[LAYERS_RANGES_MAX] = {0};

	for (uint32_t i = 0; i < r->p->nr_ranges; i++) {
		const struct launch *l = &r->launch[i];

		distinct += seen[l->range] ? 0 : r->p->range_bytes;
		seen[l->range] = 1;
		written += nr_written(r, l->temporary_pages) * LAYERS_PAGE_BYTES;
	}
	out->read_bytes = bytes;
	out->write_bytes = out->write_bytes ? MIN(out->write_bytes, written) : written;
	out->distinct_bytes = out->distinct_bytes ? MIN(out->distinct_bytes, distinct) : distinct;
}

static void pass_run(struct run *r, struct passes_result *out, uint32_t pass)
{
	struct pass_moment begin, end;

	for (uint32_t i = 0; i < r->p->nr_ranges; i++)
		r->launch[i] = next_launch(r);
	step(r, pass_idle(r->m, false), "waiting for the device");
	if (r->status)
		return;
	pass_begin(r->m, &begin);
	for (uint32_t i = 0; i < r->p->nr_ranges && !r->status; i++)
		launch_one(r, &r->launch[i]);
	step(r, r->m->ops->sync(r->m), "the kernels");
	pass_end(r->m, &end);
	if (r->status)
		return;
	for (uint32_t i = 0; i < r->p->nr_ranges; i++)
		expect(r, &r->launch[i]);
	if (pass >= r->p->warm_up) {
		pass_note(out, pass - r->p->warm_up, &begin, &end);
		pass_asked(r, out);
	}
	sum_check(r, out);
}

static void passes_run(struct run *r, struct passes_result *out)
{
	for (uint32_t pass = 0; pass < r->p->passes && !r->status; pass++) {
		if (r->p->progress && r->p->progress(r->p->progress_arg, pass, r->p->passes)) {
			fail(r, -EINTR, "interrupted after %u of %u passes", pass, r->p->passes);
			return;
		}
		pass_run(r, out, pass);
	}
	for (uint32_t i = 0; i < r->p->nr_ranges && r->p->check && !r->phantom && !r->status; i++)
		range_check(r, i, out);
}

/* What the kernels need where they are CUDA's. */
static void kernels_load(struct run *r)
{
	void *stream = r->m->ops->stream ? r->m->ops->stream(r->m) : NULL;

	step(r, stream ? touch_cuda_load() : 0, "loading kernels for the GPU");
}

int layers_run(struct manager *m, const struct layers_params *p, struct passes_result *out,
	       char *err, size_t err_bytes)
{
	struct passes_result result;
	struct run *r;
	int ret = layers_params_check(p, err, err_bytes);

	if (ret)
		return ret;
	ret = passes_result_init(&result, p->passes - p->warm_up);
	r = ret ? NULL : calloc(1, sizeof(*r));
	if (!r) {
		passes_result_free(&result);
		snprintf(err, err ? err_bytes : 0,
			 "layers: this computer has no memory for what a run keeps");
		return -EAGAIN;
	}
	r->m = m;
	r->p = p;
	r->phantom = m->backend->data == WEIR_DATA_PHANTOM;
	r->err = err;
	r->err_bytes = err ? err_bytes : 0;
	layers_walk_init(&r->walk, p->order, p->nr_ranges, p->seed);
	kernels_load(r);
	if (!r->status)
		ranges_create(r);
	passes_run(r, &result);
	if (!r->status && p->progress)
		(void)p->progress(p->progress_arg, p->passes, p->passes);
	ranges_destroy(r);
	ret = r->status;
	if (ret)
		passes_result_free(&result);
	else
		*out = result;
	free(r);
	return ret;
}
