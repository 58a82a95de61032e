/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the mechanism that weir chooses for elements of lists (docs/replica.md) is near the best,
 * on GPUs (--machine cuda) or a simulated machine. Over a grid of bytes, of runs of elements, of
 * densities, of sizes of elements and of readers, each case is sent by every mechanism and by the
 * one that is chosen; bench/mechanisms/rounds.c says what is measured of it, rig.c where.
 * Nobody waits for what is sent but its readers, and nothing else is sent: no message has time to
 * spare, for which copies would be chosen (the slack of src/replica/mechanism.h).
 *
 * The ratio of a case is that of the chosen mechanism's median to the least median, both of rounds
 * in which it was not the library that chose: where it chooses the best, it is 1 with any noise.
 * A round in which nothing is sent takes "idle_ns", which all of them have in them; the ratio
 * without it ("net_ratio") is of small messages the larger one. Cases come in an order that a hash
 * says, so that those that the time is too short for are any. One JSON object a line; times are
 * nanoseconds.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/mechanisms/mechanisms.h"
#include "bench/shared/say.h"
#include "cli/options.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/replica/parcel.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define WITHIN 1.1 /* of the best, is near */
#define CASES_MAX 2048u
#define SCHEMA "weir-bench-mechanisms-1"

struct grid {
	uint64_t range_bytes;		 /* a case lies inside */
	uint64_t bytes[8], run_bytes[8]; /* 0 at the end; runs of 1 are of one element */
	double density[8];
};

static const struct grid whole_grid = {
	.range_bytes = MIB(256),
	.bytes = {KIB(32), KIB(256), MIB(1), MIB(4), MIB(16), MIB(64)},
	.run_bytes = {64, KIB(1), KIB(16), KIB(256), 1},
	.density = {1.0 / 64, 1.0 / 8, 1.0 / 2, 7.0 / 8},
};

static const struct grid quick_grid = {
	.range_bytes = MIB(2),
	.bytes = {KIB(8), KIB(64)},
	.run_bytes = {64, KIB(1), 1},
	.density = {1.0 / 8, 1.0 / 2},
};

static struct mechanisms_options asked;
static struct rig rig;
static struct bench_case cases[CASES_MAX];
static uint32_t nr_cases;

static struct {
	uint32_t nr, nr_within, nr_net_within, nr_best[WEIR_REPLICA_MECHANISM_NR];
	double worst, log_sum;
	uint32_t worst_case;
	uint64_t nr_wrong, nr_fetched;
} all;

/* ------------------------------------------------------------------ the grid */

static void add_case(struct bench_case c, double density, uint64_t range_bytes)
{
	uint32_t element = element_size[c.size];

	c.run_bytes = MAX(c.run_bytes, element);
	c.apart = round_up((uint64_t)((double)c.run_bytes / density), element);
	if (c.run_bytes < c.bytes && c.apart > c.run_bytes && nr_cases < CASES_MAX &&
	    c.bytes / c.run_bytes * c.apart <= range_bytes)
		cases[nr_cases++] = c;
}

static void add_cases(const struct grid *g, uint32_t nr_readers)
{
	for (int b = 0; g->bytes[b]; b++)
		for (int r = 0; g->run_bytes[r]; r++)
			for (int d = 0; g->density[d] > 0; d++)
				for (uint32_t size = 0; size < NR_SIZES; size++)
					add_case((struct bench_case){.bytes = g->bytes[b],
								     .run_bytes = g->run_bytes[r],
								     .size = size,
								     .nr_readers = nr_readers},
						 g->density[d], g->range_bytes);
}

/* An order of no meaning, the same each time. */
static void shuffle(void)
{
	for (uint32_t i = nr_cases; i > 1; i--) {
		uint32_t other = (uint32_t)(hash_mix(i, 7) % i);
		struct bench_case c = cases[i - 1];

		cases[i - 1] = cases[other];
		cases[other] = c;
	}
}

/* ------------------------------------------------------------------ results */

static int best_of(const struct case_times *t)
{
	int best = WEIR_SENT_WHOLE;

	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		if (t->ns[how] && t->ns[how] < t->ns[best])
			best = how;
	return best;
}

static double net(uint64_t ns, uint64_t idle_ns)
{
	return (double)(ns > idle_ns ? ns - idle_ns : 1);
}

static void print_time(const char *name, uint64_t ns)
{
	if (ns)
		printf(",\"%s_ns\":%llu", name, (unsigned long long)ns);
	else
		printf(",\"%s_ns\":null", name);
}

static void print_begin(void)
{
	printf("{\"schema\":\"" SCHEMA "\",\"version\":\"%s\",\"machine\":\"%s\",\"gpus\":%u",
	       weir_version(), weir_machine_describe(rig.machine)->name, rig.nr_gpus);
}

