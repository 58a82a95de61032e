/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/touch/bound.h"

#include "src/cost/cost.h"

double touch_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		     const struct touch_params *p, const struct passes_result *r,
		     const struct passes_held *held)
{
	const struct weir_device_desc *dev = &desc->device[device];
	struct passes_least least = {
		.asked_bytes = (double)(r->read_bytes + r->write_bytes),
		.hbm_bytes_per_s = dev->hbm_bytes_per_s,
	};

	if (r->read_bytes)
		least.in = passes_beyond(r->distinct_bytes, held, held->begin_bytes);
	if (r->write_bytes)
		least.out = passes_beyond(r->distinct_bytes, held, held->end_bytes);
	if (p->kind == TOUCH_GUPS) { /* updates reach whole sectors */
		least.asked_bytes *= cost_sector_bytes(sizeof(uint64_t)) / sizeof(uint64_t);
		least.hbm_bytes_per_s = dev->hbm_random_bytes_per_s;
	}
	return passes_bound_s(desc, device, 1, held, &least);
}
