/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is core's in a space: its parts' creation, progress, waiting, the brackets that ended, the
 * checker. Allocation and brackets are the mode's (src/residency).
 */
#include "src/core/space.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/core/cost.h"

/* From so many slots on, one of a stream that is idle serves the next new stream: programs make and
 * destroy streams without telling their spaces. */
#define SLOTS_MANY 32u

/* After a wait that failed. */
#define WAIT_NAP_NS 100000u

/* The backend's progress function. Whoever holds the lock makes the progress itself. */
static void progress_entry(void *arg)
{
	struct weir_space *space = arg;

	if (pthread_mutex_trylock(&space->lock))
		return;
	space_progress(space);
	pthread_mutex_unlock(&space->lock);
}

int space_init(struct weir_space *space, struct weir_machine *machine,
	       const struct weir_space_config *config)
{
	struct backend *b = machine_backend(machine);
	int err;

	space->machine = machine;
	space->backend = b;
	space->device = config->device;
	space->block_bytes = config->block_bytes;
	space->mode = config->mode;
#ifdef WEIR_DEBUG_CHECKS
	space->poison = true;
#endif
	pmm_init(&space->pmm[TIER_HBM], b, b->desc.device[config->device].memory,
		 config->block_bytes, config->gpu_budget_bytes);
	pmm_init(&space->pmm[TIER_HOST], b, cost_host_memory(&b->desc), config->block_bytes,
		 config->host_budget_bytes);
	if (pthread_mutex_init(&space->lock, NULL))
		return -ENOMEM;
	if (pthread_cond_init(&space->placed, NULL)) {
		pthread_mutex_destroy(&space->lock);
		return -ENOMEM;
	}
	err = b->ops->stream_create(b, config->device, BACKEND_COPY_IN,
				    &space->copy_stream[TIER_HBM]);
	if (err)
		goto err_mutex;
	err = b->ops->stream_create(b, config->device, BACKEND_COPY_OUT,
				    &space->copy_stream[TIER_HOST]);
	if (err)
		goto err_in;
	err = b->ops->set_progress(b, progress_entry, space);
	if (err)
		goto err_out;
	return 0;

err_out:
	b->ops->stream_destroy(b, space->copy_stream[TIER_HOST]);
err_in:
	b->ops->stream_destroy(b, space->copy_stream[TIER_HBM]);
err_mutex:
	pthread_cond_destroy(&space->placed);
	pthread_mutex_destroy(&space->lock);
	return err;
}

void space_fini(struct weir_space *space)
{
	struct backend *b = space->backend;

	assert(!space->nr_ranges);
	(void)b->ops->set_progress(b, NULL, space);
	for (int tier = 0; tier < TIER_NR; tier++) {
		b->ops->stream_destroy(b, space->copy_stream[tier]);
		pmm_fini(&space->pmm[tier]);
		free(space->moving[tier].move);
	}
	for (uint32_t i = 0; i < space->nr_slots; i++) {
		free(space->slot[i]->uses.use);
		free(space->slot[i]);
	}
	free(space->slot);
	for (uint32_t i = 0; i < space->max_ended; i++)
		free(space->ended[i].uses.use);
	free(space->ended);
	free(space->range);
	free(space->by_addr);
	pthread_cond_destroy(&space->placed);
	pthread_mutex_destroy(&space->lock);
}

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
		int done = b->ops->fence_done(b, fence);

		if (done > 0 && last && err)
			*err = last;
		if (done >= 0)
			return done != 0;
		last = done;
		space_note_error(space, done);
	}
	return false;
}

int space_fence_record(struct weir_space *space, stream_id_t stream, fence_t *out)
{
	struct backend *b = space->backend;
	int err = b->ops->fence_record(b, stream, out);

	/* Work that was queued and has no fence would never be known to be done. */
	for (int i = 1; err && err != -WEIR_ECONTRACT && i < SPACE_TRIES; i++)
		err = b->ops->fence_record(b, stream, out);
	return err;
}

bool space_is_before(const struct weir_space *space, bracket_seq_t seq,
		     const struct stream_slot *slot)
{
	for (uint32_t i = 0; seq > space->done_seq && i < space->nr_slots; i++)
		if (space->slot[i] != slot && space->slot[i]->last_seq > space->done_seq)
			return false;
	return true;
}

