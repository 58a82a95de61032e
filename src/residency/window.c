/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that come and go: a loop uses another part of a life in each iteration, and the plan says
 * what is done with them (enum plan_flow). The record of the period before says which part the next
 * launches use: these are brought, as many as the plan has room for. What is behind leaves, unless
 * it is to stay. The bracket that uses a part brings what is still missing of it (place.c).
 */
#include <errno.h>
#include <stdlib.h>

#include "src/residency/residency.h"

/* Events looked ahead for parts. */
#define LOOK_MAX 64u

/* What is wanted of one life, next part first. */
struct wanted {
	struct range *range;
	enum plan_flow flow; /* in the first of their stages, the newest bracket's or a later one */
	uint32_t nr_parts, nr_blocks, room;
	uint32_t nr_now; /* parts of the newest bracket's stage */
	struct {
		uint32_t first, nr;
	} part[LOOK_MAX];
};

int window_list(struct planner *p)
{
	const struct plan *plan = p->plan;
	bool *flows = calloc(plan->nr_tracked + 1u, sizeof(*flows));
	uint32_t *list = malloc((p->nr_lives + 1u) * sizeof(*list)), nr = 0;

	if (!flows || !list) {
		free(flows);
		free(list);
		return -1;
	}
	for (uint32_t t = 0; t < plan->nr_tracked; t++)
		for (uint32_t v = plan->first_visit[t]; v < plan->first_visit[t + 1]; v++)
			flows[t] |= plan->visit[v].flow != FLOW_NONE;
	for (uint32_t life = 0; life < p->nr_lives; life++)
		if (plan->tracked[life] != PLAN_UNTRACKED && flows[plan->tracked[life]])
			list[nr++] = life;
	free(flows);
	p->flowing = list;
	p->nr_flowing = nr;
	return 0;
}

static bool is_wanted(const struct wanted *wanted, uint32_t i)
{
	for (uint32_t n = 0; n < wanted->nr_parts; n++)
		if (i - wanted->part[n].first < wanted->part[n].nr)
			return true;
	return false;
}

/* Add a part, if the plan has room for it. @return false: it has not */
static bool add_part(struct wanted *wanted, uint32_t first, uint32_t nr)
{
	uint32_t more = 0;

	for (uint32_t i = first; i < first + nr; i++)
		more += !is_wanted(wanted, i);
	if (wanted->nr_blocks + more > wanted->room || wanted->nr_parts == LOOK_MAX)
		return false;
	wanted->nr_blocks += more;
	if (more) {
		wanted->part[wanted->nr_parts].first = first;
		wanted->part[wanted->nr_parts++].nr = nr;
	}
	return true;
}

/* Add what an event of the period uses of the life, in a stage where its parts come or go. Where
 * they go, all from there on is wanted until the stage ends. @return false: there is no room for
 * more */
static bool add_event(const struct planner *p, struct wanted *wanted, const struct event *event,
		      uint32_t stage, uint32_t tracked)
{
	const struct record_use *uses = record_uses(&p->record, event);
	const enum plan_flow flow = plan_flow(p->plan, stage, tracked);

	if (flow == FLOW_NONE)
		return true;
	if (wanted->flow == FLOW_NONE)
		wanted->flow = flow;
	if (wanted->flow == FLOW_OUT && flow != FLOW_OUT)
		return false;
	wanted->room = plan_level(p->plan, stage, tracked);
	for (uint32_t u = 0; u < event->nr_uses; u++) {
		const uint32_t first = uses[u].first;

		if (uses[u].life == wanted->range->life &&
		    !add_part(wanted, first,
			      flow == FLOW_OUT ? wanted->range->nr_blocks - first : uses[u].nr))
			return false;
	}
	if (stage == schedule_stage_now(p))
		wanted->nr_now = wanted->nr_parts;
	return true;
}

/* Find what the newest bracket and the next ones use of a life. */
static void find_wanted(const struct planner *p, uint32_t tracked, struct wanted *wanted)
{
	const struct record *record = &p->record;
	uint64_t period, k = schedule_position(p, record->next_place, &period);
	const uint64_t like = record_expected(record) - 1; /* the newest one */

	k += record->period - 1;
	for (uint64_t n = 0; n < MIN(LOOK_MAX, record->period); n++, k++) {
		const uint32_t step = p->step_of_event[k % record->period];
		const struct event *event;

		if (like + n < record->first_event || like + n >= record->next_event)
			return;
		event = record_event(record, like + n);
		if (event->kind == EVENT_BEGIN &&
		    !add_event(p, wanted, event, p->plan->stage_of_step[step], tracked))
			return;
	}
}

/* What is behind leaves. @return an error of the machine */
static int leave(struct weir_space *space, const struct planner *p, const struct wanted *wanted)
{
	struct range *range = wanted->range;
	bool freed;

	for (uint32_t i = 0; i < range->nr_blocks && range_nr_resident(range) > 0; i++) {
		int err;

		if (!block_is_at(&range->block[i], p->own) || is_wanted(wanted, i) ||
		    !room_is_idle(space, range, i))
			continue;
		err = room_evict(space, range, i, WEIR_CAUSE_EVICTION, &freed);
		if (err)
			return err == -ENOSPC ? 0 : err;
	}
	return 0;
}

static int bring(struct weir_space *space, const struct planner *p, const struct wanted *wanted)
{
	struct range *range = wanted->range;

	for (uint32_t n = 0; n < wanted->nr_parts; n++) {
		const uint32_t first = wanted->part[n].first, end = first + wanted->part[n].nr;

		for (uint32_t i = first; i < end; i++) {
			const struct block *block = &range->block[i];
			struct chunk *chunk;
			int err;

			if (!block_is_backed(block) || block_is_at(block, p->own))
				continue;
			/* The bracket that is being placed takes its own part, and would send
			 * later ones away for that. */
			if (range_is_marked(space, range, i))
				return 0;
			if (!room_is_idle(space, range, i))
				continue;
			/* Those behind are still in use: the program is far ahead. */
			if (range_nr_resident(range) >= wanted->room)
				return 0;
			if (n >= wanted->nr_now && !schedule_has_room_ahead(space, p))
				return 0;
			chunk = room_planned(space, p->own, 1);
			if (!chunk)
				return 0;
			err = migrate_fetch(space, range, i, chunk, WEIR_CAUSE_PREFETCH);
			if (err)
				return err;
		}
	}
	return 0;
}

int window_advance(struct weir_space *space, struct planner *p)
{
	const bool is_new =
		p->windows_event != p->record.next_event || p->windows_done != space->done_seq;
	int err = 0;

	if (!p->nr_flowing || !is_new || schedule_is_new(p))
		return 0;
	p->windows_event = p->record.next_event;
	p->windows_done = space->done_seq;
	for (uint32_t n = 0; n < p->nr_flowing && !err; n++) {
		const uint32_t life = p->flowing[n], tracked = p->plan->tracked[life];
		struct wanted wanted = {.range = p->life[life]};

		if (!wanted.range)
			continue;
		find_wanted(p, tracked, &wanted);
		if (wanted.flow != FLOW_IN &&
		    (wanted.nr_parts || !plan_level_max(p->plan, tracked)))
			err = leave(space, p, &wanted);
		if (!err && !schedule_evicts(wanted.range))
			err = bring(space, p, &wanted);
	}
	return err;
}
