/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --when oom from within (shim/when.h): what the library of `weir run` does when the first
 * allocation does not fit, on the driver without a GPU, whose streams have gates. Each case is a
 * process of its own, since a process switches once.
 *
 * Labels: threads
 * Links: weir_dropin cuda-fake
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/brackets.h"
#include "shim/evidence.h"
#include "shim/hooks.h"
#include "shim/memory.h"
#include "shim/settings.h"
#include "shim/when.h"
#include "src/base/clock.h"
#include "src/base/util.h"
#include "src/core/space.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/child.h"
#include "weir/weir.h"

enum { BYTES = 64 << 10, WORDS = BYTES / 4, BUDGET = 16, FIRST = 12, ARRAYS = 40, THREADS = 3 };
enum { NON_BLOCKING = 1, RELAXED = 2, SECONDS = 60 };
#define HOLD_NS "3000000"
#define A_WHILE_US 30000

static cu_ptr array[ARRAYS];
static uint32_t nr_arrays;
static cu_context primary;
static cu_stream queue, other;
static cu_function fill_kernel;

/* ------------------------------------------------------------------ in the child */

static void check(bool right, const char *what, int line)
{
	if (right)
		return;
	printf("line %d: %s\n", line, what);
	(void)fflush(stdout);
	_exit(1);
}

#define CHECK(what) check(what, #what, __LINE__)
#define OK(call) check((call) == CU_SUCCESS, #call, __LINE__)

/* Wait for it. */
#define UNTIL(what)                                                        \
	do {                                                               \
		const uint64_t since_ns = clock_now_ns();                  \
                                                                           \
		while (!(what) && clock_now_ns() - since_ns < 20000000000) \
			(void)usleep(200);                                 \
		CHECK(what);                                               \
	} while (0)

/* A function of the driver that the library does not call. */
static void *driver_find(const char *symbol)
{
	static _Atomic(void *) opened; /* each time it is the same handle */
	void *driver = atomic_load(&opened), *found;

	if (!driver) {
		driver = dlopen(FAKECUDA_PATH, RTLD_NOW | RTLD_LOCAL);
		atomic_store(&opened, driver);
	}
	found = driver ? dlsym(driver, symbol) : NULL;
	check(found != NULL, symbol, 0);
	return found;
}

/* NOLINTNEXTLINE(bugprone-macro-parentheses): a list of parameters */
#define DRIVER(types, symbol) ((cu_result(*) types)driver_find(symbol))

static struct when_account account(void)
{
	struct when_account out;

	when_account(&out);
	return out;
}

static uint64_t nr_brackets(void)
{
	struct brackets_account out;

	brackets_account(&out);
	return out.nr;
}

static bool is_fixed(void)
{
	enum weir_space_mode mode;

	pthread_mutex_lock(&memory_space()->lock);
	mode = memory_space()->mode;
	pthread_mutex_unlock(&memory_space()->lock);
	return mode == WEIR_FIXED;
}

/* The first two steps are made, and not the third one. */
static bool is_waiting(void)
{
	(void)usleep(A_WHILE_US);
	return account().switched && !account().moves && is_fixed();
}

static bool is_moving(void)
{
	return account().moves && !is_fixed();
}

static void grow(uint32_t nr)
{
	for (; nr_arrays < nr; nr_arrays++)
		OK(hook_cuMemAlloc_v2(&array[nr_arrays], BYTES));
}

static void fill(uint32_t n, uint32_t value, cu_stream on)
{
	uint64_t nr = WORDS, word = value;
	void *parameters[] = {&array[n], &nr, &word};

	OK(hook_cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, on, parameters, NULL));
}

static uint32_t word_of(uint32_t n)
{
	uint32_t word = 0;

	OK(hook_cuMemcpyDtoH_v2(&word, array[n] + BYTES - sizeof(word), sizeof(word)));
	return word;
}

