/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One account of each memory of a machine: who holds how much of it, and asking the others to give
 * back what they hold and do not use. Allocators stand above it, one a client: spaces' chunks of
 * one size, the frames of paged memory, the roots that plain memory is cut from. Baselines' managed
 * memory, plain allocations of a device (device_alloc) and chunks that a backend makes ahead are
 * not counted: the first two are never idle, and the last give way by themselves.
 *
 * Taking never asks: it may be done under the client's lock and in progress functions. A client
 * that is refused and can wait drops its lock, calls phys_reclaim(), and takes again:
 *
 *	while ((err = phys_take(client, bytes, &chunk)) == -EAGAIN)
 *		if (!phys_reclaim(client, bytes))
 *			return -ENOMEM;
 *
 * Who is asked gives what it holds without need, and no more than is missing. Nobody who is asked
 * asks in turn, and nobody asks with a lock held; so no two can wait for each other.
 */
#ifndef WEIR_PHYS_PHYS_H
#define WEIR_PHYS_PHYS_H

#include <pthread.h>

#include "src/backend/machine.h"
#include "src/base/list.h"

#define PHYS_NAME_MAX 64u
#define PHYS_HOLDERS_MAX 320u /* bytes of a text that names all holders */
#define PHYS_NO_LIMIT UINT64_MAX

struct phys_client;

/*
 * Give back at least so many bytes of what the client holds idle, or all of it if that is less, and
 * as little more as its pieces allow. Called with no lock held, by any thread. It may take the
 * client's own lock and call the backend. It must not ask others, and not wait for work that
 * programs queued: what is in use stays.
 * @return bytes given back
 */
typedef uint64_t (*phys_give_fn)(struct phys_client *client, uint64_t bytes);

/*
 * One memory. held_bytes = the sum of held_bytes over its clients; asked is set only while
 * reclaiming is.
 */
struct phys_memory {
	struct backend *backend; /* these never change */
	uint32_t index;

	/* A leaf: no call of the backend or of a client is made under it, and no log. */
	pthread_mutex_t lock;
	pthread_cond_t changed;	  /* reclaiming or asked did */
	struct list_link clients; /* those that were asked longest ago first */
	uint64_t held_bytes;
	bool reclaiming;	   /* one call of phys_reclaim() is asking */
	struct phys_client *asked; /* by it, just now */
	uint64_t round;		   /* number of such calls so far */
	uint64_t given_bytes;	   /* to all of them */
};

/* Embedded in whoever holds physical memory. */
struct phys_client {
	struct list_link
		link; /* this and the rest: guarded by the memory's lock; or never change */
	struct phys_memory *memory;
	void *owner; /* for its give function */
	char name[PHYS_NAME_MAX];
	/* Mask of the devices whose copy engines use its chunks, as chunk_create() takes it; 0: all
	 * that reach the memory. The owner sets it before the client takes anything. */
	uint64_t devices;
	uint64_t held_bytes;   /* with what is being created and destroyed just now */
	uint64_t budget_bytes; /* nothing is taken beyond; PHYS_NO_LIMIT: it has none */
	uint64_t most_bytes; /* held_bytes is never more: the budget, or what it was lowered from */
	phys_give_fn give;   /* NULL: it is not asked */
	/* The client of whose budget its memory is, which keeps count of that; NULL: its own. */
	const struct phys_client *parent;
	uint64_t round; /* in which it was asked last */
};

/* The account of a machine's memory. NULL: there is no room for accounts; never for a machine that
 * had one before. */
struct phys_memory *phys_of(struct weir_machine *machine, uint32_t memory);

/* An account apart from a machine's. @return 0 or -ENOMEM */
int phys_memory_init(struct phys_memory *memory, struct backend *b, uint32_t index);
/* All clients are gone. */
void phys_memory_fini(struct phys_memory *memory);

/* Open an account that holds nothing, and is not asked yet. name: of the holder in messages, such
 * as "pool 'x'"; copied. */
void phys_client_add(struct phys_client *client, struct phys_memory *memory, const char *name,
		     uint64_t budget_bytes);
/* Set or take away (NULL) its parent, which outlives that. */
void phys_client_adopt(struct phys_client *client, const struct phys_client *parent);
/* From here on the client may be asked. */
void phys_client_start(struct phys_client *client, phys_give_fn give, void *owner);
/* From here on it is not. Blocks while it is being asked; the caller holds none of the locks that
 * its give function takes. Allowed for one that was not started. */
void phys_client_stop(struct phys_client *client);
/* Change the budget; it may be below what the client holds, which then gives back by itself. */
void phys_client_set_budget(struct phys_client *client, uint64_t budget_bytes);
/* Close the account of one that holds nothing and is not asked. */
void phys_client_del(struct phys_client *client);

/*
 * Create a chunk on the client's account. Any lock may be held. Takes what chunk_create takes.
 * @return 0, or, with the account as before:
 *   -EAGAIN  the machine has no room, and other clients hold some: phys_reclaim() may help
 *   -ENOMEM  beyond the budget; or there is no room, and nobody else holds any
 *   another  of the backend
 */
int phys_take(struct phys_client *client, uint64_t bytes, struct backend_chunk *out);
/* Destroy one. As chunk_destroy. */
void phys_put(struct phys_client *client, const struct backend_chunk *chunk);

/*
 * Ask the other clients, one after the other and those first that were asked longest ago, until the
 * memory has room for so many bytes or all were asked. One call at a time asks in a memory: others
 * wait for it, and return at once if it got something, since that may be enough for them as well.
 * client: who wants the room; it is not asked.
 * @return bytes given back by now; 0: nobody has anything
 * Blocks. No lock of weir's is held; not called by a progress function, nor by who is asked.
 */
uint64_t phys_reclaim(struct phys_client *client, uint64_t bytes);

/* The same of the client's children alone, for one who has reached its budget: so many bytes
 * whatever room the memory has. */
uint64_t phys_reclaim_own(struct phys_client *client, uint64_t bytes);

/* Bytes that a client holds. */
uint64_t phys_held(const struct phys_client *client);

/* Bytes that other clients hold. */
uint64_t phys_others(const struct phys_client *client);

/* Bytes that the memory has room for now, as far as the machine knows. */
uint64_t phys_room(const struct phys_memory *memory);

/* Who holds the memory, as text: "56.0 MiB in space 1, 2.0 MiB in pool 'x'"; or "nothing is held".
 * Cut where it does not fit. */
void phys_holders(struct phys_memory *memory, char text[PHYS_HOLDERS_MAX]);

/* 0 or -EUCLEAN, logged. */
int phys_check(struct phys_memory *memory);

#endif
