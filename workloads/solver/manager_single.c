/* SPDX-License-Identifier: Apache-2.0 */
/* All of it on one device: what the others are compared with. */
#include "workloads/solver/slabs.h"

static int create(const struct solver_config *config, struct solver_manager **out)
{
	struct solver_slabs *s;
	int err = solver_slabs_create(config, &solver_manager_single, sizeof(*s), true, &s);

	if (!err)
		*out = &s->base;
	return err;
}

/* Work of one stream is in order. */
static int iteration_end(struct solver_manager *m)
{
	solver_slabs_of(m)->nr_written = 0;
	return 0;
}

const struct solver_manager_ops solver_manager_single = {
	.name = "single",
	.help = "all of it on one device",
	.one_device = true,
	.create = create,
	.destroy = solver_slabs_destroy,
	.alloc = solver_slabs_alloc,
	.at = solver_slabs_at,
	.step = solver_slabs_step,
	.iteration_end = iteration_end,
	.sync = solver_slabs_sync,
	.read = solver_slabs_read,
	.stats = solver_slabs_stats,
	.check = solver_slabs_check,
};
