/* SPDX-License-Identifier: Apache-2.0 */
/* `weir policy check`: a policy's trial, with what its decisions took. */
#include <inttypes.h>

#include "cli/policy_internal.h"
#include "cli/size.h"
#include "src/policy/trial.h"

#define CONTEXTS_MAX 100000000u

enum { CONTEXTS, SEED, JSON, HELP, NR_OPTIONS };

static const struct option_def check_options[NR_OPTIONS] = {
	[CONTEXTS] = {"contexts", "N", NULL, "10k", "ask each hook about so many"},
	[SEED] = {"seed", "N", NULL, "1", "make up other contexts with another number"},
	[JSON] = {"json", NULL, NULL, NULL, "print JSON"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

static uint64_t mean(uint64_t sum, uint64_t nr)
{
	return nr ? sum / nr : 0;
}

static void print_text(struct weir_policy *policy, const struct policy_trial *trial)
{
	printf("%s  %s\n", policy->name, policy->help ? policy->help : "");
	policy_print_tunables(policy);
	printf("%-8s %10s %20s %12s %12s %12s\n", "hook", "decisions", "instructions at most",
	       "on average", "ns at most", "on average");
	for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++) {
		const struct policy_cost *cost = &trial->cost[hook];

		if (policy->has[hook])
			printf("%-8s %10" PRIu64 " %20" PRIu64 " %12" PRIu64 " %12" PRIu64
			       " %12" PRIu64 "\n",
			       policy_hook_name[hook], cost->nr, cost->max_instructions,
			       mean(cost->instructions, cost->nr), cost->max_ns,
			       mean(cost->ns, cost->nr));
	}
}

static int print_json(struct weir_policy *policy, const struct policy_trial *trial)
{
	json_t *root = policy_json(policy), *costs = json_object();

	for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++) {
		const struct policy_cost *cost = &trial->cost[hook];

		if (policy->has[hook])
			(void)json_object_set_new(
				costs, policy_hook_name[hook],
				json_pack("{sI sI sI sI sI}", "decisions", (json_int_t)cost->nr,
					  "max_instructions", (json_int_t)cost->max_instructions,
					  "mean_instructions",
					  (json_int_t)mean(cost->instructions, cost->nr), "max_ns",
					  (json_int_t)cost->max_ns, "mean_ns",
					  (json_int_t)mean(cost->ns, cost->nr)));
	}
	if (!root || json_object_set_new(root, "seed", json_integer((json_int_t)trial->seed)) ||
	    json_object_set_new(root, "costs", costs)) {
		json_decref(root);
		return command_complain("no memory on the host, or a file name that is not UTF-8");
	}
	(void)json_dumpf(root, stdout, JSON_INDENT(2));
	(void)putchar('\n');
	json_decref(root);
	return 0;
}

static int print_help(void)
{
	puts("usage: weir policy check POLICY [--contexts N] [--seed N] [--json]\n"
	     "\n"
	     "Ask each hook of a policy about contexts that are made up, and show how many\n"
	     "instructions and how much time a decision took. POLICY is the name of one that is\n"
	     "built in, or an object, FILE.o; behind it may stand :TUNABLE=VALUE,... The\n"
	     "instructions of those that are built in are not counted.\n");
	options_help(stdout, check_options, NR_OPTIONS);
	return command_flushed(0);
}

static int take_numbers(const struct option_value *values, struct policy_trial *trial)
{
	uint64_t nr;

	if (count_parse(values[CONTEXTS].text, &nr) || !nr || nr > CONTEXTS_MAX)
		return command_complain("--contexts %s: not a number from 1 to %u",
					values[CONTEXTS].text, CONTEXTS_MAX);
	trial->nr = (uint32_t)nr;
	if (count_parse(values[SEED].text, &trial->seed))
		return command_complain("--seed %s: not a number", values[SEED].text);
	return 0;
}

int policy_check(int argc, char **argv)
{
	struct policy_trial trial = {0};
	struct option_value values[NR_OPTIONS];
	struct weir_policy *policy;
	char err[POLICY_ERROR_BYTES];
	const char *spec;
	int status = 0;

	if (options_want_help(argc, argv))
		return print_help();
	if (policy_parse("check", check_options, NR_OPTIONS, argc, argv, values, &spec, 1) ||
	    take_numbers(values, &trial))
		return COMMAND_EXIT_BAD;
	if (!spec)
		return command_complain("policy check needs a policy; weir policy list shows those "
					"that are built in");
	if (policy_open_untried(spec, &policy))
		return COMMAND_EXIT_BAD;
	if (policy_trial_run(policy, &trial, err, sizeof(err)))
		status = command_complain("%s", err);
	else if (values[JSON].text)
		status = print_json(policy, &trial);
	else
		print_text(policy, &trial);
	weir_policy_close(policy);
	return command_flushed(status);
}
