/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated graphs: known edges, which must never change; that vertices are renamed one to one;
 * what the distributions say; and that a file depends on neither memory nor threads.
 *
 * Labels: threads
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/graph.h"

/* SplitMix64 from state 0, as its authors' program prints it. */
static void test_graph_gen_bits(void **state)
{
	(void)state;
	assert_int_equal(gen_bits(0, 0), UINT64_C(0xe220a8397b1dcdaf));
	assert_int_equal(gen_bits(0, 1), UINT64_C(0x6e789e6aa1b965f4));
	assert_int_equal(gen_bits(0, 2), UINT64_C(0x06c45d188009454f));
}

static void test_graph_gen_known(void **state)
{
	const struct gen kron = gen_init(GEN_KRONECKER, 20, 1),
			 uniform = gen_init(GEN_UNIFORM, 20, 1);
	static const struct gen_pair kron_known[] = {
		{155941, 18896}, {289182, 25624}, {228700, 777982}};
	static const struct gen_pair uniform_known[] = {
		{453765, 446307}, {565883, 856949}, {176319, 153039}};

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(gen_edge(&kron, i).u, kron_known[i].u);
		assert_int_equal(gen_edge(&kron, i).v, kron_known[i].v);
		assert_int_equal(gen_edge(&uniform, i).u, uniform_known[i].u);
		assert_int_equal(gen_edge(&uniform, i).v, uniform_known[i].v);
	}
	assert_int_equal(gen_weight(gen_key(1, GEN_WEIGHTS), 3, 4), 124);
}

/* Every scale, the odd ones too: one to one. */
static void test_graph_gen_renames(void **state)
{
	unsigned char *seen = malloc(1 << 16);

	(void)state;
	assert_non_null(seen);
	for (uint32_t scale = 0; scale <= 16; scale++) {
		for (uint64_t seed = 0; seed < 3; seed++) {
			const struct gen gen = gen_init(GEN_KRONECKER, scale, seed);

			memset(seen, 0, (size_t)1 << scale);
			for (uint64_t x = 0; x < UINT64_C(1) << scale; x++) {
				uint64_t y = gen_rename(&gen, x);

				assert_true(y < UINT64_C(1) << scale);
				assert_false(seen[y]);
				seen[y] = 1;
			}
		}
	}
	free(seen);
}

/* What gen_kronecker() draws before it renames, found by undoing the renaming. */
static void undo(const struct gen *gen, uint64_t *old)
{
	for (uint64_t x = 0; x < UINT64_C(1) << gen->scale; x++)
		old[gen_rename(gen, x)] = x;
}

/* Each level falls into its four parts as A, B, C and the rest say. */
static void test_graph_gen_parts(void **state)
{
	static const double expected[] = {0.57, 0.19, 0.19, 0.05};
	const uint32_t scale = 9;
	const uint64_t nr = 100000;
	const struct gen gen = gen_init(GEN_KRONECKER, scale, 5);
	uint64_t *old = malloc(sizeof(*old) << scale), parts[16][4] = {{0}};

	(void)state;
	assert_non_null(old);
	undo(&gen, old);
	for (uint64_t i = 0; i < nr; i++) {
		struct gen_pair edge = gen_edge(&gen, i);
		uint64_t u = old[edge.u], v = old[edge.v];

		for (uint32_t b = 0; b < scale; b++)
			parts[b][(u >> b & 1) << 1 | (v >> b & 1)]++;
	}
	/* Five standard deviations. */
	for (uint32_t b = 0; b < scale; b++)
		for (int k = 0; k < 4; k++)
			assert_true(fabs((double)parts[b][k] - expected[k] * (double)nr) <
				    5 * sqrt((double)nr * expected[k] * (1 - expected[k])));
	free(old);
}

static void test_graph_gen_uniform(void **state)
{
	const struct gen gen = gen_init(GEN_UNIFORM, 8, 3);
	const uint64_t key = gen_key(3, GEN_WEIGHTS);
	uint64_t nr[256] = {0}, weights[256] = {0};
	double chi = 0, chi_weights = 0;

	(void)state;
	for (uint64_t i = 0; i < 128000; i++) {
		struct gen_pair edge = gen_edge(&gen, i);

		nr[edge.u]++;
		nr[edge.v]++;
		assert_int_equal(gen_weight(key, i, 7), gen_weight(key, 7, i));
		weights[gen_weight(key, i, 7)]++;
	}
	for (int k = 0; k < 256; k++)
		chi += ((double)nr[k] - 1000) * ((double)nr[k] - 1000) / 1000;
	for (int k = 1; k < 256; k++)
		chi_weights += pow((double)weights[k] - 128000.0 / 255, 2) / (128000.0 / 255);
	/* 255 and 254 degrees of freedom: 140 to 400 are beyond five standard deviations. */
	assert_true(chi > 140 && chi < 400);
	assert_true(chi_weights > 140 && chi_weights < 400);
	assert_int_equal(weights[0], 0);
}

static struct csr make(enum gen_kind kind, bool raw, uint64_t memory_bytes, uint32_t nr_threads)
{
	const struct gen gen = gen_init(kind, 11, 9);
	const struct edge_source source = edge_source_gen(&gen, 8 << 11);
	struct csr_build build = {.source = &source,
				  .symmetrize = !raw,
				  .dedupe = !raw,
				  .no_self_loops = !raw,
				  .weights = CSR_WEIGHTS_GEN,
				  .memory_bytes = memory_bytes};
	char err[256] = "";
	struct csr g;

	assert_int_equal(gcn_pool_create(nr_threads, &build.pool), 0);
	if (graph_build(&build, &g, NULL, err, sizeof(err)))
		fail_msg("%s", err);
	gcn_pool_destroy(build.pool);
	return g;
}

static void test_graph_gen_same(void **state)
{
	static const uint64_t memory_bytes[] = {1 << 14, 1 << 16, 1 << 24};

	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct csr first = make((enum gen_kind)kind, false, 1 << 24, 1);

		for (uint32_t i = 0; i < 3; i++) {
			struct csr other = make((enum gen_kind)kind, false, memory_bytes[i], i + 2);

			assert_int_equal(first.map_bytes, other.map_bytes);
			assert_memory_equal(first.map, other.map, first.map_bytes);
			csr_close(&other);
		}
		csr_close(&first);
	}
}

/* As drawn there are as many edges as were drawn; a seed, or a kind, is another graph. */
static void test_graph_gen_raw(void **state)
{
	struct csr kron = make(GEN_KRONECKER, true, 1 << 20, 2);
	struct csr uniform = make(GEN_UNIFORM, true, 1 << 20, 2);

	(void)state;
	assert_int_equal(kron.nr_edges, 8 << 11);
	assert_int_equal(uniform.nr_edges, 8 << 11);
	assert_int_equal(kron.flags, CSR_WEIGHTED);
	assert_memory_not_equal(kron.narrow, uniform.narrow, 4 * kron.nr_edges);
	csr_close(&kron);
	csr_close(&uniform);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_gen_bits),	  cmocka_unit_test(test_graph_gen_known),
		cmocka_unit_test(test_graph_gen_renames), cmocka_unit_test(test_graph_gen_parts),
		cmocka_unit_test(test_graph_gen_uniform), cmocka_unit_test(test_graph_gen_same),
		cmocka_unit_test(test_graph_gen_raw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