bool space_has_room(const struct weir_space *space, uint32_t nr_blocks)
{
	return space->nr_live_blocks + nr_blocks + SPACE_CHUNKS_SPARE <=
	       space->pmm[TIER_HBM].max_chunks + space->pmm[TIER_HOST].max_chunks;
}

int use_list_reserve(struct use_list *list, uint32_t nr)
{
	struct space_use *use;

	if (nr <= list->max)
		return 0;
	use = realloc(list->use, nr * sizeof(*use));
	if (!use)
		return -ENOMEM;
	list->use = use;
	list->max = nr;
	return 0;
}

int space_ended_reserve(struct weir_space *space)
{
	uint64_t nr = space->last_seq - space->done_seq + space->nr_open;
	uint32_t max = MAX(256u, space->max_ended * 2);
	struct ended_bracket *ended;

	if (nr < space->max_ended)
		return 0;
	ended = calloc(max, sizeof(*ended));
	if (!ended)
		return -ENOMEM;
	for (bracket_seq_t seq = space->done_seq + 1; seq <= space->last_seq; seq++) {
		struct ended_bracket *old = &space->ended[seq % space->max_ended];

		ended[seq % max] = *old;
		old->uses.use = NULL;
	}
	for (uint32_t i = 0; i < space->max_ended; i++)
		free(space->ended[i].uses.use);
	free(space->ended);
	space->ended = ended;
	space->max_ended = max;
	return 0;
}

bracket_seq_t space_ended_add(struct weir_space *space, const struct ended_bracket *bracket,
			      struct use_list *uses)
{
	bracket_seq_t seq = ++space->last_seq;
	struct ended_bracket *ended = &space->ended[seq % space->max_ended];
	struct use_list spare = ended->uses;

	assert(seq - space->done_seq <= space->max_ended);
	*ended = *bracket;
	ended->uses = *uses;
	ended->slot->last_seq = seq;
	spare.nr = 0;
	spare.all = false;
	*uses = spare;
	return seq;
}

static void retire_brackets(struct weir_space *space)
{
	while (space->done_seq < space->last_seq) {
		const struct ended_bracket *bracket =
			&space->ended[(space->done_seq + 1) % space->max_ended];

		if (!space_fence_done(space, bracket->end, NULL))
			break;
		space->done_seq++;
		space->bracket_done(space, bracket);
	}
}

void space_progress(struct weir_space *space)
{
	migrate_retire(space);
	retire_brackets(space);
	migrate_drop_stale(space);
	space->advance(space);
}

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

bool space_wait_move(struct weir_space *space, enum tier to, int *waited)
{
	const struct move_queue *queue = &space->moving[to];
	int err = migrate_fence(space, to);

	space_note_error(space, err);
	if (err || !queue->nr)
		return false;
	err = space_wait_fence(space, queue->move[queue->head].fence);
	if (err && waited)
		*waited = err;
	return true;
}

bool space_wait_any(struct weir_space *space)
{
	for (int tier = TIER_NR - 1; tier >= 0; tier--)
		if (space_wait_move(space, (enum tier)tier, NULL))
			return true;
	if (space->done_seq == space->last_seq)
		return false;
	space_wait_seq(space, space->done_seq + 1);
	return true;
}

void space_placing_begin(struct weir_space *space)
{
	while (space->placing)
		pthread_cond_wait(&space->placed, &space->lock);
	space->placing = true;
	space->keep_marked = false;
	space->mark++; /* nothing is named yet */
	space->give_epoch++;
}

void space_placing_end(struct weir_space *space)
{
	space->placing = space->keep_marked = false;
	pthread_cond_signal(&space->placed);
}

struct stream_slot *space_slot_find(const struct weir_space *space,
				    const struct weir_stream *stream)
{
	for (uint32_t i = 0; i < space->nr_slots; i++)
		if (space->slot[i]->stream == stream)
			return space->slot[i];
	return NULL;
}

/* A slot of a stream that nothing of is under way, which may be gone; NULL: none, or there are few
 * slots yet. */
static struct stream_slot *idle_slot(const struct weir_space *space)
{
	for (uint32_t i = 0; i < space->nr_slots && space->nr_slots >= SLOTS_MANY; i++)
		if (!space->slot[i]->open && !space->slot[i]->placing &&
		    space->slot[i]->last_seq <= space->done_seq)
			return space->slot[i];
	return NULL;
}

struct stream_slot *space_slot(struct weir_space *space, struct weir_stream *stream)
{
	struct stream_slot *slot = space_slot_find(space, stream);

