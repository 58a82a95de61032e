/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a block changed while it was on the device. A block's life under comparison:
 *
 *   leaves the first time   a digest is taken of it and kept; then it is copied to its lower chunk
 *   comes back              the lower copy stays
 *   may have been written   the lower copy is unproved: good for nothing but what follows
 *   leaves again            a digest is taken. Equal to the one kept: the lower copy is the block,
 *                           and nothing is copied. Else it is copied there, and that digest is kept
 *
 * From when it leaves a block is moving: home is the lower chunk, source the one that the digest is
 * taken of. It is unmapped, so whoever writes it against the rules faults rather than being lost.
 * What writes the lower copy (a kernel in place, the CPU) ends what is known of it, and counts as a
 * change (migrate_set_dead()).
 *
 * A digest is a kernel and has to wait for a multiprocessor; what fills the device may wait for
 * launches that wait for the block. Hence compare_cancel(): the block goes back to where it is, and
 * what its digest says is of no interest, but it does not move before that is done.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/core/migrate.h"
#include "src/core/tracing.h"

/* Digests that may be under way: more than are evicted at a time. */
#define COMPARES_MAX 64u
/* Of a block that was found changed again and again a digest is taken at one eviction of so many,
 * and compared at the next one. */
#define LEFT_OUT_MAX 16u

struct comparison {
	struct range *range;
	uint32_t block, ticket;
	enum weir_cause cause;
	fence_t fence; /* 0: it has none yet */
};

struct compares {
	stream_id_t stream;
	struct comparison queue[COMPARES_MAX]; /* a ring */
	uint32_t head, nr;
	bool unfenced; /* the last ones have no fence yet */
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
	if (!space->compares)
		return;
	space->backend->ops->stream_destroy(space->backend, space->compares->stream);
	free(space->compares);
	space->compares = NULL;
}

stream_id_t compare_stream(const struct weir_space *space)
{
	return space->compares->stream;
}

uint32_t compare_nr(const struct weir_space *space, place_t from)
{
	return space->compares && from == PLACE_OWN ? space->compares->nr : 0;
}

bool compare_is_wanted(const struct weir_space *space, struct block *block, enum weir_cause cause)
{
	if (!space->compares || cause != WEIR_CAUSE_EVICTION ||
	    block->at.home->place != PLACE_OWN || !block_is_dirty(block))
		return false;
	if (block->at.unproved || block->nr_changed < BLOCK_CHANGED_MAX)
		return true;
	block->nr_left_out = (uint8_t)((block->nr_left_out + 1) % LEFT_OUT_MAX);
	return !block->nr_left_out;
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

int compare_evict(struct weir_space *space, struct range *range, uint32_t i, struct chunk *lower,
		  enum weir_cause cause)
{
	struct block *block = &range->block[i];
	struct compares *c = space->compares;
	struct copies to;
	uint32_t ticket;
	int err;

	if (c->nr == COMPARES_MAX)
		return -EBUSY;
	err = migrate_unplug(space, range, i);
	if (err)
		return err;
	err = space->backend->ops->digest(space->backend, c->stream, &block->at.home->backend,
					  space->block_bytes, &ticket);
	if (err)
		return -EBUSY;
	*nth(c, c->nr++) =
		(struct comparison){.range = range, .block = i, .ticket = ticket, .cause = cause};
	c->unfenced = true;
	block->ready = 0;
	to = block->at;
	to.source = to.home;
	to.home = to.unproved ? to.below : lower;
	to.below = NULL;
	to.unproved = false;
	to.comparing = true;
	migrate_change_home(space, range, i, &to, cause);
	space->stats.nr_compared++;
	(void)compare_fence(space); /* else at the next opportunity */
	return 0;
}

void compare_cancel(struct weir_space *space, struct range *range, uint32_t i)
{
	struct copies to = range->block[i].at;
	struct chunk *lower = to.home;

	to.home = to.source;
	to.source = NULL;
	to.comparing = false;
	to.cleaning = CLEANING_CANCELLED;
	to.unproved = to.digested;
	to.below = to.digested ? lower : NULL;
	migrate_change_home(space, range, i, &to, WEIR_CAUSE_DEMAND);
	if (!to.below)
		migrate_vacate(space, lower);
}

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
			  const struct digest *digest, enum weir_cause cause)
{
	struct block *block = &range->block[i];
	struct copies to = block->at;
	int err;

	to.comparing = false;
	to.digested = digest != NULL;
	if (digest)
		block->digest = *digest;
	block_change(range, block, &to);
	err = migrate_queue(space, range, i, to.home, to.source, cause);
	if (err)
		migrate_undo(space, range, i);
	return err;
}

/* The digest was taken, or could not be. */
static void finish(struct weir_space *space, const struct comparison *done, int err)
{
	struct range *range = done->range;
	struct block *block = &range->block[done->block];
	bool compares = block->at.comparing && !block->at.dead, known = block->at.digested, keep;
	struct backend *b = space->backend;
	struct digest digest;
	int err_take = b->ops->digest_take(b, done->ticket, compares ? &digest : NULL);

	err = err ? err : err_take;
	space->epoch++;
	if (!block->at.comparing) {
		finish_cancelled(space, range, block);
	} else if (!compares) {
		finish_same(space, range, done->block);
	} else if (!err && known && digest_equal(digest, block->digest)) {
		block->nr_changed = 0;
		range->nr_same++;
		tracing_compared(space, range, done->block, TRACE_COMPARED_SAME);
		space->stats.nr_unchanged++;
		space->stats.nr_clean_dropped++;
		finish_same(space, range, done->block);
	} else {
		if (known && block->nr_changed < BLOCK_CHANGED_MAX)
			block->nr_changed++;
		range->nr_changed += known;
		tracing_compared(space, range, done->block,
				 known && !err ? TRACE_COMPARED_CHANGED : TRACE_COMPARED_FIRST);
		/* Without one it is not compared the next time. */
		keep = !err && (!known || block->nr_changed < BLOCK_CHANGED_MAX);
		space_note_error(space, finish_changed(space, range, done->block,
						       keep ? &digest : NULL, done->cause));
	}
}

void compare_retire(struct weir_space *space)
{
	struct compares *c = space->compares;
	bool any = false;

	if (!c || !c->nr || compare_fence(space))
		return;
	while (c->nr) {
		const struct comparison done = *nth(c, 0);
		int err = 0;

		if (!space_fence_done(space, done.fence, &err))
			break;
		c->head = (c->head + 1) % COMPARES_MAX;
		c->nr--;
		finish(space, &done, err);
		any = true;
	}
	if (any)
		space_note_error(space, migrate_flush(space));
}

int settle_on_compared(struct weir_space *space, struct settle *settle)
{
	struct compares *c = space->compares;
	int err;

	if (!c || !c->nr || (space->placing && space->impatient))
		return 0;
	err = compare_fence(space);
	space_note_error(space, err);
	if (err)
		return 0;
	settle->fence = nth(c, 0)->fence;
	settle->bracket = true; /* what fills the device may not end before others do */
	return SETTLE_WAIT;
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
