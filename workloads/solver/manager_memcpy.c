/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk-synchronous: all devices compute, the host waits for them, all of them copy what they wrote
 * to those that read it, the host waits again.
 */
#include "workloads/solver/slabs.h"

static int create(const struct solver_config *config, struct solver_manager **out)
{
	struct solver_slabs *s;
	int err = solver_slabs_create(config, &solver_manager_memcpy, sizeof(*s), true, &s);

	if (!err)
		*out = &s->base;
	return err;
}

static int iteration_end(struct solver_manager *m)
{
	struct solver_slabs *s = solver_slabs_of(m);
	int err = solver_slabs_sync(m);

	/* Each to another one first, so that not all send to the same one. */
	for (uint32_t k = 0; k < s->nr_written; k++) {
		const struct solver_written *w = &s->written[k];
		const uint32_t d = w->device;

		for (uint32_t i = 1; i < m->nr_devices && !err; i++)
			err = solver_slabs_send(s, s->stream[d], &w->use, d,
						(d + i) % m->nr_devices, WEIR_CAUSE_DEMAND);
	}
	s->nr_written = 0;
	return err ? err : solver_slabs_sync(m);
}

const struct solver_manager_ops solver_manager_memcpy = {
	.name = "memcpy",
	.help = "compute, wait, copy halos between devices, wait",
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
