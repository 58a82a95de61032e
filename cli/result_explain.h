/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_RESULT_EXPLAIN_H
#define WEIR_CLI_RESULT_EXPLAIN_H

#include <stdio.h>

struct explain;

/* Write the member "explain" of a result, behind a comma. NULL: the manager planned nothing. Errors
 * stay in the stream. */
void result_explain_write(FILE *out, const struct explain *explain);

#endif
