/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's arithmetic against times worked out by hand: kernels, use in place, the
 * migrator's clock, determinism. On a phantom machine, where the times are the same and nothing
 * else is. For copies and links see test_sim_link.c.
 */
#include <errno.h>

#include "src/cost/cost.h"
#include "tests/unit/test_sim_fixture.h"

/* ------------------------------------------------------------------ kernels */

static void test_kernel_is_the_largest(void **state)
{
	struct fixture *f = *state;
	struct weir_use use = use_of(f->hbm, MIB(1), WEIR_READ);

	assert_int_equal(kernel_ns(f, NULL, 0, 0), 500);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 10486); /* 1048576 / 100 */
	assert_int_equal(kernel_ns(f, &use, 1, 1e8), 100000);
	use.read_bytes = 100;
	assert_int_equal(kernel_ns(f, &use, 1, 0), 500);
	use = use_of(f->hbm, MIB(1), WEIR_WRITE); /* reads and writes */
	assert_int_equal(kernel_ns(f, &use, 1, 0), 20972);
	use.kind = WEIR_DISCARD;
	assert_int_equal(kernel_ns(f, &use, 1, 0), 500);
}

/* A listed kernel takes its factor of time in HBM and of operations, and others do not; what it
 * moves in place, and the least time of a kernel, stay. */
static void test_kernel_has_a_factor(void **state)
{
	struct fixture *f = *state;
	struct weir_machine_desc desc = f->b->desc;
	struct weir_use use = use_of(f->hbm, MIB(1), WEIR_READ);
	struct weir_use away = use_of(f->host, MIB(1), WEIR_READ);
	uint64_t away_ns = kernel_ns(f, &away, 1, 0);

	f->b->desc.nr_kernels = 2;
	f->b->desc.kernel[0] = (struct weir_kernel_rate){"touch-not", 9};
	f->b->desc.kernel[1] = (struct weir_kernel_rate){"touch", 2};
	assert_int_equal(kernel_ns(f, &use, 1, 0), 20972);
	assert_int_equal(kernel_ns(f, &use, 1, 1e8), 200000);
	assert_int_equal(kernel_ns(f, &away, 1, 0), away_ns);
	use.read_bytes = 100;
	assert_int_equal(kernel_ns(f, &use, 1, 0), 500);
	assert_true(cost_kernel_factor(&f->b->desc, "touch") == 2);
	assert_true(cost_kernel_factor(&f->b->desc, "tou") == 1);
	assert_true(cost_kernel_factor(&f->b->desc, "") == 1);
	assert_true(cost_kernel_factor(&f->b->desc, NULL) == 1);
	f->b->desc = desc;
}

static void test_kernel_random_moves_sectors(void **state)
{
	struct fixture *f = *state;
	struct weir_use use = use_of(f->hbm, MIB(1), WEIR_READ);

	use.pattern = WEIR_RANDOM;
	use.granule = 0; /* a word: a sector each, 8 times the bytes */
	assert_int_equal(kernel_ns(f, &use, 1, 0), 167773); /* 8 * 1048576 / 50 */
	use.granule = 1024;
	assert_int_equal(kernel_ns(f, &use, 1, 0), 20972);
	/* 40 bytes at a multiple of 8: (40 + 24) / 32 = 2 sectors */
	assert_true(cost_sector_bytes(40) == 64);
	assert_true(cost_sector_bytes(0) == 32);
	assert_true(cost_sector_bytes(1) == 32);
	assert_true(cost_sector_bytes(48) == 64); /* at a multiple of 16 */
	assert_true(cost_sector_bytes(96) == 96);
}

static void test_kernels_take_turns(void **state)
{
	struct fixture *f = *state;
	struct weir_use use = use_of(f->hbm, MIB(1), WEIR_READ);
	stream_id_t other, second;
	fence_t a, b, c;

	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COMPUTE, &other), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 1, BACKEND_COMPUTE, &second), 0);
	launch(f, &use, 1, 0);
	a = record(f, f->compute);
	assert_int_equal(launch_touch(f->b, other, (struct touch){0}, &use, 1), 0);
	b = record(f, other);
	/* Another device does not wait; it reads over the link between the two. */
	use.read_bytes = 2000;
	assert_int_equal(launch_touch(f->b, second, (struct touch){0}, &use, 1), 0);
	c = record(f, second);
	assert_int_equal(since(f, a), 300 + 10486);
	assert_int_equal(since(f, b), 300 + 2 * 10486);
	assert_int_equal(since(f, c), 900 + 1000);
	f->b->ops->stream_destroy(f->b, other);
	f->b->ops->stream_destroy(f->b, second);
}

