/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs the host to find the ranges that launches name (shim/infer.h), beside a plain
 * search in the same run: a binary search among all ranges for the value at each place. A sample is
 * the mean over 400 launches in a row, which name other ranges each time.
 *
 * "gpt", "resnet" and "gcn" are generated, with as many live ranges as these trainings have in
 * PyTorch with one range a tensor, and as many of them named by a launch: 3 is the median; 144, of
 * "gcn" 20, the most. The others have one parameter of so many bytes. "find" looks up one address;
 * "pair" deletes one range and adds another one. A sample of these is a mean over 400, too.
 *
 * A program launches seldom, and its own work takes the caches in between. "cold_ns" is one launch
 * after COLD_BYTES of other memory were written and COLD_CODE_BYTES of other code were run, so that
 * what it needs is in the last level's cache at best, but for its parameters. "cold_clock_ns" is
 * what it takes to read the clock twice then, with nothing in between; it is part of "cold_ns".
 *
 * One JSON object a line; times are nanoseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/infer.h"
#include "src/base/clock.h"
#include "src/base/util.h"

#define NR_LAUNCHES 400u
#define SAMPLES 1000u
#define WARM_UP 50u
#define RANGES_MAX 16000u
#define COLD_BYTES (UINT64_C(1) << 20)
#define COLD_CODE_BYTES (UINT64_C(256) << 10)
#define COLD_SAMPLES 2000u
#define BASE UINT64_C(0x7f1200000000)

static uint64_t random_state = 2026;
static volatile uint64_t sink;

static uint32_t below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 32) * n >> 32);
}

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_infer: %s: error %d\n", what, err);
	exit(1);
}

