/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong and unlucky use of other GPUs' memories, through the public interface: what a space says to
 * it, in one line, and that it changed nothing. tests/integration/near.sh has the program's side,
 * tests/contract/test_cuda_capture.c a stream that is being captured.
 *
 * Labels: threads
 */
#include <errno.h>
#include <pthread.h>

#include "tests/support/space.h"

#define BLOCK KIB(16)
#define OWN 4u
#define NEAR 8u
#define FAR 24u

static struct {
	char text[512];
	uint32_t nr;
} line;

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level > WEIR_LOG_WARNING)
		return;
	(void)snprintf(line.text, sizeof(line.text), "%s", message);
	line.nr++;
}

/* The call before said that, and no more. */
static void expect_line(const char *part)
{
	if (line.nr != 1 || !strstr(line.text, part))
		fail_msg("not one line with '%s': %u, the last: %s", part, line.nr, line.text);
	line.nr = 0;
}

static void set(struct test_space *t, uint32_t memory, uint64_t nr_blocks, int err)
{
	assert_int_equal(weir_space_set_budget(t->space, memory, nr_blocks * BLOCK), err);
	do_check(t);
}

static struct weir_space_config config_of(uint64_t own, uint64_t near, uint64_t far)
{
	return (struct weir_space_config){
		.budget_bytes = {[GPU0] = own * BLOCK, [GPU1] = near * BLOCK, [HOST] = far * BLOCK},
		.block_bytes = BLOCK,
		.mode = WEIR_PLANNED};
}

static void open_near(struct test_space *t)
{
	test_space_open_places(t, BLOCK, OWN, NEAR, FAR);
	weir_log_set(on_log, NULL);
	line.nr = 0;
}

static void close_near(struct test_space *t)
{
	weir_log_set(NULL, NULL);
	test_space_close(t);
}

/* A space as in the configuration cannot be, says the line; nothing of it is left. */
static void expect_refused(struct weir_machine *machine, const struct weir_space_config *config,
			   int err, const char *part)
{
	struct weir_space *space = NULL;

	assert_int_equal(weir_space_create(machine, config, &space), err);
	assert_null(space);
	expect_line(part);
}

/* ------------------------------------------------------------------ which memory */

/* The GPUs' links: 0 has one to 1 and to 2, these have none to each other, and 3 has none at all
 * but the host's. */
static void test_near_without_a_link(void **state)
{
	struct weir_space_config config = config_of(OWN, NEAR, FAR);
	struct weir_machine *machine;
	struct weir_machine_desc desc;
	struct weir_space *space;
	uint32_t nr = 0;

	(void)state;
	test_machine_gpus(&desc, 4);
	for (uint32_t l = 0; l < desc.nr_links; l++)
		if (desc.link[l].a == HOST || (desc.link[l].a == GPU0 && desc.link[l].b != GPU3))
			desc.link[nr++] = desc.link[l];
	desc.nr_links = nr;
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
	weir_log_set(on_log, NULL);
	line.nr = 0;
	config.budget_bytes[GPU2] = NEAR * BLOCK;
	expect_refused(machine, &config, -ENOTSUP, "there is no link between gpu2 and gpu1");
	config.budget_bytes[GPU1] = 0;
	config.budget_bytes[GPU3] = NEAR * BLOCK;
	expect_refused(machine, &config, -ENOTSUP, "there is no link between gpu3 and gpu0");
	config.budget_bytes[GPU3] = 0;
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	weir_space_destroy(space);
	weir_log_set(NULL, NULL);
	assert_int_equal(line.nr, 0);
	weir_machine_close(machine);
}

/* A machine of one GPU has no other one's memory; nor has a space one that it was made without. */
static void test_near_that_is_none(void **state)
{
	static const uint32_t devices[TEST_STREAMS] = {0};
	struct weir_space_config config = config_of(OWN, NEAR, FAR);
	struct test_space t;

	(void)state;
	test_machine_open_gpus(&t, WEIR_DATA_PHANTOM, 1, devices);
	weir_log_set(on_log, NULL);
	line.nr = 0;
	expect_refused(t.machine, &config, -EINVAL, "a budget of memory 2, of 2 that there are");
	config.budget_bytes[GPU1] = 0;
	assert_int_equal(test_space_create_config(&t, &config), 0);
	set(&t, GPU1, NEAR, -EINVAL);
	expect_line("it was made without a budget of memory 2");
	close_near(&t);
}

