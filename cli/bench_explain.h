/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --explain of all commands that run workloads: what managers planned and what happened, as text
 * below the tables. The same numbers are in the results (result_explain.h).
 */
#ifndef WEIR_CLI_BENCH_EXPLAIN_H
#define WEIR_CLI_BENCH_EXPLAIN_H

#include <stdio.h>

#include "cli/bench_options.h"
#include "cli/result.h"

#define BENCH_EXPLAIN_NO_MEMORY "no memory to explain the run"

/* Zeroed: nobody asks. */
struct bench_explain {
	FILE *stream;
	char *text;
	size_t bytes;
	unsigned int nr_results; /* rows of the table so far */
};

/* If it is asked for. -ENOMEM, with one line. bench_explain_fini() it, also a zeroed one. */
int bench_explain_open(struct bench_explain *explain, const struct bench_params *params, char *err,
		       size_t err_bytes);
void bench_explain_fini(struct bench_explain *explain);

/* A result is there, for the next row of the table. */
void bench_explain_add(struct bench_explain *explain, const struct result *result);

/* Write all that was added. 0, -ENOMEM; errors of writing stay in the stream. */
int bench_explain_print(struct bench_explain *explain, FILE *out);

#endif
