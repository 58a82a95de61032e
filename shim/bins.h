/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges that were freed in the order of a stream, kept for the next allocation of that size on
 * that stream: it comes after whatever used them before, and nobody has to be told. Last in first
 * out. Threads: the caller's lock.
 */
#ifndef WEIR_SHIM_BINS_H
#define WEIR_SHIM_BINS_H

#include <stdbool.h>
#include <stdint.h>

struct bin;

struct bins {
	struct bin **bin; /* a hash table of nr_slots, a power of two; chained */
	uint32_t nr_slots, nr;
	uint64_t bytes; /* of all that is kept */
};

/* What is kept of one range. */
struct kept {
	void *stream; /* as the caller names it */
	uint64_t addr, bytes;
};

/* Keep a range. @return false: no memory, and it is not kept. */
bool bins_put(struct bins *bins, const struct kept *range);

/* Take one of a stream and size. @return its address, or 0 */
uint64_t bins_take(struct bins *bins, const void *stream, uint64_t bytes);

/* Take any range of at least so many bytes of a stream, or with any_stream of whatever stream.
 * @return false: there is no such range */
bool bins_drain(struct bins *bins, const void *stream, bool any_stream, uint64_t least_bytes,
		struct kept *out);

void bins_fini(struct bins *bins);

#endif
