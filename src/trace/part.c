/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of a machine's description, in the order in which a trace has them. */
#include "src/trace/part.h"

#include <string.h>

#include "src/base/util.h"

enum field_type { FIELD_END, FIELD_NAME, FIELD_U32, FIELD_U64, FIELD_DOUBLE };

struct field {
	size_t offset;
	enum field_type type;
};

#define NAME_WORDS (WEIR_NAME_MAX / 8u)

#define MACHINE(member, type)                                    \
	{                                                        \
		offsetof(struct weir_machine_desc, member), type \
	}
#define MEMORY(member, type)                                    \
	{                                                       \
		offsetof(struct weir_memory_desc, member), type \
	}
#define DEVICE(member, type)                                    \
	{                                                       \
		offsetof(struct weir_device_desc, member), type \
	}
#define LINK(member, type)                                    \
	{                                                     \
		offsetof(struct weir_link_desc, member), type \
	}
#define VMM(member)                                               \
	{                                                         \
		offsetof(struct weir_vmm_desc, member), FIELD_U64 \
	}
#define UVM(member, type)                                    \
	{                                                    \
		offsetof(struct weir_uvm_desc, member), type \
	}
#define KERNEL(member, type)                                    \
	{                                                       \
		offsetof(struct weir_kernel_rate, member), type \
	}
#define PORT(member, type)                                    \
	{                                                     \
		offsetof(struct weir_port_desc, member), type \
	}

/* New constants go at the end of their part, with another version of the format. */
static const struct field fields[TRACE_PART_NR][TRACE_PART_WORDS_MAX] = {
	[TRACE_PART_MACHINE] = {MACHINE(name, FIELD_NAME), MACHINE(nr_memories, FIELD_U32),
				MACHINE(nr_devices, FIELD_U32), MACHINE(nr_links, FIELD_U32),
				MACHINE(nr_kernels, FIELD_U32), MACHINE(nr_ports, FIELD_U32)},
	[TRACE_PART_MEMORY] = {MEMORY(name, FIELD_NAME), MEMORY(kind, FIELD_U32),
			       MEMORY(bytes, FIELD_U64)},
	[TRACE_PART_DEVICE] = {DEVICE(name, FIELD_NAME), DEVICE(memory, FIELD_U32),
			       DEVICE(hbm_bytes_per_s, FIELD_DOUBLE),
			       DEVICE(hbm_random_bytes_per_s, FIELD_DOUBLE),
			       DEVICE(ops_per_s, FIELD_DOUBLE), DEVICE(launch_ns, FIELD_U64),
			       DEVICE(launch_host_ns, FIELD_U64), DEVICE(malloc_ns, FIELD_U64),
			       DEVICE(malloc_2mib_ns, FIELD_U64), DEVICE(plan_work_ns, FIELD_U64)},
	[TRACE_PART_LINK] =
		{LINK(a, FIELD_U32), LINK(b, FIELD_U32), LINK(a_to_b_bytes_per_s, FIELD_DOUBLE),
		 LINK(b_to_a_bytes_per_s, FIELD_DOUBLE), LINK(duplex_bytes_per_s, FIELD_DOUBLE),
		 LINK(latency_ns, FIELD_U64), LINK(copy_ns, FIELD_U64),
		 LINK(inplace_bytes_per_s, FIELD_DOUBLE), LINK(inplace_small_per_s, FIELD_DOUBLE),
		 LINK(inplace_large_per_s, FIELD_DOUBLE), LINK(inplace_reach_bytes, FIELD_U64),
		 LINK(inplace_request_bytes, FIELD_U32),
		 LINK(inplace_duplex_bytes_per_s, FIELD_DOUBLE),
		 LINK(inplace_both_bytes_per_s, FIELD_DOUBLE),
		 LINK(inplace_update_large_per_s, FIELD_DOUBLE), LINK(inplace_serial, FIELD_DOUBLE),
		 LINK(event_ns, FIELD_U64), LINK(inplace_serial_random, FIELD_DOUBLE),
		 LINK(copy_host_ns, FIELD_U64)},
	[TRACE_PART_VMM] = {VMM(granularity_bytes), VMM(map_ns), VMM(set_access_ns),
			    VMM(set_access_device_ns), VMM(unmap_ns), VMM(set_access_host_mib_ns),
			    VMM(unmap_host_mib_ns), VMM(set_access_busy_ns),
			    VMM(set_access_busy_in_ns), VMM(unmap_busy_peer_ns), VMM(create_hbm_ns),
			    VMM(create_host_ns)},
	[TRACE_PART_UVM] = {UVM(batch_faults, FIELD_U32), UVM(batch_ns, FIELD_U64),
			    UVM(page_ns, FIELD_U64), UVM(populate_ns, FIELD_U64),
			    UVM(cpu_unmap_ns, FIELD_U64), UVM(host_page_ns, FIELD_U64),
			    UVM(context_bytes, FIELD_U64)},
	[TRACE_PART_KERNEL] = {KERNEL(name, FIELD_NAME), KERNEL(factor, FIELD_DOUBLE)},
	[TRACE_PART_PORT] = {PORT(memory, FIELD_U32), PORT(links, FIELD_U32),
			     PORT(send_bytes_per_s, FIELD_DOUBLE),
			     PORT(receive_bytes_per_s, FIELD_DOUBLE)},
};

