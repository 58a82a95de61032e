/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's state: the counts its range keeps through every legal path, that an illegal change
 * stops a build with assertions, and that the checker finds each broken invariant.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/core/space.h"
#include "tests/unit/test_sim_machine.h"

#define NR 3u

struct fixture {
	struct range *range;
	struct block *block; /* the one in the middle */
	struct chunk upper, lower;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->range = calloc(1, sizeof(struct range) + NR * sizeof(struct block));
	assert_non_null(f->range);
	f->range->nr_blocks = NR;
	f->range->nr_state[BLOCK_UNBACKED] = NR;
	f->range->nr_dead = NR;
	for (uint32_t i = 0; i < NR; i++)
		f->range->block[i].dead = true;
	f->block = &f->range->block[1];
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

/* Put the block into a state with what the table says of it. */
static void put(struct fixture *f, enum block_state state)
{
	static const bool upper[BLOCK_STATE_NR] = {false, true, false, true, true};
	static const bool lower[BLOCK_STATE_NR] = {false, false, true, true, true};

	memset(f->block, 0, sizeof(*f->block));
	memset(f->range->nr_state, 0, sizeof(f->range->nr_state));
	f->range->nr_state[BLOCK_UNBACKED] = NR - 1;
	f->range->nr_state[state]++;
	f->range->nr_dead = NR - 1 + (state == BLOCK_UNBACKED);
	f->range->nr_clean = 0;
	f->block->state = (uint8_t)state;
	f->block->dead = state == BLOCK_UNBACKED;
	f->block->chunk[TIER_HBM] = upper[state] ? &f->upper : NULL;
	f->block->chunk[TIER_HOST] = lower[state] ? &f->lower : NULL;
}

static void test_block_counts_follow_the_state(void **state)
{
	static const enum block_state path[] = {
		BLOCK_HBM,  BLOCK_TO_HOST, BLOCK_HOST,	  BLOCK_TO_HBM,	 BLOCK_HBM,
		BLOCK_HOST, BLOCK_HBM,	   BLOCK_TO_HOST, BLOCK_HBM,	 BLOCK_UNBACKED,
		BLOCK_HOST, BLOCK_TO_HBM,  BLOCK_HOST,	  BLOCK_UNBACKED};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(path); i++) {
		uint32_t sum = 0;

		block_set_state(f->range, f->block, path[i]);
		assert_int_equal(f->block->state, path[i]);
		for (int s = 0; s < BLOCK_STATE_NR; s++)
			sum += f->range->nr_state[s];
		assert_int_equal(sum, NR);
		assert_int_equal(f->range->nr_state[path[i]], path[i] == BLOCK_UNBACKED ? NR : 1);
		assert_int_equal(block_is_resident(f->block),
				 path[i] == BLOCK_HBM || path[i] == BLOCK_TO_HBM);
		assert_int_equal(block_is_moving(f->block),
				 path[i] == BLOCK_TO_HOST || path[i] == BLOCK_TO_HBM);
		assert_int_equal(range_nr_resident(f->range), block_is_resident(f->block));
		if (path[i] != BLOCK_UNBACKED)
			assert_int_equal(block_tier(f->block),
					 block_is_resident(f->block) ? TIER_HBM : TIER_HOST);
	}
}

static void test_block_dead_and_clean_are_counted_once(void **state)
{
	struct fixture *f = *state;

	block_set_dead(f->range, f->block, true);
	assert_int_equal(f->range->nr_dead, NR);
	block_set_dead(f->range, f->block, false);
	block_set_dead(f->range, f->block, false);
	assert_int_equal(f->range->nr_dead, NR - 1);
	block_set_clean(f->range, f->block, true);
	block_set_clean(f->range, f->block, true);
	assert_int_equal(f->range->nr_clean, 1);
	block_set_clean(f->range, f->block, false);
	assert_int_equal(f->range->nr_clean, 0);
	block_set_dead(f->range, f->block, true);
	assert_int_equal(f->range->nr_dead, NR);
}

/* Whether a change of state is refused: in a child, since refusing is an assertion. */
static bool is_refused(struct fixture *f, enum block_state to)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		signal(SIGABRT, SIG_DFL);
		(void)!freopen("/dev/null", "w", stderr);
		block_set_state(f->range, f->block, to);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status != 0;
}

