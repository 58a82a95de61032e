/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of a space's budget that owners of ranges have: see kind.h. */
#include <errno.h>

#include "src/core/kind.h"

/* One chunk more. -EAGAIN: one must become free first; -ENOMEM: the space needs them all. */
static int lend_one(struct weir_space *space, struct range_owner *owner)
{
	struct pmm *pmm = &space->pmm[owner->place];

	if (pmm->max_chunks <= SPACE_CHUNKS_LEAST || !space_has_room(space, 1))
		return -ENOMEM;
	if (!pmm_lend(pmm))
		return -EAGAIN;
	owner->nr_lent++;
	return 0;
}

bool space_lend_try(struct weir_space *space, struct range_owner *owner, uint64_t nr)
{
	uint64_t before;
	bool enough;

	pthread_mutex_lock(&space->lock);
	before = owner->nr_lent;
	while (owner->nr_lent < nr && !lend_one(space, owner))
		;
	enough = owner->nr_lent >= nr;
	if (owner->nr_lent > before)
		space->ops->resized(space);
	pthread_mutex_unlock(&space->lock);
	return enough;
}

struct lend_pass {
	struct range_owner *owner;
	uint64_t nr; /* that it is to have */
};

/* lend_one() where chunks may be free that some address still shows: these are unmapped. */
static int lend_shown(struct weir_space *space, struct range_owner *owner)
{
	int err = lend_one(space, owner);

	while (err == -EAGAIN && migrate_drop_stale(space))
		err = lend_one(space, owner);
	return err;
}

/* A part of a pass: until an owner has so many. */
static int lend_until(struct weir_space *space, struct range_owner *owner, uint64_t nr,
		      struct settle *settle)
{
	while (owner->nr_lent < nr) {
		uint64_t left = nr - owner->nr_lent;
		struct chunk *chunk;
		int err = lend_shown(space, owner);

		if (!err)
			continue;
		if (err != -EAGAIN)
			return err;
		if (owner->place >= space->nr_devices) /* the modes make room in devices' own */
			return -ENOMEM;
		err = space->ops->make_room(space, owner->place, (uint32_t)left, settle, &chunk);
		if (err)
			return err;
		if (!chunk)
			return -ENOMEM;
		pmm_chunk_put(&space->pmm[owner->place], chunk);
		/* Launches may still use it where it was: then they are waited for. */
		if (lend_shown(space, owner))
			return settle_on_any(space, settle) ? SETTLE_WAIT : -ENOMEM;
	}
	return 0;
}

static int lend_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	const struct lend_pass *p = arg;

	return lend_until(space, p->owner, p->nr, settle);
}

int space_lend_more(struct weir_space *space, struct range_owner *owner, uint64_t nr, uint64_t more,
		    struct settle *settle)
{
	uint64_t before = owner->nr_lent;
	int err = lend_until(space, owner, nr, settle);

	while (!err && owner->nr_lent < nr + more && !lend_one(space, owner))
		;
	if (owner->nr_lent > before)
		space->ops->resized(space);
	return err;
}

bool space_lend(struct weir_space *space, struct range_owner *owner, uint64_t nr, bool turn)
{
	struct lend_pass pass = {.owner = owner, .nr = nr};
	uint64_t before;
	bool lent;

	pthread_mutex_lock(&space->lock);
	if (!turn)
		space_placing_begin(space);
	before = owner->nr_lent;
	(void)space_settle(space, lend_pass, &pass);
	space_note_error(space, migrate_flush(space)); /* of what is evicted */
	lent = owner->nr_lent > before;
	if (lent)
		space->ops->resized(space);
	if (!turn)
		space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return lent;
}

bool space_lend_free(struct weir_space *space, struct range_owner *owner)
{
	if (lend_shown(space, owner))
		return false;
	space->ops->resized(space);
	return true;
}

void space_lend_back_locked(struct weir_space *space, struct range_owner *owner, uint64_t nr)
{
	if (owner->nr_lent <= nr)
		return;
	pmm_lend_back(&space->pmm[owner->place], owner->nr_lent - nr);
	owner->nr_lent = nr;
	space->ops->resized(space);
}

void space_lend_back(struct weir_space *space, struct range_owner *owner, uint64_t nr)
{
	pthread_mutex_lock(&space->lock);
	space_lend_back_locked(space, owner, nr);
	pthread_mutex_unlock(&space->lock);
}

bool space_ask_owners_of(struct weir_space *space, place_t place, uint64_t nr)
{
	struct pmm *pmm = &space->pmm[place];
	uint64_t before = pmm->max_chunks;

	if (!pmm->nr_lent)
		return false;
	pthread_mutex_unlock(&space->lock);
	(void)phys_reclaim_own(&pmm->client, nr * pmm->chunk_bytes);
	pthread_mutex_lock(&space->lock);
	space_progress(space);
	return pmm->max_chunks > before;
}

bool space_ask_owners(struct weir_space *space, uint64_t nr)
{
	bool more = false;

	for (uint32_t place = 0; place < space->nr_places && !more; place++)
		more = space_ask_owners_of(space, (place_t)place, nr);
	return more;
}