/* ------------------------------------------------------------------ how much of it */

static void test_near_of_less_than_two_blocks(void **state)
{
	struct weir_space_config config = config_of(OWN, 1, FAR);
	struct test_space t;
	void *a;

	(void)state;
	open_near(&t);
	expect_refused(t.machine, &config, -EINVAL, "the budget of gpu1 is below two blocks");
	a = do_alloc(&t, 8 * BLOCK, 0);
	do_fill(&t, 0, a, 8 * BLOCK, 1);
	set(&t, GPU1, 1, -EINVAL);
	expect_line("the budget of gpu1 is below two blocks");
	assert_true(get_stats(&t).memory[GPU1].bytes >= 4 * BLOCK);
	do_expect(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	close_near(&t);
}

/* Beyond what the memory has; and beyond what another space leaves of it, which is named. Where
 * other processes have it: tests/contract/test_cuda_wrong.c. */
static void test_near_of_more_than_is_free(void **state)
{
	uint64_t all = MIB(16) / BLOCK;
	struct weir_space_config config = config_of(OWN, all + 1, FAR);
	struct test_space t, other;
	void *a;

	(void)state;
	open_near(&t);
	expect_refused(t.machine, &config, -EINVAL, "is beyond memory 'gpu1', which has 16.8 MB");
	set(&t, GPU1, all + 1, -EINVAL);
	expect_line("is beyond memory 'gpu1', which has 16.8 MB");
	other = t;
	config = config_of(OWN, 0, 0);
	config.devices = WEIR_MEM_DEVICE(1);
	config.budget_bytes[GPU0] = 0;
	assert_int_equal(test_space_create_config(&other, &config), 0);
	a = do_alloc(&other, MIB(15), TEST_OTHER);
	do_fill(&other, TEST_OTHER, a, MIB(15), 1);
	do_sync(&other);
	set(&t, GPU1, all / 2, -ENOMEM);
	expect_line("a budget of 8.4 MB is beyond the 1.0 MB that can be had of gpu1");
	assert_non_null(strstr(line.text, "15.0 MiB in space 2"));
	/* What is not used any more it gives. */
	do_free(&other, a, TEST_OTHER);
	assert_int_equal(weir_space_sync(other.space), 0);
	set(&t, GPU1, all / 2, 0);
	assert_int_equal(line.nr, 0);
	weir_space_destroy(other.space);
	close_near(&t);
}

/* Small allocations stay where they are: a budget is no less than what they hold. */
static void test_near_below_small_allocations(void **state)
{
	struct test_space t;
	uint8_t *a, *small;

	(void)state;
	open_near(&t);
	a = do_alloc(&t, OWN * BLOCK, 0);
	do_begin(&t, 0, a, OWN * BLOCK, WEIR_OVERWRITE);
	small = do_alloc(&t, 256, 1);
	do_end(&t, 0);
	do_write(&t, small, 256, 2);
	do_sync(&t);
	assert_int_equal(get_block_memory(&t, small), GPU1);
	set(&t, GPU1, 0, -EINVAL);
	expect_line("the budget of gpu1 is below 0.016 MB, which allocations below one block hold "
		    "there");
	set(&t, GPU1, 2, 0);
	do_read(&t, small, 256, 2);
	do_free(&t, small, 1);
	do_sync(&t);
	set(&t, GPU1, 0, 0);
	assert_int_equal(get_stats(&t).memory[GPU1].bytes, 0);
	assert_int_equal(line.nr, 0);
	close_near(&t);
}

/* The other memories have no room for what is there: all is as it was. */
static void test_near_with_nowhere_else_to_go(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	test_space_open_places(&t, BLOCK, OWN, NEAR, 4);
	weir_log_set(on_log, NULL);
	line.nr = 0;
	a = do_alloc(&t, 12 * BLOCK, 0);
	do_fill(&t, 0, a, 12 * BLOCK, 1);
	do_sync(&t);
	set(&t, GPU1, 0, -ENOMEM);
	expect_line("with 0.000 MB of gpu1, the budgets are below the 0.197 MB that are allocated");
	do_expect(&t, 0, a, 12 * BLOCK, 1);
	do_sync(&t);
	assert_true(get_stats(&t).memory[GPU1].bytes >= 4 * BLOCK);
	close_near(&t);
}

/* ------------------------------------------------------------------ when */

/* Nothing moves in a fixed space: what is at the neighbour leaves when it is planned again. */
static void test_near_of_a_fixed_space(void **state)
{
	struct test_space t;
	uint64_t held;
	void *a;

	(void)state;
	open_near(&t);
	a = do_alloc(&t, 10 * BLOCK, 0);
	do_fill(&t, 0, a, 10 * BLOCK, 1);
	do_sync(&t);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), 0);
	held = get_stats(&t).memory[GPU1].bytes;
	assert_true(held >= 6 * BLOCK);
	set(&t, GPU1, 0, -EBUSY);
	expect_line("the fixed space holds them; they go when that ends");
	assert_int_equal(get_stats(&t).memory[GPU1].bytes, held);
	do_launch(&t, 0, a, 10 * BLOCK, WEIR_WRITE, 1, 2);
	assert_int_equal(weir_stream_sync(t.stream[0]), 0);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_PLANNED), 0);
	do_sync(&t);
	assert_int_equal(get_stats(&t).memory[GPU1].bytes, 0);
	do_expect(&t, 0, a, 10 * BLOCK, 2);
	do_sync(&t);
	close_near(&t);
}

