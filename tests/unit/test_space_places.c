/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space with three places, on real bytes: the device's own memory, a neighbour's, the host's.
 * Where blocks go and come from, in exact numbers of copies on each link and in each direction; and
 * that nothing is lost when a copy cannot be made.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define NR_BLOCKS 4u /* of the device's own budget, and of each range */
#define ALL (NR_BLOCKS * BLOCK)
#define MANY 20u /* touches of each byte: worth a copy */

/* Ways between two memories, by the machine's links. */
enum { IN_NEAR, OUT_NEAR, IN_FAR, OUT_FAR, NEAR_FAR, FAR_NEAR, NR_WAYS };

static const struct way {
	uint32_t from, to, link;
	enum weir_direction direction;
} ways[NR_WAYS] = {
	[IN_NEAR] = {GPU1, GPU0, 2, WEIR_B_TO_A},  [OUT_NEAR] = {GPU0, GPU1, 2, WEIR_A_TO_B},
	[IN_FAR] = {HOST, GPU0, 0, WEIR_A_TO_B},   [OUT_FAR] = {GPU0, HOST, 0, WEIR_B_TO_A},
	[NEAR_FAR] = {GPU1, HOST, 1, WEIR_B_TO_A}, [FAR_NEAR] = {HOST, GPU1, 1, WEIR_A_TO_B},
};

struct fixture {
	struct test_space t;
	uint8_t *a, *b;
	struct weir_space_stats before;
};

static void open_places(struct fixture *f, uint32_t near_blocks, uint32_t host_blocks)
{
	memset(f, 0, sizeof(*f));
	test_space_open_places(&f->t, BLOCK, NR_BLOCKS, near_blocks, host_blocks);
	f->a = do_alloc(&f->t, ALL, 0);
	f->b = do_alloc(&f->t, ALL, 0);
}

/* Blocks that crossed a way between two looks at the statistics, for any reason. */
static uint64_t nr_crossed(const struct weir_space_stats *before,
			   const struct weir_space_stats *after, const struct way *way)
{
	uint64_t bytes = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		if (cause != WEIR_CAUSE_INPLACE)
			bytes += after->link_bytes[way->link][way->direction][cause] -
				 before->link_bytes[way->link][way->direction][cause];
	assert_int_equal(bytes % BLOCK, 0);
	return bytes / BLOCK;
}

/* Blocks that crossed each way since the last call, and no other way. */
#define expect_crossed(f, ...) \
	expect_crossed_at(f, (const uint64_t[NR_WAYS]){__VA_ARGS__}, __LINE__)

static void expect_crossed_at(struct fixture *f, const uint64_t expected[NR_WAYS], int line)
{
	struct weir_space_stats now;

	do_sync(&f->t);
	now = get_stats(&f->t);
	for (int w = 0; w < NR_WAYS; w++) {
		uint64_t nr = nr_crossed(&f->before, &now, &ways[w]);

		if (nr != expected[w])
			fail_msg("line %d: %llu blocks from memory %u to %u, not %llu", line,
				 (unsigned long long)nr, ways[w].from, ways[w].to,
				 (unsigned long long)expected[w]);
	}
	f->before = now;
}

/* Blocks of a range that are in a memory. */
static uint32_t nr_at(struct fixture *f, const uint8_t *range, int memory)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < NR_BLOCKS; i++)
		nr += get_block_memory(&f->t, range + i * BLOCK) == memory;
	return nr;
}

static void expect_held(struct fixture *f, uint64_t own, uint64_t near, uint64_t host)
{
	struct weir_space_stats stats = get_stats(&f->t);

	assert_int_equal(stats.memory[GPU0].bytes, own * BLOCK);
	assert_int_equal(stats.memory[GPU1].bytes, near * BLOCK);
	assert_int_equal(stats.memory[HOST].bytes, host * BLOCK);
}

/* Prefetch, and wait for its fence. */
static int prefetch_try(struct fixture *f, uint8_t *addr, uint64_t bytes, uint32_t memory)
{
	struct weir_fence *fence;
	int err = weir_prefetch(f->t.space, addr, bytes, memory, &fence);

	do_check(&f->t);
	if (err)
		return err;
	err = weir_fence_wait(fence);
	weir_fence_put(fence);
	do_check(&f->t);
	return err;
}

