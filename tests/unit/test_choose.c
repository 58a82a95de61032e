/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory an object goes to: each reason, each error, and what holds for any use. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/cost/cost.h"
#include "src/mem/mem.h"
#include "tests/unit/test_sim_machine.h"

#define ALL_ROOM                          \
	{                                 \
		MIB(64), MIB(16), MIB(16) \
	}
#define NR_RANDOM 20000

static const uint64_t roomy[WEIR_MEMORIES_MAX] = ALL_ROOM;

static void expect(const uint64_t *room, uint64_t bytes, struct weir_mem_use use, uint32_t memory,
		   enum weir_choice choice)
{
	struct weir_machine_desc desc;
	enum weir_choice why;
	uint32_t where;

	test_machine(&desc);
	assert_int_equal(weir_memory_choose(&desc, room, bytes, &use, &where, &why), 0);
	assert_int_equal(where, memory);
	assert_int_equal(why, choice);
}

static void test_choose_cpu(void **state)
{
	(void)state;
	expect(roomy, 100, (struct weir_mem_use){0}, HOST, WEIR_CHOICE_CPU);
	expect(roomy, 100, (struct weir_mem_use){.devices = 3, .cpu = 1}, HOST, WEIR_CHOICE_CPU);
}

static void test_choose_own(void **state)
{
	(void)state;
	expect(roomy, 100, (struct weir_mem_use){.devices = 1}, GPU0, WEIR_CHOICE_OWN);
	expect(roomy, MIB(8), (struct weir_mem_use){.devices = 2}, GPU1, WEIR_CHOICE_OWN);
	expect(roomy, MIB(8), (struct weir_mem_use){.devices = 2, .pattern = WEIR_RANDOM}, GPU1,
	       WEIR_CHOICE_OWN);
}

/* The link takes 2 bytes a nanosecond in place and 4 to copy, HBM 100: with 1 us of latency, one
 * pass is worth a copy from 1100 / (1 / 2 - 1 / 4 - 1 / 100) = 4583 bytes on; two from the half. */
static void test_choose_seldom(void **state)
{
	struct weir_mem_use use = {.devices = 1, .times = 1};

	(void)state;
	expect(roomy, 4500, use, HOST, WEIR_CHOICE_SELDOM);
	expect(roomy, 4700, use, GPU0, WEIR_CHOICE_OWN);
	use.times = 2;
	expect(roomy, 1400, use, HOST, WEIR_CHOICE_SELDOM);
	expect(roomy, 1600, use, GPU0, WEIR_CHOICE_OWN);
}

/* Both devices use it: in one's memory the other has it over the fast link in between. */
static void test_choose_shared(void **state)
{
	struct weir_machine_desc desc;
	struct weir_mem_use use = {.devices = 3};
	enum weir_choice why;
	uint32_t where;

	(void)state;
	expect(roomy, MIB(1), use, GPU0, WEIR_CHOICE_SHARED);
	/* Without that link only the host's memory serves both. */
	test_machine(&desc);
	desc.nr_links = 2;
	assert_int_equal(weir_memory_choose(&desc, roomy, MIB(1), &use, &where, &why), 0);
	assert_int_equal(where, HOST);
	assert_int_equal(why, WEIR_CHOICE_SHARED);
}

static void test_choose_pressure(void **state)
{
	const uint64_t own_full[WEIR_MEMORIES_MAX] = {MIB(64), MIB(1) - 1, MIB(16)};
	const uint64_t gpus_full[WEIR_MEMORIES_MAX] = {MIB(64), 0, 0};
	const uint64_t just[WEIR_MEMORIES_MAX] = {0, MIB(1), 0}, none[WEIR_MEMORIES_MAX] = {0};
	struct weir_mem_use use = {.devices = 1};
	struct weir_machine_desc desc;
	enum weir_choice why = WEIR_CHOICE_NR;
	uint32_t where = 77;

	(void)state;
	expect(just, MIB(1), use, GPU0, WEIR_CHOICE_OWN);
	expect(gpus_full, MIB(1), use, HOST, WEIR_CHOICE_PRESSURE);
	/* A neighbour as fast as the host's link comes before the host. */
	expect(own_full, MIB(1), use, GPU1, WEIR_CHOICE_PRESSURE);
	test_machine(&desc);
	assert_int_equal(weir_memory_choose(&desc, none, 1, &use, &where, &why), -ENOMEM);
	use.cpu = 1;
	assert_int_equal(weir_memory_choose(&desc, just, 1, &use, &where, &why), -ENOMEM);
	assert_int_equal(where, 77);
	assert_int_equal(why, WEIR_CHOICE_NR);
}

