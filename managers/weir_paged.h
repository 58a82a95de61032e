/* SPDX-License-Identifier: Apache-2.0 */
/* weir's paged mode as a manager: what weir_paged.c and weir_paged_sim.c share. */
#ifndef WEIR_MANAGERS_WEIR_PAGED_H
#define WEIR_MANAGERS_WEIR_PAGED_H

#include "managers/manager.h"

struct paged_manager_range {
	char *host; /* NULL: there is none of this number */
	uint64_t bytes;
	const char *name;
	uint64_t host_bytes, near_bytes[WEIR_MEMORIES_MAX]; /* of it, of the budgets */
	bool automatic;					    /* by weir_paged_range_auto() */
	bool paged; /* its number was asked for: kernels page it, and do not use it by address */
	/* What the last launch said of it: bytes of one access, and which ways. */
	uint64_t granule;
	bool reads, writes;
	/* Of launches before that said otherwise, simulated ones of all: accesses in place, and
	 * their bytes. */
	uint64_t nr_in_place, in_place_bytes[BACKEND_DIRECTION_NR];
};

enum paged_policy {
	PAGED_USUAL, /* automatically what kernels only read, the rest at once */
	PAGED_PAGE,  /* at once: bring in at the first touch, evict by second chance */
	PAGED_FILL,  /* bring in while there are free frames */
	PAGED_AUTO,  /* weir_paged_range_auto() */
};

struct paged_manager {
	struct manager base;
	struct weir_paged *pool;
	struct weir_stream *stream;
	enum paged_policy policy;
	uint32_t page_bytes;
	uint64_t nr_frames;
	uint32_t gpu_memory, host_memory;
	uint64_t host_budget_bytes, host_bytes; /* of ranges */
	/* Of other devices' memories: the share of each range, and what no range has. */
	double near_share[WEIR_MEMORIES_MAX];
	uint64_t near_left_bytes[WEIR_MEMORIES_MAX];
	uint64_t before_bytes[WEIR_MEMORIES_MAX], peak_bytes[WEIR_MEMORIES_MAX];
	struct paged_manager_range range[WEIR_PAGED_RANGES_MAX];
	struct weir_paged_view view;		/* of the last bracket */
	bool open;				/* it is */
	fence_t done;				/* behind the last launch */
	uint64_t home_bytes[WEIR_MEMORIES_MAX]; /* written back outside kernels, by memory */
	struct weir_paged_stats stats;		/* as they were got last */
	struct manager_stats gone;		/* of ranges that were freed */
};

/* What a launch says of a range, by all its uses. granule 0: nothing. */
struct paged_said {
	uint64_t read_bytes, write_bytes, granule;
	bool random;
};

/* a - b, or 0. */
static inline uint64_t paged_less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* The shares of other devices' memories. 0, or -EINVAL, logged: there are none. */
int paged_share_init(struct paged_manager *m, const struct manager_config *config);
/* What of a range of so many bytes is to be there, taken off the budgets; and given back.
 * @return the sum */
uint64_t paged_share_get(struct paged_manager *m, uint64_t bytes, uint64_t near[WEIR_MEMORIES_MAX]);
void paged_share_put(struct paged_manager *m, const uint64_t near[WEIR_MEMORIES_MAX]);

/* Add bytes that a range moved to those of the memories that it is in. */
void paged_split(const struct weir_paged_range_stats *s, uint64_t bytes,
		 uint64_t by_memory[WEIR_MEMORIES_MAX]);

/* The range that a use is of, if kernels page that; WEIR_PAGED_RANGES_MAX: none. */
uint32_t paged_use_range(const struct paged_manager *m, const struct weir_use *use);

/* Launch a kernel that pages on a simulated machine, and queue what takes its time. said: of all
 * ranges. As weir_stream_launch(), or -ENOMEM. Blocks until it has run. */
int paged_sim_launch(struct paged_manager *m, const struct weir_launch *launch,
		     const struct paged_said *said);

#endif
