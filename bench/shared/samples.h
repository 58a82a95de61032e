/* SPDX-License-Identifier: Apache-2.0 */
/* Many samples of one time, and how they are printed. */
#ifndef WEIR_BENCH_SHARED_SAMPLES_H
#define WEIR_BENCH_SHARED_SAMPLES_H

#include <stdint.h>

/* Sort them. */
void samples_sort(uint64_t *ns, uint32_t nr);

/* Print ,"NAME":{"median":...,"p95":...,"max":...} of nr samples, which it sorts; null: of none. */
void samples_print(const char *name, uint64_t *ns, uint32_t nr);

#endif
