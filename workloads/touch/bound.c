/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/touch/bound.h"

#include <math.h>

#include "src/core/cost.h"

static double beyond(uint64_t bytes, uint64_t resident)
{
	return bytes > resident ? (double)(bytes - resident) : 0;
}

double touch_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		     const struct touch_params *p, const struct passes_result *r,
		     const struct touch_bound *resident)
{
	const struct weir_device_desc *dev = &desc->device[device];
	uint32_t host = cost_host_memory(desc);
	int found = cost_link_find(desc, host, dev->memory);
	bool gups = p->kind == TOUCH_GUPS;
	/* Updates reach whole sectors. */
	double hbm_per_s = gups ? dev->hbm_random_bytes_per_s : dev->hbm_bytes_per_s;
	double asked = (double)(r->read_bytes + r->write_bytes) *
		       (gups ? cost_sector_bytes(sizeof(uint64_t)) / sizeof(uint64_t) : 1);
	double in_per_s, out_per_s, in, out;

	if (found < 0)
		return asked / hbm_per_s;
	in_per_s = cost_copy_bytes_per_s(&desc->link[found], host);
	out_per_s = cost_copy_bytes_per_s(&desc->link[found], dev->memory);
	in = r->read_bytes ? beyond(r->distinct_bytes, resident->begin_bytes) : 0;
	out = r->write_bytes ? beyond(r->distinct_bytes, resident->end_bytes) : 0;
	return fmax(fmax(in / in_per_s, out / out_per_s),
		    asked / (hbm_per_s + in_per_s + out_per_s));
}
