/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a policy, of either form: see policy.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/util.h"
#include "src/policy/builtin.h"
#include "src/policy/policy.h"

const char *const policy_hook_name[POLICY_HOOKS] = {"admit", "victim", "fault", "moved"};

const uint32_t policy_context_bytes[POLICY_HOOKS] = {
	sizeof(struct weir_policy_admit),
	sizeof(struct weir_policy_victim),
	sizeof(struct weir_policy_fault),
	sizeof(struct weir_policy_moved),
};

/* ------------------------------------------------------------------ opening */

int policy_init(struct weir_policy *policy, const struct policy_form *form, const char *name)
{
	policy->form = form;
	policy->name = strdup(name);
	if (!policy->name)
		return -ENOMEM;
	atomic_init(&policy->detached, false);
	pthread_mutex_init(&policy->lock, NULL);
	return 0;
}

void policy_fini(struct weir_policy *policy)
{
	pthread_mutex_destroy(&policy->lock);
	free(policy->name);
}

/* Whether a name is one of those before it, each of which is followed by its value. */
static bool is_repeated(const char *first, const char *name)
{
	while (first < name && strcmp(first, name) != 0) {
		first += strlen(first) + 1;
		first += strlen(first) + 1;
	}
	return first < name;
}

int policy_set_tunables(const char *tunables, policy_set_fn set, void *arg, char *err,
			size_t err_bytes)
{
	char *text = tunables ? strdup(tunables) : NULL, *rest = text;
	int ret = tunables && !text ? -ENOMEM : 0;

	if (ret)
		snprintf(err, err_bytes, "out of memory");
	while (!ret && rest) {
		char *name = strsep(&rest, ","), *value = strchr(name, '=');

		if (!value || value == name) {
			snprintf(err, err_bytes, "'%s' is not of the form NAME=VALUE", name);
			ret = -EINVAL;
			break;
		}
		*value++ = 0;
		if (is_repeated(text, name)) {
			snprintf(err, err_bytes, "tunable %s is given twice", name);
			ret = -EINVAL;
		} else {
			ret = set(arg, name, value, err, err_bytes);
		}
	}
	free(text);
	return ret;
}

/* ------------------------------------------------------------------ calls */

static void detach(struct weir_policy *policy, const char *why)
{
	atomic_store_explicit(&policy->detached, true, memory_order_relaxed);
	policy->stats.detached = true;
	log_warning("policy %s is detached, the built-in rules go on: %s", policy->name, why);
}

/* Call a hook. What its answer is held against stays, whatever it writes there. */
static int call_form(struct weir_policy *policy, enum policy_hook hook, void *context,
		     uint64_t *budget, char *why, size_t why_bytes)
{
	struct weir_policy_victim *victim = hook == POLICY_VICTIM ? context : NULL;
	struct weir_policy_admit *admit = hook == POLICY_ADMIT ? context : NULL;
	uint32_t nr_blocks = admit ? admit->range.nr_blocks : 0;
	uint32_t window = victim ? victim->window : 0;
	uint32_t nr = victim ? victim->nr : 0, nr_far = victim ? victim->nr_far : 0;
	int did = policy->form->call(policy, hook, context, budget, why, why_bytes);

	if (admit)
		admit->range.nr_blocks = nr_blocks;
	if (victim) {
		victim->window = window;
		victim->nr = nr;
		victim->nr_far = nr_far;
	}
	return did;
}

/* One call. @return what the hook did; a fault detaches, and is the default. */
static int call(struct weir_policy *policy, enum policy_hook hook, void *context, uint64_t *budget)
{
	char why[256];
	int did = WEIR_POLICY_DEFAULT;

	/* Another thread's call may have detached it while this one waited for the lock. */
	if (!policy->stats.detached)
		did = call_form(policy, hook, context, budget, why, sizeof(why));
	if (did >= 0)
		return did;
	detach(policy, why);
	return WEIR_POLICY_DEFAULT;
}

void policy_cost_add(struct policy_cost *cost, uint64_t instructions, uint64_t ns)
{
	cost->nr++;
	cost->instructions += instructions;
	cost->ns += ns;
	cost->max_instructions = MAX(cost->max_instructions, instructions);
	cost->max_ns = MAX(cost->max_ns, ns);
}

/* Count a decision, and whether its answer is taken. */
static bool decided(struct weir_policy *policy, enum policy_hook hook, bool answered, bool right,
		    uint64_t budget_left)
{
	struct weir_policy_stats *stats = &policy->stats;
	uint64_t spent = WEIR_POLICY_BUDGET - budget_left;
	char why[96];

	stats->asked[hook]++;
	stats->nr_instructions += spent;
	if (stats->max_instructions < spent)
		stats->max_instructions = spent;
	if (answered && right) {
		stats->answered[hook]++;
		return true;
	}
	policy->cost[hook].nr_wrong += answered;
	if (answered && ++stats->nr_wrong == POLICY_WRONG_MAX) {
		snprintf(why, sizeof(why),
			 "%u of its answers were out of range, the last one of %s",
			 POLICY_WRONG_MAX, policy_hook_name[hook]);
		detach(policy, why);
	}
	return false;
}

