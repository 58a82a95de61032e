/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated graphs, edge by edge: edge i is a pure function of (seed, kind, scale, i), so any part
 * of a graph can be made by any thread, on the CPU or, since this header is CUDA too, on a GPU, and
 * comes out the same.
 *
 * The graphs are those of the GAP benchmark suite (Beamer, Asanovic, Patterson, 2015):
 * Kronecker with A = 0.57, B = C = 0.19 as in Graph 500, vertices renamed by a permutation; and
 * uniform. They are drawn from other random numbers than that suite's own.
 *
 * Random numbers are by counter: bits(key, i) is the i-th output of SplitMix64 (Steele, Lea, Flood,
 * 2014) started at the key.
 *   uniform    u and v are the upper `scale` bits of bits(key, 2 i) and bits(key, 2 i + 1)
 *   Kronecker  level b, from 0, the highest bit, to scale - 1, takes the lower (b even) or upper
 *              (b odd) 32 bits of bits(key, 32 i + b / 2): below A the bits of u and v are 0 0,
 *              below A + B 0 1, below A + B + C 1 0, else 1 1. Then both are renamed.
 * The renaming is GEN_ROUNDS rounds of x = (a x + c) mod 2^scale, x ^= x >> ceil(scale / 2), with
 * odd a: each is a bijection.
 */
#ifndef WEIR_GRAPH_GEN_H
#define WEIR_GRAPH_GEN_H

#include <stdint.h>

#ifdef __CUDACC__
#define GEN_FN static inline __host__ __device__
#else
#define GEN_FN static inline
#endif

#define GEN_SCALE_MAX 40u /* beyond 32, ids have 64 bits */
#define GEN_ROUNDS 4
#define GEN_WEIGHT_MAX 255u

enum gen_kind { GEN_UNIFORM, GEN_KRONECKER };

/* Of gen_init(); constant from then on, may be copied to a GPU. */
struct gen {
	enum gen_kind kind;
	uint32_t scale;
	uint64_t key; /* of the edges */
	uint64_t a[GEN_ROUNDS], c[GEN_ROUNDS];
};

struct gen_pair {
	uint64_t u, v;
};

GEN_FN uint64_t gen_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

GEN_FN uint64_t gen_bits(uint64_t key, uint64_t i)
{
	return gen_mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* Keys of one seed. Values are part of what makes graphs repeatable: append only. */
enum gen_purpose { GEN_EDGES, GEN_RENAME, GEN_WEIGHTS, GEN_SOURCES };

GEN_FN uint64_t gen_key(uint64_t seed, enum gen_purpose purpose)
{
	return gen_mix(gen_bits(seed, (uint64_t)purpose));
}

/* scale <= GEN_SCALE_MAX. */
GEN_FN struct gen gen_init(enum gen_kind kind, uint32_t scale, uint64_t seed)
{
	struct gen gen;
	uint64_t key = gen_key(seed, GEN_RENAME);

	gen.kind = kind;
	gen.scale = scale;
	gen.key = gen_key(seed, GEN_EDGES);
	for (uint64_t r = 0; r < GEN_ROUNDS; r++) {
		gen.a[r] = gen_bits(key, 2 * r) | 1;
		gen.c[r] = gen_bits(key, 2 * r + 1);
	}
	return gen;
}

/* A permutation of 0 to 2^scale - 1. */
GEN_FN uint64_t gen_rename(const struct gen *gen, uint64_t x)
{
	const uint64_t mask = (UINT64_C(1) << gen->scale) - 1;

	for (uint32_t r = 0; r < GEN_ROUNDS; r++) {
		x = (gen->a[r] * x + gen->c[r]) & mask;
		x ^= x >> ((gen->scale + 1) / 2);
	}
	return x;
}

GEN_FN struct gen_pair gen_kronecker(const struct gen *gen, uint64_t i)
{
	/* Parts of 2^32, rounded: 0.57, 0.76, 0.95. */
	const uint32_t a = 2448131359u, ab = 3264175145u, abc = 4080218931u;
	struct gen_pair edge = {0, 0};
	uint64_t bits = 0;

	for (uint32_t b = 0; b < gen->scale; b++) {
		uint32_t draw;

		bits = b % 2 ? bits >> 32 : gen_bits(gen->key, 32 * i + b / 2);
		draw = (uint32_t)bits;
		edge.u = edge.u << 1 | (draw >= ab);
		edge.v = edge.v << 1 | ((draw >= a && draw < ab) || draw >= abc);
	}
	edge.u = gen_rename(gen, edge.u);
	edge.v = gen_rename(gen, edge.v);
	return edge;
}

/* Edge i, below 2^58. */
GEN_FN struct gen_pair gen_edge(const struct gen *gen, uint64_t i)
{
	struct gen_pair edge = {0, 0};

	if (gen->kind == GEN_KRONECKER)
		return gen_kronecker(gen, i);
	if (gen->scale) {
		edge.u = gen_bits(gen->key, 2 * i) >> (64 - gen->scale);
		edge.v = gen_bits(gen->key, 2 * i + 1) >> (64 - gen->scale);
	}
	return edge;
}

/*
 * A weight for the edge between two vertices, uniform in 1 to GEN_WEIGHT_MAX, as GAP's. The same in
 * both directions and for repeated edges. key: of gen_key(seed, GEN_WEIGHTS).
 */
GEN_FN uint32_t gen_weight(uint64_t key, uint64_t u, uint64_t v)
{
	uint64_t least = u < v ? u : v, other = u < v ? v : u;
	uint64_t bits = gen_bits(gen_bits(key, least), other);

	return 1 + (uint32_t)(((bits >> 32) * GEN_WEIGHT_MAX) >> 32);
}

#endif
