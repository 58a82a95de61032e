/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an eBPF object file: code sections become one array of instructions, data sections become
 * regions, and relocations are applied to both. Nothing in the file is trusted: each offset, count
 * and index is compared with what there is. Whether the code is well formed is not looked at here
 * (bpf_check.c).
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "src/policy/bpf_internal.h"

/* Not in older <elf.h>. */
#define RELOC_BPF_ABS64 2
#define RELOC_BPF_ABS32 3
#define RELOC_BPF_NODYLD32 4

#define SECTIONS_MAX 256u

/* Where a section went. */
struct place {
	enum { NOWHERE, CODE, DATA } kind;
	uint32_t first; /* CODE: its first instruction; DATA: its region */
	uint32_t nr;	/* instructions, bytes */
};

struct elf {
	const uint8_t *bytes;
	size_t nr_bytes;
	Elf64_Ehdr head;
	Elf64_Shdr section[SECTIONS_MAX];
	uint32_t nr_sections;
	struct place place[SECTIONS_MAX];
	uint32_t symbols; /* the section that has them; 0: none */
	uint64_t nr_symbols;
	struct bpf_object *object;
	uint32_t max_functions, max_variables;
	bool *relocated; /* by instruction: a call whose immediate is set already */
	char *err;
	size_t err_bytes;
};

__attribute__((format(printf, 2, 3))) static int wrong(const struct elf *e, const char *format, ...)
{
	char what[420];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(e->err, e->err_bytes, "%s: %s", e->object->name, what);
	return -EINVAL;
}

