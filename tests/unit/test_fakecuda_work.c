/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on the fake CUDA driver: order on streams, between streams and with the host, times, copies
 * and fills.
 *
 * Labels: threads
 * Links: cuda-fake
 */
#include "tests/unit/test_fakecuda.h"

#include <pthread.h>
#include <time.h>

/* ------------------------------------------------------------------ streams and events */

static void test_order(void **state)
{
	cu_stream stream;
	cu_event first, second;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	addr = mapped(&in_hbm, UNIT);
	stream = stream_new();
	assert_int_equal(cu.stream_create(&stream, 16), CU_INVALID_VALUE);
	assert_ptr_equal(fakecuda_stream(0), stream);
	assert_null(fakecuda_stream(1));
	assert_int_equal(fakecuda_stream_device(stream), 0);
	assert_int_equal(fakecuda_stream_device(&stream), -1);
	assert_int_equal(fakecuda_gate(&stream, true), INVALID_HANDLE);
	first = event_new();
	ok(cu.event_query(first));
	ok(fakecuda_gate(stream, true));
	fill(addr, 1, UNIT, stream);
	ok(cu.event_record(first, stream));
	fill(addr, 2, UNIT, stream);
	second = recorded(stream);
	assert_int_equal(cu.event_query(first), CU_NOT_READY);
	assert_int_equal(fakecuda_nr_pending(stream), 4);
	assert_int_equal(fakecuda_nr_pending(NULL), 4);
	ok(fakecuda_gate(stream, false));
	ok(cu.event_sync(second));
	ok(cu.event_query(first));
	assert_int_equal(words(addr, UNIT, stream), 2);
	assert_int_equal(fakecuda_nr_pending(NULL), 0);
	ok(cu.event_destroy(first));
	ok(cu.event_destroy(second));
	ok(cu.stream_destroy(stream));
	unmapped(addr, UNIT);
	end();
}

static void test_times(void **state)
{
	cu_event before, after, never;
	cu_stream stream;
	float ms = 0;

	(void)state;
	begin(NULL);
	stream = stream_new();
	never = event_new();
	ok(fakecuda_delay(stream, 20000000));
	before = recorded(stream);
	after = recorded(stream);
	assert_int_equal(cu.event_elapsed(&ms, before, after), CU_NOT_READY);
	assert_int_equal(cu.event_elapsed(&ms, before, never), INVALID_HANDLE);
	ok(cu.context_sync());
	ok(cu.event_elapsed(&ms, before, after));
	assert_true(ms >= 20 && ms < 2000);
	ok(cu.event_elapsed(&ms, after, before));
	assert_true(ms <= -20);
	/* A delay can be taken back while it lasts. */
	ok(fakecuda_delay(stream, UINT64_C(3600000000000)));
	ok(cu.event_record(after, stream));
	assert_int_equal(cu.event_query(after), CU_NOT_READY);
	ok(fakecuda_delay(stream, 0));
	ok(cu.event_sync(after));
	ok(cu.event_destroy(before));
	ok(cu.event_destroy(after));
	ok(cu.event_destroy(never));
	ok(cu.event_create(&never, 2));
	ok(cu.event_record(never, stream));
	ok(cu.event_sync(never));
	assert_int_equal(cu.event_elapsed(&ms, never, never), INVALID_HANDLE);
	ok(cu.event_destroy(never));
	assert_int_equal(cu.event_create(&never, 4), CU_INVALID_VALUE);
	ok(cu.stream_destroy(stream));
	end();
}

/* Who waits, waits for the record that was the last when it asked. */
static void test_wait_record(void **state)
{
	cu_stream one, two;
	cu_event event, done;

	(void)state;
	begin(NULL);
	one = stream_new();
	two = stream_new();
	event = event_new();
	done = event_new();
	/* Never recorded: nothing to wait for. */
	ok(cu.stream_wait(two, event, 0));
	ok(cu.stream_sync(two));
	assert_int_equal(cu.stream_wait(two, event, 1), CU_INVALID_VALUE);
	ok(cu.event_record(event, one));
	ok(cu.stream_sync(one));
	ok(fakecuda_gate(two, true));
	ok(cu.stream_wait(two, event, 0));
	ok(cu.event_record(done, two));
	/* Recorded again behind a closed gate: the event is not ready, two's wait is. */
	ok(fakecuda_gate(one, true));
	ok(cu.event_record(event, one));
	ok(fakecuda_gate(two, false));
	ok(cu.event_sync(done));
	assert_int_equal(cu.event_query(event), CU_NOT_READY);
	/* And now two waits for the second record, though the event goes. */
	ok(cu.stream_wait(two, event, 0));
	ok(cu.event_destroy(event));
	ok(cu.event_record(done, two));
	assert_int_equal(fakecuda_nr_pending(two), 2);
	assert_int_equal(cu.event_query(done), CU_NOT_READY);
	ok(fakecuda_gate(one, false));
	ok(cu.event_sync(done));
	ok(cu.event_destroy(done));
	ok(cu.stream_destroy(one));
	ok(cu.stream_destroy(two));
	end();
}

