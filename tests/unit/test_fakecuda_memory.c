/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory on the fake CUDA driver that only programs ask for: of pools, in the order of streams;
 * with a pitch; the host's own, registered. And what calls tell of addresses.
 *
 * Labels: threads
 * Links: cuda-fake
 */
#include "tests/unit/test_fakecuda_calls.h"

/* ------------------------------------------------------------------ pools */

static cu_ptr pool_memory(size_t bytes, cu_stream stream)
{
	cu_ptr addr = 0;

	ok(more.pool_alloc(&addr, bytes, stream));
	return addr;
}

static void test_pool(void **state)
{
	cu_stream stream;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	stream = stream_new();
	ok(fakecuda_gate(stream, true));
	addr = pool_memory(UNIT, stream);
	fill(addr, 4, UNIT, stream);
	ok(more.pool_free(addr, stream));
	/* Both are queued: the memory is there, and is being freed. */
	assert_int_equal(fakecuda_used_bytes(0), UNIT);
	assert_int_equal(more.pool_free(addr, stream), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_free(addr), CU_INVALID_VALUE);
	ok(fakecuda_gate(stream, false));
	ok(cu.stream_sync(stream));
	assert_int_equal(fakecuda_used_bytes(0), 0);
	assert_int_equal(more.pool_free(addr, stream), CU_INVALID_VALUE);
	/* Each kind of free takes both kinds of memory. */
	addr = pool_memory(UNIT, stream);
	ok(cu.stream_sync(stream));
	ok(cu.mem_free(addr));
	addr = plain(UNIT);
	fill(addr, 4, UNIT, stream);
	ok(more.pool_free(addr, stream));
	ok(cu.stream_sync(stream));
	assert_int_equal(more.pool_alloc(&addr, 0, stream), CU_INVALID_VALUE);
	ok(cu.stream_destroy(stream));
	end();
}

/* What is not ordered with the allocation, or with the free, is a race. */
static void test_pool_order(void **state)
{
	cu_stream stream, other;
	cu_event event;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	stream = stream_new();
	other = stream_new();
	ok(fakecuda_gate(stream, true));
	addr = pool_memory(UNIT, stream);
	event = recorded(stream);
	ok(cu.stream_wait(other, event, 0));
	fill(addr, 1, UNIT, other);
	ok(cu.event_record(event, other));
	ok(cu.stream_wait(stream, event, 0));
	ok(more.pool_free(addr, stream));
	ok(fakecuda_gate(stream, false));
	ok(cu.context_sync());
	assert_int_equal(fakecuda_nr_races(), 0);
	ok(fakecuda_gate(stream, true));
	addr = pool_memory(UNIT, stream);
	fill(addr, 1, UNIT, other);
	ok(cu.stream_sync(other));
	assert_int_equal(fakecuda_nr_races(), 1);
	ok(fakecuda_gate(stream, false));
	ok(cu.stream_sync(stream));
	ok(fakecuda_gate(other, true));
	fill(addr, 1, UNIT, other);
	ok(more.pool_free(addr, stream));
	ok(cu.stream_sync(stream));
	assert_int_equal(fakecuda_nr_races(), 2);
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 1);
	ok(fakecuda_gate(other, false));
	assert_int_equal(cu.stream_sync(other), CU_ILLEGAL_ADDRESS);
	fakecuda_reset(NULL);
}

/* Freed before its turn by the other call, which waits for nothing. */
static void test_pool_freed_early(void **state)
{
	atomic_int running = 0;
	cu_stream stream;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	stream = stream_new();
	addr = pool_memory(UNIT, stream);
	ok(launch_add(stream, (struct add){pointer(addr), pointer(addr), 4, &running}));
	wait_for(&running, 1);
	ok(cu.mem_free(addr));
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 1);
	atomic_store(&running, 2);
	assert_int_equal(cu.stream_sync(stream), CU_ILLEGAL_ADDRESS);
	fakecuda_reset(NULL);
}

