/* SPDX-License-Identifier: Apache-2.0 */
/* `weir policy check`: what a policy's decisions took, in its trial or in a replay of a trace. */
#include <inttypes.h>

#include "cli/bench_reader.h"
#include "cli/policy_internal.h"
#include "cli/policy_trace.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "src/policy/trial.h"

#define CONTEXTS_MAX 100000000u

enum { CONTEXTS, SEED, TRACE, MANAGER, MACHINE, GPU_BUDGET, JSON, HELP, NR_OPTIONS };

static const struct option_def check_options[NR_OPTIONS] = {
	[CONTEXTS] = {"contexts", "N", NULL, "10k", "ask each hook about so many"},
	[SEED] = {"seed", "N", NULL, "1", "make up other contexts with another number"},
	[TRACE] = {"trace", "FILE", NULL, NULL, "ask about what a recorded program did, instead"},
	[MANAGER] = {"manager", "A", NULL, NULL,
		     "with --trace: who asks, uvm or weir with their options (default: weir if the "
		     "policy has weir_admit, else uvm)"},
	[MACHINE] = {"machine", "M", NULL, NULL,
		     "with --trace: a simulated machine, its name or description file (default: "
		     "the one of the trace)"},
	[GPU_BUDGET] = {"gpu-budget", "S", NULL, NULL,
			"with --trace: GPU memory to use, or P% of what the trace has allocated at "
			"most (default: as it was recorded)"},
	[JSON] = {"json", NULL, NULL, NULL, "print JSON"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

/* What is shown. */
struct check {
	struct policy_trial trial;
	struct policy_trace trace; /* trace.trace: NULL: a trial */
	const struct policy_cost *cost;
};

static uint64_t mean(uint64_t sum, uint64_t nr)
{
	return nr ? sum / nr : 0;
}

static uint64_t nr_defaults(const struct weir_policy *policy, uint32_t hook)
{
	return policy->cost[hook].nr - policy->stats.answered[hook] - policy->cost[hook].nr_wrong;
}

static void print_text(struct weir_policy *policy, const struct check *check)
{
	const bool traced = check->trace.trace;
	char budget[SIZE_TEXT_BYTES];

	printf("%s  %s\n", policy->name, policy->help ? policy->help : "");
	policy_print_tunables(policy);
	if (traced)
		printf("%s under %s on %s with %s; a decision may take %u instructions\n",
		       check->trace.trace, check->trace.manager, check->trace.machine_name,
		       size_format(check->trace.gpu_budget_bytes, budget, sizeof(budget)),
		       WEIR_POLICY_BUDGET);
	printf("%-8s %10s", "hook", "decisions");
	if (traced)
		printf(" %10s %10s %8s", "answers", "defaults", "wrong");
	printf(" %20s %12s %12s %12s\n", "instructions at most", "on average", "ns at most",
	       "on average");
	for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++) {
		const struct policy_cost *cost = &check->cost[hook];

		if (!policy->has[hook])
			continue;
		printf("%-8s %10" PRIu64, policy_hook_name[hook], cost->nr);
		if (traced)
			printf(" %10" PRIu64 " %10" PRIu64 " %8" PRIu64,
			       policy->stats.answered[hook], nr_defaults(policy, hook),
			       cost->nr_wrong);
		printf(" %20" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n",
		       cost->max_instructions, mean(cost->instructions, cost->nr), cost->max_ns,
		       mean(cost->ns, cost->nr));
	}
}

static json_t *cost_json(const struct weir_policy *policy, const struct check *check, uint32_t hook)
{
	const struct policy_cost *cost = &check->cost[hook];
	json_t *out = json_pack("{sI sI sI sI sI}", "decisions", (json_int_t)cost->nr,
				"max_instructions", (json_int_t)cost->max_instructions,
				"mean_instructions", (json_int_t)mean(cost->instructions, cost->nr),
				"max_ns", (json_int_t)cost->max_ns, "mean_ns",
				(json_int_t)mean(cost->ns, cost->nr));
	json_t *answers = json_pack(
		"{sI sI sI}", "answers", (json_int_t)policy->stats.answered[hook], "defaults",
		(json_int_t)nr_defaults(policy, hook), "wrong", (json_int_t)cost->nr_wrong);

	if (check->trace.trace)
		(void)json_object_update(out, answers);
	json_decref(answers);
	return out;
}

/* Where the contexts are from. */
static json_t *origin_json(const struct check *check)
{
	if (!check->trace.trace)
		return json_pack("{sI}", "seed", (json_int_t)check->trial.seed);
	return json_pack("{ss ss ss sI}", "trace", check->trace.trace, "manager",
			 check->trace.manager, "machine", check->trace.machine_name,
			 "gpu_budget_bytes", (json_int_t)check->trace.gpu_budget_bytes);
}

static int print_json(struct weir_policy *policy, const struct check *check)
{
	json_t *root = policy_json(policy), *costs = json_object(), *origin = origin_json(check);
	int err;

	for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++)
		if (policy->has[hook])
			(void)json_object_set_new(costs, policy_hook_name[hook],
						  cost_json(policy, check, hook));
	err = !root || json_object_update(root, origin) ||
	      json_object_set_new(root, "budget_instructions", json_integer(WEIR_POLICY_BUDGET)) ||
	      json_object_set(root, "costs", costs);
	if (!err) {
		(void)json_dumpf(root, stdout, JSON_INDENT(2));
		(void)putchar('\n');
	}
	json_decref(root);
	json_decref(costs);
	json_decref(origin);
	return err ? command_complain("no memory on the host, or a file name that is not UTF-8")
		   : 0;
}

