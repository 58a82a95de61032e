/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of elements: what a device that gathers is sent of a replicated range, by each mechanism.
 * Elements are of the size of a test's words. Also run on GPUs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/replica/parcel.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"
#include "weir/machine_file.h"

#define BLOCK block_bytes()
#define BYTES (4 * BLOCK)
#define ONE TEST_OTHER /* a stream of device 1; 0 is one of device 0 */
#define ELEMENT 8
#define MAX_ELEMENTS 512

/* Four granules where the test chooses them, one of a real GPU's. */
static uint64_t block_bytes(void)
{
	return test_machine_kind() == TEST_GPU ? MIB(2) : KIB(16);
}

struct elements {
	uint32_t nr;
	uint32_t number[MAX_ELEMENTS];
};

/* Elements that begin at `first`, `apart` from each other, in runs of so many. */
static struct elements elements_of(uint32_t first, uint32_t apart, uint32_t run, uint32_t nr)
{
	struct elements list = {.nr = nr};

	for (uint32_t i = 0; i < nr; i++)
		list.number[i] = first + i / run * apart + i % run;
	return list;
}

/* A range that device 0 has written, with a list of device 1's, sent by a mechanism; -1: the one
 * that is chosen. */
static uint8_t *open_listed(struct test_space *t, const struct elements *list, int how)
{
	const struct weir_replica_params params = {.element_bytes = ELEMENT};
	uint8_t *a;

	test_space_open_devices(t, BLOCK, 32, 32, 32);
	a = do_alloc(t, BYTES, 0);
	do_write(t, a, BYTES, 1);
	assert_int_equal(weir_replicate(t->space, a, &params), 0);
	replicas_of(t->space)->forced = (uint32_t)(how + 1);
	assert_int_equal(weir_subscribe_elements(t->space, a, list->number, list->nr, 1), 0);
	do_check(t);
	return a;
}

static void use(struct test_space *t, uint32_t stream, uint8_t *addr, uint64_t bytes,
		enum weir_use_kind kind, uint32_t expect, uint32_t put)
{
	void *window;

	assert_int_equal(weir_replica(t->space, addr, stream == ONE, &window), 0);
	do_begin(t, stream, window, bytes, kind);
	do_launch_as(t, stream, window, bytes, kind, expect, put, addr);
	do_end(t, stream);
	do_check(t);
}

/* Device 1 reads these elements of a part of the range. */
static void gather(struct test_space *t, uint8_t *a, uint64_t offset, uint64_t bytes,
		   const struct elements *list, uint32_t expect)
{
	void *window;

	assert_int_equal(weir_replica(t->space, a, 1, &window), 0);
	do_begin(t, ONE, (uint8_t *)window + offset, bytes, WEIR_READ_ELEMENTS);
	do_check(t);
	for (uint32_t i = 0, next; i < list->nr; i = next) {
		uint64_t at = (uint64_t)list->number[i] * ELEMENT;

		for (next = i + 1; next < list->nr; next++)
			if (list->number[next] != list->number[i] + (next - i))
				break;
		if (at >= offset && at < offset + bytes)
			do_launch_as(t, ONE, (uint8_t *)window + at, (next - i) * ELEMENT,
				     WEIR_READ, expect, 0, a + at);
	}
	do_end(t, ONE);
}

static struct weir_replica_stats get_replica_stats(struct test_space *t)
{
	struct weir_replica_stats stats;

	weir_replica_query(t->space, &stats);
	return stats;
}

static uint64_t get_sent(struct test_space *t)
{
	struct weir_replica_stats stats = get_replica_stats(t);

	return stats.message_bytes[WEIR_FETCHED] + stats.message_bytes[WEIR_PUBLISHED];
}

/* Elements alone, two and two, in all granules: they are fetched once, and published from then on
 * as the bracket ends that writes them. */
