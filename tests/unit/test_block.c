/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's copies: the counts that its range keeps through every legal path, that an illegal
 * change stops a build with assertions, and that the checker finds each broken invariant.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/core/space.h"
#include "tests/unit/test_sim_machine.h"

#define NR 3u
#define HOST 2u /* the last of three places */

/* Where a block can be. */
enum where { UNBACKED, UP, DOWN, COMING_UP, GOING_DOWN, WHERE_NR };

struct fixture {
	struct range *range;
	struct block *block; /* the one in the middle */
	struct chunk upper, middle, lower, other;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->range = calloc(1, sizeof(struct range) + NR * sizeof(struct block));
	assert_non_null(f->range);
	f->range->nr_blocks = NR;
	f->range->nr_dead = NR;
	for (uint32_t i = 0; i < NR; i++)
		f->range->block[i].at.dead = true;
	f->block = &f->range->block[1];
	f->upper.place = PLACE_OWN;
	f->middle.place = 1;
	f->lower.place = HOST;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	free(f->range);
	free(f);
	return 0;
}

static struct copies copies_of(struct fixture *f, enum where where)
{
	const struct copies copies[WHERE_NR] = {
		[UNBACKED] = {.dead = true},
		[UP] = {.home = &f->upper, .mapped = &f->upper},
		[DOWN] = {.home = &f->lower, .mapped = &f->lower},
		[COMING_UP] = {.home = &f->upper, .source = &f->lower, .mapped = &f->upper},
		[GOING_DOWN] = {.home = &f->lower, .source = &f->upper},
	};

	return copies[where];
}

/* Put the block there, whatever it was. */
static void put(struct fixture *f, enum where where)
{
	memset(f->block, 0, sizeof(*f->block));
	f->block->at = copies_of(f, where);
	f->block->ready = 0;
	memset(f->range->nr_home, 0, sizeof(f->range->nr_home));
	memset(f->range->nr_moving, 0, sizeof(f->range->nr_moving));
	f->range->nr_dead = f->range->nr_clean = f->range->nr_unmapped = 0;
	f->range->nr_cleaning = f->range->nr_stale = 0;
	f->range->nr_backed = f->range->nr_copying = 0;
	f->range->nr_resident = f->range->nr_arriving = 0;
	for (uint32_t i = 0; i < NR; i++) {
		bool resident = range_block_is_resident(f->range, i);

		block_count(f->range, &f->range->block[i], 1);
		f->range->nr_resident += resident;
		f->range->nr_arriving += resident && block_is_moving(&f->range->block[i]);
	}
}

static void change(struct fixture *f, enum where where)
{
	struct copies to = copies_of(f, where);

	block_change(f->range, f->block, &to);
}

static void test_block_counts_follow_the_copies(void **state)
{
	static const enum where path[] = {UP,	GOING_DOWN, DOWN,	COMING_UP, UP,
					  DOWN, UP,	    GOING_DOWN, UP,	   UNBACKED,
					  DOWN, COMING_UP,  DOWN,	UNBACKED};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(path); i++) {
		bool up = path[i] == UP || path[i] == COMING_UP;
		bool moving = path[i] == COMING_UP || path[i] == GOING_DOWN;

		change(f, path[i]);
		assert_int_equal(block_is_backed(f->block), path[i] != UNBACKED);
		assert_int_equal(range_block_is_resident(f->range, 1), up);
		assert_int_equal(block_is_moving(f->block), moving);
		assert_int_equal(block_is_unmapped(f->block), path[i] == GOING_DOWN);
		assert_int_equal(range_nr_unbacked(f->range), path[i] == UNBACKED ? NR : NR - 1);
		assert_int_equal(range_nr_resident(f->range), up);
		assert_int_equal(range_is_moving(f->range), moving);
		assert_int_equal(range_nr_settled(f->range, PLACE_OWN), path[i] == UP);
		assert_int_equal(range_nr_settled(f->range, HOST), path[i] == DOWN);
		assert_int_equal(f->range->nr_dead, path[i] == UNBACKED ? NR : NR - 1);
		assert_int_equal(f->range->nr_unmapped, path[i] == GOING_DOWN);
	}
}

