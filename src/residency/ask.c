/* SPDX-License-Identifier: Apache-2.0 */
/* A policy's place in a space's decisions: see ask.h. */
#include "src/residency/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/cost/cost.h"
#include "src/residency/residency.h"

#define NS_PER_S 1e9

int weir_space_set_policy(struct weir_space *space, struct weir_policy *policy)
{
	int err = 0;

	pthread_mutex_lock(&space->lock);
	if (policy && space->mode == WEIR_FIXED) {
		log_error("space: it is fixed, and takes no decisions that a policy could take");
		err = -EINVAL;
	} else {
		space->residency->policy = policy;
		for (uint32_t r = 0; r < space->nr_ranges; r++)
			ask_reset(space->range[r]);
	}
	pthread_mutex_unlock(&space->lock);
	return err;
}

/* ------------------------------------------------------------------ what a policy sees */

/* The words of a range's block. */
static uint64_t *block_word(struct range *range, uint32_t i)
{
	return range->residency->block_word[i];
}

void ask_reset(struct range *range)
{
	struct asked *asked = &range->residency->asked;

	*asked = (struct asked){.moved_uses = range->nr_uses, .number = asked->number};
	for (uint32_t i = 0; i < range->nr_blocks; i++)
		block_word(range, i)[0] = block_word(range, i)[1] = 0;
}

static uint32_t number_of(struct weir_space *space, struct range *range)
{
	struct asked *asked = &range->residency->asked;

	if (!asked->number)
		asked->number = ++space->residency->nr_asked;
	return asked->number;
}

/* Uses since a block came or left. */
static uint32_t uses_of(const struct range *range)
{
	return range->nr_uses - range->residency->asked.moved_uses;
}

static struct weir_policy_range see_range(struct weir_space *space, struct range *range)
{
	const struct asked *asked = &range->residency->asked;
	uint64_t now = space->residency->step;
	uint32_t resident = range_nr_resident(range);

	return (struct weir_policy_range){
		.word = {asked->word[0], asked->word[1]},
		.uses = uses_of(range),
		.touched_bytes = asked->touched_bytes,
		.in_place_bytes = asked->in_place_bytes,
		.moved_age = now - asked->moved_step,
		.used_age = now - asked->used_step,
		.number = number_of(space, range),
		.nr_blocks = range->nr_blocks,
		.nr_resident = resident,
		.nr_dirty = MIN(resident, range->nr_dirty[range->own]),
	};
}

static void take_words(uint64_t to[2], const uint64_t from[2])
{
	to[0] = from[0];
	to[1] = from[1];
}

void ask_used(struct weir_space *space, const struct stream_slot *slot)
{
	for (uint32_t u = 0; u < slot->uses.nr_named; u++) {
		const struct space_use *use = &slot->uses.use[u];
		struct asked *asked = &use->range->residency->asked;
		double bytes = use->read_bytes + use->write_bytes;
		uint32_t nr = use->range->nr_blocks;

		if (use->ready || use->kind == WEIR_DISCARD || !nr)
			continue;
		asked->touched_bytes += (uint64_t)bytes;
		asked->in_place_bytes +=
			(uint64_t)(bytes * (nr - range_nr_resident(use->range)) / nr);
		asked->used_step = space->residency->step;
	}
}

void ask_moved(struct weir_space *space, struct range *range, uint32_t i, bool came,
	       enum weir_cause cause)
{
	struct weir_policy *policy = space->residency->policy;
	struct asked *asked = &range->residency->asked;
	struct weir_policy_moved q;

	if (!policy || range->arena || range->pooled)
		return;
	if (policy_has(policy, POLICY_MOVED)) {
		q = (struct weir_policy_moved){
			.range_word = {asked->word[0], asked->word[1]},
			.block_word = {block_word(range, i)[0], block_word(range, i)[1]},
			.now = space->residency->step,
			.uses = uses_of(range),
			.range = number_of(space, range),
			.block = i,
			.nr_blocks = range->nr_blocks,
			.nr_resident = range_nr_resident(range),
			.came = came,
			.cause = cause,
		};
		policy_moved(policy, &q);
		take_words(asked->word, q.range_word);
		take_words(block_word(range, i), q.block_word);
	}
	asked->moved_uses = range->nr_uses;
	asked->touched_bytes = asked->in_place_bytes = 0;
	asked->moved_step = space->residency->step;
	if (came)
		asked->arrived_step = space->residency->step;
}

