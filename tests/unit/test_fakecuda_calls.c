/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What unmodified programs call of the fake CUDA driver, beside what weir does: functions by their
 * names, contexts, streams, copies, memory of pools and of the host, what calls tell of addresses.
 * Modules and launches are in test_fakecuda_module.c.
 *
 * Labels: threads
 * Links: cuda-fake
 */
#include "tests/unit/test_fakecuda_calls.h"

#include <pthread.h>

/* ------------------------------------------------------------------ names */

static void *proc(const char *name, int version, uint64_t flags, int status)
{
	void *found = &found;
	int got = -1;

	ok(more.proc_v2(name, &found, version, flags, &got));
	assert_int_equal(got, status);
	return found;
}

static void test_proc(void **state)
{
	void *found;

	(void)state;
	fakecuda_reset(NULL);
	/* No cuInit() before. */
	assert_ptr_equal(proc("cuInit", 12000, 0, CU_PROC_FOUND), cu.init);
	assert_ptr_equal(proc("cuMemAlloc", 13000, CU_PROC_LEGACY, CU_PROC_FOUND), cu.mem_alloc);
	assert_ptr_equal(proc("cuGetProcAddress", 11030, 0, CU_PROC_FOUND), more.proc);
	assert_ptr_equal(proc("cuGetProcAddress", 12000, 0, CU_PROC_FOUND), more.proc_v2);
	assert_ptr_equal(proc("cuCtxCreate", 11030, 0, CU_PROC_FOUND), more.context_create);
	assert_ptr_equal(proc("cuCtxCreate", 11040, 0, CU_PROC_FOUND), more.context_create_v3);
	assert_ptr_equal(proc("cuCtxCreate", 13000, 0, CU_PROC_FOUND), more.context_create_v4);
	assert_ptr_equal(proc("cuCtxSynchronize", 12080, 0, CU_PROC_FOUND), cu.context_sync);
	assert_ptr_equal(proc("cuCtxSynchronize", 13000, 0, CU_PROC_FOUND), more.context_sync_v2);
	/* Per-thread variants, where there are any. */
	assert_ptr_equal(proc("cuMemcpyAsync", 12000, CU_PROC_LEGACY, CU_PROC_FOUND), cu.copy);
	assert_ptr_equal(proc("cuMemcpyAsync", 12000, CU_PROC_PER_THREAD, CU_PROC_FOUND), own.copy);
	assert_ptr_equal(proc("cuMemcpyHtoD", 12000, CU_PROC_PER_THREAD, CU_PROC_FOUND),
			 own.copy_htod);
	assert_ptr_equal(proc("cuMemAlloc", 12000, CU_PROC_PER_THREAD, CU_PROC_FOUND),
			 cu.mem_alloc);
	/* No names with a suffix, no beginnings of names, none at all. */
	assert_null(proc("cuMemAlloc_v2", 12000, 0, CU_PROC_NOT_FOUND));
	assert_null(proc("cuMemcpyAsync_ptsz", 12000, 0, CU_PROC_NOT_FOUND));
	assert_null(proc("cuMem", 12000, 0, CU_PROC_NOT_FOUND));
	assert_null(proc("", 12000, 0, CU_PROC_NOT_FOUND));
	assert_null(proc("cuMemAllocAsync", 11010, 0, CU_PROC_TOO_OLD));
	ok(more.proc_v2("cuInit", &found, 12000, 0, NULL));
	assert_int_equal(more.proc_v2("cuInit", &found, 13010, 0, NULL), CU_INVALID_VALUE);
	assert_int_equal(more.proc_v2("cuInit", &found, 12000, 4, NULL), CU_INVALID_VALUE);
	assert_int_equal(more.proc_v2(NULL, &found, 12000, 0, NULL), CU_INVALID_VALUE);
	assert_int_equal(more.proc("", &found, 12000, 0), NOT_FOUND);
	ok(more.proc("cuInit", &found, 12000, 0));
	assert_ptr_equal(found, cu.init);
}

