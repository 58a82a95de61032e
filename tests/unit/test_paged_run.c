/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets of paged memory on a simulated machine: when a pool is online, what is refused then,
 * what is told of kernels that do wrong, and the watchdog. */
#include "tests/unit/test_paged.h"

#define PAGE 512u /* words of it */

/* ------------------------------------------------------------------ brackets */

static void test_brackets(void **unused)
{
	struct weir_stream *far, *foreign;
	struct weir_paged_view view;
	struct paged_test t, other;
	struct paged_log log;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 2, 0);
	paged_machine_open(&other, WEIR_DATA_REAL);
	range = paged_range(&t, 8192, 0, &words);
	paged_log_begin(&log);
	foreign = other.stream;
	assert_int_equal(weir_stream_create(t.machine, 1, &far), 0);
	assert_int_equal(weir_paged_begin(t.pool, far, &view), -EINVAL);
	paged_log_has(&log, "it takes those of device 0");
	assert_int_equal(weir_paged_begin(t.pool, foreign, &view), -EINVAL);
	assert_int_equal(weir_paged_end(t.pool, t.stream), -WEIR_ECONTRACT);
	paged_log_has(&log, "no bracket is open on this stream");
	assert_int_equal(weir_paged_sync(t.pool), 0); /* nothing was begun */

	assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
	assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), -WEIR_ECONTRACT);
	assert_int_equal(weir_paged_begin(t.pool, t.other, &view), -WEIR_ECONTRACT);
	paged_log_has(&log, "a bracket is open: weir_paged_end() it first");
	assert_int_equal(weir_paged_end(t.pool, t.other), -WEIR_ECONTRACT);
	assert_int_equal(weir_paged_end(t.pool, foreign), -WEIR_ECONTRACT);
	assert_int_equal(weir_paged_sync(t.pool), -WEIR_ECONTRACT);
	assert_int_equal(weir_paged_watch(t.pool), 0);
	assert_int_equal(
		paged_launch(&t, &view, false, (struct paged_op[]){{PAGED_ADD, range, 0, 1}}, 1),
		0);
	assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
	assert_int_equal(weir_paged_end(t.pool, t.stream), -WEIR_ECONTRACT);
	/* Its kernel has not run: on this stream there may be another, elsewhere not. */
	memset(&log, 0, sizeof(log));
	assert_int_equal(weir_paged_begin(t.pool, t.other, &view), -EBUSY);
	paged_log_has(&log, "online on another stream: weir_paged_sync() first");
	assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
	assert_int_equal(
		paged_launch(&t, &view, false, (struct paged_op[]){{PAGED_ADD, range, 0, 1}}, 1),
		0);
	assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
	assert_int_equal(weir_paged_watch(t.pool), 0);
	assert_int_equal(weir_stream_sync(t.stream), 0); /* by other means */
	assert_int_equal(weir_paged_watch(t.pool), 1);
	assert_int_equal(weir_paged_begin(t.pool, t.other, &view), 0);
	assert_int_equal(weir_paged_end(t.pool, t.other), 0);
	assert_int_equal(weir_paged_sync(t.pool), 0);
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(words[0], 2);
	weir_log_set(NULL, NULL);
	weir_stream_destroy(far);
	paged_machine_close(&other);
	paged_close(&t);
}

/* What needs that nobody is online says -EBUSY, and does nothing. */
static void expect_busy(struct paged_test *t, uint32_t range)
{
	const struct weir_paged_range_config config = {.bytes = 4096};
	uint64_t value = 1;
	uint32_t number = 77;

	assert_int_equal(weir_paged_flush(t->pool), -EBUSY);
	assert_int_equal(weir_paged_drain(t->pool), -EBUSY);
	assert_int_equal(weir_paged_set_budget(t->pool, 4096), -EBUSY);
	assert_int_equal(weir_paged_check(t->pool), -EBUSY);
	assert_int_equal(weir_paged_read(t->pool, range, 0, &value, 8), -EBUSY);
	assert_int_equal(weir_paged_write(t->pool, range, 0, &value, 8), -EBUSY);
	assert_int_equal(weir_paged_range_add(t->pool, &config, &number, NULL), -EBUSY);
	assert_int_equal(weir_paged_range_remove(t->pool, range), -EBUSY);
	assert_int_equal(value, 1);
	assert_int_equal(number, 77);
}

