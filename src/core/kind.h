/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of other kinds than mapped ones. A mapped range is the space's own: it is made of blocks,
 * and what is asked of it are direct calls, since that is what nearly every use is. A range of
 * another kind has an *owner*, which knows its bytes and brings them to kernels in its own way; the
 * space finds it by address, orders brackets that name it and asks the owner for the rest, by the
 * table below.
 *
 * Such a range has no blocks. So whatever goes through the blocks of ranges (victims, plans,
 * prefetches, checks) finds nothing to do, and a use of it pins the range and nothing else. It is
 * not recorded.
 *
 * Locks: an owner's locks come before space.lock. So the table's functions are called without
 * space.lock where they say so, and functions of this file that take it may be called with the
 * owner's locks held, unless they block.
 */
#ifndef WEIR_CORE_KIND_H
#define WEIR_CORE_KIND_H

#include "src/core/space.h"

/* Making one use of a bracket ready: what is known from one call to the next. */
struct range_ready {
	struct range_owner *owner; /* these never change */
	struct weir_stream *stream;
	uint32_t number; /* of the range, its owner's */
	bool called;	 /* for the kind: zero at first */
	int err;
};

/* What a space asks of ranges of a kind. All are required but those that say otherwise. */
struct range_kind {
	const char *name; /* in messages, as "a paged range" */
	/* Another range names the same bytes: a bracket that names the whole space names ranges of
	 * this kind for its own device alone; and an overwrite is one. */
	bool windows;
	/*
	 * Make the range ready for launches on the stream. A part of a pass (see struct settle):
	 * called with space.lock, again after each wait, until it returns something else than
	 * SETTLE_WAIT; where it has to block, it has settle->call do that. By: weir_begin(), whose
	 * turn it is to place, for each use but discards. On an error nothing is ready. Optional,
	 * with release: nothing.
	 */
	int (*ready)(struct weir_space *space, struct range_ready *use, struct settle *settle);
	/*
	 * What is queued on the stream from here on does not use the range: once for each call that
	 * made it ready, in weir_end(), or in a weir_begin() that failed later. An error is told by
	 * weir_space_sync(). Without space.lock.
	 */
	int (*release)(struct range_owner *owner, uint32_t number, struct weir_stream *stream);
	/* Copy to the range (in) or from it (out), in order with brackets that ended. -EBUSY: an
	 * open one uses it. Without space.lock; may block. By: weir_write(), weir_read(). */
	int (*copy)(struct range_owner *owner, uint32_t number, uint64_t offset, const void *in,
		    void *out, uint64_t bytes);
	/* 0 or -EUCLEAN, logged. With space.lock. Optional: there is nothing to check. */
	int (*check)(const struct weir_space *space, const struct range *range);
	/* Add what the range is to the statistics. With space.lock. Optional: nothing. */
	void (*query)(const struct range *range, struct weir_space_stats *out);
	/* The space is destroyed before the owner, which goes on without it: its ranges are ranges
	 * of no space from here on. Without space.lock. */
	void (*destroy)(struct range_owner *owner);
};

/* Embedded in what has ranges of a kind in a space. Guarded by space.lock. */
struct range_owner {
	struct list_link link; /* in the space's list */
	const struct range_kind *kind;
	struct phys_client *client; /* the account of what it has of the budget; NULL: nothing */
	place_t place; /* the own memory of the device that its ranges are used by; never changes */
	uint64_t nr_lent; /* chunks of that memory's budget, lent to it */
};

/* Register an owner, whose budget is lent to it of the own memory of a device, or take it out
 * again; it has no ranges and nothing is lent to it then. They take the lock. */
void space_owner_add(struct weir_space *space, struct range_owner *owner,
		     const struct range_kind *kind, place_t own, struct phys_client *client);
void space_owner_del(struct weir_space *space, struct range_owner *owner);
/* The same with the lock. */
void space_owner_add_locked(struct weir_space *space, struct range_owner *owner,
			    const struct range_kind *kind, place_t place,
			    struct phys_client *client);
void space_owner_del_locked(struct weir_space *space, struct range_owner *owner);

/*
 * Lend an owner chunks of the budget until it has `nr` of them: the space has that many fewer, and
 * the owner takes as much memory on its own account. What live ranges need stays. They take the
 * lock.
 *
 * space_lend_try: without waiting. @return whether it has so many
 * space_lend: what is idle goes, and blocks are evicted where the mode allows. turn: the caller has
 *   the turn to place, as kind->ready has. Blocks; no lock is held. @return whether it
 *   has more now
 * space_lend_back: the owner has no more than nr from here on, and holds no more memory.
 * space_ask_owners: ask them for so many chunks: the last resort of who needs more live blocks; and
 *   of one place. With the lock, which is dropped meanwhile. @return whether the space has more now
 */
bool space_lend_try(struct weir_space *space, struct range_owner *owner, uint64_t nr);
bool space_lend(struct weir_space *space, struct range_owner *owner, uint64_t nr, bool turn);
void space_lend_back(struct weir_space *space, struct range_owner *owner, uint64_t nr);
void space_lend_back_locked(struct weir_space *space, struct range_owner *owner, uint64_t nr);

/* Lend an owner one chunk more, if one is free. Lock held. @return whether one was. */
bool space_lend_free(struct weir_space *space, struct range_owner *owner);

/* A part of a pass: lend an owner chunks until it has nr of them, and as many as `more` beyond that
 * as are free. Lock held. @return 0, SETTLE_WAIT, or -ENOMEM. */
int space_lend_more(struct weir_space *space, struct range_owner *owner, uint64_t nr, uint64_t more,
		    struct settle *settle);
bool space_ask_owners(struct weir_space *space, uint64_t nr);
bool space_ask_owners_of(struct weir_space *space, place_t place, uint64_t nr);

/*
 * A range of an owner's, named by it from here on as so many bytes at an address. Takes the lock.
 * @return 0, -ENOMEM, or -EINVAL, logged: part of it is another range of the space.
 */
int space_range_add(struct weir_space *space, struct range_owner *owner, uint32_t number,
		    void *addr, uint64_t bytes, struct range **out);
int space_range_add_locked(struct weir_space *space, struct range_owner *owner, uint32_t number,
			   void *addr, uint64_t bytes, struct range **out);

/* It is there no more. Brackets that name it already are ended as they would be, and nothing is
 * asked of the owner for it. Takes the lock. */
void space_range_del(struct weir_space *space, struct range *range);
void space_range_del_locked(struct weir_space *space, struct range *range);

/* The same of all that are left as a space is destroyed; their owners are told, by kind->destroy.
 * Called with the lock, which is dropped meanwhile; nothing of the space is under way. */
void space_owners_fini(struct weir_space *space);

/* A part of a pass: make the slot's uses ready that are of other kinds. use: how far that is. */
struct kinds_pass {
	uint32_t use;
	struct range_ready ready; /* of that one, if it was begun */
};
int kinds_ready(struct weir_space *space, struct kinds_pass *p, struct stream_slot *slot,
		struct settle *settle);

/* Release what of the slot's uses is ready. Called with the lock, which is dropped meanwhile. */
void kinds_release(struct weir_space *space, struct stream_slot *slot);

/* 0; or -ENOTSUP, logged: what is called is nothing that ranges of other kinds have. */
int kinds_refuse(const struct space_use *uses, uint32_t nr, const char *what);

/* Owners and their ranges; 0 or -EUCLEAN, logged. Lock held. */
int kinds_check(const struct weir_space *space);
void kinds_query(const struct weir_space *space, struct weir_space_stats *out);

#endif
