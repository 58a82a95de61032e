/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics and dumps of a pool, and the walk that holds it to its invariants. Arrays in the
 * device's memory are looked at piece by piece, as they are at that moment. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/paging/paged.h"
#include "src/paging/walk.h"

#define SLOTS_TOLD 16u /* the rest is counted */

/* Call fn for all words of an array in the device's memory, until it returns an error. */
static int words_walk(struct weir_paged *pool, const uint64_t *from, uint64_t nr,
		      int (*fn)(void *arg, uint64_t i, uint64_t word), void *arg)
{
	uint64_t *piece = malloc(PAGED_PIECE_WORDS * sizeof(*piece));
	int err = piece ? 0 : -ENOMEM;

	for (uint64_t at = 0; !err && at < nr; at += PAGED_PIECE_WORDS) {
		uint64_t here = nr - at < PAGED_PIECE_WORDS ? nr - at : PAGED_PIECE_WORDS;

		err = paged_get(pool, piece, from + at, here * sizeof(*piece));
		for (uint64_t i = 0; !err && i < here; i++)
			err = fn(arg, at + i, piece[i]);
	}
	free(piece);
	return err;
}

/* ------------------------------------------------------------------ statistics */

static int add_resident(void *arg, uint64_t i, uint64_t owner)
{
	(void)i;
	*(uint64_t *)arg += owner != PT_OWNER_FREE && owner != PT_OWNER_TAKEN;
	return 0;
}

static void stats_range(const struct weir_paged *pool, uint32_t i,
			struct weir_paged_range_stats *out)
{
	uint64_t page_bytes = view_page_bytes(&pool->view);

	if (!pool->view.range[i].nr_pages)
		return;
	view_counts_sum(pool->counts, i, out->nr);
	for (uint32_t event = 0; event < WEIR_PAGED_EVENT_NR; event++)
		out->nr[event] -= pool->range[i].before[event];
	out->in_bytes = out->nr[WEIR_PAGED_IN] * page_bytes;
	out->out_bytes = out->nr[WEIR_PAGED_OUT] * page_bytes;
}

static int stats_get(struct weir_paged *pool, struct weir_paged_stats *out)
{
	const struct pt_table *t = &pool->view.table;
	int err = paged_counts_get(pool);

	if (!err)
		err = paged_get(pool, &out->epoch, &t->shared->epoch, sizeof(out->epoch));
	if (!err)
		err = words_walk(pool, t->owner, t->nr_frames, add_resident, &out->nr_resident);
	if (err)
		return err;
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		stats_range(pool, i, &out->range[i]);
	out->nr_frames = t->nr_frames;
	out->nr_max_frames = pool->max_frames;
	out->nr_stalls = pool->nr_stalls;
	out->lagged = pool->counts->lagged;
	return 0;
}

int weir_paged_query(struct weir_paged *pool, struct weir_paged_stats *out)
{
	struct weir_paged_stats stats = {.nr_frames = 0};
	int err;

	pthread_mutex_lock(&pool->lock);
	err = stats_get(pool, &stats);
	pthread_mutex_unlock(&pool->lock);
	if (!err)
		*out = stats;
	return err;
}

/* ------------------------------------------------------------------ dumps */

struct slots_told {
	const char *name;
	uint64_t nr;
};

static int tell_slot(void *arg, uint64_t i, uint64_t epoch)
{
	struct slots_told *told = arg;

	if (epoch >= PT_GUEST)
		log_warning("paged pool '%s': %" PRIu64 " warps without a slot are online",
			    told->name, pt_slot_agents(epoch));
	else if (epoch && told->nr++ < SLOTS_TOLD)
		log_warning("paged pool '%s': slot %" PRIu64 ": online, epoch %" PRIu64, told->name,
			    i, epoch);
	return 0;
}

static int tally_entry(void *arg, uint64_t i, uint64_t entry)
{
	(void)i;
	walk_count(arg, entry);
	return 0;
}

static int dump_shared(struct weir_paged *pool)
{
	const struct pt_table *t = &pool->view.table;
	struct slots_told told = {pool->name, 0};
	struct pt_shared shared;
	int err = paged_get(pool, &shared, t->shared, sizeof(shared));

	if (err)
		return err;
	log_warning("paged pool '%s': epoch %" PRIu64 ", prepare %" PRIu64 ", take %" PRIu64
		    ", fill %" PRIu64 ", %" PRIu64 " frames, window %" PRIu64 "%s%s",
		    pool->name, shared.epoch, shared.prepare, shared.take, shared.fill,
		    t->nr_frames, t->window, shared.scan ? ", scanning" : "",
		    pool->stalled ? ", admission stopped" : "");
	err = words_walk(pool, t->slot, t->nr_slots + 1ull, tell_slot, &told);
	if (!err)
		log_warning("paged pool '%s': %" PRIu64 " of %u slots are online", pool->name,
			    told.nr, t->nr_slots);
	return err;
}

void paged_dump(struct weir_paged *pool)
{
	int err = dump_shared(pool);

	for (uint32_t i = 0; !err && i < WEIR_PAGED_RANGES_MAX; i++) {
		const struct pt_range *range = &pool->view.range[i];
		struct walk_tally tally = {.nr_dirty = 0};
		char text[256];

		if (!range->nr_pages)
			continue;
		err = words_walk(pool, range->entry, range->nr_pages, tally_entry, &tally);
		walk_text(&tally, text, sizeof(text));
		if (!err)
			log_warning("paged pool '%s': range %u ('%s'): %s", pool->name, i,
				    pool->range[i].name, text);
	}
	if (err)
		log_error("paged pool '%s': its table cannot be read: %s", pool->name,
			  weir_strerror(err));
}

void weir_paged_dump(struct weir_paged *pool)
{
	pthread_mutex_lock(&pool->lock);
	paged_dump(pool);
	pthread_mutex_unlock(&pool->lock);
}

/* ------------------------------------------------------------------ the walk */

struct check {
	struct weir_paged *pool;
	uint32_t range;
	uint64_t *owner; /* of each frame */
	uint8_t *seen;	 /* a bit of each */
	uint8_t *page;
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
		if (!err &&
		    memcmp(check->page, (uint8_t *)range->host + (i << v->page_shift), bytes) != 0)
			wrong = "is clean, and differs from the host's copy";
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
			      .page = malloc(view_page_bytes(&pool->view))};
	int err = check.owner && check.seen && check.page ? 0 : -ENOMEM;

	if (!err)
		err = paged_get(pool, check.owner, t->owner, t->nr_frames * sizeof(uint64_t));
	for (; !err && check.range < WEIR_PAGED_RANGES_MAX; check.range++) {
		const struct pt_range *range = &pool->view.range[check.range];

		err = words_walk(pool, range->entry, range->nr_pages, check_entry, &check);
	}
	if (!err)
		err = check_frames(&check);
	if (!err)
		err = words_walk(pool, t->slot, t->nr_slots + 1ull, check_slot, pool);
	if (!err)
		err = check_shared(&check);
	free(check.owner);
	free(check.seen);
	free(check.page);
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
