/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir_space_set_budget(): the budget of a memory while the space is in use. A larger one costs
 * nothing. Of a smaller one, what is unused goes first, then blocks that leave without a copy, then
 * others, to the next place with room; the budget binds at once for whatever is taken meanwhile.
 * What open brackets hold, or a fixed space, leaves when that ends: budget_advance() sees to it.
 */
#include <errno.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/core/kind.h"
#include "src/core/tracing.h"
#include "src/residency/residency.h"

/* Blocks that leave a place at a time: enough to keep the link busy, few enough that their mapping
 * calls, and making chunks for them, do not keep others from the space for long. */
#define LEAVING_MAX (UINT64_C(2) * SPACE_BATCH_MAX)

/* Others of the machine may have room for a block that finds none at any other place. */
static int settle_on_elsewhere(const struct weir_space *space, place_t from, struct settle *settle)
{
	uint64_t nr = pmm_nr_beyond(&space->pmm[from]);

	for (uint32_t place = from; place-- > 0;)
		if (settle_on_others(space, (place_t)place, nr, settle))
			return SETTLE_WAIT;
	return settle_on_others_below(space, PLACE_OWN, from, settle);
}

/* Have one more block leave, or wait for those that do. */
static int leave_more(struct weir_space *space, place_t place, struct settle *settle)
{
	uint64_t most = pmm_nr_beyond(&space->pmm[place]);
	int err = 0, err_flush;

	if (space->mode == WEIR_FIXED)
		return -EBUSY;
	if (space_nr_to_leave(space, place) < MIN(most, LEAVING_MAX)) {
		err = room_leave(space, place);
		if (err != -EAGAIN && err != -ENOSPC)
			return err;
	}
	err_flush = migrate_flush(space);
	if (err_flush)
		return err_flush;
	if (err == -ENOSPC && settle_on_elsewhere(space, place, settle))
		return SETTLE_WAIT;
	if (settle_on_leaving(space, place, settle) || settle_on_any(space, settle))
		return SETTLE_WAIT;
	if (migrate_drop_stale(space))
		return 0;
	return err == -ENOSPC ? -ENOMEM : -EBUSY;
}

/* Until nothing is beyond a place's budget. */
static int budget_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	place_t place = *(const place_t *)arg;
	struct pmm *pmm = &space->pmm[place];
	int err = 0;

	while (!err) {
		(void)pmm_give(pmm, pmm_nr_beyond(pmm) * pmm->chunk_bytes);
		if (!pmm_nr_beyond(pmm))
			return 0;
		/* Free chunks that some address still shows come before what would have to move. */
		if (!migrate_drop_stale(space) && !room_free(space, place, true))
			err = leave_more(space, place, settle);
	}
	return err;
}

/* Whether any place has more chunks than its budget. */
static bool is_beyond(const struct weir_space *space)
{
	for (uint32_t place = 0; place < space->nr_places; place++)
		if (pmm_nr_beyond(&space->pmm[place]))
			return true;
	return false;
}

int budget_settle(struct weir_space *space, struct settle *settle)
{
	bool waits = false;

	for (uint32_t p = 0; p < space->nr_places; p++) {
		place_t place = (place_t)p;
		int err = 0;

		if (pmm_nr_beyond(&space->pmm[place]))
			err = budget_pass(space, &place, settle);
		waits |= err == SETTLE_WAIT;
		if (err < 0 && err != -EBUSY && err != -ENOMEM)
			space_note_error(space, err);
	}
	return waits ? SETTLE_WAIT : 0;
}

void budget_advance(struct weir_space *space)
{
	struct settle unused = {0};

	/* Nearly always; every bracket asks. */
	if (!is_beyond(space))
		return;
	(void)budget_settle(space, &unused);
}

/* Chunks of a place that arenas hold, which never leave it. */
static uint64_t nr_in_arenas(const struct weir_space *space, place_t place)
{
	uint64_t nr = 0;

	for (uint32_t r = 0; r < space->nr_ranges; r++)
		if (space->range[r]->arena)
			nr += space->range[r]->nr_home[place];
	return nr;
}

