/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that pack elements by a list and unpack them. What the library carries is packet.ptx,
 * which tools/kernel-ptx makes of this: after a change, run it.
 *
 * A thread has groups of elements that are 16 bytes of the packet: their part of the list and of
 * the packet is one access each. Neighbours that lie together are one access, too.
 */
#include <stddef.h>

#include "src/backend/backend.h"
#include "src/backend/cuda/packet.h"

#define ACCESS_BYTES 16u

/* The launcher's, of whatever compiler it is. */
static_assert(sizeof(struct backend_packet) == 64 && offsetof(struct backend_packet, index) == 16 &&
		      offsetof(struct backend_packet, nr) == 24,
	      "struct backend_packet is another one: run tools/kernel-ptx");

/* So many elements are 16 bytes, which is what a thread has of a packet; the list of these. */
template <class T> struct group {
	static constexpr uint32_t nr = ACCESS_BYTES / sizeof(T);
	uint32_t at[nr];

	__device__ __forceinline__ void load(const uint32_t *list)
	{
		if constexpr (nr % 4 == 0) {
#pragma unroll
			for (uint32_t i = 0; i < nr; i += 4) {
				uint4 four = __ldcs((const uint4 *)(list + i));

				at[i] = four.x;
				at[i + 1] = four.y;
				at[i + 2] = four.z;
				at[i + 3] = four.w;
			}
		} else if constexpr (nr == 2) {
			uint2 two = __ldcs((const uint2 *)list);

			at[0] = two.x;
			at[1] = two.y;
		} else {
			at[0] = __ldcs(list);
		}
	}

	/* Lists ascend: the last one says whether all are neighbours. Then they are one access,
	 * where they are aligned to it. */
	__device__ __forceinline__ bool is_one(const T *elements) const
	{
		return at[nr - 1] - at[0] == nr - 1 &&
		       (uintptr_t)(elements + at[0]) % ACCESS_BYTES == 0;
	}
};

/* The elements of a group. */
template <class T> union packed {
	uint4 whole;
	T element[group<T>::nr];
};

/* One way or the other, between where an element lies and its copy in registers. */
template <bool unpack, class V> __device__ __forceinline__ void move(V *there, V *here)
{
	if constexpr (unpack)
		*there = *here;
	else
		*here = *there;
}

template <class T, bool unpack> __device__ __forceinline__ void run(const struct backend_packet &p)
{
	constexpr uint32_t each = group<T>::nr, unroll = PACKET_GROUPS(sizeof(T));
	T *elements = (T *)p.elements, *packet = (T *)p.packet;
	uint64_t nr_groups = p.nr / each, step = (uint64_t)gridDim.x * PACKET_BLOCK * unroll;
	uint64_t rest = nr_groups * each + threadIdx.x;

	for (uint64_t n = (uint64_t)blockIdx.x * PACKET_BLOCK * unroll + threadIdx.x; n < nr_groups;
	     n += step) {
		group<T> g[unroll];
		packed<T> x[unroll];

#pragma unroll
		for (uint32_t u = 0; u < unroll; u++)
			if (n + u * PACKET_BLOCK < nr_groups) {
				g[u].load(p.index + (n + u * PACKET_BLOCK) * each);
				if constexpr (unpack)
					x[u].whole = __ldcs((const uint4 *)packet + n +
							    u * PACKET_BLOCK);
			}
#pragma unroll
		for (uint32_t u = 0; u < unroll; u++) {
			if (n + u * PACKET_BLOCK >= nr_groups)
				break;
			if (g[u].is_one(elements)) {
				move<unpack>((uint4 *)(elements + g[u].at[0]), &x[u].whole);
				continue;
			}
#pragma unroll
			for (uint32_t i = 0; i < each; i++)
				move<unpack>(&elements[g[u].at[i]], &x[u].element[i]);
		}
#pragma unroll
		for (uint32_t u = 0; u < unroll && !unpack; u++)
			if (n + u * PACKET_BLOCK < nr_groups)
				((uint4 *)packet)[n + u * PACKET_BLOCK] = x[u].whole;
	}
	if (blockIdx.x == 0 && rest < p.nr)
		move<unpack>(&elements[p.index[rest]], &packet[rest]);
}

#define KERNELS(bytes, T)                                          \
	extern "C" __global__ void __launch_bounds__(PACKET_BLOCK) \
		weir_pack##bytes(struct backend_packet p)          \
	{                                                          \
		run<T, false>(p);                                  \
	}                                                          \
	extern "C" __global__ void __launch_bounds__(PACKET_BLOCK) \
		weir_unpack##bytes(struct backend_packet p)        \
	{                                                          \
		run<T, true>(p);                                   \
	}

KERNELS(1, uint8_t)
KERNELS(2, uint16_t)
KERNELS(4, uint32_t)
KERNELS(8, uint2)
KERNELS(16, uint4)
