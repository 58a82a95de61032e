/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_guessed is asked to do. */
#ifndef WEIR_BENCH_GUESSED_OPTIONS_H
#define WEIR_BENCH_GUESSED_OPTIONS_H

#include <stdbool.h>

#include "weir/weir.h"

#define GUESSED_EPOCHS_MIN 4u

struct guessed_options {
	const char *trace; /* a file */
	struct weir_machine_desc machine;
	uint64_t gpu_budget, seed;
	uint32_t nr_epochs;
	bool safe, windows;
	double odd; /* share of launches */
};

/* @return 0, or -EINVAL, -ENOMEM or what weir_machine_file_read() says, with one line in why. */
int guessed_options_parse(int argc, char **argv, struct guessed_options *out, char *why,
			  size_t why_bytes);

void guessed_help(void);

#endif
