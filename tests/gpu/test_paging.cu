/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory on a real GPU: warps that read, write and add through pools of 1 to 4,096 frames
 * with many more pages, spans, pins, divergent lanes, offsets and element numbers beyond 32 bits,
 * more warps than fit. Words say which one they are and how often they were written, so that a
 * wrong one names its page. After each case the bytes on the host and the whole table are right.
 *
 *   test_paging [--small]     small: a few hundred kilobytes, for tools under which all is slow
 *
 * One line a case; the exit status is 1 when one is wrong or does not end, 2 when it cannot run.
 */
#include "tests/gpu/paging_case.cuh"

/* ------------------------------------------------------------------ reads */

/* Each word must be at the version. seed: 0: in order. */
__global__ void kernel_read(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			    uint64_t nr_words, uint64_t nr_reads, uint64_t seed, uint64_t version,
			    struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint64_t i = thread_nr(); i < nr_reads; i += nr_threads()) {
		uint64_t index = seed ? mix(i + seed) % nr_words : i % nr_words;

		expect(found, index, weir_paged_read<uint64_t>(&w, range, index),
		       stamp(index, version));
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* The same through cursors: each thread reads words in a row. */
__global__ void kernel_read_near(const __grid_constant__ struct weir_paged_view view,
				 uint32_t range, uint64_t nr_words, uint32_t row,
				 struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_cursor cursor = {};

	for (uint64_t at = thread_nr() * row; at < nr_words; at += nr_threads() * row) {
		for (uint64_t i = at; i < at + row && i < nr_words; i++)
			expect(found, i, weir_paged_read_near<uint64_t>(&w, &cursor, range, i),
			       stamp(i, 0));
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* Rows of a warp, 8 words a lane; and as many at random. */
__global__ void kernel_read_more(const __grid_constant__ struct weir_paged_view view,
				 uint32_t range, uint64_t nr_words, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	uint64_t index[8], value[8];

	for (uint64_t at = thread_nr() / 32 * 256 + weir_paged_lane(); at < nr_words;
	     at += nr_threads() * 8) {
		weir_paged_read_row<uint64_t, 8, 32>(&w, range, at, value);
		for (uint32_t i = 0; i < 8; i++)
			expect(found, at + i * 32, value[i],
			       at + i * 32 < nr_words ? stamp(at + i * 32, 0) : 0);
		for (uint32_t i = 0; i < 8; i++)
			index[i] = mix(at + i) % (nr_words + 5);
		weir_paged_read_n<uint64_t, 8>(&w, range, index, value);
		for (uint32_t i = 0; i < 8; i++)
			expect(found, index[i], value[i],
			       index[i] < nr_words ? stamp(index[i], 0) : 0);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* A warp a page, through spans. */
__global__ void kernel_read_span(const __grid_constant__ struct weir_paged_view view,
				 uint32_t range, uint64_t nr_words, struct found *found)
{
	uint64_t per_page = (1ull << view.page_shift) / sizeof(uint64_t);
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;

	for (uint64_t at = thread_nr() / 32 * per_page; at < nr_words;
	     at += nr_threads() / 32 * per_page) {
		const uint64_t *word = (const uint64_t *)weir_paged_span_get(
			&w, range, at * sizeof(uint64_t), PT_READ, &span);

		for (uint64_t i = weir_paged_lane(); i < per_page && at + i < nr_words; i += 32)
			expect(found, at + i, word ? word[i] : 0, stamp(at + i, 0));
		__syncwarp();
		weir_paged_span_put(&w, &span);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* One warp, one frame. */
static void case_one(void)
{
	struct test t;
	bool good;

	test_begin(&t, 12, 1, 5 * 512 + 100, 1);
	LAUNCH(kernel_read, 1, 32, t.pool.view, t.range, t.nr_words, t.nr_words, 0, 0, t.found);
	good = test_settle(&t, "one warp");
	report(&t, good && words_are(&t, 0), "one warp", "in order");
	LAUNCH(kernel_read, 1, 32, t.pool.view, t.range, t.nr_words, 4096, 1, 0, t.found);
	good = test_settle(&t, "one warp");
	report(&t, good && words_are(&t, 0), "one warp", "at random");
	test_end(&t);
}

static void case_read(uint32_t page_shift, uint64_t nr_frames, uint64_t nr_words, uint32_t admit)
{
	uint64_t nr_reads = small ? 20000 : nr_words;
	struct test t;
	bool good;

	test_begin(&t, page_shift, nr_frames, nr_words, admit);
	LAUNCH(kernel_read, t.blocks, t.threads, t.pool.view, t.range, nr_words, nr_words, 0, 0,
	       t.found);
	good = test_settle(&t, "read");
	LAUNCH(kernel_read, t.blocks, t.threads, t.pool.view, t.range, nr_words, nr_reads, 7, 0,
	       t.found);
	good &= test_settle(&t, "read");
	LAUNCH(kernel_read_near, t.blocks, t.threads, t.pool.view, t.range, nr_words, 64, t.found);
	good &= test_settle(&t, "read near");
	LAUNCH(kernel_read_more, t.blocks, t.threads, t.pool.view, t.range, nr_words, t.found);
	good &= test_settle(&t, "read more");
	LAUNCH(kernel_read_span, t.blocks, t.threads, t.pool.view, t.range, nr_words, t.found);
	good &= test_settle(&t, "read spans");
	report(&t, good && words_are(&t, 0), "read", "%u KiB, %llu frames, admit %u",
	       1u << page_shift >> 10, (unsigned long long)nr_frames, admit);
	test_end(&t);
}

/* All warps want the same page, again and again. */
static void case_hot(void)
{
	struct test t;
	bool good;

	test_begin(&t, 12, 2, 3 * 512, 1);
	LAUNCH(kernel_read, t.blocks, t.threads, t.pool.view, t.range, 32,
	       64ull * t.blocks * t.threads, 3, 0, t.found);
	good = test_settle(&t, "hot");
	report(&t, good && words_are(&t, 0), "hot page", "2 frames");
	test_end(&t);
}

/* ------------------------------------------------------------------ writes */

#define OWN_PRIME 7919 /* the order in which a warp visits what is its own */

/* Of nr_words from `begin`, each 32 belong to one warp, each word to one lane: it finds there what
 * it wrote before. By elements and by spans in turn. */
__global__ void kernel_update(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			      uint64_t begin, uint64_t nr_words, uint64_t from, uint32_t rounds,
			      struct found *found)
{
	uint64_t warp = thread_nr() / 32, nr_warps = nr_threads() / 32;
	uint64_t nr_rows = (nr_words + 31) / 32;
	uint64_t nr = warp < nr_rows ? (nr_rows - warp - 1) / nr_warps + 1 : 0;
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;

	for (uint64_t i = 0; i < nr * rounds; i++) {
		uint64_t row = warp + nr_warps * (i % nr * OWN_PRIME % nr);
		uint64_t index = begin + row * 32 + weir_paged_lane(), version = from + i / nr;

		if (i / nr % 2) {
			uint64_t *word = (uint64_t *)weir_paged_span_get(
				&w, range, (begin + row * 32) * sizeof(uint64_t), PT_WRITE, &span);

			if (index < begin + nr_words) {
				expect(found, index, word[weir_paged_lane()],
				       stamp(index, version));
				word[weir_paged_lane()] = stamp(index, version + 1);
			}
			__syncwarp();
			weir_paged_span_put(&w, &span);
		} else if (index < begin + nr_words) {
			expect(found, index, weir_paged_read<uint64_t>(&w, range, index),
			       stamp(index, version));
			if (!weir_paged_write<uint64_t>(&w, range, index,
							stamp(index, version + 1)))
				expect(found, index, 0, 1);
		}
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

static void case_update(uint32_t page_shift, uint64_t nr_frames, uint64_t nr_words, uint32_t admit)
{
	const uint32_t rounds = 4;
	struct test t;
	bool good;

	test_begin(&t, page_shift, nr_frames, nr_words, admit);
	LAUNCH(kernel_update, t.blocks, t.threads, t.pool.view, t.range, 0, nr_words, 0, rounds,
	       t.found);
	pool_wait(&t.pool, "update");
	good = found_nothing(&t, "update");
	LAUNCH(kernel_read, t.blocks, t.threads, t.pool.view, t.range, nr_words, nr_words, 5,
	       rounds, t.found); /* by others than their owners */
	good &= test_settle(&t, "update");
	report(&t, good && words_are(&t, rounds), "update", "%u KiB, %llu frames, admit %u",
	       1u << page_shift >> 10, (unsigned long long)nr_frames, admit);
	test_end(&t);
}

/* The host writes between launches; and what it reads is right, before and after. */
static void case_host(void)
{
	struct test t;
	bool good = true;

	test_begin(&t, 12, 16, (small ? 25 : 100) * 512, 1);
	for (uint32_t i = 0; i < 4; i++) {
		LAUNCH(kernel_update, t.blocks, t.threads, t.pool.view, t.range, 0, t.nr_words, 0,
		       3, t.found);
		pool_wait(&t.pool, "host");
		pool_drain(&t.pool);
		good &= found_nothing(&t, "host") && pool_right(&t.pool) && words_are(&t, 3);
		words_fill(&t);
	}
	report(&t, good, "host writes", "between launches");
	test_end(&t);
}

/* With admissions stopped, all is done in place. */
static void case_abort(void)
{
	struct weir_paged_counts stats;
	struct test t;
	bool good;

	test_begin(&t, 12, 64, (small ? 50 : 100) * 512, 1);
	pool_set_abort(&t.pool, true);
	LAUNCH(kernel_update, t.blocks, t.threads, t.pool.view, t.range, 0, t.nr_words, 0, 2,
	       t.found);
	good = test_settle(&t, "abort");
	stats = pool_counts(&t.pool);
	good &= !stats.nr[WEIR_PAGED_IN] && stats.nr[WEIR_PAGED_IN_PLACE];
	pool_set_abort(&t.pool, false);
	LAUNCH(kernel_update, t.blocks, t.threads, t.pool.view, t.range, 0, t.nr_words, 2, 2,
	       t.found);
	good &= test_settle(&t, "abort");
	report(&t, good && words_are(&t, 4), "abort", "set, then taken back");
	test_end(&t);
}

/* ------------------------------------------------------------------ atomics */

__host__ __device__ static inline uint64_t add_target(uint64_t thread, uint32_t i, uint64_t nr)
{
	return mix(thread * 1000003 + i) % nr;
}

/* Counters lie `apart` elements from each other. */
template <typename T>
__global__ void kernel_add(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			   uint64_t nr_counters, uint64_t apart, uint32_t adds, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint32_t i = 0; i < adds; i++) {
		uint64_t counter = add_target(thread_nr(), i, nr_counters);

		if (!weir_paged_atomic_add<T>(&w, range, counter * apart, (T)1))
			expect(found, counter, 0, 1);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

template <typename T>
static void case_add(const char *type, uint64_t nr_frames, uint64_t nr_counters, uint64_t apart)
{
	const uint32_t adds = small ? 8 : 64;
	std::vector<uint64_t> wanted(nr_counters);
	bool good;
	struct test t;
	T *counter;

	test_begin(&t, 12, nr_frames, (nr_counters * apart * sizeof(T) + 7) / 8, 1);
	memset(t.words, 0, t.nr_words * sizeof(uint64_t));
	counter = (T *)t.words;
	LAUNCH(kernel_add<T>, t.blocks, t.threads, t.pool.view, t.range, nr_counters, apart, adds,
	       t.found);
	for (uint64_t thread = 0; thread < (uint64_t)t.blocks * t.threads; thread++)
		for (uint32_t i = 0; i < adds; i++)
			wanted[add_target(thread, i, nr_counters)]++;
	good = test_settle(&t, "add");
	for (uint64_t i = 0; i < nr_counters && good; i++) {
		good = (uint64_t)counter[i * apart] == wanted[i];
		if (!good)
			fprintf(stderr, "counter %llu is %llu, not %llu\n", (unsigned long long)i,
				(unsigned long long)counter[i * apart],
				(unsigned long long)wanted[i]);
	}
	report(&t, good, "atomic add", "%s, %llu frames, %llu pages", type,
	       (unsigned long long)nr_frames,
	       (unsigned long long)t.pool.view.range[t.range].nr_pages);
	test_end(&t);
}

/* ------------------------------------------------------------------ lanes that part */

/* Each thread has a word in every page, and counts in it how often it came by. Half of the lanes,
 * others each time, go to a page of their own at random; the other half reads a word of another. */
__global__ void kernel_divergent(const __grid_constant__ struct weir_paged_view view,
				 uint32_t range, uint64_t nr_pages, uint32_t rounds,
				 struct found *found)
{
	uint64_t per_page = (1ull << view.page_shift) / sizeof(uint64_t);
	uint64_t mine = thread_nr(), value;
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t random = mix(mine * rounds + i);
		uint64_t index = random % nr_pages * per_page + mine;

		if (random >> 40 & 1) {
			value = weir_paged_read<uint64_t>(&w, range, index);
			expect(found, index, value >> VERSION_BITS, index);
			if (!weir_paged_write<uint64_t>(&w, range, index, value + 1))
				expect(found, index, 0, 1);
		} else {
			index = index - mine + (mine + i) % nr_threads();
			value = weir_paged_read<uint64_t>(&w, range, index);
			expect(found, index, value >> VERSION_BITS, index);
		}
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

static bool divergent_right(const struct test *t, uint64_t nr_pages, uint32_t rounds)
{
	uint64_t per_page = pool_page_bytes(&t->pool) / sizeof(uint64_t);
	std::vector<uint64_t> wanted(t->nr_words);

	for (uint64_t thread = 0; thread < (uint64_t)t->blocks * t->threads; thread++)
		for (uint32_t i = 0; i < rounds; i++) {
			uint64_t random = mix(thread * rounds + i);

			if (random >> 40 & 1)
				wanted[random % nr_pages * per_page + thread]++;
		}
	for (uint64_t i = 0; i < t->nr_words; i++)
		if (t->words[i] != stamp(i, wanted[i])) {
			fprintf(stderr, "word %llu on the host is %llx, not %llx\n",
				(unsigned long long)i, (unsigned long long)t->words[i],
				(unsigned long long)stamp(i, wanted[i]));
			return false;
		}
	return true;
}

static void case_divergent(uint64_t nr_frames, uint64_t nr_pages)
{
	const uint32_t rounds = small ? 30 : 200;
	struct test t;
	bool good;

	test_begin(&t, 12, nr_frames, nr_pages * 512, 1);
	t.blocks = small ? 2 : 8; /* threads: as many as words in a page at most */
	t.threads = 64;
	LAUNCH(kernel_divergent, t.blocks, t.threads, t.pool.view, t.range, nr_pages, rounds,
	       t.found);
	good = test_settle(&t, "divergent");
	report(&t, good && divergent_right(&t, nr_pages, rounds), "divergent",
	       "%llu frames, %llu pages", (unsigned long long)nr_frames,
	       (unsigned long long)nr_pages);
	test_end(&t);
}

/* ------------------------------------------------------------------ pins */

/* Each warp holds a page to write and one to read over many quiescent points and reads others then;
 * the warps of a block meet at a barrier while they hold them. */
__global__ void kernel_pinned(const __grid_constant__ struct weir_paged_view view, uint32_t range,
			      uint64_t nr_pages, uint32_t rounds, struct found *found)
{
	uint64_t per_page = (1ull << view.page_shift) / sizeof(uint64_t);
	uint64_t warp = thread_nr() / 32;
	uint64_t first = warp % nr_pages * per_page + warp / nr_pages * 32;
	uint64_t far = (warp * 5 + 1) % nr_pages * per_page + per_page - 32;
	uint64_t mine = first + weir_paged_lane();
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place out, in;
	uint64_t *word = (uint64_t *)weir_paged_span_get(&w, range, first * sizeof(uint64_t),
							 PT_WRITE | PT_PIN, &out);
	uint64_t *other = (uint64_t *)weir_paged_span_get(&w, range, far * sizeof(uint64_t),
							  PT_READ | PT_PIN, &in);

	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t random = mix(thread_nr() * rounds + i) % nr_pages * per_page;

		expect(found, mine, word[weir_paged_lane()], stamp(mine, i));
		word[weir_paged_lane()] = stamp(mine, i + 1);
		expect(found, far, other[weir_paged_lane()], stamp(far + weir_paged_lane(), 0));
		random += per_page - 1 - weir_paged_lane(); /* nobody writes there */
		expect(found, random, weir_paged_read<uint64_t>(&w, range, random),
		       stamp(random, 0));
		if (i == rounds / 2)
			__syncthreads();
		weir_paged_quiesce(&w);
	}
	weir_paged_span_put(&w, &in);
	weir_paged_span_put(&w, &out);
	weir_paged_leave(&w);
}

static void case_pinned(uint64_t nr_frames, uint64_t nr_pages)
{
	const uint32_t rounds = 40;
	uint64_t wanted;
	struct test t;
	bool good;

	test_begin(&t, 12, nr_frames, nr_pages * 512, 1);
	t.blocks = small ? 4 : 32; /* at most 15 warps write in a page */
	t.threads = 128;
	LAUNCH(kernel_pinned, t.blocks, t.threads, t.pool.view, t.range, nr_pages, rounds, t.found);
	good = test_settle(&t, "pinned");
	for (uint64_t i = 0; i < t.nr_words && good; i++) {
		wanted = i % 512 / 32 * nr_pages + i / 512 < t.blocks * t.threads / 32 ? rounds : 0;
		good = t.words[i] == stamp(i, wanted);
	}
	report(&t, good, "pinned spans", "%llu frames, %llu pages", (unsigned long long)nr_frames,
	       (unsigned long long)nr_pages);
	test_end(&t);
}

/* ------------------------------------------------------------------ what is only filled */

/* Every other lane, apart from the rest, reads words at random of one range and of the next in
 * turn, as elements and through spans. */
__global__ void kernel_read_apart(const __grid_constant__ struct weir_paged_view view,
				  uint32_t range, uint64_t nr_words, uint32_t rounds,
				  struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;

	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t index = mix(thread_nr() * rounds + i) % nr_words;

		if (weir_paged_lane() % 2 && i % 4 < 2) {
			expect(found, index, weir_paged_read<uint64_t>(&w, range + i % 2, index),
			       stamp(index, 0));
		} else if (weir_paged_lane() % 2) {
			const uint64_t *word = (const uint64_t *)weir_paged_span_get(
				&w, range + i % 2, index * sizeof(uint64_t), PT_READ, &span);

			expect(found, index, *word, stamp(index, 0));
			weir_paged_span_put(&w, &span);
		}
		__syncwarp();
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* How many accesses of kernel_read_apart() to range + odd are to pages that are in no frame. */
static uint64_t apart_in_place(const struct test *t, uint32_t range, uint32_t odd, uint32_t rounds)
{
	std::vector<uint64_t> entry = pool_download(&t->pool, t->pool.view.range[range].entry,
						    t->pool.view.range[range].nr_pages);
	uint64_t nr = 0;

	for (uint64_t thread = 1; thread < (uint64_t)t->blocks * t->threads; thread += 2)
		for (uint32_t i = odd; i < rounds; i += 2)
			nr += pt_state_of(entry[mix(thread * rounds + i) % t->nr_words *
							sizeof(uint64_t) >>
						t->pool.view.page_shift]) == PT_ABSENT;
	return nr;
}

/* Of a range that has no frame nothing is called for. A pinned span in place outlives quiescent
 * points, and keeps its warp from none. */
__global__ void kernel_fill_pinned(const __grid_constant__ struct weir_paged_view view,
				   uint32_t range, uint64_t nr_words, struct found *found)
{
	uint64_t index = mix(thread_nr() / 32) % (nr_words / 32) * 32;
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;
	const uint64_t *word;

	expect(found, index, weir_paged_read<uint64_t>(&w, range, index), stamp(index, 0));
	expect(found, index, w.nr_since, 0);
	word = (const uint64_t *)weir_paged_span_get(&w, range, index * sizeof(uint64_t),
						     PT_READ | PT_PIN, &span);
	for (uint32_t i = 0; i < 2 * WEIR_PAGED_POLL_EVERY; i++) {
		expect(found, index, word[weir_paged_lane()], stamp(index + weir_paged_lane(), 0));
		expect(found, index, w.nr_held, 0);
		weir_paged_quiesce(&w);
	}
	weir_paged_span_put(&w, &span);
	weir_paged_leave(&w);
}

/* Go through all pages until all frames are filled. @return how many pages came in */
static uint64_t filled(struct test *t, uint32_t range, bool *good)
{
	uint64_t nr_in = 0;

	for (uint32_t i = 0; i < 4 && nr_in < t->pool.view.table.nr_frames; i++) {
		LAUNCH(kernel_read_span, t->blocks, t->threads, t->pool.view, range, t->nr_words,
		       t->found);
		*good &= test_settle(t, "filled");
		nr_in += pool_counts(&t->pool).nr[WEIR_PAGED_IN];
	}
	return nr_in;
}

/* One pass more: what is in frames stays there, what is not is used in place, a warp at a time. */
static bool pass_hits(struct test *t, uint32_t range)
{
	uint64_t nr = t->pool.view.range[range].nr_pages - t->pool.view.table.nr_frames;
	struct weir_paged_counts counts;
	bool good;

	LAUNCH(kernel_read_span, t->blocks, t->threads, t->pool.view, range, t->nr_words, t->found);
	good = test_settle(t, "filled, again");
	counts = pool_counts(&t->pool);
	/* A warp whose lanes are apart counts each. */
	if (counts.nr[WEIR_PAGED_IN] || counts.nr[WEIR_PAGED_IN_PLACE] < nr ||
	    counts.nr[WEIR_PAGED_IN_PLACE] > nr * (small ? 31 : 2)) {
		fprintf(stderr, "%llu pages in, %llu in place, not 0 and %llu\n",
			(unsigned long long)counts.nr[WEIR_PAGED_IN],
			(unsigned long long)counts.nr[WEIR_PAGED_IN_PLACE], (unsigned long long)nr);
		good = false;
	}
	return good;
}

/* Each access is counted, for its range. */
static bool counts_are_right(struct test *t, uint32_t range)
{
	const uint32_t rounds = 40;
	bool good;

	(void)pool_counts(&t->pool);
	LAUNCH(kernel_read_apart, t->blocks, t->threads, t->pool.view, range, t->nr_words, rounds,
	       t->found);
	good = test_settle(t, "apart");
	for (uint32_t odd = 0; odd < 2; odd++) {
		uint64_t got = pool_range_counts(&t->pool, range + odd).nr[WEIR_PAGED_IN_PLACE];
		uint64_t wanted = apart_in_place(t, range + odd, odd, rounds);

		if (got == wanted)
			continue;
		fprintf(stderr, "%llu accesses in place to range %u, not %llu\n",
			(unsigned long long)got, range + odd, (unsigned long long)wanted);
		good = false;
	}
	return good;
}

/* The second range finds no frame left. */
static void case_fill(uint32_t page_shift, uint64_t nr_frames, uint64_t nr_pages)
{
	struct test t;
	uint32_t range;
	bool good = true;

	test_begin(&t, page_shift, nr_frames, (nr_pages << (page_shift - 3)) - 100, 1);
	range = pool_range_add(&t.pool, t.words, t.nr_words * sizeof(uint64_t), 1, true, true);
	pool_range_add(&t.pool, t.words, t.nr_words * sizeof(uint64_t), 1, true, true);
	for (uint32_t i = 0; i < 2; i++) {
		good &= filled(&t, range, &good) == nr_frames;
		good &= pass_hits(&t, range) && pass_hits(&t, range);
		good &= counts_are_right(&t, range);
		LAUNCH(kernel_read, t.blocks, t.threads, t.pool.view, range, t.nr_words, t.nr_words,
		       3, 0, t.found);
		good &= test_settle(&t, "filled, elements");
		LAUNCH(kernel_read_near, t.blocks, t.threads, t.pool.view, range, t.nr_words, 64,
		       t.found);
		good &= test_settle(&t, "filled, near");
		LAUNCH(kernel_read_more, t.blocks, t.threads, t.pool.view, range, t.nr_words,
		       t.found);
		good &= test_settle(&t, "filled, more");
		good &= !pool_counts(&t.pool).nr[WEIR_PAGED_IN];
		LAUNCH(kernel_fill_pinned, t.blocks, t.threads, t.pool.view, range + 1, t.nr_words,
		       t.found);
		good &= test_settle(&t, "filled, pinned");
		pool_drain(&t.pool); /* all anew */
		good &= pool_right(&t.pool);
	}
	report(&t, good && words_are(&t, 0), "filled", "%u KiB, %llu frames, %llu pages",
	       1u << page_shift >> 10, (unsigned long long)nr_frames, (unsigned long long)nr_pages);
	test_end(&t);
}

/* Beside a range that evicts, both are right. */
static void case_fill_beside(uint64_t nr_frames, uint64_t nr_pages)
{
	struct test t;
	uint64_t *fixed;
	uint32_t range;
	bool good = true;

	test_begin(&t, 12, nr_frames, nr_pages * 512, 1);
	fixed = pool_host_alloc(t.nr_words * sizeof(uint64_t));
	memcpy(fixed, t.words, t.nr_words * sizeof(uint64_t));
	range = pool_range_add(&t.pool, fixed, t.nr_words * sizeof(uint64_t), 1, true, true);
	for (uint64_t i = 0; i < (small ? 2 : 3); i++) {
		LAUNCH(kernel_read_more, t.blocks, t.threads, t.pool.view, range, t.nr_words,
		       t.found);
		good &= test_settle(&t, "beside, filled");
		good &= pool_range_counts(&t.pool, range).nr[WEIR_PAGED_IN] <= nr_frames;
		LAUNCH(kernel_update, t.blocks, t.threads, t.pool.view, t.range, 0, t.nr_words,
		       2 * i, 2, t.found);
		good &= test_settle(&t, "beside, evicting");
	}
	report(&t, good && words_are(&t, small ? 4 : 6), "filled beside", "%llu frames, %llu pages",
	       (unsigned long long)nr_frames, (unsigned long long)nr_pages);
	test_end(&t);
	check(cudaFreeHost(fixed), "cudaFreeHost");
}

/* One warp: words of a range that is read once, then small spans of all pages of one that is only
 * filled, over and over. */
__global__ void kernel_fill_after(const __grid_constant__ struct weir_paged_view view,
				  uint32_t once, uint32_t range, uint32_t passes,
				  struct found *found)
{
	const uint64_t nr_pages = view.range[range].nr_pages, step = 32 * sizeof(uint64_t);
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;

	for (uint64_t page = 0; page < view.range[once].nr_pages; page++)
		expect(found, page << view.page_shift >> 3,
		       weir_paged_read_once<uint64_t>(&w, once, page << view.page_shift >> 3),
		       stamp(page << view.page_shift >> 3, 0));
	for (uint64_t i = 0; i < passes * nr_pages; i++) {
		uint64_t at = (i % nr_pages << view.page_shift) + i / nr_pages % 8 * step;
		const uint64_t *word = (const uint64_t *)weir_paged_span_get(
			&w, range, at, PT_READ | PT_TOUCHES(2), &span);

		expect(found, at >> 3, *word, stamp(at >> 3, 0));
		weir_paged_span_put(&w, &span);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* What stays in place while frames are free, since it is read once or its touch is not counted, is
 * not taken for the end of filling: all pages come in. */
static void case_fill_after(void)
{
	/* Odd: which touches count goes by where they are and by how many quiescent points there
	 * were since the last look, modulo 64; with 24 pages each had no more than eight pairs. */
	const uint64_t nr_pages = 23;
	uint64_t nr_in;
	struct test t;
	uint32_t range;
	bool good;

	test_begin(&t, 12, 2 * nr_pages, nr_pages * 512, 1);
	pool_range_add(&t.pool, t.words, t.nr_words * sizeof(uint64_t), 1, true);
	range = pool_range_add(&t.pool, t.words, t.nr_words * sizeof(uint64_t), 9, true, true);
	LAUNCH(kernel_fill_after, 1, 32, t.pool.view, range - 1, range, 64, t.found);
	good = test_settle(&t, "filled, after others");
	nr_in = pool_range_counts(&t.pool, range).nr[WEIR_PAGED_IN];
	if (nr_in != nr_pages)
		fprintf(stderr, "%llu of %llu pages came in, with as many frames free\n",
			(unsigned long long)nr_in, (unsigned long long)nr_pages);
	report(&t, good && nr_in == nr_pages, "filled after", "what stayed in place");
	test_end(&t);
}

/* ------------------------------------------------------------------ limits */

enum { LIMIT_NR = 12 };

/* Range 0 can be written, 1 cannot; there is no other. All lanes see the same. */
__global__ void kernel_limits(const __grid_constant__ struct weir_paged_view view,
			      uint64_t nr_words, uint64_t *outcome)
{
	struct weir_paged_warp w = weir_paged_enter(&view);
	struct weir_paged_place span;
	uint64_t seen[LIMIT_NR];

	seen[0] = weir_paged_read<uint64_t>(&w, 0, nr_words - 1);
	seen[1] = weir_paged_read<uint64_t>(&w, 0, nr_words);
	seen[2] = weir_paged_read<uint64_t>(&w, 0, 1ull << 61); /* its offset would wrap */
	seen[3] = weir_paged_read<uint64_t>(&w, 2, 0);
	seen[4] = weir_paged_read<uint64_t>(&w, WEIR_PAGED_RANGES_MAX, 0);
	seen[5] = weir_paged_write<uint64_t>(&w, 0, nr_words, 1);
	seen[6] = weir_paged_write<uint64_t>(&w, 1, 0, 1);
	seen[7] = weir_paged_atomic_add<unsigned long long>(&w, 1, 0, 1);
	seen[8] = weir_paged_span_get(&w, 0, nr_words * 8, PT_READ, &span) != nullptr;
	weir_paged_span_put(&w, &span);
	seen[9] = weir_paged_span_get(&w, 1, 0, PT_WRITE, &span) != nullptr;
	weir_paged_span_put(&w, &span);
	seen[10] = *(const uint64_t *)weir_paged_span_get(&w, 1, 8, PT_READ, &span);
	weir_paged_span_put(&w, &span);
	seen[11] = weir_paged_read<uint64_t>(&w, 1, 2);
	weir_paged_quiesce(&w);
	weir_paged_leave(&w);
	for (uint32_t i = 0; i < LIMIT_NR; i++)
		outcome[i * 32 + weir_paged_lane()] = seen[i];
}

static void case_limits(uint64_t nr_frames)
{
	const uint64_t nr = 512 + 100;
	const uint64_t wanted[LIMIT_NR] = {stamp(nr - 1, 0), 0,		 0, 0, 0, 0, 0, 0, 0, 0,
					   stamp(1, 0),	     stamp(2, 0)};
	uint64_t outcome[LIMIT_NR * 32], *device;
	struct test t;
	bool good;

	test_begin(&t, 12, nr_frames, nr, 1);
	pool_range_add(&t.pool, t.words, nr * sizeof(uint64_t), 1, true);
	device = (uint64_t *)pool_zeroed(sizeof(outcome));
	LAUNCH(kernel_limits, 1, 32, t.pool.view, nr, device);
	good = test_settle(&t, "limits");
	copy_now(outcome, device, sizeof(outcome), "download");
	for (uint32_t i = 0; i < LIMIT_NR * 32; i++)
		if (outcome[i] != wanted[i / 32]) {
			fprintf(stderr, "limit %u, lane %u: %llx, not %llx\n", i / 32, i % 32,
				(unsigned long long)outcome[i], (unsigned long long)wanted[i / 32]);
			good = false;
		}
	report(&t, good && words_are(&t, 0), "limits", "%llu frames",
	       (unsigned long long)nr_frames);
	check(cudaFree(device), "cudaFree");
	test_end(&t);
}

/* ------------------------------------------------------------------ far and many */

__global__ void kernel_fill(uint64_t *words, uint64_t nr)
{
	for (uint64_t i = thread_nr(); i < nr; i += nr_threads())
		words[i] = stamp(i, 0);
}

#define NUMBERS_32_BITS (UINT64_C(1) << 32)

template <typename T> __host__ __device__ static inline T element(uint64_t index, uint32_t version)
{
	return (T)(mix(index) + version);
}

template <typename T>
__device__ static void expect_element(struct found *found, uint64_t index, T got, uint32_t version)
{
	expect(found, index * sizeof(T) / sizeof(uint64_t), got, element<T>(index, version));
}

/* Each is read and written by one lane, and its neighbours by others. */
template <typename T>
__global__ void kernel_elements(const __grid_constant__ struct weir_paged_view view, uint32_t range,
				uint64_t begin, uint64_t nr, struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint64_t i = thread_nr(); i < nr; i += nr_threads()) {
		uint64_t index = begin + i;

		expect_element<T>(found, index, weir_paged_read<T>(&w, range, index), 0);
		if (!weir_paged_write<T>(&w, range, index, element<T>(index, 1)))
			expect(found, index, 0, 1);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* The same elements, from the other end. */
template <typename T>
__global__ void kernel_elements_add(const __grid_constant__ struct weir_paged_view view,
				    uint32_t range, uint64_t begin, uint64_t nr,
				    struct found *found)
{
	struct weir_paged_warp w = weir_paged_enter(&view);

	for (uint64_t i = thread_nr(); i < nr; i += nr_threads()) {
		uint64_t index = begin + nr - 1 - i;
		T old = 0;

		if (!weir_paged_atomic_add<T>(&w, range, index, (T)1, &old))
			expect(found, index, 0, 1);
		expect_element<T>(found, index, old, 1);
		weir_paged_quiesce(&w);
	}
	weir_paged_leave(&w);
}

/* Elements around number 2^32 of a range. at: the first of them on the host; no page of theirs is
 * in a frame. CUDA adds to words of 4 bytes and more. */
template <typename T> static bool elements_right(struct test *t, uint32_t range, T *at, uint64_t nr)
{
	uint64_t begin = NUMBERS_32_BITS - nr / 2;
	uint32_t version = 1;
	bool good;

	for (uint64_t i = 0; i < nr; i++)
		at[i] = element<T>(begin + i, 0);
	LAUNCH(kernel_elements<T>, t->blocks, t->threads, t->pool.view, range, begin, nr, t->found);
	if constexpr (sizeof(T) >= 4) {
		pool_wait(&t->pool, "elements");
		LAUNCH(kernel_elements_add<T>, t->blocks, t->threads, t->pool.view, range, begin,
		       nr, t->found);
		version++;
	}
	good = test_settle(t, "elements");
	for (uint64_t i = 0; i < nr && good; i++) {
		good = at[i] == element<T>(begin + i, version);
		if (!good)
			fprintf(stderr, "element %llu on the host is %llx, not %llx\n",
				(unsigned long long)(begin + i), (unsigned long long)at[i],
				(unsigned long long)element<T>(begin + i, version));
	}
	return good;
}

/* Element numbers beyond 32 bits, however large elements are: of the range, only the pages around
 * number 2^32 have memory on the host, and what reaches for others faults. */
template <typename T> static void case_elements(const char *type)
{
	const uint64_t bytes = (small ? 6 : 600) << 12, nr = bytes / sizeof(T);
	const uint64_t before = (NUMBERS_32_BITS - nr / 2) * sizeof(T);
	uint32_t range;
	struct test t;

	test_begin(&t, 12, 4, bytes / sizeof(uint64_t), 1);
	range = pool_range_add(&t.pool, (void *)((uintptr_t)t.words - before), before + bytes, 1,
			       false);
	report(&t, elements_right<T>(&t, range, (T *)t.words, nr), "elements",
	       "%s, number 2^32 of %llu GiB", type, (unsigned long long)(before + bytes) >> 30);
	test_end(&t);
}

/* Offsets beyond 32 bits: reads of the whole range at random, updates of its last pages, and bytes
 * around number 2^32. */
static void case_far(void)
{
	const uint64_t bytes = UINT64_C(5) << 30, nr_reads = 1 << 22, tail = 300 * 512;
	const uint64_t nr_bytes = 1 << 22;
	struct test t;
	bool good;

	test_begin(&t, 12, 4096, 512, 1);
	check(cudaFreeHost(t.words), "cudaFreeHost");
	t.words = pool_host_alloc(bytes);
	t.nr_words = bytes / sizeof(uint64_t);
	LAUNCH(kernel_fill, t.blocks, t.threads, t.words, t.nr_words);
	pool_wait(&t.pool, "far");
	t.range = pool_range_add(&t.pool, t.words, bytes, 1, false);
	LAUNCH(kernel_read, t.blocks, t.threads, t.pool.view, t.range, t.nr_words, nr_reads, 11, 0,
	       t.found);
	good = test_settle(&t, "far");
	LAUNCH(kernel_update, t.blocks, t.threads, t.pool.view, t.range, t.nr_words - tail, tail, 0,
	       2, t.found);
	good &= test_settle(&t, "far");
	for (uint64_t i = t.nr_words - 2 * tail; i < t.nr_words && good; i++)
		good = t.words[i] == stamp(i, i < t.nr_words - tail ? 0 : 2);
	pool_drain(&t.pool);
	good &= elements_right<unsigned char>(
		&t, t.range, (unsigned char *)t.words + NUMBERS_32_BITS - nr_bytes / 2, nr_bytes);
	report(&t, good, "far", "5 GiB, 4096 frames");
	test_end(&t);
}

/* More warps than fit at a time. */
static void case_many(uint64_t nr_frames, uint32_t nr_warps)
{
	struct test t;
	bool good;

	test_begin(&t, 12, nr_frames, nr_warps * 32ull, 1);
	LAUNCH(kernel_update, nr_warps / 4, 128, t.pool.view, t.range, 0, t.nr_words, 0, 2,
	       t.found);
	good = test_settle(&t, "many");
	report(&t, good && words_are(&t, 2), "many warps", "%u, %llu frames", nr_warps,
	       (unsigned long long)nr_frames);
	test_end(&t);
}

int main(int argc, char **argv)
{
	static const uint64_t frames[] = {1, 2, 8, 64, 4096};

	small = argc == 2 && strcmp(argv[1], "--small") == 0;
	if (argc > 1 && !small)
		die("usage", "test_paging [--small]");
	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	case_one();
	case_limits(1);
	case_limits(4);
	case_hot();
	for (uint64_t nr : frames) {
		uint64_t nr_words = small ? (nr < 64 ? 40 : 130) * 512 + 100 : 8000 * 512 + 100;

		if (nr > 64 && small)
			break;
		case_read(12, nr, nr_words, 1);
		case_update(12, nr, nr_words, 1);
		case_divergent(nr, small ? 50 : 3 * nr + 50);
		case_pinned(nr, small ? 17 : 60);
		case_add<unsigned int>("32 bits", nr, 100, 1);
		case_add<unsigned int>("32 bits", nr, small ? 60 : 3 * nr + 60, 1024);
		case_add<unsigned long long>("64 bits", nr, small ? 60 : 3 * nr + 60, 512);
		case_add<float>("float", nr, small ? 60 : 3 * nr + 60, 1024);
	}
	case_update(12, 8, small ? 40 * 512 : 400 * 512, 3);
	case_read(12, 8, small ? 40 * 512 : 400 * 512, 3);
	for (uint32_t shift = 13; shift <= 16; shift += shift == 14 ? 2 : 1) {
		case_read(shift, 8, (small ? 20u : 200u) << (shift - 3), 1);
		case_update(shift, 8, (small ? 12u : 200u) << (shift - 3), 1);
	}
	case_fill(12, 1, small ? 20 : 400);
	case_fill(12, 8, small ? 30 : 400);
	case_fill(12, small ? 20 : 1000, small ? 30 : 4000);
	case_fill(small ? 13 : 16, small ? 2 : 100, small ? 14 : 400);
	case_fill_beside(2, small ? 20 : 100);
	case_fill_beside(64, small ? 80 : 300);
	case_fill_after();
	case_host();
	case_abort();
	case_many(2, small ? 400 : 100000);
	case_many(64, small ? 400 : 100000);
	case_elements<unsigned char>("1 byte");
	case_elements<unsigned short>("2 bytes");
	case_elements<unsigned int>("4 bytes");
	case_elements<unsigned long long>("8 bytes");
	if (!small)
		case_far();
	printf("%u cases, %u failed\n", nr_cases, nr_failed);
	return nr_failed ? 1 : 0;
}