/* ------------------------------------------------------------------ devices, contexts */

static void test_current(void **state)
{
	const struct fakecuda_config two = {.devices = 2};
	cu_context zero, one, got;
	struct cu_uuid uuid[2];
	cu_device device;
	unsigned flags;
	int active;

	(void)state;
	begin(&two);
	ok(more.context_get(&zero));
	assert_non_null(zero);
	ok(more.context_state(1, &flags, &active));
	assert_int_equal(active, 0);
	ok(cu.context_retain(&one, 1));
	ok(more.context_state(1, &flags, &active));
	assert_int_equal(active, 1);
	/* Replaces the top, and takes it off. */
	ok(more.context_set(one));
	ok(more.context_device(&device));
	assert_int_equal(device, 1);
	ok(more.context_set(NULL));
	ok(more.context_get(&got));
	assert_null(got);
	assert_int_equal(more.context_device(&device), INVALID_CONTEXT);
	assert_int_equal(more.context_sync_v2(NULL), INVALID_CONTEXT);
	ok(more.context_sync_v2(one));
	ok(more.context_device_v2(&device, one));
	assert_int_equal(device, 1);
	assert_int_equal(more.context_set((cu_context)&got), INVALID_CONTEXT);
	ok(more.context_set(zero));
	ok(cu.context_release(1));
	assert_int_equal(more.context_set(one), INVALID_CONTEXT);
	ok(more.device_uuid(&uuid[0], 0));
	ok(more.device_uuid_v2(&uuid[1], 1));
	assert_memory_not_equal(&uuid[0], &uuid[1], sizeof(uuid[0]));
	end();
}

