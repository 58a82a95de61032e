/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages and answers, many times, by each mechanism: two devices in turn read what the other one
 * wrote last in two runs of elements of a part, and write the same runs of the other part. Nothing
 * waits on the host, so that up to some tens of messages are under way both ways. Also run on GPUs,
 * 100,000 times (MESSAGES says how often).
 *
 * Long: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/replica/parcel.h"
#include "tests/support/amount.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"

#define BLOCK (test_machine_kind() == TEST_GPU ? MIB(2) : KIB(16))
#define ELEMENT 8u
#define RUN 24u	       /* elements: a packet has two of them, and no whole number of groups */
#define ONE TEST_OTHER /* a stream of device 1; 0 is one of device 0 */

static const struct test_amount rounds = {500, 100, 100000};

/* Where the runs begin in a part: in its middle, and at an odd element behind that. */
static uint64_t run_offset(uint32_t n)
{
	return BLOCK / 2 + n * (BLOCK / 4 + ELEMENT);
}

/* Give a device the runs of both parts as its list. */
static void give_list(struct test_space *t, uint8_t *a, uint32_t device)
{
	uint32_t element[4 * RUN], nr = 0;

	for (uint32_t part = 0; part < 2; part++)
		for (uint32_t n = 0; n < 2; n++)
			for (uint32_t i = 0; i < RUN; i++)
				element[nr++] =
					(uint32_t)((part * BLOCK + run_offset(n)) / ELEMENT + i);
	assert_int_equal(weir_subscribe_elements(t->space, a, element, nr, device), 0);
}

/* One device's turn: it finds `expect` in one part's runs, and puts another seed in the other's. */
static void turn(struct test_space *t, uint8_t *a, uint32_t device, uint32_t expect, uint32_t put)
{
	const uint32_t stream = device ? ONE : 0;
	const uint64_t in = device ? 0 : BLOCK, out = BLOCK - in;
	struct weir_use uses[2];
	uint8_t *window;
	void *addr;

	assert_int_equal(weir_replica(t->space, a, device, &addr), 0);
	window = addr;
	uses[0] = use_of(window + in, BLOCK, WEIR_READ_ELEMENTS);
	uses[1] = use_of(window + out, BLOCK, WEIR_WRITE);
	assert_int_equal(weir_begin(t->space, t->stream[stream], uses, 2), 0);
	for (uint32_t n = 0; n < 2; n++) {
		const uint64_t at = run_offset(n);

		do_launch_as(t, stream, window + in + at, RUN * ELEMENT, WEIR_READ, expect, 0,
			     a + in + at);
		do_launch_as(t, stream, window + out + at, RUN * ELEMENT, WEIR_WRITE, 0, put,
			     a + out + at);
	}
	do_end(t, stream);
}

static void test_messages_both_ways(void **state)
{
	const struct weir_replica_params params = {.element_bytes = ELEMENT};
	const uint32_t nr = (uint32_t)test_amount("MESSAGES", rounds);

	(void)state;
	for (uint32_t how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++) {
		struct weir_replica_stats stats;
		struct test_space t;
		uint8_t *a;

		test_space_open_devices(&t, BLOCK, 32, 32, 32);
		a = do_alloc(&t, 2 * BLOCK, 0);
		do_write(&t, a, 2 * BLOCK, 1);
		assert_int_equal(weir_replicate(t.space, a, &params), 0);
		replicas_of(t.space)->forced = how + 1;
		give_list(&t, a, 0);
		give_list(&t, a, 1);
		for (uint32_t i = 1; i <= nr; i++) {
			turn(&t, a, 0, i, i + 1);
			turn(&t, a, 1, i + 1, i + 1);
		}
		do_check(&t);
		do_sync(&t);
		weir_replica_query(t.space, &stats);
		assert_true(stats.nr_sent[how] >= 2 * nr - 2);
		assert_true(stats.nr_messages[WEIR_PUBLISHED] > nr);
		test_space_close(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
