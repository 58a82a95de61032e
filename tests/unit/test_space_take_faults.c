/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks change hands, and calls of the backend fail meanwhile: the program tries again or gives
 * up, and no contents are lost but those it gave up. Under a sanitizer one call in seven fails.
 */
#include <errno.h>

#include "src/backend/flaky/flaky.h"
#include "tests/support/amount.h"
#include "tests/unit/test_space_late.h"

/* ------------------------------------------------------------------ failing calls */

#define TRIES 5
#define FAULT_WARM_UP 6u
#define KEEP_BYTES (2 * BLOCK)
#define KEEP_SEED 77u

/* A program that goes on when calls fail. */
struct faulty {
	struct test_space t;
	struct backend *flaky;
	uint8_t *keep;	   /* read in each iteration, so that copies go both ways */
	uint32_t nr_tries; /* to begin a bracket; 1: what fails is given up */
	int err;	   /* what the failing call returns */
};

/* Whether a call worked; the space is whole if it did not. */
static bool has_worked(struct faulty *f, int err)
{
	do_check(&f->t);
	assert_true(!err || err == f->err || err == -ENOMEM);
	return !err;
}

/* Try a call so often at most. */
#define TRY(worked, f, nr, call)                                              \
	do {                                                                  \
		uint32_t tries_left = (nr);                                   \
                                                                              \
		while (!((worked) = has_worked(f, call)) && --tries_left > 0) \
			;                                                     \
	} while (0)
#define MUST(f, call)                             \
	do {                                      \
		bool must_worked;                 \
                                                  \
		TRY(must_worked, f, TRIES, call); \
		assert_true(must_worked);         \
	} while (0)

/* One bracket with one launch on its first use, late if that reads. @return whether it began. */
static bool fault_run(struct faulty *f, const struct weir_use *uses, uint32_t nr, uint32_t seed)
{
	bool reads = uses[0].kind == WEIR_READ, worked;
	struct test_cell cell = {reads ? seed : 0, reads ? 0 : seed};
	struct test_space *t = &f->t;

	TRY(worked, f, f->nr_tries, weir_begin(t->space, t->stream[0], uses, nr));
	if (!worked) {
		/* A program that gives up ends what is under way. */
		MUST(f, weir_space_sync(t->space));
		return false;
	}
	if (reads)
		MUST(f, do_spin_try(t, 0, uses[0].addr, uses[0].bytes));
	MUST(f, do_launch_cells_try(t, 0, uses[0].addr, uses[0].bytes, &cell, 1, uses[0].kind));
	MUST(f, weir_end(t->space, t->stream[0]));
	return true;
}

/* x dies by a discard, y by a free. */
static void fault_iterate(struct faulty *f, uint32_t seed)
{
	struct weir_use use = use_of(f->keep, KEEP_BYTES, WEIR_READ), overwrite[2];
	struct weir_stream *stream = f->t.stream[0];
	struct weir_space *space = f->t.space;
	void *x = NULL, *y = NULL;

	(void)fault_run(f, &use, 1, KEEP_SEED);
	MUST(f, weir_alloc(space, X_BYTES, stream, &x));
	overwrite[0] = use_of(x, X_BYTES, WEIR_OVERWRITE);
	use = use_of(x, X_BYTES, WEIR_READ);
	use.read_bytes *= MUCH;
	if (fault_run(f, overwrite, 1, seed))
		(void)fault_run(f, &use, 1, seed);
	MUST(f, weir_alloc(space, Y_BYTES, stream, &y));
	overwrite[0] = use_of(y, Y_BYTES, WEIR_OVERWRITE);
	overwrite[1] = use_of(x, X_BYTES, WEIR_DISCARD);
	use = use_of(y, Y_BYTES, WEIR_READ);
	use.read_bytes *= MUCH;
	if (fault_run(f, overwrite, 2, seed + 1000))
		(void)fault_run(f, &use, 1, seed + 1000);
	MUST(f, weir_free(space, x, stream));
	MUST(f, weir_free(space, y, stream));
}

/* As open_scaled(), on a backend that can be told to fail. */
static void fault_open(struct faulty *f, uint32_t nr_tries, int err)
{
	struct test_space *t = &f->t;

	memset(f, 0, sizeof(*f));
	f->nr_tries = nr_tries;
	f->err = err;
	test_machine(&t->desc);
	assert_int_equal(sim_create(&t->desc, WEIR_DATA_REAL, &t->backend), 0);
	assert_int_equal(flaky_create(t->backend, &f->flaky), 0);
	assert_int_equal(machine_wrap(f->flaky, &t->machine), 0);
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		assert_int_equal(weir_stream_create(t->machine, i == 2, &t->stream[i]), 0);
	assert_int_equal(
		test_space_create_try(t, WEIR_PLANNED, BLOCK, HBM_BLOCKS * BLOCK, 16 * BLOCK), 0);
	f->keep = do_alloc(t, KEEP_BYTES, 0);
	do_write(t, f->keep, KEEP_BYTES, KEEP_SEED);
}

