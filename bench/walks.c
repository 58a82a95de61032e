/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether plans ever lose: random periodic programs on a simulated machine, each run with plans and
 * without any (WEIR_PLANS=0). A program goes through 2 to 60 ranges over and over, which do not all
 * fit, with up to 40 ms of computation at each, and reads or writes them. Every other program has a
 * second phase, which goes through some of the ranges in an order of its own.
 *
 * Usage: bench_walks [MACHINE [CASES [SEED [PASSES [CASE]]]]]. CASE runs that one alone, and shows
 * its passes and what was planned. One JSON object a case: "planned_s" and "unplanned_s", a pass in
 * the steady state (mean of the last four); "ratio" of the two; "best_s", the least mean of four
 * passes in a row that the planned run had after its first two. The last line has how many cases
 * took more than 1.02 times as long with plans as without, or in the end as at their best, and the
 * geometric mean and the most of "ratio". Times are virtual: a seed gives the same results on every
 * computer.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/explain.h>
#include <weir/weir.h>

#include "machine/machine_file.h"
#include "src/base/util.h"
#include "src/base/variables.h"

#define RANGES_MAX 60u
#define STEPS_MAX (2 * RANGES_MAX)
#define PASSES_MIN 8u
#define PASSES_MAX 64u
#define STEADY 4u
#define LOSES 1.02

static const uint64_t gpu_budget = 33670000000, host_budget = 110000000000;

/* What a pass does at a time: a launch that uses a range, and a temporary of its own. */
struct step {
	uint32_t range;
	bool writes;
	double compute_s;
};

struct program {
	uint32_t nr_ranges, nr_steps;
	uint64_t range_bytes, temporary_bytes;
	struct step step[STEPS_MAX];
};

static double between(unsigned short random[3], double least, double most)
{
	return least + (most - least) * erand48(random);
}

static uint32_t below(unsigned short random[3], uint32_t nr)
{
	return (uint32_t)(erand48(random) * nr);
}

static void add_phase(struct program *p, uint32_t nr, bool shuffled, unsigned short random[3])
{
	const double compute_s = between(random, 0, 40e-3), writes = below(random, 3) / 2.0;
	uint32_t order[RANGES_MAX];

	for (uint32_t i = 0; i < p->nr_ranges; i++)
		order[i] = i;
	for (uint32_t i = p->nr_ranges; shuffled && i-- > 1;) {
		uint32_t j = below(random, i + 1), other = order[j];

		order[j] = order[i];
		order[i] = other;
	}
	for (uint32_t i = 0; i < nr; i++)
		p->step[p->nr_steps++] = (struct step){.range = order[i],
						       .writes = erand48(random) < writes,
						       .compute_s = compute_s};
}

static struct program draw(uint32_t seed, uint32_t number)
{
	unsigned short random[3] = {(unsigned short)seed, (unsigned short)(seed >> 16),
				    (unsigned short)number};
	struct program p = {0};

	for (uint32_t i = 0; i < 8; i++) /* neighbouring seeds begin alike */
		(void)erand48(random);
	p.nr_ranges = 2 + below(random, RANGES_MAX - 1);
	p.range_bytes = (uint64_t)((double)gpu_budget * between(random, 1.05, 2.5)) / p.nr_ranges;
	p.temporary_bytes = (uint64_t)between(random, 1e6, 500e6);
	add_phase(&p, p.nr_ranges, false, random);
	if (number % 2)
		add_phase(&p, 1 + below(random, p.nr_ranges), true, random);
	return p;
}

static int run_step(struct weir_space *space, struct weir_stream *stream, const struct program *p,
		    const struct step *step, void *range, double ops_per_s)
{
	static const struct weir_kernel kernel = {.name = "layer"};
	struct weir_use use[] = {{.addr = range,
				  .bytes = p->range_bytes,
				  .kind = step->writes ? WEIR_WRITE : WEIR_READ,
				  .read_bytes = p->range_bytes,
				  .write_bytes = step->writes ? p->range_bytes : 0},
				 {.bytes = p->temporary_bytes,
				  .kind = WEIR_OVERWRITE,
				  .write_bytes = p->temporary_bytes}};
	const struct weir_launch launch = {
		.kernel = &kernel, .uses = use, .nr_uses = 2, .ops = step->compute_s * ops_per_s};
	int err = weir_alloc(space, use[1].bytes, stream, &use[1].addr);

	if (!err)
		err = weir_begin(space, stream, use, 2);
	if (!err)
		err = weir_stream_launch(stream, &launch);
	if (!err)
		err = weir_end(space, stream);
	return err ? err : weir_free(space, use[1].addr, stream);
}

static int run_passes(struct weir_machine *machine, struct weir_space *space,
		      struct weir_stream *stream, const struct program *p, uint32_t nr_passes,
		      double *pass_s)
{
	const double ops_per_s = weir_machine_describe(machine)->device[0].ops_per_s;
	void *range[RANGES_MAX];
	int err = 0;

	for (uint32_t r = 0; r < p->nr_ranges && !err; r++) {
		const struct step fill = {.writes = true};

		err = weir_alloc(space, p->range_bytes, stream, &range[r]);
		if (!err)
			err = run_step(space, stream, p, &fill, range[r], ops_per_s);
	}
	for (uint32_t n = 0; n < nr_passes && !err; n++) {
		const uint64_t begin_ns = weir_machine_now_ns(machine);

		for (uint32_t i = 0; i < p->nr_steps && !err; i++)
			err = run_step(space, stream, p, &p->step[i], range[p->step[i].range],
				       ops_per_s);
		if (!err)
			err = weir_space_sync(space);
		pass_s[n] = (double)(weir_machine_now_ns(machine) - begin_ns) / 1e9;
	}
	return err;
}

