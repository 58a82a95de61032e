/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/layers/layers.h"

double layers_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		      const struct layers_params *p, const struct passes_result *r,
		      const struct passes_held *held)
{
	struct passes_least least = {
		.asked_bytes = (double)(r->read_bytes + r->write_bytes),
		.hbm_bytes_per_s = desc->device[device].hbm_bytes_per_s,
		.in = passes_beyond(r->distinct_bytes, held, held->begin_bytes),
	};

	if (p->write)
		least.out = passes_beyond(r->distinct_bytes, held, held->end_bytes);
	return passes_bound_s(desc, device, 1, held, &least);
}
