/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where memory is: chunks by their aliases, plain allocations, reservations with what is mapped in
 * them; and the parts of it that have names. Places are disjoint, and so are parts, so that a
 * search tree whose order is "lies before" finds the one that meets an interval.
 *
 * A piece of memory that there is no room to know of is counted, and not seen from then on.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/watch/watch_internal.h"
#include "src/base/util.h"

enum place_kind { PLACE_CHUNK, PLACE_PLAIN, PLACE_REGION };

/* Trees hold whatever begins with one of these: [begin, end). */
struct interval {
	uintptr_t begin, end;
};

struct place {
	struct interval at;
	enum place_kind kind;
	uint32_t memory;       /* not of a region */
	uint32_t nr_mapped;    /* of a chunk: its mappings */
	uint64_t unit;	       /* of a region */
	struct place *chunk[]; /* of a region: by unit, NULL: nothing is mapped */
};

struct part {
	struct interval at;
	uint32_t name;
};

static int compare(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	return x->end <= y->begin ? -1 : x->begin >= y->end;
}

/* What meets an interval, if it is one thing; else any of these. */
static void *find(void *const *tree, uintptr_t begin, uintptr_t end)
{
	const struct interval key = {begin, end};
	void *node = end > begin ? tfind(&key, tree, compare) : NULL;

	return node ? *(void **)node : NULL;
}

static bool insert(void **tree, void *thing)
{
	void *node = tsearch(thing, tree, compare);

	return node && *(void **)node == thing;
}

/* ------------------------------------------------------------------ residency */

static int64_t overlap(const struct interval *a, uintptr_t begin, uintptr_t end)
{
	uintptr_t from = MAX(a->begin, begin);
	uintptr_t to = MIN(a->end, end);

	return from < to ? (int64_t)(to - from) : 0;
}

/* Tell the parts that meet an interval that it came to a memory, or left it. */
static void parts_change(struct watch *w, uint64_t ns, uintptr_t begin, uintptr_t end,
			 uint32_t memory, int sign)
{
	const struct part *part = find(&w->parts, begin, end);

	if (!part)
		return;
	watch_change(w, ns, memory, part->name, sign * overlap(&part->at, begin, end));
	parts_change(w, ns, begin, part->at.begin, memory, sign);
	parts_change(w, ns, part->at.end, end, memory, sign);
}

/* What is resident of a part, by the places that it lies in. */
static void part_change(struct watch *w, uint64_t ns, const struct part *part, int sign)
{
	const struct place *place = find(&w->places, part->at.begin, part->at.end);

	if (place && place->kind != PLACE_REGION)
		watch_change(w, ns, place->memory, part->name,
			     sign * overlap(&part->at, place->at.begin, place->at.end));
	if (!place || place->kind != PLACE_REGION)
		return;
	for (uintptr_t i = (part->at.begin - place->at.begin) / place->unit;; i++) {
		uintptr_t begin = place->at.begin + i * place->unit;
		const struct place *chunk;

		if (begin >= part->at.end || begin >= place->at.end)
			return;
		chunk = place->chunk[i];
		if (chunk)
			watch_change(w, ns, chunk->memory, part->name,
				     sign * overlap(&part->at, begin, begin + place->unit));
	}
}

/* ------------------------------------------------------------------ places */

static struct place *place_add(struct watch *w, const void *addr, uint64_t bytes,
			       enum place_kind kind, uint64_t nr_units)
{
	struct place *place = calloc(1, sizeof(*place) + nr_units * sizeof(struct place *));

	if (place) {
		place->at.begin = (uintptr_t)addr;
		place->at.end = (uintptr_t)addr + bytes;
		place->kind = kind;
	}
	if (place && insert(&w->places, place))
		return place;
	free(place);
	w->nr_lost++;
	return NULL;
}

void watch_chunk_add(struct watch *w, const struct backend_chunk *chunk)
{
	struct place *place;

	pthread_mutex_lock(&w->lock);
	place = place_add(w, chunk->alias, chunk->bytes, PLACE_CHUNK, 0);
	if (place)
		place->memory = chunk->memory;
	pthread_mutex_unlock(&w->lock);
}

void watch_plain_add(struct watch *w, void *addr, uint64_t bytes, uint32_t memory)
{
	uint64_t ns = watch_now(w);
	struct place *place;

	pthread_mutex_lock(&w->lock);
	place = place_add(w, addr, bytes, PLACE_PLAIN, 0);
	if (place) {
		place->memory = memory;
		watch_change(w, ns, memory, 0, (int64_t)bytes);
	}
	pthread_mutex_unlock(&w->lock);
}

void watch_region_add(struct watch *w, void *addr, uint64_t bytes, uint64_t unit)
{
	struct place *place;

	pthread_mutex_lock(&w->lock);
	place = place_add(w, addr, bytes, PLACE_REGION, bytes / unit);
	if (place)
		place->unit = unit;
	pthread_mutex_unlock(&w->lock);
}

void watch_place_del(struct watch *w, void *addr)
{
	uint64_t ns = watch_now(w);
	struct place *place;

	pthread_mutex_lock(&w->lock);
	place = find(&w->places, (uintptr_t)addr, (uintptr_t)addr + 1);
	if (place && place->at.begin == (uintptr_t)addr) {
		if (place->kind == PLACE_PLAIN)
			watch_change(w, ns, place->memory, 0,
				     -(int64_t)(place->at.end - place->at.begin));
		(void)tdelete(place, &w->places, compare);
		free(place);
	}
	pthread_mutex_unlock(&w->lock);
}

