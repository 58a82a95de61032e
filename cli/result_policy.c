/* SPDX-License-Identifier: Apache-2.0 */
/* See result_policy.h. */
#include "cli/result_policy.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "src/base/util.h"

/* In the order of their counts. */
static const char *const hooks[] = {"admit", "victim", "fault", "moved"};

#define HOOK_MOVED 3u

uint64_t result_decisions(const struct manager_policy_stats *policy)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < ARRAY_LEN(hooks); i++)
		nr += policy->counts.asked[i];
	return nr;
}

double result_decision_instructions(const struct manager_policy_stats *policy)
{
	if (!policy->counts.nr_instructions)
		return NAN;
	return (double)policy->counts.nr_instructions / (double)result_decisions(policy);
}

double result_decision_share(const struct result *result)
{
	double s = (double)result->stats.policy.counts.ns / 1e9;

	return result->run_s > 0 ? s / result->run_s : NAN;
}

static int put_value(char *text, size_t bytes, const struct weir_policy_global *global)
{
	if (global->is_signed)
		return snprintf(text, bytes, "%" PRId64, (int64_t)global->value);
	return snprintf(text, bytes, "%" PRIu64, global->value);
}

void result_globals(const struct manager_policy_stats *policy, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < policy->nr_globals && used < bytes; i++) {
		char value[24];

		(void)put_value(value, sizeof(value), &policy->global[i].is);
		used += (size_t)snprintf(text + used, bytes - used, "%s%s=%s", i ? " " : "",
					 policy->global[i].name, value);
	}
}

static void write_hooks(FILE *out, const struct weir_policy_stats *counts)
{
	for (size_t i = 0; i < ARRAY_LEN(hooks); i++) {
		fprintf(out, "%s\"%s\":{\"asked\":%" PRIu64, i ? "," : "", hooks[i],
			counts->asked[i]);
		if (i != HOOK_MOVED)
			fprintf(out, ",\"answered\":%" PRIu64, counts->answered[i]);
		fputc('}', out);
	}
}

void result_decisions_write(FILE *out, const struct result *result)
{
	const struct manager_policy_stats *policy = &result->stats.policy;
	const struct weir_policy_stats *counts = &policy->counts;
	char value[24];

	if (!result_has_decisions(result))
		return;
	fputs(",\"decisions\":{", out);
	write_hooks(out, counts);
	fprintf(out, ",\"wrong\":%" PRIu64 ",\"detached\":%s,\"instructions\":", counts->nr_wrong,
		counts->detached ? "true" : "false");
	result_write_double(out, result_decision_instructions(policy));
	fprintf(out, ",\"max_instructions\":%" PRIu64 ",\"globals\":{", counts->max_instructions);
	for (uint32_t i = 0; i < policy->nr_globals; i++) {
		(void)put_value(value, sizeof(value), &policy->global[i].is);
		fprintf(out, "%s\"%s\":%s", i ? "," : "", policy->global[i].name, value);
	}
	fputc('}', out);
	/* A simulated run says nothing that depends on a clock. */
	if (result->real_gpu) {
		fputs(",\"s\":", out);
		result_write_double(out, (double)counts->ns / 1e9);
		fputs(",\"share\":", out);
		result_write_double(out, result_decision_share(result));
	}
	fputc('}', out);
}
