/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libweir-solver-fake.so: the solvers' CUDA kernels (workloads/solver/cuda/plugin.h) for the fake
 * driver. Each is the CPU's, queued as a kernel that touches what its arguments name.
 * WEIR_SOLVER_KERNELS names it.
 */
#include <stdlib.h>

#include "src/base/util.h"
#include "tests/fakecuda/plugin.h"
#include "workloads/solver/cuda/plugin.h"

const char *solver_cuda_error(void)
{
	return error_text;
}

uint64_t solver_cuda_abi(void)
{
	return solver_cuda_abi_here();
}

static int refused(const char *name)
{
	snprintf(error_text, sizeof(error_text), "%s: no such field", name);
	return -EINVAL;
}

static int stencil(void *stream, const char *name, const struct weir_kernel *kernel,
		   const struct solver_stencil_args *a)
{
	struct fakecuda_touch touch[8];
	const uint64_t slice = solver_slice_elements(&a->shape);
	unsigned nr = 0;

	if (!solver_cuda_stencil_valid(a))
		return refused(name);
	for (uint32_t i = 0; i < a->nr_ranges; i++) {
		const struct solver_range *r = &a->range[i];

		touch[nr++] = (struct fakecuda_touch)READS(r->in, r->nr * slice);
		touch[nr++] = (struct fakecuda_touch)WRITES(r->out, r->nr * slice);
		if (r->first)
			touch[nr++] = (struct fakecuda_touch)READS(r->before, slice);
		if (r->first + r->nr < a->shape.slices)
			touch[nr++] = (struct fakecuda_touch)READS(r->behind, slice);
	}
	return queue(stream, name, kernel->cpu, a, sizeof(*a), touch, nr);
}

int solver_cuda_jacobi(void *stream, const void *args)
{
	return stencil(stream, "jacobi", &solver_kernel_jacobi, args);
}

int solver_cuda_diffusion(void *stream, const void *args)
{
	return stencil(stream, "diffusion", &solver_kernel_diffusion, args);
}

int solver_cuda_als(void *stream, const void *args)
{
	const struct solver_als_args *a = args;
	struct fakecuda_touch touch[WEIR_DEVICES_MAX + 1];

	if (!solver_cuda_als_valid(a))
		return refused("als");
	for (uint32_t i = 0; i < a->nr_parts; i++)
		touch[i] = (struct fakecuda_touch)READS(
			a->part[i],
			(uint64_t)(a->part_first[i + 1] - a->part_first[i]) * SOLVER_WIDTH);
	touch[a->nr_parts] = (struct fakecuda_touch)WRITES(a->out, (uint64_t)a->nr * SOLVER_WIDTH);
	return queue(stream, "als", solver_kernel_als.cpu, a, sizeof(*a), touch, a->nr_parts + 1);
}

/* A GPU leaves out a row of several pieces that are not listed, in order, and counts wrong if they
 * are not as they were before the first launch. */
static void pieces_check(const struct solver_rows *rows)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < rows->nr; i++) {
		const uint64_t nr = rows->offset[i + 1] - rows->offset[i];

		for (uint32_t k = 0;
		     nr > SOLVER_PIECE_EDGES && k < div_round_up(nr, SOLVER_PIECE_EDGES); k++, at++)
			if (at >= rows->nr_pieces || rows->piece[at].vertex != rows->first + i ||
			    rows->piece[at].index != k || rows->piece[at].nr_done)
				abort();
	}
	if (at != rows->nr_pieces)
		abort();
}

static void pagerank_do(const void *args)
{
	pieces_check(&((const struct solver_pagerank_args *)args)->rows);
	solver_kernel_pagerank.cpu(args);
}

static void relax_do(const void *args)
{
	pieces_check(&((const struct solver_relax_args *)args)->rows);
	solver_kernel_relax.cpu(args);
}

/* What a launch reads of a device's edges and of a vector. */
static unsigned rows_touch(const struct solver_rows *rows, const struct solver_vector *in,
			   struct fakecuda_touch *touch)
{
	unsigned nr = 0;