static void count(uint32_t number, const struct case_times *t, int best, double ratio,
		  double net_ratio)
{
	all.nr++;
	all.nr_within += ratio <= WITHIN;
	all.nr_net_within += net_ratio <= WITHIN;
	all.nr_best[best]++;
	all.log_sum += log(ratio);
	all.nr_wrong += t->nr_wrong;
	all.nr_fetched += t->nr_fetched;
	if (ratio > all.worst) {
		all.worst = ratio;
		all.worst_case = number;
	}
}

static void print_case(uint32_t number, const struct bench_case *c, const struct case_times *t)
{
	int best = best_of(t);
	uint64_t chosen_ns = t->ns[t->chosen] ? t->ns[t->chosen] : t->ns[BY_CHOICE];
	double ratio = (double)chosen_ns / (double)t->ns[best];
	double net_ratio = net(chosen_ns, t->idle_ns) / net(t->ns[best], t->idle_ns);

	count(number, t, best, ratio, net_ratio);
	print_begin();
	printf(",\"case\":%u,\"bytes\":%llu,\"element_bytes\":%u,\"elements\":%llu,"
	       "\"run_bytes\":%llu,\"pieces\":%llu,\"density\":%.4g,\"fan_out\":%u,\"rounds\":%u",
	       number, (unsigned long long)c->bytes, element_size[c->size],
	       (unsigned long long)c->nr, (unsigned long long)c->run_bytes,
	       (unsigned long long)c->nr_runs, (double)c->run_bytes / (double)c->apart,
	       c->nr_readers, asked.nr_rounds);
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		print_time(replica_mechanism_name((enum weir_replica_mechanism)how), t->ns[how]);
	print_time("by_choice", t->ns[BY_CHOICE]);
	print_time("idle", t->idle_ns);
	printf(",\"chosen\":\"%s\",\"best\":\"%s\",\"ratio\":%.4f,\"net_ratio\":%.4f",
	       replica_mechanism_name(t->chosen),
	       replica_mechanism_name((enum weir_replica_mechanism)best), ratio, net_ratio);
	if (t->nr_mixed || t->nr_fetched)
		printf(",\"mixed_rounds\":%u,\"fetched\":%llu", t->nr_mixed,
		       (unsigned long long)t->nr_fetched);
	printf(",\"wrong\":");
	if (rig.has_bytes)
		printf("%llu}\n", (unsigned long long)t->nr_wrong);
	else
		printf("null}\n");
}

static void print_summary(void)
{
	print_begin();
	printf(",\"cases\":%u,\"left_out\":%u,\"within\":%u,\"net_within\":%u,\"limit\":%.2f,"
	       "\"worst\":%.4f,\"worst_case\":%u,\"geometric_mean\":%.4f",
	       all.nr, nr_cases - all.nr, all.nr_within, all.nr_net_within, WITHIN, all.worst,
	       all.worst_case, exp(all.log_sum / MAX(all.nr, 1)));
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		printf(",\"best_%s\":%u", replica_mechanism_name((enum weir_replica_mechanism)how),
		       all.nr_best[how]);
	printf(",\"fetched\":%llu,\"checked\":%s,\"wrong\":%llu}\n",
	       (unsigned long long)all.nr_fetched, rig.has_bytes ? "true" : "false",
	       (unsigned long long)all.nr_wrong);
}

/* ------------------------------------------------------------------ all cases */

static int run_case(uint32_t number)
{
	struct bench_case *c = &cases[number - 1];
	struct case_times times;
	int err = case_prepare(&rig, c);

	if (!err)
		err = case_measure(&rig, c, &asked, &times);
	case_release(&rig, c);
	if (!err)
		print_case(number, c, &times);
	return err;
}

static int run_cases(void)
{
	const uint64_t end_ns = clock_now_ns() + (uint64_t)asked.limit_s * 1000000000u;
	int err = 0;

	for (uint32_t i = 1; i <= nr_cases && !err; i++) {
		if (!rig.simulated && clock_now_ns() >= end_ns)
			break;
		err = run_case(i);
	}
	if (!err)
		print_summary();
	if (fflush(stdout) && !err)
		err = say_error(-EIO, "writing the results");
	if (!err && weir_space_check(rig.space))
		err = say_error(-EUCLEAN, "the space's structures");
	return err;
}

int main(int argc, char **argv)
{
	const struct grid *grid;
	char why[512];
	int err;

	if (options_want_help(argc - 1, argv + 1)) {
		mechanisms_help();
		return 0;
	}
	if (mechanisms_options(argc - 1, argv + 1, &asked, why, sizeof(why))) {
		fprintf(stderr, "bench_mechanisms: %s\n", why);
		return 2;
	}
	say_begin("bench_mechanisms");
	grid = asked.quick ? &quick_grid : &whole_grid;
	err = rig_open(&rig, &asked, grid->range_bytes);
	if (err)
		return err == -EINVAL ? 2 : 1;
	add_cases(grid, 1);
	if (rig.nr_readers > 1)
		add_cases(grid, rig.nr_readers);
	shuffle();
	err = run_cases();
	rig_close(&rig);
	weir_log_set(NULL, NULL);
	return err || all.nr_wrong ? 1 : 0;
}