	if (slot)
		return slot;
	slot = idle_slot(space);
	if (slot) {
		slot->stream = stream;
		return slot;
	}
	if (space->nr_slots == space->max_slots) {
		uint32_t max = MAX(4u, space->max_slots * 2);
		struct stream_slot **table = realloc(space->slot, max * sizeof(slot));

		if (!table)
			return NULL;
		space->slot = table;
		space->max_slots = max;
	}
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return NULL;
	slot->stream = stream;
	slot->number = space->nr_slots;
	space->slot[space->nr_slots++] = slot;
	return slot;
}

static int check_counts(const struct weir_space *space, uint64_t live, const uint64_t out[TIER_NR])
{
	uint32_t nr_open = space->nr_host_open;

	for (uint32_t i = 0; i < space->nr_slots; i++)
		nr_open += space->slot[i]->open;
	if (nr_open != space->nr_open || live != space->nr_live_blocks) {
		log_error("space: %u brackets open, %u counted; %llu live blocks, %llu counted",
			  space->nr_open, nr_open, (unsigned long long)space->nr_live_blocks,
			  (unsigned long long)live);
		return -EUCLEAN;
	}
	for (int tier = 0; tier < TIER_NR; tier++) {
		int err = pmm_check(&space->pmm[tier], out[tier]);

		if (err)
			return err;
	}
	return 0;
}

/* Ranges lie apart, and both tables have the same. */
static int check_tables(const struct weir_space *space)
{
	uintptr_t end = 0;

	for (uint32_t i = 0; i < space->nr_ranges; i++) {
		const struct range *range = space->by_addr[i];
		uint32_t at = 0;

		while (at < space->nr_ranges && space->range[at] != range)
			at++;
		if ((uintptr_t)range->addr < end || at == space->nr_ranges) {
			log_error("range %p overlaps the one below it, or is in one table only",
				  range->addr);
			return -EUCLEAN;
		}
		end = (uintptr_t)range->addr + range->nr_blocks * space->block_bytes;
	}
	return 0;
}

int space_check(const struct weir_space *space)
{
	uint64_t out[TIER_NR] = {0}, live = 0, stale = 0;

	if (check_tables(space))
		return -EUCLEAN;
	for (uint32_t i = 0; i < space->nr_ranges; i++) {
		const struct range *range = space->range[i];
		int err = range_check(space, range);

		if (err)
			return err;
		live += range->pooled ? 0 : range->nr_blocks;
		stale += range->nr_stale;
		for (uint32_t n = 0; n < range->nr_blocks; n++) {
			out[TIER_HBM] += range->block[n].chunk[TIER_HBM] != NULL;
			out[TIER_HOST] += range->block[n].chunk[TIER_HOST] != NULL;
		}
	}
	if (stale != space->nr_stale) {
		log_error("space: %llu stale blocks, %llu counted", (unsigned long long)stale,
			  (unsigned long long)space->nr_stale);
		return -EUCLEAN;
	}
	return check_counts(space, live, out);
}

uint32_t space_where(struct weir_space *space, const void *addr, uint64_t bytes, bool *resident,
		     uint32_t max)
{
	const struct range *range;
	uint64_t offset, last;
	uint32_t nr = 0;

	pthread_mutex_lock(&space->lock);
	range = range_find(space, addr);
	if (!range || !bytes)
		goto out;
	offset = (uint64_t)((const char *)addr - (const char *)range->addr);
	last = (offset + bytes - 1) / space->block_bytes;
	if (bytes > UINT64_MAX - offset || last >= range->nr_blocks)
		goto out;
	for (uint64_t i = offset / space->block_bytes; i <= last && nr < max; i++)
		resident[nr++] = block_is_resident(&range->block[i]);
out:
	pthread_mutex_unlock(&space->lock);
	return nr;
}

bool space_has(struct weir_space *space, const void *addr)
{
	bool has;

	pthread_mutex_lock(&space->lock);
	has = range_find(space, addr) != NULL;
	pthread_mutex_unlock(&space->lock);
	return has;
}

uint64_t space_movable_chunks(struct weir_space *space)
{
	uint64_t nr;

	pthread_mutex_lock(&space->lock);
	nr = space->pmm[TIER_HBM].max_chunks;
	for (uint32_t r = 0; r < space->nr_ranges; r++)
		if (space->range[r]->arena)
			nr -= range_nr_resident(space->range[r]);
	pthread_mutex_unlock(&space->lock);
	return nr;
}
