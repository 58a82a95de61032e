/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory on a simulated machine whose costs are round numbers: what faults, evictions and
 * prefetches take is worked out by hand, and so is who is evicted.
 */
#include <unistd.h>

#include "tests/unit/test_sim_uvm.h"

static int setup_real(void **state)
{
	return setup_data(state, WEIR_DATA_REAL);
}

static int touch(struct fixture *f, stream_id_t stream, void *addr, uint64_t bytes)
{
	return touch_on(f, stream, addr, bytes, WEIR_WRITE);
}

static void test_uvm_first_touch(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, 3 * BLOCK);

	/* Six rounds a block, nothing over the link. */
	assert_int_equal(touch(f, f->stream, a, BLOCK), 0);
	expect_costs(f, FIRST_NS, 0, 0);
	assert_int_equal(touch(f, f->stream, a, BLOCK), 0);
	expect_costs(f, 0, 0, 0);
	/* 5 pages are in the first 16; the rest of the block is somebody else's. */
	assert_int_equal(touch(f, f->stream, a + BLOCK, 5 * KIB(4)), 0);
	expect_costs(f, BATCH_NS + 16 * PAGE_NS + POPULATE_NS, 0, 0);
	assert_int_equal(stats_of(f, 0).nr_faults, 7);
	assert_int_equal(stats_of(f, 0).nr_first_touches, 2);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU0), 2 * BLOCK);
	assert_int_equal(touch(f, f->stream, a, 3 * BLOCK), 0);
	expect_costs(f, 2 * FIRST_NS - BATCH_NS - 16 * PAGE_NS - POPULATE_NS, 0, 0);
	f->b->managed->free(f->b, a);
}

static void test_uvm_whole_blocks(void **state)
{
	struct fixture *f = *state;
	char *a;

	configure(f, (struct backend_managed){.whole_blocks = true});
	a = managed(f, 2 * BLOCK);
	assert_int_equal(touch(f, f->stream, a, KIB(4)), 0);
	expect_costs(f, FIRST_NS - 5 * BATCH_NS, 0, 0);
	assert_int_equal(touch(f, f->stream, a, 2 * BLOCK), 0);
	expect_costs(f, FIRST_NS - 5 * BATCH_NS, 0, 0);
	f->b->managed->free(f->b, a);
}

/* The last block of a range takes pieces of 64 KiB. */
static void test_uvm_short_block(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, 17 * KIB(4) + 1);

	assert_int_equal(touch(f, f->stream, a, 17 * KIB(4) + 1), 0);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU0), KIB(128));
	expect_costs(f, BATCH_NS + 18 * PAGE_NS + POPULATE_NS, 0, 0);
	f->b->managed->free(f->b, a);
}

static void test_uvm_demand(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, 2 * BLOCK);

	/* What the CPU holds is taken from it page by page. */
	assert_int_equal(f->b->managed->prefetch(f->b, f->stream, a, 2 * BLOCK, HOST), 0);
	assert_int_equal(wait_idle(f, f->stream), 0);
	expect_costs(f, 2 * PAGES * HOST_PAGE_NS, 0, 0);
	assert_int_equal(f->b->ops->memory_used(f->b, HOST), 2 * BLOCK);
	assert_int_equal(touch(f, f->stream, a, BLOCK), 0);
	expect_costs(f, 0, DEMAND_NS + PAGES * CPU_UNMAP_NS, 0);
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_DEMAND], BLOCK);
	assert_int_equal(stats_of(f, 0).nr_first_touches, 0);
	/* A prefetch takes the larger of its thread's time and the link's. */
	assert_int_equal(f->b->managed->prefetch(f->b, f->stream, a, 2 * BLOCK, GPU0), 0);
	assert_int_equal(wait_idle(f, f->stream), 0);
	expect_costs(f, 0, LATENCY_NS + COPY_NS + IN_NS, 0);
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_PREFETCH], BLOCK);
	/* The host keeps its pages until the end. */
	assert_int_equal(f->b->ops->memory_used(f->b, HOST), 2 * BLOCK);
	f->b->managed->free(f->b, a);
}

static void test_uvm_prefetch_first(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, 3 * BLOCK);

	assert_int_equal(f->b->managed->prefetch(f->b, f->stream, a, 3 * BLOCK, GPU0), 0);
	assert_int_equal(wait_idle(f, f->stream), 0);
	expect_costs(f, 3 * POPULATE_NS, 0, 0);
	assert_int_equal(touch(f, f->stream, a, 3 * BLOCK), 0);
	expect_costs(f, 0, 0, 0);
	assert_int_equal(stats_of(f, 0).nr_faults, 0);
	assert_int_equal(stats_of(f, 0).nr_first_touches, 3);
	f->b->managed->free(f->b, a);
}

