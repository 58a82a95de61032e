/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine descriptions: JSON text to struct machine_file. It reads no files; see machine_file.c for
 * that, and machine_format.c for the way back.
 *
 * What the sections have stands in the tables of machine_fields.c; the checks for unknown and
 * missing keys follow from them. Whether the numbers make a machine is weir_machine_check()'s
 * business; this file looks at types and ranges, and at names, because text from a file ends up on
 * terminals and in results.
 */
#include "machine/machine_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/json_where.h"
#include "machine/machine_fields.h"

/* One parse: the text, and where its errors go. */
struct parse {
	const char *text;
	size_t bytes;
	const char *file;
	char *err;
	size_t err_bytes;
	struct machine_file *out;
};

/* Keys and names of a stranger's file may hold anything: what is printed is printable. */
static void make_printable(char *text)
{
	for (; *text; text++) {
		if (*text < ' ' || *text > '~')
			*text = '?';
	}
}

/* The line of a value, or of the nearest object around it that is there; 0 for the whole text. */
static unsigned find_line(const struct parse *p, const char *path)
{
	char at[MACHINE_KEY_MAX];

	(void)snprintf(at, sizeof(at), "%s", path);
	for (;;) {
		char *cut = strrchr(at, '.');
		unsigned line = json_where(p->text, p->bytes, at);

		if (line)
			return line;
		if (!cut)
			cut = strrchr(at, '[');
		if (!cut)
			return 0;
		*cut = '\0';
	}
}

__attribute__((format(printf, 3, 4))) static int fail(struct parse *p, const char *path,
						      const char *format, ...)
{
	unsigned line = find_line(p, path);
	char what[256];
	va_list args;

	if (!p->err_bytes)
		return -WEIR_EMACHINE;
	va_start(args, format);
	(void)vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (line)
		(void)snprintf(p->err, p->err_bytes, "%s:%u: %s%s%s", p->file, line, path,
			       *path ? ": " : "", what);
	else
		(void)snprintf(p->err, p->err_bytes, "%s: %s%s%s", p->file, path, *path ? ": " : "",
			       what);
	make_printable(p->err);
	return -WEIR_EMACHINE;
}

static int fail_memory(struct parse *p)
{
	if (p->err_bytes)
		(void)snprintf(p->err, p->err_bytes, "%s: out of memory", p->file);
	return -ENOMEM;
}

/* path + "." + key, cut to the size of a path. */
static void path_join(char out[MACHINE_KEY_MAX], const char *path, const char *key)
{
	(void)snprintf(out, MACHINE_KEY_MAX, "%.47s%s%.47s", path, *path ? "." : "", key);
}

static bool has_key(const char *const *keys, const char *key)
{
	while (*keys && strcmp(*keys, key))
		keys++;
	return *keys;
}

static bool section_has(const struct machine_section *section, const char *key)
{
	if (has_key(section->plain, key) || has_key(section->optional, key))
		return true;
	for (const struct machine_field *field = section->fields; field->key; field++) {
		if (!strcmp(field->key, key))
			return true;
	}
	return false;
}

/* An object with all of the section's keys, but for optional ones, and no others. */
static int check_keys(struct parse *p, const char *path, json_t *object,
		      const struct machine_section *section)
{
	char at[MACHINE_KEY_MAX];
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return fail(p, path, "must be an object");
	json_object_foreach(object, key, value)
	{
		path_join(at, path, key);
		if (!section_has(section, key))
			return fail(p, at, "unknown key");
	}
	for (const char *const *plain = section->plain; *plain; plain++) {
		path_join(at, path, *plain);
		if (!json_object_get(object, *plain))
			return fail(p, at, "is missing");
	}
	for (const struct machine_field *field = section->fields; field->key; field++) {
		path_join(at, path, field->key);
		if (!json_object_get(object, field->key) && !has_key(section->optional, field->key))
			return fail(p, at, "is missing");
	}
	return 0;
}

/* A string of 1 to max printable ASCII characters. Borrowed from the object. */
static int parse_text(struct parse *p, const char *path, const json_t *object, const char *key,
		      size_t max, const char **out)
{
	const char *text = json_string_value(json_object_get(object, key));
	char at[MACHINE_KEY_MAX];

	path_join(at, path, key);
	if (!text)
		return fail(p, at, "must be a string");
	if (!*text || strlen(text) > max)
		return fail(p, at, "must have 1 to %zu characters", max);
	for (const char *c = text; *c; c++) {
		if (*c < ' ' || *c > '~')
			return fail(p, at, "must be printable ASCII");
	}
	*out = text;
	return 0;
}

