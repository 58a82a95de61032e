/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What chunk pools cost the host, on a simulated machine without bytes, or on a GPU (--machine
 * cuda): pairs of an allocation and a free that need no call of the backend, by size; a sample is
 * 16 pairs. "mixed" are random sizes in random order among a thousand live chunks. What CUDA's own
 * allocators take for the same: tests/gpu/bench_malloc.cu.
 *
 * One JSON object a line; times are nanoseconds.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine_file.h"
#include "src/backend/cuda/cuda.h"
#include "src/backend/sim/sim.h"
#include "src/base/clock.h"
#include "src/base/util.h"
#include "src/mem/mem.h"

#define MACHINE "h200"
#define PAIRS 16u
#define SAMPLES 20000u
#define WARM_UP 2000u
#define NR_MIXED 1000u
#define SEED 2026u

static struct weir_machine_desc desc;
static bool on_cuda;
static uint64_t random_state;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_chunks: %s: %s\n", what, weir_strerror(err));
	exit(1);
}

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)((random_next() >> 32) * n >> 32);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Sorts the samples, and divides each. */
static void print_times(const char *name, uint32_t *sample, uint64_t nr, double divisor)
{
	uint64_t middle = nr / 2, most = nr - 1 - nr / 100;

	qsort(sample, nr, sizeof(*sample), compare);
	printf("\"%s\":{\"min\":%.1f,\"median\":%.1f,\"p99\":%.1f}", name, sample[0] / divisor,
	       sample[middle] / divisor, sample[most] / divisor);
}

static void print_begin(const char *name)
{
	printf("{\"schema\":\"weir-bench-chunks-1\",\"version\":\"%s\",\"machine\":\"%s\","
	       "\"test\":\"%s\",",
	       weir_version(), on_cuda ? "cuda" : desc.name, name);
}

/* ------------------------------------------------------------------ pools */

struct bench {
	struct backend *backend;
	struct phys_memory memory;
	struct phys_client client;
	struct chunk_pool *pool;
};

/* As pools of plain memory are, but for the number of chunks that are kept unmerged. */
static void bench_open(struct bench *b, uint32_t nr_pooled)
{
	const struct cuda_config config = {.quiet = false};
	struct chunk_pool_config pool = {.client = &b->client,
					 .least_bytes = MEM_PAGE_MIN,
					 .idle_per_mille = MEM_IDLE_PER_MILLE,
					 .nr_pooled = nr_pooled};

	must(on_cuda ? cuda_create(&config, &b->backend)
		     : sim_create(&desc, WEIR_DATA_PHANTOM, &b->backend),
	     "machine");
	must(phys_memory_init(&b->memory, b->backend, b->backend->desc.device[0].memory),
	     "account");
	phys_client_add(&b->client, &b->memory, "bench_chunks", PHYS_NO_LIMIT);
	pool.root_bytes = MAX(MEM_PAGE_LARGE, b->backend->desc.vmm.granularity_bytes);
	pool.idle_bytes = 2 * pool.root_bytes;
	must(chunk_pool_create(&pool, &b->pool), "pool");
}

static void bench_close(struct bench *b)
{
	must(chunk_pool_check(b->pool), "check");
	chunk_pool_destroy(b->pool);
	phys_client_del(&b->client);
	phys_memory_fini(&b->memory);
	b->backend->ops->destroy(b->backend);
}

static struct mem_chunk *get(struct bench *b, uint64_t bytes)
{
	struct mem_chunk *chunk;

	must(chunk_alloc(b->pool, bytes, NULL, &chunk), "allocation");
	return chunk;
}

/* ------------------------------------------------------------------ hits */

