/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy's place in a space's decisions (weir/policy.h): what it sees of ranges is kept here, and
 * its answers are taken where neither a plan nor advice speaks of a range. Nothing of this costs
 * anything, or changes, while no policy is set. All with the space's lock.
 */
#ifndef WEIR_RESIDENCY_ASK_H
#define WEIR_RESIDENCY_ASK_H

#include "src/core/space.h"
#include "src/policy/policy.h"
#include "src/residency/decide.h"

/* What a policy sees of a range. Steps count brackets from when a policy was first set. */
struct asked {
	uint64_t word[2];
	uint64_t touched_bytes, in_place_bytes; /* by uses since a block came or left */
	uint64_t moved_step, arrived_step, used_step;
	uint32_t moved_uses; /* the range's uses (past.c) when a block last came or left */
	uint32_t number;     /* 0: none yet */
};

/* A bracket's uses are placed: note what they touch. There is a policy. */
void ask_used(struct weir_space *space, const struct stream_slot *slot);

/* A block came to its own memory, or left it. */
void ask_moved(struct weir_space *space, struct range *range, uint32_t i, bool came,
	       enum weir_cause cause);

/* The range is new, or freed. */
void ask_reset(struct range *range);

/*
 * What of a use's range should be resident, in the place of `in`, the default's answer, which is
 * left where there is no policy or it has no answer.
 */
void ask_admit(struct weir_space *space, const struct space_use *use, struct brought_in *in);

/* Who gives a chunk, in the place of the range and block that the default picked at `own`. */
struct range *ask_victim(struct weir_space *space, place_t own, struct range *range, uint32_t *i);

#endif
