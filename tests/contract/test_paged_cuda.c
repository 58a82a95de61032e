/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory's host side on the CUDA backend, on the driver without a GPU. The pool's own kernels
 * are C here, queued with what they touch; the driver lets nobody else reach the device's memory,
 * neither the host nor a kernel that does not say so, and knows of copies that meet kernels without
 * an order. There are some where a pool is looked at while it is online: those are meant to be.
 *
 * Labels: threads
 * Links: cuda-fake
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/cuda/driver.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/paged.h"
#include "tests/unit/test_paged.h"

#define PAGE 512u /* words of it */
#define MAX_FRAMES 16u

/* ------------------------------------------------------------------ kernels for this driver */

static int nr_home_fails; /* so many times it does */

static int home(void *stream, const struct weir_paged_view *view, int evict)
{
	if (nr_home_fails && nr_home_fails--)
		return -EPERM;
	return fake_home(stream, view, evict);
}

static const struct weir_paged_kernels kernels = {home, fake_settle};

static int paged_cuda(void *stream, const void *args)
{
	const struct paged_kernel *k = args;

	return fake_view_queue(stream, paged_kernel_cpu, k, sizeof(*k), &k->view);
}

static const struct weir_kernel cuda_kernel = {.name = "paged", .cuda = paged_cuda};

/* A warp that waits for ever, unless admission is stopped. */
static void stuck_fn(const void *args)
{
	const struct weir_paged_view *v = args;

	while (!pt_load_host(v->table.abort)) {
		view_count(v, 0, 0, WEIR_PAGED_WAIT);
		usleep(100);
	}
}

static int stuck_cuda(void *stream, const void *args)
{
	return fake_view_queue(stream, stuck_fn, args, sizeof(struct weir_paged_view), args);
}

static const struct weir_kernel stuck_kernel = {.name = "stuck", .cuda = stuck_cuda};

/* ------------------------------------------------------------------ a machine */

static uint32_t watch_ms; /* 0: no kernel here takes so long that it is looked at */

static void cuda_open(struct paged_test *t)
{
	const struct fakecuda_config config = {
		.devices = 2, .hbm_bytes = MIB(16), .host_bytes = MIB(64), .granularity = KIB(4)};
	struct backend *b;

	watch_ms = 0;
	fakecuda_reset(&config);
	assert_int_equal(cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH}, &b), 0);
	paged_machine_over(t, b);
	t->kernel = &cuda_kernel;
}

static int cuda_pool(struct paged_test *t, uint64_t nr_frames, const struct weir_paged_kernels *k)
{
	const struct weir_paged_config config = {.page_bytes = 4096,
						 .gpu_bytes = nr_frames * 4096,
						 .gpu_max_bytes = MAX_FRAMES * 4096,
						 .watch_ms = watch_ms,
						 .kernels = k};

	return weir_paged_create(t->machine, &config, &t->pool);
}

static void cuda_close(struct paged_test *t, bool races)
{
	char problem[256];

	assert_int_equal(t->nr_wrong, 0);
	weir_stream_destroy(t->stream);
	weir_stream_destroy(t->other);
	fakecuda_problem(problem, sizeof(problem));
	if (!races)
		assert_string_equal(problem, "");
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 0);
	weir_machine_close(t->machine);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* ------------------------------------------------------------------ tests */

