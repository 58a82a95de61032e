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

	assert_int_equal(b->ops->chunk_create(b, GPU1, MIB(1), 0, &peer), 0);
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

/* ------------------------------------------------------------------ use in place beside copies */

/* A kernel that uses 512 KiB of the host's memory, and beside it a copy of 256 KiB. */
struct pair {
	uint64_t kernel_ns, copy_ns;
};

static struct pair run_pair(struct fixture *f, enum weir_use_kind kind, bool out)
{
	struct weir_use use = use_of(f->host, KIB(512), kind);
	fence_t kernel, copy;
	struct pair pair;

	f->t0 = f->b->ops->now_ns(f->b);
	launch(f, &use, 1, 0);
	kernel = record(f, f->compute);
	(out ? copy_out : copy_in)(f, out ? f->out : f->in, KIB(256));
	copy = record(f, out ? f->out : f->in);
	pair.kernel_ns = since(f, kernel);
	pair.copy_ns = since(f, copy);
	return pair;
}

static void expect_pair(struct pair pair, uint64_t kernel_ns, uint64_t copy_ns)
{
	assert_int_equal(pair.kernel_ns, kernel_ns);
	assert_int_equal(pair.copy_ns, copy_ns);
}

/* The kernel begins at 300, the copy at 300 + 1,100; until then 2,200 bytes have come in. */
#define COPY_BEGIN (LAUNCH_HOST + SETUP)
#define ALONE (2 * SETUP)

/* What a kernel reads in place and a copy to the host have half a byte a ns each, though copies
 * both ways have 1. */
static void test_reading_in_place_beside_a_copy_out(void **state)
{
	struct fixture *f = *state;
	struct weir_link_desc *link = &f->b->desc.link[0];
	const uint64_t copy_ns = COPY_BEGIN + 2 * KIB(256);
	uint64_t read_ns, left;

	link->inplace_duplex_bytes_per_s = 0.5e9;
	/* Once the copy is done, the rest comes in at 2. */
	expect_pair(run_pair(f, WEIR_READ, true), copy_ns + (KIB(256) - ALONE) / 2, copy_ns);
	/* It is the lesser of the two rates that counts. */
	link->inplace_duplex_bytes_per_s = 4e9;
	expect_pair(run_pair(f, WEIR_READ, true), COPY_BEGIN + KIB(256) + (KIB(256) - ALONE) / 2,
		    COPY_BEGIN + KIB(256));
	/* A kernel that writes as well sends that the way of the copy, 0.25 each, for as long as
	 * what it reads comes in at 0.5; 1,100 bytes of both crossed before. Then 1 each, and
	 * 2. */
	link->inplace_duplex_bytes_per_s = 0.5e9;
	read_ns = 2 * (KIB(512) - SETUP);
	left = KIB(256) - read_ns / 4;
	expect_pair(run_pair(f, WEIR_WRITE, true),
		    COPY_BEGIN + read_ns + left + (KIB(256) - SETUP) / 2,
		    COPY_BEGIN + read_ns + left);
}

/* A copy to the device, a kernel that only writes, and copies by themselves: as before. */
static void test_inplace_duplex_is_of_reading_and_copies_out(void **state)
{
	struct fixture *f = *state;
	struct weir_use use = use_of(f->host, KIB(512), WEIR_WRITE);
	fence_t in, out;

	f->b->desc.link[0].inplace_duplex_bytes_per_s = 0.01e9;
	/* Both in: 2 of 4 a ns. */
	expect_pair(run_pair(f, WEIR_READ, false), LAUNCH_HOST + KIB(256), COPY_BEGIN + KIB(128));
	/* Both out: 1 of 2. */
	expect_pair(run_pair(f, WEIR_OVERWRITE, true),
		    COPY_BEGIN + KIB(256) + (KIB(256) - ALONE) / 2, COPY_BEGIN + KIB(256));
	/* Out and in: 1 each, the rate of two copies. */
	expect_pair(run_pair(f, WEIR_OVERWRITE, false),
		    COPY_BEGIN + KIB(256) + (KIB(256) - ALONE) / 2, COPY_BEGIN + KIB(256));
	f->t0 = f->b->ops->now_ns(f->b);
	copy_in(f, f->in, KIB(256));
	in = record(f, f->in);
	copy_out(f, f->out, KIB(256));
	out = record(f, f->out);
	assert_int_equal(since(f, in), SETUP + KIB(256));
	assert_int_equal(since(f, out), SETUP + KIB(256));
	/* Nor does a kernel's own traffic both ways. */
	assert_int_equal(kernel_ns(f, &use, 1, 0), KIB(512));
}

