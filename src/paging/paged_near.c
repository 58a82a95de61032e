/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Homes that lie wholly or in part in other GPUs' memory: one address, which kernels use as they do
 * any home, and behind it chunks of one size in several memories. Which chunk is where never
 * changes. The memories take turns in proportion to their shares, so that any part of the range
 * comes over all links at a time.
 *
 * The CPU reaches no such home: what the host reads and writes there goes by copies.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/base/util.h"
#include "src/cost/cost.h"
#include "src/paging/paged.h"

/* Small chunks let what is used at a time meet all memories; a mapping call takes as long for a
 * small one as for a large one. */
#define UNIT_MAX (UINT64_C(4) << 20)
#define CHUNKS_MANY 4096u /* of a home; with more than twice as many they are doubled */

/* ------------------------------------------------------------------ accounts */

void paged_accounts_open(struct weir_paged *pool)
{
	char name[PHYS_NAME_MAX];

	(void)snprintf(name, sizeof(name), "ranges of paged pool '%s'", pool->name);
	for (uint32_t m = 0; m < pool->backend->desc.nr_memories; m++) {
		phys_client_add(&pool->account[m], phys_of(pool->machine, m), name, PHYS_NO_LIMIT);
		/* The host's are used by kernels and the CPU alone. */
		pool->account[m].devices = m == pool->host_memory
						   ? BACKEND_HOST_BIT
						   : BACKEND_DEVICE_BIT(pool->device);
	}
}

void paged_accounts_close(struct weir_paged *pool)
{
	for (uint32_t m = 0; m < pool->backend->desc.nr_memories; m++)
		phys_client_del(&pool->account[m]);
}

/* ------------------------------------------------------------------ what is asked for */

/* Bytes of a home in other GPUs' memories. */
static uint64_t near_sum(const struct weir_paged_range_config *config)
{
	uint64_t sum = 0;

	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++)
		sum += MIN(config->near_bytes[m], UINT64_MAX - sum);
	return sum;
}

/* Whether a memory is another GPU's, which the pool's device reaches. */
static int memory_check(const struct weir_paged *pool, uint32_t memory)
{
	const struct weir_machine_desc *desc = &pool->backend->desc;
	const char *why = NULL;

	if (memory >= desc->nr_memories) {
		log_error("paged pool '%s': a range with bytes in memory %u, of %u that there are",
			  pool->name, memory, desc->nr_memories);
		return -EINVAL;
	}
	if (memory == pool->memory)
		why = "the memory of the pool's own device, where frames are: name a neighbour's";
	else if (desc->memory[memory].kind != WEIR_MEMORY_HBM)
		why = "the host's memory, where a range is without being asked: name a neighbour's";
	else if (cost_link_find(desc, memory, pool->memory) < 0)
		why = "memory that the pool's device has no link to";
	if (!why)
		return 0;
	log_error("paged pool '%s': a range with bytes in '%s', %s", pool->name,
		  desc->memory[memory].name, why);
	return -EINVAL;
}

int paged_near_check(const struct weir_paged *pool, const struct weir_paged_range_config *config)
{
	uint64_t sum = near_sum(config);
	int err = 0;

	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX && !err; m++)
		if (config->near_bytes[m])
			err = memory_check(pool, m);
	if (err || !sum || (sum <= config->bytes && !config->host))
		return err;
	log_error(
		"paged pool '%s': a range of %llu bytes with %llu of them in other GPUs' memory%s",
		pool->name, (unsigned long long)config->bytes, (unsigned long long)sum,
		config->host ? ": memory of the program's own lies where it is" : "");
	return -EINVAL;
}

/* ------------------------------------------------------------------ taken and given back */

/* A home that is being made: chunks that each memory is to have, and has. */
struct shares {
	uint64_t want[WEIR_MEMORIES_MAX], have[WEIR_MEMORIES_MAX];
};

static void shares_init(const struct weir_paged *pool, const struct weir_paged_range_config *config,
			uint64_t unit, uint64_t nr_chunks, struct shares *shares)
{
	uint64_t left = nr_chunks;

	memset(shares, 0, sizeof(*shares));
	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++) {
		shares->want[m] = MIN(div_round_up(config->near_bytes[m], unit), left);
		left -= shares->want[m];
	}
	shares->want[pool->host_memory] = left;
}

/* The memory of the next chunk: the one that is furthest behind its share. All have theirs in the
 * end, since those behind are never beyond it. */
static uint32_t shares_next(struct shares *shares, uint64_t nr_chunks, uint64_t number)
{
	int64_t most = INT64_MIN;
	uint32_t next = 0;

	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++) {
		int64_t behind = (int64_t)(shares->want[m] * (number + 1)) -
				 (int64_t)(shares->have[m] * nr_chunks);

		if (behind > most) {
			most = behind;
			next = m;
		}
	}
	shares->have[next]++;
	return next;
}

/* Whether a memory has room for its chunks; others may have to give some first. */
static int room_make(struct weir_paged *pool, uint32_t memory, uint64_t bytes)
{
	struct phys_client *account = &pool->account[memory];

	if (!bytes)
		return 0;
	if (phys_others(account) && phys_room(account->memory) < bytes)
		(void)phys_reclaim(account, bytes);
	return backend_budget(pool->backend, memory, &bytes);
}

