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
	/* For tests of more devices than there are GPUs: more than 1 takes the GPUs for so many
	 * devices, the only ones. Device d is a part of GPU d modulo the number of GPUs, with its
	 * share of the memory and a link to each other part. Parts of a GPU have one context, and
	 * what one of them may touch, all may. GPUs beyond this number are left out. */
	uint32_t nr_parts;
	bool debug; /* debug mode, whatever WEIR_CUDA_DEBUG says; see cuda_debug.c */
	bool quiet; /* no message when there is no driver or no GPU */
};

/*
 * Open the GPUs that this process may see as one machine; those that cannot map memory by handles
 * are left out, with a warning.
 * @return 0, -ENODEV, -ENOTSUP (also: no GPU can map), -EIO or -ENOMEM as cuda_driver_open(), or
 *   -EINVAL (WEIR_CUDA_DEBUG has no such value, or more parts than WEIR_DEVICES_MAX; logged).
 */
int cuda_create(const struct cuda_config *config, struct backend **out);

/* The index of a device by the driver's number of it; -ENODEV: it is none of the machine's. */
int cuda_device_find(const struct backend *b, int ordinal);

#endif