static void test_lists_by_each_mechanism(void **state)
{
	const uint32_t nr_words = (uint32_t)(BYTES / ELEMENT);
	const struct elements list = elements_of(3, nr_words / 40, 2, 80);

	(void)state;
	for (int how = -1; how < (int)WEIR_REPLICA_MECHANISM_NR; how++) {
		struct weir_replica_stats stats;
		struct test_space t;
		uint8_t *a = open_listed(&t, &list, how);
		uint64_t fetched, sent, nr_remaps, bytes;

		gather(&t, a, 0, BYTES, &list, 1);
		fetched = get_replica_stats(&t).message_bytes[WEIR_FETCHED];
		assert_true(fetched > 0);
		for (uint32_t i = 2; i < 6; i++) {
			nr_remaps = get_stats(&t).nr_remaps;
			bytes = get_replica_stats(&t).copy_bytes[GPU0] +
				get_replica_stats(&t).copy_bytes[GPU1];
			use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, i);
			gather(&t, a, 0, BYTES, &list, i);
		}
		/* Nothing more is taken, or mapped, once it is there. */
		stats = get_replica_stats(&t);
		assert_int_equal(get_stats(&t).nr_remaps, nr_remaps);
		assert_int_equal(stats.copy_bytes[GPU0] + stats.copy_bytes[GPU1], bytes);
		sent = stats.message_bytes[WEIR_PUBLISHED];
		if (how == WEIR_SENT_WHOLE)
			assert_true(sent > BYTES && stats.sent_bytes[how] == get_sent(&t));
		else if (how >= 0)
			assert_int_equal(sent, 4 * list.nr * ELEMENT);
		if (how >= 0 && how != WEIR_SENT_WHOLE)
			assert_true(stats.nr_sent[how] >= 4);
		assert_int_equal(stats.message_bytes[WEIR_FETCHED], fetched);
		do_sync(&t);
		test_space_close(&t);
	}
}

/* Elements of a range of 64 MiB on two H200s, without bytes. */
static void test_lists_choose_a_mechanism(void **state)
{
	static const struct {
		uint32_t apart, run, nr;
		enum weir_replica_mechanism how;
	} cases[] = {
		{64, 1, 1 << 18, WEIR_SENT_PACKETS},
		{5 << 20, 1 << 20, 3 << 20, WEIR_SENT_RUNS},
		{2, 1, 1 << 15, WEIR_SENT_WHOLE}, /* kernels would take as long alone */
		{1, 1, 1 << 20, WEIR_SENT_WHOLE}, /* it is one run */
		{2 << 20, 80000, 5 * 80000, WEIR_SENT_RUNS},
		/* the host would take longer to queue so many copies */
		{60000, 20000, 250 * 20000, WEIR_SENT_PACKETS},
		{60000, 20000, 260 * 20000, WEIR_SENT_PACKETS}, /* more runs than are copied */
		{64, 1, 3000, WEIR_SENT_WHOLE},
		{64, 1, 9000, WEIR_SENT_WHOLE}, /* the host would take as long to launch one */
		{64, 1, 40000, WEIR_SENT_PACKETS},
	};
	static uint32_t element[260 * 20000];
	struct weir_space_config config = {
		.devices = 3, .block_bytes = MIB(2), .mode = WEIR_PLANNED};
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_space *space;
	void *a, *window;
	char why[256];

	(void)state;
	if (test_machine_kind() != TEST_SIMULATED)
		skip();
	assert_int_equal(weir_machine_file_read("h200x2", &desc, why, sizeof(why)), 0);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
	assert_int_equal(weir_stream_create(machine, 0, &stream), 0);
	for (uint32_t memory = 0; memory < desc.nr_memories; memory++)
		config.budget_bytes[memory] = MIB(1024);
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	assert_int_equal(weir_alloc(space, MIB(64), NULL, &a), 0);
	assert_int_equal(weir_replicate(space, a, NULL), 0);
	assert_int_equal(weir_replica(space, a, 0, &window), 0);
	for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
		const struct weir_use use = use_of(window, MIB(64), WEIR_OVERWRITE);
		struct weir_replica_stats before, after;

		for (uint32_t i = 0; i < cases[c].nr; i++)
			element[i] = i / cases[c].run * cases[c].apart + i % cases[c].run;
		assert_int_equal(weir_subscribe_elements(space, a, element, cases[c].nr, 1), 0);
		weir_replica_query(space, &before);
		assert_int_equal(weir_begin(space, stream, &use, 1), 0);
		assert_int_equal(weir_end(space, stream), 0);
		weir_replica_query(space, &after);
		for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
			assert_int_equal(after.nr_sent[how] - before.nr_sent[how],
					 how == (int)cases[c].how);
		assert_int_equal(weir_space_sync(space), 0);
		assert_int_equal(weir_space_check(space), 0);
	}
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
}

