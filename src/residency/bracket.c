/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets on streams: the contract of weir_begin() and weir_end(). */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/core/kind.h"
#include "src/core/tracing.h"
#include "src/residency/residency.h"

/* Brackets that the program may be ahead of the device: a stream takes 1,021 commands (H200, driver
 * 580.159), and a bracket is five at most: a launch, two fences, and what a timeline adds. */
#define BRACKETS_AHEAD 192u
/* With replicated ranges: what each is sent is three commands more, on the stream that reads it. */
#define BRACKETS_AHEAD_SHARED 64u
/* Brackets of guessed launches that are retired at a time, where nothing moves: asking the driver
 * takes as long for one as for all, some 0.3 us on an H200's host. */
#define GUESSES_BEHIND 8u
/* Brackets that share a fence at most: recording one takes 1.1 us of an H200's host, and what is
 * waited for may be so many launches later. */
#define GROUP_MAX 16u

/* What a use is to the space: of the first four kinds. */
static enum weir_use_kind placed_as(enum weir_use_kind declared)
{
	switch (declared) {
	case WEIR_READ_ELEMENTS:
		return WEIR_READ;
	case WEIR_ATOMIC:
		return WEIR_WRITE;
	default:
		return declared;
	}
}

/* One use as declared, as blocks. */
static int resolve_one(struct weir_space *space, const struct weir_use *use, struct space_use *out)
{
	struct range *range = range_find(space, use->addr);
	uint64_t offset, begin = 0, size, end;

	if (!range || !range_lives(range) || !use->bytes || use->kind > WEIR_ATOMIC ||
	    use->pattern > WEIR_RANDOM || (use->kind == WEIR_ATOMIC && range->kind))
		goto invalid;
	offset = (uint64_t)((const char *)use->addr - (const char *)range->addr);
	size = range->arena ? arena_find(range, use->addr, &begin) : range->bytes;
	if (offset - begin >= size || use->bytes > size - (offset - begin))
		goto invalid;
	end = offset + use->bytes;
	*out = (struct space_use){
		.range = range,
		.kind = placed_as(use->kind),
		.atomic = use->kind == WEIR_ATOMIC,
		.elements = use->kind == WEIR_READ_ELEMENTS,
		.pattern = use->pattern,
		.granule = use->granule,
		.offset = offset,
		.bytes = use->bytes,
		.read_bytes = (double)use->read_bytes,
		.write_bytes = (double)use->write_bytes,
	};
	if (range->kind) { /* it has no blocks */
		if (use->kind == WEIR_OVERWRITE && !range->kind->windows)
			out->kind = WEIR_WRITE;
		return 0;
	}
	/* Most name a whole range, and dividing takes longer than all else that is done here. */
	if (use->bytes == range->bytes) {
		out->nr = range->nr_blocks;
		return 0;
	}
	out->first = (uint32_t)(offset / space->block_bytes);
	out->nr = (uint32_t)((end - 1) / space->block_bytes) - out->first + 1;
	out->head_part = offset % space->block_bytes != 0;
	/* What lies behind the end of a range in its last block belongs to nobody. */
	out->tail_part = end % space->block_bytes != 0 && (end != range->bytes || range->arena);
	return 0;

invalid:
	log_error("use of %llu bytes at %p: not inside one range, or of no kind that it may have",
		  (unsigned long long)use->bytes, use->addr);
	return -EINVAL;
}

static bool overlap(const struct space_use *a, const struct space_use *b)
{
	if (a->range != b->range)
		return false;
	if (a->range->kind)
		return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
	return a->first < b->first + b->nr && b->first < a->first + a->nr;
}

/* Contents that one use overwrites or discards and another one needs are needed. */
static void strengthen(struct space_use *uses, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		if (uses[i].kind != WEIR_OVERWRITE && uses[i].kind != WEIR_DISCARD)
			continue;
		for (uint32_t n = 0; n < nr; n++)
			if (n != i && uses[n].kind < uses[i].kind && overlap(&uses[i], &uses[n]))
				uses[i].kind = WEIR_WRITE;
	}
}

int bracket_resolve(struct weir_space *space, const struct weir_use *uses, uint32_t nr,
		    struct space_use *out)
{
	for (uint32_t i = 0; i < nr; i++) {
		int err = resolve_one(space, &uses[i], &out[i]);

		if (err)
			return err;
	}
	strengthen(out, nr);
	return 0;
}

