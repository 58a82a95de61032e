/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands below `weir policy` share. */
#ifndef WEIR_CLI_POLICY_INTERNAL_H
#define WEIR_CLI_POLICY_INTERNAL_H

#include <jansson.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "src/policy/policy.h"

#define POLICY_ERROR_BYTES 1024

/* Each is given what follows its name, and returns the program's exit status. */
int policy_list(int argc, char **argv);
int policy_check(int argc, char **argv);

/* Parse a command line with at most so many operands; the others are NULL. On error one line was
 * printed. */
int policy_parse(const char *command, const struct option_def *options, unsigned int nr_options,
		 int argc, char **argv, struct option_value *values, const char **operands,
		 int max_operands);

/* Open a policy as it is, untried. On error one line was printed. */
int policy_open_untried(const char *spec, struct weir_policy **out);

/* The names of its hooks, with blanks between. */
const char *policy_hooks_text(const struct weir_policy *policy, char *text, size_t bytes);

/* Print its tunables, a line each. */
void policy_print_tunables(struct weir_policy *policy);

/* {policy, help, hooks, tunables}; NULL: no memory. */
json_t *policy_json(struct weir_policy *policy);

#endif
