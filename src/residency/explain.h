/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weir_space_explain() says, as numbers: the text, the results of benchmarks and their reports
 * are all made from these. Means of a period of the program; docs/explain.md says what each is.
 */
#ifndef WEIR_RESIDENCY_EXPLAIN_H
#define WEIR_RESIDENCY_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "weir/weir.h"

#define EXPLAIN_NAME_BYTES 64

/* What each chunk of a device's own memory is for that the space may have. */
enum explain_room {
	EXPLAIN_LIVE,	/* contents that are needed, at rest */
	EXPLAIN_DEAD,	/* contents that are not, of ranges in use and of freed ones */
	EXPLAIN_COMING, /* a copy into it is under way: the block has another chunk as well */
	EXPLAIN_GOING,	/* a copy out of it is */
	EXPLAIN_ARENAS, /* small allocations are cut from it */
	EXPLAIN_OTHERS, /* replicated and paged ranges, other devices' blocks, lower copies */
	EXPLAIN_SPARE,	/* none: it is free, or was never asked for */
	EXPLAIN_ROOM_NR
};

/* "live", ... Static. */
const char *explain_room_name(enum explain_room room);

/* A stage of a plan, or the sum of all of them. Times in nanoseconds. */
struct explain_stage {
	char name[EXPLAIN_NAME_BYTES]; /* the kernel of a bracket; "": not known, or a sum */
	uint32_t nr_brackets;
	double planned_ns, measured_ns, kernels_ns; /* kernels_ns: part of measured_ns */
	double brought, ahead, late, out;	    /* blocks */
	double calls, calls_ns;			    /* mapping calls, and the host's time in them */
	/* Chunks as its first bracket begins, placed; their sum is the budget, or what is held
	 * beyond a lowered one. All 0: not known; of a sum they are. filled: of those of arenas,
	 * what allocations fill. */
	double room[EXPLAIN_ROOM_NR], filled;
};

/* One device of the space. */
struct explain_device {
	char name[WEIR_NAME_MAX];
	const char *why;   /* why there is no plan, static text; NULL: there is one, and */
	bool suspended;	   /* what the program does now differs from it */
	uint32_t nr_moves; /* that the plan makes in a period */
	uint64_t chunk_bytes;
	double modelled_ns, compute_ns; /* a period under the plan; the same, all resident */
	uint32_t nr_stages;
	struct explain_stage *stage; /* nr_stages of them; owned */
	struct explain_stage sum;
};

struct explain {
	uint32_t nr_devices;
	struct explain_device device[];
};

/* Time of a stage in which the device had nothing to do. */
static inline double explain_waited_ns(const struct explain_stage *stage)
{
	return stage->measured_ns - stage->kernels_ns;
}

/* What is known now. Takes the space's lock. @return 0 (explain_free() it) or -ENOMEM. */
int explain_get(struct weir_space *space, struct explain **out);

/* NULL is allowed. */
void explain_free(struct explain *explain);

/* Write it as text for people. @return 0 or -EIO. */
int explain_print(const struct explain *explain, FILE *out);

#endif