/* Of kernels that wait for one fence the one that was queued first runs first, whichever stream is
 * looked at first. */
static void test_kernels_run_as_queued(void **state)
{
	struct fixture *f = *state;
	const struct backend_ops *ops = f->b->ops;
	struct weir_use use = use_of(f->hbm, MIB(1), WEIR_READ);
	stream_id_t one, other;
	uint64_t end;
	fence_t a, b, c;

	assert_int_equal(ops->stream_create(f->b, 0, BACKEND_COMPUTE, &one), 0);
	assert_int_equal(ops->stream_create(f->b, 0, BACKEND_COMPUTE, &other), 0);
	launch(f, &use, 1, 0);
	a = record(f, f->compute);
	assert_int_equal(ops->stream_wait(f->b, other, a), 0);
	assert_int_equal(ops->stream_wait(f->b, one, a), 0);
	assert_int_equal(launch_touch(f->b, one, (struct touch){0}, &use, 1), 0);
	b = record(f, one);
	assert_int_equal(launch_touch(f->b, other, (struct touch){0}, &use, 1), 0);
	c = record(f, other);
	end = since(f, a);
	assert_int_equal(since(f, b), end + 10486);
	assert_int_equal(since(f, c), end + 2 * 10486);
	ops->stream_destroy(f->b, one);
	ops->stream_destroy(f->b, other);
}

/* What an urgent stream has to run as a kernel ends goes before one that has waited for longer;
 * what runs is not interrupted. */
static void test_urgent_kernels_go_first(void **state)
{
	struct fixture *f = *state;
	const struct backend_ops *ops = f->b->ops;
	struct weir_use use = use_of(f->hbm, MIB(1), WEIR_READ);
	stream_id_t other, urgent;
	uint64_t end;
	fence_t a, b, c;

	assert_int_equal(ops->stream_create(f->b, 0, BACKEND_COMPUTE, &other), 0);
	assert_int_equal(ops->stream_create(f->b, 0, BACKEND_URGENT, &urgent), 0);
	launch(f, &use, 1, 0);
	a = record(f, f->compute);
	assert_int_equal(launch_touch(f->b, other, (struct touch){0}, &use, 1), 0);
	b = record(f, other);
	assert_int_equal(ops->stream_wait(f->b, urgent, a), 0);
	assert_int_equal(launch_touch(f->b, urgent, (struct touch){0}, &use, 1), 0);
	c = record(f, urgent);
	end = since(f, a);
	assert_int_equal(end, 300 + 10486);
	assert_int_equal(since(f, c), end + 10486);
	assert_int_equal(since(f, b), end + 2 * 10486);
	ops->stream_destroy(f->b, other);
	ops->stream_destroy(f->b, urgent);
}

/* ------------------------------------------------------------------ use in place */

static void test_kernel_in_place(void **state)
{
	struct fixture *f = *state;
	uint64_t bytes[BACKEND_DIRECTION_NR];
	struct weir_use use = use_of(f->host, MIB(1), WEIR_READ);

	assert_int_equal(kernel_ns(f, &use, 1, 0), 524288); /* at 2 bytes a ns */
	f->b->observe->inplace_bytes(f->b, 0, HOST, bytes);
	assert_int_equal(bytes[BACKEND_TO_DEVICE], MIB(1));
	assert_int_equal(bytes[BACKEND_TO_HOST], 0);
	/* Both ways: duplex, 1 byte a ns each. */
	use = use_of(f->host, MIB(1), WEIR_WRITE);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 1048576);
	f->b->observe->inplace_bytes(f->b, 0, HOST, bytes);
	assert_int_equal(bytes[BACKEND_TO_DEVICE], MIB(2));
	assert_int_equal(bytes[BACKEND_TO_HOST], MIB(1));
	/* 1 MiB in and half of it back: the rest comes in at 2 a ns. */
	use.write_bytes = KIB(512);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 524288 + 262144);
}

