/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes that learn (proof.h) share with the `weir run` that started them: the launch that
 * runs in each, and what ended it. A fault is seen by all threads of a process at once, and any of
 * them may end it, so that only who started it can keep what it was.
 */
#ifndef WEIR_SHIM_LEARN_H
#define WEIR_SHIM_LEARN_H

#include <stdatomic.h>
#include <stdint.h>

#include "shim/kernel_file.h"

#define LEARN_PROCESSES 64u
#define LEARN_LAUNCH_BYTES 512u

enum learn_state {
	LEARN_IDLE,
	LEARN_RUNS,  /* a launch that is to use nothing but what it names */
	LEARN_FAULT, /* it used more */
	LEARN_WAITS, /* it did not end */
};

/* Of one process. The others are valid unless the state is LEARN_IDLE. */
struct learn_slot {
	_Atomic(uint32_t) state;
	uint64_t code, places; /* its kernel's line */
	char name[KERNEL_NAME_BYTES];
	char launch[LEARN_LAUNCH_BYTES]; /* which one it is, as the beginning of a sentence */
	char why[KERNEL_WHY_BYTES];	 /* of the last two states */
};

/* Full of zeros at first. */
struct learn_shared {
	_Atomic(uint32_t) nr; /* processes that took a slot, or wanted one */
	struct learn_slot slot[LEARN_PROCESSES];
};

#endif
