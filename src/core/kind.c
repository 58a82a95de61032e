/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of other kinds than mapped ones, and what a space asks of their owners: see kind.h. */
#include "src/core/kind.h"

#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/core/tracing.h"

void space_owner_add_locked(struct weir_space *space, struct range_owner *owner,
			    const struct range_kind *kind, place_t place,
			    struct phys_client *client)
{
	owner->kind = kind;
	owner->place = place;
	owner->client = client;
	owner->nr_lent = 0;
	if (client)
		phys_client_adopt(client, &space->pmm[place].client);
	list_add_tail(&space->owners, &owner->link);
}

void space_owner_add(struct weir_space *space, struct range_owner *owner,
		     const struct range_kind *kind, place_t own, struct phys_client *client)
{
	pthread_mutex_lock(&space->lock);
	space_owner_add_locked(space, owner, kind, own, client);
	pthread_mutex_unlock(&space->lock);
}

/* What it has of the budget is its own from here on. */
void space_owner_del_locked(struct weir_space *space, struct range_owner *owner)
{
	pmm_lend_back(&space->pmm[owner->place], owner->nr_lent);
	owner->nr_lent = 0;
	list_del(&owner->link);
	if (owner->client)
		phys_client_adopt(owner->client, NULL);
}

void space_owner_del(struct weir_space *space, struct range_owner *owner)
{
	pthread_mutex_lock(&space->lock);
	space_owner_del_locked(space, owner);
	pthread_mutex_unlock(&space->lock);
}

/* Free ranges that were removed while brackets named them, and that none names any more. */
static void free_removed(struct weir_space *space)
{
	struct range **at = &space->removed;

	while (*at) {
		struct range *range = *at;

		if (range_is_named(space, range) || range->last_use > space->done_seq) {
			at = &range->next_pooled;
			continue;
		}
		*at = range->next_pooled;
		free(range);
	}
}

int space_range_add_locked(struct weir_space *space, struct range_owner *owner, uint32_t number,
			   void *addr, uint64_t bytes, struct range **out)
{
	struct range *range;
	int err;

	free_removed(space);
	err = range_create_bare(space, addr, bytes, &range);
	if (err)
		return err;
	range->kind = owner->kind;
	range->owner = owner;
	range->number = number;
	tracing_kind_add(space, range);
	*out = range;
	return 0;
}

int space_range_add(struct weir_space *space, struct range_owner *owner, uint32_t number,
		    void *addr, uint64_t bytes, struct range **out)
{
	int err;

	pthread_mutex_lock(&space->lock);
	err = space_range_add_locked(space, owner, number, addr, bytes, out);
	pthread_mutex_unlock(&space->lock);
	return err;
}

void space_range_del_locked(struct weir_space *space, struct range *range)
{
	range_forget(space, range);
	tracing_free(space, tracing_life_take(space, range, 0), NULL, tracing_now(space));
	range->owner = NULL;
	range->next_pooled = space->removed;
	space->removed = range;
}

void space_range_del(struct weir_space *space, struct range *range)
{
	pthread_mutex_lock(&space->lock);
	space_range_del_locked(space, range);
	space_progress(space);
	free_removed(space);
	pthread_mutex_unlock(&space->lock);
}

void space_owners_fini(struct weir_space *space)
{
	while (!list_empty(&space->owners)) {
		struct range_owner *owner = (struct range_owner *)space->owners.next;

		log_error("space: destroyed before %s pool that has ranges in it: destroy that "
			  "first",
			  owner->kind->name);
		for (uint32_t r = space->nr_ranges; r-- > 0;)
			if (space->range[r]->owner == owner)
				space_range_del_locked(space, space->range[r]);
		space_owner_del_locked(space, owner);
		pthread_mutex_unlock(&space->lock);
		owner->kind->destroy(owner);
		pthread_mutex_lock(&space->lock);
	}
	while (space->removed) { /* also those that brackets name which were never ended */
		struct range *range = space->removed;

		space->removed = range->next_pooled;
		free(range);
	}
}

