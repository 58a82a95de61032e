/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests on the simulator, with bytes and without: when they are equal, what they take beside
 * kernels, and which must not be taken.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/support/log_watch.h"
#include "tests/unit/test_sim_machine.h"

#define UNIT KIB(64)
#define UNITS 200u /* of a reservation: more than are counted together */

struct fixture {
	struct backend *b;
	stream_id_t compute, lane;
	struct backend_chunk chunk[2], host; /* of the first GPU; the first is mapped at va */
	uint8_t *va;
	struct log_watch errors;
};

static struct fixture *fixture_create(enum weir_data data)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct weir_machine_desc desc;

	assert_non_null(f);
	test_machine(&desc);
	assert_int_equal(sim_create(&desc, data, &f->b), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COMPUTE, &f->compute), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COPY_OUT, &f->lane), 0);
	assert_int_equal(f->b->ops->va_reserve(f->b, UNITS * UNIT, UNIT, (void **)&f->va), 0);
	assert_int_equal(f->b->ops->chunk_create(f->b, HOST, UNIT, 0, &f->host), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(f->b->ops->chunk_create(f->b, GPU0, UNIT, 0, &f->chunk[i]), 0);
	assert_int_equal(f->b->ops->map(f->b, f->va, &f->chunk[0], BACKEND_PROT_WRITE, 1), 0);
	log_watch(&f->errors, WEIR_LOG_ERROR);
	return f;
}

static int setup(void **state)
{
	*state = fixture_create(WEIR_DATA_REAL);
	return 0;
}

static int setup_phantom(void **state)
{
	*state = fixture_create(WEIR_DATA_PHANTOM);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;

	(void)!b->ops->unmap(b, f->va);
	for (uint32_t i = 0; i < 2; i++)
		b->ops->chunk_destroy(b, &f->chunk[i]);
	b->ops->chunk_destroy(b, &f->host);
	b->ops->va_release(b, f->va, UNITS * UNIT);
	b->ops->stream_destroy(b, f->compute);
	b->ops->stream_destroy(b, f->lane);
	assert_int_equal(sim_leaks(b), 0);
	b->ops->destroy(b);
	weir_log_set(NULL, NULL);
	assert_int_equal(f->errors.nr, 0);
	free(f);
	return 0;
}

static uint32_t queue(struct fixture *f, stream_id_t stream, uint32_t chunk)
{
	uint32_t ticket;

	assert_int_equal(f->b->ops->digest(f->b, stream, &f->chunk[chunk], UNIT, &ticket), 0);
	return ticket;
}

static fence_t record(struct fixture *f, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(f->b->ops->fence_record(f->b, stream, &fence), 0);
	return fence;
}

static int sync_stream(struct fixture *f, stream_id_t stream)
{
	return f->b->ops->fence_wait(f->b, record(f, stream));
}

static struct digest take(struct fixture *f, uint32_t ticket)
{
	struct digest digest;

	assert_int_equal(f->b->ops->digest_take(f->b, ticket, &digest), 0);
	return digest;
}

/* The digest of a chunk as it is now. */
static struct digest digest_now(struct fixture *f, uint32_t chunk)
{
	uint32_t ticket = queue(f, f->compute, chunk);

	assert_int_equal(sync_stream(f, f->compute), 0);
	return take(f, ticket);
}

/* Launch a kernel that uses part of the reservation; one that writes adds 1 to the first byte. */
static void launch(struct fixture *f, uint64_t offset, uint64_t bytes, enum weir_use_kind kind)
{
	const struct weir_use use = use_of(f->va + offset, bytes, kind);
	static uint8_t value;
	struct touch touch = {.write = kind == WEIR_READ ? NULL : f->va + offset};

	touch.value = ++value;
	assert_int_equal(launch_touch(f->b, f->compute, touch, &use, 1), 0);
}

static void copy(struct fixture *f, void *dst, const void *src, uint64_t bytes)
{
	const struct backend_copy copy = {dst, src, bytes};

	assert_int_equal(f->b->ops->copy(f->b, f->compute, &copy, 1), 0);
}

static void expect(struct fixture *f, uint32_t chunk, struct digest *before, bool same)
{
	struct digest now = digest_now(f, chunk);

	assert_int_equal(digest_equal(now, *before), same);
	*before = now;
}

/* ------------------------------------------------------------------ what they are of */

