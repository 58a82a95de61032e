/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run: parameters, the matrix and its vectors, passes, what was right, everything given back.
 *
 * Each device sweeps over its part of the rows, and has vectors of its own, as long as for all
 * rows: of those by row it uses its part. Sums along columns go through memory of the manager to
 * the first device, which adds them up; the manager has the devices wait for each other there.
 */
#include "workloads/matrix/matrix.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/paging/view.h"
#include "workloads/gcn/pool.h"
#include "workloads/matrix/contents.h"
#include "workloads/matrix/cuda.h"

#define BUFFER_BYTES (UINT64_C(256) << 20)

/* What a device has. */
struct part {
	uint32_t first, rows;
	struct matrix_vectors vectors; /* of the device's own memory */
	stream_id_t stream;	       /* vectors are copied on it, while kernels do not run */
	bool has_stream;
};

/* One run. A step that fails stores its error, and every step after it does nothing. */
struct run {
	struct manager *m;	       /* borrowed */
	const struct matrix_params *p; /* borrowed */
	bool phantom;
	struct matrix_contents contents;
	float *elements; /* of the manager; NULL: not allocated */
	struct part part[WEIR_DEVICES_MAX];
	uint32_t nr_parts;
	/* Sums along columns of all parts but the first; of the manager. One part: NULL. */
	int64_t *partials;
	int64_t *zeros; /* an element a column; NULL if phantom */
	int64_t *got;	/* vectors of a device, downloaded */
	struct gcn_pool *pool;
	float *buffer; /* of whole rows; NULL if phantom */
	uint32_t buffer_rows;

	int status; /* the first error */
	char *err;  /* what became of it, in words */
	size_t err_bytes;
};

static const char *const kind_names[] = {"mvt", "atax", "bicg"};

const char *matrix_kind_name(enum matrix_kind kind)
{
	return kind_names[kind];
}

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
	snprintf(r->err, r->err_bytes, "%s: %s", matrix_kind_name(r->p->kind), text);
}

/* Do a step unless one failed. */
static void step(struct run *r, int err, const char *what)
{
	if (err)
		fail(r, err, "%s failed: %s", what, weir_strerror(err));
}

int matrix_params_check(const struct matrix_params *p, char *err, size_t err_bytes)
{
	const uint64_t row_bytes = p->columns * sizeof(float);
	const char *what = NULL;

	if (p->kind >= MATRIX_KIND_NR)
		what = "no such workload";
	else if (!view_page_valid(p->page_bytes))
		what = "pages have 4, 8, 16 or 64 KiB";
	else if (!p->rows || p->rows % MATRIX_BATCH || p->rows > MATRIX_SIZE_MAX)
		what = "rows come in multiples of 32, up to 262144";
	else if (!p->columns || row_bytes % p->page_bytes || p->columns > MATRIX_SIZE_MAX)
		what = "a row has whole pages, and up to 262144 columns of 4 bytes";
	else if (p->passes <= p->warm_up)
		what = "no pass is left after the warm-up";
	else if (p->blocks > MATRIX_BLOCKS_MAX)
		what = "a launch has up to 65536 blocks";
	else if (!p->threads || p->threads % 32 || p->threads > MATRIX_THREADS_MAX)
		what = "a block has whole warps: a multiple of 32 threads, up to 512";
	else if (p->threads / 32 % (p->page_bytes / MATRIX_PIECE_BYTES))
		what = "a block has a warp for each 4 KiB of a page, or a multiple of them";
	else if (!p->agents || p->agents > AGENTS_MAX)
		what = "1 to 64 agents page on the CPU";
	else if (p->devices > WEIR_DEVICES_MAX || p->devices > p->rows / MATRIX_BATCH)
		what = "each device has 32 rows at least, and there are up to 16";
	if (!what)
		return 0;
	snprintf(err, err ? err_bytes : 0, "%s: %s",
		 p->kind < MATRIX_KIND_NR ? matrix_kind_name(p->kind) : "matrix", what);
	return -EINVAL;
}

/* ------------------------------------------------------------------ memory */

static uint64_t row_bytes(const struct run *r)
{
	return r->p->columns * sizeof(float);
}

