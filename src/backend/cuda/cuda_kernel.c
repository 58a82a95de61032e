/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own kernels: loaded when a device first has use for one, compiled then by the
 * driver for the GPU at hand, and launched. Loading takes some tens of milliseconds, and the device
 * may have to come to rest for it.
 */
#include <stdio.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/backend/cuda/digest_args.h"
#include "src/backend/cuda/packet.h"
#include "src/base/util.h"

/* packet.ptx and digest.ptx, as text. The build makes them. */
extern const char cuda_packet_ptx[], cuda_digest_ptx[];

/* ------------------------------------------------------------------ packets */

/* Find the kernels in the module that the device has. The context is current. */
static int kernels_find(struct cuda *cuda, struct cuda_device *dev)
{
	struct cuda_driver *driver = &cuda->driver;
	int err = 0;

	for (uint32_t i = 0; i < 2 * CUDA_PACKET_SIZES && !err; i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "weir_%s%u", i % 2 ? "unpack" : "pack",
			       1u << i / 2);
		err = cuda_error(
			driver, driver->module_function(&dev->packet[i], dev->packets, name), name);
	}
	return err;
}

static void kernels_unload(struct cuda *cuda, struct cuda_device *dev)
{
	(void)cuda_undo_error(&cuda->driver, cuda->driver.module_unload(dev->packets),
			      "cuModuleUnload");
	dev->packets = NULL;
}

int cuda_kernels_load(struct cuda *cuda, uint32_t device)
{
	struct cuda_device *dev = &cuda->device[device];
	struct cuda_driver *driver = &cuda->driver;
	int err = 0;

	pthread_mutex_lock(&cuda->starting);
	if (!dev->packets) {
		err = cuda_error(driver,
				 driver->module_load(&dev->packets, cuda_packet_ptx, 0, NULL, NULL),
				 "cuModuleLoadDataEx");
		if (err)
			dev->packets = NULL;
		else
			err = kernels_find(cuda, dev);
		if (err && dev->packets)
			kernels_unload(cuda, dev);
	}
	pthread_mutex_unlock(&cuda->starting);
	return err;
}

int cuda_packet_queue(struct cuda *cuda, uint32_t device, cu_stream stream,
		      const struct backend_packet *packet)
{
	struct cuda_device *dev = &cuda->device[device];
	struct backend_packet args = *packet;
	void *parameters[] = {&args};
	/* A block's threads have so many elements; one thread at least is for a rest. */
	uint64_t each =
		PACKET_BLOCK * PACKET_GROUPS(packet->element_bytes) * 16u / packet->element_bytes;
	uint32_t nr = (uint32_t)MIN(packet->nr / each + 1, PACKET_GRID_MAX);
	uint32_t kernel = 2 * log2_floor(packet->element_bytes) + packet->unpack;
	int err = cuda_kernels_load(cuda, device);

	return err ? err
		   : cuda_error(&cuda->driver,
				cuda->driver.launch(dev->packet[kernel], nr, 1, 1, PACKET_BLOCK, 1,
						    1, 0, stream, parameters, NULL),
				"cuLaunchKernel");
}

/* ------------------------------------------------------------------ digests */

static void digests_unload(struct cuda *cuda, struct cuda_digests *digests)
{
	if (digests->parts)
		(void)cuda_undo_error(&cuda->driver, cuda->driver.host_free(digests->parts),
				      "cuMemFreeHost");
	if (digests->module)
		(void)cuda_undo_error(&cuda->driver, cuda->driver.module_unload(digests->module),
				      "cuModuleUnload");
	digests->parts = NULL;
	digests->module = NULL;
}

/* The starting lock is held, and the device's context current. */
static int digests_load(struct cuda *cuda, struct cuda_digests *digests)
{
	struct cuda_driver *driver = &cuda->driver;
	cu_module module = NULL;
	void *parts = NULL;
	int err = cuda_error(driver, driver->module_load(&module, cuda_digest_ptx, 0, NULL, NULL),
			     "cuModuleLoadDataEx");

	if (err)
		return err;
	digests->module = module;
	err = cuda_error(driver, driver->module_function(&digests->function, module, "weir_digest"),
			 "weir_digest");
	if (!err)
		err = cuda_error(driver,
				 driver->host_alloc(&parts,
						    BACKEND_DIGESTS_MAX * sizeof(digest_parts),
						    CU_HOST_PORTABLE | CU_HOST_DEVICEMAP),
				 "cuMemHostAlloc");
	if (err)
		digests_unload(cuda, digests);
	else
		digests->parts = parts;
	return err;
}

int cuda_digests_load(struct cuda *cuda, uint32_t device)
{
	struct cuda_digests *digests = &cuda->device[device].digests;
	int err = 0;

	pthread_mutex_lock(&cuda->starting);
	if (!digests->module)
		err = digests_load(cuda, digests);
	pthread_mutex_unlock(&cuda->starting);
	return err;
}

/* ------------------------------------------------------------------ the end */

void cuda_kernels_fini(struct cuda *cuda, uint32_t device)
{
	struct cuda_device *dev = &cuda->device[device];

	if ((!dev->packets && !dev->digests.module) || cuda_enter_surely(cuda, device))
		return;
	if (dev->packets)
		kernels_unload(cuda, dev);
	if (dev->digests.module)
		digests_unload(cuda, &dev->digests);
	cuda_leave(cuda);
}
