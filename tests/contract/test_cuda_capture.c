/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that the driver does not answer, on the driver without a GPU: while a thread captures a
 * stream into a graph it refuses others what is harmless at other times, and what it refuses says
 * nothing of the work. tests/gpu/test_spaces.c captures beside a space on real ones, too.
 *
 * Labels: threads
 * Links: cuda-fake backend-cases
 */
#include "src/backend/machine.h"
#include "tests/contract/test_cuda.h"

/* ------------------------------------------------------------------ no answer */

/* Asked, asked for its time and waited for: the fence is not reached before its work is done. The
 * same refusal again is no message. */
static void test_refused_query(void **state)
{
	static const struct {
		cu_result result;
		int err;
	} refusals[] = {
		{CU_CAPTURE_UNSUPPORTED, -WEIR_ECONTRACT},
		{CU_CAPTURE_WRONG_THREAD, -WEIR_ECONTRACT},
		{CU_NOT_SUPPORTED, -ENOTSUP},
		{CU_INVALID_VALUE, -EIO}, /* there is such a fence */
	};
	struct contract *c = *state;
	struct backend *b = c->b;
	struct log_watch log;
	fence_t fence, before;

	fakecuda_gate(fakecuda_stream(0), true);
	assert_int_equal(b->ops->fence_record(b, c->compute, &before), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		log_watch(&log, WEIR_LOG_ERROR);
		fakecuda_fail_symbol("cuEventQuery", 0, refusals[i].result);
		for (int n = 0; n < 3; n++)
			assert_int_equal(b->ops->fence_done(b, fence), refusals[i].err);
		assert_int_equal(b->observe->fence_time_ns(b, before), 0);
		assert_int_equal(log.nr, 1);
		fakecuda_fail_symbol("cuEventQuery", 0, 0);
		assert_int_equal(b->ops->fence_done(b, fence), 0);
		assert_int_equal(b->ops->fence_done(b, before), 0);
	}
	weir_log_set(NULL, NULL);
	fakecuda_gate(fakecuda_stream(0), false);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->fence_done(b, before), 1);
}

/* A wait that the driver refuses; and one after which it refuses to say so. Also of a thread that
 * asks before it sleeps, whose questions may be refused, too. */
static void test_refused_wait(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	int (*const waits[])(struct backend *, fence_t) = {b->ops->fence_wait,
							   b->ops->fence_wait_awake};
	fence_t fence;

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		fakecuda_gate(fakecuda_stream(0), true);
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
		fakecuda_fail_symbol("cuEventSynchronize", 0, CU_INVALID_VALUE);
		assert_int_equal(waits[i](b, fence), -EIO);
		assert_int_equal(b->ops->fence_done(b, fence), 0);
		fakecuda_fail_symbol("cuEventSynchronize", 0, 0);
		fakecuda_gate(fakecuda_stream(0), false);
		fakecuda_fail_symbol("cuEventQuery", 0, CU_CAPTURE_UNSUPPORTED);
		assert_int_equal(waits[i](b, fence), 0);
		assert_int_equal(b->ops->fence_done(b, fence), 1);
		fakecuda_fail_symbol("cuEventQuery", 0, 0);
	}
}

/* A stream that is to wait for a fence does, though a query of the fence was refused. */
static void test_refused_query_keeps_order(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	fence_t fence, after;

	fakecuda_gate(fakecuda_stream(0), true);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	fakecuda_fail_symbol("cuEventQuery", 0, CU_CAPTURE_UNSUPPORTED);
	assert_int_equal(b->ops->fence_done(b, fence), -WEIR_ECONTRACT);
	fakecuda_fail_symbol("cuEventQuery", 0, 0);
	assert_int_equal(b->ops->stream_wait(b, c->in, fence), 0);
	assert_int_equal(b->ops->fence_record(b, c->in, &after), 0);
	b->ops->host_spend(b, 3000000);
	assert_int_equal(b->ops->fence_done(b, after), 0);
	fakecuda_gate(fakecuda_stream(0), false);
	assert_int_equal(b->ops->fence_wait(b, after), 0);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
}

/* ------------------------------------------------------------------ captures and spaces */

#define BLOCKS 12

struct planned {
	struct weir_machine *machine;
	struct backend *b;
	struct weir_stream *stream, *other;
	struct weir_space *space;
	uint8_t *range[2];
};

