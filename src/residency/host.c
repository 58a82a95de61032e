/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets on the host: the contract of weir_host_begin() and weir_host_end(). Each block is
 * brought home, pinned, and opened to the CPU; what was refused is refused before anything is given
 * up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/kind.h"
#include "src/core/tracing.h"
#include "src/residency/residency.h"

/* How far the blocks that a host bracket names are: each stage of them all, one after the other. */
enum host_stage {
	HOST_REFUSE, /* all that can be is refused, before anything is given up as overwritten */
	HOST_PIN,    /* at home, or on the way there; pinned */
	HOST_ARRIVE,
	HOST_FILL, /* replicated: with what was written last */
	HOST_READY
};

struct host_pass {
	struct space_use *uses;
	uint32_t nr_uses;
	enum host_stage stage;
	uint32_t use, nth; /* the use, and its block, that the stage is at */
	bool drop;	   /* contents that are overwritten need not come */
};

/* Until no launch uses the block and it stands still. -EBUSY: an open bracket on a stream names it,
 * or it is elsewhere in a fixed space, where nothing moves. */
static int host_still(struct weir_space *space, const struct range *range, uint32_t i,
		      struct settle *settle)
{
	const struct block *block = &range->block[i];
	int err;

	if (range_is_pinned(space, range) || range->nr_discards || block->pins > block->host_pins)
		return -EBUSY;
	err = settle_on_seq(space, range_block_last_use(space, range, i), settle);
	if (err)
		return err;
	if (block_is_moving(block) || block_is_cleaning(block)) {
		err = migrate_flush(space);
		if (!err)
			err = settle_on_any(space, settle);
		return err ? err : space->error ? space->error : -EIO;
	}
	if (space->mode == WEIR_FIXED && block_is_backed(block) &&
	    !block_is_at(block, space_host(space)))
		return -EBUSY;
	return 0;
}

/* Whether the host's memory has the block's contents. */
static bool is_at_host(const struct weir_space *space, const struct block *block)
{
	return block_is_at(block, space_host(space)) || block_is_clean_at(block, space_host(space));
}

/* Until the host has a chunk to spare for the block, if it needs one. */
static int host_room(struct weir_space *space, const struct block *block, struct settle *settle)
{
	struct chunk *chunk;
	int err;

	if (block_is_backed(block) && is_at_host(space, block))
		return 0;
	chunk = room_try(space, space_host(space));
	pmm_chunk_put(&space->pmm[space_host(space)], chunk);
	if (chunk)
		return 0;
	if (settle_on_others(space, space_host(space), 1, settle))
		return SETTLE_WAIT;
	err = migrate_flush(space);
	if (!err)
		err = settle_on_any(space, settle);
	return err ? err : -ENOMEM;
}

/* Bring one block, which stands still, home; there is a chunk for it if it needs one. */
static int host_fetch(struct weir_space *space, const struct space_use *use, uint32_t i, bool drop)
{
	struct range *range = use->range;
	struct block *block = &range->block[i];
	bool freed;
	int err;

	if (drop && use->kind == WEIR_OVERWRITE && use_covers(use, i) && !block->pins)
		migrate_set_dead(space, range, block, true);
	if (block_is_backed(block) && !block_is_at(block, space_host(space))) {
		err = room_send(space, range, i, space_host(space), WEIR_CAUSE_DEMAND, &freed);
		if (err)
			return err == -ENOSPC ? -ENOMEM : err;
	}
	if (!block_is_backed(block)) {
		struct chunk *chunk = room_try(space, space_host(space));

		if (!chunk)
			return -ENOMEM;
		err = migrate_back(space, range, i, chunk);
		if (err)
			return err;
	}
	return migrate_mend(space, range, i);
}

/* Undo host pins of the first nr_blocks blocks of a use. */
static void host_unpin(struct weir_space *space, const struct space_use *use, uint32_t nr_blocks)
{
	struct range *range = use->range;

	for (uint32_t n = 0; n < nr_blocks; n++) {
		uint32_t i = use->first + n;
		struct block *block = &range->block[i];

		block->pins--;
		range->part_pins--;
		if (--block->host_pins == 0 && !block_is_unmapped(block))
			space_note_error(space, migrate_set_access(space, range, i, false));
	}
	alloc_settle(space, range);
}