/* Each link has its own: what another device reads does not count. */
static void test_inplace_duplex_of_one_link(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct weir_use use = use_of(f->host, KIB(512), WEIR_READ);
	struct backend_chunk chunk;
	struct backend_copy copy;
	stream_id_t second, out;
	fence_t kernel, copied[2];

	b->desc.link[0].inplace_duplex_bytes_per_s = 0.01e9;
	b->desc.link[1].inplace_duplex_bytes_per_s = 0.5e9;
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COMPUTE, &second), 0);
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COPY_OUT, &out), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU1, MIB(1), 0, &chunk), 0);
	copy = (struct backend_copy){f->chunk_host.alias, chunk.alias, KIB(256)};
	f->t0 = b->ops->now_ns(b);
	assert_int_equal(launch_touch(b, second, (struct touch){0}, &use, 1), 0);
	kernel = record(f, second);
	copy_out(f, f->out, KIB(256));
	copied[0] = record(f, f->out);
	assert_int_equal(b->ops->copy(b, out, &copy, 1), 0);
	copied[1] = record(f, out);
	assert_int_equal(since(f, copied[0]), COPY_BEGIN + KIB(128));
	assert_int_equal(since(f, copied[1]), COPY_BEGIN + 2 * KIB(256));
	assert_int_equal(since(f, kernel), COPY_BEGIN + 2 * KIB(256) + (KIB(256) - ALONE) / 2);
	b->ops->stream_destroy(b, second);
	b->ops->stream_destroy(b, out);
	b->ops->chunk_destroy(b, &chunk);
}

/* ------------------------------------------------------------------ mapping calls beside it */

#define BUSY 7000u

/* What calls on one chunk take, of the host's time. */
struct mapping {
	struct backend_chunk chunk;
	char *va;
};

static uint64_t map_ns(struct fixture *f, struct mapping *m)
{
	uint64_t t0 = f->b->ops->now_ns(f->b);

	assert_int_equal(f->b->ops->map(f->b, m->va, &m->chunk, BACKEND_PROT_WRITE, 1), 0);
	return f->b->ops->now_ns(f->b) - t0;
}

static uint64_t set_access_ns(struct fixture *f, struct mapping *m)
{
	uint64_t t0 = f->b->ops->now_ns(f->b);

	assert_int_equal(f->b->ops->set_access(f->b, m->va, BACKEND_PROT_READ, 1), 0);
	return f->b->ops->now_ns(f->b) - t0;
}

static uint64_t unmap_ns(struct fixture *f, struct mapping *m)
{
	uint64_t t0 = f->b->ops->now_ns(f->b);

	assert_int_equal(f->b->ops->unmap(f->b, m->va), 0);
	return f->b->ops->now_ns(f->b) - t0;
}

/* All three of them now, with so much more for giving access and for unmapping; nobody's access
 * costs nothing. */
static void expect_calls(struct fixture *f, struct mapping *m, uint64_t more_ns,
			 uint64_t unmap_more_ns)
{
	uint64_t t0;

	assert_int_equal(map_ns(f, m), 600 + 19000 + more_ns);
	assert_int_equal(set_access_ns(f, m), 19000 + more_ns);
	t0 = f->b->ops->now_ns(f->b);
	assert_int_equal(f->b->ops->set_access(f->b, m->va, BACKEND_PROT_NONE, 0), 0);
	assert_int_equal(f->b->ops->now_ns(f->b), t0);
	assert_int_equal(set_access_ns(f, m), 19000 + more_ns);
	assert_int_equal(unmap_ns(f, m), 13000 + unmap_more_ns);
}