/* The bracket that names the whole space: a use of every range, and of an arena's allocations that
 * have replicas. */
static int resolve_all(struct weir_space *space, place_t own, struct use_list *out)
{
	uint32_t nr = space->nr_ranges + 1;
	int err;

	for (uint32_t r = 0; r < space->nr_ranges; r++)
		nr += space->range[r]->arena ? space->range[r]->nr_replicated : 0;
	err = use_list_reserve(out, nr);
	if (err)
		return err;
	out->nr = 0;
	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];

		if (!range_lives(range) ||
		    (range->kind && range->kind->windows && range->owner->place != own))
			continue;
		out->use[out->nr++] = (struct space_use){
			.range = range,
			.nr = range->nr_blocks,
			.kind = WEIR_WRITE,
			.bytes = range->bytes,
		};
		if (range->arena && range->nr_replicated)
			out->nr += space->shared_ops->resolve(space, &out->use[out->nr - 1],
							      &out->use[out->nr]);
	}
	out->nr_named = out->nr;
	return 0;
}

/* Behind the uses that are declared, until the bracket is open: ranges that its launches may touch
 * where they are, and that are not ready for that. */
static int resolve_rest(struct weir_space *space, struct use_list *out)
{
	int err = use_list_reserve(out, out->nr + space->wide.nr_astray);

	for (uint32_t r = 0; !err && r < space->nr_ranges && space->wide.nr_astray; r++) {
		struct range *range = space->range[r];

		if (!range->at_hand && range_is_in_wide(range, out->wide))
			out->use[out->nr++] = wide_use(range);
	}
	return err;
}

/* What launches with guessed uses are known by: what they launch, and the sizes of these. */
static uint64_t guess_key(const struct bracket_asked *asked)
{
	uint64_t key = hash_mix(asked->launched, asked->nr_likely);

	if (!asked->launched || !asked->uses)
		return 0;
	for (uint32_t u = 0; u < asked->nr_likely; u++)
		key = hash_mix(key, asked->uses[u].bytes);
	return key | 1;
}

/* What is known of guesses. */
static void resolve_guesses(const struct weir_space *space, const struct bracket_asked *asked,
			    struct use_list *out)
{
	const uint64_t key = guess_key(asked);

	for (uint32_t u = 0; key && u < asked->nr_likely; u++)
		out->use[u].unused = (float)(1 - guess_share(space->residency->guesses, key, u));
	for (uint32_t u = asked->nr_likely; u < asked->nr; u++)
		out->use[u].stays = true;
}

static int resolve_named(struct weir_space *space, const struct bracket_asked *asked,
			 struct use_list *out)
{
	int err = use_list_reserve(out, asked->nr + 1);

	if (!err)
		err = bracket_resolve(space, asked->uses, asked->nr, out->use);
	if (err)
		return err;
	out->nr = asked->nr;
	out->nr_named = asked->nr_likely;
	resolve_guesses(space, asked, out);
	if (asked->open)
		out->wide = wide_begin(space);
	return 0;
}

static int resolve_uses(struct weir_space *space, place_t own, const struct bracket_asked *asked,
			struct use_list *out)
{
	int err;

	out->all = !asked->open && !asked->uses && !asked->nr;
	out->kinds = false;
	out->wide = 0;
	if (!out->all && (!asked->uses != !asked->nr || (!asked->open && !asked->nr)))
		return -EINVAL;
	err = out->all ? resolve_all(space, own, out) : resolve_named(space, asked, out);
	out->unordered = !err && !out->all;
	for (uint32_t u = 0; u < out->nr && out->unordered; u++)
		out->unordered = out->use[u].atomic;
	for (uint32_t u = 0; !err && !list_empty(&space->owners) && u < out->nr; u++)
		out->kinds |= out->use[u].range->kind != NULL;
	return err;
}

/* Whether a device's plans may have the range. */
static bool may_plan(const struct weir_space *space, const struct planner *p,
		     const struct range *range)
{
	return space->nr_devices == 1 || range->residency->planner == p;
}

