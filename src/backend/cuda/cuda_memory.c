/* SPDX-License-Identifier: Apache-2.0 */
/* The boundary's memory: chunks, plain allocations, what is taken and what others leave. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/backend/cuda/host_memory.h"
#include "src/backend/cuda/nvml.h"
#include "src/base/log.h"
#include "src/base/util.h"

/* What is left of the host's memory to the system and other programs. */
#define HOST_SPARE_SHARE 16u

/* ------------------------------------------------------------------ chunks */

int cuda_chunk_create(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
		      struct backend_chunk *out)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_chunk *chunk;
	int err;

	if (!cuda_chunk_valid(cuda, memory, bytes, &devices))
		return -EINVAL;
	if (bytes > b->desc.memory[memory].bytes)
		return -ENOMEM;
	do {
		pthread_mutex_lock(&cuda->lock);
		chunk = cuda_ready_take(cuda, memory, bytes, devices);
		pthread_mutex_unlock(&cuda->lock);
		err = chunk ? 0 : cuda_chunk_make(cuda, memory, bytes, devices, false, &chunk);
	} while (err == -ENOMEM && cuda_ready_drop(cuda, memory));
	if (err)
		return err;
	pthread_mutex_lock(&cuda->lock);
	err = cuda_chunk_add(cuda, chunk);
	pthread_mutex_unlock(&cuda->lock);
	if (err) {
		cuda_chunk_unmake(cuda, chunk);
		return err;
	}
	*out = (struct backend_chunk){
		.handle = chunk->number,
		.alias = (void *)(uintptr_t)chunk->alias,
		.bytes = bytes,
		.memory = memory,
	};
	return 0;
}

int cuda_chunk_add_devices(struct backend *b, const struct backend_chunk *named, uint64_t devices)
{
	struct cuda *cuda = cuda_of(b);
	struct cu_access access[WEIR_DEVICES_MAX + 1];
	struct cuda_chunk *chunk;
	uint64_t more;
	int err;

	if (!devices || backend_chunk_devices(b, named->memory, &devices))
		return -EINVAL;
	pthread_mutex_lock(&cuda->lock);
	chunk = cuda_chunk_find(cuda, named);
	more = chunk ? devices & ~chunk->devices : 0;
	pthread_mutex_unlock(&cuda->lock);
	if (!more)
		return chunk ? 0 : -EINVAL;
	err = cuda_devices_start(cuda, more);
	if (err)
		return err;
	/* Whom the list does not name keeps what he has. */
	err = cuda_access_set(cuda, chunk->alias, chunk->bytes, access,
			      cuda_access_add(cuda, BACKEND_PROT_WRITE, more, access, 0));
	if (err)
		return err;
	pthread_mutex_lock(&cuda->lock);
	chunk->devices |= more;
	pthread_mutex_unlock(&cuda->lock);
	return 0;
}

void cuda_chunk_destroy(struct backend *b, const struct backend_chunk *named)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_chunk *chunk;

	pthread_mutex_lock(&cuda->lock);
	chunk = cuda_chunk_find(cuda, named);
	if (chunk)
		cuda_chunk_del(cuda, chunk);
	pthread_mutex_unlock(&cuda->lock);
	if (chunk)
		cuda_chunk_unmake(cuda, chunk);
	else
		log_error("cuda: destroying a chunk that is none");
}

/* ------------------------------------------------------------------ shares of managed memory */

/* Managed memory of all machines of the process: what can hang the GPU is not one machine's. Atomic
 * by itself; nothing else depends on it. */
static atomic_uint_fast64_t managed_total;

static bool managed_total_take(uint64_t limit, uint64_t bytes)
{
	uint_fast64_t total = atomic_load(&managed_total);

	do {
		if (bytes > limit || total > limit - bytes)
			return false;
	} while (!atomic_compare_exchange_weak(&managed_total, &total, total + bytes));
	return true;
}

