/* SPDX-License-Identifier: Apache-2.0 */
/* What every other file of chunks builds on: the one function that changes a chunk's state, and
 * where a chunk is. */
#include <assert.h>

#include "src/mem/chunk_internal.h"

#define TO(state) (1u << (state))

/* What may follow what. */
static const uint8_t transitions[CHUNK_STATE_NR] = {
	[CHUNK_NONE] = TO(CHUNK_FREE) | TO(CHUNK_POOLED) | TO(CHUNK_TAKEN),
	[CHUNK_FREE] = TO(CHUNK_NONE),
	[CHUNK_POOLED] = TO(CHUNK_NONE),
	[CHUNK_PENDING] = TO(CHUNK_NONE),
	[CHUNK_TAKEN] = TO(CHUNK_NONE) | TO(CHUNK_PENDING),
};

static bool state_is_used(uint8_t state)
{
	return state >= CHUNK_PENDING;
}

void chunk_set_state(struct chunk_pool *pool, struct mem_chunk *chunk, enum chunk_state state)
{
	struct chunk_root *root = chunk->root;
	bool legal = (transitions[chunk->state] & TO(state)) != 0;
	uint64_t bytes = chunk_bytes(chunk);

	assert(legal);
	(void)legal;
	pool->bytes[chunk->state] -= bytes;
	pool->bytes[state] += bytes;
	root->used -= state_is_used(chunk->state) ? chunk->nr : 0;
	root->used += state_is_used((uint8_t)state) ? chunk->nr : 0;
	chunk->state = (uint8_t)state;
}

/* ------------------------------------------------------------------ what a chunk is */

static uint64_t chunk_offset(const struct mem_chunk *chunk)
{
	return chunk_index(chunk) * chunk->root->unit_bytes;
}

void *chunk_addr(const struct mem_chunk *chunk)
{
	return (char *)chunk->root->backend.alias + chunk_offset(chunk);
}

uint64_t chunk_bytes(const struct mem_chunk *chunk)
{
	return chunk->nr * chunk->root->unit_bytes;
}

const struct backend_chunk *chunk_root_of(const struct mem_chunk *chunk, uint64_t *offset)
{
	*offset = chunk_offset(chunk);
	return &chunk->root->backend;
}
