/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is core's in a space: its parts' creation, progress, the checker. Allocation and brackets
 * are the mode's (src/residency).
 */
#include "src/core/space.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/cost/cost.h"

/* The backend's progress function. Whoever holds the lock makes the progress itself. */
static void progress_entry(void *arg)
{
	struct weir_space *space = arg;

	if (pthread_mutex_trylock(&space->lock))
		return;
	if (!space->ops->is_quiet(space))
		space_fence_all(space);
	space_progress_known(space);
	pthread_mutex_unlock(&space->lock);
}

static void place_add(struct weir_space *space, const struct weir_space_config *config,
		      const char *name, uint32_t memory)
{
	place_t place = (place_t)space->nr_places++;

	pmm_init(&space->pmm[place], phys_of(space->machine, memory), name, place,
		 config->block_bytes, config->budget_bytes[memory]);
}

/* The devices' own memories, others that the space may use, the host's. */
static void places_init(struct weir_space *space, const struct weir_space_config *config)
{
	const struct weir_machine_desc *desc = &space->backend->desc;
	uint32_t host = cost_host_memory(desc);
	char name[PHYS_NAME_MAX];

	(void)snprintf(name, sizeof(name), "space %u", machine_space_number(space->machine));
	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (config->devices & BACKEND_DEVICE_BIT(d)) {
			space->device[space->nr_devices++] = d;
			place_add(space, config, name, desc->device[d].memory);
		}
	for (uint32_t m = 0; m < desc->nr_memories; m++)
		if (m != host && config->budget_bytes[m] && space_place(space, m) < 0)
			place_add(space, config, name, m);
	place_add(space, config, name, host);
}

static void places_fini(struct weir_space *space)
{
	for (uint32_t place = 0; place < space->nr_places; place++)
		pmm_fini(&space->pmm[place]);
}

/* Whose copy engine serves a path: where it leads from the own memory of one of the space's
 * devices, that one's, or else the one of the device that the copies come to; to the host's
 * memory, the one of the device that they come from. */
static uint32_t path_device(const struct weir_space *space, const struct path *path)
{
	const struct weir_machine_desc *desc = &space->backend->desc;
	uint32_t memory = space->pmm[path->to == space_host(space) ? path->from : path->to].memory;
	uint32_t device = 0;

	if (path->from < space->nr_devices)
		return space->device[path->from];
	while (device < desc->nr_devices - 1 && desc->device[device].memory != memory)
		device++;
	return device;
}

static int path_stream_create(struct weir_space *space, struct path *path)
{
	struct backend *b = space->backend;
	uint32_t device = path_device(space, path);
	bool out = path->from < space->nr_devices || path->to == space_host(space);

	/* No chunk was created yet. */
	space->pmm[path->from].client.devices |= BACKEND_DEVICE_BIT(device);
	space->pmm[path->to].client.devices |= BACKEND_DEVICE_BIT(device);
	return b->ops->stream_create(b, device, out ? BACKEND_COPY_OUT : BACKEND_COPY_IN,
				     &path->stream);
}

/* -ENOTSUP: there is none. */
static int path_find_link(const struct weir_space *space, struct path *path)
{
	const struct weir_machine_desc *desc = &space->backend->desc;
	uint32_t from = space->pmm[path->from].memory, to = space->pmm[path->to].memory;
	int link = cost_link_find(desc, from, to);

	if (link < 0) {
		log_error("space: there is no link between %s and %s", desc->memory[from].name,
			  desc->memory[to].name);
		return -ENOTSUP;
	}
	path->link = (uint32_t)link;
	path->direction = desc->link[link].a == from ? WEIR_A_TO_B : WEIR_B_TO_A;
	return 0;
}

static void paths_fini(struct weir_space *space)
{
	while (space->nr_paths > 0) {
		struct path *path = &space->path[--space->nr_paths];

		space->backend->ops->stream_destroy(space->backend, path->stream);
		free(path->moving.move);
	}
	free(space->path);
	space->path = NULL;
}

static int paths_init(struct weir_space *space)
{
	uint32_t nr = space->nr_places * (space->nr_places - 1);

	space->path = calloc(nr, sizeof(*space->path));
	if (!space->path)
		return -ENOMEM;
	for (uint32_t to = 0; to < space->nr_places; to++)
		for (uint32_t from = 0; from < space->nr_places; from++) {
			struct path *path = &space->path[space->nr_paths];
			int err;

			if (from == to)
				continue;
			path->from = (place_t)from;
			path->to = (place_t)to;
			err = path_find_link(space, path);
			if (!err)
				err = path_stream_create(space, path);
			if (err) {
				paths_fini(space);
				return err;
			}
			space->nr_paths++;
		}
	return 0;
}

