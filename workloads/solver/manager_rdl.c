/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer loads: kernels read what others wrote where it is, in the others' memory. A device's step
 * waits for the steps of the iteration before of those it shares something with, which wrote what
 * it reads and read what it writes. The host waits for nothing.
 */
#include "src/backend/machine.h"
#include "workloads/solver/slabs.h"

struct rdl {
	struct solver_slabs slabs;
	fence_t done[WEIR_DEVICES_MAX]; /* the device's step of the iteration before */
};

static int create(const struct solver_config *config, struct solver_manager **out)
{
	struct solver_slabs *s;
	int err = solver_slabs_create(config, &solver_manager_rdl, sizeof(struct rdl), false, &s);

	if (!err)
		*out = &s->base;
	return err;
}

static int step(struct solver_manager *m, const struct solver_step *step)
{
	struct rdl *r = (struct rdl *)m;
	struct backend *b = m->backend;
	struct weir_stream *stream = r->slabs.stream[step->device];
	int err = 0;

	for (uint32_t d = 0; d < m->nr_devices && !err; d++)
		if (r->done[d] && solver_slabs_share(&r->slabs, step->device, d))
			err = b->ops->stream_wait(b, stream_id(stream), r->done[d]);
	return err ? err : solver_slabs_launch(&r->slabs, stream, step);
}

static int iteration_end(struct solver_manager *m)
{
	struct rdl *r = (struct rdl *)m;
	struct backend *b = m->backend;
	int err = 0;

	r->slabs.nr_written = 0;
	for (uint32_t d = 0; d < m->nr_devices && !err; d++)
		err = b->ops->fence_untimed(b, stream_id(r->slabs.stream[d]), &r->done[d]);
	return err;
}

const struct solver_manager_ops solver_manager_rdl = {
	.name = "rdl",
	.help = "kernels read halos in place, in the neighbours' memory",
	.in_place = true,
	.create = create,
	.destroy = solver_slabs_destroy,
	.alloc = solver_slabs_alloc,
	.at = solver_slabs_at,
	.step = step,
	.iteration_end = iteration_end,
	.sync = solver_slabs_sync,
	.read = solver_slabs_read,
	.stats = solver_slabs_stats,
	.check = solver_slabs_check,
};