static void test_devices(void **state)
{
	const struct fakecuda_config config = {.devices = 2};
	cu_stream here, there;
	cu_event event, of_there;
	cu_context context;
	float ms;

	(void)state;
	begin(&config);
	here = stream_new();
	event = event_new();
	ok(cu.context_retain(&context, 1));
	ok(cu.context_push(context));
	there = stream_new();
	assert_int_equal(fakecuda_stream_device(there), 1);
	assert_int_equal(cu.event_record(event, there), INVALID_HANDLE);
	of_there = recorded(there);
	/* Waiting for one another is allowed, so is asking from any context. */
	ok(cu.event_record(event, here));
	ok(cu.stream_wait(there, event, 0));
	ok(cu.stream_wait(here, of_there, 0));
	ok(cu.stream_sync(here));
	ok(cu.stream_sync(there));
	assert_int_equal(cu.event_elapsed(&ms, event, of_there), INVALID_HANDLE);
	assert_int_equal(fakecuda_launch(here, add_kernel, NULL, 0, NULL, 0), INVALID_HANDLE);
	ok(cu.event_destroy(event));
	ok(cu.event_destroy(of_there));
	ok(cu.stream_destroy(here));
	ok(cu.stream_destroy(there));
	ok(cu.context_pop(NULL));
	ok(cu.context_release(1));
	end();
}

/* Stream 0 waits for streams that were created to wait for it, and they for it. */
static void test_stream_zero(void **state)
{
	cu_stream apart = NULL, with = NULL;
	cu_event event, zero;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	addr = mapped(&in_hbm, UNIT);
	apart = stream_new();
	ok(cu.stream_create(&with, 0));
	ok(fakecuda_gate(apart, true));
	ok(cu.event_record(event = event_new(), apart));
	zero = recorded(NULL);
	ok(cu.event_sync(zero));
	assert_int_equal(cu.event_query(event), CU_NOT_READY);
	ok(fakecuda_gate(with, true));
	fill(addr, 1, UNIT, with);
	fill(addr, 2, UNIT, NULL);
	ok(cu.event_record(zero, NULL));
	assert_int_equal(cu.event_query(zero), CU_NOT_READY);
	assert_int_equal(fakecuda_nr_pending(NULL), 4);
	ok(fakecuda_gate(with, false));
	ok(cu.stream_sync(NULL));
	ok(cu.event_query(zero));
	/* Behind the gate of all; what comes after it on the other stream waits, too. */
	ok(fakecuda_gate(NULL, true));
	fill(addr, 3, UNIT, NULL);
	ok(fakecuda_gate(NULL, false));
	assert_int_equal(words(addr, UNIT, with), 3);
	assert_int_equal(cu.stream_destroy(NULL), INVALID_HANDLE);
	ok(fakecuda_gate(apart, false));
	ok(cu.event_destroy(event));
	ok(cu.event_destroy(zero));
	ok(cu.stream_destroy(apart));
	ok(cu.stream_destroy(with));
	unmapped(addr, UNIT);
	end();
}

static void test_stream_destroy(void **state)
{
	cu_stream stream[FAKECUDA_STREAMS_MAX], more;
	cu_event event;

	(void)state;
	begin(NULL);
	for (int i = 0; i < FAKECUDA_STREAMS_MAX; i++)
		stream[i] = stream_new();
	assert_int_equal(cu.stream_create(&more, 0), CU_OUT_OF_MEMORY);
	ok(fakecuda_gate(NULL, true));
	event = recorded(stream[5]);
	/* The call does not wait, and what is queued is still done. */
	for (int i = 0; i < FAKECUDA_STREAMS_MAX; i++)
		ok(cu.stream_destroy(stream[i]));
	assert_int_equal(cu.event_record(event, stream[5]), INVALID_HANDLE);
	assert_int_equal(cu.event_query(event), CU_NOT_READY);
	assert_int_equal(fakecuda_nr_pending(NULL), 1);
	ok(fakecuda_gate(NULL, false));
	ok(cu.event_sync(event));
	/* Its own gate goes with it. */
	stream[0] = stream_new();
	ok(fakecuda_gate(stream[0], true));
	ok(cu.event_record(event, stream[0]));
	ok(cu.stream_destroy(stream[0]));
	ok(cu.event_sync(event));
	ok(cu.event_destroy(event));
	end();
}