/* Parts of several writers meet within elements: those are sent in two halves. */
static void test_lists_of_halves(void **state)
{
	const struct elements list = elements_of(0, 2, 1, 100);
	const struct weir_replica_params params = {.element_bytes = 16};

	(void)state;
	for (int how = 0; how < (int)WEIR_REPLICA_MECHANISM_NR; how++) {
		struct test_space t;
		uint8_t *a;

		test_space_open_devices(&t, BLOCK, 32, 32, 32);
		a = do_alloc(&t, BYTES, 0);
		assert_int_equal(weir_replicate(t.space, a, &params), 0);
		replicas_of(t.space)->forced = (uint32_t)(how + 1);
		assert_int_equal(weir_subscribe_elements(t.space, a, list.number, list.nr, 1), 0);
		for (uint32_t i = 0; i < 3; i++) {
			void *window;

			use(&t, 0, a, 24 * 32 + 8, WEIR_OVERWRITE, 0, 10 + i);
			use(&t, 0, a + 24 * 32 + 8, BYTES - 24 * 32 - 8, WEIR_OVERWRITE, 0, 20 + i);
			assert_int_equal(weir_replica(t.space, a, 1, &window), 0);
			do_begin(&t, ONE, window, 100 * 32, WEIR_READ_ELEMENTS);
			for (uint32_t e = 0; e < list.nr; e++)
				for (uint32_t half = 0; half < 2; half++) {
					uint64_t at = list.number[e] * 16ull + half * 8;

					do_launch_as(&t, ONE, (uint8_t *)window + at, 8, WEIR_READ,
						     (at < 24 * 32 + 8 ? 10 : 20) + i, 0, a + at);
				}
			do_end(&t, ONE);
			do_check(&t);
		}
		do_sync(&t);
		test_space_close(&t);
	}
}

/* More than one packet's, of parts whose elements begin anywhere in the list; and without room for
 * the list, where copies of the runs do. */
static void test_lists_of_many_packets(void **state)
{
	const struct elements list = elements_of(1, 100, 7, MAX_ELEMENTS);
	const uint32_t cut[] = {0, 103 * 8, 2222 * 8, 5000 * 8, (uint32_t)BYTES};

	(void)state;
	for (uint32_t room = 0; room < 2; room++) {
		struct weir_replica_stats stats;
		struct test_space t;
		uint8_t *a = open_listed(&t, &list, WEIR_SENT_PACKETS);
		uint64_t blocks;

		replicas_of(t.space)->packet_bytes = replicas_of(t.space)->granule_bytes;
		assert_int_equal(weir_subscribe_elements(t.space, a, list.number, list.nr, 1), 0);
		blocks = get_replica_stats(&t).copy_bytes[GPU1] / BLOCK;
		pthread_mutex_lock(&t.space->lock);
		if (!room) /* the host's memory was needed, where the list is */
			assert_true(packets_evict(t.space, COPY_HOST));
		pthread_mutex_unlock(&t.space->lock);
		for (uint32_t i = 2; i < 6; i++) {
			for (uint32_t k = 0; k + 1 < ARRAY_LEN(cut); k++)
				use(&t, 0, a + cut[k], cut[k + 1] - cut[k], WEIR_OVERWRITE, 0, i);
			gather(&t, a, 0, BYTES, &list, i);
			do_check(&t);
		}
		stats = get_replica_stats(&t);
		assert_int_equal(stats.nr_sent[WEIR_SENT_PACKETS] > 0, room);
		assert_int_equal(stats.nr_sent[WEIR_SENT_RUNS] > 0, !room);
		/* Both devices need all of the list, some of it in more than one place: what a
		 * packet goes by begins at a multiple of LIST_ALIGN numbers. */
		assert_in_range(stats.list_bytes, room * 2 * list.nr * sizeof(uint32_t),
				room * 2 * list.nr * sizeof(uint32_t) * LIST_ALIGN);
		/* Where memory is needed, what packets had goes before any copy. */
		do_sync(&t);
		assert_int_equal(weir_space_set_budget(t.space, GPU1, (blocks + 2) * BLOCK), 0);
		do_check(&t);
		assert_true(get_replica_stats(&t).copy_bytes[GPU1] <= blocks * BLOCK);
		gather(&t, a, 0, BYTES, &list, 5);
		do_sync(&t);
		test_space_close(&t);
	}
}

