/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies for `weir bench` and `weir replay`: --policy as it is read, and what is printed of what
 * policies decided. In everything else a manager with a policy is one more name in the list of
 * managers (manager_create()).
 */
#ifndef WEIR_CLI_BENCH_POLICY_H
#define WEIR_CLI_BENCH_POLICY_H

#include "cli/bench_reader.h"
#include "cli/result.h"

/* Put each manager with each policy into the place of the managers that were read. As
 * bench_read_managers(). */
int bench_read_policies(const struct bench_reader *r, struct bench_params *p);

/* What policies decided, a row for each run that had one; zeroed at first. */
struct bench_decisions {
	struct bench_decision *row; /* owned */
	unsigned int nr;
};

/* Keep what a result says of its policy, if it had one. Its manager's name is borrowed. -ENOMEM. */
int bench_decisions_add(struct bench_decisions *decisions, const struct result *result);

/* Print a table behind a blank line, or nothing. 0, -ENOMEM or -EIO. */
int bench_decisions_print(const struct bench_decisions *decisions, FILE *out);

void bench_decisions_fini(struct bench_decisions *decisions);

#endif