static void test_all_of_it(void **unused)
{
	uint64_t *words, *fixed, value;
	uint32_t range, read_only;
	struct paged_test t;

	(void)unused;
	cuda_open(&t);
	assert_int_equal(cuda_pool(&t, 2, &kernels), 0);
	assert_int_equal(t.pool->view.table.nr_slots, 132 * 64);
	range = paged_range(&t, 8 * 4096 + 24, 0, &words);
	read_only = paged_range(&t, 4096, 1, &fixed);
	for (uint32_t i = 0; i < 8 * PAGE + 3; i++)
		words[i] = i;
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 5, 5}, {PAGED_ADD, range, 5, 3},
				   {PAGED_WRITE, range, 8 * PAGE + 2, 9},
				   {PAGED_READ, read_only, 0, 0}),
			 0);
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(words[5], 8);
	assert_int_equal(words[8 * PAGE + 2], 9);
	assert_int_equal(paged_stats(&t).nr_resident, 2);
	assert_int_equal(weir_paged_check(t.pool), 0);
	assert_int_equal(weir_paged_set_budget(t.pool, MAX_FRAMES * 4096), 0);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(PAGED_RUN(&t, false, {PAGED_ADD, range, i * PAGE + 7, 1}), 0);
	assert_in_range(paged_stats(&t).nr_resident, 4, 9);
	assert_int_equal(weir_paged_set_budget(t.pool, 3 * 4096), 0);
	assert_in_range(paged_stats(&t).nr_resident, 1, 3);
	assert_int_equal(weir_paged_check(t.pool), 0);
	assert_int_equal(weir_paged_drain(t.pool), 0);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(words[i * PAGE + 7], i * PAGE + 8);
	value = 1234;
	assert_int_equal(weir_paged_write(t.pool, read_only, 8, &value, 8), 0);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, read_only, 1, 1234},
				   {PAGED_NO_WRITE, read_only, 1, 1},
				   {PAGED_REFUSED, range, 9 * PAGE, 0}),
			 -EFAULT);
	assert_int_equal(PAGED_RUN(&t, true, {PAGED_HOLD, range, 0, 0}), -WEIR_ECONTRACT);
	assert_int_equal(weir_paged_check(t.pool), 0);
	assert_int_equal(weir_paged_range_remove(t.pool, read_only), 0);
	weir_paged_destroy(t.pool);
	cuda_close(&t, false);
}

/* Part of a range is at the other GPU: the CPU reaches nothing of it, kernels of the pool's own GPU
 * all, and what is brought home or in comes to where it belongs. */
static void test_home_at_a_neighbour(void **unused)
{
	static const uint64_t near_pages[] = {1, 4, 8};
	uint64_t words[8 * PAGE], back[8 * PAGE];
	struct paged_test t;

	(void)unused;
	cuda_open(&t);
	for (uint32_t n = 0; n < 3; n++) {
		struct weir_paged_range_config config = {.bytes = sizeof(words)};
		uint64_t host = fakecuda_used_bytes(-1);
		uint32_t range;
		char *home;

		config.near_bytes[GPU1] = near_pages[n] * 4096;
		assert_int_equal(cuda_pool(&t, 2, &kernels), 0);
		assert_int_equal(weir_paged_range_add(t.pool, &config, &range, (void **)&home), 0);
		assert_int_equal(fakecuda_used_bytes(1), near_pages[n] * 4096);
		assert_int_equal(fakecuda_used_bytes(-1) - host, (8 - near_pages[n]) * 4096);
		for (uint32_t i = 0; i < 8; i++) {
			assert_int_equal(fakecuda_access(home + i * 4096, -1), 0);
			assert_int_equal(fakecuda_access(home + i * 4096, 0), 3);
			assert_int_equal(fakecuda_access(home + i * 4096, 1), 0);
		}
		assert_int_equal(weir_paged_read(t.pool, range, 0, back, sizeof(back)), 0);
		memset(words, 0, sizeof(words));
		assert_memory_equal(back, words, sizeof(words));
		for (uint32_t i = 0; i < 8 * PAGE; i++)
			words[i] = i;
		assert_int_equal(weir_paged_write(t.pool, range, 0, words, sizeof(words)), 0);
		for (uint32_t i = 0; i < 8; i++) {
			assert_int_equal(
				PAGED_RUN(&t, false,
					  {PAGED_READ, range, i * PAGE + 5, words[i * PAGE + 5]},
					  {PAGED_ADD, range, i * PAGE + 6, 3}),
				0);
			words[i * PAGE + 6] += 3;
		}
		assert_int_equal(weir_paged_check(t.pool), 0);
		assert_int_equal(weir_paged_drain(t.pool), 0);
		assert_int_equal(weir_paged_read(t.pool, range, 0, back, sizeof(back)), 0);
		assert_memory_equal(back, words, sizeof(words));
		weir_paged_destroy(t.pool);
		assert_int_equal(fakecuda_used_bytes(1), 0);
		assert_int_equal(fakecuda_used_bytes(-1), host);
	}
	cuda_close(&t, false);
}

