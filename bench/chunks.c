/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What chunk pools cost the host and how much of what they hold is used, on a simulated machine
 * without bytes, or on a GPU (--machine cuda), where the driver's calls are in the times:
 *
 *   hit       pairs of an allocation and a free that need no call of the backend, by size; a sample
 *             is 16 pairs. "mixed" are random sizes in random order among a thousand live chunks.
 *   random    sizes log-uniform from 1 KiB to 1 GiB, live bytes kept near 32 GiB, by size of root
 *   gcn       what the GCN workload allocates and frees, recorded from a run with 15 million nodes
 *             and 4 epochs, or as many as --epochs says: a training has 200 (Kipf and Welling,
 *             "Semi-Supervised Classification with Graph Convolutional Networks", 2017), over which
 *             what the first one creates is spread
 *
 * Of a sequence: host time of every call; roots that were created, and time that the machine spends
 * on that, by its description; external fragmentation (1 - allocated / held) when the bytes held
 * were the most, and on average and at most over the samples in which at least half of the most was
 * live; rounding at that peak.
 *
 * What allocators of CUDA and PyTorch make of the same: tests/gpu/bench_malloc.cu and
 * bench/pytorch/alloc.py, which read the sequences that --write leaves.
 *
 * One JSON object a line; times are nanoseconds.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine_file.h"
#include "managers/manager.h"
#include "src/backend/cuda/cuda.h"
#include "src/backend/sim/sim.h"
#include "src/base/clock.h"
#include "src/base/util.h"
#include "src/mem/chunk.h"
#include "workloads/gcn/gcn.h"

#define MACHINE "h200"
#define PAIRS 16u
#define SAMPLES 20000u
#define WARM_UP 2000u
#define NR_MIXED 1000u
#define OPERATIONS 1000000u
#define SEED 2026u
#define LIVE_BYTES (UINT64_C(32) << 30)
#define GCN_NODES 15000000u
#define GCN_EPOCHS 4u
#define GCN_EPOCHS_MAX 10000u
#define SAMPLE_EVERY 64u

static struct weir_machine_desc desc;
static bool on_cuda;
static uint64_t random_state;
static uint32_t nr_epochs = GCN_EPOCHS;

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

/* 2^x for x in [0, 1): the bench needs no mathematics library for it. */
static double exp2_part(double x)
{
	double term = 1, sum = 1;

	for (int i = 1; i < 16; i++) {
		term *= x * 0.6931471805599453 / i;
		sum += term;
	}
	return sum;
}

/* From 1 KiB to 1 GiB, log-uniform. */
static uint64_t random_bytes(void)
{
	double x = (double)(random_next() >> 11) / 9007199254740992.0 * 20;
	uint32_t whole = (uint32_t)x;

	return (uint64_t)((double)(UINT64_C(1024) << whole) * exp2_part(x - whole));
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
	struct chunk_pool *pool;
	struct chunk_pool_config config;
};

/* root_bytes 0: the default. share: all large requests share roots, not only the smaller ones. */
static void bench_open(struct bench *b, uint64_t root_bytes, bool share)
{
	const struct cuda_config config = {.quiet = false};
	struct backend *backend = NULL;

	must(on_cuda ? cuda_create(&config, &backend)
		     : sim_create(&desc, WEIR_DATA_PHANTOM, &backend),
	     "machine");
	b->backend = backend;
	chunk_pool_config_init(&b->config, backend, backend->desc.device[0].memory);
	if (root_bytes) {
		b->config.root_bytes = root_bytes;
		b->config.idle_bytes = 2 * root_bytes;
	}
	if (share)
		b->config.share_bytes = UINT64_MAX;
	must(chunk_pool_create(&b->config, &b->pool), "pool");
}

static void bench_close(struct bench *b)
{
	must(chunk_pool_check(b->pool), "check");
	chunk_pool_destroy(b->pool);
	b->backend->ops->destroy(b->backend);
}

static struct mem_chunk *get(struct bench *b, uint64_t bytes)
{
	struct mem_chunk *chunk;

	must(chunk_alloc(b->pool, bytes, 0, NULL, &chunk), "allocation");
	return chunk;
}

/* ------------------------------------------------------------------ hits */

