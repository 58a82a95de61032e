/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory's host side on a simulated machine: what weir/paged.h promises, function by
 * function, and what it says to wrong use. Brackets are test_paged_run.c's.
 */
#include "tests/unit/test_paged.h"

#define PAGE 512u /* words of it */

static void test_writes_come_home(void **unused)
{
	struct weir_paged_stats stats;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 2, 0);
	range = paged_range(&t, 8 * 4096 + 24, 0, &words);
	assert_int_equal(range, 0);
	for (uint32_t i = 0; i < 8 * PAGE + 3; i++)
		assert_int_equal(words[i], 0);
	words[5] = 7;
	words[8 * PAGE + 2] = 9;
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 5, 7}, {PAGED_ADD, range, 5, 3},
				   {PAGED_READ, range, 8 * PAGE + 2, 9},
				   {PAGED_WRITE, range, 8 * PAGE + 1, 11}),
			 0);
	assert_int_equal(words[5], 7); /* in its frame */
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(words[5], 10);
	assert_int_equal(words[8 * PAGE + 1], 11);
	assert_int_equal(words[8 * PAGE + 2], 9);
	stats = paged_stats(&t);
	assert_int_equal(stats.nr_frames, 2);
	assert_int_equal(stats.nr_max_frames, 2);
	assert_int_equal(stats.nr_resident, 2);
	assert_int_equal(stats.range[0].nr[WEIR_PAGED_IN], 2);
	assert_int_equal(stats.range[0].nr[WEIR_PAGED_OUT], 2);
	assert_int_equal(stats.range[0].in_bytes, 8192);
	assert_true(stats.epoch >= 1);
	/* Clean: nothing is written twice. */
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(paged_stats(&t).range[0].nr[WEIR_PAGED_OUT], 2);
	/* The host writes between launches. */
	assert_int_equal(weir_paged_drain(t.pool), 0);
	assert_int_equal(paged_stats(&t).nr_resident, 0);
	words[5] = 100;
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 5, 100}), 0);
	paged_close(&t);
}

/* ------------------------------------------------------------------ making */

static int create(struct paged_test *t, struct weir_paged_config config)
{
	struct weir_paged *before = t->pool;
	int err = weir_paged_create(t->machine, &config, &t->pool);

	if (err)
		assert_ptr_equal(t->pool, before);
	return err;
}

static void test_create_checks(void **unused)
{
	const struct weir_paged_config good = {.page_bytes = 4096, .gpu_bytes = 16384};
	struct weir_paged_config c = good;
	struct paged_log log;
	struct paged_test t;

	(void)unused;
	paged_machine_open(&t, WEIR_DATA_REAL);
	paged_log_begin(&log);
	c.device = 2;
	assert_int_equal(create(&t, c), -EINVAL);
	paged_log_has(&log, "no device 2: the machine has 2");
	c = good;
	for (uint32_t bytes = 1024; bytes <= 131072; bytes *= 2) {
		bool is = bytes == 4096 || bytes == 8192 || bytes == 16384 || bytes == 65536;

		c.page_bytes = bytes;
		c.gpu_bytes = 131072;
		assert_int_equal(create(&t, c), is ? 0 : -EINVAL);
		if (is)
			weir_paged_destroy(t.pool);
		t.pool = NULL;
	}
	paged_log_has(&log, "choose 4, 8, 16 or 64 KiB");
	c = good;
	c.gpu_bytes = 4095;
	assert_int_equal(create(&t, c), -EINVAL);
	paged_log_has(&log, "it needs one at least");
	c = good;
	c.gpu_max_bytes = 8192;
	assert_int_equal(create(&t, c), -EINVAL);
	c = good;
	c.gpu_max_bytes = (UINT64_C(1) << 28 | 1) * 4096;
	assert_int_equal(create(&t, c), -EINVAL);
	memset(&log, 0, sizeof(log));
	/* More than there is; and so much that there are no addresses for it. */
	c = good;
	c.gpu_bytes = MIB(17);
	assert_int_equal(create(&t, c), -ENOMEM);
	paged_log_has(&log, "17825792 bytes for frames");
	c.gpu_bytes = MIB(15) + 900 * KIB(1);
	c.gpu_max_bytes = MIB(16);
	assert_int_equal(create(&t, c), -ENOMEM); /* no room for the words */
	paged_log_has(&log, "bytes for frames");
	weir_log_set(NULL, NULL);
	paged_machine_close(&t);

	paged_machine_open(&t, WEIR_DATA_PHANTOM);
	assert_int_equal(create(&t, good), -ENOTSUP);
	paged_machine_close(&t);
	weir_paged_destroy(NULL);
}

