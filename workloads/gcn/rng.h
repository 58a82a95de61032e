/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers by counter: the i-th draw of a key is a pure function of both, so that any part
 * of a sequence can be made by any thread, in any order, again and again.
 *
 * Not for cryptography. The mixer is a bijection on 64 bits with full avalanche (the finaliser of
 * the splitmix64 generator); a key is the mix of what names the sequence.
 */
#ifndef WEIR_GCN_RNG_H
#define WEIR_GCN_RNG_H

#include <stdint.h>

/* What a sequence is for. Values are part of what makes runs repeatable: append only. */
enum gcn_rng_purpose {
	GCN_RNG_EDGES,
	GCN_RNG_FEATURES,
	GCN_RNG_LABELS,
	GCN_RNG_WEIGHTS,
	GCN_RNG_DROPOUT,
};

static inline uint64_t gcn_rng_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline uint64_t gcn_rng_key(uint64_t seed, enum gcn_rng_purpose purpose, uint32_t a,
				   uint32_t b)
{
	uint64_t key = gcn_rng_mix(seed + UINT64_C(0x9e3779b97f4a7c15));

	key = gcn_rng_mix(key ^ ((uint64_t)purpose + 1) * UINT64_C(0xd1342543de82ef95));
	return gcn_rng_mix(key + ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15));
}

/* The i-th 64 bits of a key's sequence. */
static inline uint64_t gcn_rng_bits(uint64_t key, uint64_t i)
{
	return gcn_rng_mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* Uniform in [0, n), 0 < n <= 2^32: the bias is below n / 2^32 and the draw takes no division. */
static inline uint64_t gcn_rng_below(uint64_t key, uint64_t i, uint64_t n)
{
	return ((gcn_rng_bits(key, i) >> 32) * n) >> 32;
}

/* Uniform in (0, 1), in steps of 2^-53, never 0 or 1. */
static inline double gcn_rng_unit(uint64_t key, uint64_t i)
{
	return ((double)(gcn_rng_bits(key, i) >> 12) + 0.5) * 0x1p-52;
}

#endif