static void test_choose_errors(void **state)
{
	struct weir_machine_desc desc;
	struct weir_mem_use use = {.devices = 1};
	enum weir_choice why;
	uint32_t where;

	(void)state;
	test_machine(&desc);
	assert_int_equal(weir_memory_choose(&desc, roomy, 0, &use, &where, &why), -EINVAL);
	use.devices = 4;
	assert_int_equal(weir_memory_choose(&desc, roomy, 1, &use, &where, &why), -EINVAL);
	use.devices = 1;
	use.pattern = (enum weir_use_pattern)9;
	assert_int_equal(weir_memory_choose(&desc, roomy, 1, &use, &where, &why), -EINVAL);
}

static void test_choose_texts(void **state)
{
	(void)state;
	for (int a = 0; a < WEIR_CHOICE_NR; a++)
		for (int b = 0; b < a; b++)
			assert_string_not_equal(weir_choice_text((enum weir_choice)a),
						weir_choice_text((enum weir_choice)b));
	assert_string_equal(weir_choice_text(WEIR_CHOICE_NR), "unknown");
	assert_string_equal(weir_choice_text((enum weir_choice) - 1), "unknown");
}

/* Of any use: there is room, all who use it reach it, it does not depend on memories that were not
 * chosen and are full anyway, and more use never sends it from a GPU to the host. */
static void test_choose_any(void **state)
{
	struct weir_machine_desc desc;

	(void)state;
	srand(7);
	test_machine(&desc);
	for (int i = 0; i < NR_RANDOM; i++) {
		uint64_t room[WEIR_MEMORIES_MAX] = {(uint64_t)rand() % MIB(64),
						    (uint64_t)rand() % MIB(16),
						    (uint64_t)rand() % MIB(16)};
		uint64_t bytes = 1 + (uint64_t)rand() % (UINT64_C(1) << (rand() % 25));
		struct weir_mem_use use = {.devices = (uint32_t)rand() % 4,
					   .cpu = rand() % 8 == 0,
					   .pattern = rand() % 2 ? WEIR_STREAM : WEIR_RANDOM,
					   .granule = (uint32_t)rand() % 300,
					   .times = (uint32_t)rand() % 5};
		uint32_t where = 77, again = 77;
		enum weir_choice why, why_again;
		int err;

		desc.nr_links = 2 + (uint32_t)rand() % 2;
		err = weir_memory_choose(&desc, room, bytes, &use, &where, &why);
		if (err) {
			assert_int_equal(err, -ENOMEM);
			assert_true(room[HOST] < bytes);
			continue;
		}
		assert_true(room[where] >= bytes);
		for (uint32_t d = 0; d < 2; d++)
			assert_true(!(use.devices & 1u << d) || mem_reaches(&desc, d, where));
		assert_true(where == HOST || (!use.cpu && use.devices));
		for (uint32_t m = 0; m < 3; m++)
			if (room[m] < bytes)
				room[m] = 0;
		assert_int_equal(weir_memory_choose(&desc, room, bytes, &use, &again, &why_again),
				 0);
		assert_int_equal(again, where);
		assert_int_equal(why_again, why);
		if (where != HOST && use.times) {
			use.times++;
			assert_int_equal(
				weir_memory_choose(&desc, room, bytes, &use, &again, &why_again),
				0);
			assert_int_not_equal(again, HOST);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choose_cpu),	cmocka_unit_test(test_choose_own),
		cmocka_unit_test(test_choose_seldom),	cmocka_unit_test(test_choose_shared),
		cmocka_unit_test(test_choose_pressure), cmocka_unit_test(test_choose_errors),
		cmocka_unit_test(test_choose_texts),	cmocka_unit_test(test_choose_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
