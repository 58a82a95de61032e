/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small machine whose rates are whole bytes a nanosecond, for tests that compute times by hand:
 * a host and two GPUs, or up to sixteen, each with its host link, and a link between any two GPUs.
 */
#ifndef WEIR_TEST_SIM_MACHINE_H
#define WEIR_TEST_SIM_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/backend/sim/sim.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

#define TEST_GPUS_MAX 4u /* of tests that choose their number of GPUs at random */

/* Memories. */
enum { HOST, GPU0, GPU1, GPU2, GPU3 };

/* The links of the GPUs to the host come first, in their order, then those between two of them. */
static inline void test_machine_gpus(struct weir_machine_desc *desc, uint32_t nr_gpus)
{
	const struct weir_link_desc host_link = {
		.a = HOST,
		.b = GPU0,
		.a_to_b_bytes_per_s = 4e9,
		.b_to_a_bytes_per_s = 2e9,
		.duplex_bytes_per_s = 1e9,
		.latency_ns = 1000,
		.copy_ns = 100,
		.inplace_bytes_per_s = 2e9,
		.inplace_small_per_s = 10e6,
		.inplace_large_per_s = 1e6,
		.inplace_reach_bytes = KIB(64),
		.inplace_request_bytes = 128,
		.inplace_duplex_bytes_per_s = 4e9,
		.inplace_both_bytes_per_s = 1e9,
		.inplace_update_large_per_s = 1e6,
	};

	memset(desc, 0, sizeof(*desc));
	strcpy(desc->name, "test");
	desc->nr_memories = 1 + nr_gpus;
	desc->nr_devices = nr_gpus;
	desc->nr_links = nr_gpus;
	desc->memory[HOST] = (struct weir_memory_desc){"host", WEIR_MEMORY_HOST, MIB(64)};
	for (uint32_t d = 0; d < nr_gpus; d++) {
		struct weir_device_desc *device = &desc->device[d];

		desc->memory[1 + d] = (struct weir_memory_desc){"", WEIR_MEMORY_HBM, MIB(16)};
		snprintf(desc->memory[1 + d].name, WEIR_NAME_MAX, "gpu%u", d);
		snprintf(device->name, WEIR_NAME_MAX, "gpu%u", d);
		device->memory = 1 + d;
		device->hbm_bytes_per_s = 100e9;
		device->hbm_random_bytes_per_s = 50e9;
		device->ops_per_s = 1e12;
		device->launch_ns = 500;
		device->launch_host_ns = 300;
		device->malloc_ns = 2000;
		device->malloc_2mib_ns = 1000;
		desc->link[d] = host_link;
		desc->link[d].b = 1 + d;
	}
	for (uint32_t a = 0; a < nr_gpus; a++)
		for (uint32_t b = a + 1; b < nr_gpus; b++) {
			struct weir_link_desc *link = &desc->link[desc->nr_links++];

			*link = host_link;
			link->a = GPU0 + a;
			link->b = GPU0 + b;
			link->a_to_b_bytes_per_s = link->b_to_a_bytes_per_s = 20e9;
			link->duplex_bytes_per_s = 20e9;
		}
	desc->vmm = (struct weir_vmm_desc){
		.granularity_bytes = 4096,
		.map_ns = 600,
		.set_access_ns = 19000,
		.set_access_device_ns = 5000,
		.unmap_ns = 13000,
		.set_access_host_mib_ns = 12000,
		.unmap_host_mib_ns = 9000,
		.create_hbm_ns = 11000,
		.create_host_ns = 375000,
	};
}

static inline void test_machine(struct weir_machine_desc *desc)
{
	test_machine_gpus(desc, 2);
}

/* What a kernel may be asked to do, in order. */
struct touch {
	volatile uint8_t *read;	 /* adds this byte to sum */
	volatile uint8_t *write; /* puts this byte to value */
	uint8_t value;
	uint32_t *sum;
};

static inline void touch_cpu(const void *args)
{
	const struct touch *touch = args;

	if (touch->read)
		*touch->sum += *touch->read;
	if (touch->write)
		*touch->write = touch->value;
}

static const struct weir_kernel touch_kernel = {.name = "touch", .cpu = touch_cpu};

static inline int launch_touch(struct backend *b, stream_id_t stream, struct touch touch,
			       const struct weir_use *uses, uint32_t nr_uses)
{
	const struct weir_launch launch = {.kernel = &touch_kernel,
					   .args = &touch,
					   .args_bytes = sizeof(touch),
					   .uses = uses,
					   .nr_uses = nr_uses};

	return b->ops->launch(b, stream, &launch);
}

static inline struct weir_use use_of(void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	return (struct weir_use){.addr = addr,
				 .bytes = bytes,
				 .kind = kind,
				 .pattern = WEIR_STREAM,
				 .read_bytes = kind == WEIR_READ || kind == WEIR_WRITE ? bytes : 0,
				 .write_bytes =
					 kind == WEIR_WRITE || kind == WEIR_OVERWRITE ? bytes : 0};
}

#endif