/* A list says nothing of what else a device reads. */
static void test_lists_and_all(void **state)
{
	const struct elements list = elements_of(1, 16, 1, 100);

	(void)state;
	for (int how = 0; how < (int)WEIR_REPLICA_MECHANISM_NR; how++) {
		struct test_space t;
		uint8_t *a = open_listed(&t, &list, how);

		for (uint32_t i = 2; i < 6; i++) {
			use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, i);
			gather(&t, a, 0, BYTES, &list, i);
			use(&t, ONE, a + BLOCK / 2, BLOCK, i % 2 ? WEIR_READ : WEIR_WRITE, i,
			    i % 2 ? 0 : i);
			use(&t, 0, a, BYTES, WEIR_READ, i, 0);
			do_read(&t, a, BYTES, i);
		}
		do_sync(&t);
		test_space_close(&t);
	}
}

/* Lists take the place of each other, and end, while messages of the last one are under way. */
static void test_lists_replaced(void **state)
{
	(void)state;
	for (int how = 0; how < (int)WEIR_REPLICA_MECHANISM_NR; how++) {
		struct elements list = elements_of(1, 16, 1, 100);
		struct test_space t;
		uint8_t *a = open_listed(&t, &list, how);
		uint64_t before;

		for (uint32_t i = 2; i < 8; i++) {
			use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, i);
			list = elements_of(i, 5 * i, 1 + i % 3, 60 + i);
			assert_int_equal(
				weir_subscribe_elements(t.space, a, list.number, list.nr, 1), 0);
			do_check(&t);
			gather(&t, a, 0, BYTES, &list, i);
			gather(&t, a, BLOCK / 2, BLOCK, &list, i);
		}
		/* The memory of those before is back. */
		do_sync(&t);
		do_check(&t);
		assert_int_equal(get_replica_stats(&t).copy_bytes[HOST],
				 replicas_of(t.space)->granule_bytes);
		assert_int_equal(weir_subscribe_elements(t.space, a, NULL, 0, 1), 0);
		do_check(&t);
		before = get_sent(&t);
		use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, 9);
		assert_int_equal(get_sent(&t), before);
		gather(&t, a, 0, BYTES, &list, 9); /* all of it, without a list */
		assert_int_equal(get_sent(&t), before + BYTES);
		use(&t, ONE, a, BYTES, WEIR_READ, 9, 0);
		assert_int_equal(get_sent(&t), before + BYTES);
		do_sync(&t);
		test_space_close(&t);
	}
}