static void test_block_what_is_below_is_counted(void **state)
{
	struct fixture *f = *state;

	put(f, UP);
	assert_true(block_is_dirty(f->block));
	block_set_below(f->range, f->block, &f->lower, CLEANING_ACTIVE);
	assert_true(block_is_dirty(f->block) && block_is_cleaning(f->block));
	assert_int_equal(f->range->nr_cleaning, 1);
	assert_int_equal(f->range->nr_clean, 0);
	block_set_below(f->range, f->block, &f->lower, CLEANING_NONE);
	assert_true(block_is_clean(f->block) && !block_is_dirty(f->block));
	assert_int_equal(f->range->nr_cleaning, 0);
	assert_int_equal(f->range->nr_clean, 1);
	block_set_below(f->range, f->block, NULL, CLEANING_NONE);
	assert_int_equal(f->range->nr_clean, 0);
	block_set_dead(f->range, f->block, true);
	block_set_dead(f->range, f->block, true);
	assert_int_equal(f->range->nr_dead, NR);
	assert_false(block_is_dirty(f->block));
}

static void test_block_what_is_mapped_is_counted(void **state)
{
	struct fixture *f = *state;
	struct copies to = {.dead = true, .mapped = &f->upper};

	put(f, UP);
	block_set_mapped(f->range, f->block, NULL);
	assert_true(block_is_unmapped(f->block) && !block_is_stale(f->block));
	assert_int_equal(f->range->nr_unmapped, 1);
	block_set_mapped(f->range, f->block, &f->upper);
	assert_int_equal(f->range->nr_unmapped, 0);
	block_change(f->range, f->block, &to);
	assert_true(block_is_stale(f->block) && !block_is_unmapped(f->block));
	assert_int_equal(f->range->nr_stale, 1);
	to.home = &f->lower;
	block_change(f->range, f->block, &to);
	assert_true(block_is_stale(f->block) && block_is_unmapped(f->block));
	assert_int_equal(f->range->nr_unmapped, 1);
}

/* Whether a change is refused: in a child, since refusing is an assertion. */
static bool is_refused(struct fixture *f, enum where to)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		signal(SIGABRT, SIG_DFL);
		(void)!freopen("/dev/null", "w", stderr);
		change(f, to);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status != 0;
}

static void test_block_refuses_what_is_no_legal_change(void **state)
{
	/* [from][to] */
	static const bool legal[WHERE_NR][WHERE_NR] = {
		[UNBACKED] = {[UNBACKED] = true, [UP] = true, [DOWN] = true},
		[UP] = {[UP] = true, [UNBACKED] = true, [DOWN] = true, [GOING_DOWN] = true},
		[DOWN] = {[DOWN] = true, [UNBACKED] = true, [UP] = true, [COMING_UP] = true},
		[COMING_UP] = {[COMING_UP] = true, [UP] = true, [DOWN] = true},
		[GOING_DOWN] = {[GOING_DOWN] = true, [DOWN] = true, [UP] = true},
	};
	struct fixture *f = *state;

	put(f, UNBACKED);
	if (!is_refused(f, COMING_UP))
		skip(); /* the library was built without assertions */
	for (int from = 0; from < WHERE_NR; from++)
		for (int to = 0; to < WHERE_NR; to++) {
			put(f, (enum where)from);
			assert_int_equal(is_refused(f, (enum where)to), !legal[from][to]);
		}
}

static void test_block_check_accepts(void **state)
{
	struct fixture *f = *state;

	for (int w = 0; w < WHERE_NR; w++) {
		put(f, (enum where)w);
		assert_int_equal(block_check(f->range, f->block), 0);
		if (w == UNBACKED)
			continue;
		f->block->pins = 1;
		assert_int_equal(block_check(f->range, f->block), 0);
		f->block->at.dead = true;
		assert_int_equal(block_check(f->range, f->block), 0);
	}
	put(f, UP);
	f->block->at.below = &f->lower;
	assert_int_equal(block_check(f->range, f->block), 0);
	f->block->at.cleaning = CLEANING_CANCELLED;
	f->block->at.dead = true;
	assert_int_equal(block_check(f->range, f->block), 0);
	put(f, COMING_UP);
	f->block->at.below = &f->lower;
	assert_int_equal(block_check(f->range, f->block), 0);
	put(f, DOWN);
	f->block->at.mapped = &f->other;
	f->other.stale = true;
	assert_int_equal(block_check(f->range, f->block), 0);
	/* Three copies at three places: up from the middle, and down to it. */
	put(f, UP);
	f->block->at.source = &f->middle;
	f->block->at.below = &f->lower;
	assert_int_equal(block_check(f->range, f->block), 0);
	f->block->at = (struct copies){.home = &f->middle, .source = &f->upper, .below = &f->lower};
	assert_int_equal(block_check(f->range, f->block), 0);
}

