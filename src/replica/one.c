/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one copy: a mapped range, or a part of an arena, whose blocks the space moves as it moves
 * others. It is one copy more, which is used by brackets that name its address, by the CPU and by
 * weir_read() and weir_write(). While nothing that is current is in a block of it, the block is
 * dead, and costs no copy when the space needs its chunk.
 */
#include <errno.h>

#include "src/replica/replica.h"

void one_revive(struct weir_space *space, struct replica *r, uint64_t offset, uint64_t end)
{
	for (uint32_t i = one_first_block(r, offset); i <= one_last_block(r, end); i++)
		migrate_set_dead(space, r->one, &r->one->block[i], false);
}

int one_wait(struct weir_space *space, const struct replica *r, stream_id_t stream, uint64_t offset,
	     uint64_t end)
{
	struct backend *b = space->backend;
	int err = migrate_flush(space); /* what has no fence yet cannot be waited for */

	for (uint32_t i = one_first_block(r, offset); i <= one_last_block(r, end) && !err; i++)
		if (block_is_moving(&r->one->block[i]) && r->one->block[i].ready)
			err = b->ops->stream_wait(b, stream, r->one->block[i].ready);
	for (uint32_t p = 0; p < space->nr_paths && !err && r->one->nr_cleaning; p++)
		if (r->one->path[p].cleaned)
			err = b->ops->stream_wait(b, stream, r->one->path[p].cleaned);
	return err;
}

/* Whether it has something current in a part. */
static bool is_needed(const struct replica *r, uint64_t offset, uint64_t end)
{
	for (uint32_t p = pieces_find(r, offset); p < r->nr_pieces && r->piece[p].start < end; p++)
		if (r->piece[p].current != COPIES_ANY && r->piece[p].current & COPY_BIT(COPY_ONE))
			return true;
	return false;
}

static bool block_is_needed(const struct weir_space *space, const struct replica *r, uint32_t i)
{
	uint64_t begin = (uint64_t)i * space->block_bytes, end = begin + space->block_bytes;

	begin = begin > r->one_offset ? begin - r->one_offset : 0;
	return is_needed(r, begin, MIN(end - r->one_offset, r->bytes));
}

void one_forget(struct weir_space *space, struct replica *r, uint64_t offset, uint64_t end)
{
	if (!r->one_is_current)
		return;
	r->one_is_current = is_needed(r, 0, r->bytes);
	if (r->one->arena) /* other allocations are in its block */
		return;
	for (uint32_t i = one_first_block(r, offset); i <= one_last_block(r, end); i++)
		if (!range_block_is_pinned(space, r->one, i) && !block_is_needed(space, r, i))
			migrate_set_dead(space, r->one, &r->one->block[i], true);
}

/* A bracket that failed as it began may have given up what it was to overwrite at the one copy. */
bool one_is_lost(const struct weir_space *space, const struct replica *r, copies_t current,
		 uint64_t offset, uint64_t *end)
{
	const struct block *block;

	if (current != COPY_BIT(COPY_ONE))
		return false;
	block = &r->one->block[one_first_block(r, offset)];
	*end = MIN(*end, (one_first_block(r, offset) + 1) * space->block_bytes - r->one_offset);
	return !block_is_backed(block) || block->at.dead;
}
