/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the algorithms on graphs, on the GPU. Expanding is one template over two ways to
 * the edges, by address and paged, with the same loops, width and unrolling: so what they differ
 * by is paging.
 *
 * A warp takes ITEMS_A_WARP items at a time. Those whose edges lie one after the other are a run,
 * which all lanes go through together, by whole lines of 128 bytes from the one that it begins in:
 * what a link moves best (Min, Mailthody, Qureshi et al., "EMOGI: Efficient Memory-access for
 * Out-of-memory Graph-traversal in GPUs", VLDB 2021). Where most vertices are active runs are long
 * and no line is read twice.
 */
#include <stdint.h>

#include "weir/device.cuh"
#include "workloads/cuda_pool.cuh"
#include "workloads/graph/cuda/plugin.h"
#include "workloads/graph/ops.h"

#define ITEMS_A_WARP 32u
#define LINES_AHEAD 4u /* loads of a lane under way */
#define VERTEX_THREADS 256

/* ---- two ways to edges */

struct bare {
	const struct graph_args *g;

	__device__ void begin()
	{
	}
	__device__ const uint32_t *neighbours(uint64_t edge, uint32_t)
	{
		return g->neighbour + edge;
	}
	__device__ const uint32_t *weights(uint64_t edge, uint32_t)
	{
		return g->weight + edge;
	}
	__device__ void put()
	{
	}
	__device__ void end()
	{
	}
};

struct paged {
	const struct graph_paged_args *a;
	struct weir_paged_warp w;
	struct weir_paged_place span[2];

	__device__ void begin()
	{
		w = weir_paged_enter(&a->view);
		span[1].addr = nullptr;
	}
	/* From an edge on, as many touches of its page as graph_touches() says. */
	__device__ const uint32_t *get(uint32_t range, uint64_t edge, uint32_t nr_touches,
				       struct weir_paged_place *place)
	{
		return (const uint32_t *)weir_paged_span_get(&w, range, edge * sizeof(uint32_t),
							     PT_READ | PT_TOUCHES(nr_touches),
							     place);
	}
	__device__ const uint32_t *neighbours(uint64_t edge, uint32_t nr_touches)
	{
		return get(a->neighbour, edge, nr_touches, &span[0]);
	}
	__device__ const uint32_t *weights(uint64_t edge, uint32_t nr_touches)
	{
		return get(a->weight, edge, nr_touches, &span[1]);
	}
	__device__ void put()
	{
		weir_paged_span_put(&w, &span[0]);
		if (a->args.weight)
			weir_paged_span_put(&w, &span[1]);
		weir_paged_quiesce(&w);
	}
	__device__ void end()
	{
		weir_paged_leave(&w);
	}
};

/* ---- expanding */

/* The sum over a warp, all of whose lanes are here; right in its first lane. */
__device__ static inline double warp_sum(double value)
{
	for (uint32_t apart = 16; apart; apart /= 2)
		value += __shfl_down_sync(~0u, value, apart);
	return value;
}

/* Items that a warp has, one a lane; `from` as graph_args has it. */
struct batch {
	struct graph_item mine;
	uint64_t from;
};

/* Sums of the vertices of a run, line after line. What lanes have in `open` belongs to the item
 * that the last line ended in. */
struct run_sums {
	double open;
	uint32_t owner; /* that item's lane */
	bool any;
};

__device__ static inline void sums_close(struct run_sums *s, const struct graph_args &g,
					 const struct batch &b)
{
	uint32_t vertex = __shfl_sync(~0u, b.mine.vertex, s->owner);
	double sum = warp_sum(s->open);

	if (s->any && threadIdx.x % 32 == 0)
		graph_add_double(&g.sum[vertex], sum);
	s->open = 0;
	s->any = true;
}

/* A line's values, one a lane; starts: the lanes that items begin at, if any; owner: each lane's
 * item. */
__device__ static inline void sums_add(struct run_sums *s, const struct graph_args &g,
				       const struct batch &b, uint32_t starts, uint32_t owner,
				       double value)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t first = __ffs(starts) - 1, last = 31 - __clz(starts);
	const uint32_t head = 31 - __clz(starts & ((2u << lane) - 1)); /* of the lane's item */
	uint32_t vertex;

	if (!starts) {
		s->open += value;
		return;
	}
	if (lane < first)
		s->open += value;
	sums_close(s, g, b);
	s->owner = __shfl_sync(~0u, owner, last);
	if (lane >= last)
		s->open = value;
	if (first == last)
		return;
	/* Items that begin and end within the line. */
	for (uint32_t apart = 1; apart < 32; apart *= 2) {
		double below = __shfl_up_sync(~0u, value, apart);

		if (lane >= first && lane >= head + apart)
			value += below;
	}
	vertex = __shfl_sync(~0u, b.mine.vertex, owner);
	if (lane >= first && lane < last && starts >> (lane + 1) & 1)
		graph_add_double(&g.sum[vertex], value);
}