/* The same of an instruction. */
__attribute__((format(printf, 3, 4))) static int wrong_at(const struct elf *e, uint32_t insn,
							  const char *format, ...)
{
	char where[160], what[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	bpf_where(e->object, insn, where, sizeof(where));
	return wrong(e, "%s: %s", where, what);
}

static int no_memory(const struct elf *e)
{
	snprintf(e->err, e->err_bytes, "%s: no memory", e->object->name);
	return -ENOMEM;
}

/* ------------------------------------------------------------------ the file */

/* A part of the file; NULL: it has not that much. */
static const void *part(const struct elf *e, uint64_t offset, uint64_t bytes)
{
	return offset <= e->nr_bytes && bytes <= e->nr_bytes - offset ? e->bytes + offset : NULL;
}

/* The n-th entry of a section of entries, copied. @return whether there is one. */
static bool entry(const struct elf *e, uint32_t section, uint64_t n, void *out, size_t bytes)
{
	const Elf64_Shdr *s = &e->section[section];
	const void *from = n < s->sh_size / bytes ? part(e, s->sh_offset + n * bytes, bytes) : NULL;

	if (from)
		memcpy(out, from, bytes);
	return from;
}

/* A name in a section of names; "" if there is none. */
static const char *name_at(const struct elf *e, uint32_t section, uint64_t offset)
{
	const Elf64_Shdr *s = &e->section[section < e->nr_sections ? section : 0];
	const char *names = s->sh_type == SHT_STRTAB ? part(e, s->sh_offset, s->sh_size) : NULL;

	if (!names || offset >= s->sh_size || !memchr(names + offset, 0, s->sh_size - offset))
		return "";
	return names + offset;
}

static const char *section_name(const struct elf *e, uint32_t section)
{
	return name_at(e, e->head.e_shstrndx, e->section[section].sh_name);
}

static int read_head(struct elf *e)
{
	const void *head = part(e, 0, sizeof(e->head));

	if (!head || memcmp(head, ELFMAG, SELFMAG) != 0)
		return wrong(e, "not an object file: it does not begin as an ELF file does");
	memcpy(&e->head, head, sizeof(e->head));
	if (e->head.e_ident[EI_CLASS] != ELFCLASS64 || e->head.e_ident[EI_DATA] != ELFDATA2LSB ||
	    e->head.e_machine != EM_BPF || e->head.e_type != ET_REL)
		return wrong(e, "not an eBPF object: compile with clang -O2 -target bpf -c");
	if (e->head.e_shentsize != sizeof(Elf64_Shdr) || e->head.e_shnum > SECTIONS_MAX)
		return wrong(e, "its table of sections is not well formed, or has more than %u",
			     SECTIONS_MAX);
	e->nr_sections = e->head.e_shnum;
	head = part(e, e->head.e_shoff, e->nr_sections * sizeof(Elf64_Shdr));
	if (!head || !e->nr_sections)
		return wrong(e, "the file is cut: its table of sections is not there");
	memcpy(e->section, head, e->nr_sections * sizeof(Elf64_Shdr));
	for (uint32_t s = 0; s < e->nr_sections; s++) {
		const Elf64_Shdr *section = &e->section[s];

		if (section->sh_type != SHT_NOBITS &&
		    !part(e, section->sh_offset, section->sh_size))
			return wrong(e, "the file is cut: section %u is not there", s);
		if (section->sh_type != SHT_SYMTAB)
			continue;
		e->symbols = s;
		e->nr_symbols = section->sh_size / sizeof(Elf64_Sym);
	}
	return 0;
}

/* ------------------------------------------------------------------ sections */

static int add_code(struct elf *e, uint32_t s)
{
	struct bpf_object *o = e->object;
	const Elf64_Shdr *section = &e->section[s];
	const uint32_t nr = (uint32_t)(section->sh_size / sizeof(*o->insn));
	struct bpf_insn *grown;

	if (section->sh_type != SHT_PROGBITS || section->sh_size % sizeof(*o->insn))
		return wrong(e, "section %s is no code", section_name(e, s));
	if (!nr)
		return 0;
	grown = realloc(o->insn, (o->nr_insns + nr) * sizeof(*grown));
	if (!grown)
		return no_memory(e);
	o->insn = grown;
	memcpy(o->insn + o->nr_insns, part(e, section->sh_offset, section->sh_size),
	       section->sh_size);
	e->place[s] = (struct place){CODE, o->nr_insns, nr};
	o->nr_insns += nr;
	return 0;
}

static int add_data(struct elf *e, uint32_t s)
{
	struct bpf_object *o = e->object;
	const Elf64_Shdr *section = &e->section[s];
	const uint32_t nr = (uint32_t)section->sh_size;
	struct bpf_span *region = &o->region[o->nr_regions];

	if (strcmp(section_name(e, s), ".maps") == 0)
		return wrong(e, "it has maps, which are not there: use global variables");
	if (section->sh_size > BPF_OBJECT_MAX || o->nr_regions == BPF_REGIONS_MAX)
		return wrong(e, "its data is more than %u sections or %u MiB",
			     BPF_REGIONS_MAX - BPF_REGION_DATA, BPF_OBJECT_MAX >> 20);
	region->bytes = calloc(1, MAX(nr, 1u));
	if (!region->bytes)
		return no_memory(e);
	if (section->sh_type == SHT_PROGBITS && nr)
		memcpy(region->bytes, part(e, section->sh_offset, nr), nr);
	region->read_end = nr;
	region->write_end = section->sh_flags & SHF_WRITE ? nr : 0;
	e->place[s] = (struct place){DATA, o->nr_regions++, nr};
	return 0;
}

static int add_sections(struct elf *e)
{
	struct bpf_object *o = e->object;
	int err = 0;

	o->nr_regions = BPF_REGION_DATA;
	/* A frame begins with what others left there: programs do not read it. */
	o->region[BPF_REGION_STACK].bytes = calloc(BPF_FRAMES_MAX, BPF_STACK_BYTES);
	if (!o->region[BPF_REGION_STACK].bytes)
		return no_memory(e);
	o->region[BPF_REGION_STACK].read_end = BPF_FRAMES_MAX * BPF_STACK_BYTES;
	o->region[BPF_REGION_STACK].write_end = BPF_FRAMES_MAX * BPF_STACK_BYTES;
	for (uint32_t s = 1; s < e->nr_sections && !err; s++) {
		const Elf64_Shdr *section = &e->section[s];

		if (!(section->sh_flags & SHF_ALLOC))
			continue;
		if (section->sh_flags & SHF_EXECINSTR)
			err = add_code(e, s);
		else if (section->sh_type == SHT_PROGBITS || section->sh_type == SHT_NOBITS)
			err = add_data(e, s);
	}
	if (!err && !o->nr_insns)
		return wrong(e, "it has no code");
	return err;
}

/* ------------------------------------------------------------------ symbols */

static int by_first(const void *a, const void *b)
{
	const struct bpf_function *f = a, *g = b;

	return (f->first > g->first) - (f->first < g->first);
}

/* Grow an array by one element, which is cleared. @return it, or NULL. */
static void *grow(void *array_address, uint32_t *nr, uint32_t *max, size_t bytes)
{
	void **array = array_address;

	if (*nr == *max) {
		void *grown = realloc(*array, MAX(16u, 2 * *max) * bytes);

		if (!grown)
			return NULL;
		*array = grown;
		*max = MAX(16u, 2 * *max);
	}
	return memset((char *)*array + (*nr)++ * bytes, 0, bytes);
}

static int add_function(struct elf *e, const Elf64_Sym *symbol, const char *name)
{
	struct bpf_object *o = e->object;
	const struct place *place = &e->place[symbol->st_shndx];
	struct bpf_function *f;

	if (place->kind != CODE || symbol->st_value % sizeof(struct bpf_insn) ||
	    symbol->st_value / sizeof(struct bpf_insn) >= place->nr)
		return wrong(e, "function %s is not where code is", name);
	f = grow(&o->function, &o->nr_functions, &e->max_functions, sizeof(*f));
	if (!f)
		return no_memory(e);
	f->first = place->first + (uint32_t)(symbol->st_value / sizeof(struct bpf_insn));
	f->global = ELF64_ST_BIND(symbol->st_info) != STB_LOCAL;
	f->name = strdup(name);
	if (!f->name)
		return no_memory(e);
	bpf_make_printable(f->name);
	return 0;
}

static int add_variable(struct elf *e, const Elf64_Sym *symbol, const char *name)
{
	struct bpf_object *o = e->object;
	const struct place *place = &e->place[symbol->st_shndx];
	struct bpf_variable *v;

	if (place->kind != DATA || symbol->st_value > place->nr ||
	    symbol->st_size > place->nr - symbol->st_value)
		return wrong(e, "variable %s is not where data is", name);
	v = grow(&o->variable, &o->nr_variables, &e->max_variables, sizeof(*v));
	if (!v)
		return no_memory(e);
	v->region = place->first;
	v->offset = (uint32_t)symbol->st_value;
	v->nr = (uint32_t)symbol->st_size;
	v->exported = ELF64_ST_BIND(symbol->st_info) != STB_LOCAL;
	v->is_volatile = true;
	v->is_integer = v->nr <= 8 && is_power_of_2(v->nr);
	v->name = strdup(name);
	if (!v->name)
		return no_memory(e);
	bpf_make_printable(v->name);
	return 0;
}

/* Where functions end; all code is one's. */
static int bound_functions(struct elf *e)
{
	struct bpf_object *o = e->object;

	if (!o->nr_functions)
		return wrong(e, "it has no functions");
	qsort(o->function, o->nr_functions, sizeof(*o->function), by_first);
	for (uint32_t f = 0; f < o->nr_functions; f++) {
		const uint32_t end =
			f + 1 < o->nr_functions ? o->function[f + 1].first : o->nr_insns;

		o->function[f].nr = end - o->function[f].first;
		if (!o->function[f].nr)
			return wrong(e, "functions %s and %s begin at the same instruction",
				     o->function[f].name, o->function[f + 1].name);
	}
	for (uint32_t s = 0; s < e->nr_sections; s++)
		if (e->place[s].kind == CODE &&
		    bpf_function_of(o, e->place[s].first)->first != e->place[s].first)
			return wrong(e, "section %s does not begin with a function",
				     section_name(e, s));
	return 0;
}

static int add_symbols(struct elf *e)
{
	Elf64_Sym symbol;
	int err = 0;

	for (uint64_t n = 1; !err && entry(e, e->symbols, n, &symbol, sizeof(symbol)); n++) {
		const char *name = name_at(e, e->section[e->symbols].sh_link, symbol.st_name);

		if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= e->nr_sections)
			continue;
		if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
			err = add_function(e, &symbol, name);
		else if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT)
			err = add_variable(e, &symbol, name);
	}
	return err ? err : bound_functions(e);
}

