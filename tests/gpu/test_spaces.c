/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces on one GPU: one whose blocks move by a plan while every step depends on the one before;
 * two at a time, each with a thread and two streams of its own, both larger than their budgets; and
 * one beside a thread that captures streams into graphs, which the driver lets spoil everything.
 *
 * Labels: threads
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "src/backend/cuda/driver.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"

/* ------------------------------------------------------------------ by a plan */

#define CYCLE_RANGES 4u
#define CYCLE_STEPS 60u
#define CYCLE_BLOCKS 24u /* of a range */
#define CYCLE_BUDGET 32u

/* to = from + 3, byte by byte, in a bracket that says so. */
static void step(struct test_space *t, uint8_t *from, uint8_t *to, uint64_t bytes)
{
	const struct test_add_args args = {from, to, bytes, 3};
	const struct weir_use uses[] = {use_of(from, bytes, WEIR_READ),
					use_of(to, bytes, WEIR_OVERWRITE)};
	const struct weir_launch launch = {.kernel = &test_kernel_add,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = 2};

	assert_int_equal(weir_begin(t->space, t->stream[0], uses, 2), 0);
	assert_int_equal(weir_stream_launch(t->stream[0], &launch), 0);
	assert_int_equal(weir_end(t->space, t->stream[0]), 0);
}

/* Ranges of three times the budget: each step reads one and writes the next, again and again. */
static void test_spaces_follow_a_plan(void **state)
{
	uint8_t *range[CYCLE_RANGES], expected[CYCLE_RANGES], *buffer;
	struct test_space t;
	uint64_t bytes;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, 0, CYCLE_BUDGET,
			(CYCLE_RANGES + 1) * CYCLE_BLOCKS);
	bytes = CYCLE_BLOCKS * t.block_bytes;
	buffer = malloc(bytes);
	assert_non_null(buffer);
	for (uint32_t r = 0; r < CYCLE_RANGES; r++) {
		range[r] = do_alloc(&t, bytes, 0);
		memset(buffer, (int)r, bytes);
		assert_int_equal(weir_write(t.space, range[r], buffer, bytes), 0);
		expected[r] = (uint8_t)r;
	}
	for (uint32_t i = 0; i < CYCLE_STEPS; i++) {
		uint32_t from = i % CYCLE_RANGES, to = (i + 1) % CYCLE_RANGES;

		step(&t, range[from], range[to], bytes);
		expected[to] = (uint8_t)(expected[from] + 3);
	}
	do_sync(&t);
	for (uint32_t r = 0; r < CYCLE_RANGES; r++) {
		assert_int_equal(weir_read(t.space, buffer, range[r], bytes), 0);
		for (uint64_t i = 0; i < bytes; i++)
			if (buffer[i] != expected[r])
				fail_msg("range %u, byte %llu: %u, not %u", r,
					 (unsigned long long)i, buffer[i], expected[r]);
		do_free(&t, range[r], 0);
	}
	assert_true(get_stats(&t).nr_plans > 0);
	assert_true(get_stats(&t).nr_moves[WEIR_CAUSE_EVICTION] > CYCLE_BUDGET / 2);
	free(buffer);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ two at a time */

#define NR_USERS 2u
#define NR_STREAMS 2u
#define NR_RANGES 6u /* of a user; every second one for each of its streams */
#define RANGE_BLOCKS 3u
#define GPU_BLOCKS 8u
#define HOST_BLOCKS 32u
#define NR_STEPS 400u

struct user {
	struct test_space t; /* the same machine, a space and two streams of its own */
	pthread_t thread;
	struct test_random random;
	uint8_t *range[NR_RANGES];
	uint32_t seed[NR_RANGES], last_seed;
	int failed_line; /* the first; asserting is for the main thread */
};

#define require(what)                              \
	do {                                       \
		if (!(what) && !u->failed_line)    \
			u->failed_line = __LINE__; \
	} while (0)

