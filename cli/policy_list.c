/* SPDX-License-Identifier: Apache-2.0 */
/* `weir policy list`: the policies that are built in, and the objects of a folder. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/policy_internal.h"
#include "src/policy/builtin.h"

enum { JSON, HELP, NR_OPTIONS };

static const struct option_def list_options[NR_OPTIONS] = {
	[JSON] = {"json", NULL, NULL, NULL, "print JSON"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

/* Show one, or add it to the list. 0, or COMMAND_EXIT_BAD after a line. */
static int add(const char *spec, json_t *list)
{
	struct weir_policy *policy;
	char hooks[64];
	int status = 0;

	if (policy_open_untried(spec, &policy))
		return COMMAND_EXIT_BAD;
	if (list) {
		if (json_array_append_new(list, policy_json(policy)))
			status = command_complain("%s: no memory on the host, or text that is not "
						  "UTF-8",
						  spec);
	} else {
		printf("%s (%s)  %s\n", policy->name,
		       policy_hooks_text(policy, hooks, sizeof(hooks)),
		       policy->help ? policy->help : "");
		policy_print_tunables(policy);
	}
	weir_policy_close(policy);
	return status;
}

static int is_object(const struct dirent *entry)
{
	const size_t nr = strlen(entry->d_name);

	return nr > 2 && strcmp(entry->d_name + nr - 2, ".o") == 0;
}

/* Objects that are no policies are said to be none, and the others are listed. */
static int add_folder(const char *folder, json_t *list)
{
	struct dirent **entry;
	int nr = scandir(folder, &entry, is_object, alphasort), status = 0;

	if (nr < 0)
		return command_complain("%s: %s", folder, strerror(errno));
	for (int n = 0; n < nr; n++) {
		char *path = NULL;

		if (asprintf(&path, "%s/%s", folder, entry[n]->d_name) < 0)
			status = command_complain("no memory on the host");
		else if (add(path, list))
			status = COMMAND_EXIT_BAD;
		free(path);
		free(entry[n]);
	}
	free(entry);
	return status;
}

static int print_help(void)
{
	puts("usage: weir policy list [FOLDER] [--json]\n"
	     "\n"
	     "Show the policies that are built in, and those whose objects are in a folder: name,\n"
	     "hooks, what each is for, its tunables and their values.\n");
	options_help(stdout, list_options, NR_OPTIONS);
	return command_flushed(0);
}

int policy_list(int argc, char **argv)
{
	struct option_value values[NR_OPTIONS];
	const char *folder;
	json_t *list = NULL;
	int status = 0;

	if (options_want_help(argc, argv))
		return print_help();
	if (policy_parse("list", list_options, NR_OPTIONS, argc, argv, values, &folder, 1))
		return COMMAND_EXIT_BAD;
	if (values[JSON].text) {
		list = json_array();
		if (!list)
			return command_complain("no memory on the host");
	}
	for (uint32_t n = 0; policy_builtins[n] && !status; n++)
		status = add(policy_builtins[n]->name, list);
	if (folder && !status)
		status = add_folder(folder, list);
	if (list) {
		(void)json_dumpf(list, stdout, JSON_INDENT(2));
		(void)putchar('\n');
		json_decref(list);
	}
	return command_flushed(status);
}
