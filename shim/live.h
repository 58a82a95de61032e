/* SPDX-License-Identifier: Apache-2.0 */
/* The program's live allocations, by address. Threads: the caller's lock. */
#ifndef WEIR_SHIM_LIVE_H
#define WEIR_SHIM_LIVE_H

#include <stdbool.h>
#include <stdint.h>

struct live {
	struct live_range {
		uint64_t addr, bytes;
	} *range; /* sorted; they do not overlap */
	uint32_t nr, max;
};

/* @return false: no memory */
bool live_add(struct live *live, uint64_t addr, uint64_t bytes);

/* @return the bytes of the one that begins there; 0: none does. */
uint64_t live_remove(struct live *live, uint64_t addr);

/* The one that an address is in. base, bytes: may be NULL. */
bool live_find(const struct live *live, uint64_t addr, uint64_t *base, uint64_t *bytes);

void live_fini(struct live *live);

#endif
