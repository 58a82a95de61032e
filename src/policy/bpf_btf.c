/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of variables and lines of instructions, from an object's .BTF and .BTF.ext sections
 * (<linux/btf.h>, and the kernel's Documentation/bpf/btf.rst). Both are for messages and for
 * reading globals alone, so what is not well formed is left out without an error.
 */
#include <errno.h>
#include <linux/btf.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/policy/bpf_internal.h"

#define CHAIN_MAX 16u /* types that name each other, as typedefs do */

struct btf {
	const uint8_t *types, *strings;
	uint32_t types_bytes, strings_bytes;
	const uint8_t **type; /* by number; 0 is void */
	uint32_t nr_types;
};

static uint32_t word(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* "" for what is no text. */
static const char *text_at(const struct btf *b, uint32_t offset)
{
	if (offset >= b->strings_bytes ||
	    !memchr(b->strings + offset, 0, b->strings_bytes - offset))
		return "";
	return (const char *)b->strings + offset;
}

/* ------------------------------------------------------------------ types */

/* Bytes of a type behind its head; UINT32_MAX: an unknown kind. */
static uint32_t more_bytes(uint32_t info)
{
	const uint32_t nr = BTF_INFO_VLEN(info);

	switch (BTF_INFO_KIND(info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case 17: /* BTF_KIND_DECL_TAG */
		return 4;
	case BTF_KIND_ARRAY:
		return 12;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case 19: /* BTF_KIND_ENUM64 */
		return nr * 12;
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return nr * 8;
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case 18: /* BTF_KIND_TYPE_TAG */
		return 0;
	default:
		return UINT32_MAX;
	}
}

/* Find where each type is. -ENOMEM. */
static int index_types(struct btf *b)
{
	const uint32_t most = b->types_bytes / sizeof(struct btf_type) + 1;

	b->type = calloc(most, sizeof(const uint8_t *));
	if (!b->type)
		return -ENOMEM;
	b->nr_types = 1;
	for (uint32_t at = 0; b->types_bytes - at >= sizeof(struct btf_type);) {
		const uint32_t more = more_bytes(word(b->types + at + 4));

		if (more > b->types_bytes - at - sizeof(struct btf_type))
			break;
		b->type[b->nr_types++] = b->types + at;
		at += (uint32_t)sizeof(struct btf_type) + more;
	}
	return 0;
}

/* Take a type: whether it is an integer, through typedefs and qualifiers. */
static void set_type(struct bpf_variable *v, const struct btf *b, uint32_t type)
{
	v->is_signed = v->is_volatile = false;
	for (uint32_t n = 0; n < CHAIN_MAX && type && type < b->nr_types; n++) {
		const uint8_t *at = b->type[type];

		switch (BTF_INFO_KIND(word(at + 4))) {
		case BTF_KIND_INT:
			v->is_signed = BTF_INT_ENCODING(word(at + 12)) & BTF_INT_SIGNED;
			return;
		case BTF_KIND_ENUM:
		case 19: /* BTF_KIND_ENUM64 */
			return;
		case BTF_KIND_VOLATILE:
			v->is_volatile = true;
			/* fall through */
		case BTF_KIND_TYPEDEF:
		case BTF_KIND_CONST:
		case BTF_KIND_RESTRICT:
			type = word(at + 8);
			break;
		default:
			type = 0;
			break;
		}
	}
	v->is_integer = false;
}

static void set_variable_types(struct bpf_object *object, const struct btf *b)
{
	for (uint32_t t = 1; t < b->nr_types; t++) {
		const uint8_t *at = b->type[t];
		const char *name = text_at(b, word(at));

		if (BTF_INFO_KIND(word(at + 4)) != BTF_KIND_VAR)
			continue;
		for (uint32_t v = 0; v < object->nr_variables; v++)
			if (strcmp(object->variable[v].name, name) == 0)
				set_type(&object->variable[v], b, word(at + 8));
	}
}

/* ------------------------------------------------------------------ lines */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The lines of one section of code: nr records of bytes each. */
static int add_lines(struct bpf_object *object, const struct btf *b, const uint8_t *record,
		     uint32_t nr, uint32_t bytes, uint32_t first, uint32_t nr_insns)
{
	struct bpf_line *grown =
		realloc(object->line, (object->nr_lines + (size_t)nr + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	object->line = grown;
	for (; nr > 0; nr--, record += bytes) {
		const uint32_t insn = word(record) / (uint32_t)sizeof(struct bpf_insn);
		const uint32_t file = word(record + 4);
		const char *name = base_name(text_at(b, file));

		if (insn < nr_insns)
			object->line[object->nr_lines++] = (struct bpf_line){
				first + insn, BPF_LINE_INFO_LINE_NUM(word(record + 12)),
				object->strings + (name - (const char *)b->strings)};
	}
	return 0;
}

static int by_instruction(const void *a, const void *b)
{
	const struct bpf_line *x = a, *y = b;

	return (x->instruction > y->instruction) - (x->instruction < y->instruction);
}

/* The part of .BTF.ext that has lines: the size of a record, then for each section of code its
 * name, how many records, and the records. */
static int read_lines(struct bpf_object *object, const struct btf *b, const struct bpf_btf *btf)
{
	const uint32_t head = btf->ext_bytes >= 24 ? word(btf->ext + 4) : 0;
	const uint64_t begin = head ? (uint64_t)head + word(btf->ext + 16) : 0;
	const uint64_t end = begin + (head ? word(btf->ext + 20) : 0);
	uint64_t at = begin + 4;
	uint32_t bytes;
	int err = 0;

	if (!head || end > btf->ext_bytes || at > end)
		return 0;
	bytes = word(btf->ext + begin);
	while (bytes >= 16 && !err && end - at >= 8) {
		const char *name = text_at(b, word(btf->ext + at));
		const uint32_t nr = word(btf->ext + at + 4);
		uint32_t nr_insns = 0;
		const uint32_t first = btf->section_first(btf->arg, name, &nr_insns);

		at += 8;
		if (nr > (end - at) / bytes)
			break;
		if (first != UINT32_MAX)
			err = add_lines(object, b, btf->ext + at, nr, bytes, first, nr_insns);
		at += (uint64_t)nr * bytes;
	}
	if (object->nr_lines)
		qsort(object->line, object->nr_lines, sizeof(*object->line), by_instruction);
	return err;
}

int bpf_btf_read(struct bpf_object *object, const struct bpf_btf *btf)
{
	struct btf b = {0};
	struct btf_header head;
	int err;

	if (btf->btf_bytes < sizeof(head))
		return 0;
	memcpy(&head, btf->btf, sizeof(head));
	if (head.magic != BTF_MAGIC || head.hdr_len < sizeof(head) ||
	    (uint64_t)head.hdr_len + head.type_off + head.type_len > btf->btf_bytes ||
	    (uint64_t)head.hdr_len + head.str_off + head.str_len > btf->btf_bytes || !head.str_len)
		return 0;
	b.types = btf->btf + head.hdr_len + head.type_off;
	b.types_bytes = head.type_len;
	b.strings_bytes = head.str_len;
	object->strings = malloc(b.strings_bytes);
	if (!object->strings)
		return -ENOMEM;
	memcpy(object->strings, btf->btf + head.hdr_len + head.str_off, b.strings_bytes);
	object->strings[b.strings_bytes - 1] = 0; /* it is, in what compilers make */
	b.strings = (const uint8_t *)object->strings;
	err = index_types(&b);
	if (!err) {
		set_variable_types(object, &b);
		err = btf->ext ? read_lines(object, &b, btf) : 0;
	}
	free((void *)b.type);
	return err;
}
