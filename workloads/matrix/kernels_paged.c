/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels on the CPU, for a matrix that they page for themselves: agents, each of which takes
 * every nr-th task: MATRIX_BATCH rows of a page's columns, page after page.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/paging/view.h"
#include "workloads/agents.h"
#include "workloads/matrix/cuda.h"
#include "workloads/matrix/pieces.h"

/* What the agents of a sweep share. */
struct sweep {
	const struct matrix_paged_args *args;
	bool columns;
};

/* Others add to the same element. */
static void out_add(int64_t *out, int64_t value)
{
	__atomic_fetch_add(out, value, __ATOMIC_RELAXED);
}

/* One row's piece: sums are of its columns. nr_touches: that it is of its page. */
static int piece_sweep(struct paging_agent *agent, const struct sweep *sweep, uint64_t row,
		       uint64_t column, unsigned nr_touches, int64_t *sums)
{
	const struct matrix_args *a = &sweep->args->matrix;
	uint64_t offset = (row * a->columns + column) * sizeof(float);
	struct paging_span span;
	int err = paging_span_get(agent, sweep->args->range, offset, PAGING_TOUCHES(nr_touches),
				  &span);

	if (err)
		return err;
	if (sweep->columns)
		piece_add(sums, span.addr, a->in[row]);
	else
		out_add(&a->out[row], piece_dot(span.addr, a->in + column));
	return paging_span_put(agent, &span);
}

/* sums: of width columns, a page's. The first piece of a row says that all of it is used. */
static int task_sweep(struct paging_agent *agent, const struct sweep *sweep, uint64_t row,
		      uint64_t column, uint64_t width, int64_t *sums)
{
	const unsigned whole = (unsigned)(width * sizeof(float) / MATRIX_SECTOR_BYTES);
	int err = 0;

	memset(sums, 0, width * sizeof(*sums));
	for (uint64_t i = row; i < row + MATRIX_BATCH; i++)
		for (uint64_t j = 0; j < width && !err; j += MATRIX_PIECE)
			err = piece_sweep(agent, sweep, i, column + j, j ? 1 : whole, sums + j);
	for (uint64_t j = 0; j < width && sweep->columns && !err; j++)
		out_add(&sweep->args->matrix.out[column + j], sums[j]);
	return err;
}

static int share_sweep(struct paging_agent *agent, uint32_t first, uint32_t nr, void *arg)
{
	const struct sweep *sweep = arg;
	const struct matrix_args *a = &sweep->args->matrix;
	uint64_t width = view_page_bytes(&sweep->args->view) / sizeof(float);
	uint64_t nr_pages = a->columns / width; /* of a row */
	int64_t *sums = calloc(width, sizeof(*sums));
	int err = sums ? 0 : -ENOMEM;

	for (uint64_t task = first; task < a->rows / MATRIX_BATCH * nr_pages && !err; task += nr)
		err = task_sweep(agent, sweep, task / nr_pages * MATRIX_BATCH,
				 task % nr_pages * width, width, sums);
	free(sums);
	return err;
}

static void paged_sweep(const struct matrix_paged_args *args, bool columns)
{
	struct sweep sweep = {args, columns};
	/* After each piece, since few of them are many accesses. */
	int err = agents_run(&args->view, 1, args->matrix.agents, share_sweep, &sweep);

	if (err)
		*args->matrix.status = err;
}

static void paged_rows_cpu(const void *p)
{
	paged_sweep(p, false);
}

static void paged_columns_cpu(const void *p)
{
	paged_sweep(p, true);
}

const struct weir_kernel matrix_kernel_paged_rows = {
	.name = "matrix_paged_rows", .cpu = paged_rows_cpu, .cuda = matrix_cuda_run_paged_rows};
const struct weir_kernel matrix_kernel_paged_columns = {.name = "matrix_paged_columns",
							.cpu = paged_columns_cpu,
							.cuda = matrix_cuda_run_paged_columns};
