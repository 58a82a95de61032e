/* SPDX-License-Identifier: Apache-2.0 */
/* Edges in a scratch file, and the numbers of their vertices; see spool.h. */
#include "workloads/graph/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/graph/sort.h"

/* Fewer ids than this are not worth a merge. */
#define RECENT_MIN UINT64_C(4096)

void spool_init(struct spool *spool, int fd, uint64_t memory_bytes)
{
	memset(spool, 0, sizeof(*spool));
	spool->fd = fd;
	spool->recent_max = memory_bytes / sizeof(*spool->recent);
	if (spool->recent_max < RECENT_MIN)
		spool->recent_max = RECENT_MIN;
	section_begin(&spool->section, fd, 0);
}

void spool_fini(struct spool *spool)
{
	free(spool->recent);
	free(spool->id);
	free(spool->start);
	memset(spool, 0, sizeof(*spool));
}

/* ------------------------------------------------------------------ the set of ids */

/* Sort, and keep one of each. How many are left. */
static uint64_t sort_set(uint64_t *id, uint64_t nr)
{
	uint64_t kept = 0;

	sort_words(id, nr);
	for (uint64_t i = 0; i < nr; i++)
		if (!i || id[i] != id[i - 1])
			id[kept++] = id[i];
	return kept;
}

/* Ids of the recent ones, a sorted set, that the set lacks. */
static uint64_t count_new(const struct spool *spool)
{
	uint64_t nr = 0, i = 0;

	for (uint64_t k = 0; k < spool->nr_recent; k++) {
		while (i < spool->nr_ids && spool->id[i] < spool->recent[k])
			i++;
		nr += i == spool->nr_ids || spool->id[i] != spool->recent[k];
	}
	return nr;
}

/* Merge the recent ids into the set, from the end, so that it can grow where it is. */
static int merge(struct spool *spool)
{
	uint64_t i = spool->nr_ids, k, to, *grown;

	spool->nr_recent = sort_set(spool->recent, spool->nr_recent);
	to = spool->nr_ids + count_new(spool);
	grown = realloc(spool->id, (to ? to : 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	spool->id = grown;
	spool->nr_ids = to;
	for (k = spool->nr_recent; k;) {
		if (i && grown[i - 1] >= spool->recent[k - 1]) {
			k -= grown[i - 1] == spool->recent[k - 1];
			grown[--to] = grown[--i];
		} else {
			grown[--to] = spool->recent[--k];
		}
	}
	spool->nr_recent = 0;
	return 0;
}

/* Room for twice as many recent ids, up to recent_max. */
static bool recent_grow(struct spool *spool)
{
	uint64_t room = spool->recent_room ? 2 * spool->recent_room : RECENT_MIN, *grown;

	if (room > spool->recent_max)
		room = spool->recent_max;
	if (room <= spool->recent_room)
		return false;
	grown = realloc(spool->recent, room * sizeof(*grown));
	if (!grown)
		return false;
	spool->recent = grown;
	spool->recent_room = room;
	return true;
}

static int add_id(struct spool *spool, uint64_t id)
{
	uint64_t nr = spool->nr_recent;

	/* Lists are often in order: what was just there need not be there twice. */
	if ((nr > 0 && spool->recent[nr - 1] == id) || (nr > 1 && spool->recent[nr - 2] == id))
		return 0;
	if (nr == spool->recent_room && !recent_grow(spool)) {
		int rc = nr ? merge(spool) : -ENOMEM;

		if (rc)
			return rc;
	}
	spool->recent[spool->nr_recent++] = id;
	return 0;
}

int spool_add(struct spool *spool, const struct edge *edge)
{
	/* Padding is written too. */
	struct edge record;
	int rc;

	memset(&record, 0, sizeof(record));
	record.u = edge->u;
	record.v = edge->v;
	record.weight = edge->weight;
	rc = section_put(&spool->section, &record, sizeof(record));
	if (!rc && !spool->nr_vertices)
		rc = add_id(spool, edge->u);
	if (!rc && !spool->nr_vertices)
		rc = add_id(spool, edge->v);
	spool->nr_edges += !rc;
	return rc;
}

/* ------------------------------------------------------------------ a source */

/* Make the table that says where to begin to search: about one entry for eight ids. */
static int make_start(struct spool *spool)
{
	uint64_t last = spool->id[spool->nr_ids - 1], i = 0;

	while (spool->shift < 63 && (last >> spool->shift) > spool->nr_ids / 8)
		spool->shift++;
	spool->start = malloc(((last >> spool->shift) + 2) * sizeof(*spool->start));
	if (!spool->start)
		return -ENOMEM;
	for (uint64_t top = 0; top <= last >> spool->shift; top++) {
		while (i < spool->nr_ids && spool->id[i] >> spool->shift < top)
			i++;
		spool->start[top] = i;
	}
	spool->start[(last >> spool->shift) + 1] = spool->nr_ids;
	return 0;
}

/* The number of an id, which the set has. */
static uint64_t number_of(const struct spool *spool, uint64_t id)
{
	const uint64_t *start = &spool->start[id >> spool->shift];
	uint64_t at;

	SEARCH_SORTED(at, start[0], start[1], spool->id[at] < id);
	return at;
}

static int spool_read(const void *arg, uint64_t first, uint64_t nr, struct edge *out)
{
	const struct spool *spool = arg;
	int rc = section_read_all(spool->fd, out, nr * sizeof(*out), first * sizeof(*out));

	for (uint64_t i = 0; !rc && spool->start && i < nr; i++) {
		out[i].u = number_of(spool, out[i].u);
		out[i].v = number_of(spool, out[i].v);
	}
	return rc;
}

int spool_close(struct spool *spool, struct edge_source *out)
{
	int rc = section_flush(&spool->section);

	if (!rc && !spool->nr_vertices) {
		rc = merge(spool);
		spool->nr_vertices = spool->nr_ids;
		/* Ascending, so without gaps exactly if the last one says so. */
		if (!rc && spool->id[spool->nr_ids - 1] >= spool->nr_ids)
			rc = make_start(spool);
	}
	if (rc)
		return rc;
	free(spool->recent);
	spool->recent = NULL;
	*out = (struct edge_source){.nr_vertices = spool->nr_vertices,
				    .nr_edges = spool->nr_edges,
				    .weighted = spool->weights == SPOOL_WEIGHTED,
				    .id = spool->start ? spool->id : NULL,
				    .read = spool_read,
				    .arg = spool};
	return 0;
}
