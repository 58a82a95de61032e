/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What spaces do for programs that know nothing of them (shim/): allocations that have to have room
 * on the device, and the change to memory that moves while brackets are open and under way.
 */
#include <errno.h>

#include "tests/unit/test_space_late.h"

enum { GPU_BLOCKS = 4, HOST_BLOCKS = 12 };
#define PATIENCE_NS (SPIN_NS / 2)

static void open_space(struct test_space *t)
{
	test_space_open(t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, GPU_BLOCKS, HOST_BLOCKS);
	t->space->guessed = true;
	t->space->own_only = true;
}

static int alloc_try(struct test_space *t, uint64_t bytes, uint32_t stream)
{
	void *addr = NULL;
	int err = weir_alloc(t->space, bytes, t->stream[stream], &addr);

	do_check(t);
	assert_true(!err == (addr != NULL));
	return err;
}

static uint64_t blocks_on(struct test_space *t, uint32_t memory)
{
	return get_stats(t).memory[memory].bytes / BLOCK;
}

/* ------------------------------------------------------------------ room on the device */

/* What the device has no room for is refused, whether it is large or small. */
static void test_own_only(void **state)
{
	struct test_space t;
	uint8_t *x;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 3 * BLOCK, 0);
	assert_int_equal(alloc_try(&t, 2 * BLOCK, 0), -ENOSPC);
	assert_int_equal(blocks_on(&t, GPU0), 3);
	(void)do_alloc(&t, BLOCK / 2, 0);
	(void)do_alloc(&t, BLOCK / 4, 0); /* of the same block */
	assert_int_equal(alloc_try(&t, BLOCK / 2, 0), -ENOSPC);
	assert_int_equal(alloc_try(&t, BLOCK, 0), -ENOSPC);
	assert_int_equal(alloc_try(&t, 99 * BLOCK, 0), -ENOMEM);
	assert_int_equal(blocks_on(&t, HOST), 0);
	do_free(&t, x, 0);
	x = do_alloc(&t, 2 * BLOCK, 0); /* another range, of blocks of the first one */
	do_launch(&t, 0, x, 2 * BLOCK, WEIR_OVERWRITE, 0, 1);
	assert_int_equal(alloc_try(&t, 2 * BLOCK, 0), -ENOSPC);
	t.space->own_only = false;
	(void)do_alloc(&t, 2 * BLOCK, 0);
	assert_int_equal(blocks_on(&t, HOST), 1);
	do_sync(&t);
	test_space_close(&t);
}

/* What was freed and is in use is waited for. */
static void test_own_only_waits(void **state)
{
	struct test_space t;
	fence_t done;
	uint8_t *x;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, GPU_BLOCKS * BLOCK, 0);
	assert_int_equal(do_spin_try(&t, 0, x, GPU_BLOCKS * BLOCK), 0);
	done = get_fence(&t, 0);
	do_free(&t, x, 0);
	assert_false(is_reached(&t, done));
	(void)do_alloc(&t, 3 * BLOCK, 1);
	assert_true(is_reached(&t, done));
	assert_int_equal(blocks_on(&t, HOST), 0);
	do_sync(&t);
	test_space_close(&t);
}

