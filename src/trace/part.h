/* SPDX-License-Identifier: Apache-2.0 */
/* A machine's description as events of a trace: one table for those who write and who read it. */
#ifndef WEIR_TRACE_PART_H
#define WEIR_TRACE_PART_H

#include <stdbool.h>

#include "src/trace/format.h"
#include "weir/weir.h"

#define TRACE_PART_WORDS_MAX 24u

/* How many of a part a description has. */
uint32_t trace_part_count(const struct weir_machine_desc *desc, enum trace_part part);

/* Words of one of a part. */
uint32_t trace_part_words(enum trace_part part);

/* One part as its words, and back. In the part that is the machine are the numbers of the others,
 * so that it comes first. @return false: no such part, or one that has no place there. */
void trace_part_write(const struct weir_machine_desc *desc, enum trace_part part, uint32_t index,
		      uint64_t *word);
bool trace_part_read(struct weir_machine_desc *desc, enum trace_part part, uint32_t index,
		     const uint64_t *word);

#endif
