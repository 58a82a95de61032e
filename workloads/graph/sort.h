/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting words where they are, so that a memory limit means what it says; qsort() may copy. */
#ifndef WEIR_GRAPH_SORT_H
#define WEIR_GRAPH_SORT_H

#include <stdint.h>

/* Ascending. Takes no memory, and time in proportion to nr whatever the words are. */
void sort_words(uint64_t *word, uint64_t nr);

#endif