/* ------------------------------------------------------------------ what comes in */

/* Of a whole use over the link, as far as the range is away. */
static double in_place_ns(const struct space_use *use, const struct weir_link_desc *link)
{
	const struct range *range = use->range;
	double away = 1 - (double)range_nr_resident(range) / range->nr_blocks;
	struct weir_use as = {
		.addr = range->addr,
		.bytes = use->bytes,
		.kind = use->kind,
		.pattern = use->pattern,
		.granule = use->granule,
	};
	double rate = cost_inplace_bytes_per_s(link, &as, (uint64_t)((double)use->bytes * away));
	double bytes = MAX(use->read_bytes, use->write_bytes) * cost_expansion(&as) * away;

	return bytes / rate * NS_PER_S;
}

static void see_costs(const struct weir_space *space, const struct space_use *use, place_t own,
		      struct weir_policy_admit *q)
{
	const struct weir_machine_desc *desc = &space->backend->desc;
	uint32_t memory = space->pmm[own].memory, host = space->pmm[space_host(space)].memory;
	const struct weir_link_desc *link = &desc->link[cost_link_find(desc, host, memory)];
	double bytes = (double)space->block_bytes * NS_PER_S;

	q->block_bytes = space->block_bytes;
	q->in_ns = (uint64_t)(bytes / cost_copy_bytes_per_s(link, host));
	q->out_ns = (uint64_t)(bytes / cost_copy_bytes_per_s(link, memory));
	q->in_place_ns = (uint64_t)in_place_ns(use, link);
}

static struct weir_policy_admit see_use(struct weir_space *space, const struct space_use *use)
{
	struct range *range = use->range, *victim = pick_victim(space, range->own);
	struct weir_policy_admit q = {
		.range = see_range(space, range),
		.now = space->residency->step,
		.use_read_bytes = (uint64_t)use->read_bytes,
		.use_write_bytes = (uint64_t)use->write_bytes,
		.use_bytes = use->bytes,
		.free_blocks = past_nr_free(space, range->own),
		.all_blocks = space->pmm[range->own].max_chunks,
		.use_kind = use->kind,
		.use_random = use->pattern == WEIR_RANDOM,
		.level = range->nr_blocks,
		.evict = 1,
	};

	see_costs(space, use, range->own, &q);
	q.has_victim = victim != NULL;
	if (victim)
		q.victim = see_range(space, victim);
	return q;
}

void ask_admit(struct weir_space *space, const struct space_use *use, struct brought_in *in)
{
	struct range *range = use->range;
	struct weir_policy_admit q;

	if (!policy_has(space->residency->policy, POLICY_ADMIT) || space->mode == WEIR_FIXED ||
	    range_follows_plan(range) || range->arena || range->residency->prefer >= 0)
		return;
	q = see_use(space, use);
	if (policy_admit(space->residency->policy, &q))
		*in = (struct brought_in){
			.level = q.level,
			.evict_for_fresh = q.evict,
			.evict_for_moved = q.evict,
		};
	take_words(range->residency->asked.word, q.range.word);
}

/* ------------------------------------------------------------------ who goes */

/* A range that can give a block. */
struct giver {
	struct range *range;
	uint32_t block;
	uint64_t next_use; /* of the range; 0: not known */
};

struct givers {
	struct weir_space *space;
	struct giver *giver; /* in order of arrival */
	uint32_t nr, max;
	uint32_t shown; /* the first of the window */
	uint32_t far[WEIR_POLICY_FAR];
};

static int by_arrival(const void *a, const void *b)
{
	const struct asked *x = &((const struct giver *)a)->range->residency->asked;
	const struct asked *y = &((const struct giver *)b)->range->residency->asked;

	if (x->arrived_step != y->arrived_step)
		return x->arrived_step < y->arrived_step ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* All that the default could pick, and of which nobody said anything. @return -ENOMEM */
static int find_givers(struct weir_space *space, place_t own, struct givers *out)
{
	const struct policy_future *future = space->residency->policy->future;

	out->giver = calloc(space->nr_ranges, sizeof(*out->giver));
	if (!out->giver)
		return -ENOMEM;
	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		uint32_t i;

		if (range->residency->prefer >= 0 || !pick_idle(space, range, own, &i))
			continue;
		(void)number_of(space, range);
		out->giver[out->nr++] = (struct giver){
			.range = range,
			.block = i,
			.next_use =
				future ? future->next_use(future->arg, range->addr, range->bytes)
				       : 0,
		};
	}
	qsort(out->giver, out->nr, sizeof(*out->giver), by_arrival);
	return 0;
}

