/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a block changed while it was on the device. A block's life under comparison:
 *
 *   comes up               its lower copy stays
 *   is about to be         the first time since: a digest is taken before, and kept. From then on
 *   written, perhaps       the lower copy is unproved: good for nothing but what follows
 *   leaves                 a digest is taken. Equal to the one kept: the lower copy is the block,
 *                          and nothing is copied. Else it is copied there
 *
 * So what is written in the lower copy, by a kernel in place or the CPU, needs no attention: that
 * is before the digest. From when it leaves a block is moving: home is the lower chunk, source the
 * one that the digest is taken of. It is unmapped, so whoever writes it against the rules faults
 * rather than being lost.
 *
 * A digest is a kernel and has to wait for a multiprocessor; what fills the device may wait for
 * launches that wait for the digest. For those of blocks that leave: compare_cancel(). The block
 * goes back to where it is, and what its digest says is of no interest, but it does not move before
 * that is done. For those of blocks that came up: only the stream of the launch that is about to
 * write waits for it, on the device, behind what is queued there anyway; there is none while
 * another stream has launches that are not done, and one that is not done when another stream's
 * bracket begins is of no interest any more (compare_begins()).
 */
#include <errno.h>
#include <stdlib.h>

#include "src/core/migrate.h"
#include "src/core/tracing.h"

/* Digests that may be under way; and those of blocks that came up, so that there are some for what
 * leaves: more than are evicted at a time. */
#define COMPARES_MAX 128u
#define ARRIVED_MAX 64u
/* Of a block whose digests were of no use again and again one is taken at so many times. */
#define LEFT_OUT_MAX 16u

/* A digest under way. */
struct comparison {
	struct range *range; /* NULL: it is of no interest */
	uint32_t block, ticket;
	enum weir_cause cause;
	bool arrived;  /* of a block that came up; else of one that leaves */
	fence_t fence; /* 0: it has none yet */
};

struct compares {
	stream_id_t stream;
	struct comparison queue[COMPARES_MAX]; /* a ring */
	uint32_t head, nr;
	uint32_t nr_arrived; /* of nr */
	uint64_t waiting;    /* the number of the stream whose launches come behind these */
	bool unfenced;	     /* the last ones have no fence yet */
};

static struct comparison *nth(struct compares *c, uint32_t n)
{
	return &c->queue[(c->head + n) % COMPARES_MAX];
}

int compare_init(struct weir_space *space)
{
	struct backend *b = space->backend;
	struct compares *c;
	int err;

	if (space->nr_devices != 1 || space->nr_ranges || space->compares ||
	    space->block_bytes % DIGEST_TILE_BYTES || !b->digest_key)
		return -ENOTSUP;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	err = b->ops->digest_prepare(b, space->device[PLACE_OWN]);
	if (!err)
		err = b->ops->stream_create(b, space->device[PLACE_OWN], BACKEND_URGENT,
					    &c->stream);
	if (err) {
		free(c);
		return err;
	}
	space->compares = c;
	return 0;
}

void compare_fini(struct weir_space *space)
{
	struct compares *c = space->compares;
	struct backend *b = space->backend;

	if (!c)
		return;
	for (uint32_t n = 0; n < c->nr; n++)
		(void)b->ops->digest_take(b, nth(c, n)->ticket, NULL);
	b->ops->stream_destroy(b, c->stream);
	free(c);
	space->compares = NULL;
}

stream_id_t compare_stream(const struct weir_space *space)
{
	return space->compares->stream;
}

uint32_t compare_nr(const struct weir_space *space, place_t from)
{
	const struct compares *c = space->compares;

	return c && from == PLACE_OWN ? c->nr - c->nr_arrived : 0;
}

bool compare_is_wanted(const struct weir_space *space, const struct block *block,
		       enum weir_cause cause)
{
	return space->compares && cause == WEIR_CAUSE_EVICTION && block->at.unproved &&
	       block->at.home->place == PLACE_OWN && !block->awaits;
}

/* Record the fence of digests that have none. */
static int compare_fence(struct weir_space *space)
{
	struct compares *c = space->compares;
	fence_t fence;
	int err;

	if (!c->unfenced)
		return 0;
	err = space_fence_record(space, c->stream, &fence);
	if (err)
		return err;
	c->unfenced = false;
	for (uint32_t n = c->nr; n-- > 0 && !nth(c, n)->fence;)
		nth(c, n)->fence = fence;
	return 0;
}

/* Queue the digest of a block that is on the device. */
static int queue_digest(struct weir_space *space, struct range *range, uint32_t i,
			enum weir_cause cause, bool arrived)
{
	struct compares *c = space->compares;
	uint32_t ticket;
	int err;

	if (c->nr == COMPARES_MAX)
		return -EBUSY;
	err = space->backend->ops->digest(space->backend, c->stream,
					  &range->block[i].at.home->backend, space->block_bytes,
					  &ticket);
	if (err)
		return err;
	*nth(c, c->nr++) = (struct comparison){
		.range = range, .block = i, .ticket = ticket, .cause = cause, .arrived = arrived};
	c->nr_arrived += arrived;
	c->unfenced = true;
	range->block[i].awaits = arrived ? ticket + 1 : 0;
	return 0;
}

