/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists in memory of the machine, for kernels that pack and unpack by them. All of a list is in the
 * host's memory. A device that sends or receives by it gets the slices that it needs, as it first
 * does, by a copy on the stream that needs them.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/replica/lists.h"

/* A slice that a device does not have yet. */
static int slice_make(struct weir_space *space, struct list *list, uint8_t own, stream_id_t stream,
		      uint64_t first, struct slice *slice)
{
	uint64_t bytes = MIN(list->nr_slice, list->nr - first) * sizeof(uint32_t);
	struct backend_copy copy = {.bytes = bytes};
	int err = chunks_get(space, own, round_up(bytes, replicas_of(space)->granule_bytes),
			     CHUNKS_FREE, NULL, &slice->chunk);

	if (err)
		return err;
	copy.src = (uint32_t *)list->home.backend.alias + first;
	copy.dst = slice->chunk.backend.alias;
	err = chunks_allow(space, &list->home, BACKEND_DEVICE_BIT(space->device[own]));
	if (!err)
		err = space->backend->ops->copy_beside(space->backend, stream, &copy, 1);
	if (err)
		chunks_put(space, own, &slice->chunk);
	else
		replicas_of(space)->stats.list_bytes += bytes;
	slice->stream = stream;
	slice->fenced = slice->done = false;
	return err;
}

/* Have a stream wait for a slice that is on its way by another one. */
static int slice_wait(struct weir_space *space, struct slice *slice, stream_id_t stream)
{
	int err = 0;

	if (slice->done || slice->stream == stream)
		return 0;
	if (!slice->fenced)
		err = space_fence_record(space, slice->stream, &slice->ready);
	if (err)
		return err;
	slice->fenced = true;
	slice->done = space_fence_done(space, slice->ready, NULL);
	return slice->done ? 0
			   : space->backend->ops->stream_wait(space->backend, stream, slice->ready);
}

int list_index(struct weir_space *space, struct list *list, uint8_t own, stream_id_t stream,
	       uint64_t index, uint64_t *nr, const uint32_t **out)
{
	uint64_t n = index / list->nr_slice, first = n * list->nr_slice + index % LIST_ALIGN;
	struct slice *slice;
	int err;

	if (!list->home.backend.handle)
		return -ENOMEM;
	if (!list->slice[own])
		list->slice[own] = calloc((size_t)list->nr_slices * LIST_ALIGN, sizeof(*slice));
	if (!list->slice[own])
		return -ENOMEM;
	slice = &list->slice[own][n * LIST_ALIGN + index % LIST_ALIGN];
	err = slice->chunk.backend.handle ? slice_wait(space, slice, stream)
					  : slice_make(space, list, own, stream, first, slice);
	if (err)
		return err;
	*nr = MIN(*nr, first + list->nr_slice - index);
	*out = (const uint32_t *)slice->chunk.backend.alias + (index - first);
	return 0;
}

/* ------------------------------------------------------------------ giving it back */

/* Put a slice of a list's in a memory, or its home; all: all of them. @return whether there was
 * one. */
static bool put(struct weir_space *space, struct list *list, uint8_t copy, bool all)
{
	uint32_t nr =
		copy < WEIR_DEVICES_MAX && list->slice[copy] ? list->nr_slices * LIST_ALIGN : 0;
	bool any = false;

	for (uint32_t i = 0; i < nr && (all || !any); i++) {
		any |= list->slice[copy][i].chunk.backend.handle != 0;
		chunks_put(space, copy, &list->slice[copy][i].chunk);
	}
	if (copy == COPY_HOST) {
		any = list->home.backend.handle != 0;
		chunks_put(space, copy, &list->home);
	}
	return any;
}

static void list_free(struct weir_space *space, struct list *list)
{
	struct replicas *rs = replicas_of(space); /* NULL: nothing was ever replicated */
	struct list **at = rs ? &rs->lists : NULL;

	while (at && *at && *at != list)
		at = &(*at)->next;
	if (at && *at)
		*at = list->next;
	for (uint8_t copy = 0; copy <= COPY_HOST; copy++) {
		(void)put(space, list, copy, true);
		if (copy < WEIR_DEVICES_MAX)
			free(list->slice[copy]);
	}
	free(list->run);
	free(list);
}

void list_end(struct weir_space *space, struct list *list)
{
	if (!list)
		return;
	list->ended = true;
	if (!list->nr_users)
		list_free(space, list);
}

void list_unuse(struct weir_space *space, struct list *list)
{
	list->nr_users--;
	if (list->ended && !list->nr_users)
		list_free(space, list);
}

bool lists_evict(struct weir_space *space, uint8_t copy)
{
	for (struct list *list = replicas_of(space)->lists; list; list = list->next)
		if (!list->nr_users && put(space, list, copy, false))
			return true;
	return false;
}

void lists_fini(struct weir_space *space)
{
	while (replicas_of(space)->lists)
		list_free(space, replicas_of(space)->lists);
}