static void matrix_alloc(struct run *r)
{
	void *addr;
	int err = manager_alloc_constant(r->m, matrix_bytes(r->p), "matrix", &addr);

	if (err)
		fail(r, err, "no memory for the matrix (%.3f MB): %s",
		     (double)matrix_bytes(r->p) / 1e6, weir_strerror(err));
	else
		r->elements = addr;
}

static uint64_t sums_bytes(const struct run *r)
{
	return r->p->columns * sizeof(int64_t);
}

static void part_alloc(struct run *r, uint32_t device, struct part *part)
{
	struct backend *b = r->m->backend;
	uint64_t bytes = matrix_vectors_bytes(r->p);
	void *addr;
	int err = b->ops->stream_create(b, device, BACKEND_COMPUTE, &part->stream);

	step(r, err, "making a stream");
	part->has_stream = !err;
	if (err)
		return;
	err = b->ops->device_alloc(b, b->desc.device[device].memory, bytes, &addr);
	if (err)
		fail(r, err, "no memory of the device for vectors (%.3f MB): %s",
		     (double)bytes / 1e6, weir_strerror(err));
	else
		part->vectors = matrix_vectors_at(r->p, addr);
}

static void parts_alloc(struct run *r)
{
	void *addr;
	int err;

	for (uint32_t i = 0; i < r->nr_parts && !r->status; i++) {
		r->part[i].first = matrix_first_row(r->p, i);
		r->part[i].rows = matrix_first_row(r->p, i + 1) - r->part[i].first;
		part_alloc(r, r->m->device + i, &r->part[i]);
	}
	if (r->nr_parts == 1 || r->status)
		return;
	err = r->m->ops->alloc(r->m, (r->nr_parts - 1) * sums_bytes(r), "partials", &addr);
	step(r, err, "allocating sums of other devices");
	if (!err)
		r->partials = addr;
}

/* What this computer's own memory has of it. */
static void host_alloc(struct run *r)
{
	uint64_t rows = BUFFER_BYTES / row_bytes(r);
	int err = matrix_contents_init(&r->contents, r->p);

	r->buffer_rows = rows < r->p->rows ? (uint32_t)rows : r->p->rows;
	if (!err && !r->phantom) {
		r->got = malloc(matrix_vectors_bytes(r->p));
		r->zeros = calloc(r->p->columns, sizeof(*r->zeros));
		r->buffer = malloc(r->buffer_rows * row_bytes(r));
		err = r->got && r->zeros && r->buffer ? gcn_pool_create(0, &r->pool) : -EAGAIN;
	}
	if (err)
		fail(r, -EAGAIN, "this computer has no memory for vectors and a buffer");
}

/*
 * Nothing queued may outlive the run. A sync that fails has either waited and reports the work, or
 * was itself refused: a second one tells these apart.
 */
static void all_free(struct run *r)
{
	struct backend *b = r->m->backend;
	int err = r->m->ops->sync(r->m);

	if (err) {
		step(r, err, "waiting for the end of the run");
		(void)r->m->ops->sync(r->m);
	}
	if (r->elements)
		r->m->ops->free(r->m, r->elements);
	if (r->partials)
		r->m->ops->free(r->m, r->partials);
	for (uint32_t i = 0; i < r->nr_parts; i++) {
		if (r->part[i].vectors.all)
			b->ops->device_free(b, r->part[i].vectors.all);
		if (r->part[i].has_stream)
			b->ops->stream_destroy(b, r->part[i].stream);
	}
	gcn_pool_destroy(r->pool);
	free(r->buffer);
	free(r->zeros);
	free(r->got);
	matrix_contents_fini(&r->contents);
}

/* ------------------------------------------------------------------ contents */

/* Rows of the buffer, on their way from or to the matrix. */
struct rows {
	struct run *run;
	uint32_t first, nr;
	atomic_uint_fast64_t *wrong; /* the first piece that is, by number; UINT64_MAX: none */
};

static void row_fill(const void *arg, uint64_t i)
{
	const struct rows *rows = arg;
	struct run *r = rows->run;

	for (uint32_t j = 0; j < r->p->columns; j += MATRIX_PIECE)
		matrix_contents_piece(&r->contents, rows->first + (uint32_t)i, j,
				      r->buffer + i * r->p->columns + j);
}

