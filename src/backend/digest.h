/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of contents: 128 bits that are equal for equal contents and, under a random key, differ
 * for others but with a probability below 2^-84 (docs/backend.md, "Is a block unchanged?"). They
 * compare contents within one machine, whose key they depend on; they are no signature, and are
 * not for contents that somebody chooses who knows the key.
 *
 * Contents are tiles of 16 rows of 512 bytes. Lane l of a tile has bytes 16 l to 16 l + 15 of each
 * row: 64 words of 32 bits, which are little-endian. Each half of a digest has a key of its own. A
 * lane's words become two numbers of 61 bits: the low bits of two sums (NH) over pairs of words,
 *
 *	sum of (word[2i] + nh[2i] mod 2^32) * (word[2i + 1] + nh[2i + 1] mod 2^32), mod 2^64.
 *
 * These numbers, lane by lane and tile by tile, are the coefficients of a polynomial behind a first
 * one of 1, and the half is its value at the key's point, modulo the prime 2^61 - 1.
 *
 * This is the reference: the kernel of src/backend/cuda/digest.cu computes the same.
 */
#ifndef WEIR_BACKEND_DIGEST_H
#define WEIR_BACKEND_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#define DIGEST_HALVES 2u
#define DIGEST_PASSES 2u /* sums of a lane, for each half */
#define DIGEST_ROWS 16u
#define DIGEST_LANES 32u
#define DIGEST_ROW_BYTES 512u /* 16 for each lane */
#define DIGEST_WORDS 64u      /* of a lane: 4 in each row */
#define DIGEST_TILE_BYTES 8192u
#define DIGEST_PRIME ((UINT64_C(1) << 61) - 1)

/* Halves of whole contents are less than DIGEST_PRIME. */
struct digest {
	uint64_t half[DIGEST_HALVES];
};

struct digest_key {
	uint32_t nh[DIGEST_HALVES][DIGEST_PASSES][DIGEST_WORDS];
	uint64_t point[DIGEST_HALVES]; /* less than DIGEST_PRIME */
};

static inline bool digest_equal(struct digest a, struct digest b)
{
	return a.half[0] == b.half[0] && a.half[1] == b.half[1];
}

/* Draw a key from the system's random numbers. @return 0 or a negative error. */
int digest_key_random(struct digest_key *key);

/* The key of a number, for runs that are to repeat. */
void digest_key_seed(struct digest_key *key, uint64_t seed);

/* The digest of contents. bytes: a multiple of DIGEST_TILE_BYTES. */
struct digest digest_of(const struct digest_key *key, const void *data, uint64_t bytes);

/* The digest of contents that go on with more, from that of what comes before; digest_of() is this
 * from 1 in both halves. From 0 it is that of a part, for digest_join(). */
struct digest digest_add(const struct digest_key *key, struct digest before, const void *data,
			 uint64_t bytes);

/* The digest of contents that end with a part of so many bytes. */
struct digest digest_join(const struct digest_key *key, struct digest before, struct digest part,
			  uint64_t part_bytes);

/* (a * b + c) mod DIGEST_PRIME, of numbers below 2^62; and a number's n-th power. */
uint64_t digest_multiply_add(uint64_t a, uint64_t b, uint64_t c);
uint64_t digest_power(uint64_t a, uint64_t n);

#endif
