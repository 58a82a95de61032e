/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that nobody uses any more can go, though nothing was asked of the machine since the last
 * messages were done: by weir_unsubscribe(), and for others who have no room. And messages that are
 * done do not pile up.
 */
#include "src/replica/replica.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define BYTES (4 * BLOCK)

struct fixture {
	struct test_space t; /* stream n is of device n */
	uint8_t *a, *window[2];
};

/* Device 1 is sent what device 0 wrote, and has read it; both are done. */
static void open_fixture(struct fixture *f)
{
	static const uint32_t devices[TEST_STREAMS] = {0, 1};
	struct weir_space_config config = {
		.devices = 3,
		.budget_bytes = {[HOST] = 32 * BLOCK, [GPU0] = 32 * BLOCK, [GPU1] = 32 * BLOCK},
		.block_bytes = BLOCK,
		.mode = WEIR_PLANNED};
	void *window;

	test_machine_open_gpus(&f->t, WEIR_DATA_REAL, 2, devices);
	assert_int_equal(test_space_create_config(&f->t, &config), 0);
	f->a = do_alloc(&f->t, BYTES, 0);
	do_write(&f->t, f->a, BYTES, 1);
	assert_int_equal(weir_replicate(f->t.space, f->a, NULL), 0);
	for (uint32_t d = 0; d < 2; d++) {
		assert_int_equal(weir_replica(f->t.space, f->a, d, &window), 0);
		f->window[d] = window;
	}
	assert_int_equal(weir_subscribe(f->t.space, f->a, BYTES, 1), 0);
	do_begin(&f->t, 0, f->window[0], BYTES, WEIR_OVERWRITE);
	do_launch_as(&f->t, 0, f->window[0], BYTES, WEIR_OVERWRITE, 0, 2, f->a);
	do_end(&f->t, 0);
	do_begin(&f->t, 1, f->window[1], BYTES, WEIR_READ);
	do_launch_as(&f->t, 1, f->window[1], BYTES, WEIR_READ, 2, 0, f->a);
	do_end(&f->t, 1);
	for (uint32_t d = 0; d < 2; d++)
		assert_int_equal(weir_stream_sync(f->t.stream[d]), 0);
	/* The space learns that the brackets are done. */
	do_free(&f->t, do_alloc(&f->t, BLOCK, 0), 0);
}

static uint64_t copy_bytes(const struct fixture *f, uint32_t memory)
{
	struct weir_replica_stats stats;

	weir_replica_query(f->t.space, &stats);
	return stats.copy_bytes[memory];
}

static void close_fixture(struct fixture *f)
{
	assert_int_equal(copy_bytes(f, GPU1), 0);
	do_check(&f->t);
	/* It is brought there again. */
	do_begin(&f->t, 1, f->window[1], BYTES, WEIR_READ);
	do_launch_as(&f->t, 1, f->window[1], BYTES, WEIR_READ, 2, 0, f->a);
	do_end(&f->t, 1);
	do_sync(&f->t);
	do_read(&f->t, f->a, BYTES, 2);
	test_space_close(&f->t);
}

static void test_replica_give_unsubscribed(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f);
	assert_int_equal(copy_bytes(&f, GPU1), BYTES);
	assert_int_equal(weir_unsubscribe(f.t.space, f.a, BYTES, 1), 0);
	close_fixture(&f);
}

static void test_replica_give_others(void **state)
{
	struct fixture f;
	struct phys_client *client;

	(void)state;
	open_fixture(&f);
	client = &replicas_of(f.t.space)->memory[1].client;
	assert_int_equal(copy_bytes(&f, GPU1), BYTES);
	assert_int_equal(client->give(client, BYTES), BYTES);
	close_fixture(&f);
}

/* Messages that are done are let go of in time, in a program that only goes on. */
static void test_replica_give_messages(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f);
	for (uint32_t n = 0; n < 100; n++) {
		do_begin(&f.t, 0, f.window[0], BYTES, WEIR_OVERWRITE);
		do_launch_as(&f.t, 0, f.window[0], BYTES, WEIR_OVERWRITE, 0, 2, f.a);
		do_end(&f.t, 0);
		assert_int_equal(weir_stream_sync(f.t.stream[0]), 0);
		assert_true(replicas_of(f.t.space)->nr_messages <= 16);
	}
	do_sync(&f.t);
	assert_int_equal(replicas_of(f.t.space)->nr_messages, 0);
	assert_int_equal(weir_unsubscribe(f.t.space, f.a, BYTES, 1), 0);
	close_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replica_give_unsubscribed),
		cmocka_unit_test(test_replica_give_others),
		cmocka_unit_test(test_replica_give_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
