/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory: handles, plain allocations, managed memory, and what of each memory is taken.
 * Offsets of the files are never used twice, so that only bytes count, as they do for a driver that
 * maps any physical pages.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakecuda/fake.h"

/* What new memory is full of. */
#define POISON 0xa5

uint64_t page_up(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

cu_result memories_init(void)
{
	for (unsigned i = 0; i < MEMORY_NR; i++) {
		struct memory *memory = &fake.memory[i];

		*memory = (struct memory){.fd = -1, .bytes = UINT64_MAX};
		if (i < MEMORY_HOST)
			memory->bytes =
				i < (unsigned)fake.config.devices ? fake.config.hbm_bytes : 0;
		else if (i == MEMORY_HOST)
			memory->bytes = fake.config.host_bytes;
	}
	for (unsigned i = 0; i < MEMORY_NR; i++) {
		fake.memory[i].fd = memfd_create("fakecuda", MFD_CLOEXEC);
		if (fake.memory[i].fd < 0) {
			memories_fini();
			return CU_OUT_OF_MEMORY;
		}
	}
	return CU_SUCCESS;
}

/* ------------------------------------------------------------------ tables */

uint64_t table_add(struct table *table, uint64_t base, void *thing)
{
	if (table->nr == table->max) {
		size_t max = table->max ? 2 * table->max : 64;
		void **grown = realloc(table->at, max * sizeof(*grown));

		if (!grown)
			return 0;
		table->at = grown;
		table->max = max;
	}
	table->at[table->nr++] = thing;
	return base + 16 * table->nr;
}

void **table_at(struct table *table, uint64_t base, uint64_t number)
{
	uint64_t index = (number - base) / 16 - 1;

	if (number <= base || number % 16 || index >= table->nr || !table->at[index])
		return NULL;
	return &table->at[index];
}

static void table_free(struct table *table)
{
	free(table->at);
	*table = (struct table){0};
}

/* ------------------------------------------------------------------ pieces */

/* The piece's part of its memory's file, which grows. */
static bool piece_back(struct memory *memory, struct piece *piece)
{
	void *shadow;

	if (ftruncate(memory->fd, (off_t)(memory->end + piece->bytes)))
		return false;
	shadow = mmap(NULL, piece->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		      memory->fd, (off_t)memory->end);
	if (shadow == MAP_FAILED)
		return false;
	memset(shadow, POISON, piece->bytes);
	piece->shadow = shadow;
	piece->offset = memory->end;
	memory->end += piece->bytes;
	memory->used_bytes += piece->bytes;
	return true;
}

cu_result piece_create(unsigned memory, int location, uint64_t bytes, struct piece **out)
{
	struct memory *from = &fake.memory[memory];
	struct piece *piece;

	if (bytes > from->bytes - from->used_bytes || bytes > UINT64_C(1) << 40)
		return CU_OUT_OF_MEMORY;
	piece = calloc(1, sizeof(*piece));
	if (!piece)
		return CU_OUT_OF_MEMORY;
	*piece = (struct piece){.memory = memory, .location = location, .bytes = bytes, .refs = 1};
	if (!piece_back(from, piece)) {
		free(piece);
		return CU_OUT_OF_MEMORY;
	}
	*out = piece;
	return CU_SUCCESS;
}

void piece_get(struct piece *piece)
{
	piece->refs++;
}

void piece_put(struct piece *piece)
{
	struct memory *memory = &fake.memory[piece->memory];

	if (--piece->refs)
		return;
	if (piece->borrowed) {
		free(piece);
		return;
	}
	munmap(piece->shadow, piece->bytes);
	/* Best effort: bytes that stay behind cost the machine memory, and nothing else. */
	(void)fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)piece->offset, (off_t)piece->bytes);
	memory->used_bytes -= piece->bytes;
	free(piece);
}

