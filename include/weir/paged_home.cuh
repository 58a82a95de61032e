/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that a pool of paged memory has the GPU do itself, while nobody is online: include
 * this in one file that nvcc compiles, and give weir_paged_create() weir_paged_kernels_cuda.
 */
#ifndef WEIR_PAGED_HOME_CUH
#define WEIR_PAGED_HOME_CUH

#include <errno.h>

#include "weir/device.cuh"
#include "weir/paged.h"

/* By all threads of a grid: what the entries of pages in no frame count. Those in frames may be
 * drained meanwhile; either way an entry is what it is to be. */
__device__ static inline void weir_paged_touches_drain(const struct weir_paged_view &v,
						       uint32_t range)
{
	const struct pt_range *r = &v.range[range];
	uint64_t first = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;

	for (uint64_t i = first; r->admit > 1 && i < r->nr_pages;
	     i += (uint64_t)gridDim.x * blockDim.x) {
		uint64_t entry = r->entry[i];

		if (pt_state_of(entry) == PT_ABSENT)
			r->entry[i] = pt_drained(r, entry);
	}
}

/* A warp a frame: write back what is dirty; and evict it, so that filling begins anew. What a frame
 * holds its owner word says, so that the view's frames may be some of the pool's. */
__global__ static void weir_paged_home_kernel(const __grid_constant__ struct weir_paged_view v,
					      bool evict)
{
	uint64_t warp = (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x) / 32;
	uint64_t nr_warps = (uint64_t)gridDim.x * blockDim.x / 32;

	if (evict && !warp && !weir_paged_lane())
		v.table.shared->fill = 0;
	for (uint32_t r = 0; evict && r < v.table.nr_ranges; r++)
		weir_paged_touches_drain(v, r);
	for (uint64_t i = warp; i < v.table.nr_frames; i += nr_warps) {
		uint64_t owner = v.table.owner[i], entry;

		if (owner == PT_OWNER_FREE)
			continue;
		entry = *pt_entry_at(&v.table, owner - 1);
		if (entry & PT_DIRTY)
			weir_paged_copy(weir_paged_host(&v, owner - 1),
					weir_paged_frame(&v, (uint32_t)i),
					weir_paged_bytes(&v, owner - 1), ~0u);
		__syncwarp();
		if (weir_paged_lane())
			continue;
		if (entry & PT_DIRTY)
			weir_paged_count(&v, (uint32_t)warp, owner - 1, WEIR_PAGED_OUT);
		*pt_entry_at(&v.table, owner - 1) =
			evict ? pt_drained(&v.range[(owner - 1) >> PT_PAGE_BITS], entry)
			      : entry & ~PT_DIRTY;
		if (evict)
			v.table.owner[i] = PT_OWNER_FREE;
	}
}

/* A thread a slot, and a thread an entry: nobody is online, and nothing is pinned. What is above
 * the pins goes too: more of them may have been given back than there were. */
__global__ static void weir_paged_settle_kernel(const __grid_constant__ struct weir_paged_view v,
						struct weir_paged_left *left)
{
	uint64_t first = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
	uint64_t nr_threads = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t i = first; i <= v.table.nr_slots; i += nr_threads) {
		uint64_t nr = pt_slot_agents(v.table.slot[i]);

		if (!nr)
			continue;
		v.table.slot[i] = 0;
		atomicAdd((unsigned long long *)&left->nr_slots, (unsigned long long)nr);
	}
	for (uint32_t r = 0; r < v.table.nr_ranges; r++)
		for (uint64_t i = first; i < v.range[r].nr_pages; i += nr_threads) {
			uint64_t *entry = &v.range[r].entry[i];

			if (!pt_pins_of(*entry))
				continue;
			*entry &= PT_PIN_ONE - 1;
			atomicAdd((unsigned long long *)&left->nr_pages, 1ull);
		}
}

#ifdef __CUDACC__
#define WEIR_PAGED_HOME_BLOCKS 1024u
#define WEIR_PAGED_HOME_THREADS 256u

/* Blocks for so many threads of work. */
static inline unsigned weir_paged_home_blocks(uint64_t nr_threads)
{
	uint64_t nr = (nr_threads + WEIR_PAGED_HOME_THREADS - 1) / WEIR_PAGED_HOME_THREADS;

	return nr < WEIR_PAGED_HOME_BLOCKS ? (unsigned)(nr ? nr : 1) : WEIR_PAGED_HOME_BLOCKS;
}

static int weir_paged_home_launch(void *stream, const struct weir_paged_view *view, int evict)
{
	weir_paged_home_kernel<<<weir_paged_home_blocks(view->table.nr_frames * 32),
				 WEIR_PAGED_HOME_THREADS, 0, (cudaStream_t)stream>>>(*view, evict);
	return cudaGetLastError() == cudaSuccess ? 0 : -EIO;
}

static int weir_paged_settle_launch(void *stream, const struct weir_paged_view *view,
				    struct weir_paged_left *left)
{
	uint64_t most = view->table.nr_slots + 1ull;

	for (uint32_t r = 0; r < view->table.nr_ranges; r++)
		most = view->range[r].nr_pages > most ? view->range[r].nr_pages : most;
	weir_paged_settle_kernel<<<weir_paged_home_blocks(most), WEIR_PAGED_HOME_THREADS, 0,
				   (cudaStream_t)stream>>>(*view, left);
	return cudaGetLastError() == cudaSuccess ? 0 : -EIO;
}

static const struct weir_paged_kernels weir_paged_kernels_cuda = {weir_paged_home_launch,
								  weir_paged_settle_launch};
#endif

#endif
