/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges that are only filled, with one or two agents of one thread: what comes in stays in, the
 * rest is used in place; how frames are found; when filling begins anew. And ranges that are
 * read-only: what is in place there needs no pin, and waits for nobody.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/paging/cpu.h"

#define PAGE 4096u
#define PAGES_MAX 64u

struct fixture {
	struct paging *pool;
	struct paging_agent *agent;
	uint64_t *host[2]; /* of ranges 0 and 1 */
	uint64_t nr_pages;
	uint64_t before[2][WEIR_PAGED_EVENT_NR]; /* counts at the last look */
};

struct ways {
	bool read_only, fill_only;
};

/* Two ranges; word 0 of page i is 1000 * range + i. */
static void make(struct fixture *f, uint64_t nr_frames, uint64_t nr_pages, struct ways first,
		 struct ways second)
{
	const struct paging_config config = {.page_bytes = PAGE,
					     .max_agents = 2,
					     .nr_frames = nr_frames,
					     .max_frames = 2 * nr_frames,
					     .quiesce_every = 1};

	memset(f, 0, sizeof(*f));
	f->nr_pages = nr_pages;
	assert_int_equal(paging_create(&config, &f->pool), 0);
	for (uint32_t i = 0; i < 2; i++) {
		const struct ways *ways = i ? &second : &first;
		struct paging_range_config range = {.bytes = nr_pages * PAGE,
						    .read_only = ways->read_only,
						    .fill_only = ways->fill_only};
		uint32_t number;

		f->host[i] = calloc(nr_pages, PAGE);
		assert_non_null(f->host[i]);
		for (uint64_t page = 0; page < nr_pages; page++)
			f->host[i][page * PAGE / 8] = 1000 * i + page;
		range.host = f->host[i];
		assert_int_equal(paging_range_add(f->pool, &range, &number), 0);
		assert_int_equal(number, i);
	}
	assert_int_equal(paging_enter(f->pool, &f->agent), 0);
}

static void leave(struct fixture *f)
{
	assert_int_equal(paging_leave(f->agent), 0);
	f->agent = NULL;
	assert_int_equal(paging_check(f->pool), 0);
}

static void destroy(struct fixture *f)
{
	if (f->agent)
		leave(f);
	paging_destroy(f->pool);
	free(f->host[0]);
	free(f->host[1]);
}

static uint64_t entry(const struct fixture *f, uint32_t range, uint64_t page)
{
	return *pt_entry_at(&f->pool->view.table, PT_ID(range, page));
}

static uint64_t nr_in_frames(const struct fixture *f, uint32_t range)
{
	uint64_t nr = 0;

	for (uint64_t page = 0; page < f->nr_pages; page++)
		nr += pt_state_of(entry(f, range, page)) == PT_RESIDENT;
	return nr;
}

/* How often it happened in a range since the last look at that. */
static uint64_t events(struct fixture *f, uint32_t range, enum weir_paged_event event)
{
	uint64_t nr[WEIR_PAGED_EVENT_NR] = {0}, before = f->before[range][event];

	view_counts_sum(f->pool->view.counts, range, nr);
	f->before[range][event] = nr[event];
	return nr[event] - before;
}

enum scan { BY_ELEMENTS, BY_SPANS, BY_WRITES };

/* Each page once, in order. */
static void scan(struct fixture *f, uint32_t range, enum scan how)
{
	for (uint64_t page = 0; page < f->nr_pages; page++) {
		uint64_t value = 1000 * range + page;
		struct paging_span span;

		if (how == BY_WRITES) {
			assert_int_equal(paging_write(f->agent, range, page * PAGE, &value, 8), 0);
			continue;
		}
		value = ~0ull;
		if (how == BY_ELEMENTS) {
			assert_int_equal(paging_read(f->agent, range, page * PAGE, &value, 8), 0);
		} else {
			assert_int_equal(paging_span_get(f->agent, range, page * PAGE, 0, &span),
					 0);
			value = *(uint64_t *)span.addr;
			assert_int_equal(paging_span_put(f->agent, &span), 0);
		}
		assert_int_equal(value, 1000 * range + page);
	}
}

/* ------------------------------------------------------------------ how much hits */

