/* SPDX-License-Identifier: Apache-2.0 */
/* The backend on real GPUs, through the CUDA driver. */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include "src/backend/backend.h"

struct cuda_config {
	const char *library; /* the driver's; NULL: libcuda.so.1 */
	const char *nvml;    /* the management library; NULL: libnvidia-ml.so.1 */
	const char *root;    /* where /proc and /sys are, for tests; NULL: there */
	/* Rates and costs found by measuring this machine; NULL: estimates. Sizes and counts are
	 * always those of the machine. */
	const struct weir_machine_desc *measured;
	bool debug; /* debug mode, whatever WEIR_CUDA_DEBUG says; see cuda_debug.c */
	bool quiet; /* no message when there is no driver or no GPU */
};

/*
 * Open the GPUs that this process may see as one machine; those that cannot map memory by handles
 * are left out, with a warning.
 * @return 0, -ENODEV, -ENOTSUP (also: no GPU can map), -EIO or -ENOMEM as cuda_driver_open(), or
 *   -EINVAL (WEIR_CUDA_DEBUG has no such value; logged).
 */
int cuda_create(const struct cuda_config *config, struct backend **out);

#endif
