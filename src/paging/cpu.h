/* SPDX-License-Identifier: Apache-2.0 */
/* The structures of paged memory on the CPU, shared by the cpu_*.c files of this folder alone. */
#ifndef WEIR_PAGING_CPU_H
#define WEIR_PAGING_CPU_H

#include "src/paging/paging.h"
#include "weir/paging/pt_step.h"

struct cpu_span {
	uint64_t id;
	bool held, pinned;
};

/* Guarded by being one thread's, but for `used`. nr_unpinned: spans held without a pin; while there
 * is one, no quiescent point is passed. */
struct paging_agent {
	PT_ALIGNED(PT_LINE) struct pt_agent a;
	struct paging *pool;
	uint64_t used; /* atomic: 0 or 1 */
	uint32_t nr_spans, nr_unpinned;
	uint32_t random;
	uint32_t nr_since; /* accesses since the last quiescent point */
	struct cpu_span span[PAGING_SPANS_MAX];
	struct paging_stats stats;
};

/* Set in the gate while a function that needs quiet runs. */
#define CPU_QUIET (1ull << 63)

/* The gate counts agents from before they come online until after they left. It admits either them
 * or one function that needs quiet, so what those change never changes under an agent. */
struct paging {
	struct pt_shared shared;
	PT_ALIGNED(PT_LINE) uint64_t gate; /* atomic */
	uint64_t abort;			   /* atomic */
	struct paging_stats stats;	   /* atomic, each field */
	struct pt_table table;
	uint8_t *frames; /* reserved for max_frames */
	uint64_t page_bytes, max_frames;
	uint32_t quiesce_every, yield_every;
	struct paging_agent *agent; /* of each slot */
};

static inline uint8_t *cpu_frame(const struct paging *pool, uint64_t frame)
{
	return pool->frames + frame * pool->page_bytes;
}

static inline uint8_t *cpu_host(const struct paging *pool, uint64_t id)
{
	return (uint8_t *)pool->table.range[id >> PT_PAGE_BITS].host +
	       (id & (PT_PAGE_MAX - 1)) * pool->page_bytes;
}

/* Bytes of the page; the last one of a range may be cut short. */
static inline uint64_t cpu_page_bytes(const struct paging *pool, uint64_t id)
{
	uint64_t left = pool->table.range[id >> PT_PAGE_BITS].bytes -
			(id & (PT_PAGE_MAX - 1)) * pool->page_bytes;

	return left < pool->page_bytes ? left : pool->page_bytes;
}

/* 0, or -EINVAL, logged: the part is not inside a range. */
int cpu_part_check(const struct paging *pool, uint32_t range, uint64_t offset, uint64_t bytes);

/* Close the gate: nobody is online, and nobody comes. -EBUSY, logged. */
int cpu_quiet_begin(struct paging *pool, const char *what);
void cpu_quiet_end(struct paging *pool);

/* With the gate closed: write the page in this frame back if it is dirty, and evict it. */
void cpu_frame_clean(struct paging *pool, uint64_t frame);
void cpu_frame_evict(struct paging *pool, uint64_t frame);

#endif
