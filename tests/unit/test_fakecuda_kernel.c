/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels on the fake CUDA driver: what they may touch, what happens to a context when they touch
 * something else, how races and unmaps in use are found, and many threads at once.
 *
 * Labels: threads
 * Links: cuda-fake
 */
#include "tests/unit/test_fakecuda.h"

#include <pthread.h>

/* ------------------------------------------------------------------ kernels and rights */

static void test_kernel(void **state)
{
	atomic_int running = 0;
	cu_stream stream;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	stream = stream_new();
	addr = reserved(3 * UNIT);
	for (int i = 0; i < 3; i++) {
		cu_handle handle = handle_of(&in_hbm, UNIT);

		map_at(addr + (cu_ptr)i * UNIT, UNIT, handle);
		ok(cu.mem_release(handle));
	}
	fill(addr, 1, 3 * UNIT, stream);
	ok(cu.stream_sync(stream));
	ok(set_access(addr + UNIT, UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_READ));
	ok(launch_add(stream, (struct add){pointer(addr), pointer(addr + UNIT), WORDS, &running}));
	wait_for(&running, 1);
	/* What it names is open while it runs, as it names it. */
	assert_true(cpu_access(pointer(addr), true));
	assert_true(cpu_access(pointer(addr + UNIT), false));
	assert_false(cpu_access(pointer(addr + UNIT), true));
	assert_false(cpu_access(pointer(addr + 2 * UNIT), false));
	*(volatile uint32_t *)pointer(addr) = 1;
	atomic_store(&running, 2);
	ok(cu.stream_sync(stream));
	assert_false(cpu_access(pointer(addr), false));
	assert_false(cpu_access(pointer(addr + UNIT), false));
	assert_int_equal(words(addr, UNIT, stream), 2);
	assert_int_equal(words(addr + UNIT, 2 * UNIT, stream), 1);
	assert_int_equal(fakecuda_nr_calls_of("cuLaunchKernel"), 1);
	ok(cu.stream_destroy(stream));
	unmapped(addr, 3 * UNIT);
	end();
}

/* The ways to touch what one must not; each breaks the context for good. */
enum illegal {
	KERNEL_UNMAPPED,
	KERNEL_ACROSS,
	KERNEL_READ_ONLY,
	KERNEL_PROGRAM,
	KERNEL_PLAIN_BEHIND,
	COPY_UNMAPPED,
	COPY_NO_ACCESS,
	COPY_READ_ONLY,
	COPY_NOWHERE,
	FILL_PROGRAM,
	ILLEGAL_NR,
};

static void do_illegal(enum illegal what, cu_stream stream, cu_ptr addr, cu_ptr plain)
{
	static uint32_t program[16];
	struct add add = {.nr = 16, .to = pointer(addr), .from = pointer(addr)};
	cu_ptr other = addr + UNIT, none = addr + 2 * UNIT;

	switch (what) {
	case KERNEL_UNMAPPED:
		add.to = pointer(none);
		break;
	case KERNEL_ACROSS:
		ok(set_access(other, UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_READWRITE));
		add.to = pointer(none - 4);
		break;
	case KERNEL_READ_ONLY:
		ok(set_access(other, UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_READ));
		add.to = pointer(other);
		break;
	case KERNEL_PROGRAM:
		add.to = program;
		break;
	case KERNEL_PLAIN_BEHIND:
		add.to = pointer(plain + 100 - 4);
		break;
	case COPY_UNMAPPED:
		ok(cu.copy(address(program), none, 64, stream));
		return;
	case COPY_NO_ACCESS:
		ok(cu.copy(addr, other, 64, stream));
		return;
	case COPY_READ_ONLY:
		ok(set_access(other, UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_READ));
		ok(cu.copy(other, addr, 64, stream));
		return;
	case COPY_NOWHERE:
		ok(cu.copy(addr, 4096, 64, stream));
		return;
	case FILL_PROGRAM:
		ok(cu.fill(address(program), 1, 16, stream));
		return;
	default:
		return;
	}
	ok(launch_add(stream, add));
}

