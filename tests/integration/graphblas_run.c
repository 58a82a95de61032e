/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second opinion on the reference algorithms: the same by SuiteSparse:GraphBLAS (Davis, 2019), as
 * products of sparse matrices and vectors. Compiled and run by graphblas.sh.
 *
 * graphblas_run GRAPH TRANSPOSED: prints a line for each algorithm; exit status 1 if one differs.
 */
#include <stdio.h>

/* Where linters look at this file, the library may not be. */
#if __has_include(<GraphBLAS.h>)

#include <GraphBLAS.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/graph/reference.h"

#define SOURCES 3

static unsigned int nr_failed;

static void require(int truth, const char *what)
{
	if (truth)
		return;
	fprintf(stderr, "graphblas_run: %s\n", what);
	exit(2);
}

static void ok(GrB_Info info)
{
	require(info == GrB_SUCCESS, "GraphBLAS refuses");
}

static void report(const char *what, int same)
{
	printf("%s - %s\n", same ? "ok" : "not ok", what);
	nr_failed += !same;
}

static void *array(uint64_t nr, size_t bytes)
{
	void *p = calloc(nr, bytes);

	require(p != NULL, "no memory");
	return p;
}

/* Entry (u, v) is the weight of the edge; ones: 1. */
static GrB_Matrix matrix_of(const struct csr *g, int ones)
{
	GrB_Index *rows = array(g->nr_edges, sizeof(*rows)), *columns = array(g->nr_edges, 8);
	uint64_t *values = array(g->nr_edges, sizeof(*values));
	GrB_Matrix matrix;

	for (uint64_t u = 0; u < g->nr_vertices; u++) {
		for (uint64_t e = g->offset[u]; e < g->offset[u + 1]; e++) {
			rows[e] = u;
			columns[e] = csr_neighbour(g, e);
			values[e] = ones || !g->weight ? 1 : g->weight[e];
		}
	}
	ok(GrB_Matrix_new(&matrix, GrB_UINT64, g->nr_vertices, g->nr_vertices));
	ok(GrB_Matrix_build_UINT64(matrix, rows, columns, values, g->nr_edges, GrB_PLUS_UINT64));
	free(rows);
	free(columns);
	free(values);
	return matrix;
}

/* The vector as an array; what it lacks is absent. */
static void read_vector(GrB_Vector vector, uint64_t nr, uint64_t absent, uint64_t *out)
{
	for (uint64_t i = 0; i < nr; i++) {
		GrB_Info info = GrB_Vector_extractElement_UINT64(&out[i], vector, i);

		require(info == GrB_SUCCESS || info == GrB_NO_VALUE, "GraphBLAS refuses");
		if (info == GrB_NO_VALUE)
			out[i] = absent;
	}
}

static void bfs(const struct csr *g, GrB_Matrix a, uint64_t source, uint64_t *level)
{
	GrB_Vector levels, frontier;
	GrB_Index nr = 1;

	ok(GrB_Vector_new(&levels, GrB_UINT64, g->nr_vertices));
	ok(GrB_Vector_new(&frontier, GrB_BOOL, g->nr_vertices));
	ok(GrB_Vector_setElement_BOOL(frontier, true, source));
	for (uint64_t depth = 0; nr; depth++) {
		ok(GrB_Vector_assign_UINT64(levels, frontier, NULL, depth, GrB_ALL, g->nr_vertices,
					    GrB_DESC_S));
		ok(GrB_vxm(frontier, levels, NULL, GrB_LOR_LAND_SEMIRING_BOOL, frontier, a,
			   GrB_DESC_RSC));
		ok(GrB_Vector_nvals(&nr, frontier));
	}
	read_vector(levels, g->nr_vertices, REFERENCE_FAR, level);
	GrB_free(&levels);
	GrB_free(&frontier);
}

/*
 * Repeat vector = min(vector, product with a) until nothing changes; out is what is left. With
 * both, the product with a transposed counts too.
 */
static void least(const struct csr *g, GrB_Matrix a, GrB_Semiring semiring, int both,
		  GrB_Vector vector, uint64_t *out)
{
	uint64_t *before = array(g->nr_vertices, sizeof(*before));

	read_vector(vector, g->nr_vertices, REFERENCE_FAR, out);
	do {
		memcpy(before, out, g->nr_vertices * sizeof(*before));
		ok(GrB_mxv(vector, NULL, GrB_MIN_UINT64, semiring, a, vector, GrB_DESC_T0));
		if (both)
			ok(GrB_mxv(vector, NULL, GrB_MIN_UINT64, semiring, a, vector, NULL));
		read_vector(vector, g->nr_vertices, REFERENCE_FAR, out);
	} while (memcmp(before, out, g->nr_vertices * sizeof(*before)) != 0);
	free(before);
}