/* One bracket: contents are checked unless they are overwritten, and changed unless only read. */
static void use_on_gpu(struct user *u, uint32_t r, enum weir_use_kind kind)
{
	uint64_t bytes = RANGE_BLOCKS * u->t.block_bytes;
	uint32_t stream = r % NR_STREAMS, put = kind == WEIR_READ ? 0 : ++u->last_seed;
	struct test_cell cell = {kind == WEIR_OVERWRITE ? 0 : u->seed[r], put};
	struct weir_use use = use_of(u->range[r], bytes, kind);
	int err = weir_begin(u->t.space, u->t.stream[stream], &use, 1);

	require(!err);
	if (err)
		return;
	require(!do_launch_cells_try(&u->t, stream, u->range[r], bytes, &cell, 1, kind));
	require(!weir_end(u->t.space, u->t.stream[stream]));
	u->seed[r] = put ? put : u->seed[r];
}

static void use_on_host(struct user *u, uint32_t r)
{
	uint64_t bytes = RANGE_BLOCKS * u->t.block_bytes;
	struct weir_use use = use_of(u->range[r], bytes, WEIR_WRITE);
	int err = weir_host_begin(u->t.space, &use, 1);

	require(!err);
	if (err)
		return;
	require(!pattern_wrong(u->range[r], u->range[r], bytes, u->seed[r]));
	u->seed[r] = ++u->last_seed;
	pattern_put(u->range[r], u->range[r], bytes, u->seed[r]);
	require(!weir_host_end(u->t.space, &use, 1));
}

static void *work(void *arg)
{
	struct user *u = arg;

	for (uint32_t i = 0; i < NR_STEPS && !u->failed_line; i++) {
		uint32_t r = random_below(&u->random, NR_RANGES);
		uint32_t what = random_below(&u->random, 16);

		if (what < 6)
			use_on_gpu(u, r, WEIR_READ);
		else if (what < 12)
			use_on_gpu(u, r, WEIR_WRITE);
		else if (what < 14)
			use_on_gpu(u, r, WEIR_OVERWRITE);
		else if (what == 14)
			use_on_host(u, r);
		else
			require(!weir_space_check(u->t.space));
	}
	return NULL;
}

static void user_open(struct user *u, const struct test_space *machine, uint32_t number)
{
	uint64_t block = machine->desc.vmm.granularity_bytes;

	u->t = *machine;
	u->random.state = 2025 + number;
	u->last_seed = number << 24;
	assert_int_equal(test_space_create_try(&u->t, WEIR_PLANNED, block, GPU_BLOCKS * block,
					       HOST_BLOCKS * block),
			 0);
	for (uint32_t i = 0; i < NR_STREAMS; i++)
		assert_int_equal(weir_stream_create(u->t.machine, 0, &u->t.stream[i]), 0);
	for (uint32_t r = 0; r < NR_RANGES; r++) {
		u->range[r] = do_alloc(&u->t, RANGE_BLOCKS * block, r % NR_STREAMS);
		use_on_gpu(u, r, WEIR_OVERWRITE);
	}
}

static void user_close(struct user *u)
{
	assert_int_equal(weir_space_sync(u->t.space), 0);
	for (uint32_t i = 0; i < NR_STREAMS; i++)
		assert_int_equal(weir_stream_sync(u->t.stream[i]), 0);
	for (uint32_t r = 0; r < NR_RANGES; r++)
		do_read(&u->t, u->range[r], RANGE_BLOCKS * u->t.block_bytes, u->seed[r]);
	assert_true(get_stats(&u->t).nr_moves[WEIR_CAUSE_EVICTION] > 0);
	assert_true(get_stats(&u->t).memory[GPU0].peak_bytes <= GPU_BLOCKS * u->t.block_bytes);
	weir_space_destroy(u->t.space);
	for (uint32_t i = 0; i < NR_STREAMS; i++)
		weir_stream_destroy(u->t.stream[i]);
}