/* All of the memory is used, more than there is. */
static void use_all(uint32_t time)
{
	for (uint32_t n = FIRST; n < nr_arrays; n++)
		fill(n, 100 * time + n, other);
	OK(hook_cuStreamSynchronize(other));
}

static cu_function open_kernel(void)
{
	cu_function function = NULL;
	cu_module module = NULL;

	OK(DRIVER((cu_module *, const void *), "cuModuleLoadData")(&module, FAKECUDA_IMAGE));
	OK(DRIVER((cu_function *, cu_module, const char *), "cuModuleGetFunction")(&function,
										   module, "fill"));
	return function;
}

static void set_current(cu_context context)
{
	OK(DRIVER((cu_context), "cuCtxSetCurrent")(context));
}

static cu_stream open_stream(void)
{
	cu_stream opened = NULL;

	OK(DRIVER((cu_stream *, unsigned int), "cuStreamCreate")(&opened, NON_BLOCKING));
	return opened;
}

static void open_all(enum settings_mode mode)
{
	char text[32];

	(void)setenv(SETTINGS_DRIVER, FAKECUDA_PATH, 1);
	(void)snprintf(text, sizeof(text), "%d", (int)mode);
	(void)setenv(SETTINGS_MODE, text, 1);
	(void)setenv(SETTINGS_WHEN, "1", 1);
	(void)setenv(SETTINGS_HOLD, HOLD_NS, 1);
	(void)setenv(SETTINGS_QUIET, "1", 1);
	(void)snprintf(text, sizeof(text), "%d", BUDGET * BYTES);
	(void)setenv(SETTINGS_GPU_BUDGET, text, 1);
	CHECK(hooks_find("cuInit"));
	OK(hook_cuInit(0));
	OK(real.cuDevicePrimaryCtxRetain(&primary, 0));
	set_current(primary);
	queue = open_stream();
	other = open_stream();
	fill_kernel = open_kernel();
	grow(FIRST);
	CHECK(is_fixed());
}

static void close_all(void)
{
	char problem[256];

	OK(real.cuCtxSynchronize());
	fakecuda_problem(problem, sizeof(problem));
	check(!problem[0], problem, 0);
	CHECK(!fakecuda_nr_races() && !fakecuda_nr_unmaps_in_use());
}

/* ------------------------------------------------------------------ cases */

/* As long as all fits, calls are the driver's, and counted. */
static void fits(void)
{
	uint32_t word = 7;

	for (uint32_t n = 0; n < FIRST; n++)
		fill(n, n, queue);
	OK(hook_cuStreamSynchronize(queue));
	OK(hook_cuMemcpyHtoD_v2(array[0], &word, sizeof(word)));
	OK(hook_cuMemsetD32Async(array[1], 8, WORDS, queue));
	OK(hook_cuStreamSynchronize(queue));
	CHECK(word_of(1) == 8 && word_of(5) == 5);
	grow(FIRST + 2);
	CHECK(!account().switched && account().nr_passed == FIRST + 4 && !nr_brackets());
	CHECK(is_fixed());
}

/* Work that was queued without a bracket keeps memory where it is; the program goes on. */
static void queued(void)
{
	OK(fakecuda_gate(queue, true));
	for (uint32_t n = 0; n < FIRST; n++)
		fill(n, 50 + n, queue);
	grow(ARRAYS);
	CHECK(!nr_brackets() && account().nr_passed == FIRST);
	CHECK(account().allocation > FIRST && account().bytes == BYTES);
	for (uint32_t time = 0; time < 3; time++)
		use_all(time);
	CHECK(nr_brackets() > 0 && account().nr_passed == FIRST && is_waiting());
	OK(fakecuda_gate(queue, false));
	UNTIL(is_moving());
	for (uint32_t time = 3; time < 9; time++)
		use_all(time);
	for (uint32_t n = 0; n < ARRAYS; n++)
		CHECK(word_of(n) == (n < FIRST ? 50 + n : 800 + n));
}

static atomic_int inside;
static cu_result(*driver_launch) LAUNCH_PARAMETERS;