static void do_prefetch(struct fixture *f, uint8_t *addr, uint64_t bytes, uint32_t memory)
{
	assert_int_equal(prefetch_try(f, addr, bytes, memory), 0);
}

/* ------------------------------------------------------------------ up and down */

static void test_space_places_evicts_to_the_nearest(void **state)
{
	struct fixture f;

	(void)state;
	open_places(&f, 3, 8);
	do_fill(&f.t, 0, f.a, ALL, 1);
	expect_crossed(&f, 0);
	expect_held(&f, 4, 0, 0);
	/* The neighbour has room for three. */
	do_fill(&f.t, 0, f.b, ALL, 2);
	expect_crossed(&f, [OUT_NEAR] = 3, [OUT_FAR] = 1);
	assert_int_equal(nr_at(&f, f.a, GPU1), 3);
	assert_int_equal(nr_at(&f, f.a, HOST), 1);
	expect_held(&f, 4, 3, 1);
	/* Each comes back from where it is; meanwhile nothing there is free for what leaves. */
	do_expect(&f.t, 0, f.a, ALL, 1);
	expect_crossed(&f, [OUT_FAR] = 4, [IN_NEAR] = 3, [IN_FAR] = 1);
	assert_int_equal(nr_at(&f, f.a, GPU0), 4);
	assert_int_equal(nr_at(&f, f.b, HOST), 4);
	do_expect(&f.t, 0, f.b, ALL, 2);
	do_sync(&f.t);
	assert_int_equal(get_stats(&f.t).memory[GPU1].peak_bytes, 3 * BLOCK);
	test_space_close(&f.t);
}

