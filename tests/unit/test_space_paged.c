/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of paged memory in a space: brackets that name their ranges beside mapped ones, what is
 * read and written, what is refused, and who may be destroyed when. test_space_paged_budget.c has
 * the budget that both share.
 */
#include "tests/unit/test_space_paged.h"

/* In either mode, often enough for a plan, on two streams in turn. */
static void test_bracket_names_both(void **unused)
{
	const uint64_t nr_pages = 20; /* of 5 blocks; and of 8 frames */
	uint64_t *words, *mapped;
	struct both b;
	uint32_t range;

	(void)unused;
	for (int mode = WEIR_FIXED; mode <= WEIR_PLANNED; mode++) {
		both_open(&b, (enum weir_space_mode)mode, 8);
		assert_int_equal(nr_chunks(&b), BUDGET - 2);
		range = paged_range(&b.p, nr_pages * 4096, 0, &words);
		mapped = mapped_range(&b, nr_pages);
		for (uint32_t i = 0; i < 12; i++) {
			sum_run(&b, i % 5 ? b.p.stream : b.p.other, range, words, mapped, nr_pages);
			check(&b);
		}
		assert_int_equal(weir_paged_sync(b.p.pool), 0);
		assert_int_equal(weir_space_sync(b.space), 0);
		assert_true(paged_stats(&b.p).range[range].nr[WEIR_PAGED_IN] > nr_pages);
		expect_words(&b, words, nr_pages, 12);
		assert_int_equal(weir_free(b.space, mapped, NULL), 0);
		both_close(&b);
	}
}

/* Several ranges of a pool in one bracket are one bracket of it; the view is there while it is
 * open, and frames stay. */
static void test_bracket_of_the_pool(void **unused)
{
	struct weir_paged_view view;
	uint64_t *first, *second;
	struct weir_use uses[3];
	struct both b;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 8);
	(void)paged_range(&b.p, 5000, 0, &first);
	(void)paged_range(&b.p, 4096, 0, &second);
	assert_int_equal(weir_paged_view_get(b.p.pool, b.p.stream, &view), -WEIR_ECONTRACT);
	uses[0] = use(first, 5000, WEIR_READ);
	uses[1] = use(second, 8, WEIR_OVERWRITE);
	uses[2] = use(first + 600, 8, WEIR_WRITE);
	assert_int_equal(weir_begin(b.space, b.p.stream, uses, 3), 0);
	assert_int_equal(weir_paged_view_get(b.p.pool, b.p.other, &view), -WEIR_ECONTRACT);
	assert_int_equal(weir_paged_view_get(b.p.pool, b.p.stream, &view), 0);
	assert_int_equal(paged_launch(&b.p, &view, false,
				      (const struct paged_op[]){{PAGED_WRITE, 1, 0, 42}}, 1),
			 0);
	/* It is weir_begin()'s, and open. */
	assert_int_equal(weir_paged_end(b.p.pool, b.p.stream), -WEIR_ECONTRACT);
	paged_log_has(&b.log, "weir_end() ends it");
	assert_int_equal(weir_paged_begin(b.p.pool, b.p.stream, &view), -WEIR_ECONTRACT);
	assert_int_equal(weir_begin(b.space, b.p.other, &uses[1], 1), -EBUSY);
	assert_int_equal(weir_read(b.space, &view, second, 8), -EBUSY);
	assert_int_equal(weir_paged_range_remove(b.p.pool, 0), -EBUSY);
	assert_int_equal(weir_end(b.space, b.p.stream), 0);
	assert_int_equal(weir_paged_view_get(b.p.pool, b.p.stream, &view), -WEIR_ECONTRACT);
	/* On another stream, at once: it waits until the pool is not online. */
	assert_int_equal(weir_begin(b.space, b.p.other, &uses[1], 1), 0);
	assert_int_equal(weir_end(b.space, b.p.other), 0);
	/* The pool's own brackets are still there. */
	assert_int_equal(weir_paged_sync(b.p.pool), 0);
	assert_int_equal(PAGED_RUN(&b.p, false, {PAGED_READ, 1, 0, 42}, {PAGED_REFUSED, 1, 512, 0}),
			 -EFAULT);
	assert_int_equal(weir_begin(b.space, b.p.stream, &uses[0], 1), 0);
	assert_int_equal(weir_end(b.space, b.p.stream), 0);
	assert_int_equal(weir_paged_sync(b.p.pool), 0);
	both_close(&b);
}

/* An open bracket has a pool that it names, beside mapped ranges that it does not name; and no pool
 * otherwise. */
