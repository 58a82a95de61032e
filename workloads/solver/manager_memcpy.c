/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk-synchronous: all devices compute, the host waits for them, all of them copy what they wrote
 * to those that read it, the host waits again.
 */
#include "workloads/solver/slabs_lists.h"

static int create(const struct solver_config *config, struct solver_manager **out)
{
	struct solver_slabs *s;
	int err = solver_slabs_create(config, &solver_manager_memcpy, sizeof(*s), true, &s);

	if (err)
		return err;
	if (config->lists_by_hand)
		err = solver_lists_create(s, config);
	if (err)
		solver_slabs_destroy(&s->base);
	else
		*out = &s->base;
	return err;
}

/* Each to another one first, so that not all send to the same one. */
static int written_send(struct solver_slabs *s, bool receive)
{
	const uint32_t nr = s->base.nr_devices;
	int err = 0;

	for (uint32_t k = 0; k < s->nr_written; k++) {
		const struct solver_use *use = &s->written[k].use;
		const uint32_t d = s->written[k].device;

		for (uint32_t i = 1; i < nr && !err; i++) {
			const uint32_t to = (d + i) % nr;

			if (receive)
				err = solver_lists_receive(s, s->stream[to], use, d, to);
			else if (s->pair)
				err = solver_lists_send(s, s->stream[d], use, d, to,
							WEIR_CAUSE_DEMAND);
			else
				err = solver_slabs_send(s, s->stream[d], use, d, to,
							WEIR_CAUSE_DEMAND);
		}
	}
	return err;
}

static int iteration_end(struct solver_manager *m)
{
	struct solver_slabs *s = solver_slabs_of(m);
	int err = solver_slabs_sync(m);

	err = err ? err : written_send(s, false);
	if (!err && s->pair) {
		err = solver_slabs_sync(m);
		err = err ? err : written_send(s, true);
	}
	s->nr_written = 0;
	return err ? err : solver_slabs_sync(m);
}

const struct solver_manager_ops solver_manager_memcpy = {
	.name = "memcpy",
	.help = "compute, wait, copy halos between devices, wait",
	.by_hand = true,
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
