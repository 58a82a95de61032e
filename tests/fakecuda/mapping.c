/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is mapped at addresses, who may touch it, and the pages that the CPU sees. Device memory is
 * closed to the CPU but for kernels that run and name it; then the whole mapping is open, to all
 * threads. Addresses that are unmapped under a running kernel get pages of their own until it ends,
 * so that it breaks the context and not the process.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fakecuda/fake.h"

/* Addresses that were unmapped under running kernels. */
static struct grave {
	struct grave *next;
	struct range range;
} * graves;

/* ------------------------------------------------------------------ pages */

static struct mapping *mapping_nth(size_t n)
{
	return (struct mapping *)fake.mappings.at[n];
}

static int access_prot(int access)
{
	if (access == CU_ACCESS_READWRITE)
		return PROT_READ | PROT_WRITE;
	return access == CU_ACCESS_READ ? PROT_READ : PROT_NONE;
}

static int mapping_prot(const struct mapping *mapping)
{
	return access_prot(mapping->host |
			   kernels_access(mapping->range.addr, mapping->range.bytes));
}

/* fd -1: pages of nobody. */
static bool pages_replace(uint64_t addr, uint64_t bytes, int prot, int fd, uint64_t offset)
{
	int flags = fd >= 0 ? MAP_SHARED | MAP_NORESERVE : PAGES_OF_NOBODY;
	void *got = mmap(pointer(addr), bytes, prot, flags | MAP_FIXED, fd, (off_t)offset);
	bool replaced = got != MAP_FAILED;

	/* No leak: the pages are the reservation's, and go with it. */
	/* cppcheck-suppress memleak */
	return replaced;
}

/* Replace pages by the mapping's part of its memory. */
static bool mapping_place(struct mapping *mapping)
{
	const struct piece *piece = mapping->piece;

	mapping->prot = mapping_prot(mapping);
	return pages_replace(mapping->range.addr, piece->bytes, mapping->prot,
			     fake.memory[piece->memory].fd, piece->offset);
}

static void pages_close(uint64_t addr, uint64_t bytes)
{
	if (!pages_replace(addr, bytes, PROT_NONE, -1, 0))
		fake_panic("mmap: too many mappings");
}

/* Replace pages by nothing; where kernels run that use them, by others until these have ended. */
static void pages_clear(uint64_t addr, uint64_t bytes)
{
	struct grave *grave;

	if (!kernels_access(addr, bytes)) {
		pages_close(addr, bytes);
		return;
	}
	grave = malloc(sizeof(*grave));
	if (!grave || !pages_replace(addr, bytes, PROT_READ | PROT_WRITE, -1, 0))
		fake_panic("no memory");
	*grave = (struct grave){.next = graves, .range = {addr, bytes}};
	graves = grave;
}

/* Close what lies between the mappings that may have come to a grave's addresses. */
static void grave_close(const struct range *range)
{
	uint64_t addr = range->addr, end = range->addr + range->bytes;

	for (size_t i = ranges_after(&fake.mappings, addr); addr < end; i++) {
		bool none = i >= fake.mappings.nr || mapping_nth(i)->range.addr >= end;
		uint64_t next = none ? end : mapping_nth(i)->range.addr;

		if (next > addr)
			pages_close(addr, next - addr);
		addr = none ? end : next + mapping_nth(i)->piece->bytes;
	}
}

void graves_close(void)
{
	for (struct grave **at = &graves; *at;) {
		struct grave *grave = *at;

		if (kernels_access(grave->range.addr, grave->range.bytes)) {
			at = &grave->next;
			continue;
		}
		grave_close(&grave->range);
		*at = grave->next;
		free(grave);
	}
}

static void pages_protect(uint64_t addr, uint64_t end, int prot)
{
	if (addr < end && mprotect(pointer(addr), end - addr, prot))
		fake_panic("mprotect: too many mappings");
}

/* Mappings that lie together change in one call. */
void pages_update(uint64_t addr, uint64_t bytes)
{
	uint64_t from = 0, to = 0;
	int now = 0;

	for (size_t i = ranges_after(&fake.mappings, addr); i < fake.mappings.nr; i++) {
		struct mapping *mapping = mapping_nth(i);
		int prot;

		if (mapping->range.addr >= addr + bytes)
			break;
		prot = mapping_prot(mapping);
		if (prot == mapping->prot)
			continue;
		if (mapping->range.addr != to || prot != now) {
			pages_protect(from, to, now);
			from = mapping->range.addr;
			now = prot;
		}
		to = mapping->range.addr + mapping->piece->bytes;
		mapping->prot = prot;
	}
	pages_protect(from, to, now);
}

/* ------------------------------------------------------------------ plain mappings */

struct mapping *mapping_find(uint64_t addr)
{
	return (struct mapping *)ranges_find(&fake.mappings, addr);
}