/* ------------------------------------------------------------------ relocations */

static enum bpf_helper helper_find(const char *name)
{
	static const char *const names[BPF_HELPER_NR] = {
		[BPF_HELPER_NONE] = "",
		[BPF_HELPER_MEMCPY] = "memcpy",
		[BPF_HELPER_MEMMOVE] = "memmove",
		[BPF_HELPER_MEMSET] = "memset",
		[BPF_HELPER_LOG] = "weir_policy_log",
	};

	for (uint32_t h = 1; h < BPF_HELPER_NR; h++)
		if (strcmp(name, names[h]) == 0)
			return (enum bpf_helper)h;
	return BPF_HELPER_NONE;
}

/* The address of a symbol plus some bytes; 0: it is not in data. */
static uint64_t address_of(const struct elf *e, const Elf64_Sym *symbol, uint64_t more)
{
	const struct place *place =
		&e->place[symbol->st_shndx < e->nr_sections ? symbol->st_shndx : 0];

	return place->kind == DATA ? ((uint64_t)place->first << 32) + symbol->st_value + more : 0;
}

/* A call: its immediate becomes the number of the instruction, or of the helper. */
static int relocate_call(struct elf *e, uint32_t i, const Elf64_Sym *symbol, const char *name)
{
	struct bpf_insn *insn = &e->object->insn[i];
	const struct place *place =
		&e->place[symbol->st_shndx < e->nr_sections ? symbol->st_shndx : 0];

	e->relocated[i] = true;
	if (place->kind == CODE) {
		const int64_t to = (int64_t)place->first + insn->imm + 1 +
				   (int64_t)(symbol->st_value / sizeof(*insn));

		insn->src_reg = BPF_PSEUDO_CALL;
		/* bpf_check() finds what is no function. */
		insn->imm = to >= 0 && to < (int64_t)e->object->nr_insns ? (int32_t)to : -1;
		return 0;
	}
	insn->src_reg = 0;
	insn->imm = (int32_t)helper_find(name);
	if (insn->imm)
		return 0;
	return wrong_at(e, i,
			"it calls %s, which it does not have: define it there (others are memcpy, "
			"memmove, memset and weir_policy_log)",
			name);
}

