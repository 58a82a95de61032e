/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From launches to MIN's blocks: what counts as contents that are needed, on traces written by
 * hand. That no run has fewer copies in is tests/integration/oracle.sh's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "workloads/oracle.h"

#define BLOCK UINT64_C(4096)
#define MAX 32

/* ------------------------------------------------------------------ traces by hand */

struct script {
	struct trace trace;
	struct trace_step steps[MAX];
	struct trace_use uses[MAX];
	struct trace_life lives[MAX];
	uint8_t where[MAX];
};

static void begin(struct script *s)
{
	*s = (struct script){.trace = {.block_bytes = BLOCK}};
	s->trace.steps = s->steps;
	s->trace.uses = s->uses;
	s->trace.lives = s->lives;
	s->trace.where = s->where;
}

/* A life before and after the trace; in it, from now on. */
static uint32_t permanent(struct script *s, uint64_t bytes)
{
	s->lives[s->trace.nr_lives] =
		(struct trace_life){.bytes = bytes, .birth = TRACE_NEVER, .death = TRACE_NEVER};
	return s->trace.nr_lives++;
}

static uint32_t temporary(struct script *s, uint64_t bytes)
{
	s->lives[s->trace.nr_lives] = (struct trace_life){
		.bytes = bytes, .birth = s->trace.nr_steps, .death = TRACE_NEVER - 1};
	return s->trace.nr_lives++;
}

static void end_life(struct script *s, uint32_t life)
{
	s->lives[life].death = s->trace.nr_steps;
}

/* A launch (or, program, a write of the program's) with uses to be added. */
static void step(struct script *s, bool program)
{
	s->steps[s->trace.nr_steps++] = (struct trace_step){.name = program ? NULL : "kernel",
							    .first_use = s->trace.nr_uses};
}

/* A use of the newest step; where: 'H', 'p' or 'n' for each block, in HBM, in place on the host or
 * in place at a neighbour. */
static void use(struct script *s, uint32_t life, uint64_t offset, uint64_t bytes,
		enum weir_use_kind kind, const char *where)
{
	s->uses[s->trace.nr_uses++] =
		(struct trace_use){.life = life, .offset = offset, .bytes = bytes, .kind = kind};
	s->steps[s->trace.nr_steps - 1].nr_uses++;
	for (; *where; where++)
		s->where[s->trace.nr_where++] = *where == 'H'	? MANAGER_OWN
						: *where == 'n' ? MANAGER_NEAR
								: MANAGER_HOST;
}

static struct oracle_result compute(const struct script *s, uint64_t capacity)
{
	struct oracle_result out;

	assert_int_equal(oracle_compute(&s->trace, capacity, 0, &out), 0);
	assert_true(out.exact);
	return out;
}

/* Two blocks in turn with room for one: both come in, each epoch. */
static void test_oracle_copies(void **state)
{
	struct oracle_result out;
	struct script s;
	uint32_t a;

	(void)state;
	begin(&s);
	a = permanent(&s, 2 * BLOCK - 7);
	step(&s, false);
	use(&s, a, 0, BLOCK, WEIR_READ, "H");
	use(&s, a, 5, 6, WEIR_WRITE, "H"); /* the same block once more */
	step(&s, false);
	use(&s, a, BLOCK, BLOCK - 7, WEIR_READ, "H");
	out = compute(&s, 1);
	assert_true(out.copy_ins == 2);
	assert_true(out.write_backs == 1);
	assert_int_equal(out.nr_blocks, 2);
	assert_int_equal(out.largest_set, 1);
	assert_int_equal(out.nr_resident, 2);
	assert_int_equal(out.nr_in_place, 0);
	assert_int_equal(out.nr_births, 0);
	assert_true(compute(&s, 2).copy_ins == 0);
}