static int print_help(void)
{
	puts("usage: weir policy check POLICY [--contexts N] [--seed N] [--json]\n"
	     "       weir policy check POLICY --trace FILE [--manager A] [--machine M]\n"
	     "                         [--gpu-budget S] [--json]\n"
	     "\n"
	     "Ask each hook of a policy about contexts that are made up, and show how many\n"
	     "instructions and how much time a decision took; or about what a recorded program\n"
	     "did, replayed on a simulated machine, and show what became of its answers besides.\n"
	     "POLICY is the name of one that is built in, or an object, FILE.o; behind it may\n"
	     "stand :TUNABLE=VALUE,... The instructions of those that are built in are not\n"
	     "counted.\n");
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

/* Options of the other way to check are refused. */
static int take_trace(struct option_value *values, struct policy_trace *trace)
{
	static const int of_trace[] = {MANAGER, MACHINE, GPU_BUDGET}, of_trial[] = {CONTEXTS, SEED};
	char err[POLICY_ERROR_BYTES];
	const struct bench_reader reader = {.defs = check_options,
					    .values = values,
					    .nr = NR_OPTIONS,
					    .err = err,
					    .err_bytes = sizeof(err)};

	*trace = (struct policy_trace){.trace = values[TRACE].text,
				       .manager = values[MANAGER].text,
				       .machine = values[MACHINE].text};
	for (size_t i = 0; i < ARRAY_LEN(of_trace); i++)
		if (!trace->trace && values[of_trace[i]].text)
			return command_complain("--%s is for --trace",
						check_options[of_trace[i]].name);
	for (size_t i = 0; i < ARRAY_LEN(of_trial); i++)
		if (trace->trace && values[of_trial[i]].origin != OPTION_PRESET)
			return command_complain("--%s is for contexts that are made up, not for "
						"those of --trace",
						check_options[of_trial[i]].name);
	if (values[GPU_BUDGET].text && bench_read_budget(&reader, GPU_BUDGET, 0, &trace->budget))
		return command_complain("%s", err);
	return 0;
}

int policy_check(int argc, char **argv)
{
	struct check check = {0};
	struct option_value values[NR_OPTIONS];
	struct weir_policy *policy;
	char err[POLICY_ERROR_BYTES];
	const char *spec;
	int status = 0;

	if (options_want_help(argc, argv))
		return print_help();
	if (policy_parse("check", check_options, NR_OPTIONS, argc, argv, values, &spec, 1) ||
	    take_numbers(values, &check.trial) || take_trace(values, &check.trace))
		return COMMAND_EXIT_BAD;
	if (!spec)
		return command_complain("policy check needs a policy; weir policy list shows those "
					"that are built in");
	if (policy_open_untried(spec, &policy))
		return COMMAND_EXIT_BAD;
	check.cost = check.trace.trace ? policy->cost : check.trial.cost;
	if (check.trace.trace ? policy_trace_run(policy, &check.trace, err, sizeof(err))
			      : policy_trial_run(policy, &check.trial, err, sizeof(err)))
		status = command_complain("%s", err);
	else if (values[JSON].text)
		status = print_json(policy, &check);
	else
		print_text(policy, &check);
	weir_policy_close(policy);
	return command_flushed(status);
}
