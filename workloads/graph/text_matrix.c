/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of the Matrix Market's coordinate format as graphs; see text.h. */
#include "workloads/graph/text.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "workloads/graph/csr.h"
#include "workloads/graph/fail.h"

struct matrix {
	bool symmetric, has_values;
	uint64_t nr, nr_entries; /* rows, and as many columns */
};

/* The next word of the banner: its place among those known (NULL ends them), or -EINVAL. */
static int banner_word(struct lines *l, const char *what, const char *const *known)
{
	const char *word;
	size_t length = lines_word(l, &word);

	for (int i = 0; known[i]; i++)
		if (length == strlen(known[i]) && strncasecmp(word, known[i], length) == 0)
			return i;
	return lines_fail(l,
			  "'%.*s' is no %s that graphs can be read from: they are sparse "
			  "matrices, pattern, integer or real, general or symmetric",
			  (int)(length < 40 ? length : 40), word, what);
}

static int read_banner(struct lines *l, struct matrix *m)
{
	static const char *const banners[] = {TEXT_MATRIX_BANNER, NULL};
	static const char *const objects[] = {"matrix", NULL};
	static const char *const formats[] = {"coordinate", NULL};
	static const char *const fields[] = {"pattern", "integer", "real", NULL};
	static const char *const symmetries[] = {"general", "symmetric", NULL};
	int rc = lines_next(l), field = 0, symmetry = 0;

	if (rc < 0)
		return rc;
	if (!rc)
		return lines_fail(l, "the file is empty");
	rc = banner_word(l, "banner", banners);
	if (rc >= 0)
		rc = banner_word(l, "kind of object", objects);
	if (rc >= 0)
		rc = banner_word(l, "format", formats);
	if (rc >= 0)
		rc = field = banner_word(l, "kind of numbers", fields);
	if (rc >= 0)
		rc = symmetry = banner_word(l, "symmetry", symmetries);
	if (rc >= 0)
		rc = lines_done(l);
	m->has_values = field > 0;
	m->symmetric = symmetry > 0;
	return rc;
}

/* Step to the next line that is neither empty nor a comment: 1, 0 at the end, or an error. */
static int next_data(struct lines *l)
{
	struct lines ahead;
	const char *word;
	int rc;

	do {
		rc = lines_next(l);
		ahead = *l;
	} while (rc > 0 && (!lines_word(&ahead, &word) || *word == '%'));
	return rc;
}

static int read_size(struct lines *l, struct matrix *m)
{
	uint64_t nr_columns = 0;
	int rc = next_data(l);

	if (!rc)
		return lines_fail(l, "the file ends before the line of sizes: fetch it again");
	if (rc > 0)
		rc = lines_number(l, "the number of rows", &m->nr);
	if (!rc)
		rc = lines_number(l, "the number of columns", &nr_columns);
	if (!rc)
		rc = lines_number(l, "the number of entries", &m->nr_entries);
	if (!rc)
		rc = lines_done(l);
	if (!rc && m->nr != nr_columns)
		rc = lines_fail(l, "%llu rows and %llu columns: a graph's matrix is square",
				(unsigned long long)m->nr, (unsigned long long)nr_columns);
	if (!rc && (!m->nr || m->nr > CSR_VERTICES_MAX))
		rc = lines_fail(l, "%llu rows: a graph has 1 to %llu vertices",
				(unsigned long long)m->nr, (unsigned long long)CSR_VERTICES_MAX);
	return rc;
}

static int read_index(struct lines *l, const struct matrix *m, const char *what, uint64_t *out)
{
	uint64_t value = 0;
	int rc = lines_number(l, what, &value);

	if (!rc && (!value || value > m->nr))
		rc = lines_fail(l, "%s %llu is not there: they are 1 to %llu", what,
				(unsigned long long)value, (unsigned long long)m->nr);
	*out = value - 1;
	return rc;
}

static int read_entry(struct lines *l, const struct matrix *m, bool keep_weights,
		      struct spool *spool)
{
	struct edge edge = {0};
	const char *word;
	int rc = read_index(l, m, "row", &edge.u);

	if (!rc)
		rc = read_index(l, m, "column", &edge.v);
	if (!rc && m->symmetric && edge.u < edge.v)
		rc = lines_fail(l,
				"the entry is above the diagonal: a symmetric matrix lists those "
				"on and below it alone");
	if (!rc && m->has_values && keep_weights)
		rc = lines_weight(l, &edge.weight);
	else if (!rc && m->has_values && !lines_word(l, &word))
		rc = lines_fail(l, "the line ends where a value should be: complete it");
	if (!rc)
		rc = lines_done(l);
	if (rc)
		return rc;
	rc = spool_add(spool, &edge);
	return rc ? text_fail_add(l, rc) : 0;
}

int text_read_matrix(struct lines *l, bool keep_weights, struct spool *spool, bool *symmetric)
{
	struct matrix m = {0};
	int rc = read_banner(l, &m);

	if (!rc)
		rc = read_size(l, &m);
	if (rc)
		return rc;
	spool->nr_vertices = m.nr;
	spool->weights = m.has_values && keep_weights ? SPOOL_WEIGHTED : SPOOL_UNWEIGHTED;
	while ((rc = next_data(l)) > 0) {
		if (spool->nr_edges == m.nr_entries)
			return lines_fail(l,
					  "more than the %llu entries that are announced: "
					  "correct the number",
					  (unsigned long long)m.nr_entries);
		rc = read_entry(l, &m, keep_weights, spool);
		if (rc)
			return rc;
	}
	if (!rc && spool->nr_edges < m.nr_entries)
		rc = lines_fail(l,
				"%llu entries are announced, %llu are here: the file is cut "
				"short; fetch it again",
				(unsigned long long)m.nr_entries,
				(unsigned long long)spool->nr_edges);
	if (!rc)
		*symmetric = m.symmetric;
	return rc;
}