/* N pages again and again through F frames: F come in, once, and N - F are used in place. */
static void test_fill_cyclic_scan(void **unused)
{
	static const uint64_t frames[] = {1, 2, 8, 63};

	(void)unused;
	for (uint32_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
		for (int how = BY_ELEMENTS; how <= BY_WRITES; how++) {
			const struct ways ways = {how != BY_WRITES && i % 2, true};
			struct fixture f;

			make(&f, frames[i], PAGES_MAX, ways, ways);
			for (uint32_t pass = 0; pass < 5; pass++) {
				scan(&f, 0, (enum scan)how);
				assert_int_equal(events(&f, 0, WEIR_PAGED_IN),
						 pass ? 0 : frames[i]);
				assert_int_equal(events(&f, 0, WEIR_PAGED_IN_PLACE),
						 PAGES_MAX - frames[i]);
				assert_int_equal(nr_in_frames(&f, 0), frames[i]);
			}
			assert_int_equal(events(&f, 0, WEIR_PAGED_OUT), 0);
			assert_int_equal(events(&f, 0, WEIR_PAGED_SCAN), 0);
			destroy(&f);
		}
	}
}

/* The same without it: of what a pass brings in nothing is there when it is used again. */
static void test_fill_is_what_hits(void **unused)
{
	struct fixture f;

	(void)unused;
	make(&f, 16, PAGES_MAX, (struct ways){true, false}, (struct ways){false, false});
	for (uint32_t pass = 0; pass < 5; pass++) {
		scan(&f, 0, BY_ELEMENTS);
		assert_true(events(&f, 0, WEIR_PAGED_IN) + events(&f, 0, WEIR_PAGED_IN_PLACE) >
			    PAGES_MAX - 8);
	}
	destroy(&f);
}

/* A pool with one range, of zeros, and an agent online. */
static void make_one(struct fixture *f, struct paging_range_config *range, uint64_t nr_frames)
{
	const struct paging_config pool = {
		.page_bytes = PAGE, .max_agents = 1, .nr_frames = nr_frames};
	uint32_t number;

	*f = (struct fixture){.nr_pages = range->bytes / PAGE};
	range->host = f->host[0] = aligned_alloc(64, range->bytes);
	assert_non_null(f->host[0]);
	memset(f->host[0], 0, range->bytes);
	assert_int_equal(paging_create(&pool, &f->pool), 0);
	assert_int_equal(paging_range_add(f->pool, range, &number), 0);
	assert_int_equal(number, 0);
	assert_int_equal(paging_enter(f->pool, &f->agent), 0);
}

/* Each of its pages, in an access that counts as so many touches. */
static void touch_all(struct fixture *f, unsigned nr_touches)
{
	struct paging_span span;

	for (uint64_t page = 0; page < f->nr_pages; page++) {
		assert_int_equal(paging_span_get(f->agent, 0, page * PAGE,
						 PAGING_TOUCHES(nr_touches), &span),
				 0);
		assert_int_equal(paging_span_put(f->agent, &span), 0);
	}
}

/* Where some pages are late, those that come in first lie evenly: of any run of them, as many as
 * its share of the frames, within a few; and after the first pass no frame is free. */
static void test_fill_evenly(void **unused)
{
	enum { PAGES = 1000, FRAMES = 300, LATE = 64 };
	struct paging_range_config range = {.bytes = (uint64_t)PAGES * PAGE,
					    .late = LATE,
					    .read_only = true,
					    .fill_only = true};
	struct fixture f;

	(void)unused;
	make_one(&f, &range, FRAMES);
	touch_all(&f, PAGE / 128);
	assert_int_equal(nr_in_frames(&f, 0), FRAMES);
	for (uint64_t first = 0; first < PAGES - 100; first += 50) {
		uint64_t nr = 0;

		for (uint64_t page = first; page < first + 100; page++)
			nr += pt_state_of(entry(&f, 0, page)) == PT_RESIDENT;
		assert_in_range(nr, 26, 34);
	}
	leave(&f);
	/* With room for all of it, none is late; with less they are others. */
	assert_int_equal(paging_set_frames(f.pool, FRAMES / 2), 0);
	assert_true(f.pool->view.table.range[0].chosen < UINT32_MAX / 1000 * 160);
	destroy(&f);
}

