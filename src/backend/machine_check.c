/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of a machine's description: what every backend, and everything that computes from one,
 * takes for granted of it.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/backend/backend.h"
#include "src/base/util.h"

/* Where a check writes its finding. */
struct finding {
	char *text;
	size_t bytes;
};

static int contradiction(const struct finding *why, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int contradiction(const struct finding *why, const char *format, ...)
{
	va_list args;

	if (why->text && why->bytes) {
		va_start(args, format);
		vsnprintf(why->text, why->bytes, format, args);
		va_end(args);
	}
	return -WEIR_EMACHINE;
}

static bool name_valid(const char name[WEIR_NAME_MAX])
{
	return name[0] && memchr(name, 0, WEIR_NAME_MAX);
}

static bool rate_valid(double rate)
{
	return isfinite(rate) && rate > 0;
}

/* One rate that must be finite and above zero. */
struct rate {
	const char *name;
	double value;
};

static int check_rates(const struct finding *why, const char *what, const char *name,
		       const struct rate *rates, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!rate_valid(rates[i].value))
			return contradiction(why, "%s '%s': %s is not above zero", what, name,
					     rates[i].name);
	return 0;
}

static int check_memories(const struct weir_machine_desc *desc, const struct finding *why)
{
	bool host = false;

	for (uint32_t i = 0; i < desc->nr_memories; i++) {
		const struct weir_memory_desc *memory = &desc->memory[i];

		if (!name_valid(memory->name))
			return contradiction(why, "memory %u: no name, or one that is too long", i);
		for (uint32_t j = 0; j < i; j++)
			if (!strcmp(memory->name, desc->memory[j].name))
				return contradiction(why, "two memories are called '%s'",
						     memory->name);
		if (memory->kind != WEIR_MEMORY_HOST && memory->kind != WEIR_MEMORY_HBM)
			return contradiction(why, "memory '%s': unknown kind", memory->name);
		if (!memory->bytes)
			return contradiction(why, "memory '%s': bytes is zero", memory->name);
		/* Beyond this, addresses for all of it are not to be had. */
		if (memory->bytes > UINT64_C(1) << 46)
			return contradiction(why, "memory '%s': beyond 64 TiB", memory->name);
		host |= memory->kind == WEIR_MEMORY_HOST;
	}
	return host ? 0 : contradiction(why, "no memory of kind host");
}

/* Beyond a second, a cost is a mistake, and sums of such costs are no times any more. */
#define COST_NS_MAX UINT64_C(1000000000)

static int check_device(const struct weir_machine_desc *desc, uint32_t i, const struct finding *why)
{
	const struct weir_device_desc *device = &desc->device[i];
	const struct rate rates[] = {
		{"hbm_bytes_per_s", device->hbm_bytes_per_s},
		{"hbm_random_bytes_per_s", device->hbm_random_bytes_per_s},
		{"ops_per_s", device->ops_per_s},
	};

	if (!name_valid(device->name))
		return contradiction(why, "device %u: no name, or one that is too long", i);
	if (device->memory >= desc->nr_memories ||
	    desc->memory[device->memory].kind != WEIR_MEMORY_HBM)
		return contradiction(why, "device '%s': memory %u is not an HBM", device->name,
				     device->memory);
	for (uint32_t j = 0; j < i; j++) {
		if (!strcmp(device->name, desc->device[j].name))
			return contradiction(why, "two devices are called '%s'", device->name);
		if (device->memory == desc->device[j].memory)
			return contradiction(why, "devices '%s' and '%s' have one HBM",
					     desc->device[j].name, device->name);
	}
	if (device->plan_work_ns > COST_NS_MAX)
		return contradiction(why, "device '%s': plan_work_ns is beyond a second",
				     device->name);
	return check_rates(why, "device", device->name, rates, ARRAY_LEN(rates));
}

