/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks and views. A device gets a copy of its own of the granules that its brackets name, as
 * they first do, and keeps it: after that a bracket finds all of its part in its window, and no
 * mapping call is made. Where there is no room for it, the window shows another device's copy, or
 * one in the host's memory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/replica/parcel.h"

/* ------------------------------------------------------------------ views */

static char *window_addr(const struct replica *r, place_t own, uint32_t g)
{
	return (char *)r->window[own]->addr + g * r->replicas->granule_bytes;
}

static void view_set(struct replica *r, place_t own, uint32_t g, uint8_t copy)
{
	uint32_t was = replica_borrows(r, own, g), is;

	r->view[own][g] = copy;
	is = replica_borrows(r, own, g);
	r->nr_borrowed += is - was;
	r->replicas->memory[own].nr_borrowed += is - was;
}

/* The calls of view_change(). */
static int view_calls(struct weir_space *space, struct replica *r, place_t own, uint32_t g,
		      uint8_t copy)
{
	struct backend *b = space->backend;
	int err = 0;

	if (r->view[own][g] != COPY_NONE) {
		space->nr_calls++;
		err = b->ops->unmap(b, window_addr(r, own, g));
	}
	if (err)
		return err;
	view_set(r, own, g, COPY_NONE);
	space->stats.nr_remaps++;
	if (copy == COPY_NONE)
		return 0;
	space->nr_calls++;
	err = b->ops->map(b, window_addr(r, own, g), &r->chunk[copy][g].backend, BACKEND_PROT_WRITE,
			  BACKEND_DEVICE_BIT(space->device[own]));
	if (!err)
		view_set(r, own, g, copy);
	return err;
}

/* Have a window show a copy, or nothing. The window is idle there. */
static int view_change(struct weir_space *space, struct replica *r, place_t own, uint32_t g,
		       uint8_t copy)
{
	struct backend *b = space->backend;
	uint64_t since_ns;
	int err;

	if (r->view[own][g] == copy)
		return 0;
	since_ns = b->ops->now_ns(b);
	err = view_calls(space, r, own, g, copy);
	space->calls_ns += b->ops->now_ns(b) - since_ns;
	return err;
}

/* ------------------------------------------------------------------ chunks */

/* Give a chunk back; no window shows it and nothing that is current is in it alone. */
static void chunk_drop(struct weir_space *space, struct replica *r, uint8_t copy, uint32_t g)
{
	struct replica_chunk *chunk = &r->chunk[copy][g];
	uint64_t granule = r->replicas->granule_bytes;

	pieces_drop(r, g * granule, MIN((g + 1) * granule, r->bytes), copy);
	chunks_put(space, copy, chunk);
}

/* Whether all windows that show a copy of a granule are idle there. placing: as in
 * access_window_is_idle(). */
static bool views_are_idle(struct weir_space *space, const struct replica *r, uint8_t copy,
			   uint32_t g, bool placing)
{
	for (uint32_t own = 0; own < space->nr_devices; own++)
		if (r->window[own] && r->view[own][g] == copy &&
		    !access_window_is_idle(space, r, (place_t)own, g, placing))
			return false;
	return true;
}

/* Whether a copy of a granule can go: it has nothing that is not elsewhere, too, nothing uses it,
 * nor is to (placing: by the bracket that is being placed), and there is room for the change of
 * pieces. */
static bool can_drop(struct weir_space *space, struct replica *r, uint8_t copy, uint32_t g,
		     bool placing)
{
	uint64_t granule = r->replicas->granule_bytes, end = MIN((g + 1) * granule, r->bytes);

	if (!r->chunk[copy][g].backend.handle || pieces_reserve(r, 2))
		return false;
	for (uint32_t p = pieces_find(r, g * granule); p < r->nr_pieces && r->piece[p].start < end;
	     p++)
		if (r->piece[p].current == COPY_BIT(copy) && WEIR_MUTANT != 17)
			return false;
	return views_are_idle(space, r, copy, g, placing) &&
	       !message_uses(r, copy, g * granule, end);
}

static int granule_drop(struct weir_space *space, struct replica *r, uint8_t copy, uint32_t g)
{
	for (uint32_t own = 0; own < space->nr_devices; own++) {
		int err = 0;

		if (r->window[own] && r->view[own][g] == copy)
			err = view_change(space, r, (place_t)own, g, COPY_NONE);
		if (err)
			return err;
	}
	chunk_drop(space, r, copy, g);
	return 0;
}

