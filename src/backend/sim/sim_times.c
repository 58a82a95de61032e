/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each device's time goes into; enum backend_time says what the parts mean. Kernels account
 * for themselves as they end. Idle time is accounted for as the clock moves, by what is the case
 * until then: between two events nothing changes.
 */

#include "src/backend/sim/sim_internal.h"

/* Whether a copy to (in) or from a device's memory runs, on any of its streams. */
static bool copy_runs(const struct sim *sim, uint32_t device, bool in)
{
	uint32_t own = sim->base.desc.device[device].memory;

	for (uint32_t i = 0; i < sim->nr_active; i++) {
		const struct sim_op *op = sim->active[i]->head;
		const struct sim_copy *copy = (const struct sim_copy *)op;

		if (sim->active[i]->device != device || !op->kind->is_copy || !op->started ||
		    copy->next >= copy->nr)
			continue;
		if (own ==
		    (in ? copy->move[copy->next].dst_memory : copy->move[copy->next].src_memory))
			return true;
	}
	return false;
}

static enum backend_time idle_cause(const struct sim *sim, uint32_t device)
{
	if (sim->allocating)
		return BACKEND_TIME_ALLOCATION;
	if (copy_runs(sim, device, true))
		return BACKEND_TIME_DEMAND;
	if (copy_runs(sim, device, false))
		return BACKEND_TIME_EVICTION;
	return BACKEND_TIME_OTHER;
}

void sim_times_pass(struct sim *sim, uint64_t until_ns)
{
	for (uint32_t d = 0; d < sim->base.desc.nr_devices && until_ns > sim->now_ns; d++)
		if (!sim->device[d].running)
			sim->device[d].time_ns[idle_cause(sim, d)] += until_ns - sim->now_ns;
}

void sim_times_kernel_ended(struct sim *sim, const struct sim_kernel *kernel)
{
	struct sim_device *device = &sim->device[kernel->op.stream->device];
	uint64_t rest = sim->now_ns - kernel->started_ns;

	for (int i = 0; i < BACKEND_TIME_NR; i++) {
		device->time_ns[i] += kernel->parts.ns[i];
		rest -= kernel->parts.ns[i];
	}
	device->time_ns[BACKEND_TIME_IN_PLACE] += rest;
}