static void test_spaces_share_a_gpu(void **state)
{
	struct user *users = calloc(NR_USERS, sizeof(*users));
	struct test_space t;

	(void)state;
	assert_non_null(users);
	test_machine_open(&t, WEIR_DATA_REAL);
	for (uint32_t i = 0; i < NR_USERS; i++)
		user_open(&users[i], &t, i);
	for (uint32_t i = 0; i < NR_USERS; i++)
		assert_int_equal(pthread_create(&users[i].thread, NULL, work, &users[i]), 0);
	for (uint32_t i = 0; i < NR_USERS; i++)
		assert_int_equal(pthread_join(users[i].thread, NULL), 0);
	for (uint32_t i = 0; i < NR_USERS; i++) {
		if (users[i].failed_line)
			fail_msg("user %u: line %d", i, users[i].failed_line);
		user_close(&users[i]);
	}
	free(users);
	test_machine_close(&t);
}

/* ------------------------------------------------------------------ beside captures */

#define CAPTURE_NS 1000000

/* A thread that captures a stream of its own, again and again, in the mode that is the usual one:
 * meanwhile the driver refuses other threads many calls, and what it refuses ends the capture. */
struct capturer {
	struct cuda_driver driver;
	cu_result (*begin)(cu_stream stream, int mode);
	cu_result (*end)(cu_stream stream, void **graph);
	cu_result (*destroy)(void *graph);
	cu_context context;
	cu_stream stream;
	pthread_t thread;
	atomic_bool stop;
	uint32_t nr;	  /* captures that were made */
	cu_result result; /* of the first call that failed */
};

static cu_result capture_once(struct capturer *c)
{
	cu_result result = c->begin(c->stream, 0);
	void *graph = NULL;

	if (result)
		return result;
	nanosleep(&(struct timespec){.tv_nsec = CAPTURE_NS}, NULL);
	result = c->end(c->stream, &graph);
	return result ? result : c->destroy(graph);
}

static void *capture(void *arg)
{
	struct capturer *c = arg;

	c->result = c->driver.context_push(c->context);
	while (!c->result && !atomic_load(&c->stop)) {
		c->result = capture_once(c);
		c->nr += !c->result;
	}
	return NULL;
}

static void capturer_start(struct capturer *c, struct weir_stream *stream)
{
	cu_device device;

	assert_int_equal(cuda_driver_open(&c->driver, test_cuda_library(), false), 0);
	*(void **)&c->begin = dlsym(c->driver.library, "cuStreamBeginCapture_v2");
	*(void **)&c->end = dlsym(c->driver.library, "cuStreamEndCapture");
	*(void **)&c->destroy = dlsym(c->driver.library, "cuGraphDestroy");
	assert_true(c->begin && c->end && c->destroy);
	assert_int_equal(c->driver.device_get(&device, 0), CU_SUCCESS);
	assert_int_equal(c->driver.context_retain(&c->context, device), CU_SUCCESS);
	c->stream = weir_stream_native(stream);
	assert_int_equal(pthread_create(&c->thread, NULL, capture, c), 0);
}

static void capturer_stop(struct capturer *c)
{
	cu_device device;

	atomic_store(&c->stop, true);
	assert_int_equal(pthread_join(c->thread, NULL), 0);
	assert_int_equal(c->result, CU_SUCCESS);
	assert_true(c->nr > 0);
	assert_int_equal(c->driver.device_get(&device, 0), CU_SUCCESS);
	assert_int_equal(c->driver.context_release(device), CU_SUCCESS);
	cuda_driver_close(&c->driver);
}

/* No capture is spoiled, no word is wrong. */
static void test_spaces_beside_captures(void **state)
{
	struct user *user = calloc(1, sizeof(*user));
	struct capturer capturer = {0};
	struct test_space t;

	(void)state;
	assert_non_null(user);
	test_machine_open(&t, WEIR_DATA_REAL);
	user_open(user, &t, 0);
	capturer_start(&capturer, t.stream[0]);
	(void)work(user);
	capturer_stop(&capturer);
	if (user->failed_line)
		fail_msg("line %d", user->failed_line);
	user_close(user);
	free(user);
	test_machine_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spaces_follow_a_plan),
		cmocka_unit_test(test_spaces_share_a_gpu),
		cmocka_unit_test(test_spaces_beside_captures),
	};

	return cmocka_run_group_tests(tests, test_cuda_required, NULL);
}