/* Go through the granules of all ranges that have a chunk in a memory, from where the last look
 * ended, until fn says that one will do. @return whether one did. */
static bool find_granule(struct weir_space *space, struct replica_memory *memory,
			 bool (*fn)(struct weir_space *space, struct replica *r, uint8_t copy,
				    uint32_t g))
{
	struct replicas *rs = memory->replicas;

	for (uint32_t n = 0; n <= rs->nr_replicas; n++, memory->at++, memory->granule = 0) {
		struct replica *r;

		memory->at = memory->at < rs->nr_replicas ? memory->at : 0;
		r = rs->replica[memory->at];
		if (!r || !r->chunk[memory->copy])
			continue;
		for (; memory->granule < r->nr_granules; memory->granule++)
			if (r->chunk[memory->copy][memory->granule].backend.handle &&
			    fn(space, r, memory->copy, memory->granule))
				return true;
	}
	return false;
}

static bool drop_one(struct weir_space *space, struct replica *r, uint8_t copy, uint32_t g)
{
	return can_drop(space, r, copy, g, true) && !granule_drop(space, r, copy, g);
}

static bool evict_one(struct weir_space *space, uint8_t copy)
{
	return packets_evict(space, copy) ||
	       find_granule(space, &replicas_of(space)->memory[memory_place(space, copy)],
			    drop_one);
}

bool copies_evict(struct weir_space *space, uint8_t copy)
{
	if (evict_one(space, copy))
		return true;
	/* Messages may be done that nobody asked for yet, and use what could go. */
	if (!replicas_of(space)->nr_messages)
		return false;
	messages_retire(space, true);
	return evict_one(space, copy);
}

void copies_lend_back(struct weir_space *space, struct replica_memory *memory)
{
	space_lend_back_locked(space, &memory->owner,
			       div_round_up(phys_held(&memory->client), space->block_bytes));
}

bool copies_give(struct weir_space *space, place_t place)
{
	struct replica_memory *memory = &replicas_of(space)->memory[place];
	uint64_t nr = memory->owner.nr_lent;

	if (!memory->replicas || !nr || memory->taking)
		return false;
	memory->yields = true;
	while (div_round_up(phys_held(&memory->client), space->block_bytes) >= nr)
		if (!copies_evict(space, memory->copy))
			return false;
	copies_lend_back(space, memory);
	return true;
}

/* What the account is asked for. */
static uint64_t give(struct phys_client *client, uint64_t bytes)
{
	struct replica_memory *memory = client->owner;
	struct weir_space *space = memory->replicas->space;
	uint64_t before, after;

	pthread_mutex_lock(&space->lock);
	before = after = phys_held(client);
	while (before - after < bytes && copies_evict(space, memory->copy))
		after = phys_held(client);
	memory->yields |= after < before;
	copies_lend_back(space, memory);
	pthread_mutex_unlock(&space->lock);
	return before - after;
}

/* A chunk for a granule. */
static int granule_get(struct weir_space *space, struct replica *r, uint8_t copy, uint32_t g,
		       enum chunks_from from, struct settle *settle)
{
	if (r->chunk[copy][g].backend.handle)
		return 0;
	return chunks_get(space, copy, r->replicas->granule_bytes, from, settle,
			  &r->chunk[copy][g]);
}

/* Whether a device's copy has what was written last where a granule begins, or is going to: the
 * device uses it as much as the one that asks. */
static bool has_it(const struct replica *r, uint8_t copy, place_t own, uint32_t g)
{
	uint32_t p = pieces_find(r, g * r->replicas->granule_bytes);

	if (r->piece[p].current & COPY_BIT(copy))
		return true;
	return copy < COPY_HOST && r->view[copy][g] == copy && r->heat[copy] && r->heat[own] &&
	       r->heat[copy][g] * 2 > r->heat[own][g];
}

/* Another copy of a granule that a window can show: of a device that has its contents, else any
 * that no open bracket overwrites, the host's last. Devices are asked in turn, granule by granule,
 * so that not all is read through one port. */
