/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the simulator's times: a phantom machine with three streams and something at both
 * ends of a link, and calls whose times are counted from t0.
 */
#ifndef WEIR_TEST_SIM_FIXTURE_H
#define WEIR_TEST_SIM_FIXTURE_H

#include <stdlib.h>

#include "tests/unit/test_sim_machine.h"

#define LAUNCH_HOST 300u
#define SETUP 1100u /* latency and one piece of a copy */

struct fixture {
	struct backend *b;
	struct weir_machine_desc desc;
	stream_id_t compute, in, out;
	void *hbm, *host; /* 2 MiB each */
	struct backend_chunk chunk_hbm, chunk_host;
	uint64_t t0;
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	test_machine(&f->desc);
	assert_int_equal(sim_create(&f->desc, WEIR_DATA_PHANTOM, &f->b), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COMPUTE, &f->compute), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COPY_IN, &f->in), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COPY_OUT, &f->out), 0);
	assert_int_equal(f->b->ops->device_alloc(f->b, GPU0, MIB(2), &f->hbm), 0);
	assert_int_equal(f->b->ops->device_alloc(f->b, HOST, MIB(2), &f->host), 0);
	assert_int_equal(f->b->ops->chunk_create(f->b, GPU0, MIB(4), 0, &f->chunk_hbm), 0);
	assert_int_equal(f->b->ops->chunk_create(f->b, HOST, MIB(4), 0, &f->chunk_host), 0);
	f->t0 = f->b->ops->now_ns(f->b);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;

	b->ops->device_free(b, f->hbm);
	b->ops->device_free(b, f->host);
	b->ops->chunk_destroy(b, &f->chunk_hbm);
	b->ops->chunk_destroy(b, &f->chunk_host);
	b->ops->stream_destroy(b, f->compute);
	b->ops->stream_destroy(b, f->in);
	b->ops->stream_destroy(b, f->out);
	assert_int_equal(sim_leaks(b), 0);
	b->ops->destroy(b);
	free(f);
	return 0;
}

static inline fence_t record(struct fixture *f, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(f->b->ops->fence_record(f->b, stream, &fence), 0);
	return fence;
}

/* Time from t0 to a fence, waited for. */
static inline uint64_t since(struct fixture *f, fence_t fence)
{
	assert_int_equal(f->b->ops->fence_wait(f->b, fence), 0);
	return f->b->observe->fence_time_ns(f->b, fence) - f->t0;
}

static inline void launch(struct fixture *f, const struct weir_use *uses, uint32_t nr, double ops)
{
	const struct weir_launch l = {
		.kernel = &touch_kernel, .uses = uses, .nr_uses = nr, .ops = ops};

	assert_int_equal(f->b->ops->launch(f->b, f->compute, &l), 0);
}

/* Time of one kernel by itself, from its start. */
static inline uint64_t kernel_ns(struct fixture *f, const struct weir_use *uses, uint32_t nr,
				 double ops)
{
	f->t0 = f->b->ops->now_ns(f->b);
	launch(f, uses, nr, ops);
	return since(f, record(f, f->compute)) - LAUNCH_HOST;
}

static inline void copy_in(struct fixture *f, stream_id_t stream, uint64_t bytes)
{
	const struct backend_copy copy = {f->chunk_hbm.alias, f->chunk_host.alias, bytes};

	assert_int_equal(f->b->ops->copy(f->b, stream, &copy, 1), 0);
}

static inline void copy_out(struct fixture *f, stream_id_t stream, uint64_t bytes)
{
	const struct backend_copy copy = {(char *)f->chunk_host.alias + MIB(2),
					  (char *)f->chunk_hbm.alias + MIB(2), bytes};

	assert_int_equal(f->b->ops->copy(f->b, stream, &copy, 1), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
