/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicated ranges: what one device writes, others read in their own copies. Also run on GPUs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/replica/replica.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"

#define BLOCK block_bytes()
#define NR 6 /* blocks of a range */
#define BYTES (NR * BLOCK)
#define ONE TEST_OTHER /* a stream of device 1; 0 is one of device 0 */

/* Four granules where the test chooses them, one of a real GPU's. */
static uint64_t block_bytes(void)
{
	return test_machine_kind() == TEST_GPU ? MIB(2) : KIB(16);
}

/* A bracket of a stream on a part of a range, through its device's window. */
static void use(struct test_space *t, uint32_t stream, uint8_t *addr, uint64_t bytes,
		enum weir_use_kind kind, uint32_t expect, uint32_t put)
{
	void *window;

	assert_int_equal(weir_replica(t->space, addr, stream == ONE, &window), 0);
	do_begin(t, stream, window, bytes, kind);
	do_launch_as(t, stream, window, bytes, kind, expect, put, addr);
	do_end(t, stream);
}

/* Bytes that were sent, or of these, that were fetched. */
static uint64_t get_sent(struct test_space *t, bool fetched)
{
	struct weir_replica_stats stats;

	weir_replica_query(t->space, &stats);
	return stats.message_bytes[WEIR_FETCHED] +
	       (fetched ? 0 : stats.message_bytes[WEIR_PUBLISHED]);
}

static uint8_t *alloc_replicated(struct test_space *t, uint64_t bytes)
{
	uint8_t *addr = do_alloc(t, bytes, 0);

	assert_int_equal(weir_replicate(t->space, addr, NULL), 0);
	do_check(t);
	return addr;
}

/* What was there before is in every window, and what is written is there for all. */
static void test_replica_reads_what_was_written(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = do_alloc(&t, BYTES, 0);
	do_fill(&t, 0, a, BYTES, 1);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	use(&t, 0, a, BYTES, WEIR_READ, 1, 0);
	use(&t, ONE, a, BYTES, WEIR_READ, 1, 0);
	use(&t, ONE, a, BYTES, WEIR_WRITE, 1, 2);
	use(&t, 0, a, BYTES, WEIR_READ, 2, 0);
	use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, 3);
	use(&t, ONE, a, BYTES, WEIR_READ, 3, 0);
	do_sync(&t);
	do_read(&t, a, BYTES, 3);
	do_write(&t, a, BYTES, 4);
	use(&t, 0, a, BYTES, WEIR_READ, 4, 0);
	use(&t, ONE, a, BYTES, WEIR_WRITE, 4, 5);
	assert_int_equal(weir_unreplicate(t.space, a), 0);
	do_check(&t);
	do_expect(&t, 0, a, BYTES, 5);
	do_sync(&t);
	test_space_close(&t);
}

/* Two devices write alternate parts of one granule, and each reads the other's. */
static void test_replica_parts_of_a_granule(void **state)
{
	const uint64_t part = KIB(1);
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = alloc_replicated(&t, BYTES);
	for (uint32_t i = 0; i < 8; i++)
		use(&t, i % 2 ? ONE : 0, a + i * part, part, WEIR_OVERWRITE, 0, i + 1);
	for (uint32_t i = 0; i < 8; i++) {
		use(&t, 0, a + i * part, part, WEIR_READ, i + 1, 0);
		use(&t, ONE, a + i * part, part, WEIR_READ, i + 1, 0);
	}
	do_sync(&t);
	test_space_close(&t);
}

/* A grid in two slabs: each step reads one array, with a row of the other's slab, and writes the
 * other array. After the first two no mapping call is made, and a row a device and step is sent:
 * fetched at first, and as it is written once that is known to repeat. */
