/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many frames a pool has: by its budget, and fewer while others need the memory. Who asks for
 * it gets frames of a pool that is not online, down to a chunk; the next bracket takes them again,
 * as far as there is room.
 *
 * Memory that a call takes bit by bit is not idle, though no frame lies in it yet: while `growing`
 * the pool gives nothing away, so that two pools that grow do not take from each other for ever.
 */
#include <errno.h>

#include "src/base/log.h"
#include "src/core/types.h"
#include "src/paging/paged.h"

/* Positions of hands mean other frames now: all begin anew, in one copy, since one alone would let
 * the hand that takes wait for the other. */
static int hands_reset(struct weir_paged *pool)
{
	_Static_assert(offsetof(struct pt_shared, take) ==
				       offsetof(struct pt_shared, prepare) + PT_LINE &&
			       offsetof(struct pt_shared, fill) ==
				       offsetof(struct pt_shared, take) + PT_LINE,
		       "they are neighbours");
	return paged_zero(pool, &pool->words->shared.prepare,
			  (size_t)2 * PT_LINE + sizeof(uint64_t));
}

/* Have so many frames; nobody is online. -EAGAIN, -ENOMEM: as of phys_take(); the memory that there
 * was room for is kept. */
static int set_frames(struct weir_paged *pool, uint64_t nr_frames, const char *what)
{
	const struct pt_range first = pool->view.range[0];
	struct pt_table *t = &pool->view.table;
	uint32_t shift = pool->view.page_shift;
	int err = paged_quiet(pool, what);

	if (!err && nr_frames < t->nr_frames)
		err = paged_home(pool, nr_frames, true);
	else if (!err)
		err = paged_frames_grow(pool, nr_frames << shift);
	if (!err)
		err = hands_reset(pool);
	if (!err) {
		t->nr_frames = nr_frames;
		t->window = pt_window(nr_frames, t->nr_slots);
		/* Other pages are late now; if that cannot be told, the same ones. */
		(void)paged_range_set(pool, 0, &first);
	}
	/* What is too much goes: memory of frames that there are no more, or that are not to be. */
	if (err != -EAGAIN && err != -ENOMEM)
		paged_frames_shrink(pool, t->nr_frames << shift);
	return err;
}

/* The same, asking others for memory; drops the lock meanwhile. */
static int set_frames_asking(struct weir_paged *pool, uint64_t nr_frames, bool turn,
			     const char *what)
{
	uint64_t bytes = nr_frames << pool->view.page_shift;
	int err;

	pool->growing++;
	while ((err = set_frames(pool, nr_frames, what)) == -EAGAIN &&
	       paged_frames_ask(pool, bytes, turn))
		;
	pool->growing--;
	if (err) /* the space has back what no memory was taken for */
		paged_frames_shrink(pool, paged_frames_bytes(pool));
	return err;
}

int weir_paged_set_budget(struct weir_paged *pool, uint64_t gpu_bytes)
{
	uint64_t nr_frames = gpu_bytes >> pool->view.page_shift;
	int err;

	if (!nr_frames || nr_frames > pool->max_frames) {
		log_error("paged pool '%s': a budget of %llu bytes: at least one page, and at most "
			  "%llu, as the pool was made",
			  pool->name, (unsigned long long)gpu_bytes,
			  (unsigned long long)(pool->max_frames << pool->view.page_shift));
		return -EINVAL;
	}
	pthread_mutex_lock(&pool->lock);
	err = set_frames_asking(pool, nr_frames, false, "weir_paged_set_budget()");
	if (!err)
		pool->budget_frames = nr_frames;
	else
		paged_frames_shrink(pool, pool->view.table.nr_frames << pool->view.page_shift);
	pthread_mutex_unlock(&pool->lock);
	if (err != -EAGAIN && err != -ENOMEM)
		return err;
	paged_no_room(pool, gpu_bytes, -ENOMEM);
	return -ENOMEM;
}

void paged_frames_again(struct weir_paged *pool, bool turn)
{
	static const char what[] = "weir_paged_begin()";
	const struct pt_table *t = &pool->view.table;
	uint64_t nr_frames = pool->budget_frames;

	if (t->nr_frames >= nr_frames || paged_offline(pool) <= 0)
		return;
	if (!set_frames_asking(pool, nr_frames, turn, what) || paged_offline(pool) <= 0)
		return;
	/* As many as there is room for. */
	nr_frames = MIN(paged_frames_bytes(pool) >> pool->view.page_shift, pool->budget_frames);
	if (nr_frames > t->nr_frames)
		(void)set_frames(pool, nr_frames, what);
}

uint64_t paged_give(struct phys_client *client, uint64_t bytes)
{
	struct weir_paged *pool = client->owner;
	uint64_t before, after, keep, nr_frames;

	pthread_mutex_lock(&pool->lock);
	before = paged_frames_bytes(pool);
	if (!pool->growing && paged_offline(pool) > 0) {
		keep = before > bytes ? before - bytes : 0;
		keep -= keep % pool->frames.unit;
		nr_frames = MAX(keep >> pool->view.page_shift, 1);
		(void)set_frames(pool, MIN(nr_frames, pool->view.table.nr_frames), "giving memory");
	}
	after = paged_frames_bytes(pool);
	pthread_mutex_unlock(&pool->lock);
	return before - after;
}
