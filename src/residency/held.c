/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan that a planner holds, followed or suspended: what ends with it, and what a trace is told
 * of it. Making plans (learn.c), resuming them (resume.c) and choosing among them (tried.c) all
 * stand on this file.
 */
#include <stdlib.h>

#include "src/core/tracing.h"
#include "src/residency/residency.h"

void held_trace(struct weir_space *space, const struct planner *p)
{
	const struct plan *plan = p->plan;

	tracing_plan(space, p->own,
		     &(struct trace_plan){.nr_steps = plan->nr_steps,
					  .nr_stages = plan->nr_stages,
					  .nr_actions = plan->nr_actions,
					  .modelled_ns = plan->modelled_ns,
					  .compute_ns = plan->compute_ns});
}

void held_release(struct planner *p)
{
	plan_destroy(p->plan ? p->plan : p->suspended);
	free(p->life);
	free(p->life_of_event);
	free(p->step_of_event);
	free(p->flowing);
	p->flowing = NULL;
	p->nr_flowing = 0;
	p->plan = p->suspended = NULL;
	p->life = NULL;
	p->life_of_event = p->step_of_event = NULL;
	p->host_stage = p->next_stage = p->gpu_stage = 0;
	p->nr_pending = p->next_action = 0;
	p->action_period = 0;
	explain_forget(p);
}
