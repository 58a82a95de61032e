/* SPDX-License-Identifier: Apache-2.0 */
/* A policy's decisions in a result. */
#ifndef WEIR_CLI_RESULT_POLICY_H
#define WEIR_CLI_RESULT_POLICY_H

#include "cli/result.h"

/* Whether the run had a policy, and came as far as to let it decide. */
static inline bool result_has_decisions(const struct result *result)
{
	return result->stats.policy.set;
}

/* Decisions of all kinds that it was asked for; of an object, instructions of each on average. */
uint64_t result_decisions(const struct manager_policy_stats *policy);
double result_decision_instructions(const struct manager_policy_stats *policy);

/* Which part of the run's time went into them, its contexts included; NaN: not known. */
double result_decision_share(const struct result *result);

/* "k=2 seen=17"; empty: it has none. A value that is negative has its sign. */
void result_globals(const struct manager_policy_stats *policy, char *text, size_t bytes);

/* Write the member "decisions" behind a comma, or nothing. */
void result_decisions_write(FILE *out, const struct result *result);

#endif
