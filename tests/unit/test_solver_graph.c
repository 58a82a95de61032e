/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pagerank and sssp on several simulated devices: what a phantom graph has against generated ones;
 * how a graph is split, and what each device's edges come from; ranks and distances against the
 * CPU's algorithms; the vector at the end, bit by bit, under every manager, on any number of
 * devices, with little memory; what moves; the lower bound by hand, and that no manager is faster.
 *
 * Long: yes
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/reference.h"
#include "workloads/solver/bound.h"
#include "workloads/solver/internal.h"

#define SEED 20263u

/* The last number of devices takes most of the time, and meets no other code: it is left out under
 * a sanitizer, and of sssp, which has many rounds, but for WEIR_TEST_LONG. */
static size_t nr_numbers(size_t nr, enum solver_kind kind)
{
	const struct test_amount left_out = {kind == SOLVER_SSSP, 1, 0};

	return nr - test_amount(NULL, left_out);
}

static void graph_of(struct solver_graph *g, uint32_t scale, uint64_t degree, bool phantom)
{
	const struct solver_graph_params params = {.scale = scale,
						   .degree = degree,
						   .seed = SEED,
						   .weights = true,
						   .phantom = phantom};
	char err[256] = "";

	if (solver_graph_open(&params, g, err, sizeof(err)))
		fail_msg("%s", err);
}