/* A late page comes in when it was gone through often enough, if a frame is free. */
static void test_fill_late(void **unused)
{
	enum { PAGES = 1000, FRAMES = 300, LATE = 64 };
	struct pt_range range = {.admit = 1, .late = LATE, .nr_pages = PAGES};
	uint64_t nr = 0;

	(void)unused;
	view_choose(&range, 1, FRAMES);
	for (uint64_t page = 0; page < PAGES; page++) {
		assert_true(pt_admit(&range, page, 1) == 1 ||
			    pt_admit(&range, page, 1) == 1 + LATE);
		nr += pt_admit(&range, page, 1) == 1;
	}
	assert_in_range(nr, FRAMES, FRAMES + 10);
	view_choose(&range, 1, PAGES);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(pt_admit(&range, page, 1), 1);
}

static void test_fill_admits_at_touch(void **unused)
{
	const struct paging_config config = {.page_bytes = PAGE, .max_agents = 1, .nr_frames = 2};
	struct paging_range_config range = {.bytes = 4 * PAGE, .admit = 2, .fill_only = true};
	struct paging_stats stats;
	struct fixture f = {.nr_pages = 4};

	(void)unused;
	f.host[0] = calloc(4, PAGE);
	assert_non_null(f.host[0]);
	for (uint64_t page = 0; page < 4; page++)
		f.host[0][page * PAGE / 8] = page;
	range.host = f.host[0];
	assert_int_equal(paging_create(&config, &f.pool), 0);
	assert_int_equal(paging_range_add(f.pool, &range, &(uint32_t){0}), 0);
	assert_int_equal(paging_enter(f.pool, &f.agent), 0);
	scan(&f, 0, BY_ELEMENTS);
	paging_stats(f.pool, &stats);
	assert_int_equal(stats.nr_in, 0);
	for (uint32_t pass = 0; pass < 3; pass++)
		scan(&f, 0, BY_ELEMENTS);
	paging_stats(f.pool, &stats);
	assert_int_equal(stats.nr_in, 2);
	assert_int_equal(stats.nr_in_place, 4 + 3 * 2);
	destroy(&f);
}

/* Of pages that many touches bring in, an access that uses most of one brings it in at once, if it
 * is chosen; smaller ones do not. */
static void test_fill_whole(void **unused)
{
	enum { PAGES = 1000, FRAMES = 300, SECTORS = PAGE / 32 };
	struct paging_range_config range = {.bytes = (uint64_t)PAGES * PAGE,
					    .admit = SECTORS + SECTORS / 2,
					    .late = 2 * SECTORS,
					    .whole = SECTORS / 2,
					    .read_only = true,
					    .fill_only = true};
	static const struct {
		unsigned touches;
		uint64_t nr_in;
	} pass[] = {{SECTORS / 2 - 1, 0}, {1, 0}, {SECTORS / 2, FRAMES}};
	struct fixture f;

	(void)unused;
	make_one(&f, &range, FRAMES);
	for (size_t i = 0; i < sizeof(pass) / sizeof(*pass); i++) {
		touch_all(&f, pass[i].touches);
		assert_int_equal(nr_in_frames(&f, 0), pass[i].nr_in);
	}
	for (uint64_t page = 0; page < PAGES; page++)
		if (pt_state_of(entry(&f, 0, page)) == PT_RESIDENT)
			assert_int_equal(pt_admit(&f.pool->view.table.range[0], page, SECTORS / 2),
					 1);
	leave(&f);
	assert_int_equal(paging_check(f.pool), 0);
	range.whole = UINT16_MAX + 1;
	assert_int_equal(paging_range_add(f.pool, &range, &(uint32_t){0}), -EINVAL);
	destroy(&f);
}

/* Accesses that do not say how many touches they are count as their range says. */
static void test_fill_word(void **unused)
{
	struct paging_range_config range = {
		.bytes = 2 * PAGE, .admit = 100, .word = 40, .fill_only = true};
	uint64_t value;
	struct fixture f;

	(void)unused;
	make_one(&f, &range, 2);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(nr_in_frames(&f, 0), 0);
		assert_int_equal(paging_read(f.agent, 0, i * 8, &value, 8), 0);
	}
	assert_int_equal(nr_in_frames(&f, 0), 1);
	touch_all(&f, 99); /* of which the first page's is a hit */
	assert_int_equal(nr_in_frames(&f, 0), 1);
	assert_int_equal(paging_read(f.agent, 0, PAGE, &value, 8), 0);
	assert_int_equal(nr_in_frames(&f, 0), 2);
	leave(&f);
	range.word = UINT16_MAX + 1;
	assert_int_equal(paging_range_add(f.pool, &range, &(uint32_t){0}), -EINVAL);
	destroy(&f);
}

