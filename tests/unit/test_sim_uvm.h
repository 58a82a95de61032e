/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of managed memory on a simulated machine share: a machine whose costs are round
 * numbers, so that what faults, evictions and copies take is worked out by hand.
 */
#ifndef WEIR_TEST_SIM_UVM_H
#define WEIR_TEST_SIM_UVM_H

#include <errno.h>

#include "tests/unit/test_sim_machine.h"

#define BLOCK MIB(2)
#define PAGES 512u

#define BATCH_NS 1000u
#define BLOCK_NS 560u /* one more block that is serviced: UVM_BLOCK_SHARE of it */
#define PAGE_NS 10u
#define POPULATE_NS 5000u
#define CPU_UNMAP_NS 100u
#define HOST_PAGE_NS 50u

/* Of the test machine's link. */
#define LATENCY_NS 1000u
#define COPY_NS 100u
#define IN_NS (BLOCK / 4)
#define OUT_NS (BLOCK / 2)

#define PAGES_NS (PAGES * PAGE_NS)
#define FIRST_NS (6 * BATCH_NS + PAGES_NS + POPULATE_NS)
#define DEMAND_NS (6 * (BATCH_NS + LATENCY_NS + COPY_NS) + PAGES_NS + POPULATE_NS + IN_NS)
#define PREFETCH_OUT_NS (PAGES_NS + LATENCY_NS + COPY_NS + OUT_NS)
#define EVICT_NS (BLOCK_NS + PREFETCH_OUT_NS)

struct fixture {
	struct backend *b, *sim; /* the one, or a wrapper of it */
	stream_id_t stream, other;
	uint64_t seen[BACKEND_TIME_NR];
};

static inline int setup_data(void **state, enum weir_data data)
{
	static struct fixture f;
	struct weir_machine_desc desc;

	memset(&f, 0, sizeof(f));
	test_machine(&desc);
	desc.uvm = (struct weir_uvm_desc){256,		BATCH_NS,     PAGE_NS, POPULATE_NS,
					  CPU_UNMAP_NS, HOST_PAGE_NS, 0};
	assert_int_equal(sim_create(&desc, data, &f.sim), 0);
	f.b = f.sim;
	assert_int_equal(f.b->ops->stream_create(f.b, 0, BACKEND_COMPUTE, &f.stream), 0);
	assert_int_equal(f.b->ops->stream_create(f.b, 1, BACKEND_COMPUTE, &f.other), 0);
	*state = &f;
	return 0;
}

static inline int setup(void **state)
{
	return setup_data(state, WEIR_DATA_PHANTOM);
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	f->b->ops->stream_destroy(f->b, f->stream);
	f->b->ops->stream_destroy(f->b, f->other);
	assert_int_equal(sim_leaks(f->sim), 0);
	assert_int_equal(f->b->ops->memory_used(f->b, HOST), 0);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU0), 0);
	assert_int_equal(f->b->ops->memory_used(f->b, GPU1), 0);
	f->b->ops->destroy(f->b);
	return 0;
}

static inline void configure(struct fixture *f, struct backend_managed managed)
{
	assert_int_equal(f->b->managed->setup(f->b, &managed), 0);
}

static inline void *managed(struct fixture *f, uint64_t bytes)
{
	void *addr = NULL;

	assert_int_equal(f->b->managed->alloc(f->b, bytes, &addr), 0);
	return addr;
}

static inline int wait_idle(struct fixture *f, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(f->b->ops->fence_record(f->b, stream, &fence), 0);
	return f->b->ops->fence_wait(f->b, fence);
}

static inline int touch_on(struct fixture *f, stream_id_t stream, void *addr, uint64_t bytes,
			   enum weir_use_kind kind)
{
	const struct weir_use use = use_of(addr, bytes, kind);

	assert_int_equal(launch_touch(f->b, stream, (struct touch){0}, &use, 1), 0);
	return wait_idle(f, stream);
}

static inline struct backend_managed_stats stats_of(struct fixture *f, uint32_t device)
{
	struct backend_managed_stats stats;

	assert_int_equal(f->b->managed->stats(f->b, device, &stats), 0);
	return stats;
}

/* What managed memory cost a device. */
struct costs {
	uint64_t first, demand, eviction, in_place;
};

/* Time since the last look that managed memory cost device 0. All times add up to the clock. */
static inline void expect_costs_of(struct fixture *f, struct costs want)
{
	uint64_t now[BACKEND_TIME_NR], sum = 0;

	assert_int_equal(f->b->observe->device_times(f->b, 0, now), 0);
	for (int i = 0; i < BACKEND_TIME_NR; i++)
		sum += now[i];
	assert_int_equal(sum, f->b->ops->now_ns(f->b));
	assert_int_equal(now[BACKEND_TIME_FIRST_TOUCH] - f->seen[BACKEND_TIME_FIRST_TOUCH],
			 want.first);
	assert_int_equal(now[BACKEND_TIME_DEMAND] - f->seen[BACKEND_TIME_DEMAND], want.demand);
	assert_int_equal(now[BACKEND_TIME_EVICTION] - f->seen[BACKEND_TIME_EVICTION],
			 want.eviction);
	assert_int_equal(now[BACKEND_TIME_IN_PLACE] - f->seen[BACKEND_TIME_IN_PLACE],
			 want.in_place);
	memcpy(f->seen, now, sizeof(now));
}

static inline void expect_costs(struct fixture *f, uint64_t first, uint64_t demand,
				uint64_t eviction)
{
	expect_costs_of(f, (struct costs){first, demand, eviction, 0});
}

#endif