static int check_link(const struct weir_machine_desc *desc, uint32_t i, const struct finding *why)
{
	const struct weir_link_desc *link = &desc->link[i];
	const struct rate rates[] = {
		{"a_to_b_bytes_per_s", link->a_to_b_bytes_per_s},
		{"b_to_a_bytes_per_s", link->b_to_a_bytes_per_s},
		{"duplex_bytes_per_s", link->duplex_bytes_per_s},
		{"inplace_bytes_per_s", link->inplace_bytes_per_s},
		{"inplace_small_per_s", link->inplace_small_per_s},
		{"inplace_large_per_s", link->inplace_large_per_s},
		{"inplace_reach_bytes", (double)link->inplace_reach_bytes},
		{"inplace_request_bytes", (double)link->inplace_request_bytes},
		{"inplace_duplex_bytes_per_s", link->inplace_duplex_bytes_per_s},
		{"inplace_both_bytes_per_s", link->inplace_both_bytes_per_s},
		{"inplace_update_large_per_s", link->inplace_update_large_per_s},
	};
	char name[2 * WEIR_NAME_MAX + 4];

	if (link->a >= desc->nr_memories || link->b >= desc->nr_memories)
		return contradiction(why, "link %u: no such memory", i);
	snprintf(name, sizeof(name), "%s-%s", desc->memory[link->a].name,
		 desc->memory[link->b].name);
	if (link->a == link->b)
		return contradiction(why, "link '%s': both ends are one memory", name);
	if (desc->memory[link->b].kind == WEIR_MEMORY_HOST &&
	    desc->memory[link->a].kind != WEIR_MEMORY_HOST)
		return contradiction(why, "link '%s': the host must be its end a", name);
	for (uint32_t j = 0; j < i; j++) {
		const struct weir_link_desc *other = &desc->link[j];

		if ((link->a == other->a && link->b == other->b) ||
		    (link->a == other->b && link->b == other->a))
			return contradiction(why, "link '%s' is there twice", name);
	}
	if (link->duplex_bytes_per_s > link->a_to_b_bytes_per_s &&
	    link->duplex_bytes_per_s > link->b_to_a_bytes_per_s)
		return contradiction(why, "link '%s': faster each way in duplex than alone", name);
	if (!(link->inplace_serial >= 0 && link->inplace_serial <= 1))
		return contradiction(why, "link '%s': inplace_serial is not from 0 to 1", name);
	if (!(link->inplace_serial_random >= 0 && link->inplace_serial_random <= 1))
		return contradiction(why, "link '%s': inplace_serial_random is not from 0 to 1",
				     name);
	if (link->event_ns > COST_NS_MAX)
		return contradiction(why, "link '%s': event_ns is beyond a second", name);
	if (link->copy_host_ns > COST_NS_MAX)
		return contradiction(why, "link '%s': copy_host_ns is beyond a second", name);
	return check_rates(why, "link", name, rates, ARRAY_LEN(rates));
}

/* Between a device and the first host memory: what kernels use in place, and copies, go there. */
static bool host_link_exists(const struct weir_machine_desc *desc, uint32_t memory)
{
	uint32_t host = 0;

	while (desc->memory[host].kind != WEIR_MEMORY_HOST)
		host++;
	for (uint32_t i = 0; i < desc->nr_links; i++)
		if (desc->link[i].a == host && desc->link[i].b == memory)
			return true;
	return false;
}

static int check_hbms_owned(const struct weir_machine_desc *desc, const struct finding *why)
{
	for (uint32_t i = 0; i < desc->nr_memories; i++) {
		bool owned = desc->memory[i].kind != WEIR_MEMORY_HBM;

		for (uint32_t j = 0; j < desc->nr_devices; j++)
			owned |= desc->device[j].memory == i;
		if (!owned)
			return contradiction(why, "memory '%s' is the HBM of no device",
					     desc->memory[i].name);
	}
	return 0;
}

static int check_kernels(const struct weir_machine_desc *desc, const struct finding *why)
{
	for (uint32_t i = 0; i < desc->nr_kernels; i++) {
		const struct weir_kernel_rate *kernel = &desc->kernel[i];

		if (!name_valid(kernel->name))
			return contradiction(why, "kernel %u: no name, or one that is too long", i);
		for (uint32_t j = 0; j < i; j++)
			if (!strcmp(kernel->name, desc->kernel[j].name))
				return contradiction(why, "kernel '%s' is there twice",
						     kernel->name);
		if (!rate_valid(kernel->factor))
			return contradiction(why, "kernel '%s': factor is not above zero",
					     kernel->name);
	}
	return 0;
}

static int check_ports(const struct weir_machine_desc *desc, const struct finding *why)
{
	for (uint32_t i = 0; i < desc->nr_ports; i++) {
		const struct weir_port_desc *port = &desc->port[i];
		const struct rate rates[] = {
			{"send_bytes_per_s", port->send_bytes_per_s},
			{"receive_bytes_per_s", port->receive_bytes_per_s},
		};
		char name[WEIR_NAME_MAX + 16];
		int err;

		if (port->memory >= desc->nr_memories)
			return contradiction(why, "port %u: no such memory", i);
		(void)snprintf(name, sizeof(name), "%s-%u", desc->memory[port->memory].name,
			       port->links);
		if (!port->links || port->links > WEIR_MEMORIES_MAX - 1)
			return contradiction(why, "port '%s': links is not 1 to %d", name,
					     WEIR_MEMORIES_MAX - 1);
		for (uint32_t j = 0; j < i; j++)
			if (port->memory == desc->port[j].memory &&
			    port->links == desc->port[j].links)
				return contradiction(why, "port '%s' is there twice", name);
		err = check_rates(why, "port", name, rates, ARRAY_LEN(rates));
		if (err)
			return err;
	}
	return 0;
}

