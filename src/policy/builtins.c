/* SPDX-License-Identifier: Apache-2.0 */
/* The policies that are compiled in, each of which is a file of policies/. */
#include "src/policy/builtin.h"

extern const struct policy_builtin policy_lru, policy_second_use, policy_tree, policy_whole;

const struct policy_builtin *const policy_builtins[] = {
	&policy_lru,
	&policy_second_use,
	&policy_tree,
	&policy_whole,
	NULL,
};