/* After a drain, what came in before, or would have had a frame been free, comes in at its first
 * touch; what was touched less is counted anew. */
static void test_fill_after_drain(void **unused)
{
	enum { PAGES = 8, FRAMES = 2, ADMIT = 10 };
	struct paging_range_config range = {
		.bytes = (uint64_t)PAGES * PAGE, .admit = ADMIT, .fill_only = true};
	struct paging_span span;
	struct fixture f;

	(void)unused;
	make_one(&f, &range, FRAMES);
	for (uint64_t page = 0; page < PAGES; page++) {
		assert_int_equal(paging_span_get(f.agent, 0, page * PAGE,
						 PAGING_TOUCHES(page < 4 ? ADMIT : ADMIT - 2),
						 &span),
				 0);
		assert_int_equal(paging_span_put(f.agent, &span), 0);
	}
	assert_int_equal(nr_in_frames(&f, 0), FRAMES);
	leave(&f);
	assert_int_equal(paging_drain(f.pool), 0);
	assert_int_equal(paging_enter(f.pool, &f.agent), 0);
	touch_all(&f, 1);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(pt_state_of(entry(&f, 0, page)),
				 page < FRAMES ? PT_RESIDENT : PT_ABSENT);
	destroy(&f);
}

/* ------------------------------------------------------------------ beside other ranges */

/* Another range's faults may evict its pages; its own evict nobody. */
static void test_fill_beside_evicting(void **unused)
{
	struct fixture f;

	(void)unused;
	make(&f, 8, 16, (struct ways){true, true}, (struct ways){false, false});
	scan(&f, 0, BY_ELEMENTS);
	assert_int_equal(nr_in_frames(&f, 0), 8);
	for (uint32_t pass = 0; pass < 20; pass++)
		scan(&f, 1, BY_WRITES);
	assert_true(nr_in_frames(&f, 0) < 8);
	assert_true(events(&f, 1, WEIR_PAGED_IN) > 8);
	/* Now the others have them: nothing of the first comes in, nothing of the second leaves. */
	(void)events(&f, 0, WEIR_PAGED_IN);
	for (uint32_t pass = 0; pass < 5; pass++) {
		uint64_t nr = nr_in_frames(&f, 1);

		scan(&f, 0, BY_SPANS);
		assert_int_equal(events(&f, 0, WEIR_PAGED_IN), 0);
		assert_int_equal(nr_in_frames(&f, 1), nr);
	}
	destroy(&f);
}

/* Frames that others have are passed, at most PT_TAKE_MAX a fault, and those behind them found. */
static void test_fill_passes_taken_frames(void **unused)
{
	const uint64_t nr_taken = 2 * PT_TAKE_MAX + 3;
	uint64_t value = 0;
	struct fixture f;

	(void)unused;
	make(&f, nr_taken + 4, PAGES_MAX, (struct ways){true, true}, (struct ways){false, false});
	for (uint64_t i = 0; i < 2 * nr_taken; i++) /* twice, which spares it the hand */
		assert_int_equal(paging_read(f.agent, 1, i / 2 * PAGE, &value, 8), 0);
	assert_int_equal(nr_in_frames(&f, 1), nr_taken);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(paging_read(f.agent, 0, 0, &value, 8), 0);
		assert_int_equal(pt_state_of(entry(&f, 0, 0)), PT_ABSENT);
		assert_int_equal(f.pool->view.table.shared->fill, (i + 1) * PT_TAKE_MAX);
	}
	assert_int_equal(paging_read(f.agent, 0, 0, &value, 8), 0);
	assert_int_equal(pt_state_of(entry(&f, 0, 0)), PT_RESIDENT);
	scan(&f, 0, BY_ELEMENTS);
	assert_int_equal(nr_in_frames(&f, 0), 4);
	assert_int_equal(nr_in_frames(&f, 1), nr_taken);
	destroy(&f);
}

/* ------------------------------------------------------------------ filling anew */

