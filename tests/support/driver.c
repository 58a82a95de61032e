/* SPDX-License-Identifier: Apache-2.0 */
/* Which CUDA driver tests run on: see driver.h. */
#include "tests/support/driver.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/cuda/driver.h"
#include "src/base/util.h"
#include "tests/support/kernels.h"

#define PATIENCE_SECONDS 5u
#define SLACK (UINT64_C(32) << 20)

struct test_fake test_fake;
static void *fake_library; /* stays open */
static uint64_t fake_hbm_bytes;

const struct fakecuda_config test_fake_config = {
	.devices = 1,
	.hbm_bytes = UINT64_C(64) << 20,
	.host_bytes = UINT64_C(256) << 20,
	.granularity = UINT64_C(64) << 10,
};

/* A look at the first GPU beside the backend; its context is kept, so that closing the backend does
 * not destroy it and what it holds is always the same. */
static struct {
	struct cuda_driver driver;
	cu_context context;
	uint64_t free_bytes; /* when nothing was open yet */
	bool open, not_alone;
} watch;

enum test_machine test_machine_kind(void)
{
	const char *machine = getenv("WEIR_TEST_MACHINE");

	if (!machine || !*machine)
		return TEST_SIMULATED;
	if (strcmp(machine, "cuda") == 0)
		return TEST_FAKE;
	if (strcmp(machine, "gpu") == 0)
		return TEST_GPU;
	fail_msg("WEIR_TEST_MACHINE is '%s': cuda, gpu or not set", machine);
	return TEST_SIMULATED;
}

static void show_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level <= WEIR_LOG_WARNING)
		fprintf(stderr, "weir: %s\n", message);
}

void test_log_begin(void)
{
	weir_log_set(getenv("WEIR_TEST_LOG") ? show_log : NULL, NULL);
}

/* ------------------------------------------------------------------ the drivers */

int test_cuda_required(void **state)
{
	(void)state;
	if (test_machine_kind() != TEST_SIMULATED)
		return 0;
	fprintf(stderr,
		"WEIR_TEST_MACHINE is not set: gpu, or cuda for the driver without a GPU\n");
	return -1;
}

const char *test_cuda_library(void)
{
	const char *path = getenv("FAKECUDA");

	if (test_machine_kind() == TEST_GPU)
		return NULL;
	if (!path || !*path)
		fail_msg("FAKECUDA does not name the driver without a GPU");
	if (fake_library)
		return path;
	fake_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!fake_library)
		fail_msg("%s", dlerror());
#define FIND(name)                                                          \
	*(void **)&test_fake.name = dlsym(fake_library, "fakecuda_" #name); \
	assert_non_null(test_fake.name);
	TEST_FAKE_FUNCTIONS(FIND)
#undef FIND
	return path;
}

static uint64_t free_bytes_of(struct cuda_driver *driver, cu_context context)
{
	size_t free_bytes = 0, bytes;

	assert_int_equal(driver->context_push(context), CU_SUCCESS);
	assert_int_equal(driver->mem_info(&free_bytes, &bytes), CU_SUCCESS);
	assert_int_equal(driver->context_pop(&context), CU_SUCCESS);
	return free_bytes;
}

/* Load the kernels and let the driver allocate for itself what it is going to, before what is free
 * is looked at. */
static void watch_open(void)
{
	struct backend *b;
	cu_device device;
	stream_id_t stream;
	void *managed;

	if (watch.open)
		return;
	if (cuda_driver_open(&watch.driver, NULL, false))
		fail_msg("there is no GPU to run on: WEIR_TEST_MACHINE asks for one");
	assert_int_equal(watch.driver.device_get(&device, 0), CU_SUCCESS);
	assert_int_equal(watch.driver.context_retain(&watch.context, device), CU_SUCCESS);
	assert_int_equal(watch.driver.context_push(watch.context), CU_SUCCESS);
	assert_int_equal(test_kernels_prepare(), 0);
	assert_int_equal(watch.driver.context_pop(&watch.context), CU_SUCCESS);
	assert_int_equal(cuda_create(&(struct cuda_config){0}, &b), 0);
	/* The first use of managed memory costs 130 MB of an H200 until the process ends. */
	assert_int_equal(b->ops->stream_create(b, 0, BACKEND_COMPUTE, &stream), 0);
	if (b->managed->alloc(b, 1, &managed) == 0) {
		(void)b->managed->prefetch(b, stream, managed, 1, 1);
		b->managed->free(b, managed);
	}
	b->ops->stream_destroy(b, stream);
	b->ops->destroy(b);
	watch.free_bytes = free_bytes_of(&watch.driver, watch.context);
	watch.open = true;
}