int compare_evict(struct weir_space *space, struct range *range, uint32_t i, enum weir_cause cause)
{
	struct block *block = &range->block[i];
	struct copies to;
	int err = migrate_unplug(space, range, i);

	if (err)
		return err;
	if (queue_digest(space, range, i, cause, false))
		return -EBUSY;
	block->ready = 0;
	to = block->at;
	to.source = to.home;
	to.home = to.below;
	to.below = NULL;
	to.unproved = to.digested = false;
	to.comparing = true;
	migrate_change_home(space, range, i, &to, cause);
	space->stats.nr_compared++;
	(void)compare_fence(space); /* else at the next opportunity */
	return 0;
}

void compare_cancel(struct weir_space *space, struct range *range, uint32_t i)
{
	struct copies to = range->block[i].at;

	to.below = to.home;
	to.home = to.source;
	to.source = NULL;
	to.comparing = false;
	to.cleaning = CLEANING_CANCELLED;
	to.unproved = to.digested = true;
	migrate_change_home(space, range, i, &to, WEIR_CAUSE_DEMAND);
}

/* ------------------------------------------------------------------ what came up */

/* A digest of a block that came up says nothing: nor does the lower copy any more. */
static void forget(struct weir_space *space, struct comparison *comparison)
{
	struct range *range = comparison->range;
	struct block *block;

	if (!range)
		return;
	comparison->range = NULL;
	block = &range->block[comparison->block];
	if (block->awaits != comparison->ticket + 1)
		return;
	block->awaits = 0;
	if (block->at.digested)
		migrate_drop_lower(space, range, block);
}

void compare_forget_arrived(struct weir_space *space)
{
	struct compares *c = space->compares;

	for (uint32_t n = 0; c && c->nr_arrived && n < c->nr; n++)
		if (nth(c, n)->arrived)
			forget(space, nth(c, n));
}

void compare_forget_range(struct weir_space *space, const struct range *range)
{
	struct compares *c = space->compares;

	for (uint32_t n = 0; c && n < c->nr; n++)
		if (nth(c, n)->range == range)
			nth(c, n)->range = NULL;
}

/* Whether no launches of other streams are under way, which might write what is to be digested. */
static bool is_alone(const struct weir_space *space, const struct stream_slot *slot)
{
	for (uint32_t i = 0; i < space->nr_slots; i++)
		if (space->slot[i] != slot &&
		    (space->slot[i]->open || space->slot[i]->last_seq > space->done_seq))
			return false;
	return true;
}

/* Whether it pays to know later whether the block changed. */
static bool pays(struct block *block)
{
	if (!block_is_clean(block) || !block_is_at(block, PLACE_OWN) || block->at.digested ||
	    (block_is_moving(block) && !block->ready))
		return false;
	if (block->nr_changed < BLOCK_CHANGED_MAX)
		return true;
	block->nr_left_out = (uint8_t)((block->nr_left_out + 1) % LEFT_OUT_MAX);
	return !block->nr_left_out;
}

/* Queue the digests of blocks that a use may write. */
static void digest_use(struct weir_space *space, const struct space_use *use)
{
	struct backend *b = space->backend;
	struct compares *c = space->compares;
	struct range *range = use->range;
	fence_t waited = 0;
	int err = 0;

	for (uint32_t i = use->first; i < use->first + use->nr && range->nr_clean; i++) {
		struct block *block = &range->block[i];
		struct copies to = block->at;

		if (c->nr_arrived == ARRIVED_MAX || !pays(block))
			continue;
		if (block_is_moving(block) && block->ready != waited) {
			waited = block->ready;
			err = b->ops->stream_wait(b, c->stream, waited);
			space_note_error(space, err);
		}
		if (err || queue_digest(space, range, i, WEIR_CAUSE_DEMAND, true))
			return;
		to.digested = true;
		block_change(range, block, &to);
		tracing_compared(space, range, i, TRACE_COMPARED_FIRST);
	}
}

bool compare_is_spoiled(const struct weir_space *space, const struct stream_slot *slot)
{
	const struct compares *c = space->compares;

	return c && c->nr_arrived && c->waiting != slot->stream_number;
}

void compare_begins(struct weir_space *space, const struct stream_slot *slot)
{
	struct backend *b = space->backend;
	struct compares *c = space->compares;
	uint32_t before;
	int err;

	if (!c)
		return;
	if (compare_is_spoiled(space, slot))
		compare_forget_arrived(space);
	if (!is_alone(space, slot))
		return;
	c->waiting = slot->stream_number;
	before = c->nr_arrived;
	for (uint32_t u = 0; u < slot->uses.nr; u++)
		if (use_writes(&slot->uses.use[u]))
			digest_use(space, &slot->uses.use[u]);
	if (c->nr_arrived == before)
		return;
	err = compare_fence(space);
	if (!err)
		err = b->ops->stream_wait(b, stream_id(slot->stream), nth(c, c->nr - 1)->fence);
	space_note_error(space, err);
	if (err)
		compare_forget_arrived(space);
}

