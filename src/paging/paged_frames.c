/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a pool's frames lie in: addresses for all that there may be, and chunks behind
 * those that there are, so that a smaller budget gives memory back. Chunks are as small as the
 * machine makes them where there are few, since a budget is rounded up to them, and larger where
 * there are many, since a mapping call costs the same for any size.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/base/util.h"
#include "src/paging/paged.h"

#define CHUNK_MAX (UINT64_C(64) << 20)
#define CHUNK_SHARE 512u /* a chunk is at most that part of all */

int paged_frames_reserve(struct weir_paged *pool, uint64_t max_bytes)
{
	struct backend *b = pool->backend;
	struct paged_frames *frames = &pool->frames;
	uint64_t unit = b->desc.vmm.granularity_bytes;
	char name[PHYS_NAME_MAX];
	void *base;
	int err;

	while (unit < CHUNK_MAX && unit * 2 <= max_bytes / CHUNK_SHARE)
		unit *= 2;
	frames->unit = unit;
	frames->max_chunks = (max_bytes - 1) / unit + 1;
	frames->chunk = calloc(frames->max_chunks, sizeof(*frames->chunk));
	if (!frames->chunk)
		return -ENOMEM;
	err = b->ops->va_reserve(b, frames->max_chunks * unit, unit, &base);
	if (err) {
		free(frames->chunk);
		frames->chunk = NULL;
		return err;
	}
	frames->reserved_bytes = frames->max_chunks * unit;
	frames->base = base;
	(void)snprintf(name, sizeof(name), "paged pool '%s'", pool->name);
	phys_client_add(&pool->client, phys_of(pool->machine, pool->memory), name,
			frames->reserved_bytes);
	pool->client.devices = BACKEND_DEVICE_BIT(pool->device);
	return 0;
}

/* Chunks of the space that so many bytes are, rounded up to chunks of the pool. */
static uint64_t lent_chunks(const struct weir_paged *pool, uint64_t bytes)
{
	uint64_t unit = pool->frames.unit;

	return div_round_up(div_round_up(bytes, unit) * unit, pool->space->block_bytes);
}

static int chunk_add(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	struct paged_frames *frames = &pool->frames;
	struct backend_chunk *chunk = &frames->chunk[frames->nr_chunks];
	int err;

	if (pool->space &&
	    !space_lend_try(pool->space, &pool->owner,
			    lent_chunks(pool, (frames->nr_chunks + 1) * frames->unit)))
		return -EAGAIN;
	err = phys_take(&pool->client, frames->unit, chunk);
	if (err)
		return err;
	err = b->ops->map(b, frames->base + frames->nr_chunks * frames->unit, chunk,
			  BACKEND_PROT_WRITE, BACKEND_DEVICE_BIT(pool->device));
	if (err)
		phys_put(&pool->client, chunk);
	else
		frames->nr_chunks++;
	return err;
}

/* The last one. */
static int chunk_del(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	struct paged_frames *frames = &pool->frames;
	uint64_t last = frames->nr_chunks - 1;
	int err = -EIO;

	for (int tries = 0; err && tries < PAGED_TRIES; tries++)
		err = b->ops->unmap(b, frames->base + last * frames->unit);
	if (err)
		return err;
	phys_put(&pool->client, &frames->chunk[last]);
	frames->nr_chunks = last;
	return 0;
}

static uint64_t chunks_of(const struct paged_frames *frames, uint64_t bytes)
{
	return bytes ? (bytes - 1) / frames->unit + 1 : 0;
}

uint64_t paged_frames_bytes(const struct weir_paged *pool)
{
	return pool->frames.nr_chunks * pool->frames.unit;
}

uint64_t paged_frames_missing(const struct weir_paged *pool, uint64_t bytes)
{
	const struct paged_frames *frames = &pool->frames;
	uint64_t want = chunks_of(frames, bytes);

	return want > frames->nr_chunks ? (want - frames->nr_chunks) * frames->unit : 0;
}

bool paged_frames_lend(struct weir_paged *pool, uint64_t bytes)
{
	struct weir_space *space = pool->space;
	uint64_t nr = lent_chunks(pool, bytes);
	bool more;

	pthread_mutex_unlock(&pool->lock);
	more = space_lend(space, &pool->owner, nr, false);
	pthread_mutex_lock(&pool->lock);
	return more;
}

bool paged_frames_ask(struct weir_paged *pool, uint64_t bytes, bool turn)
{
	uint64_t missing = paged_frames_missing(pool, bytes);
	struct weir_space *space = pool->space;
	uint64_t nr = space ? lent_chunks(pool, bytes) : 0;
	bool more;

	pthread_mutex_unlock(&pool->lock);
	if (space && !space_lend_try(space, &pool->owner, nr))
		more = space_lend(space, &pool->owner, nr, turn);
	else
		more = phys_reclaim(&pool->client, missing) != 0;
	pthread_mutex_lock(&pool->lock);
	return more;
}

int paged_frames_grow(struct weir_paged *pool, uint64_t bytes)
{
	uint64_t want = chunks_of(&pool->frames, bytes);
	int err = 0;

	while (!err && pool->frames.nr_chunks < want)
		err = chunk_add(pool);
	return err;
}

void paged_frames_shrink(struct weir_paged *pool, uint64_t bytes)
{
	struct paged_frames *frames = &pool->frames;
	uint64_t want = chunks_of(frames, bytes);

	while (frames->nr_chunks > want && !chunk_del(pool))
		;
	if (frames->nr_chunks > want)
		log_warning(
			"paged pool '%s': %llu bytes of its frames cannot be unmapped now: they "
			"go with the next change of its budget, or with the pool",
			pool->name,
			(unsigned long long)((frames->nr_chunks - want) * frames->unit));
	if (pool->space)
		space_lend_back(pool->space, &pool->owner,
				lent_chunks(pool, paged_frames_bytes(pool)));
}

void paged_frames_release(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	struct paged_frames *frames = &pool->frames;

	if (!frames->base)
		return;
	paged_frames_shrink(pool, 0);
	phys_client_del(&pool->client);
	b->ops->va_release(b, frames->base, frames->reserved_bytes);
	free(frames->chunk);
	frames->base = NULL;
}

void paged_no_room(const struct weir_paged *pool, uint64_t bytes, int err)
{
	char holders[PHYS_HOLDERS_MAX];

	phys_holders(pool->client.memory, holders);
	log_error(
		"paged pool '%s': %llu bytes for frames and %llu beside them are not to be had of "
		"'%s'%s (%s): %s",
		pool->name, (unsigned long long)bytes, (unsigned long long)paged_words_bytes(pool),
		pool->backend->desc.memory[pool->memory].name,
		pool->space ? ", or not within the budget of the pool's space" : "", holders,
		weir_strerror(err));
}
