/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration: the optional entries of the boundary's tables become stubs, which answer as
 * backend.h says; what an implementation has stays.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "src/backend/backend.h"

struct fixture {
	struct backend_ops ops;
	struct backend_managed_ops managed;
	struct backend_observe_ops observe;
	struct backend b;
};

static int record_seven(struct backend *b, stream_id_t stream, fence_t *out)
{
	(void)b, (void)stream;
	*out = 7;
	return 0;
}

static void complete(struct fixture *f)
{
	f->ops.fence_record = record_seven;
	backend_ops_complete(&f->ops);
	backend_managed_complete(&f->managed);
	backend_observe_complete(&f->observe);
	f->b = (struct backend){.ops = &f->ops, .managed = &f->managed, .observe = &f->observe};
	(void)snprintf(f->b.desc.device[1].name, WEIR_NAME_MAX, "second");
}

static void test_ops_left_out(void **state)
{
	struct fixture f = {0};
	struct backend *b = &f.b;

	(void)state;
	complete(&f);
	b->ops->chunk_expect(b, 0, 1, 0, 1);
	assert_null(b->ops->stream_native(b, 0));
	assert_int_equal(b->ops->stream_call(b, b, NULL), -ENOSYS);
	assert_int_equal(b->ops->stream_wait_native(b, 0, NULL), -ENOSYS);
	assert_int_equal(b->ops->stream_adopt(b, 0, b, NULL), -ENOSYS);
	assert_int_equal(b->ops->digest(b, 0, NULL, 0, NULL), -ENOSYS);
	assert_int_equal(b->ops->digest_take(b, 0, NULL), -ENOSYS);
	assert_int_equal(b->ops->digest_prepare(b, 0), -ENOSYS);
	assert_int_equal(b->ops->access_begin(b, 0, b, NULL, 0), 0);
	b->ops->access_end(b, 0, b);
	assert_int_equal(b->ops->access_narrow(b, 0, b, b, 1), 0);
	assert_int_equal(b->ops->access_guard(b, b, true), 0);
	b->ops->poison(b, NULL, 0);
	assert_int_equal(b->ops->device_warps(b, 0), 64);
	assert_true(b->ops->memory_room(b, 0) == UINT64_MAX);
	/* What is required has no stub. */
	assert_null(b->ops->launch);
}

static void test_managed_left_out(void **state)
{
	const struct backend_managed setup = {0};
	struct backend_managed_stats stats;
	struct fixture f = {0};
	struct backend *b = &f.b;
	void *addr = NULL;

	(void)state;
	complete(&f);
	assert_int_equal(b->managed->setup(b, &setup), -ENOSYS);
	assert_int_equal(b->managed->alloc(b, 1, &addr), -ENOSYS);
	assert_null(addr);
	assert_int_equal(b->managed->prefetch(b, 0, b, 1, 0), -ENOSYS);
	assert_int_equal(b->managed->advise(b, b, 1, BACKEND_ADVICE_READ_MOSTLY, 0), -ENOSYS);
	b->managed->free(b, b);
	assert_int_equal(b->managed->stats(b, 0, &stats), -ENOSYS);
}

static void test_observe_left_out(void **state)
{
	uint64_t ns[BACKEND_TIME_NR], bytes[BACKEND_DIRECTION_NR] = {1, 1};
	struct fixture f = {0};
	struct backend *b = &f.b;
	char text[16] = "before";
	fence_t fence = 0;

	(void)state;
	complete(&f);
	assert_int_equal(b->observe->fence_mark(b, 0, &fence), 0);
	assert_int_equal(fence, 7);
	assert_int_equal(b->observe->fence_time_ns(b, fence), 0);
	assert_int_equal(b->observe->device_times(b, 0, ns), -ENOSYS);
	b->observe->inplace_bytes(b, 0, 0, bytes);
	assert_int_equal(bytes[BACKEND_TO_DEVICE] + bytes[BACKEND_TO_HOST], 0);
	b->observe->memory_holders(b, 0, text, sizeof(text));
	assert_string_equal(text, "");
	b->observe->device_text(b, 1, text, sizeof(text));
	assert_string_equal(text, "second");
	b->observe->message_begin(b, &(struct backend_message){.bytes = 1});
	b->observe->message_end(b, true);
}

static uint64_t three_bytes(struct backend *b, uint32_t memory)
{
	(void)b, (void)memory;
	return 3;
}

static void forget(struct backend *b, void *addr)
{
	(void)addr;
	b->desc.nr_devices = 5;
}

static void none(struct backend *b, uint32_t memory, char *text, size_t bytes)
{
	(void)b, (void)memory, (void)bytes;
	text[0] = '-';
}

static void test_own_entries_stay(void **state)
{
	struct fixture f = {.ops.memory_room = three_bytes,
			    .managed.free = forget,
			    .observe.memory_holders = none};
	char text[] = "x";

	(void)state;
	complete(&f);
	assert_int_equal(f.b.ops->memory_room(&f.b, 0), 3);
	f.b.managed->free(&f.b, NULL);
	assert_int_equal(f.b.desc.nr_devices, 5);
	f.b.observe->memory_holders(&f.b, 0, text, sizeof(text));
	assert_string_equal(text, "-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ops_left_out),
		cmocka_unit_test(test_managed_left_out),
		cmocka_unit_test(test_observe_left_out),
		cmocka_unit_test(test_own_entries_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
