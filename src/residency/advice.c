/* SPDX-License-Identifier: Apache-2.0 */
/* What programs say of ranges beyond brackets: advice, prefetch, explicit copies. */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/core/kind.h"
#include "src/core/tracing.h"
#include "src/residency/residency.h"

/* Find the range that holds the whole of a part, and the part's blocks. */
static int resolve_part(struct weir_space *space, const void *addr, uint64_t bytes,
			struct space_use *out)
{
	struct weir_use use = {.addr = (void *)(uintptr_t)addr, .bytes = bytes};

	return bracket_resolve(space, &use, 1, out);
}

/* The same of a range that has blocks. what: the call, for the message. */
static int resolve_mapped(struct weir_space *space, const void *addr, uint64_t bytes,
			  const char *what, struct space_use *out)
{
	int err = resolve_part(space, addr, bytes, out);

	return err ? err : kinds_refuse(out, 1, what);
}

static void advise_read_mostly(struct weir_space *space, struct range *range, bool read_mostly)
{
	if (range->residency->read_mostly != read_mostly)
		space->residency->nr_read_mostly += read_mostly ? 1 : (uint32_t)-1;
	range->residency->read_mostly = read_mostly;
}

void advice_reset(struct weir_space *space, struct range *range)
{
	range->residency->prefer = -1;
	advise_read_mostly(space, range, false);
}

static int advise_memory(struct weir_space *space, struct range *range, int place)
{
	if (place < 0)
		return -EINVAL;
	if (place < (int)space->nr_devices)
		home_prefer(space, range, (place_t)place);
	range->residency->prefer = place;
	return 0;
}

int weir_advise(struct weir_space *space, void *addr, enum weir_advice advice, uint32_t where)
{
	const struct weir_machine_desc *desc = weir_machine_describe(space->machine);
	struct space_use part;
	uint64_t since_ns;
	int err;

	pthread_mutex_lock(&space->lock);
	since_ns = tracing_now(space);
	err = resolve_mapped(space, addr, 1, "weir_advise()", &part);
	if (err)
		goto out;
	switch (advice) {
	case WEIR_ADVISE_DEFAULT:
		advice_reset(space, part.range);
		/* Who named it keeps it. */
		err = migrate_set_devices(space, part.range, part.range->devices & space->devices);
		break;
	case WEIR_ADVISE_PREFER_MEMORY:
		err = advise_memory(space, part.range, space_place(space, where));
		break;
	case WEIR_ADVISE_READ_MOSTLY:
		advise_read_mostly(space, part.range, true);
		break;
	case WEIR_ADVISE_ACCESSED_BY:
		if (where >= desc->nr_devices)
			err = -EINVAL;
		else
			err = migrate_set_devices(space, part.range,
						  part.range->devices | BACKEND_DEVICE_BIT(where));
		break;
	default:
		err = -EINVAL;
	}
	if (!err)
		tracing_advise(space, &part, advice, where, since_ns);
	if (err)
		log_error("advice %d on %p: no such memory, device or advice", (int)advice, addr);
out:
	pthread_mutex_unlock(&space->lock);
	return err;
}

/* ------------------------------------------------------------------ prefetch */

/* A prefetch the program asked for; the program's handle and, until it is done, the space's list
 * each hold it. */
struct weir_fence {
	struct weir_space *space;
	struct weir_fence *next;
	struct range *range;
	life_t life;	  /* the range's then: it may be freed before the prefetch is through */
	uint32_t at, end; /* blocks still to be moved */
	place_t place;	  /* where to */
	fence_t fence[PLACES_MAX]; /* the newest copy that comes there, by place that it leaves */
	bool queued;		   /* every copy is queued; fences count */
	bool done;		   /* ... and done */
	int err;		   /* what ended it early, or of a copy */
	uint32_t nr_holders;
};

static void fence_put(struct weir_fence *fence)
{
	if (--fence->nr_holders == 0)
		free(fence);
}

/* Bring one block up. @return 0; -EAGAIN: not now; else the prefetch cannot go on. */
static int prefetch_up(struct weir_space *space, struct range *range, uint32_t i, place_t to)
{
	bool own = to == range_block_own(range, i);
	struct chunk *chunk = own ? room_or_evict(space, to) : room_try(space, to);

	if (!chunk && own && room_exists(space, to))
		return -EAGAIN;
	return chunk ? migrate_up(space, range, i, chunk, WEIR_CAUSE_PREFETCH) : -ENOMEM;
}

/* Move one block towards a place. What has no chunk yet gets one where it is resident alone:
 * elsewhere it would have nothing to be there for. @return as above. */
