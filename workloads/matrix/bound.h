/* SPDX-License-Identifier: Apache-2.0 */
/* A lower bound on the time of a pass. */
#ifndef WEIR_MATRIX_BOUND_H
#define WEIR_MATRIX_BOUND_H

#include "workloads/matrix/matrix.h"
#include "workloads/passes_bound.h"

/*
 * Seconds that no pass takes less than; passes_bound.h has the argument. Each of its two sweeps
 * reads the whole matrix, and what is not in the device's memory as a sweep begins comes over a
 * link in it: the matrix - begin bytes of it in the first at least, the matrix - end bytes in the
 * second. Vectors are left out, and so are caches.
 */
double matrix_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		      const struct matrix_params *p, const struct passes_held *held);

#endif
