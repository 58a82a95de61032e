/* SPDX-License-Identifier: Apache-2.0 */
/* A run: parameters, the matrix and its vectors, passes, what was right, everything given back. */
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

/* One run. A step that fails stores its error, and every step after it does nothing. */
struct run {
	struct manager *m;	       /* borrowed */
	const struct matrix_params *p; /* borrowed */
	bool phantom;
	struct matrix_contents contents;
	float *elements;	       /* of the manager; NULL: not allocated */
	struct matrix_vectors vectors; /* of the device */
	int64_t *got;		       /* as those, downloaded */
	stream_id_t stream;	       /* vectors are copied on it, while kernels do not run */
	bool has_stream;
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

static void vectors_alloc(struct run *r)
{
	struct backend *b = r->m->backend;
	uint64_t bytes = matrix_vectors_bytes(r->p);
	void *addr;
	int err = b->ops->stream_create(b, r->m->device, BACKEND_COMPUTE, &r->stream);

	step(r, err, "making a stream");
	r->has_stream = !err;
	if (err)
		return;
	err = b->ops->device_alloc(b, b->desc.device[r->m->device].memory, bytes, &addr);
	if (err)
		fail(r, err, "no memory of the device for vectors (%.3f MB): %s",
		     (double)bytes / 1e6, weir_strerror(err));
	else
		r->vectors = matrix_vectors_at(r->p, addr);
}

/* What this computer's own memory has of it. */
static void host_alloc(struct run *r)
{
	uint64_t rows = BUFFER_BYTES / row_bytes(r);
	int err = matrix_contents_init(&r->contents, r->p);

	r->buffer_rows = rows < r->p->rows ? (uint32_t)rows : r->p->rows;
	if (!err && !r->phantom) {
		r->got = malloc(matrix_vectors_bytes(r->p));
		r->buffer = malloc(r->buffer_rows * row_bytes(r));
		err = r->got && r->buffer ? gcn_pool_create(0, &r->pool) : -EAGAIN;
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
	if (r->vectors.all)
		b->ops->device_free(b, r->vectors.all);
	if (r->has_stream)
		b->ops->stream_destroy(b, r->stream);
	gcn_pool_destroy(r->pool);
	free(r->buffer);
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

/* paged: where kernels page for themselves, else NULL. */
static int launch_sweep(struct run *r, bool columns, const struct matrix_paged_args *paged,
			int *status)
{
	const struct weir_kernel *const kernels[2][2] = {
		{&matrix_kernel_rows, &matrix_kernel_columns},
		{&matrix_kernel_paged_rows, &matrix_kernel_paged_columns}};
	const struct weir_use use = {
		.addr = r->elements,
		.bytes = matrix_bytes(r->p),
		.kind = WEIR_READ,
		.read_bytes = matrix_bytes(r->p),
		.granule = MATRIX_PIECE_BYTES,
	};
	struct matrix_paged_args args = {
		.matrix = {
			.elements = r->elements,
			.rows = r->p->rows,
			.columns = r->p->columns,
			.in = columns ? r->vectors.column_in : r->vectors.row_in,
			.out = columns ? r->vectors.column_out : r->vectors.row_out,
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
	return r->m->ops->launch(r->m, &launch);
}

static int launch_both(struct run *r, const struct matrix_paged_args *paged, int *status)
{
	int err = launch_sweep(r, false, paged, status);

	return err ? err : launch_sweep(r, true, paged, status);
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

/* The vectors as they are before a pass, and the device idle. */
static void pass_prepare(struct run *r, uint32_t pass)
{
	struct backend *b = r->m->backend;

	step(r, pass_idle(r->m, !r->p->warm || !pass), "emptying the device's memory");
	if (!r->status)
		step(r,
		     b->ops->upload(b, r->stream, r->vectors.all,
				    r->phantom ? NULL : r->contents.begin.all,
				    matrix_vectors_bytes(r->p)),
		     "copying vectors");
}

static bool same(const int64_t *got, const int64_t *want, uint32_t nr, const char *what,
		 struct passes_result *result)
{
	for (uint32_t i = 0; i < nr; i++) {
		if (got[i] == want[i])
			continue;
		snprintf(result->wrong, sizeof(result->wrong),
			 "the sum of %s %u is %lld and not %lld", what, i, (long long)got[i],
			 (long long)want[i]);
		return false;
	}
	return true;
}

static void sums_check(struct run *r, struct passes_result *result)
{
	const struct matrix_vectors got = matrix_vectors_at(r->p, r->got);
	const struct matrix_vectors *want = &r->contents.end;
	struct backend *b = r->m->backend;

	step(r, b->ops->download(b, r->stream, r->got, r->vectors.all, matrix_vectors_bytes(r->p)),
	     "reading sums");
	if (r->status || r->phantom || !result->passed)
		return;
	result->checked = true;
	result->passed = same(got.row_out, want->row_out, r->p->rows, "row", result) &&
			 same(got.column_out, want->column_out, r->p->columns, "column", result);
}

static void pass_run(struct run *r, struct passes_result *result, uint32_t pass)
{
	struct pass_moment begin, end;
	int failed = 0;

	pass_prepare(r, pass);
	if (r->status)
		return;
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
		if (r->p->progress && r->p->progress(r->p->progress_arg, pass, r->p->passes)) {
			fail(r, -EINTR, "interrupted after %u of %u passes", pass, r->p->passes);
			return;
		}
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

	if (err)
		fail(r, err, "no kernels for the GPU: %s", weir_strerror(err));
}

/* Each unless one before it failed. */
static void run_steps(struct run *r, struct passes_result *result)
{
	void (*const steps[])(struct run *) = {kernels_load, host_alloc, matrix_alloc,
					       vectors_alloc, matrix_fill};

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
