/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How few copies in a traced period could have done with: MIN (min.h) on the blocks of a trace that
 * a manager served which moves blocks (trace.h). What it found resident in a launch must be
 * resident then; what it used in place may stay in place, though in a neighbour's memory or in the
 * device's own where it was in a neighbour's. docs/oracle.md says what counts as what.
 */
#ifndef WEIR_ORACLE_H
#define WEIR_ORACLE_H

#include "workloads/trace.h"

/* Blocks, and accesses of blocks by launches, in one period of the trace. */
struct oracle_result {
	double copy_ins;      /* into the device's memory: the least number */
	double write_backs;   /* out of it, that MIN has then; not the least number */
	double host_copy_ins; /* from the host, to the device or its neighbours: the least number */
	double host_write_backs; /* to the host, that MIN has then; not the least number */
	uint32_t nr_periods;	 /* that copy_ins is the mean of, in MIN's steady state */
	bool exact;		 /* else MIN found none for one of them, and they are estimates */
	uint32_t nr_blocks;	 /* of lives that move */
	uint32_t largest_set;	 /* that one launch found resident */
	/* Accesses. Those at a neighbour are among those in place, births among all. */
	uint64_t nr_resident, nr_in_place, nr_near, nr_births;
};

/*
 * Compute it. Takes memory in proportion to the blocks that launches name, 8 bytes each.
 *
 * trace: one period of something that repeats.
 * capacity: blocks that the device's memory holds.
 * near_capacity: blocks that its neighbours' memory holds besides; 0: none is used.
 * out: written on success only.
 *
 * 0, or -EINVAL: a malformed trace (trace_check()); -ENODATA: its manager moves no blocks;
 * -EXDEV: it is no period, since something lived before it and not after it, or the other way
 * round; -ENOSPC: a launch found more resident than the capacity,
 * or more there and at neighbours than both; -E2BIG: too many blocks; -ENOMEM.
 */
int oracle_compute(const struct trace *trace, uint64_t capacity, uint64_t near_capacity,
		   struct oracle_result *out);

#endif