/* What came in first goes out first, however much it is used. */
static void test_uvm_eviction_order(void **state)
{
	struct fixture *f = *state;
	char *a, *b, *c;

	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK});
	a = managed(f, BLOCK);
	b = managed(f, BLOCK);
	c = managed(f, BLOCK);
	assert_int_equal(touch(f, f->stream, a, BLOCK), 0);
	assert_int_equal(touch(f, f->stream, b, BLOCK), 0);
	assert_int_equal(touch(f, f->stream, a, BLOCK), 0);
	expect_costs(f, 2 * FIRST_NS, 0, 0);
	assert_int_equal(touch(f, f->stream, c, BLOCK), 0);
	expect_costs(f, FIRST_NS, 0, EVICT_NS + PAGES * HOST_PAGE_NS);
	assert_int_equal(touch(f, f->stream, b, BLOCK), 0);
	expect_costs(f, 0, 0, 0);
	/* a comes back, and pushes out b: no page of the CPU is involved. */
	assert_int_equal(touch(f, f->stream, a, BLOCK), 0);
	expect_costs(f, 0, DEMAND_NS, EVICT_NS + PAGES * HOST_PAGE_NS);
	/* b for c, and c for a, whose host pages are there. */
	assert_int_equal(touch(f, f->stream, b, BLOCK), 0);
	assert_int_equal(touch(f, f->stream, c, BLOCK), 0);
	expect_costs(f, 0, 2 * DEMAND_NS, 2 * EVICT_NS + PAGES * HOST_PAGE_NS);
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION], 4 * BLOCK);
	assert_int_equal(stats_of(f, 0).gpu_peak_bytes, 2 * BLOCK);
	assert_int_equal(stats_of(f, 0).host_peak_bytes, 3 * BLOCK);

	/* Freeing throws host pages away: the next ones cost again. */
	f->b->managed->free(f->b, a);
	assert_int_equal(f->b->ops->memory_used(f->b, HOST), 2 * BLOCK);
	a = managed(f, BLOCK);
	assert_int_equal(touch(f, f->stream, a, BLOCK), 0);
	assert_int_equal(touch(f, f->stream, b, BLOCK), 0);
	assert_int_equal(touch(f, f->stream, c, BLOCK), 0);
	expect_costs(f, FIRST_NS, 2 * DEMAND_NS, 3 * EVICT_NS + PAGES * HOST_PAGE_NS);
	f->b->managed->free(f->b, a);
	f->b->managed->free(f->b, b);
	f->b->managed->free(f->b, c);
}

/* The program's context takes room that managed memory never has, whatever its budget. */
static void test_uvm_context(void **state)
{
	static struct fixture f;
	struct weir_machine_desc desc;
	void *plain = NULL;
	uint64_t all = 0;
	char *a;

	(void)state;
	memset(&f, 0, sizeof(f));
	test_machine(&desc);
	desc.uvm = (struct weir_uvm_desc){256,		BATCH_NS,     PAGE_NS,	POPULATE_NS,
					  CPU_UNMAP_NS, HOST_PAGE_NS, BLOCK + 1};
	desc.memory[GPU0].bytes = 5 * BLOCK;
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &f.sim), 0);
	f.b = f.sim;
	assert_int_equal(f.b->ops->stream_create(f.b, 0, BACKEND_COMPUTE, &f.stream), 0);
	assert_int_equal(f.b->ops->stream_create(f.b, 1, BACKEND_COMPUTE, &f.other), 0);
	/* Of five blocks the context leaves three whole ones. */
	for (int i = 0; i < 3; i++) {
		static const uint64_t budget[] = {0, 5 * BLOCK, 2 * BLOCK};
		const uint64_t fit = i == 2 ? 2 : 3;

		configure(&f, (struct backend_managed){.gpu_bytes = budget[i]});
		a = managed(&f, fit * BLOCK + BLOCK);
		assert_int_equal(touch(&f, f.stream, a, fit * BLOCK), 0);
		expect_costs(&f, fit * FIRST_NS, 0, 0);
		assert_int_equal(touch(&f, f.stream, a + fit * BLOCK, BLOCK), 0);
		expect_costs(&f, FIRST_NS, 0, EVICT_NS + PAGES * HOST_PAGE_NS);
		assert_int_equal(stats_of(&f, 0).gpu_peak_bytes, 3 * BLOCK);
		f.b->managed->free(f.b, a);
	}
	/* Beside other memory, too. */
	configure(&f, (struct backend_managed){0});
	assert_int_equal(f.b->ops->device_alloc(f.b, GPU0, BLOCK, &plain), 0);
	a = managed(&f, 3 * BLOCK);
	assert_int_equal(touch(&f, f.stream, a, 3 * BLOCK), 0);
	assert_int_equal(f.b->ops->memory_used(f.b, GPU0), 3 * BLOCK);
	f.b->managed->free(f.b, a);
	f.b->ops->device_free(f.b, plain);
	/* What all memories together could not hold is refused. */
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		all += desc.memory[m].bytes;
	assert_int_equal(f.b->managed->alloc(f.b, all - BLOCK, &plain), -ENOMEM);
	state = (void *[]){&f};
	assert_int_equal(teardown(state), 0);
}