cu_result mapping_create(enum mapping_kind kind, unsigned memory, uint64_t bytes, int context,
			 struct mapping **out)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));
	int location = memory < MEMORY_HOST ? CU_LOCATION_DEVICE : CU_LOCATION_HOST;
	cu_result result;
	void *addr;

	if (!mapping)
		return CU_OUT_OF_MEMORY;
	result = bytes > UINT64_C(1) << 40
			 ? CU_OUT_OF_MEMORY
			 : piece_create(memory, location, page_up(bytes), &mapping->piece);
	if (result)
		goto err_free;
	result = CU_OUT_OF_MEMORY;
	addr = mmap(NULL, mapping->piece->bytes, PROT_NONE, PAGES_OF_NOBODY, -1, 0);
	if (addr == MAP_FAILED)
		goto err_piece;
	mapping->range = (struct range){(uintptr_t)addr, bytes};
	mapping->kind = kind;
	mapping->context = context;
	mapping->id = ++fake.nr_mappings;
	mapping->host = mapping_is_plain(mapping) ? CU_ACCESS_NONE : CU_ACCESS_READWRITE;
	for (int i = 0; i < DEVICES_MAX; i++)
		if (!mapping_is_plain(mapping) || i == (int)memory)
			mapping->device[i] = CU_ACCESS_READWRITE;
	if (!mapping_place(mapping) || !ranges_add(&fake.mappings, &mapping->range))
		goto err_unmap;
	*out = mapping;
	return CU_SUCCESS;

err_unmap:
	munmap(addr, mapping->piece->bytes);
err_piece:
	piece_put(mapping->piece);
err_free:
	free(mapping);
	return result;
}

cu_result mapping_register(uint64_t addr, uint64_t bytes, int context)
{
	struct mapping *mapping;
	struct piece *piece;

	if (ranges_any(&fake.mappings, addr, bytes))
		return CU_HOST_ALREADY_REGISTERED;
	mapping = calloc(1, sizeof(*mapping));
	piece = calloc(1, sizeof(*piece));
	if (!mapping || !piece)
		goto err;
	*piece = (struct piece){.memory = MEMORY_HOST,
				.location = CU_LOCATION_HOST,
				.bytes = bytes,
				.shadow = pointer(addr),
				.borrowed = true,
				.refs = 1};
	mapping->range = (struct range){addr, bytes};
	mapping->piece = piece;
	mapping->kind = MAPPING_REGISTERED;
	mapping->context = context;
	mapping->id = ++fake.nr_mappings;
	mapping->host = CU_ACCESS_READWRITE;
	memset(mapping->device, CU_ACCESS_READWRITE, sizeof(mapping->device));
	mapping->prot = PROT_READ | PROT_WRITE;
	if (ranges_add(&fake.mappings, &mapping->range))
		return CU_SUCCESS;
err:
	free(mapping);
	free(piece);
	return CU_OUT_OF_MEMORY;
}

void mapping_destroy(struct mapping *mapping)
{
	uint64_t addr = mapping->range.addr;

	work_check_unmap(addr, mapping->range.bytes);
	ranges_del(&fake.mappings, &mapping->range);
	/* A kernel may still run there: the addresses stay until it ends, and are lost. */
	if (!mapping->piece->borrowed && kernels_access(addr, mapping->range.bytes))
		pages_clear(addr, mapping->piece->bytes);
	else if (!mapping->piece->borrowed)
		munmap(pointer(addr), mapping->piece->bytes);
	piece_put(mapping->piece);
	free(mapping);
}

void mappings_fini(void)
{
	while (fake.mappings.nr)
		mapping_destroy(mapping_nth(fake.mappings.nr - 1));
	free(fake.mappings.at);
	fake.mappings = (struct ranges){0};
}

/* ------------------------------------------------------------------ mapping */

static cu_result piece_error(const struct piece *piece)
{
	return piece->memory < MEMORY_HOST ? fake.context[piece->memory].error : CU_SUCCESS;
}

static cu_result map(uint64_t addr, size_t bytes, size_t offset, cu_handle handle,
		     unsigned long long flags)
{
	void **piece = table_at(&fake.handles, HANDLE_BASE, handle);
	const struct range *range = ranges_find(&fake.reservations, addr);
	struct mapping *mapping;

	if (!piece || !range || addr % fake.config.granularity || offset || flags ||
	    bytes != ((struct piece *)*piece)->bytes || bytes > range->bytes ||
	    addr + bytes > range->addr + range->bytes || ranges_any(&fake.mappings, addr, bytes))
		return CU_INVALID_VALUE;
	if (piece_error(*piece))
		return piece_error(*piece);
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return CU_OUT_OF_MEMORY;
	mapping->range = (struct range){addr, bytes};
	mapping->context = -1;
	mapping->id = ++fake.nr_mappings;
	mapping->piece = *piece;
	if (!ranges_add(&fake.mappings, &mapping->range))
		goto err_free;
	if (!mapping_place(mapping))
		goto err_del;
	piece_get(mapping->piece);
	return CU_SUCCESS;

err_del:
	ranges_del(&fake.mappings, &mapping->range);
err_free:
	free(mapping);
	return CU_OUT_OF_MEMORY;
}

