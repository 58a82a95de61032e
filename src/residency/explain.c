/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plan says of each stage, and what was seen of it while it was followed: see
 * include/weir/explain.h.
 *
 * Two clocks take part. What the device did is known when a bracket is done, if it was timed: its
 * end, after that of the bracket before, is the stage's time; what of that is not the bracket's own
 * the device waited. What the program's side did in between, moves and mapping calls, counts for
 * the stage of the newest bracket begun.
 */
#include "weir/explain.h"

#include <errno.h>
#include <stdlib.h>

#include "src/residency/explain.h"
#include "src/residency/residency.h"

#define MS 1e6

/* ------------------------------------------------------------------ what was seen */

/* The stage of the plan that a place is in; false: in the plan's first period, which begins with
 * whatever was there. */
static bool find_stage(const struct planner *p, uint64_t place, uint32_t *stage)
{
	uint64_t period, k = schedule_position(p, place, &period);

	*stage = (uint32_t)(schedule_stage(p, 0, p->step_of_event[k]) % p->plan->nr_stages);
	return period > 0;
}

static struct happened happened_so_far(const struct weir_space *space)
{
	const struct weir_space_stats *stats = &space->stats;

	return (struct happened){.nr_brought = stats->nr_moves[WEIR_CAUSE_DEMAND],
				 .nr_ahead = stats->nr_moves[WEIR_CAUSE_PREFETCH],
				 .nr_out = stats->nr_moves[WEIR_CAUSE_EVICTION] +
					   stats->nr_moves[WEIR_CAUSE_WRITEBACK],
				 .nr_calls = space->nr_calls,
				 .calls_ns = space->calls_ns};
}

void explain_begun(const struct weir_space *space, struct planner *p, uint64_t place)
{
	const struct happened now = happened_so_far(space), *before = &p->explained.before;
	struct stage_seen *seen = p->explained.stage;
	uint32_t stage;

	if (seen) {
		seen->nr_begun++;
		seen->all.nr_brought += now.nr_brought - before->nr_brought;
		seen->all.nr_ahead += now.nr_ahead - before->nr_ahead;
		seen->all.nr_out += now.nr_out - before->nr_out;
	}
	if (seen && now.nr_calls != before->nr_calls) {
		seen->all.nr_calls += now.nr_calls - before->nr_calls;
		seen->all.calls_ns += now.calls_ns - before->calls_ns;
	}
	p->explained.before = now;
	p->explained.stage = find_stage(p, place, &stage) ? &p->plan->seen[stage] : NULL;
}

/* ------------------------------------------------------------------ late copies */

/* One more block that a bracket awaits. Where there is no memory it does not count. */
static void awaited_add(struct explained *e, uint64_t event, fence_t fence)
{
	struct awaited *last = e->nr_awaited ? &e->awaited[e->nr_awaited - 1] : NULL;
	const uint32_t max = MAX(64u, 2 * e->max_awaited);

	if (last && last->event == event && last->fence == fence) {
		last->nr++;
		return;
	}
	if (!e->awaited || e->nr_awaited == e->max_awaited) {
		struct awaited *moved = realloc(e->awaited, max * sizeof(*moved));

		if (!moved)
			return;
		e->awaited = moved;
		e->max_awaited = max;
	}
	e->awaited[e->nr_awaited++] = (struct awaited){.event = event, .fence = fence, .nr = 1};
}

/* Whether the bracket that is being placed names the block. */
static bool is_named(const struct weir_space *space, const struct move *move)
{
	const struct range *range = move->range;

	return range->mark == space->mark && move->block >= range->mark_first &&
	       move->block <= range->mark_last;
}