static void test_open_bracket(void **unused)
{
	const uint64_t nr_pages = 16;
	struct weir_paged_view view;
	uint64_t *words, *mapped;
	struct weir_use named;
	struct both b;
	uint32_t range;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 8);
	range = paged_range(&b.p, nr_pages * 4096, 0, &words);
	mapped = mapped_range(&b, nr_pages);
	named = use(words, nr_pages * 4096, WEIR_WRITE);
	for (uint32_t i = 0; i < 4; i++) {
		struct weir_stream *stream = i % 2 ? b.p.stream : b.p.other;

		assert_int_equal(weir_begin_open(b.space, stream, &named, 1), 0);
		assert_int_equal(sum_launch(&b, stream, range, mapped, nr_pages), 0);
		assert_int_equal(weir_end(b.space, stream), 0);
		check(&b);
		assert_int_equal(weir_begin_open(b.space, stream, NULL, 0), 0);
		assert_int_equal(weir_paged_view_get(b.p.pool, stream, &view), -WEIR_ECONTRACT);
		assert_int_equal(weir_end(b.space, stream), 0);
	}
	named.kind = WEIR_ATOMIC;
	assert_int_equal(weir_begin_open(b.space, b.p.stream, &named, 1), -EINVAL);
	assert_int_equal(weir_paged_sync(b.p.pool), 0);
	assert_int_equal(weir_space_sync(b.space), 0);
	expect_words(&b, words, nr_pages, 4);
	assert_int_equal(weir_free(b.space, mapped, NULL), 0);
	both_close(&b);
}

/* A bracket that cannot open closes what it opened, and pins nothing. */
static void test_bracket_fails(void **unused)
{
	struct weir_paged_config config;
	struct weir_paged_view view;
	struct weir_paged *second;
	struct weir_use uses[3];
	uint64_t *words, *mapped;
	struct weir_paged_range_config range = {.bytes = 4096};
	uint32_t number;
	void *host;
	struct both b;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 4);
	config = pool_config(&b, 4);
	assert_int_equal(weir_paged_create(b.p.machine, &config, &second), 0);
	assert_int_equal(nr_chunks(&b), BUDGET - 2);
	(void)paged_range(&b.p, 4096, 0, &words);
	assert_int_equal(weir_paged_range_add(second, &range, &number, &host), 0);
	mapped = mapped_range(&b, 4);
	uses[0] = use(words, 8, WEIR_READ);
	uses[1] = use(mapped, 8, WEIR_READ);
	uses[2] = use(host, 8, WEIR_READ);
	assert_int_equal(weir_paged_begin(second, b.p.other, &view), 0);
	assert_int_equal(weir_begin(b.space, b.p.stream, uses, 3), -EBUSY);
	assert_false(b.p.pool->open);
	assert_int_equal(b.space->nr_open, 0);
	for (uint32_t r = 0; r < b.space->nr_ranges; r++)
		assert_int_equal(b.space->range[r]->pins + b.space->range[r]->part_pins, 0);
	check(&b);
	assert_int_equal(weir_paged_end(second, b.p.other), 0);
	assert_int_equal(weir_begin(b.space, b.p.stream, uses, 3), 0);
	assert_int_equal(weir_end(b.space, b.p.stream), 0);
	weir_paged_destroy(second);
	assert_int_equal(nr_chunks(&b), BUDGET - 1);
	assert_int_equal(weir_free(b.space, mapped, NULL), 0);
	both_close(&b);
}

/* ------------------------------------------------------------------ other calls */

static void test_reading_and_writing(void **unused)
{
	struct weir_space_stats stats;
	struct weir_fence *fence;
	uint64_t value = 7, *words;
	struct weir_use one;
	struct both b;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 4);
	(void)paged_range(&b.p, (uint64_t)3 * 4096 + 8, 0, &words);
	one = use(words, 8, WEIR_READ);
	assert_int_equal(PAGED_RUN(&b.p, false, {PAGED_WRITE, 0, 0, 5}, {PAGED_WRITE, 0, PAGE, 6}),
			 0);
	assert_int_equal(weir_write(b.space, words + PAGE, &value, 8), 0);
	assert_int_equal(PAGED_RUN(&b.p, false, {PAGED_READ, 0, PAGE, 7}, {PAGED_ADD, 0, 0, 1}), 0);
	assert_int_equal(weir_read(b.space, &value, words, 8), 0);
	assert_int_equal(value, 6);
	assert_int_equal(weir_read(b.space, &value, words + 3 * PAGE, 8), 0);
	assert_int_equal(weir_read(b.space, &value, words + 3 * PAGE + 1, 8), -EINVAL);
	paged_log_begin(&b.log);
	assert_int_equal(weir_host_begin(b.space, &one, 1), -ENOTSUP);
	paged_log_has(&b.log, "weir_host_begin() of a paged range");
	assert_int_equal(weir_advise(b.space, words, WEIR_ADVISE_DEFAULT, 0), -ENOTSUP);
	paged_log_has(&b.log, "weir_advise() of a paged range");
	assert_int_equal(weir_prefetch(b.space, words, 8, GPU0, &fence), -ENOTSUP);
	paged_log_has(&b.log, "weir_prefetch() of a paged range");
	assert_int_equal(weir_free(b.space, words, NULL), -EINVAL);
	weir_space_query(b.space, &stats);
	assert_int_equal(stats.paged_bytes, 3 * 4096 + 8);
	assert_int_equal(stats.live_bytes, 0);
	assert_int_equal(stats.memory[GPU0].bytes, BLOCK);
	assert_int_equal(stats.memory[GPU0].peak_bytes, BLOCK);
	both_close(&b);
}

