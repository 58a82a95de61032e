/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads as agents of paged memory, in pools that are far too small: each keeps a shadow of what
 * it wrote, and looks at what others wrote. Nothing is lost, nothing is older than what the reader
 * was told of, the checker holds, and the thread sanitizer is silent. A page is shared by all
 * threads; in it each word has one writer:
 *
 *   words   0 to   7  counters that all add to
 *   words   8 to  71  stamps: written by their thread, read by all, as elements
 *   words 128 to 511  a thread's own, used through spans and in bulk
 *
 * Another range is read-only. Either may be one that is only filled: then it has never had more
 * pages brought in than there are frames.
 *
 * WEIR_PAGING_SECONDS makes each case run so long, instead of a fraction of a second.
 *
 * Labels: threads
 * Timeout: 300
 * Long: WEIR_PAGING_SECONDS=5
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/paging/cpu.h"
#include "tests/support/amount.h"

#define NR_THREADS 4u
#define NR_WORDS 512u
#define NR_COUNTERS 8u
#define FIRST_STAMP 8u
#define NR_STAMPS 16u /* a thread */
#define FIRST_OWN 128u
#define NR_OWN 96u /* a thread */
#define MAX_PAGES 192u
#define PAGE_BYTES 4096u

enum pages { PAGES_ANY, PAGES_ONE, PAGES_OF_ITS_OWN };

struct shadow {
	uint64_t stamp[NR_STAMPS]; /* versions */
	uint64_t own;		   /* all words of its own are this */
};

struct worker {
	pthread_t thread;
	uint32_t number;
	uint64_t random, nr_ops;
	struct paging_agent *agent;
	struct shadow shadow[MAX_PAGES];
	uint64_t added[MAX_PAGES];
	uint64_t seen[MAX_PAGES][NR_THREADS]; /* newest versions it has met, of the first stamp */
};

static struct {
	struct paging *pool;
	uint32_t range, walk_range;
	uint32_t nr_pages;
	enum pages pages;
	uint64_t *host, *walk;
	atomic_uint_fast64_t told[MAX_PAGES][NR_THREADS]; /* versions of first stamps */
	atomic_bool stop;
	atomic_int failed_line;
	struct worker worker[NR_THREADS];
} s;

#define require(what)                                                                    \
	do {                                                                             \
		int none = 0;                                                            \
		if (!(what)) {                                                           \
			atomic_compare_exchange_strong(&s.failed_line, &none, __LINE__); \
			atomic_store(&s.stop, true);                                     \
		}                                                                        \
	} while (0)

static uint32_t below(struct worker *w, uint32_t n)
{
	w->random = w->random * 6364136223846793005ull + 1442695040888963407ull; /* Knuth */
	return (uint32_t)((w->random >> 33) % n);
}

static uint64_t stamp(uint32_t page, uint32_t word, uint64_t version)
{
	return (uint64_t)page << 48 | (uint64_t)word << 36 | version;
}

static uint64_t at(uint32_t page, uint32_t word)
{
	return (uint64_t)page * PAGE_BYTES + word * 8;
}

static uint32_t stamp_word(uint32_t thread, uint32_t i)
{
	return FIRST_STAMP + thread * NR_STAMPS + i;
}

/* ------------------------------------------------------------------ what a thread does */

static void write_stamp(struct worker *w, uint32_t page)
{
	uint32_t i = below(w, NR_STAMPS), word = stamp_word(w->number, i);
	uint64_t value = stamp(page, word, ++w->shadow[page].stamp[i]);

	require(!paging_write(w->agent, s.range, at(page, word), &value, 8));
	if (!i)
		atomic_store_explicit(&s.told[page][w->number], w->shadow[page].stamp[0],
				      memory_order_release);
}

static void read_stamps(struct worker *w, uint32_t page)
{
	uint32_t other = below(w, NR_THREADS), i = below(w, NR_STAMPS);
	uint32_t word = stamp_word(w->number, i);
	uint64_t told = atomic_load_explicit(&s.told[page][other], memory_order_acquire), value;

	require(!paging_read(w->agent, s.range, at(page, word), &value, 8));
	require(value == stamp(page, word, w->shadow[page].stamp[i]));
	word = stamp_word(other, 0);
	require(!paging_read(w->agent, s.range, at(page, word), &value, 8));
	require(value - stamp(page, word, 0) >= told);
	require(value - stamp(page, word, 0) >= w->seen[page][other]);
	require(value - stamp(page, word, 0) < 1ull << 36);
	w->seen[page][other] = value - stamp(page, word, 0);
}

