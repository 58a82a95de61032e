/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What planning and simulating costs the host as a workload grows: GCN training without bytes,
 * under weir with half of the memory it needs, from 5 to 60 million nodes. Each size runs in a
 * process of its own, so that its peak of memory is its own. The last line fits a + b * nodes to
 * each figure and says how far the sizes are off that line at most, as a fraction of the largest:
 * 0 is linear.
 *
 * Usage: bench_scale [MACHINE]. One JSON object a line. "cpu_s" are seconds of processor time, of
 * the whole run and of each epoch; plans are made at the ends of the first few.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "machine/machine_file.h"
#include "workloads/gcn/gcn.h"

#define EPOCHS 6u
#define WARM_UP 2u

#define NR_SIZES 7

static const uint64_t sizes[NR_SIZES] = {5000000,  10000000, 15000000, 20000000,
					 30000000, 45000000, 60000000};

/* What a size's process reports. */
struct cost {
	double total_s, epoch_s[EPOCHS], steady_s; /* steady_s: of the least of those measured */
	double virtual_s;			   /* of the last epoch */
	double peak_bytes;
	uint64_t budget_bytes;
};

struct clock {
	double last_s;
	struct cost *cost;
};

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Called many times an epoch: what passed since the last call belongs to the epoch under way. */
static int on_progress(void *arg, uint32_t done, uint32_t total)
{
	struct clock *clock = arg;
	double now_s = cpu_s();

	if (done < total)
		clock->cost->epoch_s[done] += now_s - clock->last_s;
	clock->last_s = now_s;
	return 0;
}

static int run(const struct weir_machine_desc *desc, uint64_t nodes, struct cost *cost)
{
	struct clock clock = {.cost = cost};
	const struct gcn_params params = {.nodes = nodes,
					  .epochs = EPOCHS,
					  .seed = GCN_SEED_DEFAULT,
					  .progress = on_progress,
					  .progress_arg = &clock};
	struct manager_config config = {.options = ""};
	struct workload_result result;
	struct manager *manager;
	char why[256] = "";
	int err;

	config.gpu_budget_bytes = cost->budget_bytes = gcn_peak_bytes(&params) / 2;
	err = weir_machine_simulate(desc, WEIR_DATA_PHANTOM, &config.machine);
	if (err)
		return err;
	err = manager_create("weir", &config, &manager);
	if (err)
		goto out_machine;
	clock.last_s = cpu_s();
	err = gcn_run(manager, &params, &result, why, sizeof(why));
	if (err)
		fprintf(stderr, "bench_scale: %s\n", why);
	manager->ops->destroy(manager);
	if (!err) {
		cost->virtual_s = result.epoch_s[EPOCHS - 1];
		gcn_result_free(&result);
	}
out_machine:
	weir_machine_close(config.machine);
	return err;
}