static void test_block_counts_by_place(void **state)
{
	struct fixture *f = *state;
	const struct copies down = {.home = &f->middle, .source = &f->upper, .below = &f->lower};
	const struct copies there = {.home = &f->middle, .below = &f->lower};

	put(f, UP);
	block_set_below(f->range, f->block, &f->lower, CLEANING_NONE);
	block_change(f->range, f->block, &down);
	assert_int_equal(f->range->nr_home[1], 1);
	assert_int_equal(f->range->nr_moving[1], 1);
	assert_int_equal(range_nr_settled(f->range, 1), 0);
	assert_int_equal(range_nr_settled_below(f->range), 0);
	block_change(f->range, f->block, &there);
	assert_int_equal(range_nr_settled(f->range, 1), 1);
	assert_int_equal(range_nr_settled_below(f->range), 1);
	assert_int_equal(range_nr_settled(f->range, HOST), 0);
	assert_int_equal(range_nr_resident(f->range), 0);
	assert_int_equal(f->range->nr_clean, 1);
	assert_true(range_block_is_settled_below(f->range, 1) && !range_is_moving(f->range));
}

static void test_block_check_finds(void **state)
{
	struct fixture *f = *state;
	const struct {
		enum where where;
		struct copies at; /* instead */
		uint32_t pins;
	} broken[] = {
		{UNBACKED, {.dead = false}, 0},
		{UNBACKED, {.dead = true}, 1},
		{UNBACKED, {.dead = true, .below = &f->lower}, 0},
		{UNBACKED, {.dead = true, .source = &f->lower}, 0},
		{UP, {.home = &f->upper, .mapped = &f->upper, .below = &f->upper}, 0},
		{UP, {.home = &f->upper, .mapped = &f->upper, .below = &f->other}, 0},
		{UP, {.home = &f->upper, .mapped = &f->upper, .source = &f->upper}, 0},
		{UP, {.home = &f->upper, .mapped = &f->upper, .cleaning = CLEANING_ACTIVE}, 0},
		{UP, {.home = &f->upper, .mapped = &f->other}, 0},
		{UP, {.home = &f->upper, .mapped = &f->upper, .below = &f->lower, .dead = true}, 0},
		{COMING_UP,
		 {.home = &f->upper, .mapped = &f->upper, .source = &f->lower, .below = &f->other},
		 0},
		{COMING_UP,
		 {.home = &f->upper,
		  .mapped = &f->upper,
		  .source = &f->lower,
		  .below = &f->lower,
		  .cleaning = CLEANING_ACTIVE},
		 0},
		{COMING_UP, {.home = &f->upper, .mapped = &f->upper, .source = &f->other}, 0},
		{GOING_DOWN, {.home = &f->lower, .mapped = &f->upper, .source = &f->upper}, 0},
		{GOING_DOWN, {.home = &f->lower, .source = &f->upper, .below = &f->middle}, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
		put(f, broken[i].where);
		f->block->at = broken[i].at;
		f->block->pins = broken[i].pins;
		assert_int_equal(block_check(f->range, f->block), -EUCLEAN);
	}
}

#define block_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		block_test(test_block_counts_follow_the_copies),
		block_test(test_block_counts_by_place),
		block_test(test_block_what_is_below_is_counted),
		block_test(test_block_what_is_mapped_is_counted),
		block_test(test_block_refuses_what_is_no_legal_change),
		block_test(test_block_check_accepts),
		block_test(test_block_check_finds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
