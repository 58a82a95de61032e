/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weir_begin() and weir_end() cost the host when nothing moves, on a simulated machine without
 * bytes: by the number of uses, the size of the ranges, and whether the program repeats itself (a
 * plan is then followed) or not. A thousand further ranges are live. The machine's own part, the
 * calls of the backend that a bracket makes, is measured beside it and stays in the figure.
 *
 * With --trace the space writes a trace to a file while it is measured, and the last line says what
 * a mark takes, an event alone.
 *
 * Usage: bench_bracket [--trace FILE] [SAMPLES]. One JSON object a line; times are nanoseconds of
 * the host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/backend.h"
#include "src/backend/machine.h"
#include "src/base/clock.h"
#include "weir/trace.h"

#define BLOCK 65536u
#define NR_OTHERS 1000u
#define MAX_USES 64u
#define MAX_BLOCKS 4000u
#define WARM_UP 500u
#define LIMIT_NS 2000u

enum order {
	REPEATED, /* one bracket again and again */
	CYCLE,	  /* seven brackets in turn */
	RANDOM,	  /* nothing to be recognised */
	ORDER_NR
};

static const char *const order_name[ORDER_NR] = {"repeated", "cycle", "random"};

static struct weir_machine *machine;
static struct weir_space *space;
static struct weir_stream *stream;
static uint64_t random_state = 2025;
static const char *trace; /* the file; NULL: no trace is written */

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_bracket: %s: %s\n", what, weir_strerror(err));
	exit(1);
}

static uint32_t below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 32) * n >> 32);
}

/* Room for everything; small chunks, so that ranges of many blocks are cheap. */
static void machine_create(void)
{
	struct weir_machine_desc desc = {
		.name = "roomy",
		.nr_memories = 2,
		.nr_devices = 1,
		.nr_links = 1,
		.memory = {{"host", WEIR_MEMORY_HOST, UINT64_C(1) << 36},
			   {"gpu0", WEIR_MEMORY_HBM, UINT64_C(1) << 36}},
		.device = {{.name = "gpu0",
			    .memory = 1,
			    .hbm_bytes_per_s = 1e12,
			    .hbm_random_bytes_per_s = 5e11,
			    .ops_per_s = 1e13,
			    .launch_ns = 2000}},
		.link = {{.a = 0,
			  .b = 1,
			  .a_to_b_bytes_per_s = 5e10,
			  .b_to_a_bytes_per_s = 5e10,
			  .duplex_bytes_per_s = 4e10,
			  .latency_ns = 1000,
			  .inplace_bytes_per_s = 5e10,
			  .inplace_small_per_s = 5e8,
			  .inplace_large_per_s = 5e7,
			  .inplace_reach_bytes = UINT64_C(1) << 30,
			  .inplace_request_bytes = 128,
			  .inplace_duplex_bytes_per_s = 26.5e9,
			  .inplace_both_bytes_per_s = 4e10,
			  .inplace_update_large_per_s = 3e7}},
		.vmm = {.granularity_bytes = BLOCK, .map_ns = 600, .set_access_ns = 19000},
	};
	const struct weir_space_config config = {.block_bytes = BLOCK, .mode = WEIR_PLANNED};

	must(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), "machine");
	must(weir_stream_create(machine, 0, &stream), "stream");
	must(weir_space_create(machine, &config, &space), "space");
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Sorts the samples. */
static void print_times(const char *name, uint64_t *sample, uint32_t nr)
{
	qsort(sample, nr, sizeof(*sample), compare);
	printf("\"%s\":{\"min\":%llu,\"median\":%llu,\"p99\":%llu}", name,
	       (unsigned long long)sample[0], (unsigned long long)sample[nr / 2],
	       (unsigned long long)sample[nr - 1 - nr / 100]);
}

/* What the backend takes for a bracket: two fences, their queries, the declared uses. */
static uint64_t measure_backend(const struct weir_use *uses, uint32_t nr_uses)
{
	struct backend *b = machine_backend(machine);
	stream_id_t id = stream_id(stream);
	fence_t begin, end;
	uint64_t start = clock_now_ns();

	must(b->ops->access_begin(b, id, NULL, uses, nr_uses), "access_begin");
	must(b->ops->fence_record(b, id, &begin), "fence_record");
	must(b->ops->fence_record(b, id, &end), "fence_record");
	b->ops->access_end(b, id, NULL);
	if (b->ops->fence_done(b, end) < 0)
		exit(1);
	return clock_now_ns() - start;
}

static uint64_t measure_bracket(const struct weir_use *uses, uint32_t nr_uses)
{
	uint64_t start = clock_now_ns();

	must(weir_begin(space, stream, uses, nr_uses), "begin");
	must(weir_end(space, stream), "end");
	return clock_now_ns() - start;
}

/* The bracket's uses: of all the ranges, nr_uses in an order that the case asks for. */
static void choose(struct weir_use *uses, const struct weir_use *all, uint32_t nr_uses,
		   enum order order, uint32_t n)
{
	uint32_t shift = order == CYCLE ? n % 7 : order == RANDOM ? below(MAX_USES) : 0;