void memories_fini(void)
{
	for (size_t i = 0; i < fake.handles.nr; i++)
		if (fake.handles.at[i])
			piece_put(fake.handles.at[i]);
	table_free(&fake.handles);
	table_free(&fake.streams);
	table_free(&fake.events);
	table_free(&fake.graphs);
	table_free(&fake.textures);
	for (unsigned i = 0; i < MEMORY_NR; i++) {
		/* 0: never opened */
		if (fake.memory[i].fd > 0)
			close(fake.memory[i].fd);
		fake.memory[i] = (struct memory){0};
	}
}

/* ------------------------------------------------------------------ handles */

static cu_result prop_check(const struct cu_allocation_prop *prop, unsigned *memory)
{
	if (!prop || prop->type != CU_ALLOCATION_PINNED || prop->handle_types & ~1)
		return CU_INVALID_VALUE;
	switch (prop->location.type) {
	case CU_LOCATION_DEVICE:
		*memory = (unsigned)prop->location.id;
		return device_check(prop->location.id);
	case CU_LOCATION_HOST_NUMA:
		*memory = MEMORY_HOST;
		return prop->location.id ? CU_INVALID_DEVICE : CU_SUCCESS;
	case CU_LOCATION_HOST:
		*memory = MEMORY_HOST;
		return prop->handle_types ? CU_INVALID_VALUE : CU_SUCCESS;
	default:
		return CU_INVALID_VALUE;
	}
}

cu_result fake_mem_granularity(size_t *bytes, const struct cu_allocation_prop *prop, int option)
{
	cu_result result = call_enter(CALL_mem_granularity);
	unsigned memory;

	if (!result &&
	    (!bytes || (option != CU_GRANULARITY_MINIMUM && option != CU_GRANULARITY_RECOMMENDED)))
		result = CU_INVALID_VALUE;
	if (!result)
		result = prop_check(prop, &memory);
	if (!result)
		*bytes = fake.config.granularity;
	return call_leave(result);
}

