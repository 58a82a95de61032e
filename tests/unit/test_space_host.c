/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU's side of a space, on real bytes: host brackets, what faults outside them, copies to and
 * from the program's buffers.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/space.h"

#define BLOCK KIB(16)

static void open_default(struct test_space *t)
{
	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 12);
}

static void host_begin(struct test_space *t, void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	struct weir_use use = use_of(addr, bytes, kind);

	assert_int_equal(weir_host_begin(t->space, &use, 1), 0);
	do_check(t);
}

static void host_end(struct test_space *t, void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	struct weir_use use = use_of(addr, bytes, kind);

	assert_int_equal(weir_host_end(t->space, &use, 1), 0);
	do_check(t);
}

static int host_begin_try(struct test_space *t, void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	struct weir_use use = use_of(addr, bytes, kind);
	int err = weir_host_begin(t->space, &use, 1);

	do_check(t);
	return err;
}

static int host_end_try(struct test_space *t, void *addr, uint64_t bytes)
{
	struct weir_use use = use_of(addr, bytes, WEIR_READ);
	int err = weir_host_end(t->space, &use, 1);

	do_check(t);
	return err;
}

static void test_space_host_reads_and_writes(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 3 * BLOCK, 0);
	do_fill(&t, 0, a, 3 * BLOCK, 1);
	host_begin(&t, a, 3 * BLOCK, WEIR_WRITE);
	assert_int_equal(pattern_wrong(a, a, 3 * BLOCK, 1), 0);
	pattern_put(a + BLOCK, a + BLOCK, BLOCK, 2);
	host_end(&t, a, 3 * BLOCK, WEIR_WRITE);
	do_expect(&t, 0, a, BLOCK, 1);
	do_change(&t, 0, a + BLOCK, BLOCK, 2, 3);
	do_expect(&t, 0, a + 2 * BLOCK, BLOCK, 1);
	host_begin(&t, a + BLOCK - 256, 512, WEIR_READ);
	assert_int_equal(pattern_wrong(a + BLOCK - 256, a + BLOCK - 256, 256, 1), 0);
	assert_int_equal(pattern_wrong(a + BLOCK, a + BLOCK, 256, 3), 0);
	host_end(&t, a + BLOCK - 256, 512, WEIR_READ);
	host_begin(&t, a, 3 * BLOCK, WEIR_OVERWRITE);
	pattern_put(a, a, 3 * BLOCK, 4);
	host_end(&t, a, 3 * BLOCK, WEIR_OVERWRITE);
	do_expect(&t, 0, a, 3 * BLOCK, 4);
	do_sync(&t);
	test_space_close(&t);
}

/* A part that the CPU overwrites leaves the rest of its blocks as it was. */
static void test_space_host_partial_overwrite(void **state)
{
	struct test_space t;
	uint8_t *a, *small;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	small = do_alloc(&t, 512, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_fill(&t, 0, small, 512, 2);
	host_begin(&t, a + 256, 2 * BLOCK - 256, WEIR_OVERWRITE);
	pattern_put(a + 256, a + 256, 2 * BLOCK - 256, 3);
	host_end(&t, a + 256, 2 * BLOCK - 256, WEIR_OVERWRITE);
	host_begin(&t, small, 256, WEIR_OVERWRITE);
	pattern_put(small, small, 256, 4);
	host_end(&t, small, 256, WEIR_OVERWRITE);
	do_read(&t, a, 256, 1);
	do_expect(&t, 0, a + 256, 2 * BLOCK - 256, 3);
	do_expect(&t, 0, small, 256, 4);
	do_expect(&t, 0, small + 256, 256, 2);
	do_sync(&t);
	test_space_close(&t);
}

/* Touch a byte in a child, and leave it as it is: memory is shared. @return the signal that ended
 * it, or 0. */
static int touch_in_child(volatile uint8_t *at, bool write)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		/* Handlers of the test library and of the simulator would make more of it. */
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		if (write)
			*at |= 0;
		else
			(void)*at;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void expect_access(volatile uint8_t *at, bool allowed)
{
	for (int write = 0; write < 2; write++) {
		int sig = touch_in_child(at, write);

		if (allowed)
			assert_int_equal(sig, 0);
		else if (sig != SIGBUS)
			assert_int_equal(sig, SIGSEGV);
	}
}

static void test_space_host_access_outside_faults(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 0);
	expect_access(a, false);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_sync(&t);
	expect_access(a, false); /* in HBM */
	host_begin(&t, a, 1, WEIR_WRITE);
	expect_access(a, true);
	expect_access(a + BLOCK - 1, true);
	expect_access(a + BLOCK, false);
	host_begin(&t, a, 2 * BLOCK, WEIR_READ);
	expect_access(a + BLOCK, true);
	host_end(&t, a, 1, WEIR_WRITE);
	expect_access(a, true); /* the other one is open */
	host_end(&t, a, 2 * BLOCK, WEIR_READ);
	expect_access(a, false); /* on the host */
	expect_access(a + BLOCK, false);
	do_fill(&t, 0, b, 4 * BLOCK, 2);
	do_expect(&t, 0, a, 2 * BLOCK, 1);
	do_sync(&t);
	expect_access(a, false);
	expect_access(b, false);
	test_space_close(&t);
}

