/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the backend, noted; see taken.h. Other threads than the training's make some of them:
 * the lock is held for what is noted, not for the calls.
 */
#include "bench/training/taken.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/hash.h"
#include "src/base/util.h"

#define USES_MAX 16u
#define BLOCKS_LEAST 1024u /* entries of the first table; a power of two */

/* Where an address of a block is mapped. */
struct block {
	char *addr;	/* NULL: no entry */
	uint64_t bytes; /* 0: no longer mapped */
	uint32_t memory;
};

/* A launch that may not be done. */
struct launch {
	fence_t done;
	uint32_t nr_uses;
	struct {
		const char *addr;
		uint64_t bytes;
	} use[USES_MAX];
};

static struct {
	struct backend *backend;
	struct backend_ops plain, noting;
	pthread_mutex_t lock;
	atomic_int err; /* what was missed last */

	struct block *block; /* by a hash of the address; at least a quarter of it is free */
	uint32_t nr_blocks, max_blocks;
	uint64_t held_bytes[WEIR_MEMORIES_MAX];

	/* The training's thread's alone: */
	bool notes_launches;
	struct launch *launch;
	uint32_t nr_launches, max_launches;

	bool looks; /* between taken_begin() and taken_end() */
	uint32_t memory;
	struct taken taken;
	struct block *left; /* unmapped meanwhile */
	uint32_t nr_left, max_left;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Room for one more element of an array. @return whether there is. */
static bool make_room(void **array, uint32_t nr, uint32_t *max, size_t element_bytes)
{
	const uint32_t more = MAX(2 * nr, 64);
	void *grown;

	if (nr < *max)
		return true;
	grown = realloc(*array, more * element_bytes);
	if (!grown) {
		watch.err = -ENOMEM;
		return false;
	}
	*array = grown;
	*max = more;
	return true;
}

/* ------------------------------------------------------------------ blocks */

/* The entry of an address, or the one that it gets. */
static struct block *block_find(struct block *table, uint32_t max, const char *addr)
{
	uint32_t i = (uint32_t)hash_mix(0, (uintptr_t)addr) & (max - 1);

	while (table[i].addr && table[i].addr != addr)
		i = (i + 1) & (max - 1);
	return &table[i];
}

/* Another table, without what is no longer mapped; no larger where that is most of it. */
static bool blocks_grow(void)
{
	uint32_t nr_mapped = 0, max = BLOCKS_LEAST;
	struct block *table;

	for (uint32_t i = 0; i < watch.max_blocks; i++)
		nr_mapped += watch.block[i].bytes != 0;
	while (max / 2 < nr_mapped + 1)
		max *= 2;
	table = calloc(max, sizeof(*table));
	if (!table) {
		watch.err = -ENOMEM;
		return false;
	}
	for (uint32_t i = 0; i < watch.max_blocks; i++)
		if (watch.block[i].bytes)
			*block_find(table, max, watch.block[i].addr) = watch.block[i];
	free(watch.block);
	watch.block = table;
	watch.max_blocks = max;
	watch.nr_blocks = nr_mapped;
	return true;
}

static void block_note(char *addr, const struct backend_chunk *chunk)
{
	struct block *block;

	if (4 * (watch.nr_blocks + 1) > 3 * watch.max_blocks && !blocks_grow())
		return;
	block = block_find(watch.block, watch.max_blocks, addr);
	watch.nr_blocks += !block->addr;
	*block = (struct block){addr, chunk->bytes, chunk->memory};
}

static void block_leaves(char *addr)
{
	struct block *block =
		watch.max_blocks ? block_find(watch.block, watch.max_blocks, addr) : NULL;

	if (!block || !block->bytes)
		return;
	if (watch.looks && block->memory == watch.memory &&
	    make_room((void **)&watch.left, watch.nr_left, &watch.max_left, sizeof(*watch.left)))
		watch.left[watch.nr_left++] = *block;
	block->bytes = 0;
}

/* ------------------------------------------------------------------ calls of the backend */

/* A call that began then is done. Locks; the caller notes what it did, and unlocks. */
static void call_end(struct backend *b, uint64_t start_ns)
{
	const uint64_t ns = watch.plain.now_ns(b) - start_ns;

	pthread_mutex_lock(&watch.lock);
	if (!watch.looks)
		return;
	watch.taken.nr_calls++;
	watch.taken.calls_ns += ns;
}

static int note_create(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
		       struct backend_chunk *out)
{
	const uint64_t start_ns = watch.plain.now_ns(b);
	int err = watch.plain.chunk_create(b, memory, bytes, devices, out);

	call_end(b, start_ns);
	if (!err)
		watch.held_bytes[memory] += bytes;
	pthread_mutex_unlock(&watch.lock);
	return err;
}

static void note_destroy(struct backend *b, const struct backend_chunk *chunk)
{
	const uint64_t bytes = chunk->bytes, start_ns = watch.plain.now_ns(b);
	const uint32_t memory = chunk->memory;

	watch.plain.chunk_destroy(b, chunk);
	call_end(b, start_ns);
	watch.held_bytes[memory] -= bytes;
	if (watch.looks && memory == watch.memory)
		watch.taken.freed_bytes += bytes;
	pthread_mutex_unlock(&watch.lock);
}

static int note_map(struct backend *b, void *addr, const struct backend_chunk *chunk,
		    enum backend_prot prot, uint64_t devices)
{
	const uint64_t start_ns = watch.plain.now_ns(b);
	int err = watch.plain.map(b, addr, chunk, prot, devices);