int cuda_managed_take(struct cuda *cuda, uint64_t bytes)
{
	uint64_t share = UINT64_MAX, budget;
	bool fits;

	for (uint32_t d = 0; d < cuda->base.desc.nr_devices; d++) {
		uint32_t memory = cuda->base.desc.device[d].memory;
		uint64_t own = cuda->base.desc.memory[memory].bytes / CUDA_MANAGED_SHARE;

		share = MIN(own, share);
	}
	pthread_mutex_lock(&cuda->lock);
	budget = cuda->managed_limit_bytes ? cuda->managed_limit_bytes : UINT64_MAX;
	fits = bytes <= budget && cuda->managed_bytes <= budget - bytes &&
	       managed_total_take(share, bytes);
	if (fits)
		cuda->managed_bytes += bytes;
	pthread_mutex_unlock(&cuda->lock);
	if (fits)
		return 0;
	if (budget < share)
		log_error("cuda: managed memory beyond the budget of %llu bytes is refused: "
			  "oversubscribed, it can hang the GPU",
			  (unsigned long long)budget);
	else
		log_error("cuda: managed memory beyond 1/%u of the card (%llu bytes, over all that "
			  "the process has) is refused: it can hang the GPU",
			  CUDA_MANAGED_SHARE, (unsigned long long)share);
	return -EDQUOT;
}

void cuda_managed_give(struct cuda *cuda, uint64_t bytes)
{
	pthread_mutex_lock(&cuda->lock);
	cuda->managed_bytes -= bytes;
	pthread_mutex_unlock(&cuda->lock);
	atomic_fetch_sub(&managed_total, bytes);
}

/* ------------------------------------------------------------------ plain allocations */

const struct cuda_plain *cuda_plain_at(const struct cuda *cuda, cu_ptr addr, uint64_t bytes)
{
	for (const struct cuda_plain *p = cuda->plains; p; p = p->next)
		if (addr >= p->addr && addr - p->addr < p->bytes &&
		    bytes <= p->bytes - (addr - p->addr))
			return p;
	return NULL;
}

void cuda_plain_add(struct cuda *cuda, struct cuda_plain *plain)
{
	pthread_mutex_lock(&cuda->lock);
	plain->next = cuda->plains;
	cuda->plains = plain;
	if (plain->kind != CUDA_PLAIN_MANAGED) /* cuda_managed_take() has counted it */
		cuda->used_bytes[plain->memory] += plain->bytes;
	pthread_mutex_unlock(&cuda->lock);
}

/* Have the driver allocate. The context is current. */
static int plain_make(struct cuda *cuda, bool host, struct cuda_plain *plain)
{
	struct cuda_driver *driver = &cuda->driver;
	void *at = NULL;
	int err;

	if (!host)
		return cuda_error(driver, driver->mem_alloc(&plain->addr, plain->bytes),
				  "cuMemAlloc");
	err = cuda_error(
		driver, driver->host_alloc(&at, plain->bytes, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP),
		"cuMemHostAlloc");
	plain->addr = (cu_ptr)(uintptr_t)at;
	return err;
}

int cuda_device_alloc(struct backend *b, uint32_t memory, uint64_t bytes, void **addr)
{
	struct cuda *cuda = cuda_of(b);
	bool host = memory < b->desc.nr_memories && cuda_is_host(cuda, memory);
	struct cuda_plain *plain;
	bool room;
	int err;

	if (memory >= b->desc.nr_memories || !bytes)
		return -EINVAL;
	pthread_mutex_lock(&cuda->lock);
	room = cuda_part_has_room(cuda, memory, bytes);
	pthread_mutex_unlock(&cuda->lock);
	if (!room)
		return -ENOMEM;
	plain = calloc(1, sizeof(*plain));
	if (!plain)
		return -ENOMEM;
	plain->bytes = bytes;
	plain->memory = memory;
	plain->kind = host ? CUDA_PLAIN_HOST : CUDA_PLAIN_HBM;
	err = cuda_device_enter(cuda, host ? 0 : cuda_device_of(cuda, memory));
	if (err)
		goto err_free;
	do
		err = plain_make(cuda, host, plain);
	while (err == -ENOMEM && cuda_ready_drop(cuda, memory));
	cuda_leave(cuda);
	if (err)
		goto err_free;
	cuda_plain_add(cuda, plain);
	*addr = (void *)(uintptr_t)plain->addr;
	return 0;

err_free:
	free(plain);
	return err;
}

