/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine descriptions: struct machine_file to JSON text, the way back from machine_parse.c.
 */
#include "machine/machine_file.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine_fields.h"

/* Whole numbers are written as such: 55400000000, not 55400000000.0. */
static json_t *format_number(double value)
{
	if (value >= 0 && value <= (double)MACHINE_WHOLE_MAX && value == floor(value))
		return json_integer((json_int_t)value);
	return json_real(value);
}

/* The constants that are to be written, in the order of the fields. */
struct constants {
	const struct machine_constant *next, *end;
};

/* Whether the next constant is one of a field, which may have been left out. */
static bool constant_is(const struct constants *constants, const struct machine_field *field)
{
	return constants->next < constants->end &&
	       !strcmp(strrchr(constants->next->path, '.') + 1, field->key);
}

/* Add the constants of the section's fields. */
static int format_constants(json_t *object, const struct machine_section *section,
			    struct constants *constants)
{
	int bad = 0;

	for (const struct machine_field *field = section->fields; field->key; field++) {
		const struct machine_constant *constant = constants->next;
		json_t *json;

		if (!constant_is(constants, field))
			continue;
		constants->next++;
		json = json_object();
		bad |= json_object_set_new(json, "value", format_number(constant->value));
		bad |= json_object_set_new(json, "origin",
					   json_string(machine_origin_names[constant->origin]));
		bad |= json_object_set_new(json, "source", json_string(constant->source));
		bad |= json_object_set_new(object, field->key, json);
	}
	return bad;
}

/* Ports, where there are any. */
static int format_ports(json_t *root, const struct weir_machine_desc *desc,
			struct constants *constants)
{
	json_t *ports;
	int bad;

	if (!desc->nr_ports)
		return 0;
	ports = json_array();
	bad = json_object_set_new(root, "port", ports);
	for (uint32_t i = 0; i < desc->nr_ports && !bad; i++) {
		json_t *json =
			json_pack("{sssi}", "memory", desc->memory[desc->port[i].memory].name,
				  "links", (int)desc->port[i].links);

		bad |= format_constants(json, &machine_port_section, constants);
		bad |= json_array_append_new(ports, json);
	}
	return bad;
}

/* Kernels come last, and only where there are any. */
static int format_kernels(json_t *root, const struct weir_machine_desc *desc,
			  struct constants *constants)
{
	json_t *kernels;
	int bad;

	if (!desc->nr_kernels)
		return 0;
	kernels = json_array();
	bad = json_object_set_new(root, "kernel", kernels);
	for (uint32_t i = 0; i < desc->nr_kernels && !bad; i++) {
		json_t *json = json_pack("{ss}", "name", desc->kernel[i].name);

		bad |= format_constants(json, &machine_kernel_section, constants);
		bad |= json_array_append_new(kernels, json);
	}
	return bad;
}

static int format_root(json_t *root, const struct machine_file *machine)
{
	const struct weir_machine_desc *desc = &machine->desc;
	struct constants constants = {machine->constant, machine->constant + machine->nr_constants};
	json_t *memories = json_array();
	json_t *devices = json_array();
	json_t *links = json_array();
	json_t *vmm = json_object();
	int bad = 0;

	/* jansson takes NULL for "no memory" everywhere, and owns what it was handed either way. */
	bad |= json_object_set_new(root, "schema", json_integer(MACHINE_SCHEMA));
	bad |= json_object_set_new(root, "name", json_string(desc->name));
	bad |= json_object_set_new(root, "about", json_string(machine->about));
	bad |= json_object_set_new(root, "memory", memories);
	bad |= json_object_set_new(root, "device", devices);
	bad |= json_object_set_new(root, "link", links);
	bad |= json_object_set_new(root, "vmm", vmm);
	for (uint32_t i = 0; i < desc->nr_memories && !bad; i++) {
		json_t *json = json_pack("{ssss}", "name", desc->memory[i].name, "kind",
					 machine_kind_names[desc->memory[i].kind]);

		bad |= format_constants(json, &machine_memory_section, &constants);
		bad |= json_array_append_new(memories, json);
	}
	for (uint32_t i = 0; i < desc->nr_devices && !bad; i++) {
		json_t *json = json_pack("{ssss}", "name", desc->device[i].name, "memory",
					 desc->memory[desc->device[i].memory].name);

		bad |= format_constants(json, &machine_device_section, &constants);
		bad |= json_array_append_new(devices, json);
	}
	for (uint32_t i = 0; i < desc->nr_links && !bad; i++) {
		json_t *json = json_pack("{ssss}", "a", desc->memory[desc->link[i].a].name, "b",
					 desc->memory[desc->link[i].b].name);

		bad |= format_constants(json, &machine_link_section, &constants);
		bad |= json_array_append_new(links, json);
	}
	if (!bad)
		bad |= format_constants(vmm, &machine_vmm_section, &constants);
	if (!bad && desc->uvm.batch_faults) {
		json_t *uvm = json_object();

		bad |= format_constants(uvm, &machine_uvm_section, &constants);
		bad |= json_object_set_new(root, "uvm", uvm);
	}
	if (!bad)
		bad |= format_ports(root, desc, &constants);
	if (!bad)
		bad |= format_kernels(root, desc, &constants);
	return bad;
}

char *machine_format(const struct machine_file *machine)
{
	json_t *root = json_object();
	char *text = NULL;
	char *json;

	if (!root || format_root(root, machine))
		goto out;
	json = json_dumps(root, JSON_INDENT(2));
	if (json && asprintf(&text, "%s\n", json) < 0)
		text = NULL;
	free(json);
out:
	json_decref(root);
	return text;
}