	for (uint32_t u = 0; u < nr_uses; u++)
		uses[u] = all[(u + shift) % MAX_USES];
	if (order == RANDOM)
		uses[0].bytes -= below(1000);
}

static void measure(const struct weir_use *all, uint32_t range_blocks, uint32_t nr_uses,
		    enum order order, uint32_t nr_samples)
{
	uint64_t *sample = calloc(nr_samples, sizeof(*sample));
	struct weir_use uses[MAX_USES] = {{0}};
	struct weir_space_stats before = {0}, after;

	if (!sample)
		must(-1, "no memory for samples");
	printf("{\"schema\":\"weir-bench-bracket-1\",\"version\":\"%s\",\"machine\":\"%s\","
	       "\"order\":\"%s\",\"uses\":%u,\"range_blocks\":%u,\"other_ranges\":%u,"
	       "\"samples\":%u,%s",
	       weir_version(), weir_machine_describe(machine)->name, order_name[order], nr_uses,
	       range_blocks, NR_OTHERS, nr_samples, trace ? "\"traced\":true," : "");
	for (uint32_t n = 0; n < nr_samples; n++) {
		choose(uses, all, nr_uses, order, n);
		sample[n] = measure_backend(uses, nr_uses);
		must(weir_stream_sync(stream), "sync");
	}
	print_times("backend_ns", sample, nr_samples);
	for (uint32_t n = 0; n < WARM_UP + nr_samples; n++) {
		choose(uses, all, nr_uses, order, n);
		if (n == WARM_UP)
			weir_space_query(space, &before);
		sample[n < WARM_UP ? 0 : n - WARM_UP] = measure_bracket(uses, nr_uses);
		must(weir_stream_sync(stream), "sync");
	}
	weir_space_query(space, &after);
	if (after.nr_remaps != before.nr_remaps)
		must(-1, "something moved");
	printf(",");
	print_times("begin_end_ns", sample, nr_samples);
	printf(",\"limit_ns\":%u}\n", LIMIT_NS);
	free(sample);
}

/* Ranges of one size, backed and resident, and every case on them. */
static void measure_size(uint32_t range_blocks, uint32_t nr_samples)
{
	static const uint32_t nr_uses[] = {1, 4, 16, MAX_USES};
	struct weir_use all[MAX_USES];

	for (uint32_t u = 0; u < MAX_USES; u++) {
		uint64_t bytes = (uint64_t)range_blocks * BLOCK;
		void *addr;

		must(weir_alloc(space, bytes, stream, &addr), "alloc");
		all[u] = (struct weir_use){.addr = addr,
					   .bytes = bytes,
					   .kind = u % 2 ? WEIR_READ : WEIR_WRITE,
					   .read_bytes = bytes,
					   .write_bytes = u % 2 ? 0 : bytes};
	}
	(void)measure_bracket(all, MAX_USES);
	for (int order = 0; order < ORDER_NR; order++)
		for (size_t i = 0; i < sizeof(nr_uses) / sizeof(*nr_uses); i++)
			measure(all, range_blocks, nr_uses[i], (enum order)order, nr_samples);
	must(weir_space_sync(space), "sync");
	for (uint32_t u = 0; u < MAX_USES; u++)
		must(weir_free(space, all[u].addr, stream), "free");
}

/* An event and nothing else: in a loop, since a clock's own time is about as long. */
static void measure_mark(uint32_t nr_samples)
{
	enum { LOOP = 100 };
	uint64_t *sample = calloc(nr_samples, sizeof(*sample));

	if (!sample)
		must(-1, "no memory for samples");
	for (uint32_t n = 0; n < nr_samples; n++) {
		uint64_t start = clock_now_ns();

		for (int i = 0; i < LOOP; i++)
			weir_space_trace_mark(space, "a mark");
		sample[n] = (clock_now_ns() - start) / LOOP;
	}
	printf("{\"schema\":\"weir-bench-bracket-1\",\"version\":\"%s\",\"samples\":%u,",
	       weir_version(), nr_samples);
	print_times("mark_ns", sample, nr_samples);
	printf(",\"limit_ns\":200}\n");
	free(sample);
}

int main(int argc, char **argv)
{
	struct weir_use one = {.bytes = BLOCK, .kind = WEIR_OVERWRITE, .write_bytes = BLOCK};
	uint32_t nr_samples;

	if (argc > 2 && !strcmp(argv[1], "--trace")) {
		trace = argv[2];
		argc -= 2;
		argv += 2;
	}
	nr_samples = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
	if (argc > 2 || nr_samples < 100 || nr_samples > 10000000) {
		fprintf(stderr,
			"usage: bench_bracket [--trace FILE] [SAMPLES], from 100 to 10,000,000\n");
		return 2;
	}
	machine_create();
	if (trace)
		must(weir_space_trace(space, trace), "trace");
	for (uint32_t i = 0; i < NR_OTHERS; i++) {
		must(weir_alloc(space, BLOCK, stream, &one.addr), "alloc");
		(void)measure_bracket(&one, 1);
	}
	measure_size(1, nr_samples);
	measure_size(100, nr_samples);
	measure_size(MAX_BLOCKS, nr_samples);
	if (trace)
		measure_mark(nr_samples);
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
	return 0;
}
