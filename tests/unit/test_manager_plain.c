/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain managers over a backend that only keeps count: which memory they take, at whose
 * expense, and that every failure leaves nothing behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "managers/manager.h"
#include "src/backend/machine.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define NR_ALLOCS 256

/* A backend whose fail_at-th call that can fail does. */
struct counting {
	struct backend base;
	struct {
		void *addr;
		uint64_t bytes;
		uint32_t memory;
	} allocs[NR_ALLOCS];
	uintptr_t next;
	unsigned int nr_streams, nr_launches, nr_syncs, nr_calls, fail_at;
	uint64_t inplace[BACKEND_DIRECTION_NR];
};

static struct counting *fake; /* of the running test */

static int count_call(struct backend *b)
{
	struct counting *c = (struct counting *)b;

	return ++c->nr_calls == c->fail_at ? -EIO : 0;
}

static void fake_destroy(struct backend *b)
{
	(void)b; /* the test's teardown looks at it first */
}

static int fake_stream_create(struct backend *b, uint32_t device, enum backend_stream_kind kind,
			      stream_id_t *out)
{
	int err = count_call(b);

	if (err)
		return err;
	assert_int_equal(device, 0);
	assert_int_equal(kind, BACKEND_COMPUTE);
	fake->nr_streams++;
	*out = 7;
	return 0;
}

static void fake_stream_destroy(struct backend *b, stream_id_t stream)
{
	(void)b;
	assert_int_equal(stream, 7);
	fake->nr_streams--;
}

static int fake_launch(struct backend *b, stream_id_t stream, const struct weir_launch *launch)
{
	int err = count_call(b);

	if (err)
		return err;
	assert_int_equal(stream, 7);
	assert_non_null(launch);
	fake->nr_launches++;
	return 0;
}

static int fake_upload(struct backend *b, stream_id_t stream, void *dst, const void *data,
		       uint64_t bytes)
{
	(void)dst, (void)data, (void)bytes;
	assert_int_equal(stream, 7);
	return count_call(b);
}

static int fake_download(struct backend *b, stream_id_t stream, void *data, const void *src,
			 uint64_t bytes)
{
	(void)data, (void)src, (void)bytes;
	assert_int_equal(stream, 7);
	return count_call(b);
}

static int fake_fence_record(struct backend *b, stream_id_t stream, fence_t *out)
{
	int err = count_call(b);

	assert_int_equal(stream, 7);
	if (!err)
		*out = 1;
	return err;
}

static int fake_fence_wait(struct backend *b, fence_t fence)
{
	assert_int_equal(fence, 1);
	fake->nr_syncs++;
	return count_call(b);
}

static int fake_device_alloc(struct backend *b, uint32_t memory, uint64_t bytes, void **addr)
{
	int err = count_call(b);

	if (err)
		return err;
	for (unsigned int i = 0; i < NR_ALLOCS; i++) {
		if (fake->allocs[i].addr)
			continue;
		fake->allocs[i].addr = *addr = (void *)fake->next;
		fake->allocs[i].bytes = bytes;
		fake->allocs[i].memory = memory;
		fake->next += bytes + 4096;
		return 0;
	}
	return -ENOMEM;
}

static void fake_device_free(struct backend *b, void *addr)
{
	(void)b;
	for (unsigned int i = 0; i < NR_ALLOCS; i++) {
		if (fake->allocs[i].addr == addr) {
			fake->allocs[i].addr = NULL;
			return;
		}
	}
	fail_msg("freed %p, which is not allocated", addr);
}

static void fake_inplace(struct backend *b, uint32_t device, uint32_t memory,
			 uint64_t bytes[BACKEND_DIRECTION_NR])
{
	(void)device;
	assert_int_equal(b->desc.memory[memory].kind, WEIR_MEMORY_HOST);
	memcpy(bytes, fake->inplace, sizeof(fake->inplace));
}

static struct backend_ops fake_ops = {
	.name = "counting",
	.destroy = fake_destroy,
	.stream_create = fake_stream_create,
	.stream_destroy = fake_stream_destroy,
	.launch = fake_launch,
	.upload = fake_upload,
	.download = fake_download,
	.fence_record = fake_fence_record,
	.fence_wait = fake_fence_wait,
	.device_alloc = fake_device_alloc,
	.device_free = fake_device_free,
};

