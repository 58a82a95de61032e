/* SPDX-License-Identifier: Apache-2.0 */
/* The table of `weir bench jacobi`, `diffusion`, `als` and, on several devices, `pagerank` and
 * `sssp`. */
#ifndef WEIR_CLI_BENCH_SOLVER_TABLE_H
#define WEIR_CLI_BENCH_SOLVER_TABLE_H

#include <stdio.h>

#include "cli/bench_options.h"
#include "cli/result.h"
#include "workloads/solver/manager.h"
#include "workloads/solver/solver.h"

struct bench_solver_row {
	struct solver_params params; /* its graph may be gone */
	uint32_t scale;		     /* of the graph; or 0 */
	const struct solver_manager_ops *ops;
	uint64_t budget_bytes; /* of the device that has the most; 0: all of its memory */
	enum result_status status;
	enum result_check check;
	double iteration_s, bound_s; /* of an iteration */
	double bytes_per_s, speed_up;
	uint64_t moved_bytes[WEIR_CAUSE_NR]; /* between devices, by cause */
	uint64_t block_bytes;		     /* of blocks among them */
	/* The messages among them, by how they were sent. */
	uint64_t nr_sent[WEIR_REPLICA_MECHANISM_NR], sent_bytes[WEIR_REPLICA_MECHANISM_NR];
};

/* What is computed, in a few characters. scale: as of a row. */
#define BENCH_SOLVER_FIELD_BYTES 40
void bench_solver_field(const struct solver_params *params, uint32_t scale, char *text,
			size_t bytes);

/* base: whether on a real GPU, and verbose: messages by mechanism too. 0, -ENOMEM or -EIO. */
int bench_solver_table_print(FILE *out, const struct bench_solver_row *rows, unsigned int nr,
			     const struct bench_params *base);

#endif
