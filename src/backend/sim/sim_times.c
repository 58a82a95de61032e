/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each device's time goes into; enum backend_time says what the parts mean. Kernels account
 * for themselves as they end. Idle time is accounted for as the clock moves, by what is the case
 * until then: between two events nothing changes.
 */

#include "src/backend/sim/sim_internal.h"

static enum backend_time idle_cause(const struct sim *sim, uint32_t device)
{
	if (sim->allocating)
		return BACKEND_TIME_ALLOCATION;
	if (sim->device[device].nr_copies[1])
		return BACKEND_TIME_DEMAND;
	if (sim->device[device].nr_copies[0])
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
