/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of elements, and subscribing to one: see lists.h. */
#include "src/replica/lists.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"

/* ------------------------------------------------------------------ lists */

/* -EINVAL: the numbers do not ascend. */
static int count_runs(const uint32_t *element, uint64_t nr, uint32_t *nr_runs)
{
	*nr_runs = 1;
	for (uint64_t i = 1; i < nr; i++) {
		if (element[i] <= element[i - 1]) {
			log_error("subscribe: elements ascend, and of numbers %llu and %llu of the "
				  "list they are %u and %u",
				  (unsigned long long)(i - 1), (unsigned long long)i,
				  element[i - 1], element[i]);
			return -EINVAL;
		}
		*nr_runs += element[i] != element[i - 1] + 1;
	}
	return 0;
}

int list_create(const uint32_t *element, uint64_t nr, struct list **out)
{
	struct list *list;
	uint32_t nr_runs, k = 0;
	int err = element ? count_runs(element, nr, &nr_runs) : -EINVAL;

	if (err)
		return err;
	list = calloc(1, sizeof(*list));
	if (list)
		list->run = malloc(nr_runs * sizeof(*list->run));
	if (!list || !list->run) {
		free(list);
		return -ENOMEM;
	}
	list->nr = nr;
	list->nr_runs = nr_runs;
	for (uint64_t i = 0; i < nr; i++)
		if (!i || element[i] != element[i - 1] + 1)
			list->run[k++] = (struct run){element[i], (uint32_t)i};
	*out = list;
	return 0;
}

/* How many elements of a list have lower numbers; *run: the last run that has any of them, and
 * nr_runs if there is none. */
static uint64_t count_below(const struct list *list, uint64_t number, uint32_t *run)
{
	uint32_t k;

	SEARCH_SORTED(k, 0, list->nr_runs, list->run[k].first < number);
	*run = k ? k - 1 : list->nr_runs;
	if (!k)
		return 0;
	k--;
	return MIN(list->run[k].index + (number - list->run[k].first), list_run_end(list, k));
}

bool list_find(const struct list *list, uint32_t element_bytes, uint64_t offset, uint64_t end,
	       struct list_part *out)
{
	uint32_t first_run, last_run;
	uint64_t index = count_below(list, offset / element_bytes, &first_run);
	uint64_t index_end = count_below(list, div_round_up(end, element_bytes), &last_run);

	if (index == index_end)
		return false;
	/* The first one is in that run still, or begins the next one. */
	if (first_run == list->nr_runs)
		first_run = 0;
	else if (list_run_end(list, first_run) == index)
		first_run++;
	*out = (struct list_part){
		.index = index,
		.nr = index_end - index,
		.run = first_run,
		.nr_runs = last_run - first_run + 1,
		.first = (uint32_t)(list->run[first_run].first +
				    (index - list->run[first_run].index)),
		.last = (uint32_t)(list->run[last_run].first +
				   (index_end - 1 - list->run[last_run].index)),
	};
	return true;
}

uint32_t list_span(const struct list *list, uint64_t index, uint64_t nr, uint32_t *first,
		   uint32_t *last)
{
	uint32_t k, end;

	SEARCH_SORTED(k, 0, list->nr_runs, list->run[k].index <= index);
	SEARCH_SORTED(end, k, list->nr_runs, list->run[end].index < index + nr);
	*first = (uint32_t)(list->run[k - 1].first + (index - list->run[k - 1].index));
	*last = (uint32_t)(list->run[end - 1].first + (index + nr - 1 - list->run[end - 1].index));
	return end - k + 1;
}

void list_part_run(const struct list *list, uint32_t element_bytes, const struct list_part *part,
		   uint32_t k, uint64_t *offset, uint64_t *end)
{
	const struct run *run = &list->run[part->run + k];
	uint64_t behind = run->first + (list_run_end(list, part->run + k) - run->index);

	*offset = (uint64_t)MAX(run->first, part->first) * element_bytes;
	*end = MIN(behind, (uint64_t)part->last + 1) * element_bytes;
}

/* ------------------------------------------------------------------ subscribing */

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
	err = copies_chunk_get(space, COPY_HOST, round_up(p->list->nr * sizeof(uint32_t), granule),
			       true, settle, &p->list->home);
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
