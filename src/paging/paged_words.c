/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's words: laid out in the device's memory, and copied to and from it by the host. Arrays
 * are looked at piece by piece, as they are at that moment. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/paging/paged.h"

#define ZERO_BYTES (UINT64_C(1) << 20)
#define PIECE_WORDS 8192u

int paged_put(struct weir_paged *pool, void *to, const void *data, uint64_t bytes)
{
	return pool->backend->ops->upload(pool->backend, pool->side, to, data, bytes);
}

int paged_get(struct weir_paged *pool, void *data, const void *from, uint64_t bytes)
{
	return pool->backend->ops->download(pool->backend, pool->side, data, from, bytes);
}

int paged_zero(struct weir_paged *pool, void *to, uint64_t bytes)
{
	uint64_t most = bytes < ZERO_BYTES ? bytes : ZERO_BYTES;
	void *zeros = calloc(1, most);
	int err = zeros ? 0 : -ENOMEM;

	for (uint64_t at = 0; !err && at < bytes; at += most)
		err = paged_put(pool, (uint8_t *)to + at, zeros,
				bytes - at < most ? bytes - at : most);
	free(zeros);
	return err;
}

int paged_counts_get(struct weir_paged *pool)
{
	return paged_get(pool, pool->counts, pool->words->counts,
			 PAGED_COUNTS_NR * sizeof(*pool->counts));
}

int paged_words_walk(struct weir_paged *pool, const uint64_t *from, uint64_t nr,
		     int (*fn)(void *arg, uint64_t i, uint64_t word), void *arg)
{
	uint64_t *piece = malloc(PIECE_WORDS * sizeof(*piece));
	int err = piece ? 0 : -ENOMEM;

	for (uint64_t at = 0; !err && at < nr; at += PIECE_WORDS) {
		uint64_t here = nr - at < PIECE_WORDS ? nr - at : PIECE_WORDS;

		err = paged_get(pool, piece, from + at, here * sizeof(*piece));
		for (uint64_t i = 0; !err && i < here; i++)
			err = fn(arg, at + i, piece[i]);
	}
	free(piece);
	return err;
}

uint64_t paged_words_bytes(const struct weir_paged *pool)
{
	return sizeof(struct paged_words) +
	       (pool->view.table.nr_slots + 1 + pool->max_frames) * sizeof(uint64_t);
}

int paged_words_make(struct weir_paged *pool)
{
	const uint64_t epoch = 1;
	struct pt_table *t = &pool->view.table;
	void *addr;
	int err = pool->backend->ops->device_alloc(pool->backend, pool->memory,
						   paged_words_bytes(pool), &addr);

	if (err)
		return err;
	pool->words = addr;
	t->shared = &pool->words->shared;
	t->abort = &pool->words->abort;
	t->range = pool->words->range;
	pool->view.counts = pool->words->counts;
	t->slot = (uint64_t *)(pool->words + 1);
	t->owner = t->slot + t->nr_slots + 1;
	err = paged_zero(pool, addr, paged_words_bytes(pool));
	return err ? err : paged_put(pool, &t->shared->epoch, &epoch, sizeof(epoch));
}

/* For the device first. */
int paged_range_set(struct weir_paged *pool, uint32_t i, const struct pt_range *range)
{
	struct pt_range table[WEIR_PAGED_RANGES_MAX];
	uint32_t nr = WEIR_PAGED_RANGES_MAX;
	int err;

	memcpy(table, pool->view.range, sizeof(table));
	table[i] = *range;
	view_choose(table, nr, pool->view.table.nr_frames);
	err = paged_put(pool, pool->words->range, table, sizeof(table));
	if (err)
		return err;
	memcpy(pool->view.range, table, sizeof(table));
	while (nr && !table[nr - 1].nr_pages)
		nr--;
	pool->view.table.nr_ranges = nr;
	return 0;
}
