/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the workloads that touch a table, what a table contains, and in which order its
 * pages come. For the CPU and for CUDA. Each kernel is there twice: for a table at an address, and
 * for one that the kernel pages for itself.
 */
#ifndef WEIR_TOUCH_KERNELS_H
#define WEIR_TOUCH_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/paging/view.h"
#include "weir/weir.h"

#ifdef __CUDACC__
#define TOUCH_ANYWHERE static __host__ __device__ inline
#else
#define TOUCH_ANYWHERE static inline
#endif

enum touch_access { TOUCH_READ, TOUCH_WRITE, TOUCH_BOTH, TOUCH_ACCESS_NR };

#define TOUCH_LANES 32u	       /* of a warp */
#define TOUCH_SECTOR_BYTES 32u /* a touch, as far as pages are brought in by their number */

/* ------------------------------------------------------------------ contents */

/*
 * Word j of page p, written n times: mix(seed + p) + j * STEP + n * TIMES. The sum over a page is
 * then one multiplication, and a page at another's place, a word left out or written twice shows.
 */
#define TOUCH_STEP UINT64_C(0x9e3779b97f4a7c15)
#define TOUCH_TIMES UINT64_C(0xd1342543de82ef95)

/* SplitMix64's finalizer (Steele, Lea, Flood, 2014). */
TOUCH_ANYWHERE uint64_t touch_mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* The first word of a page; each other one is TOUCH_STEP more than that before it. */
TOUCH_ANYWHERE uint64_t touch_first(uint64_t seed, uint64_t page, uint64_t times)
{
	return touch_mix(seed + page) + times * TOUCH_TIMES;
}

/* What the i-th update adds. It goes to the word of that number, modulo their number. */
TOUCH_ANYWHERE uint64_t touch_update(uint64_t seed, uint64_t i)
{
	return touch_mix(~seed + i * TOUCH_STEP);
}

/* ------------------------------------------------------------------ orders */

/* Pages 0 to nr - 1, each once; the first nr_touched of this order are touched. */
struct touch_order {
	uint64_t nr, nr_touched;
	uint64_t stride;  /* from each to the next, modulo nr; has no divisor in common with it */
	uint32_t nr_bits; /* at random: the least with 2^nr_bits >= nr; 0: not at random */
};

/* One to one among numbers of nr_bits bits, since each step is: multiplying by an odd number,
 * folding the upper half down. */
TOUCH_ANYWHERE uint64_t touch_permute(uint64_t i, uint32_t nr_bits)
{
	const uint64_t mask = (UINT64_C(1) << nr_bits) - 1;
	const uint32_t fold = nr_bits / 2 + 1;

	i = i * TOUCH_STEP & mask;
	i ^= i >> fold;
	i = i * UINT64_C(0xbf58476d1ce4e5b9) & mask;
	i ^= i >> fold;
	return i * UINT64_C(0x94d049bb133111eb) & mask;
}

/* The i-th page. What is no page's number is permuted again until it is one: that is one to one
 * among those that are. */
TOUCH_ANYWHERE uint64_t touch_page_at(const struct touch_order *order, uint64_t i)
{
	if (!order->nr_bits)
		return i * order->stride % order->nr;
	do
		i = touch_permute(i, order->nr_bits);
	while (i >= order->nr);
	return i;
}

/* ------------------------------------------------------------------ kernels */

/* How a kernel is launched: of no account for results. */
struct touch_shape {
	uint32_t blocks, threads; /* on a GPU; blocks 0: as many as are resident */
	uint32_t agents;	  /* threads that page, on the CPU */
	int *status;		  /* on the CPU: set to an error of an agent; else left alone */
};

/*
 * Every word of every page that is touched once: read, and added to *sum; overwritten with what it
 * is after `times` writes; or both: read and added to the sum, then TOUCH_TIMES is added to it.
 * elements: word by word; else by whole pages.
 */
struct touch_pages_args {
	uint64_t *words; /* aligned to 16; not looked at where the table is paged */
	uint64_t *sum;	 /* memory that kernels reach at this address */
	struct touch_order order;
	uint64_t seed, times;
	uint32_t page_bytes;
	uint32_t access; /* enum touch_access */
	uint32_t elements;
	struct touch_shape shape;
};
extern const struct weir_kernel touch_kernel_pages;

/*
 * A launch that uses a range and has a temporary beside it: pages of the range as
 * touch_kernel_pages does it, in order; and meanwhile pages of the temporary are overwritten, each
 * at least once.
 */
struct touch_layer_args {
	struct touch_pages_args range;	   /* whole, not by elements */
	struct touch_pages_args temporary; /* TOUCH_WRITE of the same page_bytes; no sum */
	uint64_t nr_written;		   /* pages of the temporary, in all; at least its own */
};
extern const struct weir_kernel touch_kernel_layer;

/* words[u % nr_words] += u for the updates u from 0 to nr - 1; each addition is atomic. */
struct touch_updates_args {
	uint64_t *words;
	uint64_t nr_words; /* a power of two */
	uint64_t nr, seed;
	struct touch_shape shape;
};
extern const struct weir_kernel touch_kernel_updates;

/* The same on range `range` of a pool. */
struct touch_paged_pages_args {
	struct weir_paged_view view;
	uint32_t range;
	struct touch_pages_args pages;
};
extern const struct weir_kernel touch_kernel_paged_pages;

struct touch_paged_updates_args {
	struct weir_paged_view view;
	uint32_t range;
	struct touch_updates_args updates;
};
extern const struct weir_kernel touch_kernel_paged_updates;

#endif