static struct weir_use random_use(void *addr, uint64_t bytes, uint64_t pages)
{
	return (struct weir_use){.addr = addr,
				 .bytes = bytes,
				 .kind = WEIR_READ,
				 .pattern = WEIR_RANDOM,
				 .read_bytes = pages * KIB(4),
				 .granule = KIB(4)};
}

/* Faults of many blocks share batches; a batch has one of each block. */
static void test_uvm_random_batches(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, 4 * BLOCK);
	struct weir_use use = random_use(a, 4 * BLOCK, 100000);

	assert_int_equal(launch_touch(f->b, f->stream, (struct touch){0}, &use, 1), 0);
	assert_int_equal(wait_idle(f, f->stream), 0);
	assert_int_equal(stats_of(f, 0).nr_faults, 4 * 14);
	/* Each batch has a fault of each block. */
	expect_costs(f, 14 * (BATCH_NS + 3 * BLOCK_NS) + 4 * (PAGES * PAGE_NS + POPULATE_NS), 0, 0);
	f->b->managed->free(f->b, a);
}

/* A few pieces touch as many pages as chance has it, the same in every run. */
static void test_uvm_random_sparse(void **state)
{
	struct fixture *f = *state;
	uint64_t faults[2], nr;

	for (int i = 0; i < 2; i++) {
		char *a = managed(f, 6 * BLOCK);
		struct weir_use use = random_use(a, 6 * BLOCK, 3);

		nr = stats_of(f, 0).nr_faults;
		assert_int_equal(launch_touch(f->b, f->stream, (struct touch){0}, &use, 1), 0);
		assert_int_equal(wait_idle(f, f->stream), 0);
		faults[i] = stats_of(f, 0).nr_faults - nr;
		assert_in_range(faults[i], 1, 4);
		assert_int_equal(f->b->ops->memory_used(f->b, GPU0), faults[i] * BLOCK);
		f->b->managed->free(f->b, a);
	}
	assert_int_equal(faults[0], faults[1]);
}

/* A random use of more than fits comes to its end, and moves blocks again and again. */
static void test_uvm_random_beyond_memory(void **state)
{
	struct fixture *f = *state;
	struct weir_use use;
	char *a;

	configure(f, (struct backend_managed){.gpu_bytes = 3 * BLOCK});
	a = managed(f, 4 * BLOCK);
	assert_int_equal(touch(f, f->stream, a, 4 * BLOCK), 0);
	use = random_use(a, 4 * BLOCK, 4 * 20);
	assert_int_equal(launch_touch(f->b, f->stream, (struct touch){0}, &use, 1), 0);
	assert_int_equal(wait_idle(f, f->stream), 0);
	/* One of four is missing whenever the use comes by, 20 times. */
	assert_in_range(stats_of(f, 0).bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION] / BLOCK, 15, 81);
	f->b->managed->free(f->b, a);
}

/* As many touches of each of three blocks, where two fit. */
static int touch_three(struct fixture *f, char *a, uint64_t touches)
{
	struct weir_use use = random_use(a, 3 * BLOCK, 3 * touches);

	assert_int_equal(launch_touch(f->b, f->stream, (struct touch){0}, &use, 1), 0);
	return wait_idle(f, f->stream);
}

