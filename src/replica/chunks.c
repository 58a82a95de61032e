/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks on the accounts of the space's memories: for copies, for lists, for packets, and for what
 * is tracked. Room is what the space lends; where it has no more, copies give way.
 */
#include <errno.h>

#include "src/replica/lists.h"

/* Chunks of the space's budget that are asked for at a time: each change of it ends a plan. */
#define LEND_BYTES (UINT64_C(64) << 20)
#define LEND_SHARE 16u /* at most so much of what is left of it */

int chunks_get(struct weir_space *space, uint8_t copy, uint64_t bytes, enum chunks_from from,
	       struct settle *settle, struct replica_chunk *out)
{
	place_t place = memory_place(space, copy);
	struct replica_memory *memory = &replicas_of(space)->memory[place];
	int err = 0;

	while (!err &&
	       phys_held(&memory->client) + bytes > memory->owner.nr_lent * space->block_bytes) {
		uint64_t held = phys_held(&memory->client) + bytes;

		if (from == CHUNKS_FREE) {
			if (space_lend_free(space, &memory->owner))
				continue;
			return -ENOMEM;
		}
		memory->taking = true;
		err = space_lend_more(space, &memory->owner, div_round_up(held, space->block_bytes),
				      MIN(LEND_BYTES / space->block_bytes,
					  space->pmm[place].max_chunks / LEND_SHARE),
				      settle);
		memory->taking = false;
		if (err == -ENOMEM && (from == CHUNKS_ANY ? memory->evict(space, copy)
							  : memory->evict_packets(space, copy)))
			err = 0;
	}
	if (!err)
		err = phys_take(&memory->client, bytes, &out->backend);
	if (err == -EAGAIN && settle && !(settle->in_vain & 1u << place)) {
		settle->place = place;
		settle->bytes = bytes;
		return SETTLE_WAIT;
	}
	if (err)
		return err == -EAGAIN ? -ENOMEM : err;
	out->devices = memory->client.devices;
	if (space->poison)
		space->backend->ops->poison(space->backend, &out->backend, 0);
	return 0;
}

void chunks_put(struct weir_space *space, uint8_t copy, struct replica_chunk *chunk)
{
	if (!chunk->backend.handle)
		return;
	phys_put(&replicas_of(space)->memory[memory_place(space, copy)].client, &chunk->backend);
	chunk->backend.handle = 0;
}

int chunks_allow(struct weir_space *space, struct replica_chunk *chunk, uint64_t device)
{
	int err;

	if (!chunk || chunk->devices & device)
		return 0;
	err = space->backend->ops->chunk_add_devices(space->backend, &chunk->backend, device);
	if (!err)
		chunk->devices |= device;
	return err;
}

/* Of a list in a memory. */
static uint64_t list_bytes(const struct list *list, uint8_t copy)
{
	uint64_t bytes = 0;

	if (copy == COPY_HOST && list->home.backend.handle)
		bytes += list->home.backend.bytes;
	for (uint32_t i = 0;
	     copy < WEIR_DEVICES_MAX && list->slice[copy] && i < list->nr_slices * LIST_ALIGN; i++)
		if (list->slice[copy][i].chunk.backend.handle)
			bytes += list->slice[copy][i].chunk.backend.bytes;
	return bytes;
}

uint64_t chunks_bytes(const struct weir_space *space, uint8_t copy)
{
	const struct replicas *rs = replicas_of(space);
	uint64_t bytes = 0;
	uint32_t at = 0;

	for (const struct list *list = rs->lists; list; list = list->next)
		bytes += list_bytes(list, copy);
	for (struct lane *l = lane_next(rs, &at); l; l = lane_next(rs, &at)) {
		if (l->from == copy && l->out_chunk.backend.handle)
			bytes += l->out_chunk.backend.bytes;
		if (l->to == copy && l->in_chunk.backend.handle)
			bytes += l->in_chunk.backend.bytes;
	}
	for (uint32_t n = 0; n < rs->nr_replicas; n++) {
		const struct replica *r = rs->replica[n];

		if (r && copy < space->nr_devices && r->tracked[copy].backend.handle)
			bytes += r->tracked[copy].backend.bytes;
		for (uint32_t g = 0; r && r->chunk[copy] && g < r->nr_granules; g++)
			if (r->chunk[copy][g].backend.handle)
				bytes += rs->granule_bytes;
	}
	return bytes;
}
