/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory on a real GPU as a program uses it: weir/paged.h and weir/device.cuh, nothing below,
 * and where there are two GPUs with pages at the other one; WEIR_TEST_SPLIT=2 takes two parts of
 * one GPU for two. Kernels read, write and add; the host flushes, drains, writes between launches,
 * changes budgets, asks for statistics while a kernel runs; wrong use is told; a page that never
 * comes is noticed.
 *
 *   test_paged [--small]     small: fewer words, for tools under which all is slow
 *
 * One line a case; the exit status is 1 when one is wrong, 2 when it cannot run.
 */
#include <errno.h>

#include "tests/gpu/base.cuh"
#include "weir/paged_home.cuh"

extern "C" {
#include "src/backend/cuda/cuda.h"
#include "src/backend/machine.h"
}

#define WATCH_MS 200u
#define PATIENCE 20000u /* looks of a millisecond at a kernel that runs */

static bool small;
static uint32_t nr_failed, nr_wrong;

static struct {
	struct weir_machine *machine;
	struct weir_stream *stream, *other;
	struct weir_paged *pool;
	uint64_t *words, nr_words; /* of range 0 */
	unsigned long long *found; /* wrong words, by kernels; pinned */
	volatile int *flag;	   /* pinned; a kernel that waits ends when it is set */
	uint32_t blocks;
} t;

/* ------------------------------------------------------------------ what is expected */

#define EXPECT(what)                                                               \
	do {                                                                       \
		if (!(what)) {                                                     \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
			nr_wrong++;                                                \
		}                                                                  \
	} while (0)

#define EXPECT_ERR(call, wanted)                                                                  \
	do {                                                                                      \
		int got = (call);                                                                 \
		if (got != (wanted)) {                                                            \
			fprintf(stderr, "line %d: %s is %d (%s), not %d\n", __LINE__, #call, got, \
				weir_strerror(got), (int)(wanted));                               \
			nr_wrong++;                                                               \
		}                                                                                 \
	} while (0)

static void must(int err, const char *what)
{
	if (err)
		die(what, weir_strerror(err));
}

/* The end of a case. */
static void report(const char *name)
{
	printf("%-4s %s\n", nr_wrong ? "FAIL" : "ok", name);
	fflush(stdout);
	nr_failed += nr_wrong != 0;
	nr_wrong = 0;
}

/* ------------------------------------------------------------------ kernels */

__device__ static inline uint64_t thread_nr()
{
	return blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
}

__device__ static inline uint64_t nr_threads()
{
	return (uint64_t)gridDim.x * blockDim.x;
}

/* Each word is its index times `times`; then it becomes that plus its index, by adding; each eighth
 * one by writing. */
