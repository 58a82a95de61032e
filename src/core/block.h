/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's copies: which chunks hold it, which one its address shows, what its contents are worth.
 * A chunk is at a place; a block has at most three:
 *
 *   home     the copy that its address is for: what launches use; NULL: unbacked
 *   source   what the copy into home reads, until that is done; NULL: home is not being filled
 *   below    a copy at a lower place, with which leaving home costs no copy: valid, or (cleaning)
 *            being filled from home, or (unproved) valid if home was not changed since, which
 *            compare.c can tell; while home is being filled it may be the source, which stays
 *
 * and one chunk that the address shows, to all devices:
 *
 *   mapped   home; or NULL, until a bracket names the block; or a chunk that was home and is so
 *            no more (stale): another block took it, while launches still use it here (see
 *            migrate_take()), or it was left until somebody has the time to unmap it. While the
 *            block moves down, that may be the source
 *
 * What else is said of a block is an equation over these: see the functions below. block_change()
 * is the one function that changes them; it keeps the range's counts and refuses what is no legal
 * change.
 */
#ifndef WEIR_CORE_BLOCK_H
#define WEIR_CORE_BLOCK_H

#include "src/backend/digest.h"
#include "src/core/pmm.h"

/* A copy into below while the block stays where it is: it makes the block clean, unless it is
 * written before the copy is done. Cancelled is also a comparison that the block did not wait for:
 * it does not move until that is done. */
enum block_cleaning { CLEANING_NONE, CLEANING_ACTIVE, CLEANING_CANCELLED };

/*
 * Invariants (block_check()): unbacked implies no other copy, and dead. source, below and home are
 * different chunks at different places, but for a source that is below. below is lower than home.
 * dead implies no below, but for one whose filling was cancelled. An active cleaning implies below,
 * any no source. unproved implies below and digested; comparing a source and no below. digested
 * implies below. A stale chunk says so itself.
 */
struct copies {
	struct chunk *home, *source, *below;
	struct chunk *mapped;
	bool dead;	  /* contents are not needed */
	uint8_t cleaning; /* enum block_cleaning */
	bool unproved;	  /* home may have been written since it was equal to below */
	bool digested;	  /* the block's digest is that of below, or awaited */
	bool comparing;	  /* on its way home, if that is not equal to the source: see compare.c */
};

/* Of a block whose digests were of no use so many times in a row they are taken now and then only.
 */
#define BLOCK_CHANGED_MAX 2u

/* All fields are guarded by the space's lock. pins > 0 implies backed. */
struct block {
	struct copies at;
	fence_t ready;		  /* the last copy into the mapped chunk */
	bracket_seq_t last_use;	  /* by brackets that named only a part of the range */
	bracket_seq_t last_write; /* of these, the newest that may have written it */
	uint32_t pins;		  /* open brackets that named only a part of the range */
	uint32_t host_pins;	  /* of these, host brackets: the CPU has access */
	struct digest digest;	  /* if digested, or being compared */
	uint32_t awaits;	  /* the ticket of one that is not taken yet, and 1 more; 0: none */
	uint8_t nr_changed;	  /* digests in a row that were of no use, */
	uint8_t nr_left_out;	  /* and times since that none was taken */
};

static inline bool block_is_backed(const struct block *block)
{
	return block->at.home != NULL;
}

/* Whether home is being filled. */
static inline bool block_is_moving(const struct block *block)
{
	return block->at.source != NULL;
}

/* Whether the block is at a place, or moving there. */
static inline bool block_is_at(const struct block *block, place_t place)
{
	return block->at.home && block->at.home->place == place;
}

/* Whether it is there, and not moving. */
static inline bool block_is_settled_at(const struct block *block, place_t place)
{
	return block_is_at(block, place) && !block->at.source;
}

/* Whether a valid copy is below. */
static inline bool block_is_clean(const struct block *block)
{
	return block->at.below && block->at.cleaning == CLEANING_NONE && !block->at.unproved;
}

/* Whether one is below, at that place. */
static inline bool block_is_clean_at(const struct block *block, place_t place)
{
	return block_is_clean(block) && block->at.below->place == place;
}

/* Whether a copy is at that place that the block could do without: valid or unproved. */
static inline bool block_has_spare(const struct block *block, place_t place)
{
	return block->at.below && block->at.below->place == place &&
	       block->at.cleaning == CLEANING_NONE;
}

/* Whether leaving home costs a copy, for all that is known. */
static inline bool block_is_dirty(const struct block *block)
{
	return !block->at.dead && !block_is_clean(block);
}

/* Whether its contents are at home alone, and are not being copied below. */
static inline bool block_is_exposed(const struct block *block)
{
	return block_is_dirty(block) && block->at.cleaning != CLEANING_ACTIVE;
}

static inline bool block_is_cleaning(const struct block *block)
{
	return block->at.cleaning != CLEANING_NONE;
}

/* Whether its address shows a chunk that another block took. */
static inline bool block_is_stale(const struct block *block)
{
	return block->at.mapped && block->at.mapped != block->at.home;
}

/* Whether it has a home that its address does not show. */
static inline bool block_is_unmapped(const struct block *block)
{
	return block->at.home && block->at.mapped != block->at.home;
}

/* Change a block's copies to those. The block is one of the range's. */
void block_change(struct range *range, struct block *block, const struct copies *to);

/* The same of one thing alone. */
void block_set_dead(struct range *range, struct block *block, bool dead);
void block_set_mapped(struct range *range, struct block *block, struct chunk *chunk);
void block_set_below(struct range *range, struct block *block, struct chunk *chunk,
		     enum block_cleaning cleaning);

/* Add a block to a range's counts, which are what this adds up to; or with nr -1 take it out. */
void block_count(struct range *range, const struct block *block, uint32_t nr);

/* 0 or -EUCLEAN, logged. */
int block_check(const struct range *range, const struct block *block);

#endif
