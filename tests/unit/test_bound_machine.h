/* SPDX-License-Identifier: Apache-2.0 */
/* Machines, traces and comparisons for the tests of the lower bound. */
#ifndef WEIR_TEST_BOUND_MACHINE_H
#define WEIR_TEST_BOUND_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "workloads/bound.h"
#include "workloads/trace.h"

#define MB UINT64_C(1000000)
#define GB (1000 * MB)

static const struct weir_kernel test_kernel = {.name = "kernel"};

static inline void machine(struct weir_machine_desc *d)
{
	*d = (struct weir_machine_desc){
		.name = "test", .nr_memories = 2, .nr_devices = 1, .nr_links = 1};
	d->memory[0] = (struct weir_memory_desc){"host", WEIR_MEMORY_HOST, 256 * GB};
	d->memory[1] = (struct weir_memory_desc){"gpu0", WEIR_MEMORY_HBM, 32 * GB};
	d->device[0] = (struct weir_device_desc){
		.name = "gpu0",
		.memory = 1,
		.hbm_bytes_per_s = 1500e9,
		.hbm_random_bytes_per_s = 1500e9,
		.ops_per_s = 60e12,
		.launch_ns = 2000,
		.launch_host_ns = 2500,
		.malloc_ns = 20000,
		.malloc_2mib_ns = 2790,
	};
	d->link[0] = (struct weir_link_desc){
		.a = 0,
		.b = 1,
		.a_to_b_bytes_per_s = 55e9,
		.b_to_a_bytes_per_s = 55e9,
		.duplex_bytes_per_s = 49e9,
		.latency_ns = 2500,
		.copy_ns = 90,
		.inplace_bytes_per_s = 51e9,
		.inplace_small_per_s = 700e6,
		.inplace_large_per_s = 39e6,
		.inplace_reach_bytes = GB,
		.inplace_request_bytes = 128,
		.inplace_duplex_bytes_per_s = 50e9,
		.inplace_both_bytes_per_s = 50e9,
		.inplace_update_large_per_s = 39e6,
	};
	d->vmm = (struct weir_vmm_desc){.granularity_bytes = 2 << 20,
					.map_ns = 600,
					.set_access_ns = 19000,
					.set_access_device_ns = 53667,
					.unmap_ns = 13000,
					.create_hbm_ns = 11000,
					.create_host_ns = 375000};
}

/* More GPUs, seven times as fast to reach as the host: memories 2, 3 and so on. */
static inline void machine_with_neighbours(struct weir_machine_desc *d, uint32_t nr)
{
	const double rate = 385e9;

	machine(d);
	for (uint32_t i = 1; i <= nr; i++) {
		struct weir_memory_desc *memory = &d->memory[d->nr_memories];
		struct weir_link_desc *link = &d->link[d->nr_links];

		*memory = (struct weir_memory_desc){"gpu0", WEIR_MEMORY_HBM, 32 * GB};
		memory->name[3] = (char)('0' + i);
		d->device[i] = d->device[0];
		d->device[i].name[3] = memory->name[3];
		d->device[i].memory = d->nr_memories;
		link[0] = link[1] = d->link[0];
		link[0].b = link[1].b = d->nr_memories;
		link[1].a = 1;
		link[1].a_to_b_bytes_per_s = link[1].b_to_a_bytes_per_s = rate;
		link[1].duplex_bytes_per_s = link[1].inplace_bytes_per_s = rate;
		link[1].inplace_reach_bytes = 32 * GB;
		link[1].inplace_small_per_s = 7e9;
		d->nr_memories++;
		d->nr_links += 2;
	}
	d->nr_devices = nr + 1;
}

static inline void machine_with_near(struct weir_machine_desc *d)
{
	machine_with_neighbours(d, 1);
}

static inline struct manager *tracer(void)
{
	struct manager *m;

	assert_int_equal(trace_manager_create(NULL, &m), 0);
	return m;
}

static inline void *alloc(struct manager *m, uint64_t bytes)
{
	void *addr;

	assert_int_equal(m->ops->alloc(m, bytes, "test", &addr), 0);
	return addr;
}

static inline void launch(struct manager *m, const struct weir_use *uses, uint32_t nr, double ops)
{
	const struct weir_launch l = {
		.kernel = &test_kernel, .uses = uses, .nr_uses = nr, .ops = ops};

	assert_int_equal(m->ops->launch(m, &l), 0);
}

static inline struct weir_use stream(void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	return (struct weir_use){
		.addr = addr,
		.bytes = bytes,
		.kind = kind,
		.read_bytes = kind == WEIR_OVERWRITE ? 0 : bytes,
		.write_bytes = kind == WEIR_READ ? 0 : bytes,
	};
}

static inline struct trace *stop(struct manager *m)
{
	struct trace *trace;

	assert_int_equal(trace_manager_stop(m, &trace), 0);
	assert_int_equal(trace_check(trace), 0);
	return trace;
}

static inline void assert_near(double value, double expected, double share)
{
	if (!(fabs(value - expected) <= share * fabs(expected)))
		fail_msg("%.9g is not within %.3g of %.9g", value, share, expected);
}

#endif