/* A copy that has a list's elements alone is none: it goes where memory is needed. */
static void test_lists_and_memory(void **state)
{
	const struct elements list = elements_of(1, 64, 1, 60);

	(void)state;
	for (int how = 0; how < (int)WEIR_REPLICA_MECHANISM_NR; how++) {
		struct test_space t;
		uint8_t *a = open_listed(&t, &list, how);

		use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, 2);
		gather(&t, a, 0, BYTES, &list, 2);
		do_sync(&t);
		assert_int_equal(weir_unsubscribe(t.space, a, BYTES, 1), 0);
		do_check(&t);
		assert_true(get_replica_stats(&t).copy_bytes[GPU1] < BYTES);
		gather(&t, a, 0, BYTES, &list, 2);
		do_sync(&t);
		assert_int_equal(weir_space_set_budget(t.space, GPU1, 3 * BLOCK), 0);
		do_check(&t);
		/* What it has no room for it reads where it is, and what is written comes there. */
		for (uint32_t i = 3; i < 6; i++) {
			gather(&t, a, 0, BYTES, &list, i - 1);
			use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, i);
		}
		gather(&t, a, 0, BYTES, &list, 5);
		use(&t, ONE, a, BYTES, WEIR_READ, 5, 0);
		assert_true(get_replica_stats(&t).copy_bytes[GPU1] <= BLOCK);
		do_sync(&t);
		/* The list itself goes, too. */
		assert_true(get_replica_stats(&t).copy_bytes[HOST] > 0);
		assert_int_equal(weir_space_set_budget(t.space, HOST, 2 * BLOCK), 0);
		do_check(&t);
		assert_int_equal(get_replica_stats(&t).copy_bytes[HOST], 0);
		gather(&t, a, 0, BYTES, &list, 5);
		do_sync(&t);
		test_space_close(&t);
	}
}

/* Granules that have no elements get no memory by a list. */
static void test_lists_get_memory(void **state)
{
	const struct elements list = elements_of(0, (uint32_t)(2 * BLOCK / ELEMENT), 1, 2);
	struct test_space t;
	uint8_t *a = open_listed(&t, &list, -1);
	uint64_t granule = replicas_of(t.space)->granule_bytes;

	(void)state;
	assert_int_equal(get_replica_stats(&t).copy_bytes[GPU1], 2 * granule);
	use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, 2);
	assert_true(get_sent(&t) > 0); /* what has memory is published */
	assert_int_equal(get_replica_stats(&t).copy_bytes[GPU1], 2 * granule);
	gather(&t, a, 0, 8, &list, 2);
	gather(&t, a, 2 * BLOCK, 8, &list, 2);
	assert_int_equal(get_sent(&t), 2 * ELEMENT);
	gather(&t, a, 0, BYTES, &list, 2);
	do_sync(&t);
	test_space_close(&t);
}

struct tracked_args {
	struct weir_tracked tracked;
	const struct elements *list;
	uint64_t *sum;
};

static void tracked_cpu(const void *args)
{
	const struct tracked_args *a = args;

	for (uint32_t i = 0; i < a->list->nr; i++)
		*a->sum += *(const uint64_t *)weir_tracked_at(
			&a->tracked, (uint64_t)a->list->number[i] * ELEMENT);
}

static const struct weir_kernel tracked_kernel = {.name = "tracked", .cpu = tracked_cpu};

/* What a device's kernels are seen to read becomes its list: whole lines. */
static void test_lists_of_what_was_read(void **state)
{
	const struct elements list = elements_of(7, 512, 1, 16), all = elements_of(0, 512, 16, 256);
	const struct weir_replica_params params = {.element_bytes = ELEMENT};
	struct tracked_args args = {.list = &list};
	struct weir_launch launch = {
		.kernel = &tracked_kernel, .args = &args, .args_bytes = sizeof(args), .nr_uses = 1};
	struct weir_use use_all;
	struct test_space t;
	uint64_t sum = 0, before;
	void *window;
	uint8_t *a;

	(void)state;
	if (test_machine_kind() != TEST_SIMULATED)
		skip();
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = do_alloc(&t, BYTES, 0);
	do_write(&t, a, BYTES, 1);
	assert_int_equal(weir_replicate(t.space, a, &params), 0);
	assert_int_equal(weir_tracking_stop(t.space, a, 1), -EINVAL);
	assert_int_equal(weir_tracking_start(t.space, a + 8, 1, &args.tracked), -EINVAL);
	assert_int_equal(weir_tracking_start(t.space, a, 1, &args.tracked), 0);
	assert_int_equal(weir_tracking_start(t.space, a, 1, &args.tracked), -EEXIST);
	do_check(&t);
	assert_int_equal(weir_replica(t.space, a, 1, &window), 0);
	assert_ptr_equal(args.tracked.base, window);
	args.sum = &sum;
	use_all = use_of(window, BYTES, WEIR_READ);
	launch.uses = &use_all;
	assert_int_equal(weir_begin(t.space, t.stream[ONE], &use_all, 1), 0);
	assert_int_equal(weir_stream_launch(t.stream[ONE], &launch), 0);
	assert_int_equal(weir_tracking_stop(t.space, a, 1), -EBUSY);
	do_end(&t, ONE);
	assert_int_equal(weir_tracking_stop(t.space, a, 1), 0);
	do_check(&t);
	for (uint32_t i = 0; i < list.nr; i++)
		sum -= test_word_at(1, (uint64_t *)a + list.number[i]);
	assert_int_equal(sum, 0);
	replicas_of(t.space)->forced = WEIR_SENT_RUNS + 1;
	before = get_sent(&t);
	use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, 2);
	assert_int_equal(get_sent(&t) - before, list.nr * WEIR_TRACKED_LINE_BYTES);
	gather(&t, a, 0, BYTES, &all, 2); /* the beginnings of these lines */
	assert_int_equal(get_sent(&t) - before, list.nr * WEIR_TRACKED_LINE_BYTES);
	/* One that was never stopped goes with its range. */
	assert_int_equal(weir_tracking_start(t.space, a, 0, &args.tracked), 0);
	do_sync(&t);
	test_space_close(&t);
}