/* Ranges come and go; bytes that are one range's are no other's. */
static void test_ranges_come_and_go(void **unused)
{
	static _Alignas(16) uint64_t mine[4 * PAGE];
	struct weir_paged_range_config config = {.bytes = sizeof(mine), .host = mine};
	struct weir_use one = use(mine, 8, WEIR_READ);
	uint32_t range = 9, other;
	struct both b;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 4);
	assert_int_equal(weir_begin(b.space, b.p.stream, &one, 1), -EINVAL);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(weir_paged_range_add(b.p.pool, &config, &range, NULL), 0);
		assert_int_equal(range, 0);
		assert_int_equal(weir_paged_range_add(b.p.pool, &config, &other, NULL), -EINVAL);
		assert_int_equal(weir_begin(b.space, b.p.stream, &one, 1), 0);
		assert_int_equal(weir_end(b.space, b.p.stream), 0);
		assert_int_equal(weir_paged_sync(b.p.pool), 0);
		assert_int_equal(weir_paged_range_remove(b.p.pool, 0), 0);
		assert_int_equal(weir_begin(b.space, b.p.stream, &one, 1), -EINVAL);
	}
	both_close(&b);
}

static void test_wrong_spaces(void **unused)
{
	struct weir_paged_config config;
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_paged *pool = NULL;
	struct both b;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 4);
	config = pool_config(&b, 4);
	config.device = 1;
	assert_int_equal(weir_paged_create(b.p.machine, &config, &pool), -EINVAL);
	paged_log_has(&b.log, "another machine or device");
	config.device = 0;
	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), 0);
	assert_int_equal(weir_paged_create(machine, &config, &pool), -EINVAL);
	assert_null(pool);
	weir_machine_close(machine);
	both_close(&b);
}

/* ------------------------------------------------------------------ the order of destroying */

/* The pool goes while a bracket of the space that names it is open: it says so, nothing of it is
 * asked any more, and the bracket ends. */
static void test_pool_goes_in_a_bracket(void **unused)
{
	struct weir_use uses[2];
	uint64_t *words, *mapped;
	struct both b;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 4);
	(void)paged_range(&b.p, 4096, 0, &words);
	mapped = mapped_range(&b, 4);
	uses[0] = use(words, 8, WEIR_READ);
	uses[1] = use(mapped, 8, WEIR_READ);
	assert_int_equal(weir_begin(b.space, b.p.stream, uses, 2), 0);
	weir_paged_destroy(b.p.pool);
	paged_log_has(&b.log, "destroyed with a bracket open");
	assert_int_equal(weir_space_check(b.space), 0);
	assert_int_equal(weir_end(b.space, b.p.stream), 0);
	assert_int_equal(weir_space_sync(b.space), 0);
	assert_int_equal(weir_begin(b.space, b.p.stream, uses, 1), -EINVAL);
	weir_space_destroy(b.space);
	weir_log_set(NULL, NULL);
	paged_machine_close(&b.p);
}

/* The space goes first, with or without a bracket open: it says so, and the pool goes on. */
static void test_space_goes_first(void **unused)
{
	struct weir_paged_range_config config = {.bytes = 4096};
	struct weir_use one;
	uint64_t *words;
	struct both b;
	uint32_t range;

	(void)unused;
	for (int open = 0; open < 2; open++) {
		both_open(&b, WEIR_PLANNED, 4);
		(void)paged_range(&b.p, 4096, 0, &words);
		one = use(words, 8, WEIR_WRITE);
		assert_int_equal(weir_begin(b.space, b.p.stream, &one, 1), 0);
		if (!open)
			assert_int_equal(weir_end(b.space, b.p.stream), 0);
		weir_space_destroy(b.space);
		paged_log_has(&b.log, "destroyed before a paged pool that has ranges in it");
		assert_int_equal(weir_paged_sync(b.p.pool), 0);
		assert_int_equal(PAGED_RUN(&b.p, false, {PAGED_WRITE, 0, 0, 5}), 0);
		assert_int_equal(weir_paged_set_budget(b.p.pool, 4 * BLOCK), 0);
		assert_int_equal(weir_paged_range_add(b.p.pool, &config, &range, NULL), 0);
		assert_int_equal(weir_paged_range_remove(b.p.pool, 0), 0);
		weir_log_set(NULL, NULL);
		paged_close(&b.p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bracket_names_both),
		cmocka_unit_test(test_bracket_of_the_pool),
		cmocka_unit_test(test_open_bracket),
		cmocka_unit_test(test_bracket_fails),
		cmocka_unit_test(test_reading_and_writing),
		cmocka_unit_test(test_ranges_come_and_go),
		cmocka_unit_test(test_wrong_spaces),
		cmocka_unit_test(test_pool_goes_in_a_bracket),
		cmocka_unit_test(test_space_goes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