/* Without a way from one GPU to the other there is no such home. */
static void test_no_way_to_the_neighbour(void **unused)
{
	const struct fakecuda_config fake = {.devices = 2,
					     .hbm_bytes = MIB(16),
					     .host_bytes = MIB(64),
					     .granularity = KIB(4),
					     .no_peers = true};
	struct weir_paged_range_config config = {.bytes = 4096};
	struct paged_test t;
	struct paged_log log;
	struct backend *b;
	uint32_t range;

	(void)unused;
	watch_ms = 0;
	fakecuda_reset(&fake);
	assert_int_equal(cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH}, &b), 0);
	paged_machine_over(&t, b);
	assert_int_equal(cuda_pool(&t, 2, &kernels), 0);
	config.near_bytes[GPU1] = 4096;
	paged_log_begin(&log);
	assert_int_equal(weir_paged_range_add(t.pool, &config, &range, NULL), -EINVAL);
	paged_log_has(&log, "no link to");
	weir_log_set(NULL, NULL);
	weir_paged_destroy(t.pool);
	cuda_close(&t, false);
}

static void test_kernels_are_needed(void **unused)
{
	const struct weir_paged_kernels none = {NULL, NULL}, half = {home, NULL};
	struct paged_test t;
	struct paged_log log;

	(void)unused;
	cuda_open(&t);
	paged_log_begin(&log);
	assert_int_equal(cuda_pool(&t, 2, NULL), -ENOSYS);
	assert_int_equal(cuda_pool(&t, 2, &none), -ENOSYS);
	assert_int_equal(cuda_pool(&t, 2, &half), -ENOSYS);
	paged_log_has(&log, "name weir_paged_kernels_cuda");
	assert_null(t.pool);
	weir_log_set(NULL, NULL);
	cuda_close(&t, false);
}

/* What the program's kernel says is passed on; nothing is lost, also when the pool goes. */
static void test_home_that_fails(void **unused)
{
	struct paged_test t;
	struct paged_log log;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	cuda_open(&t);
	assert_int_equal(cuda_pool(&t, 2, &kernels), 0);
	range = paged_range(&t, 4096, 0, &words);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_WRITE, range, 5, 3}), 0);
	paged_log_begin(&log);
	nr_home_fails = 1;
	assert_int_equal(weir_paged_flush(t.pool), -EPERM);
	paged_log_has(&log, "kernel paged-home cannot be queued");
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(words[5], 3);
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_WRITE, range, 5, 4}), 0);
	nr_home_fails = 100;
	weir_paged_destroy(t.pool);
	paged_log_has(&log, "could not be written back and are lost");
	nr_home_fails = 0;
	weir_log_set(NULL, NULL);
	cuda_close(&t, false);
}

/* weir_paged_sync() watches while it waits, and gets the kernel to its end. */
static void test_sync_stops_a_stall(void **unused)
{
	struct weir_launch launch = {.kernel = &stuck_kernel};
	struct weir_paged_view view;
	struct paged_log log;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	cuda_open(&t);
	watch_ms = 40;
	assert_int_equal(cuda_pool(&t, 2, &kernels), 0);
	range = paged_range(&t, 4096, 0, &words);
	paged_log_begin(&log);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
		launch.args = &view;
		launch.args_bytes = sizeof(view);
		assert_int_equal(weir_stream_launch(t.stream, &launch), 0);
		assert_int_equal(paged_launch(&t, &view, false,
					      (struct paged_op[]){{PAGED_ADD, range, 0, 1}}, 1),
				 0);
		assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
		assert_int_equal(weir_paged_sync(t.pool), 0);
		assert_int_equal(words[0], i + 1); /* in place */
		assert_int_equal(paged_stats(&t).nr_stalls, i + 1);
		paged_log_has(&log, "none was moved for 40 ms");
	}
	weir_log_set(NULL, NULL);
	weir_paged_destroy(t.pool);
	cuda_close(&t, true);
}

/* A kernel that is slow, and one that has not begun, are no stall. */
static void test_slow_is_no_stall(void **unused)
{
	struct weir_paged_view view;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;
	void *native;

	(void)unused;
	cuda_open(&t);
	watch_ms = 40;
	assert_int_equal(cuda_pool(&t, 2, &kernels), 0);
	range = paged_range(&t, 4096, 0, &words);
	native = weir_stream_native(t.stream);
	assert_int_equal(fakecuda_gate(native, true), 0);
	assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
	assert_int_equal(
		paged_launch(&t, &view, false, (struct paged_op[]){{PAGED_ADD, range, 0, 1}}, 1),
		0);
	assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(weir_paged_watch(t.pool), 0);
		assert_int_equal(weir_paged_flush(t.pool), -EBUSY);
		usleep(5000);
	}
	assert_int_equal(paged_stats(&t).nr_stalls, 0);
	assert_int_equal(fakecuda_gate(native, false), 0);
	assert_int_equal(weir_paged_sync(t.pool), 0);
	assert_int_equal(weir_paged_flush(t.pool), 0);
	assert_int_equal(words[0], 1);
	weir_paged_destroy(t.pool);
	cuda_close(&t, true);
}