/* Where there is no memory left, what is being freed is waited for. */
static void test_pool_full(void **state)
{
	const struct fakecuda_config config = {.hbm_bytes = 4 * UNIT};
	cu_stream stream;
	cu_ptr addr[2], none;

	(void)state;
	begin(&config);
	stream = stream_new();
	ok(fakecuda_delay(stream, 2000000));
	addr[0] = pool_memory(3 * UNIT, stream);
	assert_int_equal(more.pool_alloc(&none, 2 * UNIT, stream), CU_OUT_OF_MEMORY);
	ok(more.pool_free(addr[0], stream));
	addr[1] = pool_memory(2 * UNIT, stream);
	assert_int_equal(more.pool_alloc(&none, 3 * UNIT, stream), CU_OUT_OF_MEMORY);
	ok(more.pool_free(addr[1], stream));
	/* Of a stream that is gone as well. */
	ok(cu.stream_destroy(stream));
	addr[0] = pool_memory(4 * UNIT, NULL);
	ok(more.pool_free(addr[0], NULL));
	ok(cu.context_sync());
	end();
}

static uint64_t pool_value(cu_pool pool, int attribute)
{
	uint64_t value = 0;

	ok(more.pool_attribute(pool, attribute, &value));
	return value;
}

static void test_pool_attributes(void **state)
{
	const struct fakecuda_config two = {.devices = 2};
	cu_pool pool, other;
	uint64_t value = 5;
	cu_ptr addr;
	int on = 0;

	(void)state;
	begin(&two);
	ok(more.pool_default(&pool, 0));
	ok(more.pool_get(&other, 0));
	assert_ptr_equal(pool, other);
	ok(more.pool_get(&other, 1));
	assert_ptr_not_equal(pool, other);
	assert_int_equal(more.pool_get(&other, 2), CU_INVALID_DEVICE);
	ok(more.pool_alloc_from(&addr, UNIT, other, NULL));
	assert_int_equal(fakecuda_used_bytes(1), UNIT);
	assert_int_equal(pool_value(other, CU_POOL_USED), UNIT);
	assert_int_equal(pool_value(other, CU_POOL_RESERVED), UNIT);
	assert_int_equal(pool_value(pool, CU_POOL_USED), 0);
	ok(more.pool_free(addr, NULL));
	ok(cu.stream_sync(NULL));
	assert_int_equal(pool_value(other, CU_POOL_USED), 0);
	assert_int_equal(pool_value(other, CU_POOL_USED_HIGH), UNIT);
	assert_int_equal(more.pool_set(other, CU_POOL_USED_HIGH, &value), CU_INVALID_VALUE);
	ok(more.pool_set(other, CU_POOL_RELEASE_THRESHOLD, &value));
	assert_int_equal(pool_value(other, CU_POOL_RELEASE_THRESHOLD), 5);
	assert_int_equal(pool_value(pool, CU_POOL_RELEASE_THRESHOLD), 0);
	value = 0;
	ok(more.pool_set(other, CU_POOL_USED_HIGH, &value));
	assert_int_equal(pool_value(other, CU_POOL_USED_HIGH), 0);
	ok(more.pool_attribute(pool, CU_POOL_REUSE_EVENTS, &on));
	assert_int_equal(on, 1);
	on = 0;
	ok(more.pool_set(pool, CU_POOL_REUSE_EVENTS, &on));
	ok(more.pool_attribute(pool, CU_POOL_REUSE_EVENTS, &on));
	assert_int_equal(on, 0);
	ok(more.pool_trim(pool, 0));
	assert_int_equal(more.pool_trim(NULL, 0), CU_INVALID_VALUE);
	assert_int_equal(more.pool_set(pool, CU_POOL_USED, &value), CU_INVALID_VALUE);
	assert_int_equal(more.pool_attribute(pool, 99, &value), CU_INVALID_VALUE);
	end();
}

/* ------------------------------------------------------------------ attributes */

static uint64_t attribute(cu_ptr addr, int which)
{
	uint64_t value = 0;

	ok(more.pointer_attribute(&value, which, addr));
	return value;
}