static void add_counter(struct worker *w, uint32_t page)
{
	uint64_t old;

	require(!paging_add(w->agent, s.range, at(page, below(w, NR_COUNTERS)), 8, 3, &old));
	require(old % 3 == 0);
	w->added[page] += 3;
}

static uint32_t own_word(const struct worker *w)
{
	return FIRST_OWN + w->number * NR_OWN;
}

static void check_own(struct worker *w, uint32_t page, const uint64_t *own)
{
	for (uint32_t i = 0; i < NR_OWN; i++)
		require(own[i] == w->shadow[page].own);
}

static void put_own(struct worker *w, uint32_t page, uint64_t *own)
{
	check_own(w, page, own);
	w->shadow[page].own += w->number + 1;
	for (uint32_t i = 0; i < NR_OWN; i++)
		own[i] = w->shadow[page].own;
}

/* Two spans at a time, one of them perhaps pinned over quiescent points. */
static void use_spans(struct worker *w, uint32_t page, uint32_t other)
{
	unsigned flags = PAGING_WRITE | (below(w, 2) ? PAGING_PIN : 0);
	struct paging_span first, second;

	if (page == other)
		return;
	require(!paging_span_get(w->agent, s.range, at(page, own_word(w)), flags, &first));
	put_own(w, page, first.addr);
	require(!paging_span_get(w->agent, s.range, at(other, own_word(w)), flags, &second));
	put_own(w, other, second.addr);
	paging_quiesce(w->agent);
	add_counter(w, below(w, s.nr_pages));
	paging_quiesce(w->agent);
	require(paging_leave(w->agent) == -EBUSY);
	put_own(w, page, first.addr);
	require(!paging_span_put(w->agent, &first));
	put_own(w, other, second.addr);
	require(!paging_span_put(w->agent, &second));
}

static void use_bulk(struct worker *w, uint32_t page)
{
	uint64_t own[NR_OWN];

	require(!paging_read_n(w->agent, s.range, at(page, own_word(w)), own, sizeof(own)));
	if (below(w, 2)) {
		check_own(w, page, own);
		return;
	}
	put_own(w, page, own);
	require(!paging_write_n(w->agent, s.range, at(page, own_word(w)), own, sizeof(own)));
}

/* What is read-only, through a span that may be pinned over quiescent points. */
static void look_at_walk(struct worker *w, uint32_t page)
{
	unsigned flags = below(w, 2) ? PAGING_PIN : 0;
	struct paging_span span;

	require(!paging_span_get(w->agent, s.walk_range, at(page, 0), flags, &span));
	require(*(const uint64_t *)span.addr == (page + 1) % s.nr_pages);
	paging_quiesce(w->agent);
	add_counter(w, below(w, s.nr_pages));
	paging_quiesce(w->agent);
	require(*(const uint64_t *)span.addr == (page + 1) % s.nr_pages);
	require(!paging_span_put(w->agent, &span));
}

/* A permutation that is one cycle: whoever walks so many steps is back where he began. */
static void walk(struct worker *w)
{
	uint64_t begin = below(w, s.nr_pages), page = begin;

	for (uint32_t i = 0; i < s.nr_pages; i++) {
		require(!paging_read(w->agent, s.walk_range, page * PAGE_BYTES, &page, 8));
		require(page < s.nr_pages && (page != begin || i + 1 == s.nr_pages));
		if (atomic_load(&s.stop))
			return;
	}
	require(page == begin);
}

static void come_and_go(struct worker *w)
{
	int err;

	require(paging_flush(s.pool) == -EBUSY);
	require(!paging_leave(w->agent));
	while ((err = paging_enter(s.pool, &w->agent)) == -EBUSY)
		;
	require(!err);
}

static uint32_t choose_page(struct worker *w)
{
	if (s.pages == PAGES_ONE)
		return 0;
	if (s.pages == PAGES_OF_ITS_OWN)
		return w->number + NR_THREADS * below(w, s.nr_pages / NR_THREADS);
	return below(w, s.nr_pages);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	int err;

	while ((err = paging_enter(s.pool, &w->agent)) == -EBUSY)
		;
	require(!err);
	while (!atomic_load_explicit(&s.stop, memory_order_relaxed)) {
		uint32_t page = choose_page(w), what = below(w, 400);

		if (what < 150)
			write_stamp(w, page);
		else if (what < 280)
			read_stamps(w, page);
		else if (what < 320)
			add_counter(w, page);
		else if (what < 340)
			use_spans(w, page, choose_page(w));
		else if (what < 350)
			look_at_walk(w, page);
		else if (what < 380)
			use_bulk(w, page);
		else if (what < 388)
			require(!paging_prefetch(w->agent, s.range, at(page, 0), 8));
		else if (what < 396)
			require(!paging_drop(w->agent, s.range, at(page, 0), 8));
		else if (what < 399)
			walk(w);
		else
			come_and_go(w);
		w->nr_ops++;
	}
	require(!paging_leave(w->agent));
	return NULL;
}

