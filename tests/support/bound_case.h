/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random traces and machines for tests of the lower bound by brute force: a few blocks, a few
 * launches. And what is known of them without the bound: what launches do to blocks, and how fast
 * links are.
 */
#ifndef WEIR_TEST_BOUND_CASE_H
#define WEIR_TEST_BOUND_CASE_H

#include "workloads/trace.h"

#define BOUND_BLOCK (UINT64_C(1) << 20)
#define BOUND_BLOCKS 4u
#define BOUND_LIVES 4u
#define BOUND_STEPS 6u
#define BOUND_USES 3u /* of a step */

/* What a launch does to a block, all its uses together. */
struct bound_touch {
	bool used, keeps, writes, discards;
};

struct bound_case {
	struct weir_machine_desc desc;
	struct trace trace;
	struct trace_step steps[BOUND_STEPS];
	struct trace_use uses[BOUND_STEPS * BOUND_USES];
	struct trace_life lives[BOUND_LIVES];
	uint32_t first_block[BOUND_LIVES]; /* of a life */
	uint32_t nr_blocks;
	uint32_t budget_blocks;
	uint32_t near_blocks; /* of memory 2 */
	struct bound_touch touch[BOUND_STEPS][BOUND_BLOCKS];
	/* contents before a step are needed by it or later */
	bool needed[BOUND_STEPS][BOUND_BLOCKS];
};

/*
 * A case. Memory 0 is the host, 1 the device's. In two of three translation reach matters: more
 * uses are at random, most of them far slower beyond reach than within, and not everything fits.
 */
void bound_case_random(uint64_t seed, uint32_t max_blocks, struct bound_case *c);

/* The same with another GPU's memory, which is memory 2. Link 0 joins the device to the host, link
 * 1 the other memory to the host, link 2 the device to the other memory. Half of the machines have
 * ports, of the host and of the device's memory. max_blocks > 1. */
void bound_case_random_near(uint64_t seed, uint32_t max_blocks, struct bound_case *c);

/* Whether a use names a block. */
bool bound_case_covers(const struct bound_case *c, const struct trace_use *use, uint32_t block);

/* Time to move bytes from end a of a link to end b and back: at once and then the rest, or one
 * after the other. */
double bound_case_link_s(const struct weir_link_desc *link, double in, double out);

/* What a launch moves in place over a link one way, and how long that takes if nothing goes the
 * other way. */
struct bound_in_place {
	double bytes, seconds;
};

/* Time of a launch's use in place over a link, both ways: at inplace_both_bytes_per_s at most until
 * one of them is done. */
double bound_case_in_place_s(const struct weir_link_desc *link, const struct bound_in_place *in,
			     const struct bound_in_place *out);

/* Rate of a use in place, and by how much whole sectors swell its bytes. */
double bound_case_place_rate(const struct weir_link_desc *link, const struct trace_use *use,
			     double away_bytes, double *swell);

#endif
