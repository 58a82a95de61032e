/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists that the library makes: kernels note which lines of a window they read (weir/tracked.h), by
 * marks in their device's memory, and the elements of these lines become the device's list.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/replica/lists.h"

/* Each has a mark of one byte. */
static uint64_t nr_lines(const struct replica *r)
{
	return div_round_up(r->bytes, WEIR_TRACKED_LINE_BYTES);
}

/* Copy a device's marks from a buffer, or to one; drops the lock, which the range survives. */
static int copy_marks(struct weir_space *space, struct replica *r, uint8_t own, const uint8_t *in,
		      uint8_t *out)
{
	struct backend *b = space->backend;
	stream_id_t stream = space_path(space, space_host(space), own)->stream;
	void *marks = r->tracked[own].backend.alias;
	uint64_t bytes = nr_lines(r);
	int err;

	r->nr_busy++;
	pthread_mutex_unlock(&space->lock);
	err = in ? b->ops->upload(b, stream, marks, in, bytes)
		 : b->ops->download(b, stream, out, marks, bytes);
	pthread_mutex_lock(&space->lock);
	r->nr_busy--;
	return r->dying ? -EINVAL : err;
}

/* ------------------------------------------------------------------ starting */

static int chunk_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	const struct list_place *place = arg;
	struct replica *r = place->replica;

	if (r->dying) /* another thread freed it meanwhile */
		return -EINVAL;
	return chunks_get(space, place->own, round_up(nr_lines(r), r->replicas->granule_bytes),
			  CHUNKS_ANY, settle, &r->tracked[place->own]);
}

static int start(struct weir_space *space, struct list_place *place, struct weir_tracked *out)
{
	struct replica *r = place->replica;
	struct replica_chunk *chunk = &r->tracked[place->own];
	uint8_t *zeros;
	int err;

	if (chunk->backend.handle)
		return -EEXIST;
	zeros = calloc(1, nr_lines(r));
	if (!zeros)
		return -ENOMEM;
	r->nr_busy++;
	err = space_settle(space, chunk_pass, place);
	r->nr_busy--;
	if (!err) {
		err = copy_marks(space, r, place->own, zeros, NULL);
		if (err)
			chunks_put(space, place->own, chunk);
	}
	free(zeros);
	if (!err)
		*out = (struct weir_tracked){.base = r->window_addr[place->own],
					     .mark = chunk->backend.alias};
	return err;
}

int weir_tracking_start(struct weir_space *space, void *addr, uint32_t device,
			struct weir_tracked *out)
{
	struct list_place place;
	int err;

	if (space->backend->data != WEIR_DATA_REAL)
		return -ENOTSUP;
	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	err = list_place_find(space, addr, device, "tracking", &place);
	if (!err)
		err = start(space, &place, out);
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

/* ------------------------------------------------------------------ stopping */

/* The elements of the lines that were noted. */
static int find_elements(const struct replica *r, const uint8_t *marks, uint32_t **out,
			 uint64_t *nr)
{
	uint64_t each = WEIR_TRACKED_LINE_BYTES / r->element_bytes;
	uint64_t nr_elements = r->bytes / r->element_bytes, nr_noted = 0;
	uint32_t *element;

	for (uint64_t line = 0; line < nr_lines(r); line++)
		nr_noted += marks[line] != 0;
	element = malloc((nr_noted + 1) * each * sizeof(*element));
	if (!element)
		return -ENOMEM;
	*nr = 0;
	for (uint64_t line = 0; line < nr_lines(r); line++)
		for (uint64_t e = line * each;
		     marks[line] && e < MIN((line + 1) * each, nr_elements); e++)
			element[(*nr)++] = (uint32_t)e;
	*out = element;
	return 0;
}

static int brackets_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	const struct list_place *place = arg;

	return place->replica->dying ? -EINVAL : settle_on_seq(space, space->last_seq, settle);
}

/* Wait for brackets, and read what was noted. */
static int stop(struct weir_space *space, struct list_place *place, uint32_t **element,
		uint64_t *nr)
{
	struct replica *r = place->replica;
	uint8_t *marks;
	int err;

	if (!r->tracked[place->own].backend.handle)
		return -EINVAL;
	if (range_is_named(space, r->window[place->own]))
		return -EBUSY;
	marks = malloc(nr_lines(r));
	if (!marks)
		return -ENOMEM;
	r->nr_busy++;
	err = space_settle(space, brackets_pass, place);
	r->nr_busy--;
	if (!err)
		err = copy_marks(space, r, place->own, NULL, marks);
	if (!err)
		err = find_elements(r, marks, element, nr);
	free(marks);
	return err;
}

int weir_tracking_stop(struct weir_space *space, void *addr, uint32_t device)
{
	uint32_t *element = NULL;
	struct list *list = NULL;
	struct list_place place;
	uint64_t nr = 0;
	int err = list_prepare(space);

	if (err)
		return err;
	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	space_progress(space);
	err = list_place_find(space, addr, device, "tracking", &place);
	if (!err)
		err = stop(space, &place, &element, &nr);
	if (!err && nr)
		err = list_create(element, nr, &list);
	if (!err)
		err = list_subscribe(space, &place, list, element);
	if (err)
		list_end(space, list);
	else
		chunks_put(space, place.own, &place.replica->tracked[place.own]);
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	free(element);
	return err;
}