static void test_space_host_contract(void **state)
{
	struct test_space t;
	struct weir_use use;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	assert_int_equal(weir_host_begin(t.space, NULL, 0), -EINVAL);
	assert_int_equal(host_begin_try(&t, a, 0, WEIR_READ), -EINVAL);
	assert_int_equal(host_begin_try(&t, a + BLOCK, BLOCK + 1, WEIR_READ), -EINVAL);
	assert_int_equal(host_begin_try(&t, &t, 1, WEIR_READ), -EINVAL);
	assert_int_equal(host_begin_try(&t, a, 1, (enum weir_use_kind)9), -EINVAL);
	assert_int_equal(host_end_try(&t, a, 1), -WEIR_ECONTRACT);
	/* A second use that is wrong leaves the first one as it was. */
	{
		struct weir_use uses[2] = {use_of(a, BLOCK, WEIR_READ),
					   use_of(a, 3 * BLOCK, WEIR_READ)};

		assert_int_equal(weir_host_begin(t.space, uses, 2), -EINVAL);
		do_check(&t);
		assert_int_equal(get_block_state(&t, a), BLOCK_HBM);
	}
	host_begin(&t, a, BLOCK, WEIR_READ);
	assert_int_equal(host_end_try(&t, a, 2 * BLOCK), -WEIR_ECONTRACT);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), -WEIR_ECONTRACT);
	host_end(&t, a, BLOCK, WEIR_READ);
	assert_int_equal(host_end_try(&t, a, BLOCK), -WEIR_ECONTRACT);
	use = use_of(a, BLOCK, WEIR_READ);
	assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
	assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
	assert_int_equal(weir_host_end(t.space, &use, 1), 0);
	assert_int_equal(weir_host_end(t.space, &use, 1), 0);
	assert_int_equal(weir_host_end(t.space, &use, 1), -WEIR_ECONTRACT);
	do_sync(&t);
	test_space_close(&t);
}

