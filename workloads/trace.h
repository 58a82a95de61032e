/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace is what a workload asked for between two moments: its launches with their uses, and the
 * lives of the memory they touch. It holds no addresses of the machine, no times that depend on
 * residency, and nothing of the manager that served it but where it had blocks, so that what can be
 * said of a trace without that holds for every manager.
 *
 * A trace is taken by a manager that forwards to another one (or to none) and records between
 * trace_manager_start() and trace_manager_stop().
 */
#ifndef WEIR_WORKLOADS_TRACE_H
#define WEIR_WORKLOADS_TRACE_H

#include "managers/manager.h"

#define TRACE_NEVER UINT32_MAX

/* One allocation, from alloc to free. */
struct trace_life {
	uint64_t bytes;
	uint32_t birth; /* steps recorded before it; TRACE_NEVER: alive before the trace */
	uint32_t death; /* steps recorded before its free; TRACE_NEVER: alive after the trace */
};

/* One use of one launch: struct weir_use with a place that outlives the run. */
struct trace_use {
	uint32_t life; /* index in lives[] */
	uint32_t granule;
	uint64_t offset; /* first byte, from the start of the life */
	uint64_t bytes;	 /* > 0; offset + bytes <= the life's bytes */
	uint64_t read_bytes, write_bytes;
	enum weir_use_kind kind;
	enum weir_use_pattern pattern;
};

/*
 * One launch. A write by the program (a copy from a buffer into allocated memory) is a step too,
 * without a kernel: one use, WEIR_DISCARD, because it ends the life of what was there.
 */
struct trace_step {
	const char *name;	     /* the kernel's, static text; NULL: no kernel */
	double ops;		     /* as in struct weir_launch */
	double compute_ns;	     /* measured time with everything in HBM; 0: not measured */
	uint32_t first_use, nr_uses; /* uses[first_use] ..; steps divide the uses in order */
};

/*
 * If the manager that served the trace moves blocks: where they were. Blocks are counted from the
 * start of a life; a life below block_bytes lies where nothing moves.
 */
struct trace {
	struct trace_step *steps;
	struct trace_use *uses;
	struct trace_life *lives;
	uint32_t nr_steps, nr_uses, nr_lives;
	uint64_t block_bytes; /* 0: the manager moves none */
	/* For each use of each kernel, in order: where each block was that it names, wholly or in
	 * part (enum manager_where). NULL: the manager moves none. */
	uint8_t *where;
	uint32_t nr_where;
};

/* Blocks that a part of a life has, wholly or in part. block_bytes > 0. */
static inline uint64_t trace_part_blocks(const struct trace *trace, uint64_t offset, uint64_t bytes)
{
	return (offset + bytes - 1) / trace->block_bytes - offset / trace->block_bytes + 1;
}

/* The use as it was declared, without its place; one that discards touches nothing. */
static inline struct weir_use trace_use_declared(const struct trace_use *use)
{
	bool touches = use->kind != WEIR_DISCARD;

	return (struct weir_use){
		.bytes = use->bytes,
		.kind = use->kind,
		.pattern = use->pattern,
		.read_bytes = touches ? use->read_bytes : 0,
		.write_bytes = touches ? use->write_bytes : 0,
		.granule = use->granule,
	};
}

/*
 * Check a trace: indexes, parts inside their lives, lives that are alive where they are used,
 * finite times. 0 or -EINVAL. A recorded trace passes; one built or read otherwise may not.
 */
int trace_check(const struct trace *trace);

/* NULL is allowed. */
void trace_destroy(struct trace *trace);

/*
 * Create a manager that forwards to inner, and owns it from then on. inner NULL: nothing runs;
 * allocation hands out addresses that must not be touched. On error inner is still the caller's.
 * -ENOMEM.
 */
int trace_manager_create(struct manager *inner, struct manager **out);

/* Told of an allocation, after it was made, and before it is freed of that: then name is NULL. */
typedef void (*trace_observer_fn)(void *arg, const void *addr, uint64_t bytes, const char *name);

/* Have somebody told of what is allocated from now on, whether it records or not. arg: borrowed. */
void trace_manager_observe(struct manager *m, trace_observer_fn fn, void *arg);

/*
 * Start recording, with nothing queued or between two launches; what is allocated now is alive
 * before. An inner manager that moves blocks says where each launch finds them. -EBUSY: it records
 * already. -ENOMEM.
 */
int trace_manager_start(struct manager *m);

/*
 * Stop recording. out: owned by the caller, trace_destroy() it.
 * -EINVAL: it does not record; or the first error of recording, -ENOMEM, -EINVAL (a launch used
 * memory that was not allocated through this manager), -E2BIG (more than 2^32 - 2 uses, or blocks
 * that uses name): then the
 * record is gone and recording has stopped.
 */
int trace_manager_stop(struct manager *m, struct trace **out);

#endif
