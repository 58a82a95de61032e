/* SPDX-License-Identifier: Apache-2.0 */
/* See policy_trace.h. As `weir replay` replays a trace, but for reports and results. */
#include "cli/policy_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/first_logged.h"
#include "cli/size.h"
#include "managers/manager.h"
#include "src/backend/machine.h"
#include "src/base/util.h"
#include "src/cost/cost.h"
#include "workloads/replay.h"

struct replayed {
	struct trace_file file;
	struct replay_plan plan;
	struct weir_machine_desc machine;
	uint32_t device;
	uint64_t gpu_bytes, host_bytes;
};

/* ------------------------------------------------------------------ what is replayed */

static int find_manager(struct policy_trace *t, const struct weir_policy *policy, char *err,
			size_t err_bytes)
{
	const struct manager_ops *ops;

	/* Spaces alone ask who is admitted; the simulated driver asks at faults and evictions. */
	if (!t->manager)
		t->manager = policy->has[POLICY_ADMIT] ? "weir" : "uvm";
	ops = manager_find(t->manager);
	if (ops && ops->set_policy && !manager_policy(t->manager))
		return 0;
	snprintf(err, err_bytes,
		 "--manager '%s': takes no decisions that a policy could take; choose among uvm "
		 "and weir",
		 t->manager);
	return -EINVAL;
}

static int open_trace(struct replayed *r, const struct policy_trace *t, char *err, size_t err_bytes)
{
	char why[128];
	int rc = trace_file_open(t->trace, &r->file, err, err_bytes);

	if (rc)
		return rc;
	rc = replay_check(&r->file, &r->plan, why, sizeof(why));
	if (!rc && r->plan.nr_devices > 1) {
		snprintf(why, sizeof(why), "it has brackets of %u devices",
			 (unsigned int)r->plan.nr_devices);
		rc = -ENOTSUP;
	}
	if (rc)
		snprintf(err, err_bytes, "%s cannot be replayed: %s", t->trace, why);
	return rc;
}

static int choose_machine(struct replayed *r, struct policy_trace *t, char *err, size_t err_bytes)
{
	int rc;

	r->machine = r->file.machine;
	r->device = r->plan.device;
	if (t->machine) {
		rc = machine_file_load(t->machine, &r->machine, err, err_bytes);
		if (rc)
			return rc;
		r->device = 0;
	}
	replay_kernels(&r->file, &r->machine);
	(void)snprintf(t->machine_name, sizeof(t->machine_name), "%s", r->machine.name);
	return 0;
}

static int choose_budgets(struct replayed *r, struct policy_trace *t, char *err, size_t err_bytes)
{
	const struct weir_machine_desc *recorded = &r->file.machine;
	uint64_t all = r->machine.memory[r->machine.device[r->device].memory].bytes;
	uint64_t host = r->machine.memory[cost_host_memory(&r->machine)].bytes;
	char text[SIZE_TEXT_BYTES], all_text[SIZE_TEXT_BYTES];

	r->host_bytes = replay_budget(&r->file, cost_host_memory(recorded));
	r->host_bytes = r->host_bytes ? MIN(r->host_bytes, host) : host;
	r->gpu_bytes = t->budget.bytes || t->budget.fraction > 0
			       ? bench_pass_budget(&t->budget, r->plan.needs_bytes, 1)
			       : replay_budget(&r->file, recorded->device[r->plan.device].memory);
	t->gpu_budget_bytes = r->gpu_bytes;
	if (r->gpu_bytes && r->gpu_bytes <= all)
		return 0;
	snprintf(err, err_bytes,
		 "--gpu-budget: %s of a memory of %s: choose more than nothing, and no more than "
		 "that",
		 size_format(r->gpu_bytes, text, sizeof(text)),
		 size_format(all, all_text, sizeof(all_text)));
	return -EINVAL;
}

/* ------------------------------------------------------------------ replaying it */

/* With a manager whose policy it is meanwhile. */
static int replay_with(struct manager *m, struct weir_policy *policy, const struct replayed *r,
		       char *err, size_t err_bytes)
{
	double *epoch_s = calloc(r->plan.nr_epochs + 1, sizeof(*epoch_s));
	const struct replay_params params = {.file = &r->file,
					     .plan = &r->plan,
					     .think = true,
					     .advice = true,
					     .gpu_budget_bytes = r->gpu_bytes,
					     .host_budget_bytes = r->host_bytes};
	int rc = epoch_s ? m->ops->set_policy(m, policy) : -ENOMEM;

	if (rc) {
		(void)snprintf(err, err_bytes, "the policy cannot be set: %s", weir_strerror(rc));
	} else {
		m->policy = policy;
		rc = replay_run(m, &params, epoch_s, err, err_bytes);
		m->policy = NULL;
		(void)m->ops->set_policy(m, NULL);
	}
	free(epoch_s);
	return rc;
}

static int replay(struct weir_policy *policy, const struct policy_trace *t,
		  const struct replayed *r, char *err, size_t err_bytes)
{
	struct manager_config config = {.device = r->device,
					.gpu_budget_bytes = r->gpu_bytes,
					.host_budget_bytes = r->host_bytes,
					.block_bytes = r->file.space->block_bytes,
					.options = ""};
	struct weir_machine *machine;
	struct manager *m;
	int rc = weir_machine_simulate(&r->machine, WEIR_DATA_PHANTOM, &machine);

	if (rc) {
		(void)snprintf(err, err_bytes, "the machine cannot be simulated: %s",
			       weir_strerror(rc));
		return rc;
	}
	config.machine = machine;
	rc = manager_create(t->manager, &config, &m);
	if (rc) {
		(void)snprintf(err, err_bytes, "the manager cannot be created: %s",
			       weir_strerror(rc));
	} else {
		rc = replay_with(m, policy, r, err, err_bytes);
		m->ops->destroy(m);
	}
	weir_machine_close(machine);
	return rc;
}

int policy_trace_run(struct weir_policy *policy, struct policy_trace *t, char *err,
		     size_t err_bytes)
{
	struct replayed *r = calloc(1, sizeof(*r));
	struct first_logged logged = {0};
	int rc = r ? find_manager(t, policy, err, err_bytes) : -ENOMEM;

	if (!r)
		(void)snprintf(err, err_bytes, "no memory on the host");
	if (!rc)
		rc = open_trace(r, t, err, err_bytes);
	if (!rc)
		rc = choose_machine(r, t, err, err_bytes);
	if (!rc)
		rc = choose_budgets(r, t, err, err_bytes);
	if (!rc) {
		weir_log_set(first_logged_keep, &logged);
		rc = replay(policy, t, r, err, err_bytes);
		weir_log_set(NULL, NULL);
	}
	if (!rc && policy->stats.detached) {
		(void)snprintf(err, err_bytes, "%s (in the replay of %s)", logged.warning,
			       t->trace);
		rc = -EINVAL;
	}
	if (r)
		trace_file_close(&r->file);
	free(r);
	return rc;
}
