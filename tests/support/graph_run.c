/* SPDX-License-Identifier: Apache-2.0 */
/* Running the algorithms on graphs, for tests; see graph_run.h. */
#include "tests/support/graph_run.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/test_sim_machine.h"
#include "workloads/graph/fail.h"

uint64_t run_random(uint64_t *state)
{
	*state += UINT64_C(0x9e3779b97f4a7c15);
	return gen_mix(*state);
}

/* ------------------------------------------------------------------ graphs */

void run_graph_random(uint64_t *random, struct csr *out)
{
	uint32_t scale = 1 + (uint32_t)(run_random(random) % 9);
	struct gen gen = gen_init(run_random(random) % 2 ? GEN_KRONECKER : GEN_UNIFORM, scale,
				  run_random(random));
	uint64_t nr_edges = run_random(random) % (UINT64_C(12) << scale);
	struct edge_source source = edge_source_gen(&gen, nr_edges);
	struct csr_build build = {
		.source = &source,
		.symmetrize = run_random(random) % 2,
		.dedupe = run_random(random) % 2,
		.no_self_loops = run_random(random) % 2,
		.wide = run_random(random) % 4 == 0,
		.weights = run_random(random) % 4 ? CSR_WEIGHTS_GEN : CSR_WEIGHTS_NONE,
		.seed = run_random(random),
		.memory_bytes = MIB(64),
	};
	struct csr_built built;
	char err[GRAPH_ERROR_BYTES];

	if (graph_build(&build, out, &built, err, sizeof(err)))
		fail_msg("%s", err);
}

void run_graph_long(bool symmetric, struct csr *out)
{
	enum { STARS = 5, LEAVES = 3000 };
	struct edge *edge = calloc(STARS * LEAVES, sizeof(*edge));

	assert_non_null(edge);
	for (uint64_t s = 0; s < STARS; s++)
		for (uint64_t i = 0; i < LEAVES; i++)
			edge[s * LEAVES + i] =
				(struct edge){s, (i * 7 + s) % LEAVES, (uint32_t)(i % 250 + 1)};
	graph_of(LEAVES, edge, STARS * LEAVES - 17, true, symmetric, out);
	free(edge);
}

void run_graph_weights(uint64_t *random, struct csr *out)
{
	struct edge edge[200];

	for (uint32_t i = 0; i < 200; i++) {
		uint64_t bits = run_random(random);

		edge[i] = (struct edge){bits % 40, bits / 64 % 40,
					bits >> 60 ? (uint32_t)(bits >> 32) % 9 : UINT32_MAX};
	}
	graph_of(40, edge, 200, true, false, out);
}

void run_graph_least(bool loops, struct csr *out)
{
	static const struct edge loop[] = {{0, 0, 5}, {1, 1, 1}, {1, 1, 0}};

	graph_of(loops ? 3 : 1, loop, loops ? 3 : 0, loops, false, out);
}

uint32_t *run_degrees(const struct csr *in)
{
	uint32_t *degree = calloc(in->nr_vertices, sizeof(*degree));

	assert_non_null(degree);
	for (uint64_t e = 0; e < in->nr_edges; e++)
		degree[csr_neighbour(in, e)]++;
	return degree;
}

/* ------------------------------------------------------------------ runs */

struct weir_machine *run_simulated(enum weir_data data, uint64_t memory_bytes)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;

	test_machine(&desc);
	desc.uvm = (struct weir_uvm_desc){256, 1000, 10, 5000, 100, 50, 0};
	for (uint32_t i = 0; memory_bytes && i < desc.nr_memories; i++)
		desc.memory[i].bytes = memory_bytes;
	assert_int_equal(weir_machine_simulate(&desc, data, &machine), 0);
	return machine;
}

struct graph_params run_params(enum graph_algorithm algorithm, const struct csr *g,
			       const uint64_t *sources)
{
	bool search = algorithm == GRAPH_BFS || algorithm == GRAPH_SSSP;

	return (struct graph_params){
		.algorithm = algorithm,
		.graph = g,
		.sources = search ? sources : NULL,
		.nr_sources = search ? RUN_SOURCES : 0,
		.iterations = algorithm == GRAPH_PAGERANK ? GRAPH_ITERATIONS : 0,
		.damping = GRAPH_DAMPING,
		.passes = RUN_PASSES,
		.warm_up = 1,
		.check = true,
		.threads = GRAPH_THREADS,
		.agents = 1,
	};
}

int run_under_try(struct weir_machine *machine, const struct run_under *under,
		  const struct graph_params *p, struct graph_result *out, char *err, size_t bytes)
{
	const struct manager_config config = {.machine = machine,
					      .gpu_budget_bytes = under->gpu_bytes,
					      .block_bytes = under->block_bytes,
					      .page_bytes = under->page_bytes,
					      .paged_kernels = under->kernels,
					      .options = ""};
	struct manager *m;
	int ret = manager_create(under->manager, &config, &m), check;

	err[0] = '\0';
	if (ret)
		return ret;
	ret = graph_run(m, p, out, err, bytes);
	check = m->ops->check(m);
	if (!ret && check != -EIO) /* which a test injects */
		assert_int_equal(check, 0);
	m->ops->destroy(m);
	return ret;
}

void run_under(struct weir_machine *machine, const struct run_under *under,
	       const struct graph_params *p, struct graph_result *out)
{
	char err[256];
	int ret = run_under_try(machine, under, p, out, err, sizeof(err));

	if (ret || !out->passes.passed)
		fail_msg("%s, %s, %llu bytes, pages of %u: %d, %s %s",
			 graph_algorithm_name(p->algorithm), under->manager,
			 (unsigned long long)under->gpu_bytes, under->page_bytes, ret, err,
			 ret ? "" : out->passes.wrong);
	assert_int_equal(out->passes.checked, p->check);
	for (uint32_t i = 0; i < out->passes.nr_passes; i++)
		assert_true(out->passes.pass_s[i] > 0);
}