/* A space of 16 blocks of the GPU's memory, and 4 of a neighbour's, whose two ranges have 24. */
static void planned_open(struct planned *p)
{
	const struct weir_space_config config = {
		.budget_bytes = {[GPU0] = 16 * UNIT, [GPU1] = 4 * UNIT, [HOST] = 64 * UNIT},
		.block_bytes = UNIT,
		.mode = WEIR_PLANNED};

	fakecuda_reset(&fake);
	assert_int_equal(test_kernels_load(), 0);
	assert_int_equal(open_backend(&p->b), 0);
	assert_int_equal(machine_wrap(p->b, &p->machine), 0);
	assert_int_equal(weir_stream_create(p->machine, 0, &p->stream), 0);
	assert_int_equal(weir_stream_create(p->machine, 0, &p->other), 0);
	assert_int_equal(weir_space_create(p->machine, &config, &p->space), 0);
	for (int r = 0; r < 2; r++) {
		uint8_t zero[BLOCKS * UNIT] = {0};

		assert_int_equal(
			weir_alloc(p->space, BLOCKS * UNIT, p->stream, (void **)&p->range[r]), 0);
		assert_int_equal(weir_write(p->space, p->range[r], zero, sizeof(zero)), 0);
	}
}

/* Add one to every byte of a range. */
static void planned_step(struct planned *p, struct weir_stream *stream, int r)
{
	const struct test_add_args args = {p->range[r], p->range[r], BLOCKS * UNIT, 1};
	const struct weir_use use = use_of(p->range[r], BLOCKS * UNIT, WEIR_WRITE);
	const struct weir_launch launch = {.kernel = &test_kernel_add,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = &use,
					   .nr_uses = 1};

	assert_int_equal(weir_begin(p->space, stream, &use, 1), 0);
	assert_int_equal(weir_stream_launch(stream, &launch), 0);
	assert_int_equal(weir_end(p->space, stream), 0);
}

static void planned_expect(struct planned *p, int r, uint8_t value)
{
	uint8_t back[BLOCKS * UNIT];

	assert_int_equal(weir_read(p->space, back, p->range[r], sizeof(back)), 0);
	for (size_t i = 0; i < sizeof(back); i++)
		if (back[i] != value)
			fail_msg("byte %zu of range %d is %u, not %u", i, r, back[i], value);
}

static void planned_close(struct planned *p)
{
	assert_int_equal(weir_space_check(p->space), 0);
	weir_space_destroy(p->space);
	weir_stream_destroy(p->stream);
	weir_stream_destroy(p->other);
	weir_machine_close(p->machine);
	weir_log_set(NULL, NULL);
	assert_no_problem();
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* Queries are refused while blocks of slow work are wanted for something else: they are waited for,
 * and nothing is lost. */
static void test_refused_beside_moves(void **state)
{
	struct planned p;
	int err;

	(void)state;
	planned_open(&p);
	fakecuda_delay(NULL, 3000000);
	for (int i = 0; i < 6; i++) {
		planned_step(&p, p.stream, 0);
		fakecuda_fail_symbol("cuEventQuery", 0, CU_CAPTURE_UNSUPPORTED);
		planned_step(&p, p.other, 1);
		fakecuda_fail_symbol("cuEventQuery", 0, 0);
	}
	fakecuda_delay(NULL, 0);
	/* That questions were refused may be said, once. */
	err = weir_space_sync(p.space);
	assert_true(!err || err == -WEIR_ECONTRACT);
	assert_int_equal(weir_space_sync(p.space), 0);
	planned_expect(&p, 0, 6);
	planned_expect(&p, 1, 6);
	planned_close(&p);
}

/* Begins a capture, as another thread of the program. */
static void *capture_begin(void *native)
{
	return (void *)(intptr_t)fakecuda_capture(native, true);
}

/* Everything that a program does with weir while a thread of its own captures a stream of its own:
 * nothing is refused, and the capture is not spoiled. debug: debug mode, which asks more. */
static void capture_elsewhere(bool debug)
{
	struct log_watch log;
	struct backend *second;
	struct weir_stream *stream;
	struct planned p;
	pthread_t thread;
	void *captured, *more;

	assert_int_equal(setenv("WEIR_CUDA_DEBUG", debug ? "1" : "0", 1), 0);
	planned_open(&p);
	captured = weir_stream_native(p.other);
	assert_int_equal(pthread_create(&thread, NULL, capture_begin, captured), 0);
	assert_int_equal(pthread_join(thread, &more), 0);
	assert_null(more);
	log_watch(&log, WEIR_LOG_ERROR);
	for (int i = 0; i < 6; i++)
		planned_step(&p, p.stream, i % 2);
	/* A neighbour's memory is taken back and lent again. */
	assert_int_equal(weir_space_set_budget(p.space, GPU1, 0), 0);
	assert_int_equal(p.b->ops->memory_used(p.b, GPU1), 0);
	assert_int_equal(weir_space_set_budget(p.space, GPU1, 4 * UNIT), 0);
	assert_int_equal(weir_space_sync(p.space), 0);
	planned_expect(&p, 0, 3);
	planned_expect(&p, 1, 3);
	assert_int_equal(weir_alloc(p.space, 4 * UNIT, NULL, &more), 0);
	assert_int_equal(weir_free(p.space, more, NULL), 0);
	assert_int_equal(weir_space_set_mode(p.space, WEIR_FIXED), 0);
	assert_int_equal(weir_stream_create(p.machine, 0, &stream), 0);
	assert_int_equal(weir_stream_sync(stream), 0);
	weir_stream_destroy(stream);
	assert_int_equal(p.b->ops->device_alloc(p.b, HOST, UNIT, &more), 0);
	p.b->ops->device_free(p.b, more);
	assert_int_equal(open_backend(&second), 0);
	second->ops->destroy(second);
	log_watch(&log, WEIR_LOG_ERROR);
	assert_int_equal(fakecuda_capture(captured, false), 0);
	assert_int_equal(log.nr, 0);
	planned_close(&p);
	unsetenv("WEIR_CUDA_DEBUG");
}

static void test_capture_elsewhere(void **state)
{
	(void)state;
	capture_elsewhere(false);
}

static void test_capture_elsewhere_debug(void **state)
{
	(void)state;
	capture_elsewhere(true);
}

/* The thread's own mode is what it was, after calls that failed, too. */
static void test_mode_is_put_back(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	fence_t fence;
	void *addr;

	assert_int_equal(b->ops->device_alloc(b, HOST, UINT64_MAX / 2, &addr), -ENOMEM);
	fakecuda_fail_symbol("cuCtxPushCurrent_v2", 0, CU_NOT_SUPPORTED);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), -ENOTSUP);
	fakecuda_fail_symbol("cuCtxPushCurrent_v2", 0, 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(fakecuda_capture_mode(), 0);
}