/* ------------------------------------------------------------------ a case */

struct plan {
	uint64_t nr_frames;
	uint32_t nr_pages, admit;
	enum pages pages;
	bool fill, fill_walk; /* the ranges are only filled */
	bool aborts;
};

static void make(const struct plan *plan)
{
	struct paging_config config = {.page_bytes = PAGE_BYTES,
				       .max_agents = NR_THREADS,
				       .nr_frames = plan->nr_frames,
				       .quiesce_every = 2,
				       .yield_every = 64};
	struct paging_range_config range = {.bytes = (uint64_t)plan->nr_pages * PAGE_BYTES,
					    .admit = plan->admit,
					    .fill_only = plan->fill};
	uint32_t nr_pages = plan->nr_pages;

	memset(&s, 0, sizeof(s));
	s.nr_pages = nr_pages;
	s.host = calloc(nr_pages, PAGE_BYTES);
	s.walk = calloc(nr_pages, PAGE_BYTES);
	assert_true(s.host && s.walk);
	for (uint32_t page = 0; page < nr_pages; page++) {
		for (uint32_t i = 0; i < NR_THREADS * NR_STAMPS; i++)
			s.host[at(page, FIRST_STAMP + i) / 8] = stamp(page, FIRST_STAMP + i, 0);
		s.walk[at(page, 0) / 8] = (page + 1) % nr_pages;
	}
	assert_int_equal(paging_create(&config, &s.pool), 0);
	range.host = s.host;
	assert_int_equal(paging_range_add(s.pool, &range, &s.range), 0);
	range.host = s.walk;
	range.read_only = true;
	range.fill_only = plan->fill_walk;
	assert_int_equal(paging_range_add(s.pool, &range, &s.walk_range), 0);
}

/* All is on the host again, and right. */
static void compare(void)
{
	for (uint32_t page = 0; page < s.nr_pages; page++) {
		uint64_t sum = 0, added = 0;

		for (uint32_t i = 0; i < NR_COUNTERS; i++)
			sum += s.host[at(page, i) / 8];
		for (uint32_t t = 0; t < NR_THREADS; t++) {
			const struct shadow *shadow = &s.worker[t].shadow[page];

			added += s.worker[t].added[page];
			for (uint32_t i = 0; i < NR_STAMPS; i++)
				assert_int_equal(s.host[at(page, stamp_word(t, i)) / 8],
						 stamp(page, stamp_word(t, i), shadow->stamp[i]));
			for (uint32_t i = 0; i < NR_OWN; i++)
				assert_int_equal(s.host[at(page, own_word(&s.worker[t]) + i) / 8],
						 shadow->own);
		}
		assert_int_equal(sum, added);
		assert_int_equal(s.walk[at(page, 0) / 8], (page + 1) % s.nr_pages);
	}
}