/* The driver's function, before it has queued anything. */
static cu_result launch_late LAUNCH_PARAMETERS
{
	int none = 0;

	atomic_compare_exchange_strong(&inside, &none, 1);
	UNTIL(atomic_load(&inside) == 2);
	return driver_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
			     shared_bytes, stream, parameters, extra);
}

static void *fill_first(void *arg)
{
	set_current(primary);
	for (uint32_t n = 0; n < FIRST; n++)
		fill(n, 60 + n, queue);
	return arg;
}

/* So does a thread that is inside the driver, and has queued nothing yet. */
static void entered(void)
{
	pthread_t thread;

	driver_launch = real.cuLaunchKernel;
	real.cuLaunchKernel = launch_late;
	CHECK(!pthread_create(&thread, NULL, fill_first, NULL));
	UNTIL(atomic_load(&inside) == 1);
	grow(ARRAYS);
	for (uint32_t n = FIRST; n < ARRAYS; n++)
		OK(hook_cuMemsetD32Async(array[n], n, WORDS, other));
	OK(hook_cuStreamSynchronize(other));
	CHECK(is_waiting());
	atomic_store(&inside, 2);
	(void)pthread_join(thread, NULL);
	OK(hook_cuStreamSynchronize(queue));
	UNTIL(is_moving());
	for (uint32_t n = 0; n < ARRAYS; n++)
		CHECK(word_of(n) == (n < FIRST ? 60 + n : n));
}

static cu_graph end_capture(void)
{
	cu_graph graph = NULL;

	OK(hook_cuStreamEndCapture(queue, &graph));
	return graph;
}

/* A capture is not spoilt, and memory moves when it has ended. */
static void captured(void)
{
	OK(hook_cuStreamBeginCapture_v2(queue, RELAXED));
	fill(0, 70, queue);
	grow(ARRAYS);
	use_all(1);
	CHECK(is_waiting());
	fill(1, 71, queue);
	CHECK(end_capture());
	UNTIL(is_moving());
}

/* One that begins while work is waited for, and one that is refused. */
static void captured_later(void)
{
	OK(fakecuda_gate(other, true));
	fill(0, 72, other);
	CHECK(hook_cuStreamBeginCapture_v2(queue, 3) == CU_INVALID_VALUE);
	grow(ARRAYS);
	CHECK(is_waiting());
	OK(hook_cuStreamBeginCapture_v2(queue, RELAXED));
	fill(1, 73, queue);
	CHECK(hook_cuStreamBeginCapture_v2(queue, RELAXED) != CU_SUCCESS);
	CHECK(end_capture());
	OK(hook_cuStreamBeginCapture_v2(queue, RELAXED));
	OK(fakecuda_gate(other, false));
	UNTIL(is_moving());
	OK(hook_cuStreamDestroy_v2(queue));
}

/* A stream that is captured ends, and so does a context with one. */
static void captured_gone(void)
{
	cu_context own;

	fill(0, 75, other);
	OK(hook_cuStreamBeginCapture_v2(queue, RELAXED));
	OK(DRIVER((cu_context *, unsigned int, cu_device), "cuCtxCreate_v2")(&own, 0, 0));
	OK(hook_cuStreamBeginCapture_v2(open_stream(), RELAXED));
	set_current(primary);
	grow(ARRAYS);
	CHECK(is_waiting());
	OK(hook_cuStreamDestroy_v2(queue));
	CHECK(is_waiting());
	OK(hook_cuCtxDestroy_v2(own));
	UNTIL(is_moving());
}

/* What is freed meanwhile nobody waits for, though it is in use; and it is given back later: by a
 * free that may wait. */