/* In a process of its own; what it finds comes back through a pipe. */
static int run_apart(const struct weir_machine_desc *desc, uint64_t nodes, struct cost *cost)
{
	struct rusage usage;
	int ends[2], status;
	pid_t child;

	if (pipe(ends))
		return -errno;
	fflush(stdout);
	child = fork();
	if (child < 0)
		return -errno;
	if (!child) {
		memset(cost, 0, sizeof(*cost));
		status = run(desc, nodes, cost) != 0;
		if (!status && write(ends[1], cost, sizeof(*cost)) != (ssize_t)sizeof(*cost))
			status = 1;
		_exit(status);
	}
	close(ends[1]);
	if (read(ends[0], cost, sizeof(*cost)) != (ssize_t)sizeof(*cost))
		cost->budget_bytes = 0;
	close(ends[0]);
	if (wait4(child, &status, 0, &usage) != child || status || !cost->budget_bytes)
		return -EIO;
	cost->total_s = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
			(double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
	cost->peak_bytes = (double)usage.ru_maxrss * 1024;
	cost->steady_s = cost->epoch_s[WARM_UP];
	for (uint32_t i = WARM_UP; i < EPOCHS; i++)
		if (cost->epoch_s[i] < cost->steady_s)
			cost->steady_s = cost->epoch_s[i];
	return 0;
}

static void print_cost(const struct weir_machine_desc *desc, uint64_t nodes,
		       const struct cost *cost)
{
	printf("{\"schema\":\"weir-bench-scale-1\",\"version\":\"%s\",\"machine\":\"%s\","
	       "\"nodes\":%llu,\"budget_bytes\":%llu,\"cpu_s\":{\"run\":%.4f,\"epochs\":[",
	       weir_version(), desc->name, (unsigned long long)nodes,
	       (unsigned long long)cost->budget_bytes, cost->total_s);
	for (uint32_t i = 0; i < EPOCHS; i++)
		printf("%s%.4f", i ? "," : "", cost->epoch_s[i]);
	printf("],\"steady_epoch\":%.4f},\"virtual_epoch_s\":%.4f,\"peak_rss_bytes\":%.0f}\n",
	       cost->steady_s, cost->virtual_s, cost->peak_bytes);
}

/* The least squares line through what grows with the sizes, and how far the figures are off it. */
static void print_fit(const char *name, const double figure[NR_SIZES])
{
	double n = (double)NR_SIZES, x = 0, y = 0, xx = 0, xy = 0, slope, off = 0, most = 0;

	for (size_t i = 0; i < NR_SIZES; i++) {
		double nodes = (double)sizes[i] * 1e-6;

		x += nodes;
		y += figure[i];
		xx += nodes * nodes;
		xy += nodes * figure[i];
	}
	slope = (n * xy - x * y) / (n * xx - x * x);
	for (size_t i = 0; i < NR_SIZES; i++) {
		double line = (y - slope * x) / n + slope * (double)sizes[i] * 1e-6;
		double distance = figure[i] > line ? figure[i] - line : line - figure[i];

		off = distance > off ? distance : off;
		most = figure[i] > most ? figure[i] : most;
	}
	printf("\"%s\":{\"at_zero\":%.6g,\"per_million_nodes\":%.6g,\"off_line\":%.3f}", name,
	       (y - slope * x) / n, slope, most > 0 ? off / most : 0);
}

int main(int argc, char **argv)
{
	double run_s[NR_SIZES], first_s[NR_SIZES], steady_s[NR_SIZES], peak[NR_SIZES];
	struct weir_machine_desc desc;
	char why[256];

	if (argc > 2) {
		fprintf(stderr, "usage: bench_scale [MACHINE]\n");
		return 2;
	}
	if (machine_file_load(argc > 1 ? argv[1] : "rtx5090", &desc, why, sizeof(why))) {
		fprintf(stderr, "bench_scale: %s\n", why);
		return 2;
	}
	/* Room for the largest: capacity costs the host nothing, what is used does. */
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		desc.memory[m].bytes = UINT64_C(1) << 40;
	for (size_t i = 0; i < NR_SIZES; i++) {
		struct cost cost = {0};

		if (run_apart(&desc, sizes[i], &cost)) {
			fprintf(stderr, "bench_scale: %llu nodes: the run failed\n",
				(unsigned long long)sizes[i]);
			return 1;
		}
		print_cost(&desc, sizes[i], &cost);
		run_s[i] = cost.total_s;
		first_s[i] = cost.epoch_s[0];
		steady_s[i] = cost.steady_s;
		peak[i] = cost.peak_bytes;
	}
	printf("{\"schema\":\"weir-bench-scale-fit-1\",");
	print_fit("run_cpu_s", run_s);
	printf(",");
	print_fit("first_epoch_cpu_s", first_s);
	printf(",");
	print_fit("steady_epoch_cpu_s", steady_s);
	printf(",");
	print_fit("peak_rss_bytes", peak);
	printf("}\n");
	return 0;
}