/* Nothing is read meanwhile: the list that there was ends. On every machine. */
static void test_lists_of_nothing_read(void **state)
{
	const struct elements list = elements_of(1, 16, 1, 100);
	struct weir_tracked tracked;
	struct test_space t;
	uint8_t *a = open_listed(&t, &list, WEIR_SENT_RUNS);
	uint64_t before;

	(void)state;
	assert_int_equal(weir_tracking_start(t.space, a, 1, &tracked), 0);
	assert_int_equal(weir_tracking_start(t.space, a, 1, &tracked), -EEXIST);
	assert_int_equal(weir_tracking_stop(t.space, a, 1), 0);
	assert_int_equal(weir_tracking_stop(t.space, a, 1), -EINVAL);
	do_check(&t);
	before = get_sent(&t);
	use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, 2);
	assert_int_equal(get_sent(&t), before);
	gather(&t, a, 0, BYTES, &list, 2); /* all of it */
	assert_int_equal(get_sent(&t), before + BYTES);
	do_sync(&t);
	test_space_close(&t);
}

/* A range may end within a line, which has fewer elements then. */
static void test_lists_of_the_last_line(void **state)
{
	const uint64_t bytes = BYTES - WEIR_TRACKED_LINE_BYTES + 4 * ELEMENT;
	const struct elements list = {.nr = 1, .number = {(uint32_t)(bytes / ELEMENT - 1)}};
	const struct weir_replica_params params = {.element_bytes = ELEMENT};
	uint64_t sum = 0;
	struct tracked_args args = {.list = &list, .sum = &sum};
	struct weir_launch launch = {
		.kernel = &tracked_kernel, .args = &args, .args_bytes = sizeof(args), .nr_uses = 1};
	struct weir_use use_all;
	struct test_space t;
	void *window;
	uint8_t *a;

	(void)state;
	if (test_machine_kind() != TEST_SIMULATED)
		skip();
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = do_alloc(&t, bytes, 0);
	do_write(&t, a, bytes, 1);
	assert_int_equal(weir_replicate(t.space, a, &params), 0);
	assert_int_equal(weir_tracking_start(t.space, a, 1, &args.tracked), 0);
	assert_int_equal(weir_replica(t.space, a, 1, &window), 0);
	use_all = use_of(window, bytes, WEIR_READ);
	launch.uses = &use_all;
	assert_int_equal(weir_begin(t.space, t.stream[ONE], &use_all, 1), 0);
	assert_int_equal(weir_stream_launch(t.stream[ONE], &launch), 0);
	do_end(&t, ONE);
	assert_int_equal(weir_tracking_stop(t.space, a, 1), 0);
	assert_int_equal(sum, test_word_at(1, (uint64_t *)a + list.number[0]));
	assert_int_equal(weir_tracking_start(t.space, a, 1, &args.tracked), 0); /* again */
	replicas_of(t.space)->forced = WEIR_SENT_RUNS + 1;
	sum = get_sent(&t);
	use(&t, 0, a, bytes, WEIR_OVERWRITE, 0, 2);
	assert_int_equal(get_sent(&t) - sum, 4 * ELEMENT);
	gather(&t, a, bytes - 4 * ELEMENT, 4 * ELEMENT, &list, 2);
	do_sync(&t);
	test_space_close(&t);
}