static void test_busy_while_online(void **unused)
{
	struct weir_paged_view view;
	struct paged_log log;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 2, 0);
	range = paged_range(&t, 8192, 0, &words);
	paged_log_begin(&log);
	assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
	expect_busy(&t, range);
	paged_log_has(&log, "call weir_paged_end() and weir_paged_sync() first");
	assert_int_equal(
		paged_launch(&t, &view, false, (struct paged_op[]){{PAGED_ADD, range, 0, 6}}, 1),
		0);
	assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
	expect_busy(&t, range);
	paged_log_has(&log, "while it is online: call weir_paged_sync() first");
	weir_log_set(NULL, NULL);
	assert_int_equal(weir_paged_sync(t.pool), 0);
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(words[0], 6);
	paged_close(&t);
}

/* A bracket that is open, a kernel that has not run: destroying waits, and nothing is lost. */
static void test_destroyed_while_online(void **unused)
{
	_Alignas(16) static uint64_t mine[2 * PAGE];
	const struct weir_paged_range_config config = {.bytes = sizeof(mine), .host = mine};
	struct weir_paged_view view;
	struct paged_log log;
	struct paged_test t;
	uint32_t range;

	(void)unused;
	for (uint32_t open = 0; open < 2; open++) {
		mine[3] = 0;
		paged_open(&t, 2, 0);
		assert_int_equal(weir_paged_range_add(t.pool, &config, &range, NULL), 0);
		assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
		assert_int_equal(paged_launch(&t, &view, false,
					      (struct paged_op[]){{PAGED_ADD, range, 3, 5}}, 1),
				 0);
		if (!open)
			assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
		paged_log_begin(&log);
		weir_paged_destroy(t.pool);
		if (open)
			paged_log_has(&log, "destroyed with a bracket open");
		assert_string_equal(log.text, "");
		weir_log_set(NULL, NULL);
		assert_int_equal(mine[3], 5);
		assert_int_equal(t.nr_wrong, 0);
		paged_machine_close(&t);
	}
}

/* The end of a bracket whose fence cannot be recorded: online until somebody waits. */
static void test_end_that_fails(void **unused)
{
	struct weir_paged_view view;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 2, 0);
	range = paged_range(&t, 8192, 0, &words);
	for (uint32_t gone = 0; gone < 2; gone++) {
		assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
		assert_int_equal(paged_launch(&t, &view, false,
					      (struct paged_op[]){{PAGED_ADD, range, 0, 1}}, 1),
				 0);
		flaky_arm(t.flaky, flaky_nr_calls(t.flaky) + 1, -EIO);
		assert_int_equal(weir_paged_end(t.pool, t.stream), -EIO);
		assert_int_equal(weir_paged_end(t.pool, t.stream), -WEIR_ECONTRACT);
		assert_int_equal(weir_paged_flush(t.pool), -EBUSY);
		if (gone) { /* destroying a stream waits for its work */
			weir_stream_destroy(t.stream);
			t.stream = NULL;
		}
		assert_int_equal(weir_paged_sync(t.pool), 0);
		assert_int_equal(weir_paged_flush(t.pool), 0);
		assert_int_equal(words[0], gone + 1);
	}
	paged_close(&t);
}

/* ------------------------------------------------------------------ what kernels do wrong */

static void test_refused(void **unused)
{
	struct paged_log log;
	struct paged_test t;
	uint64_t *words, *fixed;
	uint32_t range, read_only;

	(void)unused;
	paged_open(&t, 2, 0);
	range = paged_range(&t, 4096 + 8, 0, &words);
	read_only = paged_range(&t, 4096, 1, &fixed);
	fixed[4] = 44;
	paged_log_begin(&log);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_WRITE, range, PAGE, 1},
				   {PAGED_REFUSED, range, PAGE + 1, 0},
				   {PAGED_REFUSED, range, UINT64_MAX / 8 - 1, 0},
				   {PAGED_NO_WRITE, read_only, 4, 1},
				   {PAGED_READ, read_only, 4, 44}),
			 -EFAULT);
	paged_log_has(&log, "2 accesses outside range 0 (range)");
	assert_int_equal(paged_stats(&t).range[range].nr[WEIR_PAGED_REFUSED], 2);
	assert_int_equal(paged_stats(&t).range[read_only].nr[WEIR_PAGED_REFUSED], 1);
	assert_int_equal(weir_paged_sync(t.pool), 0); /* told once */
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(words[PAGE], 1);
	assert_int_equal(fixed[4], 44);
	/* A range that there is not. Who looks first is not who is told. */
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, PAGE, 1}), 0);
	{
		struct weir_paged_view view;

		assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
		assert_int_equal(paged_launch(&t, &view, false,
					      (struct paged_op[]){{PAGED_REFUSED, 5, 0, 0}}, 1),
				 0);
		assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
		assert_int_equal(weir_stream_sync(t.stream), 0);
		assert_int_equal(weir_paged_flush(t.pool), 0);
		paged_log_has(&log, "1 accesses outside range 5 (there is none)");
		assert_int_equal(weir_paged_sync(t.pool), -EFAULT);
		assert_int_equal(weir_paged_sync(t.pool), 0);
	}
	assert_int_equal(paged_stats(&t).range[0].nr[WEIR_PAGED_REFUSED], 2);
	weir_log_set(NULL, NULL);
	/* A removed range is none, and its number's next owner has not done it. */
	assert_int_equal(weir_paged_range_remove(t.pool, read_only), 0);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, PAGE, 1}), 0);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_REFUSED, read_only, 0, 0}), -EFAULT);
	assert_int_equal(paged_range(&t, 4096, 0, &fixed), read_only);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, read_only, 0, 0}), 0);
	assert_int_equal(paged_stats(&t).range[read_only].nr[WEIR_PAGED_REFUSED], 0);
	paged_close(&t);
}

