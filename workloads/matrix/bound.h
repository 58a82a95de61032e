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
 *
 * held: of each device. Of several, what is not in any of their memories as the pass begins comes
 * over one of the host links. After that, one device may make both of its sweeps while another one
 * waits, with all of the memories for its rows: so of its second sweep only what is beyond all of
 * them has to come. There is no less than that whatever the devices' order; that they run at the
 * same time, each with its own memory, is not in it.
 */
double matrix_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		      const struct matrix_params *p, const struct passes_held *held);

#endif