static struct backend_observe_ops fake_observe_ops = {
	.inplace_bytes = fake_inplace,
};

static uint64_t taken(uint32_t memory)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < NR_ALLOCS; i++)
		if (fake->allocs[i].addr && fake->allocs[i].memory == memory)
			sum += fake->allocs[i].bytes;
	return sum;
}

static int setup(void **state)
{
	struct weir_machine *machine;

	fake = calloc(1, sizeof(*fake));
	if (!fake)
		return -1;
	fake->next = (uintptr_t)1 << 40;
	backend_ops_complete(&fake_ops);
	fake->base.ops = &fake_ops;
	backend_observe_complete(&fake_observe_ops);
	fake->base.observe = &fake_observe_ops;
	fake->base.desc = (struct weir_machine_desc){
		.name = "counting",
		.nr_memories = 2,
		.nr_devices = 1,
		.nr_links = 1,
		.memory = {{"host", WEIR_MEMORY_HOST, 256 * MIB},
			   {"gpu0", WEIR_MEMORY_HBM, 64 * MIB}},
		.device = {{.name = "gpu0", .memory = 1}},
		.link = {{.a = 0, .b = 1}},
	};
	if (machine_wrap(&fake->base, &machine))
		return -1;
	*state = machine;
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(taken(0) + taken(1), 0);
	assert_int_equal(fake->nr_streams, 0);
	weir_machine_close(*state);
	free(fake);
	return 0;
}

static struct manager *create(void **state, const char *name, uint64_t gpu_budget)
{
	struct manager_config config = {.machine = *state, .gpu_budget_bytes = gpu_budget};
	struct manager *m;

	assert_int_equal(manager_create(name, &config, &m), 0);
	assert_string_equal(m->ops->name, name);
	return m;
}

static void *get(struct manager *m, uint64_t bytes)
{
	void *addr;

	assert_int_equal(m->ops->alloc(m, bytes, "x", &addr), 0);
	assert_int_equal(m->ops->check(m), 0);
	return addr;
}

static void test_manager_create_refuses(void **state)
{
	struct manager_config config = {.machine = *state};
	struct manager *m;

	assert_int_equal(manager_create("nativ", &config, &m), -ENOENT);
	assert_int_equal(manager_create("", &config, &m), -ENOENT);
	assert_int_equal(manager_create("+max", &config, &m), -ENOENT);
	assert_int_equal(manager_create("native+max", &config, &m), -EINVAL);
	assert_int_equal(manager_create("malloc+", &config, &m), -EINVAL);
	config.device = 1;
	assert_int_equal(manager_create("malloc", &config, &m), -EINVAL);
	config.device = 0;
	config.gpu_budget_bytes = 64 * MIB + 1;
	assert_int_equal(manager_create("native", &config, &m), -EINVAL);
	config.host_budget_bytes = 256 * MIB + 1;
	assert_int_equal(manager_create("zerocopy", &config, &m), -EINVAL);
}

static void test_manager_native_keeps_memory(void **state)
{
	struct manager *m = create(state, "native", 0);
	struct manager_stats stats;
	void *addr = get(m, 10 * MIB);

	assert_int_equal(taken(1), 10 * MIB);
	m->ops->free(m, addr);
	assert_int_equal(taken(1), 10 * MIB);
	assert_ptr_equal(get(m, 10 * MIB), addr);
	get(m, 1);
	m->ops->stats(m, &stats);
	assert_int_equal(stats.peak_bytes[1], 12 * MIB); /* held: a small one has 2 MiB */
	assert_int_equal(stats.peak_bytes[0], 0);
	m->ops->destroy(m);
}

static void test_manager_malloc_gives_back(void **state)
{
	struct manager *m = create(state, "malloc", 0);
	struct manager_stats stats;
	void *addr = get(m, 10 * MIB + 1);

	assert_int_equal(taken(1), 10 * MIB + 512);
	m->ops->free(m, addr);
	assert_int_equal(taken(1), 0);
	get(m, 1);
	m->ops->free(m, NULL);
	m->ops->stats(m, &stats);
	assert_int_equal(stats.peak_bytes[1], 10 * MIB + 512);
	m->ops->destroy(m);
}