/* Fail the n-th call of two iterations. @return whether they make so many. */
static bool fault_at(uint64_t n, uint32_t nr_tries, int err)
{
	struct faulty f;
	bool reached;

	fault_open(&f, nr_tries, err);
	for (uint32_t i = 0; i < FAULT_WARM_UP; i++) {
		fault_iterate(&f, 1 + i);
		do_sync(&f.t);
	}
	assert_true(has_plan(&f.t));
	flaky_arm(f.flaky, n += flaky_nr_calls(f.flaky), err);
	fault_iterate(&f, 100);
	fault_iterate(&f, 200);
	reached = flaky_nr_calls(f.flaky) >= n;
	flaky_arm(f.flaky, 0, 0);
	/* An error of what was done in between is told once. */
	(void)has_worked(&f, weir_space_sync(f.t.space));
	do_sync(&f.t);
	assert_int_equal(f.t.space->nr_stale, 0);
	fault_iterate(&f, 300);
	do_read(&f.t, f.keep, KEEP_BYTES, KEEP_SEED);
	test_space_close(&f.t);
	return reached;
}

static void test_space_take_each_call_fails(void **state)
{
	static const struct {
		uint32_t nr_tries;
		int err;
	} round[] = {{TRIES, -EIO}, {1, -ENOMEM}};
	static const struct test_amount apart = {1, 7, 1};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(round); i++) {
		uint64_t n = 1 + i;

		while (fault_at(n, round[i].nr_tries, round[i].err))
			n += test_amount(NULL, apart);
		/* Two iterations map a block some twenty times, and unmap as many. */
		assert_true(n > 40);
	}
}

/* ------------------------------------------------------------------ taken, and lost again */

/* Overwrite one of the blocks that were taken, on another stream: nothing else is waited for. */
static void fill_one_taken(struct test_space *t, uint8_t *y)
{
	uint32_t i = 0;

	while (i < Y_BYTES / BLOCK && get_block_state(t, y + i * BLOCK) != BLOCK_HBM)
		i++;
	assert_true(i < Y_BYTES / BLOCK);
	do_fill(t, 1, y + i * BLOCK, BLOCK, 3000);
}

/* A begin fails after it took chunks that launches still use, and the program gives up what it was
 * to overwrite, or begins elsewhere: nobody writes the chunks before those launches are done. */
static void failed_begin(bool elsewhere)
{
	struct faulty f;
	struct test_space *t = &f.t;
	uint64_t nr_calls = 0;

	fault_open(&f, 1, -EIO);
	do_free(t, f.keep, 0);
	for (uint32_t i = 1; i < WARM_UP; i++) {
		uint8_t *x = do_alloc(t, X_BYTES, 0), *y, *z;
		struct weir_use use;

		do_fill(t, 0, x, X_BYTES, 1000 + i);
		do_expect_late(t, 0, x, X_BYTES, 1000 + i);
		do_free(t, x, 0);
		y = do_alloc(t, Y_BYTES, 0);
		use = use_of(y, Y_BYTES, WEIR_OVERWRITE);
		if (i == WARM_UP - 1) {
			/* The last call of begin: its fence, once and again. */
			flaky_arm(f.flaky, flaky_nr_calls(f.flaky) + nr_calls, -EIO);
			assert_int_equal(weir_begin(t->space, t->stream[0], &use, 1), -EIO);
			do_check(t);
			if (elsewhere) {
				fill_one_taken(t, y);
			} else {
				do_free(t, y, 0);
				z = do_alloc(t, X_BYTES, 1);
				do_fill(t, 1, z, X_BYTES, 3000);
			}
			break;
		}
		nr_calls = flaky_nr_calls(f.flaky);
		do_begin_uses(t, 0, &use, 1);
		nr_calls = flaky_nr_calls(f.flaky) - nr_calls - 1;
		do_fill_and_end(t, y, Y_BYTES, 2000 + i);
		do_expect_late(t, 0, y, Y_BYTES, 2000 + i);
		do_free(t, y, 0);
		do_sync(t);
	}
	do_sync(t);
	test_space_close(t);
}

static void test_space_take_then_begin_fails(void **state)
{
	(void)state;
	failed_begin(false);
	failed_begin(true);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_take_each_call_fails),
		cmocka_unit_test(test_space_take_then_begin_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