/* All passes of a program, with plans or without. */
static int run(const struct weir_machine_desc *desc, const struct program *p, bool plans,
	       bool explains, uint32_t nr_passes, double *pass_s)
{
	const struct weir_space_config config = {
		.devices = 1, .mode = WEIR_PLANNED, .budget_bytes = {host_budget, gpu_budget}};
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_space *space;
	int err = setenv(VARIABLE_PLANS, plans ? "1" : "0", 1) ? -errno : 0;

	if (err)
		return err;
	err = weir_machine_simulate(desc, WEIR_DATA_PHANTOM, &machine);
	if (err)
		return err;
	err = weir_space_create(machine, &config, &space);
	if (err)
		goto out_machine;
	err = weir_stream_create(machine, 0, &stream);
	if (err)
		goto out_space;
	err = run_passes(machine, space, stream, p, nr_passes, pass_s);
	if (!err && plans && explains)
		err = weir_space_explain(space, stdout);
out_space:
	weir_space_destroy(space);
	if (!err)
		weir_stream_destroy(stream);
out_machine:
	weir_machine_close(machine);
	return err;
}

static void print_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level <= WEIR_LOG_INFO)
		printf("%s\n", message);
}

/* Of the passes before the one with that number. */
static double mean_before(const double *pass_s, uint32_t end)
{
	double sum = 0;

	for (uint32_t n = end - STEADY; n < end; n++)
		sum += pass_s[n];
	return sum / STEADY;
}

struct totals {
	uint32_t nr, nr_lose, nr_worse;
	double log_sum, most;
};

static void report(uint32_t number, const struct program *p, const double *planned,
		   const double *unplanned, uint32_t nr_passes, struct totals *totals)
{
	const double with = mean_before(planned, nr_passes);
	const double without = mean_before(unplanned, nr_passes);
	double best = with;

	for (uint32_t end = 2 + STEADY; end < nr_passes; end++)
		best = MIN(best, mean_before(planned, end));
	totals->nr++;
	totals->nr_lose += with > LOSES * without;
	totals->nr_worse += with > LOSES * best;
	totals->log_sum += log(with / without);
	totals->most = MAX(totals->most, with / without);
	printf("{\"case\":%u,\"ranges\":%u,\"range_bytes\":%llu,\"steps\":%u,\"compute_s\":%.4f,"
	       "\"planned_s\":%.4f,\"unplanned_s\":%.4f,\"ratio\":%.4f,\"best_s\":%.4f}\n",
	       number, p->nr_ranges, (unsigned long long)p->range_bytes, p->nr_steps,
	       p->step[0].compute_s, with, without, with / without, best);
}

static void print_passes(const char *what, const double *pass_s, uint32_t nr)
{
	printf("%s", what);
	for (uint32_t n = 0; n < nr; n++)
		printf(" %.3f", pass_s[n]);
	printf("\n");
}

/* A number among the arguments. */
static uint32_t number(int argc, char **argv, int i, uint32_t otherwise)
{
	return argc > i ? (uint32_t)strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	const uint32_t nr_cases = number(argc, argv, 2, 100), seed = number(argc, argv, 3, 1);
	const uint32_t nr_passes = MIN(MAX(number(argc, argv, 4, 48), PASSES_MIN), PASSES_MAX);
	const uint32_t only = number(argc, argv, 5, UINT32_MAX);
	double planned[PASSES_MAX], unplanned[PASSES_MAX];
	struct totals totals = {0};
	struct weir_machine_desc desc;
	char why[256];

	if (weir_machine_file_read(argc > 1 ? argv[1] : "h200", &desc, why, sizeof(why))) {
		fprintf(stderr, "bench_walks: %s\n", why);
		return 2;
	}
	if (only != UINT32_MAX)
		weir_log_set(print_log, NULL);
	for (uint32_t i = only == UINT32_MAX ? 0 : only; i < nr_cases || i == only; i++) {
		const struct program p = draw(seed, i);
		int err = run(&desc, &p, false, false, nr_passes, unplanned);

		if (!err)
			err = run(&desc, &p, true, i == only, nr_passes, planned);
		if (err) {
			fprintf(stderr, "bench_walks: case %u: %s\n", i, weir_strerror(err));
			return 1;
		}
		report(i, &p, planned, unplanned, nr_passes, &totals);
		if (i == only) {
			print_passes("planned", planned, nr_passes);
			print_passes("unplanned", unplanned, nr_passes);
			return 0;
		}
		fflush(stdout);
	}
	printf("{\"cases\":%u,\"slower_than_without\":%u,\"slower_than_their_best\":%u,"
	       "\"geomean\":%.4f,\"most\":%.4f}\n",
	       totals.nr, totals.nr_lose, totals.nr_worse, exp(totals.log_sum / MAX(totals.nr, 1u)),
	       totals.most);
	return 0;
}
