/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that touch a table, on the GPU. Each is one template over two ways to the table, by
 * address and paged, with the same loops, width and unrolling: so what they differ by is paging.
 */
#include <stdint.h>

#include "weir/device.cuh"
#include "workloads/cuda_pool.cuh"
#include "workloads/touch/cuda/plugin.h"

#define SPAN_UNROLL 4u	  /* 16 bytes each */
#define ELEMENT_UNROLL 4u /* words */

/* Pages whose places a warp finds at once, a lane each: of so many bytes, since of large pages few
 * make what that takes small; and few enough for a warp to take pages in so many turns, so that all
 * warps end at about the same time. */
#define BATCH_BYTES (128u << 10)
#define BATCH_TURNS 16u

const char *touch_cuda_error(void)
{
	return cuda_launch_error();
}

uint64_t touch_cuda_abi(void)
{
	return touch_cuda_abi_here();
}

/* ---- two ways to a table */

struct bare {
	uint64_t *words;
	uint32_t page_bytes;

	__device__ uint64_t pages_max()
	{
		return ~0ull;
	}
	__device__ ulonglong2 *get(uint64_t page, bool)
	{
		return (ulonglong2 *)((char *)words + page * page_bytes);
	}
	__device__ void put()
	{
	}
	template <uint32_t nr>
	__device__ void read_n(const uint64_t (&index)[nr], uint64_t (&value)[nr])
	{
#pragma unroll
		for (uint32_t i = 0; i < nr; i++)
			value[i] = words[index[i]];
	}
	__device__ void write(uint64_t index, uint64_t value)
	{
		words[index] = value;
	}
	__device__ void add(uint64_t index, uint64_t value)
	{
		atomicAdd((unsigned long long *)words + index, (unsigned long long)value);
	}
	__device__ void quiesce()
	{
	}
};

struct paged {
	weir_paged_scope &scope;
	weir_paged_array<uint64_t> words;
	uint32_t range;
	struct weir_paged_place span; /* a lane's */

	/* That all warps together may hold, so that others find frames. */
	__device__ uint64_t pages_max()
	{
		return scope.warp.view->table.nr_frames / 4;
	}
	__device__ ulonglong2 *get(uint64_t page, bool write)
	{
		const uint32_t shift = scope.warp.view->page_shift;

		return (ulonglong2 *)weir_paged_span_get(
			&scope.warp, range, page << shift,
			(write ? PT_WRITE : PT_READ) |
				PT_TOUCHES((1u << shift) / TOUCH_SECTOR_BYTES),
			&span);
	}
	__device__ void put()
	{
		weir_paged_span_put(&scope.warp, &span);
	}
	template <uint32_t nr>
	__device__ void read_n(const uint64_t (&index)[nr], uint64_t (&value)[nr])
	{
		words.read_n(index, value);
	}
	__device__ void write(uint64_t index, uint64_t value)
	{
		words.set(index, value);
	}
	__device__ void add(uint64_t index, uint64_t value)
	{
		weir_paged_atomic_add<unsigned long long>(&scope.warp, range, index, value);
	}
	__device__ void quiesce()
	{
		scope.quiesce();
	}
};

/* ---- loops */

__device__ static inline uint64_t thread_nr()
{
	return blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
}

__device__ static inline uint64_t nr_threads()
{
	return (uint64_t)gridDim.x * blockDim.x;
}

__device__ static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Add up over a warp, all of whose lanes are here, and to *sum. */
__device__ static inline void sum_add(uint64_t *sum, uint64_t value)
{
	for (uint32_t apart = 16; apart; apart /= 2)
		value += __shfl_down_sync(~0u, value, apart);
	if (threadIdx.x % 32 == 0)
		atomicAdd((unsigned long long *)sum, (unsigned long long)value);
}

/* A page, 16 bytes a lane; at: NULL if there is none. @return what its lane read, added up */
template <uint32_t access>
__device__ static inline uint64_t page_span(const struct touch_pages_args &p, uint64_t page,
					    ulonglong2 *at)
{
	const uint64_t first = touch_first(p.seed, page, p.times);
	const uint32_t nr = p.page_bytes / sizeof(ulonglong2);
	uint64_t sum = 0;

#pragma unroll 1
	for (uint32_t j = threadIdx.x % 32; at && j < nr; j += 32 * SPAN_UNROLL) {
		ulonglong2 x[SPAN_UNROLL];

#pragma unroll
		for (uint32_t k = 0; k < SPAN_UNROLL && access != TOUCH_WRITE; k++)
			x[k] = at[j + k * 32];
#pragma unroll
		for (uint32_t k = 0; k < SPAN_UNROLL; k++) {
			if (access == TOUCH_WRITE) {
				x[k].x = first + 2 * (j + k * 32) * TOUCH_STEP;
				x[k].y = x[k].x + TOUCH_STEP;
			} else {
				sum += x[k].x + x[k].y;
				x[k].x += TOUCH_TIMES;
				x[k].y += TOUCH_TIMES;
			}
			if (access != TOUCH_READ)
				at[j + k * 32] = x[k];
		}
	}
	return sum;
}

