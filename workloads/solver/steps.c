/* SPDX-License-Identifier: Apache-2.0 */
/* The launches of a run: what each computes, and which bytes of the arrays it uses. */
#include <errno.h>

#include "src/base/util.h"
#include "workloads/solver/internal.h"

/* Some slices of a device's slab. */
struct part {
	uint32_t first, nr;
};

const struct weir_kernel *solver_kernel_of(enum solver_kind kind)
{
	static const struct weir_kernel *const kernels[] = {
		&solver_kernel_jacobi, &solver_kernel_diffusion, &solver_kernel_als,
		&solver_kernel_pagerank, &solver_kernel_relax};

	return kernels[kind];
}

static uint64_t slice_bytes(const struct solver_job *job, uint32_t array)
{
	const struct solver_shape shape = solver_array_shape(job->p, array);

	return solver_slice_bytes(&shape);
}

static void *slice_at(const struct solver_job *job, uint32_t array, uint32_t device, uint32_t slice)
{
	return job->m->ops->at(job->m, array, device, slice * slice_bytes(job, array));
}

static struct solver_use use_of(const struct solver_job *job, uint32_t array,
				enum weir_use_kind kind, uint32_t first, uint32_t end)
{
	const uint64_t bytes = slice_bytes(job, array);

	return (struct solver_use){.array = array,
				   .kind = kind,
				   .offset = first * bytes,
				   .bytes = (end - first) * bytes};
}

static struct part slab_of(const struct solver_job *job, uint32_t array, uint32_t device)
{
	const uint32_t first = solver_array_first(job->p, array, device);

	return (struct part){first, solver_array_first(job->p, array, device + 1) - first};
}

uint32_t solver_launches(const struct solver_job *job, uint32_t array)
{
	if (!job->m->ops->split || job->p->devices == 1)
		return 1;
	if (job->nr_launches[array])
		return job->nr_launches[array];
	return job->p->kind == SOLVER_ALS ? SOLVER_ALS_LAUNCHES : SOLVER_LAUNCHES;
}

/* How many of nr slices the first i launches have together. */
static uint32_t slices_before(const struct solver_job *job, uint32_t array, uint32_t nr, uint32_t i)
{
	double before = 0, all = 0, slices = 1;

	for (uint32_t n = 0; n < solver_launches(job, array); n++) {
		all += slices;
		before += n < i ? slices : 0;
		slices *= job->growth[array] > 0 ? job->growth[array] : 1;
	}
	return (uint32_t)(nr * (before / all));
}

struct solver_part_slices solver_part_at(const struct solver_job *job, uint32_t array,
					 uint32_t device, uint32_t index)
{
	const struct part slab = slab_of(job, array, device);

	return (struct solver_part_slices){
		.first = slab.first + slices_before(job, array, slab.nr, index),
		.end = slab.first + slices_before(job, array, slab.nr, index + 1),
	};
}

/* ------------------------------------------------------------------ an iteration */

static struct solver_range range_of(const struct solver_job *job, uint32_t device, struct part part)
{
	const uint32_t in = job->nr_done % 2, end = part.first + part.nr;

	return (struct solver_range){
		.first = part.first,
		.nr = part.nr,
		.in = slice_at(job, in, device, part.first),
		.before = part.first ? slice_at(job, in, device, part.first - 1) : NULL,
		.behind = end < job->p->shape.slices ? slice_at(job, in, device, end) : NULL,
		.out = slice_at(job, !in, device, part.first),
	};
}

/* Queue the computation of one or two parts; none: nothing. */
static int compute(struct solver_job *job, uint32_t device, enum solver_part which,
		   const struct part *parts, uint32_t nr)
{
	const uint32_t in = job->nr_done % 2;
	struct solver_stencil_args args = {.shape = job->p->shape, .nr_ranges = nr};
	struct solver_step step = {
		.device = device,
		.part = which,
		.kernel = solver_kernel_of(job->p->kind),
		.args = &args,
		.args_bytes = sizeof(args),
	};

	for (uint32_t i = 0; i < nr; i++) {
		const uint32_t first = parts[i].first, end = first + parts[i].nr;

		args.range[i] = range_of(job, device, parts[i]);
		step.use[step.nr_uses++] = use_of(job, in, WEIR_READ, first ? first - 1 : 0,
						  MIN(end + 1, job->p->shape.slices));
		step.use[step.nr_uses++] = use_of(job, !in, WEIR_OVERWRITE, first, end);
	}
	return nr ? job->m->ops->step(job->m, &step) : 0;
}