static void test_fill_anew(void **unused)
{
	uint64_t value = 7;
	struct fixture f;

	(void)unused;
	make(&f, 8, PAGES_MAX, (struct ways){false, true}, (struct ways){false, false});
	scan(&f, 0, BY_WRITES);
	leave(&f);
	assert_int_equal(paging_drain(f.pool), 0);
	assert_int_equal(paging_check(f.pool), 0);
	assert_int_equal(paging_enter(f.pool, &f.agent), 0);
	(void)events(&f, 0, WEIR_PAGED_IN);
	scan(&f, 0, BY_ELEMENTS);
	assert_int_equal(events(&f, 0, WEIR_PAGED_IN), 8);
	/* A page that the host writes gives its frame up. */
	leave(&f);
	assert_int_equal(paging_host_write(f.pool, 0, 0, &value, 8), 0);
	assert_int_equal(paging_check(f.pool), 0);
	assert_int_equal(paging_enter(f.pool, &f.agent), 0);
	value = 0;
	assert_int_equal(paging_write(f.agent, 0, 0, &value, 8), 0);
	assert_int_equal(pt_state_of(entry(&f, 0, 0)), PT_RESIDENT);
	/* More frames: what is there stays, and the new ones are filled. Fewer: what is left. */
	leave(&f);
	assert_int_equal(paging_set_frames(f.pool, 12), 0);
	assert_int_equal(paging_enter(f.pool, &f.agent), 0);
	(void)events(&f, 0, WEIR_PAGED_IN);
	scan(&f, 0, BY_ELEMENTS);
	assert_int_equal(events(&f, 0, WEIR_PAGED_IN), 4);
	assert_int_equal(nr_in_frames(&f, 0), 12);
	leave(&f);
	assert_int_equal(paging_set_frames(f.pool, 5), 0);
	assert_int_equal(paging_check(f.pool), 0);
	assert_int_equal(paging_enter(f.pool, &f.agent), 0);
	scan(&f, 0, BY_ELEMENTS);
	assert_int_equal(events(&f, 0, WEIR_PAGED_IN), 0);
	assert_int_equal(nr_in_frames(&f, 0), 5);
	/* A flush frees none. */
	leave(&f);
	assert_int_equal(paging_flush(f.pool), 0);
	assert_int_equal(nr_in_frames(&f, 0), 5);
	/* A frame that is free, and would never be looked at again, is found by the check. */
	assert_int_equal(paging_drain(f.pool), 0);
	f.pool->view.table.shared->fill = 1;
	assert_int_equal(paging_check(f.pool), -EUCLEAN);
	f.pool->view.table.shared->fill = 0;
	destroy(&f);
}

/* ------------------------------------------------------------------ steps */

/* Step an agent until it comes to `stop`, or to its end. */
static enum pt_do step_to(struct fixture *f, struct pt_agent *a, enum pt_do verdict,
			  enum pt_do stop)
{
	while (!pt_final(verdict) && verdict != stop)
		verdict = pt_step(&f->pool->view.table, a);
	return verdict;
}

/* Once there is no frame left, nobody claims: a claim would make others wait, or be seen. */
static void test_fill_full_is_not_claimed(void **unused)
{
	struct pt_agent *a;
	enum pt_do verdict;
	struct fixture f;

	(void)unused;
	make(&f, 2, 4, (struct ways){true, true}, (struct ways){false, true});
	scan(&f, 0, BY_ELEMENTS);
	a = &f.agent->a;
	verdict = pt_begin(&f.pool->view.table, a, PT_ID(0, 3), PT_READ | PT_SPAN);
	while (!pt_final(verdict)) {
		assert_int_equal(entry(&f, 0, 3), pt_entry(PT_ABSENT, 0, 0));
		verdict = pt_step(&f.pool->view.table, a);
	}
	assert_int_equal(verdict, PT_IN_PLACE);
	assert_false(a->pinned);
	assert_int_equal(entry(&f, 0, 3), pt_entry(PT_ABSENT, 0, 0));
	/* Nor where it may be written: it stays where it is, and needs no pin for that. */
	verdict = pt_begin(&f.pool->view.table, a, PT_ID(1, 3), PT_WRITE | PT_SPAN);
	while (!pt_final(verdict)) {
		assert_int_equal(entry(&f, 1, 3), pt_entry(PT_ABSENT, 0, 0));
		verdict = pt_step(&f.pool->view.table, a);
	}
	assert_int_equal(verdict, PT_IN_PLACE);
	assert_false(a->pinned);
	destroy(&f);
}

