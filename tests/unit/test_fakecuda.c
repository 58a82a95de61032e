/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake CUDA driver itself: that it is found, its devices, contexts, memory, mappings and
 * access, injected faults, leaks. What runs is in test_fakecuda_work.c and test_fakecuda_kernel.c.
 *
 * Labels: threads
 * Links: cuda-fake
 */
#include "tests/unit/test_fakecuda.h"

#include <pthread.h>

/* ------------------------------------------------------------------ library, devices, contexts */

static void test_library(void **state)
{
	__typeof__(&fakecuda_nr_calls_of) nr_calls_of;
	int version;

	(void)state;
	fakecuda_reset(NULL);
	ok(cu.driver_version(&version));
	*(void **)&nr_calls_of = dlsym(cu.library, "fakecuda_nr_calls_of");
	assert_ptr_equal(nr_calls_of, fakecuda_nr_calls_of);
	/* State outlives closing. */
	dlclose(cu.library);
	load();
	assert_int_equal(nr_calls_of("cuDriverGetVersion"), 1);
	assert_int_equal(nr_calls_of("cuNothing"), 0);
}

static void test_init(void **state)
{
	const char *text = NULL;
	int version = 0, nr;

	(void)state;
	fakecuda_reset(NULL);
	assert_int_equal(cu.device_count(&nr), CU_NOT_INITIALIZED);
	ok(cu.driver_version(&version));
	assert_int_equal(version, 13000);
	ok(cu.error_name(CU_ILLEGAL_ADDRESS, &text));
	assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
	ok(cu.error_string(CU_OUT_OF_MEMORY, &text));
	assert_string_equal(text, "out of memory");
	assert_int_equal(cu.error_string(4711, &text), CU_INVALID_VALUE);
	assert_null(text);
	assert_int_equal(cu.init(1), CU_INVALID_VALUE);
	ok(cu.init(0));
	ok(cu.init(0));
	ok(cu.device_count(&nr));
	assert_int_equal(nr, 1);
}

static void test_environment(void **state)
{
	static const char *const names[] = {"FAKECUDA_DEVICES", "FAKECUDA_HBM_BYTES",
					    "FAKECUDA_GRANULARITY", "FAKECUDA_VERSION"};
	static const char *const values[] = {"3", "0x100000", "8192", "12020"};
	const struct fakecuda_config none = {.devices = -1};
	size_t bytes;
	int value;

	(void)state;
	for (int i = 0; i < 4; i++)
		setenv(names[i], values[i], 1);
	fakecuda_reset(NULL);
	ok(cu.driver_version(&value));
	assert_int_equal(value, 12020);
	ok(cu.init(0));
	ok(cu.device_count(&value));
	assert_int_equal(value, 3);
	ok(cu.device_bytes(&bytes, 2));
	assert_int_equal(bytes, MIB(1));
	ok(cu.mem_granularity(&bytes, &in_hbm, CU_GRANULARITY_MINIMUM));
	assert_int_equal(bytes, 8192);
	setenv("FAKECUDA_DEVICES", "0", 1);
	fakecuda_reset(NULL);
	assert_int_equal(cu.init(0), CU_NO_DEVICE);
	for (int i = 0; i < 4; i++)
		unsetenv(names[i]);
	fakecuda_reset(&none);
	assert_int_equal(cu.init(0), CU_NO_DEVICE);
}

static void test_devices(void **state)
{
	const struct fakecuda_config two = {.devices = 2};
	char name[32], pci[2][16];
	cu_device device;
	int value;

	(void)state;
	begin(&two);
	ok(cu.device_get(&device, 1));
	assert_int_equal(cu.device_get(&device, 2), CU_INVALID_DEVICE);
	ok(cu.device_name(name, sizeof(name), device));
	assert_string_equal(name, "Fake H200");
	ok(cu.device_pci(pci[0], 16, 0));
	ok(cu.device_pci(pci[1], 16, 1));
	assert_string_not_equal(pci[0], pci[1]);
	ok(cu.device_peer(&value, 0, 1));
	assert_int_equal(value, 1);
	ok(cu.device_peer(&value, 1, 1));
	assert_int_equal(value, 0);
	assert_int_equal(cu.device_peer(&value, 0, 2), CU_INVALID_DEVICE);
	ok(cu.device_attribute(&value, CU_ATTRIBUTE_VMM_SUPPORTED, 1));
	assert_int_equal(value, 1);
	ok(cu.device_attribute(&value, CU_ATTRIBUTE_HOST_NUMA_ID, 1));
	assert_int_equal(value, 0);
	assert_int_equal(cu.device_attribute(&value, 9999, 1), CU_INVALID_VALUE);
	assert_int_equal(cu.device_attribute(&value, CU_ATTRIBUTE_CLOCK_KHZ, -1),
			 CU_INVALID_DEVICE);
	end();
}