void explain_placed(const struct weir_space *space, struct planner *p,
		    const struct stream_slot *slot)
{
	if (!p->explained.stage || !slot->event)
		return;
	p->plan->nr_watched++;
	if (p->explained.stage != p->explained.looked)
		explain_room_add(space, p->own, &p->explained.stage->room);
	p->explained.looked = p->explained.stage;
	for (uint32_t i = 0; i < space->nr_paths; i++) {
		const struct move_queue *moving = &space->path[i].moving;

		for (uint32_t n = 0; space->path[i].to == p->own && n < moving->nr; n++) {
			const struct move *move = &moving->move[(moving->head + n) % moving->max];

			if (move->cause == WEIR_CAUSE_PREFETCH && move->fence &&
			    is_named(space, move))
				awaited_add(&p->explained, slot->event, move->fence);
		}
	}
}

void explain_missed(struct planner *p, const struct pending_action *action)
{
	const struct range *range = p->life[action->life];
	struct stage_seen *seen = p->explained.stage;

	if (seen && action->move == PLAN_FETCH && range &&
	    range_nr_resident(range) < action->nr_blocks)
		seen->nr_missed += action->nr_blocks - range_nr_resident(range);
}

/* Blocks that an event's bracket awaited, and that were not there at a time. They are forgotten,
 * and those of events before. */
static uint32_t take_late(const struct weir_space *space, struct explained *e, uint64_t event,
			  double ns)
{
	struct backend *b = space->backend;
	uint32_t nr = 0, late = 0;

	for (; nr < e->nr_awaited && e->awaited[nr].event <= event; nr++)
		if (e->awaited[nr].event == event &&
		    (double)b->observe->fence_time_ns(b, e->awaited[nr].fence) > ns)
			late += e->awaited[nr].nr;
	e->nr_awaited -= nr;
	for (uint32_t i = 0; nr && i < e->nr_awaited; i++)
		e->awaited[i] = e->awaited[i + nr];
	return late;
}

/* ------------------------------------------------------------------ times */

void explain_done(const struct weir_space *space, struct planner *p, uint64_t event,
		  double begin_ns, double end_ns)
{
	const uint64_t place = record_event(&p->record, event)->place;
	const double last_ns = p->explained.end_ns;
	const uint32_t late = take_late(space, &p->explained, event, last_ns);
	struct stage_seen *seen;
	uint32_t stage;

	p->explained.end_ns = MAX(last_ns, end_ns);
	if (last_ns <= 0 || end_ns <= last_ns || !find_stage(p, place, &stage))
		return;
	seen = &p->plan->seen[stage];
	seen->ns += end_ns - last_ns;
	seen->kernels_ns += end_ns - MAX(begin_ns, last_ns);
	seen->nr_late += late;
	seen->nr_timed++;
}

void explain_forget(struct planner *p)
{
	free(p->explained.awaited);
	p->explained = (struct explained){0};
}

/* ------------------------------------------------------------------ the numbers */

/* A mean by brackets, of a whole stage. */
static double in_stage(double sum, uint64_t nr, uint32_t nr_brackets)
{
	return nr ? sum / (double)nr * nr_brackets : 0;
}

/* All of a stage but its name. */
static void fill_stage(const struct plan *plan, uint32_t g, struct explain_stage *out)
{
	const struct stage_seen *seen = &plan->seen[g];
	const struct happened *all = &seen->all;
	const uint64_t begun = seen->nr_begun, timed = seen->nr_timed;
	const uint32_t nr = out->nr_brackets;

	out->planned_ns = plan->end_ns[g] - (g ? plan->end_ns[g - 1] : 0);
	out->measured_ns = in_stage(seen->ns, timed, nr);
	out->kernels_ns = in_stage(seen->kernels_ns, timed, nr);
	out->brought = in_stage((double)all->nr_brought, begun, nr);
	out->ahead = in_stage((double)all->nr_ahead, begun, nr);
	out->late = in_stage((double)seen->nr_late, timed, nr) +
		    in_stage((double)seen->nr_missed, begun, nr);
	out->out = in_stage((double)all->nr_out, begun, nr);
	out->calls = in_stage((double)all->nr_calls, begun, nr);
	out->calls_ns = in_stage((double)all->calls_ns, begun, nr);
}

