/* SPDX-License-Identifier: Apache-2.0 */
/* What giving memory back takes at the least: the machine's calls for it, alone. */
#ifndef WEIR_BENCH_SHARED_CALLS_H
#define WEIR_BENCH_SHARED_CALLS_H

#include <stdint.h>

#include "weir/weir.h"

struct calls {
	uint32_t device; /* that the blocks are mapped for */
	uint32_t memory; /* where nr_chunks * block_bytes are free */
	uint64_t block_bytes;
	uint32_t nr_chunks;
};

/*
 * Create so many chunks and map them, and measure how long it takes to unmap and to destroy them,
 * by the machine's clock.
 * @return 0, or a negative errno of one of the calls; then nothing is left of it.
 */
int calls_measure(struct weir_machine *machine, const struct calls *calls, uint64_t *ns);

#endif
