/* SPDX-License-Identifier: Apache-2.0 */
/* Breadth-first search with a queue. Every vertex enters the queue once at most. */
#include "workloads/graph/reference.h"

#include <errno.h>
#include <stdlib.h>

int reference_bfs(const struct csr *g, uint64_t source, uint64_t *level)
{
	uint64_t *queue = malloc(g->nr_vertices * sizeof(*queue));
	uint64_t head = 0, tail = 0;

	if (!queue)
		return -ENOMEM;
	for (uint64_t v = 0; v < g->nr_vertices; v++)
		level[v] = REFERENCE_FAR;
	level[source] = 0;
	queue[tail++] = source;
	while (head < tail) {
		uint64_t u = queue[head++];

		for (uint64_t e = g->offset[u]; e < g->offset[u + 1]; e++) {
			uint64_t v = csr_neighbour(g, e);

			if (level[v] != REFERENCE_FAR)
				continue;
			level[v] = level[u] + 1;
			queue[tail++] = v;
		}
	}
	free(queue);
	return 0;
}
