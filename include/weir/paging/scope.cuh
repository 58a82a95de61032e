/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects over weir/device.cuh, which includes this, so that a kernel leaves on every way out, asks
 * for elements of one type, and puts each span once.
 *
 *     weir_paged_scope scope(view);
 *     weir_paged_array<float> x(scope, range);
 *     for (...) {
 *             sum += x[i];
 *             scope.quiesce();
 *     }
 *
 * They add nothing: after inlining a kernel is as if written with the functions. The scope is a
 * variable of the kernel's own: one that lies in a struct beside an array that refers to it keeps
 * that struct in memory.
 */
#ifndef WEIR_PAGING_SCOPE_CUH
#define WEIR_PAGING_SCOPE_CUH

/*
 * A warp that is online as long as this lives: one a warp, made by all of its lanes together,
 * before any object that uses it. A lane that returns early waits at the end of the scope for the
 * others, which pass no quiescent point meanwhile (WEIR_PAGED_APART): let it go on with nothing to
 * do. Nobody may wait for it at a block's barrier then.
 */
class weir_paged_scope
{
      public:
	struct weir_paged_warp warp; /* for functions */

	/* As weir_paged_enter(). view: outlives it. */
	__device__ explicit weir_paged_scope(const struct weir_paged_view &view,
					     uint32_t lanes = ~0u)
	    : warp(weir_paged_enter(&view, lanes))
	{
	}
	__device__ ~weir_paged_scope()
	{
		weir_paged_leave(&warp);
	}
	weir_paged_scope(const weir_paged_scope &) = delete;
	weir_paged_scope &operator=(const weir_paged_scope &) = delete;

	__device__ void quiesce()
	{
		weir_paged_quiesce(&warp);
	}
	__device__ void quiesce_now()
	{
		weir_paged_quiesce_now(&warp);
	}
};

/* Elements from one on, up to the end of its page, at an address, as long as this lives: see
 * weir_paged_span_get(). Without PT_PIN its warp passes no quiescent point meanwhile. */
template <typename T> class weir_paged_span
{
	struct weir_paged_warp *warp;
	struct weir_paged_place place;

      public:
	__device__ weir_paged_span(weir_paged_scope &scope, uint32_t range, uint64_t index,
				   uint32_t op)
	    : warp(&scope.warp)
	{
		static_assert(4096 % sizeof(T) == 0, "an element lies in one page");
		weir_paged_span_get(warp, range, index * sizeof(T), op, &place);
	}
	__device__ ~weir_paged_span()
	{
		weir_paged_span_put(warp, &place);
	}
	weir_paged_span(const weir_paged_span &) = delete;
	weir_paged_span &operator=(const weir_paged_span &) = delete;

	/* NULL: outside the range, or it is read-only. */
	__device__ T *data() const
	{
		return (T *)place.addr;
	}
	__device__ T &operator[](uint32_t i) const
	{
		return data()[i];
	}
};

/* A range as elements of T; as many of these as a kernel has arrays. */
template <typename T> class weir_paged_array
{
	static_assert(4096 % sizeof(T) == 0,
		      "an element lies in one page: take its parts as elements, and read_row()");
	weir_paged_scope &scope;
	const uint32_t range;

      public:
	__device__ weir_paged_array(weir_paged_scope &online, uint32_t number)
	    : scope(online), range(number)
	{
	}
	__device__ uint64_t size() const
	{
		return scope.warp.view->range[range].bytes / sizeof(T);
	}
	/* What is outside reads as 0. An array is no lvalue: set() writes. */
	__device__ T operator[](uint64_t index) const
	{
		return get(index);
	}
	__device__ T get(uint64_t index) const
	{
		return weir_paged_read<T>(&scope.warp, range, index);
	}
	__device__ T get_once(uint64_t index) const
	{
		return weir_paged_read_once<T>(&scope.warp, range, index);
	}
	__device__ T get_near(struct weir_paged_cursor &cursor, uint64_t index) const
	{
		return weir_paged_read_near<T>(&scope.warp, &cursor, range, index);
	}
	template <uint32_t nr, bool again = true>
	__device__ void read_n(const uint64_t (&index)[nr], T (&value)[nr]) const
	{
		weir_paged_read_n<T, nr, again>(&scope.warp, range, index, value);
	}
	template <uint32_t apart, uint32_t nr>
	__device__ void read_row(uint64_t index, T (&value)[nr]) const
	{
		weir_paged_read_row<T, nr, apart>(&scope.warp, range, index, value);
	}
	/* @return whether it was written, as for add() */
	__device__ bool set(uint64_t index, T value) const
	{
		return weir_paged_write<T>(&scope.warp, range, index, value);
	}
	__device__ bool add(uint64_t index, T value, T *old = nullptr) const
	{
		return weir_paged_atomic_add<T>(&scope.warp, range, index, value, old);
	}
	__device__ void prefetch(uint64_t index) const
	{
		weir_paged_prefetch<T>(&scope.warp, range, index);
	}
	__device__ void drop(uint64_t index) const
	{
		weir_paged_drop<T>(&scope.warp, range, index);
	}
	__device__ weir_paged_span<T> span(uint64_t index, uint32_t op) const
	{
		return weir_paged_span<T>(scope, range, index, op);
	}
};

#endif
