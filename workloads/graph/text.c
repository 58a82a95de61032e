/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of text a file is, by how it begins; see text.h. */
#include "workloads/graph/text.h"

#include <errno.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/graph/csr.h"
#include "workloads/graph/fail.h"

static int fail(const struct lines *l, const char *what)
{
	return graph_fail(l->err, l->err_bytes, -EINVAL, "%s: %s", l->name, what);
}

static int refuse_packed(const struct lines *l)
{
	static const struct {
		const char *magic, *tool;
		size_t length;
	} packed[] = {
		{"\x1f\x8b", "zcat", 2},
		{"BZh", "bzcat", 3},
		{"\xfd"
		 "7zXZ",
		 "xzcat", 5},
		{"\x28\xb5\x2f\xfd", "zstdcat", 4},
	};

	for (size_t i = 0; i < ARRAY_LEN(packed); i++) {
		if (lines_begin_with(l, packed[i].magic, packed[i].length))
			return graph_fail(l->err, l->err_bytes, -EINVAL,
					  "%s: the file is compressed: write %s FILE | weir graph "
					  "convert - OUTPUT",
					  l->name, packed[i].tool);
	}
	return 0;
}

int text_read(struct lines *l, bool keep_weights, bool several, struct spool *spool,
	      bool *symmetric)
{
	bool matrix = lines_begin_with(l, TEXT_MATRIX_BANNER, strlen(TEXT_MATRIX_BANNER));
	int rc = refuse_packed(l);

	if (rc)
		return rc;
	if (lines_begin_with(l, CSR_MAGIC, strlen(CSR_MAGIC)))
		return fail(l, several ? "a graph file is converted alone: leave the other inputs "
					 "out"
				       : "a graph file cannot be read from a pipe: name the file");
	if (matrix && several)
		return fail(l, "a matrix is converted alone: leave the other inputs out");
	*symmetric = false;
	return matrix ? text_read_matrix(l, keep_weights, spool, symmetric)
		      : text_read_edges(l, keep_weights, spool);
}
