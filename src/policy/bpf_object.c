/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eBPF objects as a whole: loading one, that is reading the file (bpf_elf.c), checking its code
 * (bpf_check.c) and bringing it into the form that runs; finding its functions; destroying it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/policy/bpf_internal.h"

/* The checked code in the form that runs. */
static int decode(struct bpf_object *o)
{
	o->code = calloc(o->nr_insns, sizeof(*o->code));
	if (!o->code)
		return -ENOMEM;
	for (uint32_t n = 0; n < o->nr_insns; n += 1 + bpf_is_wide(&o->insn[n]))
		o->code[n] = bpf_decode(&o->insn[n]);
	return 0;
}

int bpf_object_load(const char *name, const void *bytes, size_t nr_bytes, struct bpf_object **out,
		    char *err, size_t err_bytes)
{
	struct bpf_object *object = calloc(1, sizeof(*object));
	int rc;

	if (object)
		object->name = strdup(name);
	if (!object || !object->name) {
		rc = -ENOMEM;
		snprintf(err, err_bytes, "%s: no memory", name);
	} else {
		rc = bpf_elf_read(object, bytes, nr_bytes, err, err_bytes);
		if (!rc)
			rc = bpf_check(object, err, err_bytes);
		if (!rc && decode(object)) {
			rc = -ENOMEM;
			snprintf(err, err_bytes, "%s: no memory", name);
		}
	}
	if (rc) {
		bpf_make_printable(err);
		bpf_object_destroy(object);
	} else {
		*out = object;
	}
	return rc;
}

int bpf_object_open(const char *path, struct bpf_object **out, char *err, size_t err_bytes)
{
	FILE *file = fopen(path, "rb");
	char *bytes = file ? malloc(BPF_OBJECT_MAX + 1) : NULL;
	size_t nr = bytes ? fread(bytes, 1, BPF_OBJECT_MAX + 1, file) : 0;
	int rc = 0;

	if (!file || ferror(file))
		rc = -errno;
	else if (!bytes)
		rc = -ENOMEM;
	if (rc)
		snprintf(err, err_bytes, "%s: %s", path, strerror(-rc));
	else if (nr > BPF_OBJECT_MAX) {
		rc = -EINVAL;
		snprintf(err, err_bytes, "%s: more than %u MiB: no policy", path,
			 BPF_OBJECT_MAX >> 20);
	} else {
		rc = bpf_object_load(path, bytes, nr, out, err, err_bytes);
	}
	free(bytes);
	if (file)
		(void)fclose(file);
	return rc;
}

void bpf_object_destroy(struct bpf_object *object)
{
	if (!object)
		return;
	for (uint32_t f = 0; f < object->nr_functions; f++)
		free(object->function[f].name);
	for (uint32_t v = 0; v < object->nr_variables; v++)
		free(object->variable[v].name);
	for (uint32_t n = BPF_REGION_DATA; n < object->nr_regions; n++)
		free(object->region[n].bytes);
	free(object->region[BPF_REGION_STACK].bytes);
	free(object->function);
	free(object->variable);
	free(object->insn);
	free(object->code);
	free(object->line);
	free(object->strings);
	free(object->name);
	free(object);
}

int bpf_function_find(const struct bpf_object *object, const char *name)
{
	for (uint32_t f = 0; f < object->nr_functions; f++)
		if (object->function[f].global && strcmp(object->function[f].name, name) == 0)
			return (int)f;
	return -1;
}
