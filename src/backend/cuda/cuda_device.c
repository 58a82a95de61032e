/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices' primary contexts, which the program's own CUDA calls use, too. A context takes some
 * of the device's memory and a good part of a second to make, so a device has one from the first
 * call on that needs it: a stream, a plain allocation, a look at its free memory, a mapping that it
 * may use. Physical memory on it needs none.
 */
#include <errno.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/cuda/cuda_internal.h"

/* Take the context and begin to count the device's times. The starting lock is held. */
static int device_start(struct cuda *cuda, uint32_t d)
{
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_device *dev = &cuda->device[d];
	int err;

	cuda_relax(cuda);
	err = cuda_error(driver, driver->context_retain(&dev->context, dev->device),
			 "cuDevicePrimaryCtxRetain");
	cuda_unrelax(cuda);
	if (err)
		return err;
	err = cuda_enter(cuda, d);
	if (!err) {
		err = cuda_time_base(cuda, d);
		cuda_leave(cuda);
	}
	if (err)
		cuda_device_stop(cuda, d);
	return err;
}

int cuda_devices_start(struct cuda *cuda, uint64_t devices)
{
	int err = 0;

	pthread_mutex_lock(&cuda->starting);
	for (uint32_t d = 0; d < cuda->base.desc.nr_devices && !err; d++)
		if (devices & BACKEND_DEVICE_BIT(d) && !cuda->device[d].context)
			err = device_start(cuda, d);
	pthread_mutex_unlock(&cuda->starting);
	return err;
}

int cuda_device_enter(struct cuda *cuda, uint32_t d)
{
	int err = cuda_devices_start(cuda, BACKEND_DEVICE_BIT(d));

	return err ? err : cuda_enter(cuda, d);
}

void cuda_device_stop(struct cuda *cuda, uint32_t d)
{
	struct cuda_device *dev = &cuda->device[d];

	if (!dev->context)
		return;
	cuda_kernels_fini(cuda, d);
	cuda_events_fini(cuda, d);
	cuda_relax(cuda);
	(void)cuda_error(&cuda->driver, cuda->driver.context_release(dev->device),
			 "cuDevicePrimaryCtxRelease");
	cuda_unrelax(cuda);
	dev->context = NULL;
}

int cuda_device_find(const struct backend *b, int ordinal)
{
	const struct cuda *cuda = (const struct cuda *)b;

	for (uint32_t d = 0; d < b->desc.nr_devices; d++)
		if (cuda->device[d].device == ordinal)
			return (int)d;
	return -ENODEV;
}