uint64_t bracket_record(struct weir_space *space, struct planner *p, enum event_kind kind,
			const struct stream_slot *slot, const struct space_use *uses,
			uint32_t nr_uses)
{
	uint64_t number;

	if (!space->residency->recording)
		return 0;
	for (uint32_t u = 0; u < nr_uses; u++) {
		const struct space_use *use = &uses[u];
		const struct range *range = use->range;

		if (range->arena || range->kind || !may_plan(space, p, range))
			continue;
		record_add_use(&p->record, &(struct record_use){
						   .life = range->life,
						   .nr_range_blocks = range->nr_blocks,
						   .first = use->first,
						   .nr = use->nr,
						   .atomic = use->atomic,
						   .guess = u,
						   .kind = use->kind,
						   .pattern = use->pattern,
						   .granule = use->granule,
						   .offset = use->offset,
						   .bytes = use->bytes,
						   .read_bytes = use->read_bytes,
						   .write_bytes = use->write_bytes,
					   });
	}
	if (slot)
		record_add_guess(&p->record, slot->launched, slot->guess);
	number = record_add(&p->record, kind, slot ? slot->number : 0, 0, 0);
	if (number)
		follow_event(space, p, NULL);
	else
		learn_forget(space, p);
	return number;
}

static void pin(struct range *range, const struct space_use *use, int by)
{
	/* A discarded part is not touched: it may move, and need not even be backed. */
	if (use->kind == WEIR_DISCARD) {
		range->nr_discards += (uint32_t)by;
		return;
	}
	if (use->nr == range->nr_blocks) {
		range->pins += (uint32_t)by;
		return;
	}
	for (uint32_t i = use->first; i < use->first + use->nr; i++)
		range->block[i].pins += (uint32_t)by;
	range->part_pins += (uint32_t)by * use->nr;
}

/*
 * What a bracket discards is dead, and its chunks are there for what the bracket overwrites. Blocks
 * that another open bracket names keep their contents, which that one may still read or write; and
 * all do in a fixed space, where launches without brackets may.
 */
static void discard(struct weir_space *space, const struct space_use *use)
{
	struct range *range = use->range;

	/* The one copy of a replicated range is a part of it: what it has may be needed. */
	if (use->kind != WEIR_DISCARD || space->mode == WEIR_FIXED || range->nr_replicated)
		return;
	for (uint32_t i = use->first; i < use->first + use->nr; i++) {
		/* This names the block without mapping it: what its address was left to show is
		 * not in use because of that. */
		if (!range_block_is_held(space, range, i))
			space_note_error(space, migrate_unstale(space, range, i));
		if (use_covers(use, i) && !range_block_is_pinned(space, range, i))
			migrate_set_dead(space, range, &range->block[i], true);
	}
}

void bracket_expect_writes(struct weir_space *space, const struct space_use *use)
{
	struct range *range = use->range;

	if (!use_writes(use))
		return;
	for (uint32_t i = use->first;
	     i < use->first + use->nr && (range->nr_dead || range->nr_clean || range->nr_cleaning);
	     i++) {
		if (WEIR_MUTANT == 4 && block_is_clean(&range->block[i]) &&
		    !block_is_clean_at(&range->block[i], space_host(space)))
			continue;
		migrate_set_dead(space, range, &range->block[i], false);
	}
}

static int wait_for(struct weir_space *space, stream_id_t stream, fence_t fence)
{
	return fence ? space->backend->ops->stream_wait(space->backend, stream, fence) : 0;
}

/* Make the stream wait for copies into what the use names. */
static int wait_for_copies(struct weir_space *space, stream_id_t stream,
			   const struct space_use *use)
{
	const struct range *range = use->range;
	bool writes = use_writes(use);
	int err = 0;

	for (uint32_t p = 0; writes && range->nr_cleaning && p < space->nr_paths && !err; p++)
		err = wait_for(space, stream, range->path[p].cleaned);
	if (err || !range_is_moving(range))
		return err;
	if (use->nr == range->nr_blocks) {
		for (uint32_t p = 0; p < space->nr_paths && !err; p++)
			err = wait_for(space, stream, range->path[p].ready);
		return err;
	}
	for (uint32_t i = use->first; i < use->first + use->nr && !err; i++)
		if (block_is_moving(&range->block[i]))
			err = wait_for(space, stream, range->block[i].ready);
	return err;
}

