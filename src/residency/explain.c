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
				 .nr_calls = stats->nr_remaps};
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
		seen->all.nr_calls += now.nr_calls - before->nr_calls;
	}
	p->explained.before = now;
	p->explained.stage = find_stage(p, place, &stage) ? &p->plan->seen[stage] : NULL;
}

void explain_done(struct planner *p, uint64_t place, double begin_ns, double end_ns)
{
	const double last_ns = p->explained.end_ns;
	struct stage_seen *seen;
	uint32_t stage;

	p->explained.end_ns = MAX(last_ns, end_ns);
	if (last_ns <= 0 || end_ns <= last_ns || !find_stage(p, place, &stage))
		return;
	seen = &p->plan->seen[stage];
	seen->ns += end_ns - last_ns;
	seen->kernels_ns += end_ns - MAX(begin_ns, last_ns);
	seen->nr_timed++;
	p->plan->nr_timed++;
}

void explain_forget(struct planner *p)
{
	p->explained = (struct explained){0};
}

/* ------------------------------------------------------------------ the text */

/* A stage, in a period. */
struct row {
	uint32_t nr_brackets;
	const char *kernel; /* of its first bracket; "": not known, or several */
	double planned_ns, ns, kernels_ns, brought, ahead, out, calls;
};

/* A mean by brackets, of a whole stage. */
static double in_stage(double sum, uint64_t nr, uint32_t nr_brackets)
{
	return nr ? sum / (double)nr * nr_brackets : 0;
}

static void fill_row(const struct plan *plan, uint32_t stage, struct row *row)
{
	const struct stage_seen *seen = &plan->seen[stage];
	const uint32_t nr = row->nr_brackets;

	row->planned_ns = plan->end_ns[stage] - (stage ? plan->end_ns[stage - 1] : 0);
	row->ns = in_stage(seen->ns, seen->nr_timed, nr);
	row->kernels_ns = in_stage(seen->kernels_ns, seen->nr_timed, nr);
	row->brought = in_stage((double)seen->all.nr_brought, seen->nr_begun, nr);
	row->ahead = in_stage((double)seen->all.nr_ahead, seen->nr_begun, nr);
	row->out = in_stage((double)seen->all.nr_out, seen->nr_begun, nr);
	row->calls = in_stage((double)seen->all.nr_calls, seen->nr_begun, nr);
}

/* The kernels that begin the stages, from what was recorded since the plan was made. */
static void find_kernels(const struct planner *p, const struct plan *plan, struct row *row)
{
	const struct record *record = &p->record;
	const uint64_t first = MAX(record->first_event, p->plan_event);
	const uint64_t period = record->period ? record->period : record->suspended.period;

	for (uint64_t n = record->next_event; n-- > first;) {
		const struct event *event = record_event(record, n);
		uint64_t k = (event->place - p->plan_place) % period;

		if (event->kind == EVENT_BEGIN && event->place >= p->plan_place && event->kernel)
			row[plan->stage_of_step[p->step_of_event[k]]].kernel = event->kernel;
	}
}

static void print_rows(const struct plan *plan, const struct row *row, FILE *out)
{
	struct row sum = {0};

	fprintf(out, "%7s %9s  %10s %11s %10s %9s %9s %7s %7s %7s  %s\n", "stage", "brackets",
		"planned ms", "measured ms", "kernels ms", "waited ms", "brought", "ahead", "out",
		"calls", "begins with");
	for (uint32_t g = 0; g < plan->nr_stages; g++) {
		const struct row *r = &row[g];

		fprintf(out, "%7u %9u  %10.3f %11.3f %10.3f %9.3f %9.1f %7.1f %7.1f %7.1f  %s\n", g,
			r->nr_brackets, r->planned_ns / MS, r->ns / MS, r->kernels_ns / MS,
			(r->ns - r->kernels_ns) / MS, r->brought, r->ahead, r->out, r->calls,
			r->kernel);
		sum.planned_ns += r->planned_ns;
		sum.ns += r->ns;
		sum.kernels_ns += r->kernels_ns;
		sum.brought += r->brought;
		sum.ahead += r->ahead;
		sum.out += r->out;
		sum.calls += r->calls;
	}
	fprintf(out, "%7s %9u  %10.3f %11.3f %10.3f %9.3f %9.1f %7.1f %7.1f %7.1f\n", "all",
		plan->nr_steps, sum.planned_ns / MS, sum.ns / MS, sum.kernels_ns / MS,
		(sum.ns - sum.kernels_ns) / MS, sum.brought, sum.ahead, sum.out, sum.calls);
}

static int print_plan(const struct planner *p, const struct plan *plan, FILE *out)
{
	struct row *row = calloc(plan->nr_stages, sizeof(*row));

	if (!row)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->nr_steps; i++)
		row[plan->stage_of_step[i]].nr_brackets++;
	for (uint32_t g = 0; g < plan->nr_stages; g++) {
		row[g].kernel = "";
		fill_row(plan, g, &row[g]);
	}
	find_kernels(p, plan, row);
	fprintf(out,
		"a plan of %u brackets in %u stages, with %u moves; %.3f ms a period, of that %.3f "
		"ms of computation with everything resident\n",
		plan->nr_steps, plan->nr_stages, plan->nr_actions, plan->modelled_ns / MS,
		plan->compute_ns / MS);
	print_rows(plan, row, out);
	free(row);
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
	return "no plan: there was no memory for it, or the repetition has no brackets";
}

int weir_space_explain(struct weir_space *space, FILE *out)
{
	int err = 0;

	pthread_mutex_lock(&space->lock);
	for (uint32_t own = 0; !err && own < space->nr_devices; own++) {
		const struct planner *p = &space->residency->planner[own];

		fprintf(out, "%s: ", space->backend->desc.device[space->device[own]].name);
		if (p->suspended)
			fputs("suspended, since what the program does now differs: ", out);
		if (p->plan || p->suspended)
			err = print_plan(p, p->plan ? p->plan : p->suspended, out);
		else
			fprintf(out, "%s\n", why_no_plan(space, p));
	}
	pthread_mutex_unlock(&space->lock);
	return err ? err : ferror(out) ? -EIO : 0;
}