/* A capture that begins inside a bracket: its work has no end then that could be waited for, so the
 * bracket stays open until the capture is over. */
static void test_capture_in_bracket(void **state)
{
	struct weir_use use;
	struct log_watch log;
	struct planned p;
	void *native;

	(void)state;
	planned_open(&p);
	native = weir_stream_native(p.stream);
	use = use_of(p.range[0], BLOCKS * UNIT, WEIR_WRITE);
	assert_int_equal(weir_begin(p.space, p.stream, &use, 1), 0);
	assert_int_equal(fakecuda_capture(native, true), 0);
	log_watch(&log, WEIR_LOG_ERROR);
	assert_int_equal(weir_end(p.space, p.stream), -WEIR_ECONTRACT);
	assert_int_equal(log.nr, 1);
	assert_has(log.first, "is being captured into a graph");
	assert_int_equal(weir_stream_sync(p.stream), -WEIR_ECONTRACT);
	/* What it names stays where it is. */
	assert_int_equal(weir_read(p.space, &use, p.range[0], 1), -EBUSY);
	assert_int_equal(weir_space_set_budget(p.space, GPU0, 2 * UNIT), -EBUSY);
	assert_int_equal(weir_space_set_budget(p.space, GPU1, 0), 0);
	assert_int_equal(fakecuda_capture(native, false), 0);
	assert_int_equal(weir_end(p.space, p.stream), 0);
	assert_int_equal(weir_end(p.space, p.stream), -WEIR_ECONTRACT);
	for (int i = 0; i < 4; i++)
		planned_step(&p, p.stream, i % 2);
	planned_expect(&p, 0, 2);
	planned_close(&p);
}

/* A stream that is captured is not made to wait for what is not, which would spoil the capture; and
 * marks, which nobody waits for, are refused without a word. */
static void test_captured_stream_is_left_alone(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct log_watch log;
	fence_t fence, mark;

	fakecuda_gate(fakecuda_stream(1), true);
	assert_int_equal(b->ops->fence_record(b, c->in, &fence), 0);
	assert_int_equal(fakecuda_capture(fakecuda_stream(0), true), 0);
	assert_int_equal(b->ops->stream_wait(b, c->compute, fence), -WEIR_ECONTRACT);
	assert_int_equal(b->ops->access_begin(b, c->compute, c, NULL, 0), -WEIR_ECONTRACT);
	log_watch(&log, WEIR_LOG_ERROR);
	assert_int_equal(b->observe->fence_mark(b, c->compute, &mark), -WEIR_ECONTRACT);
	assert_int_equal(log.nr, 0);
	weir_log_set(NULL, NULL);
	assert_int_equal(fakecuda_capture(fakecuda_stream(0), false), 0);
	fakecuda_gate(fakecuda_stream(1), false);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
}

/* ------------------------------------------------------------------ */

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_refused_query),
		CASE(test_refused_wait),
		CASE(test_refused_query_keeps_order),
		cmocka_unit_test(test_refused_beside_moves),
		cmocka_unit_test(test_capture_elsewhere),
		cmocka_unit_test(test_capture_elsewhere_debug),
		CASE(test_mode_is_put_back),
		cmocka_unit_test(test_capture_in_bracket),
		CASE(test_captured_stream_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
