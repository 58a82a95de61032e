/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged relays: how fast host data gets into one GPU's memory, and out of it, through the host
 * links of several GPUs at once, on a simulated machine or on GPUs (--machine cuda). The engines of
 * a GPU copy pieces between the host and buffers in its own memory, and between these and the first
 * GPU's memory. Beside that, in the same run: the first GPU's own link alone; copies that are only
 * queued on streams of other GPUs, without staging (whether these take another link depends on the
 * machine: docs/results.md); and what kernels lose that stream the memory of the relays' GPUs.
 *
 * Pieces are dealt while they are copied (bench/relay/deal.c says why). Rates are of what had
 * arrived when the first way was done, from before the first copy was queued, by the host's clock.
 * One JSON object a line; times are nanoseconds, rates 10^9 bytes a second.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/relay/relay.h"
#include "bench/shared/say.h"
#include "cli/options.h"
#include "cli/result.h"
#include "src/base/util.h"

#define KERNEL_PIECES 32u /* that a kernel reads: 512 MiB, ten times an H200's L2 cache */
#define ALONE 64u	  /* kernels on each GPU, without relays */

static struct relay_options asked;
static struct relay relay;

/* The samples of one kind of run. */
static struct {
	uint64_t ns[RELAY_SAMPLES_MAX], sorted[RELAY_SAMPLES_MAX], apart_ns[RELAY_SAMPLES_MAX];
	double gb_per_s[WAY_NR][RELAY_SAMPLES_MAX], all_gb_per_s[RELAY_SAMPLES_MAX];
	struct relay_outcome last;
} sample;

static const char *const way_name[WAY_NR] = {"in", "out"};

/* ------------------------------------------------------------------ printing */

static void print_begin(const char *test, const struct relay_run *run)
{
	static char text[256];

	if (!text[0]) {
		relay.b->observe->device_text(relay.b, 0, text, sizeof(text));
		for (char *c = text; *c; c++)
			if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
				*c = '?';
	}
	printf("{\"schema\":\"weir-bench-relay-1\",\"version\":\"%s\",\"machine\":\"%s\","
	       "\"device\":\"%s\",\"test\":\"%s\",\"staged\":%s,\"links\":%u,"
	       "\"piece_bytes\":%llu,\"buffers\":%u,\"bytes_each_way\":%llu,\"checked\":%s",
	       weir_version(), relay.b->desc.name, text, test, run->queued ? "false" : "true",
	       run->nr_lanes, (unsigned long long)run->piece_bytes, run->nr_buffers,
	       (unsigned long long)asked.bytes, asked.check ? "true" : "false");
}

static void print_quantiles(const char *name, struct quantiles q)
{
	printf(",\"%s\":{\"min\":%llu,\"median\":%llu,\"p99\":%llu}", name,
	       (unsigned long long)q.min, (unsigned long long)q.median, (unsigned long long)q.p99);
}

static void print_shares(enum way way)
{
	printf(",\"%s_pieces\":[", way_name[way]);
	for (uint32_t i = 0; i < relay.nr_lanes && sample.last.nr[way][i]; i++)
		printf("%s%u", i ? "," : "", sample.last.nr[way][i]);
	printf("]");
}

/* What the samples say. */
static void print_samples(const struct relay_run *run)
{
	const uint32_t nr = asked.nr_samples;

	memcpy(sample.sorted, sample.ns, sizeof(sample.ns));
	print_quantiles("ns", relay_quantiles(sample.sorted, nr));
	print_quantiles("apart_ns", relay_quantiles(sample.apart_ns, nr));
	for (int way = 0; way < WAY_NR; way++) {
		if (!run->way[way])
			continue;
		print_shares((enum way)way);
		printf(",\"%s_gb_per_s\":%.2f", way_name[way],
		       result_median(sample.gb_per_s[way], nr));
	}
	printf(",\"gb_per_s\":%.2f,\"samples_ns\":[", result_median(sample.all_gb_per_s, nr));
	for (uint32_t i = 0; i < nr; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)sample.ns[i]);
	printf("]");
}

static int print_end(void)
{
	printf("}\n");
	return fflush(stdout) ? say_error(-EIO, "writing the results") : 0;
}

/* ------------------------------------------------------------------ runs */

static int run_once(const struct relay_run *run, struct relay_outcome *out)
{
	static uint64_t salt;
	int err = 0;

	salt++;
	if (asked.check)
		err = check_begin(&relay, run, salt);
	if (!err)
		err = relay_run(&relay, run, out);
	if (!err && asked.check)
		err = check_end(&relay, run, salt);
	return err;
}

/* After a run that does not count. */
static int run_samples(const struct relay_run *run)
{
	int err = run_once(run, &sample.last);

	if (run->load)
		load_forget(run->load);
	for (uint32_t i = 0; i < asked.nr_samples && !err; i++) {
		const struct relay_outcome *out = &sample.last;

		err = run_once(run, &sample.last);
		sample.ns[i] = out->ns;
		sample.apart_ns[i] = MAX(out->apart_ns[WAY_IN], out->apart_ns[WAY_OUT]);
		sample.all_gb_per_s[i] = 0;
		for (int way = 0; way < WAY_NR; way++) {
			sample.gb_per_s[way][i] = out->gb_per_s[way];
			sample.all_gb_per_s[i] += out->gb_per_s[way];
		}
	}
	return err;
}