uint32_t trace_part_count(const struct weir_machine_desc *desc, enum trace_part part)
{
	switch (part) {
	case TRACE_PART_MEMORY:
		return desc->nr_memories;
	case TRACE_PART_DEVICE:
		return desc->nr_devices;
	case TRACE_PART_LINK:
		return desc->nr_links;
	case TRACE_PART_KERNEL:
		return desc->nr_kernels;
	case TRACE_PART_PORT:
		return desc->nr_ports;
	default:
		return 1;
	}
}

uint32_t trace_part_words(enum trace_part part)
{
	uint32_t nr = 0;

	for (const struct field *f = fields[part]; f->type != FIELD_END; f++)
		nr += f->type == FIELD_NAME ? NAME_WORDS : 1;
	return nr;
}

/* Where one of a part is in a description. The caller does not write through it unless the
 * description is its own. */
static char *part_of(const struct weir_machine_desc *desc, enum trace_part part, uint32_t index)
{
	const void *const at[TRACE_PART_NR] = {
		[TRACE_PART_MACHINE] = desc,
		[TRACE_PART_MEMORY] = &desc->memory[part == TRACE_PART_MEMORY ? index : 0],
		[TRACE_PART_DEVICE] = &desc->device[part == TRACE_PART_DEVICE ? index : 0],
		[TRACE_PART_LINK] = &desc->link[part == TRACE_PART_LINK ? index : 0],
		[TRACE_PART_VMM] = &desc->vmm,
		[TRACE_PART_UVM] = &desc->uvm,
		[TRACE_PART_KERNEL] = &desc->kernel[part == TRACE_PART_KERNEL ? index : 0],
		[TRACE_PART_PORT] = &desc->port[part == TRACE_PART_PORT ? index : 0],
	};

	return (char *)(uintptr_t)at[part];
}

void trace_part_write(const struct weir_machine_desc *desc, enum trace_part part, uint32_t index,
		      uint64_t *word)
{
	const char *base = part_of(desc, part, index);

	for (const struct field *f = fields[part]; f->type != FIELD_END; f++) {
		uint32_t small;

		switch (f->type) {
		case FIELD_NAME:
			memcpy(word, base + f->offset, WEIR_NAME_MAX);
			word += NAME_WORDS;
			break;
		case FIELD_U32:
			memcpy(&small, base + f->offset, sizeof(small));
			*word++ = small;
			break;
		default:
			memcpy(word++, base + f->offset, sizeof(*word));
		}
	}
}

/* Whether a description that a trace has says no more of a part than it can hold. */
static bool counts_fit(const struct weir_machine_desc *desc)
{
	return desc->nr_memories <= WEIR_MEMORIES_MAX && desc->nr_devices <= WEIR_DEVICES_MAX &&
	       desc->nr_links <= WEIR_LINKS_MAX && desc->nr_kernels <= WEIR_KERNELS_MAX &&
	       desc->nr_ports <= WEIR_PORTS_MAX;
}

bool trace_part_read(struct weir_machine_desc *desc, enum trace_part part, uint32_t index,
		     const uint64_t *word)
{
	char *base;

	if (part >= TRACE_PART_NR || index >= trace_part_count(desc, part))
		return false;
	base = part_of(desc, part, index);
	for (const struct field *f = fields[part]; f->type != FIELD_END; f++) {
		uint32_t small;

		switch (f->type) {
		case FIELD_NAME:
			memcpy(base + f->offset, word, WEIR_NAME_MAX);
			if (!memchr(base + f->offset, '\0', WEIR_NAME_MAX))
				return false;
			word += NAME_WORDS;
			break;
		case FIELD_U32:
			if (*word > UINT32_MAX)
				return false;
			small = (uint32_t)*word++;
			memcpy(base + f->offset, &small, sizeof(small));
			break;
		default:
			memcpy(base + f->offset, word++, sizeof(*word));
		}
	}
	return counts_fit(desc);
}