/* A context of its own has streams, events and errors of its own, and ends alone. */
static void test_own_context(void **state)
{
	cu_context primary, made, again;
	cu_stream stream, there;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	ok(more.context_get(&primary));
	stream = stream_new();
	addr = plain(UNIT);
	ok(more.context_create_v4(&made, NULL, 0, 0));
	ok(more.context_get(&again));
	assert_ptr_equal(again, made);
	assert_ptr_not_equal(made, primary);
	there = stream_new();
	ok(cu.stream_context(there, &again));
	assert_ptr_equal(again, made);
	fill(addr, 3, UNIT, there);
	assert_int_equal(words(addr, UNIT, there), 3);
	/* It breaks alone. */
	ok(cu.fill(4096, 1, 1, there));
	assert_int_equal(cu.stream_sync(there), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.stream_destroy(there), CU_ILLEGAL_ADDRESS);
	ok(more.context_set(primary));
	assert_int_equal(words(addr, UNIT, stream), 3);
	ok(more.context_destroy(made));
	assert_int_equal(more.context_destroy(made), INVALID_CONTEXT);
	assert_int_equal(cu.context_push(made), INVALID_CONTEXT);
	assert_int_equal(more.context_destroy(primary), INVALID_CONTEXT);
	/* Handles do not come again, and the one that ends is off the stack. */
	ok(more.context_create(&again, 0, 0));
	assert_ptr_not_equal(again, made);
	ok(more.context_destroy(again));
	ok(more.context_get(&again));
	assert_ptr_equal(again, primary);
	ok(cu.stream_destroy(stream));
	ok(cu.mem_free(addr));
	ok(cu.context_pop(NULL));
	ok(cu.context_pop(NULL));
	assert_int_equal(cu.context_pop(NULL), INVALID_CONTEXT);
	ok(cu.context_release(0));
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* What is queued on the streams of a context that ends is dropped, and they are of no use. */
static void test_context_end(void **state)
{
	cu_stream stream;
	cu_context made;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	addr = plain(UNIT);
	fill(addr, 1, UNIT, NULL);
	ok(cu.stream_sync(NULL));
	ok(more.context_create(&made, 0, 0));
	stream = stream_new();
	ok(fakecuda_gate(stream, true));
	fill(addr, 2, UNIT, stream);
	ok(fakecuda_gate(NULL, true));
	fill(addr, 3, UNIT, NULL);
	ok(more.context_destroy(made));
	assert_int_equal(more.stream_query(stream), CONTEXT_IS_DESTROYED);
	ok(fakecuda_gate(NULL, false));
	assert_int_equal(words(addr, UNIT, NULL), 1);
	assert_int_equal(fakecuda_nr_pending(NULL), 0);
	fakecuda_reset(NULL);
}

static void test_context_reset(void **state)
{
	cu_stream stream;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	stream = stream_new();
	addr = plain(UNIT);
	ok(fakecuda_gate(stream, true));
	fill(addr, 1, UNIT, stream);
	ok(more.context_reset(0));
	assert_int_equal(cu.stream_sync(stream), CONTEXT_IS_DESTROYED);
	fakecuda_reset(NULL);
}

/* ------------------------------------------------------------------ streams */

static void test_streams(void **state)
{
	int least, greatest, priority;
	cu_stream stream;
	unsigned flags;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	ok(cu.stream_priorities(&least, &greatest));
	assert_true(greatest < least);
	ok(cu.stream_create_priority(&stream, CU_STREAM_NON_BLOCKING, greatest - 10));
	ok(more.stream_priority(stream, &priority));
	assert_int_equal(priority, greatest);
	ok(more.stream_flags(stream, &flags));
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	ok(more.stream_flags(NULL, &flags));
	assert_int_equal(flags, 0);
	addr = plain(UNIT);
	ok(more.stream_query(stream));
	ok(fakecuda_gate(stream, true));
	fill(addr, 1, UNIT, stream);
	assert_int_equal(more.stream_query(stream), CU_NOT_READY);
	ok(more.stream_query(NULL));
	ok(fakecuda_gate(stream, false));
	ok(cu.stream_sync(stream));
	ok(more.stream_query(stream));
	assert_int_equal(more.stream_query((cu_stream)&addr), INVALID_HANDLE);
	ok(cu.stream_destroy(stream));
	ok(cu.mem_free(addr));
	end();
}

struct other {
	cu_context context;
	cu_ptr addr;
	cu_stream gated;
};

/* Its own stream is not behind the main thread's. */
static void *other_thread(void *arg)
{
	const struct other *other = arg;
	uint32_t word = 7;

	ok(cu.context_push(other->context));
	ok(own.fill(other->addr, 6, 4, NULL));
	ok(own.stream_sync(NULL));
	ok(own.copy_dtoh(&word, other->addr, sizeof(word)));
	assert_int_equal(word, 6);
	ok(cu.copy(other->addr, other->addr + 8, 4, CU_STREAM_PER_THREAD));
	ok(own.stream_query(NULL) == CU_NOT_READY ? 0 : own.stream_sync(NULL));
	ok(cu.context_pop(NULL));
	return NULL;
}

static void test_own_streams(void **state)
{
	struct other other;
	pthread_t thread;
	uint32_t word;

	(void)state;
	begin(NULL);
	ok(more.context_get(&other.context));
	other.addr = plain(UNIT);
	/* What the main thread's own stream does waits behind the closed gate of another one. */
	other.gated = NULL;
	ok(cu.stream_create(&other.gated, CU_STREAM_NON_BLOCKING));
	ok(fakecuda_gate(other.gated, true));
	fill(other.addr + KIB(4), 1, KIB(4), other.gated);
	{
		cu_event event = recorded(other.gated);

		ok(own.stream_wait(NULL, event, 0));
		ok(own.fill8(other.addr + KIB(8), 2, KIB(4)));
		assert_int_equal(own.stream_query(NULL), CU_NOT_READY);
		assert_int_equal(own.stream_query(CU_STREAM_PER_THREAD), CU_NOT_READY);
		assert_int_equal(more.stream_query(CU_STREAM_PER_THREAD), CU_NOT_READY);
		ok(cu.event_destroy(event));
	}
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &other), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* Stream 0 of the context comes after it. */
	ok(cu.fill(other.addr + KIB(8), 3, 1, CU_STREAM_LEGACY));
	assert_int_equal(more.stream_query(NULL), CU_NOT_READY);
	ok(fakecuda_gate(other.gated, false));
	ok(more.copy_dtoh(&word, other.addr + KIB(8), sizeof(word)));
	assert_int_equal(word, 3);
	ok(cu.stream_destroy(other.gated));
	ok(cu.mem_free(other.addr));
	end();
}

