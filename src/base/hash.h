/* SPDX-License-Identifier: Apache-2.0 */
/* A hash of a sequence of numbers, for tables in memory. Not for anything that is stored. */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include <stdint.h>

/* The golden section times 2^64: Knuth, The Art of Computer Programming, volume 3, section 6.4. */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* The hash of a sequence and one more number: a multiplication by the golden section, folded. */
static inline uint64_t hash_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * HASH_FACTOR;
	return hash ^ (hash >> 29);
}

#endif
