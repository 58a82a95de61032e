/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of an eBPF object. */
#include <string.h>

#include "src/policy/bpf_internal.h"

bool bpf_global_nth(const struct bpf_object *object, uint32_t n, struct bpf_global *out)
{
	const struct bpf_variable *v;
	const struct bpf_span *region;

	if (n >= object->nr_variables)
		return false;
	v = &object->variable[n];
	region = &object->region[v->region];
	*out = (struct bpf_global){
		.name = v->name,
		.bytes = region->bytes + v->offset,
		.nr = v->nr,
		.constant = !region->write_end,
		.exported = v->exported,
		.is_signed = v->is_signed,
		.is_volatile = v->is_volatile,
		.is_integer = v->is_integer,
	};
	return true;
}

bool bpf_global_find(const struct bpf_object *object, const char *name, struct bpf_global *out)
{
	for (uint32_t n = 0; bpf_global_nth(object, n, out); n++)
		if (strcmp(out->name, name) == 0)
			return true;
	return false;
}
