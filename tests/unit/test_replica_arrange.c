/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a device has no room for copies of all that it uses, it has copies of what it uses most: in
 * a program whose uses repeat, after a while, and then nothing is mapped any more.
 */
#include "src/replica/replica.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define COLD_BYTES (8 * BLOCK)
#define HOT_BYTES (4 * BLOCK)
#define ONE TEST_OTHER /* a stream of device 1; 0 is one of device 0 */
/* So often a hot byte is read in a bracket: together they are 10 ms over a link in a few rounds. */
#define TIMES 30000

struct fixture {
	struct test_space t;
	uint8_t *cold, *hot, *window[2]; /* device 1's, of both */
};

/* Device 1 has room for one of the two. */
static void open_fixture(struct fixture *f)
{
	void *window;

	test_space_open_devices(&f->t, BLOCK, 64, 8, 64);
	f->cold = do_alloc(&f->t, COLD_BYTES, 0);
	f->hot = do_alloc(&f->t, HOT_BYTES, 0);
	do_fill(&f->t, 0, f->cold, COLD_BYTES, 1);
	do_fill(&f->t, 0, f->hot, HOT_BYTES, 1);
	assert_int_equal(weir_replicate(f->t.space, f->cold, NULL), 0);
	assert_int_equal(weir_replicate(f->t.space, f->hot, NULL), 0);
	assert_int_equal(weir_replica(f->t.space, f->cold, 1, &window), 0);
	f->window[0] = window;
	assert_int_equal(weir_replica(f->t.space, f->hot, 1, &window), 0);
	f->window[1] = window;
}

/* A bracket of a device that reads a range so many times, or writes it. */
static void use(struct fixture *f, uint32_t stream, uint8_t *addr, uint64_t bytes, uint64_t times,
		uint32_t expect, uint32_t put)
{
	struct weir_use use = {
		.bytes = bytes, .kind = put ? WEIR_WRITE : WEIR_READ, .read_bytes = bytes * times};

	assert_int_equal(weir_replica(f->t.space, addr, stream == ONE, &use.addr), 0);
	assert_int_equal(weir_begin(f->t.space, f->t.stream[stream], &use, 1), 0);
	do_launch_as(&f->t, stream, use.addr, bytes, use.kind, expect, put, addr);
	do_end(&f->t, stream);
}

static uint64_t nr_exchanged(struct fixture *f)
{
	struct weir_replica_stats stats;

	do_check(&f->t);
	weir_replica_query(f->t.space, &stats);
	return stats.nr_exchanged;
}

static uint64_t nr_remaps(const struct fixture *f)
{
	struct weir_space_stats stats;

	weir_space_query(f->t.space, &stats);
	return stats.nr_remaps;
}

/* Granules of which device 1 has copies. */
static uint32_t nr_own(const struct fixture *f, uint32_t number)
{
	const struct replica *r = replicas_of(f->t.space)->replica[number];
	uint32_t nr = 0;

	for (uint32_t g = 0; g < r->nr_granules; g++)
		nr += r->view[1][g] == 1;
	return nr;
}

static void close_fixture(struct fixture *f, uint32_t in_cold, uint32_t in_hot)
{
	do_sync(&f->t);
	do_read(&f->t, f->cold, COLD_BYTES, in_cold);
	do_read(&f->t, f->hot, HOT_BYTES, in_hot);
	test_space_close(&f->t);
}

/* The cold range came first, and gives way; both are what they should be, with writers between. */
static void test_replica_arrange_hot_comes(void **state)
{
	const uint32_t granules = HOT_BYTES / KIB(4);
	struct fixture f;
	uint64_t exchanged, remaps;
	uint32_t nr;

	(void)state;
	open_fixture(&f);
	assert_int_equal(replicas_of(f.t.space)->granule_bytes, KIB(4));
	use(&f, ONE, f.cold, COLD_BYTES, 1, 1, 0);
	nr = nr_own(&f, 0);
	assert_true(nr > granules);
	use(&f, ONE, f.hot, HOT_BYTES, 1, 1, 0);
	assert_int_equal(nr_own(&f, 1), 0);
	for (uint32_t n = 1; n < 100; n++) {
		use(&f, 0, f.hot, HOT_BYTES, 1, n, n + 1);
		use(&f, ONE, f.cold, COLD_BYTES, 1, 1, 0);
		use(&f, ONE, f.hot, HOT_BYTES, TIMES, n + 1, 0);
	}
	exchanged = nr_exchanged(&f);
	assert_int_equal(exchanged, granules);
	assert_int_equal(nr_own(&f, 1), granules);
	assert_int_equal(nr_own(&f, 0), nr - granules);
	remaps = nr_remaps(&f);
	for (uint32_t n = 100; n < 200; n++) {
		use(&f, 0, f.hot, HOT_BYTES, 1, n, n + 1);
		use(&f, ONE, f.cold, COLD_BYTES, 1, 1, 0);
		use(&f, ONE, f.hot, HOT_BYTES, TIMES, n + 1, 0);
	}
	assert_int_equal(nr_exchanged(&f), exchanged);
	assert_int_equal(nr_remaps(&f), remaps);
	close_fixture(&f, 1, 200);
}