static void pause_for(double seconds)
{
	struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

static uint64_t nr_in(uint32_t range)
{
	uint64_t nr[WEIR_PAGED_EVENT_NR] = {0};

	view_counts_sum(s.pool->view.counts, range, nr);
	return nr[WEIR_PAGED_IN];
}

/* Before anything is drained. */
static void check_filled(const struct plan *plan)
{
	struct paging_stats stats;

	paging_stats(s.pool, &stats);
	if (plan->fill)
		assert_true(nr_in(s.range) <= plan->nr_frames);
	if (plan->fill_walk)
		assert_true(nr_in(s.walk_range) <= plan->nr_frames);
	if (!plan->fill || !plan->fill_walk)
		return;
	assert_true(stats.nr_in <= plan->nr_frames);
	assert_int_equal(stats.nr_out, 0);
}

static void run(struct plan plan)
{
	double seconds = test_seconds("WEIR_PAGING_SECONDS", 0.3);
	struct paging_stats stats;
	uint64_t nr_ops = 0;

	plan.admit = plan.admit ? plan.admit : 1;
	make(&plan);
	s.pages = plan.pages;
	for (uint32_t i = 0; i < NR_THREADS; i++) {
		s.worker[i].number = i;
		s.worker[i].random = 7919 * (i + 1) + plan.nr_frames;
		assert_int_equal(pthread_create(&s.worker[i].thread, NULL, work, &s.worker[i]), 0);
	}
	for (uint32_t i = 0; plan.aborts && i < 100; i++) {
		pause_for(seconds / 100);
		paging_abort(s.pool, i % 2);
	}
	if (!plan.aborts)
		pause_for(seconds);
	atomic_store(&s.stop, true);
	for (uint32_t i = 0; i < NR_THREADS; i++) {
		pthread_join(s.worker[i].thread, NULL);
		nr_ops += s.worker[i].nr_ops;
	}
	assert_int_equal(s.failed_line, 0);
	check_filled(&plan);
	assert_int_equal(paging_check(s.pool), 0);
	assert_int_equal(paging_drain(s.pool), 0);
	assert_int_equal(paging_check(s.pool), 0);
	paging_stats(s.pool, &stats);
	print_message("%llu frames, %u pages: %llu operations, %llu pages in, %llu out, "
		      "%llu in place, %llu waits\n",
		      (unsigned long long)plan.nr_frames, plan.nr_pages, (unsigned long long)nr_ops,
		      (unsigned long long)stats.nr_in, (unsigned long long)stats.nr_out,
		      (unsigned long long)stats.nr_in_place, (unsigned long long)stats.nr_waits);
	paging_destroy(s.pool);
	compare();
	assert_true(stats.nr_in > 0);
	free(s.host);
	free(s.walk);
}

static void paging_one_frame(void **state)
{
	(void)state;
	run((struct plan){.nr_frames = 1, .nr_pages = 64});
}

static void paging_two_frames(void **state)
{
	(void)state;
	run((struct plan){.nr_frames = 2, .nr_pages = 64});
}

static void paging_eight_frames(void **state)
{
	(void)state;
	run((struct plan){.nr_frames = 8, .nr_pages = 96});
}

static void paging_many_frames(void **state)
{
	(void)state;
	run((struct plan){.nr_frames = 64, .nr_pages = MAX_PAGES});
}

static void paging_one_page(void **state)
{
	(void)state;
	run((struct plan){.nr_frames = 1, .nr_pages = 4, .pages = PAGES_ONE});
}

static void paging_pages_of_its_own(void **state)
{
	(void)state;
	run((struct plan){.nr_frames = 4, .nr_pages = 64, .pages = PAGES_OF_ITS_OWN});
}

static void paging_third_touch(void **state)
{
	(void)state;
	run((struct plan){.nr_frames = 8, .nr_pages = 96, .admit = 3});
}

static void paging_aborted_again_and_again(void **state)
{
	(void)state;
	run((struct plan){.nr_frames = 8, .nr_pages = 96, .aborts = true});
}

static const uint64_t all_frames[] = {1, 2, 8, 64};

static void paging_filled(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < sizeof(all_frames) / sizeof(*all_frames); i++)
		run((struct plan){.nr_frames = all_frames[i],
				  .nr_pages = 96,
				  .fill = true,
				  .fill_walk = true});
}

/* One of the ranges evicts, also what the other one has filled. */
static void paging_filled_beside_evicting(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < sizeof(all_frames) / sizeof(*all_frames); i++)
		run((struct plan){.nr_frames = all_frames[i], .nr_pages = 96, .fill_walk = true});
	run((struct plan){.nr_frames = 8, .nr_pages = 96, .fill = true});
}

static void paging_filled_at_second_touch(void **state)
{
	(void)state;
	run((struct plan){
		.nr_frames = 8, .nr_pages = 96, .admit = 2, .fill = true, .fill_walk = true});
}

static void paging_filled_aborted(void **state)
{
	(void)state;
	run((struct plan){
		.nr_frames = 64, .nr_pages = 96, .fill = true, .fill_walk = true, .aborts = true});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paging_one_frame),
		cmocka_unit_test(paging_two_frames),
		cmocka_unit_test(paging_eight_frames),
		cmocka_unit_test(paging_many_frames),
		cmocka_unit_test(paging_one_page),
		cmocka_unit_test(paging_pages_of_its_own),
		cmocka_unit_test(paging_third_touch),
		cmocka_unit_test(paging_aborted_again_and_again),
		cmocka_unit_test(paging_filled),
		cmocka_unit_test(paging_filled_beside_evicting),
		cmocka_unit_test(paging_filled_at_second_touch),
		cmocka_unit_test(paging_filled_aborted),
	};

	alarm(240); /* a hang fails */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