/* The same inside a bracket, for what it names. */
static void test_near_inside_a_bracket(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	open_near(&t);
	a = do_alloc(&t, 10 * BLOCK, 0);
	do_fill(&t, 0, a, 10 * BLOCK, 1);
	do_sync(&t);
	do_begin(&t, 0, a, 10 * BLOCK, WEIR_READ);
	set(&t, GPU1, 0, -EBUSY);
	expect_line("open brackets hold them; they go when that ends");
	do_launch(&t, 0, a, 10 * BLOCK, WEIR_READ, 1, 0);
	do_end(&t, 0);
	do_sync(&t);
	assert_int_equal(get_stats(&t).memory[GPU1].bytes, 0);
	do_expect(&t, 0, a, 10 * BLOCK, 1);
	do_sync(&t);
	close_near(&t);
}

/* ------------------------------------------------------------------ two threads */

#define NR_TURNS 200u

struct setter {
	struct weir_space *space;
	uint64_t blocks[2];
	uint32_t nr_refused;
};

static void *setter_run(void *arg)
{
	struct setter *s = arg;

	for (uint32_t i = 0; i < NR_TURNS; i++)
		s->nr_refused +=
			weir_space_set_budget(s->space, GPU1, s->blocks[i % 2] * BLOCK) != 0;
	return NULL;
}

/* Calls of two threads come one after the other: each of them finds the space whole, and the budget
 * is in the end one that was asked for. */
static void test_near_of_two_threads(void **state)
{
	struct test_space t;
	struct setter setter[2];
	pthread_t thread[2];
	uint64_t max;
	void *a;

	(void)state;
	open_near(&t);
	a = do_alloc(&t, 12 * BLOCK, 0);
	do_fill(&t, 0, a, 12 * BLOCK, 1);
	for (uint32_t i = 0; i < 2; i++) {
		setter[i] = (struct setter){.space = t.space, .blocks = {i ? 2 : 0, NEAR - i}};
		assert_int_equal(pthread_create(&thread[i], NULL, setter_run, &setter[i]), 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(setter[i].nr_refused, 0);
	}
	assert_int_equal(line.nr, 0);
	max = t.space->pmm[1].max_chunks;
	assert_true(max == NEAR || max == NEAR - 1);
	do_expect(&t, 0, a, 12 * BLOCK, 1);
	do_sync(&t);
	close_near(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_near_without_a_link),
		cmocka_unit_test(test_near_that_is_none),
		cmocka_unit_test(test_near_of_less_than_two_blocks),
		cmocka_unit_test(test_near_of_more_than_is_free),
		cmocka_unit_test(test_near_below_small_allocations),
		cmocka_unit_test(test_near_with_nowhere_else_to_go),
		cmocka_unit_test(test_near_of_a_fixed_space),
		cmocka_unit_test(test_near_inside_a_bracket),
		cmocka_unit_test(test_near_of_two_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