static void test_kernel_in_place_random(void **state)
{
	struct fixture *f = *state;
	struct weir_use use = use_of(f->host, KIB(64), WEIR_READ);

	use.pattern = WEIR_RANDOM;
	use.granule = 64;
	/* Within reach: 10 million of 64 bytes a second. */
	assert_int_equal(kernel_ns(f, &use, 1, 0), 102400);
	/* A little beyond next to all hit, and requests are what counts. */
	use.bytes = KIB(68);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 102400);
	/* Beyond, each that misses takes 1 us: half of them, then 15 of 16. */
	use.bytes = KIB(128);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 512000);
	use.bytes = MIB(1);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 960000);
	/* A piece of 1 KiB is 8 requests, and one translation: 1.092 bytes a ns. */
	use.granule = 1024;
	assert_int_equal(kernel_ns(f, &use, 1, 0), 60000);
	use.bytes = KIB(64);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 51200); /* 1.28 */
	/* A word moves a sector. */
	use.granule = 4;
	use.read_bytes = 4000;
	assert_int_equal(kernel_ns(f, &use, 1, 0), 100000);
}

static void test_kernel_partly_in_place(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct backend_chunk chunk[4];
	struct weir_use use;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, 4 * KIB(256), KIB(256), (void **)&va), 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(
			b->ops->chunk_create(b, i == 3 ? HOST : GPU0, KIB(256), 0, &chunk[i]), 0);
		assert_int_equal(
			b->ops->map(b, va + i * KIB(256), &chunk[i], BACKEND_PROT_WRITE, 1), 0);
	}
	/* A quarter on the host: 256 KiB at 2 a ns. */
	use = use_of(va, MIB(1), WEIR_READ);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 131072);
	/* Half of the first block to a quarter of the last: 64 of 704 KiB. */
	use = use_of(va + KIB(128), KIB(704), WEIR_READ);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 32768);
	/* Read a thousand times from HBM, so that the link hides behind it. */
	use.read_bytes = 704000;
	use.bytes = KIB(640);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 7040);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(b->ops->unmap(b, va + i * KIB(256)), 0);
		b->ops->chunk_destroy(b, &chunk[i]);
	}
	b->ops->va_release(b, va, 4 * KIB(256));
}

/* Uses that cover whole groups of blocks take another path than those that do not. */
static void test_kernel_over_many_blocks(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	const uint64_t unit = KIB(4);
	enum { NR = 300 };
	struct backend_chunk chunk[NR];
	struct weir_use use;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, NR * unit, unit, (void **)&va), 0);
	for (uint32_t i = 0; i < NR; i++) {
		assert_int_equal(b->ops->chunk_create(b, i % 3 ? GPU0 : HOST, unit, 0, &chunk[i]),
				 0);
		assert_int_equal(b->ops->map(b, va + i * unit, &chunk[i], BACKEND_PROT_WRITE, 1),
				 0);
	}
	use = use_of(va, NR * unit, WEIR_READ);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 100 * unit / 2);
	/* From the middle of block 1 to the middle of block 298: of the host's, 3 to 297. */
	use = use_of(va + unit + unit / 2, (NR - 3) * unit, WEIR_READ);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 99 * unit / 2);
	/* One block in the middle closed: the use is trapped, one beside it is not. */
	assert_int_equal(b->ops->set_access(b, va + 150 * unit, BACKEND_PROT_READ, 1), 0);
	use = use_of(va, NR * unit, WEIR_WRITE);
	launch(f, &use, 1, 0);
	assert_int_equal(b->ops->fence_wait(b, record(f, f->compute)), -WEIR_ETRAP);
	use = use_of(va, 150 * unit, WEIR_WRITE);
	launch(f, &use, 1, 0);
	assert_int_equal(b->ops->fence_wait(b, record(f, f->compute)), 0);
	use = use_of(va, NR * unit, WEIR_READ);
	assert_int_equal(kernel_ns(f, &use, 1, 0), 100 * unit / 2);
	for (uint32_t i = 0; i < NR; i++) {
		assert_int_equal(b->ops->unmap(b, va + i * unit), 0);
		b->ops->chunk_destroy(b, &chunk[i]);
	}
	b->ops->va_release(b, va, NR * unit);
}

