/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's residency: which chunks hold it, which one is mapped, what its contents are worth.
 *
 * State         mapped to      chunks held             meaning
 * UNBACKED      nothing        none                    no contents (dead)
 * HBM           upper          upper (lower if clean)  resident
 * HOST          lower          lower                   not resident: used in place. May be left
 *                                                      unmapped until a bracket names it
 * HBM, cleaning upper          both                    resident; being copied to the host, too
 * HOST or UNBACKED, stale      as above; mapped to an upper chunk that another block took, for
 *                              launches that began before
 * TO_HBM        upper          both                    resident once `ready` is reached
 * TO_HOST       lower          both                    on the host once `ready` is reached
 *
 * block_set_state() is the one function that changes a state; it keeps the range's counts and
 * refuses what the table of transitions does not allow.
 */
#ifndef WEIR_CORE_BLOCK_H
#define WEIR_CORE_BLOCK_H

#include "src/core/pmm.h"

enum block_state {
	BLOCK_UNBACKED,
	BLOCK_HBM,
	BLOCK_HOST,
	BLOCK_TO_HBM,
	BLOCK_TO_HOST,
	BLOCK_STATE_NR
};

/* A copy out while the block stays resident: it makes the block clean, unless it is written before
 * the copy is done. */
enum block_cleaning { CLEANING_NONE, CLEANING_ACTIVE, CLEANING_CANCELLED };

/*
 * All fields are guarded by the space's lock.
 * Invariants: chunks and mapping as the table says; clean implies state HBM or TO_HBM and a lower
 * chunk; dead implies not clean; UNBACKED implies dead; pins > 0 implies backed.
 */
struct block {
	struct chunk *chunk[TIER_NR];
	struct chunk *stale;	  /* not its own, but mapped: see migrate_take(); or NULL */
	fence_t ready;		  /* the last copy into the mapped chunk */
	bracket_seq_t last_use;	  /* by brackets that named only a part of the range */
	bracket_seq_t last_write; /* of these, the newest that may have written it */
	uint32_t pins;		  /* open brackets that named only a part of the range */
	uint32_t host_pins;	  /* of these, host brackets: the CPU has access */
	uint8_t state;		  /* enum block_state */
	bool dead;
	bool clean;
	uint8_t cleaning; /* enum block_cleaning */
	bool unmapped;	  /* mapped nowhere: see migrate_evict() */
};

void block_set_state(struct range *range, struct block *block, enum block_state state);
void block_set_dead(struct range *range, struct block *block, bool dead);
void block_set_clean(struct range *range, struct block *block, bool clean);
void block_set_cleaning(struct range *range, struct block *block, enum block_cleaning cleaning);
void block_set_unmapped(struct range *range, struct block *block, bool unmapped);

static inline bool block_is_resident(const struct block *block)
{
	return block->state == BLOCK_HBM || block->state == BLOCK_TO_HBM;
}

static inline bool block_is_moving(const struct block *block)
{
	return block->state == BLOCK_TO_HBM || block->state == BLOCK_TO_HOST;
}

/* The tier the block is mapped to. Not UNBACKED. */
static inline enum tier block_tier(const struct block *block)
{
	return block_is_resident(block) ? TIER_HBM : TIER_HOST;
}

/* 0 or -EUCLEAN, logged. */
int block_check(const struct range *range, const struct block *block);

const char *block_state_name(enum block_state state);

#endif
