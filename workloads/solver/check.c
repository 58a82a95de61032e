/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the field must be: the CPU's kernels run over all slices at once, as often as the devices
 * did, in two arrays of this computer's own memory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/gcn/pool.h"
#include "workloads/solver/internal.h"

#define READ_BYTES (UINT64_C(16) << 20)

struct reference {
	const struct solver_params *p;
	float *array[2];
	struct gcn_pool *pool;
	uint32_t in;		/* the array that is read */
	uint64_t nr_done;	/* of pagerank: iterations; 0: what the first one reads is made */
	struct ratings ratings; /* of als */
	uint8_t *weight;	/* of sssp, of each edge */
};

/* A byte an edge. */
static int weights_make(struct reference *ref)
{
	const struct csr *csr = &ref->p->graph->input.graph;

	ref->weight = malloc(csr->nr_edges);
	for (uint64_t e = 0; ref->weight && e < csr->nr_edges; e++)
		ref->weight[e] = (uint8_t)csr->weight[e];
	return ref->weight ? 0 : -EAGAIN;
}

static int reference_init(struct reference *ref, const struct solver_params *p)
{
	int err = gcn_pool_create(0, &ref->pool);

	ref->p = p;
	if (p->kind == SOLVER_ALS)
		ref->ratings = als_ratings(p);
	for (int i = 0; i < 2 && !err; i++) {
		ref->array[i] = malloc(solver_array_bytes(p, (uint32_t)i));
		err = ref->array[i] ? 0 : -EAGAIN;
	}
	if (!err && p->kind == SOLVER_SSSP)
		err = weights_make(ref);
	return err ? -EAGAIN : 0;
}

static void reference_fini(struct reference *ref)
{
	gcn_pool_destroy(ref->pool);
	free(ref->array[0]);
	free(ref->array[1]);
	free(ref->weight);
}

/* One slice of the array that is to be read first. */
static void slice_fill(const void *arg, uint64_t slice)
{
	const struct reference *ref = arg;
	const struct solver_shape shape = solver_array_shape(ref->p, ref->in);
	struct solver_fill_args args = {
		.shape = shape,
		.range = {.first = (uint32_t)slice,
			  .nr = 1,
			  .out = ref->array[ref->in] + slice * solver_slice_elements(&shape)}};

	solver_kernel_fill.cpu(&args);
}

/* One row of the factor that is not read. */
static void row_step(const void *arg, uint64_t row)
{
	const struct reference *ref = arg;
	const struct solver_als_args args = {
		.ratings = ref->ratings,
		.side = !ref->in,
		.first = (uint32_t)row,
		.nr = 1,
		.out = ref->array[!ref->in] + row * SOLVER_WIDTH,
		.nr_parts = 1,
		.part_first = {0, ref->ratings.side[ref->in].nr},
		.part = {ref->array[ref->in]},
	};

	solver_kernel_als.cpu(&args);
}

/* One slice of a graph's vector; nr_done: iterations before it, and what begins is no iteration. */
static void rank_step(const void *arg, uint64_t slice)
{
	const struct reference *ref = arg;
	const struct solver_graph *g = ref->p->graph;
	const struct csr *csr = &g->input.graph;
	const uint64_t first = slice * SOLVER_GRAPH_SLICE;
	struct solver_pagerank_args args = solver_pagerank_args_of(g, ref->nr_done);

	args.rows = (struct solver_rows){.first = (uint32_t)first,
					 .nr = SOLVER_GRAPH_SLICE,
					 .offset = csr->offset + first,
					 .neighbour = csr->narrow + csr->offset[first]};
	if (ref->nr_done)
		args.in = (struct solver_vector){.nr_parts = 1,
						 .part_first = {0, (uint32_t)g->nr_vertices},
						 .part = {ref->array[ref->in]}};
	args.out = ref->array[!ref->in] + first;
	solver_kernel_pagerank.cpu(&args);
}

/* The same of distances; nr_done 0: what the first round reads. */
static void relax_step(const void *arg, uint64_t slice)
{
	const struct reference *ref = arg;
	const struct solver_graph *g = ref->p->graph;
	const struct csr *csr = &g->input.graph;
	const uint32_t first = (uint32_t)slice * SOLVER_GRAPH_SLICE;
	const uint64_t before = csr->offset[first];
	float *out = ref->array[!ref->in] + first;
	uint32_t changed;
	const struct solver_commit_args begin = {
		.nr_ranges = 1,
		.range = {{.to = out, .first = first, .nr = SOLVER_GRAPH_SLICE}},
		.source = g->source,
	};
	const struct solver_relax_args args = {
		.rows = {.first = first,
			 .nr = SOLVER_GRAPH_SLICE,
			 .offset = csr->offset + first,
			 .neighbour = csr->narrow + before,
			 .weight = ref->weight + before},
		.in = {.nr_parts = 1,
		       .part_first = {0, (uint32_t)g->nr_vertices},
		       .part = {ref->array[ref->in]}},
		.next = out,
		.changed = &changed,
		.block_log2 = 31,
	};

	if (ref->nr_done)
		solver_kernel_relax.cpu(&args);
	else
		solver_kernel_commit.cpu(&begin);
}