/* Whole pages of the budget, 64 KiB each if nothing is said; memory is taken and given back. */
static void test_create_takes_what_it_says(void **unused)
{
	const struct weir_paged_config config = {.gpu_bytes = MIB(1) + 4096,
						 .gpu_max_bytes = MIB(4)};
	struct paged_test t;
	uint64_t used;

	(void)unused;
	paged_machine_open(&t, WEIR_DATA_REAL);
	assert_int_equal(create(&t, config), 0);
	assert_int_equal(paged_stats(&t).nr_frames, 16);
	assert_int_equal(paged_stats(&t).nr_max_frames, 64);
	used = t.flaky->ops->memory_used(t.flaky, GPU0);
	assert_in_range(used, MIB(1), MIB(1) + KIB(160));
	assert_int_equal(t.flaky->ops->memory_used(t.flaky, GPU1), 0);
	assert_int_equal(t.flaky->ops->memory_used(t.flaky, HOST), 0);
	paged_close(&t);
}

/* ------------------------------------------------------------------ ranges */

static int range_add(struct paged_test *t, struct weir_paged_range_config config, uint32_t *range)
{
	return weir_paged_range_add(t->pool, &config, range, NULL);
}

static void test_range_numbers(void **unused)
{
	struct weir_paged_range_config config = {.bytes = 100};
	struct paged_test t;
	uint32_t range = 77;

	(void)unused;
	paged_open(&t, 2, 0);
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++) {
		assert_int_equal(range_add(&t, config, &range), 0);
		assert_int_equal(range, i);
	}
	assert_int_equal(range_add(&t, config, &range), -ENOSPC);
	assert_int_equal(weir_paged_range_remove(t.pool, 3), 0);
	assert_int_equal(weir_paged_range_remove(t.pool, 3), -EINVAL);
	assert_int_equal(weir_paged_range_remove(t.pool, 16), -EINVAL);
	assert_int_equal(weir_paged_range_remove(t.pool, 9), 0);
	assert_int_equal(range_add(&t, config, &range), 0);
	assert_int_equal(range, 3);
	assert_int_equal(t.pool->view.table.nr_ranges, 16);
	assert_int_equal(weir_paged_range_remove(t.pool, 15), 0);
	assert_int_equal(t.pool->view.table.nr_ranges, 15);
	paged_close(&t);
}

static void test_range_checks(void **unused)
{
	static _Alignas(16) uint8_t host[64];
	struct weir_paged_range_config config = {.bytes = 0};
	struct paged_log log;
	struct paged_test t;
	uint32_t range = 77;

	(void)unused;
	paged_open(&t, 2, 0);
	paged_log_begin(&log);
	assert_int_equal(range_add(&t, config, &range), -EINVAL);
	paged_log_has(&log, "a range of 0 bytes");
	config.bytes = 32;
	config.host = host + 8;
	assert_int_equal(range_add(&t, config, &range), -EINVAL);
	config.host = host;
	config.admit = (1u << 20) + 1;
	assert_int_equal(range_add(&t, config, &range), -EINVAL);
	config.admit = 1u << 20;
	config.bytes = UINT64_MAX - 100;
	assert_int_equal(range_add(&t, config, &range), -EINVAL); /* past the end of addresses */
	config.host = NULL;
	config.bytes = UINT64_C(1) << 60;
	assert_int_equal(range_add(&t, config, &range), -EINVAL);
	config.bytes = MIB(65);
	assert_int_equal(range_add(&t, config, &range), -ENOMEM); /* the host has 64 */
	paged_log_has(&log, "no range of 68157440 bytes");
	config.bytes = (UINT64_C(1) << 36) + 5;
	config.host = host; /* its entries are too many for the device */
	assert_int_equal(range_add(&t, config, &range), -ENOMEM);
	assert_int_equal(range, 77);
	config.bytes = 64;
	assert_int_equal(range_add(&t, config, &range), 0);
	assert_int_equal(range, 0);
	weir_log_set(NULL, NULL);
	paged_close(&t);
}

