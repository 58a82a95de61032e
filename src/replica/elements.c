/* SPDX-License-Identifier: Apache-2.0 */
/* Subscribing devices to elements: weir_subscribe_elements(), and what tracking does alike. */
#include <errno.h>
#include <string.h>

#include "src/base/log.h"
#include "src/replica/lists.h"

struct subscribing {
	const struct list_place *place;
	const uint32_t *element;
	struct list *list;
};

/* A part of a pass: a copy of its own of the granules that have elements, as far as there is room;
 * and memory for the list, if there is any. */
static int ready_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	const struct subscribing *p = arg;
	struct replica *r = p->place->replica;
	uint64_t granule = r->replicas->granule_bytes;
	int err = r->dying ? -EINVAL : 0; /* another thread freed it meanwhile */

	for (uint32_t g = 0; g < r->nr_granules && !err; g++) {
		uint64_t offset = g * granule, end = MIN(offset + granule, r->bytes);
		struct list_part part;

		if (list_find(p->list, r->element_bytes, offset, end, &part))
			err = copies_ready(space, r, p->place->own, offset, end, settle);
	}
	if (err || p->list->home.backend.handle)
		return err;
	err = chunks_get(space, COPY_HOST, round_up(p->list->nr * sizeof(uint32_t), granule),
			 CHUNKS_FREE, settle, &p->list->home);
	return err == -ENOMEM ? 0 : err;
}

int list_place_find(struct weir_space *space, void *addr, uint32_t device, const char *call,
		    struct list_place *out)
{
	int own = space_own(space, device);
	uint64_t offset;
	struct replica *r = replica_find(space, addr, &offset);

	if (!r || offset || own < 0 || !r->window[own]) {
		log_error(
			"%s: %p: no replicated range begins there that device %u has a window for",
			call, addr, device);
		return -EINVAL;
	}
	*out = (struct list_place){r, (uint8_t)own};
	return 0;
}

/* The list is one of the space's. */
static void list_register(struct replicas *rs, struct list *list)
{
	uint64_t bytes = round_up(list->nr * sizeof(uint32_t), rs->granule_bytes);

	list->nr_slice = (uint32_t)(MIN(bytes, rs->packet_bytes) / sizeof(uint32_t));
	list->nr_slices = (uint32_t)div_round_up(list->nr, list->nr_slice);
	list->next = rs->lists;
	rs->lists = list;
}

/* Get the memory that a list needs, and fill it. */
static int list_ready(struct weir_space *space, struct subscribing *p)
{
	struct list *list = p->list;
	struct replica *r = p->place->replica;
	const struct run *last = &list->run[list->nr_runs - 1];
	uint64_t nr_elements = r->bytes / r->element_bytes;
	int err;

	if (last->first + (list->nr - last->index) > nr_elements) {
		log_error("subscribe: an element beyond the %llu that the range has",
			  (unsigned long long)nr_elements);
		return -EINVAL;
	}
	r->nr_busy++;
	err = space_settle(space, ready_pass, p);
	if (!err && list->home.backend.handle && space->backend->data == WEIR_DATA_REAL) {
		list->nr_users++; /* its memory is not given up meanwhile */
		pthread_mutex_unlock(&space->lock);
		memcpy(list->home.backend.alias, p->element, list->nr * sizeof(uint32_t));
		pthread_mutex_lock(&space->lock);
		list_unuse(space, list);
		err = r->dying ? -EINVAL : 0;
	}
	r->nr_busy--;
	return err;
}

int list_subscribe(struct weir_space *space, const struct list_place *place, struct list *list,
		   const uint32_t *element)
{
	struct subscribing p = {place, element, list};
	struct list **current = &place->replica->list[place->own];
	int err = 0;

	if (list) {
		list_register(place->replica->replicas, list);
		err = list_ready(space, &p);
	}
	if (!err) {
		list_end(space, *current);
		*current = list;
		pieces_forget_list(place->replica, place->own);
	}
	return err;
}

int list_prepare(struct weir_space *space)
{
	int err = 0;

	for (uint32_t own = 0; own < space->nr_devices && !err; own++)
		err = space->backend->ops->packet_prepare(space->backend, space->device[own]);
	return err;
}

int weir_subscribe_elements(struct weir_space *space, void *addr, const uint32_t *element,
			    uint64_t nr, uint32_t device)
{
	struct list_place place;
	struct list *list = NULL;
	int err = nr ? list_prepare(space) : 0;

	if (!err && nr)
		err = list_create(element, nr, &list);
	if (err)
		return err;
	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	err = list_place_find(space, addr, device, "subscribe", &place);
	if (!err)
		err = list_subscribe(space, &place, list, element);
	if (err)
		list_end(space, list);
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}