/* The same while what was just queued runs, which is after a while, and to its end. */
static void expect_all_beside(struct fixture *f, struct mapping *m, stream_id_t stream,
			      uint64_t more_ns, uint64_t unmap_more_ns)
{
	fence_t fence = record(f, stream);

	f->b->ops->host_spend(f->b, 2000);
	expect_calls(f, m, more_ns, unmap_more_ns);
	assert_int_equal(f->b->ops->fence_done(f->b, fence), 0);
	assert_int_equal(f->b->ops->fence_wait(f->b, fence), 0);
	expect_calls(f, m, 0, 0);
}

static void expect_calls_beside(struct fixture *f, struct mapping *m, stream_id_t stream,
				uint64_t more_ns)
{
	expect_all_beside(f, m, stream, more_ns, 0);
}

/* Giving access takes longer while copies go to the host's memory or kernels read there. */
static void test_access_takes_longer_beside_them(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct weir_use use = use_of(f->host, MIB(2), WEIR_READ);
	struct mapping m;

	b->desc.vmm.set_access_busy_ns = BUSY;
	assert_int_equal(b->ops->va_reserve(b, KIB(64), KIB(64), (void **)&m.va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, KIB(64), 0, &m.chunk), 0);
	expect_calls(f, &m, 0, 0);
	copy_out(f, f->out, MIB(2));
	expect_calls_beside(f, &m, f->out, BUSY);
	launch(f, &use, 1, 0);
	expect_calls_beside(f, &m, f->compute, BUSY);
	/* Once, whatever of that there is. */
	launch(f, &use, 1, 0);
	copy_out(f, f->out, MIB(2));
	expect_calls_beside(f, &m, f->out, BUSY);
	/* Not for copies to the device, kernels that only write there or stay in HBM. */
	copy_in(f, f->in, MIB(2));
	expect_calls_beside(f, &m, f->in, 0);
	use = use_of(f->host, MIB(2), WEIR_OVERWRITE);
	launch(f, &use, 1, 0);
	expect_calls_beside(f, &m, f->compute, 0);
	use = use_of(f->hbm, MIB(2), WEIR_READ);
	launch(f, &use, 1, 1e9);
	expect_calls_beside(f, &m, f->compute, 0);
	b->ops->chunk_destroy(b, &m.chunk);
	b->ops->va_release(b, m.va, KIB(64));
}

/* Between gpu0 and another memory's chunk, to that or from it. */
static void copy_with(struct fixture *f, const struct backend_chunk *other, bool out)
{
	const struct backend_copy copy = {out ? other->alias : f->chunk_hbm.alias,
					  out ? f->chunk_hbm.alias : other->alias, MIB(2)};

	assert_int_equal(f->b->ops->copy(f->b, out ? f->out : f->in, &copy, 1), 0);
}

/* Giving access takes longer beside copies from the host to the device that gets it, unmapping
 * beside copies between the device that had it and another one. */
static void test_calls_take_longer_beside_some_copies(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct backend_chunk peer;
	struct mapping m;
	uint64_t t0;

	b->desc.vmm.set_access_busy_in_ns = BUSY;
	b->desc.vmm.unmap_busy_peer_ns = 2 * BUSY;
	assert_int_equal(b->ops->va_reserve(b, KIB(64), KIB(64), (void **)&m.va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, KIB(64), 0, &m.chunk), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU1, MIB(2), 1, &peer), 0);
	copy_in(f, f->in, MIB(2));
	expect_all_beside(f, &m, f->in, BUSY, 0);
	copy_out(f, f->out, MIB(2));
	expect_all_beside(f, &m, f->out, 0, 0);
	copy_with(f, &peer, true);
	expect_all_beside(f, &m, f->out, 0, 2 * BUSY);
	copy_with(f, &peer, false);
	expect_all_beside(f, &m, f->in, 0, 2 * BUSY);
	/* The other device's access: what comes from the host to this one is nothing to it. */
	copy_in(f, f->in, MIB(2));
	f->b->ops->host_spend(f->b, 2000);
	t0 = b->ops->now_ns(b);
	assert_int_equal(b->ops->map(b, m.va, &m.chunk, BACKEND_PROT_WRITE, 2), 0);
	assert_int_equal(b->ops->now_ns(b) - t0, 600 + 19000);
	/* Both reasons: the larger of the two. */
	b->desc.vmm.set_access_busy_ns = 3 * BUSY;
	copy_out(f, f->out, MIB(2));
	f->b->ops->host_spend(f->b, 2000);
	assert_int_equal(set_access_ns(f, &m), 19000 + 3 * BUSY);
	assert_int_equal(b->ops->fence_wait(b, record(f, f->in)), 0);
	assert_int_equal(b->ops->fence_wait(b, record(f, f->out)), 0);
	assert_int_equal(unmap_ns(f, &m), 13000);
	b->ops->chunk_destroy(b, &peer);
	b->ops->chunk_destroy(b, &m.chunk);
	b->ops->va_release(b, m.va, KIB(64));
}

