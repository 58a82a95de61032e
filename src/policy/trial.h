/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that are made up, to try a policy before it decides anything. They come from a small
 * world of ranges and blocks whose numbers fit together and whose words are kept as weir keeps
 * them; sizes and ages are of all magnitudes. With the same seed, contexts are the same as long as
 * the answers are.
 */
#ifndef WEIR_POLICY_TRIAL_H
#define WEIR_POLICY_TRIAL_H

#include "src/policy/policy.h"

/* Of each hook, when an object is opened. */
#define POLICY_TRIAL_CONTEXTS 10000u

#define TRIAL_RANGES 48u
#define TRIAL_BLOCKS 8u /* of a range, that are shown */

struct trial_range {
	uint64_t word[2];
	uint64_t block_word[TRIAL_BLOCKS][2];
	uint32_t nr_blocks, nr_resident, nr_dirty;
};

/* Room for a context of any hook. */
union trial_context {
	struct weir_policy_admit admit;
	struct weir_policy_victim victim;
	struct weir_policy_fault fault;
	struct weir_policy_moved moved;
};

struct trial_world {
	uint64_t random, now;
	bool replay;	     /* next uses are known */
	uint32_t nr_windows; /* of the present weir_victim() */
	struct trial_range range[TRIAL_RANGES];
	/* Of the present context; in weir_victim() the candidates', then those of far ones. */
	uint32_t shown[WEIR_POLICY_CANDIDATES + WEIR_POLICY_FAR];
};

void trial_world_init(struct trial_world *world, uint64_t seed);

/* Fill in the next context of a hook; of weir_victim() its first window. */
void trial_context(struct trial_world *world, enum policy_hook hook, union trial_context *out);

/* The window after this one. @return false: there is none. */
bool trial_window(struct trial_world *world, struct weir_policy_victim *q);

/* Take a context's words into the world, after a call and before the next context or window. */
void trial_take(struct trial_world *world, enum policy_hook hook,
		const union trial_context *context);

struct policy_trial {
	uint32_t nr; /* contexts of each hook */
	uint64_t seed;
	struct policy_cost cost[POLICY_HOOKS]; /* written; of hooks that the policy has */
};

/*
 * Ask a policy that decides nothing yet. Its globals, and its lock, are used; its counts are not.
 *
 * @param [out] err  On failure one line: the policy, where it happened, the context and the seed.
 * @return 0; -EINVAL: a call ended in a fault, or beyond its budget, or an answer is out of range.
 */
int policy_trial_run(struct weir_policy *policy, struct policy_trial *trial, char *err,
		     size_t err_bytes);

#endif
