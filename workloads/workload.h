/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload is an algorithm written once against a manager: it allocates, launches kernels with
 * declared uses and costs, and checks its results. It knows nothing of residency.
 */
#ifndef WEIR_WORKLOAD_H
#define WEIR_WORKLOAD_H

#include "managers/manager.h"

/* What a run hears of its own progress; may be NULL. Returning nonzero asks it to stop: the run
 * frees what it holds and returns -EINTR. */
typedef int (*workload_progress_fn)(void *arg, uint32_t done, uint32_t total);

/* One workload run's outcome. Arrays are owned by the caller of the run. */
struct workload_result {
	uint32_t nr_epochs; /* that trained, warm-up included */
	/* nr_epochs of each: */
	double *epoch_s;	  /* device idle to device idle */
	uint64_t *epoch_begin_ns; /* by the machine's clock */
	double *epoch_cpu_s;	  /* of this process meanwhile, user and system: this computer's */
	double *loss;		  /* NaN where the machine is phantom */
	/* What the device's time went into; NULL: the machine does not know. */
	double (*time_s)[BACKEND_TIME_NR];
	double test_accuracy; /* 0..1; NaN where there is no test split */
};

#endif