/*
 * Keep the host from being so far ahead that a stream is full: a call that finds it so waits in the
 * driver, and the space's moves with it.
 */
static void limit_ahead(struct weir_space *space)
{
	const uint64_t limit = space->shared ? BRACKETS_AHEAD_SHARED : BRACKETS_AHEAD;

	/* The time is good for mapping calls that a bracket would wait for. One that fails is made
	 * again by that bracket, which tells. */
	while (space->last_seq - space->done_seq >= limit && place_map_ahead(space) > 0)
		space_progress(space);
	if (space->last_seq - space->done_seq >= limit)
		space_settle_patiently(space, space->last_seq + 1 - limit);
}

/* Whether nothing that is open forbids the slot's bracket. */
static int check_open(const struct weir_space *space, const struct stream_slot *slot)
{
	const struct space_use *use = order_host_conflict(space, &slot->uses);

	if (!use)
		return 0;
	log_error("begin: a host bracket is open that names some of the %llu bytes at %p, and one "
		  "of the two writes: end it first",
		  (unsigned long long)use->bytes, (void *)((char *)use->range->addr + use->offset));
	return -EBUSY;
}

/* 1. Turn the uses as declared into blocks; contradictions are refused, and nothing is changed. */
static int name_uses(struct weir_space *space, struct stream_slot *slot,
		     const struct bracket_asked *asked)
{
	int err = resolve_uses(space, slot->own, asked, &slot->uses);

	slot->launched = asked->launched;
	slot->groups = asked->groups;
	slot->guess = guess_key(asked);
	return err ? err : check_open(space, slot);
}

/* Whether some of what a device's use names is not in its own memory. */
static bool is_in_place(const struct space_use *use, place_t own)
{
	const struct range *range = use->range;

	if (range->nr_home[own] == range->nr_blocks)
		return false;
	for (uint32_t i = use->first; use->nr < range->nr_blocks && i < use->first + use->nr; i++)
		if (!block_is_at(&range->block[i], own))
			return true;
	return use->nr == range->nr_blocks;
}

bool bracket_is_quiet(const struct weir_space *space)
{
	const struct residency *r = space->residency;

	if (space->nr_stale || r->prefetch || space_is_copying(space))
		return false;
	for (uint32_t d = 0; d < space->nr_devices; d++) {
		const struct planner *p = &r->planner[d];

		if (p->nr_pending || (p->plan && p->plan->nr_actions))
			return false;
	}
	return true;
}

/* Whether nothing is to be done before the bracket, one for a launch of many: all that it names is
 * there, and nothing moves or is planned to. */
static bool is_calm(const struct weir_space *space, const struct stream_slot *slot)
{
	if (!slot->guess || !bracket_is_quiet(space))
		return false;
	for (uint32_t u = 0; u < slot->uses.nr_named; u++)
		if (is_in_place(&slot->uses.use[u], slot->own))
			return false;
	return true;
}

/* 2. Retire what is done, and wait while the program is too far ahead of the device. */
static void catch_up(struct weir_space *space, struct stream_slot *slot)
{
	const uint64_t nr = space->last_seq - space->done_seq - space->nr_unfenced;
	place_mark(space, slot->uses.use, slot->uses.nr);
	slot->calm = is_calm(space, slot);
	if (!slot->calm)
		space_progress(space);
	else if (nr >= GUESSES_BEHIND && slot->nr_unfenced % GUESSES_BEHIND == 0)
		space_progress_known(space);
	limit_ahead(space);
}

/* 3. Record the bracket, which may make, follow or drop a plan; what it discards is dead. */
static void record_bracket(struct weir_space *space, struct stream_slot *slot)
{
	const struct use_list *uses = &slot->uses;

	slot->event = bracket_record(space, slot_planner(space, slot), EVENT_BEGIN, slot, uses->use,
				     uses->nr_named);
	/* What was launched before is in no bracket. */
	(void)stream_kernel_take(slot->stream, NULL);
	for (uint32_t u = 0; u < uses->nr; u++)
		discard(space, &uses->use[u]);
}

/* What a bracket's uses wait for. */
struct bracket_pass {
	struct stream_slot *slot;
	bracket_seq_t last; /* later ones are not waited for by the plan: no end to them */
	bool due;	    /* what the plan has due is done */
	struct place_pass place;
	struct kinds_pass kinds;
};

