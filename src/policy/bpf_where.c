/* SPDX-License-Identifier: Apache-2.0 */
/* Where an instruction of an eBPF object is, and text from an object that is fit to be printed. */
#include <stdio.h>

#include "src/base/util.h"
#include "src/policy/bpf_internal.h"

const struct bpf_function *bpf_function_of(const struct bpf_object *object, uint32_t insn)
{
	uint32_t f;

	SEARCH_SORTED(f, 0, object->nr_functions, object->function[f].first <= insn);
	return &object->function[f ? f - 1 : 0];
}

void bpf_where(const struct bpf_object *object, uint32_t insn, char *text, size_t bytes)
{
	const struct bpf_function *f = bpf_function_of(object, insn);
	uint32_t n;

	SEARCH_SORTED(n, 0, object->nr_lines, object->line[n].instruction <= insn);
	if (n && object->line[n - 1].instruction >= f->first)
		snprintf(text, bytes, "%s, instruction %u, %s:%u", f->name, insn - f->first,
			 object->line[n - 1].file, object->line[n - 1].line);
	else
		snprintf(text, bytes, "%s, instruction %u", f->name, insn - f->first);
}

void bpf_make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}