/* Devices that WEIR_TEST_SPLIT makes of the GPUs; 1: it says nothing. */
static uint32_t split(const struct fakecuda_config *fake)
{
	const char *text = getenv("WEIR_TEST_SPLIT");
	char *end = NULL;
	unsigned long nr = text && *text ? strtoul(text, &end, 10) : 1;

	if ((end && *end) || !nr || nr > WEIR_DEVICES_MAX)
		fail_msg("WEIR_TEST_SPLIT is '%s', not 1 to %d", text, WEIR_DEVICES_MAX);
	if (test_machine_kind() == TEST_FAKE && fake)
		return MIN((uint32_t)nr, (uint32_t)fake->devices);
	return (uint32_t)nr;
}

int test_cuda_open(const struct fakecuda_config *fake, struct backend **out)
{
	return test_cuda_open_parts(fake, split(fake), out);
}

int test_cuda_open_parts(const struct fakecuda_config *fake, uint32_t nr_parts,
			 struct backend **out)
{
	struct cuda_config config = {.library = test_cuda_library(), .nr_parts = nr_parts};
	struct fakecuda_config whole = fake ? *fake : (struct fakecuda_config){0};

	assert_int_not_equal(test_machine_kind(), TEST_SIMULATED);
	test_log_begin();
	assert_int_equal(test_kernels_load(), 0);
	if (test_machine_kind() == TEST_GPU) {
		watch_open();
	} else if (fake) {
		if (nr_parts > 1) {
			whole.devices = 1;
			whole.hbm_bytes *= nr_parts;
		}
		test_fake.reset(&whole);
		fake_hbm_bytes = whole.hbm_bytes;
	}
	return cuda_create(&config, out);
}

/* ------------------------------------------------------------------ what is left */

uint64_t test_gpu_free_bytes(void)
{
	if (test_machine_kind() == TEST_FAKE)
		return fake_hbm_bytes - test_fake.used_bytes(0);
	return free_bytes_of(&watch.driver, watch.context);
}

void test_gpu_not_alone(void)
{
	watch.not_alone = true;
}

uint64_t test_gpu_slack(void)
{
	const char *text = getenv("WEIR_TEST_SLACK");
	char *end = NULL;
	uint64_t bytes = text ? strtoull(text, &end, 10) : SLACK;

	if (text && (*end || !bytes))
		fail_msg("WEIR_TEST_SLACK is '%s', not a number of bytes", text);
	return bytes;
}

bool test_gpu_is_shared(void)
{
	return test_machine_kind() == TEST_GPU && !dlsym(watch.driver.library, "fakecuda_reset");
}

bool test_gpu_free_soon(uint64_t bytes, unsigned seconds)
{
	for (unsigned i = 0; i < seconds * 20 && test_gpu_free_bytes() < bytes; i++)
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	return test_gpu_free_bytes() >= bytes;
}

static void fake_nothing_left(const char *expected)
{
	char text[256];

	test_fake.problem(text, sizeof(text));
	if (expected)
		assert_non_null(strstr(text, expected));
	else
		assert_string_equal(text, "");
	assert_int_equal(test_fake.nr_races(), 0);
	assert_int_equal(test_fake.nr_unmaps_in_use(), 0);
	assert_int_equal(test_fake.leaks(stderr), 0);
}

void test_cuda_nothing_left(const char *expected)
{
	if (test_machine_kind() == TEST_FAKE)
		fake_nothing_left(expected);
	else if (!watch.not_alone &&
		 !test_gpu_free_soon(watch.free_bytes - test_gpu_slack(), PATIENCE_SECONDS))
		fail_msg("%llu bytes of the GPU's memory are free, %llu were at first",
			 (unsigned long long)test_gpu_free_bytes(),
			 (unsigned long long)watch.free_bytes);
}
