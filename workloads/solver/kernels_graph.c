/* SPDX-License-Identifier: Apache-2.0 */
/* pagerank's and sssp's kernels on the CPU; kernels.h says what they do. */
#include <math.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/solver/cuda.h"
#include "workloads/solver/kernels.h"
#include "workloads/solver/point.h"

static float element(const struct solver_vector *v, uint32_t at)
{
	uint32_t k = 0;

	while (at >= v->part_first[k + 1])
		k++;
	return v->part[k][at - v->part_first[k]];
}

/* ---- pagerank */

/* Halves of sums onto each other. */
static float sums_join(float *sum, uint32_t nr)
{
	for (uint32_t half = nr / 2; half; half /= 2)
		for (uint32_t i = 0; i < half; i++)
			sum[i] = point_add(sum[i], sum[i + half]);
	return sum[0];
}

static float edges_sum(const struct solver_pagerank_args *a, const uint32_t *neighbour, uint64_t nr,
		       uint32_t lanes)
{
	float sum[SOLVER_LONG_ROW_LANES] = {0};

	for (uint64_t i = 0; i < nr; i++)
		sum[i % lanes] = point_add(sum[i % lanes], element(&a->in, neighbour[i]));
	return sums_join(sum, lanes);
}

static float row_sum(const struct solver_pagerank_args *a, const uint32_t *neighbour, uint64_t nr)
{
	float sum[SOLVER_ROW_LANES] = {0};

	if (nr <= SOLVER_LONG_ROW)
		return edges_sum(a, neighbour, nr, SOLVER_ROW_LANES);
	for (uint64_t at = 0; at < nr; at += SOLVER_PIECE_EDGES) {
		float *lane = &sum[at / SOLVER_PIECE_EDGES % SOLVER_ROW_LANES];

		*lane = point_add(*lane,
				  edges_sum(a, neighbour + at, MIN(nr - at, SOLVER_PIECE_EDGES),
					    SOLVER_LONG_ROW_LANES));
	}
	return sums_join(sum, SOLVER_ROW_LANES);
}

static void pagerank_cpu(const void *args)
{
	const struct solver_pagerank_args *a = args;
	const struct solver_rows *rows = &a->rows;

	for (uint32_t i = 0; i < rows->nr; i++) {
		const uint64_t nr = rows->offset[i + 1] - rows->offset[i];
		const uint32_t *from = rows->neighbour + (rows->offset[i] - rows->offset[0]);
		const float sum = a->in.nr_parts ? row_sum(a, from, nr) : 0;

		a->out[i] =
			nr ? point_div(point_add(a->base, point_mul(a->damping, sum)), (float)nr)
			   : 0;
	}
}

/* ---- sssp */

static float row_least(const struct solver_relax_args *a, uint32_t i)
{
	const struct solver_rows *rows = &a->rows;
	float least = element(&a->in, rows->first + i);

	for (uint64_t e = rows->offset[i] - rows->offset[0];
	     e < rows->offset[i + 1] - rows->offset[0]; e++)
		least = point_least(least, point_add(element(&a->in, rows->neighbour[e]),
						     (float)rows->weight[e]));
	return least;
}

static void relax_cpu(const void *args)
{
	const struct solver_relax_args *a = args;

	for (uint32_t i = 0; i < a->rows.nr; i++) {
		a->next[i] = row_least(a, i);
		if (a->next[i] < element(&a->in, a->rows.first + i))
			a->changed[i >> a->block_log2] = a->round;
	}
}

static void commit_cpu(const void *args)
{
	const struct solver_commit_args *a = args;

	for (uint32_t r = 0; r < a->nr_ranges; r++) {
		const struct solver_commit_range *range = &a->range[r];

		for (uint32_t i = 0; i < range->nr; i++)
			range->to[i] = range->from		       ? range->from[i]
				       : range->first + i == a->source ? 0
								       : INFINITY;
	}
}

const struct weir_kernel solver_kernel_relax = {
	.name = "solver_relax", .cpu = relax_cpu, .cuda = solver_cuda_run_relax};
const struct weir_kernel solver_kernel_commit = {
	.name = "solver_commit", .cpu = commit_cpu, .cuda = solver_cuda_run_commit};
const struct weir_kernel solver_kernel_pagerank = {
	.name = "solver_pagerank", .cpu = pagerank_cpu, .cuda = solver_cuda_run_pagerank};
