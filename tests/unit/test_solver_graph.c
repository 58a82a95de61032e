/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pagerank on several simulated devices: what a phantom graph has against generated ones; how a
 * graph is split, and what each device's edges come from; ranks against the CPU's algorithm; the
 * vector at the end, bit by bit, under every manager, on any number of devices, with little memory;
 * what moves; the lower bound by hand, and that no manager is faster.
 *
 * Labels: optimised
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/reference.h"
#include "workloads/solver/bound.h"
#include "workloads/solver/internal.h"

#define SEED 20263u

static void graph_of(struct solver_graph *g, uint32_t scale, uint64_t degree, bool phantom)
{
	const struct solver_graph_params params = {
		.scale = scale, .degree = degree, .seed = SEED, .phantom = phantom};
	char err[256] = "";

	if (solver_graph_open(&params, g, err, sizeof(err)))
		fail_msg("%s", err);
}

/* Split between so many devices. */
static struct solver_params params_of(struct solver_graph *g, uint32_t devices)
{
	assert_int_equal(solver_graph_split(g, devices), 0);
	return (struct solver_params){
		.kind = SOLVER_PAGERANK,
		.shape = solver_graph_shape(g),
		.graph = g,
		.iterations = 3,
		.passes = 2,
		.warm_up = 1,
		.devices = devices,
		.check = !g->phantom,
	};
}

/* ------------------------------------------------------------------ graphs */

static void near(double got, double want, double part, const char *what)
{
	if (!(fabs(got - want) <= part * want))
		fail_msg("%s: %g, not about %g", what, got, want);
}

static void test_graph_mean(void **state)
{
	(void)state;
	for (uint32_t scale = 12; scale <= 16; scale += 2) {
		struct solver_graph real, mean;

		graph_of(&real, scale, 16, false);
		graph_of(&mean, scale, 16, true);
		near((double)mean.nr_edges, (double)real.nr_edges, 0.02, "edges");
		near((double)mean.nr_isolated, (double)real.nr_isolated, 0.03, "isolated");
		for (uint32_t nr = 2; nr <= 8; nr *= 2) {
			uint64_t listed = 0, want = 0;

			assert_int_equal(solver_graph_split(&real, nr), 0);
			assert_int_equal(solver_graph_split(&mean, nr), 0);
			for (uint32_t d = 0; d < nr; d++) {
				listed += mean.split[nr]->share[d].nr_listed;
				want += real.split[nr]->share[d].nr_listed;
			}
			near((double)listed, (double)want, 0.03, "listed");
		}
		solver_graph_close(&real);
		solver_graph_close(&mean);
	}
}

/* Whether an edge from u ends at one of a device's vertices; edges are there in both directions. */
static bool has_edge(const struct solver_graph *g, const struct solver_split *split, uint32_t d,
		     uint64_t u)
{
	const struct csr *csr = &g->input.graph;

	for (uint64_t e = csr->offset[u]; e < csr->offset[u + 1]; e++) {
		const uint64_t slice = csr_neighbour(csr, e) / SOLVER_GRAPH_SLICE;

		if (slice >= split->share[d].first && slice < split->share[d + 1].first)
			return true;
	}
	return false;
}

static void share_is_right(const struct solver_graph *g, const struct solver_split *split,
			   uint32_t d)
{
	const struct solver_share *share = &split->share[d];
	uint64_t nr_of[WEIR_DEVICES_MAX] = {0}, at = 0;

	assert_true(share->first < share[1].first);
	assert_int_equal(share->nr_edges, solver_graph_edges(g, share->first, share[1].first));
	for (uint32_t of = 0; of < split->nr_devices; of++)
		for (uint64_t u = (uint64_t)split->share[of].first * SOLVER_GRAPH_SLICE;
		     u < (uint64_t)split->share[of + 1].first * SOLVER_GRAPH_SLICE; u++) {
			if (of == d || !has_edge(g, split, d, u))
				continue;
			assert_int_equal(share->listed[at++], u);
			nr_of[of]++;
		}
	assert_int_equal(at, share->nr_listed);
	assert_memory_equal(nr_of, share->nr_listed_of, sizeof(nr_of));
}

static void test_graph_split(void **state)
{
	static const uint32_t devices[] = {1, 2, 3, 7, 16};
	struct solver_graph g;

	(void)state;
	graph_of(&g, 11, 16, false);
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		const struct solver_split *split;
		uint64_t nr_edges = 0;

		assert_int_equal(solver_graph_split(&g, devices[i]), 0);
		split = g.split[devices[i]];
		assert_int_equal(split->share[0].first, 0);
		assert_int_equal(split->share[devices[i]].first, solver_graph_slices(&g));
		for (uint32_t d = 0; d < devices[i]; d++) {
			const double mean = (double)g.nr_edges / devices[i];

			share_is_right(&g, split, d);
			nr_edges += split->share[d].nr_edges;
			/* But for what one slice has. */
			assert_true((double)split->share[d].nr_edges < mean + 3000);
		}
		assert_int_equal(nr_edges, g.nr_edges);
	}
	assert_int_equal(solver_graph_split(&g, 0), -EINVAL);
	assert_int_equal(solver_graph_split(&g, 17), -EINVAL);
	solver_graph_close(&g);
	/* As many devices as slices, and a slice more than there is. */
	graph_of(&g, 6, 1, false);
	assert_int_equal(solver_graph_split(&g, 2), 0);
	share_is_right(&g, g.split[2], 0);
	share_is_right(&g, g.split[2], 1);
	assert_int_equal(solver_graph_split(&g, 3), -EINVAL);
	solver_graph_close(&g);
}