static void test_declared_writes(void **state)
{
	struct fixture *f = *state;
	struct digest d;

	launch(f, 0, UNIT, WEIR_OVERWRITE);
	d = digest_now(f, 0);
	expect(f, 0, &d, true);
	launch(f, 0, UNIT, WEIR_READ);
	expect(f, 0, &d, true);
	launch(f, 0, UNIT, WEIR_WRITE);
	expect(f, 0, &d, false);
	launch(f, 16, 4, WEIR_WRITE);
	expect(f, 0, &d, false);
	launch(f, UNIT - 1, 1, WEIR_ATOMIC);
	expect(f, 0, &d, false);
	/* Also when it is asked for first after the chunk is mapped elsewhere, or nowhere. */
	launch(f, 0, UNIT, WEIR_WRITE);
	assert_int_equal(sync_stream(f, f->compute), 0);
	assert_int_equal(f->b->ops->unmap(f->b, f->va), 0);
	expect(f, 0, &d, false);
	expect(f, 0, &d, true);
	assert_int_equal(
		f->b->ops->map(f->b, f->va + 2 * UNIT, &f->chunk[0], BACKEND_PROT_WRITE, 1), 0);
	expect(f, 0, &d, true);
	launch(f, 2 * UNIT, UNIT, WEIR_WRITE);
	expect(f, 0, &d, false);
	assert_int_equal(f->b->ops->unmap(f->b, f->va + 2 * UNIT), 0);
	/* A chunk that is mapped where another one was written is none that was. */
	assert_int_equal(
		f->b->ops->map(f->b, f->va + 2 * UNIT, &f->chunk[0], BACKEND_PROT_WRITE, 1), 0);
	expect(f, 0, &d, true);
	assert_int_equal(f->b->ops->unmap(f->b, f->va + 2 * UNIT), 0);
}

/* A kernel that writes so much that its units are noted together, and those at its ends alone. */
static void test_many_units(void **state)
{
	struct fixture *f = *state;
	struct digest d[UNITS], now;
	struct backend_chunk chunk[UNITS];
	uint32_t ticket;

	assert_int_equal(f->b->ops->unmap(f->b, f->va), 0);
	for (uint32_t i = 0; i < UNITS; i++) {
		assert_int_equal(f->b->ops->chunk_create(f->b, GPU0, UNIT, 0, &chunk[i]), 0);
		assert_int_equal(
			f->b->ops->map(f->b, f->va + i * UNIT, &chunk[i], BACKEND_PROT_WRITE, 1),
			0);
	}
	for (int round = 0; round < 2; round++) {
		/* Of units 30 to 189, the ends in part. */
		if (round)
			launch(f, 30 * UNIT + 100, 159 * UNIT, WEIR_WRITE);
		for (uint32_t i = 0; i < UNITS; i++) {
			assert_int_equal(
				f->b->ops->digest(f->b, f->compute, &chunk[i], UNIT, &ticket), 0);
			assert_int_equal(sync_stream(f, f->compute), 0);
			now = take(f, ticket);
			if (round && f->b->data == WEIR_DATA_PHANTOM)
				assert_int_equal(digest_equal(now, d[i]), i < 30 || i > 189);
			d[i] = now;
		}
	}
	/* A chunk that is mapped where others were written was not. */
	assert_int_equal(f->b->ops->unmap(f->b, f->va + 5 * UNIT), 0);
	assert_int_equal(f->b->ops->unmap(f->b, f->va + 70 * UNIT), 0);
	assert_int_equal(f->b->ops->map(f->b, f->va + 70 * UNIT, &chunk[5], BACKEND_PROT_WRITE, 1),
			 0);
	assert_int_equal(f->b->ops->digest(f->b, f->compute, &chunk[5], UNIT, &ticket), 0);
	assert_int_equal(sync_stream(f, f->compute), 0);
	assert_true(digest_equal(take(f, ticket), d[5]));
	for (uint32_t i = 0; i < UNITS; i++)
		assert_int_equal(f->b->ops->unmap(f->b, f->va + i * UNIT), i == 5 ? -EINVAL : 0);
	for (uint32_t i = 0; i < UNITS; i++)
		f->b->ops->chunk_destroy(f->b, &chunk[i]);
}

