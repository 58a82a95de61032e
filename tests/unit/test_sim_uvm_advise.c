/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice on managed memory, on a simulated machine whose costs are round numbers: what is copied,
 * kept, mapped and used in place, and what that takes, is worked out by hand.
 */
#include "src/backend/flaky/flaky.h"
#include "tests/unit/test_sim_uvm.h"

/* Of the test machine. */
#define IN_PLACE_NS (BLOCK / 2) /* over the link at 2 bytes a nanosecond, one way */
#define LAUNCH_NS 500u
/* Both ways at a time: the link has 1 byte a nanosecond for each. */
#define IN_PLACE_BOTH_NS BLOCK
/* A block read, and read and written, in HBM, at 100 bytes a nanosecond; rounded up. */
#define HBM_READ_NS ((BLOCK + 99) / 100)
#define HBM_BOTH_NS ((2 * BLOCK + 99) / 100)

/* ------------------------------------------------------------------ what is done */

static void limit(struct fixture *f, uint64_t gpu_bytes)
{
	const struct backend_managed setup_of = {.gpu_bytes = gpu_bytes};

	assert_int_equal(f->b->managed->setup(f->b, &setup_of), 0);
}

static void touch(struct fixture *f, void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	assert_int_equal(touch_on(f, f->stream, addr, bytes, kind), 0);
}

static void prefetch(struct fixture *f, void *addr, uint64_t bytes, uint32_t memory)
{
	assert_int_equal(f->b->managed->prefetch(f->b, f->stream, addr, bytes, memory), 0);
	assert_int_equal(wait_idle(f, f->stream), 0);
}

/* Advise a block. @return how long the call takes. */
static uint64_t advise(struct fixture *f, void *addr, enum backend_advice advice, uint32_t to)
{
	uint64_t begin = f->b->ops->now_ns(f->b);

	assert_int_equal(f->b->managed->advise(f->b, addr, BLOCK, advice, to), 0);
	return f->b->ops->now_ns(f->b) - begin;
}

/* ------------------------------------------------------------------ what is expected */

static void expect_nothing(struct fixture *f)
{
	expect_costs_of(f, (struct costs){0});
}

static void expect_in_place(struct fixture *f, uint64_t read, uint64_t written)
{
	uint64_t bytes[BACKEND_DIRECTION_NR];

	f->b->observe->inplace_bytes(f->b, 0, HOST, bytes);
	assert_int_equal(bytes[BACKEND_TO_DEVICE], read);
	assert_int_equal(bytes[BACKEND_TO_HOST], written);
}

static void expect_used(struct fixture *f, uint64_t host, uint64_t gpu0, uint64_t gpu1)
{
	assert_int_equal(f->b->ops->memory_used(f->b, HOST), host);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU0), gpu0);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU1), gpu1);
}

/* A block with contents on the host that the CPU has not mapped: evicted by another one. */
static void *evicted(struct fixture *f)
{
	char *a, *b;

	limit(f, BLOCK);
	a = managed(f, BLOCK);
	b = managed(f, BLOCK);
	touch(f, a, BLOCK, WEIR_OVERWRITE);
	touch(f, b, BLOCK, WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.first = 2 * FIRST_NS,
					  .eviction = EVICT_NS + PAGES * HOST_PAGE_NS});
	f->b->managed->free(f->b, b);
	return a;
}

/* ------------------------------------------------------------------ read mostly */

/* A read copies and the host keeps its own: going out again copies nothing. */
static void test_advice_read_mostly(void **state)
{
	struct fixture *f = *state;
	char *a = evicted(f), *b = managed(f, BLOCK);

	assert_int_equal(advise(f, a, BACKEND_ADVICE_READ_MOSTLY, 0), 0);
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.demand = DEMAND_NS});
	touch(f, a, BLOCK, WEIR_READ);
	expect_nothing(f);
	touch(f, b, BLOCK, WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.first = FIRST_NS, .eviction = BLOCK_NS + PAGES_NS});
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION], BLOCK);
	/* And once more, there and back. */
	touch(f, a, BLOCK, WEIR_READ);
	touch(f, b, BLOCK, WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.demand = 2 * DEMAND_NS,
					  .eviction = EVICT_NS + PAGES * HOST_PAGE_NS + BLOCK_NS +
						      PAGES_NS});
	expect_in_place(f, 0, 0);
	f->b->managed->free(f->b, a);
	f->b->managed->free(f->b, b);
}