static int check_granularity(const struct weir_machine_desc *desc, const struct finding *why)
{
	uint64_t granularity = desc->vmm.granularity_bytes;

	if (granularity < 4096 || !is_power_of_2(granularity))
		return contradiction(why,
				     "granularity_bytes is not a power of two of 4096 or more");
	for (uint32_t i = 0; i < desc->nr_memories; i++)
		if (desc->memory[i].bytes < granularity)
			return contradiction(why, "memory '%s' is smaller than granularity_bytes",
					     desc->memory[i].name);
	return 0;
}

static int check_uvm(const struct weir_machine_desc *desc, const struct finding *why)
{
	const struct weir_uvm_desc *uvm = &desc->uvm;
	const struct {
		const char *name;
		uint64_t ns;
	} costs[] = {
		{"batch_ns", uvm->batch_ns},	     {"page_ns", uvm->page_ns},
		{"populate_ns", uvm->populate_ns},   {"cpu_unmap_ns", uvm->cpu_unmap_ns},
		{"host_page_ns", uvm->host_page_ns},
	};

	if (uvm->batch_faults > BACKEND_UVM_BATCH_MAX)
		return contradiction(why, "uvm: batch_faults is beyond %u", BACKEND_UVM_BATCH_MAX);
	for (size_t i = 0; i < ARRAY_LEN(costs); i++) {
		if (costs[i].ns && !uvm->batch_faults)
			return contradiction(why, "uvm: batch_faults is zero, and %s is not",
					     costs[i].name);
		if (costs[i].ns > COST_NS_MAX)
			return contradiction(why, "uvm: %s is beyond a second", costs[i].name);
	}
	if (uvm->context_bytes && !uvm->batch_faults)
		return contradiction(why, "uvm: batch_faults is zero, and context_bytes is not");
	for (uint32_t i = 0; i < desc->nr_devices; i++)
		if (uvm->context_bytes >= desc->memory[desc->device[i].memory].bytes)
			return contradiction(why,
					     "uvm: context_bytes leaves nothing of memory '%s'",
					     desc->memory[desc->device[i].memory].name);
	return 0;
}

int weir_machine_check(const struct weir_machine_desc *desc, char *why, size_t bytes)
{
	const struct finding finding = {why, bytes};
	int err;

	if (!desc)
		return contradiction(&finding, "no description");
	if (!name_valid(desc->name))
		return contradiction(&finding, "the machine has no name, or one that is too long");
	if (!desc->nr_memories || desc->nr_memories > WEIR_MEMORIES_MAX)
		return contradiction(&finding, "%u memories; 1 to %d can be", desc->nr_memories,
				     WEIR_MEMORIES_MAX);
	if (!desc->nr_devices || desc->nr_devices > WEIR_DEVICES_MAX)
		return contradiction(&finding, "%u devices; 1 to %d can be", desc->nr_devices,
				     WEIR_DEVICES_MAX);
	if (desc->nr_links > WEIR_LINKS_MAX)
		return contradiction(&finding, "%u links; up to %d can be", desc->nr_links,
				     WEIR_LINKS_MAX);
	if (desc->nr_kernels > WEIR_KERNELS_MAX)
		return contradiction(&finding, "%u kernels; up to %d can be", desc->nr_kernels,
				     WEIR_KERNELS_MAX);
	if (desc->nr_ports > WEIR_PORTS_MAX)
		return contradiction(&finding, "%u ports; up to %d can be", desc->nr_ports,
				     WEIR_PORTS_MAX);
	err = check_memories(desc, &finding);
	for (uint32_t i = 0; !err && i < desc->nr_devices; i++)
		err = check_device(desc, i, &finding);
	for (uint32_t i = 0; !err && i < desc->nr_links; i++)
		err = check_link(desc, i, &finding);
	if (!err)
		err = check_hbms_owned(desc, &finding);
	if (!err)
		err = check_granularity(desc, &finding);
	if (!err)
		err = check_kernels(desc, &finding);
	if (!err)
		err = check_ports(desc, &finding);
	if (!err)
		err = check_uvm(desc, &finding);
	for (uint32_t i = 0; !err && i < desc->nr_devices; i++)
		if (!host_link_exists(desc, desc->device[i].memory))
			err = contradiction(&finding, "device '%s' has no link to the host",
					    desc->device[i].name);
	return err;
}
