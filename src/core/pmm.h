/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of one memory, all of one size, pooled: creating one costs up to 0.4 ms, so a chunk that
 * is put back is kept for the next get. Owns free lists only; who holds a chunk otherwise is the
 * block's business, and what to evict is residency's.
 *
 * Invariants (pmm_check): nr_created = nr_free + chunks handed out; nr_created <= max_chunks, or
 * what that was lowered from; the
 * account has nr_created chunks; every chunk on the free list is of this memory and size.
 */
#ifndef WEIR_CORE_PMM_H
#define WEIR_CORE_PMM_H

#include "src/core/types.h"
#include "src/phys/phys.h"

struct chunk {
	struct backend_chunk backend; /* these never change */
	place_t place;
	struct chunk *next; /* free list */
	uint32_t stale;	    /* blocks that lost it and still show it: block_is_stale() */
};

/* Guarded by the space's lock. */
struct pmm {
	struct phys_client client; /* the account */
	struct backend *backend;
	place_t place; /* its number in the space */
	uint32_t memory;
	uint64_t chunk_bytes;
	uint64_t max_chunks;		       /* the budget, without nr_lent */
	uint64_t most_chunks;		       /* ... or what it was lowered from */
	uint64_t nr_lent;		       /* of the budget, had by others: see kind.h */
	uint64_t nr_created, nr_free, nr_peak; /* nr_peak: handed out or lent, at most */
	uint64_t nr_expected;		       /* of those to come, known to the backend */
	uint64_t nr_refused;		       /* nr_created when one was refused, logged; + 1 */
	struct chunk *free;		       /* last in, first out */
	bool ask; /* the last get found no room, but other clients of the memory hold some */
};

/* name: of the space, in messages. The pool is not asked for memory: phys_client_start(). */
void pmm_init(struct pmm *pmm, struct phys_memory *memory, const char *name, place_t place,
	      uint64_t chunk_bytes, uint64_t budget_bytes);

/* Destroy all chunks. None is handed out, and the pool is not asked. */
void pmm_fini(struct pmm *pmm);

/* Let others have a chunk of the budget; one that is free is destroyed for it, where there is no
 * other. @return whether there was one */
bool pmm_lend(struct pmm *pmm);
/* They have so many less. */
void pmm_lend_back(struct pmm *pmm, uint64_t nr);

/* A chunk, with undefined contents; NULL when the budget or the memory is used up. */
struct chunk *pmm_chunk_get(struct pmm *pmm);

/* Others were asked and had nothing: log, unless nothing changed since the last time, and note that
 * there is no more. */
void pmm_refused(struct pmm *pmm);

/* Destroy free chunks until they are at least so many bytes. One that a block is still mapped to
 * stays. @return bytes given back */
uint64_t pmm_give(struct pmm *pmm, uint64_t bytes);

/* At least so many chunks are going to be handed out at once: the backend may make those ahead that
 * there are not yet, within the budget. */
void pmm_expect(struct pmm *pmm, uint64_t nr);

/* Give a chunk back. No block holds it (one may be mapped to it and no longer used, see
 * migrate_take()), and no queued work names it. NULL is allowed. */
void pmm_chunk_put(struct pmm *pmm, struct chunk *chunk);

/* Change the budget, with what is lent of it, which is no more. What there is beyond a lower one is
 * the owner's to give back; until then no chunk is handed out. */
void pmm_set_budget(struct pmm *pmm, uint64_t nr_chunks);

/* Chunks beyond the budget. */
static inline uint64_t pmm_nr_beyond(const struct pmm *pmm)
{
	return pmm->nr_created > pmm->max_chunks ? pmm->nr_created - pmm->max_chunks : 0;
}

/* Chunks that pmm_chunk_get could still hand out. */
uint64_t pmm_nr_available(const struct pmm *pmm);

static inline uint64_t pmm_nr_out(const struct pmm *pmm)
{
	return pmm->nr_created - pmm->nr_free;
}

/* 0 or -EUCLEAN, logged. nr_out: chunks that the caller counted in use. */
int pmm_check(const struct pmm *pmm, uint64_t nr_out);

#endif