static int relocate_code(struct elf *e, const struct place *place, const Elf64_Rel *rel,
			 const Elf64_Sym *symbol, const char *name)
{
	const uint64_t n = rel->r_offset / sizeof(struct bpf_insn);
	struct bpf_insn *insn;
	uint64_t address;

	if (rel->r_offset % sizeof(struct bpf_insn) || n >= place->nr)
		return wrong(e, "a relocation is not where code is");
	insn = &e->object->insn[place->first + n];
	if (ELF64_R_TYPE(rel->r_info) == R_BPF_64_32 && insn->code == (BPF_JMP | BPF_CALL))
		return relocate_call(e, place->first + (uint32_t)n, symbol, name);
	if (ELF64_R_TYPE(rel->r_info) != R_BPF_64_64 || !bpf_is_wide(insn) || n + 1 >= place->nr)
		return wrong_at(e, place->first + (uint32_t)n, "a relocation of an unknown kind");
	address = address_of(e, symbol, (uint32_t)insn->imm);
	if (!address)
		return wrong_at(e, place->first + (uint32_t)n,
				"%s is used and defined nowhere in the object, or is a function "
				"whose address is taken",
				*name ? name : "something");
	insn[0].imm = (int32_t)(uint32_t)address;
	insn[1].imm = (int32_t)(uint32_t)(address >> 32);
	return 0;
}

/* A pointer in a data section. */
static int relocate_data(struct elf *e, const struct place *place, const Elf64_Rel *rel,
			 const Elf64_Sym *symbol)
{
	char *at = e->object->region[place->first].bytes + rel->r_offset;
	uint64_t value;

	if (ELF64_R_TYPE(rel->r_info) != RELOC_BPF_ABS64 || rel->r_offset > place->nr ||
	    place->nr - rel->r_offset < sizeof(value))
		return wrong(e, "a relocation of data of an unknown kind");
	memcpy(&value, at, sizeof(value));
	value = address_of(e, symbol, value);
	if (!value)
		return wrong(e, "data with the address of a function, or of what is not there");
	memcpy(at, &value, sizeof(value));
	return 0;
}

