/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations, as events of a trace, and where their blocks are by no copy: see tracing.h. */
#include "src/core/tracing_internal.h"

#include "src/core/kind.h"

uint64_t *tracing_life_at(struct range *range, uint64_t offset, uint64_t *begin)
{
	*begin = 0;
	return range->arena ? arena_life(range, offset, begin) : &range->traced_life;
}

static void write_place(struct weir_space *space, const struct range *range, uint32_t first,
			uint32_t nr, const struct chunk *from)
{
	const struct chunk *home = range->block[first].at.home;
	struct trace_place *e = tracing_event(space, TRACE_PLACE, TRACE_NO_STREAM, sizeof(*e));

	if (!e)
		return;
	e->life = range->traced_life;
	e->first = first;
	e->nr = nr;
	e->from = from ? from->place : TRACE_NO_PLACE;
	e->to = home ? home->place : TRACE_NO_PLACE;
	tracing_commit(space);
}

void tracing_place(struct weir_space *space, const struct range *range, uint32_t block,
		   const struct chunk *from)
{
	write_place(space, range, block, 1, from);
}

static bool same_home(const struct block *a, const struct block *b)
{
	return a->at.home && b->at.home ? a->at.home->place == b->at.home->place
					: a->at.home == b->at.home;
}

/* Where the blocks of a range are that it has already. before: since before recording began. */
static void write_places(struct weir_space *space, const struct range *range, bool before)
{
	for (uint32_t i = 0, nr; i < range->nr_blocks; i += nr) {
		for (nr = 1; i + nr < range->nr_blocks &&
			     same_home(&range->block[i], &range->block[i + nr]);
		     nr++)
			;
		if (range->block[i].at.home)
			write_place(space, range, i, nr, before ? NULL : range->block[i].at.home);
	}
}

static void write_alloc(struct weir_space *space, struct range *range, uint64_t *life,
			uint64_t bytes, uint32_t stream, uint32_t flags, uint64_t since_ns)
{
	struct trace_alloc *e = tracing_event(space, TRACE_ALLOC, stream, sizeof(*e));

	*life = 0;
	if (!e)
		return;
	*life = e->life = ++space->tracing->last_life;
	e->took_ns = e->event.ns - since_ns;
	e->bytes = bytes;
	e->flags = flags;
	e->nr_blocks = range->arena ? 0 : range->nr_blocks;
	if (range->kind && range->kind->windows) {
		e->flags |= TRACE_ALLOC_WINDOW;
		e->device = space->device[range->owner->place];
		e->number = range->number;
	} else if (range->kind) {
		e->flags |= TRACE_ALLOC_PAGED;
	}
	tracing_commit(space);
	if (!range->arena)
		write_places(space, range, flags & TRACE_ALLOC_BEFORE);
}

void tracing_alloc(struct weir_space *space, struct range *range, uint64_t offset, uint64_t bytes,
		   const struct stream_slot *slot, uint64_t since_ns)
{
	uint64_t begin;

	if (!is_traced(space))
		return;
	if (range->arena) /* uses may name what it was rounded to */
		bytes = round_up(bytes, SPACE_SMALL_ALIGN);
	write_alloc(space, range, tracing_life_at(range, offset, &begin), bytes,
		    slot ? slot->number : TRACE_NO_STREAM, 0, since_ns);
}

void tracing_kind_add(struct weir_space *space, struct range *range)
{
	if (is_traced(space))
		write_alloc(space, range, &range->traced_life, range->bytes, TRACE_NO_STREAM, 0,
			    tracing_now(space));
}

uint64_t tracing_life_take(struct weir_space *space, struct range *range, uint64_t offset)
{
	uint64_t begin, number,
		*life = is_traced(space) ? tracing_life_at(range, offset, &begin) : NULL;

	if (!life)
		return 0;
	number = *life;
	*life = 0;
	return number;
}

void tracing_free(struct weir_space *space, uint64_t life, const struct stream_slot *slot,
		  uint64_t since_ns)
{
	struct trace_free *e =
		life ? tracing_event(space, TRACE_FREE, slot ? slot->number : TRACE_NO_STREAM,
				     sizeof(*e))
		     : NULL;

	if (!e)
		return;
	e->life = life;
	e->took_ns = e->event.ns - since_ns;
	tracing_commit(space);
}

void tracing_lives(struct weir_space *space)
{
	uint64_t now = tracing_now(space);

	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		uint64_t offset = 0, bytes, *life;

		range->traced_life = 0;
		if (!range->arena && range_lives(range))
			write_alloc(space, range, &range->traced_life, range->bytes,
				    TRACE_NO_STREAM, TRACE_ALLOC_BEFORE, now);
		else
			write_places(space, range, true);
		while (range->arena && (life = arena_next(range, &offset, &bytes)))
			write_alloc(space, range, life, bytes, TRACE_NO_STREAM, TRACE_ALLOC_BEFORE,
				    now);
	}
}