/* What is named is placed: what launches may touch beside it stays where it is from here on, and is
 * to be made ready there. */
static int place_rest(struct weir_space *space, struct bracket_pass *p, struct settle *settle)
{
	struct use_list *uses = &p->slot->uses;
	const uint32_t nr = uses->nr;
	int err = resolve_rest(space, uses);

	space->wide.staying = true;
	p->place.uses = uses->use;
	p->place.nr_uses = uses->nr;
	return err || uses->nr == nr ? err : place_uses(space, &p->place, settle);
}

static int bracket_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	struct bracket_pass *p = arg;
	int err = p->due ? 0 : follow_due(space, p->slot, p->last, settle);

	if (err)
		return err;
	p->due = true;
	err = place_uses(space, &p->place, settle);
	if (!err && p->slot->uses.wide && !space->wide.staying)
		err = place_rest(space, p, settle);
	/* Last, since it takes memory of others, and what fails here is to be taken back. */
	if (!err && p->slot->uses.kinds)
		err = kinds_ready(space, &p->kinds, p->slot, settle);
	if (!err && space->shared)
		err = space->shared_ops->ready(space, p->slot, settle);
	return err ? err : settle_on_arrived(space, p->slot, settle);
}

/* due: what the plan has due by now is done. */
static int place_all(struct weir_space *space, struct stream_slot *slot, bool due)
{
	struct bracket_pass pass = {
		.slot = slot,
		.last = space->last_seq,
		.due = due,
		.place = {.own = slot->own, .uses = slot->uses.use, .nr_uses = slot->uses.nr},
	};
	int err = space_settle(space, bracket_pass, &pass);

	if (err)
		(void)migrate_flush(space); /* what moved before the error moves on */
	return err;
}

/* 4. Carry out what the plan has due by now; then back, fetch or leave in place what is named. */
static int make_ready(struct weir_space *space, struct stream_slot *slot)
{
	/* Its record may have made a plan. */
	const bool quiet = bracket_is_quiet(space) && !slot_planner(space, slot)->error;

	/* The usual case of a program that fits. */
	if (quiet && !slot->uses.kinds && !slot->uses.wide && !space->shared &&
	    !compare_is_spoiled(space, slot) && place_is_all_ready(slot->uses.use, slot->uses.nr))
		return migrate_flush(space);
	return place_all(space, slot, quiet && slot->calm);
}

/* All that launches may touch, for backends that check them; those that were declared come first.
 * NULL: no memory. */
static struct weir_use *list_all(const struct weir_space *space, const struct stream_slot *slot,
				 const struct bracket_asked *asked, uint32_t *nr)
{
	struct weir_use *all = calloc((size_t)slot->uses.nr + space->nr_ranges + 1, sizeof(*all));

	*nr = asked->nr;
	if (all && asked->nr)
		memcpy(all, asked->uses, asked->nr * sizeof(*all));
	for (uint32_t u = 0; all && slot->uses.all && u < slot->uses.nr; u++)
		all[(*nr)++] = (struct weir_use){.addr = slot->uses.use[u].range->addr,
						 .bytes = slot->uses.use[u].range->bytes,
						 .kind = WEIR_WRITE};
	for (uint32_t r = 0; all && slot->uses.wide && r < space->nr_ranges; r++)
		if (range_is_in_wide(space->range[r], slot->uses.wide))
			all[(*nr)++] = (struct weir_use){.addr = space->range[r]->addr,
							 .bytes = space->range[r]->bytes,
							 .kind = BACKEND_ANY};
	return all;
}

/* Tell the backend what launches may touch. */
static int declare_uses(struct weir_space *space, const struct stream_slot *slot,
			const struct bracket_asked *asked)
{
	struct backend *b = space->backend;
	struct weir_use *all;
	uint32_t nr;
	int err;

	/* What no launch may run with: all of them are trapped. */
	if (space->shared && space->shared_ops->contradicts(space, slot))
		return b->ops->access_begin(b, stream_id(slot->stream), space, asked->uses, 0);
	if (!b->checks || (!slot->uses.all && !slot->uses.wide))
		return b->ops->access_begin(b, stream_id(slot->stream), space, asked->uses,
					    asked->nr);
	all = list_all(space, slot, asked, &nr);
	if (!all)
		return -ENOMEM;
	err = b->ops->access_begin(b, stream_id(slot->stream), space, all, nr);
	free(all);
	return err;
}