/* A write to what has two copies faults once, as all of the block is there, and leaves one. */
static void test_advice_write_collapses(void **state)
{
	struct fixture *f = *state;
	char *a = evicted(f), *b = managed(f, BLOCK);
	uint64_t nr;

	advise(f, a, BACKEND_ADVICE_READ_MOSTLY, 0);
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.demand = DEMAND_NS});
	nr = stats_of(f, 0).nr_faults;
	touch(f, a, KIB(4), WEIR_WRITE);
	expect_costs_of(f, (struct costs){.demand = BATCH_NS + PAGES_NS});
	assert_int_equal(stats_of(f, 0).nr_faults, nr + 1);
	touch(f, a, BLOCK, WEIR_WRITE);
	expect_nothing(f);
	/* The only copy goes out as any, to host pages that are there. */
	touch(f, b, BLOCK, WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.first = FIRST_NS, .eviction = EVICT_NS});
	/* A write to what the host alone has leaves it none either. */
	touch(f, a, BLOCK, WEIR_WRITE);
	touch(f, b, BLOCK, WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.demand = 2 * DEMAND_NS,
					  .eviction = 2 * EVICT_NS + PAGES * HOST_PAGE_NS});
	f->b->managed->free(f->b, a);
	f->b->managed->free(f->b, b);
}

/* A part of a block that has two copies: the tree over it says how much a write takes. */
static void test_advice_write_collapses_part(void **state)
{
	struct fixture *f = *state;
	char *a = evicted(f);

	advise(f, a, BACKEND_ADVICE_READ_MOSTLY, 0);
	touch(f, a, KIB(64), WEIR_READ);
	expect_costs_of(f, (struct costs){.demand = BATCH_NS + LATENCY_NS + COPY_NS + 16 * PAGE_NS +
						    POPULATE_NS + IN_NS / 32});
	touch(f, a, KIB(4), WEIR_WRITE);
	expect_costs_of(f, (struct costs){.demand = BATCH_NS + 16 * PAGE_NS});
	f->b->managed->free(f->b, a);
}

/* Prefetches copy, either way, and what the CPU had mapped is taken from it by a write alone. */
static void test_advice_read_mostly_prefetch(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, BLOCK);

	advise(f, a, BACKEND_ADVICE_READ_MOSTLY, 0);
	touch(f, a, BLOCK, WEIR_OVERWRITE);
	prefetch(f, a, BLOCK, HOST);
	expect_costs_of(f, (struct costs){.first = FIRST_NS,
					  .eviction = PREFETCH_OUT_NS + PAGES * HOST_PAGE_NS});
	expect_used(f, BLOCK, BLOCK, 0);
	touch(f, a, BLOCK, WEIR_READ);
	expect_nothing(f);
	touch(f, a, BLOCK, WEIR_WRITE);
	expect_costs_of(f, (struct costs){.demand = BATCH_NS + PAGES_NS + PAGES * CPU_UNMAP_NS});
	prefetch(f, a, BLOCK, HOST);
	expect_costs_of(f, (struct costs){.eviction = PREFETCH_OUT_NS});
	/* It is there: nothing to copy once more, or back. */
	prefetch(f, a, BLOCK, HOST);
	prefetch(f, a, BLOCK, GPU0);
	expect_nothing(f);
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_PREFETCH], 0);
	assert_int_equal(stats_of(f, 0).bytes[BACKEND_TO_HOST][WEIR_CAUSE_PREFETCH], 2 * BLOCK);
	f->b->managed->free(f->b, a);
}

