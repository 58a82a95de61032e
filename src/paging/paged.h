/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of paged memory as weir/paged.h has them, over the boundary to a machine:
 *
 *   paged_words.c   the words that kernels share, as the host reaches them
 *   paged_frames.c  the memory that frames lie in
 *   paged_near.c    ranges that lie in other GPUs' memory
 *   paged_auto.c    when pages come in where nobody knows how they will be used
 *   paged_home.c    the pool's own kernels: pages brought home, what agents left taken back
 *   paged_report.c  statistics, dumps
 *   paged_quiet.c   when the pool is not online, what kernels left behind
 *   paged_budget.c  more and fewer frames, by the budget and for others
 *   paged_run.c     brackets, waiting and watching
 *   paged_host.c    flush and drain, reading and writing by the host
 *   paged_space.c   ranges as ranges of a space
 *   paged_check.c   the walk that checks
 *   paged.c         made and destroyed, ranges
 *
 * They stand in order: a file uses those above it alone.
 *
 * A pool's words and frames are the device's memory, which the host reaches by copies alone: of a
 * simulated machine's, too, so that there is one way of doing it.
 */
#ifndef WEIR_PAGING_PAGED_H
#define WEIR_PAGING_PAGED_H

#include <pthread.h>

#include "src/core/kind.h"
#include "src/phys/phys.h"
#include "src/paging/view.h"
#include "weir/paged.h"

#define PAGED_COUNTS_NR ((size_t)WEIR_PAGED_STATS_NR * WEIR_PAGED_RANGES_MAX)
#define PAGED_ACCESS_MAX UINT16_MAX /* touches of one access */
#define PAGED_TRIES 4 /* where giving something back depends on a call that can fail */

/* In the device's memory, in one piece; slots and owners lie behind. */
struct paged_words {
	struct pt_shared shared;
	PT_ALIGNED(PT_LINE) uint64_t abort;
	PT_ALIGNED(PT_LINE) struct weir_paged_left left;
	PT_ALIGNED(PT_LINE) struct pt_range range[WEIR_PAGED_RANGES_MAX];
	PT_ALIGNED(PT_LINE) struct weir_paged_counts counts[PAGED_COUNTS_NR];
};

/* Addresses for all frames that there may be, with memory behind the first of them. */
struct paged_frames {
	uint8_t *base;
	uint64_t reserved_bytes;
	uint64_t unit; /* of one chunk */
	uint64_t nr_chunks, max_chunks;
	struct backend_chunk *chunk; /* max_chunks of them, nr_chunks mapped */
};

/* A range's home that is not the host's alone: chunks of several memories, in a row. */
struct paged_near {
	uint8_t *base;
	uint64_t reserved_bytes;
	uint64_t unit;		      /* of one chunk; a page is in one */
	uint64_t nr_chunks;	      /* mapped */
	struct backend_chunk chunk[]; /* in the order of their addresses */
};

/* What the host alone knows of a range. nr_pages in the view is 0: there is none. */
struct paged_range {
	void *host;			      /* weir's own allocation, or NULL */
	struct paged_near *near;	      /* or NULL: the CPU reaches its home */
	uint64_t before[WEIR_PAGED_EVENT_NR]; /* counts when it was added, */
	uint64_t told[WEIR_PAGED_EVENT_NR];   /* and those that weir_paged_sync() was told */
	char name[WEIR_NAME_MAX];
	struct range *in_space; /* NULL: the pool is in no space */
};

struct weir_paged {
	/* Nothing down to the lock ever changes. */
	struct weir_machine *machine;
	struct backend *backend;
	uint32_t device, memory, host_memory;
	stream_id_t side; /* for work of the pool's own */
	bool simulated;	  /* there is no native stream, and kernels end by themselves */
	const struct weir_paged_kernels *kernels;
	struct paged_words *words; /* in the device's memory */
	uint64_t max_frames, watch_ns;
	char name[WEIR_NAME_MAX];
	struct phys_client client;		       /* the account of frames: see phys.h */
	struct phys_client account[WEIR_MEMORIES_MAX]; /* of ranges, by memory */