/* Note when the stream reaches the bracket, if anybody asks for its time. What only a trace asks
 * for changes nothing, and is no reason to fail. */
static int take_time(struct weir_space *space, struct stream_slot *slot)
{
	struct backend *b = space->backend;
	struct planner *p = slot_planner(space, slot);
	stream_id_t stream = stream_id(slot->stream);

	slot->begin = 0;
	slot->sampled = false;
	if (schedule_wants_times(p)) {
		explain_placed(space, p, slot);
		return space_fence_record(space, stream, &slot->begin);
	}
	if (tracing_samples(space))
		slot->sampled = !b->observe->fence_mark(b, stream, &slot->begin);
	return 0;
}

/* 5. After the placing: what the stream waits for, and what launches may touch. */
static int open_bracket(struct weir_space *space, struct stream_slot *slot,
			const struct bracket_asked *asked)
{
	struct backend *b = space->backend;
	stream_id_t stream = stream_id(slot->stream);
	struct use_list declared = slot->uses;
	int err;

	declared.nr = slot->uses.all ? slot->uses.nr : asked->nr;
	err = order_behind(space, slot, &declared);
	for (uint32_t u = 0; !err && u < slot->uses.nr; u++)
		err = wait_for_copies(space, stream, &slot->uses.use[u]);
	if (!err && space->shared)
		err = space->shared_ops->open(space, slot);
	if (err)
		return err;
	compare_begins(space, slot);
	err = space_ended_reserve(space);
	if (err)
		return err;
	err = declare_uses(space, slot, asked);
	if (err && err != -ENOSYS)
		return err;
	err = take_time(space, slot);
	if (err)
		b->ops->access_end(b, stream, space);
	return err;
}

/* What launches may touch counts as written, all that is not at hand yet; it needs no uses any
 * more. */
static void expect_any(struct weir_space *space, struct stream_slot *slot, uint32_t nr_declared)
{
	for (uint32_t u = nr_declared; u < slot->uses.nr; u++)
		bracket_expect_writes(space, &slot->uses.use[u]);
	slot->uses.nr = nr_declared;
	wide_opened(space, slot);
}

/* 6. From here on what the bracket names stays where it is, and is what its launches make it. */
static void pin_uses(struct weir_space *space, struct stream_slot *slot,
		     const struct bracket_asked *asked)
{
	const uint32_t nr = slot->uses.all ? slot->uses.nr : asked->nr;

	for (uint32_t u = 0; u < nr; u++) {
		pin(slot->uses.use[u].range, &slot->uses.use[u], 1);
		bracket_expect_writes(space, &slot->uses.use[u]);
		if (!slot->uses.use[u].stays)
			past_used(space, &slot->uses.use[u]);
	}
	if (slot->uses.wide)
		expect_any(space, slot, nr);
	if (space->residency->policy)
		ask_used(space, slot);
	slot->open = true;
	space->nr_open++;
	space->stats.nr_brackets++;
}

/* Steps 2 to 6, of a bracket whose uses are resolved. */
static int begin_bracket(struct weir_space *space, struct stream_slot *slot,
			 const struct bracket_asked *asked)
{
	uint64_t waits, since_ns = tracing_now(space);
	int err;

	catch_up(space, slot);
	waits = space->nr_waits;
	err = home_used(space, slot->own, &slot->uses);
	if (err)
		return err;
	record_bracket(space, slot);
	space->residency->step += space->residency->policy != NULL;
	err = make_ready(space, slot);
	if (!err) {
		err = open_bracket(space, slot, asked);
		if (err)
			compare_forget_arrived(space);
		if (err && space->shared)
			space->shared_ops->cancel(space, slot);
	}
	if (err)
		return err;
	pin_uses(space, slot, asked);
	space->stats.nr_waits += space->nr_waits != waits;
	tracing_begin(space, slot, since_ns);
	return 0;
}

