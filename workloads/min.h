/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Belady's MIN for sets: the least number of copies in that a repeating sequence of steps can do
 * with, whoever decides what stays and whatever he knows of the future, when each step needs a set
 * of equal blocks resident at once and so many blocks fit. docs/oracle.md states it exactly and
 * proves it.
 *
 * A block that is not resident keeps its contents below. Bringing it up is a copy in, at any time
 * before the step that needs it; leaving costs nothing but a write-back where the contents are
 * needed and the copy below is not the same. Birth of contents is no copy in. An access in place
 * needs no residency, and is served by a resident block as well.
 *
 * Where a neighbour's memory may hold blocks, too, there are two such problems on the same
 * sequence: the fewest copies into the device's own memory, whose capacity is its own and which
 * come from the host or from the neighbour; and the fewest from the host to either, whose capacity
 * is both together. Where no access is in place at the neighbour, one way solves both; else the
 * former may be fewer than there can be.
 *
 * Knows nothing of launches, bytes or managers: see oracle.h for a run's trace.
 */
#ifndef WEIR_MIN_H
#define WEIR_MIN_H

#include <stdbool.h>
#include <stdint.h>

#define MIN_BLOCKS_MAX (UINT32_C(1) << 28)
#define MIN_STEPS_MAX (UINT32_C(1) << 30)

/* What a step does with one block; a step names a block once. */
struct min_access {
	uint32_t block : 28;
	uint32_t in_place : 1; /* it need not be resident */
	uint32_t birth : 1;    /* what it held before is not needed */
	uint32_t write : 1;    /* the copy below is then no longer the same */
	uint32_t near : 1;     /* with in_place: it must be in own or in the neighbour's memory */
};

/* Whose copies are counted. */
enum min_level {
	MIN_OWN,  /* into own memory; what is in place, also at the neighbour, needs none */
	MIN_BOTH, /* from the host; own memory and the neighbour's are one */
};

/* One period of a sequence that repeats without end. Arrays are the caller's. */
struct min_trace {
	uint32_t nr_blocks, nr_steps;	 /* at most the above; steps > 0 */
	const uint64_t *first;		 /* nr_steps + 1: step s has access[first[s]] up to, and */
	const struct min_access *access; /* without, access[first[s + 1]] */
};

struct min_count {
	uint64_t copy_ins;
	uint64_t write_backs; /* of this way to reach the fewest copies in, which keeps nothing for
			       * accesses in place alone; not the fewest there could be */
};

/* Opaque: MIN on its way through a trace. */
struct min;

/*
 * Begin with nothing resident. Borrows the trace. Takes some 4 bytes an access.
 * 0, -EINVAL (the trace is malformed: a block or step out of range, first[] not in order, a block
 * twice in a step, near without in_place), -ENOSPC (some step's set is larger than the capacity:
 * min_largest_set()), -ENOMEM.
 */
int min_create(const struct min_trace *trace, uint32_t capacity, enum min_level level,
	       struct min **out);
void min_destroy(struct min *min);

/* Go through the period once more. The sum over the first n periods is the least there is for
 * these n, for every n at once. */
void min_period(struct min *min, struct min_count *out);

/* What MIN comes down to in the long run, a period. */
struct min_steady {
	double copy_ins, write_backs;
	uint32_t nr_periods; /* that they are the mean of */
	bool exact;	     /* after these the same comes again; else the limit of work was met */
};

/* The mean of a period, without what the first ones take to warm up. Errors as min_create(). */
int min_steady(const struct min_trace *trace, uint32_t capacity, enum min_level level,
	       struct min_steady *out);

/* Blocks in the largest set that a step needs resident, and which step: the first such one. The
 * trace is not malformed. */
uint32_t min_largest_set(const struct min_trace *trace, enum min_level level, uint32_t *step);

#endif