/* A chunk has one mapping more or less: it is resident as long as it has any. */
static void chunk_count(struct watch *w, uint64_t ns, struct place *chunk, int by)
{
	int64_t bytes = (int64_t)(chunk->at.end - chunk->at.begin);

	if (by > 0 && !chunk->nr_mapped++)
		watch_change(w, ns, chunk->memory, 0, bytes);
	else if (by < 0 && !--chunk->nr_mapped)
		watch_change(w, ns, chunk->memory, 0, -bytes);
}

/* The unit of a region that begins at an address; NULL: none that is known. */
static struct place **unit_at(struct watch *w, const void *addr, uint64_t *bytes)
{
	struct place *region = find(&w->places, (uintptr_t)addr, (uintptr_t)addr + 1);

	if (!region || region->kind != PLACE_REGION)
		return NULL;
	*bytes = region->unit;
	return &region->chunk[((uintptr_t)addr - region->at.begin) / region->unit];
}

void watch_map(struct watch *w, void *addr, const struct backend_chunk *chunk)
{
	uintptr_t begin = (uintptr_t)addr, alias = (uintptr_t)chunk->alias;
	uint64_t ns = watch_now(w), bytes = 0;
	struct place **unit, *place;

	pthread_mutex_lock(&w->lock);
	unit = unit_at(w, addr, &bytes);
	place = find(&w->places, alias, alias + 1);
	if (unit && place && place->kind == PLACE_CHUNK) {
		*unit = place;
		chunk_count(w, ns, place, 1);
		parts_change(w, ns, begin, begin + bytes, place->memory, 1);
	}
	pthread_mutex_unlock(&w->lock);
}

void watch_unmap(struct watch *w, void *addr)
{
	uintptr_t begin = (uintptr_t)addr;
	uint64_t ns = watch_now(w), bytes = 0;
	struct place **unit;

	pthread_mutex_lock(&w->lock);
	unit = unit_at(w, addr, &bytes);
	if (unit && *unit) {
		parts_change(w, ns, begin, begin + bytes, (*unit)->memory, -1);
		chunk_count(w, ns, *unit, -1);
		*unit = NULL;
	}
	pthread_mutex_unlock(&w->lock);
}

static void region_bytes(const struct place *region, const struct interval *at,
			 uint64_t by_memory[WEIR_MEMORIES_MAX])
{
	for (uintptr_t i = (at->begin - region->at.begin) / region->unit;; i++) {
		uintptr_t begin = region->at.begin + i * region->unit;

		if (begin >= at->end || begin >= region->at.end)
			return;
		if (region->chunk[i])
			by_memory[region->chunk[i]->memory] +=
				(uint64_t)overlap(at, begin, begin + region->unit);
	}
}

void watch_bytes(struct watch *w, const void *addr, uint64_t bytes,
		 uint64_t by_memory[WEIR_MEMORIES_MAX])
{
	const struct interval at = {(uintptr_t)addr, (uintptr_t)addr + bytes};
	const struct place *place;

	memset(by_memory, 0, WEIR_MEMORIES_MAX * sizeof(*by_memory));
	pthread_mutex_lock(&w->lock);
	place = find(&w->places, at.begin, at.begin + 1);
	if (place && place->kind == PLACE_REGION)
		region_bytes(place, &at, by_memory);
	else if (place)
		by_memory[place->memory] = bytes;
	pthread_mutex_unlock(&w->lock);
}

uint64_t watch_host_bytes(struct watch *w, const void *addr, uint64_t bytes)
{
	uint64_t by_memory[WEIR_MEMORIES_MAX], sum = 0;

	watch_bytes(w, addr, bytes, by_memory);
	for (uint32_t m = 0; m < w->base.desc.nr_memories; m++)
		sum += watch_is_host(w, m) ? by_memory[m] : 0;
	return sum;
}

/* ------------------------------------------------------------------ names */

/* The index of a name; 0: there is no room for it. */
static uint32_t name_index(struct watch *w, const char *name)
{
	for (uint32_t i = 1; i < w->nr_names; i++)
		if (!strcmp(w->name[i], name))
			return i;
	if (w->nr_names == WATCH_NAMES_MAX)
		return 0;
	w->name[w->nr_names] = name;
	return w->nr_names++;
}

static void part_del(struct watch *w, uint64_t ns, struct part *part)
{
	part_change(w, ns, part, -1);
	(void)tdelete(part, &w->parts, compare);
	free(part);
}

static void part_add(struct watch *w, uint64_t ns, const void *addr, uint64_t bytes,
		     const char *name)
{
	uint32_t index = name_index(w, name);
	struct part *part = index ? malloc(sizeof(*part)) : NULL;

	if (!part)
		return;
	*part = (struct part){{(uintptr_t)addr, (uintptr_t)addr + bytes}, index};
	if (insert(&w->parts, part)) {
		part_change(w, ns, part, 1);
		return;
	}
	free(part);
	w->nr_lost++;
}

void watch_name(struct backend *b, const void *addr, uint64_t bytes, const char *name)
{
	struct watch *w = watch_of(b);
	uint64_t ns = watch_now(w);
	struct part *part;

	pthread_mutex_lock(&w->lock);
	part = find(&w->parts, (uintptr_t)addr, (uintptr_t)addr + 1);
	if (part && part->at.begin == (uintptr_t)addr)
		part_del(w, ns, part);
	if (name)
		part_add(w, ns, addr, bytes, name);
	pthread_mutex_unlock(&w->lock);
}

void watch_places_free(struct watch *w)
{
	tdestroy(w->places, free);
	tdestroy(w->parts, free);
}
