/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of contents by the CPU; see digest.h. */
#include "src/backend/digest.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "src/base/log.h"

__extension__ typedef unsigned __int128 u128;

/* ------------------------------------------------------------------ keys */

static int random_fill(void *at, size_t bytes)
{
	char *next = at;

	while (bytes) {
		ssize_t got = getrandom(next, bytes, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int err = -errno;

			log_error("the system has no random numbers: %s", strerror(-err));
			return err;
		}
		next += got;
		bytes -= (size_t)got;
	}
	return 0;
}

int digest_key_random(struct digest_key *key)
{
	struct digest_key drawn;
	int err = random_fill(&drawn, sizeof(drawn));

	for (uint32_t h = 0; h < DIGEST_HALVES && !err; h++)
		/* The prime itself, the one number of 61 bits too large, has a chance of 2^-61. */
		while (!err && (drawn.point[h] &= DIGEST_PRIME) == DIGEST_PRIME)
			err = random_fill(&drawn.point[h], sizeof(drawn.point[h]));
	if (!err)
		*key = drawn;
	return err;
}

/* The next of a sequence of numbers that look random (SplitMix64). */
static uint64_t sequence_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

void digest_key_seed(struct digest_key *key, uint64_t seed)
{
	for (uint32_t h = 0; h < DIGEST_HALVES; h++) {
		for (uint32_t p = 0; p < DIGEST_PASSES; p++)
			for (uint32_t i = 0; i < DIGEST_WORDS; i++)
				key->nh[h][p][i] = (uint32_t)(sequence_next(&seed) >> 32);
		key->point[h] = (sequence_next(&seed) >> 3) % DIGEST_PRIME;
	}
}

/* ------------------------------------------------------------------ numbers modulo the prime */

/* x < 2^125; the result is below 2^61 + 8. */
static uint64_t fold(u128 x)
{
	uint64_t once = (uint64_t)(x & DIGEST_PRIME) + (uint64_t)(x >> 61);

	return (once & DIGEST_PRIME) + (once >> 61);
}

static uint64_t least(uint64_t x)
{
	return x >= DIGEST_PRIME ? x - DIGEST_PRIME : x;
}

uint64_t digest_multiply_add(uint64_t a, uint64_t b, uint64_t c)
{
	return least(fold((u128)a * b + c));
}

uint64_t digest_power(uint64_t a, uint64_t n)
{
	uint64_t power = 1;

	for (; n; n >>= 1, a = digest_multiply_add(a, a, 0))
		if (n & 1)
			power = digest_multiply_add(power, a, 0);
	return power;
}

/* ------------------------------------------------------------------ contents */

/* The sums of a lane whose first word is there. */
static void lane_sums(const struct digest_key *key, const unsigned char *at,
		      uint64_t sum[DIGEST_HALVES][DIGEST_PASSES])
{
	memset(sum, 0, sizeof(uint64_t[DIGEST_HALVES][DIGEST_PASSES]));
	for (uint32_t row = 0; row < DIGEST_ROWS; row++) {
		uint32_t w[4];

		memcpy(w, at + (uint64_t)row * DIGEST_ROW_BYTES, sizeof(w));
		for (uint32_t h = 0; h < DIGEST_HALVES; h++)
			for (uint32_t p = 0; p < DIGEST_PASSES; p++) {
				const uint32_t *k = &key->nh[h][p][(size_t)4 * row];

				sum[h][p] += (uint64_t)(w[0] + k[0]) * (w[1] + k[1]) +
					     (uint64_t)(w[2] + k[2]) * (w[3] + k[3]);
			}
	}
}

struct digest digest_add(const struct digest_key *key, struct digest before, const void *data,
			 uint64_t bytes)
{
	const unsigned char *tile = data;
	struct digest d = before;
	uint64_t square[DIGEST_HALVES], sum[DIGEST_HALVES][DIGEST_PASSES];

	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
		square[h] = digest_multiply_add(key->point[h], key->point[h], 0);
	for (; bytes >= DIGEST_TILE_BYTES; tile += DIGEST_TILE_BYTES, bytes -= DIGEST_TILE_BYTES)
		for (uint32_t lane = 0; lane < DIGEST_LANES; lane++) {
			lane_sums(key, tile + 16 * (uint64_t)lane, sum);
			for (uint32_t h = 0; h < DIGEST_HALVES; h++)
				d.half[h] = fold((u128)d.half[h] * square[h] +
						 (u128)(sum[h][0] & DIGEST_PRIME) * key->point[h] +
						 (sum[h][1] & DIGEST_PRIME));
		}
	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
		d.half[h] = least(d.half[h]);
	return d;
}

struct digest digest_of(const struct digest_key *key, const void *data, uint64_t bytes)
{
	return digest_add(key, (struct digest){{1, 1}}, data, bytes);
}

struct digest digest_join(const struct digest_key *key, struct digest before, struct digest part,
			  uint64_t part_bytes)
{
	uint64_t nr = part_bytes / DIGEST_TILE_BYTES * DIGEST_LANES * DIGEST_PASSES;
	struct digest joined;

	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
		joined.half[h] = digest_multiply_add(before.half[h],
						     digest_power(key->point[h], nr), part.half[h]);
	return joined;
}