/* The digest of a block that came up was taken, or could not be. */
static void finish_arrived(struct weir_space *space, struct comparison *done, int err)
{
	struct range *range = done->range;
	struct block *block = range ? &range->block[done->block] : NULL;
	const bool awaited =
		block && block->awaits == done->ticket + 1 && block->at.digested && !err;
	struct backend *b = space->backend;
	struct digest digest;

	space->compares->nr_arrived--;
	if (b->ops->digest_take(b, done->ticket, awaited ? &digest : NULL) || !awaited) {
		forget(space, done);
		return;
	}
	block->digest = digest;
	block->awaits = 0;
}

/* ------------------------------------------------------------------ what was taken */

/* What was cancelled is done: the block may move again. */
static void finish_cancelled(struct weir_space *space, struct range *range, struct block *block)
{
	struct copies to = block->at;
	struct chunk *unused = to.unproved ? NULL : to.below;

	to.cleaning = CLEANING_NONE;
	if (unused)
		to.below = NULL;
	block_change(range, block, &to);
	migrate_vacate(space, unused);
}

/* The block is, or need not be, what its lower chunk has. */
static void finish_same(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	struct chunk *upper = block->at.source;
	struct copies to = block->at;

	to.source = NULL;
	to.comparing = false;
	block_change(range, block, &to);
	tracing_place(space, range, i, upper);
	migrate_vacate(space, upper);
}

static int finish_changed(struct weir_space *space, struct range *range, uint32_t i,
			  enum weir_cause cause)
{
	struct block *block = &range->block[i];
	struct copies to = block->at;
	int err;

	to.comparing = false;
	block_change(range, block, &to);
	err = migrate_queue(space, range, i, to.home, to.source, cause);
	if (err)
		migrate_undo(space, range, i);
	return err;
}

/* The digest of a block that leaves was taken, or could not be. */
static void finish(struct weir_space *space, const struct comparison *done, int err)
{
	struct range *range = done->range;
	struct block *block = &range->block[done->block];
	bool compares = block->at.comparing && !block->at.dead;
	struct backend *b = space->backend;
	struct digest digest;
	int err_take = b->ops->digest_take(b, done->ticket, compares ? &digest : NULL);

	err = err ? err : err_take;
	space->epoch++;
	if (!block->at.comparing) {
		finish_cancelled(space, range, block);
	} else if (!compares) {
		finish_same(space, range, done->block);
	} else if (!err && digest_equal(digest, block->digest)) {
		block->nr_changed = 0;
		range->nr_same++;
		tracing_compared(space, range, done->block, TRACE_COMPARED_SAME);
		space->stats.nr_unchanged++;
		space->stats.nr_clean_dropped++;
		finish_same(space, range, done->block);
	} else {
		if (block->nr_changed < BLOCK_CHANGED_MAX)
			block->nr_changed++;
		range->nr_changed++;
		if (!err)
			tracing_compared(space, range, done->block, TRACE_COMPARED_CHANGED);
		space_note_error(space, finish_changed(space, range, done->block, done->cause));
	}
}

void compare_retire(struct weir_space *space)
{
	struct compares *c = space->compares;
	bool any = false;

	if (!c || !c->nr || compare_fence(space))
		return;
	while (c->nr) {
		struct comparison done = *nth(c, 0);
		int err = 0;

		if (!space_fence_done(space, done.fence, &err))
			break;
		c->head = (c->head + 1) % COMPARES_MAX;
		c->nr--;
		if (done.arrived)
			finish_arrived(space, &done, err);
		else
			finish(space, &done, err);
		any = true;
	}
	if (any)
		space_note_error(space, migrate_flush(space));
}

/* Wait for the first digest, if patient. */
static int settle_on_first(struct weir_space *space, struct settle *settle)
{
	struct compares *c = space->compares;
	int err;

	if (space->placing && space->impatient)
		return 0;
	err = compare_fence(space);
	space_note_error(space, err);
	if (err)
		return 0;
	settle->fence = nth(c, 0)->fence;
	settle->bracket = true; /* what fills the device may not end before others do */
	return SETTLE_WAIT;
}

int settle_on_compared(struct weir_space *space, struct settle *settle)
{
	return compare_nr(space, PLACE_OWN) ? settle_on_first(space, settle) : 0;
}

int settle_on_arrived(struct weir_space *space, const struct stream_slot *slot,
		      struct settle *settle)
{
	return compare_is_spoiled(space, slot) ? settle_on_first(space, settle) : 0;
}

int compare_settle(struct weir_space *space, const struct space_use *use, struct settle *settle)
{
	struct range *range = use->range;

	for (uint32_t i = use->first; range->nr_comparing && i < use->first + use->nr; i++) {
		if (!range->block[i].at.comparing)
			continue;
		if (settle_on_compared(space, settle))
			return SETTLE_WAIT;
		compare_cancel(space, range, i);
	}
	return 0;
}
