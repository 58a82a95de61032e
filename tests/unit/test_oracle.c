/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From launches to MIN's blocks: what counts as contents that are needed, on traces written by
 * hand; and trainings under weir, whose copies in cannot be fewer than MIN's.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/test_sim_machine.h"
#include "workloads/gcn/gcn.h"
#include "workloads/oracle.h"

#define BLOCK UINT64_C(4096)
#define MAX 32

/* ------------------------------------------------------------------ traces by hand */

struct script {
	struct trace trace;
	struct trace_step steps[MAX];
	struct trace_use uses[MAX];
	struct trace_life lives[MAX];
	bool resident[MAX];
};

static void begin(struct script *s)
{
	*s = (struct script){.trace = {.block_bytes = BLOCK}};
	s->trace.steps = s->steps;
	s->trace.uses = s->uses;
	s->trace.lives = s->lives;
	s->trace.resident = s->resident;
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

/* A use of the newest step; where: 'H' or 'p' for each block, in HBM or in place. */
static void use(struct script *s, uint32_t life, uint64_t offset, uint64_t bytes,
		enum weir_use_kind kind, const char *where)
{
	s->uses[s->trace.nr_uses++] =
		(struct trace_use){.life = life, .offset = offset, .bytes = bytes, .kind = kind};
	s->steps[s->trace.nr_steps - 1].nr_uses++;
	for (; *where; where++)
		s->resident[s->trace.nr_resident++] = *where == 'H';
}

static struct oracle_result compute(const struct script *s, uint64_t capacity)
{
	struct oracle_result out;

	assert_int_equal(oracle_compute(&s->trace, capacity, &out), 0);
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
	assert_int_equal(oracle_compute(&s.trace, 2, &out), 0);
	assert_int_equal(oracle_compute(&s.trace, 1, &out), -ENOSPC);
	s.trace.nr_resident = 1;
	assert_int_equal(oracle_compute(&s.trace, 2, &out), -EINVAL);
	s.trace.nr_resident = 2;
	s.lives[a].death = 1; /* before the trace, but not after it */
	assert_int_equal(oracle_compute(&s.trace, 2, &out), -EXDEV);
	s.lives[a] = (struct trace_life){.bytes = 2 * BLOCK, .birth = 0, .death = TRACE_NEVER};
	assert_int_equal(oracle_compute(&s.trace, 2, &out), -EXDEV);
	s.trace.block_bytes = 0;
	s.trace.nr_resident = 0;
	assert_int_equal(oracle_compute(&s.trace, 2, &out), -ENODATA);
}

/* ------------------------------------------------------------------ trainings under weir */

#define FIRST 5u /* epoch: by then weir is in its steady state */
#define EPOCHS 9u

struct training {
	struct manager *m;
	struct manager_stats from, to;
	struct trace *trace;
	bool started;
};

static int listen(void *arg, uint32_t done, uint32_t total)
{
	struct training *t = arg;

	if (done == FIRST && !t->started) {
		t->started = true;
		t->m->ops->stats(t->m, &t->from);
		assert_int_equal(trace_manager_start(t->m), 0);
	} else if (done == total && !t->trace) {
		t->m->ops->stats(t->m, &t->to);
		assert_int_equal(trace_manager_stop(t->m, &t->trace), 0);
	}
	return 0;
}

/* Train with so many blocks; copies in of an epoch, weir's and MIN's. */
static void train(uint64_t gpu_blocks, double *copied, double *least)
{
	struct manager_config config = {
		.gpu_budget_bytes = gpu_blocks * BLOCK, .block_bytes = BLOCK, .options = ""};
	struct gcn_params params = {.nodes = 1500,
				    .slice = 3000,
				    .epochs = EPOCHS,
				    .seed = 11,
				    .hidden = 48,
				    .threads = 1,
				    .progress = listen};
	struct training t = {0};
	struct workload_result result;
	struct weir_machine_desc desc;
	struct oracle_result oracle;
	struct manager *inner;
	char why[256];

	params.progress_arg = &t;
	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &config.machine), 0);
	assert_int_equal(manager_create("weir", &config, &inner), 0);
	assert_int_equal(trace_manager_create(inner, &t.m), 0);
	assert_int_equal(gcn_run(t.m, &params, &result, why, sizeof(why)), 0);
	assert_non_null(t.trace);
	assert_int_equal(oracle_compute(t.trace, t.to.movable_blocks, &oracle), 0);
	assert_true(t.to.movable_blocks < gpu_blocks); /* there are arenas */
	assert_true(oracle.largest_set <= t.to.movable_blocks);
	*copied = 0;
	for (int cause = 0; cause < WEIR_CAUSE_INPLACE; cause++)
		*copied += (double)(t.to.bytes[WEIR_TO_DEVICE][cause] -
				    t.from.bytes[WEIR_TO_DEVICE][cause]) /
			   (double)BLOCK / (EPOCHS - FIRST);
	*least = oracle.copy_ins / (EPOCHS - FIRST);
	trace_destroy(t.trace);
	gcn_result_free(&result);
	t.m->ops->destroy(t.m);
	weir_machine_close(config.machine);
}

/* Whatever weir does in its steady state, MIN does it with no more copies. */
static void test_oracle_is_below_weir(void **state)
{
	uint32_t nr_copying = 0;

	(void)state;
	for (uint64_t blocks = 300; blocks <= 900; blocks += 200) {
		double copied, least;

		train(blocks, &copied, &least);
		print_message("%4u blocks: copies in %.2f an epoch, MIN %.2f\n",
			      (unsigned int)blocks, copied, least);
		assert_true(copied >= least);
		nr_copying += least > 10;
	}
	assert_true(nr_copying >= 3);
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
		cmocka_unit_test(test_oracle_refuses),
		cmocka_unit_test(test_oracle_is_below_weir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