/* A copy has its source's digest, there and back, and in parts. */
static void test_copies(void **state)
{
	struct fixture *f = *state;
	char *a = f->chunk[0].alias, *b = f->chunk[1].alias, *host = f->host.alias;
	struct digest d;

	launch(f, 0, UNIT, WEIR_WRITE);
	d = digest_now(f, 0);
	copy(f, host, a, UNIT);
	launch(f, 0, UNIT, WEIR_WRITE);
	copy(f, b, host, UNIT);
	expect(f, 1, &d, true);
	expect(f, 0, &d, false);
	for (uint64_t at = 0; at < UNIT; at += UNIT / 4)
		copy(f, b + at, a + at, UNIT / 4);
	expect(f, 1, &d, true);
	copy(f, b + UNIT / 4, a + UNIT / 4, UNIT / 4);
	expect(f, 1, &d, true);
	/* What a kernel writes comes along, whether or not somebody looked at it before. */
	launch(f, 0, UNIT, WEIR_WRITE);
	copy(f, b, a, UNIT);
	expect(f, 1, &d, false);
	expect(f, 0, &d, true);
	/* The bytes are elsewhere. */
	launch(f, 0, UNIT, WEIR_WRITE);
	copy(f, b + UNIT / 2, a, UNIT / 2);
	expect(f, 1, &d, false);
}

/* Of a copy of the first part alone, that part is the same, and nothing else. */
static void test_first_part(void **state)
{
	struct fixture *f = *state;
	struct digest first[2], whole[2];
	uint32_t ticket;

	launch(f, 0, UNIT, WEIR_WRITE);
	copy(f, f->chunk[1].alias, f->chunk[0].alias, UNIT / 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(
			f->b->ops->digest(f->b, f->compute, &f->chunk[i], UNIT / 2, &ticket), 0);
		assert_int_equal(sync_stream(f, f->compute), 0);
		first[i] = take(f, ticket);
		whole[i] = digest_now(f, i);
		assert_false(digest_equal(first[i], whole[i]));
	}
	assert_true(digest_equal(first[0], first[1]));
	if (f->b->data == WEIR_DATA_PHANTOM)
		assert_false(digest_equal(whole[0], whole[1]));
}

static void test_uploads(void **state)
{
	bool real = (*(struct fixture **)state)->b->data == WEIR_DATA_REAL;
	struct fixture *f = *state;
	struct digest d = digest_now(f, 0);
	uint8_t byte = 77;

	assert_int_equal(f->b->ops->upload(f->b, f->compute, f->va + 1000, &byte, 1), 0);
	expect(f, 0, &d, false);
	assert_int_equal(f->b->ops->download(f->b, f->compute, &byte, f->va + 1000, 1), 0);
	expect(f, 0, &d, true);
	f->b->ops->poison(f->b, &f->chunk[0], 0);
	expect(f, 0, &d, !real);
}

/* With bytes it is the reference's, and nothing else is looked at. */
static void test_bytes_decide(void **state)
{
	struct fixture *f = *state;
	const uint8_t *data = f->chunk[0].alias;
	struct digest d;

	for (uint64_t i = 0; i < UNIT; i++)
		((uint8_t *)f->chunk[0].alias)[i] = (uint8_t)(i * i);
	d = digest_now(f, 0);
	assert_true(digest_equal(d, digest_of(f->b->digest_key, data, UNIT)));
	/* A write of what is there is none. */
	assert_int_equal(f->b->ops->upload(f->b, f->compute, f->va, data, 4096), 0);
	expect(f, 0, &d, true);
}

/* ------------------------------------------------------------------ time */

/* launch_ns and an eleventh of 100 bytes a nanosecond, beside kernels. */
static void test_time(void **state)
{
	const uint64_t digest_ns = 500 + (UNIT * 11 + 99) / 100;
	struct fixture *f = *state;
	fence_t first, second, kernel;
	uint32_t ticket[2];
	uint64_t ns;

	/* The second begins as the first is done. */
	ticket[0] = queue(f, f->lane, 0);
	first = record(f, f->lane);
	ticket[1] = queue(f, f->lane, 0);
	second = record(f, f->lane);
	launch(f, 0, UNIT, WEIR_READ);
	ns = f->b->ops->now_ns(f->b);
	kernel = record(f, f->compute);
	assert_int_equal(f->b->ops->fence_wait(f->b, second), 0);
	assert_int_equal(f->b->observe->fence_time_ns(f->b, second) -
				 f->b->observe->fence_time_ns(f->b, first),
			 digest_ns);
	assert_int_equal(f->b->observe->fence_time_ns(f->b, kernel), ns + (UNIT + 99) / 100);
	for (uint32_t i = 0; i < 2; i++)
		(void)take(f, ticket[i]);
}

/* ------------------------------------------------------------------ which must not be taken */