static void check_paths(const struct csr *g, GrB_Matrix a)
{
	uint64_t *expected = array(g->nr_vertices, 8), *got = array(g->nr_vertices, 8);
	int same_levels = 1, same_distances = 1;
	GrB_Vector distances;

	for (uint64_t i = 0; i < SOURCES; i++) {
		uint64_t source = i * 7919 % g->nr_vertices;

		bfs(g, a, source, expected);
		require(!reference_bfs(g, source, got), "no memory");
		same_levels &= !memcmp(got, expected, g->nr_vertices * 8);
		ok(GrB_Vector_new(&distances, GrB_UINT64, g->nr_vertices));
		ok(GrB_Vector_setElement_UINT64(distances, 0, source));
		least(g, a, GrB_MIN_PLUS_SEMIRING_UINT64, 0, distances, expected);
		require(!reference_sssp(g, source, got), "no memory");
		same_distances &= !memcmp(got, expected, g->nr_vertices * 8);
		GrB_free(&distances);
	}
	report("bfs", same_levels);
	report("sssp", same_distances);
	free(expected);
	free(got);
}

static void check_components(const struct csr *g, GrB_Matrix a)
{
	uint64_t *expected = array(g->nr_vertices, 8), *got = array(g->nr_vertices, 8);
	GrB_Vector labels;

	ok(GrB_Vector_new(&labels, GrB_UINT64, g->nr_vertices));
	for (uint64_t v = 0; v < g->nr_vertices; v++)
		ok(GrB_Vector_setElement_UINT64(labels, v, v));
	least(g, a, GrB_MIN_SECOND_SEMIRING_UINT64, 1, labels, expected);
	require(!reference_cc(g, got), "no memory");
	report("cc", !memcmp(got, expected, g->nr_vertices * 8));
	GrB_free(&labels);
	free(expected);
	free(got);
}

/* One iteration, where share and sum are vectors of all vertices. */
static void iterate(const struct csr *g, GrB_Matrix a, double *rank)
{
	const double n = (double)g->nr_vertices, d = REFERENCE_PAGERANK_DAMPING;
	GrB_Vector share, sum;
	double spread = 0;

	ok(GrB_Vector_new(&share, GrB_FP64, g->nr_vertices));
	ok(GrB_Vector_new(&sum, GrB_FP64, g->nr_vertices));
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		if (csr_degree(g, v))
			ok(GrB_Vector_setElement_FP64(share, rank[v] / (double)csr_degree(g, v),
						      v));
		else
			spread += rank[v];
	}
	ok(GrB_mxv(sum, NULL, NULL, GrB_PLUS_TIMES_SEMIRING_FP64, a, share, GrB_DESC_T0));
	for (uint64_t v = 0; v < g->nr_vertices; v++) {
		double value = 0;
		GrB_Info info = GrB_Vector_extractElement_FP64(&value, sum, v);

		require(info == GrB_SUCCESS || info == GrB_NO_VALUE, "GraphBLAS refuses");
		rank[v] = (1 - d) / n + d * (value + spread / n);
	}
	GrB_free(&share);
	GrB_free(&sum);
}

static void check_pagerank(const struct csr *g, const struct csr *transposed)
{
	double *expected = array(g->nr_vertices, sizeof(double));
	double *got = array(g->nr_vertices, sizeof(double)), worst = 0;
	GrB_Matrix a = matrix_of(g, 1);

	for (uint64_t v = 0; v < g->nr_vertices; v++)
		expected[v] = 1 / (double)g->nr_vertices;
	for (unsigned int i = 0; i < REFERENCE_PAGERANK_ITERATIONS; i++)
		iterate(g, a, expected);
	require(!reference_pagerank(transposed, REFERENCE_PAGERANK_DAMPING,
				    REFERENCE_PAGERANK_ITERATIONS, got),
		"no memory");
	for (uint64_t v = 0; v < g->nr_vertices; v++)
		worst = fmax(worst, fabs(got[v] - expected[v]) / expected[v]);
	report("pagerank", worst < 1e-12);
	GrB_free(&a);
	free(expected);
	free(got);
}

int main(int argc, char **argv)
{
	struct csr g, transposed;
	char err[512] = "";
	GrB_Matrix a;

	require(argc == 3, "two graph files are needed");
	require(!csr_open(argv[1], &g, err, sizeof(err)) &&
			!csr_open(argv[2], &transposed, err, sizeof(err)),
		err);
	ok(GrB_init(GrB_BLOCKING));
	a = matrix_of(&g, 0);
	check_paths(&g, a);
	check_components(&g, a);
	check_pagerank(&g, &transposed);
	GrB_free(&a);
	ok(GrB_finalize());
	csr_close(&g);
	csr_close(&transposed);
	return nr_failed != 0;
}

#else

int main(void)
{
	fputs("graphblas_run: built without GraphBLAS\n", stderr);
	return 2;
}

#endif
