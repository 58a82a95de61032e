/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for what a space has queued: the one place where a call drops the space's lock and goes
 * on later. A pass does what it can without waiting; see struct settle.
 */
#include <assert.h>

#include "src/core/space.h"

/* After a wait that failed. */
#define WAIT_NAP_NS 100000u
/* Between two looks at what is waited for with patience. */
#define LOOK_NS 20000u
/* Patience is so many times the longest wait that was worth while: kernels that use memory in place
 * take long; and no longer than this. */
#define LONGEST_TIMES 4u
#define PATIENCE_MAX_NS 2000000000u

/* Wait for the fence, with the lock dropped; then progress. */
static void wait_fence(struct weir_space *space, struct settle *settle)
{
	struct backend *b = space->backend;
	int err;

	space->nr_waits++;
	pthread_mutex_unlock(&space->lock);
	err = b->ops->fence_wait(b, settle->fence);
	pthread_mutex_lock(&space->lock);
	if (err) { /* perhaps of the wait, and the caller tries again */
		space_note_error(space, err);
		migrate_note_error(space, settle->fence, err);
		pthread_mutex_unlock(&space->lock);
		b->ops->host_spend(b, WAIT_NAP_NS);
		pthread_mutex_lock(&space->lock);
	}
	settle->err = err;
	space_progress(space);
}

/* How long a bracket is waited for. */
static uint64_t patience(const struct weir_space *space)
{
	return MAX(space->patience_ns,
		   MIN(LONGEST_TIMES * space->longest_ns, (uint64_t)PATIENCE_MAX_NS));
}

/* Wait for the fence for as long as the space is patient, with the lock dropped; then progress.
 * @return whether it is still to be waited for. */
static bool lose_patience(struct weir_space *space, struct settle *settle)
{
	const bracket_seq_t oldest = space->done_seq + 1;
	const uint64_t patience_ns = patience(space);
	struct backend *b = space->backend;
	uint64_t waited_ns = oldest == space->stuck_seq ? patience_ns : 0;
	int done = 0;

	pthread_mutex_unlock(&space->lock);
	for (; !done && waited_ns < patience_ns; waited_ns += LOOK_NS) {
		done = b->ops->fence_done(b, settle->fence);
		if (!done)
			b->ops->host_spend(b, LOOK_NS);
	}
	pthread_mutex_lock(&space->lock);
	if (done < 0) { /* of the work before it: it is told once */
		space_note_error(space, done);
		migrate_note_error(space, settle->fence, done);
	}
	if (done) {
		space->longest_ns = MAX(space->longest_ns, waited_ns);
		return true;
	}
	space->impatient = true;
	if (space->stuck_seq != oldest) {
		space->stuck_seq = oldest;
		space->hasty_seq = space->last_seq + 1;
		space->stuck_ns = b->ops->now_ns(b) - waited_ns;
	}
	space_progress(space);
	return false;
}

/* Ask the others for memory, with the lock dropped; then progress. */
static void ask_others(struct weir_space *space, struct settle *settle)
{
	struct pmm *pmm = &space->pmm[settle->place];
	uint64_t given;

	pthread_mutex_unlock(&space->lock);
	given = phys_reclaim(&pmm->client, settle->bytes);
	pthread_mutex_lock(&space->lock);
	settle->bytes = 0;
	settle->err = 0;
	if (!given) {
		settle->in_vain |= 1u << settle->place;
		pmm_refused(pmm);
	}
	space_progress(space);
}

/* Make a call that may block, with the lock dropped; then progress. */
static void make_call(struct weir_space *space, struct settle *settle)
{
	pthread_mutex_unlock(&space->lock);
	settle->call(settle->arg);
	pthread_mutex_lock(&space->lock);
	settle->call = NULL;
	settle->err = 0;
	space_progress(space);
}

int space_settle(struct weir_space *space, settle_pass_fn pass, void *arg)
{
	struct settle settle = {0};
	int ret;

	while ((ret = pass(space, arg, &settle)) == SETTLE_WAIT) {
		if (settle.call)
			make_call(space, &settle);
		else if (settle.bytes)
			ask_others(space, &settle);
		else if (!space->patience_ns || !settle.bracket || !space->placing ||
			 space->impatient || lose_patience(space, &settle))
			wait_fence(space, &settle);
		settle.bracket = false;
	}
	return ret;
}