/* addr: one unit for device 0, one without access, one without memory. */
static void check_illegal(enum illegal what)
{
	cu_handle handle[2];
	cu_stream stream;
	cu_event event;
	char text[256];
	cu_ptr addr, plain;

	begin(NULL);
	stream = stream_new();
	addr = reserved(3 * UNIT);
	for (int i = 0; i < 2; i++)
		handle[i] = handle_of(&in_hbm, UNIT);
	map_at(addr, UNIT, handle[0]);
	ok(cu.mem_map(addr + UNIT, UNIT, 0, handle[1], 0));
	ok(cu.mem_alloc(&plain, 100));
	ok(fakecuda_gate(stream, true));
	do_illegal(what, stream, addr, plain);
	fill(addr, 5, UNIT, stream);
	event = recorded(stream);
	assert_int_equal(cu.event_query(event), CU_NOT_READY);
	ok(fakecuda_gate(stream, false));
	assert_int_equal(cu.event_sync(event), CU_ILLEGAL_ADDRESS);
	fakecuda_problem(text, sizeof(text));
	assert_non_null(strstr(text, "must not"));
	assert_int_equal(cu.event_query(event), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.stream_sync(stream), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.context_sync(), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.copy(addr, addr + 64, 64, stream), CU_ILLEGAL_ADDRESS);
	assert_int_equal(launch_add(stream, (struct add){0}), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.mem_alloc(&plain, 100), CU_ILLEGAL_ADDRESS);
	assert_int_equal(set_access(addr, UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_READ),
			 CU_ILLEGAL_ADDRESS);
	/* What undoes something does so, and still reports it. */
	assert_int_equal(cu.mem_free(plain), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.stream_destroy(stream), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.event_destroy(event), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.mem_unmap(addr, 2 * UNIT), CU_ILLEGAL_ADDRESS);
	ok(cu.mem_unreserve(addr, 3 * UNIT));
	for (int i = 0; i < 2; i++)
		assert_int_equal(cu.mem_release(handle[i]), CU_ILLEGAL_ADDRESS);
	ok(cu.context_pop(NULL));
	ok(cu.context_release(0));
	assert_int_equal(fakecuda_leaks(stderr), 0);
	assert_int_equal(fakecuda_nr_races(), 0);
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 0);
}

static void test_illegal(void **state)
{
	(void)state;
	for (enum illegal i = 0; i < ILLEGAL_NR; i++)
		check_illegal(i);
}

/* A broken context is its device's alone, and a fresh one works. */
static void test_broken_context(void **state)
{
	const struct fakecuda_config config = {.devices = 2};
	cu_stream stream, there;
	cu_context other, context;
	cu_ptr addr, plain;

	(void)state;
	begin(&config);
	stream = stream_new();
	addr = mapped(&in_hbm, UNIT);
	ok(cu.context_retain(&other, 1));
	ok(cu.context_push(other));
	there = stream_new();
	/* Nothing is mapped for device 1. */
	ok(cu.fill(addr, 1, 1, there));
	assert_int_equal(cu.stream_sync(there), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.stream_destroy(there), CU_ILLEGAL_ADDRESS);
	ok(cu.context_pop(NULL));
	fill(addr, 3, UNIT, stream);
	assert_int_equal(words(addr, UNIT, stream), 3);
	ok(cu.context_release(1));
	ok(cu.context_retain(&context, 1));
	ok(cu.context_push(context));
	there = stream_new();
	ok(set_access(addr, UNIT, CU_LOCATION_DEVICE, 1, CU_ACCESS_READ));
	assert_int_equal(words(addr, UNIT, there), 3);
	/* Plain memory of another device: for copies, not for kernels. */
	ok(cu.context_pop(NULL));
	ok(cu.mem_alloc(&plain, UNIT));
	ok(cu.context_push(context));
	ok(cu.copy(plain, addr, UNIT, there));
	ok(cu.stream_sync(there));
	assert_int_equal(words(plain, UNIT, stream), 3);
	ok(launch_add(there, (struct add){pointer(plain), pointer(plain), 1, NULL}));
	assert_int_equal(cu.stream_sync(there), CU_ILLEGAL_ADDRESS);
	assert_int_equal(cu.stream_destroy(there), CU_ILLEGAL_ADDRESS);
	ok(cu.context_pop(NULL));
	ok(cu.mem_free(plain));
	ok(cu.stream_destroy(stream));
	ok(cu.context_release(1));
	unmapped(addr, UNIT);
	ok(cu.context_pop(NULL));
	ok(cu.context_release(0));
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* ------------------------------------------------------------------ races */

struct pair {
	cu_stream kernels, copies;
	cu_ptr addr, alias; /* of one memory, two units */
	cu_ptr spare;
};

static void pair_begin(struct pair *pair)
{
	cu_handle handle;

	begin(NULL);
	pair->kernels = stream_new();
	pair->copies = stream_new();
	handle = handle_of(&in_hbm, 2 * UNIT);
	pair->addr = reserved(2 * UNIT);
	pair->alias = reserved(2 * UNIT);
	map_at(pair->addr, 2 * UNIT, handle);
	map_at(pair->alias, 2 * UNIT, handle);
	ok(cu.mem_release(handle));
	pair->spare = mapped(&in_hbm, 2 * UNIT);
}

/* Everything done and gone; races of other numbers are a failure. */
static void pair_end(const struct pair *pair, uint64_t nr_races)
{
	ok(cu.context_sync());
	assert_int_equal(fakecuda_nr_races(), nr_races);
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 0);
	ok(cu.stream_destroy(pair->kernels));
	ok(cu.stream_destroy(pair->copies));
	unmapped(pair->addr, 2 * UNIT);
	unmapped(pair->alias, 2 * UNIT);
	unmapped(pair->spare, 2 * UNIT);
	if (!nr_races)
		end();
}