static void test_attributes(void **state)
{
	int which[] = {CU_POINTER_MEMORY_TYPE, CU_POINTER_RANGE_START, CU_POINTER_HOST_POINTER};
	uint64_t start = 1, host_at = 1;
	cu_ptr addr, base, managed, pool;
	unsigned type = 1;
	void *data[] = {&type, &start, &host_at};
	cu_context context;
	size_t bytes;
	void *host;

	(void)state;
	begin(NULL);
	ok(more.context_get(&context));
	addr = plain(1000);
	ok(more.mem_range(&base, &bytes, addr + 999));
	assert_int_equal(base, addr);
	assert_int_equal(bytes, 1000);
	ok(more.mem_range(NULL, NULL, addr));
	assert_int_equal(more.mem_range(&base, &bytes, addr + 1000), NOT_FOUND);
	assert_int_equal(attribute(addr, CU_POINTER_CONTEXT), (uintptr_t)context);
	assert_int_equal(attribute(addr + 9, CU_POINTER_MEMORY_TYPE), CU_MEMORY_DEVICE);
	assert_int_equal(attribute(addr + 9, CU_POINTER_DEVICE_POINTER), addr + 9);
	assert_int_equal(attribute(addr + 9, CU_POINTER_RANGE_START), addr);
	assert_int_equal(attribute(addr, CU_POINTER_RANGE_BYTES), 1000);
	assert_int_equal(attribute(addr, CU_POINTER_DEVICE), 0);
	assert_int_equal(attribute(addr, CU_POINTER_ACCESS), 3);
	assert_int_equal(attribute(addr, CU_POINTER_MAPPED), 1);
	assert_int_equal(attribute(addr, CU_POINTER_POOL), 0);
	assert_int_equal(more.pointer_attribute(&start, CU_POINTER_HOST_POINTER, addr),
			 CU_INVALID_VALUE);
	assert_int_equal(more.pointer_attribute(&start, 99, addr), CU_INVALID_VALUE);
	assert_int_equal(more.pointer_attribute(&start, CU_POINTER_MAPPED, address(&start)),
			 CU_INVALID_VALUE);
	/* Many at once, where none is an error. */
	ok(more.pointer_attributes(3, which, data, addr + 4));
	assert_int_equal(type, CU_MEMORY_DEVICE);
	assert_int_equal(start, addr);
	assert_int_equal(host_at, 0);
	ok(more.pointer_attributes(3, which, data, address(&start)));
	assert_int_equal(type, 0);
	assert_int_equal(start, 0);
	assert_int_equal(more.pointer_attributes(0, which, data, addr), CU_INVALID_VALUE);
	ok(cu.host_alloc(&host, 100, 0));
	ok(cu.managed_alloc(&managed, 100, CU_ATTACH_GLOBAL));
	pool = pool_memory(100, NULL);
	assert_int_equal(attribute(address(host), CU_POINTER_MEMORY_TYPE), CU_MEMORY_HOST);
	assert_int_equal(attribute(address(host), CU_POINTER_HOST_POINTER), address(host));
	assert_int_equal(attribute(managed, CU_POINTER_IS_MANAGED), 1);
	assert_int_equal(attribute(addr, CU_POINTER_IS_MANAGED), 0);
	assert_int_not_equal(attribute(pool, CU_POINTER_POOL), 0);
	assert_int_not_equal(attribute(pool, CU_POINTER_BUFFER_ID),
			     attribute(addr, CU_POINTER_BUFFER_ID));
	ok(cu.mem_free(addr));
	ok(cu.host_free(host));
	ok(cu.mem_free(managed));
	ok(more.pool_free(pool, NULL));
	ok(cu.context_sync());
	end();
}

