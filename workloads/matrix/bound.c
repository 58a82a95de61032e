/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/matrix/bound.h"

double matrix_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		      const struct matrix_params *p, const struct passes_held *held)
{
	const uint32_t nr = matrix_devices(p);
	const uint64_t bytes = matrix_bytes(p);
	struct passes_least least = {
		.in = passes_beyond(bytes, held, nr * held->begin_bytes),
		.asked_bytes = 2 * (double)bytes,
	};

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t rows = matrix_first_row(p, i + 1) - matrix_first_row(p, i);
		struct passes_beyond second = passes_beyond(rows * p->columns * sizeof(float), held,
							    nr * held->end_bytes);

		least.in.own += second.own;
		least.in.both += second.both;
		least.hbm_bytes_per_s += desc->device[device + i].hbm_bytes_per_s;
	}
	return passes_bound_s(desc, device, nr, held, &least);
}
