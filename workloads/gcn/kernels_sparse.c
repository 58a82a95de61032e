/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the aggregation: rows are gathered by index, scaled, and added to rows by index. And
 * what else moves rows: filling with zero, and listing the rows that a mask selects.
 */
#include "workloads/gcn/kernels.h"

#include <string.h>

#include "workloads/gcn/cuda.h"
#include "workloads/gcn/parts.h"

#define ZERO_UNIT (UINT64_C(1) << 20)

static void zero_part(const void *p, uint64_t part)
{
	const struct gcn_zero_args *a = p;
	struct gcn_run r = gcn_part(part, ZERO_UNIT, a->bytes);

	memset((char *)a->out + r.first, 0, r.end - r.first);
}

static void zero_cpu(const void *p)
{
	const struct gcn_zero_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->bytes, ZERO_UNIT), zero_part, a);
}

const struct weir_kernel gcn_kernel_zero = {
	.name = "zero", .cpu = zero_cpu, .cuda = gcn_cuda_run_zero};

static void gather_part(const void *p, uint64_t part)
{
	const struct gcn_gather_args *a = p;
	struct gcn_run r = gcn_part(part, gcn_rows_unit(a->width), a->nr);
	size_t row_bytes = a->width * sizeof(float);

	for (uint64_t i = r.first; i < r.end; i++)
		memcpy(a->out + i * a->width, a->src + (uint64_t)a->index[i] * a->width, row_bytes);
}

static void gather_cpu(const void *p)
{
	const struct gcn_gather_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, gcn_rows_unit(a->width)), gather_part, a);
}

const struct weir_kernel gcn_kernel_gather = {
	.name = "gather", .cpu = gather_cpu, .cuda = gcn_cuda_run_gather};

static void scale_part(const void *p, uint64_t part)
{
	const struct gcn_scale_args *a = p;
	struct gcn_run r = gcn_part(part, gcn_rows_unit(a->width), a->nr);

	for (uint64_t i = r.first; i < r.end; i++) {
		const float *restrict in = a->in + i * a->width;
		float *restrict out = a->out + i * a->width;
		float weight = a->weight[i];

		for (uint32_t j = 0; j < a->width; j++)
			out[j] = in[j] * weight;
	}
}

static void scale_cpu(const void *p)
{
	const struct gcn_scale_args *a = p;

	gcn_pool_run(a->pool, gcn_nr_parts(a->nr, gcn_rows_unit(a->width)), scale_part, a);
}

const struct weir_kernel gcn_kernel_scale = {
	.name = "scale", .cpu = scale_cpu, .cuda = gcn_cuda_run_scale};

/*
 * A part owns a run of destination rows and passes over all entries for those of its own. Reading
 * the indexes once a thread costs 8 bytes an entry where a row costs 4 * width: sorting the
 * entries into buckets first would cost more than it saves, and needs memory that is not there.
 */
static void scatter_add_part(const void *p, uint64_t part)
{
	const struct gcn_scatter_add_args *a = p;
	struct gcn_run r =
		gcn_part(part, gcn_nr_parts(a->out_rows, gcn_pool_threads(a->pool)), a->out_rows);
	uint64_t owned = r.end - r.first;

	for (uint64_t i = 0; i < a->nr; i++) {
		uint64_t row = (uint64_t)a->index[i];
		const float *restrict in = a->in + i * a->width;
		float *restrict out = a->out + row * a->width;

		if (row - r.first >= owned)
			continue;
		for (uint32_t j = 0; j < a->width; j++)
			out[j] += in[j];
	}
}

static void scatter_add_cpu(const void *p)
{
	const struct gcn_scatter_add_args *a = p;
	uint64_t unit = gcn_nr_parts(a->out_rows, gcn_pool_threads(a->pool));

	gcn_pool_run(a->pool, gcn_nr_parts(a->out_rows, unit), scatter_add_part, a);
}

const struct weir_kernel gcn_kernel_scatter_add = {
	.name = "scatter_add", .cpu = scatter_add_cpu, .cuda = gcn_cuda_run_scatter_add};

/* One thread: where a selected row goes depends on all before it, and the mask is small. */
static void select_cpu(const void *p)
{
	const struct gcn_select_args *a = p;
	uint64_t nr = 0;

	for (uint64_t i = 0; i < a->nr; i++) {
		if (a->mask[i] && nr < a->nr_index)
			a->index[nr++] = (int64_t)i;
	}
}

const struct weir_kernel gcn_kernel_select = {
	.name = "select", .cpu = select_cpu, .cuda = gcn_cuda_run_select};
