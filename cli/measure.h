/* SPDX-License-Identifier: Apache-2.0 */
/* `weir info --measure`: measure a machine and write its description. */
#ifndef WEIR_CLI_MEASURE_H
#define WEIR_CLI_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

/* What is asked for. Texts are borrowed. */
struct measure_params {
	const char *machine; /* MACHINE_CUDA, or whose simulation is measured: a name or a path */
	const char *output;  /* a file's name, or "-": standard output */
	uint32_t device;     /* or PROBE_ALL_DEVICES */
	bool quick;
};

/**
 * Measure, write the description, print a table of what was measured beside the estimates: to
 * standard output, unless the description goes there; then to standard error.
 *
 * @return the program's exit status: 0; 2 after one line on standard error; 128 + n when stopped by
 *         signal n, with nothing written.
 */
int measure_run(const struct measure_params *params);

#endif
