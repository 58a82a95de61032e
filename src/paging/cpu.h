/* SPDX-License-Identifier: Apache-2.0 */
/* The structures of paged memory on the CPU, shared by the cpu_*.c files of this folder alone. */
#ifndef WEIR_PAGING_CPU_H
#define WEIR_PAGING_CPU_H

#include "src/paging/paging.h"
#include "src/paging/view.h"
#include "weir/paging/pt_step.h"

struct cpu_span {
	uint64_t id;
	bool held, pinned;
	bool passing; /* in a frame that its agent's next quiescent point may let go */
};

/* Guarded by being one thread's, but for `used`. nr_passing: spans held that are so; while there is
 * one, no quiescent point is passed. */
struct paging_agent {
	PT_ALIGNED(PT_LINE) struct pt_agent a;
	struct paging *pool;
	uint64_t used; /* atomic: 0 or 1 */
	uint32_t nr_spans, nr_passing;
	bool in_frame; /* what it reached last is */
	uint32_t random;
	uint32_t nr_since; /* accesses since the last quiescent point */
	struct cpu_span span[PAGING_SPANS_MAX];
};

/* Set in the gate while a function that needs quiet runs. */
#define CPU_QUIET (1ull << 63)

/* What agents share, where the pool is the words' owner; counts as in the view. */
struct cpu_words {
	struct pt_shared shared;
	PT_ALIGNED(PT_LINE) uint64_t abort; /* atomic */
	struct weir_paged_counts counts[WEIR_PAGED_STATS_NR * WEIR_PAGED_RANGES_MAX];
};

/* The gate counts agents from before they come online until after they left. It admits either them
 * or one function that needs quiet, so what those change never changes under an agent. */
struct paging {
	PT_ALIGNED(PT_LINE) uint64_t gate;		 /* atomic */
	PT_ALIGNED(PT_LINE) struct weir_paged_view view; /* range: of paging_over() alone */
	struct cpu_words *words; /* NULL: words, ranges and frames are another's */
	uint64_t max_frames;	 /* that addresses are reserved for */
	uint32_t quiesce_every, yield_every;
	struct paging_agent *agent; /* of each slot */
};

/* 0, or -EINVAL, logged: the part is not inside a range. */
int cpu_part_check(const struct paging *pool, uint32_t range, uint64_t offset, uint64_t bytes);

/* Close the gate: nobody is online, and nobody comes. -EBUSY, logged. */
int cpu_quiet_begin(struct paging *pool, const char *what);
void cpu_quiet_end(struct paging *pool);

#endif