/* ------------------------------------------------------------------ the cost model */

static void expect_alone(struct fixture *f, const struct weir_use *use,
			 const struct cost_use *costs, double ops)
{
	struct cost_kernel cost;

	assert_int_equal(cost_kernel(&f->desc, 0, NULL, costs, 3, ops, &cost), 0);
	assert_true(cost_kernel_alone_ns(&f->desc, &cost) <= (double)kernel_ns(f, use, 3, ops));
	assert_true(cost_kernel_alone_ns(&f->desc, &cost) > (double)kernel_ns(f, use, 3, ops) - 3);
}

static void test_cost_alone_is_the_simulator(void **state)
{
	struct fixture *f = *state;
	struct weir_use use[3] = {use_of(f->host, MIB(1), WEIR_WRITE),
				  use_of(f->hbm, MIB(1), WEIR_READ),
				  use_of(f->host, KIB(96), WEIR_READ)};
	struct cost_use costs[3];
	struct cost_kernel cost;

	use[0].write_bytes = 77777;
	use[2].pattern = WEIR_RANDOM;
	use[2].granule = 36;
	memset(costs, 0, sizeof(costs));
	for (uint32_t i = 0; i < 3; i++) {
		costs[i].use = &use[i];
		costs[i].bytes[i == 1 ? GPU0 : HOST] = use[i].bytes;
	}
	expect_alone(f, use, costs, 0);
	/* The link is done first, or last, and then comes what does not overlap. */
	f->desc.link[0].inplace_serial = f->b->desc.link[0].inplace_serial = 0.5;
	expect_alone(f, use, costs, 0);
	expect_alone(f, use, costs, 2e9);
	f->desc.link[0].inplace_serial_random = f->b->desc.link[0].inplace_serial_random = 0.2;
	expect_alone(f, use, costs, 2e9);
	f->desc.nr_links = 0;
	assert_int_equal(cost_kernel(&f->desc, 0, NULL, costs, 3, 0, &cost), -EINVAL);
}

/* ------------------------------------------------------------------ host, migrator */

static void test_plain_allocation_costs(void **state)
{
	struct fixture *f = *state;
	void *addr;

	assert_int_equal(f->b->ops->device_alloc(f->b, GPU0, MIB(3), &addr), 0);
	assert_int_equal(f->b->ops->now_ns(f->b) - f->t0, (2000 + 2 * 1000) / 2);
	f->b->ops->device_free(f->b, addr);
	assert_int_equal(f->b->ops->now_ns(f->b) - f->t0, 2000 + 2 * 1000);
}

static void test_host_runs_ahead(void **state)
{
	struct fixture *f = *state;
	fence_t fence;

	for (int i = 0; i < 10; i++)
		launch(f, NULL, 0, 0);
	assert_int_equal(f->b->ops->now_ns(f->b) - f->t0, 10 * 300);
	fence = record(f, f->compute);
	assert_int_equal(f->b->ops->fence_done(f->b, fence), 0);
	/* Kernels take longer than launching them: back to back. */
	assert_int_equal(since(f, fence), 300 + 10 * 500);
	assert_int_equal(f->b->ops->now_ns(f->b) - f->t0, 300 + 10 * 500);
}

struct migrator {
	struct fixture *f;
	struct backend_chunk chunk;
	char *va;
	fence_t copied;
	int nr;
	uint64_t woken_ns, mapped_ns;
};

/* Maps a chunk and queues a copy, once. */
static void migrate(void *arg)
{
	struct migrator *m = arg;
	struct backend *b = m->f->b;

	if (m->nr++)
		return;
	m->woken_ns = b->ops->now_ns(b);
	assert_int_equal(b->ops->map(b, m->va, &m->chunk, BACKEND_PROT_WRITE, 1), 0);
	m->mapped_ns = b->ops->now_ns(b);
	assert_int_equal(b->ops->fence_wait(b, record(m->f, m->f->in)), -EDEADLK);
	copy_in(m->f, m->f->in, 4000);
	m->copied = record(m->f, m->f->in);
	assert_int_equal(b->ops->fence_done(b, m->copied), 0);
}

