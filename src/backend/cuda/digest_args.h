/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the digests' kernel (digest.cu) and whoever launches it agree on. The kernel's name is
 * weir_digest, and its one argument a struct digest_args, by value: constants, which are read as
 * fast as registers.
 *
 * Each block has tiles that follow each other, and its warps take turns at them, so that all
 * threads together have DIGEST_THREADS lanes of tiles in a row at a time, the last of them at the
 * end of the block's tiles.
 */
#ifndef WEIR_CUDA_DIGEST_ARGS_H
#define WEIR_CUDA_DIGEST_ARGS_H

#include "src/backend/digest.h"

/* Blocks; warps and threads of a block; levels of the tree in which threads join their parts. */
#define DIGEST_BLOCKS 8u
#define DIGEST_WARPS 16u
#define DIGEST_THREADS 512u
#define DIGEST_LEVELS 9u

/* What one digest's blocks write: numbers less than DIGEST_PRIME, which add up to its halves. */
typedef uint64_t digest_parts[DIGEST_BLOCKS][DIGEST_HALVES];

struct digest_args {
	const void *data;		 /* aligned to 16 bytes */
	uint64_t (*part)[DIGEST_HALVES]; /* those of digest_parts */
	uint64_t nr_tiles;
	struct digest_key key;
	uint64_t start[DIGEST_HALVES]; /* the value of the first coefficient: the first block's */
	/* By block, the point's power with which its value counts. */
	uint64_t weight[DIGEST_BLOCKS][DIGEST_HALVES];
	/* The powers of the square of the point by 1, 2, 4, and so on to DIGEST_THREADS. */
	uint64_t power[DIGEST_LEVELS + 1][DIGEST_HALVES];
};

/* The first of a block's tiles; of the block behind the last one, how many there are. */
#ifdef __CUDACC__
__host__ __device__
#endif
	static inline uint64_t
	digest_first_tile(uint64_t nr_tiles, uint32_t block)
{
	uint64_t first = (nr_tiles + DIGEST_BLOCKS - 1) / DIGEST_BLOCKS * block;

	return first < nr_tiles ? first : nr_tiles;
}

#endif
