/* SPDX-License-Identifier: Apache-2.0 */
/* The options of bench_training, read and checked before anything runs. */
#ifndef WEIR_BENCH_TRAINING_OPTIONS_H
#define WEIR_BENCH_TRAINING_OPTIONS_H

#include "bench/training/busy.h"
#include "cli/bench_options.h"

#define TRAINING_PAIRS_MAX 10000u
#define TRAINING_PRIORITIES_MAX 16u
#define TRAINING_SAMPLES_MAX 100000u
#define TRAINING_BUDGET_STEP (1u << 30) /* bytes that --what budget takes and gives */

/* How a sample of the budget came out; see budget.c. */
enum budget_class {
	BUDGET_FREE,
	BUDGET_CLEAN,
	BUDGET_WAITED,
	BUDGET_DIRTY,
	BUDGET_USED,
	BUDGET_SHORT,
	BUDGET_CLASS_NR
};

struct training_options {
	struct bench_params params; /* of the training: one size, one manager of weir's */
	/* What is switched, one of three. Texts are of argv. */
	const char *trace;	 /* the file; NULL: no trace */
	uint32_t busy;		 /* threads for each processor; 0: none */
	const char *memory_name; /* whose budget changes; NULL: no budget does */
	uint32_t memory;	 /* the same as an index */
	uint32_t samples;	 /* of the budget, in all; with each, at most */
	uint32_t each;		 /* samples of each class of `classes`; 0: pairs of epochs */
	uint32_t classes;	 /* a bit for each enum budget_class */
	uint32_t limit_s;	 /* with each: of this computer's time, from the warm-up on */
	struct priority priority[TRAINING_PRIORITIES_MAX];
	uint32_t nr_priorities; /* 1, "none", but with busy threads */
	uint32_t pairs, epochs_each, warm_up;
};

/*
 * Read them (argv[0] is the first option), after priority_init().
 * @return 0 (bench_params_fini() its params), or a negative errno: err has one line, culprit and
 *         remedy.
 */
int training_options_parse(int argc, char **argv, struct training_options *out, char *err,
			   size_t err_bytes);

void training_help(void);

#endif
