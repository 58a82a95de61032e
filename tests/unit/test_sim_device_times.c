/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a simulated device's time goes into, worked out by hand; the parts add up to the clock.
 */
#include <errno.h>

#include "tests/unit/test_sim_machine.h"

struct fixture {
	struct backend *b;
	stream_id_t stream, copies;
	uint64_t ns[BACKEND_TIME_NR]; /* since the last look */
	uint64_t seen[BACKEND_TIME_NR];
};

static int setup(void **state)
{
	static struct fixture f;
	struct weir_machine_desc desc;

	memset(&f, 0, sizeof(f));
	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &f.b), 0);
	assert_int_equal(f.b->ops->stream_create(f.b, 0, BACKEND_COMPUTE, &f.stream), 0);
	assert_int_equal(f.b->ops->stream_create(f.b, 0, BACKEND_COPY_IN, &f.copies), 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	f->b->ops->stream_destroy(f->b, f->stream);
	f->b->ops->stream_destroy(f->b, f->copies);
	assert_int_equal(sim_leaks(f->b), 0);
	f->b->ops->destroy(f->b);
	return 0;
}

static void wait_idle(struct fixture *f, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(f->b->ops->fence_record(f->b, stream, &fence), 0);
	assert_int_equal(f->b->ops->fence_wait(f->b, fence), 0);
}

/* Look at the times since the last look; all of them add up to the clock. */
static void look(struct fixture *f)
{
	uint64_t now[BACKEND_TIME_NR], sum = 0;

	wait_idle(f, f->stream);
	assert_int_equal(f->b->observe->device_times(f->b, 0, now), 0);
	for (int i = 0; i < BACKEND_TIME_NR; i++) {
		f->ns[i] = now[i] - f->seen[i];
		f->seen[i] = now[i];
		sum += now[i];
	}
	assert_int_equal(sum, f->b->ops->now_ns(f->b));
}

/* Exactly these times are not 0. */
#define EXPECT(f, ...)                                                \
	do {                                                          \
		const uint64_t want[BACKEND_TIME_NR] = {__VA_ARGS__}; \
                                                                      \
		look(f);                                              \
		for (int i_ = 0; i_ < BACKEND_TIME_NR; i_++)          \
			assert_int_equal((f)->ns[i_], want[i_]);      \
	} while (0)

static void test_times_kernels(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct weir_use use;
	void *near, *far;

	/* Half of 2000 + 1000 for each 2 MiB; on the host half of 375000. */
	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(1), &near), 0);
	assert_int_equal(b->ops->device_alloc(b, HOST, MIB(1), &far), 0);
	EXPECT(f, [BACKEND_TIME_ALLOCATION] = 1500 + 187500);

	assert_int_equal(launch_touch(b, f->stream, (struct touch){0}, NULL, 0), 0);
	EXPECT(f, [BACKEND_TIME_OTHER] = 300, [BACKEND_TIME_COMPUTE] = 500);

	/* 1 MiB at 100 bytes a nanosecond; in place at 2. */
	use = use_of(near, MIB(1), WEIR_READ);
	assert_int_equal(launch_touch(b, f->stream, (struct touch){0}, &use, 1), 0);
	EXPECT(f, [BACKEND_TIME_OTHER] = 300, [BACKEND_TIME_COMPUTE] = 10486);
	use = use_of(far, MIB(1), WEIR_READ);
	assert_int_equal(launch_touch(b, f->stream, (struct touch){0}, &use, 1), 0);
	EXPECT(f, [BACKEND_TIME_OTHER] = 300, [BACKEND_TIME_COMPUTE] = 10486,
	       [BACKEND_TIME_IN_PLACE] = 524288 - 10486);

	b->ops->device_free(b, near);
	b->ops->device_free(b, far);
	EXPECT(f, [BACKEND_TIME_ALLOCATION] = 1500 + 187500);
}

/* What the program does while a kernel runs costs the device nothing. */
static void test_times_hidden_allocation(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct weir_use use;
	void *far, *other;

	assert_int_equal(b->ops->device_alloc(b, HOST, MIB(1), &far), 0);
	look(f);
	use = use_of(far, MIB(1), WEIR_READ);
	assert_int_equal(launch_touch(b, f->stream, (struct touch){0}, &use, 1), 0);
	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(1), &other), 0);
	/* The free waits for the kernel, and costs the device only what comes after. */
	b->ops->device_free(b, other);
	EXPECT(f, [BACKEND_TIME_OTHER] = 300, [BACKEND_TIME_COMPUTE] = 10486,
	       [BACKEND_TIME_IN_PLACE] = 524288 - 10486, [BACKEND_TIME_ALLOCATION] = 1500);
	b->ops->device_free(b, far);
}

static void test_times_copies(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct backend_chunk near, far;
	struct backend_copy copy;
	fence_t fence;

	assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(1), 1, &near), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, MIB(1), 1, &far), 0);
	EXPECT(f, [BACKEND_TIME_ALLOCATION] = 11000 + 375000);

	/* 1000 + 100, then 1 MiB at 4 bytes a nanosecond in, at 2 out. */
	copy = (struct backend_copy){near.alias, far.alias, MIB(1)};
	assert_int_equal(b->ops->copy(b, f->copies, &copy, 1), 0);
	wait_idle(f, f->copies);
	EXPECT(f, [BACKEND_TIME_DEMAND] = 1100 + 262144);
	copy = (struct backend_copy){far.alias, near.alias, MIB(1)};
	assert_int_equal(b->ops->copy(b, f->copies, &copy, 1), 0);
	wait_idle(f, f->copies);
	EXPECT(f, [BACKEND_TIME_EVICTION] = 1100 + 524288);

	/* A kernel beside a copy: only the rest of the copy is waiting. */
	copy = (struct backend_copy){near.alias, far.alias, MIB(1)};
	assert_int_equal(b->ops->copy(b, f->copies, &copy, 1), 0);
	assert_int_equal(b->ops->fence_record(b, f->copies, &fence), 0);
	assert_int_equal(launch_touch(b, f->stream, (struct touch){0}, NULL, 0), 0);
	assert_int_equal(b->ops->stream_wait(b, f->stream, fence), 0);
	EXPECT(f, [BACKEND_TIME_COMPUTE] = 500, [BACKEND_TIME_DEMAND] = 1100 + 262144 - 500);

	b->ops->chunk_destroy(b, &near);
	b->ops->chunk_destroy(b, &far);
}

static void test_times_other_device(void **state)
{
	struct fixture *f = *state;
	uint64_t ns[BACKEND_TIME_NR];

	assert_int_equal(launch_touch(f->b, f->stream, (struct touch){0}, NULL, 0), 0);
	wait_idle(f, f->stream);
	assert_int_equal(f->b->observe->device_times(f->b, 1, ns), 0);
	assert_int_equal(ns[BACKEND_TIME_OTHER], f->b->ops->now_ns(f->b));
	assert_int_equal(f->b->observe->device_times(f->b, 2, ns), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_times_kernels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_times_hidden_allocation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_times_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_times_other_device, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