int kinds_ready(struct weir_space *space, struct kinds_pass *p, struct stream_slot *slot,
		struct settle *settle)
{
	for (; p->use < slot->uses.nr; p->use++) {
		struct space_use *use = &slot->uses.use[p->use];
		struct range *range = use->range;
		int err;

		if (!range->kind || use->kind == WEIR_DISCARD)
			continue;
		if (range->owner && !range->kind->ready)
			continue;
		if (!range->owner) {
			log_error("begin: %s range at %p was removed meanwhile", range->kind->name,
				  range->addr);
			return -EINVAL;
		}
		if (!p->ready.owner)
			p->ready = (struct range_ready){.owner = range->owner,
							.stream = slot->stream,
							.number = range->number};
		err = range->kind->ready(space, &p->ready, settle);
		if (err)
			return err;
		use->ready = true;
		p->ready.owner = NULL;
	}
	return 0;
}

void kinds_release(struct weir_space *space, struct stream_slot *slot)
{
	/* The uses are the slot's, which is open or being placed: nobody else changes them. */
	for (uint32_t u = 0; u < slot->uses.nr; u++) {
		struct space_use *use = &slot->uses.use[u];
		struct range_owner *owner = use->range->owner;
		int err;

		if (!use->ready)
			continue;
		use->ready = false;
		if (!owner)
			continue;
		pthread_mutex_unlock(&space->lock);
		err = owner->kind->release(owner, use->range->number, slot->stream);
		pthread_mutex_lock(&space->lock);
		space_note_error(space, err);
	}
}

int kinds_refuse(const struct space_use *uses, uint32_t nr, const char *what)
{
	for (uint32_t u = 0; u < nr; u++) {
		const struct range *range = uses[u].range;

		if (!range->kind)
			continue;
		log_error("%s of %s range at %p: that is for ranges of weir_alloc() alone", what,
			  range->kind->name, range->addr);
		return -ENOTSUP;
	}
	return 0;
}

/* What is lent is what owners have, and they hold no more memory than that. */
static int check_lent(const struct weir_space *space)
{
	uint64_t nr_lent[PLACES_MAX] = {0};

	for (const struct list_link *l = space->owners.next; l != &space->owners; l = l->next) {
		const struct range_owner *owner = (const struct range_owner *)l;

		nr_lent[owner->place] += owner->nr_lent;
		if (owner->client &&
		    phys_held(owner->client) > owner->nr_lent * space->block_bytes) {
			log_error("space: %s holds more of its budget than was lent to it",
				  owner->client->name);
			return -EUCLEAN;
		}
	}
	for (uint32_t place = 0; place < space->nr_places; place++)
		if (nr_lent[place] != space->pmm[place].nr_lent) {
			log_error("space: %llu chunks are lent, %llu counted",
				  (unsigned long long)space->pmm[place].nr_lent,
				  (unsigned long long)nr_lent[place]);
			return -EUCLEAN;
		}
	return 0;
}

int kinds_check(const struct weir_space *space)
{
	if (check_lent(space))
		return -EUCLEAN;
	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		const struct range *range = space->range[r];
		int err = 0;

		if (!range->kind)
			continue;
		if (range->nr_blocks || range->pooled || !range->owner || !range->bytes) {
			log_error("range %p: %s one that has blocks, or no owner", range->addr,
				  range->kind->name);
			return -EUCLEAN;
		}
		if (range->kind->check)
			err = range->kind->check(space, range);
		if (err)
			return err;
	}
	return 0;
}

void kinds_query(const struct weir_space *space, struct weir_space_stats *out)
{
	for (uint32_t r = 0; r < space->nr_ranges; r++)
		if (space->range[r]->kind && space->range[r]->kind->query)
			space->range[r]->kind->query(space->range[r], out);
}
