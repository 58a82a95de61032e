/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `weir bench mvt`, `atax` and `bicg` are asked to do. As in bench_options.h: whatever can be
 * known to be wrong before anything runs is refused here.
 */
#ifndef WEIR_CLI_BENCH_MATRIX_OPTIONS_H
#define WEIR_CLI_BENCH_MATRIX_OPTIONS_H

#include "cli/bench_pass_options.h"
#include "workloads/matrix/matrix.h"

struct bench_matrix_size {
	uint32_t rows, columns;
};

/* Each size, page and budget is run under each manager. */
struct bench_matrix_params {
	struct bench_pass_params pass;
	enum matrix_kind kind;
	struct bench_matrix_size size[BENCH_LIST_MAX];
	unsigned int nr_sizes;
};

/* As bench_params_parse(). */
int bench_matrix_parse(enum matrix_kind kind, int argc, char **argv,
		       struct bench_matrix_params *out, char *err, size_t err_bytes);
void bench_matrix_params_fini(struct bench_matrix_params *params);

/* One case's parameters, but for progress. */
struct matrix_params bench_matrix_case(const struct bench_matrix_params *params,
				       const struct bench_matrix_size *size, uint64_t page_bytes);

void bench_matrix_help(enum matrix_kind kind, FILE *out);

#endif