/* Without a list, and of a range without replicas, all is read. */
static void test_lists_of_nothing(void **state)
{
	struct test_space t;
	struct weir_use host;
	void *window;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = do_alloc(&t, BYTES, 0);
	do_fill(&t, 0, a, BYTES, 1);
	do_begin(&t, ONE, a, BYTES, WEIR_READ_ELEMENTS);
	do_launch(&t, ONE, a, BYTES, WEIR_READ, 1, 0);
	do_end(&t, ONE);
	assert_int_equal(weir_replicate(t.space, a, NULL), 0);
	assert_int_equal(weir_subscribe_elements(t.space, a, NULL, 0, 0), 0);
	assert_int_equal(weir_replica(t.space, a, 1, &window), 0);
	do_begin(&t, ONE, window, BYTES, WEIR_READ_ELEMENTS);
	do_launch_as(&t, ONE, window, BYTES, WEIR_READ, 1, 0, a);
	do_end(&t, ONE);
	do_sync(&t);
	host = use_of(a, BYTES, WEIR_READ_ELEMENTS);
	assert_int_equal(weir_host_begin(t.space, &host, 1), 0);
	assert_int_equal(pattern_wrong(a, a, BYTES, 1), 0);
	assert_int_equal(weir_host_end(t.space, &host, 1), 0);
	test_space_close(&t);
}

/* What a device wrote and another one lacks is one message, though the one copy was given some of
 * it in between. */
static void test_lists_in_one_message(void **state)
{
	const struct weir_replica_params params = {.element_bytes = ELEMENT,
						   .subscription = WEIR_SUBSCRIBE_NONE};
	const struct elements list = elements_of(1, 7, 1, 200);
	struct test_space t;
	uint8_t *a, word[ELEMENT];

	(void)state;
	test_space_open_devices(&t, BLOCK, 32, 32, 32);
	a = do_alloc(&t, BYTES, 0);
	assert_int_equal(weir_replicate(t.space, a, &params), 0);
	replicas_of(t.space)->forced = WEIR_SENT_WHOLE + 1;
	for (uint32_t listed = 0; listed < 2; listed++) {
		uint64_t nr_before;

		if (listed)
			assert_int_equal(
				weir_subscribe_elements(t.space, a, list.number, list.nr, 1), 0);
		use(&t, 0, a, BYTES, WEIR_OVERWRITE, 0, 2 + listed);
		for (uint64_t at = 64; at <= 640; at += 64)
			assert_int_equal(weir_read(t.space, word, a + at, ELEMENT), 0);
		nr_before = get_replica_stats(&t).nr_messages[WEIR_FETCHED];
		if (listed)
			gather(&t, a, 0, BYTES, &list, 3);
		else
			use(&t, ONE, a, BYTES, WEIR_READ, 2, 0);
		assert_int_equal(get_replica_stats(&t).nr_messages[WEIR_FETCHED], nr_before + 1);
	}
	test_space_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists_by_each_mechanism),
		cmocka_unit_test(test_lists_choose_a_mechanism),
		cmocka_unit_test(test_lists_of_halves),
		cmocka_unit_test(test_lists_of_many_packets),
		cmocka_unit_test(test_lists_and_all),
		cmocka_unit_test(test_lists_replaced),
		cmocka_unit_test(test_lists_and_memory),
		cmocka_unit_test(test_lists_get_memory),
		cmocka_unit_test(test_lists_of_nothing),
		cmocka_unit_test(test_lists_of_what_was_read),
		cmocka_unit_test(test_lists_of_nothing_read),
		cmocka_unit_test(test_lists_of_the_last_line),
		cmocka_unit_test(test_lists_in_one_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