static uint64_t enter(struct weir_policy *policy)
{
	pthread_mutex_lock(&policy->lock);
	return clock_now_ns();
}

static void leave(struct weir_policy *policy, enum policy_hook hook, uint64_t budget_left,
		  uint64_t since_ns)
{
	uint64_t ns = clock_now_ns() - since_ns;

	policy->stats.ns += ns;
	policy_cost_add(&policy->cost[hook], WEIR_POLICY_BUDGET - budget_left, ns);
	pthread_mutex_unlock(&policy->lock);
}

/* Decisions of a single call. right: whether an answer can be taken. */
static bool ask(struct weir_policy *policy, enum policy_hook hook, void *context,
		bool (*right)(const void *context))
{
	uint64_t budget = WEIR_POLICY_BUDGET, since_ns = enter(policy);
	int did = call(policy, hook, context, &budget);
	bool taken = decided(policy, hook, did != WEIR_POLICY_DEFAULT,
			     did == WEIR_POLICY_ANSWER && right(context), budget);

	leave(policy, hook, budget, since_ns);
	return taken;
}

static bool admit_is_right(const void *context)
{
	const struct weir_policy_admit *q = context;

	return q->level <= q->range.nr_blocks && q->evict <= 1;
}

bool policy_admit(struct weir_policy *policy, struct weir_policy_admit *q)
{
	return ask(policy, POLICY_ADMIT, q, admit_is_right);
}

static bool fault_is_right(const void *context)
{
	const struct weir_policy_fault *q = context;

	return q->more >= -(int32_t)WEIR_POLICY_MORE_MAX &&
	       q->more <= (int32_t)WEIR_POLICY_MORE_MAX;
}

bool policy_fault(struct weir_policy *policy, struct weir_policy_fault *q)
{
	return ask(policy, POLICY_FAULT, q, fault_is_right);
}

void policy_moved(struct weir_policy *policy, struct weir_policy_moved *q)
{
	uint64_t budget = WEIR_POLICY_BUDGET, since_ns = enter(policy);

	(void)call(policy, POLICY_MOVED, q, &budget);
	(void)decided(policy, POLICY_MOVED, false, true, budget);
	leave(policy, POLICY_MOVED, budget, since_ns);
}

static bool victim_is_right(const struct weir_policy_victim *q)
{
	return q->chosen < q->nr || (q->chosen >= WEIR_POLICY_CANDIDATES &&
				     q->chosen - WEIR_POLICY_CANDIDATES < q->nr_far);
}

uint32_t policy_put_far(struct weir_policy_victim *q, uint64_t next_use)
{
	uint32_t at = q->nr_far;

	while (at > 0 && q->far[at - 1].next_use < next_use)
		at--;
	if (at == WEIR_POLICY_FAR)
		return at;
	if (q->nr_far < WEIR_POLICY_FAR)
		q->nr_far++;
	memmove(&q->far[at + 1], &q->far[at], (q->nr_far - 1 - at) * sizeof(q->far[0]));
	q->far[at].next_use = next_use;
	return at;
}

bool policy_victim(struct weir_policy *policy, struct weir_policy_victim *q, policy_next_fn next,
		   void *arg)
{
	uint64_t budget = WEIR_POLICY_BUDGET, since_ns = enter(policy);
	int did = call(policy, POLICY_VICTIM, q, &budget);
	bool taken;

	/* A following window that is not there is no answer, and no wrong one. */
	while (did == WEIR_POLICY_NEXT) {
		if (q->window + 1 == WEIR_POLICY_WINDOWS || !next(arg, q)) {
			did = WEIR_POLICY_DEFAULT;
			break;
		}
		did = call(policy, POLICY_VICTIM, q, &budget);
	}
	taken = decided(policy, POLICY_VICTIM, did != WEIR_POLICY_DEFAULT,
			did == WEIR_POLICY_ANSWER && victim_is_right(q), budget);
	leave(policy, POLICY_VICTIM, budget, since_ns);
	return taken;
}

/* ------------------------------------------------------------------ what is known of one */

const char *weir_policy_name(const struct weir_policy *policy)
{
	return policy->name;
}

void weir_policy_query(struct weir_policy *policy, struct weir_policy_stats *out)
{
	pthread_mutex_lock(&policy->lock);
	*out = policy->stats;
	pthread_mutex_unlock(&policy->lock);
}

bool weir_policy_global_nth(struct weir_policy *policy, uint32_t n, struct weir_policy_global *out)
{
	bool found;

	pthread_mutex_lock(&policy->lock);
	found = policy->form->global_nth(policy, n, out);
	pthread_mutex_unlock(&policy->lock);
	return found;
}

void weir_policy_log(const char *text, uint64_t number)
{
	log_info("policy: %.63s %llu", text, (unsigned long long)number);
}
