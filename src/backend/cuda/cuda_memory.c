/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory: chunks, each mapped at its alias for good, and allocations of other kinds. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/backend/cuda/host_memory.h"
#include "src/backend/cuda/nvml.h"
#include "src/base/log.h"

/* What is left of the host's memory to the system and other programs. */
#define HOST_SPARE_SHARE 16u

/* ------------------------------------------------------------------ chunks */

static bool is_host(const struct cuda *cuda, uint32_t memory)
{
	return cuda->base.desc.memory[memory].kind == WEIR_MEMORY_HOST;
}

/* The device that a memory belongs to. */
static uint32_t device_of(const struct cuda *cuda, uint32_t memory)
{
	uint32_t d = 0;

	while (cuda->base.desc.device[d].memory != memory)
		d++;
	return d;
}

static struct cu_allocation_prop chunk_prop(const struct cuda *cuda, uint32_t memory)
{
	struct cu_allocation_prop prop = {.type = CU_ALLOCATION_PINNED};

	if (is_host(cuda, memory)) {
		prop.location.type = CU_LOCATION_HOST_NUMA;
		prop.location.id = cuda->host_node;
	} else {
		prop.location.type = CU_LOCATION_DEVICE;
		prop.location.id = cuda->device[device_of(cuda, memory)].device;
	}
	return prop;
}

/* Devices that reach a memory: all reach the host's, peers each other's where the machine says so.
 */
static uint32_t reaching(const struct cuda *cuda, uint32_t memory)
{
	const struct weir_machine_desc *desc = &cuda->base.desc;
	uint32_t devices = is_host(cuda, memory) ? BACKEND_HOST_BIT : 0;

	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		bool reaches = desc->device[d].memory == memory;

		for (uint32_t l = 0; l < desc->nr_links && !reaches; l++) {
			const struct weir_link_desc *link = &desc->link[l];
			uint32_t own = desc->device[d].memory;

			reaches = (link->a == own && link->b == memory) ||
				  (link->b == own && link->a == memory);
		}
		if (reaches)
			devices |= 1u << d;
	}
	return devices;
}

/* The error of a call that makes a chunk. */
static int made(const struct cuda *cuda, bool quiet, cu_result result, const char *call)
{
	return quiet ? cuda_errno(result) : cuda_error(&cuda->driver, result, call);
}

/* Map the alias: for every device that reaches the memory, so that any copy engine may use it. */
static int alias_map(struct cuda *cuda, struct cuda_chunk *chunk, bool quiet)
{
	struct cuda_driver *driver = &cuda->driver;
	struct cu_access access[WEIR_DEVICES_MAX + 1];
	size_t nr =
		cuda_access_add(cuda, BACKEND_PROT_WRITE, reaching(cuda, chunk->memory), access, 0);
	int err = made(cuda, quiet, driver->mem_reserve(&chunk->alias, chunk->bytes, 0, 0, 0),
		       "cuMemAddressReserve");

	if (err)
		return err;
	err = made(cuda, quiet, driver->mem_map(chunk->alias, chunk->bytes, 0, chunk->handle, 0),
		   "cuMemMap");
	if (err)
		goto err_release;
	err = made(cuda, quiet, driver->mem_access(chunk->alias, chunk->bytes, access, nr),
		   "cuMemSetAccess");
	if (err)
		goto err_unmap;
	return 0;

err_unmap:
	(void)cuda_error(driver, driver->mem_unmap(chunk->alias, chunk->bytes), "cuMemUnmap");
err_release:
	(void)cuda_error(driver, driver->mem_unreserve(chunk->alias, chunk->bytes),
			 "cuMemAddressFree");
	return err;
}

/* Give the chunk a place in the table, and a number: the place + 1 in the lower half, so that it is
 * found, a count of chunks made in the upper, so that one of a former chunk is not. */
static int table_add(struct cuda *cuda, struct cuda_chunk *chunk)
{
	uint32_t at = cuda->free_place;

	while (at < cuda->nr_chunks && cuda->chunk[at])
		at++;
	if (at == cuda->max_chunks) {
		uint32_t max = cuda->max_chunks ? cuda->max_chunks * 2 : 256;
		struct cuda_chunk **table = realloc(cuda->chunk, max * sizeof(struct cuda_chunk *));

		if (!table)
			return -ENOMEM;
		cuda->chunk = table;
		cuda->max_chunks = max;
	}
	cuda->chunk[at] = chunk;
	cuda->free_place = at + 1;
	if (at == cuda->nr_chunks)
		cuda->nr_chunks++;
	chunk->number = ++cuda->nr_created << 32 | (at + 1);
	cuda->used_bytes[chunk->memory] += chunk->bytes;
	return 0;
}

