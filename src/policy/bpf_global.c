/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of an eBPF object: reading them, and setting those that programs do not write. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/policy/bpf_internal.h"

bool bpf_global_nth(const struct bpf_object *object, uint32_t n, struct bpf_global *out)
{
	const struct bpf_variable *v;
	const struct bpf_region *region;

	if (n >= object->nr_variables)
		return false;
	v = &object->variable[n];
	region = &object->region[v->region];
	*out = (struct bpf_global){
		.name = v->name,
		.bytes = (char *)region->bytes + v->offset,
		.nr = v->nr,
		.constant = !region->writable,
		.is_signed = v->is_signed,
		.is_integer = v->is_integer,
	};
	return true;
}

/* A number that so many bytes hold. @return whether the text is one. */
static bool parse(const struct bpf_global *global, const char *text, uint64_t *out)
{
	const uint32_t bits = global->nr * 8;
	const bool minus = *text == '-';
	const char *digits = text + minus;
	uint64_t most = UINT64_MAX >> (64 - bits);
	char *end;

	if (*digits < '0' || *digits > '9' || (minus && !global->is_signed))
		return false;
	if (global->is_signed)
		most = (most >> 1) + minus;
	errno = 0;
	*out = strtoull(digits, &end, 0);
	if (errno || *end || *out > most)
		return false;
	*out = minus ? 0 - *out : *out;
	return true;
}

int bpf_global_set(struct bpf_object *object, const char *name, const char *text, char *err,
		   size_t err_bytes)
{
	struct bpf_global global;
	uint64_t value;

	for (uint32_t n = 0; bpf_global_nth(object, n, &global); n++) {
		if (strcmp(global.name, name) != 0)
			continue;
		if (!global.constant) {
			snprintf(err, err_bytes,
				 "%s: %s is a variable that programs write: constants alone are "
				 "set, which are 'const volatile' in the source",
				 object->name, name);
			return -EPERM;
		}
		if (!global.is_integer || !parse(&global, text, &value)) {
			snprintf(err, err_bytes, "%s: %s is %s of %u bytes: '%s' is none",
				 object->name, name,
				 !global.is_integer ? "no integer, but something"
				 : global.is_signed ? "a signed integer"
						    : "an unsigned integer",
				 global.nr, text);
			return -EINVAL;
		}
		memcpy(global.bytes, &value, global.nr); /* little-endian */
		return 0;
	}
	snprintf(err, err_bytes, "%s: it has no variable %s", object->name, name);
	return -ENOENT;
}
