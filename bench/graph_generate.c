/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long generating a Kronecker graph takes on a GPU, into a file in memory, and on the CPU with
 * all its processors and as much memory as all edges need; at a smaller scale both, whose files are
 * compared. A run is from nothing to the whole file: drawing, sorting, both directions, without
 * loops and duplicates. The first one of the GPU, which loads its kernels, is warm-up.
 *
 * One JSON object a line; times are seconds, of the steps those of the last run.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "src/backend/backend.h"
#include "src/backend/machine.h"
#include "src/base/util.h"
#include "workloads/graph/fail.h"
#include "workloads/graph/gpu_gen.h"

#define SCALE 26u
#define CPU_SCALE 22u
#define WARM_UP_SCALE 10u
#define DEGREE 16u
#define RUNS 3u
#define SEED 1u
#define STEPS_MAX 8u

static struct weir_machine *machine;
static struct gcn_pool *pool;
static uint32_t scale = SCALE, cpu_scale = CPU_SCALE;

/* Times of a run, by what its watch was told. */
static struct {
	const char *label[STEPS_MAX];
	double seconds[STEPS_MAX];
	unsigned int nr, last;
	double since;
} steps;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_graph_generate: %s: %s\n", what, weir_strerror(err));
	exit(1);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A step goes on until the next one is told. */
static bool tell(void *arg, double fraction, const char *label)
{
	double now = now_s();
	unsigned int i = 0;

	(void)arg;
	(void)fraction;
	if (steps.nr)
		steps.seconds[steps.last] += now - steps.since;
	while (i < steps.nr && strcmp(steps.label[i], label) != 0)
		i++;
	if (i == steps.nr && i < STEPS_MAX)
		steps.label[steps.nr++] = label;
	steps.last = MIN(i, STEPS_MAX - 1);
	steps.since = now;
	return false;
}

static const struct graph_watch watch = {.stop = tell};

/* One run into a new file. Its time. */
static double generate(bool on_gpu, uint32_t of, bool weights, int *file, struct csr_built *built)
{
	const struct gen gen = gen_init(GEN_KRONECKER, of, SEED);
	const struct edge_source source = edge_source_gen(&gen, (uint64_t)DEGREE << of);
	const struct graph_gpu gpu = {.machine = machine,
				      .gen = &gen,
				      .nr_edges = source.nr_edges,
				      .weights = weights,
				      .seed = SEED,
				      .pool = pool,
				      .watch = &watch};
	const struct csr_build build = {.source = &source,
					.symmetrize = true,
					.dedupe = true,
					.no_self_loops = true,
					.weights = weights ? CSR_WEIGHTS_GEN : CSR_WEIGHTS_NONE,
					.seed = SEED,
					.memory_bytes = 2 * sizeof(uint64_t) * source.nr_edges,
					.pool = pool,
					.watch = &watch};
	char err[GRAPH_ERROR_BYTES] = "no memory for a file";
	double begin;
	int rc;

	*file = memfd_create("bench", MFD_CLOEXEC);
	must(*file < 0 ? -errno : 0, err);
	memset(&steps, 0, sizeof(steps));
	begin = now_s();
	rc = on_gpu ? graph_gpu_generate(&gpu, *file, built, err, sizeof(err))
		    : csr_build(&build, *file, built, err, sizeof(err));
	must(rc, err);
	tell(NULL, 1, "");
	return now_s() - begin;
}

static void print(bool on_gpu, uint32_t of, bool weights, const double *seconds, unsigned int nr,
		  const struct csr_built *built)
{
	struct backend *b = machine_backend(machine);
	char text[128];

	b->observe->device_text(b, 0, text, sizeof(text));
	printf("{\"weir\":\"%s\",\"gpu\":\"%s\",\"by\":\"%s\",\"threads\":%u,\"scale\":%u,"
	       "\"degree\":%u,\"weights\":%s,\"edges\":%llu,\"ranges\":%llu,\"seconds\":[",
	       weir_version(), text, on_gpu ? "gpu" : "cpu", gcn_pool_threads(pool), of, DEGREE,
	       weights ? "true" : "false", (unsigned long long)built->nr_edges,
	       (unsigned long long)built->nr_passes);
	for (unsigned int i = 0; i < nr; i++)
		printf("%s%.3f", i ? "," : "", seconds[i]);
	printf("],\"steps\":{");
	for (unsigned int i = 0; i + 1 < steps.nr; i++)
		printf("%s\"%s\":%.3f", i ? "," : "", steps.label[i], steps.seconds[i]);
	printf("}}\n");
	(void)fflush(stdout);
}

/* Measure and print; the file of the last run, to be closed. */
static int measure(bool on_gpu, uint32_t of, bool weights, unsigned int nr)
{
	double seconds[RUNS];
	struct csr_built built;
	int file = -1;

	for (unsigned int i = 0; i < nr; i++) {
		if (file >= 0)
			close(file);
		seconds[i] = generate(on_gpu, of, weights, &file, &built);
	}
	print(on_gpu, of, weights, seconds, nr, &built);
	return file;
}

static bool same(int a, int b)
{
	char err[GRAPH_ERROR_BYTES];
	struct csr x, y;
	bool equal;

	must(csr_map("the GPU's graph", a, &x, err, sizeof(err)), err);
	must(csr_map("the CPU's graph", b, &y, err, sizeof(err)), err);
	equal = x.map_bytes == y.map_bytes && memcmp(x.map, y.map, x.map_bytes) == 0;
	csr_close(&x);
	csr_close(&y);
	return equal;
}

/* At the scale of both. */
static bool compare(bool weights)
{
	int gpu = measure(true, cpu_scale, weights, RUNS);
	int cpu = measure(false, cpu_scale, weights, 1);
	bool equal = same(gpu, cpu);

	close(gpu);
	close(cpu);
	if (!equal)
		fprintf(stderr, "bench_graph_generate: the GPU's graph is not the CPU's\n");
	return equal;
}

static void usage(FILE *to)
{
	fprintf(to,
		"usage: bench_graph_generate [options]\n\n"
		"  --scale N      on the GPU [%u]\n"
		"  --cpu-scale N  on both [%u]\n",
		SCALE, CPU_SCALE);
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"scale", required_argument, NULL, 's'},
		{"cpu-scale", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 's':
			scale = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'c':
			cpu_scale = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (optind < argc || !scale || scale > 32 || !cpu_scale || cpu_scale > 32) {
		usage(stderr);
		exit(2);
	}
}

static void complain(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level <= WEIR_LOG_WARNING)
		fprintf(stderr, "weir: %s\n", message);
}

int main(int argc, char **argv)
{
	struct csr_built built;
	bool right;
	int file;

	parse(argc, argv);
	weir_log_set(complain, NULL);
	must(weir_machine_cuda(NULL, &machine), "this computer's GPUs");
	must(gcn_pool_create(0, &pool), "threads");
	(void)generate(true, WARM_UP_SCALE, true, &file, &built);
	close(file);
	right = compare(false);
	right = compare(true) && right;
	close(measure(true, scale, false, RUNS));
	close(measure(true, scale, true, RUNS));
	gcn_pool_destroy(pool);
	weir_machine_close(machine);
	return right ? 0 : 1;
}
