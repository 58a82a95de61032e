/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels move over the links when some of what they use is in place, and the time of that. */
#include "src/residency/plan_parts.h"

static void traffic_add(struct traffic *t, const struct stage_use *use, uint32_t k, double share,
			double slow)
{
	t->in += use->in * share;
	t->out += use->out * share;
	t->in_ns += use->at[k].in_ns * share * slow;
	t->out_ns += use->at[k].out_ns * share * slow;
	t->serial_ns += use->at[k].serial_ns * share * slow;
	t->hbm_ns += use->hbm_ns * share;
}

/* What kernels take to move this each way, and both ways at once: at the rate of both for as long
 * as both last, then at the kernel's own. */
static double link_ns(const struct plan_below *below, const struct traffic *t)
{
	double both = MIN(t->in, t->out), link = both * below->inplace_both_ns;

	if (t->in > both)
		link += (t->in - both) * t->in_ns / t->in;
	if (t->out > both)
		link += (t->out - both) * t->out_ns / t->out;
	return MAX(link, MAX(t->in_ns, t->out_ns));
}

/* What a step of a stage's body moves over the links, over all iterations. */
struct step_traffic {
	struct traffic base[PLAN_BELOW_MAX];	     /* all but windows */
	struct traffic with_windows[PLAN_BELOW_MAX]; /* and windows, if all of them are there */
	double windows;				     /* blocks of these, */
	double windows_away[PLAN_BELOW_MAX];	     /* and of them those that are there */
	double hbm_ns;				     /* of all, wherever it is */
};

/* Computation and, beside it, use in place; but for the part that does not overlap with the
 * computation of what is resident. windows: the place where windows are; nr_below: resident. */
static double step_ns(const struct plan_input *input, const struct step_traffic *t, double compute,
		      uint32_t windows)
{
	double longest = compute, home = 1, ns = 0;

	for (uint32_t k = 0; k < input->nr_below && t->hbm_ns > 0; k++)
		home -= (k == windows ? &t->with_windows[k] : &t->base[k])->hbm_ns / t->hbm_ns;
	home = MAX(home, 0) * compute;
	for (uint32_t k = 0; k < input->nr_below; k++) {
		const struct traffic *at = k == windows ? &t->with_windows[k] : &t->base[k];
		double link = link_ns(&input->below[k], at);

		longest = MAX(longest, link);
		if (at->serial_ns > 0)
			ns += at->serial_ns / (at->in_ns + at->out_ns) * MIN(home, link);
	}
	return longest + ns;
}

/* Adds to the stage's total, too. blocks: of the life, of them away. */
static void step_use(const struct plan_input *input, const struct stage_use *use, double blocks,
		     const double away[], struct step_traffic *t, struct traffic total[])
{
	t->hbm_ns += use->hbm_ns;
	if (use->window)
		t->windows += use->in + use->out;
	for (uint32_t k = 0; k < input->nr_below; k++) {
		double share = away[k] / blocks, slow = use->at[k].hit;

		if (away[k] > use->at[k].reach_blocks)
			slow = MAX(slow, 1 - use->at[k].reach_blocks / away[k]);
		traffic_add(&total[k], use, k, share, slow);
		traffic_add(&t->with_windows[k], use, k, use->window ? 1 : share, slow);
		if (use->window)
			t->windows_away[k] += use->in * share + use->out * share;
		else
			traffic_add(&t->base[k], use, k, share, slow);
	}
}

/* One step of a stage's body, over all iterations. Adds its traffic to the total. */
static double run_step(const struct plan_input *input, const struct stages *stages,
		       const struct stage *stage, uint32_t body, const struct away away[],
		       struct traffic total[])
{
	const double compute = stages->compute_ns[stage->first_compute + body];
	struct step_traffic t = {0};
	double ns = 0, here = 1;

	for (uint32_t i = 0; i < stage->nr_uses; i++) {
		const struct stage_use *use = &stages->use[stage->first_use + i];

		if (use->step == body)
			step_use(input, use, stages->blocks[use->life], away[use->life].blocks, &t,
				 total);
	}
	/* The iterations whose windows are in place, by where they are; and the others. */
	for (uint32_t k = 0; k < input->nr_below && t.windows > 0; k++) {
		double there = t.windows_away[k] / t.windows;

		ns += there * step_ns(input, &t, compute, k);
		here -= there;
	}
	return ns + here * step_ns(input, &t, compute, input->nr_below);
}

double traffic_run(const struct plan_input *input, const struct stages *stages,
		   const struct stage *stage, const struct away away[], struct traffic total[])
{
	double ns = 0;

	for (uint32_t body = 0; body < stage->nr_body; body++)
		ns += run_step(input, stages, stage, body, away, total);
	return ns;
}