/* Said no more, one copy is left: the preferred memory's, else the host's. */
static void test_advice_unset_read_mostly(void **state)
{
	struct fixture *f = *state;
	char *a = evicted(f);

	advise(f, a, BACKEND_ADVICE_READ_MOSTLY, 0);
	prefetch(f, a, BLOCK, GPU0);
	expect_costs_of(f, (struct costs){.demand = LATENCY_NS + COPY_NS + IN_NS});
	expect_used(f, BLOCK, BLOCK, 0);
	assert_int_equal(advise(f, a, BACKEND_ADVICE_UNSET_READ_MOSTLY, 0), PAGES_NS);
	expect_used(f, BLOCK, 0, 0);
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.demand = DEMAND_NS});

	advise(f, a, BACKEND_ADVICE_READ_MOSTLY, 0);
	prefetch(f, a, BLOCK, HOST);
	expect_costs_of(f, (struct costs){.eviction = PREFETCH_OUT_NS});
	advise(f, a, BACKEND_ADVICE_PREFERRED, GPU0);
	assert_int_equal(advise(f, a, BACKEND_ADVICE_UNSET_READ_MOSTLY, 0), PAGES_NS);
	expect_used(f, BLOCK, BLOCK, 0);
	touch(f, a, BLOCK, WEIR_WRITE);
	expect_nothing(f);
	f->b->managed->free(f->b, a);
}

/* ------------------------------------------------------------------ preferred memory */

/* The host's, of a block without contents: it gets them there, mapped by one fault. */
static void test_advice_preferred_host_first(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, 2 * BLOCK);

	assert_int_equal(advise(f, a, BACKEND_ADVICE_PREFERRED, HOST), 0);
	touch(f, a, BLOCK, WEIR_READ);
	/* The link is busy for longer than the fault and the kernel's own time take. */
	expect_costs_of(
		f, (struct costs){.first = BATCH_NS + PAGES_NS + PAGES * HOST_PAGE_NS,
				  .in_place = IN_PLACE_NS - (BATCH_NS + PAGES_NS +
							     PAGES * HOST_PAGE_NS + HBM_READ_NS)});
	expect_used(f, BLOCK, 0, 0);
	expect_in_place(f, BLOCK, 0);
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.in_place = IN_PLACE_NS - HBM_READ_NS});
	touch(f, a, BLOCK, WEIR_WRITE);
	expect_costs_of(f, (struct costs){.in_place = IN_PLACE_BOTH_NS - HBM_BOTH_NS});
	expect_in_place(f, 3 * BLOCK, BLOCK);
	assert_int_equal(stats_of(f, 0).nr_faults, 1);
	assert_int_equal(stats_of(f, 0).nr_first_touches, 0);
	/* The other block is not advised. */
	touch(f, a + BLOCK, BLOCK, WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.first = FIRST_NS});
	/* Half of it is in place. */
	touch(f, a, 2 * BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.in_place = IN_PLACE_NS - (2 * BLOCK + 99) / 100});
	expect_in_place(f, 4 * BLOCK, BLOCK);
	f->b->managed->free(f->b, a);
}

/* What the CPU has mapped is mapped for the device a page a fault; what was evicted, at once. */
static void test_advice_preferred_host_faults(void **state)
{
	struct fixture *f = *state;
	char *a = evicted(f), *b = managed(f, BLOCK);

	advise(f, a, BACKEND_ADVICE_PREFERRED, HOST);
	advise(f, b, BACKEND_ADVICE_PREFERRED, HOST);
	touch(f, a, KIB(4), WEIR_READ);
	/* The link needs 2048 ns, beside the fault and the kernel. */
	expect_costs_of(f, (struct costs){.in_place = BATCH_NS + PAGES_NS});
	assert_int_equal(stats_of(f, 0).nr_faults, 13);
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.in_place = IN_PLACE_NS - HBM_READ_NS});
	prefetch(f, b, BLOCK, HOST);
	expect_costs_of(f, (struct costs){.first = PAGES * HOST_PAGE_NS});
	touch(f, b, 3 * KIB(4), WEIR_READ);
	expect_costs_of(f, (struct costs){.in_place = 3 * KIB(4) / 2 - LAUNCH_NS});
	assert_int_equal(stats_of(f, 0).nr_faults, 16);
	expect_used(f, 2 * BLOCK, 0, 0);
	f->b->managed->free(f->b, a);
	f->b->managed->free(f->b, b);
}