	struct range_owner owner; /* in a space: see kind.h; guarded by the space's lock */

	/* Guards the rest; comes before the space's lock. Held while the pool's own copies and
	 * kernels are waited for, never while the program's are; calls of the backend and the log
	 * are allowed under it. */
	pthread_mutex_t lock;
	struct weir_paged_view view; /* as kernels get it */
	struct paged_range range[WEIR_PAGED_RANGES_MAX];
	struct paged_frames frames;
	uint64_t budget_frames; /* frames to have; the view's are fewer while others need memory */
	uint32_t growing;	/* calls that are taking memory for more */
	struct weir_space *space;	  /* NULL: none, or destroyed before the pool */
	struct weir_paged_counts *counts; /* as they were downloaded last */

	/* Online: open, or unfenced, or the fence is not reached. */
	bool open;	    /* a bracket is */
	uint32_t nr_named;  /* uses of it, where it is weir_begin()'s */
	bool unfenced;	    /* it was ended, and its fence could not be recorded */
	bool used;	    /* something was begun, ever: there may be pages in frames */
	bool settled;	    /* nothing was begun since what kernels left was looked at */
	bool busy;	    /* work on the side may not be done */
	stream_id_t stream; /* of the last bracket */
	fence_t fence;	    /* behind it; 0: reached */
	int wrong;	    /* what kernels did that weir_paged_sync() has not told */

	/* What watching saw last; see watch_counts(). */
	bool watching, stalled;
	uint64_t looked_ns, since_ns, nr_moved, nr_waits;
	uint64_t nr_stalls;
};

/* ---- paged_words.c */

/* Between the host and the device's memory, on the side; waits for it. 0 or an error of the
 * machine, as of all functions here that return int and say nothing else. Lock held, as for all. */
int paged_put(struct weir_paged *pool, void *to, const void *data, uint64_t bytes);
int paged_get(struct weir_paged *pool, void *data, const void *from, uint64_t bytes);
int paged_zero(struct weir_paged *pool, void *to, uint64_t bytes);

/* Download the counts, to pool->counts. */
int paged_counts_get(struct weir_paged *pool);

/* Call fn for all words of an array in the device's memory, read piece by piece, until it returns
 * an error. */
int paged_words_walk(struct weir_paged *pool, const uint64_t *from, uint64_t nr,
		     int (*fn)(void *arg, uint64_t i, uint64_t word), void *arg);

/* Bytes of all words. Allocate them, lay them out, and set them as they are at first. */
uint64_t paged_words_bytes(const struct weir_paged *pool);
int paged_words_make(struct weir_paged *pool);

/* Put a range, or none, in the place of one. */
int paged_range_set(struct weir_paged *pool, uint32_t i, const struct pt_range *range);

/* ---- paged_frames.c */

/* Addresses for so many bytes, no memory, and an account for it. 0 or -ENOMEM too. */
int paged_frames_reserve(struct weir_paged *pool, uint64_t max_bytes);
/* Bytes of memory that there are; those that are missing for so many. */
uint64_t paged_frames_bytes(const struct weir_paged *pool);
uint64_t paged_frames_missing(const struct weir_paged *pool, uint64_t bytes);
/* Ask the space alone for its budget of so many bytes; the caller has not its turn to place. Drops
 * the lock meanwhile. @return whether there is more now */
bool paged_frames_lend(struct weir_paged *pool, uint64_t bytes);
/* Ask for memory that is missing for so many bytes: the space, where its budget has no room, or
 * others of the machine. turn: the caller has the space's turn to place. Drops the lock meanwhile.
 * @return whether there is more now */
bool paged_frames_ask(struct weir_paged *pool, uint64_t bytes, bool turn);
/* Memory behind so many bytes. On an error what there was room for stays. -EAGAIN:
 * paged_frames_ask() may help. -ENOMEM: it does not. */
int paged_frames_grow(struct weir_paged *pool, uint64_t bytes);
/* And no more. Cannot fail: what stays mapped goes with a later call. */
void paged_frames_shrink(struct weir_paged *pool, uint64_t bytes);
/* Log why so many bytes of frames cannot be had, and who holds the memory. */
void paged_no_room(const struct weir_paged *pool, uint64_t bytes, int err);
void paged_frames_release(struct weir_paged *pool);