static void slice_step(const void *arg, uint64_t slice)
{
	const struct reference *ref = arg;
	const uint64_t elements = solver_slice_elements(&ref->p->shape);
	const float *in = ref->array[ref->in] + slice * elements;
	const struct solver_stencil_args args = {
		.shape = ref->p->shape,
		.range = {{.first = (uint32_t)slice,
			   .nr = 1,
			   .in = in,
			   .before = slice ? in - elements : NULL,
			   .behind = in + elements,
			   .out = ref->array[!ref->in] + slice * elements}},
		.nr_ranges = 1,
	};

	solver_kernel_of(ref->p->kind)->cpu(&args);
}

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Compare so many elements; their first that is wrong is told. */
static void compare(const struct solver_shape *shape, uint64_t first, uint64_t nr, const float *got,
		    const float *want, struct passes_result *result)
{
	for (uint64_t i = 0; i < nr; i++) {
		const uint64_t at = first + i, in_slice = at % solver_slice_elements(shape);

		if (bits_of(got[i]) == bits_of(want[i]))
			continue;
		result->passed = false;
		snprintf(result->wrong, sizeof(result->wrong),
			 "slice %llu, row %llu, column %llu is %.9g and not %.9g",
			 (unsigned long long)(at / solver_slice_elements(shape)),
			 (unsigned long long)(in_slice / shape->columns),
			 (unsigned long long)(in_slice % shape->columns), (double)got[i],
			 (double)want[i]);
		return;
	}
}

static void array_compare(struct solver_job *job, const struct reference *ref, uint32_t array,
			  struct passes_result *result)
{
	const struct solver_shape shape = solver_array_shape(job->p, array);
	const uint64_t bytes = solver_array_bytes(job->p, array);
	float *buffer = malloc(MIN(bytes, READ_BYTES));

	if (!buffer) {
		solver_fail(job, -EAGAIN, "this computer has no memory to read the field");
		return;
	}
	for (uint64_t at = 0; at < bytes && !job->status && result->passed; at += READ_BYTES) {
		const uint64_t part = MIN(bytes - at, READ_BYTES);
		int err = job->m->ops->read(job->m, array, at, buffer, part);

		solver_did(job, err, "reading the field");
		if (!err)
			compare(&shape, at / sizeof(float), part / sizeof(float), buffer,
				ref->array[array] + at / sizeof(float), result);
	}
	free(buffer);
}

static uint64_t changed_count(const struct reference *ref)
{
	uint64_t nr = 0;

	for (uint64_t v = 0; v < ref->p->graph->nr_vertices; v++)
		nr += ref->array[0][v] < ref->array[1][v] || ref->array[1][v] < ref->array[0][v];
	return nr;
}

/* What the devices did: for fields an array from the other one, once an iteration, and the last one
 * is left; for als one of the two and then the other one, and both are. */
static void reference_run(struct reference *ref, uint64_t nr_iterations, bool odd,
			  struct solver_round *rounds)
{
	static void (*const step[SOLVER_KIND_NR])(const void *, uint64_t) = {
		slice_step, slice_step, row_step, rank_step, relax_step};
	const bool als = ref->p->kind == SOLVER_ALS;
	const uint64_t steps = nr_iterations * (als ? 2 : 1);

	ref->in = als ? RATINGS_ITEMS : 0;
	if (ref->p->graph) {
		/* It ends in the array in which the devices have it. */
		ref->in = !((nr_iterations + odd) % 2);
		gcn_pool_run(ref->pool, ref->p->shape.slices, step[ref->p->kind], ref);
		ref->in = !ref->in;
	} else {
		gcn_pool_run(ref->pool, solver_array_shape(ref->p, ref->in).slices, slice_fill,
			     ref);
	}
	for (uint64_t i = 0; i < steps; i++, ref->in = !ref->in) {
		ref->nr_done = i + 1;
		gcn_pool_run(ref->pool, solver_array_shape(ref->p, !ref->in).slices,
			     step[ref->p->kind], ref);
		if (rounds)
			rounds[i].nr_changed = changed_count(ref);
	}
}

void solver_check(struct solver_job *job, struct passes_result *result)
{
	struct reference ref = {.in = 0};

	if (reference_init(&ref, job->p)) {
		solver_fail(job, -EAGAIN, "this computer has no memory to compute the field");
	} else {
		/* Each pass of sssp begins anew. */
		reference_run(&ref,
			      job->p->kind == SOLVER_SSSP ? job->search.nr_rounds : job->nr_done,
			      job->nr_done % 2, job->rounds);
		result->checked = true;
		array_compare(job, &ref, ref.in, result);
		if (job->p->kind == SOLVER_ALS)
			array_compare(job, &ref, !ref.in, result);
	}
	reference_fini(&ref);
}
