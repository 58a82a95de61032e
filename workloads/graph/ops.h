/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the algorithms do with a vertex and with an edge: the same source for the CPU and for CUDA.
 * The loops around it, and the way to the edges, are kernels.c's, kernels_paged.c's and
 * cuda/kernels.cu's.
 *
 * Everything that decides what the next round expands is a function of the state at the round's
 * begin: rounds are the same on every machine, whatever the order within.
 */
#ifndef WEIR_GRAPH_OPS_H
#define WEIR_GRAPH_OPS_H

#include "workloads/graph/kernels.h"

#ifdef __CUDACC__
#define GRAPH_ANYWHERE static __host__ __device__ inline
#else
#define GRAPH_ANYWHERE static inline
#endif

/* ------------------------------------------------------------------ atomics: relaxed, any order */

GRAPH_ANYWHERE uint32_t graph_or(uint32_t *at, uint32_t bits)
{
#ifdef __CUDA_ARCH__
	return atomicOr(at, bits);
#else
	return __atomic_fetch_or(at, bits, __ATOMIC_RELAXED);
#endif
}

GRAPH_ANYWHERE uint64_t graph_add(uint64_t *at, uint64_t value)
{
#ifdef __CUDA_ARCH__
	return atomicAdd((unsigned long long *)at, (unsigned long long)value);
#else
	return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#endif
}

/* @return what was there */
GRAPH_ANYWHERE uint64_t graph_min(uint64_t *at, uint64_t value)
{
#ifdef __CUDA_ARCH__
	return atomicMin((unsigned long long *)at, (unsigned long long)value);
#else
	uint64_t old = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (value < old && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED,
							   __ATOMIC_RELAXED))
		;
	return old;
#endif
}