/* While a page is being brought in, its bytes on the host are used: at once if nobody may change
 * them; else what holds them waits. */
static void test_read_only_does_not_wait(void **unused)
{
	static const unsigned ops[] = {PT_SPAN, PT_PIN, PT_SPAN | PT_PIN};
	struct paging_agent *other;
	struct fixture f;

	(void)unused;
	make(&f, 4, 4, (struct ways){true, false}, (struct ways){false, false});
	assert_int_equal(paging_enter(f.pool, &other), 0);
	for (uint32_t range = 0; range < 2; range++) {
		const struct pt_table *t = &f.pool->view.table;
		enum pt_do loading = pt_begin(t, &f.agent->a, PT_ID(range, 0), PT_READ);

		loading = step_to(&f, &f.agent->a, loading, PT_COPY_IN);
		assert_int_equal(loading, PT_COPY_IN);
		for (uint32_t i = 0; i < 3; i++) {
			enum pt_do verdict = pt_begin(t, &other->a, PT_ID(range, 0), ops[i]);

			assert_int_equal(step_to(&f, &other->a, verdict, PT_WAIT),
					 range ? PT_WAIT : PT_IN_PLACE);
			assert_false(other->a.pinned);
		}
		memcpy(view_frame(&f.pool->view, f.agent->a.frame), f.host[range], PAGE);
		assert_int_equal(step_to(&f, &f.agent->a, pt_step(t, &f.agent->a), PT_FAIL),
				 PT_HIT);
	}
	assert_int_equal(paging_leave(other), 0);
	destroy(&f);
}

/* A span in place there holds nothing: no pin, and its agent passes quiescent points. */
static void test_read_only_span_holds_nothing(void **unused)
{
	struct paging_span span, second;
	struct fixture f;
	uint64_t epoch;

	(void)unused;
	make(&f, 2, 4, (struct ways){true, true}, (struct ways){false, false});
	scan(&f, 0, BY_ELEMENTS);
	for (unsigned flags = 0; flags <= PAGING_PIN; flags += PAGING_PIN) {
		assert_int_equal(paging_span_get(f.agent, 0, 3 * PAGE, flags, &span), 0);
		assert_ptr_equal(span.addr, f.host[0] + 3 * PAGE / 8);
		assert_int_equal(pt_pins_of(entry(&f, 0, 3)), 0);
		epoch = f.agent->a.epoch;
		f.pool->view.table.shared->epoch++;
		paging_quiesce(f.agent);
		assert_int_equal(f.agent->a.epoch, epoch + 1);
		/* One in a frame holds its agent back, unless it is pinned. */
		assert_int_equal(paging_span_get(f.agent, 0, 0, flags, &second), 0);
		assert_int_equal(pt_pins_of(entry(&f, 0, 0)), flags ? 1 : 0);
		f.pool->view.table.shared->epoch++;
		paging_quiesce(f.agent);
		assert_int_equal(f.agent->a.epoch, epoch + (flags ? 2 : 1));
		assert_int_equal(*(uint64_t *)span.addr, 3);
		assert_int_equal(paging_leave(f.agent), -EBUSY);
		assert_int_equal(paging_span_put(f.agent, &second), 0);
		assert_int_equal(paging_span_put(f.agent, &span), 0);
	}
	destroy(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fill_cyclic_scan),
		cmocka_unit_test(test_fill_is_what_hits),
		cmocka_unit_test(test_fill_evenly),
		cmocka_unit_test(test_fill_late),
		cmocka_unit_test(test_fill_whole),
		cmocka_unit_test(test_fill_admits_at_touch),
		cmocka_unit_test(test_fill_word),
		cmocka_unit_test(test_fill_after_drain),
		cmocka_unit_test(test_fill_beside_evicting),
		cmocka_unit_test(test_fill_passes_taken_frames),
		cmocka_unit_test(test_fill_anew),
		cmocka_unit_test(test_fill_full_is_not_claimed),
		cmocka_unit_test(test_read_only_does_not_wait),
		cmocka_unit_test(test_read_only_span_holds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