int space_init(struct weir_space *space, struct weir_machine *machine,
	       const struct weir_space_config *config)
{
	struct backend *b = machine_backend(machine);
	int err;

	space->machine = machine;
	space->backend = b;
	space->devices = config->devices;
	space->block_bytes = config->block_bytes;
	space->mode = config->mode;
	list_init(&space->owners);
#ifdef WEIR_DEBUG_CHECKS
	space->poison = true;
#endif
	if (mutex_init_brief(&space->lock))
		return -ENOMEM;
	if (pthread_cond_init(&space->placed, NULL)) {
		pthread_mutex_destroy(&space->lock);
		return -ENOMEM;
	}
	places_init(space, config);
	err = paths_init(space);
	if (err)
		goto err_places;
	err = b->ops->set_progress(b, progress_entry, space);
	if (!err)
		return 0;
	paths_fini(space);
err_places:
	places_fini(space);
	pthread_cond_destroy(&space->placed);
	pthread_mutex_destroy(&space->lock);
	return err;
}

void space_fini(struct weir_space *space)
{
	struct backend *b = space->backend;

	assert(!space->nr_ranges);
	(void)b->ops->set_progress(b, NULL, space);
	compare_fini(space);
	paths_fini(space);
	places_fini(space);
	for (uint32_t i = 0; i < space->nr_slots; i++) {
		free(space->slot[i]->uses.use);
		free(space->slot[i]);
	}
	free(space->slot);
	for (uint32_t i = 0; i < space->max_ended; i++)
		free(space->ended[i].uses.use);
	free(space->ended);
	free(space->range);
	free(space->by_addr);
	pthread_cond_destroy(&space->placed);
	pthread_mutex_destroy(&space->lock);
}

static void retire_brackets(struct weir_space *space)
{
	while (space->done_seq < space->last_seq) {
		const struct ended_bracket *bracket = space_ended(space, space->done_seq + 1);

		if (bracket->end ? !space_fence_done(space, bracket->end, NULL) : !bracket->lost)
			break;
		space_ended_retire(space, space->done_seq + 1);
		space->done_seq++;
		space->ops->bracket_done(space, bracket);
	}
}

void space_progress(struct weir_space *space)
{
	space_fence_all(space);
	space_progress_known(space);
}

/* Whether copies run between GPUs' memories, for which unmapping waits. */
static bool is_copying_near(const struct weir_space *space)
{
	const place_t host = space_host(space);

	for (uint32_t p = 0; p < space->nr_paths && host > 1; p++)
		if (space->path[p].moving.nr && space->path[p].from < host &&
		    space->path[p].to < host)
			return true;
	return false;
}

void space_progress_known(struct weir_space *space)
{
	migrate_retire(space);
	compare_retire(space);
	retire_brackets(space);
	if (space->shared)
		space->shared_ops->progress(space);
	if (!space_is_waited_for(space) && !is_copying_near(space))
		migrate_drop_stale(space);
	space->ops->advance(space);
}

void space_placing_begin(struct weir_space *space)
{
	while (space->placing)
		pthread_cond_wait(&space->placed, &space->lock);
	space->placing = true;
	space->impatient = false;
	space->keep_marked = false;
	space->mark++; /* nothing is named yet */
	space->epoch++;
}

void space_placing_end(struct weir_space *space)
{
	space->placing = space->keep_marked = false;
	space->wide.placing = 0;
	space->wide.staying = false;
	pthread_cond_signal(&space->placed);
}

/* Add what a device used over a link, if that is one of its own. */
static void add_inplace_bytes(struct backend *b, uint32_t device, uint32_t number,
			      uint64_t link_bytes[WEIR_DIRECTION_NR][WEIR_CAUSE_NR])
{
	const struct weir_link_desc *link = &b->desc.link[number];
	uint32_t own = b->desc.device[device].memory, far = link->a == own ? link->b : link->a;
	enum weir_direction in = link->b == own ? WEIR_A_TO_B : WEIR_B_TO_A;
	uint64_t bytes[BACKEND_DIRECTION_NR];

	if (link->a != own && link->b != own)
		return;
	b->observe->inplace_bytes(b, device, far, bytes);
	link_bytes[in][WEIR_CAUSE_INPLACE] += bytes[BACKEND_TO_DEVICE];
	link_bytes[!in][WEIR_CAUSE_INPLACE] += bytes[BACKEND_TO_HOST];
}

void space_inplace_bytes(const struct weir_space *space,
			 uint64_t link_bytes[WEIR_LINKS_MAX][WEIR_DIRECTION_NR][WEIR_CAUSE_NR])
{
	struct backend *b = space->backend;

	for (uint32_t l = 0; l < b->desc.nr_links; l++)
		link_bytes[l][0][WEIR_CAUSE_INPLACE] = link_bytes[l][1][WEIR_CAUSE_INPLACE] = 0;
	for (uint32_t d = 0; d < space->nr_devices; d++)
		for (uint32_t l = 0; l < b->desc.nr_links; l++)
			add_inplace_bytes(b, space->device[d], l, link_bytes[l]);
}

