/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is not to be had: each chunk and each plain allocation of a small program failing in
 * turn, and a card that is really full. Errors are clean, what could be kept is right, and
 * everything is given back; also when spaces of hundreds of megabytes come and go.
 *
 * Timeout: 300
 */
#include <errno.h>
#include <stdlib.h>

#include "managers/manager.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"

#define NR_RANGES 3u
#define RANGE_BLOCKS 4u
#define GPU_BLOCKS 6u
#define HOST_BLOCKS 24u
#define NR_TENSORS 5u

/* ------------------------------------------------------------------ failing allocations */

/* The backend's own operations, and those with a chosen allocation failing. */
static const struct backend_ops *own;
static struct backend_ops failing;
static uint64_t nr_allocations, fail_at; /* counted from 1; 0: none */

static bool fails(void)
{
	return ++nr_allocations == fail_at;
}

static int failing_chunk_create(struct backend *b, uint32_t memory, uint64_t bytes,
				uint64_t devices, struct backend_chunk *out)
{
	return fails() ? -ENOMEM : own->chunk_create(b, memory, bytes, devices, out);
}

static int failing_device_alloc(struct backend *b, uint32_t memory, uint64_t bytes, void **addr)
{
	return fails() ? -ENOMEM : own->device_alloc(b, memory, bytes, addr);
}

static void failing_begin(struct backend *b, uint64_t at)
{
	own = b->ops;
	failing = *b->ops;
	failing.chunk_create = failing_chunk_create;
	failing.device_alloc = failing_device_alloc;
	nr_allocations = 0;
	fail_at = at;
	b->ops = &failing;
}

static void failing_end(struct backend *b)
{
	b->ops = own;
}

/* A call that may fail for want of memory, and then works when it is tried again. */
#define again(call)                                                       \
	do {                                                              \
		int again_err = (call);                                   \
                                                                          \
		if (again_err) {                                          \
			assert_int_equal(again_err, -ENOMEM);             \
			assert_true(fail_at &&nr_allocations >= fail_at); \
			assert_int_equal(weir_space_check(t->space), 0);  \
			assert_int_equal(call, 0);                        \
		}                                                         \
	} while (0)

static void bracket(struct test_space *t, void *addr, uint64_t bytes, enum weir_use_kind kind,
		    uint32_t expect, uint32_t put)
{
	struct weir_use use = use_of(addr, bytes, kind);

	again(weir_begin(t->space, t->stream[0], &use, 1));
	do_launch(t, 0, addr, bytes, kind, expect, put);
	assert_int_equal(weir_end(t->space, t->stream[0]), 0);
	do_check(t);
}

/* A space of more than its GPU budget, used from both sides. */
static void use_space(struct test_space *t)
{
	uint64_t block = t->desc.vmm.granularity_bytes, bytes = RANGE_BLOCKS * block;
	uint8_t *range[NR_RANGES], *buffer = malloc(bytes);
	struct weir_use use;

	assert_non_null(buffer);
	assert_int_equal(test_space_create_try(t, WEIR_PLANNED, block, GPU_BLOCKS * block,
					       HOST_BLOCKS * block),
			 0);
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		again(weir_alloc(t->space, bytes, t->stream[0], (void **)&range[i]));
		bracket(t, range[i], bytes, WEIR_OVERWRITE, 0, 1 + i);
	}
	for (uint32_t i = 0; i < NR_RANGES; i++)
		bracket(t, range[i], bytes, WEIR_WRITE, 1 + i, 11 + i);
	use = use_of(range[0], bytes, WEIR_WRITE);
	again(weir_host_begin(t->space, &use, 1));
	assert_int_equal(pattern_wrong(range[0], range[0], bytes, 11), 0);
	pattern_put(range[0], range[0], bytes, 21);
	assert_int_equal(weir_host_end(t->space, &use, 1), 0);
	pattern_put(buffer, range[1], bytes, 22);
	again(weir_write(t->space, range[1], buffer, bytes));
	again(weir_prefetch(t->space, range[0], bytes, GPU0, NULL));
	bracket(t, range[0], bytes, WEIR_READ, 21, 0);
	bracket(t, range[1], bytes, WEIR_READ, 22, 0);
	again(weir_read(t->space, buffer, range[2], bytes));
	assert_int_equal(pattern_wrong(buffer, range[2], bytes, 13), 0);
	do_sync(t);
	for (uint32_t i = 0; i < NR_RANGES; i++)
		assert_int_equal(weir_free(t->space, range[i], t->stream[0]), 0);
	do_check(t);
	weir_space_destroy(t->space);
	free(buffer);
}

