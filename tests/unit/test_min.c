/* SPDX-License-Identifier: Apache-2.0 */
/* MIN on sequences whose outcome is plain to see; that it is the least is the property test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "workloads/min.h"

#define MAX_STEPS 16
#define MAX_ACCESSES 64

/* A sequence that is being written down. */
struct script {
	struct min_trace trace;
	uint64_t first[MAX_STEPS + 1];
	struct min_access access[MAX_ACCESSES];
	uint32_t nr;
};

static void add(struct script *s, struct min_access access)
{
	s->access[s->nr++] = access;
}

static void end_step(struct script *s)
{
	s->first[++s->trace.nr_steps] = s->nr;
}

static void begin(struct script *s, uint32_t nr_blocks)
{
	*s = (struct script){.trace = {.nr_blocks = nr_blocks}};
	s->trace.first = s->first;
	s->trace.access = s->access;
}

static struct min_steady steady(const struct script *s, uint32_t capacity)
{
	struct min_steady out;

	assert_int_equal(min_steady(&s->trace, capacity, MIN_OWN, &out), 0);
	assert_true(out.exact);
	return out;
}

/* One block a step, round and round: with room for k of n, n - k of n - 1 come in. */
static void test_min_scan(void **state)
{
	struct script s;

	(void)state;
	begin(&s, 5);
	for (uint8_t b = 0; b < 5; b++) {
		add(&s, (struct min_access){.block = b});
		end_step(&s);
	}
	for (uint32_t capacity = 1; capacity <= 5; capacity++) {
		double expected = 5.0 * (5 - capacity) / 4;
		struct min_steady out = steady(&s, capacity);

		assert_true(out.copy_ins > expected - 1e-9 && out.copy_ins < expected + 1e-9);
		assert_true(out.write_backs == 0);
	}
	assert_int_equal(steady(&s, 2).nr_periods, 4);
}

/* Two sets of three in turn and one block in both, room for four: the others change places. */
static void test_min_sets(void **state)
{
	struct script s;

	(void)state;
	begin(&s, 5);
	for (uint8_t b = 0; b < 3; b++)
		add(&s, (struct min_access){.block = b});
	end_step(&s);
	for (uint8_t b = 2; b < 5; b++)
		add(&s, (struct min_access){.block = b, .write = true});
	end_step(&s);
	assert_true(steady(&s, 5).copy_ins == 0);
	assert_true(steady(&s, 4).copy_ins == 2);
	assert_true(steady(&s, 3).copy_ins == 4);
	/* Of those that go, what was written must be written back. */
	assert_true(steady(&s, 5).write_backs == 0);
	assert_true(steady(&s, 3).write_backs == 2);
}

/* What is born each time costs nothing to have, and a write-back if it is needed later. */
static void test_min_births(void **state)
{
	struct script s;

	(void)state;
	begin(&s, 2);
	add(&s, (struct min_access){.block = 0, .birth = true, .write = true});
	end_step(&s);
	add(&s, (struct min_access){.block = 1, .birth = true, .write = true});
	end_step(&s);
	assert_true(steady(&s, 1).copy_ins == 0);
	assert_true(steady(&s, 1).write_backs == 0);
	/* Read at the end: kept if there is room, else back and forth. */
	add(&s, (struct min_access){.block = 0});
	end_step(&s);
	assert_true(steady(&s, 2).copy_ins == 0);
	assert_true(steady(&s, 2).write_backs == 0);
	assert_true(steady(&s, 1).copy_ins == 1);
	assert_true(steady(&s, 1).write_backs == 1);
}

/* In place: needs no room, sees what was written above, and can be served above. */
static void test_min_in_place(void **state)
{
	struct script s;

	(void)state;
	begin(&s, 2);
	add(&s, (struct min_access){.block = 0, .birth = true, .write = true});
	end_step(&s);
	add(&s, (struct min_access){.block = 1});
	add(&s, (struct min_access){.block = 0, .in_place = true});
	end_step(&s);
	assert_true(steady(&s, 2).copy_ins == 0);
	assert_true(steady(&s, 2).write_backs == 1); /* nothing is kept for that */
	assert_true(steady(&s, 1).copy_ins == 1);    /* of block 1 */
	assert_true(steady(&s, 1).write_backs == 1);

	/* Born in place: it may as well be born above, where there is room. */
	begin(&s, 2);
	add(&s, (struct min_access){.block = 0, .birth = true, .write = true, .in_place = true});
	end_step(&s);
	add(&s, (struct min_access){.block = 1});
	end_step(&s);
	add(&s, (struct min_access){.block = 0});
	end_step(&s);
	assert_true(steady(&s, 2).copy_ins == 0);
	assert_true(steady(&s, 1).copy_ins == 2);
}

/* Each number of periods has its own least sum: the first one is warm-up. */
static void test_min_periods(void **state)
{
	struct min_count count;
	struct script s;
	struct min *min;

	(void)state;
	begin(&s, 3);
	for (uint8_t b = 0; b < 3; b++)
		add(&s, (struct min_access){.block = b});
	end_step(&s);
	assert_int_equal(min_create(&s.trace, 3, MIN_OWN, &min), 0);
	min_period(min, &count);
	assert_int_equal(count.copy_ins, 3);
	min_period(min, &count);
	assert_int_equal(count.copy_ins, 0);
	min_destroy(min);
	min_destroy(NULL);
}

static void test_min_refuses(void **state)
{
	struct min_steady out;
	struct script s;
	uint32_t step;

	(void)state;
	begin(&s, 3);
	assert_int_equal(min_steady(&s.trace, 3, MIN_OWN, &out), -EINVAL); /* no step */
	end_step(&s);
	for (uint8_t b = 0; b < 3; b++)
		add(&s, (struct min_access){.block = b});
	end_step(&s);
	assert_int_equal(min_steady(&s.trace, 3, MIN_OWN, &out), 0);
	assert_int_equal(min_steady(&s.trace, 2, MIN_OWN, &out), -ENOSPC);
	assert_int_equal(min_largest_set(&s.trace, MIN_OWN, &step), 3);
	assert_int_equal(step, 1);
	s.access[2].in_place = true;
	assert_int_equal(min_steady(&s.trace, 2, MIN_OWN, &out), 0);
	s.access[2].near = true;
	assert_int_equal(min_steady(&s.trace, 2, MIN_OWN, &out), 0);
	assert_int_equal(min_steady(&s.trace, 2, MIN_BOTH, &out), -ENOSPC);
	s.access[2].in_place = false;
	assert_int_equal(min_steady(&s.trace, 3, MIN_OWN, &out), -EINVAL);
	s.access[2].in_place = true;
	s.access[2].block = 1; /* twice */
	assert_int_equal(min_steady(&s.trace, 3, MIN_OWN, &out), -EINVAL);
	s.access[2].block = 3; /* there is none */
	assert_int_equal(min_steady(&s.trace, 3, MIN_OWN, &out), -EINVAL);
	s.access[2].block = 2;
	s.first[1] = 4; /* beyond the next step's */
	assert_int_equal(min_steady(&s.trace, 3, MIN_OWN, &out), -EINVAL);
	s.first[0] = 1;
	assert_int_equal(min_steady(&s.trace, 3, MIN_OWN, &out), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_min_scan),    cmocka_unit_test(test_min_sets),
		cmocka_unit_test(test_min_births),  cmocka_unit_test(test_min_in_place),
		cmocka_unit_test(test_min_periods), cmocka_unit_test(test_min_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