/* Each call of the driver that making a pool and a range takes fails in turn. */
static void test_making_fails_anywhere(void **unused)
{
	const struct weir_paged_range_config config = {.bytes = 3 * 4096};
	struct weir_paged_range_config near = {.bytes = 3 * 4096};
	struct paged_test t;
	uint32_t range, nr_failed = 0;
	int err = -EIO;

	(void)unused;
	cuda_open(&t);
	near.near_bytes[GPU1] = 2 * 4096;
	for (uint64_t at = 1; err; at++) {
		uint64_t device = fakecuda_used_bytes(0), host = fakecuda_used_bytes(-1);

		fakecuda_fail_at(at, CU_OUT_OF_MEMORY);
		err = cuda_pool(&t, 3, &kernels);
		if (!err) {
			err = weir_paged_range_add(t.pool, &config, &range, NULL);
			if (!err)
				err = weir_paged_range_add(t.pool, &near, &range, NULL);
			if (err)
				fakecuda_fail_at(0, 0);
			if (err)
				weir_paged_destroy(t.pool);
		}
		nr_failed += err != 0;
		if (!err)
			break;
		fakecuda_fail_at(0, 0);
		assert_int_equal(fakecuda_used_bytes(0), device);
		assert_int_equal(fakecuda_used_bytes(1), 0);
		assert_int_equal(fakecuda_used_bytes(-1), host);
	}
	fakecuda_fail_at(0, 0);
	assert_true(nr_failed > 60);
	weir_paged_destroy(t.pool);
	cuda_close(&t, false);
}

/* ------------------------------------------------------------------ threads */

static struct {
	struct weir_paged *pool;
	atomic_bool stop;
	atomic_uint nr_looks, nr_failed;
} look;

static void *look_main(void *arg)
{
	struct weir_paged_stats stats;

	(void)arg;
	while (!atomic_load(&look.stop)) {
		atomic_fetch_add(&look.nr_failed, weir_paged_query(look.pool, &stats) != 0);
		atomic_fetch_add(&look.nr_failed, weir_paged_watch(look.pool) < 0);
		weir_paged_dump(look.pool);
		atomic_fetch_add(&look.nr_looks, 1);
		usleep(300);
	}
	return NULL;
}

/* Others look at a pool in use, and one tries what needs quiet. */
static void test_looked_at_while_online(void **unused)
{
	struct paged_test t;
	pthread_t thread[2];
	uint64_t *words;
	uint32_t range;

	(void)unused;
	cuda_open(&t);
	watch_ms = 40;
	assert_int_equal(cuda_pool(&t, 2, &kernels), 0);
	range = paged_range(&t, 6 * 4096, 0, &words);
	look.pool = t.pool;
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, look_main, NULL), 0);
	for (uint32_t n = 0; n < 60 || atomic_load(&look.nr_looks) < 20; n++) {
		int err = PAGED_RUN(&t, false, {PAGED_ADD, range, n % 6 * PAGE, 1},
				    {PAGED_ADD, range, (n + 1) % 6 * PAGE, 1},
				    {PAGED_ADD, range, (n + 3) % 6 * PAGE, 1});

		assert_int_equal(err, 0);
		if (n % 8)
			continue;
		assert_int_equal(weir_paged_drain(t.pool), 0);
		words[n % 6 * PAGE + 1]++;
	}
	atomic_store(&look.stop, true);
	for (uint32_t i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(atomic_load(&look.nr_failed), 0);
	assert_int_equal(weir_paged_check(t.pool), 0);
	weir_paged_destroy(t.pool);
	cuda_close(&t, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_of_it),
		cmocka_unit_test(test_home_at_a_neighbour),
		cmocka_unit_test(test_no_way_to_the_neighbour),
		cmocka_unit_test(test_kernels_are_needed),
		cmocka_unit_test(test_home_that_fails),
		cmocka_unit_test(test_sync_stops_a_stall),
		cmocka_unit_test(test_slow_is_no_stall),
		cmocka_unit_test(test_making_fails_anywhere),
		cmocka_unit_test(test_looked_at_while_online),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