/* Adds the second unit to the first. */
static struct add pair_add(const struct pair *pair, atomic_int *running)
{
	return (struct add){pointer(pair->addr), pointer(pair->addr + UNIT), WORDS, running};
}

/* A copy that starts while a kernel runs, at another address of the same bytes. */
static void test_race_running(void **state)
{
	atomic_int running = 0;
	struct pair p;
	char text[256];

	(void)state;
	pair_begin(&p);
	ok(launch_add(p.kernels, pair_add(&p, &running)));
	wait_for(&running, 1);
	/* Reading what it reads, and other memory: no race. */
	ok(cu.copy(p.spare, p.alias + UNIT, UNIT, p.copies));
	ok(cu.stream_sync(p.copies));
	assert_int_equal(fakecuda_nr_races(), 0);
	/* Reading what it writes, writing what it reads. */
	ok(cu.copy(p.spare, p.alias + UNIT - 4, 4, p.copies));
	ok(cu.stream_sync(p.copies));
	assert_int_equal(fakecuda_nr_races(), 1);
	fill(p.alias + UNIT, 0, 4, p.copies);
	ok(cu.stream_sync(p.copies));
	assert_int_equal(fakecuda_nr_races(), 2);
	fakecuda_problem(text, sizeof(text));
	assert_non_null(strstr(text, "race: a copy on stream"));
	assert_non_null(strstr(text, "and a kernel"));
	atomic_store(&running, 2);
	pair_end(&p, 2);
}

/* A kernel that is queued, unordered, behind a gate; and one that an event orders. */
static void test_race_queued(void **state)
{
	struct pair p;
	cu_event event;

	(void)state;
	pair_begin(&p);
	ok(fakecuda_gate(p.kernels, true));
	ok(fakecuda_gate(p.copies, true));
	fill(p.alias, 1, 2 * UNIT, p.copies);
	event = recorded(p.copies);
	ok(cu.stream_wait(p.kernels, event, 0));
	ok(launch_add(p.kernels, pair_add(&p, NULL)));
	ok(fakecuda_gate(p.copies, false));
	ok(cu.stream_sync(p.copies));
	assert_int_equal(fakecuda_nr_races(), 0);
	/* This one comes after the record that the kernel waits for. */
	fill(p.alias, 1, 4, p.copies);
	ok(cu.stream_sync(p.copies));
	assert_int_equal(fakecuda_nr_races(), 1);
	/* Once for the pair. */
	ok(fakecuda_gate(p.kernels, false));
	ok(cu.event_destroy(event));
	pair_end(&p, 1);
}