/* What came from the neighbour and was not written goes back without a copy. */
static void test_space_places_keeps_the_copy_below(void **state)
{
	struct fixture f;

	(void)state;
	open_places(&f, 4, 8);
	do_fill(&f.t, 0, f.a, ALL, 1);
	do_fill(&f.t, 0, f.b, ALL, 2);
	expect_crossed(&f, [OUT_NEAR] = 4);
	do_expect(&f.t, 0, f.a, ALL, 1);
	expect_crossed(&f, [OUT_FAR] = 4, [IN_NEAR] = 4);
	expect_held(&f, 4, 4, 4);
	do_expect(&f.t, 0, f.b, ALL, 2);
	expect_crossed(&f, [IN_FAR] = 4);
	assert_int_equal(get_stats(&f.t).nr_clean_dropped, 4);
	assert_int_equal(nr_at(&f, f.a, GPU1), 4);
	/* Written, it has none there any more. */
	do_change(&f.t, 0, f.a, ALL, 1, 3);
	expect_crossed(&f, [IN_NEAR] = 4);
	expect_held(&f, 4, 0, 4);
	do_expect(&f.t, 0, f.b, ALL, 2);
	expect_crossed(&f, [OUT_NEAR] = 4, [IN_FAR] = 4);
	do_expect(&f.t, 0, f.a, ALL, 3);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* A copy on the host stays valid below the neighbour, on the way up and on the way down. */
static void test_space_places_keeps_the_copy_on_the_host(void **state)
{
	struct fixture f;

	(void)state;
	open_places(&f, 4, 8);
	do_fill(&f.t, 0, f.a, ALL, 1);
	do_prefetch(&f, f.a, ALL, HOST);
	expect_crossed(&f, [OUT_FAR] = 4);
	do_prefetch(&f, f.a, ALL, GPU1);
	expect_crossed(&f, [FAR_NEAR] = 4);
	expect_held(&f, 0, 4, 4);
	do_prefetch(&f, f.a, ALL, HOST);
	expect_crossed(&f, 0);
	expect_held(&f, 0, 0, 4);
	/* Up in two steps: of the two copies below the lowest stays. */
	do_prefetch(&f, f.a, ALL, GPU1);
	do_prefetch(&f, f.a, ALL, GPU0);
	expect_crossed(&f, [FAR_NEAR] = 4, [IN_NEAR] = 4);
	expect_held(&f, 4, 0, 4);
	/* Down in two. */
	do_prefetch(&f, f.a, ALL, GPU1);
	expect_crossed(&f, [OUT_NEAR] = 4);
	do_prefetch(&f, f.a, ALL, HOST);
	expect_crossed(&f, 0);
	/* And from the top at once. */
	do_prefetch(&f, f.a, ALL, GPU0);
	do_fill(&f.t, 0, f.b, ALL, 2);
	/* Rather near than to the copy. */
	expect_crossed(&f, [IN_FAR] = 4, [OUT_NEAR] = 4);
	assert_int_equal(nr_at(&f, f.a, GPU1), 4);
	expect_held(&f, 4, 4, 4);
	do_expect(&f.t, 0, f.a, ALL, 1);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* From the neighbour's memory, where it is written, a copy on the host is none any more. */
static void test_space_places_writes_in_place(void **state)
{
	struct fixture f;

	(void)state;
	open_places(&f, 4, 8);
	do_fill(&f.t, 0, f.a, ALL, 1);
	do_prefetch(&f, f.a, ALL, HOST);
	do_prefetch(&f, f.a, ALL, GPU1);
	assert_int_equal(weir_advise(f.t.space, f.a, WEIR_ADVISE_PREFER_MEMORY, GPU1), 0);
	expect_held(&f, 0, 4, 4);
	do_change(&f.t, 0, f.a, ALL, 1, 2);
	do_sync(&f.t);
	expect_held(&f, 0, 4, 0);
	f.before = get_stats(&f.t);
	assert_int_equal(f.before.link_bytes[2][WEIR_B_TO_A][WEIR_CAUSE_INPLACE], ALL);
	assert_int_equal(f.before.link_bytes[2][WEIR_A_TO_B][WEIR_CAUSE_INPLACE], ALL);
	assert_int_equal(f.before.link_bytes[0][WEIR_A_TO_B][WEIR_CAUSE_INPLACE], 0);
	do_prefetch(&f, f.a, ALL, HOST);
	expect_crossed(&f, [NEAR_FAR] = 4);
	do_read(&f.t, f.a, ALL, 2);
	test_space_close(&f.t);
}

/* Four GPUs, a link between each two: one of them, then the others in the order of their memories'
 * indexes, then the host. */
static void many_machine(struct weir_machine_desc *desc)
{
	struct weir_link_desc peer;

	test_machine(desc);
	peer = desc->link[2];
	desc->nr_links = 0;
	desc->nr_devices = 4;
	desc->nr_memories = 5;
	for (uint32_t d = 0; d < 4; d++) {
		uint32_t m = 1 + d;

		desc->device[d] = desc->device[0];
		desc->memory[m] = desc->memory[GPU0];
		(void)snprintf(desc->device[d].name, WEIR_NAME_MAX, "gpu%u", d);
		(void)snprintf(desc->memory[m].name, WEIR_NAME_MAX, "gpu%u", d);
		desc->device[d].memory = m;
		for (uint32_t other = 0; other < m; other++) {
			desc->link[desc->nr_links] = other == HOST ? desc->link[0] : peer;
			desc->link[desc->nr_links].a = other;
			desc->link[desc->nr_links++].b = m;
		}
	}
}

/* What leaves fills the places below one after the other, the nearest first. */
static void test_space_places_many(void **state)
{
	static const uint32_t order[] = {3, 1, 2, 4, HOST}; /* as the third GPU prefers them */
	struct weir_space_config config = {
		.devices = WEIR_MEM_DEVICE(2), .block_bytes = BLOCK, .mode = WEIR_PLANNED};
	struct weir_machine_desc desc;
	struct test_space t = {0};
	uint8_t *a, *b;

	(void)state;
	many_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &t.machine), 0);
	t.backend = machine_backend(t.machine);
	t.desc = desc;
	assert_int_equal(weir_stream_create(t.machine, 2, &t.stream[0]), 0);
	config.budget_bytes[order[0]] = 7 * BLOCK;
	for (uint32_t place = 1; place < 4; place++)
		config.budget_bytes[order[place]] = 2 * BLOCK;
	config.budget_bytes[HOST] = 8 * BLOCK;
	assert_int_equal(weir_space_create(t.machine, &config, &t.space), 0);
	t.block_bytes = BLOCK;
	t.space->poison = true;
	for (uint32_t place = 0; place < 5; place++)
		assert_int_equal(t.space->pmm[place].memory, order[place]);
	a = do_alloc(&t, 7 * BLOCK, 0);
	b = do_alloc(&t, 7 * BLOCK, 0);
	do_fill(&t, 0, a, 7 * BLOCK, 1);
	do_fill(&t, 0, b, 7 * BLOCK, 2);
	assert_int_equal(weir_space_sync(t.space), 0);
	for (uint32_t place = 1; place < 5; place++) {
		uint64_t bytes = get_stats(&t).memory[order[place]].bytes;

		assert_int_equal(bytes, place < 4 ? 2 * BLOCK : BLOCK);
	}
	do_expect(&t, 0, a, 7 * BLOCK, 1);
	do_expect(&t, 0, b, 7 * BLOCK, 2);
	assert_int_equal(weir_space_sync(t.space), 0);
	assert_int_equal(weir_stream_sync(t.stream[0]), 0);
	assert_int_equal(get_nr_wrong(&t), 0);
	do_check(&t);
	weir_space_destroy(t.space);
	weir_stream_destroy(t.stream[0]);
	assert_int_equal(sim_leaks(t.backend), 0);
	weir_machine_close(t.machine);
}

