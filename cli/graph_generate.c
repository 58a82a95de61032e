/* SPDX-License-Identifier: Apache-2.0 */
/* `weir graph generate`: random graphs by the definitions of the GAP benchmark suite, see gen.h; on
 * the CPU, or on a GPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/first_logged.h"
#include "cli/graph_internal.h"
#include "machine/machine_file.h"
#include "workloads/graph/gpu_gen.h"
#include "workloads/graph/input.h"

enum {
	KRON,
	UNIFORM,
	DEGREE,
	SEED,
	WEIGHTS,
	RAW,
	MACHINE,
	DEVICE,
	MEMORY,
	THREADS,
	FORCE,
	HELP,
	NR_OPTIONS,
};

static const struct option_def generate_options[NR_OPTIONS] = {
	[KRON] = {"kron", "SCALE", NULL, NULL, "a Kronecker graph of 2^SCALE vertices"},
	[UNIFORM] = {"uniform", "SCALE", NULL, NULL, "a uniform graph of 2^SCALE vertices"},
	[DEGREE] = {"degree", "D", NULL, "16", "edges drawn for each vertex"},
	[SEED] = {"seed", "S", NULL, "1", "another seed is another graph"},
	[WEIGHTS] = {"weights", "HOW", NULL, "none", "gen: 1 to 255, uniform; none"},
	[RAW] = {"raw", NULL, NULL, NULL, "keep edges as drawn: directed, loops and duplicates"},
	[MACHINE] = {"machine", "M", NULL, NULL,
		     MACHINE_CUDA ": a GPU of this computer does it, in much less time"},
	[DEVICE] = {"device", "D", NULL, "0", "with --machine " MACHINE_CUDA ": which GPU"},
	[MEMORY] = {"memory", "SIZE", NULL, "1GiB",
		    "for edges that are being sorted; on a GPU most of its own"},
	[THREADS] = {"threads", "N", NULL, "0", "0: one a processor"},
	[FORCE] = {"force", NULL, NULL, NULL, "replace a file that is no graph file, too"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

struct generate {
	const char *output; /* borrowed */
	enum gen_kind kind;
	uint64_t scale, degree, seed, memory_bytes;
	uint64_t gpu_memory_bytes; /* 0: most of what is free */
	uint64_t device;
	enum csr_weights weights;
	uint32_t nr_threads;
	bool raw, on_gpu;
	bool force; /* whatever is there */
};

static int print_help(void)
{
	puts("usage: weir graph generate (--kron SCALE | --uniform SCALE) [options] OUTPUT\n"
	     "\n"
	     "Make a graph file of a random graph, as the GAP benchmark suite defines them:\n"
	     "edges in both directions, no loops, no duplicates. A seed gives one file\n"
	     "everywhere.\n");
	options_help(stdout, generate_options, NR_OPTIONS);
	return command_flushed(0);
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
		rc = graph_parse_number("degree", values[DEGREE].text, GRAPH_INPUT_DEGREE_MAX,
					&g->degree, err, err_bytes);
	if (!rc && !g->degree)
		rc = graph_fail(err, err_bytes, -EINVAL,
				"--degree 0 leaves no edges: write 1 or "
				"more");
	return rc;
}

/* Where it is done, and with how much memory. */
static int parse_place(const struct option_value *values, struct generate *g, char *err,
		       size_t err_bytes)
{
	const char *machine = values[MACHINE].text;
	int rc = graph_parse_memory(values[MEMORY].text, &g->memory_bytes, err, err_bytes);

	g->on_gpu = machine != NULL;
	if (!rc && machine && strcmp(machine, MACHINE_CUDA) != 0)
		rc = graph_fail(err, err_bytes, -EINVAL,
				"--machine '%.40s': write " MACHINE_CUDA
				", or leave it out for the CPU",
				machine);
	if (!rc && !machine && values[DEVICE].origin == OPTION_GIVEN)
		rc = graph_fail(err, err_bytes, -EINVAL,
				"--device is for --machine " MACHINE_CUDA ": drop it, or add that");
	if (values[MEMORY].origin == OPTION_GIVEN)
		g->gpu_memory_bytes = g->memory_bytes;
	return rc ? rc
		  : graph_parse_number("device", values[DEVICE].text, UINT32_MAX, &g->device, err,
				       err_bytes);
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
		rc = parse_place(values, g, err, err_bytes);
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
		g->force = values[FORCE].text != NULL;
	}
	free(operands);
	return rc;
}

