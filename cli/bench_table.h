/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmark's results for people. */
#ifndef WEIR_CLI_BENCH_TABLE_H
#define WEIR_CLI_BENCH_TABLE_H

#include "cli/result.h"

/* What the table shows of a result, kept until the end. */
struct bench_row {
	uint64_t nodes, gpu_budget_bytes;
	const char *manager; /* borrowed */
	enum result_status status;
	enum result_check check;
	double epoch_median_s, in_memory_s, bound_s;
	double last_loss, test_accuracy;
	struct result traffic; /* its machine, device, near_bytes and stats alone */
	bool has_oracle;
	struct result_oracle oracle;
};

/* 0, -ENOMEM or -EIO. verbose: bytes by cause too. Rows that have one are compared with the
 * oracle. */
int bench_table_print(FILE *out, const struct bench_row *rows, unsigned int nr, bool verbose);

#endif
