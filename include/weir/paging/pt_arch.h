/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The atomics that the paging protocol is written over, three times: CUDA device code, the CPU, and
 * a model checker, which takes one step at a time and needs none (PT_ARCH_MODEL).
 *
 * All words are 64 bits, naturally aligned, and shared by the agents of one device: on a GPU the
 * scope is the device. Orders are those of C11; PTX has the same under the same names. On the CPU
 * there is no stand-alone fence, since the thread sanitizer does not know them: pt_fence_sc() is a
 * read-modify-write of a word that all callers share, which orders them as a fence does.
 */
#ifndef WEIR_PAGING_PT_ARCH_H
#define WEIR_PAGING_PT_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PT_FN static __host__ __device__ inline
#else
#define PT_FN static inline
#endif

/*
 * Deliberate faults, for the tests that must notice them: compiled in only by those tests.
 *
 *   1  a grace period of 2 epochs         2  no second look at the epoch when coming online
 *   3  write-back before the grace        4  no host pin for what is changed in place
 *   5  a limbo page is read on the host   6  pins are ignored by eviction
 *   7  a write does not set DIRTY         8  a claim does not look at what it replaces
 *   9  publish before the copy           10  DIRTY is cleared after the copy, with no state for it
 *  11  a frame is taken without compare  12  a claim overlooks host pins
 *  13  publishing does not release       14  a quiescent point does not release
 *  15  touching a page that is being loaded goes in place
 *  16  a frame to fill is taken without compare
 *  17  what is only filled is taken for read-only: no host pin
 *  18  a scan overlooks guests         19  a dropped page's tag is one epoch early
 *  20  a warp passes a quiescent point with spans held (weir/device.cuh)
 *  21  no host pin once frames are used up, by an entry from before that was seen
 *
 * 13 and 14 are wrong in memory order only: the thread sanitizer must notice them.
 */
#ifndef PT_MUTANT
#define PT_MUTANT 0
#endif

#if defined(__CUDA_ARCH__)

enum pt_order { PT_RELAXED, PT_ACQUIRE, PT_RELEASE, PT_ACQ_REL };

PT_FN uint64_t pt_load(const uint64_t *word, enum pt_order order)
{
	uint64_t value;

	if (order == PT_RELAXED)
		asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	else
		asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

/* Of a word that the host writes. */
PT_FN uint64_t pt_load_host(const uint64_t *word)
{
	uint64_t value;

	asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

PT_FN void pt_store(uint64_t *word, uint64_t value, enum pt_order order)
{
	if (order == PT_RELAXED)
		asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
	else
		asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/* Acquire and release. *old becomes what was there. */
PT_FN bool pt_cas(uint64_t *word, uint64_t *old, uint64_t value)
{
	uint64_t expected = *old;

	asm volatile("atom.acq_rel.gpu.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(*old)
		     : "l"(word), "l"(expected), "l"(value)
		     : "memory");
	return *old == expected;
}

PT_FN uint64_t pt_add(uint64_t *word, uint64_t value, enum pt_order order)
{
	uint64_t old;

	if (order == PT_RELAXED)
		asm volatile("atom.relaxed.gpu.add.u64 %0, [%1], %2;"
			     : "=l"(old)
			     : "l"(word), "l"(value)
			     : "memory");
	else
		asm volatile("atom.acq_rel.gpu.add.u64 %0, [%1], %2;"
			     : "=l"(old)
			     : "l"(word), "l"(value)
			     : "memory");
	return old;
}

PT_FN void pt_fence_sc(uint64_t *common)
{
	(void)common;
	asm volatile("fence.sc.gpu;" ::: "memory");
}

#elif defined(PT_ARCH_MODEL)

enum pt_order { PT_RELAXED, PT_ACQUIRE, PT_RELEASE, PT_ACQ_REL };

PT_FN uint64_t pt_load(const uint64_t *word, enum pt_order order)
{
	(void)order;
	return *word;
}

PT_FN uint64_t pt_load_host(const uint64_t *word)
{
	return *word;
}

PT_FN void pt_store(uint64_t *word, uint64_t value, enum pt_order order)
{
	(void)order;
	*word = value;
}

PT_FN bool pt_cas(uint64_t *word, uint64_t *old, uint64_t value)
{
	uint64_t expected = *old;

	*old = *word;
	if (*old == expected)
		*word = value;
	return *old == expected;
}

PT_FN uint64_t pt_add(uint64_t *word, uint64_t value, enum pt_order order)
{
	uint64_t old = *word;

	(void)order;
	*word = old + value;
	return old;
}

PT_FN void pt_fence_sc(uint64_t *common)
{
	(void)common;
}

#else

enum pt_order {
	PT_RELAXED = __ATOMIC_RELAXED,
	PT_ACQUIRE = __ATOMIC_ACQUIRE,
	PT_RELEASE = __ATOMIC_RELEASE,
	PT_ACQ_REL = __ATOMIC_ACQ_REL,
};

/* Constants, so that no compiler takes an order that it cannot see for the strongest. */
PT_FN uint64_t pt_load(const uint64_t *word, enum pt_order order)
{
	return order == PT_RELAXED ? __atomic_load_n(word, __ATOMIC_RELAXED)
				   : __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

PT_FN uint64_t pt_load_host(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

PT_FN void pt_store(uint64_t *word, uint64_t value, enum pt_order order)
{
	if (order == PT_RELAXED)
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
	else
		__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

PT_FN bool pt_cas(uint64_t *word, uint64_t *old, uint64_t value)
{
	return __atomic_compare_exchange_n(word, old, value, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

PT_FN uint64_t pt_add(uint64_t *word, uint64_t value, enum pt_order order)
{
	return order == PT_RELAXED ? __atomic_fetch_add(word, value, __ATOMIC_RELAXED)
				   : __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}

PT_FN void pt_fence_sc(uint64_t *common)
{
	__atomic_fetch_add(common, 1, __ATOMIC_SEQ_CST);
}

#endif

#endif