/*
 * A run: items of the lanes first to first + nr - 1, whose edges lie one after the other within
 * GRAPH_PIECE of them. By all lanes, line by line, each once.
 */
template <uint32_t algorithm, typename A>
__device__ static inline void expand_run(A &a, const struct graph_args &g, const struct batch &b,
					 uint32_t first, uint32_t nr)
{
	const bool weighs = algorithm == GRAPH_SSSP && g.weight, owned = algorithm != GRAPH_BFS;
	const uint64_t begin = __shfl_sync(~0u, b.mine.begin, first);
	const uint32_t nr_edges =
		(uint32_t)(__shfl_sync(~0u, b.mine.begin + b.mine.nr, first + nr - 1) - begin);
	const uint32_t lane = threadIdx.x % 32, lead = (uint32_t)(begin % GRAPH_LINE_EDGES);
	const uint32_t nr_touches = graph_touches(begin, nr_edges);
	const uint32_t *neighbour = a.neighbours(begin, nr_touches);
	const uint32_t *weight = weighs ? a.weights(begin, nr_touches) : nullptr;
	/* Where this lane's item begins, from the beginning of the first line. */
	const uint32_t start = lane - first < nr ? (uint32_t)(b.mine.begin - begin) + lead : ~0u;
	struct run_sums sums = {0, 0, false};
	uint32_t before = first - 1; /* the item that the line before ended in */

#pragma unroll 1
	for (uint32_t line = 0; neighbour && line < lead + nr_edges; line += LINES_AHEAD * 32) {
		/* Lanes in front of the run have numbers that wrap. */
		const uint32_t j = line + lane - lead;
		uint32_t to[LINES_AHEAD], w[LINES_AHEAD];

#pragma unroll
		for (uint32_t k = 0; k < LINES_AHEAD; k++) {
			to[k] = j + k * 32 < nr_edges ? __ldcs(neighbour + (j + k * 32)) : 0;
			w[k] = weighs && j + k * 32 < nr_edges ? __ldcs(weight + (j + k * 32)) : 1;
		}
#pragma unroll
		for (uint32_t k = 0; k < LINES_AHEAD; k++) {
			uint32_t at = start - (line + k * 32), starts = 0, owner = 0, vertex = 0;
			uint64_t from = 0;
			double value = 0;

			if (line + k * 32 >= lead + nr_edges)
				break;
			if (owned) {
				starts = __reduce_or_sync(~0u, at < 32 ? 1u << at : 0);
				owner = before + __popc(starts & ((2u << lane) - 1));
				before += __popc(starts);
			}
			if (algorithm == GRAPH_CC)
				vertex = __shfl_sync(~0u, b.mine.vertex, owner);
			if (algorithm == GRAPH_SSSP)
				from = __shfl_sync(~0u, b.from, owner);
			if (j + k * 32 < nr_edges)
				value = graph_edge(&g, algorithm, vertex, from, to[k], w[k]);
			if (algorithm == GRAPH_PAGERANK)
				sums_add(&sums, g, b, starts, owner, value);
		}
	}
	__syncwarp();
	a.put();
	if (algorithm == GRAPH_PAGERANK)
		sums_close(&sums, g, b);
}