static void measure_hit(uint64_t bytes, uint32_t nr_pooled)
{
	static uint32_t sample[SAMPLES];
	struct chunk_pool_stats before, after;
	struct mem_chunk *others[8];
	struct bench b;

	bench_open(&b, 0, false);
	chunk_pool_destroy(b.pool);
	b.config.nr_pooled = nr_pooled;
	b.config.idle_bytes = MAX(b.config.idle_bytes, bytes);
	must(chunk_pool_create(&b.config, &b.pool), "pool");
	for (uint32_t i = 0; i < 8; i++)
		others[i] = get(&b, bytes);
	chunk_free(b.pool, get(&b, bytes), 0);
	chunk_pool_stats(b.pool, &before);
	for (uint32_t i = 0; i < WARM_UP + SAMPLES; i++) {
		uint64_t start = clock_now_ns();

		for (uint32_t p = 0; p < PAIRS; p++) {
			struct mem_chunk *chunk = NULL;

			if (chunk_alloc(b.pool, bytes, 0, NULL, &chunk))
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

	bench_open(&b, 0, false);
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

/* ------------------------------------------------------------------ sequences */

/* Allocate chunk number id, or free it. */
struct operation {
	uint64_t bytes;
	uint32_t id;
	bool free_it;
};

struct sequence {
	const char *name;
	struct operation *op;
	uint64_t nr, max, nr_ids;
	uint64_t live_bytes, most_live_bytes; /* asked for */
};

/* bytes: of the chunk that is allocated, or freed. */
static void sequence_add(struct sequence *s, bool free_it, uint64_t bytes, uint32_t id)
{
	if (s->nr == s->max) {
		s->max = s->max ? 2 * s->max : 1024;
		s->op = realloc(s->op, s->max * sizeof(*s->op));
		if (!s->op)
			must(-ENOMEM, "sequence");
	}
	s->live_bytes += free_it ? -bytes : bytes;
	s->most_live_bytes = MAX(s->most_live_bytes, s->live_bytes);
	s->op[s->nr++] = (struct operation){bytes, id, free_it};
}

static void sequence_random(struct sequence *s, uint64_t nr)
{
	uint32_t *live = calloc(nr, sizeof(*live)), nr_live = 0;
	uint64_t *bytes = calloc(nr, sizeof(*bytes));

	if (!bytes || !live)
		must(-ENOMEM, "sequence");
	*s = (struct sequence){.name = "random"};
	while (s->nr < nr) {
		if (s->live_bytes < LIVE_BYTES) {
			uint32_t id = (uint32_t)s->nr_ids++;

			bytes[id] = random_bytes();
			sequence_add(s, false, bytes[id], id);
			live[nr_live++] = id;
		} else {
			uint32_t at = below(nr_live), id = live[at];

			live[at] = live[--nr_live];
			sequence_add(s, true, bytes[id], id);
		}
	}
	free(bytes);
	free(live);
}

/* The sequence that a manager with these two functions records. */
static struct {
	struct sequence *sequence;
	void *addr[4096];
	uint64_t bytes[4096];
	uint32_t id[4096];
	uint32_t nr;
} recorder;

static int record_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	int err = manager_native.alloc(m, bytes, name, addr);

	if (err)
		return err;
	if (recorder.nr == ARRAY_LEN(recorder.addr))
		return -ENOMEM;
	recorder.addr[recorder.nr] = *addr;
	recorder.bytes[recorder.nr] = bytes;
	recorder.id[recorder.nr++] = (uint32_t)recorder.sequence->nr_ids;
	sequence_add(recorder.sequence, false, bytes, (uint32_t)recorder.sequence->nr_ids++);
	return 0;
}

static void record_free(struct manager *m, void *addr)
{
	for (uint32_t i = 0; i < recorder.nr; i++) {
		if (recorder.addr[i] != addr)
			continue;
		sequence_add(recorder.sequence, true, recorder.bytes[i], recorder.id[i]);
		recorder.nr--;
		recorder.addr[i] = recorder.addr[recorder.nr];
		recorder.bytes[i] = recorder.bytes[recorder.nr];
		recorder.id[i] = recorder.id[recorder.nr];
		break;
	}
	manager_native.free(m, addr);
}

static void sequence_gcn(struct sequence *s)
{
	const struct gcn_params params = {
		.nodes = GCN_NODES, .epochs = nr_epochs, .seed = GCN_SEED_DEFAULT};
	struct manager_config config = {.options = ""};
	struct manager_ops ops = manager_native;
	struct workload_result result;
	struct manager *manager;
	char why[256] = "";
	int err;

	*s = (struct sequence){.name = "gcn"};
	recorder.sequence = s;
	must(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &config.machine), "machine");
	must(manager_create("native", &config, &manager), "manager");
	ops.alloc = record_alloc;
	ops.free = record_free;
	manager->ops = &ops;
	err = gcn_run(manager, &params, &result, why, sizeof(why));
	if (err)
		fprintf(stderr, "bench_chunks: %s\n", why);
	must(err, "gcn");
	gcn_result_free(&result);
	manager->ops->destroy(manager);
	weir_machine_close(config.machine);
}

/* What is seen on the way of an untimed run. */
struct fragmentation {
	double sum, most;
	uint64_t nr, live_bytes;
};

static void fragmentation_sample(struct fragmentation *f, const struct sequence *s, struct bench *b)
{
	struct chunk_pool_stats stats;
	double part;

	if (f->live_bytes < s->most_live_bytes / 2)
		return;
	chunk_pool_stats(b->pool, &stats);
	part = 1 - (double)stats.allocated_bytes / (double)stats.held_bytes;
	f->sum += part;
	f->most = MAX(f->most, part);
	f->nr++;
}

/* sample NULL: untimed, and looked at. */
static void replay(struct bench *b, const struct sequence *s, uint32_t *sample,
		   struct fragmentation *f)
{
	struct mem_chunk **chunk = calloc(s->nr_ids, sizeof(struct mem_chunk *));

	if (!chunk)
		must(-ENOMEM, "replay");
	for (uint64_t i = 0; i < s->nr; i++) {
		const struct operation *op = &s->op[i];
		uint64_t start = sample ? clock_now_ns() : 0;

		if (op->free_it) {
			chunk_free(b->pool, chunk[op->id], 0);
			chunk[op->id] = NULL;
		} else {
			must(chunk_alloc(b->pool, op->bytes, 0, NULL, &chunk[op->id]), "replay");
		}
		if (sample) {
			sample[i] = (uint32_t)(clock_now_ns() - start);
			continue;
		}
		f->live_bytes += op->free_it ? -op->bytes : op->bytes;
		if (i % SAMPLE_EVERY == 0)
			fragmentation_sample(f, s, b);
	}
	for (uint64_t i = 0; i < s->nr_ids; i++)
		chunk_free(b->pool, chunk[i], 0);
	free(chunk);
}

static void measure_sequence(const struct sequence *s, uint64_t root_bytes, bool share)
{
	uint32_t *sample = calloc(s->nr, sizeof(*sample));
	struct fragmentation f = {0};
	struct chunk_pool_stats stats;
	uint64_t machine_ns, total_ns = 0;
	struct bench b;

	if (!sample)
		must(-ENOMEM, "samples");
	if (!on_cuda) { /* where calls cost nothing that counts here */
		bench_open(&b, root_bytes, share);
		replay(&b, s, NULL, &f);
		bench_close(&b);
	}
	bench_open(&b, root_bytes, share);
	machine_ns = b.backend->ops->now_ns(b.backend);
	replay(&b, s, sample, NULL);
	machine_ns = b.backend->ops->now_ns(b.backend) - machine_ns;
	chunk_pool_stats(b.pool, &stats);
	for (uint64_t i = 0; i < s->nr; i++)
		total_ns += sample[i];
	print_begin(s->name);
	printf("\"operations\":%llu,\"root_bytes\":%llu,\"shared\":\"%s\",",
	       (unsigned long long)s->nr, (unsigned long long)b.config.root_bytes,
	       share ? "all" : "some");
	print_times("call_ns", sample, s->nr, 1);
	printf(",\"mean_ns\":%.1f,\"hits\":%.4f,\"creates\":%llu,\"created_bytes\":%llu,"
	       "\"machine_ns\":%llu,",
	       (double)total_ns / (double)s->nr, (double)stats.nr_hits / (double)stats.nr_allocs,
	       (unsigned long long)stats.nr_creates, (unsigned long long)stats.created_bytes,
	       (unsigned long long)machine_ns);
	printf("\"peak_held_bytes\":%llu,\"peak_allocated_bytes\":%llu,"
	       "\"peak_rounding_bytes\":%llu,",
	       (unsigned long long)stats.peak_held_bytes,
	       (unsigned long long)stats.peak_allocated_bytes,
	       (unsigned long long)stats.peak_rounding_bytes);
	printf("\"fragmentation\":{\"at_peak\":%.4f,\"mean\":%.4f,\"most\":%.4f}}\n",
	       1 - (double)stats.peak_allocated_bytes / (double)stats.peak_held_bytes,
	       f.sum / (double)MAX(f.nr, 1), f.most);
	fflush(stdout);
	bench_close(&b);
	free(sample);
}

/* For the allocators of others: "+ ID BYTES" or "- ID" a line. */
static void sequence_write(const struct sequence *s, const char *folder)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.txt", folder, s->name);
	file = fopen(path, "w");
	if (!file)
		must(-errno, path);
	for (uint64_t i = 0; i < s->nr; i++) {
		if (s->op[i].free_it)
			fprintf(file, "- %u\n", s->op[i].id);
		else
			fprintf(file, "+ %u %llu\n", s->op[i].id,
				(unsigned long long)s->op[i].bytes);
	}
	if (fclose(file))
		must(-errno, path);
}

