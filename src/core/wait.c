/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for what a space has queued. The lock is dropped meanwhile, so that after each wait all
 * is to be looked at anew; and each wait is followed by progress.
 */
#include <assert.h>

#include "src/core/space.h"

/* After a wait that failed. */
#define WAIT_NAP_NS 100000u

int space_wait_fence(struct weir_space *space, fence_t fence)
{
	struct backend *b = space->backend;
	int err;

	space->nr_waits++;
	pthread_mutex_unlock(&space->lock);
	err = b->ops->fence_wait(b, fence);
	pthread_mutex_lock(&space->lock);
	if (err) { /* perhaps of the wait, and the caller tries again */
		space_note_error(space, err);
		migrate_note_error(space, fence, err);
		pthread_mutex_unlock(&space->lock);
		b->ops->host_spend(b, WAIT_NAP_NS);
		pthread_mutex_lock(&space->lock);
	}
	space_progress(space);
	return err;
}

void space_wait_seq(struct weir_space *space, bracket_seq_t seq)
{
	assert(seq <= space->last_seq);
	/* In the order of their ends, since that is how they are counted. */
	while (space->done_seq < seq)
		(void)space_wait_fence(space,
				       space->ended[(space->done_seq + 1) % space->max_ended].end);
}

bool space_wait_move(struct weir_space *space, struct path *path, int *waited)
{
	const struct move_queue *queue = &path->moving;
	int err = migrate_fence(space, path);

	space_note_error(space, err);
	if (err || !queue->nr)
		return false;
	err = space_wait_fence(space, queue->move[queue->head].fence);
	if (err && waited)
		*waited = err;
	return true;
}

bool space_wait_leaving(struct weir_space *space, place_t from)
{
	for (uint32_t p = space->nr_paths; p-- > 0;)
		if (space->path[p].from == from && space_wait_move(space, &space->path[p], NULL))
			return true;
	return false;
}

bool space_wait_coming(struct weir_space *space, place_t to)
{
	for (uint32_t p = 0; p < space->nr_paths; p++)
		if (space->path[p].to == to && space_wait_move(space, &space->path[p], NULL))
			return true;
	return false;
}

bool space_wait_any(struct weir_space *space)
{
	for (uint32_t p = space->nr_paths; p-- > 0;)
		if (space_wait_move(space, &space->path[p], NULL))
			return true;
	if (space->done_seq == space->last_seq)
		return false;
	space_wait_seq(space, space->done_seq + 1);
	return true;
}