	touch[nr++] = (struct fakecuda_touch)READS(rows->offset, rows->nr + UINT64_C(1));
	if (rows->nr_edges)
		touch[nr++] = (struct fakecuda_touch)READS(rows->neighbour, rows->nr_edges);
	if (rows->nr_pieces)
		touch[nr++] = (struct fakecuda_touch)WRITES(rows->piece, rows->nr_pieces);
	for (uint32_t i = 0; i < in->nr_parts; i++)
		touch[nr++] = (struct fakecuda_touch)READS(in->part[i], in->part_first[i + 1] -
										in->part_first[i]);
	return nr;
}

int solver_cuda_pagerank(void *stream, const void *args)
{
	const struct solver_pagerank_args *a = args;
	struct fakecuda_touch touch[WEIR_DEVICES_MAX + 4];
	unsigned nr;

	if (!solver_cuda_rows_valid(&a->rows, &a->in))
		return refused("pagerank");
	nr = rows_touch(&a->rows, &a->in, touch);
	touch[nr++] = (struct fakecuda_touch)WRITES(a->out, a->rows.nr);
	return queue(stream, "pagerank", pagerank_do, a, sizeof(*a), touch, nr);
}

int solver_cuda_relax(void *stream, const void *args)
{
	const struct solver_relax_args *a = args;
	const uint64_t nr_blocks = div_round_up(a->rows.nr, UINT64_C(1) << a->block_log2);
	struct fakecuda_touch touch[WEIR_DEVICES_MAX + 6];
	unsigned nr;

	if (!solver_cuda_rows_valid(&a->rows, &a->in))
		return refused("relax");
	nr = rows_touch(&a->rows, &a->in, touch);
	if (a->rows.nr_edges)
		touch[nr++] = (struct fakecuda_touch)READS(a->rows.weight, a->rows.nr_edges);
	touch[nr++] = (struct fakecuda_touch)WRITES(a->next, a->rows.nr);
	touch[nr++] = (struct fakecuda_touch)WRITES(a->changed, nr_blocks);
	return queue(stream, "relax", relax_do, a, sizeof(*a), touch, nr);
}

int solver_cuda_commit(void *stream, const void *args)
{
	const struct solver_commit_args *a = args;
	struct fakecuda_touch touch[2 * SOLVER_RANGES_MAX];
	unsigned nr = 0;

	if (!solver_cuda_commit_valid(a))
		return refused("commit");
	for (uint32_t i = 0; i < a->nr_ranges; i++) {
		if (a->range[i].from)
			touch[nr++] = (struct fakecuda_touch)READS(a->range[i].from,
								   (uint64_t)a->range[i].nr);
		touch[nr++] =
			(struct fakecuda_touch)WRITES(a->range[i].to, (uint64_t)a->range[i].nr);
	}
	return queue(stream, "commit", solver_kernel_commit.cpu, a, sizeof(*a), touch, nr);
}

int solver_cuda_fill(void *stream, const void *args)
{
	const struct solver_fill_args *a = args;
	const uint64_t nr = a->range.nr * solver_slice_elements(&a->shape);
	const struct fakecuda_touch touch[] = {WRITES(a->range.out, nr)};

	if (!solver_cuda_shape_valid(&a->shape) || !solver_cuda_range_valid(&a->shape, &a->range))
		return refused("fill");
	return queue(stream, "fill", solver_kernel_fill.cpu, a, sizeof(*a), touch, 1);
}

int solver_cuda_hash(void *stream, const void *args)
{
	const struct solver_hash_args *a = args;
	const uint64_t nr = a->range.nr * solver_slice_elements(&a->shape);
	const struct fakecuda_touch touch[] = {READS(a->range.in, nr), WRITES(a->sum, 1)};

	if (!solver_cuda_shape_valid(&a->shape) || !solver_cuda_range_valid(&a->shape, &a->range))
		return refused("hash");
	return queue(stream, "hash", solver_kernel_hash.cpu, a, sizeof(*a), touch, 2);
}