/* The slices that neighbours read: the first, the last, both or none. */
static uint32_t boundary_of(const struct solver_job *job, uint32_t device, struct part out[2])
{
	const struct part slab = slab_of(job, 0, device);
	uint32_t nr = 0;

	if (device)
		out[nr++] = (struct part){slab.first, 1};
	if (device + 1 < job->p->devices && (!nr || slab.nr > 1))
		out[nr++] = (struct part){slab.first + slab.nr - 1, 1};
	return nr;
}

static int boundary_compute(struct solver_job *job, uint32_t device)
{
	struct part parts[2];
	uint32_t nr = boundary_of(job, device, parts);

	return compute(job, device, SOLVER_BOUNDARY, parts, nr);
}

static int interior_compute(struct solver_job *job, uint32_t device)
{
	struct part parts[2], slab = slab_of(job, 0, device);

	slab.nr -= boundary_of(job, device, parts);
	slab.first += device > 0;
	return compute(job, device, SOLVER_INTERIOR, &slab, slab.nr > 0);
}

static int whole_compute(struct solver_job *job, uint32_t device)
{
	const struct part slab = slab_of(job, 0, device);

	return compute(job, device, SOLVER_WHOLE, &slab, 1);
}

static int each_device(struct solver_job *job,
		       int (*queue)(struct solver_job *job, uint32_t device))
{
	int err = 0;

	for (uint32_t d = 0; d < job->p->devices && !err; d++)
		err = queue(job, d);
	return err;
}

void solver_iterate(struct solver_job *job)
{
	int err;

	if (job->m->ops->split && job->p->devices > 1) {
		err = each_device(job, boundary_compute);
		err = err ? err : each_device(job, interior_compute);
	} else {
		err = each_device(job, whole_compute);
	}
	err = err ? err : job->m->ops->iteration_end(job->m);
	solver_did(job, err, "an iteration");
	job->nr_done++;
}

/* ------------------------------------------------------------------ the field's two ends */

/* Queue a kernel over a device's slab of one array. sum: NULL: it is filled. */
static int slab_launch(struct solver_job *job, uint32_t device, uint32_t array, uint64_t *sum)
{
	const struct part slab = slab_of(job, array, device);
	const struct solver_shape shape = solver_array_shape(job->p, array);
	float *addr = slice_at(job, array, device, slab.first);
	const struct solver_range range = {
		.first = slab.first, .nr = slab.nr, .in = addr, .out = addr};
	const struct solver_fill_args fill = {shape, range};
	const struct solver_hash_args hash = {shape, range, sum};
	const struct solver_step step = {
		.device = device,
		.part = SOLVER_WHOLE,
		.kernel = sum ? &solver_kernel_hash : &solver_kernel_fill,
		.args = sum ? (const void *)&hash : &fill,
		.args_bytes = sum ? sizeof(hash) : sizeof(fill),
		.use = {use_of(job, array, sum ? WEIR_READ : WEIR_OVERWRITE, slab.first,
			       slab.first + slab.nr)},
		.nr_uses = 1,
	};

	return job->m->ops->step(job->m, &step);
}

void solver_fill(struct solver_job *job)
{
	for (uint32_t array = 0; array < 2 && !job->status; array++) {
		int err = 0;

		for (uint32_t d = 0; d < job->p->devices && !err; d++)
			err = slab_launch(job, d, array, NULL);
		err = err ? err : job->m->ops->iteration_end(job->m);
		solver_did(job, err, "filling the arrays");
	}
}

/* The number of a device's slab of an array, by way of memory of its own. */
static int slab_hash(struct solver_job *job, uint32_t array, uint32_t device, uint64_t *out)
{
	struct backend *b = job->m->backend;
	uint64_t sum = 0;
	stream_id_t stream;
	void *at;
	int err = b->ops->stream_create(b, device, BACKEND_COMPUTE, &stream);

	if (err)
		return err;
	err = b->ops->device_alloc(b, b->desc.device[device].memory, sizeof(sum), &at);
	if (err)
		goto out;
	err = b->ops->upload(b, stream, at, &sum, sizeof(sum));
	err = err ? err : slab_launch(job, device, array, at);
	err = err ? err : job->m->ops->sync(job->m);
	err = err ? err : b->ops->download(b, stream, &sum, at, sizeof(sum));
	b->ops->device_free(b, at);
	*out += sum;
out:
	b->ops->stream_destroy(b, stream);
	return err;
}

void solver_hash(struct solver_job *job, uint64_t *out)
{
	const uint32_t field = job->nr_done % 2;

	for (uint32_t d = 0; d < job->p->devices && !job->status; d++)
		for (uint32_t array = 0; array < SOLVER_RUN_ARRAYS && !job->status; array++)
			if (job->p->kind == SOLVER_ALS || array == field)
				solver_did(job, slab_hash(job, array, d, out), "reading the field");
}