/* The same for pages that follow each other in the order, nr of them, at most 32: a lane finds the
 * place of each, all lanes at the same time, since that takes much longer than a small page. */
template <uint32_t access, typename A>
__device__ static inline uint64_t page_spans(A &a, const struct touch_pages_args &p, uint64_t first,
					     uint32_t nr)
{
	const uint64_t page = touch_page_at(&p.order, first + threadIdx.x % 32 % nr);
	ulonglong2 *at = a.get(page, access != TOUCH_READ);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < nr; i++)
		sum += page_span<access>(
			p, __shfl_sync(~0u, page, (int)i),
			(ulonglong2 *)__shfl_sync(~0u, (unsigned long long)at, (int)i));
	a.put();
	a.quiesce();
	return sum;
}

/* The same word by word. */
template <uint32_t access, typename A>
__device__ static inline uint64_t page_elements(A &a, const struct touch_pages_args &p,
						uint64_t page)
{
	const uint64_t first = touch_first(p.seed, page, p.times);
	const uint32_t nr = p.page_bytes / sizeof(uint64_t);
	uint64_t sum = 0;

#pragma unroll 1
	for (uint32_t j = threadIdx.x % 32; j < nr; j += 32 * ELEMENT_UNROLL) {
		uint64_t index[ELEMENT_UNROLL], x[ELEMENT_UNROLL];

#pragma unroll
		for (uint32_t k = 0; k < ELEMENT_UNROLL; k++)
			index[k] = page * nr + j + k * 32;
		if (access != TOUCH_WRITE)
			a.template read_n<ELEMENT_UNROLL>(index, x);
#pragma unroll
		for (uint32_t k = 0; k < ELEMENT_UNROLL; k++) {
			if (access == TOUCH_WRITE)
				x[k] = first + (j + k * 32) * TOUCH_STEP;
			else
				sum += x[k];
			if (access != TOUCH_READ)
				a.write(index[k],
					access == TOUCH_WRITE ? x[k] : x[k] + TOUCH_TIMES);
		}
		a.quiesce();
	}
	return sum;
}

/* Pages that a warp takes in one turn. */
template <bool elements, typename A>
__device__ static inline uint32_t pages_batch(A &a, const struct touch_pages_args &p)
{
	const uint64_t nr_warps = nr_threads() / 32;
	const uint64_t turns = p.order.nr_touched / (nr_warps * BATCH_TURNS);
	const uint64_t most =
		least(least(32, BATCH_BYTES / p.page_bytes), a.pages_max() / nr_warps);
	const uint64_t nr = least(most, turns);

	return elements || !nr ? 1 : (uint32_t)nr;
}

template <uint32_t access, bool elements, typename A>
__device__ static inline void pages_body(A &a, const struct touch_pages_args &p)
{
	const uint32_t batch = pages_batch<elements>(a, p);
	const uint64_t nr = p.order.nr_touched;
	uint64_t sum = 0;

	for (uint64_t i = thread_nr() / 32 * batch; i < nr; i += nr_threads() / 32 * batch)
		sum += elements ? page_elements<access>(a, p, touch_page_at(&p.order, i))
				: page_spans<access>(a, p, i, (uint32_t)least(batch, nr - i));
	if (access != TOUCH_WRITE)
		sum_add(p.sum, sum);
}

template <uint32_t access, bool elements>
__global__ void __launch_bounds__(CUDA_LAUNCH_THREADS_MAX, 1)
	pages_bare(const __grid_constant__ struct touch_pages_args p)
{
	struct bare a = {p.words, p.page_bytes};

	pages_body<access, elements>(a, p);
}

template <uint32_t access, bool elements>
__global__ void __launch_bounds__(CUDA_LAUNCH_THREADS_MAX, 1)
	pages_paged(const __grid_constant__ struct touch_paged_pages_args p)
{
	weir_paged_scope scope(p.view);
	struct paged a = {scope, {scope, p.range}, p.range, {}};

	pages_body<access, elements>(a, p.pages);
}

/* A warp takes a page of the range, and then as many of the temporary as come with it. What several
 * warps write there is the same. */
template <uint32_t access>
__global__ void __launch_bounds__(CUDA_LAUNCH_THREADS_MAX, 1)
	layer_bare(const __grid_constant__ struct touch_layer_args p)
{
	struct bare range = {p.range.words, p.range.page_bytes};
	struct bare temporary = {p.temporary.words, p.temporary.page_bytes};
	const uint64_t nr = p.range.order.nr, nr_temporary = p.temporary.order.nr;
	uint64_t sum = 0;

	for (uint64_t i = thread_nr() / 32; i < nr; i += nr_threads() / 32) {
		const uint64_t end = (i + 1) * p.nr_written / nr;

		sum += page_span<access>(p.range, i, range.get(i, access != TOUCH_READ));
		for (uint64_t j = i * p.nr_written / nr; j < end; j++)
			page_span<TOUCH_WRITE>(p.temporary, j % nr_temporary,
					       temporary.get(j % nr_temporary, true));
	}
	sum_add(p.range.sum, sum);
}

