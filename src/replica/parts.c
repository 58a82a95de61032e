/* SPDX-License-Identifier: Apache-2.0 */
/* What a use names of a replicated range, and where its copies are. */
#include "src/replica/replica.h"

/* The replicated range that a part of a mapped range is of, or NULL. */
static struct replica *find_one(const struct replicas *rs, const struct range *range,
				uint64_t offset)
{
	for (uint32_t n = 0; n < rs->nr_replicas; n++) {
		struct replica *r = rs->replica[n];

		if (r && !r->dying && r->one == range && offset - r->one_offset < r->bytes)
			return r;
	}
	return NULL;
}

struct replica *replica_of_use(const struct weir_space *space, const struct space_use *use,
			       uint8_t *copy, uint64_t *offset)
{
	struct replica *r = NULL;

	if (use->range->kind == &replica_kind) {
		const struct replica_memory *memory =
			(const struct replica_memory *)use->range->owner;

		if (!memory)
			return NULL;
		*copy = memory->copy;
		*offset = use->offset;
		return memory->replicas->replica[use->range->number];
	}
	if (!use->range->kind && use->range->nr_replicated)
		r = find_one(replicas_of(space), use->range, use->offset);
	if (r) {
		*copy = COPY_ONE;
		*offset = use->offset - r->one_offset;
	}
	return r;
}

uint32_t replica_resolve(const struct weir_space *space, const struct space_use *arena,
			 struct space_use *out)
{
	const struct replicas *rs = replicas_of(space);
	uint32_t nr = 0;

	for (uint32_t n = 0; n < rs->nr_replicas; n++) {
		const struct replica *r = rs->replica[n];

		if (!r || r->dying || r->one != arena->range)
			continue;
		out[nr] = *arena;
		out[nr].first = one_first_block(r, 0);
		out[nr].nr = one_last_block(r, r->bytes) - out[nr].first + 1;
		out[nr].offset = r->one_offset;
		out[nr++].bytes = r->bytes;
	}
	return nr;
}

bool replica_contradict(const struct weir_space *space, const struct space_use *a,
			const struct space_use *b)
{
	uint64_t a_offset, b_offset;
	uint8_t a_copy, b_copy;
	const struct replica *r;

	if (a->kind == WEIR_DISCARD || b->kind == WEIR_DISCARD)
		return false;
	r = replica_of_use(space, a, &a_copy, &a_offset);
	if (!r || r != replica_of_use(space, b, &b_copy, &b_offset) ||
	    a_offset >= b_offset + b->bytes || b_offset >= a_offset + a->bytes)
		return false;
	/* Of one window, and of the one copy, the backend knows. */
	if (a_copy == b_copy)
		return false;
	return a_copy == COPY_ONE || b_copy == COPY_ONE || (use_writes(a) && use_writes(b));
}

struct replica *replica_find(struct weir_space *space, const void *addr, uint64_t *offset)
{
	struct range *range = space->shared ? range_find(space, addr) : NULL;
	struct space_use part = {.range = range, .bytes = 1};
	struct replica *r;
	uint8_t copy;

	if (!range)
		return NULL;
	part.offset = (uint64_t)((const char *)addr - (const char *)range->addr);
	r = replica_of_use(space, &part, &copy, offset);
	return r && !r->dying ? r : NULL;
}

char *copies_alias(const struct replica *r, uint8_t copy, uint64_t offset, uint64_t *bytes,
		   struct replica_chunk **chunk)
{
	uint64_t granule = r->replicas->granule_bytes, unit = r->replicas->space->block_bytes;

	if (copy == COPY_ONE) {
		const struct block *block = &r->one->block[(r->one_offset + offset) / unit];

		*chunk = NULL;
		*bytes = unit - (r->one_offset + offset) % unit;
		return (char *)block->at.home->backend.alias + (r->one_offset + offset) % unit;
	}
	*chunk = &r->chunk[copy][offset / granule];
	*bytes = granule - offset % granule;
	return (char *)(*chunk)->backend.alias + offset % granule;
}

uint32_t copies_memory(const struct weir_space *space, const struct replica *r, uint8_t copy,
		       uint64_t offset)
{
	place_t place = memory_place(space, copy);

	if (copy == COPY_ONE)
		place = r->one->block[(r->one_offset + offset) / space->block_bytes].at.home->place;
	return space->pmm[place].memory;
}

bool copies_own(const struct replica *r, uint8_t own, uint64_t offset, uint64_t end)
{
	uint64_t view_end;

	return r->window[own] && copies_view(r, own, offset, &view_end) == own && view_end >= end;
}

uint8_t copies_view(const struct replica *r, place_t own, uint64_t offset, uint64_t *end)
{
	uint64_t granule = r->replicas->granule_bytes;
	uint64_t g = offset / granule;
	uint8_t view = r->view[own][g];

	while (++g < r->nr_granules && r->view[own][g] == view)
		;
	*end = MIN(g * granule, r->bytes);
	return view;
}