static void table_del(struct cuda *cuda, const struct cuda_chunk *chunk)
{
	uint32_t at = (uint32_t)chunk->number - 1;

	cuda->chunk[at] = NULL;
	if (at < cuda->free_place)
		cuda->free_place = at;
	cuda->used_bytes[chunk->memory] -= chunk->bytes;
}

struct cuda_chunk *cuda_chunk_find(const struct cuda *cuda, const struct backend_chunk *named)
{
	uint32_t at = (uint32_t)named->handle - 1;
	struct cuda_chunk *chunk = at < cuda->nr_chunks ? cuda->chunk[at] : NULL;

	return chunk && chunk->number == named->handle ? chunk : NULL;
}

/* What fails here stays behind until the process ends: the log has it. */
static void alias_unmap(struct cuda *cuda, const struct cuda_chunk *chunk)
{
	struct cuda_driver *driver = &cuda->driver;

	(void)cuda_error(driver, driver->mem_unmap(chunk->alias, chunk->bytes), "cuMemUnmap");
	(void)cuda_error(driver, driver->mem_unreserve(chunk->alias, chunk->bytes),
			 "cuMemAddressFree");
}

bool cuda_chunk_valid(const struct cuda *cuda, uint32_t memory, uint64_t bytes)
{
	return memory < cuda->base.desc.nr_memories && bytes &&
	       bytes % cuda->base.desc.vmm.granularity_bytes == 0;
}

int cuda_chunk_make(struct cuda *cuda, uint32_t memory, uint64_t bytes, bool quiet,
		    struct cuda_chunk **out)
{
	struct cuda_driver *driver = &cuda->driver;
	struct cu_allocation_prop prop = chunk_prop(cuda, memory);
	struct cuda_chunk *chunk = calloc(1, sizeof(*chunk));
	int err;

	if (!chunk)
		return -ENOMEM;
	chunk->bytes = bytes;
	chunk->memory = memory;
	cuda_relax(cuda);
	err = made(cuda, quiet, driver->mem_create(&chunk->handle, bytes, &prop, 0), "cuMemCreate");
	if (err)
		goto err_free;
	err = alias_map(cuda, chunk, quiet);
	if (err)
		goto err_handle;
	cuda_unrelax(cuda);
	*out = chunk;
	return 0;

err_handle:
	(void)cuda_error(driver, driver->mem_release(chunk->handle), "cuMemRelease");
err_free:
	cuda_unrelax(cuda);
	free(chunk);
	return err;
}

void cuda_chunk_unmake(struct cuda *cuda, struct cuda_chunk *chunk)
{
	cuda_relax(cuda);
	alias_unmap(cuda, chunk);
	(void)cuda_error(&cuda->driver, cuda->driver.mem_release(chunk->handle), "cuMemRelease");
	cuda_unrelax(cuda);
	free(chunk);
}

int cuda_chunk_create(struct backend *b, uint32_t memory, uint64_t bytes, struct backend_chunk *out)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_chunk *chunk;
	int err;

	if (!cuda_chunk_valid(cuda, memory, bytes))
		return -EINVAL;
	if (bytes > b->desc.memory[memory].bytes)
		return -ENOMEM;
	do {
		pthread_mutex_lock(&cuda->lock);
		chunk = cuda_ready_take(cuda, memory, bytes);
		pthread_mutex_unlock(&cuda->lock);
		err = chunk ? 0 : cuda_chunk_make(cuda, memory, bytes, false, &chunk);
	} while (err == -ENOMEM && cuda_ready_drop(cuda, memory));
	if (err)
		return err;
	pthread_mutex_lock(&cuda->lock);
	err = table_add(cuda, chunk);
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

void cuda_chunk_destroy(struct backend *b, const struct backend_chunk *named)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_chunk *chunk;

	pthread_mutex_lock(&cuda->lock);
	chunk = cuda_chunk_find(cuda, named);
	if (chunk)
		table_del(cuda, chunk);
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