/* ------------------------------------------------------------------ prefetch and advice */

static void test_space_places_prefetches_between_each_two(void **state)
{
	struct weir_fence *fence;

	(void)state;
	for (int w = 0; w < NR_WAYS; w++) {
		struct fixture f;
		uint64_t expected[NR_WAYS] = {0};

		open_places(&f, 4, 8);
		do_fill(&f.t, 0, f.a, ALL, 1);
		do_prefetch(&f, f.a, ALL, ways[w].from);
		do_sync(&f.t);
		f.before = get_stats(&f.t);
		expected[w] = 2;
		/* Two blocks: it is widened to whole ones. */
		assert_int_equal(
			weir_prefetch(f.t.space, f.a + BLOCK + 5, BLOCK, ways[w].to, &fence), 0);
		do_check(&f.t);
		/* A driver may be done by now; no time passes in the simulator. */
		assert_true(weir_fence_query(fence) == 0 || f.t.nr_wrong_cuda);
		assert_int_equal(weir_fence_wait(fence), 0);
		assert_int_equal(weir_fence_query(fence), 1);
		weir_fence_put(fence);
		expect_crossed_at(&f, expected, __LINE__);
		assert_int_equal(nr_at(&f, f.a, (int)ways[w].from), 2);
		assert_int_equal(nr_at(&f, f.a, (int)ways[w].to), 2);
		do_expect(&f.t, 0, f.a, ALL, 1);
		test_space_close(&f.t);
	}
}