static uint8_t pick_borrowed(const struct weir_space *space, struct replica *r, place_t own,
			     uint32_t g)
{
	uint64_t granule = r->replicas->granule_bytes;
	struct access access = {
		.replica = r, .offset = g * granule, .end = MIN((g + 1) * granule, r->bytes)};
	uint8_t found = COPY_NONE;

	for (uint32_t n = 0; n <= space->nr_devices; n++) {
		access.copy = n < space->nr_devices ? (uint8_t)((own + g + n) % space->nr_devices)
						    : COPY_HOST;
		if (access.copy == own || !r->chunk[access.copy] ||
		    !r->chunk[access.copy][g].backend.handle ||
		    access_is_overwritten(space, &access))
			continue;
		if (has_it(r, access.copy, own, g))
			return access.copy;
		found = found == COPY_NONE ? access.copy : found;
	}
	return found;
}

/* Have a window show something, or a copy of the device's own. */
static int granule_ready(struct weir_space *space, struct replica *r, place_t own, uint32_t g,
			 struct settle *settle)
{
	bool shown = r->view[own][g] != COPY_NONE;
	uint8_t copy = own;
	int err = 0;

	/* What the device's launches see stays for as long as they do; and only what costs nothing
	 * is done for it. */
	if (shown && !access_window_is_idle(space, r, own, g, false))
		return 0;
	err = granule_get(space, r, own, g,
			  shown || r->replicas->memory[own].yields ? CHUNKS_FREE : CHUNKS_LENT,
			  settle);
	if (err == -ENOMEM && shown)
		return 0;
	/* Who has a copy keeps it, until it is known that this one is used more: arrange.c. */
	if (err == -ENOMEM) {
		copy = pick_borrowed(space, r, own, g);
		err = 0;
	}
	if (copy == COPY_NONE && !r->replicas->memory[own].yields) {
		copy = own;
		err = granule_get(space, r, own, g, CHUNKS_ANY, settle);
	}
	if (copy == COPY_NONE || err == -ENOMEM) {
		copy = COPY_HOST;
		err = granule_get(space, r, copy, g, CHUNKS_ANY, settle);
	}
	return err ? err : view_change(space, r, own, g, copy);
}

int copies_bring(struct weir_space *space, struct replica *r, place_t own, uint32_t g)
{
	int err;

	if (WEIR_MUTANT != 21 && !access_window_is_idle(space, r, own, g, false))
		return -EBUSY;
	do
		err = granule_get(space, r, own, g, CHUNKS_FREE, NULL);
	while (err == -ENOMEM && packets_evict(space, own));
	return err ? err : view_change(space, r, own, g, own);
}

int copies_borrow(struct weir_space *space, struct replica *r, place_t own, uint32_t g)
{
	uint8_t view = r->view[own][g], copy = view;

	if (replica_borrows(r, own, g))
		copy = pick_borrowed(space, r, own, g);
	if (copy == view || copy == COPY_NONE)
		return 0;
	if (WEIR_MUTANT != 21 && !access_window_is_idle(space, r, own, g, false))
		return -EBUSY;
	return view_change(space, r, own, g, copy);
}

bool copies_let_go(struct weir_space *space, struct replica *r, place_t own, uint32_t g)
{
	copies_t shown = 0;
	int err;

	if (r->view[own][g] != own || !can_drop(space, r, own, g, false))
		return false;
	/* The one copy cannot be shown. */
	if (pick_borrowed(space, r, own, g) == COPY_NONE &&
	    granule_get(space, r, COPY_HOST, g, CHUNKS_FREE, NULL))
		return false;
	for (uint32_t d = 0; d < space->nr_devices; d++)
		if (r->window[d] && r->view[d][g] == own)
			shown |= COPY_BIT(d);
	err = granule_drop(space, r, own, g);
	for (; shown && !err; shown &= shown - 1) {
		place_t d = (place_t)__builtin_ctz(shown);
		uint8_t copy = pick_borrowed(space, r, d, g);

		if (copy != COPY_NONE)
			err = view_change(space, r, d, g, copy);
	}
	space_note_error(space, err);
	return !err;
}

/* Whether a copy of a granule can be moved to the host's memory: nobody uses it. */
static bool can_spill(struct weir_space *space, struct replica *r, uint8_t copy, uint32_t g)
{
	uint64_t granule = r->replicas->granule_bytes;

	return !r->dying && views_are_idle(space, r, copy, g, true) &&
	       !message_uses(r, copy, g * granule, MIN((g + 1) * granule, r->bytes));
}