static cu_result handle_create(cu_handle *handle, size_t bytes,
			       const struct cu_allocation_prop *prop, unsigned long long flags)
{
	struct piece *piece;
	unsigned memory;
	cu_result result = prop_check(prop, &memory);

	if (result)
		return result;
	if (!handle || flags || !bytes || bytes % fake.config.granularity)
		return CU_INVALID_VALUE;
	if (memory < MEMORY_HOST && fake.context[memory].error)
		return fake.context[memory].error;
	result = piece_create(memory, prop->location.type, bytes, &piece);
	if (result)
		return result;
	*handle = table_add(&fake.handles, HANDLE_BASE, piece);
	if (!*handle)
		piece_put(piece);
	return *handle ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

cu_result fake_mem_create(cu_handle *handle, size_t bytes, const struct cu_allocation_prop *prop,
			  unsigned long long flags)
{
	cu_result result = call_enter(CALL_mem_create);

	return call_leave(result ? result : handle_create(handle, bytes, prop, flags));
}

cu_result fake_mem_release(cu_handle handle)
{
	cu_result result = call_enter(CALL_mem_release);
	struct piece *piece;
	void **at;

	if (result)
		return call_leave(result);
	at = table_at(&fake.handles, HANDLE_BASE, handle);
	if (!at)
		return call_leave(CU_INVALID_VALUE);
	piece = *at;
	*at = NULL;
	if (piece->memory < MEMORY_HOST)
		result = fake.context[piece->memory].error;
	piece_put(piece);
	return call_leave(result);
}

/* ------------------------------------------------------------------ plain allocations */

cu_result fake_mem_info(size_t *free_bytes, size_t *total)
{
	cu_result result = call_enter(CALL_mem_info);
	int context;

	if (!result)
		result = context_current(&context);
	if (!result && (!free_bytes || !total))
		result = CU_INVALID_VALUE;
	if (!result) {
		const struct memory *memory = &fake.memory[fake.context[context].device];

		*total = memory->bytes;
		*free_bytes = memory->bytes - memory->used_bytes;
	}
	return call_leave(result);
}

static cu_result plain_alloc(enum mapping_kind kind, size_t bytes, struct mapping **out)
{
	int context;
	cu_result result = context_current(&context);
	unsigned memory = kind == MAPPING_HOST ? MEMORY_HOST : MEMORY_MANAGED;

	if (result)
		return result;
	if (kind == MAPPING_PLAIN)
		memory = (unsigned)fake.context[context].device;
	return bytes ? mapping_create(kind, memory, bytes, context, out) : CU_INVALID_VALUE;
}

cu_result fake_mem_alloc(cu_ptr *addr, size_t bytes)
{
	cu_result result = call_enter(CALL_mem_alloc);
	struct mapping *mapping;

	if (!result)
		result = addr ? plain_alloc(MAPPING_PLAIN, bytes, &mapping) : CU_INVALID_VALUE;
	if (!result)
		*addr = mapping->range.addr;
	return call_leave(result);
}

cu_result fake_host_alloc(void **addr, size_t bytes, unsigned int flags)
{
	cu_result result = call_enter(CALL_host_alloc);
	struct mapping *mapping;

	if (!result && (!addr || flags & ~7u))
		result = CU_INVALID_VALUE;
	if (!result)
		result = plain_alloc(MAPPING_HOST, bytes, &mapping);
	if (!result)
		*addr = (void *)(uintptr_t)mapping->range.addr;
	return call_leave(result);
}

cu_result fake_host_alloc_plain(void **addr, size_t bytes)
{
	cu_result result = call_enter(CALL_host_alloc_plain);
	struct mapping *mapping;

	if (!result)
		result = addr ? plain_alloc(MAPPING_HOST, bytes, &mapping) : CU_INVALID_VALUE;
	if (!result)
		*addr = (void *)(uintptr_t)mapping->range.addr;
	return call_leave(result);
}

static cu_result pitch_alloc(cu_ptr *addr, size_t *pitch, size_t width, size_t height,
			     unsigned int element)
{
	size_t line = (width + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN;
	struct mapping *mapping;
	cu_result result;

	if (!addr || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CU_INVALID_VALUE;
	if (line < width || height > SIZE_MAX / line)
		return CU_OUT_OF_MEMORY;
	result = plain_alloc(MAPPING_PLAIN, line * height, &mapping);
	if (result)
		return result;
	*addr = mapping->range.addr;
	*pitch = line;
	return CU_SUCCESS;
}

cu_result fake_mem_alloc_pitch(cu_ptr *addr, size_t *pitch, size_t width, size_t height,
			       unsigned int element)
{
	cu_result result = call_enter(CALL_mem_alloc_pitch);

	return call_leave(result ? result : pitch_alloc(addr, pitch, width, height, element));
}

cu_result fake_managed_alloc(cu_ptr *addr, size_t bytes, unsigned int flags)
{
	cu_result result = call_enter(CALL_managed_alloc);
	struct mapping *mapping;

	if (!result && (!addr || (flags != CU_ATTACH_GLOBAL && flags != 2)))
		result = CU_INVALID_VALUE;
	if (!result)
		result = plain_alloc(MAPPING_MANAGED, bytes, &mapping);
	if (!result)
		*addr = mapping->range.addr;
	return call_leave(result);
}

/* An allocation that is not being freed, by its first byte, or NULL. */
static struct mapping *plain_find(uint64_t addr, bool host)
{
	struct mapping *mapping = mapping_find(addr);

	if (!mapping || mapping->range.addr != addr || mapping->freeing)
		return NULL;
	switch (mapping->kind) {
	case MAPPING_HOST:
		return host ? mapping : NULL;
	case MAPPING_PLAIN:
	case MAPPING_MANAGED:
	case MAPPING_POOL:
		return host ? NULL : mapping;
	default:
		return NULL;
	}
}

/* Waits for all work that could use it, as the real driver does, but for memory of pools; another
 * thread may be quicker. */
static cu_result plain_free(uint64_t addr, bool host)
{
	struct mapping *mapping;
	cu_result error = CU_SUCCESS, result;
	int context;

	result = context_current_undo(&context, &error);
	if (result)
		return result;
	mapping = plain_find(addr, host);
	if (!mapping)
		return CU_INVALID_VALUE;
	if (mapping->kind != MAPPING_POOL)
		streams_wait(-1);
	mapping = plain_find(addr, host);
	if (!mapping)
		return CU_INVALID_VALUE;
	mapping_destroy(mapping);
	return error ? error : fake.context[context].error;
}

cu_result fake_mem_free(cu_ptr addr)
{
	cu_result result = call_enter(CALL_mem_free);

	return call_leave(result ? result : plain_free(addr, false));
}

cu_result fake_host_free(void *addr)
{
	cu_result result = call_enter(CALL_host_free);

	return call_leave(result ? result : plain_free((uintptr_t)addr, true));
}

/* ------------------------------------------------------------------ control */

static uint64_t used_bytes(unsigned memory)
{
	uint64_t used;

	pthread_mutex_lock(&fake.lock);
	used = fake.memory[memory].used_bytes;
	pthread_mutex_unlock(&fake.lock);
	return used;
}

uint64_t fakecuda_used_bytes(int device)
{
	if (device < -1 || device >= DEVICES_MAX)
		return 0;
	return used_bytes(device < 0 ? MEMORY_HOST : (unsigned)device);
}

uint64_t fakecuda_managed_bytes(void)
{
	return used_bytes(MEMORY_MANAGED);
}

static unsigned leaks_of_mappings(FILE *file)
{
	static const char *const kinds[] = {
		"mapping",	   "cuMemAlloc",	"cuMemHostAlloc",  "cuMemAllocManaged",
		"cuMemAllocAsync", "cuMemHostRegister", "module's global",
	};
	unsigned nr = 0;

	for (size_t i = 0; i < fake.mappings.nr; i++) {
		const struct mapping *m = (const struct mapping *)fake.mappings.at[i];

		if (file)
			fprintf(file, "fakecuda: %s of %llu bytes at %#llx\n", kinds[m->kind],
				(unsigned long long)m->range.bytes,
				(unsigned long long)m->range.addr);
		nr++;
	}
	for (size_t i = 0; i < fake.reservations.nr; i++) {
		const struct range *range = fake.reservations.at[i];

		if (file)
			fprintf(file, "fakecuda: reservation of %llu bytes at %#llx\n",
				(unsigned long long)range->bytes, (unsigned long long)range->addr);
		nr++;
	}
	return nr;
}

static unsigned leaks_of_table(FILE *file, const struct table *table, uint64_t base,
			       const char *what)
{
	unsigned nr = 0;

	for (size_t i = 0; i < table->nr; i++) {
		if (!table->at[i])
			continue;
		if (file)
			fprintf(file, "fakecuda: %s %#llx\n", what,
				(unsigned long long)base + 16 * (i + 1));
		nr++;
	}
	return nr;
}

unsigned fakecuda_leaks(FILE *file)
{
	unsigned nr = 0;

	pthread_mutex_lock(&fake.lock);
	nr += leaks_of_mappings(file);
	nr += leaks_of_table(file, &fake.handles, HANDLE_BASE, "memory handle");
	nr += leaks_of_table(file, &fake.streams, STREAM_BASE, "stream");
	nr += leaks_of_table(file, &fake.events, EVENT_BASE, "event");
	nr += leaks_of_table(file, &fake.modules, MODULE_BASE, "module");
	nr += leaks_of_table(file, &fake.graphs, GRAPH_BASE, "graph");
	nr += leaks_of_table(file, &fake.textures, TEXTURE_BASE, "texture");
	for (int i = 0; i < CONTEXTS_MAX; i++) {
		nr += fake.context[i].retains;
		if (file && fake.context[i].retains)
			fprintf(file, "fakecuda: context of device %d, retained %u times\n",
				fake.context[i].device, fake.context[i].retains);
	}
	pthread_mutex_unlock(&fake.lock);
	return nr;
}
