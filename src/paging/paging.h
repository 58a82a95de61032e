/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory with CPU threads as agents: the protocol of pt_step.h on real bytes. A pool has
 * frames of one page size and an epoch; ranges of a pool share its frames. The host's copy is the
 * caller's memory. docs/paging-protocol.md has the protocol and the contract.
 *
 * An agent is one thread between paging_enter() and paging_leave(), and its functions are called by
 * that thread alone. What needs that nobody is online returns -EBUSY otherwise, at once. Nothing
 * blocks, but for a page that another agent is copying at this moment.
 *
 * Visibility: an access sees what happens before it in the program, as long as no address from
 * before the synchronisation is used after it: get spans anew.
 */
#ifndef WEIR_PAGING_PAGING_H
#define WEIR_PAGING_PAGING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "weir/paging/view.h"
#include "weir/weir.h"

struct paging;
struct paging_agent;

#define PAGING_SPANS_MAX 8u /* of one agent at a time */

struct paging_config {
	uint32_t page_bytes;	/* 4, 8, 16 or 64 KiB */
	uint32_t max_agents;	/* online at a time; 1 to 2^16 */
	uint64_t nr_frames;	/* >= 1 */
	uint64_t max_frames;	/* that paging_set_frames() may give; 0: nr_frames */
	uint32_t quiesce_every; /* accesses between an agent's own quiescent points; 0: 64 */
	uint32_t yield_every;	/* for tests: of so many steps one yields the processor; 0: none */
};

struct paging_range_config {
	void *host;	/* borrowed until the pool is destroyed; aligned to 8 */
	uint64_t bytes; /* > 0; the last page may be cut short */
	uint32_t admit; /* a page is brought in at this touch; 0: at once; <= 2^20 */
	uint32_t late;	/* as struct weir_paged_range_config has it, */
	uint32_t whole; /* and this, */
	uint32_t word;	/* and this */
	bool read_only; /* the host's bytes do not change while an agent is online */
	bool fill_only; /* pages take frames that are free, and evict none */
};

/* Hits are not counted. */
struct paging_stats {
	uint64_t nr_in, nr_out; /* pages copied */
	uint64_t nr_in_place;
	uint64_t nr_waits, nr_scans;
	uint64_t nr_refused; /* outside a range, to a read-only one, or without pins left */
};

/* Pool. @return 0, -EINVAL: a figure out of range, -ENOMEM. */
int paging_create(const struct paging_config *config, struct paging **out);
/* Agents over words that are another's, who has made them and outlives the pool: weir_paged_begin()
 * gives them to a kernel on a simulated machine. No other pool over them has agents online. Of what
 * needs quiet nothing may be called: that is the owner's. @return 0, -ENOMEM. */
int paging_over(const struct weir_paged_view *view, uint32_t quiesce_every, struct paging **out);
/* Everybody has left. What is dirty is written to the host first, but by the words' owner alone.
 * NULL is allowed. */
void paging_destroy(struct paging *pool);
/* Ranges live as long as the pool. @return 0, -EINVAL, -ENOMEM, -ENOSPC: too many, -EBUSY */
int paging_range_add(struct paging *pool, const struct paging_range_config *config, uint32_t *out);

/* Come online. @return 0, -EAGAIN: all agents are online, -EBUSY: a function that needs quiet is in
 * the pool now */
int paging_enter(struct paging *pool, struct paging_agent **out);
/* @return 0, -EBUSY: it still holds spans, and stays online */
int paging_leave(struct paging_agent *agent);
/* Leave for an agent whose thread ended without: its spans are given back. No thread is in a call
 * with it. */
void paging_abandon(struct paging_agent *agent);
/* Pass a quiescent point, if no unpinned span is held; else nothing. Elements do so themselves. */
void paging_quiesce(struct paging_agent *agent);

/*
 * Elements of 1, 2, 4 or 8 bytes, aligned; racing accesses to one are whole. offset: bytes from the
 * range's begin.
 * @return 0, or, with nothing accessed:
 *   -EINVAL  no such range, outside it, not aligned, another size
 *   -EROFS   a write to a read-only range
 */
int paging_read(struct paging_agent *agent, uint32_t range, uint64_t offset, void *value,
		uint32_t bytes);
int paging_write(struct paging_agent *agent, uint32_t range, uint64_t offset, const void *value,
		 uint32_t bytes);
/* 4 or 8 bytes, relaxed. *old: what was there. paging_cas() stores if that was `expected`. */
int paging_add(struct paging_agent *agent, uint32_t range, uint64_t offset, uint32_t bytes,
	       uint64_t value, uint64_t *old);
int paging_cas(struct paging_agent *agent, uint32_t range, uint64_t offset, uint32_t bytes,
	       uint64_t expected, uint64_t value, uint64_t *old);
/* Any number of bytes, page by page. */
int paging_read_n(struct paging_agent *agent, uint32_t range, uint64_t offset, void *to,
		  uint64_t bytes);
int paging_write_n(struct paging_agent *agent, uint32_t range, uint64_t offset, const void *from,
		   uint64_t bytes);

/* Bytes up to the end of offset's page, at one address until put. */
struct paging_span {
	void *addr;
	uint64_t bytes;
	uint32_t number; /* of the agent's spans */
};
#define PAGING_WRITE 1u
#define PAGING_PIN 2u /* the agent may pass quiescent points while it is held */
/* With these: it counts as so many touches, up to 2^16 - 1. 0: as one. */
#define PAGING_TOUCHES(nr) ((unsigned)(nr) << 8)
/* @return 0, -EINVAL, -EROFS as for elements, -ENOSPC: PAGING_SPANS_MAX are held */
int paging_span_get(struct paging_agent *agent, uint32_t range, uint64_t offset, unsigned flags,
		    struct paging_span *out);
/* @return 0, -EINVAL: it is not held */
int paging_span_put(struct paging_agent *agent, const struct paging_span *span);

/* Hints for the pages that a part touches; contents never change by them. @return 0, -EINVAL */
int paging_prefetch(struct paging_agent *agent, uint32_t range, uint64_t offset, uint64_t bytes);
int paging_drop(struct paging_agent *agent, uint32_t range, uint64_t offset, uint64_t bytes);

/* From any thread, at any time: from now on pages are used where they are; or no longer so. */
void paging_abort(struct paging *pool, bool on);

/* What follows needs that nobody is online; -EBUSY otherwise, with nothing done. */

/* Write back what is dirty; pages stay. paging_drain(): and are evicted. */
int paging_flush(struct paging *pool);
int paging_drain(struct paging *pool);
/* @return also -EINVAL: 0, or more than max_frames */
int paging_set_frames(struct paging *pool, uint64_t nr_frames);
/* @return also -EINVAL: outside the range. Read-only ranges may be written so. */
int paging_host_read(struct paging *pool, uint32_t range, uint64_t offset, void *to,
		     uint64_t bytes);
int paging_host_write(struct paging *pool, uint32_t range, uint64_t offset, const void *from,
		      uint64_t bytes);
/* Walk all of it: every frame is free or owned by the one page whose entry says so, counts add up,
 * nothing is pinned or locked, clean pages equal the host's. 0, or -EUCLEAN, logged. Slow. */
int paging_check(struct paging *pool);

/* At any time; what is seen while agents run is of no one moment. */
void paging_stats(struct paging *pool, struct paging_stats *out);
/* Epoch, hands, who is online since which epoch, and pages by state. */
void paging_dump(struct paging *pool, FILE *to);

#endif