/* As pools are by default, with all large requests sharing roots, and on a simulated machine with
 * other sizes of roots. */
static void measure_sequences(struct sequence *s, const char *folder)
{
	if (folder)
		sequence_write(s, folder);
	measure_sequence(s, 0, false);
	measure_sequence(s, 0, true);
	if (!on_cuda) {
		measure_sequence(s, 2 << 20, false);
		measure_sequence(s, 32 << 20, false);
	}
	free(s->op);
}

static void usage(FILE *to)
{
	fputs("usage: bench_chunks [--machine NAME] [--operations N] [--epochs N] [--seed N]\n"
	      "                    [--write FOLDER]\n"
	      "\n"
	      "  --machine NAME   a description to simulate, or cuda: the first GPU [" MACHINE "]\n"
	      "  --operations N   of the random sequence [1000000]\n"
	      "  --epochs N       of the gcn sequence, from 1 to 10000 [4]\n"
	      "  --seed N         not 0 [2026]\n"
	      "  --write FOLDER   leave the sequences there, as random.txt and gcn.txt\n",
	      to);
}

static const char *folder_to_write, *machine_name = MACHINE;
static uint64_t nr_operations = OPERATIONS;

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"machine", required_argument, NULL, 'm'},
		{"operations", required_argument, NULL, 'n'},
		{"epochs", required_argument, NULL, 'e'},
		{"seed", required_argument, NULL, 's'},
		{"write", required_argument, NULL, 'w'},
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
		case 'n':
			nr_operations = strtoull(optarg, NULL, 10);
			break;
		case 'e':
			nr_epochs = (uint32_t)MIN(strtoull(optarg, NULL, 10), UINT32_MAX);
			break;
		case 's':
			random_state = strtoull(optarg, NULL, 10);
			break;
		case 'w':
			folder_to_write = optarg;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (optind < argc || !nr_operations || !random_state || !nr_epochs ||
	    nr_epochs > GCN_EPOCHS_MAX) {
		usage(stderr);
		exit(2);
	}
	on_cuda = !strcmp(machine_name, "cuda");
}

int main(int argc, char **argv)
{
	static const uint64_t hit[] = {4096, 65536, 98304, 2 << 20, 48 << 20, UINT64_C(1) << 30};
	struct sequence sequence;
	char why[256];

	parse(argc, argv);
	/* The GCN is recorded on a simulated one in any case. */
	if (machine_file_load(on_cuda ? MACHINE : machine_name, &desc, why, sizeof(why))) {
		fprintf(stderr, "bench_chunks: %s\n", why);
		return 2;
	}
	/* Room for all: capacity costs the host nothing. */
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		desc.memory[m].bytes = UINT64_C(1) << 40;
	for (size_t i = 0; i < ARRAY_LEN(hit); i++) {
		measure_hit(hit[i], 8);
		measure_hit(hit[i], 0);
	}
	measure_mixed();
	sequence_gcn(&sequence);
	measure_sequences(&sequence, folder_to_write);
	sequence_random(&sequence, nr_operations);
	measure_sequences(&sequence, folder_to_write);
	return 0;
}