/* An end that names a block more often than it is held ends nothing. */
static void test_space_host_end_names_a_block_twice(void **state)
{
	struct test_space t;
	struct weir_use twice[2];
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	host_begin(&t, a, 512, WEIR_READ);
	twice[0] = use_of(a, 256, WEIR_READ);
	twice[1] = use_of(a + 256, 256, WEIR_READ);
	assert_int_equal(weir_host_end(t.space, twice, 2), -WEIR_ECONTRACT);
	do_check(&t);
	host_end(&t, a, 512, WEIR_READ);
	/* While one that was begun so is ended so. */
	assert_int_equal(weir_host_begin(t.space, twice, 2), 0);
	do_check(&t);
	assert_int_equal(pattern_wrong(a, a, 512, 1), 0);
	assert_int_equal(weir_host_end(t.space, twice, 2), 0);
	do_check(&t);
	do_expect(&t, 0, a, 2 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* What an open bracket holds is busy, wherever it is. */
static void test_space_host_block_in_an_open_bracket_is_busy(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 4 * BLOCK, 0);
	b = do_alloc(&t, 3 * BLOCK, 0);
	assert_int_equal(weir_advise(t.space, b, WEIR_ADVISE_PREFER_MEMORY, HOST), 0);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_fill(&t, 0, b, 3 * BLOCK, 2);
	do_sync(&t);
	do_begin(&t, 0, a, BLOCK, WEIR_READ);
	assert_int_equal(host_begin_try(&t, a, 2 * BLOCK, WEIR_READ), -EBUSY);
	host_begin(&t, a + BLOCK, BLOCK, WEIR_READ);
	assert_int_equal(pattern_wrong(a + BLOCK, a + BLOCK, BLOCK, 1), 0);
	host_end(&t, a + BLOCK, BLOCK, WEIR_READ);
	do_end(&t, 0);
	assert_int_equal(get_block_state(&t, b), BLOCK_HOST);
	do_begin(&t, 0, b, 3 * BLOCK, WEIR_WRITE);
	do_launch(&t, 0, b, 3 * BLOCK, WEIR_WRITE, 2, 3);
	assert_int_equal(host_begin_try(&t, b, BLOCK, WEIR_READ), -EBUSY);
	do_end(&t, 0);
	host_begin(&t, b, 3 * BLOCK, WEIR_READ);
	assert_int_equal(pattern_wrong(b, b, 3 * BLOCK, 3), 0);
	host_end(&t, b, 3 * BLOCK, WEIR_READ);
	do_sync(&t);
	test_space_close(&t);
}

/* A host bracket that fails has overwritten nothing. */
static void test_space_host_failing_overwrite_loses_nothing(void **state)
{
	struct weir_use uses[2];
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	b = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_fill(&t, 0, b, BLOCK, 2);
	do_begin(&t, 0, b, BLOCK, WEIR_READ);
	uses[0] = use_of(a, 2 * BLOCK, WEIR_OVERWRITE);
	uses[1] = use_of(b, BLOCK, WEIR_READ);
	assert_int_equal(weir_host_begin(t.space, uses, 2), -EBUSY);
	do_check(&t);
	do_end(&t, 0);
	do_expect(&t, 0, a, 2 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* The same where the host has no room for all of it. */
/* What an open bracket discards is its own, too. */
static void test_space_host_beside_a_discard_is_busy(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, a, BLOCK, 1);
	do_begin(&t, 0, a, BLOCK, WEIR_DISCARD);
	assert_int_equal(host_begin_try(&t, a, BLOCK, WEIR_READ), -EBUSY);
	do_end(&t, 0);
	host_begin(&t, a, BLOCK, WEIR_OVERWRITE);
	host_end(&t, a, BLOCK, WEIR_OVERWRITE);
	test_space_close(&t);
}

static const struct backend_ops *inner;
static const void *refused; /* no access is given there */

static int refusing_set_access(struct backend *b, void *addr, enum backend_prot prot,
			       uint64_t devices)
{
	return addr == refused ? -EIO : inner->set_access(b, addr, prot, devices);
}

/* A bracket that is to overwrite, and fails, takes nothing from another one that is open there. */
static void test_space_host_failing_overwrite_beside_another(void **state)
{
	struct backend_ops ops;
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	host_begin(&t, a, BLOCK, WEIR_WRITE);
	inner = t.backend->ops;
	ops = *inner;
	ops.set_access = refusing_set_access;
	t.backend->ops = &ops;
	refused = a + BLOCK;
	assert_int_equal(host_begin_try(&t, a, 2 * BLOCK, WEIR_OVERWRITE), -EIO);
	t.backend->ops = inner;
	host_end(&t, a, BLOCK, WEIR_WRITE);
	do_expect(&t, 0, a, BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

static void test_space_host_overwrite_without_room_loses_nothing(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 3);
	a = do_alloc(&t, 5 * BLOCK, 0);
	do_fill(&t, 0, a, 5 * BLOCK, 1);
	do_sync(&t);
	assert_int_equal(host_begin_try(&t, a, 5 * BLOCK, WEIR_OVERWRITE), -ENOMEM);
	do_expect(&t, 0, a, 5 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* A kernel uses in place what the CPU holds; the block stays. */
static void test_space_host_bracket_beside_a_stream_bracket(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 3 * BLOCK, 0);
	do_fill(&t, 0, a, 3 * BLOCK, 1);
	host_begin(&t, a, BLOCK, WEIR_READ);
	do_expect(&t, 0, a, 3 * BLOCK, 1);
	assert_int_equal(pattern_wrong(a, a, BLOCK, 1), 0);
	assert_int_equal(get_block_state(&t, a), BLOCK_HOST);
	do_sync(&t);
	host_end(&t, a, BLOCK, WEIR_READ);
	do_expect(&t, 0, a, 3 * BLOCK, 1);
	do_sync(&t);
	assert_int_equal(get_block_state(&t, a), BLOCK_HBM);
	test_space_close(&t);
}

/* Freed while the CPU holds it: it may be used until the bracket's end, and is reused after. */
static void test_space_host_free_inside_its_bracket(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	host_begin(&t, a, 2 * BLOCK, WEIR_OVERWRITE);
	do_free(&t, a, 0);
	pattern_put(a, a, 2 * BLOCK, 1);
	assert_int_equal(pattern_wrong(a, a, 2 * BLOCK, 1), 0);
	host_end(&t, a, 2 * BLOCK, WEIR_OVERWRITE);
	assert_int_equal(t.space->nr_open, 0);
	assert_ptr_equal(do_alloc(&t, 2 * BLOCK, 0), a);
	do_fill(&t, 0, a, 2 * BLOCK, 2);
	do_expect(&t, 0, a, 2 * BLOCK, 2);
	do_sync(&t);
	test_space_close(&t);
}

static void test_space_host_budget_is_kept(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 2);
	a = do_alloc(&t, 5 * BLOCK, 0);
	do_fill(&t, 0, a, 5 * BLOCK, 1);
	do_sync(&t);
	assert_int_equal(host_begin_try(&t, a, 3 * BLOCK, WEIR_READ), -ENOMEM);
	do_expect(&t, 0, a, 5 * BLOCK, 1);
	host_begin(&t, a, 2 * BLOCK, WEIR_READ);
	assert_int_equal(pattern_wrong(a, a, 2 * BLOCK, 1), 0);
	assert_int_equal(host_begin_try(&t, a + 2 * BLOCK, 1, WEIR_READ), -ENOMEM);
	host_end(&t, a, 2 * BLOCK, WEIR_READ);
	do_expect(&t, 0, a, 5 * BLOCK, 1);
	do_sync(&t);
	assert_true(get_stats(&t).memory[HOST].peak_bytes <= 2 * BLOCK);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ explicit copies */

static void test_space_copy_wherever_blocks_are(void **state)
{
	uint8_t *a, *b, buffer[64];
	struct test_space t;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 6 * BLOCK, 0);
	do_write(&t, a, 6 * BLOCK, 1); /* never used before: HBM and host */
	do_read(&t, a, 6 * BLOCK, 1);
	do_expect(&t, 0, a, 6 * BLOCK, 1);
	do_write(&t, a + BLOCK - 128, 256, 2);
	do_read(&t, a + BLOCK - 128, 256, 2);
	do_read(&t, a, BLOCK - 128, 1);
	do_expect(&t, 0, a + BLOCK - 128, 256, 2);
	do_expect(&t, 0, a + BLOCK + 128, 5 * BLOCK - 128, 1);
	b = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, b, 4 * BLOCK, 3);
	do_read(&t, a + BLOCK - 128, 256, 2);
	do_write(&t, a, 6 * BLOCK, 4);
	do_expect(&t, 0, a, 6 * BLOCK, 4);
	do_read(&t, b, 4 * BLOCK, 3);
	do_sync(&t);
	assert_int_equal(weir_write(t.space, a, buffer, 0), -EINVAL);
	assert_int_equal(weir_read(t.space, buffer, a, 0), -EINVAL);
	assert_int_equal(weir_read(t.space, buffer, a + 6 * BLOCK - 63, 64), -EINVAL);
	assert_int_equal(weir_write(t.space, &t, buffer, 64), -EINVAL);
	test_space_close(&t);
}

/* In order with the brackets that ended, on both streams, without any other wait. */
static void test_space_copy_is_in_order_with_brackets(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	for (uint32_t i = 1; i < 6; i++) {
		uint32_t stream = i & 1;

		do_change(&t, stream, a, 2 * BLOCK, 3 * i - 2, 3 * i);
		do_read(&t, a, 2 * BLOCK, 3 * i);
		do_write(&t, a, 2 * BLOCK, 3 * i + 1);
	}
	do_sync(&t);
	test_space_close(&t);
}

static void test_space_copy_in_an_open_bracket_is_busy(void **state)
{
	struct test_space t;
	uint8_t *a, buffer[256];

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_begin(&t, 0, a, BLOCK, WEIR_READ);
	assert_int_equal(weir_write(t.space, a, buffer, 256), -EBUSY);
	assert_int_equal(weir_read(t.space, buffer, a + BLOCK - 128, 256), -EBUSY);
	do_read(&t, a + BLOCK, BLOCK, 1);
	do_write(&t, a + BLOCK, 256, 2);
	do_end(&t, 0);
	do_read(&t, a, BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* On a machine without bytes the same calls cost time and move the same blocks. */
static void test_space_copy_phantom(void **state)
{
	struct test_space t;
	uint64_t before;
	void *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 4, 12);
	a = do_alloc(&t, 8 * BLOCK, 0);
	before = weir_machine_now_ns(t.machine);
	assert_int_equal(weir_write(t.space, a, NULL, 8 * BLOCK), 0);
	assert_true(weir_machine_now_ns(t.machine) > before);
	do_check(&t);
	before = weir_machine_now_ns(t.machine);
	assert_int_equal(weir_read(t.space, NULL, a, 8 * BLOCK), 0);
	assert_true(weir_machine_now_ns(t.machine) > before);
	assert_int_equal(get_stats(&t).memory[GPU0].bytes, 4 * BLOCK);
	assert_int_equal(get_stats(&t).memory[HOST].bytes, 4 * BLOCK);
	test_space_close(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_host_reads_and_writes),
		cmocka_unit_test(test_space_host_partial_overwrite),
		cmocka_unit_test(test_space_host_access_outside_faults),
		cmocka_unit_test(test_space_host_contract),
		cmocka_unit_test(test_space_host_end_names_a_block_twice),
		cmocka_unit_test(test_space_host_block_in_an_open_bracket_is_busy),
		cmocka_unit_test(test_space_host_failing_overwrite_loses_nothing),
		cmocka_unit_test(test_space_host_beside_a_discard_is_busy),
		cmocka_unit_test(test_space_host_failing_overwrite_beside_another),
		cmocka_unit_test(test_space_host_overwrite_without_room_loses_nothing),
		cmocka_unit_test(test_space_host_bracket_beside_a_stream_bracket),
		cmocka_unit_test(test_space_host_free_inside_its_bracket),
		cmocka_unit_test(test_space_host_budget_is_kept),
		cmocka_unit_test(test_space_copy_wherever_blocks_are),
		cmocka_unit_test(test_space_copy_is_in_order_with_brackets),
		cmocka_unit_test(test_space_copy_in_an_open_bracket_is_busy),
		cmocka_unit_test(test_space_copy_phantom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