static void captured_freed(void)
{
	struct weir_space_stats stats;
	uint64_t used;

	weir_space_query(memory_space(), &stats);
	used = stats.live_bytes;
	OK(fakecuda_gate(other, true));
	OK(hook_cuStreamBeginCapture_v2(queue, RELAXED));
	for (uint32_t n = 0; n < 4; n++) {
		fill(n, 76, other);
		OK(hook_cuMemFree_v2(array[n]));
		CHECK(hook_cuMemFree_v2(array[n]) == CU_INVALID_VALUE);
	}
	fill(4, 77, queue);
	CHECK(end_capture());
	weir_space_query(memory_space(), &stats);
	CHECK(stats.live_bytes == used);
	OK(fakecuda_gate(other, false));
	OK(hook_cuMemFree_v2(array[5]));
	weir_space_query(memory_space(), &stats);
	CHECK(stats.live_bytes == used - 5 * BYTES);
}

static cu_context gone;
static cu_result (*driver_push)(cu_context context);

static cu_result push(cu_context context)
{
	CHECK(context != gone);
	return driver_push(context);
}

/* Work of a context that is not the current one counts, that of one which is gone does not. */
static void contexts(void)
{
	cu_context own;
	cu_stream of_own;

	OK(DRIVER((cu_context *, unsigned int, cu_device), "cuCtxCreate_v2")(&gone, 0, 0));
	OK(hook_cuMemsetD32_v2(array[0], 1, WORDS));
	OK(hook_cuCtxDestroy_v2(gone));
	OK(DRIVER((cu_context *, unsigned int, cu_device), "cuCtxCreate_v2")(&own, 0, 0));
	of_own = open_stream();
	driver_push = real.cuCtxPushCurrent_v2;
	real.cuCtxPushCurrent_v2 = push;
	OK(fakecuda_gate(of_own, true));
	set_current(primary);
	/* The stream's context is another one than the current one. */
	OK(hook_cuMemcpyDtoDAsync_v2(array[0], array[1], BYTES, of_own));
	grow(ARRAYS);
	CHECK(is_waiting());
	OK(fakecuda_gate(of_own, false));
	UNTIL(is_moving());
	set_current(own);
	OK(real.cuCtxSynchronize());
	set_current(primary);
}

static void *open_gate(void *arg)
{
	(void)usleep(A_WHILE_US);
	OK(fakecuda_gate(queue, false));
	return arg;
}

/* The context is reset while work is waited for: what is allocated then moves. */
static void reset(void)
{
	pthread_t thread;

	OK(fakecuda_gate(queue, true));
	fill(0, 9, queue);
	grow(ARRAYS);
	CHECK(is_waiting());
	CHECK(!pthread_create(&thread, NULL, open_gate, NULL));
	OK(hook_cuDevicePrimaryCtxReset_v2(0));
	(void)pthread_join(thread, NULL);
	nr_arrays = 0;
	grow(ARRAYS);
	CHECK(account().switched && !is_fixed());
	for (uint32_t n = 0; n < ARRAYS; n++)
		OK(hook_cuMemsetD32_v2(array[n], n, WORDS));
	for (uint32_t n = 0; n < ARRAYS; n++)
		CHECK(word_of(n) == n);
}

/* ... and before it was needed. */
static void reset_before(void)
{
	fill(0, 9, queue);
	OK(hook_cuCtxSynchronize());
	OK(hook_cuDevicePrimaryCtxReset_v2(0));
	nr_arrays = 0;
	grow(FIRST);
	CHECK(!account().switched && is_fixed());
	grow(ARRAYS);
	UNTIL(is_moving());
}

static void keep(cu_stream on, uint32_t nr)
{
	cu_ptr kept[BUDGET];

	for (uint32_t i = 0; i < nr; i++)
		OK(hook_cuMemAllocAsync(&kept[i], BYTES, on));
	for (uint32_t i = 0; i < nr; i++)
		OK(hook_cuMemFreeAsync(kept[i], on));
}