	call_end(b, start_ns);
	if (!err)
		block_note(addr, chunk);
	pthread_mutex_unlock(&watch.lock);
	return err;
}

static int note_unmap(struct backend *b, void *addr)
{
	const uint64_t start_ns = watch.plain.now_ns(b);
	int err = watch.plain.unmap(b, addr);

	call_end(b, start_ns);
	if (!err)
		block_leaves(addr);
	pthread_mutex_unlock(&watch.lock);
	return err;
}

static int note_access(struct backend *b, void *addr, enum backend_prot prot, uint64_t devices)
{
	const uint64_t start_ns = watch.plain.now_ns(b);
	int err = watch.plain.set_access(b, addr, prot, devices);

	call_end(b, start_ns);
	pthread_mutex_unlock(&watch.lock);
	return err;
}

static int note_wait(struct backend *b, fence_t fence)
{
	const uint64_t start_ns = watch.plain.now_ns(b);
	int err = watch.plain.fence_wait(b, fence);
	const uint64_t ns = watch.plain.now_ns(b) - start_ns;

	pthread_mutex_lock(&watch.lock);
	if (watch.looks) {
		watch.taken.nr_waits++;
		watch.taken.waited_ns += ns;
	}
	pthread_mutex_unlock(&watch.lock);
	return err;
}

static int note_launch(struct backend *b, stream_id_t stream, const struct weir_launch *launch)
{
	int err = watch.plain.launch(b, stream, launch);
	struct launch *noted;

	if (err || !watch.notes_launches ||
	    !make_room((void **)&watch.launch, watch.nr_launches, &watch.max_launches,
		       sizeof(*watch.launch)))
		return err;
	noted = &watch.launch[watch.nr_launches];
	noted->nr_uses = 0;
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];

		if (use->kind == WEIR_DISCARD)
			continue;
		if (noted->nr_uses == USES_MAX) {
			watch.err = -EOVERFLOW;
			break;
		}
		noted->use[noted->nr_uses].addr = use->addr;
		noted->use[noted->nr_uses++].bytes = use->bytes;
	}
	if (b->observe->fence_mark(b, stream, &noted->done))
		watch.err = -ENOMEM;
	else
		watch.nr_launches++;
	return 0;
}

/* ------------------------------------------------------------------ what is asked */

void taken_watch(struct weir_machine *machine)
{
	struct backend *b = machine_backend(machine);

	watch.backend = b;
	watch.plain = watch.noting = *b->ops;
	watch.noting.chunk_create = note_create;
	watch.noting.chunk_destroy = note_destroy;
	watch.noting.map = note_map;
	watch.noting.unmap = note_unmap;
	watch.noting.set_access = note_access;
	watch.noting.fence_wait = note_wait;
	watch.noting.launch = note_launch;
	b->ops = &watch.noting;
}

void taken_launches(bool noted)
{
	watch.notes_launches = noted;
	if (!noted)
		watch.nr_launches = 0;
}

uint64_t taken_reached(fence_t fence)
{
	return watch.backend->observe->fence_time_ns(watch.backend, fence);
}

void taken_forget(void)
{
	uint32_t nr = 0;

	while (nr < watch.nr_launches && taken_reached(watch.launch[nr].done))
		nr++;
	if (!nr)
		return;
	watch.nr_launches -= nr;
	memmove(watch.launch, watch.launch + nr, watch.nr_launches * sizeof(*watch.launch));
}

uint64_t taken_held(uint32_t memory)
{
	uint64_t bytes;

	pthread_mutex_lock(&watch.lock);
	bytes = watch.held_bytes[memory];
	pthread_mutex_unlock(&watch.lock);
	return bytes;
}

void taken_begin(uint32_t memory)
{
	taken_forget();
	pthread_mutex_lock(&watch.lock);
	watch.looks = true;
	watch.memory = memory;
	watch.nr_left = 0;
	watch.taken = (struct taken){.held_bytes = watch.held_bytes[memory],
				     .nr_queued = watch.nr_launches};
	if (watch.nr_launches)
		watch.taken.queued = watch.launch[watch.nr_launches - 1].done;
	pthread_mutex_unlock(&watch.lock);
}

static bool launch_names(const struct launch *launch, const struct block *block)
{
	for (uint32_t i = 0; i < launch->nr_uses; i++)
		if (launch->use[i].addr < block->addr + block->bytes &&
		    block->addr < launch->use[i].addr + launch->use[i].bytes)
			return true;
	return false;
}

int taken_end(struct taken *out)
{
	uint32_t last = 0, nr;

	pthread_mutex_lock(&watch.lock);
	watch.looks = false;
	watch.taken.nr_blocks = watch.nr_left;
	for (uint32_t i = 0; i < watch.nr_left; i++) {
		nr = watch.nr_launches;
		while (nr > 0 && !launch_names(&watch.launch[nr - 1], &watch.left[i]))
			nr--;
		watch.taken.nr_used += nr > 0;
		last = MAX(last, nr);
	}
	if (last)
		watch.taken.used = watch.launch[last - 1].done;
	*out = watch.taken;
	pthread_mutex_unlock(&watch.lock);
	return watch.err;
}

void taken_fini(void)
{
	free(watch.block);
	free(watch.launch);
	free(watch.left);
	watch.block = NULL;
	watch.launch = NULL;
	watch.left = NULL;
	watch.nr_blocks = watch.max_blocks = 0;
	watch.nr_launches = watch.max_launches = 0;
	watch.nr_left = watch.max_left = 0;
}