/* Blocks that one batch brings, and that evict one another, have been touched by it. */
static void test_uvm_random_beyond_batch(void **state)
{
	struct fixture *f = *state;
	uint64_t out;
	char *a;

	alarm(20);
	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK, .whole_blocks = true});
	a = managed(f, 3 * BLOCK);
	/* The third evicts the first. Each of seven more looks finds one missing. */
	assert_int_equal(touch_three(f, a, 8), 0);
	assert_int_equal(stats_of(f, 0).nr_faults, 3 + 7);
	out = stats_of(f, 0).bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION];
	assert_int_equal(out, (1 + 7) * BLOCK);
	f->b->managed->free(f->b, a);

	/* Without whole blocks, each look brings what it can keep: it ends, too. */
	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK});
	a = managed(f, 3 * BLOCK);
	assert_int_equal(touch_three(f, a, 4096), 0);
	out = stats_of(f, 0).bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION] - out;
	assert_in_range(out / BLOCK, 2048, 4096);
	f->b->managed->free(f->b, a);
	alarm(0);
}

static int nr_asked;

static int stop_soon(void)
{
	return ++nr_asked > 100;
}

/* A launch asks between its batches whether to stop; what it brought before stays. */
static void test_uvm_stop(void **state)
{
	struct fixture *f = *state;
	char *a;

	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK});
	a = managed(f, 3 * BLOCK);
	nr_asked = 0;
	sim_set_stop(f->sim, stop_soon);
	assert_int_equal(touch_three(f, a, 1 << 30), -EINTR);
	assert_int_equal(nr_asked, 101);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU0), 2 * BLOCK);
	f->b->managed->free(f->b, a);
}

/* Several streams in one launch go on together: none evicts what it has come past. */
static void test_uvm_streams_in_step(void **state)
{
	struct fixture *f = *state;
	struct weir_use uses[2];
	char *a, *b;

	configure(f, (struct backend_managed){.gpu_bytes = 5 * BLOCK});
	a = managed(f, 4 * BLOCK);
	b = managed(f, 4 * BLOCK);
	assert_int_equal(touch(f, f->stream, a, 4 * BLOCK), 0);
	expect_costs(f, 4 * FIRST_NS, 0, 0);
	uses[0] = use_of(a, 4 * BLOCK, WEIR_READ);
	uses[1] = use_of(b, 4 * BLOCK, WEIR_OVERWRITE);
	assert_int_equal(launch_touch(f->b, f->stream, (struct touch){0}, uses, 2), 0);
	assert_int_equal(wait_idle(f, f->stream), 0);
	expect_costs(f, 4 * FIRST_NS, 0, 3 * (EVICT_NS + PAGES * HOST_PAGE_NS));
	f->b->managed->free(f->b, a);
	f->b->managed->free(f->b, b);
}

static void count_full(void *arg, enum weir_log_level level, const char *message)
{
	if (level == WEIR_LOG_ERROR && strstr(message, "memory 'host' is full"))
		++*(int *)arg;
}

/* Other allocations push managed memory out; with a full host, nothing goes. */
static void test_uvm_memory_full(void **state)
{
	struct fixture *f = *state;
	void *plain = NULL;
	int nr_full = 0;
	char *a;

	configure(f, (struct backend_managed){.host_bytes = 2 * BLOCK});
	a = managed(f, MIB(16));
	assert_int_equal(touch(f, f->stream, a, MIB(16)), 0);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU0), MIB(16));
	assert_int_equal(f->b->ops->device_alloc(f->b, GPU0, 2 * BLOCK, &plain), 0);
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION], 2 * BLOCK);
	assert_int_equal(f->b->ops->memory_used(f->b, HOST), 2 * BLOCK);
	/* The first two blocks come back into pages that others must leave. */
	weir_log_set(count_full, &nr_full);
	assert_int_equal(touch(f, f->stream, a, BLOCK), -ENOMEM);
	assert_int_equal(f->b->ops->device_alloc(f->b, GPU0, BLOCK, &plain), -ENOMEM);
	weir_log_set(NULL, NULL);
	assert_int_equal(nr_full, 2);
	f->b->ops->device_free(f->b, plain);
	assert_int_equal(touch(f, f->stream, a, MIB(16)), 0);
	f->b->managed->free(f->b, a);
}

/* From one GPU to the other by way of the host. */
static void test_uvm_two_devices(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, 2 * BLOCK);

	assert_int_equal(touch(f, f->stream, a, 2 * BLOCK), 0);
	assert_int_equal(touch(f, f->other, a, BLOCK), 0);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU0), BLOCK);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU1), BLOCK);
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_HOST][WEIR_CAUSE_DEMAND], BLOCK);
	assert_int_equal(stats_of(f, 1).bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_DEMAND], BLOCK);
	assert_int_equal(touch(f, f->stream, a, 2 * BLOCK), 0);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU1), 0);
	f->b->managed->free(f->b, a);
}