/* Whether the stream's device is one of the space's: others' memories are not known here. */
static int check_device(const struct weir_space *space, const struct stream_slot *slot)
{
	const struct weir_machine_desc *desc = &space->backend->desc;

	if (!slot->foreign)
		return 0;
	log_error("begin: the stream is of device '%s', which the space was made without (its "
		  "config's devices)",
		  desc->device[stream_device(slot->stream)].name);
	return -EINVAL;
}

/* The numbered steps. *named: the slot has uses, if only to be given up. */
static int begin_on(struct weir_space *space, struct stream_slot *slot,
		    const struct bracket_asked *asked, bool *named)
{
	const struct backend_ops *ops = space->backend->ops;
	const bool in_calls = !ops->calls_begin(space->backend, stream_id(slot->stream));
	int err;

	slot->placing = true;
	err = name_uses(space, slot, asked);
	*named = !err;
	if (!err)
		err = begin_bracket(space, slot, asked);
	if (err && *named && slot->uses.kinds)
		kinds_release(space, slot);
	/* What was taken may still be used where it was; nothing orders other uses behind that. */
	if (err && *named && space->nr_stale)
		space_settle_seq(space, slot->last_seq);
	slot->placing = false;
	if (in_calls)
		ops->calls_end(space->backend);
	return err;
}

/* A fence that is recorded late on the default stream would hold other streams' work up until what
 * they queued before it is done: theirs comes behind it. */
static void fence_barrier(struct weir_space *space, const struct stream_slot *slot)
{
	for (uint32_t i = 0; i < space->nr_slots && space->nr_unfenced; i++)
		if (space->slot[i]->barrier && space->slot[i] != slot)
			(void)space_fence_slot(space, space->slot[i]);
}