template <typename A>
__device__ static inline void updates_body(A &a, const struct touch_updates_args &u)
{
	for (uint64_t i = thread_nr(); i < u.nr; i += nr_threads()) {
		uint64_t update = touch_update(u.seed, i);

		a.add(update & (u.nr_words - 1), update);
		a.quiesce();
	}
}

__global__ void __launch_bounds__(CUDA_LAUNCH_THREADS_MAX, 1)
	updates_bare(const __grid_constant__ struct touch_updates_args u)
{
	struct bare a = {u.words, 0};

	updates_body(a, u);
}

/* What it has more is for accesses that are no hits: warps are worth more here. */
__global__ void __maxnreg__(40)
	updates_paged(const __grid_constant__ struct touch_paged_updates_args p)
{
	weir_paged_scope scope(p.view);
	struct paged a = {scope, {scope, p.range}, p.range, {}};

	updates_body(a, p.updates);
}

/* ---- launches */

template <typename K, typename A>
static int launch(const char *name, K kernel, const struct touch_shape &shape, void *stream,
		  const A *args)
{
	if (shape.threads % 32)
		return cuda_launch_refused(name, "no whole warps");
	return cuda_launch(name, kernel, shape.blocks, shape.threads, stream, args);
}

static bool pages_valid(const struct touch_pages_args *p)
{
	return p->page_bytes >= 4096 && p->page_bytes % 4096 == 0 && p->order.nr && p->sum &&
	       p->access < TOUCH_ACCESS_NR;
}

/* The kernel for an access, by spans or by elements. */
#define BY_ACCESS(kernel, access, elements)                                   \
	((elements) ? ((access) == TOUCH_READ	 ? kernel<TOUCH_READ, true>   \
		       : (access) == TOUCH_WRITE ? kernel<TOUCH_WRITE, true>  \
						 : kernel<TOUCH_BOTH, true>)  \
		    : ((access) == TOUCH_READ	 ? kernel<TOUCH_READ, false>  \
		       : (access) == TOUCH_WRITE ? kernel<TOUCH_WRITE, false> \
						 : kernel<TOUCH_BOTH, false>))

int touch_cuda_pages(void *stream, const void *args)
{
	const struct touch_pages_args *p = (const struct touch_pages_args *)args;

	if (!pages_valid(p) || (uintptr_t)p->words % 16)
		return cuda_launch_refused("pages", "no such table");
	return launch("pages", BY_ACCESS(pages_bare, p->access, p->elements), p->shape, stream, p);
}

int touch_cuda_layer(void *stream, const void *args)
{
	const struct touch_layer_args *p = (const struct touch_layer_args *)args;
	const struct touch_pages_args *range = &p->range, *temporary = &p->temporary;

	if (!pages_valid(range) || (uintptr_t)range->words % 16 || range->elements ||
	    range->access == TOUCH_WRITE || !temporary->order.nr ||
	    (uintptr_t)temporary->words % 16 || temporary->page_bytes != range->page_bytes ||
	    p->nr_written < temporary->order.nr)
		return cuda_launch_refused("layer", "no such range or temporary");
	return launch("layer",
		      range->access == TOUCH_READ ? layer_bare<TOUCH_READ> : layer_bare<TOUCH_BOTH>,
		      range->shape, stream, p);
}

int touch_cuda_paged_pages(void *stream, const void *args)
{
	const struct touch_paged_pages_args *p = (const struct touch_paged_pages_args *)args;

	if (!pages_valid(&p->pages) || p->range >= WEIR_PAGED_RANGES_MAX ||
	    1u << p->view.page_shift != p->pages.page_bytes)
		return cuda_launch_refused("paged_pages", "no such table");
	return launch("paged_pages", BY_ACCESS(pages_paged, p->pages.access, p->pages.elements),
		      p->pages.shape, stream, p);
}

static bool updates_valid(const struct touch_updates_args *u)
{
	return u->nr_words && !(u->nr_words & (u->nr_words - 1));
}

int touch_cuda_updates(void *stream, const void *args)
{
	const struct touch_updates_args *u = (const struct touch_updates_args *)args;

	if (!updates_valid(u) || (uintptr_t)u->words % 8)
		return cuda_launch_refused("updates", "no such table");
	return launch("updates", updates_bare, u->shape, stream, u);
}

int touch_cuda_paged_updates(void *stream, const void *args)
{
	const struct touch_paged_updates_args *p = (const struct touch_paged_updates_args *)args;

	if (!updates_valid(&p->updates) || p->range >= WEIR_PAGED_RANGES_MAX)
		return cuda_launch_refused("paged_updates", "no such table");
	return launch("paged_updates", updates_paged, p->updates.shape, stream, p);
}

/* ---- of pools */

int touch_cuda_home(void *stream, const struct weir_paged_view *view, int evict)
{
	return cuda_pool_home(stream, view, evict);
}

int touch_cuda_settle(void *stream, const struct weir_paged_view *view,
		      struct weir_paged_left *left)
{
	return cuda_pool_settle(stream, view, left);
}