static int prefetch_block(struct weir_space *space, struct range *range, uint32_t i, place_t to)
{
	const struct block *block = &range->block[i];
	bool freed;

	if (block_is_at(block, to) || (!block_is_backed(block) && to != range_block_own(range, i)))
		return 0;
	if (range_block_is_pinned(space, range, i))
		return 0; /* an open bracket uses it where it is */
	if (!room_is_idle(space, range, i))
		return -EAGAIN;
	if (!block_is_backed(block) ||
	    range_block_rank(range, i, to) < range_block_rank(range, i, block->at.home->place))
		return prefetch_up(space, range, i, to);
	return room_send(space, range, i, to, WEIR_CAUSE_PREFETCH, &freed);
}

/* Whether a copy of a prefetch is under way. */
static bool is_under_way(const struct weir_space *space, const struct weir_fence *p)
{
	for (uint32_t i = 0; i < space->nr_paths; i++)
		if (space->path[i].to == p->place &&
		    migrate_pending(&space->path[i], p->fence[space->path[i].from]))
			return true;
	return false;
}

/* Queue what can be queued now. */
static void prefetch_run(struct weir_space *space, struct weir_fence *p)
{
	int err = 0, err_flush;

	p->queued = true;
	if (p->range->life != p->life || p->range->pooled)
		return;
	space->residency->keep = p->range;
	for (; p->at < p->end; p->at++) {
		err = prefetch_block(space, p->range, p->at, p->place);
		if (err)
			break;
	}
	space->residency->keep = NULL;
	if (err && err != -EAGAIN)
		p->err = err == -ENOSPC ? -ENOMEM : err;
	err_flush = migrate_flush(space);
	if (err_flush && !p->err)
		p->err = err_flush;
	for (uint32_t i = 0; i < space->nr_paths; i++)
		if (space->path[i].to == p->place)
			p->fence[space->path[i].from] = p->range->path[i].ready;
	p->queued = err != -EAGAIN || err_flush;
}

void advice_move_failed(struct weir_space *space, const struct path *path, const struct move *move,
			int err)
{
	if (block_is_cleaning(&move->range->block[move->block]))
		return; /* no prefetch's */
	for (struct weir_fence *p = space->residency->prefetch; p; p = p->next)
		if (p->range == move->range && p->life == move->range->life &&
		    p->place == path->to && !p->err)
			p->err = err;
}

/* Keep the lower copies of ranges that are read mostly valid, while the link is idle. */
static void clean_read_mostly(struct weir_space *space)
{
	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		const struct path *down = space_path(space, range->own, space_host(space));
		int err = 0;

		if (down->moving.nr)
			continue;

		if (!range->residency->read_mostly || range->arena || range->pooled)
			continue;
		for (uint32_t i = 0;
		     !err && i < range->nr_blocks && down->batch.nr < SPACE_BATCH_MAX; i++)
			err = room_clean(space, range, i, range->own);
		if (err && err != -EAGAIN && err != -ENOSPC)
			space_note_error(space, err);
		space_note_error(space, migrate_flush(space));
	}
}

void advice_advance(struct weir_space *space)
{
	struct weir_fence **at = &space->residency->prefetch;

	/* In a fixed space any kernel may write at any time. */
	if (space->residency->nr_read_mostly && space->mode == WEIR_PLANNED)
		clean_read_mostly(space);
	while (*at) {
		struct weir_fence *p = *at;

		if (!p->queued)
			prefetch_run(space, p);
		p->done = p->queued && !is_under_way(space, p);
		if (!p->done) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		fence_put(p);
	}
}

void advice_cancel(struct weir_space *space)
{
	for (struct weir_fence *p = space->residency->prefetch; p; p = p->next)
		p->queued = true;
}

void advice_fini(struct weir_space *space)
{
	while (space->residency->prefetch) {
		struct weir_fence *p = space->residency->prefetch;

		space->residency->prefetch = p->next;
		p->queued = p->done = true;
		fence_put(p);
	}
}

int weir_prefetch(struct weir_space *space, void *addr, uint64_t bytes, uint32_t memory,
		  struct weir_fence **out)
{
	struct weir_fence *p = calloc(1, sizeof(*p)), **last;
	struct space_use part;
	uint64_t since_ns;
	int err, place;

