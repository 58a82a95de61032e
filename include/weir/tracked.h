/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that are noted: which lines of 128 bytes of an array a kernel reads, as a bit for each. A
 * kernel that finds its elements by an index, as a gather does, learns so what it reads without
 * saying it beforehand.
 *
 *     x = weir_tracked_load<float>(tracked, index);                        // in a CUDA kernel
 *     x = *(const float *)weir_tracked_at(&tracked, 4 * (uint64_t)index);  // in one on the CPU
 *
 * A line that is noted already costs one more read, of its bit, mostly from the multiprocessor's
 * own cache; only the first read of a line changes anything. Threads need no order among each
 * other. When the kernel is done, each line that it read has its bit; none is taken back.
 */
#ifndef WEIR_TRACKED_H
#define WEIR_TRACKED_H

#include <stdint.h>

#define WEIR_TRACKED_LINE_BYTES 128u

/** An array and its lines' bits. To be passed to kernels by value. */
struct weir_tracked {
	const void *base;    /**< the array, as the kernel reaches it: at the beginning of a line */
	uint32_t *line_bits; /**< line n's is bit n % 32 of word n / 32; all 0 at first */
};

#ifdef __CUDACC__
#define WEIR_TRACKED_FN static __host__ __device__ inline
#else
#define WEIR_TRACKED_FN static inline
#endif

/** Note the line of a byte. */
WEIR_TRACKED_FN void weir_tracked_note(const struct weir_tracked *tracked, uint64_t offset)
{
	uint64_t line = offset / WEIR_TRACKED_LINE_BYTES;
	uint32_t *word = &tracked->line_bits[line / 32], bit = UINT32_C(1) << line % 32;

#ifdef __CUDA_ARCH__
	uint32_t bits;
	unsigned int same;

	/* First in the multiprocessor's own cache: it may be old, but bits are only set. */
	asm volatile("ld.ca.u32 %0, [%1];" : "=r"(bits) : "l"(word));
	if (bits & bit)
		return;
	asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(bits) : "l"(word));
	if (bits & bit)
		return;
	/* Of the lanes that are here with this line, one. */
	same = __match_any_sync(__activemask(), line);
	if ((threadIdx.x + threadIdx.y * blockDim.x + threadIdx.z * blockDim.x * blockDim.y) % 32 ==
	    (unsigned int)__ffs((int)same) - 1)
		atomicOr(word, bit);
#else
	if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit))
		(void)__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
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
/** Element index of the array, of T. */
template <typename T>
__device__ static inline T weir_tracked_load(const struct weir_tracked &tracked, uint64_t index)
{
	static_assert(WEIR_TRACKED_LINE_BYTES % sizeof(T) == 0, "an element lies in one line");
	return *(const T *)weir_tracked_at(&tracked, index * sizeof(T));
}
}
#endif

#endif