/* Contents are whole numbers: what is not equal is wrong. */
static bool piece_right(const float *is, const float *want)
{
	for (uint32_t i = 0; i < MATRIX_PIECE; i++)
		if (is[i] != want[i])
			return false;
	return true;
}

static void row_check(const void *arg, uint64_t i)
{
	const struct rows *rows = arg;
	const struct run *r = rows->run;
	uint32_t row = rows->first + (uint32_t)i;

	for (uint32_t j = 0; j < r->p->columns; j += MATRIX_PIECE) {
		uint64_t piece = ((uint64_t)row * r->p->columns + j) / MATRIX_PIECE;
		uint64_t wrong = atomic_load(rows->wrong);
		float want[MATRIX_PIECE];

		matrix_contents_piece(&r->contents, row, j, want);
		if (piece_right(r->buffer + i * r->p->columns + j, want))
			continue;
		while (piece < wrong && !atomic_compare_exchange_weak(rows->wrong, &wrong, piece))
			;
	}
}

/* As many as the buffer has room for. */
static void rows_next(struct rows *rows)
{
	uint32_t left = rows->run->p->rows - rows->first;

	rows->nr = MIN(left, rows->run->buffer_rows);
}

static float *rows_at(const struct rows *rows)
{
	return rows->run->elements + (uint64_t)rows->first * rows->run->p->columns;
}

/* Part by part, by way of the buffer, whose rows are made or looked at by several threads. */
static void matrix_fill(struct run *r)
{
	struct rows rows = {.run = r};

	for (; rows.first < r->p->rows && !r->status; rows.first += rows.nr) {
		rows_next(&rows);
		if (!r->phantom)
			gcn_pool_run(r->pool, rows.nr, row_fill, &rows);
		step(r, r->m->ops->write(r->m, rows_at(&rows), r->buffer, rows.nr * row_bytes(r)),
		     "filling the matrix");
	}
}

static bool matrix_check(struct run *r, char *wrong, size_t wrong_bytes)
{
	atomic_uint_fast64_t piece = UINT64_MAX;
	struct rows rows = {.run = r, .wrong = &piece};

	for (; rows.first < r->p->rows && piece == UINT64_MAX; rows.first += rows.nr) {
		rows_next(&rows);
		step(r, r->m->ops->read(r->m, r->buffer, rows_at(&rows), rows.nr * row_bytes(r)),
		     "reading the matrix");
		if (r->status)
			return false;
		gcn_pool_run(r->pool, rows.nr, row_check, &rows);
	}
	if (piece == UINT64_MAX)
		return true;
	snprintf(wrong, wrong_bytes, "row %llu is not what it was, from column %llu on",
		 (unsigned long long)(piece * MATRIX_PIECE / r->p->columns),
		 (unsigned long long)(piece * MATRIX_PIECE % r->p->columns));
	return false;
}

/* ------------------------------------------------------------------ launches */

static int launch_on(struct run *r, uint32_t device, const struct weir_launch *launch)
{
	return r->nr_parts == 1 ? r->m->ops->launch(r->m, launch)
				: r->m->ops->launch_on(r->m, device, launch);
}

/* paged: where kernels page for themselves, else NULL. */
static int launch_sweep(struct run *r, uint32_t device, bool columns,
			const struct matrix_paged_args *paged, int *status)
{
	const struct part *part = &r->part[device];
	float *elements = r->elements + (uint64_t)part->first * r->p->columns;
	const uint64_t bytes = part->rows * row_bytes(r);
	const struct weir_kernel *const kernels[2][2] = {
		{&matrix_kernel_rows, &matrix_kernel_columns},
		{&matrix_kernel_paged_rows, &matrix_kernel_paged_columns}};
	const struct weir_use use = {
		.addr = elements,
		.bytes = bytes,
		.kind = WEIR_READ,
		.read_bytes = bytes,
		.granule = MATRIX_PIECE_BYTES,
	};
	struct matrix_paged_args args = {
		.matrix = {
			.elements = elements,
			.rows = part->rows,
			.columns = r->p->columns,
			.in = columns ? part->vectors.column_in + part->first
				      : part->vectors.row_in,
			.out = columns ? part->vectors.column_out
				       : part->vectors.row_out + part->first,
			.exact = r->contents.exact,
			.blocks = r->p->blocks,
			.threads = r->p->threads,
			.agents = r->p->agents,
			.status = status,
		}};
	struct weir_launch launch = {
		.kernel = kernels[paged != NULL][columns], .uses = &use, .nr_uses = 1};

	launch.args = paged ? (const void *)&args : &args.matrix;
	launch.args_bytes = paged ? sizeof(args) : sizeof(args.matrix);
	if (paged) {
		args.view = paged->view;
		args.range = paged->range;
	}
	return launch_on(r, device, &launch);
}