	if (!p)
		return -ENOMEM;
	pthread_mutex_lock(&space->lock);
	since_ns = tracing_now(space);
	err = resolve_mapped(space, addr, bytes, "weir_prefetch()", &part);
	place = space_place(space, memory);
	if (!err && place < 0)
		err = -EINVAL;
	if (err)
		goto err_free;
	*p = (struct weir_fence){.space = space,
				 .range = part.range,
				 .life = part.range->life,
				 .at = part.first,
				 .end = part.first + part.nr,
				 .place = (place_t)place,
				 .nr_holders = out ? 2 : 1};
	if (place < (int)space->nr_devices)
		home_set(space, &part, (place_t)place);
	/* Nothing moves in a fixed space, and arenas stay where they are. */
	if (space->mode == WEIR_FIXED || part.range->arena)
		p->at = p->end;
	space_progress(space);
	if (p->at < p->end && place < (int)space->nr_devices &&
	    !room_exists(space, (place_t)place)) {
		err = -ENOMEM;
		goto err_free;
	}
	for (last = &space->residency->prefetch; *last;)
		last = &(*last)->next;
	*last = p;
	advice_advance(space);
	tracing_part(space, TRACE_PREFETCH, &part, memory, since_ns);
	if (out)
		*out = p;
	pthread_mutex_unlock(&space->lock);
	return 0;

err_free:
	pthread_mutex_unlock(&space->lock);
	free(p);
	return err;
}

int weir_fence_query(struct weir_fence *fence)
{
	struct weir_space *space = fence->space;
	int done;

	pthread_mutex_lock(&space->lock);
	space_progress(space);
	done = fence->done && fence->err ? fence->err : fence->done;
	pthread_mutex_unlock(&space->lock);
	return done;
}

/* What a prefetch is waited for with. */
struct fence_pass {
	const struct weir_fence *fence;
	fence_t own; /* what is being waited for is the last of its own copies on a path; else 0 */
	int err;     /* of these */
};

/* Until a prefetch is done, or there is nothing to wait for. */
static int fence_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	struct fence_pass *pass = arg;
	const struct weir_fence *p = pass->fence;

	if (pass->own && settle->err)
		pass->err = settle->err;
	pass->own = 0;
	if (p->done)
		return 0;
	if (!p->queued && settle_on_others(space, p->place, p->end - p->at, settle))
		return SETTLE_WAIT;
	/* What nothing is waited for any more stays where an open bracket holds it. */
	if (!p->queued)
		return settle_on_any(space, settle);
	for (uint32_t i = 0; i < space->nr_paths; i++) {
		struct path *path = &space->path[i];
		fence_t newest = p->fence[path->from];

		if (path->to != p->place || !(path->unfenced || migrate_pending(path, newest)) ||
		    !settle_on_path(space, path, settle))
			continue;
		pass->own = settle->fence == newest ? newest : 0;
		return SETTLE_WAIT;
	}
	return 0;
}

int weir_fence_wait(struct weir_fence *fence)
{
	struct weir_space *space = fence->space;
	struct fence_pass pass = {.fence = fence};
	int err;

	pthread_mutex_lock(&space->lock);
	space_progress(space);
	(void)space_settle(space, fence_pass, &pass);
	/* Somebody else may have retired the copy whose error the wait got. */
	err = fence->err = fence->err ? fence->err : pass.err;
	if (!err && fence->queued && !fence->done)
		err = -EIO; /* the driver refuses a fence for its copies, and said why */
	pthread_mutex_unlock(&space->lock);
	return err;
}

void weir_fence_put(struct weir_fence *fence)
{
	struct weir_space *space;

	if (!fence)
		return;
	space = fence->space;
	pthread_mutex_lock(&space->lock);
	fence_put(fence);
	pthread_mutex_unlock(&space->lock);
}

/* ------------------------------------------------------------------ explicit copies */

static void copy_end(struct weir_space *space, struct space_use *part, bool written)
{
	struct range *range = part->range;

	if (range->nr_replicated)
		space->shared_ops->filled(space, part, written);

	for (uint32_t i = part->first; i < part->first + part->nr; i++) {
		range->block[i].pins--;
		if (written)
			migrate_set_dead(space, range, &range->block[i], false);
	}
	range->part_pins -= part->nr;
}

static bool part_is_pinned(const struct weir_space *space, const struct space_use *part)
{
	for (uint32_t i = part->first; i < part->first + part->nr; i++)
		if (range_block_is_pinned(space, part->range, i))
			return true;
	return part->range->nr_discards != 0;
}

/* How far a part stands still. */
struct copy_pass {
	struct back_pass back;
	bool write, pinned;
	uint32_t nth; /* blocks that do */
};

/* Until a block stands still, and is not being cleaned if it is to be written. */
static int settle_on_block(struct weir_space *space, const struct block *block, bool write,
			   struct settle *settle)
{
	const struct copies *at = &block->at;

	if (!block_is_moving(block) && !(write && block_is_cleaning(block)))
		return 0;
	if (at->comparing && settle_on_compared(space, settle))
		return SETTLE_WAIT;
	if (settle_on_path(space,
			   at->source ? space_path(space, at->source->place, at->home->place)
				      : space_path(space, at->home->place, at->below->place),
			   settle))
		return SETTLE_WAIT;
	return space->error ? space->error : -EIO;
}