/* Order that goes over a third stream is order too. */
static void test_race_order(void **state)
{
	cu_event events[2];
	cu_stream third;
	struct pair p;

	(void)state;
	pair_begin(&p);
	third = stream_new();
	ok(fakecuda_gate(NULL, true));
	fill(p.alias, 1, 2 * UNIT, p.copies);
	events[0] = recorded(p.copies);
	ok(cu.stream_wait(third, events[0], 0));
	events[1] = recorded(third);
	ok(cu.stream_wait(p.kernels, events[1], 0));
	ok(launch_add(p.kernels, pair_add(&p, NULL)));
	ok(cu.event_record(events[0], p.kernels));
	ok(cu.stream_wait(p.copies, events[0], 0));
	ok(cu.copy(p.spare, p.alias, UNIT, p.copies));
	ok(fakecuda_gate(NULL, false));
	assert_int_equal(words(p.spare, UNIT, p.copies), 2);
	ok(cu.event_destroy(events[0]));
	ok(cu.event_destroy(events[1]));
	ok(cu.stream_destroy(third));
	pair_end(&p, 0);
}

/* Two kernels are the program's affair; two copies are not. */
static void test_race_kinds(void **state)
{
	atomic_int running = 0;
	cu_stream third;
	struct pair p;

	(void)state;
	pair_begin(&p);
	third = stream_new();
	fill(p.addr, 1, 2 * UNIT, p.copies);
	ok(cu.stream_sync(p.copies));
	ok(launch_add(p.kernels, pair_add(&p, &running)));
	wait_for(&running, 1);
	ok(launch_add(third, (struct add){pointer(p.addr + UNIT), pointer(p.spare), 0, NULL}));
	ok(launch_add(third,
		      (struct add){pointer(p.alias + UNIT), pointer(p.alias + UNIT), 1, NULL}));
	ok(cu.stream_sync(third));
	assert_int_equal(fakecuda_nr_races(), 0);
	ok(fakecuda_gate(third, true));
	fill(p.spare, 1, 8, third);
	fill(p.spare + 4, 2, 8, p.copies);
	ok(cu.stream_sync(p.copies));
	assert_int_equal(fakecuda_nr_races(), 1);
	ok(fakecuda_gate(third, false));
	atomic_store(&running, 2);
	ok(cu.stream_destroy(third));
	pair_end(&p, 1);
}

/* ------------------------------------------------------------------ mappings under work */

static void test_unmap_queued(void **state)
{
	char text[256];
	struct pair p;

	(void)state;
	pair_begin(&p);
	ok(fakecuda_gate(p.kernels, true));
	ok(launch_add(p.kernels, pair_add(&p, NULL)));
	ok(cu.mem_unmap(p.alias, 2 * UNIT));
	ok(cu.mem_unmap(p.spare, 2 * UNIT));
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 0);
	ok(cu.mem_unmap(p.addr, 2 * UNIT));
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 1);
	fakecuda_problem(text, sizeof(text));
	assert_non_null(strstr(text, "that is queued"));
	ok(fakecuda_gate(p.kernels, false));
	assert_int_equal(cu.stream_sync(p.kernels), CU_ILLEGAL_ADDRESS);
	fakecuda_reset(NULL);
}

/* A kernel whose memory goes away does not take the process with it. */
static void test_unmap_running(void **state)
{
	atomic_int running = 0;
	cu_handle handle;
	struct pair p;

	(void)state;
	pair_begin(&p);
	ok(launch_add(p.kernels, pair_add(&p, &running)));
	wait_for(&running, 1);
	ok(cu.mem_unmap(p.addr, 2 * UNIT));
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 1);
	assert_true(cpu_access(pointer(p.addr), true));
	/* Half of it comes back. */
	handle = handle_of(&in_hbm, UNIT);
	ok(cu.mem_map(p.addr, UNIT, 0, handle, 0));
	ok(cu.event_query(event_new()));
	atomic_store(&running, 2);
	assert_int_equal(cu.stream_sync(p.kernels), CU_ILLEGAL_ADDRESS);
	assert_false(cpu_access(pointer(p.addr), false));
	assert_false(cpu_access(pointer(p.addr + UNIT), false));
	fakecuda_reset(NULL);
}