/* What is overwritten whole is not copied in, what is overwritten in part is. */
static void test_oracle_overwrites(void **state)
{
	struct script s;
	uint32_t a, b;

	(void)state;
	begin(&s);
	a = permanent(&s, 2 * BLOCK - 7);
	b = permanent(&s, 2 * BLOCK);
	step(&s, false);
	use(&s, a, 1, 2 * BLOCK - 8, WEIR_OVERWRITE, "HH"); /* from the second byte on */
	step(&s, false);
	use(&s, b, 0, 2 * BLOCK, WEIR_OVERWRITE, "HH");
	assert_true(compute(&s, 2).copy_ins == 1);
	assert_int_equal(compute(&s, 2).nr_births, 3);
	/* Read and overwritten in one launch: needed. */
	use(&s, b, BLOCK, 1, WEIR_READ, "H");
	assert_true(compute(&s, 2).copy_ins == 2);
	assert_int_equal(compute(&s, 2).nr_births, 2);
}

/* A life begins without contents, wherever it is, and even partly overwritten. */
static void test_oracle_lives(void **state)
{
	struct script s;
	uint32_t a, b;

	(void)state;
	begin(&s);
	a = permanent(&s, BLOCK);
	step(&s, false);
	use(&s, a, 0, BLOCK, WEIR_READ, "H");
	b = temporary(&s, BLOCK);
	step(&s, false);
	use(&s, b, 0, 9, WEIR_OVERWRITE, "H");
	step(&s, false);
	use(&s, b, 0, BLOCK, WEIR_READ, "H");
	end_life(&s, b);
	assert_true(compute(&s, 1).copy_ins == 1);
	assert_true(compute(&s, 1).write_backs == 0);
	assert_int_equal(compute(&s, 1).nr_births, 1);
	/* With a, between its birth and its end, it goes and comes, or a does. */
	step(&s, false);
	use(&s, a, 0, BLOCK, WEIR_READ, "H");
	step(&s, false);
	use(&s, b, 0, BLOCK, WEIR_READ, "H");
	end_life(&s, b);
	assert_true(compute(&s, 1).copy_ins == 3);
	assert_true(compute(&s, 2).copy_ins == 0);
}

/* Discarded contents are not needed; what is discarded in part, or used as well, stays. */
static void test_oracle_discards(void **state)
{
	struct script s;
	uint32_t a, b;

	(void)state;
	begin(&s);
	a = permanent(&s, 2 * BLOCK);
	b = permanent(&s, 2 * BLOCK);
	step(&s, false);
	use(&s, a, 0, 2 * BLOCK, WEIR_WRITE, "HH");
	step(&s, false);
	use(&s, b, 0, 2 * BLOCK, WEIR_READ, "HH");
	assert_true(compute(&s, 2).copy_ins == 4);
	assert_true(compute(&s, 2).write_backs == 2);
	use(&s, a, 0, 2 * BLOCK - 1, WEIR_DISCARD, "Hp");
	assert_true(compute(&s, 2).copy_ins == 4); /* a is permanent, and read as written */
	step(&s, false);
	use(&s, a, 0, 2 * BLOCK, WEIR_READ, "HH");
	assert_true(compute(&s, 2).copy_ins == 3); /* both of b, and the second of a */
	assert_int_equal(compute(&s, 2).nr_births, 1);
	/* In a launch that uses the part as well the discard says nothing. */
	s.uses[2].life = b;
	assert_true(compute(&s, 2).copy_ins == 4);
	assert_int_equal(compute(&s, 2).nr_births, 0);
}

/* The program's own writes make contents, in place or not. */
static void test_oracle_program_writes(void **state)
{
	struct script s;
	uint32_t a, b;

	(void)state;
	begin(&s);
	a = permanent(&s, BLOCK);
	b = permanent(&s, BLOCK);
	step(&s, true);
	use(&s, a, 0, BLOCK, WEIR_DISCARD, "");
	step(&s, false);
	use(&s, b, 0, BLOCK, WEIR_READ, "H");
	step(&s, false);
	use(&s, a, 0, BLOCK, WEIR_READ, "H");
	assert_true(compute(&s, 1).copy_ins == 2);
	assert_true(compute(&s, 2).copy_ins == 0);
	assert_int_equal(compute(&s, 1).nr_in_place, 1);
	assert_int_equal(compute(&s, 1).nr_births, 1);
}