cu_result fake_mem_map(cu_ptr addr, size_t bytes, size_t offset, cu_handle handle,
		       unsigned long long flags)
{
	cu_result result = call_enter(CALL_mem_map);

	return call_leave(result ? result : map(addr, bytes, offset, handle, flags));
}

/* The mappings that make up a range, whole and without a gap; false: they do not. */
static bool mappings_of(uint64_t addr, uint64_t bytes, size_t *first, size_t *nr)
{
	size_t i = ranges_after(&fake.mappings, addr);
	uint64_t end = addr;

	*first = i;
	for (; i < fake.mappings.nr && end - addr < bytes; i++) {
		const struct mapping *mapping = mapping_nth(i);

		if (mapping->range.addr != end || mapping->kind != MAPPING_VMM)
			return false;
		end += mapping->range.bytes;
	}
	*nr = i - *first;
	return bytes && end - addr == bytes;
}

static cu_result unmap(uint64_t addr, uint64_t bytes)
{
	cu_result error = CU_SUCCESS;
	size_t first, nr;

	if (!mappings_of(addr, bytes, &first, &nr))
		return CU_INVALID_VALUE;
	work_check_unmap(addr, bytes);
	while (nr--) {
		struct mapping *mapping = mapping_nth(first);

		pages_clear(mapping->range.addr, mapping->range.bytes);
		ranges_del(&fake.mappings, &mapping->range);
		if (piece_error(mapping->piece))
			error = piece_error(mapping->piece);
		piece_put(mapping->piece);
		free(mapping);
	}
	return error;
}

cu_result fake_mem_unmap(cu_ptr addr, size_t bytes)
{
	cu_result result = call_enter(CALL_mem_unmap);

	return call_leave(result ? result : unmap(addr, bytes));
}

/* ------------------------------------------------------------------ access */

static cu_result access_check(const struct mapping *mapping, const struct cu_access *access)
{
	if (access->flags != CU_ACCESS_NONE && access->flags != CU_ACCESS_READ &&
	    access->flags != CU_ACCESS_READWRITE)
		return CU_INVALID_VALUE;
	switch (access->location.type) {
	case CU_LOCATION_DEVICE:
		return device_check(access->location.id) ? CU_INVALID_DEVICE
							 : fake.context[access->location.id].error;
	case CU_LOCATION_HOST:
	case CU_LOCATION_HOST_NUMA:
		if (mapping->piece->location == CU_LOCATION_DEVICE)
			return CU_NOT_SUPPORTED;
		if (access->location.type == CU_LOCATION_HOST_NUMA &&
		    mapping->piece->location == CU_LOCATION_HOST)
			return CU_INVALID_VALUE;
		return CU_SUCCESS;
	default:
		return CU_INVALID_VALUE;
	}
}

static void access_apply(struct mapping *mapping, const struct cu_access *access, size_t nr)
{
	uint8_t device[DEVICES_MAX];

	memcpy(device, mapping->device, sizeof(device));
	for (size_t i = 0; i < nr; i++)
		if (access[i].location.type == CU_LOCATION_DEVICE)
			device[access[i].location.id] = (uint8_t)access[i].flags;
		else
			mapping->host = (uint8_t)access[i].flags;
	work_check_access(mapping, device);
	memcpy(mapping->device, device, sizeof(device));
}

static cu_result set_access(uint64_t addr, uint64_t bytes, const struct cu_access *access,
			    size_t nr)
{
	size_t first, nr_mappings;

	if (!access || !nr || !mappings_of(addr, bytes, &first, &nr_mappings))
		return CU_INVALID_VALUE;
	for (size_t i = 0; i < nr_mappings; i++)
		for (size_t j = 0; j < nr; j++) {
			cu_result result = access_check(mapping_nth(first + i), &access[j]);

			if (result)
				return result;
		}
	for (size_t i = 0; i < nr_mappings; i++)
		access_apply(mapping_nth(first + i), access, nr);
	pages_update(addr, bytes);
	return CU_SUCCESS;
}

cu_result fake_mem_access(cu_ptr addr, size_t bytes, const struct cu_access *access, size_t nr)
{
	/* As the real one with several GPUs, where two threads are in this call. */
	static atomic_int nr_inside;
	bool alone = atomic_fetch_add(&nr_inside, 1) == 0;
	cu_result result = call_enter(CALL_mem_access);

	if (!result && !alone && !device_check(1))
		result = CU_ALREADY_MAPPED;
	if (!result)
		result = set_access(addr, bytes, access, nr);
	atomic_fetch_sub(&nr_inside, 1);
	return call_leave(result);
}

int fakecuda_access(const void *addr, int device)
{
	const struct mapping *mapping;
	int access = CU_ACCESS_NONE;

	pthread_mutex_lock(&fake.lock);
	mapping = mapping_find((uintptr_t)addr);
	if (mapping && device < DEVICES_MAX)
		access = device < 0 ? mapping->host : mapping->device[device];
	pthread_mutex_unlock(&fake.lock);
	return access;
}