static void test_access_in_use(void **state)
{
	struct pair p;

	(void)state;
	pair_begin(&p);
	ok(fakecuda_gate(p.kernels, true));
	ok(cu.copy(p.addr, p.addr + UNIT, UNIT, p.kernels));
	ok(cu.fill(p.spare, 1, 1, p.kernels));
	/* What is given, or was not needed, does no harm. */
	ok(set_access(p.addr, 2 * UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_READWRITE));
	ok(set_access(p.alias, 2 * UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_NONE));
	assert_int_equal(fakecuda_nr_races(), 0);
	ok(set_access(p.addr, 2 * UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_READ));
	assert_int_equal(fakecuda_nr_races(), 1);
	ok(set_access(p.addr, 2 * UNIT, CU_LOCATION_DEVICE, 0, CU_ACCESS_READWRITE));
	ok(fakecuda_gate(p.kernels, false));
	pair_end(&p, 1);
}

/* ------------------------------------------------------------------ threads */

#define NR_THREADS 3
#define NR_ROUNDS 40

struct worker {
	cu_context context;
	pthread_t thread;
	cu_result result;
	uint32_t sum;
};

/* Map, work, unmap, beside others that do the same. */
static cu_result worker_round(cu_stream stream, cu_event event, cu_handle handle, cu_ptr addr,
			      uint32_t *out)
{
	const struct cu_access access = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READWRITE};
	struct add add = {pointer(addr), pointer(addr), 256, NULL};
	cu_result result = cu.mem_map(addr, UNIT, 0, handle, 0);

	if (result || (result = cu.mem_access(addr, UNIT, &access, 1)))
		return result;
	if ((result = cu.fill(addr, 1, WORDS, stream)) || (result = launch_add(stream, add)) ||
	    (result = cu.copy(address(out), addr, sizeof(*out), stream)) ||
	    (result = cu.event_record(event, stream)))
		return result;
	while ((result = cu.event_query(event)) == CU_NOT_READY)
		sched_yield();
	return result ? result : cu.mem_unmap(addr, UNIT);
}

static void *worker(void *arg)
{
	struct worker *w = arg;
	cu_handle handle = 0;
	cu_ptr addr = 0;
	cu_stream stream;
	cu_event event;
	uint32_t out = 0;

	if ((w->result = cu.context_push(w->context)) ||
	    (w->result = cu.stream_create(&stream, CU_STREAM_NON_BLOCKING)) ||
	    (w->result = cu.event_create(&event, 0)) ||
	    (w->result = cu.mem_create(&handle, UNIT, &in_hbm, 0)) ||
	    (w->result = cu.mem_reserve(&addr, UNIT, 0, 0, 0)))
		return NULL;
	for (int i = 0; i < NR_ROUNDS && !w->result; i++) {
		w->result = worker_round(stream, event, handle, addr, &out);
		w->sum += out;
	}
	if (w->result || (w->result = cu.mem_unreserve(addr, UNIT)) ||
	    (w->result = cu.mem_release(handle)) || (w->result = cu.event_destroy(event)))
		return NULL;
	w->result = cu.stream_destroy(stream);
	return NULL;
}

static void test_threads(void **state)
{
	struct worker w[NR_THREADS] = {0};

	(void)state;
	begin(NULL);
	for (int i = 0; i < NR_THREADS; i++) {
		ok(cu.context_retain(&w[i].context, 0));
		assert_int_equal(pthread_create(&w[i].thread, NULL, worker, &w[i]), 0);
	}
	for (int i = 0; i < NR_THREADS; i++) {
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
		ok(w[i].result);
		assert_int_equal(w[i].sum, 2 * NR_ROUNDS);
		ok(cu.context_release(0));
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel),	       cmocka_unit_test(test_illegal),
		cmocka_unit_test(test_broken_context), cmocka_unit_test(test_race_running),
		cmocka_unit_test(test_race_queued),    cmocka_unit_test(test_race_order),
		cmocka_unit_test(test_race_kinds),     cmocka_unit_test(test_unmap_queued),
		cmocka_unit_test(test_unmap_running),  cmocka_unit_test(test_access_in_use),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