/* Another's memory is used where it is; a removed range's pages are written there first, and the
 * next one begins with counts of its own. */
static void test_range_of_the_callers(void **unused)
{
	_Alignas(16) static uint64_t mine[3 * PAGE];
	struct weir_paged_range_config config = {
		.bytes = sizeof(mine), .host = mine, .name = "mine"};
	struct paged_test t;
	uint64_t *words;
	uint32_t range;
	void *host;

	(void)unused;
	paged_open(&t, 4, 0);
	(void)paged_range(&t, 4096, 0, &words);
	assert_int_equal(weir_paged_range_add(t.pool, &config, &range, &host), 0);
	assert_ptr_equal(host, mine);
	for (uint32_t i = 0; i < 3 * PAGE; i++)
		mine[i] = i;
	assert_int_equal(
		PAGED_RUN(&t, false, {PAGED_ADD, range, 2 * PAGE + 1, 1}, {PAGED_ADD, 0, 5, 4}), 0);
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_IN], 1);
	assert_int_equal(weir_paged_range_remove(t.pool, range), 0);
	assert_int_equal(mine[2 * PAGE + 1], 2 * PAGE + 2);
	assert_int_equal(weir_paged_check(t.pool), 0);
	assert_int_equal(weir_paged_range_add(t.pool, &config, &range, &host), 0);
	assert_int_equal(range, 1);
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_IN], 0);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, 0, 5, 4},
				   {PAGED_READ, range, 2 * PAGE + 1, 2 * PAGE + 2},
				   {PAGED_WRITE, range, 7, 70}),
			 0);
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_IN], 2);
	/* Destroying the pool writes back what is not, into memory that stays. */
	weir_paged_destroy(t.pool);
	assert_int_equal(mine[7], 70);
	assert_int_equal(t.nr_wrong, 0);
	paged_machine_close(&t);
}

static void test_range_admits_at_touch(void **unused)
{
	struct weir_paged_range_config config = {.bytes = 4096, .admit = 3};
	struct paged_test t;
	uint32_t range;

	(void)unused;
	paged_open(&t, 2, 0);
	assert_int_equal(range_add(&t, config, &range), 0);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 0, 0}, {PAGED_READ, range, 1, 0}),
			 0);
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_IN], 0);
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_IN_PLACE], 2);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 0, 0}), 0);
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_IN], 1);
	paged_close(&t);
}

/* What is chosen for a range, by its pages, whether it is read-only, and the link's rate for words
 * at random: 10 million a second of 32 bytes, where it streams 2 GB/s; 1 million beyond its
 * reach. */
