/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other programs on the computer, as bench_training has them: threads that run endless loops, or
 * wait; and how the training's thread, which calls all of this, is preferred to them. A function
 * that fails returns a negative errno and leaves one line in why.
 */
#ifndef WEIR_BENCH_TRAINING_BUSY_H
#define WEIR_BENCH_TRAINING_BUSY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum priority_kind { PRIORITY_NONE, PRIORITY_NICE, PRIORITY_FIFO, PRIORITY_PIN };

struct priority {
	char name[16]; /* as on the command line */
	enum priority_kind kind;
	int nice; /* of PRIORITY_NICE: what setpriority() is given */
};

/* Create the threads, once; they wait. On failure, too, busy_stop() ends those there are. */
int busy_start(uint32_t nr, char *why, size_t why_bytes);
void busy_stop(void);

/* Returns when all of them run, or none does. */
void busy_switch(bool on);

/* Note how the calling thread runs now, which is what priority_unset() goes back to. */
int priority_init(char *why, size_t why_bytes);

/* The number of processors that this process could use as priority_init() was called. */
uint32_t priority_processors(void);

/*
 * Prefer the calling thread, and take that back. PRIORITY_PIN keeps it on the first processor that
 * the process may use, and the busy threads, as many as before, off that one. Threads that it
 * creates meanwhile inherit what it has; those that are there already stay as they are.
 */
int priority_set(const struct priority *priority, char *why, size_t why_bytes);
int priority_unset(const struct priority *priority, char *why, size_t why_bytes);

#endif
