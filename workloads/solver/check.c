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
	uint32_t in; /* the array that is read */
};

static int reference_init(struct reference *ref, const struct solver_params *p)
{
	int err = gcn_pool_create(0, &ref->pool);

	ref->p = p;
	for (int i = 0; i < 2 && !err; i++) {
		ref->array[i] = malloc(solver_bytes(p));
		err = ref->array[i] ? 0 : -EAGAIN;
	}
	return err ? -EAGAIN : 0;
}

static void reference_fini(struct reference *ref)
{
	gcn_pool_destroy(ref->pool);
	free(ref->array[0]);
	free(ref->array[1]);
}

/* One slice of both arrays. */
static void slice_fill(const void *arg, uint64_t slice)
{
	const struct reference *ref = arg;
	const uint64_t at = slice * solver_slice_elements(&ref->p->shape);
	struct solver_fill_args args = {
		.shape = ref->p->shape,
		.range = {.first = (uint32_t)slice, .nr = 1, .out = ref->array[0] + at}};

	solver_kernel_fill.cpu(&args);
	memcpy(ref->array[1] + at, ref->array[0] + at, solver_slice_bytes(&ref->p->shape));
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
static void compare(const struct solver_job *job, uint64_t first, uint64_t nr, const float *got,
		    const float *want, struct passes_result *result)
{
	const struct solver_shape *shape = &job->p->shape;

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

static void field_compare(struct solver_job *job, const struct reference *ref,
			  struct passes_result *result)
{
	const uint64_t bytes = solver_bytes(job->p);
	float *buffer = malloc(MIN(bytes, READ_BYTES));

	if (!buffer) {
		solver_fail(job, -EAGAIN, "this computer has no memory to read the field");
		return;
	}
	for (uint64_t at = 0; at < bytes && !job->status && result->passed; at += READ_BYTES) {
		const uint64_t part = MIN(bytes - at, READ_BYTES);
		int err = job->m->ops->read(job->m, job->nr_done % 2, at, buffer, part);

		solver_did(job, err, "reading the field");
		if (!err)
			compare(job, at / sizeof(float), part / sizeof(float), buffer,
				ref->array[ref->in] + at / sizeof(float), result);
	}
	free(buffer);
}

void solver_check(struct solver_job *job, struct passes_result *result)
{
	struct reference ref = {.in = 0};
	const uint32_t slices = job->p->shape.slices;

	if (reference_init(&ref, job->p)) {
		solver_fail(job, -EAGAIN, "this computer has no memory to compute the field");
	} else {
		gcn_pool_run(ref.pool, slices, slice_fill, &ref);
		for (uint64_t i = 0; i < job->nr_done; i++, ref.in = !ref.in)
			gcn_pool_run(ref.pool, slices, slice_step, &ref);
		result->checked = true;
		field_compare(job, &ref, result);
	}
	reference_fini(&ref);
}
