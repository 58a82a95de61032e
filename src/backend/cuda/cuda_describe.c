/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's description: sizes as the driver tells them, rates and costs as they were measured,
 * on this machine or on another one. */
#include <stdio.h>
#include <string.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/log.h"

/* HBM that is left to the driver, to libraries and to the display. */
#define HBM_SPARE (UINT64_C(512) << 20)
/* A share of a GPU's memory that is worth a word if others hold it. */
#define TAKEN_SHARE 16u
/* What kernels reach of the memory's nominal rate. */
#define HBM_SHARE 0.92
/* That can be resident on one multiprocessor; on some there are fewer. */
#define MULTIPROCESSOR_WARPS 64u

int cuda_attribute(const struct cuda *cuda, uint32_t device, int which, int *value)
{
	return cuda_error(&cuda->driver,
			  cuda->driver.device_attribute(value, which, cuda->device[device].device),
			  "cuDeviceGetAttribute");
}

/*
 * What a machine that was not measured is taken for. Links and mapping calls: measured on an H200
 * on PCIe 5 x16, and not far off on other cards of the time.
 */
static const struct weir_link_desc usual_link = {
	.a_to_b_bytes_per_s = 55.4e9,
	.b_to_a_bytes_per_s = 55.3e9,
	.duplex_bytes_per_s = 49.3e9,
	.latency_ns = 2500,
	.copy_ns = 90,
	.inplace_bytes_per_s = 51.3e9,
	.inplace_small_per_s = 700e6,
	.inplace_large_per_s = 37.8e6,
	.inplace_reach_bytes = UINT64_C(781) << 20,
	.inplace_request_bytes = 128,
	.inplace_duplex_bytes_per_s = 26.5e9,
	.inplace_both_bytes_per_s = 42.1e9,
	.inplace_update_large_per_s = 30.5e6,
	.copy_host_ns = 790,
};

/* The same for two GPUs on NVLink. */
static const struct weir_link_desc usual_peer = {
	.a_to_b_bytes_per_s = 391e9,
	.b_to_a_bytes_per_s = 391e9,
	.duplex_bytes_per_s = 371e9,
	.latency_ns = 2500,
	.copy_ns = 90,
	.inplace_bytes_per_s = 375e9,
	.inplace_small_per_s = 7.6e9,
	.inplace_large_per_s = 2.9e9,
	.inplace_reach_bytes = UINT64_C(1) << 36,
	.inplace_request_bytes = 128,
	.inplace_duplex_bytes_per_s = 150e9,
	.inplace_both_bytes_per_s = 333e9,
	.inplace_update_large_per_s = 2.9e9,
	.inplace_serial = 0.75,
	.inplace_serial_random = 0,
	.event_ns = 5700,
	.copy_host_ns = 850,
};

static const struct weir_vmm_desc usual_vmm = {
	.map_ns = 600,
	.set_access_ns = 43000,
	.set_access_device_ns = 53667,
	.unmap_ns = 37000,
	.set_access_host_mib_ns = 12000,
	.unmap_host_mib_ns = 9000,
	.set_access_busy_ns = 1000000,
	.unmap_busy_peer_ns = 994000,
	.create_hbm_ns = 11000,
	.create_host_ns = 375000,
};

/* Say so where others hold a good part of a GPU. */
static void tell_taken(struct cuda *cuda, uint32_t memory, uint64_t free_bytes, uint64_t bytes)
{
	char holders[256];

	if (bytes - free_bytes < bytes / TAKEN_SHARE)
		return;
	cuda_memory_holders(&cuda->base, memory, holders, sizeof(holders));
	log_warning("%s: %.1f of %.1f GB are taken by others%s%s",
		    cuda->base.desc.memory[memory].name, (double)(bytes - free_bytes) / 1e9,
		    (double)bytes / 1e9, holders[0] ? ": " : "", holders);
}

/* Rates of a device from its clocks. */
static int describe_device(struct cuda *cuda, uint32_t d)
{
	struct weir_device_desc *desc = &cuda->base.desc.device[d];
	struct weir_memory_desc *memory = &cuda->base.desc.memory[d + 1];
	int memory_khz, bits, khz, processors, err;
	size_t free_bytes, bytes;

	desc->memory = d + 1;
	err = cuda_attribute(cuda, d, CU_ATTRIBUTE_MEMORY_CLOCK_KHZ, &memory_khz);

	if (!err)
		err = cuda_attribute(cuda, d, CU_ATTRIBUTE_MEMORY_BUS_BITS, &bits);
	if (!err)
		err = cuda_attribute(cuda, d, CU_ATTRIBUTE_CLOCK_KHZ, &khz);
	if (!err)
		err = cuda_attribute(cuda, d, CU_ATTRIBUTE_MULTIPROCESSORS, &processors);
	if (!err)
		err = cuda_device_enter(cuda, d);
	if (err)
		return err;
	err = cuda_error(&cuda->driver, cuda->driver.mem_info(&free_bytes, &bytes), "cuMemGetInfo");
	cuda_leave(cuda);
	if (err)
		return err;
	(void)snprintf(memory->name, sizeof(memory->name), "gpu%u", d);
	memory->kind = WEIR_MEMORY_HBM;
	cuda->device[d].nr_warps = (uint32_t)processors * MULTIPROCESSOR_WARPS;
	if (d < cuda->nr_gpus)
		tell_taken(cuda, d + 1, free_bytes, bytes);
	/* What others hold is not there for us. */
	memory->bytes = free_bytes > 2 * HBM_SPARE ? free_bytes - HBM_SPARE : free_bytes;
	memory->bytes /= cuda->nr_each;
	(void)snprintf(desc->name, sizeof(desc->name), "gpu%u", d);
	/* Two transfers a clock; 128 multiply-adds a clock in each multiprocessor. */
	desc->hbm_bytes_per_s = HBM_SHARE * 2e3 * memory_khz * bits / 8;
	if (desc->hbm_bytes_per_s <= 0)
		desc->hbm_bytes_per_s = 1e12;
	desc->hbm_random_bytes_per_s = 0.7 * desc->hbm_bytes_per_s;
	desc->ops_per_s = 0.8 * 256e3 * khz * processors;
	if (desc->ops_per_s <= 0)
		desc->ops_per_s = 1e13;
	desc->launch_ns = 2000;
	desc->launch_host_ns = 2500;
	desc->malloc_ns = 20000;
	desc->malloc_2mib_ns = 2160;
	return 0;
}