int settle_on_seq(struct weir_space *space, bracket_seq_t seq, struct settle *settle)
{
	struct ended_bracket *oldest;

	assert(seq <= space->last_seq);
	if (space->done_seq >= seq)
		return 0;
	/* In the order of their ends, since that is how they are counted. */
	oldest = space_ended(space, space->done_seq + 1);
	if (!oldest->end) /* of all: each is behind as little as can be */
		space_fence_all(space);
	if (!oldest->end) {
		settle->call = space_fence_again;
		settle->arg = oldest->slot;
		return SETTLE_WAIT;
	}
	settle->fence = oldest->end;
	settle->bracket = true;
	return SETTLE_WAIT;
}

int settle_on_path(struct weir_space *space, struct path *path, struct settle *settle)
{
	const struct move_queue *queue = &path->moving;
	int err = migrate_fence(space, path);

	space_note_error(space, err);
	if (err || !queue->nr)
		return 0;
	settle->fence = queue->move[queue->head].fence;
	return SETTLE_WAIT;
}

int settle_on_leaving(struct weir_space *space, place_t from, struct settle *settle)
{
	/* What takes least time comes first. */
	if (from == PLACE_OWN && settle_on_compared(space, settle))
		return SETTLE_WAIT;
	for (uint32_t p = space->nr_paths; p-- > 0;)
		if (space->path[p].from == from && settle_on_path(space, &space->path[p], settle))
			return SETTLE_WAIT;
	return 0;
}

int settle_on_coming(struct weir_space *space, place_t to, struct settle *settle)
{
	for (uint32_t p = 0; p < space->nr_paths; p++)
		if (space->path[p].to == to && settle_on_path(space, &space->path[p], settle))
			return SETTLE_WAIT;
	return 0;
}

int settle_on_any(struct weir_space *space, struct settle *settle)
{
	/* Copies between other places, in the background, free nothing that is waited for. */
	for (uint32_t own = 0; own < space->nr_devices; own++)
		if (settle_on_leaving(space, (place_t)own, settle) ||
		    settle_on_coming(space, (place_t)own, settle))
			return SETTLE_WAIT;
	for (uint32_t p = space->nr_paths; p-- > 0;)
		if (settle_on_path(space, &space->path[p], settle))
			return SETTLE_WAIT;
	if (settle_on_seq(space, MIN(space->done_seq + 1, space->last_seq), settle))
		return SETTLE_WAIT;
	return space->shared && space->shared_ops->settle(space, settle) > 0 ? SETTLE_WAIT : 0;
}

int settle_on_others(const struct weir_space *space, place_t place, uint64_t nr,
		     struct settle *settle)
{
	const struct pmm *pmm = &space->pmm[place];

	nr = MIN(MAX(nr, 1), pmm_nr_available(pmm));
	if (!pmm->ask || !nr || settle->in_vain & 1u << place)
		return 0;
	settle->place = place;
	settle->bytes = nr * pmm->chunk_bytes;
	return SETTLE_WAIT;
}

int settle_on_others_below(const struct weir_space *space, place_t own, place_t place,
			   struct settle *settle)
{
	for (uint32_t rank = place_rank(own, place) + 1u; rank < space->nr_places; rank++)
		if (settle_on_others(space, place_ranked(own, (place_t)rank), 1, settle))
			return SETTLE_WAIT;
	return 0;
}

static int seq_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	return settle_on_seq(space, *(const bracket_seq_t *)arg, settle);
}

void space_settle_seq(struct weir_space *space, bracket_seq_t seq)
{
	(void)space_settle(space, seq_pass, &seq);
}

static int patient_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	return space->impatient ? 0 : seq_pass(space, arg, settle);
}

void space_settle_patiently(struct weir_space *space, bracket_seq_t seq)
{
	(void)space_settle(space, patient_pass, &seq);
}
