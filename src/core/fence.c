/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the backend says of a space's queued work: fences, and the errors that it ends with.
 *
 * A bracket that ends has a fence of its own, or shares the next one that is recorded on its
 * stream: that is behind all that was queued before it, so whoever waits for it may wait for longer
 * than for the bracket, and never for less. Until then the bracket is *unfenced*. Such brackets are
 * the last ones of their stream; nobody can wait for them, and none is known to be done.
 */
#include <errno.h>

#include "src/core/space.h"

/* Between two tries to record a fence, and tries until the context counts as dead. */
#define AGAIN_NS 100000u
#define AGAIN_TIMES 16u

void space_note_error(struct weir_space *space, int err)
{
	if (err && !space->error)
		space->error = err;
}

bool space_fence_done(struct weir_space *space, fence_t fence, int *err)
{
	struct backend *b = space->backend;
	int last = 0;

	/* An error says that the work failed, hence is done, as the next answer says; or that there
	 * was no answer. */
	for (int i = 0; i < SPACE_TRIES; i++) {
		int done = b->ops->fence_seen(b, fence);

		if (done > 0 && last && err)
			*err = last;
		if (done >= 0)
			return done != 0;
		last = done;
		space_note_error(space, done);
	}
	return false;
}

/* Work that was queued and has no fence would never be known to be done. */
static int try_to_record(struct weir_space *space,
			 int (*op)(struct backend *b, stream_id_t stream, fence_t *out),
			 stream_id_t stream, fence_t *out)
{
	int err = op(space->backend, stream, out);

	for (int i = 1; err && err != -WEIR_ECONTRACT && i < SPACE_TRIES; i++)
		err = op(space->backend, stream, out);
	return err;
}

int space_fence_record(struct weir_space *space, stream_id_t stream, fence_t *out)
{
	return try_to_record(space, space->backend->ops->fence_record, stream, out);
}

int space_fence_untimed(struct weir_space *space, stream_id_t stream, fence_t *out)
{
	return try_to_record(space, space->backend->ops->fence_untimed, stream, out);
}

void space_fence_share(struct weir_space *space, struct stream_slot *slot, fence_t fence)
{
	slot->nr_refused = 0;
	for (bracket_seq_t seq = slot->last_seq; slot->nr_unfenced && seq > space->done_seq;
	     seq--) {
		struct ended_bracket *ended = space_ended(space, seq);

		if (ended->slot != slot || ended->end)
			continue;
		ended->end = fence;
		slot->nr_unfenced--;
		space->nr_unfenced--;
	}
}

int space_fence_slot(struct weir_space *space, struct stream_slot *slot)
{
	fence_t fence;
	int err;

	if (!slot->nr_unfenced)
		return 0;
	err = space_fence_untimed(space, stream_id(slot->stream), &fence);
	if (!err)
		space_fence_share(space, slot, fence);
	space->nr_refused += err != 0;
	return err;
}

void space_fence_all(struct weir_space *space)
{
	for (uint32_t i = 0; i < space->nr_slots && space->nr_unfenced; i++)
		(void)space_fence_slot(space, space->slot[i]);
}

/* No fence can be had for a slot's brackets. */
static void lose(struct weir_space *space, struct stream_slot *slot)
{
	for (bracket_seq_t seq = slot->last_seq; slot->nr_unfenced && seq > space->done_seq;
	     seq--) {
		struct ended_bracket *ended = space_ended(space, seq);

		if (ended->slot != slot || ended->end || ended->lost)
			continue;
		ended->lost = true;
		slot->nr_unfenced--;
		space->nr_unfenced--;
	}
}

void space_fence_again(void *arg)
{
	struct stream_slot *slot = arg;
	struct weir_space *space = slot->space;
	int err;

	space->backend->ops->host_spend(space->backend, AGAIN_NS);
	pthread_mutex_lock(&space->lock);
	err = space_fence_slot(space, slot);
	/* A capture ends, and memory comes free; but not if the stream is to end first. */
	if (err && (err == -WEIR_ECONTRACT || err == -ENOMEM) && !slot->ends)
		err = 0;
	if (err && ++slot->nr_refused >= AGAIN_TIMES) {
		space_note_error(space, err);
		lose(space, slot);
	}
	pthread_mutex_unlock(&space->lock);
}