/* docs/design.md follows a use through the numbered steps ("A use, step by step"). */
static int begin(struct weir_space *space, struct weir_stream *stream,
		 const struct bracket_asked *asked)
{
	struct stream_slot *slot;
	bool named = false;
	int err;

	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	slot = space_slot(space, stream);
	err = !slot ? -ENOMEM : slot->open ? -WEIR_ECONTRACT : check_device(space, slot);
	if (!err && asked->open && (space->shared || space->nr_devices > 1))
		err = -ENOTSUP;
	if (!err) {
		slot->barrier = asked->barrier;
		fence_barrier(space, slot);
		err = begin_on(space, slot, asked, &named);
	}
	space_placing_end(space);
	for (uint32_t u = 0; err && named && u < slot->uses.nr; u++)
		alloc_settle(space, slot->uses.use[u].range);
	if (err && named && slot->uses.wide)
		alloc_settle_all(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

int weir_begin(struct weir_space *space, struct weir_stream *stream, const struct weir_use *uses,
	       uint32_t nr_uses)
{
	return begin(space, stream,
		     &(struct bracket_asked){.uses = uses, .nr = nr_uses, .nr_likely = nr_uses});
}

int weir_begin_open(struct weir_space *space, struct weir_stream *stream,
		    const struct weir_use *uses, uint32_t nr_uses)
{
	return begin(space, stream,
		     &(struct bracket_asked){
			     .uses = uses, .nr = nr_uses, .nr_likely = nr_uses, .open = true});
}

int bracket_begin_guessed(struct weir_space *space, struct weir_stream *stream,
			  const struct bracket_asked *asked)
{
	pthread_mutex_lock(&space->lock);
	if (!space->residency->guesses)
		space->residency->guesses = guesses_create(); /* without, shares are 1 */
	pthread_mutex_unlock(&space->lock);
	return begin(space, stream, asked);
}

/* A bracket that ended: unpin, and note who used what last. */
static void release_use(struct weir_space *space, const struct space_use *use, bracket_seq_t seq)
{
	bool writes = use_writes(use);
	struct range *range = use->range;

	pin(range, use, -1);
	if (use->nr == range->nr_blocks) {
		range->last_use = seq;
		range->last_write = writes ? seq : range->last_write;
	} else {
		range->last_part_use = seq;
		for (uint32_t i = use->first; i < use->first + use->nr; i++) {
			range->block[i].last_use = seq;
			if (writes)
				range->block[i].last_write = seq;
		}
	}
	alloc_settle(space, range);
}

/* Behind the fence, which is the one call that may fail: then all is as it was. */
static void end_on(struct weir_space *space, struct stream_slot *slot, fence_t end,
		   uint64_t since_ns)
{
	struct ended_bracket bracket = {
		.end = end,
		.slot = slot,
		.begin = slot->begin,
		.event = slot->event,
		.guess = slot->guess,
		.sampled = slot->sampled,
	};
	const struct use_list *uses;
	const char *kernel;
	bracket_seq_t seq;
	double ops;

	if (slot->uses.kinds)
		kinds_release(space, slot);
	space->backend->ops->access_end(space->backend, stream_id(slot->stream), space);
	kernel = stream_kernel_take(slot->stream, &ops);
	follow_launched(slot_planner(space, slot), slot->event, kernel);
	for (uint32_t u = 0; u < slot->uses.nr_named; u++)
		bracket.in_place |= is_in_place(&slot->uses.use[u], slot->own);
	if (bracket.in_place)
		follow_in_place(space, slot_planner(space, slot), slot);
	slot->open = false;
	space->nr_open--;
	seq = space_ended_add(space, &bracket, &slot->uses);
	if (space_ended(space, seq)->uses.wide)
		wide_ended(space, seq);
	uses = &space_ended(space, seq)->uses;
	if (space->shared)
		space->shared_ops->ended(space, space_ended(space, seq));
	for (uint32_t u = 0; u < uses->nr; u++)
		release_use(space, &uses->use[u], seq);
	if (uses->wide)
		alloc_settle_all(space);
	/* Guesses are a bracket for each launch: the next one begins soon, and looks. */
	if (!bracket.guess)
		space_progress(space);
	tracing_end(space, slot, kernel, ops, bracket.in_place, since_ns);
}

/* Whether the bracket that ends can do without a fence until somebody asks: nobody wants its time,
 * nothing is to move, and nobody is at work on that. */
static bool is_to_share(const struct weir_space *space, const struct stream_slot *slot)
{
	/* What others launch in open brackets may be queued by now. */
	if (slot->barrier && space->nr_open > 1)
		return false;
	return slot->calm && slot->groups && !slot->begin && slot->nr_unfenced + 1 < GROUP_MAX &&
	       space->nr_places == 2 && !space->placing && !space->shared && !is_traced(space) &&
	       !space->residency->nr_read_mostly && bracket_is_quiet(space) &&
	       (!space->may_group || space->may_group());
}

static int end_fence(struct weir_space *space, const struct stream_slot *slot, fence_t *end)
{
	const stream_id_t stream = stream_id(slot->stream);

	if (slot->begin || (space->shared && space->shared_ops->wants_times(space)))
		return space_fence_record(space, stream, end);
	return space_fence_untimed(space, stream, end);
}

int weir_end(struct weir_space *space, struct weir_stream *stream)
{
	const struct backend_ops *ops = space->backend->ops;
	struct stream_slot *slot;
	bool in_calls = false;
	uint64_t since_ns;
	fence_t end = 0;
	int err;

	pthread_mutex_lock(&space->lock);
	since_ns = tracing_now(space);
	slot = space_slot_find(space, stream);
	err = !slot || !slot->open ? -WEIR_ECONTRACT : 0;
	if (!err && !is_to_share(space, slot)) {
		in_calls = !ops->calls_begin(space->backend, stream_id(stream));
		err = end_fence(space, slot, &end);
	}
	if (!err)
		end_on(space, slot, end, since_ns);
	if (in_calls)
		ops->calls_end(space->backend);
	pthread_mutex_unlock(&space->lock);
	return err;
}

void bracket_fence_all(struct weir_space *space)
{
	pthread_mutex_lock(&space->lock);
	space_fence_all(space);
	pthread_mutex_unlock(&space->lock);
}

void bracket_stream_ends(struct weir_space *space, struct weir_stream *stream)
{
	struct stream_slot *slot;
	bool again;

	pthread_mutex_lock(&space->lock);
	slot = space_slot_find(space, stream);
	if (slot)
		slot->ends = true;
	again = slot && space_fence_slot(space, slot);
	while (again) {
		pthread_mutex_unlock(&space->lock);
		space_fence_again(slot);
		pthread_mutex_lock(&space->lock);
		again = slot->nr_unfenced != 0;
	}
	if (slot)
		slot->ends = false;
	pthread_mutex_unlock(&space->lock);
}
