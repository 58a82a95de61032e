/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that a machine is measured with, and their arguments. Each moves a known number of
 * bytes in a known pattern, and does something that shows whether it did: what is read is summed
 * up, what is written has a value. Nothing here measures.
 *
 * Sums are of 64-bit words, modulo 2^64, and added to what is there, so that neither the order nor
 * the number of threads shows. All addresses and sizes are multiples of 32 bytes.
 *
 * Pieces "at random" are the first nr of a permutation of the pieces of a buffer: none comes twice,
 * so that no cache of a real machine has seen one before, and writers do not meet.
 */
#ifndef WEIR_PROBE_KERNELS_H
#define WEIR_PROBE_KERNELS_H

#include <stdint.h>

#include "weir/weir.h"

#ifdef __CUDACC__
#define PROBE_ANYWHERE __host__ __device__
#else
#define PROBE_ANYWHERE
#endif

/* Nothing. */
struct probe_empty_args {
	uint64_t unused;
};
extern const struct weir_kernel probe_kernel_empty;

/* *sum += passes times the words of in. */
struct probe_read_args {
	const void *in;
	uint64_t *sum;
	uint64_t bytes, passes;
};
extern const struct weir_kernel probe_kernel_read;

/* Every word of out = value. */
struct probe_write_args {
	void *out;
	uint64_t bytes, value;
};
extern const struct weir_kernel probe_kernel_write;

/* out = in. */
struct probe_copy_args {
	const void *in;
	void *out;
	uint64_t bytes;
};
extern const struct weir_kernel probe_kernel_copy;

/* nr pieces of a buffer at random. */
struct probe_pieces {
	uint32_t piece;	   /* bytes of one: a power of two, 32 at least */
	uint32_t nr_all;   /* the buffer has so many, 2^31 at most */
	uint32_t nr_bits;  /* the least with 2^nr_bits >= nr_all */
	uint32_t nr, salt; /* nr <= nr_all, salt < nr_all; another salt is another permutation */
};

/* Any salt. */
static inline struct probe_pieces probe_pieces_of(uint32_t piece, uint32_t nr_all, uint32_t nr,
						  uint32_t salt)
{
	struct probe_pieces pieces = {piece, nr_all, 0, nr, salt % nr_all};

	while (UINT32_C(1) << pieces.nr_bits < nr_all)
		pieces.nr_bits++;
	return pieces;
}

/* *sum += the words of the pieces. */
struct probe_gather_args {
	const void *in;
	uint64_t *sum;
	struct probe_pieces pieces;
};
extern const struct weir_kernel probe_kernel_gather;

/* Every word of the pieces += 1. */
struct probe_update_args {
	void *data;
	struct probe_pieces pieces;
};
extern const struct weir_kernel probe_kernel_update;

/* Every float of the pieces += 1, by atomic operations that return nothing. */
struct probe_add_args {
	void *data;
	struct probe_pieces pieces;
};
extern const struct weir_kernel probe_kernel_add;

/* Of each five pieces that the next kernel reads, so many come from each buffer. */
#define PROBE_MIXED_FAR 2u
#define PROBE_MIXED_NEAR 3u
#define PROBE_MIXED (PROBE_MIXED_FAR + PROBE_MIXED_NEAR)

/* out = pieces of far and near, which take turns, each at random; as a gather of rows does whose
 * matrix lies partly far away. */
struct probe_mixed_args {
	const void *far, *near;
	void *out;
	struct probe_pieces far_pieces, near_pieces; /* of one size; nr: 2 n and 3 n, for n > 0 */
};
extern const struct weir_kernel probe_kernel_mixed;

/* An ascending list of indexes: one of each step elements, at random. */
struct probe_list_args {
	uint32_t *list;
	uint32_t nr, step; /* nr * step <= 2^32 */
};
extern const struct weir_kernel probe_kernel_list;

/* The i-th index of a list. */
PROBE_ANYWHERE static inline uint32_t probe_list_at(uint32_t i, uint32_t step)
{
	uint32_t x = i * UINT32_C(0x9e3779b1);

	x = (x ^ x >> 15) * UINT32_C(0x85ebca6b);
	return i * step + (x ^ x >> 13) % step;
}

/* One to one among numbers of nr_bits bits, since each step is: multiplying by an odd number,
 * adding, folding the upper half down. */
PROBE_ANYWHERE static inline uint32_t probe_permute(uint32_t i, uint32_t nr_bits)
{
	const uint32_t mask = (UINT32_C(1) << nr_bits) - 1, fold = nr_bits / 2 + 1;

	i = i * UINT32_C(0x9e3779b1) & mask;
	i ^= i >> fold;
	i = i * UINT32_C(0x85ebca6b) & mask;
	i ^= i >> fold;
	return i * UINT32_C(0xc2b2ae35) & mask;
}

/* The i-th piece. What is no piece's number is permuted again until it is one: that is one to one
 * among those that are. */
PROBE_ANYWHERE static inline uint32_t probe_piece_at(const struct probe_pieces *pieces, uint32_t i)
{
	i += pieces->salt;
	i -= i < pieces->nr_all ? 0 : pieces->nr_all;
	do
		i = probe_permute(i, pieces->nr_bits);
	while (i >= pieces->nr_all);
	return i;
}

#endif