static void test_migrator_has_its_own_clock(void **state)
{
	struct fixture *f = *state;
	struct migrator m = {.f = f};
	struct backend *b = f->b;
	fence_t kernel;

	assert_int_equal(b->ops->va_reserve(b, KIB(64), KIB(64), (void **)&m.va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, KIB(64), 0, &m.chunk), 0);
	assert_int_equal(b->ops->set_progress(b, migrate, &m), 0);
	f->t0 = b->ops->now_ns(b);
	launch(f, NULL, 0, 0);
	kernel = record(f, f->compute);
	assert_int_equal(m.nr, 0);
	assert_int_equal(since(f, kernel), 800);
	b->ops->host_spend(b, 1000);
	assert_true(m.nr > 0);
	/* It woke as the kernel ended, spent its own time, and the application did not. */
	assert_int_equal(m.woken_ns - f->t0, 800);
	assert_int_equal(m.mapped_ns - f->t0, 800 + 19600);
	assert_int_equal(b->ops->now_ns(b) - f->t0, 1800);
	/* Its copy starts when it was queued. */
	assert_int_equal(since(f, m.copied), 800 + 19600 + SETUP + 1000);
	assert_int_equal(b->ops->set_progress(b, NULL, &m), 0);
	assert_int_equal(b->ops->unmap(b, m.va), 0);
	b->ops->chunk_destroy(b, &m.chunk);
	b->ops->va_release(b, m.va, KIB(64));
}

static void test_mapping_calls_take_turns(void **state)
{
	struct fixture *f = *state;
	struct migrator m = {.f = f};
	struct backend *b = f->b;
	struct backend_chunk chunk;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, KIB(64), KIB(64), (void **)&m.va), 0);
	assert_int_equal(b->ops->va_reserve(b, KIB(64), KIB(64), (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, KIB(64), 0, &m.chunk), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, KIB(64), 0, &chunk), 0);
	assert_int_equal(b->ops->set_progress(b, migrate, &m), 0);
	f->t0 = b->ops->now_ns(b);
	launch(f, NULL, 0, 0);
	assert_int_equal(since(f, record(f, f->compute)), 800);
	b->ops->host_spend(b, 100); /* the migrator maps from 800 to 20400 */
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->now_ns(b) - f->t0, 20400 + 19600);
	assert_int_equal(b->ops->set_progress(b, NULL, &m), 0);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->unmap(b, m.va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->chunk_destroy(b, &m.chunk);
	b->ops->va_release(b, va, KIB(64));
	b->ops->va_release(b, m.va, KIB(64));
}

static void test_fence_times_are_kept(void **state)
{
	struct fixture *f = *state;
	fence_t first = record(f, f->compute), thousandth = 0, last = 0;
	uint64_t t0 = f->b->ops->now_ns(f->b);

	for (uint64_t i = 1; i <= 66000; i++) {
		f->b->ops->host_spend(f->b, 1);
		last = record(f, f->compute);
		if (i == 1000)
			thousandth = last;
	}
	assert_int_equal(f->b->observe->fence_time_ns(f->b, last), t0 + 66000);
	assert_int_equal(f->b->observe->fence_time_ns(f->b, thousandth), t0 + 1000);
	assert_int_equal(f->b->observe->fence_time_ns(f->b, first), 0); /* too long ago */
	assert_int_equal(f->b->ops->fence_done(f->b, first), 1);
}

/* ------------------------------------------------------------------ determinism */