/* It ends without leaving, with a page that it pinned: the next one has all frames again. */
static void test_no_leave(void **unused)
{
	struct paged_log log;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 1, 0);
	range = paged_range(&t, 6 * 4096, 0, &words);
	paged_log_begin(&log);
	assert_int_equal(PAGED_RUN(&t, true, {PAGED_HOLD, range, 0, 0}, {PAGED_WRITE, range, 0, 5},
				   {PAGED_HOLD, range, PAGE, 0}, {PAGED_WRITE, range, PAGE, 6}),
			 -WEIR_ECONTRACT);
	paged_log_has(&log, "1 warps ended without weir_paged_leave(), and 2 pages are pinned");
	assert_int_equal(weir_paged_sync(t.pool), 0);
	assert_int_equal(weir_paged_check(t.pool), 0);
	assert_int_equal(words[PAGE], 6); /* in place: there was one frame */
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 0, 5},
				   {PAGED_READ, range, PAGE, 6}, {PAGED_ADD, range, 5 * PAGE, 1},
				   {PAGED_ADD, range, 4 * PAGE, 2}, {PAGED_ADD, range, 3 * PAGE, 3},
				   {PAGED_ADD, range, 2 * PAGE, 4}, {PAGED_ADD, range, 5 * PAGE, 1},
				   {PAGED_ADD, range, 4 * PAGE, 2}, {PAGED_ADD, range, 3 * PAGE, 3},
				   {PAGED_ADD, range, 2 * PAGE, 4}),
			 0);
	assert_true(paged_stats(&t).range[range].nr[WEIR_PAGED_OUT] > 0);
	assert_int_equal(weir_paged_flush(t.pool), 0);
	for (uint32_t i = 2; i < 6; i++)
		assert_int_equal(words[i * PAGE], 2 * (6 - i));
	weir_log_set(NULL, NULL);
	paged_close(&t);
}

/* Brackets follow each other on a stream, and each one's warp ends without leaving: its slot is
 * free when the next one's comes, so none is without, and all are told in the end. */
static void test_slots_in_stream_order(void **unused)
{
	const struct paged_op read = {PAGED_READ, 0, 0, 0};
	struct weir_paged_view view;
	struct paged_log log;
	struct paged_test t;
	uint64_t *words;
	char told[64];
	uint32_t nr;

	(void)unused;
	paged_open(&t, 2, 0);
	assert_int_equal(paged_range(&t, 4096, 0, &words), 0);
	nr = t.pool->view.table.nr_slots + 1;
	paged_log_begin(&log);
	for (uint32_t i = 0; i < nr; i++) {
		assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
		assert_int_equal(paged_launch(&t, &view, true, &read, 1), 0);
		assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
	}
	assert_int_equal(weir_paged_sync(t.pool), -WEIR_ECONTRACT);
	(void)snprintf(told, sizeof(told), "%u warps ended without weir_paged_leave()", nr);
	paged_log_has(&log, told);
	assert_int_equal(t.nr_wrong, 0);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, 0, 0, 0}), 0);
	weir_log_set(NULL, NULL);
	paged_close(&t);
}