/* ... but not for longer than the space is patient. */
static void test_own_only_is_patient(void **state)
{
	struct test_space t;
	fence_t done;
	uint8_t *x;

	(void)state;
	open_space(&t);
	t.space->patience_ns = PATIENCE_NS;
	x = do_alloc(&t, GPU_BLOCKS * BLOCK, 0);
	assert_int_equal(do_spin_try(&t, 0, x, GPU_BLOCKS * BLOCK), 0);
	done = get_fence(&t, 0);
	do_free(&t, x, 0);
	assert_int_equal(alloc_try(&t, 3 * BLOCK, 1), -ENOSPC);
	assert_false(is_reached(&t, done));
	do_sync(&t);
	(void)do_alloc(&t, 3 * BLOCK, 1);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ from here on memory moves */

/* A bracket that uses x for long. */
static fence_t begin_late(struct test_space *t, uint8_t *x, uint64_t bytes, uint32_t stream)
{
	do_begin(t, stream, x, bytes, WEIR_ATOMIC);
	assert_int_equal(do_spin_try(t, stream, x, bytes), 0);
	do_launch(t, stream, x, bytes, WEIR_WRITE, 1, 2);
	return get_fence(t, stream);
}

/* The mode changes at once, whatever brackets are open or under way; what they name stays. */
static void check_moves_at_once(bool open)
{
	struct test_space t;
	uint8_t *x, *y;
	fence_t done;

	open_space(&t);
	x = do_alloc(&t, GPU_BLOCKS * BLOCK, 0);
	do_launch(&t, 0, x, GPU_BLOCKS * BLOCK, WEIR_OVERWRITE, 0, 1);
	do_sync(&t);
	t.space->own_only = false;
	y = do_alloc(&t, 3 * BLOCK, 1);
	assert_int_equal(blocks_on(&t, HOST), 3);
	done = begin_late(&t, x, GPU_BLOCKS * BLOCK, 0);
	if (!open)
		do_end(&t, 0);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_PLANNED), 0);
	do_check(&t);
	assert_false(is_reached(&t, done));
	if (open)
		do_end(&t, 0);
	do_fill(&t, 1, y, 3 * BLOCK, 3);
	do_sync(&t);
	/* Now it is worth it. */
	for (int i = 0; i < 8; i++)
		do_expect_late(&t, 1, y, 3 * BLOCK, 3);
	do_sync(&t);
	assert_true(get_out(&t) > 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(get_block_state(&t, y + i * BLOCK), BLOCK_HBM);
	do_expect(&t, 0, x, GPU_BLOCKS * BLOCK, 2);
	do_expect(&t, 0, y, 3 * BLOCK, 3);
	do_sync(&t);
	test_space_close(&t);
}

static void test_moves_at_once(void **state)
{
	(void)state;
	check_moves_at_once(false);
	check_moves_at_once(true);
}

/* The way back is as for any space: nothing may be open. */
static void test_back_to_fixed(void **state)
{
	struct test_space t;
	uint8_t *x;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, BLOCK, 0);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_PLANNED), 0);
	do_begin(&t, 0, x, BLOCK, WEIR_WRITE);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), -WEIR_ECONTRACT);
	do_launch(&t, 0, x, BLOCK, WEIR_WRITE, 0, 1);
	do_end(&t, 0);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), 0);
	do_launch(&t, 0, x, BLOCK, WEIR_READ, 1, 0);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ what is small */

/* A planned space whose device is full of x, and a bracket that uses all of it for long. */
static fence_t fill_device(struct test_space *t, uint8_t **x)
{
	fence_t done;

	open_space(t);
	t->space->own_only = false;
	assert_int_equal(weir_space_set_mode(t->space, WEIR_PLANNED), 0);
	*x = do_alloc(t, GPU_BLOCKS * BLOCK, 0);
	do_fill(t, 0, *x, GPU_BLOCKS * BLOCK, 1);
	do_begin(t, 0, *x, GPU_BLOCKS * BLOCK, WEIR_READ);
	assert_int_equal(do_spin_try(t, 0, *x, GPU_BLOCKS * BLOCK), 0);
	done = get_fence(t, 0);
	do_end(t, 0);
	return done;
}

