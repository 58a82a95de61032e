/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics and dumps of a pool, as its words are at that moment. */
#include <inttypes.h>

#include "src/base/log.h"
#include "src/paging/paged.h"
#include "src/paging/walk.h"

#define SLOTS_TOLD 16u /* the rest is counted */

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
	paged_home_bytes(pool, i, out->home_bytes);
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
		err = paged_words_walk(pool, t->owner, t->nr_frames, add_resident,
				       &out->nr_resident);
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
	err = paged_words_walk(pool, t->slot, t->nr_slots + 1ull, tell_slot, &told);
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
		err = paged_words_walk(pool, range->entry, range->nr_pages, tally_entry, &tally);
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
