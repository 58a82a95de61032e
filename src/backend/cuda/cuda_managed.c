/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's managed memory, for comparisons: within limits, since more of it can hang a GPU. */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/log.h"

int cuda_managed_setup(struct backend *b, const struct backend_managed *setup)
{
	struct cuda *cuda = cuda_of(b);
	int err = 0;

	if (setup->device >= b->desc.nr_devices ||
	    setup->gpu_bytes > b->desc.memory[b->desc.device[setup->device].memory].bytes)
		return -EINVAL;
	if (setup->whole_blocks) {
		log_error("cuda: the driver does not bring whole blocks at a fault: the policy max "
			  "is for simulated machines");
		return -ENOTSUP;
	}
	if (setup->policy) {
		log_error(
			"cuda: the driver asks no policy about managed memory: policies of it are "
			"for simulated machines");
		return -ENOTSUP;
	}
	/* What is within the limit is never evicted: the host needs none. */
	pthread_mutex_lock(&cuda->lock);
	if (cuda->managed_bytes)
		err = -EBUSY;
	else
		cuda->managed_limit_bytes = setup->gpu_bytes;
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

int cuda_managed_alloc(struct backend *b, uint64_t bytes, void **addr)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_plain *plain;
	int err;

	if (!bytes)
		return -EINVAL;
	plain = calloc(1, sizeof(*plain));
	if (!plain)
		return -ENOMEM;
	err = cuda_managed_take(cuda, bytes);
	if (err)
		goto err_free;
	err = cuda_device_enter(cuda, 0);
	if (!err) {
		err = cuda_error(driver,
				 driver->managed_alloc(&plain->addr, bytes, CU_ATTACH_GLOBAL),
				 "cuMemAllocManaged");
		cuda_leave(cuda);
	}
	if (err)
		goto err_give;
	plain->bytes = bytes;
	plain->kind = CUDA_PLAIN_MANAGED;
	cuda_plain_add(cuda, plain);
	*addr = (void *)(uintptr_t)plain->addr;
	return 0;

err_give:
	cuda_managed_give(cuda, bytes);
err_free:
	free(plain);
	return err;
}

int cuda_managed_prefetch(struct backend *b, stream_id_t stream, void *addr, uint64_t bytes,
			  uint32_t memory)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	const struct cuda_plain *plain;
	struct cu_location to;
	cu_stream queue;
	uint32_t device;
	int err = cuda_stream_get(cuda, stream, &queue, &device);

	if (err || memory >= b->desc.nr_memories)
		return -EINVAL;
	pthread_mutex_lock(&cuda->lock);
	plain = cuda_plain_at(cuda, (cu_ptr)(uintptr_t)addr, bytes);
	err = plain && plain->kind == CUDA_PLAIN_MANAGED ? 0 : -EINVAL;
	pthread_mutex_unlock(&cuda->lock);
	if (err)
		return err;
	if (!driver->managed_prefetch)
		return -ENOTSUP;
	to = cuda_location(cuda, memory);
	/* Nothing moves to a GPU in which the process has no context. */
	if (!cuda_is_host(cuda, memory))
		err = cuda_devices_start(cuda, BACKEND_DEVICE_BIT(cuda_device_of(cuda, memory)));
	if (!err)
		err = cuda_enter(cuda, device);
	if (err)
		return err;
	err = cuda_error(driver,
			 driver->managed_prefetch((cu_ptr)(uintptr_t)addr, bytes, to, 0, queue),
			 "cuMemPrefetchAsync");
	cuda_leave(cuda);
	return err;
}

static int advice_check(struct cuda *cuda, void *addr, uint64_t bytes, enum backend_advice advice,
			uint32_t to)
{
	const struct cuda_plain *plain;
	cu_ptr at = (cu_ptr)(uintptr_t)addr;
	int err = -EINVAL;

	pthread_mutex_lock(&cuda->lock);
	plain = cuda_plain_at(cuda, at, bytes);
	if (plain && plain->kind == CUDA_PLAIN_MANAGED)
		err = backend_advice_check(&cuda->base, advice, to, at - plain->addr, bytes,
					   plain->bytes);
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

/* Where advice is for: the driver does not look at it for the kinds that have no place. */
static struct cu_location advice_place(const struct cuda *cuda, enum backend_advice advice,
				       uint32_t to)
{
	const struct weir_machine_desc *desc = &cuda->base.desc;

	if (advice == BACKEND_ADVICE_ACCESSED_BY || advice == BACKEND_ADVICE_UNSET_ACCESSED_BY)
		return cuda_location(cuda, desc->device[to].memory);
	if (advice == BACKEND_ADVICE_PREFERRED)
		return cuda_location(cuda, to);
	return cuda_location(cuda, desc->device[0].memory);
}

int cuda_managed_advise(struct backend *b, void *addr, uint64_t bytes, enum backend_advice advice,
			uint32_t to)
{
	static const int of_driver[BACKEND_ADVICE_NR] = {
		[BACKEND_ADVICE_READ_MOSTLY] = CU_ADVISE_READ_MOSTLY,
		[BACKEND_ADVICE_UNSET_READ_MOSTLY] = CU_ADVISE_UNSET_READ_MOSTLY,
		[BACKEND_ADVICE_PREFERRED] = CU_ADVISE_PREFERRED,
		[BACKEND_ADVICE_UNSET_PREFERRED] = CU_ADVISE_UNSET_PREFERRED,
		[BACKEND_ADVICE_ACCESSED_BY] = CU_ADVISE_ACCESSED_BY,
		[BACKEND_ADVICE_UNSET_ACCESSED_BY] = CU_ADVISE_UNSET_ACCESSED_BY,
	};
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	int err = advice_check(cuda, addr, bytes, advice, to);

	if (err)
		return err;
	if (!driver->managed_advise)
		return -ENOTSUP;
	err = cuda_device_enter(cuda, 0);
	if (err)
		return err;
	err = cuda_error(driver,
			 driver->managed_advise((cu_ptr)(uintptr_t)addr, bytes, of_driver[advice],
						advice_place(cuda, advice, to)),
			 "cuMemAdvise");
	cuda_leave(cuda);
	return err;
}

void cuda_managed_free(struct backend *b, void *addr)
{
	cuda_device_free(b, addr);
}
