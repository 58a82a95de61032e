/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the CUDA backend knows of fences, and when: its thread asks the driver for them without the
 * lock, who asks often gets that thread's answers, and times are asked for late. On the driver
 * without a GPU.
 *
 * Labels: threads
 * Links: cuda-fake backend-cases
 */
#include "src/backend/cuda/cuda_internal.h"
#include "tests/contract/test_cuda.h"

#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

/* What a stream of the driver takes before calls wait. */
#define QUEUE 1021

static void nothing(void *arg)
{
	(void)arg;
}

static void *native_of(const struct contract *c)
{
	return c->b->ops->stream_native(c->b, c->compute);
}

/* The driver is asked for a time when somebody wants to know it, and once. */
static void test_times_when_asked(void **state)
{
	enum { NR = 20 };
	struct contract *c = *state;
	struct backend *b = c->b;
	const uint64_t before = fakecuda_nr_calls_of("cuEventElapsedTime");
	fence_t fence[NR];
	uint64_t ns;

	for (int i = 0; i < NR; i++)
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence[i]), 0);
	assert_int_equal(b->ops->fence_wait(b, fence[NR - 1]), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuEventElapsedTime"), before);
	ns = b->observe->fence_time_ns(b, fence[3]);
	assert_in_range(ns, 1, b->ops->now_ns(b));
	assert_int_equal(b->observe->fence_time_ns(b, fence[3]), ns);
	assert_int_equal(fakecuda_nr_calls_of("cuEventElapsedTime"), before + 1);
}

/* Of all that a stream can have queued. */
static void test_times_of_many(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	fence_t fence[QUEUE];

	fakecuda_gate(native_of(c), true);
	for (int i = 0; i < QUEUE; i++)
		assert_int_equal(b->observe->fence_mark(b, c->compute, &fence[i]), 0);
	fakecuda_gate(native_of(c), false);
	assert_int_equal(b->ops->fence_wait(b, fence[QUEUE - 1]), 0);
	for (int i = 0; i < QUEUE; i++)
		assert_true(b->observe->fence_time_ns(b, fence[i]));
}

/* Ask for a fence that is not reached, for a millisecond. @return calls of the driver for each. */
static double ask(struct backend *b, fence_t fence)
{
	const uint64_t before = fakecuda_nr_calls_of("cuEventQuery"), begin = b->ops->now_ns(b);
	double nr = 0;

	do {
		assert_int_equal(b->ops->fence_seen(b, fence), 0);
		nr++;
	} while (b->ops->now_ns(b) - begin < 1000000);
	return (double)(fakecuda_nr_calls_of("cuEventQuery") - before) / nr;
}

/* As soon as the backend's thread looks out for fences, who asks over and over does not call the
 * driver each time, and still knows at once what a fence that was waited for was behind. */
static void test_asking_often(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	fence_t first, second;
	double least = 1;

	assert_int_equal(b->ops->set_progress(b, nothing, c), 0);
	for (int round = 0; round < 20 || (least > 0.5 && round < 1000); round++) {
		fakecuda_gate(native_of(c), true);
		assert_int_equal(b->ops->fence_record(b, c->compute, &first), 0);
		assert_int_equal(b->ops->stream_wait(b, c->in, first), 0);
		assert_int_equal(b->ops->fence_record(b, c->in, &second), 0);
		least = fmin(least, ask(b, first));
		fakecuda_gate(native_of(c), false);
		assert_int_equal(b->ops->fence_wait(b, second), 0);
		assert_int_equal(b->ops->fence_seen(b, first), 1);
	}
	assert_true(least < 0.5);
	assert_int_equal(b->ops->set_progress(b, NULL, c), 0);
}

/* Who asks for a prompt answer gets one, though the thread has looked just before: the program may
 * have synchronised with the stream itself. */
static void test_done_at_once(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	fence_t fence;

	assert_int_equal(b->ops->set_progress(b, nothing, c), 0);
	for (int round = 0; round < 100; round++) {
		fakecuda_gate(native_of(c), true);
		assert_int_equal(b->ops->fence_untimed(b, c->compute, &fence), 0);
		usleep(500 + 3 * (unsigned int)round);
		assert_int_equal(b->ops->fence_done(b, fence), 0);
		fakecuda_gate(native_of(c), false);
		while (fakecuda_nr_pending(native_of(c)))
			;
		assert_int_equal(b->ops->fence_done(b, fence), 1);
	}
	assert_int_equal(b->ops->set_progress(b, NULL, c), 0);
}

/* ------------------------------------------------------------------ the end */

static struct {
	cu_result (*query)(cu_event event);
	struct cuda *cuda;
	atomic_bool is_asking, may_answer;
} slow;

/* The thread's question takes until it may be answered. */
static cu_result slow_query(cu_event event)
{
	if (!pthread_equal(pthread_self(), slow.cuda->migrator))
		return slow.query(event);
	atomic_store(&slow.is_asking, true);
	while (!atomic_load(&slow.may_answer))
		usleep(100);
	return slow.query(event);
}

static void *answer_later(void *arg)
{
	(void)arg;
	usleep(100000);
	atomic_store(&slow.may_answer, true);
	return NULL;
}

/* The thread is about to sleep for good when it is told to stop: it asks for a fence that the
 * program has found reached meanwhile. */
static void test_closing_during_a_look(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	pthread_t answer;
	fence_t fence;

	slow.cuda = cuda_of(b);
	slow.query = slow.cuda->driver.event_query;
	slow.cuda->driver.event_query = slow_query;
	assert_int_equal(b->ops->set_progress(b, nothing, c), 0);
	assert_int_equal(b->ops->fence_untimed(b, c->compute, &fence), 0);
	while (!atomic_load(&slow.is_asking))
		usleep(100);
	while (!b->ops->fence_done(b, fence))
		;
	assert_int_equal(b->ops->set_progress(b, NULL, c), 0);
	assert_int_equal(pthread_create(&answer, NULL, answer_later, NULL), 0);
	alarm(60); /* it would hang for ever */
	teardown(state);
	alarm(0);
	pthread_join(answer, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_times_when_asked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_times_of_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asking_often, setup, teardown),
		cmocka_unit_test_setup_teardown(test_done_at_once, setup, teardown),
		cmocka_unit_test_setup(test_closing_during_a_look, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