/* ------------------------------------------------------------------ under managers */

struct outcome {
	uint64_t hash, moved_bytes;
	double pass_s;
};

/* vector: what it is at the end, unless NULL. */
static struct outcome run(const struct weir_machine_desc *desc,
			  const struct solver_manager_ops *ops, const struct solver_params *p,
			  uint32_t budget_percent, float *vector)
{
	struct solver_config config = {.options = ops->options};
	struct outcome outcome = {.hash = 0};
	struct manager_stats stats;
	struct solver_result r;
	struct solver_manager *m;
	char err[256] = "";

	solver_config_set(&config, p);
	for (uint32_t d = 0; d < p->devices; d++)
		config.budget_bytes[d] = solver_named_bytes(p, d, 4096) * budget_percent / 100;
	assert_int_equal(
		weir_machine_simulate(desc, p->graph->phantom ? WEIR_DATA_PHANTOM : WEIR_DATA_REAL,
				      &config.machine),
		0);
	assert_int_equal(ops->create(&config, &m), 0);
	if (solver_run(m, p, &r, err, sizeof(err)) || !r.passes.passed)
		fail_msg("%s on %u: %s %s", ops->name, p->devices, err, r.passes.wrong);
	assert_int_equal(m->ops->check(m), 0);
	if (vector)
		assert_int_equal(
			m->ops->read(m, p->iterations * p->passes % 2, 0, vector, solver_bytes(p)),
			0);
	m->ops->stats(m, &stats);
	for (uint32_t l = 0; l < desc->nr_links; l++)
		for (int way = 0; way < WEIR_DIRECTION_NR; way++)
			for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
				outcome.moved_bytes += stats.near[l][way][cause];
	outcome.hash = r.hash;
	outcome.pass_s = r.passes.pass_s[0];
	passes_result_free(&r.passes);
	m->ops->destroy(m);
	weir_machine_close(config.machine);
	return outcome;
}

/* No two devices that are next to each other take the same time. */
static void machine_of(uint32_t devices, struct weir_machine_desc *desc)
{
	test_machine_gpus(desc, devices);
	for (uint32_t d = 0; d < devices; d++)
		desc->device[d].launch_ns *= 1 + d * 7 % 5 * 4;
}

/* Rows of more than SOLVER_LONG_ROW edges among them. */
static void test_pagerank_reference(void **state)
{
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	uint64_t longest = 0;
	double error = 0;
	double *rank;
	float *vector;

	(void)state;
	graph_of(&g, 12, 16, false);
	p = params_of(&g, 3);
	rank = calloc(g.nr_vertices, sizeof(*rank));
	vector = calloc(g.nr_vertices, sizeof(*vector));
	assert_true(rank && vector);
	machine_of(3, &desc);
	(void)run(&desc, &solver_manager_weir, &p, 0, vector);
	assert_int_equal(reference_pagerank(&g.input.graph, REFERENCE_PAGERANK_DAMPING,
					    p.iterations * p.passes, rank),
			 0);
	for (uint64_t v = 0; v < g.nr_vertices; v++) {
		const uint64_t nr = csr_degree(&g.input.graph, v);

		longest = MAX(longest, nr);
		if (nr)
			error += fabs((double)vector[v] * (double)nr - rank[v]);
		else
			assert_true(vector[v] == 0);
	}
	print_message("error %g, longest row %llu\n", error, (unsigned long long)longest);
	assert_true(error < 1e-6 && longest > SOLVER_LONG_ROW);
	free(rank);
	free(vector);
	solver_graph_close(&g);
}

static void test_pagerank_same(void **state)
{
	static const uint32_t devices[] = {1, 2, 3, 4, 8, 16}, budgets[] = {0, 100, 60, 30};
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	uint64_t want;

	(void)state;
	graph_of(&g, 12, 4, false);
	p = params_of(&g, 1);
	machine_of(1, &desc);
	want = run(&desc, &solver_manager_single, &p, 0, NULL).hash;
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		for (size_t k = 1; solver_managers[k]; k++)
			for (size_t b = 0; b < (solver_managers[k]->spills ? 4 : 1); b++) {
				if (solver_managers[k]->limit)
					continue;
				p = params_of(&g, devices[i]);
				machine_of(p.devices, &desc);
				assert_int_equal(
					run(&desc, solver_managers[k], &p, budgets[b], NULL).hash,
					want);
			}
	solver_graph_close(&g);
}