int copies_spill(struct weir_space *space, place_t place, uint64_t nr, struct settle *settle)
{
	struct replicas *rs = replicas_of(space);
	struct replica_memory *memory = &rs->memory[place];
	uint64_t granule = rs->granule_bytes;
	int err = 0;

	if (!memory->replicas)
		return -ENOMEM;
	while (nr && !err) {
		struct replica *r;
		uint32_t g;

		if (copies_give(space, place)) {
			nr--;
			continue;
		}
		if (memory->copy == COPY_HOST)
			return -ENOMEM;
		if (!find_granule(space, memory, can_spill))
			return settle_on_any(space, settle) ? SETTLE_WAIT : -ENOMEM;
		r = rs->replica[memory->at];
		g = memory->granule;
		err = granule_get(space, r, COPY_HOST, g, CHUNKS_ANY, settle);
		if (!err)
			err = message_fill(space, r, NULL, COPY_HOST, g * granule,
					   MIN((g + 1) * granule, r->bytes), false);
		if (!err)
			err = messages_settle(space, settle);
	}
	return err;
}

int copies_ready(struct weir_space *space, struct replica *r, place_t own, uint64_t offset,
		 uint64_t end, struct settle *settle)
{
	uint32_t last = (uint32_t)((end - 1) / r->replicas->granule_bytes);

	for (uint32_t g = (uint32_t)(offset / r->replicas->granule_bytes); g <= last; g++) {
		int err = r->view[own][g] == own ? 0 : granule_ready(space, r, own, g, settle);

		if (err)
			return err;
	}
	return 0;
}

void copies_drop(struct weir_space *space, struct replica *r, uint8_t copy, uint64_t offset,
		 uint64_t end)
{
	uint64_t granule = r->replicas->granule_bytes;

	for (uint32_t g = (uint32_t)div_round_up(offset, granule);
	     g < r->nr_granules && MIN((g + 1) * granule, r->bytes) <= end; g++)
		if (can_drop(space, r, copy, g, true))
			space_note_error(space, granule_drop(space, r, copy, g));
}

void copies_drop_all(struct replica *r)
{
	struct weir_space *space = r->replicas->space;

	for (uint32_t g = 0; g < r->nr_granules; g++) {
		for (uint32_t own = 0; own < space->nr_devices; own++)
			for (int t = 0; t < SPACE_TRIES && r->window[own]; t++)
				if (!view_change(space, r, (place_t)own, g, COPY_NONE))
					break;
		for (uint8_t c = 0; c <= COPY_HOST; c++)
			if (r->chunk[c])
				chunks_put(space, c, &r->chunk[c][g]);
	}
}

/* ------------------------------------------------------------------ memories */

static void memory_init(struct replicas *rs, place_t place, uint8_t copy)
{
	struct weir_space *space = rs->space;
	struct replica_memory *memory = &rs->memory[place];
	const struct pmm *pmm = &space->pmm[place];
	char name[PHYS_NAME_MAX];

	snprintf(name, sizeof(name), "replicas of %.40s", pmm->client.name);
	memory->replicas = rs;
	memory->copy = copy;
	memory->evict = copies_evict;
	memory->evict_packets = packets_evict;
	phys_client_add(&memory->client, pmm->client.memory, name, PHYS_NO_LIMIT);
	memory->client.devices =
		copy == COPY_HOST ? space->devices : BACKEND_DEVICE_BIT(space->device[place]);
	space_owner_add_locked(space, &memory->owner, &replica_kind, place, &memory->client);
	phys_client_start(&memory->client, give, memory);
}

void memories_init(struct replicas *rs)
{
	for (uint32_t own = 0; own < rs->space->nr_devices; own++)
		memory_init(rs, (place_t)own, (uint8_t)own);
	memory_init(rs, space_host(rs->space), COPY_HOST);
}

static void memory_fini(struct replicas *rs, place_t place)
{
	struct replica_memory *memory = &rs->memory[place];

	space_owner_del_locked(rs->space, &memory->owner);
	phys_client_del(&memory->client);
}

void memories_fini(struct replicas *rs)
{
	for (uint32_t own = 0; own < rs->space->nr_devices; own++)
		memory_fini(rs, (place_t)own);
	memory_fini(rs, space_host(rs->space));
}
