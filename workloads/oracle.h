/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How few copies in a traced period could have done with: MIN (min.h) on the blocks of a trace that
 * a manager served which moves blocks (trace.h). What it found resident in a launch must be
 * resident then; what it used in place may stay in place. docs/oracle.md says what counts as what.
 */
#ifndef WEIR_ORACLE_H
#define WEIR_ORACLE_H

#include "workloads/trace.h"

/* Blocks, and accesses of blocks by launches, in one period of the trace. */
struct oracle_result {
	double copy_ins;      /* the least number */
	double write_backs;   /* that MIN has then; not the least number */
	uint32_t nr_periods;  /* that these are the mean of, in MIN's steady state */
	bool exact;	      /* else MIN found none, and they are estimates */
	uint32_t nr_blocks;   /* of lives that move */
	uint32_t largest_set; /* that one launch found resident */
	uint64_t nr_resident, nr_in_place, nr_births; /* accesses; births are among the others */
};

/*
 * Compute it. Takes memory in proportion to the blocks that launches name, 8 bytes each.
 *
 * trace: one period of something that repeats.
 * capacity: blocks that the device's memory holds.
 * out: written on success only.
 *
 * 0, or -EINVAL: a malformed trace (trace_check()); -ENODATA: its manager moves no blocks;
 * -EXDEV: it is no period, since something lived before it and not after it, or the other way
 * round; -ENOSPC: a launch found more resident than the capacity; -E2BIG: too many blocks; -ENOMEM.
 */
int oracle_compute(const struct trace *trace, uint64_t capacity, struct oracle_result *out);

#endif