static void test_range_auto(void **unused)
{
	struct weir_paged_range_config config = {
		.bytes = 3 * 4096, .admit = 7, .word = 9, .late = 9, .name = "auto"};
	uint32_t range, nr_sectors;
	struct paged_test t;

	(void)unused;
	paged_open(&t, 4, 0);
	nr_sectors = (1u << t.pool->view.page_shift) / 32;
	weir_paged_range_auto(t.pool, &config);
	assert_int_equal(config.bytes, 3 * 4096);
	assert_string_equal(config.name, "auto");
	assert_null(config.host);
	assert_int_equal(config.admit, nr_sectors);
	assert_int_equal(config.whole, nr_sectors / 2);
	assert_int_equal(config.late, 0);
	assert_int_equal(config.word, 6);
	assert_true(config.fill_only);
	assert_false(config.read_only);
	config.bytes = MIB(8);
	config.read_only = true;
	weir_paged_range_auto(t.pool, &config);
	assert_int_equal(config.late, 2 * nr_sectors);
	assert_int_equal(config.word, 62); /* 1 million a second but for 1 in 128 */
	assert_true(config.read_only);
	/* So of a page of words, in any order, so many are used in place. */
	assert_int_equal(range_add(&t, config, &range), 0);
	for (uint64_t i = 0; i < nr_sectors; i++)
		assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, i, 0}), 0);
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_IN_PLACE],
			 (nr_sectors - 1) / 62);
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_IN], 1);
	/* The next time at once. */
	assert_int_equal(weir_paged_drain(t.pool), 0);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 1, 0}), 0);
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_IN], 2);
	paged_close(&t);
}

/* Read the first word of 8 pages. @return how many came in; the others must be used in place */
static uint64_t filled(struct paged_test *t, uint32_t range)
{
	const struct weir_paged_range_stats before = paged_stats(t).range[range];
	struct weir_paged_range_stats after;
	uint64_t nr_in, nr_in_place;

	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(PAGED_RUN(t, false, {PAGED_READ, range, i * PAGE, i}), 0);
	after = paged_stats(t).range[range];
	nr_in = after.nr[WEIR_PAGED_IN] - before.nr[WEIR_PAGED_IN];
	nr_in_place = after.nr[WEIR_PAGED_IN_PLACE] - before.nr[WEIR_PAGED_IN_PLACE];
	assert_int_equal(nr_in_place, 8 - paged_stats(t).nr_resident);
	assert_int_equal(weir_paged_check(t->pool), 0);
	return nr_in;
}

/* Frames are filled once, and anew whenever the host has made some free. */
static void test_range_is_filled(void **unused)
{
	struct weir_paged_range_config config = {.bytes = 8 * 4096, .fill_only = true};
	struct paged_test t;
	uint32_t range, other;
	uint64_t *words, value = 0;
	void *host;

	(void)unused;
	paged_open(&t, 4, 8);
	assert_int_equal(weir_paged_range_add(t.pool, &config, &range, &host), 0);
	words = host;
	for (uint64_t i = 0; i < 8; i++)
		words[i * PAGE] = i;
	assert_int_equal(filled(&t, range), 4);
	assert_int_equal(filled(&t, range), 0);
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(filled(&t, range), 0);
	assert_int_equal(weir_paged_drain(t.pool), 0);
	assert_int_equal(filled(&t, range), 4);
	assert_int_equal(weir_paged_write(t.pool, range, 0, &value, 8), 0);
	assert_int_equal(filled(&t, range), 4);
	assert_int_equal(weir_paged_set_budget(t.pool, 6 * 4096), 0);
	assert_int_equal(filled(&t, range), 2);
	assert_int_equal(weir_paged_set_budget(t.pool, 3 * 4096), 0);
	assert_int_equal(filled(&t, range), 0);
	assert_int_equal(paged_stats(&t).nr_resident, 3);
	assert_int_equal(weir_paged_range_add(t.pool, &config, &other, NULL), 0);
	assert_int_equal(weir_paged_range_remove(t.pool, other), 0);
	assert_int_equal(filled(&t, range), 3);
	paged_close(&t);
}

/* ------------------------------------------------------------------ budget, the host */

