/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on the CPU; kernels.h says what they do. */
#include "workloads/solver/kernels.h"

#include <string.h>

#include "workloads/solver/cuda.h"
#include "workloads/solver/point.h"

/* A slice of a range, and the two beside it. */
struct slice {
	const float *before, *in, *behind;
	float *out;
	bool border; /* of the field */
};

static struct slice slice_of(const struct solver_shape *shape, const struct solver_range *range,
			     uint32_t i)
{
	const uint64_t elements = solver_slice_elements(shape);
	const uint32_t at = range->first + i;

	return (struct slice){
		.before = i ? range->in + (i - 1) * elements : range->before,
		.in = range->in + i * elements,
		.behind = i + 1 < range->nr ? range->in + (i + 1) * elements : range->behind,
		.out = range->out + i * elements,
		.border = !at || at + 1 == shape->slices,
	};
}

static void jacobi_slice(const struct solver_shape *shape, const struct slice *s)
{
	const uint32_t last = shape->columns - 1;

	s->out[0] = s->in[0];
	for (uint32_t x = 1; x < last; x++)
		s->out[x] = point_jacobi(s->before[x], s->behind[x], s->in[x - 1], s->in[x + 1]);
	s->out[last] = s->in[last];
}

static void diffusion_row(const struct solver_shape *shape, const struct slice *s, uint32_t row)
{
	const uint32_t columns = shape->columns, last = columns - 1;
	const uint64_t at = (uint64_t)row * columns;
	const float *in = s->in + at;

	s->out[at] = in[0];
	for (uint32_t x = 1; x < last; x++) {
		const struct point_neighbours beside = {
			.left = in[x - 1],
			.right = in[x + 1],
			.above = in[(int64_t)x - columns],
			.below = in[x + columns],
			.before = s->before[at + x],
			.behind = s->behind[at + x],
		};

		s->out[at + x] = point_diffusion(in[x], beside);
	}
	s->out[at + last] = in[last];
}

static void diffusion_slice(const struct solver_shape *shape, const struct slice *s)
{
	const uint64_t end = (uint64_t)(shape->rows - 1) * shape->columns;

	memcpy(s->out, s->in, shape->columns * sizeof(float));
	for (uint32_t row = 1; row + 1 < shape->rows; row++)
		diffusion_row(shape, s, row);
	memcpy(s->out + end, s->in + end, shape->columns * sizeof(float));
}

static void stencil(const struct solver_stencil_args *a,
		    void (*slice_do)(const struct solver_shape *shape, const struct slice *s))
{
	for (uint32_t r = 0; r < a->nr_ranges; r++)
		for (uint32_t i = 0; i < a->range[r].nr; i++) {
			const struct slice s = slice_of(&a->shape, &a->range[r], i);

			if (s.border)
				memcpy(s.out, s.in, solver_slice_bytes(&a->shape));
			else
				slice_do(&a->shape, &s);
		}
}

static void jacobi_cpu(const void *args)
{
	stencil(args, jacobi_slice);
}

static void diffusion_cpu(const void *args)
{
	stencil(args, diffusion_slice);
}

/* ---- als */

static const float *other_row(const struct solver_als_args *a, uint32_t row)
{
	uint32_t k = 0;

	while (row >= a->part_first[k + 1])
		k++;
	return a->part[k] + (uint64_t)(row - a->part_first[k]) * SOLVER_WIDTH;
}

/* In the order in which a warp adds: halves onto each other. */
static float dot(const float *x, const float *y)
{
	float sum[SOLVER_WIDTH];

	for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
		sum[i] = point_mul(x[i], y[i]);
	for (uint32_t half = SOLVER_WIDTH / 2; half; half /= 2)
		for (uint32_t i = 0; i < half; i++)
			sum[i] = point_add(sum[i], sum[i + half]);
	return sum[0];
}

/* Add to `sum` the other side's rows of the ratings from e to before end, weighted: by the rating,
 * or with `by` by their products with that. */