uint64_t space_nr_chunks(const struct weir_space *space)
{
	uint64_t nr = 0;

	for (uint32_t place = 0; place < space->nr_places; place++)
		nr += space->pmm[place].max_chunks;
	return nr;
}

uint64_t space_nr_dirty(const struct weir_space *space, place_t place)
{
	uint64_t nr = 0;

	for (uint32_t r = 0; r < space->nr_ranges; r++)
		nr += space->range[r]->nr_dirty[place];
	return nr;
}

bool space_has_room(const struct weir_space *space, uint32_t nr_blocks)
{
	return space->nr_live_blocks + nr_blocks + SPACE_CHUNKS_SPARE <= space_nr_chunks(space);
}

static int check_counts(const struct weir_space *space, uint64_t live,
			const uint64_t out[PLACES_MAX])
{
	uint32_t nr_open = space->nr_host_open;

	for (uint32_t i = 0; i < space->nr_slots; i++)
		nr_open += space->slot[i]->open;
	if (nr_open != space->nr_open || live != space->nr_live_blocks) {
		log_error("space: %u brackets open, %u counted; %llu live blocks, %llu counted",
			  space->nr_open, nr_open, (unsigned long long)space->nr_live_blocks,
			  (unsigned long long)live);
		return -EUCLEAN;
	}
	for (uint32_t place = 0; place < space->nr_places; place++) {
		int err = pmm_check(&space->pmm[place], out[place]);

		if (err)
			return err;
	}
	return 0;
}

/* Ranges lie apart, and both tables have the same. */
static int check_tables(const struct weir_space *space)
{
	uintptr_t end = 0;

	for (uint32_t i = 0; i < space->nr_ranges; i++) {
		const struct range *range = space->by_addr[i];
		uint32_t at = 0;

		while (at < space->nr_ranges && space->range[at] != range)
			at++;
		if ((uintptr_t)range->addr < end || at == space->nr_ranges) {
			log_error("range %p overlaps the one below it, or is in one table only",
				  range->addr);
			return -EUCLEAN;
		}
		end = (uintptr_t)range->addr + range_span(space, range);
	}
	return 0;
}

int space_check(const struct weir_space *space)
{
	uint64_t out[PLACES_MAX] = {0}, live = 0, stale = 0;

	if (check_tables(space) || wide_check(space))
		return -EUCLEAN;
	for (uint32_t i = 0; i < space->nr_ranges; i++) {
		const struct range *range = space->range[i];
		int err = range_check(space, range);

		if (err)
			return err;
		live += range->pooled ? 0 : range->nr_blocks;
		stale += range->nr_stale;
		for (uint32_t n = 0; n < range->nr_blocks; n++) {
			const struct copies *at = &range->block[n].at;

			if (at->home)
				out[at->home->place]++;
			if (at->source)
				out[at->source->place]++;
			if (at->below && at->below != at->source)
				out[at->below->place]++;
		}
	}
	if (stale != space->nr_stale) {
		log_error("space: %llu stale blocks, %llu counted", (unsigned long long)stale,
			  (unsigned long long)space->nr_stale);
		return -EUCLEAN;
	}
	return check_counts(space, live, out);
}

uint32_t space_where(struct weir_space *space, const void *addr, uint64_t bytes, place_t *where,
		     uint32_t max)
{
	const struct range *range;
	uint64_t offset, last;
	uint32_t nr = 0;

	pthread_mutex_lock(&space->lock);
	range = range_find(space, addr);
	if (!range || !bytes)
		goto out;
	offset = (uint64_t)((const char *)addr - (const char *)range->addr);
	last = (offset + bytes - 1) / space->block_bytes;
	if (bytes > UINT64_MAX - offset || last >= range->nr_blocks)
		goto out;
	for (uint64_t i = offset / space->block_bytes; i <= last && nr < max; i++) {
		const struct chunk *home = range->block[i].at.home;

		where[nr++] = home ? home->place : PLACES_MAX;
	}
out:
	pthread_mutex_unlock(&space->lock);
	return nr;
}

bool space_has(struct weir_space *space, const void *addr)
{
	bool has;

	pthread_mutex_lock(&space->lock);
	has = range_find(space, addr) != NULL;
	pthread_mutex_unlock(&space->lock);
	return has;
}

uint64_t space_movable_chunks(struct weir_space *space)
{
	uint64_t nr = 0;

	pthread_mutex_lock(&space->lock);
	for (uint32_t own = 0; own < space->nr_devices; own++)
		nr += space->pmm[own].max_chunks;
	for (uint32_t r = 0; r < space->nr_ranges; r++)
		if (space->range[r]->arena)
			nr -= range_nr_resident(space->range[r]);
	pthread_mutex_unlock(&space->lock);
	return nr;
}