static void test_manager_zerocopy_takes_host_memory(void **state)
{
	struct manager *m = create(state, "zerocopy", 0);

	get(m, 128 * MIB); /* twice the GPU's */
	assert_int_equal(taken(0), 128 * MIB);
	assert_int_equal(taken(1), 0);
	m->ops->destroy(m);
}

static void test_manager_keeps_its_budget(void **state)
{
	static const char *const names[] = {"native", "malloc"};

	for (unsigned int i = 0; i < 2; i++) {
		struct manager *m = create(state, names[i], 32 * MIB);
		void *addr = get(m, 20 * MIB), *other;

		assert_int_equal(m->ops->alloc(m, 14 * MIB, "x", &other), -ENOMEM);
		assert_int_equal(m->ops->alloc(m, UINT64_MAX, "x", &other), -ENOMEM);
		assert_int_equal(m->ops->alloc(m, 0, "x", &other), -EINVAL);
		m->ops->free(m, addr);
		get(m, 32 * MIB);
		assert_int_equal(m->ops->check(m), 0);
		m->ops->destroy(m);
	}
}

static void test_manager_counts_inplace_since_creation(void **state)
{
	struct weir_launch launch = {0};
	struct manager_stats stats;
	struct manager *m;

	fake->inplace[BACKEND_TO_DEVICE] = 1000;
	m = create(state, "zerocopy", 0);
	assert_int_equal(m->ops->launch(m, &launch), 0);
	assert_int_equal(fake->nr_launches, 1);
	fake->inplace[BACKEND_TO_DEVICE] = 1500;
	fake->inplace[BACKEND_TO_HOST] = 70;
	m->ops->stats(m, &stats);
	assert_int_equal(stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_INPLACE], 500);
	assert_int_equal(stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_INPLACE], 70);
	m->ops->destroy(m);
}

/* What a workload does, in small; the first error ends it. */
static int scenario(struct weir_machine *machine, const char *name)
{
	struct manager_config config = {.machine = machine, .gpu_budget_bytes = 32 * MIB};
	struct weir_launch launch = {0};
	void *a = NULL, *b = NULL;
	struct manager *m;
	int err;

	err = manager_create(name, &config, &m);
	if (err)
		return err;
	err = m->ops->alloc(m, 12 * MIB, "a", &a);
	if (!err)
		err = m->ops->alloc(m, 4 * KIB, "b", &b);
	if (!err)
		err = m->ops->write(m, a, NULL, 12 * MIB);
	if (!err)
		err = m->ops->launch(m, &launch);
	if (!err)
		err = m->ops->read(m, NULL, b, 4 * KIB);
	m->ops->free(m, a);
	if (!err)
		err = m->ops->alloc(m, 24 * MIB, "c", &a);
	if (!err)
		err = m->ops->sync(m);
	assert_int_equal(m->ops->check(m), 0);
	m->ops->destroy(m);
	return err;
}

static void test_manager_survives_each_failure(void **state)
{
	static const char *const names[] = {"native", "malloc", "zerocopy"};

	for (unsigned int i = 0; i < 3; i++) {
		unsigned int nr_calls, nr_heard = 0;

		fake->fail_at = fake->nr_calls = 0;
		assert_int_equal(scenario(*state, names[i]), 0);
		nr_calls = fake->nr_calls;
		for (unsigned int n = 1; n <= nr_calls; n++) {
			fake->nr_calls = 0;
			fake->fail_at = n;
			nr_heard += scenario(*state, names[i]) == -EIO;
			assert_int_equal(taken(0) + taken(1), 0);
			assert_int_equal(fake->nr_streams, 0);
		}
		/* All but the two of the wait inside destroy, which has nobody to tell. */
		assert_int_equal(nr_heard, nr_calls - 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_manager_create_refuses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_manager_native_keeps_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_manager_malloc_gives_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_manager_zerocopy_takes_host_memory, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_manager_keeps_its_budget, setup, teardown),
		cmocka_unit_test_setup_teardown(test_manager_counts_inplace_since_creation, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_manager_survives_each_failure, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