static int chunk_add(struct weir_paged *pool, struct paged_near *near, uint32_t memory)
{
	struct backend *b = pool->backend;
	struct phys_client *account = &pool->account[memory];
	struct backend_chunk *chunk = &near->chunk[near->nr_chunks];
	int err;

	do
		err = phys_take(account, near->unit, chunk);
	while (err == -EAGAIN && phys_reclaim(account, near->unit));
	if (err)
		return err == -EAGAIN ? -ENOMEM : err;
	err = b->ops->map(b, near->base + near->nr_chunks * near->unit, chunk, BACKEND_PROT_WRITE,
			  BACKEND_DEVICE_BIT(pool->device));
	if (err)
		phys_put(account, chunk);
	else
		near->nr_chunks++;
	return err;
}

/* The last one. */
static int chunk_del(struct weir_paged *pool, struct paged_near *near)
{
	struct backend *b = pool->backend;
	uint64_t last = near->nr_chunks - 1;
	int err = -EIO;

	for (int tries = 0; err && tries < PAGED_TRIES; tries++)
		err = b->ops->unmap(b, near->base + last * near->unit);
	if (err)
		return err;
	phys_put(&pool->account[near->chunk[last].memory], &near->chunk[last]);
	near->nr_chunks = last;
	return 0;
}

void paged_near_free(struct weir_paged *pool, struct paged_near *near)
{
	struct backend *b = pool->backend;

	if (!near)
		return;
	while (near->nr_chunks && !chunk_del(pool, near))
		;
	if (near->nr_chunks)
		log_error("paged pool '%s': %llu bytes of a range cannot be unmapped, and stay "
			  "taken until the machine is closed",
			  pool->name, (unsigned long long)(near->nr_chunks * near->unit));
	else
		b->ops->va_release(b, near->base, near->reserved_bytes);
	free(near);
}

/* *memory: the last one that was asked. */
static int chunks_fill(struct weir_paged *pool, struct paged_near *near, uint64_t nr_chunks,
		       struct shares *shares, uint32_t *memory)
{
	int err = 0;

	for (uint32_t m = 0; m < pool->backend->desc.nr_memories && !err; m++) {
		*memory = m;
		err = room_make(pool, m, shares->want[m] * near->unit);
	}
	while (!err && near->nr_chunks < nr_chunks) {
		*memory = shares_next(shares, nr_chunks, near->nr_chunks);
		err = chunk_add(pool, near, *memory);
	}
	return err;
}

static void no_room(struct weir_paged *pool, uint32_t memory, uint64_t bytes, int err)
{
	char holders[PHYS_HOLDERS_MAX];

	phys_holders(pool->account[memory].memory, holders);
	log_error("paged pool '%s': %llu bytes of a range are not to be had of '%s' (%s): %s",
		  pool->name, (unsigned long long)bytes, pool->backend->desc.memory[memory].name,
		  holders, weir_strerror(err));
}

/* A page is in one chunk. */
static uint64_t unit_of(const struct weir_paged *pool, uint64_t bytes)
{
	uint64_t unit =
		MAX(pool->backend->desc.vmm.granularity_bytes, view_page_bytes(&pool->view));

	while (unit < UNIT_MAX && unit * 2 <= bytes / CHUNKS_MANY)
		unit *= 2;
	return unit;
}

int paged_near_make(struct weir_paged *pool, const struct weir_paged_range_config *config,
		    struct paged_near **out)
{
	struct backend *b = pool->backend;
	uint64_t unit = unit_of(pool, config->bytes);
	uint64_t nr_chunks = div_round_up(config->bytes, unit);
	struct paged_near *near;
	struct shares shares;
	uint32_t memory;
	void *base;
	int err;

	*out = NULL;
	if (!near_sum(config))
		return 0;
	near = calloc(1, sizeof(*near) + nr_chunks * sizeof(near->chunk[0]));
	if (!near)
		return -ENOMEM;
	near->unit = unit;
	near->reserved_bytes = nr_chunks * unit;
	err = b->ops->va_reserve(b, near->reserved_bytes, unit, &base);
	if (err) {
		free(near);
		return err;
	}
	near->base = base;
	shares_init(pool, config, unit, nr_chunks, &shares);
	err = chunks_fill(pool, near, nr_chunks, &shares, &memory);
	if (err) {
		paged_near_free(pool, near);
		no_room(pool, memory, shares.want[memory] * unit, err);
		return err;
	}
	*out = near;
	return 0;
}

/* ------------------------------------------------------------------ used by the host */

void paged_home_bytes(const struct weir_paged *pool, uint32_t i, uint64_t bytes[WEIR_MEMORIES_MAX])
{
	const struct paged_near *near = pool->range[i].near;
	uint64_t left = pool->view.range[i].bytes;

	if (!near)
		bytes[pool->host_memory] += left;
	for (uint64_t n = 0; near && n < near->nr_chunks; n++) {
		bytes[near->chunk[n].memory] += MIN(near->unit, left);
		left -= MIN(near->unit, left);
	}
}

int paged_home_get(struct weir_paged *pool, uint32_t i, void *data, const void *at, uint64_t bytes)
{
	if (pool->range[i].near)
		return paged_get(pool, data, at, bytes);
	memcpy(data, at, bytes);
	return 0;
}

int paged_home_put(struct weir_paged *pool, uint32_t i, void *at, const void *data, uint64_t bytes)
{
	if (pool->range[i].near)
		return paged_put(pool, at, data, bytes);
	memcpy(at, data, bytes);
	return 0;
}