/* A prefetch moves to where it says; what is evicted then is used where it went. */
static void test_advice_preferred_host_prefetch(void **state)
{
	struct fixture *f = *state;
	char *a = evicted(f), *b = managed(f, BLOCK);

	advise(f, a, BACKEND_ADVICE_PREFERRED, HOST);
	prefetch(f, a, BLOCK, GPU0);
	expect_costs_of(f, (struct costs){.demand = LATENCY_NS + COPY_NS + IN_NS});
	touch(f, a, BLOCK, WEIR_READ);
	expect_nothing(f);
	touch(f, b, BLOCK, WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.first = FIRST_NS, .eviction = EVICT_NS});
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.in_place = IN_PLACE_NS - HBM_READ_NS});
	assert_int_equal(advise(f, a, BACKEND_ADVICE_PREFERRED, GPU0), PAGES_NS);
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.demand = DEMAND_NS,
					  .eviction = EVICT_NS + PAGES * HOST_PAGE_NS});
	f->b->managed->free(f->b, a);
	f->b->managed->free(f->b, b);
}

/* A device's: one fault gives it a whole block; other devices get single pages. */
static void test_advice_preferred_gpu(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, 2 * BLOCK);

	advise(f, a, BACKEND_ADVICE_PREFERRED, GPU0);
	touch(f, a, KIB(4), WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.first = BATCH_NS + PAGES_NS + POPULATE_NS});
	touch(f, a, BLOCK, WEIR_WRITE);
	expect_nothing(f);
	prefetch(f, a, BLOCK, HOST);
	expect_used(f, BLOCK, 0, 0);
	advise(f, a + BLOCK, BACKEND_ADVICE_PREFERRED, GPU1);
	touch(f, a + BLOCK, 3 * KIB(4), WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.first = 3 * (BATCH_NS + PAGE_NS) + POPULATE_NS,
					  .eviction = PREFETCH_OUT_NS + PAGES * HOST_PAGE_NS});
	f->b->managed->free(f->b, a);
}

/* What another device has goes to the host, and both use it there. */
static void test_advice_preferred_host_two_devices(void **state)
{
	struct fixture *f = *state;
	char *a = managed(f, BLOCK);

	assert_int_equal(touch_on(f, f->other, a, BLOCK, WEIR_OVERWRITE), 0);
	expect_used(f, 0, 0, BLOCK);
	advise(f, a, BACKEND_ADVICE_PREFERRED, HOST);
	touch(f, a, BLOCK, WEIR_READ);
	expect_used(f, BLOCK, 0, 0);
	assert_int_equal(stats_of(f, 1).bytes[BACKEND_TO_HOST][WEIR_CAUSE_DEMAND], BLOCK);
	assert_int_equal(stats_of(f, 0).nr_faults, 1);
	assert_int_equal(touch_on(f, f->other, a, BLOCK, WEIR_READ), 0);
	assert_int_equal(stats_of(f, 1).nr_faults, 7);
	expect_in_place(f, BLOCK, 0);
	f->b->managed->free(f->b, a);
}

/* ------------------------------------------------------------------ who accesses */

