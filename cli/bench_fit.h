/* SPDX-License-Identifier: Apache-2.0 */
/* Factors of kernels (struct weir_kernel_rate), found from launches that were timed. */
#ifndef WEIR_CLI_BENCH_FIT_H
#define WEIR_CLI_BENCH_FIT_H

#include <stdio.h>

#include "machine/machine_file.h"
#include "workloads/trace.h"

/*
 * Write a description with the kernels of a trace in place of its own.
 *
 * A kernel's factor is the sum of its launches' measured times (compute_ns) over the sum of what
 * the device's rates make of them. Launches that these take for the least time of a kernel say
 * nothing, and are left out; so is a kernel that has no others.
 *
 * machine: the description; its kernels are changed.
 * source:  of the factors, one line.
 * @return 0; -ENOMEM; -E2BIG: more kernels than a description has room for; -EINVAL: one whose name
 *         does not fit. Errors of out stay in it.
 */
int bench_fit_write(FILE *out, struct machine_file *machine, uint32_t device,
		    const struct trace *trace, const char *source) WEIR_MUST_CHECK;

#endif