static void test_block_refuses_what_the_table_does_not_allow(void **state)
{
	/* [from][to] */
	static const bool legal[BLOCK_STATE_NR][BLOCK_STATE_NR] = {
		[BLOCK_UNBACKED] = {[BLOCK_HBM] = true, [BLOCK_HOST] = true},
		[BLOCK_HBM] =
			{[BLOCK_UNBACKED] = true, [BLOCK_HOST] = true, [BLOCK_TO_HOST] = true},
		[BLOCK_HOST] = {[BLOCK_UNBACKED] = true, [BLOCK_HBM] = true, [BLOCK_TO_HBM] = true},
		[BLOCK_TO_HBM] = {[BLOCK_HBM] = true, [BLOCK_HOST] = true},
		[BLOCK_TO_HOST] = {[BLOCK_HOST] = true, [BLOCK_HBM] = true},
	};
	struct fixture *f = *state;

	put(f, BLOCK_UNBACKED);
	if (!is_refused(f, BLOCK_TO_HBM))
		skip(); /* the library was built without assertions */
	for (int from = 0; from < BLOCK_STATE_NR; from++)
		for (int to = 0; to < BLOCK_STATE_NR; to++) {
			put(f, (enum block_state)from);
			assert_int_equal(is_refused(f, (enum block_state)to), !legal[from][to]);
		}
}

static void test_block_check_accepts_the_table(void **state)
{
	struct fixture *f = *state;

	for (int s = 0; s < BLOCK_STATE_NR; s++) {
		put(f, (enum block_state)s);
		assert_int_equal(block_check(f->range, f->block), 0);
		if (s == BLOCK_UNBACKED)
			continue;
		f->block->pins = 1;
		assert_int_equal(block_check(f->range, f->block), 0);
		f->block->dead = true;
		assert_int_equal(block_check(f->range, f->block), 0);
	}
	put(f, BLOCK_HBM);
	f->block->clean = true;
	f->block->chunk[TIER_HOST] = &f->lower;
	assert_int_equal(block_check(f->range, f->block), 0);
	put(f, BLOCK_TO_HBM);
	f->block->clean = true;
	assert_int_equal(block_check(f->range, f->block), 0);
}

static void test_block_check_finds(void **state)
{
	struct fixture *f = *state;

	/* one chunk too many or too few, in every state */
	for (int s = 0; s < BLOCK_STATE_NR; s++)
		for (int tier = 0; tier < TIER_NR; tier++) {
			struct chunk **chunk;

			put(f, (enum block_state)s);
			chunk = &f->block->chunk[tier];
			*chunk = *chunk ? NULL : tier == TIER_HBM ? &f->upper : &f->lower;
			assert_int_equal(block_check(f->range, f->block), -EUCLEAN);
		}
	put(f, BLOCK_UNBACKED);
	f->block->dead = false;
	assert_int_equal(block_check(f->range, f->block), -EUCLEAN);
	put(f, BLOCK_UNBACKED);
	f->block->pins = 1;
	assert_int_equal(block_check(f->range, f->block), -EUCLEAN);
	/* clean where it cannot be */
	put(f, BLOCK_HBM);
	f->block->clean = true;
	assert_int_equal(block_check(f->range, f->block), -EUCLEAN);
	put(f, BLOCK_HOST);
	f->block->clean = true;
	assert_int_equal(block_check(f->range, f->block), -EUCLEAN);
	put(f, BLOCK_TO_HOST);
	f->block->clean = true;
	assert_int_equal(block_check(f->range, f->block), -EUCLEAN);
	put(f, BLOCK_TO_HBM);
	f->block->clean = f->block->dead = true;
	assert_int_equal(block_check(f->range, f->block), -EUCLEAN);
	put(f, BLOCK_HBM);
	f->block->state = BLOCK_STATE_NR;
	assert_int_equal(block_check(f->range, f->block), -EUCLEAN);
}

static void test_block_states_have_names(void **state)
{
	(void)state;
	for (int a = 0; a < BLOCK_STATE_NR; a++)
		for (int b = 0; b < a; b++)
			assert_string_not_equal(block_state_name((enum block_state)a),
						block_state_name((enum block_state)b));
	assert_non_null(block_state_name(BLOCK_STATE_NR));
}

#define block_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		block_test(test_block_counts_follow_the_state),
		block_test(test_block_dead_and_clean_are_counted_once),
		block_test(test_block_refuses_what_the_table_does_not_allow),
		block_test(test_block_check_accepts_the_table),
		block_test(test_block_check_finds),
		cmocka_unit_test(test_block_states_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