static int on_cpu(const struct generate *g, const struct gen *gen, struct gcn_pool *pool,
		  struct graph_job *job, struct csr_built *built)
{
	const struct edge_source source = edge_source_gen(gen, g->degree << g->scale);
	const struct csr_build build = {.source = &source,
					.symmetrize = !g->raw,
					.dedupe = !g->raw,
					.no_self_loops = !g->raw,
					.weights = g->weights,
					.seed = g->seed,
					.memory_bytes = g->memory_bytes,
					.pool = pool,
					.watch = &job->watch};

	return graph_job_build(job, &build, built);
}

/* Open this computer's GPUs. logged: what weir says meanwhile. */
static int open_gpus(const struct generate *g, const struct first_logged *logged,
		     struct graph_job *job, struct weir_machine **out)
{
	int rc = weir_machine_cuda(NULL, out);
	uint32_t nr;

	if (rc)
		return graph_fail(job->err, sizeof(job->err), rc,
				  "machine '" MACHINE_CUDA "': %.300s; or leave --machine out: the "
				  "CPU makes the same file",
				  logged->error[0] ? logged->error : weir_strerror(rc));
	nr = weir_machine_describe(*out)->nr_devices;
	if (g->device < nr)
		return 0;
	weir_machine_close(*out);
	return graph_fail(job->err, sizeof(job->err), -EINVAL,
			  "--device %llu: no such device; machine '" MACHINE_CUDA "' has 0 to %u",
			  (unsigned long long)g->device, nr - 1);
}

static int on_gpu(const struct generate *g, const struct gen *gen, struct gcn_pool *pool,
		  struct graph_job *job, struct csr_built *built)
{
	struct graph_gpu gpu = {.device = (uint32_t)g->device,
				.gen = gen,
				.nr_edges = g->degree << g->scale,
				.raw = g->raw,
				.weights = g->weights == CSR_WEIGHTS_GEN,
				.seed = g->seed,
				.memory_bytes = g->gpu_memory_bytes,
				.pool = pool,
				.watch = &job->watch};
	struct first_logged logged = {0};
	char err[GRAPH_ERROR_BYTES] = "";
	int rc;

	weir_log_set(first_logged_keep, &logged);
	rc = open_gpus(g, &logged, job, &gpu.machine);
	if (!rc) {
		rc = graph_gpu_generate(&gpu, fileno(job->output.stream), built, err, sizeof(err));
		weir_machine_close(gpu.machine);
		if (rc && logged.error[0])
			graph_fail(job->err, sizeof(job->err), rc, "%.200s (%.280s)", err,
				   logged.error);
		else
			graph_fail(job->err, sizeof(job->err), rc, "%s", err);
	}
	weir_log_set(NULL, NULL);
	return rc;
}

static int generate(const struct generate *g)
{
	const struct gen gen = gen_init(g->kind, (uint32_t)g->scale, g->seed);
	struct gcn_pool *pool = NULL;
	struct csr_built built;
	struct graph_job job;
	int rc = graph_job_begin(&job, g->output, g->force), status;

	if (!rc) {
		rc = gcn_pool_create(g->nr_threads, &pool);
		if (rc)
			graph_fail(job.err, sizeof(job.err), rc, "cannot start threads: %s",
				   strerror(-rc));
	}
	if (!rc)
		rc = g->on_gpu ? on_gpu(g, &gen, pool, &job, &built)
			       : on_cpu(g, &gen, pool, &job, &built);
	gcn_pool_destroy(pool);
	status = graph_job_end(&job, rc);
	if (!status)
		graph_print_built(g->output, UINT64_C(1) << g->scale, &built);
	return command_flushed(status);
}

int graph_generate(int argc, char **argv)
{
	struct generate g = {0};
	char err[GRAPH_ERROR_BYTES];

	if (options_want_help(argc, argv))
		return print_help();
	if (parse(argc, argv, &g, err, sizeof(err)))
		return command_complain("%s", err);
	return generate(&g);
}
