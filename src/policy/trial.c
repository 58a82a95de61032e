/* SPDX-License-Identifier: Apache-2.0 */
/* Trying a policy: see trial.h. What the contexts are made of is in trial_world.c. */
#include "src/policy/trial.h"

#include <errno.h>
#include <stdio.h>

#include "src/base/clock.h"
#include "src/base/util.h"

/* One decision, over all its windows. @return what policy_form's call does. */
static int decide(struct weir_policy *policy, enum policy_hook hook, struct trial_world *world,
		  union trial_context *context, uint64_t *budget, char *why, size_t why_bytes)
{
	int did;

	do {
		did = policy->form->call(policy, hook, context, budget, why, why_bytes);
		trial_take(world, hook, context);
		if (did != WEIR_POLICY_NEXT || hook != POLICY_VICTIM)
			return did;
	} while (trial_window(world, &context->victim));
	return WEIR_POLICY_DEFAULT;
}

/* Whether an answer is in range, as policy_admit() and others see it; why: which is not. */
static bool is_right(enum policy_hook hook, const union trial_context *context, char *why,
		     size_t why_bytes)
{
	const struct weir_policy_admit *admit = &context->admit;
	const struct weir_policy_victim *victim = &context->victim;
	const struct weir_policy_fault *fault = &context->fault;

	switch (hook) {
	case POLICY_ADMIT:
		snprintf(why, why_bytes, "weir_admit: level is %u of %u blocks, evict is %u",
			 admit->level, admit->range.nr_blocks, admit->evict);
		return admit->level <= admit->range.nr_blocks && admit->evict <= 1;
	case POLICY_VICTIM:
		snprintf(why, why_bytes, "weir_victim: chosen is %u of %u candidates and %u far",
			 victim->chosen, victim->nr, victim->nr_far);
		return victim->chosen < victim->nr ||
		       (victim->chosen >= WEIR_POLICY_CANDIDATES &&
			victim->chosen - WEIR_POLICY_CANDIDATES < victim->nr_far);
	case POLICY_FAULT:
		snprintf(why, why_bytes, "weir_fault: more is %d", fault->more);
		return fault->more >= -(int32_t)WEIR_POLICY_MORE_MAX &&
		       fault->more <= (int32_t)WEIR_POLICY_MORE_MAX;
	default:
		return true;
	}
}

/* Whether a decision is one that weir takes; why: what is wrong. */
static bool is_taken(enum policy_hook hook, int did, const union trial_context *context, char *why,
		     size_t why_bytes)
{
	if (did < 0)
		return false;
	if (did == WEIR_POLICY_DEFAULT || hook == POLICY_MOVED)
		return true;
	if (did == WEIR_POLICY_ANSWER)
		return is_right(hook, context, why, why_bytes);
	snprintf(why, why_bytes, "weir_%s: it returned no enum weir_policy_result%s",
		 policy_hook_name[hook], did == WEIR_POLICY_NEXT ? " but WEIR_POLICY_NEXT" : "");
	return false;
}

int policy_trial_run(struct weir_policy *policy, struct policy_trial *trial, char *err,
		     size_t err_bytes)
{
	struct trial_world world;
	union trial_context context;
	char why[256];
	int ret = 0;

	trial_world_init(&world, trial->seed);
	pthread_mutex_lock(&policy->lock);
	/* Hooks take turns, as they do in use. */
	for (uint64_t n = 0; n < (uint64_t)trial->nr * POLICY_HOOKS && !ret; n++) {
		const enum policy_hook hook = (enum policy_hook)(n % POLICY_HOOKS);
		uint64_t budget = WEIR_POLICY_BUDGET, begin_ns;
		int did;

		if (!policy->has[hook])
			continue;
		trial_context(&world, hook, &context);
		begin_ns = clock_now_ns();
		did = decide(policy, hook, &world, &context, &budget, why, sizeof(why));
		policy_cost_add(&trial->cost[hook], WEIR_POLICY_BUDGET - budget,
				clock_now_ns() - begin_ns);
		if (!is_taken(hook, did, &context, why, sizeof(why))) {
			snprintf(err, err_bytes, "%s: %s (context %llu of its trial, seed %llu)",
				 policy->name, why, (unsigned long long)(n / POLICY_HOOKS),
				 (unsigned long long)trial->seed);
			ret = -EINVAL;
		}
	}
	pthread_mutex_unlock(&policy->lock);
	return ret;
}