/* Take so much of what the process and this machine may have of managed memory. */
static int managed_take(struct cuda *cuda, uint64_t bytes)
{
	uint64_t share = UINT64_MAX, budget;
	bool fits;

	for (uint32_t d = 0; d < cuda->base.desc.nr_devices; d++) {
		uint32_t memory = cuda->base.desc.device[d].memory;
		uint64_t own = cuda->base.desc.memory[memory].bytes / CUDA_MANAGED_SHARE;

		share = own < share ? own : share;
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

static void managed_give(struct cuda *cuda, uint64_t bytes)
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

/* Note an allocation that the driver made. */
static void plain_add(struct cuda *cuda, struct cuda_plain *plain)
{
	pthread_mutex_lock(&cuda->lock);
	plain->next = cuda->plains;
	cuda->plains = plain;
	if (plain->kind != CUDA_PLAIN_MANAGED) /* managed_take() has counted it */
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
	bool host = memory < b->desc.nr_memories && is_host(cuda, memory);
	struct cuda_plain *plain;
	int err;

	if (memory >= b->desc.nr_memories || !bytes)
		return -EINVAL;
	plain = calloc(1, sizeof(*plain));
	if (!plain)
		return -ENOMEM;
	plain->bytes = bytes;
	plain->memory = memory;
	plain->kind = host ? CUDA_PLAIN_HOST : CUDA_PLAIN_HBM;
	err = cuda_enter(cuda, host ? 0 : device_of(cuda, memory));
	if (err)
		goto err_free;
	do
		err = plain_make(cuda, host, plain);
	while (err == -ENOMEM && cuda_ready_drop(cuda, memory));
	cuda_leave(cuda);
	if (err)
		goto err_free;
	plain_add(cuda, plain);
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
	if (!cuda_enter_surely(cuda, plain->kind == CUDA_PLAIN_HBM ? device_of(cuda, plain->memory)
								   : 0)) {
		if (plain->kind == CUDA_PLAIN_HOST)
			(void)cuda_error(driver, driver->host_free(addr), "cuMemFreeHost");
		else
			(void)cuda_error(driver, driver->mem_free(plain->addr), "cuMemFree");
		cuda_leave(cuda);
	}
	if (plain->kind == CUDA_PLAIN_MANAGED) /* now, not before */
		managed_give(cuda, plain->bytes);
	free(plain);
}

/* ------------------------------------------------------------------ managed memory */

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
	err = managed_take(cuda, bytes);
	if (err)
		goto err_free;
	err = cuda_enter(cuda, 0);
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
	plain_add(cuda, plain);
	*addr = (void *)(uintptr_t)plain->addr;
	return 0;

err_give:
	managed_give(cuda, bytes);
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
	to = chunk_prop(cuda, memory).location;
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
		return chunk_prop(cuda, desc->device[to].memory).location;
	if (advice == BACKEND_ADVICE_PREFERRED)
		return chunk_prop(cuda, to).location;
	return chunk_prop(cuda, desc->device[0].memory).location;
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
	err = cuda_enter(cuda, 0);
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
	size_t room = 0, bytes;
	uint64_t ready;

	if (is_host(cuda, memory)) {
		room = host_room(cuda);
	} else if (!cuda_enter(cuda, device_of(cuda, memory))) {
		(void)cuda_error(&cuda->driver, cuda->driver.mem_info(&room, &bytes),
				 "cuMemGetInfo");
		cuda_leave(cuda);
	}
	pthread_mutex_lock(&cuda->lock);
	ready = cuda_ready_bytes(cuda, memory); /* gives way */
	pthread_mutex_unlock(&cuda->lock);
	return room + ready;
}

void cuda_memory_holders(struct backend *b, uint32_t memory, char *text, size_t bytes)
{
	struct cuda *cuda = cuda_of(b);
	char pci[32];

	text[0] = '\0';
	if (is_host(cuda, memory) ||
	    cuda_error(&cuda->driver,
		       cuda->driver.device_pci(pci, sizeof(pci),
					       cuda->device[device_of(cuda, memory)].device),
		       "cuDeviceGetPCIBusId"))
		return;
	nvml_holders(cuda->nvml, pci, text, bytes);
}