/* Whether all that is allocated has a place if this one has so many chunks. */
static int check_total(const struct weir_space *space, place_t place, uint64_t nr)
{
	const struct pmm *pmm = &space->pmm[place];
	uint64_t others = space_nr_chunks(space) - pmm->max_chunks;

	nr -= pmm->nr_lent;
	if (nr >= pmm->max_chunks || others + nr >= space->nr_live_blocks + SPACE_CHUNKS_SPARE)
		return 0;
	log_error("space: with %.3f MB of %s, the budgets are below the %.3f MB that are allocated "
		  "and %.3f MB for copies: free something first",
		  (double)(nr * space->block_bytes) / 1e6,
		  space->backend->desc.memory[pmm->memory].name,
		  (double)(space->nr_live_blocks * space->block_bytes) / 1e6,
		  (double)(SPACE_CHUNKS_SPARE * space->block_bytes) / 1e6);
	return -ENOMEM;
}

/* What replicated ranges have of a place goes elsewhere, as far as that is needed. */
struct spill_pass {
	place_t place;
	uint64_t nr; /* chunks that the space is to have, with those that are lent */
};

static int spill_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	const struct spill_pass *p = arg;
	const struct pmm *pmm = &space->pmm[p->place];
	uint64_t beyond = pmm->nr_lent + SPACE_CHUNKS_LEAST - p->nr;

	return pmm->nr_lent + SPACE_CHUNKS_LEAST <= p->nr
		       ? 0
		       : space->shared_ops->spill(space, p->place, beyond, settle);
}

/* Owners of ranges in the space leave it so many chunks of a place, and give back what they do not
 * use for that. Drops the lock. */
static int check_lent(struct weir_space *space, place_t place, uint64_t nr)
{
	struct pmm *pmm = &space->pmm[place];
	struct spill_pass pass = {place, nr};

	if (pmm->nr_lent && pmm->nr_lent + SPACE_CHUNKS_LEAST > nr)
		(void)space_ask_owners_of(space, place, pmm->nr_lent + SPACE_CHUNKS_LEAST - nr);
	if (space->shared)
		(void)space_settle(space, spill_pass, &pass);
	if (!pmm->nr_lent || pmm->nr_lent + SPACE_CHUNKS_LEAST <= nr)
		return 0;
	log_error("space: paged pools and replicas have %.3f MB of the budget of %s: give them "
		  "less first",
		  (double)(pmm->nr_lent * space->block_bytes) / 1e6,
		  space->backend->desc.memory[pmm->memory].name);
	return -ENOMEM;
}

/* Whether a place may have so many chunks. */
static int check_chunks(const struct weir_space *space, place_t place, uint64_t nr)
{
	const char *name = space->backend->desc.memory[space->pmm[place].memory].name;
	bool needed = place < space->nr_devices || place == space_host(space);
	uint64_t arenas = nr_in_arenas(space, place);

	if (nr < SPACE_CHUNKS_LEAST && (nr || needed)) {
		log_error("space: the budget of %s is below two blocks", name);
		return -EINVAL;
	}
	if (nr >= arenas + space->pmm[place].nr_lent)
		return check_total(space, place, nr);
	log_error("space: the budget of %s is below %.3f MB, which allocations below one block "
		  "hold there: free some of them first",
		  name, (double)(arenas * space->block_bytes) / 1e6);
	return -EINVAL;
}

void budget_log_full(struct weir_machine *machine, uint32_t memory, uint64_t bytes, uint64_t room)
{
	struct backend *b = machine_backend(machine);
	char here[PHYS_HOLDERS_MAX], others[256];

	phys_holders(phys_of(machine, memory), here);
	b->observe->memory_holders(b, memory, others, sizeof(others));
	log_error("space: a budget of %.1f MB is beyond the %.1f MB that can be had of %s: ask for "
		  "less, or have others give some back (%s%s%s)",
		  (double)bytes / 1e6, (double)room / 1e6, b->desc.memory[memory].name, here,
		  others[0] ? "; " : "", others);
}