static void test_budget(void **unused)
{
	static const uint32_t frames[] = {1, 8, 3, 2, 8, 1};
	struct paged_log log;
	struct paged_test t;
	uint64_t *words, *far, value, used;
	uint32_t range, second;

	(void)unused;
	paged_open(&t, 4, 8);
	range = paged_range(&t, 12 * 4096, 0, &words);
	second = paged_range(&t, 4096, 0, &far);
	used = t.flaky->ops->memory_used(t.flaky, GPU0);
	for (uint32_t n = 0; n < 6; n++) {
		for (uint32_t i = 0; i < 12; i++)
			assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, i * PAGE, n * i},
						   {PAGED_ADD, range, i * PAGE, i},
						   {PAGED_ADD, second, i, 1}),
					 0);
		assert_int_equal(weir_paged_set_budget(t.pool, frames[n] * 4096 + 4095), 0);
		assert_int_equal(paged_stats(&t).nr_frames, frames[n]);
		assert_true(paged_stats(&t).nr_resident <= frames[n]);
		assert_int_equal(t.flaky->ops->memory_used(t.flaky, GPU0),
				 used + 4096 * (uint64_t)frames[n] - 4 * 4096);
		assert_int_equal(weir_paged_check(t.pool), 0);
	}
	for (uint32_t i = 0; i < 12; i++) {
		assert_int_equal(weir_paged_read(t.pool, range, i * 4096, &value, 8), 0);
		assert_int_equal(value, 6 * i);
		assert_int_equal(far[i], 6);
	}
	paged_log_begin(&log);
	assert_int_equal(weir_paged_set_budget(t.pool, 4095), -EINVAL);
	assert_int_equal(weir_paged_set_budget(t.pool, 9 * 4096), -EINVAL);
	paged_log_has(&log, "a budget of 36864 bytes: at least one page, and at most 32768");
	weir_log_set(NULL, NULL);
	paged_close(&t);
}

/* The device's memory is full: the budget stays as it was. */
static void test_budget_beyond_memory(void **unused)
{
	struct paged_test t;
	uint64_t *words, used;
	uint32_t range;
	struct backend_chunk rest;

	(void)unused;
	paged_open(&t, 4, 1024);
	range = paged_range(&t, 12 * 4096, 0, &words);
	used = t.flaky->ops->memory_used(t.flaky, GPU0);
	assert_int_equal(t.flaky->ops->chunk_create(t.flaky, GPU0,
						    (MIB(16) - used) / 4096 * 4096 - 16 * 4096, 0,
						    &rest),
			 0);
	used = t.flaky->ops->memory_used(t.flaky, GPU0);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_WRITE, range, 0, 1}), 0);
	assert_int_equal(weir_paged_set_budget(t.pool, 40 * 4096), -ENOMEM);
	assert_int_equal(t.flaky->ops->memory_used(t.flaky, GPU0), used);
	assert_int_equal(paged_stats(&t).nr_frames, 4);
	assert_int_equal(paged_stats(&t).nr_resident, 1);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 0, 1}), 0);
	t.flaky->ops->chunk_destroy(t.flaky, &rest);
	assert_int_equal(weir_paged_set_budget(t.pool, 40 * 4096), 0);
	paged_close(&t);
}

static void test_read_and_write(void **unused)
{
	uint8_t data[5000], back[5000];
	struct paged_log log;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 2, 0);
	range = paged_range(&t, 9000, 1, &words);
	for (uint32_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 5 + 1);
	/* A page that kernels have is written anew, of a range that they may only read. */
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, PAGE, 0}), 0);
	assert_int_equal(weir_paged_write(t.pool, range, 4000, data, sizeof(data)), 0);
	memset(back, 0, sizeof(back));
	assert_int_equal(weir_paged_read(t.pool, range, 4000, back, sizeof(back)), 0);
	assert_memory_equal(data, back, sizeof(data));
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, PAGE, words[PAGE]}), 0);
	assert_int_not_equal(words[PAGE], 0);
	paged_log_begin(&log);
	assert_int_equal(weir_paged_read(t.pool, range, 4001, back, sizeof(back)), -EINVAL);
	paged_log_has(&log, "5000 bytes at 4001 of range 0, which has 9000");
	assert_int_equal(weir_paged_write(t.pool, range, UINT64_MAX, back, 2), -EINVAL);
	assert_int_equal(weir_paged_write(t.pool, range, 2, back, UINT64_MAX), -EINVAL);
	assert_int_equal(weir_paged_read(t.pool, 1, 0, back, 0), -EINVAL);
	assert_int_equal(weir_paged_read(t.pool, 16, 0, back, 0), -EINVAL);
	assert_int_equal(weir_paged_read(t.pool, range, 9000, NULL, 0), 0);
	weir_log_set(NULL, NULL);
	paged_close(&t);
}

