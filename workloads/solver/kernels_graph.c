/* SPDX-License-Identifier: Apache-2.0 */
/* pagerank's and sssp's kernels on the CPU; kernels.h says what they do. */
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

static float row_sum(const struct solver_pagerank_args *a, const uint32_t *neighbour, uint64_t nr)
{
	const uint32_t lanes = nr > SOLVER_LONG_ROW ? SOLVER_LONG_ROW_LANES : SOLVER_ROW_LANES;
	float sum[SOLVER_LONG_ROW_LANES] = {0};

	for (uint64_t i = 0; i < nr; i++)
		sum[i % lanes] = point_add(sum[i % lanes], element(&a->in, neighbour[i]));
	for (uint32_t half = lanes / 2; half; half /= 2)
		for (uint32_t i = 0; i < half; i++)
			sum[i] = point_add(sum[i], sum[i + half]);
	return sum[0];
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

const struct weir_kernel solver_kernel_pagerank = {
	.name = "solver_pagerank", .cpu = pagerank_cpu, .cuda = solver_cuda_run_pagerank};
