/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory on a real GPU, used in ways that go wrong elsewhere: warps that end without leaving
 * or enter twice until no slot is left, lanes that end early or enter apart, spans put twice or
 * held over quiescent points, cursors over two ranges, structs that a page's end cuts. Nothing
 * hangs, nothing is lost, and what was wrong is counted.
 *
 *   test_paging_use [--small]     small: fewer rounds, for tools under which all is slow
 *
 * One line a case; the exit status is 1 when one is wrong or does not end, 2 when it cannot run.
 */
#include "tests/gpu/paging_case.cuh"

#define BLOCK_WARPS 12u /* of cases in which all warps of one block are online */

static struct weir_paged_left settle(struct test *t)
{
	struct weir_paged_left *device = (struct weir_paged_left *)pool_zeroed(sizeof(*device));
	struct weir_paged_left left;

	LAUNCH(weir_paged_settle_kernel, 4, 64, t->pool.view, device);
	pool_wait(&t->pool, "settle");
	copy_now(&left, device, sizeof(left), "download");
	check(cudaFree(device), "cudaFree");
	return left;
}

/* Whether an event happened so often. */
static bool counted(struct test *t, uint32_t range, enum weir_paged_event event, uint64_t wanted)
{
	uint64_t got = pool_range_counts(&t->pool, range).nr[event];

	if (got != wanted)
		fprintf(stderr, "event %d of range %u: %llu times, not %llu\n", (int)event, range,
			(unsigned long long)got, (unsigned long long)wanted);
	return got == wanted;
}

/* ------------------------------------------------------------------ slots */

__global__ void kernel_stays(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			     uint64_t nr_words, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	uint64_t index = mix(thread_nr()) % nr_words;

	expect(found, index, weir_paged_read<uint64_t>(&w, range, index), stamp(index, 0));
}

