/* SPDX-License-Identifier: Apache-2.0 */
/* A policy that is asked about what a recorded program did, on a simulated machine. */
#ifndef WEIR_CLI_POLICY_TRACE_H
#define WEIR_CLI_POLICY_TRACE_H

#include "cli/bench_pass_options.h"
#include "src/policy/policy.h"
#include "workloads/trace_file.h"

struct policy_trace {
	const char *trace;	    /* the file */
	const char *manager;	    /* NULL: one that asks what the policy answers; then set */
	const char *machine;	    /* name or description file; NULL: the trace's; then its name */
	struct bench_budget budget; /* all 0: as it was recorded */
	uint64_t gpu_budget_bytes;  /* written: what the budget came to */
	char machine_name[WEIR_NAME_MAX];
};

/*
 * Replay the trace with the policy, which is set on nothing: its counts and costs are what its
 * decisions took. @return 0; a negative errno, with one line: no such trace, manager or machine, it
 * cannot be replayed so, or the policy was detached.
 */
int policy_trace_run(struct weir_policy *policy, struct policy_trace *t, char *err,
		     size_t err_bytes);

#endif