static void test_uvm_arguments(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct backend_managed bad = {.device = 2};
	struct backend_managed_stats stats;
	struct weir_use use;
	char *a = managed(f, BLOCK);
	void *none = NULL;

	assert_int_equal(b->managed->setup(b, &bad), -EINVAL);
	bad = (struct backend_managed){.gpu_bytes = MIB(16) + 1};
	assert_int_equal(b->managed->setup(b, &bad), -EINVAL);
	bad = (struct backend_managed){.host_bytes = MIB(64) + 1};
	assert_int_equal(b->managed->setup(b, &bad), -EINVAL);
	bad = (struct backend_managed){.gpu_bytes = BLOCK};
	assert_int_equal(b->managed->setup(b, &bad), -EBUSY);
	assert_int_equal(b->managed->stats(b, 2, &stats), -EINVAL);
	assert_int_equal(b->managed->alloc(b, 0, &none), -EINVAL);
	assert_int_equal(b->managed->alloc(b, UINT64_MAX, &none), -ENOMEM);
	/* Beyond what all memories hold together. */
	assert_int_equal(b->managed->alloc(b, MIB(64 + 32), &none), -ENOMEM);
	assert_null(none);
	use = use_of(a, BLOCK + 1, WEIR_READ);
	assert_int_equal(launch_touch(b, f->stream, (struct touch){0}, &use, 1), -EINVAL);
	assert_int_equal(b->managed->prefetch(b, f->stream, a, BLOCK + 1, GPU0), -EINVAL);
	assert_int_equal(b->managed->prefetch(b, f->stream, a, 0, GPU0), -EINVAL);
	assert_int_equal(b->managed->prefetch(b, f->stream, a, BLOCK, GPU1), -EINVAL);
	assert_int_equal(b->managed->prefetch(b, 99, a, BLOCK, GPU0), -EINVAL);
	b->managed->free(b, NULL);
	b->managed->free(b, a);
}

/* Without the section there is no managed memory, and the log says so. */
static void test_uvm_not_described(void **state)
{
	const struct backend_managed any = {0};
	struct weir_machine_desc desc;
	struct backend *b;
	void *addr;

	(void)state;
	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &b), 0);
	assert_int_equal(b->managed->setup(b, &any), -ENOSYS);
	assert_int_equal(b->managed->alloc(b, BLOCK, &addr), -ENOSYS);
	b->ops->destroy(b);
}

/* Bytes are what was written, wherever the model says that they are. */
static void test_uvm_real_bytes(void **state)
{
	struct fixture *f = *state;
	uint8_t *a, in[3] = {1, 2, 3}, out[3] = {0};
	struct weir_use use;
	uint32_t sum = 0;

	configure(f, (struct backend_managed){.gpu_bytes = 2 * BLOCK});
	a = managed(f, 4 * BLOCK);
	assert_int_equal(f->b->ops->upload(f->b, f->stream, a, in, 3), 0);
	use = use_of(a + BLOCK, 3 * BLOCK, WEIR_WRITE);
	assert_int_equal(launch_touch(f->b, f->stream,
				      (struct touch){.write = a + 2 * BLOCK, .value = 9}, &use, 1),
			 0);
	use = use_of(a, 4 * BLOCK, WEIR_READ);
	assert_int_equal(launch_touch(f->b, f->stream,
				      (struct touch){.read = a + 2 * BLOCK, .sum = &sum}, &use, 1),
			 0);
	assert_int_equal(f->b->ops->download(f->b, f->stream, out, a, 3), 0);
	assert_int_equal(sum, 9);
	assert_memory_equal(in, out, 3);
	assert_true(stats_of(f, 0).bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION] > BLOCK);
	f->b->managed->free(f->b, a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_uvm_first_touch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_whole_blocks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_short_block, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_demand, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_prefetch_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_eviction_order, setup, teardown),
		cmocka_unit_test(test_uvm_context),
		cmocka_unit_test_setup_teardown(test_uvm_random_batches, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_random_sparse, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_random_beyond_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_random_beyond_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_stop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_streams_in_step, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_memory_full, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_two_devices, setup, teardown),
		cmocka_unit_test_setup_teardown(test_uvm_arguments, setup, teardown),
		cmocka_unit_test(test_uvm_not_described),
		cmocka_unit_test_setup_teardown(test_uvm_real_bytes, setup_real, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