struct free_later {
	cu_context context;
	cu_ptr plain;
	atomic_int freed;
};

static void *free_later(void *arg)
{
	struct free_later *later = arg;

	if (cu.context_push(later->context) || cu.mem_free(later->plain))
		return NULL;
	atomic_store(&later->freed, 1);
	return NULL;
}

/* Freeing waits for all work; unmapping does not. */
static void test_free_blocks(void **state)
{
	const struct timespec moment = {.tv_nsec = 10000000};
	struct free_later later = {0};
	pthread_t thread;
	cu_stream stream;
	cu_event event;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	addr = mapped(&in_hbm, UNIT);
	ok(cu.context_retain(&later.context, 0));
	ok(cu.mem_alloc(&later.plain, UNIT));
	stream = stream_new();
	ok(fakecuda_gate(stream, true));
	fill(later.plain, 1, UNIT, stream);
	event = recorded(stream);
	assert_int_equal(pthread_create(&thread, NULL, free_later, &later), 0);
	unmapped(addr, UNIT);
	nanosleep(&moment, NULL);
	assert_int_equal(atomic_load(&later.freed), 0);
	assert_int_equal(fakecuda_used_bytes(0), UNIT);
	ok(fakecuda_gate(stream, false));
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&later.freed), 1);
	ok(cu.event_query(event));
	assert_int_equal(fakecuda_used_bytes(0), 0);
	ok(cu.event_destroy(event));
	ok(cu.stream_destroy(stream));
	ok(cu.context_release(0));
	end();
}

/* ------------------------------------------------------------------ copies */

static void test_copies(void **state)
{
	cu_ptr addr, plain, managed;
	uint32_t *from, *to;
	cu_stream stream;
	void *host;

	(void)state;
	begin(NULL);
	stream = stream_new();
	addr = reserved(3 * UNIT);
	for (int i = 0; i < 3; i++) {
		cu_handle handle = handle_of(i == 1 ? &in_host : &in_hbm, UNIT);

		map_at(addr + (cu_ptr)i * UNIT, UNIT, handle);
		ok(cu.mem_release(handle));
	}
	ok(cu.mem_alloc(&plain, 3 * UNIT));
	ok(cu.host_alloc(&host, 3 * UNIT, 0));
	ok(cu.managed_alloc(&managed, 3 * UNIT, CU_ATTACH_GLOBAL));
	from = malloc(3 * UNIT);
	to = malloc(3 * UNIT);
	assert_non_null(from);
	assert_non_null(to);
	for (uint32_t i = 0; i < 3 * WORDS; i++)
		from[i] = i;
	memset(to, 0, 3 * UNIT);
	/* Through all kinds of memory, at odd offsets, over the seams of mappings. */
	ok(cu.copy(plain + 1, address(from), 3 * UNIT - 4, stream));
	ok(cu.copy(addr + 3, plain + 1, 3 * UNIT - 4, stream));
	ok(cu.copy(address(host) + 2, addr + 3, 3 * UNIT - 4, stream));
	ok(cu.copy(managed, address(host) + 2, 3 * UNIT - 4, stream));
	ok(cu.managed_prefetch(managed, UNIT, (struct cu_location){CU_LOCATION_DEVICE, 0}, 0,
			       stream));
	ok(cu.copy(address(to), managed, 3 * UNIT - 4, stream));
	ok(cu.copy(0, 0, 0, stream));
	assert_int_equal(cu.copy(0, managed, 4, stream), CU_INVALID_VALUE);
	assert_int_equal(cu.copy(plain, managed, 4, (cu_stream)&stream), INVALID_HANDLE);
	assert_int_equal(cu.managed_prefetch(plain, UNIT,
					     (struct cu_location){CU_LOCATION_DEVICE, 0}, 0,
					     stream),
			 CU_INVALID_VALUE);
	ok(cu.stream_sync(stream));
	assert_memory_equal(from, to, 3 * UNIT - 4);
	assert_int_equal(to[3 * WORDS - 1], 0);
	fill(addr + UNIT / 2, 7, 2 * UNIT, stream);
	assert_int_equal(words(addr + UNIT / 2, 2 * UNIT, stream), 7);
	assert_int_equal(cu.fill(addr + 2, 7, 1, stream), CU_INVALID_VALUE);
	free(from);
	free(to);
	ok(cu.mem_free(plain));
	ok(cu.mem_free(managed));
	ok(cu.host_free(host));
	ok(cu.stream_destroy(stream));
	unmapped(addr, 3 * UNIT);
	end();
}

