/* SPDX-License-Identifier: Apache-2.0 */
/* The backend on real GPUs, through the CUDA driver. */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include "src/backend/backend.h"

struct cuda_config {
	const char *library; /* the driver's; NULL: libcuda.so.1 */
	/* Rates and costs found by measuring this machine; NULL: estimates. Sizes and counts are
	 * always those of the machine. */
	const struct weir_machine_desc *measured;
	bool quiet; /* no message when there is no driver or no GPU */
};

/*
 * Open the GPUs that this process may see as one machine.
 * @return 0, -ENODEV, -ENOTSUP or -EIO as cuda_driver_open(), or -ENOMEM.
 */
int cuda_create(const struct cuda_config *config, struct backend **out);

#endif