/* Add a link; the table has room for each pair of memories. */
static void add_link(struct weir_machine_desc *desc, const struct weir_link_desc *usual, uint32_t a,
		     uint32_t b)
{
	struct weir_link_desc *link = &desc->link[desc->nr_links++];

	*link = *usual;
	link->a = a;
	link->b = b;
}

static int describe_links(struct cuda *cuda)
{
	struct weir_machine_desc *desc = &cuda->base.desc;

	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		add_link(desc, &usual_link, 0, d + 1);
		for (uint32_t e = 0; e < d; e++) {
			int can = e % cuda->nr_gpus == d % cuda->nr_gpus, err = 0;

			if (!can)
				err = cuda_error(&cuda->driver,
						 cuda->driver.device_peer(&can,
									  cuda->device[e].device,
									  cuda->device[d].device),
						 "cuDeviceCanAccessPeer");

			if (err)
				return err;
			if (can)
				add_link(desc, &usual_peer, e + 1, d + 1);
		}
	}
	return 0;
}

/* The granularity of chunks in every memory: the largest. */
static int describe_vmm(struct cuda *cuda)
{
	struct weir_vmm_desc *vmm = &cuda->base.desc.vmm;

	*vmm = usual_vmm;
	for (uint32_t d = 0; d <= cuda->base.desc.nr_devices; d++) {
		struct cu_allocation_prop prop = {.type = CU_ALLOCATION_PINNED};
		bool host = d == cuda->base.desc.nr_devices;
		size_t bytes = 0;
		int err;

		prop.location.type = host ? CU_LOCATION_HOST_NUMA : CU_LOCATION_DEVICE;
		prop.location.id = host ? cuda->host_node : cuda->device[d].device;
		err = cuda_error(
			&cuda->driver,
			cuda->driver.mem_granularity(&bytes, &prop, CU_GRANULARITY_MINIMUM),
			"cuMemGetAllocationGranularity");
		if (err)
			return err;
		if (bytes > vmm->granularity_bytes)
			vmm->granularity_bytes = bytes;
	}
	return 0;
}

/* Take rates and costs from measurements of this machine, device by device and link by link. */
static void take_measured(struct weir_machine_desc *desc, const struct weir_machine_desc *measured)
{
	uint64_t granularity = desc->vmm.granularity_bytes;

	for (uint32_t d = 0; d < desc->nr_devices && d < measured->nr_devices; d++) {
		uint32_t memory = desc->device[d].memory;

		desc->device[d] = measured->device[d];
		desc->device[d].memory = memory;
	}
	for (uint32_t l = 0; l < desc->nr_links; l++) {
		struct weir_link_desc *link = &desc->link[l];

		for (uint32_t m = 0; m < measured->nr_links; m++)
			if (measured->link[m].a == link->a && measured->link[m].b == link->b)
				*link = measured->link[m];
	}
	desc->vmm = measured->vmm;
	desc->vmm.granularity_bytes = granularity;
	desc->nr_kernels = measured->nr_kernels;
	memcpy(desc->kernel, measured->kernel, sizeof(desc->kernel));
	for (uint32_t i = 0; i < measured->nr_ports; i++)
		if (measured->port[i].memory < desc->nr_memories)
			desc->port[desc->nr_ports++] = measured->port[i];
}

int cuda_describe(struct cuda *cuda, const struct weir_machine_desc *measured)
{
	struct weir_machine_desc *desc = &cuda->base.desc;
	char why[128];
	int err = 0;

	(void)snprintf(desc->name, sizeof(desc->name), "cuda");
	desc->nr_memories = desc->nr_devices + 1;
	desc->memory[0] = (struct weir_memory_desc){.name = "host", .kind = WEIR_MEMORY_HOST};
	desc->memory[0].bytes = cuda_host_bytes(cuda);
	for (uint32_t d = 0; d < desc->nr_devices && !err; d++)
		err = describe_device(cuda, d);
	if (!err)
		err = describe_links(cuda);
	if (!err)
		err = describe_vmm(cuda);
	if (err)
		return err;
	if (measured)
		take_measured(desc, measured);
	err = weir_machine_check(desc, why, sizeof(why));
	if (err)
		log_error("cuda: what the driver says of this machine contradicts itself: %s", why);
	return err;
}

void cuda_device_text(struct backend *b, uint32_t device, char *text, size_t bytes)
{
	struct cuda *cuda = cuda_of(b);
	const struct cuda_driver *driver = &cuda->driver;
	char name[128] = "GPU of unknown name";

	(void)cuda_error(driver,
			 driver->device_name(name, sizeof(name), cuda->device[device].device),
			 "cuDeviceGetName");
	(void)snprintf(text, bytes, "%s, CUDA %d.%d", name, driver->version / 1000,
		       driver->version % 1000 / 10);
}