/* What is on the host is mapped before it is touched, and again whenever it comes there. */
static void test_advice_accessed_by(void **state)
{
	struct fixture *f = *state;
	char *a = evicted(f), *b = managed(f, BLOCK);

	assert_int_equal(advise(f, a, BACKEND_ADVICE_ACCESSED_BY, 0), PAGES_NS);
	assert_int_equal(advise(f, a, BACKEND_ADVICE_ACCESSED_BY, 0), 0);
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.in_place = IN_PLACE_NS - HBM_READ_NS});
	/* Without contents, it gets its place on the device. */
	assert_int_equal(advise(f, b, BACKEND_ADVICE_ACCESSED_BY, 0), 0);
	touch(f, b, BLOCK, WEIR_OVERWRITE);
	expect_costs_of(f, (struct costs){.first = FIRST_NS});
	prefetch(f, a, BLOCK, GPU0);
	expect_costs_of(f, (struct costs){.demand = LATENCY_NS + COPY_NS + IN_NS,
					  .eviction = EVICT_NS + PAGES * HOST_PAGE_NS});
	touch(f, b, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.in_place = IN_PLACE_NS - HBM_READ_NS});
	assert_int_equal(stats_of(f, 0).nr_faults, 18);
	/* Its mappings outlive it; those of another device are not this one's. */
	assert_int_equal(advise(f, b, BACKEND_ADVICE_UNSET_ACCESSED_BY, 0), 0);
	touch(f, b, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.in_place = IN_PLACE_NS - HBM_READ_NS});
	assert_int_equal(touch_on(f, f->other, b, BLOCK, WEIR_READ), 0);
	expect_used(f, 2 * BLOCK, BLOCK, BLOCK);
	f->b->managed->free(f->b, a);
	f->b->managed->free(f->b, b);
}

/* Read mostly goes before the preferred memory, and that before who accesses; none is forgotten. */
static void test_advice_precedence(void **state)
{
	struct fixture *f = *state;
	char *a = evicted(f);

	advise(f, a, BACKEND_ADVICE_ACCESSED_BY, 0);
	assert_int_equal(advise(f, a, BACKEND_ADVICE_PREFERRED, GPU0), PAGES_NS);
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.demand = DEMAND_NS});
	expect_in_place(f, 0, 0);
	prefetch(f, a, BLOCK, HOST);
	expect_costs_of(f, (struct costs){.eviction = PREFETCH_OUT_NS});
	assert_int_equal(advise(f, a, BACKEND_ADVICE_UNSET_PREFERRED, 0), PAGES_NS);
	touch(f, a, BLOCK, WEIR_READ);
	expect_costs_of(f, (struct costs){.in_place = IN_PLACE_NS - HBM_READ_NS});
	advise(f, a, BACKEND_ADVICE_PREFERRED, HOST);
	assert_int_equal(advise(f, a, BACKEND_ADVICE_READ_MOSTLY, 0), PAGES_NS);
	/* Not where it is preferred: a page a fault. The CPU's mappings become read-only. */
	touch(f, a, 2 * KIB(4), WEIR_READ);
	expect_costs_of(f, (struct costs){.demand = POPULATE_NS +
						    2 * (BATCH_NS + LATENCY_NS + COPY_NS + PAGE_NS +
							 CPU_UNMAP_NS + KIB(4) / 4)});
	expect_in_place(f, BLOCK, 0);
	/* The host keeps what it has; all of it is mapped for the device again. */
	assert_int_equal(advise(f, a, BACKEND_ADVICE_UNSET_READ_MOSTLY, 0), (2 + PAGES) * PAGE_NS);
	expect_used(f, BLOCK, 0, 0);
	f->b->managed->free(f->b, a);
}

/* ------------------------------------------------------------------ arguments, failures */

