/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of machine_fields.h. A new constant needs a line here, one in weir-machine(5), and a
 * value with its origin in each of machines/. One that came later, and without
 * which a machine is what it was before, may be left out.
 */
#include "machine/machine_fields.h"

#include "src/base/util.h"

#define FIELD(object, member) #member, offsetof(struct object, member)

static const struct machine_field no_fields[] = {{NULL, 0, 0, 0, NULL}};

static const struct machine_field memory_fields[] = {
	{FIELD(weir_memory_desc, bytes), FIELD_U64, MACHINE_BYTES, "what programs can use of it"},
	{NULL, 0, 0, 0, NULL},
};

static const struct machine_field device_fields[] = {
	{FIELD(weir_device_desc, hbm_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "own memory, streaming, reads plus writes"},
	{FIELD(weir_device_desc, hbm_random_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "own memory, whole 32-byte sectors at random"},
	{FIELD(weir_device_desc, ops_per_s), FIELD_RATE, MACHINE_PER_S,
	 "fp32 operations of matrix products"},
	{FIELD(weir_device_desc, launch_ns), FIELD_U64, MACHINE_NS,
	 "least time of a kernel on the device"},
	{FIELD(weir_device_desc, launch_host_ns), FIELD_U64, MACHINE_NS,
	 "a launch call on the host"},
	{FIELD(weir_device_desc, malloc_ns), FIELD_U64, MACHINE_NS,
	 "cudaMalloc and cudaFree of one tensor"},
	{FIELD(weir_device_desc, malloc_2mib_ns), FIELD_U64, MACHINE_NS,
	 "and for each 2 MiB of it"},
	{FIELD(weir_device_desc, plan_work_ns), FIELD_U64, MACHINE_NS,
	 "a unit of work of making a plan, on the host"},
	{NULL, 0, 0, 0, NULL},
};

static const struct machine_field link_fields[] = {
	{FIELD(weir_link_desc, a_to_b_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "copy engine, a to b alone"},
	{FIELD(weir_link_desc, b_to_a_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "copy engine, b to a alone"},
	{FIELD(weir_link_desc, duplex_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "each way when both are busy"},
	{FIELD(weir_link_desc, latency_ns), FIELD_U64, MACHINE_NS, "of one copy, beyond its bytes"},
	{FIELD(weir_link_desc, copy_ns), FIELD_U64, MACHINE_NS,
	 "engine time of one piece, beyond its bytes"},
	{FIELD(weir_link_desc, inplace_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "kernels in place, streaming"},
	{FIELD(weir_link_desc, inplace_small_per_s), FIELD_RATE, MACHINE_PER_S,
	 "random accesses within reach"},
	{FIELD(weir_link_desc, inplace_large_per_s), FIELD_RATE, MACHINE_PER_S,
	 "random pieces that miss translation"},
	{FIELD(weir_link_desc, inplace_reach_bytes), FIELD_U64, MACHINE_BYTES,
	 "memory that translation reaches"},
	{FIELD(weir_link_desc, inplace_request_bytes), FIELD_U32, MACHINE_BYTES,
	 "at most, of one random access"},
	{FIELD(weir_link_desc, inplace_duplex_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "kernels that read in place, and copies against them"},
	{FIELD(weir_link_desc, inplace_both_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "each way of kernels that read and write in place"},
	{FIELD(weir_link_desc, inplace_update_large_per_s), FIELD_RATE, MACHINE_PER_S,
	 "random pieces read and written that miss translation"},
	{FIELD(weir_link_desc, inplace_serial), FIELD_SHARE, MACHINE_TIMES,
	 "of kernels' time in own memory and in place, what does not overlap"},
	{FIELD(weir_link_desc, inplace_serial_random), FIELD_SHARE, MACHINE_TIMES,
	 "the same of kernels that use it at random in place"},
	{FIELD(weir_link_desc, event_ns), FIELD_U64, MACHINE_NS,
	 "from a fence to what waits for it on the other device"},
	{FIELD(weir_link_desc, copy_host_ns), FIELD_U64, MACHINE_NS,
	 "one piece of a copy call on the host"},
	{NULL, 0, 0, 0, NULL},
};

static const struct machine_field vmm_fields[] = {
	{FIELD(weir_vmm_desc, granularity_bytes), FIELD_U64, MACHINE_BYTES,
	 "a chunk is a multiple of it"},
	{FIELD(weir_vmm_desc, map_ns), FIELD_U64, MACHINE_NS, "map a chunk"},
	{FIELD(weir_vmm_desc, set_access_ns), FIELD_U64, MACHINE_NS, "give one device access"},
	{FIELD(weir_vmm_desc, set_access_device_ns), FIELD_U64, MACHINE_NS, "each further device"},
	{FIELD(weir_vmm_desc, unmap_ns), FIELD_U64, MACHINE_NS, "unmap a chunk"},
	{FIELD(weir_vmm_desc, set_access_host_mib_ns), FIELD_U64, MACHINE_NS,
	 "more for each MiB of host memory"},
	{FIELD(weir_vmm_desc, unmap_host_mib_ns), FIELD_U64, MACHINE_NS,
	 "more for each MiB of host memory"},
	{FIELD(weir_vmm_desc, set_access_busy_ns), FIELD_U64, MACHINE_NS,
	 "more beside copies to the host, or use in place"},
	{FIELD(weir_vmm_desc, set_access_busy_in_ns), FIELD_U64, MACHINE_NS,
	 "more beside copies from the host"},
	{FIELD(weir_vmm_desc, unmap_busy_peer_ns), FIELD_U64, MACHINE_NS,
	 "more beside copies between devices"},
	{FIELD(weir_vmm_desc, create_hbm_ns), FIELD_U64, MACHINE_NS, "create a chunk on a device"},
	{FIELD(weir_vmm_desc, create_host_ns), FIELD_U64, MACHINE_NS,
	 "create a chunk on the host, pinned"},
	{NULL, 0, 0, 0, NULL},
};

static const struct machine_field port_fields[] = {
	{FIELD(weir_port_desc, send_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "out of a memory, over several links together"},
	{FIELD(weir_port_desc, receive_bytes_per_s), FIELD_RATE, MACHINE_BYTES_PER_S,
	 "into a memory, over several links together"},
	{NULL, 0, 0, 0, NULL},
};

static const struct machine_field kernel_fields[] = {
	{FIELD(weir_kernel_rate, factor), FIELD_RATE, MACHINE_TIMES,
	 "its time in own memory, over the rates'"},
	{NULL, 0, 0, 0, NULL},
};

static const struct machine_field uvm_fields[] = {
	{FIELD(weir_uvm_desc, batch_faults), FIELD_U32, MACHINE_COUNT, "at most, of one batch"},
	{FIELD(weir_uvm_desc, batch_ns), FIELD_U64, MACHINE_NS, "one batch of faults on one block"},
	{FIELD(weir_uvm_desc, page_ns), FIELD_U64, MACHINE_NS,
	 "going through a 4 KiB page, in a fault or an eviction"},
	{FIELD(weir_uvm_desc, populate_ns), FIELD_U64, MACHINE_NS,
	 "giving 2 MiB device memory, cleared and mapped"},
	{FIELD(weir_uvm_desc, cpu_unmap_ns), FIELD_U64, MACHINE_NS,
	 "taking a 4 KiB page away from the CPU"},
	{FIELD(weir_uvm_desc, host_page_ns), FIELD_U64, MACHINE_NS,
	 "a 4 KiB page of the host, from allocating to giving back"},
	{FIELD(weir_uvm_desc, context_bytes), FIELD_U64, MACHINE_BYTES,
	 "of a GPU's memory, taken by the driver for the program"},
	{NULL, 0, 0, 0, NULL},
};

#define CHECK_ROOM(fields) \
	_Static_assert(ARRAY_LEN(fields) - 1 <= MACHINE_FIELDS_MAX, "raise MACHINE_FIELDS_MAX")

CHECK_ROOM(memory_fields);
CHECK_ROOM(device_fields);
CHECK_ROOM(link_fields);
CHECK_ROOM(vmm_fields);
CHECK_ROOM(port_fields);
CHECK_ROOM(kernel_fields);
CHECK_ROOM(uvm_fields);

static const char *const root_keys[] = {"schema", "name", "about", "memory",
					"device", "link", "vmm",   NULL};
static const char *const root_optional_keys[] = {"uvm", "port", "kernel", NULL};
static const char *const memory_keys[] = {"name", "kind", NULL};
static const char *const device_keys[] = {"name", "memory", NULL};
static const char *const device_optional_keys[] = {"plan_work_ns", NULL};
static const char *const link_keys[] = {"a", "b", NULL};
static const char *const link_optional_keys[] = {"inplace_serial", "inplace_serial_random",
						 "event_ns", "copy_host_ns", NULL};
static const char *const port_keys[] = {"memory", "links", NULL};
static const char *const vmm_optional_keys[] = {"set_access_busy_in_ns", "unmap_busy_peer_ns",
						NULL};
static const char *const uvm_optional_keys[] = {"context_bytes", NULL};
static const char *const no_keys[] = {NULL};
static const char *const kernel_keys[] = {"name", NULL};
static const char *const constant_keys[] = {"value", "origin", "source", NULL};

const struct machine_section machine_root_section = {root_keys, root_optional_keys, no_fields};
const struct machine_section machine_memory_section = {memory_keys, no_keys, memory_fields};
const struct machine_section machine_device_section = {device_keys, device_optional_keys,
						       device_fields};
const struct machine_section machine_link_section = {link_keys, link_optional_keys, link_fields};
const struct machine_section machine_vmm_section = {no_keys, vmm_optional_keys, vmm_fields};
const struct machine_section machine_uvm_section = {no_keys, uvm_optional_keys, uvm_fields};
const struct machine_section machine_port_section = {port_keys, no_keys, port_fields};
const struct machine_section machine_kernel_section = {kernel_keys, no_keys, kernel_fields};
const struct machine_section machine_constant_section = {constant_keys, no_keys, no_fields};

const char *const machine_origin_names[WEIR_ORIGIN_NR] = {
	[WEIR_ORIGIN_MEASURED] = "measured", [WEIR_ORIGIN_PUBLISHED] = "published",
	[WEIR_ORIGIN_VENDOR] = "vendor",     [WEIR_ORIGIN_FITTED] = "fitted",
	[WEIR_ORIGIN_ASSUMED] = "assumed",
};

const char *const machine_kind_names[MACHINE_KIND_NR] = {
	[WEIR_MEMORY_HOST] = "host",
	[WEIR_MEMORY_HBM] = "hbm",
};

const char *machine_origin_name(enum weir_machine_origin origin)
{
	return machine_origin_names[origin];
}