static void *without_context(void *arg)
{
	cu_stream stream;

	*(cu_result *)arg = cu.stream_create(&stream, 0);
	return NULL;
}

static void test_contexts(void **state)
{
	cu_context context, popped;
	cu_event event, late;
	cu_stream stream;
	pthread_t thread;
	cu_result result = 0;
	size_t free, total;
	cu_ptr addr;
	void *host;

	(void)state;
	begin(NULL);
	ok(cu.context_pop(&popped));
	assert_int_equal(cu.context_pop(&context), INVALID_CONTEXT);
	assert_int_equal(cu.stream_create(&stream, 0), INVALID_CONTEXT);
	assert_int_equal(cu.event_create(&event, 0), INVALID_CONTEXT);
	assert_int_equal(cu.mem_alloc(&addr, 1), INVALID_CONTEXT);
	assert_int_equal(cu.host_alloc(&host, 1, 0), INVALID_CONTEXT);
	assert_int_equal(cu.mem_info(&free, &total), INVALID_CONTEXT);
	assert_int_equal(cu.context_sync(), INVALID_CONTEXT);
	assert_int_equal(cu.copy(1, 1, 1, NULL), INVALID_CONTEXT);
	/* Memory needs none. */
	ok(cu.mem_release(handle_of(&in_hbm, UNIT)));
	ok(cu.context_push(popped));
	/* The stack is the thread's own. */
	assert_int_equal(pthread_create(&thread, NULL, without_context, &result), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(result, INVALID_CONTEXT);
	/* Retains count; what a context leaves behind is known to be gone. */
	ok(cu.context_retain(&context, 0));
	assert_ptr_equal(context, popped);
	ok(cu.context_release(0));
	ok(cu.event_create(&event, 0));
	ok(cu.context_release(0));
	assert_int_equal(cu.context_release(0), INVALID_CONTEXT);
	assert_int_equal(cu.event_create(&late, 0), CONTEXT_IS_DESTROYED);
	assert_int_equal(cu.event_query(event), CONTEXT_IS_DESTROYED);
	assert_int_equal(fakecuda_leaks(NULL), 1);
	ok(cu.context_pop(NULL));
	assert_int_equal(cu.context_push(context), INVALID_CONTEXT);
	/* What an earlier life of the driver left on the stack is not there. */
	begin(NULL);
	fakecuda_reset(NULL);
	ok(cu.init(0));
	ok(cu.context_retain(&context, 0));
	assert_int_equal(cu.context_pop(NULL), INVALID_CONTEXT);
}

/* The last release drops what is queued. */
static void test_context_release(void **state)
{
	cu_stream stream;
	cu_context context;
	cu_event event;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	addr = mapped(&in_hbm, UNIT);
	stream = stream_new();
	ok(fakecuda_gate(stream, true));
	event = recorded(stream);
	fill(addr, 1, UNIT, stream);
	ok(cu.context_release(0));
	assert_int_equal(fakecuda_nr_pending(NULL), 0);
	ok(cu.context_retain(&context, 0));
	assert_int_equal(cu.event_query(event), CONTEXT_IS_DESTROYED);
	assert_int_equal(cu.stream_sync(stream), CONTEXT_IS_DESTROYED);
	assert_int_equal(fakecuda_gate(stream, false), CONTEXT_IS_DESTROYED);
	unmapped(addr, UNIT);
	/* Both are lost, and the retain. */
	assert_int_equal(fakecuda_leaks(NULL), 3);
	fakecuda_reset(NULL);
}

/* ------------------------------------------------------------------ physical memory */

static void test_handles(void **state)
{
	const struct fakecuda_config small = {.hbm_bytes = 4 * UNIT, .host_bytes = 2 * UNIT};
	struct cu_allocation_prop bad = in_hbm;
	cu_handle handle[4], more;
	size_t free, total;

	(void)state;
	begin(&small);
	assert_int_equal(cu.mem_create(&more, UNIT + 4096, &in_hbm, 0), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_create(&more, 0, &in_hbm, 0), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_create(&more, UNIT, &in_hbm, 1), CU_INVALID_VALUE);
	bad.location.id = 1;
	assert_int_equal(cu.mem_create(&more, UNIT, &bad, 0), CU_INVALID_DEVICE);
	bad.location = (struct cu_location){4, 0};
	assert_int_equal(cu.mem_create(&more, UNIT, &bad, 0), CU_INVALID_VALUE);
	bad = in_hbm;
	bad.type = 0;
	assert_int_equal(cu.mem_granularity(&free, &bad, 0), CU_INVALID_VALUE);
	for (int i = 0; i < 4; i++)
		handle[i] = handle_of(&in_hbm, UNIT);
	ok(cu.mem_info(&free, &total));
	assert_int_equal(free, 0);
	assert_int_equal(total, 4 * UNIT);
	assert_int_equal(cu.mem_create(&more, UNIT, &in_hbm, 0), CU_OUT_OF_MEMORY);
	/* Any bytes will do, contiguous or not. */
	ok(cu.mem_release(handle[0]));
	ok(cu.mem_release(handle[2]));
	assert_int_equal(cu.mem_release(handle[2]), CU_INVALID_VALUE);
	ok(cu.mem_create(&more, 2 * UNIT, &in_hbm, 0));
	assert_int_equal(fakecuda_used_bytes(0), 4 * UNIT);
	ok(cu.mem_release(more));
	ok(cu.mem_release(handle[1]));
	ok(cu.mem_release(handle[3]));
	assert_int_equal(fakecuda_used_bytes(0), 0);
	more = handle_of(&in_host, 2 * UNIT);
	assert_int_equal(cu.mem_create(&handle[0], UNIT, &in_host, 0), CU_OUT_OF_MEMORY);
	assert_int_equal(fakecuda_used_bytes(-1), 2 * UNIT);
	ok(cu.mem_release(more));
	end();
}

static void test_plain_allocations(void **state)
{
	cu_ptr addr, managed;
	void *host;

	(void)state;
	begin(NULL);
	ok(cu.mem_alloc(&addr, 100));
	assert_false(cpu_access(pointer(addr), false));
	assert_int_equal(fakecuda_used_bytes(0), 4096);
	assert_int_equal(cu.mem_alloc(&managed, MIB(64)), CU_OUT_OF_MEMORY);
	assert_int_equal(cu.mem_alloc(&managed, 0), CU_INVALID_VALUE);
	ok(cu.host_alloc(&host, 5000, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP));
	memset(host, 1, 5000);
	assert_int_equal(fakecuda_used_bytes(-1), 8192);
	assert_int_equal(cu.host_alloc(&host, 1, 64), CU_INVALID_VALUE);
	ok(cu.managed_alloc(&managed, MIB(1), CU_ATTACH_GLOBAL));
	memset(pointer(managed), 1, MIB(1));
	assert_int_equal(fakecuda_managed_bytes(), MIB(1));
	assert_int_equal(fakecuda_used_bytes(0), 4096);
	assert_int_equal(cu.mem_free(addr + 4), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_free(address(host)), CU_INVALID_VALUE);
	assert_int_equal(cu.host_free(pointer(addr)), CU_INVALID_VALUE);
	ok(cu.mem_free(addr));
	assert_int_equal(cu.mem_free(addr), CU_INVALID_VALUE);
	ok(cu.mem_free(managed));
	ok(cu.host_free(host));
	assert_int_equal(fakecuda_used_bytes(0), 0);
	assert_int_equal(fakecuda_used_bytes(-1), 0);
	assert_int_equal(fakecuda_managed_bytes(), 0);
	end();
}

/* ------------------------------------------------------------------ addresses */

static void test_reservations(void **state)
{
	cu_ptr addr, there;
	cu_handle handle;

	(void)state;
	begin(NULL);
	assert_int_equal(cu.mem_reserve(&addr, 0, 0, 0, 0), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_reserve(&addr, 100, 0, 0, 0), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_reserve(&addr, UNIT, 3 * UNIT, 0, 0), CU_INVALID_VALUE);
	ok(cu.mem_reserve(&addr, 4 * UNIT, MIB(2), 0, 0));
	assert_int_equal(addr % MIB(2), 0);
	assert_false(cpu_access(pointer(addr), false));
	/* A hint is taken where it can be. */
	ok(cu.mem_unreserve(addr, 4 * UNIT));
	ok(cu.mem_reserve(&there, 2 * UNIT, 0, addr, 0));
	assert_int_equal(there, addr);
	ok(cu.mem_reserve(&addr, 2 * UNIT, 0, there, 0));
	assert_int_not_equal(there, addr);
	assert_int_equal(cu.mem_unreserve(addr, UNIT), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_unreserve(addr + UNIT, UNIT), CU_INVALID_VALUE);
	handle = handle_of(&in_hbm, UNIT);
	ok(cu.mem_map(addr + UNIT, UNIT, 0, handle, 0));
	assert_int_equal(cu.mem_unreserve(addr, 2 * UNIT), CU_INVALID_VALUE);
	ok(cu.mem_unmap(addr + UNIT, UNIT));
	ok(cu.mem_unreserve(addr, 2 * UNIT));
	assert_int_equal(cu.mem_unreserve(addr, 2 * UNIT), CU_INVALID_VALUE);
	ok(cu.mem_unreserve(there, 2 * UNIT));
	ok(cu.mem_release(handle));
	end();
}

static void test_map(void **state)
{
	cu_handle one, two;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	addr = reserved(4 * UNIT);
	one = handle_of(&in_hbm, UNIT);
	two = handle_of(&in_hbm, 2 * UNIT);
	assert_int_equal(cu.mem_map(addr + 4 * UNIT, UNIT, 0, one, 0), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_map(addr + 3 * UNIT, 2 * UNIT, 0, two, 0), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_map(addr, UNIT, 0, two, 0), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_map(addr, UNIT, UNIT, two, 0), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_map(addr + 4096, UNIT, 0, one, 0), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_map(addr, UNIT, 0, one + 1, 0), CU_INVALID_VALUE);
	ok(cu.mem_map(addr, UNIT, 0, one, 0));
	assert_int_equal(cu.mem_map(addr, UNIT, 0, one, 0), CU_INVALID_VALUE);
	ok(cu.mem_map(addr + UNIT, 2 * UNIT, 0, two, 0));
	ok(cu.mem_map(addr + 3 * UNIT, UNIT, 0, one, 0));
	/* The memory lives as long as it is mapped. */
	ok(cu.mem_release(one));
	ok(cu.mem_release(two));
	assert_int_equal(cu.mem_map(addr, UNIT, 0, one, 0), CU_INVALID_VALUE);
	assert_int_equal(fakecuda_used_bytes(0), 3 * UNIT);
	/* Whole mappings, without a gap. */
	assert_int_equal(cu.mem_unmap(addr, 2 * UNIT), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_unmap(addr + 2 * UNIT, UNIT), CU_INVALID_VALUE);
	assert_int_equal(cu.mem_unmap(addr + UNIT, UNIT), CU_INVALID_VALUE);
	ok(cu.mem_unmap(addr + UNIT, 2 * UNIT));
	assert_int_equal(fakecuda_used_bytes(0), UNIT);
	assert_int_equal(cu.mem_unmap(addr, 4 * UNIT), CU_INVALID_VALUE);
	ok(cu.mem_unmap(addr, UNIT));
	assert_int_equal(fakecuda_used_bytes(0), UNIT);
	ok(cu.mem_unmap(addr + 3 * UNIT, UNIT));
	assert_int_equal(fakecuda_used_bytes(0), 0);
	ok(cu.mem_unreserve(addr, 4 * UNIT));
	end();
}

static void test_access(void **state)
{
	const struct fakecuda_config two = {.devices = 2};
	cu_handle hbm, host;
	cu_ptr addr;

	(void)state;
	begin(&two);
	addr = reserved(4 * UNIT);
	hbm = handle_of(&in_hbm, UNIT);
	host = handle_of(&in_host, UNIT);
	ok(cu.mem_map(addr, UNIT, 0, hbm, 0));
	ok(cu.mem_map(addr + UNIT, UNIT, 0, host, 0));
	ok(cu.mem_map(addr + 2 * UNIT, UNIT, 0, host, 0));
	assert_int_equal(fakecuda_access(pointer(addr), 0), CU_ACCESS_NONE);
	assert_int_equal(set_access(addr, 4 * UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_READ),
			 CU_INVALID_VALUE);
	assert_int_equal(set_access(addr, UNIT / 2, CU_LOCATION_DEVICE, 0, CU_ACCESS_READ),
			 CU_INVALID_VALUE);
	assert_int_equal(set_access(addr, UNIT, CU_LOCATION_DEVICE, 0, 2), CU_INVALID_VALUE);
	assert_int_equal(set_access(addr, UNIT, CU_LOCATION_DEVICE, 2, CU_ACCESS_READ),
			 CU_INVALID_DEVICE);
	assert_int_equal(set_access(addr, UNIT, CU_LOCATION_HOST, 0, CU_ACCESS_READ),
			 CU_NOT_SUPPORTED);
	/* Refused for one mapping: changed for none. */
	assert_int_equal(set_access(addr, 2 * UNIT, CU_LOCATION_HOST_NUMA, 0, CU_ACCESS_READ),
			 CU_NOT_SUPPORTED);
	assert_int_equal(fakecuda_access(pointer(addr + UNIT), -1), CU_ACCESS_NONE);
	ok(set_access(addr, 3 * UNIT, CU_LOCATION_DEVICE, 1, CU_ACCESS_READWRITE));
	assert_int_equal(fakecuda_access(pointer(addr + 3 * UNIT - 1), 1), CU_ACCESS_READWRITE);
	assert_int_equal(fakecuda_access(pointer(addr), 0), CU_ACCESS_NONE);
	assert_false(cpu_access(pointer(addr), false));
	assert_false(cpu_access(pointer(addr + UNIT), false));
	ok(set_access(addr + UNIT, UNIT, CU_LOCATION_HOST_NUMA, 0, CU_ACCESS_READ));
	assert_true(cpu_access(pointer(addr + UNIT), false));
	assert_false(cpu_access(pointer(addr + UNIT), true));
	ok(set_access(addr + UNIT, 2 * UNIT, CU_LOCATION_HOST, 0, CU_ACCESS_READWRITE));
	/* One memory at two addresses, which a compiler takes for two memories. */
	*(volatile int *)pointer(addr + UNIT) = 4711;
	assert_int_equal(*(volatile int *)pointer(addr + 2 * UNIT), 4711);
	ok(set_access(addr + 2 * UNIT, UNIT, CU_LOCATION_HOST, 0, CU_ACCESS_NONE));
	assert_false(cpu_access(pointer(addr + 2 * UNIT), false));
	/* A new mapping begins without access. */
	ok(cu.mem_unmap(addr, 3 * UNIT));
	assert_false(cpu_access(pointer(addr + UNIT), false));
	ok(cu.mem_map(addr, UNIT, 0, host, 0));
	assert_int_equal(fakecuda_access(pointer(addr), 1), CU_ACCESS_NONE);
	assert_false(cpu_access(pointer(addr), false));
	ok(cu.mem_unmap(addr, UNIT));
	ok(cu.mem_unreserve(addr, 4 * UNIT));
	ok(cu.mem_release(hbm));
	ok(cu.mem_release(host));
	end();
}

/* ------------------------------------------------------------------ faults, leaks */

static void test_faults(void **state)
{
	cu_handle handle = 0;
	uint64_t before;

	(void)state;
	begin(NULL);
	before = fakecuda_nr_calls();
	fakecuda_fail_at(2, CU_OUT_OF_MEMORY);
	handle = handle_of(&in_hbm, UNIT);
	ok(cu.mem_release(handle)); /* not counted */
	assert_int_equal(cu.mem_create(&handle, UNIT, &in_hbm, 0), CU_OUT_OF_MEMORY);
	assert_int_equal(fakecuda_used_bytes(0), 0);
	handle = handle_of(&in_hbm, UNIT);
	assert_int_equal(fakecuda_nr_calls() - before, 3);
	ok(cu.mem_release(handle));

	assert_false(fakecuda_fail_symbol("cuNothing", 0, CU_LAUNCH_FAILED));
	assert_true(fakecuda_fail_symbol("cuMemCreate", 1, CU_LAUNCH_FAILED));
	assert_true(fakecuda_fail_symbol("cuMemRelease", 1, CU_INVALID_VALUE));
	handle = handle_of(&in_hbm, UNIT);
	ok(cu.mem_release(handle));
	for (int i = 0; i < 2; i++)
		assert_int_equal(cu.mem_create(&handle, UNIT, &in_hbm, 0), CU_LAUNCH_FAILED);
	assert_true(fakecuda_fail_symbol("cuMemCreate", 0, 0));
	handle = handle_of(&in_hbm, UNIT);
	assert_int_equal(cu.mem_release(handle), CU_INVALID_VALUE);
	assert_int_equal(fakecuda_used_bytes(0), UNIT);
	assert_true(fakecuda_fail_symbol("cuMemRelease", 0, 0));
	ok(cu.mem_release(handle));
	assert_int_equal(fakecuda_nr_calls_of("cuMemCreate"), 7);

	/* Also before anything is initialised. */
	fakecuda_reset(NULL);
	fakecuda_fail_at(1, CU_SYSTEM_DRIVER_MISMATCH);
	assert_int_equal(cu.init(0), CU_SYSTEM_DRIVER_MISMATCH);
	begin(NULL);
	end();
}

static void test_leaks(void **state)
{
	char *text = NULL;
	size_t bytes = 0;
	cu_handle handle;
	cu_stream stream;
	cu_event event;
	cu_ptr addr, plain;
	FILE *file;

	(void)state;
	begin(NULL);
	handle = handle_of(&in_hbm, UNIT);
	addr = reserved(UNIT);
	map_at(addr, UNIT, handle);
	ok(cu.mem_alloc(&plain, 1));
	stream = stream_new();
	ok(cu.event_create(&event, 0));
	file = open_memstream(&text, &bytes);
	assert_non_null(file);
	assert_int_equal(fakecuda_leaks(file), 7);
	fclose(file);
	assert_non_null(strstr(text, "memory handle"));
	assert_non_null(strstr(text, "mapping of 65536 bytes"));
	assert_non_null(strstr(text, "reservation of 65536 bytes"));
	assert_non_null(strstr(text, "cuMemAlloc of 1 bytes"));
	assert_non_null(strstr(text, "stream"));
	assert_non_null(strstr(text, "event"));
	assert_non_null(strstr(text, "context of device 0, retained 1 times"));
	free(text);
	ok(cu.mem_release(handle));
	unmapped(addr, UNIT);
	ok(cu.mem_free(plain));
	ok(cu.stream_destroy(stream));
	assert_int_equal(cu.stream_destroy(stream), INVALID_HANDLE);
	ok(cu.event_destroy(event));
	assert_int_equal(cu.event_destroy(event), INVALID_HANDLE);
	end();
}

/* A reset frees all that is alive, under work that can never run. */
static void test_reset(void **state)
{
	cu_stream stream;
	cu_event event;
	cu_ptr addr, plain;

	(void)state;
	begin(NULL);
	addr = mapped(&in_hbm, UNIT);
	ok(cu.mem_alloc(&plain, UNIT));
	stream = stream_new();
	ok(cu.event_create(&event, 0));
	ok(fakecuda_gate(NULL, true));
	ok(cu.copy(addr, plain, UNIT, stream));
	ok(cu.event_record(event, stream));
	assert_int_equal(fakecuda_nr_pending(stream), 2);
	begin(NULL);
	assert_int_equal(fakecuda_leaks(NULL), 1);
	assert_int_equal(fakecuda_used_bytes(0), 0);
	assert_int_equal(cu.event_query(event), INVALID_HANDLE);
	assert_false(cpu_access(pointer(addr), false));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_library),	     cmocka_unit_test(test_init),
		cmocka_unit_test(test_environment),  cmocka_unit_test(test_devices),
		cmocka_unit_test(test_contexts),     cmocka_unit_test(test_context_release),
		cmocka_unit_test(test_handles),	     cmocka_unit_test(test_plain_allocations),
		cmocka_unit_test(test_reservations), cmocka_unit_test(test_map),
		cmocka_unit_test(test_access),	     cmocka_unit_test(test_faults),
		cmocka_unit_test(test_leaks),	     cmocka_unit_test(test_reset),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
