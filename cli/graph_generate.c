/* SPDX-License-Identifier: Apache-2.0 */
/* `weir graph generate`: random graphs by the definitions of the GAP benchmark suite; see gen.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/graph_internal.h"
#include "workloads/graph/gen.h"

enum { KRON, UNIFORM, DEGREE, SEED, WEIGHTS, RAW, MEMORY, THREADS, HELP, NR_OPTIONS };

static const struct option_def generate_options[NR_OPTIONS] = {
	[KRON] = {"kron", "SCALE", NULL, NULL, "a Kronecker graph of 2^SCALE vertices"},
	[UNIFORM] = {"uniform", "SCALE", NULL, NULL, "a uniform graph of 2^SCALE vertices"},
	[DEGREE] = {"degree", "D", NULL, "16", "edges drawn for each vertex"},
	[SEED] = {"seed", "S", NULL, "1", "another seed is another graph"},
	[WEIGHTS] = {"weights", "HOW", NULL, "none", "gen: 1 to 255, uniform; none"},
	[RAW] = {"raw", NULL, NULL, NULL, "keep edges as drawn: directed, loops and duplicates"},
	[MEMORY] = {"memory", "SIZE", NULL, "1GiB", "for edges that are being sorted"},
	[THREADS] = {"threads", "N", NULL, "0", "0: one a processor"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

struct generate {
	const char *output; /* borrowed */
	enum gen_kind kind;
	uint64_t scale, degree, seed, memory_bytes;
	enum csr_weights weights;
	uint32_t nr_threads;
	bool raw;
};

static int print_help(void)
{
	puts("usage: weir graph generate (--kron SCALE | --uniform SCALE) [options] OUTPUT\n"
	     "\n"
	     "Make a graph file of a random graph, as the GAP benchmark suite defines them: edges\n"
	     "in both directions, no loops, no duplicates. A seed gives one file everywhere.\n");
	options_help(stdout, generate_options, NR_OPTIONS);
	return graph_flushed(0);
}

static int parse_shape(const struct option_value *values, struct generate *g, char *err,
		       size_t err_bytes)
{
	const char *kron = values[KRON].text, *uniform = values[UNIFORM].text;
	int rc;

	if (!kron == !uniform)
		return graph_fail(err, err_bytes, -EINVAL,
				  "generate needs one of --kron SCALE and --uniform SCALE: write "
				  "%s",
				  kron ? "one alone" : "one");
	g->kind = kron ? GEN_KRONECKER : GEN_UNIFORM;
	rc = graph_parse_number(kron ? "kron" : "uniform", kron ? kron : uniform, GEN_SCALE_MAX,
				&g->scale, err, err_bytes);
	if (!rc)
		rc = graph_parse_number("degree", values[DEGREE].text, 65536, &g->degree, err,
					err_bytes);
	if (!rc && !g->degree)
		rc = graph_fail(err, err_bytes, -EINVAL,
				"--degree 0 leaves no edges: write 1 or "
				"more");
	return rc;
}

static int parse(int argc, char **argv, struct generate *g, char *err, size_t err_bytes)
{
	const char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	struct option_value values[NR_OPTIONS];
	int nr_operands, rc;

	if (!operands)
		return graph_fail(err, err_bytes, -ENOMEM, "no memory on the host");
	rc = options_parse_operands(generate_options, NR_OPTIONS, argc, argv, values, operands,
				    &nr_operands, err, err_bytes);
	if (!rc)
		rc = parse_shape(values, g, err, err_bytes);
	if (!rc)
		rc = graph_parse_number("seed", values[SEED].text, UINT64_MAX, &g->seed, err,
					err_bytes);
	if (!rc)
		rc = graph_parse_weights(values[WEIGHTS].text, false, &g->weights, err, err_bytes);
	if (!rc)
		rc = graph_parse_memory(values[MEMORY].text, &g->memory_bytes, err, err_bytes);
	if (!rc)
		rc = graph_parse_threads(values[THREADS].text, &g->nr_threads, err, err_bytes);
	if (!rc && nr_operands != 1)
		rc = graph_fail(err, err_bytes, -EINVAL,
				"generate writes one file, %d are named: write weir graph "
				"generate --kron 20 graph.csr",
				nr_operands);
	if (!rc) {
		g->output = operands[0];
		g->raw = values[RAW].text != NULL;
	}
	free(operands);
	return rc;
}

static int generate(const struct generate *g)
{
	const struct gen gen = gen_init(g->kind, (uint32_t)g->scale, g->seed);
	const struct edge_source source = edge_source_gen(&gen, g->degree << g->scale);
	struct csr_build build = {.source = &source,
				  .symmetrize = !g->raw,
				  .dedupe = !g->raw,
				  .no_self_loops = !g->raw,
				  .weights = g->weights,
				  .seed = g->seed,
				  .memory_bytes = g->memory_bytes};
	struct csr_built built;
	struct graph_job job;
	int rc = graph_job_begin(&job, g->output), status;

	build.watch = &job.watch;
	if (!rc) {
		rc = gcn_pool_create(g->nr_threads, &build.pool);
		if (rc)
			graph_fail(job.err, sizeof(job.err), rc, "cannot start threads: %s",
				   strerror(-rc));
	}
	if (!rc)
		rc = graph_job_build(&job, &build, &built);
	gcn_pool_destroy(build.pool);
	status = graph_job_end(&job, rc);
	if (!status)
		graph_print_built(g->output, source.nr_vertices, &built);
	return graph_flushed(status);
}

int graph_generate(int argc, char **argv)
{
	struct generate g = {0};
	char err[GRAPH_ERROR_BYTES];

	if (options_want_help(argc, argv))
		return print_help();
	if (parse(argc, argv, &g, err, sizeof(err)))
		return graph_complain("%s", err);
	return generate(&g);
}
