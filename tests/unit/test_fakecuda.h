/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the fake CUDA driver share: the driver as a table, and a small machine. */
#ifndef WEIR_TESTS_UNIT_TEST_FAKECUDA_H
#define WEIR_TESTS_UNIT_TEST_FAKECUDA_H

#include <errno.h>
#include <dlfcn.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/backend/cuda/driver.h"
#include "tests/fakecuda/fakecuda.h"

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
#define UNIT KIB(64)

/* Results that driver.h has no name for. */
enum { INVALID_CONTEXT = 201, INVALID_HANDLE = 400, CONTEXT_IS_DESTROYED = 709 };

static const struct cu_allocation_prop in_hbm = {.type = CU_ALLOCATION_PINNED,
						 .location = {CU_LOCATION_DEVICE, 0}};
static const struct cu_allocation_prop in_host = {.type = CU_ALLOCATION_PINNED,
						  .location = {CU_LOCATION_HOST_NUMA, 0}};

static struct cuda_driver cu;

static inline void ok(cu_result result)
{
	assert_int_equal(result, CU_SUCCESS);
}

static inline void load(void)
{
	const char *path = getenv("FAKECUDA");

	cu.library = dlopen(path ? path : FAKECUDA_PATH, RTLD_NOW | RTLD_LOCAL);
	if (!cu.library)
		fail_msg("%s", dlerror());
#define LOAD(member, symbol, parameters)                  \
	*(void **)&cu.member = dlsym(cu.library, symbol); \
	assert_non_null(cu.member);
	CUDA_FUNCTIONS(LOAD, LOAD)
#undef LOAD
}

/* A machine of its own for each test; the current context is device 0's. */
static inline void begin(const struct fakecuda_config *config)
{
	cu_context context;

	fakecuda_reset(config);
	ok(cu.init(0));
	ok(cu.context_retain(&context, 0));
	ok(cu.context_push(context));
}

/* All that the test made is gone, and nothing went wrong that it did not ask for. */
static inline void end(void)
{
	char problem[256];

	fakecuda_problem(problem, sizeof(problem));
	assert_string_equal(problem, "");
	ok(cu.context_pop(NULL));
	ok(cu.context_release(0));
	assert_int_equal(fakecuda_leaks(stderr), 0);
	assert_int_equal(fakecuda_nr_races(), 0);
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 0);
}

static inline void *pointer(cu_ptr addr)
{
	return (void *)(uintptr_t)addr;
}

static inline cu_ptr address(const void *pointer)
{
	return (cu_ptr)(uintptr_t)pointer;
}

/* Whether a thread of the CPU may read or write at an address: asked of the kernel of the system,
 * which reports what the thread itself would die of. */
static inline bool cpu_access(void *addr, bool write_it)
{
	bool possible;
	int pipes[2];
	char byte = 0;

	assert_int_equal(pipe(pipes), 0);
	if (write_it) {
		assert_int_equal(write(pipes[1], &byte, 1), 1);
		possible = read(pipes[0], addr, 1) == 1;
	} else {
		possible = write(pipes[1], addr, 1) == 1;
	}
	if (!possible)
		assert_int_equal(errno, EFAULT);
	close(pipes[0]);
	close(pipes[1]);
	return possible;
}

static inline cu_handle handle_of(const struct cu_allocation_prop *prop, size_t bytes)
{
	cu_handle handle = 0;

	ok(cu.mem_create(&handle, bytes, prop, 0));
	return handle;
}

static inline cu_ptr reserved(size_t bytes)
{
	cu_ptr addr = 0;

	ok(cu.mem_reserve(&addr, bytes, 0, 0, 0));
	return addr;
}

static inline cu_result set_access(cu_ptr addr, size_t bytes, int type, int id, int flags)
{
	const struct cu_access access = {{type, id}, flags};

	return cu.mem_access(addr, bytes, &access, 1);
}

/* Map at an address, for device 0. */
static inline void map_at(cu_ptr addr, size_t bytes, cu_handle handle)
{
	ok(cu.mem_map(addr, bytes, 0, handle, 0));
	ok(set_access(addr, bytes, CU_LOCATION_DEVICE, 0, CU_ACCESS_READWRITE));
}

/* Memory mapped at addresses of its own; the handle is released, the mapping holds it. */
static inline cu_ptr mapped(const struct cu_allocation_prop *prop, size_t bytes)
{
	cu_handle handle = handle_of(prop, bytes);
	cu_ptr addr = reserved(bytes);

	map_at(addr, bytes, handle);
	ok(cu.mem_release(handle));
	return addr;
}

static inline void unmapped(cu_ptr addr, size_t bytes)
{
	ok(cu.mem_unmap(addr, bytes));
	ok(cu.mem_unreserve(addr, bytes));
}

static inline cu_stream stream_new(void)
{
	cu_stream stream = NULL;

	ok(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

#define WORDS (UNIT / sizeof(uint32_t))

/* ------------------------------------------------------------------ work */

struct add {
	uint32_t *to;
	const uint32_t *from;
	uint32_t nr;
	atomic_int *running; /* 1: runs, 2: may end; NULL: does not wait */
};

static inline void add_kernel(const void *args)
{
	const struct add *add = args;

	if (add->running) {
		atomic_store(add->running, 1);
		while (atomic_load(add->running) != 2)
			sched_yield();
	}
	for (uint32_t i = 0; i < add->nr; i++)
		add->to[i] += add->from[i];
}

static inline int launch_add(cu_stream stream, struct add add)
{
	const struct fakecuda_touch touch[] = {
		{add.to, add.nr * sizeof(*add.to), true},
		{add.from, add.nr * sizeof(*add.from), false},
	};

	return fakecuda_launch(stream, add_kernel, &add, sizeof(add), touch, 2);
}

static inline void wait_for(atomic_int *flag, int value)
{
	while (atomic_load(flag) != value)
		sched_yield();
}

static inline cu_event event_new(void)
{
	cu_event event = NULL;

	ok(cu.event_create(&event, CU_EVENT_DEFAULT));
	return event;
}

static inline cu_event recorded(cu_stream stream)
{
	cu_event event = event_new();

	ok(cu.event_record(event, stream));
	return event;
}

static inline void fill(cu_ptr addr, uint32_t word, size_t bytes, cu_stream stream)
{
	ok(cu.fill(addr, word, bytes / sizeof(word), stream));
}

/* The words at an address, all of which are the same. */
static inline uint32_t words(cu_ptr addr, size_t bytes, cu_stream stream)
{
	uint32_t *copy = malloc(bytes), word;

	assert_non_null(copy);
	ok(cu.copy(address(copy), addr, bytes, stream));
	ok(cu.stream_sync(stream));
	for (size_t i = 1; i < bytes / sizeof(word); i++)
		assert_int_equal(copy[i], copy[0]);
	word = copy[0];
	free(copy);
	return word;
}

static inline int setup(void **state)
{
	(void)state;
	load();
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	fakecuda_reset(NULL);
	dlclose(cu.library);
	return 0;
}

#endif
