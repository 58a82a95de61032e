/* SPDX-License-Identifier: Apache-2.0 */
/* See bench_explain.h. */
#include "cli/bench_explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/size.h"
#include "src/residency/explain.h"

int bench_explain_open(struct bench_explain *explain, const struct bench_params *params, char *err,
		       size_t err_bytes)
{
	*explain = (struct bench_explain){0};
	if (!params->explain)
		return 0;
	explain->stream = open_memstream(&explain->text, &explain->bytes);
	if (explain->stream)
		return 0;
	snprintf(err, err_bytes, "not enough memory on this computer");
	return -ENOMEM;
}

void bench_explain_fini(struct bench_explain *explain)
{
	if (explain->stream)
		(void)fclose(explain->stream);
	free(explain->text);
	*explain = (struct bench_explain){0};
}

void bench_explain_add(struct bench_explain *explain, const struct result *result)
{
	char budget[SIZE_TEXT_BYTES];

	explain->nr_results++;
	if (!explain->stream || !result->explain)
		return;
	fprintf(explain->stream, "\nrow %u, %s", explain->nr_results, result->manager);
	if (!result->pass)
		fprintf(explain->stream, ", %" PRIu64 " nodes", result->parameters.nodes);
	fprintf(explain->stream, ", GPU budget %s\n",
		size_format(result->gpu_budget_bytes, budget, sizeof(budget)));
	(void)explain_print(result->explain, explain->stream);
}

int bench_explain_print(struct bench_explain *explain, FILE *out)
{
	if (!explain->stream)
		return 0;
	if (fflush(explain->stream) || ferror(explain->stream))
		return -ENOMEM;
	fputs(explain->text, out);
	return 0;
}
