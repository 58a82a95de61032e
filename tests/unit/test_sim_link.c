/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and links of the simulator against times worked out by hand: who shares what with whom,
 * and what mapping calls cost beside them.
 */
#include "tests/unit/test_sim_fixture.h"

/* ------------------------------------------------------------------ copies */

static void test_copy_alone(void **state)
{
	struct fixture *f = *state;
	struct backend_copy copies[3];

	copy_in(f, f->in, MIB(1));
	assert_int_equal(since(f, record(f, f->in)), SETUP + 262144);
	f->t0 = f->b->ops->now_ns(f->b);
	copy_out(f, f->out, MIB(1));
	assert_int_equal(since(f, record(f, f->out)), SETUP + 524288);
	/* A batch: one latency, three pieces. */
	for (uint32_t i = 0; i < 3; i++)
		copies[i] = (struct backend_copy){(char *)f->chunk_hbm.alias + i * KIB(4),
						  f->chunk_host.alias, 4000};
	f->t0 = f->b->ops->now_ns(f->b);
	assert_int_equal(f->b->ops->copy(f->b, f->in, copies, 3), 0);
	assert_int_equal(since(f, record(f, f->in)), 1000 + 3 * 100 + 3000);
	/* In, and back: still one latency. */
	copies[1] = (struct backend_copy){(char *)f->chunk_host.alias + MIB(1), f->chunk_hbm.alias,
					  4000};
	f->t0 = f->b->ops->now_ns(f->b);
	assert_int_equal(f->b->ops->copy(f->b, f->in, copies, 2), 0);
	assert_int_equal(since(f, record(f, f->in)), 1000 + 2 * 100 + 1000 + 2000);
	/* Within the HBM: read and written, 50 bytes a ns. */
	copies[0] = (struct backend_copy){f->chunk_hbm.alias, (char *)f->chunk_hbm.alias + MIB(1),
					  500000};
	f->t0 = f->b->ops->now_ns(f->b);
	assert_int_equal(f->b->ops->copy(f->b, f->in, copies, 1), 0);
	assert_int_equal(since(f, record(f, f->in)), SETUP + 10000);
	f->t0 = f->b->ops->now_ns(f->b);
	assert_int_equal(f->b->ops->upload(f->b, f->compute, f->hbm, NULL, 4000), 0);
	assert_int_equal(f->b->ops->now_ns(f->b) - f->t0, SETUP + 1000);
}

static void test_copies_share_a_direction(void **state)
{
	struct fixture *f = *state;
	fence_t a, b;

	copy_in(f, f->in, MIB(1));
	copy_in(f, f->out, KIB(512));
	a = record(f, f->in);
	b = record(f, f->out);
	/* 2 a ns each until the shorter is done, then 4. */
	assert_int_equal(since(f, b), SETUP + 262144);
	assert_int_equal(since(f, a), SETUP + 262144 + 131072);
}

static void test_copies_both_ways(void **state)
{
	struct fixture *f = *state;
	fence_t a, b;

	copy_in(f, f->in, MIB(1));
	copy_out(f, f->out, KIB(512));
	a = record(f, f->in);
	b = record(f, f->out);
	assert_int_equal(since(f, b), SETUP + 524288);
	assert_int_equal(since(f, a), SETUP + 524288 + 131072);
}

static void test_copy_beside_kernel_in_place(void **state)
{
	struct fixture *f = *state;
	struct weir_use use = use_of(f->host, KIB(512), WEIR_READ);
	fence_t a, b;

	/* The kernel starts first, and can use half of the direction at most: 2 of 4 a ns. */
	launch(f, &use, 1, 0);
	a = record(f, f->compute);
	copy_in(f, f->in, MIB(1));
	b = record(f, f->in);
	assert_int_equal(since(f, a), 300 + 262144);
	/* Copying began at 300 + 1100, at 2 a ns until 262444, then at 4. */
	assert_int_equal(since(f, b), 262444 + (1048576 - 2 * (262444 - 1400)) / 4);
}

static void test_links_do_not_disturb_each_other(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct backend_chunk peer;
	stream_id_t stream;
	struct backend_copy copy;
	fence_t one, two;

	assert_int_equal(b->ops->chunk_create(b, GPU1, MIB(1), &peer), 0);
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COPY_IN, &stream), 0);
	f->t0 = b->ops->now_ns(b);
	copy_in(f, f->in, MIB(1));
	copy = (struct backend_copy){peer.alias, (char *)f->chunk_host.alias + MIB(2), MIB(1)};
	assert_int_equal(b->ops->copy(b, stream, &copy, 1), 0);
	one = record(f, f->in);
	two = record(f, stream);
	assert_int_equal(since(f, one), SETUP + 262144);
	assert_int_equal(since(f, two), SETUP + 262144);
	b->ops->stream_destroy(b, stream);
	b->ops->chunk_destroy(b, &peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_copy_alone),
		CASE(test_copies_share_a_direction),
		CASE(test_copies_both_ways),
		CASE(test_copy_beside_kernel_in_place),
		CASE(test_links_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