/* The blocks of the part are backed and pinned. */
static int copy_pin(struct weir_space *space, struct copy_pass *p, struct settle *settle)
{
	const struct space_use *part = &p->back.part;
	struct range *range = part->range;
	int err;

	if (space->shared) { /* what they copy is pinned */
		err = space->shared_ops->settle(space, settle);
		if (err)
			return err;
	}
	if (part_is_pinned(space, part) || order_is_open(space, part))
		return -EBUSY;
	p->back.nth = 0; /* what was backed before a wait may be no longer */
	err = settle_on_seq(space, range_newest_use(space, range), settle);
	if (!err)
		err = place_back(space, &p->back, settle);
	if (!err)
		err = migrate_flush(space);
	if (err)
		return err;
	for (uint32_t i = part->first; i < part->first + part->nr; i++)
		range->block[i].pins++;
	range->part_pins += part->nr;
	p->pinned = true;
	return 0;
}

/*
 * Make the part's blocks stand still: backed, pinned, then waited for. Pins come before these
 * waits, since a pinned block does not begin to move. What is written is not being cleaned,
 * either.
 */
static int copy_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	struct copy_pass *p = arg;
	const struct space_use *part = &p->back.part;
	int err = p->pinned ? 0 : copy_pin(space, p, settle);

	for (; !err && p->nth < part->nr; p->nth += !err) {
		uint32_t i = part->first + p->nth;

		err = settle_on_block(space, &part->range->block[i], p->write, settle);
		if (!err)
			err = migrate_mend(space, part->range, i);
	}
	if (!err && part->range->nr_replicated)
		err = space->shared_ops->fill(space, &p->back.part, settle);
	return err;
}

/* The same of a range of another kind, by its owner, whose turn to wait it is; the lock is dropped
 * meanwhile. */
static int copy_by_owner(struct weir_space *space, const struct space_use *part, const void *in,
			 void *out)
{
	struct range_owner *owner = part->range->owner;
	uint32_t number = part->range->number;
	int err;

	if (!in && !out)
		return -EINVAL;
	pthread_mutex_unlock(&space->lock);
	err = owner->kind->copy(owner, number, part->offset, in, out, part->bytes);
	pthread_mutex_lock(&space->lock);
	return err;
}

/* Copy in the direction that is given: in: to the range; out: from it. */
static int copy(struct weir_space *space, const void *addr, const void *in, void *out,
		uint64_t bytes, bool write)
{
	struct backend *b = space->backend;
	enum trace_kind kind = write ? TRACE_WRITE : TRACE_READ;
	struct copy_pass pass = {.write = write};
	struct space_use *part = &pass.back.part;
	place_t own = PLACE_OWN;
	uint64_t since_ns;
	int err;

	pthread_mutex_lock(&space->lock);
	since_ns = tracing_now(space);
	space_placing_begin(space);
	space_progress(space);
	err = resolve_part(space, addr, bytes, part);
	if (err || part->range->kind) {
		space_placing_end(space);
		if (!err) { /* it may be gone when the copy is done */
			tracing_part(space, kind, part, 0, since_ns);
			err = copy_by_owner(space, part, in, out);
		}
		goto out;
	}
	own = part->range->own; /* whose engine copies */
	part->kind = write ? WEIR_OVERWRITE : WEIR_READ;
	place_mark(space, part, 1);
	err = home_allow(space, part->range, own);
	if (!err)
		err = space_settle(space, copy_pass, &pass);
	space_placing_end(space);
	if (err) {
		if (pass.pinned)
			copy_end(space, part, false);
		goto out_settle;
	}
	pthread_mutex_unlock(&space->lock);
	if (write)
		err = b->ops->upload(b, space_path(space, space_host(space), own)->stream,
				     (void *)(uintptr_t)addr, in, bytes);
	else
		err = b->ops->download(b, space_path(space, own, space_host(space))->stream, out,
				       addr, bytes);
	pthread_mutex_lock(&space->lock);
	copy_end(space, part, write);
	space_progress(space);
	if (!err)
		tracing_part(space, kind, part, 0, since_ns);
out_settle:
	alloc_settle(space, part->range);
out:
	pthread_mutex_unlock(&space->lock);
	return err;
}

int weir_write(struct weir_space *space, void *addr, const void *data, uint64_t bytes)
{
	return copy(space, addr, data, NULL, bytes, true);
}

int weir_read(struct weir_space *space, void *data, const void *addr, uint64_t bytes)
{
	return copy(space, addr, NULL, data, bytes, false);
}