/* Means of the begins that were looked at. */
static void fill_room(const struct weir_space *space, const struct room_seen *seen,
		      struct explain_stage *out)
{
	for (int room = 0; room < EXPLAIN_ROOM_NR && seen->nr; room++)
		out->room[room] = (double)seen->nr_chunks[room] / (double)seen->nr;
	if (seen->nr)
		out->filled =
			(double)seen->filled_bytes / (double)seen->nr / (double)space->block_bytes;
}

static void add_stage(struct explain_stage *sum, const struct explain_stage *stage)
{
	sum->nr_brackets += stage->nr_brackets;
	sum->planned_ns += stage->planned_ns;
	sum->measured_ns += stage->measured_ns;
	sum->kernels_ns += stage->kernels_ns;
	sum->brought += stage->brought;
	sum->ahead += stage->ahead;
	sum->late += stage->late;
	sum->out += stage->out;
	sum->calls += stage->calls;
	sum->calls_ns += stage->calls_ns;
}

/* The kernels that begin the stages, from what was recorded since the plan was made. */
static void find_names(const struct planner *p, const struct plan *plan,
		       struct explain_stage *stage)
{
	const struct record *record = &p->record;
	const uint64_t first = MAX(record->first_event, p->plan_event);
	const uint64_t period = record->period ? record->period : record->suspended.period;

	for (uint64_t n = record->next_event; n-- > first;) {
		const struct event *event = record_event(record, n);
		uint64_t k = (event->place - p->plan_place) % period;
		struct explain_stage *at;

		if (event->kind != EVENT_BEGIN || event->place < p->plan_place || !event->kernel)
			continue;
		at = &stage[plan->stage_of_step[p->step_of_event[k]]];
		(void)snprintf(at->name, sizeof(at->name), "%s", event->kernel);
	}
}

static int get_plan(const struct weir_space *space, const struct planner *p,
		    struct explain_device *out)
{
	const struct plan *plan = p->plan ? p->plan : p->suspended;

	out->stage = calloc(plan->nr_stages, sizeof(*out->stage));
	if (!out->stage)
		return -ENOMEM;
	out->suspended = p->suspended != NULL;
	out->nr_moves = plan->nr_actions;
	out->chunk_bytes = space->block_bytes;
	out->modelled_ns = plan->modelled_ns;
	out->compute_ns = plan->compute_ns;
	out->nr_stages = plan->nr_stages;
	for (uint32_t i = 0; i < plan->nr_steps; i++)
		out->stage[plan->stage_of_step[i]].nr_brackets++;
	for (uint32_t g = 0; g < plan->nr_stages; g++) {
		fill_stage(plan, g, &out->stage[g]);
		fill_room(space, &plan->seen[g].room, &out->stage[g]);
		add_stage(&out->sum, &out->stage[g]);
	}
	find_names(p, plan, out->stage);
	return 0;
}

static const char *why_no_plan(const struct weir_space *space, const struct planner *p)
{
	if (space->mode == WEIR_FIXED)
		return "no plan: the space is fixed, and nothing moves";
	if (!space->residency->plans)
		return "no plan: WEIR_PLANS is 0";
	if (p->bare)
		return p->settled ? "no plan: a period takes less time without one"
				  : "no plan: how long a period takes without one is measured";
	if (!p->record.period)
		return p->record.nr_given_up
			       ? "no plan: no repetition is known, and one may have been missed"
			       : "no plan: no repetition is known";
	if (p->job)
		return "no plan yet: it is being made";
	return "no plan: there was no memory for it, or the repetition has no brackets";
}

static int get_all(const struct weir_space *space, struct explain *out)
{
	int err = 0;

	for (uint32_t own = 0; own < space->nr_devices && !err; own++) {
		const struct planner *p = &space->residency->planner[own];
		struct explain_device *device = &out->device[out->nr_devices++];

		(void)snprintf(device->name, sizeof(device->name), "%s",
			       space->backend->desc.device[space->device[own]].name);
		if (p->plan || p->suspended)
			err = get_plan(space, p, device);
		else
			device->why = why_no_plan(space, p);
	}
	return err;
}