/* Sums along columns of a device into its piece of the partials, or what is in these to its own. */
static int launch_add(struct run *r, uint32_t device)
{
	int64_t *const sums = r->part[device].vectors.column_out;
	int64_t *const partials =
		device ? r->partials + (uint64_t)(device - 1) * r->p->columns : r->partials;
	const struct matrix_add_args args = {
		.out = device ? partials : sums,
		.in = device ? sums : partials,
		.size = r->p->columns,
		.nr = device ? 1 : r->nr_parts - 1,
		.keep = !device,
	};
	const uint64_t bytes = args.nr * sums_bytes(r);
	const struct weir_use use = {
		.addr = partials,
		.bytes = bytes,
		.kind = device ? WEIR_OVERWRITE : WEIR_READ,
		.read_bytes = device ? 0 : bytes,
		.write_bytes = device ? bytes : 0,
	};
	const struct weir_launch launch = {.kernel = &matrix_kernel_add,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = &use,
					   .nr_uses = 1};

	return launch_on(r, device, &launch);
}

/* On all devices at a time: nothing waits but the first one's add, for the others'. */
static int launch_both(struct run *r, const struct matrix_paged_args *paged, int *status)
{
	int err = 0;

	for (int columns = 0; columns < 2; columns++)
		for (uint32_t i = 0; i < r->nr_parts && !err; i++)
			err = launch_sweep(r, i, columns, paged, status);
	for (uint32_t i = 1; i < r->nr_parts && !err; i++)
		err = launch_add(r, i);
	return err || r->nr_parts == 1 ? err : launch_add(r, 0);
}

static int launch_pass(struct run *r, int *status)
{
	struct matrix_paged_args paged;
	int err, err_end;

	if (!r->m->ops->paged_begin)
		return launch_both(r, NULL, status);
	err = r->m->ops->paged_range(r->m, r->elements, &paged.range);
	if (!err)
		err = r->m->ops->paged_begin(r->m, &paged.view);
	if (err)
		return err;
	err = launch_both(r, &paged, status);
	err_end = r->m->ops->paged_end(r->m);
	return err ? err : err_end;
}

/* ------------------------------------------------------------------ passes */

static void upload(struct run *r, const struct part *part, int64_t *to, const int64_t *from,
		   uint64_t bytes)
{
	struct backend *b = r->m->backend;

	if (!r->status)
		step(r, b->ops->upload(b, part->stream, to, r->phantom ? NULL : from, bytes),
		     "copying vectors");
}

/* The vectors as they are before a pass, and the devices idle. What sums along columns are added to
 * is the first device's alone. */
static void pass_prepare(struct run *r, uint32_t pass)
{
	step(r, pass_idle(r->m, !r->p->warm || !pass), "emptying the device's memory");
	for (uint32_t i = 0; i < r->nr_parts; i++) {
		const struct part *part = &r->part[i];

		upload(r, part, part->vectors.all, r->contents.begin.all,
		       matrix_vectors_bytes(r->p));
		if (i)
			upload(r, part, part->vectors.column_out, r->zeros, sums_bytes(r));
	}
}

static bool same(const int64_t *got, const int64_t *want, uint32_t first, uint32_t nr,
		 const char *what, struct passes_result *result)
{
	for (uint32_t i = first; i < first + nr; i++) {
		if (got[i] == want[i])
			continue;
		snprintf(result->wrong, sizeof(result->wrong),
			 "the sum of %s %u is %lld and not %lld", what, i, (long long)got[i],
			 (long long)want[i]);
		return false;
	}
	return true;
}