/* All elements to each other device, once an iteration and twice as the arrays are filled. */
static void test_pagerank_bytes(void **state)
{
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	uint64_t want;

	(void)state;
	graph_of(&g, 13, 4, true);
	p = params_of(&g, 4);
	want = 3 * solver_bytes(&p) * (p.iterations * p.passes + 2);
	machine_of(p.devices, &desc);
	assert_int_equal(run(&desc, &solver_manager_memcpy, &p, 0, NULL).moved_bytes, want);
	assert_int_equal(run(&desc, &solver_manager_overlap, &p, 0, NULL).moved_bytes, want);
	solver_graph_close(&g);
}

/* ------------------------------------------------------------------ the lower bound */

static void is_ns(double s, double ns)
{
	if (fabs(s * 1e9 - ns) > 1e-3)
		fail_msg("%.6f ns, not %.6f", s * 1e9, ns);
}

/* On the test machine: 100 bytes/ns of HBM, also for sectors, 20 bytes/ns and 1000 ns a message,
 * 100 ns a piece, 500 ns the least of a launch. */
static void test_pagerank_bound(void **state)
{
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	const struct solver_share *share;
	struct solver_bound bound;
	double kernel[2], cross[2];

	(void)state;
	graph_of(&g, 12, 16, true);
	p = params_of(&g, 2);
	p.iterations = 10;
	share = g.split[2]->share;
	test_machine(&desc);
	for (uint32_t d = 0; d < 2; d++) {
		const double rows = (share[d + 1].first - share[d].first) * 32.0;

		/* A sector and a number for each edge; an offset and a result for each row. */
		kernel[d] =
			(double)share[d].nr_edges *
				(32 / (desc.device[d].hbm_random_bytes_per_s / 1e9) + 4 / 100.0) +
			rows * 12 / 100.0;
		cross[d] = 4.0 * (double)share[d].nr_listed_of[!d];
	}
	bound = solver_bound_of(&desc, &p, SOLVER_COPIED);
	is_ns(bound.kernels_s, 10 * fmax(kernel[0], kernel[1]));
	is_ns(bound.ports_s, 9 * fmax(cross[0], cross[1]) / 20);
	/* The shares are alike: to and fro, and a message each time. */
	near((double)share[0].nr_edges, (double)share[1].nr_edges, 1e-4, "edges");
	is_ns(bound.chain_s, 5 * (kernel[0] + kernel[1]) + 9 * (1000 + 100));
	/* Links so slow that the first launch's end, and then all bytes, are what counts. */
	desc.link[2].a_to_b_bytes_per_s = desc.link[2].b_to_a_bytes_per_s = 1e6;
	bound = solver_bound_of(&desc, &p, SOLVER_COPIED);
	is_ns(bound.chain_s, 9 * (500 + 1100 + cross[0] * 1e3) + fmax(kernel[0], kernel[1]));
	solver_graph_close(&g);
}

static void bound_holds(struct solver_graph *g, uint32_t devices, uint32_t iterations)
{
	for (size_t k = 0; solver_managers[k]; k++) {
		const struct solver_manager_ops *ops = solver_managers[k];
		struct solver_params p = params_of(g, ops->one_device ? 1 : devices);
		struct weir_machine_desc desc;
		struct solver_bound bound;
		double s, least;

		p.iterations = iterations;
		machine_of(p.devices, &desc);
		bound = solver_bound_of(&desc, &p, ops->in_place ? SOLVER_IN_PLACE : SOLVER_COPIED);
		least = ops->limit ? bound.kernels_s : solver_bound_s(&bound);
		s = run(&desc, ops, &p, 0, NULL).pass_s;
		if (!(s >= least * (1 - 1e-12)))
			fail_msg("scale %u: %s on %u: %.9g s, bound %.9g", g->scale, ops->name,
				 p.devices, s, least);
		/* With one device there is nothing else. */
		if (ops->one_device)
			assert_true(s < 1.1 * least + 3e-6 * iterations);
	}
}

static void test_pagerank_bound_holds(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 16; i++) {
		const uint64_t r = gen_bits(SEED + 1, i);
		struct solver_graph g;

		graph_of(&g, 8 + (uint32_t)r % 6, 1 + (r >> 8) % 20, i % 2);
		bound_holds(&g, 1 + (uint32_t)(r >> 16) % 6, 1 + (uint32_t)(r >> 24) % 4);
		solver_graph_close(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_mean),	     cmocka_unit_test(test_graph_split),
		cmocka_unit_test(test_pagerank_reference),   cmocka_unit_test(test_pagerank_same),
		cmocka_unit_test(test_pagerank_bytes),	     cmocka_unit_test(test_pagerank_bound),
		cmocka_unit_test(test_pagerank_bound_holds),
	};

	return cmocka_run_group_tests_name("solver_graph", tests, NULL, NULL);
}
