/* SPDX-License-Identifier: Apache-2.0 */
/* `weir policy`: finds the command below it, and what those share. */
#include "cli/policy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/policy_internal.h"
#include "src/base/util.h"

int policy_parse(const char *command, const struct option_def *options, unsigned int nr_options,
		 int argc, char **argv, struct option_value *values, const char **operands,
		 int max_operands)
{
	const char **given = calloc((size_t)argc + 1, sizeof(*given));
	char err[POLICY_ERROR_BYTES];
	int nr, rc;

	if (!given)
		return command_complain("no memory on the host");
	rc = options_parse_operands(options, nr_options, argc, argv, values, given, &nr, err,
				    sizeof(err));
	if (!rc && nr > max_operands) {
		(void)snprintf(err, sizeof(err),
			       "policy %s takes one name, %d are given; weir policy %s --help",
			       command, nr, command);
		rc = COMMAND_EXIT_BAD;
	}
	for (int i = 0; !rc && i < max_operands; i++)
		operands[i] = i < nr ? given[i] : NULL;
	free(given);
	return rc ? command_complain("%s", err) : 0;
}

/* ------------------------------------------------------------------ of a policy */

int policy_open_untried(const char *spec, struct weir_policy **out)
{
	const char *slash = strrchr(spec, '/'), *colon = strchr(slash ? slash : spec, ':');
	char err[POLICY_ERROR_BYTES], *untried = NULL;
	size_t nr = colon ? (size_t)(colon - spec) : strlen(spec);
	const bool is_object = slash || (nr > 2 && !strncmp(spec + nr - 2, ".o", 2));
	int rc;

	/* Those that are built in are never tried. */
	if (is_object && asprintf(&untried, "%s%strial=0", spec, !colon ? ":" : ",") < 0)
		return command_complain("no memory on the host");
	rc = weir_policy_open(is_object ? untried : spec, out, err, sizeof(err));
	free(untried);
	return rc ? command_complain("%s", err) : 0;
}

const char *policy_hooks_text(const struct weir_policy *policy, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++)
		if (policy->has[hook] && at < bytes)
			at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? " " : "",
					       policy_hook_name[hook]);
	return text;
}

void policy_print_tunables(struct weir_policy *policy)
{
	struct weir_policy_global global;

	for (uint32_t n = 0; weir_policy_global_nth(policy, n, &global); n++) {
		if (!global.tunable)
			continue;
		if (global.is_signed)
			printf("    %s=%" PRId64, global.name, (int64_t)global.value);
		else
			printf("    %s=%" PRIu64, global.name, global.value);
		printf("%s%s\n", global.help ? "  " : "", global.help ? global.help : "");
	}
}

json_t *policy_json(struct weir_policy *policy)
{
	json_t *hooks = json_array(), *tunables = json_array();
	struct weir_policy_global global;

	for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++)
		if (policy->has[hook])
			(void)json_array_append_new(hooks, json_string(policy_hook_name[hook]));
	for (uint32_t n = 0; weir_policy_global_nth(policy, n, &global); n++)
		if (global.tunable)
			(void)json_array_append_new(
				tunables, json_pack("{ss sI ss*}", "name", global.name, "value",
						    (json_int_t)global.value, "help", global.help));
	return json_pack("{ss ss* so so}", "policy", policy->name, "help", policy->help, "hooks",
			 hooks, "tunables", tunables);
}

/* ------------------------------------------------------------------ the command */

int policy_main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"check",
		 "ask a policy about contexts that are made up, or a trace's, and show what "
		 "that takes",
		 policy_check},
		{"list", "show the policies that are built in, and those of a folder", policy_list},
	};
	static const struct command_family family = {
		"policy",
		"Policies: programs that take decisions about residency, see docs/policies.md.",
		commands, ARRAY_LEN(commands)};

	return commands_main(&family, argc, argv);
}
