/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of edges, as SNAP (the Stanford Network Analysis Project) and others have them; text.h. */
#include "workloads/graph/text.h"

#include <errno.h>
#include <string.h>

#include "workloads/graph/fail.h"

int text_fail_add(const struct lines *l, int rc)
{
	if (rc == -ENOMEM)
		return graph_fail(l->err, l->err_bytes, rc,
				  "%s:%llu: no memory on the host for "
				  "the ids of so many vertices",
				  l->name, (unsigned long long)l->line);
	return graph_fail(l->err, l->err_bytes, rc, "%s:%llu: cannot write the scratch file: %s",
			  l->name, (unsigned long long)l->line, strerror(-rc));
}

/* The third word, if there is one; the spool's weights become known with the first edge. */
static int read_weight(struct lines *l, bool keep, struct spool *spool, uint32_t *weight)
{
	struct lines ahead = *l;
	const char *word;
	bool there = lines_word(&ahead, &word) > 0;

	*weight = 0;
	if (!keep) {
		*l = ahead;
		return 0;
	}
	if (spool->weights == SPOOL_WEIGHTS_UNKNOWN)
		spool->weights = there ? SPOOL_WEIGHTED : SPOOL_UNWEIGHTED;
	if (there != (spool->weights == SPOOL_WEIGHTED))
		return lines_fail(l,
				  "the edge has %s, those before it have %s: give all of them "
				  "one, or leave weights out with --weights none",
				  there ? "a weight" : "no weight", there ? "none" : "one");
	return there ? lines_weight(l, weight) : 0;
}

static int read_edge(struct lines *l, bool keep_weights, struct spool *spool)
{
	struct edge edge = {0};
	int rc = lines_number(l, "a vertex", &edge.u);

	if (!rc)
		rc = lines_number(l, "the second vertex", &edge.v);
	if (!rc)
		rc = read_weight(l, keep_weights, spool, &edge.weight);
	if (!rc)
		rc = lines_done(l);
	if (rc)
		return rc;
	rc = spool_add(spool, &edge);
	return rc ? text_fail_add(l, rc) : 0;
}

/* Whether the line has no edge. */
static bool is_comment(const struct lines *l)
{
	struct lines ahead = *l;
	const char *word;

	return !lines_word(&ahead, &word) || *word == '#' || *word == '%';
}

int text_read_edges(struct lines *l, bool keep_weights, struct spool *spool)
{
	const uint64_t nr_before = spool->nr_edges;
	int rc;

	while ((rc = lines_next(l)) > 0) {
		if (!is_comment(l))
			rc = read_edge(l, keep_weights, spool);
		if (rc < 0)
			return rc;
	}
	if (!rc && spool->nr_edges == nr_before)
		return lines_fail(l, "the file has no edge: write one as two ids in a line");
	return rc;
}
