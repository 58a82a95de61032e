/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: graph files. An input is the header, then what each section begins with, without
 * the zeros between them: a word of 16 bits says how much of it there is. The first byte says
 * whether the checksum is made right. What is accepted must keep the invariants of struct csr, and
 * then have statistics and pass for a source of edges; what is refused must be explained in one
 * line.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/graph/source.h"
#include "workloads/graph/stats.h"

#define SECTIONS_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition)
{
	if (!condition)
		abort();
}

/* The file that an input stands for; its bytes are a multiple of CSR_ALIGN, or it is cut. */
static size_t expand(const uint8_t *data, size_t bytes, unsigned char *file)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	size_t nr = bytes < 81 ? bytes : 81, sections = 0;
	bool right = nr && data[0] & 1;

	memcpy(file, data + (nr > 0), nr - (nr > 0));
	if (nr < 81)
		return nr - (nr > 0);
	for (int i = 0; right && i < 72; i++)
		hash = (hash ^ file[i]) * UINT64_C(0x100000001b3);
	if (right)
		memcpy(file + 72, &hash, 8);
	while (bytes - nr >= 2 && sections + 1 < SECTIONS_MAX) {
		size_t length = data[nr] | (size_t)data[nr + 1] << 8;

		nr += 2;
		length = length < bytes - nr ? length : bytes - nr;
		memcpy(file + ++sections * CSR_ALIGN, data + nr, length);
		nr += length;
	}
	return (sections + 1) * CSR_ALIGN;
}

static void check_edges(const struct csr *g)
{
	struct edge_source source = edge_source_csr(g);
	struct csr_degrees degrees;
	struct csr_stats stats;
	struct edge edge;
	uint64_t sum = 0;

	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		sum += csr_degree(g, v);
		require(!v || csr_id(g, v) > csr_id(g, v - 1));
	}
	require(sum == g->nr_edges);
	for (uint64_t e = 0; e < g->nr_edges; e++) {
		require(!source.read(source.arg, e, 1, &edge));
		require(edge.v == csr_neighbour(g, e) && edge.v < g->nr_vertices);
		require(g->offset[edge.u] <= e && e < g->offset[edge.u + 1]);
	}
	csr_degrees(g, &degrees);
	require(degrees.min <= degrees.median && degrees.median <= degrees.max);
	require(!csr_stats(g, NULL, &stats));
	require(stats.nr_components && stats.nr_components <= g->nr_vertices);
	require(stats.nr_self_loops <= g->nr_edges && stats.nr_duplicates <= g->nr_edges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static unsigned char file[SECTIONS_MAX * CSR_ALIGN] __attribute__((aligned(8)));
	static size_t last;
	char err[512] = "";
	struct csr g;
	int rc;

	memset(file, 0, last);
	last = expand(data, bytes, file);
	rc = csr_view("fuzz", file, last, &g, err, sizeof(err));
	if (!rc)
		rc = csr_check("fuzz", &g, NULL, err, sizeof(err));
	if (rc)
		require(rc == -EINVAL && !strncmp(err, "fuzz: ", 6) && !strchr(err, '\n'));
	else
		check_edges(&g);
	return 0;
}