/* What is kept for streams without work is as good as free. */
static void kept(void)
{
	cu_ptr addr;

	keep(queue, BUDGET - FIRST - 1);
	OK(hook_cuMemAlloc_v2(&addr, 2 * BYTES));
	CHECK(!account().switched);
	OK(hook_cuMemFree_v2(addr));
	/* Of a stream that has work it is not, but for the stream itself; until that is done. */
	keep(queue, 1);
	OK(fakecuda_gate(queue, true));
	fill(0, 1, queue);
	keep(queue, BUDGET - FIRST - 1);
	CHECK(!account().switched);
	OK(hook_cuMemAlloc_v2(&addr, 2 * BYTES));
	CHECK(is_waiting());
	OK(fakecuda_gate(queue, false));
	UNTIL(is_moving());
	/* From here on the space has what is dead. */
	CHECK(memory_space()->nr_live_blocks == FIRST + 2);
	keep(queue, BUDGET - FIRST - 1);
	CHECK(memory_space()->nr_live_blocks == FIRST + 2);
}

/* Addresses that were copied before are known afterwards, in mode fast. */
static void noted(void)
{
	cu_ptr table = 0;

	OK(real.cuMemAlloc_v2(&table, sizeof(table)));
	OK(hook_cuMemcpyHtoD_v2(array[0], &array[5], sizeof(array[5])));
	OK(hook_cuMemcpyDtoD_v2(array[1], array[0], BYTES));
	OK(hook_cuMemcpyHtoD_v2(array[2], &nr_arrays, sizeof(nr_arrays)));
	CHECK(evidence_of(array[0]) && evidence_of(array[1]) && !evidence_of(array[2]));
	CHECK(!evidence_elsewhere());
	OK(hook_cuMemcpyHtoDAsync_v2(table, &array[6], sizeof(array[6]), queue));
	OK(hook_cuStreamSynchronize(queue));
	CHECK(evidence_elsewhere() && !nr_brackets());
}

static atomic_bool grown;

static void *fill_on(void *arg)
{
	const uint32_t n = *(const uint32_t *)arg;
	uint32_t left = 20;
	cu_stream on;

	set_current(primary);
	on = open_stream();
	while (left) {
		fill(n, 80 + n, on);
		OK(hook_cuMemcpyDtoDAsync_v2(array[n + THREADS], array[n], BYTES, on));
		OK(hook_cuStreamSynchronize(on));
		left -= atomic_load(&grown);
	}
	return arg;
}

/* Threads go on while it happens. */
static void threads(void)
{
	pthread_t thread[THREADS];
	uint32_t number[THREADS];

	for (uint32_t t = 0; t < THREADS; t++) {
		number[t] = t;
		CHECK(!pthread_create(&thread[t], NULL, fill_on, &number[t]));
	}
	for (uint32_t nr = FIRST; nr <= ARRAYS; nr++) {
		grow(nr);
		use_all(nr);
	}
	atomic_store(&grown, true);
	UNTIL(is_moving());
	for (uint32_t t = 0; t < THREADS; t++)
		(void)pthread_join(thread[t], NULL);
	for (uint32_t n = 0; n < 2 * THREADS; n++)
		CHECK(word_of(n) == 80 + n % THREADS);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"fits", fits},
	     {"queued", queued},
	     {"entered", entered},
	     {"captured", captured},
	     {"captured later", captured_later},
	     {"captured gone", captured_gone},
	     {"captured freed", captured_freed},
	     {"contexts", contexts},
	     {"reset", reset},
	     {"reset before", reset_before},
	     {"kept", kept},
	     {"noted", noted},
	     {"threads", threads}};

static int run_case(const char *name)
{
	child_begin(SECONDS);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (!strcmp(name, cases[i].name)) {
			open_all(SETTINGS_FAST);
			cases[i].run();
			close_all();
			printf("right\n");
			(void)fflush(stdout);
			_exit(0);
		}
	return 1;
}

/* ------------------------------------------------------------------ in the parent */

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct test_child child;
		int status;

		child_start(&child, cases[i].name, "FAKECUDA_DEVICES=1");
		status = child_wait(&child, SECONDS);
		if (status || child_count(&child, "right") != 1)
			fail_msg("%s: status %d: %s", cases[i].name, status, child.text);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};

	return argc > 1 ? run_case(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