/* Only what cuMemAlloc() made can be given to other processes. */
static void test_ipc(void **state)
{
	struct cu_ipc_handle handle[2];
	cu_ptr addr, vmm, pool;

	(void)state;
	begin(NULL);
	addr = plain(UNIT);
	vmm = mapped(&in_hbm, UNIT);
	pool = pool_memory(UNIT, NULL);
	ok(more.ipc_handle(&handle[0], addr));
	assert_int_equal(more.ipc_handle(&handle[1], vmm), CU_INVALID_VALUE);
	assert_int_equal(more.ipc_handle(&handle[1], pool), CU_INVALID_VALUE);
	assert_int_equal(more.ipc_handle(&handle[1], address(handle)), CU_INVALID_VALUE);
	assert_int_equal(attribute(addr, CU_POINTER_IPC_CAPABLE), 1);
	assert_int_equal(attribute(vmm, CU_POINTER_IPC_CAPABLE), 0);
	assert_int_equal(attribute(vmm, CU_POINTER_CONTEXT), 0);
	assert_int_equal(attribute(vmm, CU_POINTER_MEMORY_TYPE), CU_MEMORY_DEVICE);
	ok(cu.mem_free(addr));
	ok(cu.mem_free(pool));
	unmapped(vmm, UNIT);
	end();
}

/* ------------------------------------------------------------------ other memory */

static void test_pitch(void **state)
{
	size_t pitch, bytes;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	ok(more.mem_alloc_pitch(&addr, &pitch, 700, 3, 4));
	assert_int_equal(pitch, 1024);
	ok(more.mem_range(NULL, &bytes, addr));
	assert_int_equal(bytes, 3 * 1024);
	ok(cu.mem_free(addr));
	assert_int_equal(more.mem_alloc_pitch(&addr, &pitch, 700, 3, 2), CU_INVALID_VALUE);
	assert_int_equal(more.mem_alloc_pitch(&addr, &pitch, 0, 3, 4), CU_INVALID_VALUE);
	assert_int_equal(more.mem_alloc_pitch(&addr, &pitch, SIZE_MAX, 1, 4), CU_OUT_OF_MEMORY);
	end();
}

/* A kernel reaches memory of the program while it is registered, and not before or after. */
static void test_registered(void **state)
{
	static uint32_t memory[1024];
	cu_stream stream;
	cu_ptr addr;
	void *host;

	(void)state;
	begin(NULL);
	stream = stream_new();
	ok(more.host_register(memory, sizeof(memory) - 4, 1));
	assert_int_equal(more.host_register(memory + 8, 4, 0), ALREADY_REGISTERED);
	ok(more.host_pointer(&addr, memory + 1, 0));
	assert_int_equal(addr, address(memory + 1));
	for (int i = 0; i < 8; i++)
		memory[i] = 3;
	ok(launch_add(stream, (struct add){memory, memory, 4, NULL}));
	ok(cu.stream_sync(stream));
	assert_int_equal(memory[3], 6);
	assert_int_equal(memory[4], 3);
	assert_int_equal(attribute(addr, CU_POINTER_MEMORY_TYPE), CU_MEMORY_HOST);
	assert_int_equal(fakecuda_used_bytes(-1), 0);
	/* What lies behind is the program's. */
	ok(cu.copy(address(memory + 1023), address(memory), 4, stream));
	ok(cu.stream_sync(stream));
	assert_int_equal(memory[1023], 6);
	assert_int_equal(more.host_unregister(memory + 1), NOT_REGISTERED);
	ok(more.host_unregister(memory));
	assert_int_equal(more.host_unregister(memory), NOT_REGISTERED);
	assert_int_equal(more.host_pointer(&addr, memory, 0), CU_INVALID_VALUE);
	ok(more.host_alloc_plain(&host, 100));
	ok(more.host_pointer(&addr, host, 0));
	assert_int_equal(more.host_unregister(host), NOT_REGISTERED);
	ok(cu.host_free(host));
	assert_int_equal(more.host_register(NULL, 4, 0), CU_INVALID_VALUE);
	ok(cu.stream_destroy(stream));
	end();
	begin(NULL);
	ok(launch_add(NULL, (struct add){memory, memory, 4, NULL}));
	assert_int_equal(cu.stream_sync(NULL), CU_ILLEGAL_ADDRESS);
	fakecuda_reset(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_pool_order),
		cmocka_unit_test(test_pool_freed_early),
		cmocka_unit_test(test_pool_full),
		cmocka_unit_test(test_pool_attributes),
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_ipc),
		cmocka_unit_test(test_pitch),
		cmocka_unit_test(test_registered),
	};

	return cmocka_run_group_tests(tests, setup_more, teardown);
}