static void ratings_add(const struct solver_als_args *a, uint64_t e, uint64_t end, const float *by,
			float *sum)
{
	for (; e < end; e++) {
		float weight;
		const float *y = other_row(a, ratings_other(&a->ratings, a->side, e, &weight));

		weight = by ? dot(y, by) : weight;
		for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
			sum[i] = point_add(sum[i], point_mul(weight, y[i]));
	}
}

/* Of all ratings of a row; of one with many, part by part. */
static void rows_add(const struct solver_als_args *a, uint32_t row, const float *by, float *sum)
{
	const uint32_t rank = ratings_rank(&a->ratings.side[a->side], row);
	const uint64_t first = ratings_begin(&a->ratings, a->side, rank);
	const uint64_t behind = ratings_begin(&a->ratings, a->side, rank + 1);

	if (rank >= RATINGS_LONG) {
		ratings_add(a, first, behind, by, sum);
		return;
	}
	for (uint32_t k = 0; k < RATINGS_PARTS; k++) {
		float part[SOLVER_WIDTH] = {0};

		ratings_add(a, ratings_part(first, behind, k), ratings_part(first, behind, k + 1),
			    by, part);
		for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
			sum[i] = point_add(sum[i], part[i]);
	}
}

/* x += factor * y */
static void add_scaled(float *x, float factor, const float *y)
{
	for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
		x[i] = point_add(x[i], point_mul(factor, y[i]));
}

static void als_row(const struct solver_als_args *a, uint32_t row, float *x)
{
	float left[SOLVER_WIDTH] = {0}, way[SOLVER_WIDTH], image[SOLVER_WIDTH];
	float square, before;

	memset(x, 0, SOLVER_WIDTH * sizeof(*x));
	rows_add(a, row, NULL, left);
	memcpy(way, left, sizeof(way));
	square = dot(left, left);
	for (uint32_t step = 0; step < SOLVER_ALS_STEPS && square > 0; step++) {
		float length;

		for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
			image[i] = point_mul(POINT_RIDGE, way[i]);
		rows_add(a, row, way, image);
		length = square / dot(way, image);
		add_scaled(x, length, way);
		add_scaled(left, -length, image);
		before = square;
		square = dot(left, left);
		for (uint32_t i = 0; i < SOLVER_WIDTH; i++)
			way[i] = point_add(left[i], point_mul(square / before, way[i]));
	}
}

static void als_cpu(const void *args)
{
	const struct solver_als_args *a = args;

	for (uint32_t i = 0; i < a->nr; i++)
		als_row(a, a->first + i, a->out + (uint64_t)i * SOLVER_WIDTH);
}

/* ---- the beginning and the end */

static void fill_cpu(const void *args)
{
	const struct solver_fill_args *a = args;
	const uint64_t elements = solver_slice_elements(&a->shape);
	const uint64_t first = a->range.first * elements;

	for (uint64_t i = 0; i < a->range.nr * elements; i++)
		a->range.out[i] = point_begin(first + i);
}

static void hash_cpu(const void *args)
{
	const struct solver_hash_args *a = args;
	const uint64_t elements = solver_slice_elements(&a->shape);
	const uint64_t first = a->range.first * elements;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < a->range.nr * elements; i++)
		sum += point_hash(first + i, a->range.in[i]);
	*a->sum += sum;
}

const struct weir_kernel solver_kernel_jacobi = {
	.name = "solver_jacobi", .cpu = jacobi_cpu, .cuda = solver_cuda_run_jacobi};
const struct weir_kernel solver_kernel_diffusion = {
	.name = "solver_diffusion", .cpu = diffusion_cpu, .cuda = solver_cuda_run_diffusion};
const struct weir_kernel solver_kernel_als = {
	.name = "solver_als", .cpu = als_cpu, .cuda = solver_cuda_run_als};
const struct weir_kernel solver_kernel_fill = {
	.name = "solver_fill", .cpu = fill_cpu, .cuda = solver_cuda_run_fill};
const struct weir_kernel solver_kernel_hash = {
	.name = "solver_hash", .cpu = hash_cpu, .cuda = solver_cuda_run_hash};