/* ---- paged_near.c */

/* Accounts for ranges' chunks, and no more of them: no range has any then. */
void paged_accounts_open(struct weir_paged *pool);
void paged_accounts_close(struct weir_paged *pool);

/* Whether near_bytes can be had on this machine. 0 or -EINVAL, logged. */
int paged_near_check(const struct weir_paged *pool, const struct weir_paged_range_config *config);

/* Take the memory of a range and map it; its contents are undefined. *out NULL: the config has no
 * near_bytes. Asks others for memory, so that no lock is held. 0, -ENOMEM, -EINVAL (more than a
 * memory has), or an error of the machine; logged where it is one of memory. */
int paged_near_make(struct weir_paged *pool, const struct weir_paged_range_config *config,
		    struct paged_near **out);
/* NULL is allowed. Cannot fail: what the machine does not unmap is logged, and stays. */
void paged_near_free(struct weir_paged *pool, struct paged_near *near);

/* Add bytes of a range to those of the memories that they are in. */
void paged_home_bytes(const struct weir_paged *pool, uint32_t i, uint64_t bytes[WEIR_MEMORIES_MAX]);

/* Copy between a range's home and a buffer, whatever the CPU reaches of it. */
int paged_home_get(struct weir_paged *pool, uint32_t i, void *data, const void *at, uint64_t bytes);
int paged_home_put(struct weir_paged *pool, uint32_t i, void *at, const void *data, uint64_t bytes);

/* ---- paged_home.c */

/* Nobody is online. Write back what is dirty in frames from `first` on, and with evict make them
 * free; wait for it. */
int paged_home(struct weir_paged *pool, uint64_t first, bool evict);

/* Queue on the bracket's stream, behind its kernels: take back the slots that agents left. */
int paged_slots_free(struct weir_paged *pool);

/* Nobody is online. Take back what agents left, and tell how much that was in all since the last
 * call that succeeded. */
int paged_settle(struct weir_paged *pool, struct weir_paged_left *left);

/* Wait for what may be under way on the side. */
int paged_side_wait(struct weir_paged *pool);

/* ---- paged_report.c */

void paged_dump(struct weir_paged *pool);

/* ---- paged_quiet.c */

/* A bracket that ended without a fence gets one. */
int paged_fence_late(struct weir_paged *pool);

/* 1: nobody is online; 0: somebody is, or may be; or the error of kernels, or of the machine. */
int paged_offline(struct weir_paged *pool);

/* Nobody is online any more: take back what agents left, note what they did wrong. */
int paged_take_back(struct weir_paged *pool);

/* Begin what needs that nobody is online; what kernels left is taken back. what: for the message.
 * -EBUSY, logged. */
int paged_quiet(struct weir_paged *pool, const char *what);

/* ---- paged_budget.c */

/* Take the frames again that were given to others, as many as there is room for; asks others, and
 * drops the lock meanwhile. What it cannot do now is left for the next time. */
void paged_frames_again(struct weir_paged *pool, bool turn);

/* What others ask the pool for, see phys_give_fn: the last frames, while nobody is online. Waits
 * for the pool's own kernel that brings their pages home. Takes the lock. */
uint64_t paged_give(struct phys_client *client, uint64_t bytes);

/* ---- paged_run.c. These take the lock. */

/* As weir_paged_begin(), without the view. named: for weir_begin(), which has the space's turn to
 * place: paged_bracket_close() ends it, with the lock. */
int paged_bracket_open(struct weir_paged *pool, struct weir_stream *stream, bool named);
int paged_bracket_close(struct weir_paged *pool);

/* Wait until the pool is not online, and watch meanwhile. 0: the lock is held. Else it is not:
 * -WEIR_ECONTRACT (a bracket is open, logged), or an error of the machine, or of the kernels. */
int paged_wait(struct weir_paged *pool);

/* ---- paged_space.c */

extern const struct range_kind paged_kind;

#endif