static int host_pin(struct weir_space *space, const struct host_pass *p, struct settle *settle)
{
	const struct space_use *use = &p->uses[p->use];
	struct range *range = use->range;
	uint32_t i = use->first + p->nth;
	int err = host_still(space, range, i, settle);

	if (!err)
		err = host_room(space, &range->block[i], settle);
	if (!err)
		err = host_fetch(space, use, i, p->drop);
	if (!err && !range->block[i].host_pins)
		err = migrate_set_access(space, range, i, true);
	if (err)
		return err;
	range->block[i].host_pins++;
	range->block[i].pins++;
	range->part_pins++;
	if (p->nth == use->nr - 1)
		bracket_expect_writes(space, use);
	return 0;
}

/* Until the copy home is done. */
static int host_arrive(struct weir_space *space, const struct block *block, struct settle *settle)
{
	int err = migrate_flush(space);

	if (!err && block_is_moving(block))
		err = settle_on_coming(space, space_host(space), settle);
	if (err)
		return err;
	/* A flush that failed, maybe another thread's, put it back; or no fence is to be had, and
	 * when it will be there is not known. */
	if (!block_is_settled_at(block, space_host(space)))
		return space->error ? space->error : -EIO;
	return 0;
}

static int host_block(struct weir_space *space, const struct host_pass *p, struct settle *settle)
{
	struct space_use *use = &p->uses[p->use];
	uint32_t i = use->first + p->nth;

	if (p->stage == HOST_FILL) /* all of it at once */
		return use->range->nr_replicated && !p->nth
			       ? space->shared_ops->fill(space, use, settle)
			       : 0;
	switch (p->stage) {
	case HOST_REFUSE:
		return order_is_open(space, use) ? -EBUSY
						 : host_still(space, use->range, i, settle);
	case HOST_PIN:
		return host_pin(space, p, settle);
	default:
		return host_arrive(space, &use->range->block[i], settle);
	}
}

/* Whether the host has a chunk for each block that is named. */
static bool has_room_for_all(const struct weir_space *space, const struct host_pass *p)
{
	uint64_t nr_blocks = 0;

	for (uint32_t u = 0; u < p->nr_uses; u++)
		nr_blocks += p->uses[u].nr;
	return pmm_nr_available(&space->pmm[space_host(space)]) >= nr_blocks;
}

static int host_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	struct host_pass *p = arg;

	if (p->stage == HOST_REFUSE && space->shared) { /* what they copy is pinned */
		int err = space->shared_ops->settle(space, settle);

		if (err)
			return err;
	}
	for (; p->stage != HOST_READY; p->stage++, p->use = 0) {
		if (p->stage == HOST_PIN && !p->use && !p->nth)
			p->drop = has_room_for_all(space, p);
		for (; p->use < p->nr_uses; p->use++, p->nth = 0)
			for (; p->nth < p->uses[p->use].nr; p->nth++) {
				int err = host_block(space, p, settle);

				if (err)
					return err;
			}
	}
	return 0;
}

static int host_begin_locked(struct weir_space *space, struct space_use *uses, uint32_t nr_uses)
{
	struct host_pass pass = {.uses = uses, .nr_uses = nr_uses};
	int err = space_settle(space, host_pass, &pass);

	if (!err) {
		space->nr_open++;
		space->nr_host_open++;
		return 0;
	}
	(void)migrate_flush(space);
	if (pass.stage == HOST_REFUSE)
		return err;
	for (uint32_t u = nr_uses; u-- > 0;) {
		uint32_t nr = pass.stage > HOST_PIN || u < pass.use ? uses[u].nr
			      : u == pass.use			    ? pass.nth
								    : 0;

		if (uses[u].range->nr_replicated)
			space->shared_ops->filled(space, &uses[u], false);
		if (nr)
			host_unpin(space, &uses[u], nr);
	}
	return err;
}

static void bracket_destroy(struct host_bracket *bracket)
{
	free(bracket->use);
	free(bracket);
}

static struct host_bracket *bracket_create(const struct weir_use *uses, uint32_t nr_uses)
{
	struct host_bracket *bracket =
		calloc(1, sizeof(*bracket) + nr_uses * sizeof(bracket->declared[0]));

