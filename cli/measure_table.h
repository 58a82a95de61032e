/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, as a table for people. */
#ifndef WEIR_CLI_MEASURE_TABLE_H
#define WEIR_CLI_MEASURE_TABLE_H

#include <stdio.h>

#include "workloads/probe/probe.h"

/* The names of links, where there are several; then medians with the least and the most of the
 * repetitions, beside the estimates. 0, -ENOMEM, or -EIO: the stream has an error. */
int measure_table_print(FILE *out, const struct probe_result *result);

#endif
