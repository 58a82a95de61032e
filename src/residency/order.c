/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of brackets on different streams: calls are the order. A bracket comes after every
 * bracket that ended before it began and that it conflicts with: their bytes overlap, and one of
 * the two does more than read; uses by atomics alone do not conflict with each other. Its stream
 * waits on the device; the host does not wait.
 *
 * The uses of brackets that ended are kept until these are done, and are walked newest first: what
 * a stream runs is in order, so one wait for each stream is enough. While one stream alone has
 * brackets that are not done, nothing is walked. A freed range that is used again has the same
 * addresses, and the brackets of its last life name it, too; those had all ended when it was
 * allocated again, and conflict with it whatever their kinds.
 */
#include "src/backend/machine.h"
#include "src/residency/residency.h"

/* Pairs of uses compared for one bracket. Beyond that it waits for what it may conflict with: a
 * bracket of 256 uses among 192 of the same kind would take the host longer than the device. */
#define ORDER_WORK 16384u

static bool uses_overlap(const struct space_use *a, const struct space_use *b)
{
	return a->range == b->range && a->offset < b->offset + b->bytes &&
	       b->offset < a->offset + a->bytes && (a->kind != WEIR_READ || b->kind != WEIR_READ);
}

static bool uses_conflict(const struct space_use *a, const struct space_use *b)
{
	return uses_overlap(a, b) && !(a->atomic && b->atomic);
}

/* Brackets up to it that named bytes of a use did so in an earlier life; of a whole arena, that of
 * any piece. */
static bracket_seq_t born_of(const struct space_use *use)
{
	const struct range *range = use->range;

	return range->arena && !use->hidden ? arena_born(range, use->offset) : range->born;
}

/* Whether a use conflicts with one of the bracket of a number, which ended: of an earlier life of
 * the same bytes all uses do. */
static bool conflicts_behind(const struct space_use *ended, bracket_seq_t seq,
			     const struct space_use *use, bool guessed)
{
	if (!uses_overlap(ended, use) || (ended->freed && use->hidden))
		return false;
	/* What is only possible has no order with what is, among uses without an order. */
	if (ended->atomic && use->atomic && (ended->hidden || use->hidden) && guessed)
		return false;
	return !(ended->atomic && use->atomic) || seq <= born_of(use);
}

/* The newest bracket that may have named bytes of the uses in an earlier life. */
static bracket_seq_t newest_born(const struct use_list *uses)
{
	bracket_seq_t newest = 0;

	for (uint32_t u = 0; u < uses->nr; u++)
		newest = MAX(newest, born_of(&uses->use[u]));
	return newest;
}

/* Whether launches of a wide bracket that ended may have used the range of a use, now or in an
 * earlier life, so that they conflict. */
static bool wide_conflicts_behind(const struct use_list *ended, bracket_seq_t seq,
				  const struct space_use *use, bool guessed)
{
	const struct space_use any = wide_use(use->range);

	return (range_is_in_wide(use->range, ended->wide) || seq <= use->range->wide_past) &&
	       conflicts_behind(&any, seq, use, guessed);
}

/* Whether a wide bracket comes after one that ended for what one of the two does not name. What
 * neither does has no order, but for addresses that began a new life between. */
static bool wide_conflicts(const struct weir_space *space, const struct use_list *ended,
			   bracket_seq_t seq, const struct use_list *uses)
{
	bool is = ended->wide && uses->wide && !space->guessed && seq <= space->wide.reborn;

	for (uint32_t u = 0; ended->wide && !is && u < uses->nr; u++)
		is = wide_conflicts_behind(ended, seq, &uses->use[u], space->guessed);
	for (uint32_t e = 0; uses->wide && !is && e < ended->nr; e++) {
		const struct space_use any = wide_use(ended->use[e].range);

		is = range_is_in_wide(any.range, uses->wide) &&
		     conflicts_behind(&ended->use[e], seq, &any, space->guessed);
	}
	return is;
}

/* Whether the bracket of a number, which ended, conflicts with uses that are marked
 * (place_mark()). */
static bool bracket_conflicts(const struct weir_space *space, bracket_seq_t seq,
			      const struct use_list *uses, uint32_t *work)
{
	const struct use_list *ended = &space_ended(space, seq)->uses;

	if (ended->all || uses->all || wide_conflicts(space, ended, seq, uses))
		return true;
	for (uint32_t e = 0; e < ended->nr; e++) {
		if (ended->use[e].range->mark != space->mark)
			continue;
		for (uint32_t u = 0; u < uses->nr; u++) {
			if (!*work ||
			    conflicts_behind(&ended->use[e], seq, &uses->use[u], space->guessed))
				return true;
			--*work;
		}
	}
	return false;
}

int order_behind(struct weir_space *space, const struct stream_slot *slot,
		 const struct use_list *uses)
{
	struct backend *b = space->backend;
	uint32_t work = ORDER_WORK;
	bracket_seq_t since = 0;
	int err = 0;

	if (space_is_before(space, slot))
		return 0;
	if (uses->unordered)
		since = MAX(newest_born(uses), uses->wide ? space->wide.reborn : 0);
	for (bracket_seq_t seq = space->last_seq; !err && seq > space->done_seq; seq--) {
		const struct ended_bracket *ended = space_ended(space, seq);

		if (ended->slot == slot || ended->slot->ordered == space->mark ||
		    (uses->unordered && seq > since && ended->uses.unordered) ||
		    !bracket_conflicts(space, seq, uses, &work))
			continue;
		ended->slot->ordered = space->mark;
		err = space_fence_slot(space, ended->slot);
		if (!err && !ended->lost)
			err = b->ops->stream_wait(b, stream_id(slot->stream), ended->end);
	}
	return err;
}

bracket_seq_t order_newest(const struct weir_space *space, const struct use_list *uses)
{
	uint32_t work = ORDER_WORK;
	bracket_seq_t seq = space->last_seq;

	while (seq > space->done_seq && !bracket_conflicts(space, seq, uses, &work))
		seq--;
	return seq;
}

const struct space_use *order_host_conflict(const struct weir_space *space,
					    const struct use_list *uses)
{
	for (const struct host_bracket *host = space->residency->host; host; host = host->next)
		for (uint32_t h = 0; h < host->nr; h++) {
			if (range_is_in_wide(host->use[h].range, uses->wide))
				return &host->use[h];
			for (uint32_t u = 0; u < uses->nr; u++)
				if (uses->use[u].kind != WEIR_DISCARD &&
				    (uses_conflict(&host->use[h], &uses->use[u]) ||
				     (space->shared &&
				      space->shared_ops->contradict(space, &host->use[h],
								    &uses->use[u]))))
					return &uses->use[u];
		}
	return NULL;
}

bool order_is_open(const struct weir_space *space, const struct space_use *use)
{
	for (uint32_t i = 0; i < space->nr_slots && space->shared; i++) {
		const struct stream_slot *slot = space->slot[i];

		for (uint32_t u = 0; slot->open && u < slot->uses.nr; u++)
			if (space->shared_ops->contradict(space, use, &slot->uses.use[u]))
				return true;
	}
	return false;
}
