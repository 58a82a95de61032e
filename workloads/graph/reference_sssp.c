/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortest paths by Dijkstra's algorithm (1959), on a binary heap that knows where each vertex
 * stands, so that a vertex is in it once at most. Weights are whole and not negative: exact.
 */
#include "workloads/graph/reference.h"

#include <errno.h>
#include <stdlib.h>

#define NOWHERE UINT64_MAX

/* Invariants: vertex[i] is no nearer than vertex[(i - 1) / 2]; where[vertex[i]] = i. */
struct heap {
	uint64_t nr;
	uint64_t *vertex, *where; /* where: by vertex; NOWHERE: not in the heap */
	const uint64_t *distance; /* by vertex */
};

static void heap_set(struct heap *heap, uint64_t i, uint64_t vertex)
{
	heap->vertex[i] = vertex;
	heap->where[vertex] = i;
}

/* Put a vertex in, or up to where it belongs now that it is nearer. */
static void heap_raise(struct heap *heap, uint64_t vertex)
{
	uint64_t i = heap->where[vertex] == NOWHERE ? heap->nr++ : heap->where[vertex];

	while (i && heap->distance[heap->vertex[(i - 1) / 2]] > heap->distance[vertex]) {
		heap_set(heap, i, heap->vertex[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_set(heap, i, vertex);
}

/* Take the nearest out. There is one. */
static uint64_t heap_pop(struct heap *heap)
{
	uint64_t top = heap->vertex[0], last = heap->vertex[--heap->nr], i = 0;

	heap->where[top] = NOWHERE;
	if (!heap->nr)
		return top;
	for (;;) {
		uint64_t child = 2 * i + 1;

		if (child >= heap->nr)
			break;
		if (child + 1 < heap->nr &&
		    heap->distance[heap->vertex[child + 1]] < heap->distance[heap->vertex[child]])
			child++;
		if (heap->distance[heap->vertex[child]] >= heap->distance[last])
			break;
		heap_set(heap, i, heap->vertex[child]);
		i = child;
	}
	heap_set(heap, i, last);
	return top;
}

static int relax(const struct csr *g, struct heap *heap, uint64_t u, uint64_t *distance)
{
	for (uint64_t e = g->offset[u]; e < g->offset[u + 1]; e++) {
		uint64_t v = csr_neighbour(g, e), through;

		if (__builtin_add_overflow(distance[u], g->weight ? g->weight[e] : 1, &through) ||
		    through == REFERENCE_FAR)
			return -EOVERFLOW;
		if (through < distance[v]) {
			distance[v] = through;
			heap_raise(heap, v);
		}
	}
	return 0;
}

int reference_sssp(const struct csr *g, uint64_t source, uint64_t *distance)
{
	struct heap heap = {.distance = distance};
	int rc = -ENOMEM;

	heap.vertex = malloc(g->nr_vertices * sizeof(*heap.vertex));
	heap.where = malloc(g->nr_vertices * sizeof(*heap.where));
	if (!heap.vertex || !heap.where)
		goto out;
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		distance[v] = REFERENCE_FAR;
		heap.where[v] = NOWHERE;
	}
	distance[source] = 0;
	heap_raise(&heap, source);
	rc = 0;
	while (!rc && heap.nr)
		rc = relax(g, &heap, heap_pop(&heap), distance);
out:
	free(heap.vertex);
	free(heap.where);
	return rc;
}