static void test_batch(void **state)
{
	struct cu_copy_attributes attributes[2] = {{.source_order = CU_SOURCE_ORDER_STREAM},
						   {.source_order = CU_SOURCE_ORDER_STREAM}};
	size_t first[2] = {0, 0}, bytes[4];
	cu_ptr dst[4], src[4], addr;
	cu_stream stream;

	(void)state;
	begin(NULL);
	stream = stream_new();
	addr = mapped(&in_hbm, 8 * UNIT);
	for (uint32_t i = 0; i < 4; i++) {
		dst[i] = addr + (4 + i) * UNIT;
		src[i] = addr + i * UNIT;
		bytes[i] = UNIT;
		fill(src[i], i + 1, UNIT, stream);
	}
	ok(cu.copy_batch(dst, src, bytes, 4, attributes, first, 1, stream));
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(words(dst[i], UNIT, stream), i + 1);
	assert_int_equal(cu.copy_batch(dst, src, bytes, 0, attributes, first, 1, stream),
			 CU_INVALID_VALUE);
	assert_int_equal(cu.copy_batch(dst, src, bytes, 4, attributes, first, 2, stream),
			 CU_INVALID_VALUE);
	first[1] = 4;
	assert_int_equal(cu.copy_batch(dst, src, bytes, 4, attributes, first, 2, stream),
			 CU_INVALID_VALUE);
	first[1] = 3;
	ok(cu.copy_batch(dst, src, bytes, 4, attributes, first, 2, stream));
	attributes[1].source_order = 0;
	assert_int_equal(cu.copy_batch(dst, src, bytes, 4, attributes, first, 2, stream),
			 CU_INVALID_VALUE);
	assert_int_equal(cu.copy_batch(dst, src, bytes, 4, attributes, first, 1, NULL),
			 CU_INVALID_VALUE);
	ok(cu.stream_sync(stream));
	assert_int_equal(fakecuda_nr_races(), 0);
	/* A chain within a batch: what it gives is not promised. */
	src[1] = dst[0];
	ok(cu.copy_batch(dst, src, bytes, 4, attributes, first, 1, stream));
	ok(cu.stream_sync(stream));
	assert_int_equal(fakecuda_nr_races(), 1);
	assert_int_equal(words(dst[1], UNIT, stream), 1);
	src[1] = src[2];
	dst[1] = dst[0] + UNIT - 4;
	ok(cu.copy_batch(dst, src, bytes, 4, attributes, first, 1, stream));
	ok(cu.stream_sync(stream));
	assert_int_equal(fakecuda_nr_races(), 2);
	fakecuda_reset(NULL);
}

/* Where program memory makes copies block, the call returns when it is done. */
static void test_pageable(void **state)
{
	const struct fakecuda_config config = {.pageable_blocks = true};
	cu_stream stream;
	uint32_t word = 0;
	cu_ptr addr;

	(void)state;
	begin(&config);
	stream = stream_new();
	addr = mapped(&in_hbm, UNIT);
	fill(addr, 4711, UNIT, stream);
	ok(cu.copy(address(&word), addr, sizeof(word), stream));
	assert_int_equal(word, 4711);
	ok(cu.stream_destroy(stream));
	unmapped(addr, UNIT);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),	    cmocka_unit_test(test_times),
		cmocka_unit_test(test_wait_record), cmocka_unit_test(test_devices),
		cmocka_unit_test(test_stream_zero), cmocka_unit_test(test_stream_destroy),
		cmocka_unit_test(test_free_blocks), cmocka_unit_test(test_copies),
		cmocka_unit_test(test_batch),	    cmocka_unit_test(test_pageable),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