int explain_get(struct weir_space *space, struct explain **out)
{
	struct explain *explain =
		calloc(1, sizeof(*explain) + space->nr_devices * sizeof(explain->device[0]));
	int err = explain ? 0 : -ENOMEM;

	if (!err) {
		pthread_mutex_lock(&space->lock);
		err = get_all(space, explain);
		pthread_mutex_unlock(&space->lock);
	}
	if (!err)
		*out = explain;
	else
		explain_free(explain);
	return err;
}

void explain_free(struct explain *explain)
{
	for (uint32_t i = 0; explain && i < explain->nr_devices; i++)
		free(explain->device[i].stage);
	free(explain);
}

/* ------------------------------------------------------------------ the text */

static void print_figures(const struct explain_stage *s, FILE *out)
{
	fprintf(out, " %9u  %10.3f %11.3f %10.3f %9.3f %9.1f %7.1f %7.1f %7.1f %7.1f %9.3f",
		s->nr_brackets, s->planned_ns / MS, s->measured_ns / MS, s->kernels_ns / MS,
		explain_waited_ns(s) / MS, s->brought, s->ahead, s->late, s->out, s->calls,
		s->calls_ns / MS);
}

static void print_plan(const struct explain_device *device, FILE *out)
{
	fprintf(out,
		"a plan of %u brackets in %u stages, with %u moves; %.3f ms a period, of that %.3f "
		"ms of computation with everything resident\n",
		device->sum.nr_brackets, device->nr_stages, device->nr_moves,
		device->modelled_ns / MS, device->compute_ns / MS);
	fprintf(out, "%7s %9s  %10s %11s %10s %9s %9s %7s %7s %7s %7s %9s  %s\n", "stage",
		"brackets", "planned ms", "measured ms", "kernels ms", "waited ms", "brought",
		"ahead", "late", "out", "calls", "calls ms", "begins with");
	for (uint32_t g = 0; g < device->nr_stages; g++) {
		fprintf(out, "%7u", g);
		print_figures(&device->stage[g], out);
		fprintf(out, "  %s\n", device->stage[g].name);
	}
	fprintf(out, "%7s", "all");
	print_figures(&device->sum, out);
	fputc('\n', out);
}

static void print_room(const struct explain_device *device, FILE *out)
{
	fprintf(out, "room in its memory as stages begin, in blocks of %llu bytes\n%7s",
		(unsigned long long)device->chunk_bytes, "stage");
	for (int room = 0; room < EXPLAIN_ROOM_NR; room++)
		fprintf(out, " %9s", explain_room_name((enum explain_room)room));
	fprintf(out, " %9s\n", "filled");
	for (uint32_t g = 0; g < device->nr_stages; g++) {
		const struct explain_stage *s = &device->stage[g];

		fprintf(out, "%7u", g);
		for (int room = 0; room < EXPLAIN_ROOM_NR; room++)
			fprintf(out, " %9.1f", s->room[room]);
		fprintf(out, " %9.2f\n", s->filled);
	}
}

int explain_print(const struct explain *explain, FILE *out)
{
	for (uint32_t i = 0; i < explain->nr_devices; i++) {
		const struct explain_device *device = &explain->device[i];

		fprintf(out, "%s: ", device->name);
		if (device->suspended)
			fputs("suspended, since what the program does now differs: ", out);
		if (device->why)
			fprintf(out, "%s\n", device->why);
		else
			print_plan(device, out);
		if (!device->why)
			print_room(device, out);
	}
	return ferror(out) ? -EIO : 0;
}

int weir_space_explain(struct weir_space *space, FILE *out)
{
	struct explain *explain;
	int err = explain_get(space, &explain);

	if (err)
		return err;
	err = explain_print(explain, out);
	explain_free(explain);
	return err;
}
