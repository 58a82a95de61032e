/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/matrix/bound.h"

double matrix_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		      const struct matrix_params *p, const struct passes_held *held)
{
	uint64_t bytes = matrix_bytes(p);
	struct passes_beyond first = passes_beyond(bytes, held, held->begin_bytes);
	struct passes_beyond second = passes_beyond(bytes, held, held->end_bytes);
	const struct passes_least least = {
		.in = {first.own + second.own, first.both + second.both},
		.asked_bytes = 2 * (double)bytes,
		.hbm_bytes_per_s = desc->device[device].hbm_bytes_per_s,
	};

	return passes_bound_s(desc, device, held, &least);
}