/* A name: letters, digits, '-', '_' and '.', of which the last cannot come first. */
static int parse_name(struct parse *p, const char *path, const json_t *object, const char *key,
		      char out[WEIR_NAME_MAX])
{
	static const char set[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	char at[MACHINE_KEY_MAX];
	const char *name = "";
	int err;

	err = parse_text(p, path, object, key, WEIR_NAME_MAX - 1, &name);
	if (err)
		return err;
	path_join(at, path, key);
	if (*name == '.' || name[strspn(name, set)])
		return fail(p, at, "'%s' is no name: letters, digits, '-', '_' and '.'", name);
	memcpy(out, name, strlen(name) + 1);
	return 0;
}

/* The index of what the library calls kind 'name', a link by both its ends, a port by its memory
 * and its number of links; -1: none. */
static int find_named(const struct weir_machine_desc *desc, const char *kind, const char *name)
{
	char both[2 * WEIR_NAME_MAX];

	for (uint32_t i = 0; i < desc->nr_memories && !strcmp(kind, "memory"); i++) {
		if (!strcmp(desc->memory[i].name, name))
			return (int)i;
	}
	for (uint32_t i = 0; i < desc->nr_devices && !strcmp(kind, "device"); i++) {
		if (!strcmp(desc->device[i].name, name))
			return (int)i;
	}
	for (uint32_t i = 0; i < desc->nr_kernels && !strcmp(kind, "kernel"); i++) {
		if (!strcmp(desc->kernel[i].name, name))
			return (int)i;
	}
	for (uint32_t i = 0; i < desc->nr_ports && !strcmp(kind, "port"); i++) {
		(void)snprintf(both, sizeof(both), "%s-%u", desc->memory[desc->port[i].memory].name,
			       desc->port[i].links);
		if (!strcmp(both, name))
			return (int)i;
	}
	for (uint32_t i = 0; i < desc->nr_links && !strcmp(kind, "link"); i++) {
		(void)snprintf(both, sizeof(both), "%s-%s", desc->memory[desc->link[i].a].name,
			       desc->memory[desc->link[i].b].name);
		if (!strcmp(both, name))
			return (int)i;
	}
	return -1;
}

/* The index of a memory that is named. */
static int parse_memory_index(struct parse *p, const char *path, const json_t *object,
			      const char *key, uint32_t *out)
{
	char at[MACHINE_KEY_MAX];
	const char *name = "";
	int err, index;

	err = parse_text(p, path, object, key, WEIR_NAME_MAX - 1, &name);
	if (err)
		return err;
	index = find_named(&p->out->desc, "memory", name);
	if (index < 0) {
		path_join(at, path, key);
		return fail(p, at, "no memory is named '%s'", name);
	}
	*out = (uint32_t)index;
	return 0;
}

/* A word of a list. */
static int parse_word(struct parse *p, const char *path, const json_t *object, const char *key,
		      const char *const *words, unsigned nr, unsigned *out)
{
	char at[MACHINE_KEY_MAX];
	char all[80] = "";
	const char *text = "";
	int err;

	err = parse_text(p, path, object, key, WEIR_NAME_MAX, &text);
	if (err)
		return err;
	for (unsigned i = 0; i < nr; i++) {
		size_t bytes = strlen(all);

		if (!strcmp(text, words[i])) {
			*out = i;
			return 0;
		}
		(void)snprintf(all + bytes, sizeof(all) - bytes, "%s%s", i ? ", " : "", words[i]);
	}
	path_join(at, path, key);
	return fail(p, at, "'%s' is none of %s", text, all);
}

static int parse_number(struct parse *p, const char *path, const json_t *json,
			const struct machine_field *field, double *out)
{
	char at[MACHINE_KEY_MAX];
	double value;

	path_join(at, path, "value");
	if (!json_is_number(json))
		return fail(p, at, "must be a number");
	value = json_number_value(json);
	if (!isfinite(value))
		return fail(p, at, "is too large");
	if (field->type == FIELD_RATE) {
		if (value <= 0)
			return fail(p, at, "must be above 0");
		*out = value;
		return 0;
	}
	if (field->type == FIELD_SHARE) {
		if (value < 0 || value > 1)
			return fail(p, at, "must be from 0 to 1");
		*out = value;
		return 0;
	}
	/* An integer beyond 2^53 may have been rounded to it on the way to a double. */
	if (json_is_integer(json) && json_integer_value(json) > (json_int_t)MACHINE_WHOLE_MAX)
		return fail(p, at, "must be at most %llu", (unsigned long long)MACHINE_WHOLE_MAX);
	if (value < 0 || value > (double)MACHINE_WHOLE_MAX || value != floor(value))
		return fail(p, at, "must be a whole number from 0 to %llu",
			    (unsigned long long)MACHINE_WHOLE_MAX);
	if (field->type == FIELD_U32 && value > (double)UINT32_MAX)
		return fail(p, at, "must be at most %lu", (unsigned long)UINT32_MAX);
	*out = value;
	return 0;
}

static void store(void *base, const struct machine_field *field, double value)
{
	void *at = (char *)base + field->offset;

	switch (field->type) {
	case FIELD_U64:
		*(uint64_t *)at = (uint64_t)value;
		break;
	case FIELD_U32:
		*(uint32_t *)at = (uint32_t)value;
		break;
	case FIELD_RATE:
	case FIELD_SHARE:
		*(double *)at = value;
		break;
	}
}

static int parse_constant(struct parse *p, const char *path, json_t *json,
			  const struct machine_field *field, void *base)
{
	struct machine_constant *out = &p->out->constant[p->out->nr_constants];
	const char *source = "";
	unsigned origin = 0;
	double value = 0;
	int err;

	err = check_keys(p, path, json, &machine_constant_section);
	if (err)
		return err;
	err = parse_number(p, path, json_object_get(json, "value"), field, &value);
	if (err)
		return err;
	err = parse_word(p, path, json, "origin", machine_origin_names, WEIR_ORIGIN_NR, &origin);
	if (err)
		return err;
	err = parse_text(p, path, json, "source", MACHINE_SOURCE_MAX, &source);
	if (err)
		return err;
	out->source = strdup(source);
	if (!out->source)
		return fail_memory(p);
	(void)snprintf(out->path, sizeof(out->path), "%s", path);
	out->help = field->help;
	out->unit = field->unit;
	out->value = value;
	out->origin = (enum weir_machine_origin)origin;
	p->out->nr_constants++;
	store(base, field, value);
	return 0;
}

static int parse_constants(struct parse *p, const char *path, const json_t *object,
			   const struct machine_section *section, void *base)
{
	for (const struct machine_field *field = section->fields; field->key; field++) {
		json_t *json = json_object_get(object, field->key);
		char at[MACHINE_KEY_MAX];
		int err;

		if (!json)
			continue; /* check_keys() found that it may be left out */
		path_join(at, path, field->key);
		err = parse_constant(p, at, json, field, base);
		if (err)
			return err;
	}
	return 0;
}

/* An object whose keys are constants and what keys() parses; NULL: constants alone. */
static int parse_section(struct parse *p, const char *path, json_t *object,
			 const struct machine_section *section, void *base,
			 int (*keys)(struct parse *p, const char *path, const json_t *object,
				     void *base))
{
	int err = check_keys(p, path, object, section);

	if (!err && keys)
		err = keys(p, path, object, base);
	return err ? err : parse_constants(p, path, object, section, base);
}

static int memory_keys(struct parse *p, const char *path, const json_t *object, void *base)
{
	struct weir_memory_desc *memory = base;
	unsigned kind = 0;
	int err = parse_name(p, path, object, "name", memory->name);

	if (!err)
		err = parse_word(p, path, object, "kind", machine_kind_names, MACHINE_KIND_NR,
				 &kind);
	memory->kind = (enum weir_memory_kind)kind;
	return err;
}

static int device_keys(struct parse *p, const char *path, const json_t *object, void *base)
{
	struct weir_device_desc *device = base;
	int err = parse_name(p, path, object, "name", device->name);

	return err ? err : parse_memory_index(p, path, object, "memory", &device->memory);
}

static int link_keys(struct parse *p, const char *path, const json_t *object, void *base)
{
	struct weir_link_desc *link = base;
	int err = parse_memory_index(p, path, object, "a", &link->a);

	return err ? err : parse_memory_index(p, path, object, "b", &link->b);
}

static int port_keys(struct parse *p, const char *path, const json_t *object, void *base)
{
	const json_t *links = json_object_get(object, "links");
	struct weir_port_desc *port = base;
	char at[MACHINE_KEY_MAX];

	path_join(at, path, "links");
	if (!json_is_integer(links) || json_integer_value(links) < 1 ||
	    json_integer_value(links) >= WEIR_MEMORIES_MAX)
		return fail(p, at, "must be a whole number from 1 to %d", WEIR_MEMORIES_MAX - 1);
	port->links = (uint32_t)json_integer_value(links);
	return parse_memory_index(p, path, object, "memory", &port->memory);
}

static int kernel_keys(struct parse *p, const char *path, const json_t *object, void *base)
{
	struct weir_kernel_rate *kernel = base;

	return parse_name(p, path, object, "name", kernel->name);
}

/* Descriptions that are older than the key say one constant for every kernel. */
static void link_default(const json_t *object, struct weir_link_desc *link)
{
	if (!json_object_get(object, "inplace_serial_random"))
		link->inplace_serial_random = link->inplace_serial;
}

/* An array of the format, and where it goes in the description. */
struct array {
	const char *key;
	const struct machine_section *section;
	int (*keys)(struct parse *p, const char *path, const json_t *object, void *base);
	uint32_t max;
	size_t nr, first, bytes; /* offsets of the number and of the elements; size of one */
};

#define ARRAY(name, number, most)                                                        \
	{                                                                                \
		.key = #name, .section = &machine_##name##_section, .keys = name##_keys, \
		.max = (most), .nr = offsetof(struct weir_machine_desc, number),         \
		.first = offsetof(struct weir_machine_desc, name),                       \
		.bytes = sizeof(((struct weir_machine_desc *)NULL)->name[0])             \
	}

static const struct array memories = ARRAY(memory, nr_memories, WEIR_MEMORIES_MAX),
			  devices = ARRAY(device, nr_devices, WEIR_DEVICES_MAX),
			  links = ARRAY(link, nr_links, WEIR_LINKS_MAX),
			  ports = ARRAY(port, nr_ports, WEIR_PORTS_MAX),
			  kernels = ARRAY(kernel, nr_kernels, WEIR_KERNELS_MAX);

static int parse_array(struct parse *p, const json_t *root, const struct array *a)
{
	const json_t *array = json_object_get(root, a->key);
	char *desc = (char *)&p->out->desc;
	size_t size = json_array_size(array);

	if (!json_is_array(array))
		return fail(p, a->key, "must be an array");
	if (size > a->max)
		return fail(p, a->key, "has %zu elements, at most %u are possible", size, a->max);
	for (size_t i = 0; i < size; i++) {
		char path[MACHINE_KEY_MAX];
		int err;

		(void)snprintf(path, sizeof(path), "%s[%zu]", a->key, i);
		err = parse_section(p, path, json_array_get(array, i), a->section,
				    desc + a->first + i * a->bytes, a->keys);
		if (err)
			return err;
		if (a == &links)
			link_default(json_array_get(array, i), &p->out->desc.link[i]);
		/* Counted one by one: a device looks up memories that are complete. */
		*(uint32_t *)(void *)(desc + a->nr) = (uint32_t)i + 1;
	}
	return 0;
}

/* Room for the constants of the most that the arrays may hold. */
static int reserve_constants(struct parse *p)
{
	p->out->constant = calloc(MACHINE_CONSTANTS_MAX, sizeof(*p->out->constant));
	return p->out->constant ? 0 : fail_memory(p);
}

static int parse_head(struct parse *p, json_t *root)
{
	const json_t *schema = json_object_get(root, "schema");
	const char *about = "";
	int err;

	err = check_keys(p, "", root, &machine_root_section);
	if (err)
		return err;
	if (!json_is_integer(schema) || json_integer_value(schema) != MACHINE_SCHEMA)
		return fail(p, "schema", "must be %d", MACHINE_SCHEMA);
	err = parse_name(p, "", root, "name", p->out->desc.name);
	if (err)
		return err;
	err = parse_text(p, "", root, "about", MACHINE_ABOUT_MAX - 1, &about);
	if (err)
		return err;
	memcpy(p->out->about, about, strlen(about) + 1);
	return 0;
}

/*
 * The library finds contradictions and says them in words, because it knows of no file: "device
 * 'gpu0': ops_per_s is ...". Where the words begin with something of the file, name that too; where
 * they do not, they stand alone.
 */
static int check_machine(struct parse *p)
{
	const struct weir_machine_desc *desc = &p->out->desc;
	char path[MACHINE_KEY_MAX] = "vmm";
	char at[MACHINE_KEY_MAX];
	char kind[8], name[2 * WEIR_NAME_MAX], key[32];
	char why[192];
	const char *rest = why;
	int index;

	if (!weir_machine_check(desc, why, sizeof(why)))
		return 0;
	if (sscanf(why, "%7[a-z] '%63[^']'", kind, name) == 2) {
		index = find_named(desc, kind, name);
		if (index < 0)
			return fail(p, "", "%s", why);
		(void)snprintf(path, sizeof(path), "%s[%d]", kind, index);
		rest = strrchr(why, '\'') + 1;
	} else if (!strncmp(why, "uvm:", 4)) {
		memcpy(path, "uvm", sizeof("uvm"));
		rest = why + 3;
	}
	if (sscanf(rest, "%*[: ]%31[a-z0-9_]", key) == 1 ||
	    sscanf(rest, "%31[a-z0-9_]", key) == 1) {
		path_join(at, path, key);
		if (json_where(p->text, p->bytes, at))
			return fail(p, at, "%s", why);
	}
	return fail(p, rest == why ? "" : path, "%s", why);
}

static int parse_root(struct parse *p, json_t *root)
{
	struct weir_machine_desc *desc = &p->out->desc;
	json_t *uvm = json_object_get(root, "uvm");
	int err;

	err = parse_head(p, root);
	if (!err)
		err = reserve_constants(p);
	if (!err)
		err = parse_array(p, root, &memories);
	if (!err)
		err = parse_array(p, root, &devices);
	if (!err)
		err = parse_array(p, root, &links);
	if (!err)
		err = parse_section(p, "vmm", json_object_get(root, "vmm"), &machine_vmm_section,
				    &desc->vmm, NULL);
	if (!err && uvm)
		err = parse_section(p, "uvm", uvm, &machine_uvm_section, &desc->uvm, NULL);
	if (!err && uvm && !desc->uvm.batch_faults)
		err = fail(p, "uvm.batch_faults", "must be above 0");
	if (!err && json_object_get(root, "port"))
		err = parse_array(p, root, &ports);
	if (!err && json_object_get(root, "kernel"))
		err = parse_array(p, root, &kernels);
	return err ? err : check_machine(p);
}

static int parse_json(struct parse *p, json_t **root)
{
	json_error_t error;

	*root = json_loadb(p->text, p->bytes, JSON_REJECT_DUPLICATES, &error);
	if (*root)
		return 0;
	if (json_error_code(&error) == json_error_out_of_memory)
		return fail_memory(p);
	if (p->err_bytes) {
		/* Before the first line there is no position to name. */
		if (error.line > 0)
			(void)snprintf(p->err, p->err_bytes, "%s:%d:%d: %s", p->file, error.line,
				       error.column, error.text);
		else
			(void)snprintf(p->err, p->err_bytes, "%s: %s", p->file, error.text);
		make_printable(p->err);
	}
	return -WEIR_EMACHINE;
}

int machine_parse(const char *text, size_t bytes, const char *file, struct machine_file *out,
		  char *err, size_t err_bytes)
{
	struct machine_file machine;
	struct parse p = {text, bytes, file, err, err_bytes, &machine};
	json_t *root;
	int error;

	/* Padding too: descriptions can then be compared byte by byte. */
	memset(&machine, 0, sizeof(machine));
	error = parse_json(&p, &root);
	if (error)
		return error;
	error = parse_root(&p, root);
	json_decref(root);
	if (error) {
		machine_file_fini(&machine);
		return error;
	}
	*out = machine;
	return 0;
}

void machine_file_fini(struct machine_file *machine)
{
	for (size_t i = 0; i < machine->nr_constants; i++)
		free(machine->constant[i].source);
	free(machine->constant);
	free(machine->path);
	*machine = (struct machine_file){.nr_constants = 0};
}