/* Take an allocation that begins at addr off the list; NULL: none does. */
static struct cuda_plain *plain_del(struct cuda *cuda, const void *addr)
{
	struct cuda_plain *found = NULL;

	pthread_mutex_lock(&cuda->lock);
	for (struct cuda_plain **at = &cuda->plains; *at; at = &(*at)->next) {
		if ((*at)->addr != (cu_ptr)(uintptr_t)addr)
			continue;
		found = *at;
		*at = found->next;
		break;
	}
	if (found && found->kind != CUDA_PLAIN_MANAGED)
		cuda->used_bytes[found->memory] -= found->bytes;
	pthread_mutex_unlock(&cuda->lock);
	return found;
}

void cuda_device_free(struct backend *b, void *addr)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_plain *plain = addr ? plain_del(cuda, addr) : NULL;

	if (!plain) {
		if (addr)
			log_error("cuda: free: nothing was allocated at %p", addr);
		return;
	}
	if (!cuda_enter_surely(cuda, plain->kind == CUDA_PLAIN_HBM
					     ? cuda_device_of(cuda, plain->memory)
					     : 0)) {
		if (plain->kind == CUDA_PLAIN_HOST)
			(void)cuda_error(driver, driver->host_free(addr), "cuMemFreeHost");
		else
			(void)cuda_error(driver, driver->mem_free(plain->addr), "cuMemFree");
		cuda_leave(cuda);
	}
	if (plain->kind == CUDA_PLAIN_MANAGED) /* now, not before */
		cuda_managed_give(cuda, plain->bytes);
	free(plain);
}

uint64_t cuda_memory_used(struct backend *b, uint32_t memory)
{
	struct cuda *cuda = cuda_of(b);
	uint64_t bytes = 0;

	pthread_mutex_lock(&cuda->lock);
	if (memory < b->desc.nr_memories)
		bytes = cuda->used_bytes[memory];
	pthread_mutex_unlock(&cuda->lock);
	return bytes;
}

/* ------------------------------------------------------------------ what others leave */

/* Pinned memory cannot be paged out: a system without any left would stop. */
static uint64_t host_share(uint64_t bytes)
{
	return bytes - bytes / HOST_SPARE_SHARE;
}

uint64_t cuda_host_bytes(const struct cuda *cuda)
{
	struct host_memory memory = host_memory_read(cuda->root, cuda->host_node);

	return host_share(memory.bytes);
}

static uint64_t host_room(const struct cuda *cuda)
{
	struct host_memory memory = host_memory_read(cuda->root, cuda->host_node);

	return host_share(memory.room_bytes);
}

uint64_t cuda_memory_room(struct backend *b, uint32_t memory)
{
	struct cuda *cuda = cuda_of(b);
	uint64_t ready, left = b->desc.memory[memory].bytes;
	size_t room = 0, bytes;

	if (cuda_is_host(cuda, memory)) {
		room = host_room(cuda);
	} else if (!cuda_device_enter(cuda, cuda_device_of(cuda, memory))) {
		(void)cuda_error(&cuda->driver, cuda->driver.mem_info(&room, &bytes),
				 "cuMemGetInfo");
		cuda_leave(cuda);
	}
	pthread_mutex_lock(&cuda->lock);
	ready = cuda_ready_bytes(cuda, memory); /* gives way */
	left -= MIN(cuda->used_bytes[memory], left);
	pthread_mutex_unlock(&cuda->lock);
	if (cuda->nr_parts > 1 && !cuda_is_host(cuda, memory))
		room = MIN(room, left);
	return room + ready;
}

void cuda_memory_holders(struct backend *b, uint32_t memory, char *text, size_t bytes)
{
	struct cuda *cuda = cuda_of(b);
	char pci[32];

	text[0] = '\0';
	if (cuda_is_host(cuda, memory) ||
	    cuda_error(&cuda->driver,
		       cuda->driver.device_pci(pci, sizeof(pci),
					       cuda->device[cuda_device_of(cuda, memory)].device),
		       "cuDeviceGetPCIBusId"))
		return;
	nvml_holders(cuda->nvml, pci, text, bytes);
}