/* Items that no warp has taken, by all lanes: the first one's number. */
__device__ static inline uint64_t items_take(const struct graph_args &g)
{
	uint64_t first = 0;

	if (threadIdx.x % 32 == 0)
		first = graph_add(&g.control->next, ITEMS_A_WARP);
	return __shfl_sync(~0u, first, 0);
}

/* Items one a lane, run by run. */
template <uint32_t algorithm, typename A>
__device__ static inline void expand_batch(A &a, const struct graph_args &g, uint64_t first,
					   uint32_t nr)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint64_t mine = first + (lane < nr ? lane : 0);
	struct batch b = {g.item[mine], algorithm == GRAPH_SSSP ? g.from[mine] : 0};
	uint64_t end_before = __shfl_up_sync(~0u, b.mine.begin + b.mine.nr, 1);
	bool goes_on = lane && lane < nr && graph_goes_on(end_before, &b.mine);
	uint32_t starts = __ballot_sync(~0u, !goes_on && lane < nr);

#pragma unroll 1
	while (starts) {
		uint32_t at = __ffs(starts) - 1, next;

		starts &= starts - 1;
		next = starts ? __ffs(starts) - 1 : nr;
		expand_run<algorithm>(a, g, b, at, next - at);
	}
}

template <uint32_t algorithm, typename A>
__device__ static inline void expand_body(A a, const struct graph_args &g)
{
	const uint64_t nr_items = g.control->nr_items;

	a.begin();
	for (uint64_t first = items_take(g); first < nr_items; first = items_take(g)) {
		const uint32_t nr = nr_items - first < ITEMS_A_WARP ? (uint32_t)(nr_items - first)
								    : ITEMS_A_WARP;

		expand_batch<algorithm>(a, g, first, nr);
	}
	a.end();
}

template <uint32_t algorithm>
__global__ void __launch_bounds__(CUDA_LAUNCH_THREADS_MAX, 1)
	expand_bare(const __grid_constant__ struct graph_args g)
{
	struct bare a = {&g};

	expand_body<algorithm>(a, g);
}

template <uint32_t algorithm>
__global__ void __launch_bounds__(CUDA_LAUNCH_THREADS_MAX, 1)
	expand_paged(const __grid_constant__ struct graph_paged_args p)
{
	struct paged a = {&p, {}, {}};

	expand_body<algorithm>(a, p.args);
}

/* ---- vertices */

__device__ static inline uint64_t thread_nr()
{
	return blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
}

__device__ static inline uint64_t nr_threads()
{
	return (uint64_t)gridDim.x * blockDim.x;
}

__global__ void round_begin(const __grid_constant__ struct graph_args g)
{
	graph_round(&g);
}

__device__ static inline void spread_add(const struct graph_args &g, uint32_t round, double rank)
{
	rank = warp_sum(rank);
	if (threadIdx.x % 32 == 0 && rank != 0)
		graph_add_double(&g.control->spread[round % 3], rank);
}

/* spread was cleared. */
__global__ void __launch_bounds__(VERTEX_THREADS) begin(const __grid_constant__ struct graph_args g)
{
	double spread = 0;

	for (uint64_t v = thread_nr(); v < g.nr_vertices; v += nr_threads())
		spread += graph_vertex_begin(&g, v);
	for (uint64_t i = thread_nr(); g.changed && i <= (g.nr_vertices - 1) / 32;
	     i += nr_threads()) {
		g.changed[i] = g.source / 32 == i ? 1u << g.source % 32 : 0;
		if (g.seen)
			g.seen[i] = 0;
	}
	if (g.algorithm == GRAPH_PAGERANK)
		spread_add(g, 0, spread);
}

__global__ void __launch_bounds__(VERTEX_THREADS)
	finish(const __grid_constant__ struct graph_args g)
{
	double spread = 0;

	for (uint64_t v = thread_nr(); v < g.nr_vertices; v += nr_threads())
		spread += graph_vertex_finish(&g, v);
	if (g.algorithm == GRAPH_PAGERANK)
		spread_add(g, g.round + 1, spread);
	if (thread_nr() == 0) {
		g.control->next = 0;
		g.control->spread[(g.round + 2) % 3] = 0;
	}
}