static void test_oracle_in_place(void **state)
{
	struct oracle_result out;
	struct script s;
	uint32_t a, small;

	(void)state;
	begin(&s);
	a = permanent(&s, 3 * BLOCK);
	small = permanent(&s, BLOCK - 1); /* does not move, hence does not count */
	step(&s, false);
	use(&s, a, 0, 3 * BLOCK, WEIR_READ, "HpH");
	use(&s, small, 0, 7, WEIR_WRITE, "H");
	out = compute(&s, 2);
	assert_true(out.copy_ins == 0);
	assert_int_equal(out.nr_blocks, 3);
	assert_int_equal(out.nr_in_place, 1);
	assert_int_equal(out.nr_resident, 2);
	assert_int_equal(out.largest_set, 2);
}

/* Three blocks in turn, one of them in place at a neighbour: the device's memory holds one, and
 * both together hold all or one less. */
static void test_oracle_near(void **state)
{
	struct oracle_result out;
	struct script s;
	uint32_t a;

	(void)state;
	begin(&s);
	a = permanent(&s, 3 * BLOCK);
	step(&s, false);
	use(&s, a, 0, BLOCK, WEIR_READ, "H");
	step(&s, false);
	use(&s, a, BLOCK, BLOCK, WEIR_WRITE, "H");
	step(&s, false);
	use(&s, a, 2 * BLOCK, BLOCK, WEIR_READ, "n");
	assert_int_equal(oracle_compute(&s.trace, 1, 2, &out), 0);
	assert_true(out.copy_ins == 2);
	assert_true(out.write_backs == 1);
	assert_true(out.host_copy_ins == 0);
	assert_true(out.host_write_backs == 0);
	assert_int_equal(out.nr_in_place, 1);
	assert_int_equal(oracle_compute(&s.trace, 1, 1, &out), 0);
	assert_true(out.exact);
	assert_true(out.copy_ins == 2);
	assert_true(out.host_copy_ins == 1.5); /* of three blocks in turn, with room for two */
	assert_int_equal(oracle_compute(&s.trace, 1, 0, &out), 0);
	assert_true(out.host_copy_ins == 3);
	use(&s, a, 0, BLOCK, WEIR_READ, "n");
	assert_int_equal(oracle_compute(&s.trace, 1, 0, &out), -ENOSPC);
	s.where[0] = 3; /* nowhere that there is */
	assert_int_equal(oracle_compute(&s.trace, 1, 2, &out), -EINVAL);
}

static void test_oracle_refuses(void **state)
{
	struct oracle_result out;
	struct script s;
	uint32_t a;

	(void)state;
	begin(&s);
	a = permanent(&s, 2 * BLOCK);
	step(&s, false);
	use(&s, a, 0, 2 * BLOCK, WEIR_READ, "HH");
	assert_int_equal(oracle_compute(&s.trace, 2, 0, &out), 0);
	assert_int_equal(oracle_compute(&s.trace, 1, 0, &out), -ENOSPC);
	s.trace.nr_where = 1;
	assert_int_equal(oracle_compute(&s.trace, 2, 0, &out), -EINVAL);
	s.trace.nr_where = 2;
	s.lives[a].death = 1; /* before the trace, but not after it */
	assert_int_equal(oracle_compute(&s.trace, 2, 0, &out), -EXDEV);
	s.lives[a] = (struct trace_life){.bytes = 2 * BLOCK, .birth = 0, .death = TRACE_NEVER};
	assert_int_equal(oracle_compute(&s.trace, 2, 0, &out), -EXDEV);
	s.trace.block_bytes = 0;
	s.trace.nr_where = 0;
	assert_int_equal(oracle_compute(&s.trace, 2, 0, &out), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_oracle_copies),
		cmocka_unit_test(test_oracle_overwrites),
		cmocka_unit_test(test_oracle_lives),
		cmocka_unit_test(test_oracle_discards),
		cmocka_unit_test(test_oracle_program_writes),
		cmocka_unit_test(test_oracle_in_place),
		cmocka_unit_test(test_oracle_near),
		cmocka_unit_test(test_oracle_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