__global__ void kernel_step(const __grid_constant__ struct weir_paged_view view, uint64_t nr_words,
			    uint64_t times, unsigned long long *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint64_t i = thread_nr(); i < nr_words; i += nr_threads()) {
		if (weir_paged_read<uint64_t>(&w, 0, i) != i * times)
			atomicAdd(found, 1ull);
		if (i % 8 == 0)
			weir_paged_write<uint64_t>(&w, 0, i, i * (times + 1));
		else
			weir_paged_atomic_add<unsigned long long>(&w, 0, i, i);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* A plain kernel of a mapped range. */
__global__ void kernel_mapped(uint64_t *words, uint64_t nr_words, uint64_t times,
			      unsigned long long *found)
{
	for (uint64_t i = thread_nr(); i < nr_words; i += nr_threads()) {
		if (words[i] != i * times)
			atomicAdd(found, 1ull);
		words[i] = i * (times + 1);
	}
}

/* Each word is its index: a warp a page, through spans. */
__global__ void kernel_scan(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			    uint64_t nr_words, unsigned long long *found)
{
	uint64_t per_page = (1ull << view.page_shift) / sizeof(uint64_t);
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;

	for (uint64_t at = thread_nr() / 32 * per_page; at < nr_words;
	     at += nr_threads() / 32 * per_page) {
		const uint64_t *word = (const uint64_t *)weir_paged_span_get(
			&w, range, at * sizeof(uint64_t), PT_READ, &span);

		for (uint64_t i = weir_paged_lane(); i < per_page && at + i < nr_words; i += 32)
			if (!word || word[i] != at + i)
				atomicAdd(found, 1ull);
		__syncwarp();
		weir_paged_span_put(&w, &span);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* Read all words again and again until the host says so. */
__global__ void kernel_until(const __grid_constant__ struct weir_paged_view view, uint64_t nr_words,
			     const volatile int *flag, unsigned long long *sink)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	uint64_t at = thread_nr() * 61, sum = 0;

	for (;;) {
		for (uint32_t i = 0; i < 64; i++, at += nr_threads() * 61) {
			sum += weir_paged_read<uint64_t>(&w, 0, at % nr_words);
			weir_paged_quiesce(&w);
		}
		if (__any_sync(w.lanes, *flag != 0))
			break;
	}
	weir_paged_leave(&w);
	*sink = sum; /* so that it is not for nothing */
}

enum wrong { WRONG_INDEX, WRONG_WRITE, WRONG_STAY, WRONG_PIN };

__global__ void kernel_wrong(const __grid_constant__ struct weir_paged_view view, uint32_t what,
			     uint64_t nr_words, uint32_t read_only, unsigned long long *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;

	if (what == WRONG_INDEX && weir_paged_read<uint64_t>(&w, 0, nr_words + threadIdx.x) != 0)
		atomicAdd(found, 1ull);
	if (what == WRONG_WRITE && weir_paged_write<uint64_t>(&w, read_only, threadIdx.x, 1))
		atomicAdd(found, 1ull);
	if (what == WRONG_PIN)
		weir_paged_span_get(&w, 0, 0, PT_READ | PT_PIN, &span);
	if (what != WRONG_STAY)
		weir_paged_leave(&w);
}

/* One warp reads words of one page, which does not wait for a page that is on its way, and writes
 * them, which does. */
__global__ void kernel_one_page(const __grid_constant__ struct weir_paged_view view, uint64_t first,
				uint64_t times, unsigned long long *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	uint64_t i = first + threadIdx.x;

	if (weir_paged_read<uint64_t>(&w, 0, i) != i * times)
		atomicAdd(found, 1ull);
	if (!weir_paged_write<uint64_t>(&w, 0, i, i * times))
		atomicAdd(found, 1ull);
	weir_paged_leave(&w);
}

/* ------------------------------------------------------------------ a pool */

/* near_eighths: of the range, at the second GPU; then t.words is for kernels alone. */
static void pool_open_near(uint32_t page_bytes, uint64_t nr_frames, uint64_t max_frames,
			   uint64_t nr_words, uint32_t near_eighths)
{
	struct weir_paged_config config = {};
	struct weir_paged_range_config range = {};
	uint32_t number;
	void *host;

	config.page_bytes = page_bytes;
	config.gpu_bytes = nr_frames * page_bytes;
	config.gpu_max_bytes = max_frames * page_bytes;
	config.watch_ms = WATCH_MS;
	config.kernels = &weir_paged_kernels_cuda;
	must(weir_paged_create(t.machine, &config, &t.pool), "weir_paged_create");
	range.bytes = nr_words * sizeof(uint64_t);
	if (near_eighths)
		range.near_bytes[weir_memory_find(t.machine, "gpu1")] =
			range.bytes / 8 * near_eighths;
	must(weir_paged_range_add(t.pool, &range, &number, &host), "weir_paged_range_add");
	EXPECT(number == 0);
	t.words = (uint64_t *)host;
	t.nr_words = nr_words;
	*t.found = 0;
	*t.flag = 0;
}

static void pool_open(uint32_t page_bytes, uint64_t nr_frames, uint64_t max_frames,
		      uint64_t nr_words)
{
	pool_open_near(page_bytes, nr_frames, max_frames, nr_words, 0);
}

static void pool_close(void)
{
	EXPECT(*t.found == 0);
	EXPECT_ERR(weir_paged_check(t.pool), 0);
	weir_paged_destroy(t.pool);
}

static bool words_are(uint64_t times)
{
	for (uint64_t i = 0; i < t.nr_words; i++)
		if (t.words[i] != i * times) {
			fprintf(stderr, "word %llu is %llu, not %llu\n", (unsigned long long)i,
				(unsigned long long)t.words[i], (unsigned long long)(i * times));
			return false;
		}
	return true;
}

static struct weir_paged_view begin(void)
{
	struct weir_paged_view view;

	must(weir_paged_begin(t.pool, t.stream, &view), "weir_paged_begin");
	return view;
}

/* Close the bracket, without waiting. */
static void end(const char *what)
{
	check(cudaGetLastError(), what);
	must(weir_paged_end(t.pool, t.stream), "weir_paged_end");
}

static void step(uint64_t times)
{
	struct weir_paged_view view = begin();

	kernel_step<<<t.blocks, 256, 0, stream>>>(view, t.nr_words, times, t.found);
	end("kernel_step");
}

static struct weir_paged_stats stats(void)
{
	struct weir_paged_stats s;

	must(weir_paged_query(t.pool, &s), "weir_paged_query");
	return s;
}

/* ------------------------------------------------------------------ cases */

static void case_steps(uint32_t page_bytes, uint64_t nr_frames, uint64_t nr_words)
{
	char name[64];

	pool_open(page_bytes, nr_frames, 0, nr_words);
	step(0);
	step(1); /* behind the first one, on the same stream */
	EXPECT_ERR(weir_paged_sync(t.pool), 0);
	EXPECT_ERR(weir_paged_flush(t.pool), 0);
	EXPECT(words_are(2));
	EXPECT_ERR(weir_paged_check(t.pool), 0);
	/* The host writes between launches. */
	EXPECT_ERR(weir_paged_drain(t.pool), 0);
	EXPECT(stats().nr_resident == 0);
	for (uint64_t i = 0; i < nr_words; i++)
		t.words[i] = i * 5;
	step(5);
	EXPECT_ERR(weir_paged_sync(t.pool), 0);
	EXPECT_ERR(weir_paged_flush(t.pool), 0);
	EXPECT(words_are(6));
	EXPECT(stats().nr_frames == nr_frames && stats().nr_resident <= nr_frames);
	EXPECT(stats().range[0].nr[WEIR_PAGED_IN] > 0 && stats().nr_stalls == 0);
	pool_close();
	snprintf(name, sizeof(name), "steps: pages of %u KiB, %llu frames", page_bytes >> 10,
		 (unsigned long long)nr_frames);
	report(name);
}

/* The same with part of the range at the second GPU, which the host reads and writes by copies. */
static void case_near(uint32_t page_bytes, uint64_t nr_frames, uint64_t nr_words, uint32_t eighths)
{
	const uint64_t bytes = nr_words * sizeof(uint64_t);
	uint64_t *words = (uint64_t *)malloc(bytes);
	char name[64];

	if (!words)
		die("malloc", "no memory");
	pool_open_near(page_bytes, nr_frames, 0, nr_words, eighths);
	t.words = words;
	for (uint64_t times = 0; times < 6; times += 5) {
		step(times);
		step(times + 1);
		EXPECT_ERR(weir_paged_sync(t.pool), 0);
		EXPECT_ERR(weir_paged_check(t.pool), 0);
		EXPECT_ERR(weir_paged_read(t.pool, 0, 0, words, bytes), 0);
		EXPECT(words_are(times + 2));
		for (uint64_t i = 0; i < nr_words; i++)
			words[i] = i * 5;
		EXPECT_ERR(weir_paged_write(t.pool, 0, 0, words, bytes), 0);
	}
	EXPECT(stats().range[0].nr[WEIR_PAGED_IN] > 0 && stats().nr_stalls == 0);
	pool_close();
	free(words);
	snprintf(name, sizeof(name), "%u eighths at the other GPU: pages of %u KiB, %llu frames",
		 eighths, page_bytes >> 10, (unsigned long long)nr_frames);
	report(name);
}

static void cases_near(void)
{
	if (weir_memory_find(t.machine, "gpu1") < 0) {
		printf("skip pages at another GPU: there is none\n");
		return;
	}
	for (uint32_t eighths = 1; eighths <= 8; eighths += eighths < 4 ? 3 : 2) {
		case_near(4096, 64, (small ? 1000 : 50000) * 512 + 5, eighths);
		case_near(65536, small ? 4 : 256, (small ? 1000 : 100000) * 512 + 3, eighths);
	}
}

static void case_budget(void)
{
	static const uint64_t frames[] = {64, 5, 1, 33, 64, 2};

	pool_open(4096, 16, 64, (small ? 20 : 300) * 512 + 7);
	for (uint64_t i = 0; i < 6; i++) {
		step(i);
		EXPECT_ERR(weir_paged_sync(t.pool), 0);
		EXPECT_ERR(weir_paged_set_budget(t.pool, frames[i] * 4096), 0);
		EXPECT(stats().nr_frames == frames[i] && stats().nr_resident <= frames[i]);
		EXPECT_ERR(weir_paged_check(t.pool), 0);
	}
	EXPECT_ERR(weir_paged_flush(t.pool), 0);
	EXPECT(words_are(6));
	EXPECT_ERR(weir_paged_set_budget(t.pool, 65 * 4096), -EINVAL);
	pool_close();
	report("budget grows and shrinks");
}

/* One pass over a range. @return pages that came in; *nr_in_place: that were used in place */
static uint64_t scan(uint32_t range, uint64_t nr_words, uint64_t *nr_in_place)
{
	const struct weir_paged_range_stats before = stats().range[range];
	struct weir_paged_range_stats after;
	struct weir_paged_view view = begin();

	kernel_scan<<<t.blocks, 256, 0, stream>>>(view, range, nr_words, t.found);
	end("kernel_scan");
	EXPECT_ERR(weir_paged_sync(t.pool), 0);
	EXPECT_ERR(weir_paged_check(t.pool), 0);
	after = stats().range[range];
	*nr_in_place = after.nr[WEIR_PAGED_IN_PLACE] - before.nr[WEIR_PAGED_IN_PLACE];
	return after.nr[WEIR_PAGED_IN] - before.nr[WEIR_PAGED_IN];
}

/* Go through it until `wanted` pages came in; then they are what hits. */
static void scans(uint32_t range, uint64_t nr_words, uint64_t wanted)
{
	const uint64_t nr_pages = (nr_words - 1) / 512 + 1;
	uint64_t nr_in = 0, nr_in_place;

	for (uint32_t i = 0; i < 4 && nr_in < wanted; i++)
		nr_in += scan(range, nr_words, &nr_in_place);
	EXPECT(nr_in == wanted);
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t nr = nr_pages - stats().nr_resident;

		EXPECT(scan(range, nr_words, &nr_in_place) == 0);
		/* A warp whose lanes are apart counts each. */
		EXPECT(nr_in_place >= nr && nr_in_place <= 2 * nr);
	}
}

/* A range that is only filled: frames are filled once, and anew when the host made some free. */
static void case_filled(void)
{
	const uint64_t nr_words = (small ? 40 : 2000) * 512 - 7, nr = small ? 10 : 500;
	struct weir_paged_range_config config = {};
	uint32_t range;
	void *host;

	pool_open(4096, nr, 2 * nr, 512);
	config.bytes = nr_words * sizeof(uint64_t);
	config.read_only = 1;
	config.fill_only = 1;
	config.name = "filled";
	must(weir_paged_range_add(t.pool, &config, &range, &host), "weir_paged_range_add");
	for (uint64_t i = 0; i < nr_words; i++)
		((uint64_t *)host)[i] = i;
	scans(range, nr_words, nr);
	EXPECT(stats().nr_resident == nr);
	EXPECT_ERR(weir_paged_drain(t.pool), 0);
	scans(range, nr_words, nr);
	EXPECT_ERR(weir_paged_set_budget(t.pool, 2 * nr * 4096), 0);
	scans(range, nr_words, nr);
	EXPECT(stats().nr_resident == 2 * nr);
	EXPECT_ERR(weir_paged_set_budget(t.pool, nr / 2 * 4096), 0);
	scans(range, nr_words, 0);
	EXPECT(stats().nr_resident == nr / 2);
	EXPECT(stats().range[range].nr[WEIR_PAGED_OUT] == 0);
	pool_close();
	report("a range that is only filled");
}

static int wrong_run(enum wrong what, uint32_t read_only)
{
	struct weir_paged_view view = begin();

	kernel_wrong<<<1, 32, 0, stream>>>(view, what, t.nr_words, read_only, t.found);
	end("kernel_wrong");
	return weir_paged_sync(t.pool);
}

static void case_wrong_use(void)
{
	struct weir_paged_range_config config = {};
	uint32_t read_only = 0;

	pool_open(4096, 4, 0, 10 * 512);
	config.bytes = 4096;
	config.read_only = 1;
	config.name = "fixed";
	EXPECT_ERR(weir_paged_range_add(t.pool, &config, &read_only, NULL), 0);
	EXPECT_ERR(wrong_run(WRONG_INDEX, read_only), -EFAULT);
	EXPECT(stats().range[0].nr[WEIR_PAGED_REFUSED] == 32);
	EXPECT_ERR(wrong_run(WRONG_WRITE, read_only), -EFAULT);
	EXPECT(stats().range[read_only].nr[WEIR_PAGED_REFUSED] > 0);
	EXPECT_ERR(wrong_run(WRONG_STAY, read_only), -WEIR_ECONTRACT);
	EXPECT_ERR(wrong_run(WRONG_PIN, read_only), -WEIR_ECONTRACT);
	EXPECT_ERR(weir_paged_check(t.pool), 0);
	step(0); /* none of it matters to who comes next */
	EXPECT_ERR(weir_paged_sync(t.pool), 0);
	EXPECT_ERR(weir_paged_flush(t.pool), 0);
	EXPECT(words_are(1));
	pool_close();
	report("wrong use by kernels");
}

/* While a kernel runs: what is refused, and statistics, which go on. */
static void case_while_running(void)
{
	struct weir_paged_view view, none;
	uint64_t before, looks = 0, word;
	uint32_t number;
	struct weir_paged_range_config config = {};

	pool_open(4096, 8, 0, (small ? 40 : 400) * 512);
	config.bytes = 4096;
	view = begin();
	kernel_until<<<small ? 1 : t.blocks, 128, 0, stream>>>(view, t.nr_words, t.flag,
							       t.found + 1);
	check(cudaGetLastError(), "kernel_until");
	EXPECT_ERR(weir_paged_begin(t.pool, t.stream, &none), -WEIR_ECONTRACT);
	EXPECT_ERR(weir_paged_end(t.pool, t.other), -WEIR_ECONTRACT);
	end("kernel_until");
	EXPECT_ERR(weir_paged_begin(t.pool, t.other, &none), -EBUSY);
	EXPECT_ERR(weir_paged_flush(t.pool), -EBUSY);
	EXPECT_ERR(weir_paged_drain(t.pool), -EBUSY);
	EXPECT_ERR(weir_paged_set_budget(t.pool, 4096), -EBUSY);
	EXPECT_ERR(weir_paged_check(t.pool), -EBUSY);
	EXPECT_ERR(weir_paged_read(t.pool, 0, 0, &word, 8), -EBUSY);
	EXPECT_ERR(weir_paged_range_add(t.pool, &config, &number, NULL), -EBUSY);
	before = stats().range[0].nr[WEIR_PAGED_IN_PLACE];
	while (stats().range[0].nr[WEIR_PAGED_IN_PLACE] < before + 100 && looks++ < PATIENCE)
		usleep(1000);
	EXPECT(looks < PATIENCE);
	EXPECT_ERR(weir_paged_watch(t.pool), 0);
	weir_paged_dump(t.pool);
	*t.flag = 1;
	EXPECT_ERR(weir_paged_sync(t.pool), 0);
	EXPECT_ERR(weir_paged_watch(t.pool), 1);
	EXPECT(stats().nr_stalls == 0);
	pool_close();
	report("while a kernel runs");
}

/* An entry that says that its page is being brought in, by nobody: who writes it waits, and that is
 * noticed. Once the entry is as it was, all goes on, and was in order. */
static void case_stall(void)
{
	const uint64_t loading = pt_entry(PT_LOADING, 0, 0), absent = 0;
	struct weir_paged_view view;
	cudaStream_t side;
	uint64_t looks = 0;
	int running = 0;

	check(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), "cudaStreamCreate");
	pool_open(4096, 8, 0, 20 * 512);
	for (uint64_t i = 0; i < t.nr_words; i++)
		t.words[i] = i * 3;
	view = begin();
	copy_now(view.range[0].entry + 3, &loading, sizeof(loading), "plant");
	kernel_one_page<<<1, 32, 0, stream>>>(view, 3 * 512, 3, t.found);
	end("kernel_one_page");
	while (!running && stats().nr_stalls == 0 && looks++ < PATIENCE) {
		running = weir_paged_watch(t.pool);
		usleep(1000);
	}
	EXPECT(stats().nr_stalls == 1);
	check(cudaMemcpyAsync(view.range[0].entry + 3, &absent, sizeof(absent),
			      cudaMemcpyHostToDevice, side),
	      "take back");
	check(cudaStreamSynchronize(side), "take back");
	EXPECT_ERR(weir_paged_sync(t.pool), 0);
	EXPECT(*t.found == 0);
	/* With the next bracket pages come in again. */
	step(3);
	EXPECT_ERR(weir_paged_sync(t.pool), 0);
	EXPECT(stats().range[0].nr[WEIR_PAGED_IN] > 0 && stats().nr_stalls == 1);
	EXPECT_ERR(weir_paged_flush(t.pool), 0);
	EXPECT(words_are(4));
	pool_close();
	check(cudaStreamDestroy(side), "cudaStreamDestroy");
	report("a page that never comes");
}