static void *must_have(void *memory)
{
	must(!memory, "memory");
	return memory;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_sorted(const char *name, double *sample, uint32_t nr)
{
	double sum = 0;

	qsort(sample, nr, sizeof(*sample), compare);
	for (uint32_t i = 0; i < nr; i++)
		sum += sample[i];
	printf(",\"%s\":{\"min\":%.1f,\"median\":%.1f,\"p99\":%.1f,\"mean\":%.1f}", name, sample[0],
	       sample[nr / 2], sample[nr - 1 - nr / 100], sum / nr);
}

/* What one call takes, of samples of NR_LAUNCHES calls each. */
static void measure(const char *name, void (*run)(void))
{
	static double sample[SAMPLES];

	for (uint32_t i = 0; i < WARM_UP + SAMPLES; i++) {
		uint64_t start = clock_now_ns();

		run();
		if (i >= WARM_UP)
			sample[i - WARM_UP] = (double)(clock_now_ns() - start) / NR_LAUNCHES;
	}
	print_sorted(name, sample, SAMPLES);
}

/* ------------------------------------------------------------------ cold caches */

/* What takes the caches: memory that is written, and code, which does nothing and returns. */
static struct other {
	unsigned char *memory;
	void (*code)(void);
} other;

/* The code is x86's; elsewhere there is none, and the code that is measured stays warm. */
static void other_init(void)
{
	other.memory = must_have(malloc(COLD_BYTES));
#ifdef __x86_64__
	static const unsigned char nop[] = {0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};
	unsigned char *code = mmap(NULL, COLD_CODE_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(code == MAP_FAILED, "memory for code");
	for (uint64_t at = 0; at < COLD_CODE_BYTES; at += sizeof(nop))
		memcpy(code + at, nop, sizeof(nop));
	code[COLD_CODE_BYTES - 1] = 0xc3;
	/* The last instruction is to begin where it stands. */
	memset(code + COLD_CODE_BYTES - sizeof(nop), 0x90, sizeof(nop) - 1);
	must(mprotect(code, COLD_CODE_BYTES, PROT_READ | PROT_EXEC), "code");
	memcpy(&other.code, &code, sizeof(code));
#endif
}

static void run_other(void)
{
	for (uint64_t at = 0; at < COLD_BYTES; at += 64)
		other.memory[at]++;
	if (other.code)
		other.code();
}

/* What one call of run(i) takes, if other things ran before it, and at last prepare(i). */
static void measure_cold(const char *name, void (*prepare)(uint32_t i), void (*run)(uint32_t i))
{
	static double sample[COLD_SAMPLES];

	for (uint32_t i = 0; i < WARM_UP + COLD_SAMPLES; i++) {
		uint64_t start;

		run_other();
		prepare(i % NR_LAUNCHES);
		start = clock_now_ns();
		run(i % NR_LAUNCHES);
		if (i >= WARM_UP)
			sample[i - WARM_UP] = (double)(clock_now_ns() - start);
	}
	print_sorted(name, sample, COLD_SAMPLES);
}

/* ------------------------------------------------------------------ ranges */

/* A line of ranges, in the order of addresses; each fourth one is not live at first. */
static struct line {
	uint64_t addr[RANGES_MAX], bytes[RANGES_MAX];
	uint32_t live[RANGES_MAX], spare[RANGES_MAX], nr_live, nr_spare;
} line;

/* Sizes as a small GPT has them: half below 64 KiB, few of 8 MiB and more. */
static uint64_t random_bytes(void)
{
	uint32_t at = below(378);

	if (at < 206)
		return 256 * (uint64_t)(1 + below(255));
	if (at < 297)
		return 65536 + 512 * (uint64_t)below(3968);
	if (at < 365)
		return (UINT64_C(2) << 20) + 512 * (uint64_t)below(12288);
	return (UINT64_C(8) << 20) + 512 * (uint64_t)below(114688);
}

/* fixed_bytes: of each range; 0: random ones. */
static void line_make(uint32_t nr, uint64_t fixed_bytes)
{
	uint64_t at = BASE;

	line.nr_live = line.nr_spare = 0;
	for (uint32_t i = 0; i < nr + nr / 3; i++) {
		line.addr[i] = at;
		line.bytes[i] = fixed_bytes ? fixed_bytes : random_bytes();
		at += line.bytes[i];
		if (i % 4 == 3)
			line.spare[line.nr_spare++] = i;
		else
			line.live[line.nr_live++] = i;
	}
}

/* The first byte of a live range, or one inside it. */
static uint64_t addr_in(uint32_t at, bool first_byte)
{
	uint32_t i;

	must(!line.nr_live, "a line without ranges");
	i = line.live[at % line.nr_live];
	return line.addr[i] + (first_byte ? 0 : below((uint32_t)line.bytes[i]));
}

static struct ranges ranges;
static uint64_t query[NR_LAUNCHES];

static void run_find(void)
{
	for (uint32_t i = 0; i < NR_LAUNCHES; i++) {
		const struct range_live *range = ranges_find(&ranges, query[i]);

		sink += range ? range->id : 0;
	}
}

static void run_pairs(void)
{
	const struct range_live *range;

	for (uint32_t i = 0; i < NR_LAUNCHES; i++) {
		uint32_t *from = &line.live[below(line.nr_live)];
		uint32_t *to = &line.spare[below(line.nr_spare)], gone = *from;

		must(ranges_del(&ranges, line.addr[gone], NULL), "deletion");
		must(ranges_add(&ranges, line.addr[*to], line.bytes[*to], &range), "addition");
		*from = *to;
		*to = gone;
	}
}

static void bench_ranges(uint32_t nr, uint64_t fixed_bytes)
{
	const struct range_live *range;

	line_make(nr, fixed_bytes);
	must(ranges_init(&ranges), "ranges");
	for (uint32_t i = 0; i < line.nr_live; i++)
		must(ranges_add(&ranges, line.addr[line.live[i]], line.bytes[line.live[i]], &range),
		     "addition");
	printf("{\"schema\":\"weir-bench-infer-1\",\"test\":\"ranges\",\"live\":%u,\"bytes\":%llu",
	       line.nr_live, (unsigned long long)fixed_bytes);
	for (uint32_t first = 0; first < 2; first++) {
		for (uint32_t i = 0; i < NR_LAUNCHES; i++)
			query[i] = addr_in(below(line.nr_live), first);
		measure(first ? "find_first_ns" : "find_inside_ns", run_find);
	}
	measure("pair_ns", run_pairs);
	printf("}\n");
	must(!ranges_check(&ranges), "check");
	ranges_fini(&ranges);
}

/* ------------------------------------------------------------------ launches */

#define KERNEL_PARAMS_MAX 40u

/* A kind of kernel: its layout, and how many pointers stand in which parameter. */
struct kind {
	uint32_t per_mille; /* of the launches */
	uint32_t nr_params;
	uint32_t bytes[KERNEL_PARAMS_MAX], pointers[KERNEL_PARAMS_MAX];
};

static const struct kind training[] = {
	{450, 3, {4, 16, 24}, {0, 0, 3}},	 /* element by element */
	{150, 3, {4, 16, 16}, {0, 0, 2}},	 /* copies, conversions */
	{180, 1, {368}, {4}},			 /* matrix products */
	{80, 2, {4, 648}, {0, 3}},		 /* with strides */
	{130, 4, {1016, 8, 8, 8}, {3, 1, 1, 1}}, /* reductions */
	{10, 3, {4096, 8, 4}, {144, 0, 0}},	 /* lists of tensors */
};

struct launch {
	struct infer_launch infer;
	void *params[KERNEL_PARAMS_MAX];
	const struct kind *kind;
};

static struct launch launch[NR_LAUNCHES];
static struct infer *infer;
static struct infer_uses uses;
static uint64_t nr_named;

static void run_infer(void)
{
	nr_named = 0;
	for (uint32_t i = 0; i < NR_LAUNCHES; i++) {
		must(infer_launch(infer, &launch[i].infer, &uses), "launch");
		nr_named += uses.nr;
	}
}

static void run_infer_once(uint32_t i)
{
	must(infer_launch(infer, &launch[i].infer, &uses), "launch");
}

/* The program has just written its parameters. */
static void read_params(uint32_t i)
{
	const struct kind *kind = launch[i].kind;

	for (uint32_t p = 0; p < kind->nr_params; p++)
		for (uint32_t at = 0; at < kind->bytes[p]; at += 4)
			sink += ((const unsigned char *)launch[i].params[p])[at];
}

static void run_nothing(uint32_t i)
{
	(void)i;
}

/* The range that holds a value, by the order in line.live; nr_live: none. */
static uint32_t plain_find(uint64_t value)
{
	uint32_t at;

	SEARCH_SORTED(at, 0, line.nr_live, line.addr[line.live[at]] <= value);
	if (at && value - line.addr[line.live[at - 1]] < line.bytes[line.live[at - 1]])
		return at - 1;
	return line.nr_live;
}

static void run_plain(void)
{
	static uint32_t mark[RANGES_MAX], number;
	uint64_t nr = 0;

	for (uint32_t i = 0; i < NR_LAUNCHES; i++) {
		const struct kind *kind = launch[i].kind;

		number++;
		for (uint32_t p = 0; p < kind->nr_params; p++) {
			const unsigned char *data = launch[i].params[p];

			for (uint32_t at = 0; at + 8 <= kind->bytes[p]; at += 4) {
				uint64_t value;
				uint32_t found;

				memcpy(&value, data + at, sizeof(value));
				found = plain_find(value);
				if (found < line.nr_live && mark[found] != number) {
					mark[found] = number;
					nr++;
				}
			}
		}
	}
	if (nr != nr_named)
		must(-1, "the two searches differ");
}

/*
 * Zeros and small numbers, and pointers spread over the parameter, each to another range, one in
 * four not to its first byte.
 */
static void *param_make(uint32_t bytes, uint32_t pointers)
{
	unsigned char *data = must_have(calloc(1, bytes));
	uint32_t nr = bytes / 8, start = below(line.nr_live);

	for (uint32_t at = 0; at + 4 <= bytes; at += 4) {
		uint32_t number = below(2) ? below(5000) : 0;

		memcpy(data + at, &number, sizeof(number));
	}
	for (uint32_t i = 0; i < pointers; i++) {
		uint64_t addr = addr_in(start + i * 61, below(4));

		memcpy(data + 8 * (size_t)(i * nr / pointers), &addr, sizeof(addr));
	}
	return data;
}

static const struct kind *random_kind(const struct kind *kind)
{
	uint32_t at = below(1000);

	while (at >= kind->per_mille)
		at -= kind++->per_mille;
	return kind;
}

static int compare_nr(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* How many ranges launches name: median, 90 %, most. */
static void print_named(void)
{
	static uint32_t nr[NR_LAUNCHES];

	for (uint32_t i = 0; i < NR_LAUNCHES; i++) {
		must(infer_launch(infer, &launch[i].infer, &uses), "launch");
		nr[i] = uses.nr;
	}
	qsort(nr, NR_LAUNCHES, sizeof(*nr), compare_nr);
	printf(",\"ranges_named\":[%u,%u,%u]", nr[NR_LAUNCHES / 2], nr[NR_LAUNCHES * 9 / 10],
	       nr[NR_LAUNCHES - 1]);
}

/* most: of the pointers in one parameter. */
static void bench_launches(const char *name, uint32_t live, uint32_t most, const struct kind *kinds)
{
	struct range_live range;

	line_make(live, 0);
	must(infer_create(&infer), "infer");
	for (uint32_t i = 0; i < line.nr_live; i++)
		must(infer_range_add(infer, line.addr[line.live[i]], line.bytes[line.live[i]],
				     &range),
		     "addition");
	for (uint32_t i = 0; i < NR_LAUNCHES; i++) {
		const struct kind *kind = random_kind(kinds);
		struct infer_param param[KERNEL_PARAMS_MAX];
		uint32_t offset = 0;

		for (uint32_t p = 0; p < kind->nr_params; p++) {
			param[p] = (struct infer_param){offset, kind->bytes[p]};
			offset = (uint32_t)round_up(offset + kind->bytes[p], 8);
			launch[i].params[p] =
				param_make(kind->bytes[p], MIN(kind->pointers[p], most));
		}
		/* Some 60 kernels; their keys are of no kind that matters. */
		launch[i].kind = kind;
		launch[i].infer.kernel = (const char *)kind + below(10);
		launch[i].infer.params = launch[i].params;
		(void)infer_kernel_add(infer, launch[i].infer.kernel, param, kind->nr_params);
	}
	printf("{\"schema\":\"weir-bench-infer-1\",\"test\":\"launch\",\"name\":\"%s\",\"live\":%u",
	       name, line.nr_live);
	print_named();
	measure("launch_ns", run_infer);
	measure("plain_ns", run_plain);
	measure_cold("cold_ns", read_params, run_infer_once);
	measure_cold("cold_clock_ns", read_params, run_nothing);
	printf("}\n");
	for (uint32_t i = 0; i < NR_LAUNCHES; i++)
		for (uint32_t p = 0; p < launch[i].kind->nr_params; p++)
			free(launch[i].params[p]);
	infer_uses_fini(&uses);
	infer_destroy(infer);
}

/* Parameters of 8 bytes, some of them pointers, as kernels have that people write. */
static void bench_apart(uint32_t live, uint32_t params, uint32_t pointers)
{
	struct kind kind = {.per_mille = 1000, .nr_params = params};
	char name[64];

	for (uint32_t p = 0; p < params; p++) {
		kind.bytes[p] = 8;
		kind.pointers[p] = p < pointers;
	}
	(void)snprintf(name, sizeof(name), "%u parameters, %u pointers", params, pointers);
	bench_launches(name, live, 144, &kind);
}

int main(void)
{
	static const struct kind one[] = {
		{1000, 1, {8}, {1}},	{1000, 1, {64}, {2}},	  {1000, 1, {4096}, {0}},
		{1000, 1, {4096}, {4}}, {1000, 1, {4096}, {128}},
	};
	static const uint32_t many[] = {1000, 10000};

	other_init();
	bench_launches("gpt", 378, 144, training);
	bench_launches("resnet", 399, 144, training);
	bench_launches("gcn", 97, 20, training);
	for (size_t i = 0; i < ARRAY_LEN(one); i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "%u bytes, %u pointers", one[i].bytes[0],
			       one[i].pointers[0]);
		bench_launches(name, 378, 144, &one[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(many); i++) {
		bench_apart(many[i], 5, 2);
		bench_apart(many[i], 5, 5);
		bench_apart(many[i], 40, 5);
		bench_apart(many[i], 40, 40);
	}
	bench_ranges(400, 0);
	bench_ranges(5000, 0);
	bench_ranges(400, 256);
	bench_ranges(5000, 256);
	return 0;
}