/* It is of no use to whom there is no room for, and says so. */
static void test_space_places_prefetch_finds_no_room(void **state)
{
	struct fixture f;

	(void)state;
	open_places(&f, 3, 8);
	do_fill(&f.t, 0, f.a, ALL, 1);
	do_sync(&f.t);
	assert_int_equal(prefetch_try(&f, f.a, ALL, GPU1), -ENOMEM);
	expect_crossed(&f, [OUT_NEAR] = 3);
	do_expect(&f.t, 0, f.a, ALL, 1);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* A range that is to stay at the neighbour begins there, and is used there. */
static void test_space_places_advice_stays(void **state)
{
	struct weir_use use;
	struct fixture f;

	(void)state;
	open_places(&f, 3, 8);
	assert_int_equal(weir_advise(f.t.space, f.a, WEIR_ADVISE_PREFER_MEMORY, GPU1), 0);
	do_fill(&f.t, 0, f.a, ALL, 1);
	use = use_of(f.a, ALL, WEIR_READ);
	use.read_bytes = MANY * ALL;
	assert_int_equal(weir_begin(f.t.space, f.t.stream[0], &use, 1), 0);
	do_launch(&f.t, 0, f.a, ALL, WEIR_READ, 1, 0);
	do_end(&f.t, 0);
	expect_crossed(&f, 0);
	assert_int_equal(nr_at(&f, f.a, GPU1), 3);
	assert_int_equal(nr_at(&f, f.a, HOST), 1); /* where there was room */
	/* Without the advice it comes. */
	assert_int_equal(weir_advise(f.t.space, f.a, WEIR_ADVISE_DEFAULT, 0), 0);
	do_expect(&f.t, 0, f.a, ALL, 1);
	expect_crossed(&f, [IN_NEAR] = 3, [IN_FAR] = 1);
	test_space_close(&f.t);
}

/* It goes first, though others were used before, and to the place that it names. */
static void test_space_places_advice_goes_first(void **state)
{
	struct fixture f;
	uint8_t *c;

	(void)state;
	for (uint32_t memory = HOST; memory <= GPU1; memory += GPU1 - HOST) {
		open_places(&f, 4, 8);
		c = do_alloc(&f.t, ALL / 2, 0);
		do_fill(&f.t, 0, f.b, ALL / 2, 2); /* longest ago */
		do_fill(&f.t, 0, f.a, ALL / 2, 1);
		do_sync(&f.t);
		assert_int_equal(weir_advise(f.t.space, f.a, WEIR_ADVISE_PREFER_MEMORY, memory), 0);
		do_fill(&f.t, 0, c, ALL / 2, 3);
		if (memory == HOST)
			expect_crossed(&f, [OUT_FAR] = 2);
		else
			expect_crossed(&f, [OUT_NEAR] = 2);
		assert_int_equal(nr_at(&f, f.a, (int)memory), 2);
		assert_int_equal(nr_at(&f, f.b, GPU0), 2);
		do_expect(&f.t, 0, f.a, ALL / 2, 1);
		test_space_close(&f.t);
	}
}

/* ------------------------------------------------------------------ the CPU's side */

static void test_space_places_host_bracket(void **state)
{
	struct weir_use use;
	struct fixture f;

	(void)state;
	open_places(&f, 4, 8);
	do_fill(&f.t, 0, f.a, ALL, 1);
	do_prefetch(&f, f.a, ALL, GPU1);
	do_sync(&f.t);
	f.before = get_stats(&f.t);
	use = use_of(f.a + BLOCK, 2 * BLOCK, WEIR_WRITE);
	assert_int_equal(weir_host_begin(f.t.space, &use, 1), 0);
	do_check(&f.t);
	assert_int_equal(pattern_wrong(f.a + BLOCK, f.a + BLOCK, 2 * BLOCK, 1), 0);
	pattern_put(f.a + BLOCK, f.a + BLOCK, BLOCK, 2);
	assert_int_equal(nr_at(&f, f.a, HOST), 2);
	assert_int_equal(nr_at(&f, f.a, GPU1), 2);
	assert_int_equal(weir_host_end(f.t.space, &use, 1), 0);
	expect_crossed(&f, [NEAR_FAR] = 2);
	do_expect(&f.t, 0, f.a, BLOCK, 1);
	do_expect(&f.t, 0, f.a + BLOCK, BLOCK, 2);
	do_expect(&f.t, 0, f.a + 2 * BLOCK, 2 * BLOCK, 1);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* The program's own copies leave blocks where they are. */
static void test_space_places_read_and_write(void **state)
{
	struct fixture f;

	(void)state;
	open_places(&f, 4, 8);
	do_fill(&f.t, 0, f.a, ALL, 1);
	do_prefetch(&f, f.a, ALL, HOST);
	do_prefetch(&f, f.a, 3 * BLOCK, GPU1);
	do_sync(&f.t);
	expect_held(&f, 0, 3, 4);
	f.before = get_stats(&f.t);
	do_read(&f.t, f.a, ALL, 1);
	do_write(&f.t, f.a + BLOCK, BLOCK, 2);
	do_read(&f.t, f.a + BLOCK, BLOCK, 2);
	expect_crossed(&f, 0);
	assert_int_equal(nr_at(&f, f.a, GPU1), 3);
	expect_held(&f, 0, 3, 3); /* what was written has no copy on the host */
	do_prefetch(&f, f.a, ALL, HOST);
	expect_crossed(&f, [NEAR_FAR] = 1);
	do_read(&f.t, f.a, BLOCK, 1);
	do_expect(&f.t, 0, f.a + BLOCK, BLOCK, 2);
	do_expect(&f.t, 0, f.a + 2 * BLOCK, 2 * BLOCK, 1);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* ------------------------------------------------------------------ two paths at once */

/* Some of a range comes from the neighbour and some from the host, in times that differ by far: a
 * bracket on it, or on all of it but the last block, waits for both. */
static void two_paths(uint32_t nr, uint32_t nr_far, bool whole)
{
	uint64_t bytes = nr * BLOCK, out = whole ? 0 : BLOCK;
	struct weir_space_stats stats;
	struct test_space t;
	uint8_t *a;

	test_space_open_places(&t, BLOCK, nr, nr, nr + 2);
	a = do_alloc(&t, bytes, 0);
	do_fill(&t, 0, a, bytes, 1);
	assert_int_equal(weir_prefetch(t.space, a, nr_far * BLOCK, HOST, NULL), 0);
	assert_int_equal(
		weir_prefetch(t.space, a + nr_far * BLOCK, bytes - nr_far * BLOCK, GPU1, NULL), 0);
	do_sync(&t);
	do_expect(&t, 0, a, bytes - out, 1);
	do_sync(&t);
	stats = get_stats(&t);
	assert_int_equal(nr_crossed(&(struct weir_space_stats){0}, &stats, &ways[IN_FAR]), nr_far);
	assert_int_equal(nr_crossed(&(struct weir_space_stats){0}, &stats, &ways[IN_NEAR]) + !whole,
			 nr - nr_far);
	test_space_close(&t);
}

static void test_space_places_waits_for_both_paths(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		two_paths(24, 1, whole);  /* the neighbour's take longer, */
		two_paths(24, 12, whole); /* the host's do */
	}
}

/* ------------------------------------------------------------------ what fails */

/* Copies on one path fail. */
static struct {
	const struct backend_ops *ops;
	struct backend_ops failing;
	stream_id_t stream; /* the path's */
	uint32_t nr_left, nr_failed;
} fault;

static int failing_copy(struct backend *b, stream_id_t stream, const struct backend_copy *copies,
			uint32_t nr)
{
	if (stream != fault.stream || !fault.nr_left)
		return fault.ops->copy(b, stream, copies, nr);
	fault.nr_left--;
	fault.nr_failed++;
	return -EIO;
}

/* The next nr batches of copies fail that go a way. */
static void fault_install(struct test_space *t, const struct way *way, uint32_t nr)
{
	place_t from = (place_t)space_place(t->space, way->from),
		to = (place_t)space_place(t->space, way->to);

	memset(&fault, 0, sizeof(fault));
	fault.ops = t->backend->ops;
	fault.failing = *fault.ops;
	fault.failing.copy = failing_copy;
	fault.stream = space_path(t->space, from, to)->stream;
	fault.nr_left = nr;
	t->backend->ops = &fault.failing;
}

static void fault_remove(struct test_space *t)
{
	t->backend->ops = fault.ops;
}

/* A copy cannot be queued: the block stays where it was, the prefetch says why, and the next one
 * moves it. */
static void test_space_places_copy_fails(void **state)
{
	(void)state;
	for (int w = 0; w < NR_WAYS; w++) {
		struct fixture f;

		open_places(&f, 4, 8);
		do_fill(&f.t, 0, f.a, ALL, 1);
		do_prefetch(&f, f.a, ALL, ways[w].from);
		do_sync(&f.t);
		fault_install(&f.t, &ways[w], 1);
		assert_int_equal(prefetch_try(&f, f.a, ALL, ways[w].to), -EIO);
		assert_int_equal(fault.nr_failed, 1);
		assert_int_equal(nr_at(&f, f.a, (int)ways[w].from), 4);
		do_read(&f.t, f.a, ALL, 1);
		do_prefetch(&f, f.a, ALL, ways[w].to);
		assert_int_equal(nr_at(&f, f.a, (int)ways[w].to), 4);
		do_expect(&f.t, 0, f.a, ALL, 1);
		do_sync(&f.t);
		fault_remove(&f.t);
		test_space_close(&f.t);
	}
}

/* b is at a place below, and a in the device's own memory: a bracket wants b, and copies that go
 * one way fail meanwhile. a leaves for the place where b is not, which alone has room. */
static void bracket_fails(const struct way *in, const struct way *failing, int begun)
{
	struct weir_use use;
	struct fixture f;

	open_places(&f, 4, 8);
	do_fill(&f.t, 0, f.b, ALL, 2);
	do_prefetch(&f, f.b, ALL, in->from);
	do_fill(&f.t, 0, f.a, ALL, 1);
	do_sync(&f.t);
	fault_install(&f.t, failing, UINT32_MAX);
	use = use_of(f.b, ALL, WEIR_READ);
	assert_int_equal(weir_begin(f.t.space, f.t.stream[0], &use, 1), begun);
	do_check(&f.t);
	assert_true(fault.nr_failed > 0);
	if (!begun) {
		/* Without room it is used where it is. */
		do_launch(&f.t, 0, f.b, ALL, WEIR_READ, 2, 0);
		do_end(&f.t, 0);
		assert_int_equal(nr_at(&f, f.a, GPU0), 4);
		assert_int_equal(weir_space_sync(f.t.space), -EIO);
	}
	assert_int_equal(nr_at(&f, f.b, (int)in->from), 4);
	fault.nr_left = 0;
	do_read(&f.t, f.a, ALL, 1);
	do_read(&f.t, f.b, ALL, 2);
	do_expect(&f.t, 0, f.b, ALL, 2);
	assert_int_equal(nr_at(&f, f.b, GPU0), 4);
	do_expect(&f.t, 0, f.a, ALL, 1);
	do_sync(&f.t);
	fault_remove(&f.t);
	test_space_close(&f.t);
}

static void test_space_places_bracket_copy_fails(void **state)
{
	(void)state;
	/* What it needs cannot come: it does not begin, and the next one does. */
	bracket_fails(&ways[IN_NEAR], &ways[IN_NEAR], -EIO);
	bracket_fails(&ways[IN_FAR], &ways[IN_FAR], -EIO);
	/* What should make room cannot go. */
	bracket_fails(&ways[IN_NEAR], &ways[OUT_FAR], 0);
	bracket_fails(&ways[IN_FAR], &ways[OUT_NEAR], 0);
}

/* A machine whose GPUs have no link between them has no neighbours. */
static void test_space_places_no_link(void **state)
{
	struct weir_space_config config = {
		.budget_bytes = {[HOST] = 8 * BLOCK, [GPU0] = 4 * BLOCK, [GPU1] = 4 * BLOCK},
		.block_bytes = BLOCK,
		.mode = WEIR_PLANNED};
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_space *space = NULL;
	struct backend *b;

	(void)state;
	test_machine(&desc);
	desc.nr_links = 2;
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), 0);
	b = machine_backend(machine);
	assert_int_equal(weir_space_create(machine, &config, &space), -ENOTSUP);
	assert_null(space);
	assert_int_equal(sim_leaks(b), 0);
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		assert_int_equal(b->ops->memory_used(b, m), 0);
	config.budget_bytes[GPU1] = 0;
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	weir_space_destroy(space);
	weir_machine_close(machine);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_places_evicts_to_the_nearest),
		cmocka_unit_test(test_space_places_keeps_the_copy_below),
		cmocka_unit_test(test_space_places_keeps_the_copy_on_the_host),
		cmocka_unit_test(test_space_places_writes_in_place),
		cmocka_unit_test(test_space_places_many),
		cmocka_unit_test(test_space_places_prefetches_between_each_two),
		cmocka_unit_test(test_space_places_prefetch_finds_no_room),
		cmocka_unit_test(test_space_places_advice_stays),
		cmocka_unit_test(test_space_places_advice_goes_first),
		cmocka_unit_test(test_space_places_host_bracket),
		cmocka_unit_test(test_space_places_read_and_write),
		cmocka_unit_test(test_space_places_waits_for_both_paths),
		cmocka_unit_test(test_space_places_copy_fails),
		cmocka_unit_test(test_space_places_bracket_copy_fails),
		cmocka_unit_test(test_space_places_no_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
