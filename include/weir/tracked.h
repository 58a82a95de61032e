/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that are noted: which lines of 128 bytes of an array a kernel reads, as a mark for each. A
 * kernel that finds its elements by an index, as a gather does, learns so what it reads without
 * saying it beforehand.
 *
 *     x = weir_tracked_load<float>(tracked, index);                        // in a CUDA kernel
 *     x = *(const float *)weir_tracked_at(&tracked, 4 * (uint64_t)index);  // in one on the CPU
 *
 * On a GPU each noted read stores its line's mark, a byte, without looking at it first: a look
 * would cost more (measured on an H200: docs/results.md). A compiler moves no load past a store
 * that may be to the same memory. So what the kernel does not write, its indexes above all, is
 * better read by __ldg(), or through pointers that are const and __restrict__: loads of these are
 * moved past marks. A few elements that all threads read again and again are better not noted:
 * their marks are in one place, and are stored there one after the other.
 *
 * Threads need no order among each other. When the kernel is done, each line that it read has its
 * mark; none is taken back.
 */
#ifndef WEIR_TRACKED_H
#define WEIR_TRACKED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WEIR_TRACKED_LINE_BYTES 128u

/** An array and its lines' marks. To be passed to kernels by value. */
struct weir_tracked {
	const void *base; /**< the array, as the kernel reaches it: at the beginning of a line */
	uint8_t *mark;	  /**< mark[n]: 1 if line n was read; all 0 at first */
};

#ifdef __CUDACC__
#define WEIR_TRACKED_FN static __host__ __device__ inline
#else
#define WEIR_TRACKED_FN static inline
#endif

/** Note the line of a byte. */
WEIR_TRACKED_FN void weir_tracked_note(const struct weir_tracked *tracked, uint64_t offset)
{
	uint8_t *mark = &tracked->mark[offset / WEIR_TRACKED_LINE_BYTES];

#ifdef __CUDA_ARCH__
	asm volatile("st.relaxed.gpu.global.u8 [%0], %1;"
		     :
		     : "l"(__cvta_generic_to_global(mark)), "r"(1));
#else
	if (!__atomic_load_n(mark, __ATOMIC_RELAXED))
		__atomic_store_n(mark, 1, __ATOMIC_RELAXED);
#endif
}

/** Where a byte of the array is, whose line is noted. What is read there must not go beyond it. */
WEIR_TRACKED_FN const void *weir_tracked_at(const struct weir_tracked *tracked, uint64_t offset)
{
	weir_tracked_note(tracked, offset);
	return (const char *)tracked->base + offset;
}

#ifdef __CUDACC__
extern "C++" { /* also where a program includes this between extern "C" braces */
template <size_t bytes> struct weir_tracked_word;
template <> struct weir_tracked_word<1> {
	typedef unsigned char type;
};
template <> struct weir_tracked_word<2> {
	typedef unsigned short type;
};
template <> struct weir_tracked_word<4> {
	typedef unsigned int type;
};
template <> struct weir_tracked_word<8> {
	typedef uint2 type;
};
template <> struct weir_tracked_word<16> {
	typedef uint4 type;
};

/** Element index of the array, of T, which can be copied byte by byte. Nothing writes it while the
 * kernel runs: it is loaded as by __ldg(). */
template <typename T>
__device__ static inline T weir_tracked_load(const struct weir_tracked &tracked, uint64_t index)
{
	typedef typename weir_tracked_word<(sizeof(T) < 16 ? sizeof(T) : 16)>::type word;
	const word *from = (const word *)((const char *)tracked.base + index * sizeof(T));
	word words[sizeof(T) / sizeof(word)];
	T element;

	static_assert(WEIR_TRACKED_LINE_BYTES % sizeof(T) == 0, "an element lies in one line");
#pragma unroll
	for (size_t i = 0; i < sizeof(T) / sizeof(word); i++)
		words[i] = __ldg(from + i);
	weir_tracked_note(&tracked, index * sizeof(T));
	memcpy(&element, words, sizeof(element));
	return element;
}
}
#endif

#endif