/* What device 1 alone has stays, whatever it is used for. */
static void test_replica_arrange_last_copy(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f);
	use(&f, ONE, f.cold, COLD_BYTES, 1, 1, 2);
	for (uint32_t n = 0; n < 100; n++)
		use(&f, ONE, f.hot, HOT_BYTES, TIMES, 1, 0);
	assert_int_equal(nr_exchanged(&f), 0);
	assert_int_equal(nr_own(&f, 1), 0);
	/* Once another device has it, too, it goes. */
	use(&f, 0, f.cold, COLD_BYTES, 1, 2, 0);
	for (uint32_t n = 0; n < 200; n++)
		use(&f, ONE, f.hot, HOT_BYTES, TIMES, 1, 0);
	assert_int_equal(nr_own(&f, 1), HOT_BYTES / KIB(4));
	close_fixture(&f, 2, 1);
}

/* Where what is hot is another range each time, ever less is exchanged. */
static void test_replica_arrange_in_turn(void **state)
{
	struct fixture f;
	uint64_t before, after;

	(void)state;
	open_fixture(&f);
	for (uint32_t n = 0; n < 600; n++)
		use(&f, ONE, n / 3 % 2 ? f.cold : f.hot, HOT_BYTES, TIMES, 1, 0);
	before = nr_exchanged(&f);
	for (uint32_t n = 0; n < 600; n++)
		use(&f, ONE, n / 3 % 2 ? f.cold : f.hot, HOT_BYTES, TIMES, 1, 0);
	after = nr_exchanged(&f) - before;
	assert_true(after <= before / 2 + HOT_BYTES / KIB(4));
	close_fixture(&f, 1, 1);
}

/* What an open bracket of another stream sees stays as it is, until that has ended. */
static void test_replica_arrange_beside_open(void **state)
{
	struct fixture f;
	struct weir_use open_use;
	const uint32_t open = 0; /* from here on a stream of device 1 */

	(void)state;
	open_fixture(&f);
	use(&f, ONE, f.cold, COLD_BYTES, 1, 1, 0);
	use(&f, 0, f.hot, HOT_BYTES, 1, 1, 2);
	do_sync(&f.t);
	weir_stream_destroy(f.t.stream[open]);
	assert_int_equal(weir_stream_create(f.t.machine, 1, &f.t.stream[open]), 0);
	open_use = (struct weir_use){f.window[1], HOT_BYTES, WEIR_READ, 0, HOT_BYTES, 0, 0};
	assert_int_equal(weir_begin(f.t.space, f.t.stream[open], &open_use, 1), 0);
	for (uint32_t n = 0; n < 100; n++)
		use(&f, ONE, f.hot, HOT_BYTES, TIMES, 2, 0);
	assert_int_equal(nr_exchanged(&f), 0);
	do_launch_as(&f.t, open, f.window[1], HOT_BYTES, WEIR_READ, 2, 0, f.hot);
	do_end(&f.t, open);
	for (uint32_t n = 0; n < 200; n++)
		use(&f, ONE, f.hot, HOT_BYTES, TIMES, 2, 0);
	assert_int_equal(nr_own(&f, 1), HOT_BYTES / KIB(4));
	close_fixture(&f, 1, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replica_arrange_hot_comes),
		cmocka_unit_test(test_replica_arrange_last_copy),
		cmocka_unit_test(test_replica_arrange_in_turn),
		cmocka_unit_test(test_replica_arrange_beside_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