__global__ void sample(const __grid_constant__ struct graph_args g)
{
	uint64_t i = thread_nr();

	if (i < GRAPH_SAMPLES)
		g.sample[i] = g.label[graph_sampled(&g, i)];
}

/* ---- items */

/* Whether the vertex of each lane is active; those of a warp have one word of bits. v may be beyond
 * the last vertex. */
__device__ static inline bool activate(const struct graph_args &g, uint64_t v, uint64_t *nearest,
				       uint32_t *nr_left)
{
	uint32_t bits, far, lane = threadIdx.x % 32;
	bool active, left;

	if (g.algorithm == GRAPH_CC || g.algorithm == GRAPH_PAGERANK)
		return v < g.nr_vertices;
	bits = v / 32 <= (g.nr_vertices - 1) / 32 ? g.changed[v / 32] : 0;
	if (g.algorithm == GRAPH_BFS) {
		uint32_t seen = bits ? g.seen[v / 32] : 0;

		active = (bits & ~seen) >> lane & 1;
		if (active)
			g.level[v] = g.control->level;
		__syncwarp(); /* all have read `seen` */
		if (lane == 0 && bits != seen)
			g.seen[v / 32] = bits;
		return active;
	}
	active = bits >> lane & 1;
	left = active && g.distance[v] >= g.control->limit;
	if (left) {
		*nearest = g.distance[v] < *nearest ? g.distance[v] : *nearest;
		++*nr_left;
	}
	far = __ballot_sync(~0u, left);
	if (lane == 0 && bits != far)
		g.changed[v / 32] = far;
	return active && !left;
}

/* Exclusive prefix sums over a block, and the total; by all its threads. */
__device__ static inline uint64_t block_scan(uint64_t value, uint64_t *total)
{
	__shared__ uint64_t of_warp[VERTEX_THREADS / 32];
	uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	uint64_t sum = value, before = 0;

	for (uint32_t apart = 1; apart < 32; apart *= 2) {
		uint64_t below = __shfl_up_sync(~0u, sum, apart);

		sum += lane >= apart ? below : 0;
	}
	__syncthreads(); /* of_warp was read by all, if this is not the first time */
	if (lane == 31)
		of_warp[warp] = sum;
	__syncthreads();
	*total = 0;
	for (uint32_t i = 0; i < VERTEX_THREADS / 32; i++) {
		before += i < warp ? of_warp[i] : 0;
		*total += of_warp[i];
	}
	return before + sum - value;
}

/* The items of a block's vertices, one a thread, in order. */
__device__ static inline void items_put(const struct graph_args &g, uint64_t v, uint64_t nr)
{
	__shared__ uint64_t base;
	uint64_t begin = nr ? g.offset[v] : 0, total;
	uint64_t at = block_scan(graph_nr_items(begin, nr), &total);

	if (!total)
		return;
	if (threadIdx.x == 0)
		base = graph_add(&g.control->nr_items, total);
	__syncthreads();
	at += base;
	while (nr) {
		struct graph_item item = graph_item_at(v, begin, nr);

		if (g.from)
			g.from[at] = g.distance[v];
		g.item[at++] = item;
		begin += item.nr;
		nr -= item.nr;
	}
}

__global__ void __launch_bounds__(VERTEX_THREADS) items(const __grid_constant__ struct graph_args g)
{
	uint64_t nearest = GRAPH_FAR, nr_edges = 0;
	uint32_t nr_left = 0;

	for (uint64_t first = blockIdx.x * (uint64_t)VERTEX_THREADS; first < g.nr_vertices;
	     first += (uint64_t)gridDim.x * VERTEX_THREADS) {
		uint64_t v = first + threadIdx.x, nr = 0;

		if (activate(g, v, &nearest, &nr_left))
			nr = graph_active_edges(&g, v);
		nr_edges += nr;
		items_put(g, v, nr);
	}
	if (nr_edges)
		graph_add(&g.control->nr_edges, nr_edges);
	if (nr_left) {
		graph_add(&g.control->nr_left, nr_left);
		graph_min(&g.control->nearest, nearest);
	}
}