/* The migrator unmaps four chunks; beside what is for each of them said where that is done. */
struct unmapper {
	struct fixture *f;
	struct backend_chunk chunk[4], peer;
	char *va;
	uint64_t ns[4];
	bool done;
};

static uint64_t unmap_one(struct unmapper *u, uint32_t i)
{
	struct mapping m = {.va = u->va + i * KIB(64)};

	return unmap_ns(u->f, &m);
}

static void unmap_in_turn(void *arg)
{
	struct unmapper *u = arg;
	struct backend *b = u->f->b;

	if (u->done)
		return;
	u->done = true;
	u->ns[0] = unmap_one(u, 0); /* beside a copy that is over before the call is */
	u->ns[1] = unmap_one(u, 1); /* by its own clock beside nothing */
	copy_with(u->f, &u->peer, false);
	u->ns[2] = unmap_one(u, 2); /* beside what it queued itself */
	b->ops->host_spend(b, 300000);
	u->ns[3] = unmap_one(u, 3); /* after that */
}

static void test_migrator_sees_copies_by_its_clock(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct unmapper u = {.f = f};

	b->desc.vmm.unmap_busy_peer_ns = 200000;
	assert_int_equal(b->ops->va_reserve(b, KIB(256), KIB(64), (void **)&u.va), 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(b->ops->chunk_create(b, GPU0, KIB(64), 0, &u.chunk[i]), 0);
		assert_int_equal(
			b->ops->map(b, u.va + i * KIB(64), &u.chunk[i], BACKEND_PROT_WRITE, 1), 0);
	}
	assert_int_equal(b->ops->chunk_create(b, GPU1, MIB(2), 1, &u.peer), 0);
	assert_int_equal(b->ops->set_progress(b, unmap_in_turn, &u), 0);
	launch(f, NULL, 0, 0);
	(void)record(f, f->compute);
	copy_with(f, &u.peer, true);
	b->ops->host_spend(b, 1000000);
	assert_true(u.done);
	assert_int_equal(u.ns[0], 213000);
	assert_int_equal(u.ns[1], 13000);
	assert_int_equal(u.ns[2], 213000);
	assert_int_equal(u.ns[3], 13000);
	assert_int_equal(b->ops->set_progress(b, NULL, &u), 0);
	for (uint32_t i = 0; i < 4; i++)
		b->ops->chunk_destroy(b, &u.chunk[i]);
	b->ops->chunk_destroy(b, &u.peer);
	b->ops->va_release(b, u.va, KIB(256));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_copy_alone),
		CASE(test_copies_share_a_direction),
		CASE(test_copies_both_ways),
		CASE(test_copy_beside_kernel_in_place),
		CASE(test_links_do_not_disturb_each_other),
		CASE(test_reading_in_place_beside_a_copy_out),
		CASE(test_inplace_duplex_is_of_reading_and_copies_out),
		CASE(test_inplace_duplex_of_one_link),
		CASE(test_access_takes_longer_beside_them),
		CASE(test_calls_take_longer_beside_some_copies),
		CASE(test_migrator_sees_copies_by_its_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
