/* SPDX-License-Identifier: Apache-2.0 */
/* See bench_policy.h. */
#include "cli/bench_policy.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/result_policy.h"
#include "cli/size.h"
#include "cli/table.h"
#include "src/base/util.h"

/* ------------------------------------------------------------------ --policy */

static const char *policy_text(const struct option_value *value, unsigned int i)
{
	return i ? value->more[i - 1] : value->text;
}

static int refuse(const struct bench_reader *r, const char *spec, const char *why)
{
	snprintf(r->err, r->err_bytes, "--policy '%s': %s", spec, why);
	return -EINVAL;
}

/* A policy that there is, and that all managers can have. */
static int check_policy(const struct bench_reader *r, const struct bench_params *p,
			const char *spec)
{
	struct weir_policy *policy;
	char why[BENCH_WHY_BYTES];

	if (weir_policy_open(spec, &policy, why, sizeof(why)))
		return refuse(r, spec, why);
	weir_policy_close(policy);
	for (unsigned int i = 0; i < p->nr_managers; i++) {
		const struct manager_ops *ops = bench_manager_find(p->manager[i]);

		if (!ops->set_policy) {
			snprintf(why, sizeof(why),
				 "%s takes no decisions that a policy could take; choose among "
				 "uvm and weir with --manager",
				 ops->name);
			return refuse(r, spec, why);
		}
		if (p->real_gpu && ops == &manager_uvm)
			return refuse(r, spec,
				      "the driver of a real GPU asks no policy about managed "
				      "memory; leave uvm out of --manager, or choose a simulated "
				      "--machine");
	}
	return 0;
}

/* Each manager with each of nr policies, by name. */
static int name_managers(const struct option_value *value, unsigned int nr, struct bench_params *p)
{
	const unsigned int nr_names = p->nr_managers * nr;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return -ENOMEM;
	for (unsigned int i = 0; i < nr_names; i++)
		fprintf(out, "%s policy=%s%c", p->manager[i / nr], policy_text(value, i % nr), 0);
	if (fclose(out)) {
		free(text);
		return -ENOMEM;
	}
	free(p->manager_text);
	p->manager_text = text;
	p->nr_managers = nr_names;
	for (unsigned int i = 0; i < nr_names; i++) {
		p->manager[i] = text;
		text += strlen(text) + 1;
	}
	return 0;
}

int bench_read_policies(const struct bench_reader *r, struct bench_params *p)
{
	const struct option_value *value = &r->values[BENCH_POLICY];
	const unsigned int nr = 1 + value->nr_more;
	int err = 0;

	if (!value->text)
		return 0;
	for (unsigned int i = 0; i < nr && !err; i++)
		err = check_policy(r, p, policy_text(value, i));
	if (!err && p->nr_managers * nr > BENCH_LIST_MAX)
		err = bench_refuse(r, BENCH_POLICY, "too many with each manager; split the run");
	return err ? err : name_managers(value, nr, p);
}

/* ------------------------------------------------------------------ decisions */

struct bench_decision {
	uint64_t nodes, budget_bytes;
	const char *manager;
	struct manager_policy_stats policy;
	double share; /* of the run's time; NaN: not said */
};

int bench_decisions_add(struct bench_decisions *decisions, const struct result *result)
{
	struct bench_decision *grown;

	if (!result_has_decisions(result))
		return 0;
	grown = realloc(decisions->row, (decisions->nr + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	decisions->row = grown;
	decisions->row[decisions->nr++] = (struct bench_decision){
		.nodes = result->pass ? 0 : result->parameters.nodes,
		.budget_bytes = result->gpu_budget_bytes,
		.manager = result->manager,
		.policy = result->stats.policy,
		.share = result->real_gpu ? result_decision_share(result) : NAN,
	};
	return 0;
}

/* Columns that not every table has. */
struct columns {
	bool nodes, instructions, share;
};

static void add_row(struct table *table, const struct columns *columns,
		    const struct bench_decision *row)
{
	const struct weir_policy_stats *counts = &row->policy.counts;
	char text[256];

	if (columns->nodes)
		(void)table_add(table, "%s", count_format(row->nodes, text, sizeof(text)));
	(void)table_add_size(table, row->budget_bytes);
	(void)table_add(table, "%s", row->manager);
	for (int i = 0; i < 3; i++) {
		if (counts->asked[i])
			(void)table_add(table, "%" PRIu64 "/%" PRIu64, counts->answered[i],
					counts->asked[i]);
		else
			(void)table_add(table, "-");
	}
	(void)table_add(table, "%" PRIu64, counts->asked[3]);
	(void)table_add(table, "%" PRIu64 "%s", counts->nr_wrong,
			counts->detached ? ", detached" : "");
	if (columns->instructions) {
		(void)table_add_double(table, "%.1f", result_decision_instructions(&row->policy));
		(void)table_add(table, "%" PRIu64, counts->max_instructions);
	}
	if (columns->share)
		(void)table_add_double(table, "%.3f", row->share * 100);
	result_globals(&row->policy, text, sizeof(text));
	(void)table_add(table, "%s", text[0] ? text : "-");
}

int bench_decisions_print(const struct bench_decisions *decisions, FILE *out)
{
	struct table_column column[12];
	struct columns columns = {0};
	struct table *table;
	unsigned int nr = 0;
	int err;

	if (!decisions->nr)
		return 0;
	for (unsigned int i = 0; i < decisions->nr; i++) {
		columns.nodes |= decisions->row[i].nodes > 0;
		columns.instructions |= decisions->row[i].policy.counts.nr_instructions > 0;
		columns.share |= isfinite(decisions->row[i].share);
	}
	if (columns.nodes)
		column[nr++] = (struct table_column){"nodes", TABLE_RIGHT};
	column[nr++] = (struct table_column){"GPU budget", TABLE_RIGHT};
	column[nr++] = (struct table_column){"manager", TABLE_LEFT};
	column[nr++] = (struct table_column){"admit", TABLE_RIGHT};
	column[nr++] = (struct table_column){"victim", TABLE_RIGHT};
	column[nr++] = (struct table_column){"fault", TABLE_RIGHT};
	column[nr++] = (struct table_column){"moved", TABLE_RIGHT};
	column[nr++] = (struct table_column){"wrong", TABLE_RIGHT};
	if (columns.instructions) {
		column[nr++] = (struct table_column){"instructions", TABLE_RIGHT};
		column[nr++] = (struct table_column){"at most", TABLE_RIGHT};
	}
	if (columns.share)
		column[nr++] = (struct table_column){"time %", TABLE_RIGHT};
	column[nr++] = (struct table_column){"globals", TABLE_LEFT};
	err = table_create(column, nr, &table);
	if (err)
		return err;
	table_set_keys(table, columns.nodes ? 3 : 2);
	for (unsigned int i = 0; i < decisions->nr; i++)
		add_row(table, &columns, &decisions->row[i]);
	fputs("\nDecisions of policies: answers taken / questions\n\n", out);
	err = table_print(table, out);
	table_destroy(table);
	return err;
}

void bench_decisions_fini(struct bench_decisions *decisions)
{
	free(decisions->row);
	*decisions = (struct bench_decisions){0};
}