/* More pins of a page were given back than it had; then guests, and refused pins, are told. */
static void test_pins_gone_wrong(void **unused)
{
	struct weir_paged_view view;
	struct paged_log log;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 2, 0);
	range = paged_range(&t, 2 * 4096, 0, &words);
	paged_log_begin(&log);
	assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
	*pt_entry_at(&view.table, PT_ID(range, 1)) -= PT_PIN_ONE;
	assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
	assert_int_equal(weir_paged_sync(t.pool), -WEIR_ECONTRACT);
	paged_log_has(&log, "1 pages are pinned");
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_ADD, range, PAGE, 3}), 0);
	assert_int_equal(weir_paged_check(t.pool), 0);
	t.pool->settled = false;
	t.pool->words->counts[0].nr[WEIR_PAGED_NO_SLOT] = 7;
	assert_int_equal(weir_paged_sync(t.pool), 0);
	paged_log_has(&log, "7 warps found no slot free");
	t.pool->settled = false;
	t.pool->words->counts[range].nr[WEIR_PAGED_PINS] = 5;
	t.pool->words->counts[0].lagged = 4;
	assert_int_equal(weir_paged_sync(t.pool), -WEIR_ECONTRACT);
	paged_log_has(&log, "5 accesses to pages");
	assert_int_equal(paged_stats(&t).lagged, 4);
	weir_log_set(NULL, NULL);
	paged_close(&t);
}

/* ------------------------------------------------------------------ watching */

/* An access has waited, as a warp would count it. */
static void count_wait(struct paged_test *t)
{
	t->pool->words->counts[3 * WEIR_PAGED_RANGES_MAX].nr[WEIR_PAGED_WAIT]++;
}

static void spend_ms(struct paged_test *t, uint64_t ms)
{
	t->flaky->ops->host_spend(t->flaky, ms * 1000000);
}

/* Time is virtual, and no kernel is under way while the host looks: what one would do to the table
 * is done by hand. */
static void test_watch(void **unused)
{
	struct weir_paged_view view;
	struct paged_log log;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 4, 0);
	range = paged_range(&t, 8 * 4096, 0, &words);
	assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
	paged_log_begin(&log);
	*pt_entry_at(&view.table, PT_ID(range, 1)) = pt_entry(PT_LOADING, 0, 0);
	view.table.slot[9] = 1;
	/* Waiting for less than 2 s; then without a wait in between; then something moves. */
	for (uint32_t i = 0; i < 7; i++) {
		count_wait(&t);
		assert_int_equal(weir_paged_watch(t.pool), 0);
		spend_ms(&t, 300);
	}
	spend_ms(&t, 1000);
	assert_int_equal(weir_paged_watch(t.pool), 0);
	for (uint32_t i = 0; i < 30; i++) {
		count_wait(&t);
		t.pool->words->counts[i].nr[i % 3]++;
		assert_int_equal(weir_paged_watch(t.pool), 0);
		spend_ms(&t, 300);
	}
	assert_int_equal(paged_stats(&t).nr_stalls, 0);
	assert_string_equal(log.text, "");
	for (uint32_t i = 0; i < 7; i++) {
		count_wait(&t);
		assert_int_equal(weir_paged_watch(t.pool), 0);
		assert_int_equal(*view.table.abort, i == 6);
		spend_ms(&t, 300);
	}
	assert_int_equal(paged_stats(&t).nr_stalls, 1);
	assert_non_null(strstr(log.text, "none was moved for 2000 ms"));
	assert_non_null(strstr(log.text, "slot 9: online, epoch 1"));
	assert_non_null(strstr(log.text, "1 of 64 slots are online"));
	paged_log_has(&log, "8 pages, 0 dirty, 0 pinned, 7 absent, 1 loading");
	/* Told once; pages are used in place until the next bracket. */
	count_wait(&t);
	spend_ms(&t, 9000);
	assert_int_equal(weir_paged_watch(t.pool), 0);
	assert_int_equal(paged_stats(&t).nr_stalls, 1);
	assert_string_equal(log.text, "");
	*pt_entry_at(&view.table, PT_ID(range, 1)) = 0;
	view.table.slot[9] = 0;
	assert_int_equal(paged_launch(&t, &view, false,
				      (struct paged_op[]){{PAGED_WRITE, range, PAGE, 5}}, 1),
			 0);
	assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
	assert_int_equal(weir_paged_sync(t.pool), 0);
	assert_int_equal(words[PAGE], 5);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_WRITE, range, PAGE, 6}), 0);
	assert_int_equal(*view.table.abort, 0);
	assert_int_equal(words[PAGE], 5);
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(words[PAGE], 6);
	weir_log_set(NULL, NULL);
	paged_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_brackets),
		cmocka_unit_test(test_busy_while_online),
		cmocka_unit_test(test_destroyed_while_online),
		cmocka_unit_test(test_end_that_fails),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_no_leave),
		cmocka_unit_test(test_slots_in_stream_order),
		cmocka_unit_test(test_pins_gone_wrong),
		cmocka_unit_test(test_watch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
