/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans that come from outside (docs/best-plan.md): --plan-input writes what weir plans a run from,
 * --plan has it follow levels that were found elsewhere. For one run of the manager weir.
 */
#ifndef WEIR_CLI_BENCH_PLAN_H
#define WEIR_CLI_BENCH_PLAN_H

#include "cli/bench_options.h"
#include "src/residency/plan.h"

#define BENCH_PLAN_WRONG_BYTES 256

/* Plans of a run; zeroed: as ever. */
struct bench_plan {
	struct plan_maker maker;
	const char *name; /* of the file with levels; NULL: they are searched for */
	struct plan_given given;
	uint32_t *level;	/* of given; owned */
	uint32_t nr_made;	/* plans that the levels fitted */
	const char *input_name; /* of the file for what plans are made from; NULL: none */
	char *input;		/* the newest plan's, as JSON; owned; NULL: there is none */
	size_t input_bytes;
	char wrong[BENCH_PLAN_WRONG_BYTES]; /* why a given plan was not followed, or is empty */
};

/* Read the levels, if any are given. 0 (bench_plan_fini() it), or a negative errno: err has a line.
 */
int bench_plan_init(const struct bench_params *p, struct bench_plan *plan, char *err,
		    size_t err_bytes);
void bench_plan_fini(struct bench_plan *plan);

/* Who makes the manager's plans; NULL: the manager. */
const struct plan_maker *bench_plan_maker(const struct bench_plan *plan);

/* After the run: why what was asked for did not come about; NULL: it did. */
const char *bench_plan_wrong(struct bench_plan *plan);

/* Write the input into its file, if there is one. 0, or a negative errno and a line. */
int bench_plan_write(const struct bench_plan *plan, char *err, size_t err_bytes);

#endif
