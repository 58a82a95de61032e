/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of sentences that several writers of a report use. */
#ifndef WEIR_CLI_REPORT_WORDS_H
#define WEIR_CLI_REPORT_WORDS_H

#include <stdio.h>

#include "cli/report_sets.h"

/* "12M nodes (1.61 times the GPU's memory)". */
void words_case(FILE *out, const struct report_set *set, const struct report_case *c);

/* "native, malloc and weir": of nr indexes of managers. */
void words_managers(FILE *out, const struct report_sets *sets, const size_t *manager, size_t nr);

/* "size" or "budget": what the cases of a set differ in. */
const char *words_kind(const struct report_set *set);

/* Up to which case managers get through, the first in which they do not and why, and which were not
 * run beyond. */
void words_ends(FILE *out, const struct report_sets *sets, const struct report_set *set);

/* "Out of memory: native and malloc. Not run at this size: uvm. ": who has no time in a case. */
void words_absent(FILE *out, const struct report_sets *sets, const struct report_set *set,
		  const struct report_case *c);

#endif
