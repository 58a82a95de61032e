/* SPDX-License-Identifier: Apache-2.0 */
/* The streams that a space has seen, and the brackets that ended on them and may not be done. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/core/tracing.h"

/* From so many slots on, one of a stream that is idle serves the next new stream: programs make and
 * destroy streams without telling their spaces. */
#define SLOTS_MANY 32u

/* Whether all brackets of some devices that are not done ended on the slot's stream. own: the
 * devices' own memories, a bit each. */
static bool are_before(const struct weir_space *space, uint64_t own, const struct stream_slot *slot)
{
	for (uint32_t i = 0; i < space->nr_slots; i++)
		if (space->slot[i] != slot && space->slot[i]->last_seq > space->done_seq &&
		    own >> space->slot[i]->own & 1)
			return false;
	return true;
}

bool space_is_before(const struct weir_space *space, const struct stream_slot *slot)
{
	return space->last_seq <= space->done_seq || are_before(space, UINT64_MAX, slot);
}

bool range_is_before(const struct weir_space *space, const struct range *range,
		     const struct stream_slot *slot)
{
	bracket_seq_t seq = range_newest_use(space, range);

	return seq <= space->done_seq ||
	       are_before(space, space->nr_devices == 1 ? UINT64_MAX : range->users, slot);
}

int use_list_reserve(struct use_list *list, uint32_t nr)
{
	struct space_use *use;

	if (nr <= list->max)
		return 0;
	use = realloc(list->use, nr * sizeof(*use));
	if (!use)
		return -ENOMEM;
	list->use = use;
	list->max = nr;
	return 0;
}

int space_ended_reserve(struct weir_space *space)
{
	uint64_t nr = space->last_seq - space->done_seq + space->nr_open;
	uint32_t max = MAX(256u, space->max_ended * 2);
	struct ended_bracket *ended;

	if (nr < space->max_ended)
		return 0;
	ended = calloc(max, sizeof(*ended));
	if (!ended)
		return -ENOMEM;
	for (bracket_seq_t seq = space->done_seq + 1; seq <= space->last_seq; seq++) {
		struct ended_bracket *old = space_ended(space, seq);

		ended[seq % max] = *old;
		old->uses.use = NULL;
	}
	for (uint32_t i = 0; i < space->max_ended; i++)
		free(space->ended[i].uses.use);
	free(space->ended);
	space->ended = ended;
	space->max_ended = max;
	return 0;
}

bracket_seq_t space_ended_add(struct weir_space *space, const struct ended_bracket *bracket,
			      struct use_list *uses)
{
	bracket_seq_t seq = ++space->last_seq;
	struct ended_bracket *ended = space_ended(space, seq);
	/* The list of the bracket that was retired last: thousands of ranges are 100 kB, which the
	 * caches still have, and would not have of the whole ring. */
	struct use_list *last = &space_ended(space, space->done_seq)->uses;
	struct use_list spare = *last;

	assert(seq - space->done_seq <= space->max_ended);
	if (bracket->end)
		space_fence_share(space, bracket->slot, bracket->end);
	*last = ended->uses;
	*ended = *bracket;
	ended->uses = *uses;
	ended->slot->last_seq = seq;
	if (!ended->end) {
		ended->slot->nr_unfenced++;
		space->nr_unfenced++;
		space->shared_seq = seq;
		space->nr_shared++;
	}
	spare.nr = spare.nr_named = 0;
	spare.all = spare.unordered = false;
	spare.wide = 0;
	*uses = spare;
	return seq;
}

void space_ended_retire(struct weir_space *space, bracket_seq_t seq)
{
	struct backend *b = space->backend;
	const bracket_seq_t hasty = space->hasty_seq;

	if (seq != space->stuck_seq || !space->stuck_ns)
		return;
	/* One that waited for what came later would not be done before that is. */
	if (hasty > space->last_seq || !space_ended(space, hasty)->end ||
	    !b->ops->fence_done(b, space_ended(space, hasty)->end))
		space->longest_ns = MAX(space->longest_ns, b->ops->now_ns(b) - space->stuck_ns);
	space->stuck_ns = 0;
}

struct stream_slot *space_slot_find(const struct weir_space *space,
				    const struct weir_stream *stream)
{
	const uint64_t number = stream ? stream_number(stream) : 0;

	for (uint32_t i = 0; number && i < space->nr_slots; i++)
		if (space->slot[i]->stream_number == number)
			return space->slot[i];
	return NULL;
}

/* A slot of a stream that nothing of is under way, which may be gone; NULL: none, or there are few
 * slots yet. */
static struct stream_slot *idle_slot(const struct weir_space *space)
{
	for (uint32_t i = 0; i < space->nr_slots && space->nr_slots >= SLOTS_MANY; i++)
		if (!space->slot[i]->open && !space->slot[i]->placing &&
		    space->slot[i]->last_seq <= space->done_seq)
			return space->slot[i];
	return NULL;
}

struct stream_slot *space_slot(struct weir_space *space, struct weir_stream *stream)
{
	struct stream_slot *slot = space_slot_find(space, stream);

	if (slot)
		return slot;
	slot = idle_slot(space);
	if (slot)
		goto out;
	if (space->nr_slots == space->max_slots) {
		uint32_t max = MAX(4u, space->max_slots * 2);
		struct stream_slot **table = realloc(space->slot, max * sizeof(slot));

		if (!table)
			return NULL;
		space->slot = table;
		space->max_slots = max;
	}
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return NULL;
	slot->number = space->nr_slots;
	slot->space = space;
	space->slot[space->nr_slots++] = slot;
out:
	slot->stream = stream;
	slot->stream_number = stream_number(stream);
	slot->foreign = space_own(space, stream_device(stream)) < 0;
	slot->own = slot->foreign ? PLACE_OWN : (place_t)space_own(space, stream_device(stream));
	tracing_stream(space, slot);
	return slot;
}