/* Each warp adds to words of random pages; the numbers of all are the same in the end. */
__global__ void kernel_count(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			     uint64_t nr_words, uint32_t rounds)
{
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint32_t i = 0; i < rounds; i++) {
		weir_paged_atomic_add<unsigned long long>(
			&w, range, mix(thread_nr() * rounds + i) % nr_words, 1ull);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

static bool count_right(struct test *t, uint32_t blocks, uint32_t threads, uint32_t rounds)
{
	std::vector<uint64_t> wanted(t->nr_words);
	bool good;

	pool_drain(&t->pool);
	memset(t->words, 0, t->nr_words * sizeof(uint64_t));
	for (uint64_t i = 0; i < (uint64_t)blocks * threads * rounds; i++)
		wanted[mix(i) % t->nr_words]++;
	LAUNCH(kernel_count, blocks, threads, t->pool.view, t->range, t->nr_words, rounds);
	good = test_settle(t, "count");
	for (uint64_t i = 0; i < t->nr_words && good; i++)
		good = t->words[i] == wanted[i];
	words_fill(t);
	return good;
}

/* More warps than slots end without leaving; what is left behind is told, and all goes on. */
static void case_stays(uint32_t nr_slots, uint32_t blocks)
{
	const uint64_t nr_warps = blocks * 2;
	struct test t;
	bool good;

	test_begin(&t, 12, 4, 20 * 512, 1);
	pool_agents(&t.pool, nr_slots);
	LAUNCH(kernel_stays, blocks, 64, t.pool.view, t.range, t.nr_words, t.found);
	pool_wait(&t.pool, "no leave");
	good = found_nothing(&t, "no leave");
	good &= counted(&t, 0, WEIR_PAGED_NO_SLOT, nr_warps - nr_slots);
	good &= settle(&t).nr_slots == nr_warps && settle(&t).nr_slots == 0;
	good &= count_right(&t, 2, 64, 20);
	report(&t, good && words_are(&t, 0), "no leave", "%u slots, %llu warps", nr_slots,
	       (unsigned long long)nr_warps);
	test_end(&t);
}

/* Most warps are guests, who page as others do. */
static void case_guests(uint64_t nr_frames)
{
	struct test t;
	bool good;

	test_begin(&t, 12, nr_frames, 30 * 512, 1);
	pool_agents(&t.pool, 2);
	good = count_right(&t, small ? 4 : 64, 96, small ? 20 : 200);
	good &= settle(&t).nr_slots == 0;
	report(&t, good, "guests", "2 slots, %llu frames", (unsigned long long)nr_frames);
	test_end(&t);
}

__device__ static uint64_t helper(const struct weir_paged_view *view, uint32_t range,
				  uint64_t index)
{
	struct weir_paged_warp w = weir_paged_enter(view);
	uint64_t value = weir_paged_read<uint64_t>(&w, range, index);

	weir_paged_quiesce(&w);
	weir_paged_leave(&w);
	return value;
}

__global__ void kernel_nested(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			      uint64_t nr_words, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	uint64_t index = mix(thread_nr()) % nr_words;

	__syncthreads(); /* all warps of the block are online */
	expect(found, index, helper(&view, range, index), stamp(index, 0));
	expect(found, index, weir_paged_read<uint64_t>(&w, range, index), stamp(index, 0));
	weir_paged_quiesce(&w);
	__syncthreads(); /* no slot has become free so far */
	weir_paged_leave(&w);
}

/* Warps that have all slots enter again. */
static void case_nested(void)
{
	struct test t;
	bool good;

	test_begin(&t, 12, 4, 20 * 512, 1);
	pool_agents(&t.pool, BLOCK_WARPS);
	LAUNCH(kernel_nested, 1, BLOCK_WARPS * 32, t.pool.view, t.range, t.nr_words, t.found);
	good = test_settle(&t, "entered twice");
	good &= counted(&t, 0, WEIR_PAGED_NO_SLOT, BLOCK_WARPS);
	report(&t, good && words_are(&t, 0), "entered twice", "all slots taken");
	test_end(&t);
}

/* ------------------------------------------------------------------ lanes */

/* The halves of a warp come at different times; both are its one agent. */
__global__ void kernel_halves(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			      uint64_t nr_words, struct found *found)
{
	uint64_t index = mix(thread_nr()) % nr_words;

	if (weir_paged_lane() < 16)
		__nanosleep(20000);
	struct weir_paged_warp w = weir_paged_enter(&view);

	expect(found, 0, w.lanes, ~0u);
	expect(found, 0, __match_any_sync(~0u, w.slot), ~0u);
	expect(found, index, weir_paged_read<uint64_t>(&w, range, index), stamp(index, 0));
	weir_paged_leave(&w);
}

/* Half of a warp enters, by its mask; the other half has other things to do, or has ended. */
__global__ void kernel_half(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			    uint64_t nr_words, bool ends, struct found *found)
{
	const uint32_t half = 0xffff0000;
	uint64_t index = mix(thread_nr()) % nr_words;

	if (weir_paged_lane() >= 16) {
		struct weir_paged_warp w = weir_paged_enter(&view, ends ? ~0u : half);

		expect(found, 0, w.lanes, half);
		expect(found, index, weir_paged_read<uint64_t>(&w, range, index), stamp(index, 0));
		weir_paged_leave(&w);
	}
	if (!ends)
		__syncwarp();
}

/* Lane 0 ends at once: the others go on, pass no quiescent point, and leave. */
__global__ void kernel_ended(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			     uint64_t nr_words, uint32_t rounds, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);

	if (weir_paged_lane() == 0)
		return;
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t index = mix(thread_nr() * rounds + i) % nr_words;

		expect(found, index, weir_paged_read<uint64_t>(&w, range, index), stamp(index, 0));
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

static void case_lanes(void)
{
	struct test t;
	bool good;

	test_begin(&t, 12, 4, 20 * 512, 1);
	LAUNCH(kernel_halves, 3, 64, t.pool.view, t.range, t.nr_words, t.found);
	good = test_settle(&t, "halves");
	for (int ends = 0; ends < 2; ends++) {
		LAUNCH(kernel_half, 3, 64, t.pool.view, t.range, t.nr_words, ends != 0, t.found);
		good &= test_settle(&t, "half a warp");
	}
	good &= counted(&t, 0, WEIR_PAGED_APART, 0);
	LAUNCH(kernel_ended, 3, 64, t.pool.view, t.range, t.nr_words, 20, t.found);
	good &= test_settle(&t, "a lane ended");
	good &= counted(&t, 0, WEIR_PAGED_APART, 6);
	report(&t, good && words_are(&t, 0), "lanes", "enter apart, end early");
	test_end(&t);
}

/* ------------------------------------------------------------------ spans */

/* Each warp has an unpinned span over quiescent points, of which it can pass none, and reads other
 * pages then, so that frames are wanted. */
__global__ void kernel_held(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			    uint64_t nr_pages, uint32_t rounds, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	uint64_t warp = thread_nr() / 32;
	struct weir_paged_place span;

	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t page = mix(warp * rounds + i) % nr_pages;
		const uint64_t *word = (const uint64_t *)weir_paged_span_get(
			&w, range, page << view.page_shift, PT_READ, &span);

		for (uint32_t n = 0; n < 16; n++) {
			weir_paged_read<uint64_t>(&w, range,
						  mix(warp + i * 7 + n) % nr_pages * 512);
			__syncwarp();
			weir_paged_quiesce_now(&w);
			expect(found, page * 512, word[weir_paged_lane()],
			       stamp(page * 512 + weir_paged_lane(), 0));
		}
		weir_paged_span_put(&w, &span);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

static void case_held(void)
{
	struct test t;
	bool good;

	test_begin(&t, 12, 8, 64 * 512, 1);
	pool_agents(&t.pool, 3);
	LAUNCH(kernel_held, 3, 32, t.pool.view, t.range, (uint64_t)64, small ? 60 : 1000, t.found);
	good = test_settle(&t, "held");
	report(&t, good && words_are(&t, 0), "spans held", "over quiescent points");
	test_end(&t);
}

/* Every span is put twice, and after each there is none that is held. */
__global__ void kernel_put_twice(const __grid_constant__ struct weir_paged_view view,
				 uint32_t range, uint32_t op, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;

	for (uint32_t page = 0; page < 4; page++) {
		weir_paged_span_get(&w, range, page << view.page_shift, op, &span);
		weir_paged_span_put(&w, &span);
		weir_paged_span_put(&w, &span);
		expect(found, page, w.nr_held, 0);
	}
	weir_paged_leave(&w);
}

/* A copy of a span is not known to be put. */
__global__ void kernel_put_copy(const __grid_constant__ struct weir_paged_view view, uint32_t range)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span, copy;

	weir_paged_span_get(&w, range, 0, PT_READ | PT_PIN, &span);
	copy = span;
	weir_paged_span_put(&w, &span);
	weir_paged_span_put(&w, &copy);
	weir_paged_leave(&w);
}

/* In frames, and, with admit 9, in place. */
static void case_put_twice(uint32_t admit)
{
	struct test t;
	bool good = true;

	test_begin(&t, 12, 4, 20 * 512, admit);
	for (uint32_t op : {PT_READ, PT_WRITE, PT_READ | PT_PIN, PT_WRITE | PT_PIN}) {
		LAUNCH(kernel_put_twice, 2, 64, t.pool.view, t.range, op, t.found);
		good &= test_settle(&t, "put twice");
	}
	good &= settle(&t).nr_pages == 0;
	LAUNCH(kernel_put_copy, 1, 32, t.pool.view, t.range);
	pool_wait(&t.pool, "put a copy");
	good &= settle(&t).nr_pages == 1 && settle(&t).nr_pages == 0;
	good &= count_right(&t, 2, 64, 20) && counted(&t, t.range, WEIR_PAGED_REFUSED, 0);
	report(&t, good && words_are(&t, 0), "spans put twice", "admit %u", admit);
	test_end(&t);
}

/* ------------------------------------------------------------------ the epoch */

/* Warp 0 hits, and does not look at the epoch, while warp 1 goes through all pages. */
__global__ void kernel_lag(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			   uint64_t nr_pages, uint64_t *slot, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	uint32_t tries = 0;

	if (threadIdx.x < 32)
		*slot = w.slot;
	__syncthreads();
	for (uint64_t i = 0; i < 8 * nr_pages && threadIdx.x >= 32; i++) {
		uint64_t index = i % nr_pages * 512 + weir_paged_lane();

		expect(found, index, weir_paged_read<uint64_t>(&w, range, index), stamp(index, 0));
		weir_paged_quiesce_now(&w);
	}
	__syncthreads();
	weir_paged_quiesce(&w);
	for (weir_paged_quiesce_now(&w); w.nr_since && tries < 1000; tries++)
		weir_paged_quiesce_now(&w);
	expect(found, 0, w.nr_since, 0);
	weir_paged_leave(&w);
}

static void case_lag(void)
{
	uint64_t *slot = (uint64_t *)pool_zeroed(sizeof(*slot)), lagging;
	struct weir_paged_counts first;
	struct test t;
	bool good;

	test_begin(&t, 12, 4, 40 * 512, 1);
	LAUNCH(kernel_lag, 1, 64, t.pool.view, t.range, (uint64_t)40, slot, t.found);
	good = test_settle(&t, "lag");
	copy_now(&lagging, slot, sizeof(lagging), "download");
	copy_now(&first, t.pool.view.counts, sizeof(first), "download");
	good &= pool_range_counts(&t.pool, 0).nr[WEIR_PAGED_LAG] > 0;
	good &= first.lagged == lagging + 1;
	if (!good)
		fprintf(stderr, "slot %llu lagged, and %llu is named\n",
			(unsigned long long)lagging, (unsigned long long)first.lagged);
	report(&t, good && words_are(&t, 0), "a warp lags", "4 frames");
	check(cudaFree(slot), "cudaFree");
	test_end(&t);
}

/* ------------------------------------------------------------------ elements */

/* A cursor goes to and fro between two ranges, whose words are versions 0 and 1. */
__global__ void kernel_cursor(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			      uint64_t nr_words, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_cursor cursor = {};

	for (uint64_t i = 0; i < 4 * nr_words; i += 32) {
		uint64_t index = (i / 4 & ~31ull) + weir_paged_lane();

		if (index < nr_words)
			expect(found, index,
			       weir_paged_read_near<uint64_t>(&w, &cursor, range + i / 32 % 2,
							      index),
			       stamp(index, i / 32 % 2));
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* Structs of 12 bytes, of which some lie in two pages. */
__global__ void kernel_rows_of_3(const __grid_constant__ struct weir_paged_view view,
				 uint32_t range, uint64_t nr, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	uint32_t value[3];

	for (uint64_t i = thread_nr(); i < nr; i += nr_threads()) {
		weir_paged_read_row<uint32_t, 3, 1>(&w, range, 3 * i, value);
		for (uint64_t k = 3 * i; k < 3 * i + 3; k++)
			expect(found, k / 2, value[k - 3 * i],
			       (uint32_t)(stamp(k / 2, 0) >> k % 2 * 32));
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* The same words through objects: each is read, added to through an element, and, every other time
 * that its warp comes by, through a span. Lane 31 returns early. */
__global__ void kernel_objects(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			       uint32_t rounds, struct found *found)
{
	weir_paged_scope scope(view);
	weir_paged_array<unsigned long long> words(scope, range);
	uint64_t nr_rows = words.size() / 32, row = thread_nr() / 32;

	for (uint32_t i = 0; i < rounds; i++) {
		for (uint64_t at = row; at < nr_rows; at += nr_threads() / 32) {
			uint64_t index = at * 32 + weir_paged_lane();

			expect(found, index, words[index], stamp(index, 2 * i));
			if (!words.add(index, 1) || words.set(words.size() + index, 1))
				expect(found, index, 0, 1);
			{
				weir_paged_span<unsigned long long> span =
					words.span(index, PT_WRITE);

				expect(found, index, span[0], stamp(index, 2 * i + 1));
				span[0]++;
			}
			scope.quiesce();
		}
		if (i == rounds - 1 && weir_paged_lane() == 31)
			return;
	}
	expect(found, 0, weir_paged_lane() < 31, true);
}

static void case_objects(void)
{
	struct test t;
	bool good;

	test_begin(&t, 12, 4, 10 * 512, 1);
	LAUNCH(kernel_objects, 2, 64, t.pool.view, t.range, 2, t.found);
	good = test_settle(&t, "objects");
	good &= pool_range_counts(&t.pool, t.range).nr[WEIR_PAGED_REFUSED] == 2 * t.nr_words;
	report(&t, good && words_are(&t, 4), "objects", "scope, array, span");
	test_end(&t);
}

static void case_elements(void)
{
	struct test t;
	uint64_t *second;
	bool good;

	test_begin(&t, 12, 64, 6 * 512, 1);
	second = pool_host_alloc(t.nr_words * sizeof(uint64_t));
	for (uint64_t i = 0; i < t.nr_words; i++)
		second[i] = stamp(i, 1);
	pool_range_add(&t.pool, second, t.nr_words * sizeof(uint64_t), 1, false);
	LAUNCH(kernel_cursor, 1, 64, t.pool.view, t.range, t.nr_words, t.found);
	good = test_settle(&t, "cursor");
	LAUNCH(kernel_rows_of_3, 2, 64, t.pool.view, t.range, t.nr_words * 2 / 3, t.found);
	good &= test_settle(&t, "12 bytes");
	report(&t, good && words_are(&t, 0), "elements", "a cursor of two ranges; 12 bytes");
	check(cudaFreeHost(second), "cudaFreeHost");
	test_end(&t);
}

/* ------------------------------------------------------------------ pages met before */

/* One warp writes all words of each page, and reads them. What a page's first words have found out
 * serves the others: none of them asks anew, whether the page is in a frame or stays in place.
 * asked: lanes of which one did, a page at a time. */
__global__ void kernel_met(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			   struct found *found, unsigned int *asked)
{
	const uint64_t nr = 1ull << (view.page_shift - 3);
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint64_t page = 0; page < view.range[range].nr_pages; page++) {
		uint64_t first = page * nr + weir_paged_lane(), value[4];

		expect(found, first, weir_paged_read<uint64_t>(&w, range, first), stamp(first, 0));
		weir_paged_write<uint64_t>(&w, range, first, stamp(first, 1));
		w.nr_since = 0; /* an access that asks says so here */
		for (uint64_t at = first + 32; at < (page + 1) * nr; at += 32) {
			const uint64_t index[] = {at, at - 32, at, at - 32};

			weir_paged_read_n<uint64_t, 4>(&w, range, index, value);
			for (uint32_t i = 0; i < 4; i++)
				expect(found, index[i], value[i], stamp(index[i], i % 2));
			weir_paged_write<uint64_t>(&w, range, at, stamp(at, 1));
		}
		if (w.nr_since)
			atomicAdd(asked, 1u);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

static void case_met(bool fill_only)
{
	const uint32_t nr_pages = 8;
	unsigned int asked, *device;
	struct test t;
	uint32_t range;
	bool good;

	test_begin(&t, 12, fill_only ? 3 : nr_pages, nr_pages * 512, 1);
	device = (unsigned int *)pool_zeroed(sizeof(asked));
	range = pool_range_add(&t.pool, t.words, t.nr_words * sizeof(uint64_t), 1, false,
			       fill_only);
	LAUNCH(kernel_met, 1, 32, t.pool.view, range, t.found, device);
	good = test_settle(&t, "met before");
	copy_now(&asked, device, sizeof(asked), "download");
	/* Lanes that are apart, as some always are without a GPU, have no page brought in. */
	if (asked >= (small ? nr_pages * 32 : 1)) {
		fprintf(stderr, "%u lanes asked for a page that they had met\n", asked);
		good = false;
	}
	check(cudaFree(device), "cudaFree");
	report(&t, good && words_are(&t, 1), "met before", fill_only ? "filled" : "evicting");
	test_end(&t);
}

/* Let the other warp go on, and wait for it. */
__device__ static void met_turn(uint64_t *turn, uint64_t mine)
{
	__syncwarp();
	if (weir_paged_lane() == 0) {
		pt_store(turn, mine + 1, PT_RELEASE);
		while (pt_load(turn, PT_ACQUIRE) == mine + 1)
			;
	}
	__syncwarp();
}

/* Two warps in turn: one reads a page where it is, the other one brings it in and writes, and the
 * first has to see that, in the same epoch. */
__global__ void kernel_met_moved(const __grid_constant__ struct weir_paged_view view,
				 uint64_t *turn, struct found *found)
{
	const uint64_t at = weir_paged_lane();
	struct weir_paged_warp w = weir_paged_enter(&view);

	if (blockIdx.x == 0) {
		for (uint32_t i = 0; i < 2; i++)
			expect(found, at, weir_paged_read_once<uint64_t>(&w, 0, at), stamp(at, 0));
		met_turn(turn, 0);
		expect(found, at, weir_paged_read_once<uint64_t>(&w, 0, at), stamp(at, 1));
		met_turn(turn, 2);
		expect(found, at, weir_paged_read_once<uint64_t>(&w, 0, at), stamp(at, 2));
	} else {
		while (pt_load(turn, PT_ACQUIRE) != 1)
			;
		__syncwarp();
		weir_paged_write<uint64_t>(&w, 0, at, stamp(at, 1));
		met_turn(turn, 1);
		weir_paged_write<uint64_t>(&w, 0, at, stamp(at, 2));
		__syncwarp();
		if (at == 0)
			pt_store(turn, 4, PT_RELEASE);
	}
	weir_paged_leave(&w);
}

static void case_met_moved(void)
{
	uint64_t *turn;
	struct test t;
	bool good;

	test_begin(&t, 12, 4, 32, 1);
	turn = (uint64_t *)pool_zeroed(sizeof(*turn));
	LAUNCH(kernel_met_moved, 2, 32, t.pool.view, turn, t.found);
	good = test_settle(&t, "met and moved");
	report(&t, good && words_are(&t, 2), "met and moved", "brought in by another warp");
	check(cudaFree(turn), "cudaFree");
	test_end(&t);
}

int main(int argc, char **argv)
{
	small = argc == 2 && strcmp(argv[1], "--small") == 0;
	if (argc > 1 && !small)
		die("usage", "test_paging_use [--small]");
	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	case_stays(4, 3);
	case_stays(4, small ? 10 : 1000);
	case_guests(2);
	case_guests(64);
	case_nested();
	case_lanes();
	case_held();
	case_put_twice(1);
	case_put_twice(9);
	case_lag();
	case_elements();
	case_objects();
	case_met(false);
	case_met(true);
	case_met_moved();
	printf("%u cases, %u failed\n", nr_cases, nr_failed);
	return nr_failed ? 1 : 0;
}
