/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a pool's frames lie in: addresses for all that there may be, and chunks behind
 * those that there are, so that a smaller budget gives memory back. Chunks are as small as the
 * machine makes them where there are few, since a budget is rounded up to them, and larger where
 * there are many, since a mapping call costs the same for any size.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/paging/paged.h"

#define CHUNK_MAX (UINT64_C(64) << 20)
#define CHUNK_SHARE 512u /* a chunk is at most that part of all */

int paged_frames_reserve(struct weir_paged *pool, uint64_t max_bytes)
{
	struct backend *b = pool->backend;
	struct paged_frames *frames = &pool->frames;
	uint64_t unit = b->desc.vmm.granularity_bytes;
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
	return 0;
}

static int chunk_add(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	struct paged_frames *frames = &pool->frames;
	struct backend_chunk *chunk = &frames->chunk[frames->nr_chunks];
	int err = b->ops->chunk_create(b, pool->memory, frames->unit, chunk);

	if (err)
		return err;
	err = b->ops->map(b, frames->base + frames->nr_chunks * frames->unit, chunk,
			  BACKEND_PROT_WRITE, BACKEND_DEVICE_BIT(pool->device));
	if (err)
		b->ops->chunk_destroy(b, chunk);
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
	b->ops->chunk_destroy(b, &frames->chunk[last]);
	frames->nr_chunks = last;
	return 0;
}

int paged_frames_resize(struct weir_paged *pool, uint64_t bytes)
{
	struct paged_frames *frames = &pool->frames;
	uint64_t before = frames->nr_chunks;
	uint64_t want = bytes ? (bytes - 1) / frames->unit + 1 : 0;
	int err = 0;

	while (!err && frames->nr_chunks < want)
		err = chunk_add(pool);
	if (err)
		want = before;
	while (frames->nr_chunks > want && !chunk_del(pool))
		;
	if (frames->nr_chunks > want)
		log_warning(
			"paged pool '%s': %llu bytes of its frames cannot be unmapped now: they "
			"go with the next change of its budget, or with the pool",
			pool->name,
			(unsigned long long)((frames->nr_chunks - want) * frames->unit));
	return err;
}

void paged_frames_release(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	struct paged_frames *frames = &pool->frames;

	if (!frames->base)
		return;
	(void)paged_frames_resize(pool, 0);
	b->ops->va_release(b, frames->base, frames->reserved_bytes);
	free(frames->chunk);
	frames->base = NULL;
}