static struct weir_policy_candidate see_candidate(struct weir_space *space,
						  const struct giver *giver)
{
	struct weir_policy_range range = see_range(space, giver->range);
	const uint64_t *word = block_word(giver->range, giver->block);

	return (struct weir_policy_candidate){
		.range_word = {range.word[0], range.word[1]},
		.block_word = {word[0], word[1]},
		.arrived_age = space->residency->step - giver->range->residency->asked.arrived_step,
		.used_age = range.used_age,
		.uses = range.uses,
		.next_use = giver->next_use,
		.range = range.number,
		.block = giver->block,
		.nr_blocks = range.nr_blocks,
		.nr_resident = range.nr_resident,
		.nr_dirty = range.nr_dirty,
	};
}

/* Fill in the window that begins at g->shown. by_default: a range. */
static void show(struct givers *g, const struct range *by_default, struct weir_policy_victim *q)
{
	q->nr = MIN(g->nr - g->shown, WEIR_POLICY_CANDIDATES);
	q->by_default = WEIR_POLICY_UNKNOWN;
	for (uint32_t n = 0; n < q->nr; n++) {
		q->candidate[n] = see_candidate(g->space, &g->giver[g->shown + n]);
		if (g->giver[g->shown + n].range == by_default)
			q->by_default = n;
	}
}

/* Show those that are used again latest. */
static void show_far(struct givers *g, struct weir_policy_victim *q)
{
	if (!g->space->residency->policy->future)
		return;
	for (uint32_t n = 0; n < g->nr; n++) {
		uint32_t at = policy_put_far(q, g->giver[n].next_use);

		if (at == WEIR_POLICY_FAR)
			continue;
		memmove(&g->far[at + 1], &g->far[at], (q->nr_far - 1 - at) * sizeof(g->far[0]));
		g->far[at] = n;
		q->far[at] = see_candidate(g->space, &g->giver[n]);
	}
}

/* The giver that was chosen. */
static const struct giver *chosen(const struct givers *g, uint32_t choice)
{
	return &g->giver[choice < WEIR_POLICY_CANDIDATES ? g->shown + choice
							 : g->far[choice - WEIR_POLICY_CANDIDATES]];
}

/* Keep the words of the window that was shown. */
static void keep_words(const struct givers *g, const struct weir_policy_victim *q)
{
	for (uint32_t n = 0; n < q->nr; n++) {
		const struct giver *giver = &g->giver[g->shown + n];

		take_words(giver->range->residency->asked.word, q->candidate[n].range_word);
		take_words(block_word(giver->range, giver->block), q->candidate[n].block_word);
	}
}

struct choice {
	struct givers givers;
	struct range *by_default;
};

static bool next_window(void *arg, struct weir_policy_victim *q)
{
	struct choice *choice = arg;

	if (choice->givers.nr - choice->givers.shown <= WEIR_POLICY_CANDIDATES)
		return false;
	keep_words(&choice->givers, q);
	choice->givers.shown += WEIR_POLICY_CANDIDATES;
	q->window++;
	show(&choice->givers, choice->by_default, q);
	return true;
}

struct range *ask_victim(struct weir_space *space, place_t own, struct range *range, uint32_t *i)
{
	struct choice choice = {.givers = {.space = space}, .by_default = range};
	struct weir_policy_victim q = {.now = space->residency->step};

	if (!range || !policy_has(space->residency->policy, POLICY_VICTIM) ||
	    space->residency->planner[own].plan || range->residency->prefer >= 0 ||
	    (range->own != own && !range->homes) || find_givers(space, own, &choice.givers))
		return range;
	show(&choice.givers, range, &q);
	show_far(&choice.givers, &q);
	if (q.nr && policy_victim(space->residency->policy, &q, next_window, &choice)) {
		const struct giver *giver = chosen(&choice.givers, q.chosen);

		range = giver->range;
		*i = giver->block;
	}
	keep_words(&choice.givers, &q);
	free(choice.givers.giver);
	return range;
}
