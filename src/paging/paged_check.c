/* SPDX-License-Identifier: Apache-2.0 */
/* The walk that holds a pool to its invariants. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/paging/paged.h"
#include "src/paging/walk.h"

struct check {
	struct weir_paged *pool;
	uint32_t range;
	uint64_t *owner; /* of each frame */
	uint8_t *seen;	 /* a bit of each */
	uint8_t *page, *home;
};

static int check_entry(void *arg, uint64_t i, uint64_t entry)
{
	struct check *check = arg;
	struct weir_paged *pool = check->pool;
	const struct weir_paged_view *v = &pool->view;
	const struct pt_range *range = &v->range[check->range];
	uint64_t bytes = view_bytes_in(v, range->bytes, i);
	const char *wrong = walk_entry(range, PT_ID(check->range, i), entry, check->owner,
				       v->table.nr_frames, check->seen);
	int err = 0;

	if (!wrong && pt_state_of(entry) != PT_ABSENT && !(entry & PT_DIRTY)) {
		err = paged_get(pool, check->page, view_frame(v, pt_frame_of(entry)), bytes);
		if (!err)
			err = paged_home_get(pool, check->range, check->home,
					     (uint8_t *)range->host + (i << v->page_shift), bytes);
		if (!err && memcmp(check->page, check->home, bytes) != 0)
			wrong = "is clean, and differs from its copy at home";
	}
	if (!wrong)
		return err;
	log_error("paged pool '%s': page %" PRIu64 " of range %u ('%s') %s: entry %016" PRIx64,
		  pool->name, i, check->range, pool->range[check->range].name, wrong, entry);
	return -EUCLEAN;
}

static int check_slot(void *arg, uint64_t i, uint64_t epoch)
{
	const struct weir_paged *pool = arg;

	if (!epoch)
		return 0;
	log_error("paged pool '%s': slot %" PRIu64 " says %" PRIu64 ", and nobody is online",
		  pool->name, i, epoch);
	return -EUCLEAN;
}

static int check_shared(const struct check *check)
{
	struct weir_paged *pool = check->pool;
	uint64_t nr_frames = pool->view.table.nr_frames, left;
	struct pt_shared shared;
	int err = paged_get(pool, &shared, pool->view.table.shared, sizeof(shared));

	if (err)
		return err;
	left = walk_fill(check->owner, nr_frames, shared.fill);
	if (left < nr_frames) {
		log_error("paged pool '%s': frame %" PRIu64 " is free, and filling is at %" PRIu64,
			  pool->name, left, shared.fill);
		return -EUCLEAN;
	}
	if (shared.epoch && !shared.scan)
		return 0;
	log_error("paged pool '%s': epoch %" PRIu64 ", scan lock %" PRIu64 ", and nobody is online",
		  pool->name, shared.epoch, shared.scan);
	return -EUCLEAN;
}

static int check_frames(const struct check *check)
{
	uint64_t nr_frames = check->pool->view.table.nr_frames;
	uint64_t i = walk_frames(check->owner, nr_frames, check->seen);

	if (i == nr_frames)
		return 0;
	log_error("paged pool '%s': frame %" PRIu64 " has owner word %" PRIx64 ", and %s page",
		  check->pool->name, i, check->owner[i],
		  check->seen[i / 8] >> i % 8 & 1 ? "a" : "no");
	return -EUCLEAN;
}

static int check_all(struct weir_paged *pool)
{
	const struct pt_table *t = &pool->view.table;
	struct check check = {.pool = pool,
			      .owner = malloc(t->nr_frames * sizeof(uint64_t)),
			      .seen = calloc(t->nr_frames / 8 + 1, 1),
			      .page = malloc(view_page_bytes(&pool->view)),
			      .home = malloc(view_page_bytes(&pool->view))};
	int err = check.owner && check.seen && check.page && check.home ? 0 : -ENOMEM;

	if (!err)
		err = paged_get(pool, check.owner, t->owner, t->nr_frames * sizeof(uint64_t));
	for (; !err && check.range < WEIR_PAGED_RANGES_MAX; check.range++) {
		const struct pt_range *range = &pool->view.range[check.range];

		err = paged_words_walk(pool, range->entry, range->nr_pages, check_entry, &check);
	}
	if (!err)
		err = check_frames(&check);
	if (!err)
		err = paged_words_walk(pool, t->slot, t->nr_slots + 1ull, check_slot, pool);
	if (!err)
		err = check_shared(&check);
	free(check.owner);
	free(check.seen);
	free(check.page);
	free(check.home);
	return err;
}

int weir_paged_check(struct weir_paged *pool)
{
	int err;

	pthread_mutex_lock(&pool->lock);
	err = paged_quiet(pool, "weir_paged_check()");
	if (!err)
		err = check_all(pool);
	pthread_mutex_unlock(&pool->lock);
	return err;
}