static void expect_trap(struct fixture *f, uint32_t ticket, const char *part)
{
	struct digest digest;

	assert_int_equal(sync_stream(f, f->lane), 0);
	assert_int_equal(sync_stream(f, f->compute), 0);
	assert_int_equal(f->errors.nr, 0);
	assert_int_equal(f->b->ops->digest_take(f->b, ticket, &digest), -WEIR_ETRAP);
	assert_int_equal(f->errors.nr, 1);
	if (!strstr(f->errors.last, part))
		fail_msg("\"%s\" does not say \"%s\"", f->errors.last, part);
	f->errors.nr = 0;
	assert_int_equal(f->b->ops->digest_take(f->b, ticket, NULL), -EINVAL);
}

static void test_kernel_beside(void **state)
{
	struct fixture *f = *state;
	uint32_t ticket;

	launch(f, 0, UNIT, WEIR_WRITE);
	ticket = queue(f, f->lane, 0);
	expect_trap(f, ticket, "a running kernel writes it");
	ticket = queue(f, f->lane, 0);
	launch(f, 0, UNIT, WEIR_WRITE);
	expect_trap(f, ticket, "was written meanwhile");
	/* Not by one that reads, or one that the digest waits for. */
	ticket = queue(f, f->lane, 0);
	launch(f, 0, UNIT, WEIR_READ);
	assert_int_equal(sync_stream(f, f->lane), 0);
	(void)take(f, ticket);
	launch(f, 0, UNIT, WEIR_WRITE);
	assert_int_equal(f->b->ops->stream_wait(f->b, f->lane, record(f, f->compute)), 0);
	ticket = queue(f, f->lane, 0);
	assert_int_equal(sync_stream(f, f->lane), 0);
	(void)take(f, ticket);
}

static void test_copy_beside(void **state)
{
	struct fixture *f = *state;
	uint32_t ticket;

	copy(f, f->chunk[0].alias, f->host.alias, UNIT);
	ticket = queue(f, f->lane, 0);
	expect_trap(f, ticket, "a copy that is not done writes it");
	ticket = queue(f, f->lane, 0);
	copy(f, f->chunk[0].alias, f->chunk[1].alias, 16);
	expect_trap(f, ticket, "was written meanwhile");
	ticket = queue(f, f->lane, 0);
	copy(f, f->host.alias, f->chunk[0].alias, UNIT);
	assert_int_equal(sync_stream(f, f->lane), 0);
	(void)take(f, ticket);
	assert_int_equal(sync_stream(f, f->compute), 0);
	/* Its ticket may be given back. */
	ticket = queue(f, f->lane, 0);
	launch(f, 0, UNIT, WEIR_WRITE);
	assert_int_equal(sync_stream(f, f->lane), 0);
	assert_int_equal(f->b->ops->digest_take(f->b, ticket, NULL), 0);
}

static void test_chunk_destroyed(void **state)
{
	struct fixture *f = *state;
	uint32_t ticket = queue(f, f->lane, 1);

	f->b->ops->chunk_destroy(f->b, &f->chunk[1]);
	expect_trap(f, ticket, "was destroyed");
	assert_int_equal(f->b->ops->chunk_create(f->b, GPU0, UNIT, 0, &f->chunk[1]), 0);
}

/* It has no value before it is done. */
static void test_too_early(void **state)
{
	struct fixture *f = *state;
	uint32_t ticket = queue(f, f->lane, 0);
	struct digest d;

	assert_int_equal(f->b->ops->digest_take(f->b, ticket, &d), -EBUSY);
	assert_int_equal(sync_stream(f, f->lane), 0);
	(void)take(f, ticket);
	assert_int_equal(f->b->ops->digest_take(f->b, ticket, &d), -EINVAL);
}

/* With bytes and without. */
#define BOTH(test)                                                      \
	cmocka_unit_test_setup_teardown(test, setup, teardown),         \
	{                                                               \
#test " (phantom)", test, setup_phantom, teardown, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_declared_writes),
		BOTH(test_many_units),
		BOTH(test_copies),
		BOTH(test_first_part),
		BOTH(test_uploads),
		cmocka_unit_test_setup_teardown(test_bytes_decide, setup, teardown),
		BOTH(test_time),
		BOTH(test_kernel_beside),
		BOTH(test_copy_beside),
		BOTH(test_chunk_destroyed),
		BOTH(test_too_early),
	};

	return cmocka_run_group_tests_name("sim_digest", tests, NULL, NULL);
}