static void test_replica_slabs(void **state)
{
	const uint64_t row = KIB(2), half = BYTES / 2;
	struct weir_space_stats before;
	struct test_space t;
	uint64_t sent = 0, fetched = 0;
	uint8_t *a[2];

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	for (int i = 0; i < 2; i++)
		a[i] = alloc_replicated(&t, BYTES);
	use(&t, 0, a[0], half, WEIR_OVERWRITE, 0, 1);
	use(&t, ONE, a[0] + half, half, WEIR_OVERWRITE, 0, 1);
	for (uint32_t step = 1; step < 12; step++) {
		if (step == 3) {
			before = get_stats(&t);
			sent = get_sent(&t, false);
		} else if (step == 10) {
			fetched = get_sent(&t, true);
		}
		for (int d = 0; d < 2; d++) {
			uint8_t *read = a[(step + 1) % 2], *write = a[step % 2];
			uint32_t stream = d ? ONE : 0;
			struct weir_use uses[2];
			void *window[2];

			assert_int_equal(weir_replica(t.space, read + (d ? half - row : 0),
						      (uint32_t)d, &window[0]),
					 0);
			assert_int_equal(weir_replica(t.space, write + (d ? half : 0), (uint32_t)d,
						      &window[1]),
					 0);
			uses[0] = use_of(window[0], half + row, WEIR_READ);
			uses[1] = use_of(window[1], half, WEIR_OVERWRITE);
			assert_int_equal(weir_begin(t.space, t.stream[stream], uses, 2), 0);
			do_launch_as(&t, stream, window[0], half + row, WEIR_READ, step, 0,
				     read + (d ? half - row : 0));
			do_launch_as(&t, stream, window[1], half, WEIR_OVERWRITE, 0, step + 1,
				     write + (d ? half : 0));
			do_end(&t, stream);
		}
	}
	assert_int_equal(get_stats(&t).nr_remaps, before.nr_remaps);
	/* Of the last step, too, which nobody reads. */
	assert_int_equal(get_sent(&t, false) - sent, (9 + 1) * 2 * row);
	assert_int_equal(get_sent(&t, true), fetched);
	do_sync(&t);
	test_space_close(&t);
}

/* However many brackets a program repeats, what each of them writes is foreseen. */
static void test_replica_many_brackets(void **state)
{
	const uint64_t nr = 512, part = BYTES / nr;
	uint64_t fetched = 0;
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = alloc_replicated(&t, BYTES);
	for (uint32_t step = 1; step <= 6; step++) {
		for (uint64_t i = 0; i < nr; i++)
			use(&t, 0, a + i * part, part, WEIR_OVERWRITE, 0, step);
		use(&t, ONE, a, BYTES, WEIR_READ, step, 0);
		/* The first brackets of all come after others than in later steps. */
		if (step == 4)
			fetched = get_sent(&t, true);
	}
	assert_int_equal(get_sent(&t, true), fetched);
	do_sync(&t);
	test_space_close(&t);
}

static const struct backend_ops *plain;
static uint64_t nr_asked;

static int count_asked(struct backend *b, fence_t fence)
{
	int done = plain->fence_done(b, fence);

	nr_asked += !done;
	return done;
}

/* The program is ahead of devices that write what others read. Of messages that cannot be done yet
 * the backend is not asked, over and over, whether they are. */
static void test_replica_asks_little(void **state)
{
	struct weir_launch spin = {.kernel = &test_kernel_spin};
	const struct test_spin_args args = {0};
	struct backend_ops counting;
	struct test_space t;
	uint8_t *a;

	(void)state;
	if (test_machine_kind() != TEST_SIMULATED)
		return;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	spin.args = &args;
	spin.args_bytes = sizeof(args);
	spin.ops = t.desc.device[0].ops_per_s / 100; /* 10 ms */
	a = alloc_replicated(&t, BYTES);
	for (uint32_t step = 1; step < 30; step++) {
		if (step == 15) { /* from here on what is read is sent ahead */
			do_sync(&t);
			assert_int_equal(weir_stream_launch(t.stream[0], &spin), 0);
			assert_int_equal(weir_stream_launch(t.stream[ONE], &spin), 0);
		}
		for (uint32_t d = 0; d < 2; d++) {
			use(&t, d ? ONE : 0, a + d * BLOCK, BLOCK, WEIR_OVERWRITE, 0, step);
			use(&t, d ? ONE : 0, a + !d * BLOCK, BLOCK, WEIR_READ, step - !d, 0);
		}
	}
	plain = t.backend->ops;
	counting = *plain;
	counting.fence_done = count_asked;
	counting.fence_seen = count_asked;
	t.backend->ops = &counting;
	nr_asked = 0;
	assert_true(replicas_of(t.space)->nr_messages > 10);
	pthread_mutex_lock(&t.space->lock);
	space_progress(t.space);
	pthread_mutex_unlock(&t.space->lock);
	assert_int_equal(nr_asked, 1); /* the oldest bracket */
	t.backend->ops = plain;
	do_sync(&t);
	assert_int_equal(replicas_of(t.space)->nr_messages, 0);
	test_space_close(&t);
}