/* ---- counting */

__global__ void __launch_bounds__(VERTEX_THREADS)
	lines_clear(const __grid_constant__ struct graph_args g)
{
	for (uint64_t i = thread_nr(); i <= g.nr_edges / GRAPH_LINE_EDGES / 32; i += nr_threads())
		g.met[i] = 0;
}

__global__ void __launch_bounds__(VERTEX_THREADS) lines(const __grid_constant__ struct graph_args g)
{
	uint64_t nr_lines = 0, nr_first = 0;

	for (uint64_t i = thread_nr(); i < g.control->nr_items; i += nr_threads()) {
		const struct graph_item item = g.item[i];
		uint64_t last = (item.begin + item.nr - 1) / GRAPH_LINE_EDGES;

		for (uint64_t line = item.begin / GRAPH_LINE_EDGES; line <= last; line++) {
			if (!graph_bit_set(g.met, line))
				continue;
			nr_lines++;
			nr_first += graph_bit_set(g.ever, line);
		}
	}
	if (nr_lines)
		graph_add(&g.control->nr_lines, nr_lines);
	if (nr_first)
		graph_add(&g.control->nr_first, nr_first);
}

/* ---- launches */

template <typename K>
static int launch_vertices(const char *name, K kernel, void *stream, const struct graph_args *g)
{
	return cuda_launch(name, kernel, 0, VERTEX_THREADS, stream, g);
}

int graph_cuda_round(void *stream, const void *args)
{
	return cuda_launch("round", round_begin, 1, 1, stream, (const struct graph_args *)args);
}

int graph_cuda_begin(void *stream, const void *args)
{
	return launch_vertices("begin", begin, stream, (const struct graph_args *)args);
}

int graph_cuda_items(void *stream, const void *args)
{
	return launch_vertices("items", items, stream, (const struct graph_args *)args);
}

int graph_cuda_finish(void *stream, const void *args)
{
	return launch_vertices("finish", finish, stream, (const struct graph_args *)args);
}

int graph_cuda_sample(void *stream, const void *args)
{
	return cuda_launch("sample", sample, GRAPH_SAMPLES / VERTEX_THREADS, VERTEX_THREADS, stream,
			   (const struct graph_args *)args);
}

int graph_cuda_lines(void *stream, const void *args)
{
	const struct graph_args *g = (const struct graph_args *)args;
	int err = launch_vertices("lines_clear", lines_clear, stream, g);

	return err ? err : launch_vertices("lines", lines, stream, g);
}

/* The kernel of an algorithm. */
#define BY_ALGORITHM(kernel, algorithm)                   \
	((algorithm) == GRAPH_BFS    ? kernel<GRAPH_BFS>  \
	 : (algorithm) == GRAPH_SSSP ? kernel<GRAPH_SSSP> \
	 : (algorithm) == GRAPH_CC   ? kernel<GRAPH_CC>   \
				     : kernel<GRAPH_PAGERANK>)

int graph_cuda_expand(void *stream, const void *args)
{
	const struct graph_args *g = (const struct graph_args *)args;

	return cuda_launch("expand", BY_ALGORITHM(expand_bare, g->algorithm), g->blocks, g->threads,
			   stream, g);
}

int graph_cuda_expand_paged(void *stream, const void *args)
{
	const struct graph_paged_args *p = (const struct graph_paged_args *)args;

	return cuda_launch("expand_paged", BY_ALGORITHM(expand_paged, p->args.algorithm),
			   p->args.blocks, p->args.threads, stream, p);
}

/* ---- of the library */

const char *graph_cuda_error(void)
{
	return cuda_launch_error();
}

uint64_t graph_cuda_abi(void)
{
	return graph_cuda_abi_here();
}

int graph_cuda_home(void *stream, const struct weir_paged_view *view, int evict)
{
	return cuda_pool_home(stream, view, evict);
}

int graph_cuda_settle(void *stream, const struct weir_paged_view *view,
		      struct weir_paged_left *left)
{
	return cuda_pool_settle(stream, view, left);
}
