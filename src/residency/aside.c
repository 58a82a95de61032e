/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans are made aside: to search for the best one takes up to half a second, for which the program
 * would wait within weir_begin(), and all of its threads for the space's lock. So a thread that the
 * backend lends makes it from a copy of all that it hangs on, while the program goes on under the
 * plan before, or without one; and the event of the repetition that comes next when it is there
 * begins to follow it, as one that was set aside is taken up. A repetition that ends before that
 * does not wait for the thread: whoever of the two comes last frees the job. The simulator makes
 * the plan at once, and says that the job is done when its clock has come as far as the search
 * would have taken by the machine's description, so that its runs repeat. Where there is no such
 * thread, and where the description says nothing of it, the plan is made and followed at once.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/residency/residency.h"

enum job_state { JOB_RUNS, JOB_DONE, JOB_ABANDONED };

struct plan_job {
	struct plan_input input; /* with arrays of its own */
	struct tried *tried;	 /* how the plan is to be followed */
	struct plan *plan;	 /* the thread's until the job is done, */
	int err;		 /* and this */
	uint64_t work_ns;	 /* what a unit of work takes a thread of the host */
	atomic_int state;
	atomic_bool stop;
};

static void job_free(struct plan_job *job)
{
	free((void *)(uintptr_t)job->input.step);
	free((void *)(uintptr_t)job->input.use);
	free((void *)(uintptr_t)job->input.life);
	plan_destroy(job->plan);
	if (job->tried)
		tried_free(job->tried);
	free(job);
}

struct plan_job *aside_new(const struct planner *p, const struct plan_input *input,
			   struct range *const *range, uint32_t *life_of_event,
			   uint32_t *step_of_event)
{
	struct plan_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->tried = tried_new(p, range, input->nr_lives, life_of_event, step_of_event);
	if (!job->tried) {
		free(job);
		return NULL;
	}
	job->input = *input;
	job->input.stop = &job->stop;
	return job;
}

/* On the backend's thread; in the simulator within aside_make(). Neither this nor job_done() takes
 * the space's lock. */
static uint64_t job_run(void *arg)
{
	struct plan_job *job = arg;

	job->err = atomic_load(&job->stop) ? -ECANCELED : plan_create(&job->input, &job->plan);
	return job->plan ? job->plan->work * job->work_ns : 0;
}

static void job_done(void *arg)
{
	struct plan_job *job = arg;

	if (atomic_exchange(&job->state, JOB_DONE) == JOB_ABANDONED)
		job_free(job);
}

/* Follow the plan of a job that is done; the job ends. */
static int job_follow(struct weir_space *space, struct planner *p, struct plan_job *job)
{
	struct tried *tried = job->tried;
	struct plan *plan = job->plan;
	int err = job->err;

	if (!err) {
		log_info("plan: %u steps in %u stages, %u moves; %.3f ms a period, %.3f ms of "
			 "computation",
			 plan->nr_steps, plan->nr_stages, plan->nr_actions, plan->modelled_ns / 1e6,
			 plan->compute_ns / 1e6);
		job->tried = NULL;
		job->plan = NULL;
		err = tried_begin(space, p, tried, plan);
	}
	job_free(job);
	return err;
}

/* Plans of guesses are made at once: trainings on H200s whose plans came later stayed with ones
 * that take a twentieth longer (docs/results.md, "Plans made aside"). */
static bool may_come_later(const struct weir_space *space, const struct planner *p)
{
	return space->residency->aside && !space->residency->maker && !p->record.guessed;
}

int aside_make(struct weir_space *space, struct planner *p, struct plan_job *job)
{
	const struct plan_maker *maker = space->residency->maker;
	struct backend *b = space->backend;

	job->work_ns = space_device(space, p->own)->plan_work_ns;
	if (may_come_later(space, p) && !b->ops->aside(b, job_run, job_done, job)) {
		p->job = job;
		return 0;
	}
	job->err = maker ? maker->make(maker->arg, &job->input, &job->plan)
			 : plan_create(&job->input, &job->plan);
	return job_follow(space, p, job);
}

int aside_follow(struct weir_space *space, struct planner *p)
{
	struct plan_job *job = p->job;

	if (!job || atomic_load(&job->state) != JOB_DONE)
		return 0;
	p->job = NULL;
	return job_follow(space, p, job);
}

void aside_cancel(struct planner *p)
{
	struct plan_job *job = p->job;

	p->job = NULL;
	if (!job)
		return;
	atomic_store(&job->stop, true);
	if (atomic_exchange(&job->state, JOB_ABANDONED) == JOB_DONE)
		job_free(job);
}
