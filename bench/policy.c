/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy's decision costs the host, by hook: of each policy that is built in as C, and as
 * an eBPF object where FOLDER, by default build/policies, has one of its name. A sample is 16 calls
 * with one context, which is made up as those of trials are (src/policy/trial.h). "hook_ns" is what
 * a call takes, with the copies of its context if it is an object's; "decision_ns" what weir pays,
 * with the lock and the counts; "times_c" the median of the hook over that of the C form.
 *
 * Usage: bench_policy [FOLDER]. One JSON object a line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/util.h"
#include "src/policy/builtin.h"
#include "src/policy/trial.h"

#define CALLS 16u
#define SAMPLES 4000u
#define WARM_UP 400u
#define SEED 2026u

struct samples {
	double hook[SAMPLES], decision[SAMPLES];
	uint64_t max_instructions;
};

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_times(const char *name, double *sample)
{
	qsort(sample, SAMPLES, sizeof(*sample), compare);
	printf(",\"%s\":{\"min\":%.1f,\"median\":%.1f,\"p99\":%.1f}", name, sample[0],
	       sample[SAMPLES / 2], sample[SAMPLES - 1 - SAMPLES / 100]);
}

static bool no_window(void *arg, struct weir_policy_victim *q)
{
	(void)arg, (void)q;
	return false;
}

static void decide(struct weir_policy *policy, enum policy_hook hook, union trial_context *q)
{
	switch (hook) {
	case POLICY_ADMIT:
		(void)policy_admit(policy, &q->admit);
		break;
	case POLICY_VICTIM:
		(void)policy_victim(policy, &q->victim, no_window, NULL);
		break;
	case POLICY_FAULT:
		(void)policy_fault(policy, &q->fault);
		break;
	default:
		policy_moved(policy, &q->moved);
		break;
	}
}

static void call(struct weir_policy *policy, enum policy_hook hook, union trial_context *q)
{
	uint64_t budget = WEIR_POLICY_BUDGET;
	char why[256];

	if (policy->form->call(policy, hook, q, &budget, why, sizeof(why)) < 0) {
		fprintf(stderr, "bench_policy: %s: %s\n", policy->name, why);
		exit(1);
	}
}

static double time_of(void (*what)(struct weir_policy *, enum policy_hook, union trial_context *),
		      struct weir_policy *policy, enum policy_hook hook, union trial_context *q)
{
	const uint64_t begin_ns = clock_now_ns();

	for (uint32_t n = 0; n < CALLS; n++)
		what(policy, hook, q);
	return (double)(clock_now_ns() - begin_ns) / CALLS;
}

/* A full window: of those with fewer candidates the price is less. */
static void next_context(struct trial_world *world, enum policy_hook hook, union trial_context *q)
{
	do
		trial_context(world, hook, q);
	while (hook == POLICY_VICTIM && q->victim.nr < WEIR_POLICY_CANDIDATES);
}

static void measure(struct weir_policy *policy, enum policy_hook hook, struct samples *out)
{
	struct weir_policy_stats stats;
	struct trial_world world;
	union trial_context q;

	trial_world_init(&world, SEED);
	for (uint32_t n = 0; n < WARM_UP + SAMPLES; n++) {
		const uint32_t at = n < WARM_UP ? 0 : n - WARM_UP;

		next_context(&world, hook, &q);
		out->hook[at] = time_of(call, policy, hook, &q);
		out->decision[at] = time_of(decide, policy, hook, &q);
		trial_take(&world, hook, &q);
	}
	weir_policy_query(policy, &stats);
	out->max_instructions = stats.max_instructions;
}

/* @return the median of the hook alone; 0: it has no such hook, or there is no such policy. */
static double bench(const char *name, const char *spec, enum policy_hook hook, double c)
{
	static struct samples samples;
	struct weir_policy *policy;
	char err[512];
	double median = 0;

	if (weir_policy_open(spec, &policy, err, sizeof(err))) {
		fprintf(stderr, "bench_policy: %s\n", err);
		return 0;
	}
	if (policy_has(policy, hook)) {
		measure(policy, hook, &samples);
		printf("{\"schema\":\"weir-bench-policy-1\",\"version\":\"%s\",\"policy\":\"%s\","
		       "\"hook\":\"%s\",\"form\":\"%s\"",
		       weir_version(), name, policy_hook_name[hook], c > 0 ? "eBPF" : "C");
		print_times("hook_ns", samples.hook);
		print_times("decision_ns", samples.decision);
		median = samples.hook[SAMPLES / 2];
		if (c > 0)
			printf(",\"max_instructions\":%llu,\"times_c\":%.1f",
			       (unsigned long long)samples.max_instructions, median / c);
		puts("}");
	}
	weir_policy_close(policy);
	return median;
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : "build/policies";

	for (uint32_t n = 0; policy_builtins[n]; n++)
		for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++) {
			const char *name = policy_builtins[n]->name;
			const double c = bench(name, name, (enum policy_hook)hook, 0);
			char spec[512];

			snprintf(spec, sizeof(spec), "%s/%s.o", folder, name);
			if (c > 0)
				(void)bench(name, spec, (enum policy_hook)hook, c);
		}
	return 0;
}
