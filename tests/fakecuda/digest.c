/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel that takes digests, which weir's library launches: block by block, from the arguments
 * alone, in numbers as long as a product.
 */
#include <string.h>

#include "src/backend/cuda/digest_args.h"
#include "tests/fakecuda/fake.h"

__extension__ typedef unsigned __int128 u128;

static uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)(((u128)a * b + c) % DIGEST_PRIME);
}

/* One of the sums of a lane, whose first bytes are there. */
static uint64_t lane_sum(const uint32_t nh[DIGEST_WORDS], const char *lane)
{
	uint32_t word[DIGEST_WORDS];
	uint64_t sum = 0;

	for (uint64_t row = 0; row < DIGEST_ROWS; row++)
		memcpy(&word[4 * row], lane + row * DIGEST_ROW_BYTES, 16);
	for (uint32_t i = 0; i < DIGEST_WORDS; i++)
		word[i] += nh[i];
	for (uint32_t i = 0; i < DIGEST_WORDS; i += 2)
		sum += (uint64_t)word[i] * word[i + 1];
	return sum & DIGEST_PRIME;
}

static uint64_t block_value(const struct digest_args *a, uint32_t block, uint32_t half)
{
	uint64_t first = digest_first_tile(a->nr_tiles, block);
	uint64_t end = digest_first_tile(a->nr_tiles, block + 1), value = 0;

	for (uint64_t i = first * DIGEST_LANES; i < end * DIGEST_LANES; i++) {
		const char *lane = (const char *)a->data + i / DIGEST_LANES * DIGEST_TILE_BYTES +
				   i % DIGEST_LANES * 16;

		for (uint32_t p = 0; p < DIGEST_PASSES; p++)
			value = multiply_add(value, a->key.point[half],
					     lane_sum(a->key.nh[half][p], lane));
	}
	return value;
}

static void digest_run(const void *args)
{
	const struct digest_args *a = args;

	for (uint32_t block = 0; block < DIGEST_BLOCKS; block++)
		for (uint32_t h = 0; h < DIGEST_HALVES; h++)
			a->part[block][h] =
				multiply_add(block_value(a, block, h), a->weight[block][h],
					     block ? 0 : a->start[h]);
}

static void digest_touch(struct op *op)
{
	const struct digest_args *a = op->args;

	op_touch(op, (uintptr_t)a->data, a->nr_tiles * DIGEST_TILE_BYTES, false);
	op_touch(op, (uintptr_t)a->part, DIGEST_BLOCKS * sizeof(a->part[0]), true);
}

const struct kernel digest_kernel = {.name = "weir_digest",
				     .nr_parameters = 1,
				     .parameter_bytes = {sizeof(struct digest_args)},
				     .run = digest_run,
				     .touch = digest_touch};
