/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of machine descriptions as tables: parsing, formatting, and the checks for unknown and
 * missing keys follow from them. Only the files that read and write the format include this.
 */
#ifndef WEIR_MACHINE_MACHINE_FIELDS_H
#define WEIR_MACHINE_MACHINE_FIELDS_H

#include "machine/machine_file.h"

#define MACHINE_SCHEMA 1

/* The largest whole number that every JSON program, and a double, holds exactly: 2^53. */
#define MACHINE_WHOLE_MAX (UINT64_C(1) << 53)

#define MACHINE_KIND_NR 2

/* Constants of one section, at most. */
#define MACHINE_FIELDS_MAX 17

/* Constants of a description, at most. */
#define MACHINE_CONSTANTS_MAX                                                                  \
	((size_t)MACHINE_FIELDS_MAX * (WEIR_MEMORIES_MAX + WEIR_DEVICES_MAX + WEIR_LINKS_MAX + \
				       WEIR_KERNELS_MAX + WEIR_PORTS_MAX + 2))

/* A rate is above zero, a share from zero to one. */
enum machine_field_type { FIELD_U64, FIELD_U32, FIELD_RATE, FIELD_SHARE };

/* A constant: what it is, and where it goes in the section's part of the description. */
struct machine_field {
	const char *key; /* NULL ends a table */
	size_t offset;
	enum machine_field_type type;
	enum machine_unit unit;
	const char *help;
};

/* An object of the format. The lists end with a NULL. */
struct machine_section {
	const char *const *plain; /* keys that are no constants */
	/* Keys of either kind that may be left out: constants are 0, but for inplace_serial_random,
	 * which is inplace_serial. */
	const char *const *optional;
	const struct machine_field *fields;
};

extern const struct machine_section machine_root_section, machine_memory_section,
	machine_device_section, machine_link_section, machine_vmm_section, machine_kernel_section,
	machine_uvm_section, machine_port_section, machine_constant_section;

/* By enum weir_machine_origin, and by enum weir_memory_kind. */
extern const char *const machine_origin_names[WEIR_ORIGIN_NR];
extern const char *const machine_kind_names[MACHINE_KIND_NR];

#endif