/* Others go for it, when they may. */
static void test_small_has_room(void **state)
{
	uint8_t *x, *small, *next;
	struct test_space t;
	fence_t done;

	(void)state;
	done = fill_device(&t, &x);
	small = do_alloc(&t, BLOCK / 2, 1);
	assert_true(is_reached(&t, done));
	assert_int_equal(get_block_state(&t, small), BLOCK_HBM);
	next = do_alloc(&t, BLOCK / 2, 1); /* of the same block */
	assert_int_equal(get_block_state(&t, next), BLOCK_HBM);
	do_sync(&t);
	assert_int_equal(get_out(&t), 1);
	do_expect(&t, 0, x, GPU_BLOCKS * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* Nobody waits for ever for that, since work may wait for what the program does next. */
static void test_small_is_patient(void **state)
{
	uint8_t *x, *small;
	struct test_space t;
	fence_t done;

	(void)state;
	done = fill_device(&t, &x);
	t.space->patience_ns = PATIENCE_NS;
	small = do_alloc(&t, BLOCK / 2, 1);
	assert_false(is_reached(&t, done));
	assert_int_equal(get_block_state(&t, small), BLOCK_HOST);
	do_sync(&t);
	do_expect(&t, 0, x, GPU_BLOCKS * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ lives of an address */

/* A bracket that writes x, filled before, and takes long. @return its end */
static fence_t write_late(struct test_space *t, uint8_t *x, uint64_t bytes)
{
	fence_t done;

	do_fill(t, 0, x, bytes, 1);
	do_begin(t, 0, x, bytes, WEIR_WRITE);
	assert_int_equal(do_spin_try(t, 0, x, bytes), 0);
	do_launch(t, 0, x, bytes, WEIR_WRITE, 1, 2);
	done = get_fence(t, 0);
	do_end(t, 0);
	return done;
}

/* A range, or a piece of a block, that is freed behind a stream's work and allocated for no stream:
 * launches that do not name it are to come behind that work, too, so the host waits for it. With
 * patience it does not wait for ever. */
static void check_next_life(uint64_t bytes, bool patient)
{
	void *next = NULL;
	struct test_space t;
	fence_t done;
	uint8_t *x;

	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, GPU_BLOCKS, HOST_BLOCKS);
	t.space->guessed = true;
	t.space->patience_ns = patient ? PATIENCE_NS : 0;
	x = do_alloc(&t, bytes, 0);
	done = write_late(&t, x, bytes);
	do_free(&t, x, 0);
	assert_int_equal(weir_alloc(t.space, bytes, NULL, &next), 0);
	do_check(&t);
	assert_ptr_equal(next, x);
	assert_int_equal(is_reached(&t, done), !patient);
	do_sync(&t);
	test_space_close(&t);
}

static void test_next_life_waits(void **state)
{
	(void)state;
	check_next_life(2 * BLOCK, false);
	check_next_life(BLOCK / 4, false);
}

static void test_next_life_is_patient(void **state)
{
	(void)state;
	check_next_life(2 * BLOCK, true);
	check_next_life(BLOCK / 4, true);
}

/* What other bytes are in use for does not matter, nor what uses nothing that is new. */
static void test_next_life_waits_for_its_own(void **state)
{
	uint8_t *x, *other;
	void *next = NULL;
	struct test_space t;
	fence_t done;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, GPU_BLOCKS, HOST_BLOCKS);
	t.space->guessed = true;
	x = do_alloc(&t, BLOCK / 4, 0);
	other = do_alloc(&t, BLOCK / 4, 0);
	do_free(&t, x, 0);
	do_sync(&t);
	done = write_late(&t, other, BLOCK / 4);
	assert_int_equal(weir_alloc(t.space, BLOCK / 4, NULL, &next), 0);
	assert_ptr_equal(next, x);
	assert_int_equal(weir_alloc(t.space, BLOCK, NULL, &next), 0);
	assert_false(is_reached(&t, done));
	do_sync(&t);
	test_space_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_only),
		cmocka_unit_test(test_own_only_waits),
		cmocka_unit_test(test_own_only_is_patient),
		cmocka_unit_test(test_moves_at_once),
		cmocka_unit_test(test_back_to_fixed),
		cmocka_unit_test(test_small_has_room),
		cmocka_unit_test(test_small_is_patient),
		cmocka_unit_test(test_next_life_waits),
		cmocka_unit_test(test_next_life_is_patient),
		cmocka_unit_test(test_next_life_waits_for_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
