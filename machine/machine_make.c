/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions that weir makes itself; see machine_make.h. */
#include "machine/machine_make.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine_fields.h"

struct make {
	struct machine_file *out;
	machine_origin_fn origin;
	void *arg;
};

static void make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static double load(const void *base, const struct machine_field *field)
{
	const void *at = (const char *)base + field->offset;

	switch (field->type) {
	case FIELD_U64:
		return (double)*(const uint64_t *)at;
	case FIELD_U32:
		return (double)*(const uint32_t *)at;
	case FIELD_RATE:
	case FIELD_SHARE:
		break;
	}
	return *(const double *)at;
}

/* The constants of one object; path names it, base is its part of the description. */
static int add_constants(struct make *m, const char *path, const struct machine_section *section,
			 const void *base)
{
	for (const struct machine_field *field = section->fields; field->key; field++) {
		struct machine_constant *c = &m->out->constant[m->out->nr_constants];

		(void)snprintf(c->path, sizeof(c->path), "%s.%s", path, field->key);
		c->help = field->help;
		c->unit = field->unit;
		c->value = load(base, field);
		m->origin(m->arg, c->path, &c->origin, &c->source);
		if (!c->source)
			return -ENOMEM;
		make_printable(c->source);
		m->out->nr_constants++;
	}
	return 0;
}

static int add_objects(struct make *m, const char *kind, uint32_t nr,
		       const struct machine_section *section, const void *first, size_t bytes)
{
	char path[WEIR_NAME_MAX];
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++) {
		(void)snprintf(path, sizeof(path), "%s[%u]", kind, i);
		err = add_constants(m, path, section, (const char *)first + i * bytes);
	}
	return err;
}

int machine_make(const struct weir_machine_desc *desc, const char *about, machine_origin_fn origin,
		 void *arg, struct machine_file *out)
{
	struct machine_file machine = {.desc = *desc};
	struct make m = {&machine, origin, arg};
	int err;

	(void)snprintf(machine.about, sizeof(machine.about), "%s", about);
	make_printable(machine.about);
	machine.constant = calloc(MACHINE_CONSTANTS_MAX, sizeof(*machine.constant));
	if (!machine.constant)
		return -ENOMEM;
	err = add_objects(&m, "memory", desc->nr_memories, &machine_memory_section, desc->memory,
			  sizeof(desc->memory[0]));
	if (!err)
		err = add_objects(&m, "device", desc->nr_devices, &machine_device_section,
				  desc->device, sizeof(desc->device[0]));
	if (!err)
		err = add_objects(&m, "link", desc->nr_links, &machine_link_section, desc->link,
				  sizeof(desc->link[0]));
	if (!err)
		err = add_constants(&m, "vmm", &machine_vmm_section, &desc->vmm);
	if (!err && desc->uvm.batch_faults)
		err = add_constants(&m, "uvm", &machine_uvm_section, &desc->uvm);
	if (!err)
		err = add_objects(&m, "port", desc->nr_ports, &machine_port_section, desc->port,
				  sizeof(desc->port[0]));
	if (!err)
		err = add_objects(&m, "kernel", desc->nr_kernels, &machine_kernel_section,
				  desc->kernel, sizeof(desc->kernel[0]));
	if (err)
		machine_file_fini(&machine);
	else
		*out = machine;
	return err;
}