/* ------------------------------------------------------------------ reports */

static void test_dump(void **unused)
{
	struct paged_log log;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 4, 0);
	range = paged_range(&t, 8 * 4096, 0, &words);
	assert_int_equal(
		PAGED_RUN(&t, false, {PAGED_WRITE, range, PAGE, 5}, {PAGED_READ, range, 0, 0}), 0);
	paged_log_begin(&log);
	weir_paged_dump(t.pool);
	assert_non_null(strstr(log.text, "paged pool 'test': epoch "));
	assert_non_null(strstr(log.text, "0 of 64 slots are online"));
	paged_log_has(&log, "range 0 ('range'): 8 pages, 1 dirty, 0 pinned, 6 absent, 2 resident");
	flaky_arm(t.flaky, flaky_nr_calls(t.flaky) + 1, -EIO);
	weir_paged_dump(t.pool);
	paged_log_has(&log, "its table cannot be read");
	weir_log_set(NULL, NULL);
	paged_close(&t);
}

/* The checker finds what is wrong with any word. */
static void test_check_finds(void **unused)
{
	uint64_t *words, *entry, right, *wrong[4];
	struct paged_test t;
	uint32_t range;
	uint8_t *frame;

	(void)unused;
	paged_open(&t, 2, 0);
	range = paged_range(&t, 4 * 4096, 0, &words);
	assert_int_equal(
		PAGED_RUN(&t, false, {PAGED_READ, range, 0, 0}, {PAGED_READ, range, PAGE, 0}), 0);
	assert_int_equal(weir_paged_check(t.pool), 0);
	entry = pt_entry_at(&t.pool->view.table, PT_ID(range, 0));
	right = *entry;
	{
		const uint64_t entries[] = {
			0,
			right + PT_PIN_ONE,
			right ^ 1, /* the other page's frame */
			right + 5,
			pt_entry(PT_LOADING, 0, 0),
			pt_entry(PT_WRITEBACK, 0, pt_frame_of(right)),
		};

		for (uint32_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
			*entry = entries[i];
			assert_int_equal(weir_paged_check(t.pool), -EUCLEAN);
		}
	}
	*entry = right;
	wrong[0] = &t.pool->words->shared.scan;
	wrong[1] = &t.pool->view.table.slot[63];
	wrong[2] = &t.pool->view.table.owner[1];
	wrong[3] = &t.pool->view.table.range[range].entry[3];
	for (uint32_t i = 0; i < 4; i++) {
		*wrong[i] += 4;
		assert_int_equal(weir_paged_check(t.pool), -EUCLEAN);
		*wrong[i] -= 4;
	}
	frame = view_frame(&t.pool->view, pt_frame_of(right)) + 4095;
	*frame ^= 1; /* clean, and not the host's */
	assert_int_equal(weir_paged_check(t.pool), -EUCLEAN);
	*frame ^= 1;
	assert_int_equal(weir_paged_drain(t.pool), 0);
	t.pool->words->shared.fill = 1; /* past a frame that is free */
	assert_int_equal(weir_paged_check(t.pool), -EUCLEAN);
	t.pool->words->shared.fill = 0;
	paged_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writes_come_home),
		cmocka_unit_test(test_create_checks),
		cmocka_unit_test(test_create_takes_what_it_says),
		cmocka_unit_test(test_range_numbers),
		cmocka_unit_test(test_range_checks),
		cmocka_unit_test(test_range_of_the_callers),
		cmocka_unit_test(test_range_admits_at_touch),
		cmocka_unit_test(test_range_auto),
		cmocka_unit_test(test_range_is_filled),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_budget_beyond_memory),
		cmocka_unit_test(test_read_and_write),
		cmocka_unit_test(test_dump),
		cmocka_unit_test(test_check_finds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
