/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/passes_bound.h"

#include <math.h>

#include "src/cost/cost.h"

double passes_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		      const struct passes_least *least)
{
	uint32_t own = desc->device[device].memory, host = cost_host_memory(desc);
	int found = cost_link_find(desc, host, own);
	double in_per_s, out_per_s;

	if (found < 0)
		return least->asked_bytes / least->hbm_bytes_per_s;
	in_per_s = cost_copy_bytes_per_s(&desc->link[found], host);
	out_per_s = cost_copy_bytes_per_s(&desc->link[found], own);
	return fmax(fmax(least->in_bytes / in_per_s, least->out_bytes / out_per_s),
		    least->asked_bytes / (least->hbm_bytes_per_s + in_per_s + out_per_s));
}