/* Split between so many devices. */
static struct solver_params params_of(enum solver_kind kind, struct solver_graph *g,
				      uint32_t devices)
{
	assert_int_equal(solver_graph_split(g, devices), 0);
	assert_int_equal(solver_graph_make_lists(g, devices), 0);
	return (struct solver_params){
		.kind = kind,
		.shape = solver_graph_shape(g),
		.graph = g,
		.iterations = kind == SOLVER_SSSP ? 100 : 3,
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

/* Lists that are made up: as many of each device's as are said to be listed, ascending. */
static void test_graph_made_up(void **state)
{
	const struct solver_split *split;
	struct solver_graph g;

	(void)state;
	graph_of(&g, 14, 16, true);
	assert_int_equal(solver_graph_split(&g, 3), 0);
	assert_int_equal(solver_graph_make_lists(&g, 3), 0);
	assert_int_equal(solver_graph_make_lists(&g, 3), 0); /* they are there */
	split = g.split[3];
	for (uint32_t d = 0; d < 3; d++) {
		const struct solver_share *share = &split->share[d];
		uint64_t nr_of[WEIR_DEVICES_MAX] = {0};

		for (uint64_t i = 0; i < share->nr_listed; i++) {
			const uint32_t slice = share->listed[i] / SOLVER_GRAPH_SLICE;

			assert_true(!i || share->listed[i - 1] < share->listed[i]);
			nr_of[(slice >= split->share[1].first) +
			      (slice >= split->share[2].first)]++;
		}
		assert_true(share->nr_listed > 0 && nr_of[d] == 0);
		assert_memory_equal(nr_of, share->nr_listed_of, sizeof(nr_of));
	}
	solver_graph_close(&g);
}

/* ------------------------------------------------------------------ under managers */

struct outcome {
	uint64_t hash, moved_bytes;
	double pass_s;
	uint32_t nr_iterations;
	struct solver_bound bound;
};

static bool lists_by_hand;

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
	config.lists_by_hand = lists_by_hand;
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
			m->ops->read(m, p->kind == SOLVER_SSSP ? 0 : p->iterations * p->passes % 2,
				     0, vector, solver_bytes(p)),
			0);
	m->ops->stats(m, &stats);
	for (uint32_t l = 0; l < desc->nr_links; l++)
		for (int way = 0; way < WEIR_DIRECTION_NR; way++)
			for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
				outcome.moved_bytes += stats.near[l][way][cause];
	outcome.hash = r.hash;
	outcome.pass_s = r.passes.pass_s[0];
	outcome.nr_iterations = r.nr_iterations;
	outcome.bound =
		solver_bound_of(desc, p, &r, ops->in_place ? SOLVER_IN_PLACE : SOLVER_COPIED);
	solver_result_free(&r);
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
	p = params_of(SOLVER_PAGERANK, &g, 3);
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

static void same_everywhere(enum solver_kind kind, uint32_t iterations, const uint32_t *devices,
			    size_t nr)
{
	static const uint32_t budgets[] = {0, 100, 60, 30};
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	uint64_t want;

	graph_of(&g, 12, 4, false);
	p = params_of(kind, &g, 1);
	p.iterations = iterations;
	machine_of(1, &desc);
	want = run(&desc, &solver_manager_single, &p, 0, NULL).hash;
	for (size_t i = 0; i < nr; i++)
		for (size_t k = 1; solver_managers[k]; k++)
			for (size_t b = 0; b < (solver_managers[k]->spills ? 4 : 1); b++) {
				/* Usually one budget each. */
				if (solver_managers[k]->limit ||
				    (b && b != 1 + i % 3 && !getenv("WEIR_TEST_LONG")))
					continue;
				p = params_of(kind, &g, devices[i]);
				p.iterations = iterations;
				machine_of(p.devices, &desc);
				assert_int_equal(
					run(&desc, solver_managers[k], &p, budgets[b], NULL).hash,
					want);
			}
	solver_graph_close(&g);
}

static const uint32_t devices_of_same[] = {3, 1, 2, 4, 8, 16};

static void test_pagerank_same(void **state)
{
	(void)state;
	same_everywhere(SOLVER_PAGERANK, 3, devices_of_same,
			nr_numbers(ARRAY_LEN(devices_of_same), SOLVER_PAGERANK));
}

/* Under one manager. */
static void same_of(enum solver_kind kind, uint32_t iterations, const uint32_t *devices, size_t nr,
		    const struct solver_manager_ops *ops)
{
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	uint64_t want;

	graph_of(&g, 11, 4, false);
	p = params_of(kind, &g, 1);
	p.iterations = iterations;
	machine_of(1, &desc);
	want = run(&desc, &solver_manager_single, &p, 0, NULL).hash;
	for (size_t i = 0; i < nr; i++) {
		p = params_of(kind, &g, devices[i]);
		p.iterations = iterations;
		machine_of(p.devices, &desc);
		assert_int_equal(run(&desc, ops, &p, 0, NULL).hash, want);
	}
	solver_graph_close(&g);
}

/* Until nothing changes, and stopped before. */
static void test_sssp_same(void **state)
{
	(void)state;
	same_everywhere(SOLVER_SSSP, 100, devices_of_same,
			nr_numbers(ARRAY_LEN(devices_of_same), SOLVER_SSSP));
	same_everywhere(SOLVER_SSSP, 3, devices_of_same, 1);
}

/* Those who copy by hand send elements of lists. */
static void test_by_hand_same(void **state)
{
	static const uint32_t devices[] = {2, 5, 16};
	const size_t few = nr_numbers(ARRAY_LEN(devices), SOLVER_PAGERANK);
	const size_t fewer = nr_numbers(ARRAY_LEN(devices), SOLVER_SSSP);

	(void)state;
	lists_by_hand = true;
	same_of(SOLVER_PAGERANK, 4, devices, few, &solver_manager_memcpy);
	same_of(SOLVER_PAGERANK, 4, devices, few, &solver_manager_overlap);
	same_of(SOLVER_SSSP, 100, devices, fewer, &solver_manager_memcpy);
	same_of(SOLVER_SSSP, 100, devices, fewer, &solver_manager_overlap);
	lists_by_hand = false;
}

/* Lists where ports take longer than kernels: then what is listed moves, and up to three elements
 * more in a message, and a pass is shorter. */
static void test_by_hand_pays(void **state)
{
	struct outcome whole, lists;
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	uint64_t listed = 0, most;

	(void)state;
	graph_of(&g, 18, 16, true);
	p = params_of(SOLVER_PAGERANK, &g, 4);
	machine_of(4, &desc);
	assert_false(solver_lists_pay(&desc, &p));
	for (uint32_t l = 4; l < desc.nr_links; l++)
		desc.link[l].a_to_b_bytes_per_s = desc.link[l].b_to_a_bytes_per_s =
			desc.link[l].duplex_bytes_per_s = 1e8;
	assert_true(solver_lists_pay(&desc, &p));
	for (uint32_t d = 0; d < 4; d++) {
		desc.memory[GPU0 + d].bytes = MIB(256);
		listed += g.split[4]->share[d].nr_listed * sizeof(float);
	}
	whole = run(&desc, &solver_manager_overlap, &p, 0, NULL);
	lists_by_hand = true;
	lists = run(&desc, &solver_manager_overlap, &p, 0, NULL);
	lists_by_hand = false;
	most = (listed + 12 * 12 * 8) * (p.iterations * p.passes + 2);
	assert_true(lists.moved_bytes >= listed * (p.iterations * p.passes + 2));
	assert_true(lists.moved_bytes <= most && lists.moved_bytes < whole.moved_bytes);
	print_message("%.3g s, whole %.3g s\n", lists.pass_s, whole.pass_s);
	assert_true(lists.pass_s < whole.pass_s);
	assert_true(lists.pass_s >= solver_bound_s(&lists.bound));
	solver_graph_close(&g);
}

/* Distances against Dijkstra's, in blocks that are cut short by the ends of launches. */
static void test_sssp_reference(void **state)
{
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	uint64_t *distance, nr_far = 0;
	struct outcome outcome;
	float *vector;

	(void)state;
	graph_of(&g, 16, 2, false);
	p = params_of(SOLVER_SSSP, &g, 3);
	distance = calloc(g.nr_vertices, sizeof(*distance));
	vector = calloc(g.nr_vertices, sizeof(*vector));
	assert_true(distance && vector);
	machine_of(3, &desc);
	assert_int_equal(reference_sssp(&g.input.graph, g.source, distance), 0);
	for (size_t k = 1; k < 3; k++) {
		outcome = run(&desc, k == 1 ? &solver_manager_weir : &solver_manager_overlap, &p, 0,
			      vector);
		for (uint64_t v = 0; v < g.nr_vertices; v++)
			if (distance[v] == REFERENCE_FAR)
				assert_true(isinf(vector[v]) && ++nr_far);
			else
				assert_true(vector[v] == (float)distance[v]);
	}
	print_message("%u rounds\n", outcome.nr_iterations);
	assert_true(outcome.nr_iterations > 5 && outcome.nr_iterations < 100 && nr_far);
	free(distance);
	free(vector);
	solver_graph_close(&g);
}

/* Of a phantom graph about as many rounds as of a generated one, and hardly anything written in
 * the first and the last ones. */
static void test_sssp_rounds(void **state)
{
	struct solver_graph real, mean;
	struct solver_params p;
	struct outcome want, got;
	struct weir_machine_desc desc;

	(void)state;
	machine_of(4, &desc);
	graph_of(&real, 14, 16, false);
	p = params_of(SOLVER_SSSP, &real, 4);
	want = run(&desc, &solver_manager_memcpy, &p, 0, NULL);
	graph_of(&mean, 14, 16, true);
	p = params_of(SOLVER_SSSP, &mean, 4);
	got = run(&desc, &solver_manager_memcpy, &p, 0, NULL);
	near(got.nr_iterations, want.nr_iterations, 0.25, "rounds");
	near((double)got.moved_bytes, (double)want.moved_bytes, 0.25, "bytes");
	/* Twice both vectors as they are filled; less than one in each round. */
	assert_true(got.moved_bytes <
		    3 * solver_bytes(&p) * (2 * 2 + 2 * (uint64_t)got.nr_iterations - 4));
	solver_graph_close(&real);
	solver_graph_close(&mean);
}

/* A run that sends nothing finds wrong distances: it has the rounds of one before that was
 * right. */
static void test_sssp_limit(void **state)
{
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	double alone, right;

	(void)state;
	machine_of(4, &desc);
	graph_of(&g, 12, 4, false);
	p = params_of(SOLVER_SSSP, &g, 4);
	alone = run(&desc, &solver_manager_weir_nopublish, &p, 0, NULL).nr_iterations;
	right = run(&desc, &solver_manager_weir, &p, 0, NULL).nr_iterations;
	assert_true(alone != right);
	assert_true(run(&desc, &solver_manager_weir_nopublish, &p, 0, NULL).nr_iterations == right);
	/* Of another number of devices nothing is known. */
	p = params_of(SOLVER_SSSP, &g, 2);
	assert_true(run(&desc, &solver_manager_weir_nopublish, &p, 0, NULL).nr_iterations != right);
	solver_graph_close(&g);
}

/* All elements to each other device, once an iteration and twice as the arrays are filled. */
static void test_pagerank_bytes(void **state)
{
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	uint64_t want, moved, listed = 0;

	(void)state;
	graph_of(&g, 13, 4, true);
	p = params_of(SOLVER_PAGERANK, &g, 4);
	want = 3 * solver_bytes(&p) * (p.iterations * p.passes + 2);
	machine_of(p.devices, &desc);
	assert_int_equal(run(&desc, &solver_manager_memcpy, &p, 0, NULL).moved_bytes, want);
	assert_int_equal(run(&desc, &solver_manager_overlap, &p, 0, NULL).moved_bytes, want);
	/* With lists no more than that, and no less than what is listed. */
	moved = run(&desc, &solver_manager_weir, &p, 0, NULL).moved_bytes;
	for (uint32_t d = 0; d < 4; d++)
		listed += g.split[4]->share[d].nr_listed * sizeof(float);
	assert_true(moved >= listed * (p.iterations * p.passes) && moved < want);
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
	p = params_of(SOLVER_PAGERANK, &g, 2);
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
	bound = solver_bound_of(&desc, &p, NULL, SOLVER_COPIED);
	is_ns(bound.kernels_s, 10 * fmax(kernel[0], kernel[1]));
	is_ns(bound.ports_s, 9 * fmax(cross[0], cross[1]) / 20);
	/* The shares are alike: to and fro, and a message each time. */
	near((double)share[0].nr_edges, (double)share[1].nr_edges, 1e-4, "edges");
	is_ns(bound.chain_s, 5 * (kernel[0] + kernel[1]) + 9 * (1000 + 100));
	/* Links so slow that the first launch's end, and then all bytes, are what counts. */
	desc.link[2].a_to_b_bytes_per_s = desc.link[2].b_to_a_bytes_per_s = 1e6;
	bound = solver_bound_of(&desc, &p, NULL, SOLVER_COPIED);
	is_ns(bound.chain_s, 9 * (500 + 1100 + cross[0] * 1e3) + fmax(kernel[0], kernel[1]));
	solver_graph_close(&g);
}

/* With rounds made up: what is written in the last one is not read. */
static void test_sssp_bound(void **state)
{
	struct solver_round rounds[3] = {{.nr_changed = 0}};
	struct solver_result result = {.nr_iterations = 3, .rounds = rounds};
	struct weir_machine_desc desc;
	struct solver_graph g;
	struct solver_params p;
	const struct solver_share *share;
	struct solver_bound bound;
	double kernel[2];

	(void)state;
	graph_of(&g, 12, 16, true);
	p = params_of(SOLVER_SSSP, &g, 2);
	share = g.split[2]->share;
	test_machine(&desc);
	for (uint32_t d = 0; d < 2; d++)
		kernel[d] =
			(double)share[d].nr_edges *
				(32 / (desc.device[d].hbm_random_bytes_per_s / 1e9) + 5 / 100.0) +
			(share[d + 1].first - share[d].first) * 32 * 12 / 100.0;
	rounds[0].listed[0][1] = 100;
	rounds[1].listed[1][0] = 3000;
	rounds[2].listed[0][1] = 500000;
	bound = solver_bound_of(&desc, &p, &result, SOLVER_COPIED);
	is_ns(bound.kernels_s, 3 * fmax(kernel[0], kernel[1]));
	is_ns(bound.ports_s, 3000 * 4 / 20.0);
	is_ns(bound.chain_s, 3 * fmax(kernel[0], kernel[1]));
	/* The second round's bytes hold up the third; one launch computes, one writes. */
	desc.link[2].a_to_b_bytes_per_s = desc.link[2].b_to_a_bytes_per_s = 1e8;
	bound = solver_bound_of(&desc, &p, &result, SOLVER_COPIED);
	is_ns(bound.chain_s,
	      fmax(kernel[0], kernel[1]) + kernel[0] + 2 * 500 + 1100 + 3000 * 4 * 10);
	solver_graph_close(&g);
}

static void bound_holds(enum solver_kind kind, struct solver_graph *g, uint32_t devices,
			uint32_t iterations)
{
	for (size_t k = 0; solver_managers[k]; k++) {
		const struct solver_manager_ops *ops = solver_managers[k];
		struct solver_params p = params_of(kind, g, ops->one_device ? 1 : devices);
		struct weir_machine_desc desc;
		struct outcome outcome;
		double least;

		p.iterations = iterations;
		machine_of(p.devices, &desc);
		outcome = run(&desc, ops, &p, 0, NULL);
		least = ops->limit ? outcome.bound.kernels_s : solver_bound_s(&outcome.bound);
		if (!(outcome.pass_s >= least * (1 - 1e-12)))
			fail_msg("scale %u: %s on %u: %.9g s, bound %.9g", g->scale, ops->name,
				 p.devices, outcome.pass_s, least);
		/* With one device there is nothing else, but for what sssp's host does. */
		if (ops->one_device)
			assert_true(outcome.pass_s <
				    1.1 * least + (kind == SOLVER_SSSP ? 30e-6 : 3e-6) *
							  outcome.nr_iterations);
	}
}

static void test_bound_holds(void **state)
{
	static const struct test_amount cases = {4, 1, 160};
	const uint64_t nr = test_amount(NULL, cases);

	(void)state;
	for (uint64_t i = 0; i < nr; i++) {
		const uint64_t r = gen_bits(SEED + 1, i);
		struct solver_graph g;

		graph_of(&g, 8 + (uint32_t)r % 6, 1 + (r >> 8) % 20, i % 2);
		bound_holds(SOLVER_PAGERANK, &g, 1 + (uint32_t)(r >> 16) % 6,
			    1 + (uint32_t)(r >> 24) % 4);
		bound_holds(SOLVER_SSSP, &g, 1 + (uint32_t)(r >> 16) % 6,
			    1 + (uint32_t)(r >> 24) % 20);
		solver_graph_close(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_mean),     cmocka_unit_test(test_graph_split),
		cmocka_unit_test(test_graph_made_up),  cmocka_unit_test(test_pagerank_reference),
		cmocka_unit_test(test_pagerank_same),  cmocka_unit_test(test_pagerank_bytes),
		cmocka_unit_test(test_pagerank_bound), cmocka_unit_test(test_sssp_reference),
		cmocka_unit_test(test_sssp_same),      cmocka_unit_test(test_by_hand_same),
		cmocka_unit_test(test_by_hand_pays),   cmocka_unit_test(test_sssp_rounds),
		cmocka_unit_test(test_sssp_limit),     cmocka_unit_test(test_sssp_bound),
		cmocka_unit_test(test_bound_holds),
	};

	return cmocka_run_group_tests_name("solver_graph", tests, NULL, NULL);
}