static int bench(const char *test, const struct relay_run *run)
{
	int err = run_samples(run);

	if (err)
		return err;
	print_begin(test, run);
	print_samples(run);
	return print_end();
}

/* The run that is asked for, over all links. */
static struct relay_run usual(bool in, bool out)
{
	return (struct relay_run){.way = {[WAY_IN] = in, [WAY_OUT] = out},
				  .nr_lanes = relay.nr_lanes,
				  .nr_buffers = asked.nr_buffers,
				  .piece_bytes = asked.piece_bytes};
}

/* ------------------------------------------------------------------ tests */

static int bench_links(bool in, bool out, bool queued)
{
	struct relay_run run = usual(in, out);
	const char *test = in && out ? "both" : in ? "in" : "out";
	int err = 0;

	run.queued = queued;
	for (uint32_t nr = queued ? 2 : 1; nr <= relay.nr_lanes && !err; nr++) {
		run.nr_lanes = nr;
		err = bench(test, &run);
	}
	return err;
}

static int bench_queued(void)
{
	int err = bench_links(true, false, true);

	return err ? err : bench_links(false, true, true);
}

/* But for what is measured anyway. The direct link has no buffers. */
static int bench_sizes(void)
{
	const uint64_t piece[] = {asked.piece_bytes / RELAY_PIECE_SPREAD, asked.piece_bytes,
				  asked.piece_bytes * RELAY_PIECE_SPREAD};
	int err = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(piece) * 2 * (WAY_NR + 1) && !err; i++) {
		const uint32_t what = i / (ARRAY_LEN(piece) * 2);
		struct relay_run run = usual(what != 1, what != 0);

		run.piece_bytes = piece[i / 2 % ARRAY_LEN(piece)];
		run.nr_buffers = i % 2 ? asked.nr_buffers : asked.nr_buffers / 2;
		if (run.nr_buffers != asked.nr_buffers && relay.nr_lanes == 1)
			continue;
		if (run.piece_bytes != asked.piece_bytes || run.nr_buffers != asked.nr_buffers)
			err = bench(what == 2 ? "both" : way_name[what], &run);
	}
	return err;
}

struct kernel_times {
	uint32_t nr;
	struct quantiles ns; /* where there are some */
};

static struct kernel_times kernel_times(struct load *load)
{
	struct kernel_times times = {0};
	uint64_t *ns = load_times(load, &times.nr);

	if (times.nr)
		times.ns = relay_quantiles(ns, times.nr);
	return times;
}

static void print_kernels(const char *name, const struct kernel_times *times)
{
	char label[32];

	printf(",\"%s_kernels\":%u", name, times->nr);
	snprintf(label, sizeof(label), "%s_ns", name);
	if (times->nr)
		print_quantiles(label, times->ns);
}

/* Kernels by themselves, then beside relays. */
static int bench_kernels_beside(struct load *load, bool in, bool out)
{
	struct relay_run run = usual(in, out);
	struct kernel_times alone, beside;
	int err;

	load_forget(load);
	err = load_alone(&relay, load, ALONE);
	if (err)
		return err;
	alone = kernel_times(load);
	run.load = load;
	err = run_samples(&run);
	if (err)
		return err;
	beside = kernel_times(load);
	print_begin("kernels", &run);
	printf(",\"beside\":\"%s\"", in && out ? "both" : in ? "in" : "out");
	print_kernels("alone", &alone);
	print_kernels("beside", &beside);
	if (alone.nr && beside.nr)
		printf(",\"slowed\":%.4f", (double)beside.ns.median / (double)alone.ns.median);
	print_samples(&run);
	return print_end();
}

static int bench_kernels(void)
{
	struct load *load = NULL;
	int err = load_open(&relay, relay.nr_lanes, KERNEL_PIECES * asked.piece_bytes, &load);

	if (!err)
		err = bench_kernels_beside(load, true, false);
	if (!err)
		err = bench_kernels_beside(load, false, true);
	if (!err)
		err = bench_kernels_beside(load, true, true);
	load_close(&relay, load);
	return err;
}

static int bench_all(void)
{
	int err = 0;

	if (asked.test[TEST_IN])
		err = bench_links(true, false, false);
	if (!err && asked.test[TEST_OUT])
		err = bench_links(false, true, false);
	if (!err && asked.test[TEST_BOTH])
		err = bench_links(true, true, false);
	if (!err && asked.test[TEST_QUEUED])
		err = bench_queued();
	if (!err && asked.test[TEST_SIZES])
		err = bench_sizes();
	if (!err && asked.test[TEST_KERNELS] && relay.nr_lanes > 1)
		err = bench_kernels();
	return err;
}

int main(int argc, char **argv)
{
	char why[512];
	int err;

	if (options_want_help(argc - 1, argv + 1)) {
		relay_help();
		return 0;
	}
	if (relay_options_parse(argc - 1, argv + 1, &asked, why, sizeof(why))) {
		fprintf(stderr, "bench_relay: %s\n", why);
		return 2;
	}
	say_begin("bench_relay");
	err = relay_open(&relay, &asked);
	if (err)
		return err == -EINVAL || err == -ENOENT ? 2 : 1;
	if (relay.nr_lanes == 1)
		fprintf(stderr,
			"bench_relay: %s has no other GPU that reaches the memory of the first: "
			"there is no relay, only the direct link is measured\n",
			relay.b->desc.name);
	err = bench_all();
	relay_close(&relay);
	weir_log_set(NULL, NULL);
	return err ? 1 : 0;
}