/* @return what was there: `from` if it was exchanged */
GRAPH_ANYWHERE uint32_t graph_cas(uint32_t *at, uint32_t from, uint32_t to)
{
#ifdef __CUDA_ARCH__
	return atomicCAS(at, from, to);
#else
	(void)__atomic_compare_exchange_n(at, &from, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return from;
#endif
}

GRAPH_ANYWHERE void graph_add_double(double *at, double value)
{
#ifdef __CUDA_ARCH__
	atomicAdd(at, value);
#else
	double old, sum;

	__atomic_load(at, &old, __ATOMIC_RELAXED);
	do
		sum = old + value;
	while (!__atomic_compare_exchange(at, &old, &sum, true, __ATOMIC_RELAXED,
					  __ATOMIC_RELAXED));
#endif
}

/* Words that others change meanwhile: whether a change is worth trying. A GPU may read an old one
 * out of a cache: who goes on then learns of the new one by what it exchanges. */
GRAPH_ANYWHERE uint32_t graph_peek(const uint32_t *at)
{
#ifdef __CUDA_ARCH__
	return *at;
#else
	return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

GRAPH_ANYWHERE uint64_t graph_peek_wide(const uint64_t *at)
{
#ifdef __CUDA_ARCH__
	return *at;
#else
	return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

/* The word as it is, as far as anybody can know. */
GRAPH_ANYWHERE uint32_t graph_load(const uint32_t *at)
{
#ifdef __CUDA_ARCH__
	return *(const volatile uint32_t *)at;
#else
	return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

/* ------------------------------------------------------------------ bits of vertices */

GRAPH_ANYWHERE bool graph_bit(const uint32_t *bits, uint64_t i)
{
	return graph_peek(&bits[i / 32]) >> i % 32 & 1;
}

/* @return whether it was clear */
GRAPH_ANYWHERE bool graph_bit_set(uint32_t *bits, uint64_t i)
{
	uint32_t bit = 1u << i % 32;

	return !(graph_or(&bits[i / 32], bit) & bit);
}

/* ------------------------------------------------------------------ rounds */

/* The end of the bucket that a distance is in. */
GRAPH_ANYWHERE uint64_t graph_bucket_end(uint64_t distance, uint64_t delta)
{
	uint64_t begin = distance - distance % delta;

	return begin > GRAPH_FAR - delta ? GRAPH_FAR : begin + delta;
}

/* Rounds after the last one are empty. */
GRAPH_ANYWHERE void graph_round(const struct graph_args *g)
{
	struct graph_control *c = g->control;

	if (c->nr_items)
		c->level += c->started;
	else if (c->nr_left)
		c->limit = graph_bucket_end(c->nearest, g->delta);
	c->started = 1;
	c->nr_items = c->nr_edges = c->nr_left = c->next = c->nr_lines = c->nr_first = 0;
	c->nr_runs = c->nr_sectors = 0;
	c->nearest = GRAPH_FAR;
}

/* ------------------------------------------------------------------ items */

GRAPH_ANYWHERE uint64_t graph_degree(const struct graph_args *g, uint64_t v)
{
	return g->offset[v + 1] - g->offset[v];
}

/* Edges of the vertex that this round goes through, from its first one, if it is active. */
GRAPH_ANYWHERE uint64_t graph_active_edges(const struct graph_args *g, uint64_t v)
{
	uint64_t nr = graph_degree(g, v);

	if (g->near && nr > GRAPH_NEAR_EDGES)
		return GRAPH_NEAR_EDGES;
	return g->skips && g->label[v] == g->skip ? 0 : nr;
}

/* Items of so many edges from `begin` on. */
GRAPH_ANYWHERE uint64_t graph_nr_items(uint64_t begin, uint64_t nr)
{
	return nr ? (begin + nr - 1) / GRAPH_PIECE - begin / GRAPH_PIECE + 1 : 0;
}

/* The first of them; the next begins where it ends. */
GRAPH_ANYWHERE struct graph_item graph_item_at(uint64_t vertex, uint64_t begin, uint64_t nr)
{
	uint64_t room = GRAPH_PIECE - begin % GRAPH_PIECE;
	struct graph_item item;

	item.begin = begin;
	item.nr = (uint32_t)(nr < room ? nr : room);
	item.vertex = (uint32_t)vertex;
	return item;
}

/* Whether an item goes on with the run before it, which ends at an edge: its edges follow, in the
 * same piece. A run is gone through as one, and is one access. */
GRAPH_ANYWHERE bool graph_goes_on(uint64_t end, const struct graph_item *item)
{
	return item->begin == end && item->begin % GRAPH_PIECE;
}

/* Touches that edges from `begin` on are: of sectors, the least that a link moves. */
GRAPH_ANYWHERE uint32_t graph_touches(uint64_t begin, uint64_t nr)
{
	return (uint32_t)((begin + nr - 1) / GRAPH_SECTOR_EDGES - begin / GRAPH_SECTOR_EDGES + 1);
}

/* ------------------------------------------------------------------ edges */

GRAPH_ANYWHERE void graph_edge_bfs(const struct graph_args *g, uint32_t to)
{
	if (!graph_bit(g->changed, to))
		graph_bit_set(g->changed, to);
}

/* from: the distance that the round began with. */
GRAPH_ANYWHERE void graph_edge_sssp(const struct graph_args *g, uint64_t from, uint32_t to,
				    uint32_t weight)
{
	uint64_t distance = from + weight;

	if (distance < graph_peek_wide(&g->distance[to]) &&
	    distance < graph_min(&g->distance[to], distance) && !graph_bit(g->changed, to))
		graph_bit_set(g->changed, to);
}

/*
 * Have two vertices in one tree, whose root is the least of both: as Afforest does it (Sutton,
 * Ben-Nun, Barak, "Optimizing Parallel Graph Connectivity Computation via Subgraph Sampling",
 * 2018). A parent is never greater than its child, so trees stay trees.
 */
GRAPH_ANYWHERE void graph_edge_cc(const struct graph_args *g, uint32_t from, uint32_t to)
{
	uint32_t a = graph_load(&g->label[from]), b = graph_load(&g->label[to]);

	while (a != b) {
		uint32_t high = a > b ? a : b, low = a > b ? b : a;
		uint32_t parent = graph_load(&g->label[high]);

		if (parent == high)
			parent = graph_cas(&g->label[high], high, low);
		if (parent == high || parent == low)
			return;
		a = graph_load(&g->label[parent]);
		b = graph_load(&g->label[low]);
	}
}

/* What one edge of an item does. @return what it adds to its vertex's sum */
GRAPH_ANYWHERE double graph_edge(const struct graph_args *g, uint32_t algorithm, uint32_t vertex,
				 uint64_t from, uint32_t to, uint32_t weight)
{
	switch (algorithm) {
	case GRAPH_BFS:
		graph_edge_bfs(g, to);
		return 0;
	case GRAPH_SSSP:
		graph_edge_sssp(g, from, to, weight);
		return 0;
	case GRAPH_CC:
		graph_edge_cc(g, vertex, to);
		return 0;
	default:
		return (double)g->share[to];
	}
}

/* ------------------------------------------------------------------ vertices */

GRAPH_ANYWHERE uint32_t graph_root(const struct graph_args *g, uint32_t v)
{
	uint32_t parent = graph_load(&g->label[v]);

	while (parent != v) {
		v = parent;
		parent = graph_load(&g->label[v]);
	}
	return v;
}

/* pagerank: what its rank is worth along each of its edges. @return the rank, if it has none */
GRAPH_ANYWHERE double graph_share(const struct graph_args *g, uint64_t v)
{
	uint64_t degree = g->degree ? g->degree[v] : graph_degree(g, v);

	g->share[v] = degree ? (float)(g->rank[v] / (double)degree) : 0;
	return degree ? 0 : g->rank[v];
}

/* A vertex before the first round. @return its rank, if it has no edges */
GRAPH_ANYWHERE double graph_vertex_begin(const struct graph_args *g, uint64_t v)
{
	switch (g->algorithm) {
	case GRAPH_BFS:
		g->level[v] = GRAPH_LEVEL_FAR;
		return 0;
	case GRAPH_SSSP:
		g->distance[v] = v == g->source ? 0 : GRAPH_FAR;
		return 0;
	case GRAPH_CC:
		g->label[v] = (uint32_t)v;
		return 0;
	default:
		g->rank[v] = 1 / (double)g->nr_vertices;
		g->sum[v] = 0;
		return graph_share(g, v);
	}
}

/* A vertex at the end of a round. @return as graph_vertex_begin() */
GRAPH_ANYWHERE double graph_vertex_finish(const struct graph_args *g, uint64_t v)
{
	const double n = (double)g->nr_vertices;

	if (g->algorithm == GRAPH_CC) {
		g->label[v] = graph_root(g, (uint32_t)v);
		return 0;
	}
	g->rank[v] = (1 - g->damping) / n +
		     g->damping * (g->sum[v] + g->control->spread[g->round % 3] / n);
	g->sum[v] = 0;
	return graph_share(g, v);
}

/* The i-th vertex whose label is looked at. The multiplier is that of Knuth's hash (TAOCP 3, 6.4):
 * 2^64 over the golden ratio. */
GRAPH_ANYWHERE uint64_t graph_sampled(const struct graph_args *g, uint64_t i)
{
	return ((i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 32) * g->nr_vertices >> 32;
}

#endif