/* Whether the machine has so much for a place; *bytes 0: becomes all that it has. What others hold
 * and do not use they give back. Drops the lock. */
static int check_room(struct weir_space *space, place_t place, uint64_t *bytes)
{
	struct pmm *pmm = &space->pmm[place];
	const struct weir_memory_desc *desc = &space->backend->desc.memory[pmm->memory];
	uint64_t held = (pmm->nr_created + pmm->nr_lent) * pmm->chunk_bytes;
	uint64_t room = phys_room(pmm->client.memory);

	if (!*bytes)
		*bytes = MIN(held + room, desc->bytes);
	if (*bytes > desc->bytes) {
		log_error("space: a budget of %.1f MB is beyond memory '%s', which has %.1f MB",
			  (double)*bytes / 1e6, desc->name, (double)desc->bytes / 1e6);
		return -EINVAL;
	}
	if (*bytes > held && *bytes - held > room) {
		pthread_mutex_unlock(&space->lock);
		(void)phys_reclaim(&pmm->client, *bytes - held);
		pthread_mutex_lock(&space->lock);
		held = (pmm->nr_created + pmm->nr_lent) * pmm->chunk_bytes;
		room = phys_room(pmm->client.memory);
	}
	if (*bytes <= held + room)
		return 0;
	budget_log_full(space->machine, pmm->memory, *bytes, held + room);
	return -ENOMEM;
}

/* Why chunks beyond a lower budget stay. */
static void log_beyond(const struct weir_space *space, const struct pmm *pmm, int err)
{
	const char *name = space->backend->desc.memory[pmm->memory].name;
	double mb = (double)(pmm_nr_beyond(pmm) * pmm->chunk_bytes) / 1e6;

	if (err == -EBUSY)
		log_warning("space: %.3f MB of %s are beyond its new budget: %s them; they go "
			    "when that ends",
			    mb, name,
			    space->mode == WEIR_FIXED ? "the fixed space holds"
						      : "open brackets hold");
	else if (err == -ENOMEM)
		log_error("space: %.3f MB of %s have nowhere else to be: free something, or give "
			  "the space more of another memory",
			  mb, name);
}

static int set_budget(struct weir_space *space, place_t place, uint64_t bytes)
{
	struct pmm *pmm = &space->pmm[place];
	uint64_t old = pmm->max_chunks + pmm->nr_lent;
	bool all = !bytes && (place < space->nr_devices || place == space_host(space));
	int err = bytes || all ? check_room(space, place, &bytes) : 0;

	if (!err)
		err = check_lent(space, place, bytes / space->block_bytes);
	if (!err)
		err = check_chunks(space, place, bytes / space->block_bytes);
	if (err)
		return err;
	pmm_set_budget(pmm, bytes / space->block_bytes);
	if (bytes / space->block_bytes != old)
		space->ops->resized(space);
	err = space_settle(space, budget_pass, &place);
	if (!err)
		return 0;
	log_beyond(space, pmm, err);
	if (err != -EBUSY)
		pmm_set_budget(pmm, old);
	return err;
}

int weir_space_set_budget(struct weir_space *space, uint32_t memory, uint64_t bytes)
{
	int err = -EINVAL, place;
	uint64_t since_ns;

	pthread_mutex_lock(&space->lock);
	since_ns = tracing_now(space);
	space_placing_begin(space);
	space_progress(space);
	place = space_place(space, memory);
	if (place < 0)
		log_error("space: it was made without a budget of memory %u", memory);
	else
		err = set_budget(space, (place_t)place, bytes);
	if (!err || err == -EBUSY)
		tracing_budget(space, (place_t)place, since_ns);
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}