/* A range of the program's own memory outlives the pool, which writes back before it goes. */
static void case_destroy(void)
{
	struct weir_paged_config config = {};
	struct weir_paged_range_config range = {};
	uint32_t number;
	void *mine;

	t.nr_words = 9 * 512 + 3;
	check(cudaHostAlloc(&mine, t.nr_words * 8, cudaHostAllocDefault), "cudaHostAlloc");
	memset(mine, 0, t.nr_words * 8);
	config.page_bytes = 4096;
	config.gpu_bytes = 16 * 4096;
	config.kernels = &weir_paged_kernels_cuda;
	must(weir_paged_create(t.machine, &config, &t.pool), "weir_paged_create");
	range.bytes = t.nr_words * 8;
	range.host = mine;
	must(weir_paged_range_add(t.pool, &range, &number, NULL), "weir_paged_range_add");
	t.words = (uint64_t *)mine;
	step(0);
	weir_paged_destroy(t.pool);
	EXPECT(*t.found == 0 && words_are(1));
	check(cudaFreeHost(mine), "cudaFreeHost");
	report("destroyed while a kernel runs");
}

/* A pool in a space: brackets name its range beside a mapped one, both larger than the budget that
 * they share, which goes from one to the other and gets smaller meanwhile. */
static void case_in_a_space(void)
{
	const uint64_t block = UINT64_C(2) << 20, bytes = (small ? 8 : 24) * block;
	const uint64_t frames[] = {2 * block, 6 * block, 1 * block, 4 * block};
	struct weir_space_config config = {};
	struct weir_paged_config paged = {};
	struct weir_paged_range_config range = {};
	struct weir_space *space;
	struct weir_use uses[2] = {};
	struct weir_paged_view view;
	uint32_t number;
	void *mapped, *host;
	uint64_t word;

	config.block_bytes = block;
	config.budget_bytes[0] = 64 * block;
	config.budget_bytes[1] = 12 * block;
	config.mode = WEIR_PLANNED;
	must(weir_space_create(t.machine, &config, &space), "weir_space_create");
	paged.page_bytes = 4096;
	paged.gpu_bytes = frames[0];
	paged.gpu_max_bytes = frames[1];
	paged.watch_ms = WATCH_MS;
	paged.kernels = &weir_paged_kernels_cuda;
	paged.space = space;
	must(weir_paged_create(t.machine, &paged, &t.pool), "weir_paged_create");
	range.bytes = bytes;
	must(weir_paged_range_add(t.pool, &range, &number, &host), "weir_paged_range_add");
	must(weir_alloc(space, bytes, t.stream, &mapped), "weir_alloc");
	t.nr_words = bytes / sizeof(uint64_t);
	*t.found = 0;
	for (uint32_t u = 0; u < 2; u++) {
		uses[u].addr = u ? mapped : host;
		uses[u].bytes = bytes;
		uses[u].read_bytes = uses[u].write_bytes = bytes;
	}
	for (uint64_t i = 0; i < 12; i++) {
		uses[0].kind = WEIR_WRITE;
		uses[1].kind = i ? WEIR_WRITE : WEIR_OVERWRITE;
		must(weir_begin(space, t.stream, uses, 2), "weir_begin");
		must(weir_paged_view_get(t.pool, t.stream, &view), "weir_paged_view_get");
		kernel_step<<<t.blocks, 256, 0, stream>>>(view, t.nr_words, i, t.found);
		if (!i)
			check(cudaMemsetAsync(mapped, 0, bytes, stream), "cudaMemsetAsync");
		kernel_mapped<<<t.blocks, 256, 0, stream>>>((uint64_t *)mapped, t.nr_words, i,
							    t.found);
		check(cudaGetLastError(), "kernels of both");
		must(weir_end(space, t.stream), "weir_end");
		if (i % 3 != 2)
			continue;
		EXPECT_ERR(weir_paged_sync(t.pool), 0);
		EXPECT_ERR(weir_paged_set_budget(t.pool, frames[i / 3]), 0);
		EXPECT_ERR(weir_space_set_budget(space, 1, (12 - i / 3) * block), 0);
		EXPECT_ERR(weir_space_check(space), 0);
	}
	EXPECT_ERR(weir_space_sync(space), 0);
	EXPECT(stats().range[0].nr[WEIR_PAGED_IN] > 0);
	for (uint64_t i = 0; i < t.nr_words; i += 4099) {
		must(weir_read(space, &word, (uint64_t *)host + i, sizeof(word)), "weir_read");
		EXPECT(word == i * 12);
		must(weir_read(space, &word, (uint64_t *)mapped + i, sizeof(word)), "weir_read");
		EXPECT(word == i * 12);
	}
	EXPECT_ERR(weir_free(space, mapped, t.stream), 0);
	pool_close();
	EXPECT_ERR(weir_space_check(space), 0);
	weir_space_destroy(space);
	report("in a space, beside a mapped range");
}