/* A mixed run from a seed; a hash of every time in it. */
static uint64_t random_run(struct fixture *f, uint64_t seed)
{
	const stream_id_t streams[] = {f->compute, f->in, f->out};
	uint64_t hash = 0, t0 = f->b->ops->now_ns(f->b);
	fence_t last = 0;

	for (int i = 0; i < 2000; i++) {
		struct weir_use use = use_of(i % 3 ? f->hbm : f->host, KIB(4), WEIR_WRITE);
		uint64_t dice;

		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
		dice = seed >> 33;
		use.bytes += dice % MIB(1);
		switch (dice % 5) {
		case 0:
			copy_in(f, f->in, 1 + dice % MIB(1));
			break;
		case 1:
			copy_out(f, f->out, 1 + dice % MIB(1));
			break;
		case 2:
			assert_int_equal(f->b->ops->stream_wait(f->b, streams[dice / 5 % 3], last),
					 0);
			break;
		case 3:
			f->b->ops->host_spend(f->b, dice % 100000);
			break;
		default:
			launch(f, &use, 1, (double)(dice % 100000000));
			break;
		}
		last = record(f, streams[dice / 15 % 3]);
		if (dice % 31 == 0)
			hash = hash * 31 + since(f, last) + f->t0 - t0;
	}
	for (int i = 0; i < 3; i++)
		hash = hash * 31 + since(f, record(f, streams[i])) + f->t0 - t0;
	return hash;
}

static void test_runs_are_deterministic(void **state)
{
	struct fixture *f = *state;
	uint64_t hash = random_run(f, 2025);
	void *other;

	assert_int_equal(random_run(f, 2025), hash);
	assert_int_not_equal(random_run(f, 2026), hash);
	setup(&other);
	assert_int_equal(random_run(other, 2025), hash);
	teardown(&other);
}

/* How long after t0 the second device's stream is through with waiting for a fence. */
static uint64_t waited_ns(struct fixture *f, stream_id_t other, fence_t fence)
{
	assert_int_equal(f->b->ops->stream_wait(f->b, other, fence), 0);
	return since(f, record(f, other));
}

/* A fence reaches another device event_ns after it is done, its own device at once. What comes to
 * the wait later than that is not held up, and fences of streams that are gone are done. */
static void test_event_between_devices(void **state)
{
	const uint64_t launched = LAUNCH_HOST, done = launched + 500;
	struct fixture *f = *state;
	struct weir_machine_desc desc = f->b->desc;
	stream_id_t other, gone;
	fence_t fence;
	int link = cost_link_find(&desc, desc.device[0].memory, desc.device[1].memory);

	assert_true(link >= 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 1, BACKEND_COMPUTE, &other), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COMPUTE, &gone), 0);
	for (uint64_t event_ns = 0; event_ns <= 7000; event_ns += 7000) {
		f->b->desc.link[link].event_ns = event_ns;
		f->t0 = f->b->ops->now_ns(f->b);
		launch(f, NULL, 0, 0);
		fence = record(f, f->compute);
		assert_int_equal(waited_ns(f, f->in, fence), done);
		assert_int_equal(waited_ns(f, other, fence), done + event_ns);
		/* Back again; and a third time, when it is long done. */
		fence = record(f, other);
		assert_int_equal(waited_ns(f, f->compute, fence), done + 2 * event_ns);
		assert_int_equal(waited_ns(f, f->compute, fence), done + 2 * event_ns);
	}
	fence = record(f, gone);
	f->b->ops->stream_destroy(f->b, gone);
	f->t0 = f->b->ops->now_ns(f->b);
	assert_int_equal(waited_ns(f, other, fence), 0);
	f->b->ops->stream_destroy(f->b, other);
	f->b->desc = desc;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_kernel_is_the_largest),
		CASE(test_kernel_has_a_factor),
		CASE(test_kernel_random_moves_sectors),
		CASE(test_kernels_take_turns),
		CASE(test_kernels_run_as_queued),
		CASE(test_urgent_kernels_go_first),
		CASE(test_kernel_in_place),
		CASE(test_kernel_in_place_random),
		CASE(test_kernel_partly_in_place),
		CASE(test_kernel_over_many_blocks),
		CASE(test_cost_alone_is_the_simulator),
		CASE(test_plain_allocation_costs),
		CASE(test_host_runs_ahead),
		CASE(test_migrator_has_its_own_clock),
		CASE(test_mapping_calls_take_turns),
		CASE(test_fence_times_are_kept),
		CASE(test_event_between_devices),
		CASE(test_runs_are_deterministic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