static void measure_hit(uint64_t bytes, uint32_t nr_pooled)
{
	static uint32_t sample[SAMPLES];
	struct chunk_pool_stats before, after;
	struct mem_chunk *others[8];
	struct bench b;

	bench_open(&b, nr_pooled);
	for (uint32_t i = 0; i < 8; i++)
		others[i] = get(&b, bytes);
	chunk_free(b.pool, get(&b, bytes), 0);
	chunk_pool_stats(b.pool, &before);
	for (uint32_t i = 0; i < WARM_UP + SAMPLES; i++) {
		uint64_t start = clock_now_ns();

		for (uint32_t p = 0; p < PAIRS; p++) {
			struct mem_chunk *chunk = NULL;

			if (chunk_alloc(b.pool, bytes, NULL, &chunk))
				exit(1);
			chunk_free(b.pool, chunk, 0);
		}
		if (i >= WARM_UP)
			sample[i - WARM_UP] = (uint32_t)(clock_now_ns() - start);
	}
	chunk_pool_stats(b.pool, &after);
	if (after.nr_allocs - before.nr_allocs != after.nr_hits - before.nr_hits)
		must(-EPROTO, "a pair was no hit");
	print_begin("hit");
	printf("\"bytes\":%llu,\"pooled\":%u,\"samples\":%u,", (unsigned long long)bytes, nr_pooled,
	       SAMPLES);
	print_times("pair_ns", sample, SAMPLES, PAIRS);
	printf("}\n");
	for (uint32_t i = 0; i < 8; i++)
		chunk_free(b.pool, others[i], 0);
	bench_close(&b);
}

/* A pair frees a random one of many live chunks and allocates one of another size. */
static void measure_mixed(void)
{
	static struct mem_chunk *live[NR_MIXED];
	static uint32_t sample[SAMPLES];
	struct chunk_pool_stats before, after;
	uint64_t nr_misses;
	struct bench b;

	bench_open(&b, MEM_POOLED);
	for (uint32_t i = 0; i < NR_MIXED; i++)
		live[i] = get(&b, 1 + below(256 << 10));
	chunk_pool_stats(b.pool, &before);
	for (uint32_t i = 0; i < WARM_UP + SAMPLES; i++) {
		uint64_t start = clock_now_ns();

		for (uint32_t p = 0; p < PAIRS; p++) {
			struct mem_chunk **chunk = &live[below(NR_MIXED)];

			chunk_free(b.pool, *chunk, 0);
			*chunk = get(&b, 1 + below(256 << 10));
		}
		if (i >= WARM_UP)
			sample[i - WARM_UP] = (uint32_t)(clock_now_ns() - start);
	}
	chunk_pool_stats(b.pool, &after);
	nr_misses = after.nr_allocs - before.nr_allocs - (after.nr_hits - before.nr_hits);
	print_begin("mixed");
	printf("\"live\":%u,\"samples\":%u,\"misses\":%llu,", NR_MIXED, SAMPLES,
	       (unsigned long long)nr_misses);
	print_times("pair_ns", sample, SAMPLES, PAIRS);
	printf("}\n");
	for (uint32_t i = 0; i < NR_MIXED; i++)
		chunk_free(b.pool, live[i], 0);
	bench_close(&b);
}

static void usage(FILE *to)
{
	fputs("usage: bench_chunks [--machine NAME] [--seed N]\n"
	      "\n"
	      "  --machine NAME   a description to simulate, or cuda: the first GPU [" MACHINE "]\n"
	      "  --seed N         not 0 [2026]\n",
	      to);
}

static const char *machine_name = MACHINE;

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"machine", required_argument, NULL, 'm'},
		{"seed", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int c;

	random_state = SEED;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'm':
			machine_name = optarg;
			break;
		case 's':
			random_state = strtoull(optarg, NULL, 10);
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (optind < argc || !random_state) {
		usage(stderr);
		exit(2);
	}
	on_cuda = !strcmp(machine_name, "cuda");
}

int main(int argc, char **argv)
{
	static const uint64_t hit[] = {4096, 65536, 98304, 2 << 20};
	char why[256];

	parse(argc, argv);
	if (machine_file_load(on_cuda ? MACHINE : machine_name, &desc, why, sizeof(why))) {
		fprintf(stderr, "bench_chunks: %s\n", why);
		return 2;
	}
	/* Room for all: capacity costs the host nothing. */
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		desc.memory[m].bytes = UINT64_C(1) << 40;
	for (size_t i = 0; i < ARRAY_LEN(hit); i++) {
		measure_hit(hit[i], MEM_POOLED);
		measure_hit(hit[i], 0);
	}
	measure_mixed();
	return 0;
}