static void *short_thread(void *arg)
{
	ok(cu.context_push(arg));
	ok(own.fill(1, 0, 0, NULL));
	ok(own.stream_sync(NULL));
	ok(cu.context_pop(NULL));
	return NULL;
}

/* A thread's own stream ends with it: there are more threads than streams. */
static void test_own_streams_end(void **state)
{
	cu_context context;
	pthread_t thread;

	(void)state;
	begin(NULL);
	ok(more.context_get(&context));
	for (int i = 0; i < FAKECUDA_STREAMS_MAX + 8; i++) {
		assert_int_equal(pthread_create(&thread, NULL, short_thread, context), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	end();
}

/* ------------------------------------------------------------------ copies and fills */

static void test_copies(void **state)
{
	uint32_t host[4] = {1, 2, 3, 4}, back[4] = {0};
	cu_ptr a, b;

	(void)state;
	begin(NULL);
	a = plain(UNIT);
	b = plain(UNIT);
	ok(more.copy_htod(a, host, sizeof(host)));
	ok(more.copy_dtod(b, a, sizeof(host)));
	ok(more.copy_dtoh(back, b, sizeof(back)));
	assert_memory_equal(host, back, sizeof(host));
	ok(more.fill8(a, 0x11, 5));
	ok(more.fill16(a + 6, 0x2222, 1));
	ok(more.fill32(a + 8, 0x33333333, 1));
	ok(more.copy_sync(address(back), a, sizeof(back)));
	assert_int_equal(back[0], 0x11111111);
	assert_int_equal(back[1], 0x22220011);
	assert_int_equal(back[2], 0x33333333);
	assert_int_equal(back[3], 4);
	ok(more.fill8_async(a, 5, 4, NULL));
	ok(more.fill16_async(a + 4, 0x606, 2, NULL));
	ok(more.copy_dtod_async(b, a, 8, NULL));
	ok(more.copy_dtoh_async(back, b, 8, NULL));
	ok(cu.stream_sync(NULL));
	assert_int_equal(back[0], 0x05050505);
	assert_int_equal(back[1], 0x06060606);
	ok(more.copy_htod_async(b, host, 4, NULL));
	assert_int_equal(words(b, 4, NULL), 1);
	assert_int_equal(more.copy_htod(address(back), host, 4), CU_INVALID_VALUE);
	assert_int_equal(more.copy_dtoh(back, address(host), 4), CU_INVALID_VALUE);
	assert_int_equal(more.copy_dtod(a, address(host), 4), CU_INVALID_VALUE);
	assert_int_equal(more.fill16(a + 1, 0, 1), CU_INVALID_VALUE);
	/* Faults, by the symbol. */
	assert_true(fakecuda_fail_symbol("cuMemcpyHtoD_v2", 0, CU_OUT_OF_MEMORY));
	assert_int_equal(more.copy_htod(a, host, 4), CU_OUT_OF_MEMORY);
	assert_int_equal(own.copy_htod(a, host, 4), CU_OUT_OF_MEMORY);
	assert_int_equal(fakecuda_nr_calls_of("cuMemcpyHtoD_v2"), 4);
	ok(cu.mem_free(a));
	ok(cu.mem_free(b));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_proc),	    cmocka_unit_test(test_current),
		cmocka_unit_test(test_own_context), cmocka_unit_test(test_context_reset),
		cmocka_unit_test(test_context_end), cmocka_unit_test(test_own_streams_end),
		cmocka_unit_test(test_streams),	    cmocka_unit_test(test_own_streams),
		cmocka_unit_test(test_copies),
	};

	return cmocka_run_group_tests(tests, setup_more, teardown);
}