/* @return allocations of the run */
static uint64_t run_space(uint64_t at)
{
	struct test_space t;

	test_machine_open(&t, WEIR_DATA_REAL);
	failing_begin(t.backend, at);
	use_space(&t);
	failing_end(t.backend);
	test_machine_close(&t);
	return nr_allocations;
}

static void test_memory_each_chunk_fails(void **state)
{
	uint64_t nr = run_space(0);

	(void)state;
	assert_true(nr >= NR_RANGES * RANGE_BLOCKS);
	for (uint64_t at = 1; at <= nr; at++)
		(void)run_space(at);
}

/* ------------------------------------------------------------------ plain allocations */

/* A workload's tensors, come and gone. 0 or what the manager returns. */
static int use_manager(struct test_space *t, const char *name)
{
	uint64_t mib = UINT64_C(1) << 20;
	const struct manager_config config = {
		.machine = t->machine, .gpu_budget_bytes = 8 * mib, .options = ""};
	void *tensor[NR_TENSORS] = {0};
	struct manager *manager;
	uint64_t word = 0;
	int err = manager_create(name, &config, &manager);

	if (err)
		return err;
	for (uint32_t i = 0; i < NR_TENSORS && !err; i++)
		err = manager->ops->alloc(manager, KIB(64 + 4 * i), "tensor", &tensor[i]);
	for (uint64_t i = 0; i < NR_TENSORS && !err; i++)
		err = manager->ops->write(manager, tensor[i], &i, sizeof(i));
	if (!err)
		err = manager->ops->read(manager, &word, tensor[NR_TENSORS - 1], sizeof(word));
	if (!err)
		assert_int_equal(word, NR_TENSORS - 1);
	assert_int_equal(manager->ops->check(manager), 0);
	for (uint32_t i = 0; i < NR_TENSORS; i++)
		if (tensor[i])
			manager->ops->free(manager, tensor[i]);
	manager->ops->destroy(manager);
	return err;
}

static uint64_t run_manager(const char *name, uint64_t at)
{
	struct test_space t;
	uint64_t before;
	int err;

	test_machine_open(&t, WEIR_DATA_REAL);
	before = t.backend->ops->memory_used(t.backend, HOST);
	failing_begin(t.backend, at);
	err = use_manager(&t, name);
	failing_end(t.backend);
	assert_int_equal(err, at ? -ENOMEM : 0);
	assert_int_equal(t.backend->ops->memory_used(t.backend, GPU0), 0);
	assert_int_equal(t.backend->ops->memory_used(t.backend, HOST), before);
	test_machine_close(&t);
	return nr_allocations;
}

static void test_memory_each_plain_allocation_fails(void **state)
{
	static const char *const names[] = {"native", "malloc", "zerocopy"};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_LEN(names); i++) {
		uint64_t nr = run_manager(names[i], 0);

		assert_true(nr > 0);
		for (uint64_t at = 1; at <= nr; at++)
			(void)run_manager(names[i], at);
	}
}

/* ------------------------------------------------------------------ a full card */

#define FILLERS 64u

/* Take all of the GPU's memory but for a rest, in ever smaller pieces. More than the driver says is
 * free may be had. */
static uint32_t fill_card(struct backend *b, uint64_t rest, void *filler[FILLERS])
{
	uint64_t bytes = test_gpu_free_bytes();
	uint32_t nr = 0;
	void *room;

	assert_int_equal(b->ops->device_alloc(b, GPU0, rest, &room), 0);
	for (; bytes >= b->desc.vmm.granularity_bytes && nr < FILLERS; bytes /= 2)
		while (nr < FILLERS && b->ops->device_alloc(b, GPU0, bytes, &filler[nr]) == 0)
			nr++;
	b->ops->device_free(b, room);
	return nr;
}