/* As a program does, or with WEIR_TEST_SPLIT=N as N parts of the first GPU. */
static void machine_open(void)
{
	const char *parts = getenv("WEIR_TEST_SPLIT");
	struct cuda_config config = {};
	struct backend *b;

	if (!parts || !*parts) {
		must(weir_machine_cuda(NULL, &t.machine), "weir_machine_cuda");
		return;
	}
	config.nr_parts = (uint32_t)atoi(parts);
	must(cuda_create(&config, &b), "cuda_create");
	must(machine_wrap(b, &t.machine), "machine_wrap");
}

int main(int argc, char **argv)
{
	cudaDeviceProp gpu;
	void *pinned;

	small = argc == 2 && strcmp(argv[1], "--small") == 0;
	if (argc > 1 && !small)
		die("usage", "test_paged [--small]");
	weir_log_set(log_print, NULL);
	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties");
	machine_open();
	must(weir_stream_create(t.machine, 0, &t.stream), "weir_stream_create");
	must(weir_stream_create(t.machine, 0, &t.other), "weir_stream_create");
	stream = (cudaStream_t)weir_stream_native(t.stream);
	check(cudaHostAlloc(&pinned, 64, cudaHostAllocDefault), "cudaHostAlloc");
	t.found = (unsigned long long *)pinned;
	t.flag = (volatile int *)(t.found + 4);
	t.blocks = small ? 2 : 2 * (uint32_t)gpu.multiProcessorCount;
	case_steps(4096, 1, (small ? 8 : 300) * 512 + 5);
	case_steps(4096, 64, (small ? 100 : 5000) * 512 + 5);
	case_steps(8192, 16, (small ? 40 : 2000) * 512 + 1);
	case_steps(16384, 16, (small ? 40 : 2000) * 512 + 1);
	case_steps(65536, small ? 4 : 256, (small ? 100 : 100000) * 512 + 3);
	cases_near();
	case_budget();
	case_filled();
	case_wrong_use();
	case_while_running();
	case_stall();
	case_destroy();
	case_in_a_space();
	check(cudaFreeHost(pinned), "cudaFreeHost");
	weir_stream_destroy(t.stream);
	weir_stream_destroy(t.other);
	weir_machine_close(t.machine);
	printf("%u failed\n", nr_failed);
	return nr_failed ? 1 : 0;
}