static int relocate_section(struct elf *e, uint32_t s)
{
	const struct place *place = &e->place[e->section[s].sh_info];
	Elf64_Rel rel;
	int err = 0;

	for (uint64_t n = 0; !err && entry(e, s, n, &rel, sizeof(rel)); n++) {
		Elf64_Sym symbol;
		const char *name;

		if (!entry(e, e->symbols, ELF64_R_SYM(rel.r_info), &symbol, sizeof(symbol)))
			return wrong(e, "a relocation names no symbol");
		name = name_at(e, e->section[e->symbols].sh_link, symbol.st_name);
		err = place->kind == CODE ? relocate_code(e, place, &rel, &symbol, name)
					  : relocate_data(e, place, &rel, &symbol);
	}
	return err;
}

/* Calls inside a section need no relocation: what they call is so far from them. */
static void set_near_calls(struct elf *e)
{
	struct bpf_object *o = e->object;

	for (uint32_t i = 0; i < o->nr_insns; i += 1 + bpf_is_wide(&o->insn[i])) {
		struct bpf_insn *insn = &o->insn[i];
		const int64_t to = (int64_t)i + 1 + insn->imm;

		if (insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == BPF_PSEUDO_CALL &&
		    !e->relocated[i])
			insn->imm = to >= 0 && to < (int64_t)o->nr_insns ? (int32_t)to : -1;
	}
}

static int relocate(struct elf *e)
{
	int err = 0;

	e->relocated = calloc(e->object->nr_insns, sizeof(*e->relocated));
	if (!e->relocated)
		return no_memory(e);
	for (uint32_t s = 1; s < e->nr_sections && !err; s++) {
		const Elf64_Shdr *section = &e->section[s];

		if (section->sh_info >= e->nr_sections ||
		    e->place[section->sh_info].kind == NOWHERE)
			continue;
		if (section->sh_type == SHT_REL)
			err = relocate_section(e, s);
		else if (section->sh_type == SHT_RELA)
			err = wrong(e, "section %s: relocations of this form are not known",
				    section_name(e, s));
	}
	if (!err)
		set_near_calls(e);
	free(e->relocated);
	return err;
}

/* ------------------------------------------------------------------ type information */

static uint32_t section_first(void *arg, const char *name, uint32_t *nr)
{
	const struct elf *e = arg;

	for (uint32_t s = 1; s < e->nr_sections; s++)
		if (e->place[s].kind == CODE && strcmp(section_name(e, s), name) == 0) {
			*nr = e->place[s].nr;
			return e->place[s].first;
		}
	return UINT32_MAX;
}

static int read_btf(struct elf *e)
{
	struct bpf_btf btf = {.section_first = section_first, .arg = e};

	for (uint32_t s = 1; s < e->nr_sections; s++) {
		const Elf64_Shdr *section = &e->section[s];
		const char *name = section_name(e, s);

		if (section->sh_type != SHT_PROGBITS)
			continue;
		if (strcmp(name, ".BTF") == 0) {
			btf.btf = part(e, section->sh_offset, section->sh_size);
			btf.btf_bytes = section->sh_size;
		} else if (strcmp(name, ".BTF.ext") == 0) {
			btf.ext = part(e, section->sh_offset, section->sh_size);
			btf.ext_bytes = section->sh_size;
		}
	}
	return btf.btf && bpf_btf_read(e->object, &btf) ? no_memory(e) : 0;
}

int bpf_elf_read(struct bpf_object *object, const void *bytes, size_t nr_bytes, char *err,
		 size_t err_bytes)
{
	struct elf *e = calloc(1, sizeof(*e));
	int rc;

	if (!e) {
		snprintf(err, err_bytes, "%s: no memory", object->name);
		return -ENOMEM;
	}
	e->bytes = bytes;
	e->nr_bytes = nr_bytes;
	e->object = object;
	e->err = err;
	e->err_bytes = err_bytes;
	rc = read_head(e);
	if (!rc)
		rc = add_sections(e);
	if (!rc)
		rc = add_symbols(e);
	if (!rc)
		rc = read_btf(e);
	if (!rc)
		rc = relocate(e);
	free(e);
	return rc;
}