/* The card fills up behind the back of a space that may use twice what is left. */
static void test_memory_card_is_full(void **state)
{
	struct test_space t;
	struct weir_space_stats stats;
	uint64_t block, bytes, rest;
	void *filler[FILLERS], *addr, *more;
	uint32_t nr;

	(void)state;
	test_machine_open(&t, WEIR_DATA_REAL);
	block = t.desc.vmm.granularity_bytes;
	bytes = 64 * block;
	rest = 32 * block;
	assert_int_equal(test_space_create_try(&t, WEIR_PLANNED, block, 2 * rest, 128 * block), 0);
	addr = do_alloc(&t, bytes, 0);
	nr = fill_card(t.backend, rest, filler);
	assert_true(nr > 0);
	assert_int_equal(t.backend->ops->device_alloc(t.backend, GPU0, bytes, &more), -ENOMEM);
	/* What does not fit is used in place. */
	do_fill(&t, 0, addr, bytes, 5);
	do_change(&t, 0, addr, bytes, 5, 6);
	do_sync(&t);
	stats = get_stats(&t);
	assert_true(stats.memory[GPU0].bytes < 2 * rest);
	assert_true(get_bytes(&t, &stats, BACKEND_TO_DEVICE, WEIR_CAUSE_INPLACE) > 0);
	while (nr)
		t.backend->ops->device_free(t.backend, filler[--nr]);
	/* And there is room again. */
	do_read(&t, addr, bytes, 6);
	do_change(&t, 0, addr, bytes, 6, 7);
	do_expect(&t, 0, addr, bytes, 7);
	do_free(&t, addr, 0);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ coming and going */

/* Bytes that the system could give to programs; page caches count. */
static uint64_t host_available(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	static const char name[] = "MemAvailable:";
	unsigned long long kib = 0;
	char line[128];

	assert_non_null(file);
	while (!kib && fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			kib = strtoull(line + strlen(name), NULL, 10);
	(void)fclose(file);
	assert_true(kib > 0);
	return kib << 10;
}

/* A space that has been everywhere: an eighth of a small GPU, 1 GiB of a large one, and as much of
 * the host. @return bytes on either side */
static uint64_t come_and_go(void)
{
	struct test_space t;
	uint64_t bytes, block;
	void *addr[2];

	test_machine_open(&t, WEIR_DATA_REAL);
	bytes = t.desc.memory[GPU0].bytes / 8;
	bytes = bytes < MIB(1024) ? bytes : MIB(1024);
	block = 4 * t.desc.vmm.granularity_bytes;
	bytes = bytes / block * block;
	assert_int_equal(test_space_create_try(&t, WEIR_PLANNED, block, bytes, 2 * bytes), 0);
	for (uint32_t i = 0; i < 2; i++) {
		addr[i] = do_alloc(&t, bytes, 0);
		do_fill(&t, 0, addr[i], bytes, 1 + i);
	}
	for (uint32_t i = 0; i < 2; i++)
		do_expect(&t, 0, addr[i], bytes, 1 + i);
	do_sync(&t);
	assert_true(get_stats(&t).memory[HOST].peak_bytes >= bytes / 2);
	test_space_close(&t); /* with the ranges; nothing is left on the GPU then */
	return bytes;
}

/* On a large GPU so much comes and goes that a leak shows on any machine. */
static void test_memory_comes_back(void **state)
{
	uint64_t bytes = come_and_go(), before = host_available(), after = 0;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(come_and_go(), bytes);
	/* Others use the machine, too: patience, and no more than one round's bytes. */
	for (int i = 0; i < 100 && after + bytes < before; i++) {
		after = host_available();
		if (after + bytes < before)
			nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	}
	if (bytes >= MIB(1024) && after + bytes < before)
		fail_msg("%llu bytes of the host's memory are gone",
			 (unsigned long long)(before - after));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_each_chunk_fails),
		cmocka_unit_test(test_memory_each_plain_allocation_fails),
		cmocka_unit_test(test_memory_card_is_full),
		cmocka_unit_test(test_memory_comes_back),
	};

	return cmocka_run_group_tests(tests, test_cuda_required, NULL);
}