/* Sums along a device's rows; along columns there are all of them on the first one. */
static void part_check(struct run *r, uint32_t device, struct passes_result *result)
{
	const struct matrix_vectors got = matrix_vectors_at(r->p, r->got);
	const struct matrix_vectors *want = &r->contents.end;
	const struct part *part = &r->part[device];
	struct backend *b = r->m->backend;

	step(r,
	     b->ops->download(b, part->stream, r->got, part->vectors.all,
			      matrix_vectors_bytes(r->p)),
	     "reading sums");
	if (r->status || r->phantom || !result->passed)
		return;
	result->checked = true;
	result->passed = same(got.row_out, want->row_out, part->first, part->rows, "row", result) &&
			 (device || same(got.column_out, want->column_out, 0, r->p->columns,
					 "column", result));
}

static void sums_check(struct run *r, struct passes_result *result)
{
	for (uint32_t i = 0; i < r->nr_parts && !r->status; i++)
		part_check(r, i, result);
}

static void pass_run(struct run *r, struct passes_result *result, uint32_t pass)
{
	struct pass_moment begin, end;
	int failed = 0;

	pass_begin(r->m, &begin);
	step(r, launch_pass(r, &failed), "launching the kernels");
	step(r, r->m->ops->sync(r->m), "the kernels");
	step(r, failed, "an agent");
	pass_end(r->m, &end);
	if (r->status)
		return;
	if (pass >= r->p->warm_up)
		pass_note(result, pass - r->p->warm_up, &begin, &end);
	sums_check(r, result);
}

static void passes_run(struct run *r, struct passes_result *result)
{
	for (uint32_t pass = 0; pass < r->p->passes && !r->status; pass++) {
		pass_prepare(r, pass);
		/* Behind it, so that an epoch of a trace is a pass without what prepares it. */
		if (r->p->progress && r->p->progress(r->p->progress_arg, pass, r->p->passes)) {
			fail(r, -EINTR, "interrupted after %u of %u passes", pass, r->p->passes);
			return;
		}
		if (!r->status)
			pass_run(r, result, pass);
	}
	if (r->status || r->phantom || !r->p->check || !result->passed)
		return;
	result->passed = matrix_check(r, result->wrong, sizeof(result->wrong));
}

/* ------------------------------------------------------------------ a run */

/* What the kernels need where they are CUDA's. */
static void kernels_load(struct run *r)
{
	void *stream = r->m->ops->stream ? r->m->ops->stream(r->m) : NULL;
	int err = stream ? matrix_cuda_load() : 0;

	if (r->nr_parts > 1 && !r->m->ops->launch_on)
		fail(r, -ENOTSUP, "the manager has one device, and not %u", r->nr_parts);
	if (err)
		fail(r, err, "no kernels for the GPU: %s", weir_strerror(err));
}

/* Each unless one before it failed. */
static void run_steps(struct run *r, struct passes_result *result)
{
	void (*const steps[])(struct run *) = {kernels_load, host_alloc, matrix_alloc, parts_alloc,
					       matrix_fill};

	for (size_t i = 0; i < ARRAY_LEN(steps) && !r->status; i++)
		steps[i](r);
	if (!r->status)
		passes_run(r, result);
	if (!r->status && r->p->progress)
		(void)r->p->progress(r->p->progress_arg, r->p->passes, r->p->passes);
}

int matrix_run(struct manager *m, const struct matrix_params *p, struct passes_result *out,
	       char *err, size_t err_bytes)
{
	struct run r = {
		.m = m,
		.p = p,
		.phantom = m->backend->data == WEIR_DATA_PHANTOM,
		.nr_parts = matrix_devices(p),
		.err = err,
		.err_bytes = err ? err_bytes : 0,
	};
	struct passes_result result;
	int ret = matrix_params_check(p, err, err_bytes);

	if (ret)
		return ret;
	ret = passes_result_init(&result, p->passes - p->warm_up);
	if (ret) {
		fail(&r, ret, "this computer has no memory for what a run keeps");
		return ret;
	}
	result.distinct_bytes = matrix_bytes(p);
	result.read_bytes = 2 * matrix_bytes(p);
	run_steps(&r, &result);
	all_free(&r);
	if (r.status)
		passes_result_free(&result);
	else
		*out = result;
	return r.status;
}