/* What a bracket names that is open on the host, too, is not replicated, nor turned back. */
static void test_replica_in_a_host_bracket(void **state)
{
	struct test_space t;
	struct weir_use use;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = do_alloc(&t, BYTES, 0);
	use = use_of(a + BLOCK, 8, WEIR_READ);
	assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
	assert_int_equal(weir_replicate(t.space, a, NULL), -EBUSY);
	assert_int_equal(weir_host_end(t.space, &use, 1), 0);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
	assert_int_equal(weir_unreplicate(t.space, a), -EBUSY);
	assert_int_equal(weir_host_end(t.space, &use, 1), 0);
	assert_int_equal(weir_unreplicate(t.space, a), 0);
	do_sync(&t);
	test_space_close(&t);
}

static uint64_t get_copies(struct test_space *t, int memory)
{
	struct weir_replica_stats stats;

	weir_replica_query(t->space, &stats);
	return stats.copy_bytes[memory];
}

/* What a device has no room for its kernels use where it is: in the other's memory, or the
 * host's. */
static void test_replica_beyond_the_budget(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 5, 5, 64);
	a = alloc_replicated(&t, BYTES);
	for (uint32_t i = 0; i < 4; i++) {
		use(&t, 0, a, BYTES, i ? WEIR_WRITE : WEIR_OVERWRITE, 2 * i, 2 * i + 1);
		use(&t, ONE, a, BYTES, WEIR_WRITE, 2 * i + 1, 2 * i + 2);
	}
	do_sync(&t);
	assert_true(get_copies(&t, GPU0) <= 3 * BLOCK && get_copies(&t, GPU1) <= 3 * BLOCK);
	assert_true(get_copies(&t, GPU0) && get_copies(&t, HOST));
	do_read(&t, a, BYTES, 8);
	assert_int_equal(weir_unreplicate(t.space, a), 0);
	do_expect(&t, 0, a, BYTES, 8);
	do_sync(&t);
	test_space_close(&t);
}

/* A budget is lowered: copies of what is elsewhere go, then what is there alone goes to the
 * host. */
static void test_replica_budget_lowered(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 16, 16, 64);
	a = alloc_replicated(&t, BYTES);
	use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, 1);
	use(&t, ONE, a, BYTES / 2, WEIR_READ, 1, 0);
	do_sync(&t);
	assert_int_equal(get_copies(&t, GPU0), BYTES);
	assert_int_equal(get_copies(&t, GPU1), BYTES / 2);
	assert_int_equal(weir_space_set_budget(t.space, GPU1, 2 * BLOCK), 0);
	do_check(&t);
	assert_int_equal(get_copies(&t, GPU1), 0);
	assert_int_equal(get_copies(&t, HOST), 0);
	assert_int_equal(weir_space_set_budget(t.space, GPU0, 4 * BLOCK), 0);
	do_check(&t);
	assert_true(get_copies(&t, GPU0) <= 2 * BLOCK);
	assert_true(get_copies(&t, HOST) >= BYTES - 2 * BLOCK);
	use(&t, ONE, a, BYTES, WEIR_READ, 1, 0);
	use(&t, 0, a, BYTES, WEIR_WRITE, 1, 2);
	do_sync(&t);
	do_read(&t, a, BYTES, 2);
	test_space_close(&t);
}

/* Ranges that are used now have the room of replicas whose contents are elsewhere. */
static void test_replica_gives_way(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_space_open_devices(&t, BLOCK, 16, 16, 64);
	a = alloc_replicated(&t, BYTES);
	use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, 1);
	use(&t, ONE, a, BYTES, WEIR_READ, 1, 0);
	do_sync(&t);
	b = do_alloc(&t, 14 * BLOCK, ONE);
	do_fill(&t, ONE, b, 14 * BLOCK, 3);
	do_sync(&t);
	assert_true(get_copies(&t, GPU1) <= 2 * BLOCK);
	for (uint32_t i = 0; i < 14; i++)
		assert_int_equal(get_block_memory(&t, b + i * BLOCK), GPU1);
	use(&t, ONE, a, BYTES, WEIR_READ, 1, 0); /* in the other's memory */
	do_sync(&t);
	assert_true(get_copies(&t, GPU1) <= 2 * BLOCK);
	do_free(&t, b, ONE);
	test_space_close(&t);
}

/* One that only discards a part of a window is a bracket that names the range. */
static void test_replica_in_a_discard(void **state)
{
	struct test_space t;
	void *window;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = alloc_replicated(&t, BYTES);
	assert_int_equal(weir_replica(t.space, a, 0, &window), 0);
	do_begin(&t, 0, window, BLOCK, WEIR_DISCARD);
	assert_int_equal(weir_unreplicate(t.space, a), -EBUSY);
	do_end(&t, 0);
	assert_int_equal(weir_unreplicate(t.space, a), 0);
	do_sync(&t);
	test_space_close(&t);
}

