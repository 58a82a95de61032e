/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of elements, and subscribing to one: see lists.h. */
#include "src/replica/lists.h"

#include <errno.h>
#include <stdlib.h>

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
	struct list *list = calloc(1, sizeof(*list));
	int err = list ? count_runs(element, nr, &list->nr_runs) : -ENOMEM;
	uint32_t k = 0;

	if (!err)
		list->run = malloc(list->nr_runs * sizeof(*list->run));
	if (err || !list->run) {
		list_destroy(list);
		return err ? err : -ENOMEM;
	}
	list->nr = nr;
	for (uint64_t i = 0; i < nr; i++)
		if (!i || element[i] != element[i - 1] + 1)
			list->run[k++] = (struct run){element[i], (uint32_t)i};
	*out = list;
	return 0;
}

void list_destroy(struct list *list)
{
	if (!list)
		return;
	free(list->run);
	free(list);
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
	struct replica *r;
	uint8_t own;
	struct list *list;
};

/* A part of a pass: a copy of its own of the granules that have elements, as far as there is
 * room. */
static int ready_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	const struct subscribing *p = arg;
	uint64_t granule = p->r->replicas->granule_bytes;
	int err = p->r->dying ? -EINVAL : 0; /* another thread freed it meanwhile */

	for (uint32_t g = 0; g < p->r->nr_granules && !err; g++) {
		uint64_t offset = g * granule, end = MIN(offset + granule, p->r->bytes);
		struct list_part part;

		if (list_find(p->list, p->r->element_bytes, offset, end, &part))
			err = copies_ready(space, p->r, p->own, offset, end, settle);
	}
	return err;
}

/* The range, with its first byte at an address, and a device's place. */
static int find(struct weir_space *space, void *addr, uint32_t device, struct subscribing *out)
{
	int own = space_own(space, device);
	uint64_t offset;

	out->r = replica_find(space, addr, &offset);
	if (!out->r || offset || own < 0 || !out->r->window[own]) {
		log_error("subscribe: %p: no replicated range begins there that device %u has a "
			  "window for",
			  addr, device);
		return -EINVAL;
	}
	out->own = (uint8_t)own;
	return 0;
}

static int subscribe(struct weir_space *space, struct subscribing *p)
{
	uint64_t nr_elements = p->r->bytes / p->r->element_bytes;
	const struct list *list = p->list;
	struct list *before;
	int err = 0;

	if (list &&
	    list->run[list->nr_runs - 1].first + list->nr - list->run[list->nr_runs - 1].index >
		    nr_elements) {
		log_error("subscribe: an element beyond the %llu that the range has",
			  (unsigned long long)nr_elements);
		return -EINVAL;
	}
	p->r->nr_busy++;
	if (list)
		err = space_settle(space, ready_pass, p);
	p->r->nr_busy--;
	if (err)
		return err;
	before = p->r->list[p->own];
	p->r->list[p->own] = p->list;
	p->list = before;
	pieces_forget_list(p->r, p->own);
	return 0;
}

int weir_subscribe_elements(struct weir_space *space, void *addr, const uint32_t *element,
			    uint64_t nr, uint32_t device)
{
	struct subscribing p = {.list = NULL};
	int err = !nr ? 0 : element ? list_create(element, nr, &p.list) : -EINVAL;

	if (err)
		return err;
	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	err = find(space, addr, device, &p);
	if (!err)
		err = subscribe(space, &p);
	list_destroy(p.list); /* the one before, or the new one */
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}
