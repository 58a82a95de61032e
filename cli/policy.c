/* SPDX-License-Identifier: Apache-2.0 */
/* `weir policy`: finds the command below it, and what those share. */
#include "cli/policy.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/policy_internal.h"
#include "src/base/util.h"

static const struct command {
	const char *name, *help;
	int (*main)(int argc, char **argv);
} commands[] = {
	{"check", "ask a policy about contexts that are made up, and show what that takes",
	 policy_check},
	{"list", "show the policies that are built in, and those of a folder", policy_list},
};

#define NR_COMMANDS ARRAY_LEN(commands)

int policy_complain(const char *format, ...)
{
	va_list args;

	fputs("weir: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return POLICY_EXIT_BAD;
}

int policy_flushed(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	return status ? status : policy_complain("standard output cannot be written");
}

int policy_parse(const char *command, const struct option_def *options, unsigned int nr_options,
		 int argc, char **argv, struct option_value *values, const char **operands,
		 int max_operands)
{
	const char **given = calloc((size_t)argc + 1, sizeof(*given));
	char err[POLICY_ERROR_BYTES];
	int nr, rc;

	if (!given)
		return policy_complain("no memory on the host");
	rc = options_parse_operands(options, nr_options, argc, argv, values, given, &nr, err,
				    sizeof(err));
	if (!rc && nr > max_operands) {
		(void)snprintf(err, sizeof(err),
			       "policy %s takes one name, %d are given; weir policy %s --help",
			       command, nr, command);
		rc = POLICY_EXIT_BAD;
	}
	for (int i = 0; !rc && i < max_operands; i++)
		operands[i] = i < nr ? given[i] : NULL;
	free(given);
	return rc ? policy_complain("%s", err) : 0;
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
		return policy_complain("no memory on the host");
	rc = weir_policy_open(is_object ? untried : spec, out, err, sizeof(err));
	free(untried);
	return rc ? policy_complain("%s", err) : 0;
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

static int usage(void)
{
	puts("usage: weir policy COMMAND [options]\n\n"
	     "Policies: programs that take decisions about residency, see docs/policies.md.\n\n"
	     "commands:");
	for (size_t i = 0; i < NR_COMMANDS; i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].help);
	puts("\n  --help   show this text; also after a command");
	return policy_flushed(0);
}

int policy_main(int argc, char **argv)
{
	const char *names[NR_COMMANDS + 1] = {0}, *near;

	if (argc < 2)
		return policy_complain("policy needs a command; weir policy --help lists them");
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].main(argc - 2, argv + 2);
		names[i] = commands[i].name;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return usage();
	near = options_nearest(argv[1], names);
	if (near)
		return policy_complain("policy has no command '%.40s'; did you mean %s?", argv[1],
				       near);
	return policy_complain("policy has no command '%.40s'; weir policy --help lists them",
			       argv[1]);
}
