/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: of a large allocation, the part that a launch is taken to use. A loop over slices of a
 * tensor launches a kernel with a pointer into the tensor that moves on by the size of a slice
 * each time. When it did so three times in a row, by the same distance, launches with that pointer
 * are taken to use as much from there on, wherever the next loop begins, until a launch
 * contradicts twice in a row. It is a guess: the kernel may use all of the allocation, so who
 * moves memory by it keeps the rest in reach.
 *
 * What is known belongs to one kernel, by the place of the pointer in its parameters and the
 * allocation that it leads to.
 *
 * Threads: any call in any threads at once; launches of one kernel in several threads may spoil
 * the guess for each other, and nothing else.
 */
#ifndef WEIR_SHIM_WINDOWS_H
#define WEIR_SHIM_WINDOWS_H

#include <pthread.h>
#include <stdint.h>

/* Places and allocations of a kernel that are told apart; one that never moved on makes room for
 * others, or else the one seen longest ago. */
#define WINDOWS_MAX 16u
/* Allocations of fewer bytes, and of fewer windows, are named whole; and so are windows that may be
 * looked at for addresses (EVIDENCE_BYTES_MAX). */
#define WINDOWS_RANGE_MIN (UINT64_C(64) << 20)
#define WINDOWS_IN_RANGE 3u
#define WINDOWS_BYTES_MIN (UINT64_C(128) << 10)

struct window {
	uint32_t agreed, missed; /* steps of that distance in a row; and of others since */
	uint64_t at, distance;
	uint64_t seen; /* the number of the kernel's note that saw it last */
};

/* All zeros but for the lock to begin with. */
struct windows {
	pthread_mutex_t lock;
	uint64_t nr;
	/* The allocation's serial, shifted by 16, and the place; 0: there is none. By themselves,
	 * as launches are seldom and find nothing of this in the processor's caches. */
	uint64_t key[WINDOWS_MAX];
	struct window window[WINDOWS_MAX];
};

struct windows *windows_create(void); /* NULL: no memory */
void windows_destroy(struct windows *windows);

/**
 * Note a launch's pointer.
 *
 * @param [in] place   Where it stands in the parameters, below 2^16.
 * @param [in] serial  The allocation's, not 0, and below 2^48.
 * @param [in] at      Its distance from the allocation's beginning.
 * @param [in] bytes   The allocation's size.
 * @return how much from there on the launch is taken to use, no more than there is; 0: not known,
 *         or all of it
 */
uint64_t windows_note(struct windows *windows, uint32_t place, uint64_t serial, uint64_t at,
		      uint64_t bytes);

#endif