	if (!bracket)
		return NULL;
	bracket->nr = nr_uses;
	memcpy(bracket->declared, uses, nr_uses * sizeof(*uses));
	bracket->use = calloc(nr_uses, sizeof(*bracket->use));
	if (bracket->use)
		return bracket;
	free(bracket);
	return NULL;
}

/* Whether the plans of a device may have one of the ranges that a bracket names. */
static bool is_of(const struct planner *p, const struct host_bracket *bracket)
{
	for (uint32_t u = 0; u < bracket->nr; u++)
		if (bracket->use[u].range->residency->planner == p)
			return true;
	return false;
}

/* In the record of each device that uses some of it. */
static void record_host(struct weir_space *space, const struct host_bracket *bracket)
{
	for (uint32_t d = 0; d < space->nr_devices; d++) {
		struct planner *p = &space->residency->planner[d];

		if (is_of(p, bracket))
			(void)bracket_record(space, p, EVENT_HOST, NULL, bracket->use, bracket->nr);
	}
}

int weir_host_begin(struct weir_space *space, const struct weir_use *uses, uint32_t nr_uses)
{
	struct host_bracket *bracket;
	uint64_t since_ns;
	int err;

	if (!uses || !nr_uses)
		return -EINVAL;
	bracket = bracket_create(uses, nr_uses);
	if (!bracket)
		return -ENOMEM;
	pthread_mutex_lock(&space->lock);
	since_ns = tracing_now(space);
	space_placing_begin(space);
	err = bracket_resolve(space, uses, nr_uses, bracket->use);
	for (uint32_t u = 0; !err && u < nr_uses; u++)
		bracket->use[u].atomic = false; /* it is ordered with every other */
	if (!err)
		err = kinds_refuse(bracket->use, nr_uses, "weir_host_begin()");
	if (err)
		goto out;
	place_mark(space, bracket->use, nr_uses);
	space_progress(space);
	record_host(space, bracket);
	err = host_begin_locked(space, bracket->use, nr_uses);
	if (!err) {
		bracket->next = space->residency->host;
		bracket->traced = tracing_host_begin(space, bracket->use, nr_uses, since_ns);
		space->residency->host = bracket;
	}
out:
	space_placing_end(space);
	/* What was freed meanwhile, and is named by nobody, since this failed. */
	for (uint32_t u = 0; u < nr_uses; u++)
		if (bracket->use[u].range)
			alloc_settle(space, bracket->use[u].range);
	pthread_mutex_unlock(&space->lock);
	if (err)
		bracket_destroy(bracket);
	return err;
}

/* Whether the bracket was opened with these uses. */
static bool is_same(const struct host_bracket *bracket, const struct weir_use *uses,
		    uint32_t nr_uses)
{
	bool same = bracket->nr == nr_uses;

	for (uint32_t u = 0; same && u < nr_uses; u++)
		same = bracket->declared[u].addr == uses[u].addr &&
		       bracket->declared[u].bytes == uses[u].bytes &&
		       bracket->declared[u].kind == uses[u].kind;
	return same;
}

int weir_host_end(struct weir_space *space, const struct weir_use *uses, uint32_t nr_uses)
{
	struct host_bracket **at = &space->residency->host, *bracket;
	uint64_t since_ns;

	if (!uses || !nr_uses)
		return -EINVAL;
	pthread_mutex_lock(&space->lock);
	since_ns = tracing_now(space);
	while (*at && !is_same(*at, uses, nr_uses))
		at = &(*at)->next;
	bracket = *at;
	if (bracket) {
		*at = bracket->next;
		for (uint32_t u = 0; u < nr_uses; u++) {
			if (bracket->use[u].range->nr_replicated)
				space->shared_ops->filled(space, &bracket->use[u], true);
			host_unpin(space, &bracket->use[u], bracket->use[u].nr);
		}
		space->nr_open--;
		space->nr_host_open--;
		space_progress(space);
		tracing_host_end(space, bracket->traced, since_ns);
	}
	pthread_mutex_unlock(&space->lock);
	if (!bracket)
		return -WEIR_ECONTRACT;
	bracket_destroy(bracket);
	return 0;
}

void host_cancel(struct weir_space *space)
{
	while (space->residency->host) {
		struct host_bracket *bracket = space->residency->host;

		space->residency->host = bracket->next;
		bracket_destroy(bracket);
	}
}