/* What was lost anyway is not sent to where an open bracket writes, though it is there again: the
 * other allocation in the arena's block was written meanwhile. */
static void test_replica_written_before_its_arena(void **state)
{
	const uint64_t bytes = 512;
	void *window[2];
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 2, 32); /* device 1 has no room for copies */
	a = do_alloc(&t, bytes, 0);
	b = do_alloc(&t, bytes, 0);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	for (uint32_t device = 0; device < 2; device++)
		assert_int_equal(weir_replica(t.space, a, device, &window[device]), 0);
	do_begin(&t, 0, window[0], bytes, WEIR_WRITE);
	do_launch_as(&t, 0, window[0], bytes, WEIR_WRITE, 0, 1, a);
	do_write(&t, b, bytes, 2);
	do_begin(&t, ONE, window[1], bytes, WEIR_READ);
	do_end(&t, ONE);
	assert_int_equal(weir_stream_sync(t.stream[ONE]), 0);
	do_launch_as(&t, 0, window[0], bytes, WEIR_WRITE, 1, 3, a);
	do_end(&t, 0);
	use(&t, ONE, a, bytes, WEIR_READ, 3, 0);
	do_sync(&t);
	test_space_close(&t);
}

/* A bracket that names the whole space names a replicated piece of an arena, too. */
static void test_replica_in_the_whole_space(void **state)
{
	struct test_space t;
	uint8_t *a, *b, *c;

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = do_alloc(&t, 512, 0);
	b = do_alloc(&t, 512, 0);
	c = alloc_replicated(&t, BYTES);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	use(&t, 0, a, 512, WEIR_OVERWRITE, 0, 1);
	use(&t, 0, c, BYTES, WEIR_OVERWRITE, 0, 1);
	assert_int_equal(weir_begin(t.space, t.stream[0], NULL, 0), 0);
	do_launch(&t, 0, b, 512, WEIR_OVERWRITE, 0, 2);
	do_end(&t, 0);
	use(&t, ONE, a, 512, WEIR_READ, 1, 0);
	use(&t, ONE, c, BYTES, WEIR_READ, 1, 0);
	do_sync(&t);
	test_space_close(&t);
}

/* The same where its device has no window for it, and uses it at the one copy: any piece of an
 * arena, beside one that it has a window for. */
static void test_replica_in_the_whole_space_without_a_window(void **state)
{
	const struct weir_replica_params params = {.devices = WEIR_MEM_DEVICE(1)};
	struct test_space t;
	uint8_t *a, *b, *c;

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = do_alloc(&t, 512, 0);
	b = do_alloc(&t, 512, 0);
	c = do_alloc(&t, 512, 0);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	assert_int_equal(weir_replicate(t.space, b, &params), 0);
	assert_int_equal(weir_replicate(t.space, c, &params), 0);
	use(&t, ONE, a, 512, WEIR_OVERWRITE, 0, 1);
	use(&t, ONE, b, 512, WEIR_OVERWRITE, 0, 1);
	use(&t, ONE, c, 512, WEIR_OVERWRITE, 0, 1);
	assert_int_equal(weir_begin(t.space, t.stream[0], NULL, 0), 0);
	do_launch(&t, 0, b, 512, WEIR_WRITE, 1, 2);
	do_launch(&t, 0, c, 512, WEIR_WRITE, 1, 3);
	do_end(&t, 0);
	use(&t, ONE, a, 512, WEIR_READ, 1, 0);
	use(&t, ONE, b, 512, WEIR_READ, 2, 0);
	use(&t, ONE, c, 512, WEIR_READ, 3, 0);
	do_sync(&t);
	test_space_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replica_reads_what_was_written),
		cmocka_unit_test(test_replica_parts_of_a_granule),
		cmocka_unit_test(test_replica_slabs),
		cmocka_unit_test(test_replica_many_brackets),
		cmocka_unit_test(test_replica_asks_little),
		cmocka_unit_test(test_replica_beyond_the_budget),
		cmocka_unit_test(test_replica_budget_lowered),
		cmocka_unit_test(test_replica_gives_way),
		cmocka_unit_test(test_replica_in_a_host_bracket),
		cmocka_unit_test(test_replica_in_a_discard),
		cmocka_unit_test(test_replica_written_before_its_arena),
		cmocka_unit_test(test_replica_in_the_whole_space),
		cmocka_unit_test(test_replica_in_the_whole_space_without_a_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