static void test_advice_arguments(void **state)
{
	struct fixture *f = *state;
	const struct backend_ops *ops = f->b->ops;
	struct backend *b = f->b;
	char *a = managed(f, 2 * BLOCK + 100);
	void *plain;
	static const enum backend_advice any = BACKEND_ADVICE_READ_MOSTLY;

	assert_int_equal(ops->device_alloc(b, GPU0, BLOCK, &plain), 0);
	assert_int_equal(b->managed->advise(b, plain, BLOCK, any, 0), -EINVAL);
	ops->device_free(b, plain);
	assert_int_equal(b->managed->advise(b, NULL, BLOCK, any, 0), -EINVAL);
	assert_int_equal(b->managed->advise(b, a, 0, any, 0), -EINVAL);
	assert_int_equal(b->managed->advise(b, a, BLOCK - 1, any, 0), -EINVAL);
	assert_int_equal(b->managed->advise(b, a + KIB(4), BLOCK, any, 0), -EINVAL);
	assert_int_equal(b->managed->advise(b, a, 2 * BLOCK + 101, any, 0), -EINVAL);
	assert_int_equal(b->managed->advise(b, a, UINT64_MAX, any, 0), -EINVAL);
	assert_int_equal(b->managed->advise(b, a, BLOCK, BACKEND_ADVICE_NR, 0), -EINVAL);
	assert_int_equal(b->managed->advise(b, a, BLOCK, BACKEND_ADVICE_PREFERRED, 3), -EINVAL);
	assert_int_equal(b->managed->advise(b, a, BLOCK, BACKEND_ADVICE_ACCESSED_BY, 2), -EINVAL);
	assert_int_equal(b->managed->advise(b, a, BLOCK, BACKEND_ADVICE_UNSET_ACCESSED_BY, 2),
			 -EINVAL);
	assert_int_equal(b->managed->advise(b, a, 2 * BLOCK + 100, any, 99), 0);
	assert_int_equal(b->managed->advise(b, a + 2 * BLOCK, 100, any, 0), 0);
	b->managed->free(b, a);
}

/* A call that fails says nothing of the block. */
static void test_advice_refused(void **state)
{
	struct fixture *f = *state;
	struct backend *flaky;
	char *a;

	assert_int_equal(flaky_create(f->b, &flaky), 0);
	f->b = flaky;
	a = managed(f, BLOCK);
	flaky_arm(flaky, flaky_nr_calls(flaky) + 1, -EIO);
	assert_int_equal(flaky->managed->advise(flaky, a, BLOCK, BACKEND_ADVICE_PREFERRED, HOST),
			 -EIO);
	touch(f, a, BLOCK, WEIR_OVERWRITE);
	expect_used(f, 0, BLOCK, 0);
	advise(f, a, BACKEND_ADVICE_PREFERRED, HOST);
	prefetch(f, a, BLOCK, HOST);
	touch(f, a, KIB(4), WEIR_READ);
	expect_used(f, BLOCK, 0, 0);
	f->b->managed->free(f->b, a);
}

/* With a full host nothing can stay there: a launch fails, and the next one finds all in order. */
static void test_advice_host_full(void **state)
{
	struct fixture *f = *state;
	const struct backend_managed small = {.host_bytes = BLOCK};
	char *a;

	assert_int_equal(f->b->managed->setup(f->b, &small), 0);
	a = managed(f, 2 * BLOCK);
	advise(f, a, BACKEND_ADVICE_PREFERRED, HOST);
	advise(f, a + BLOCK, BACKEND_ADVICE_PREFERRED, HOST);
	assert_int_equal(touch_on(f, f->stream, a, 2 * BLOCK, WEIR_READ), -ENOMEM);
	expect_used(f, BLOCK, 0, 0);
	advise(f, a + BLOCK, BACKEND_ADVICE_UNSET_PREFERRED, 0);
	touch(f, a, 2 * BLOCK, WEIR_READ);
	expect_used(f, BLOCK, BLOCK, 0);
	f->b->managed->free(f->b, a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_advice_read_mostly),
		TEST(test_advice_write_collapses),
		TEST(test_advice_write_collapses_part),
		TEST(test_advice_read_mostly_prefetch),
		TEST(test_advice_unset_read_mostly),
		TEST(test_advice_preferred_host_first),
		TEST(test_advice_preferred_host_faults),
		TEST(test_advice_preferred_host_prefetch),
		TEST(test_advice_preferred_gpu),
		TEST(test_advice_preferred_host_two_devices),
		TEST(test_advice_accessed_by),
		TEST(test_advice_precedence),
		TEST(test_advice_arguments),
		TEST(test_advice_refused),
		TEST(test_advice_host_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
