/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a stub: see stub.h. The format is that of the System V ABI's "Object Files" and "Program
 * Loading and Dynamic Linking", with its AMD64 supplement. The file has two segments:
 *
 *   read, execute   headers, hash table, symbols, strings, relocations, code
 *   read, write     dynamic section, struct stub_header, address of the binder, slots
 *
 * and no sections. Slot n holds the address of "lazy n" at first, which hands its number and the
 * header to the binder; that stores the function's address in the slot and goes on there.
 */
#include "shim/stub.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

#define PAGE 4096u
#define FUNCTIONS_MAX 100000u
#define SONAME "libcuda.so.1"

/* ------------------------------------------------------------------ code */

#define STUB_BYTES 8u	 /* jmp *slot(%rip) */
#define LAZY_BYTES 12u	 /* push $n; jmp common */
#define COMMON_BYTES 16u /* lea header(%rip), %r11; jmp *bind(%rip) */

/* An offset to `to` from the end of an instruction that ends at `end`. */
static void put_offset(uint8_t *at, uint64_t to, uint64_t end)
{
	int32_t offset = (int32_t)((int64_t)to - (int64_t)end);

	memcpy(at, &offset, sizeof(offset));
}

static void put_jump_through(uint8_t *code, uint64_t addr, uint64_t slot)
{
	code[0] = 0xff;
	code[1] = 0x25;
	put_offset(code + 2, slot, addr + 6);
}

static void put_lazy(uint8_t *code, uint64_t addr, uint32_t n, uint64_t common)
{
	code[0] = 0x68;
	memcpy(code + 1, &n, sizeof(n));
	code[5] = 0xe9;
	put_offset(code + 6, common, addr + 10);
}

static void put_common(uint8_t *code, uint64_t addr, uint64_t header, uint64_t bind)
{
	static const uint8_t lea_r11[] = {0x4c, 0x8d, 0x1d};

	memcpy(code, lea_r11, sizeof(lea_r11));
	put_offset(code + 3, header, addr + 7);
	put_jump_through(code + 7, addr + 7, bind);
}

/* ------------------------------------------------------------------ layout */

/* Where everything is; offsets in the file are addresses, too. */
struct layout {
	uint64_t nr;
	uint64_t hash, symbols, strings, relocations, code, text_end;
	uint64_t data, dynamic, header, bind, slots, end;
	uint64_t string_bytes;
	uint64_t soname, needed, binder, mark; /* in the strings */
};

enum { NR_DYNAMIC = 12, NR_PROGRAM = 4 };

static uint64_t lay_out_strings(struct layout *l, const struct stub_names *names,
				const char *needed)
{
	uint64_t bytes = 1;

	for (size_t n = 0; n < names->nr; n++)
		bytes += strlen(names->name[n]) + 1;
	l->soname = bytes;
	l->needed = l->soname + sizeof(SONAME);
	l->binder = l->needed + strlen(needed) + 1;
	l->mark = l->binder + sizeof(STUB_BIND);
	return l->mark + sizeof(STUB_MARK);
}

static void lay_out(struct layout *l, const struct stub_names *names, const char *needed)
{
	const uint64_t nr = names->nr;

	l->nr = nr;
	l->hash = round_up(sizeof(Elf64_Ehdr) + NR_PROGRAM * sizeof(Elf64_Phdr), 8);
	/* The null symbol, the functions, the mark, the binder. A bucket for each that is
	 * defined. */
	l->symbols = round_up(l->hash + sizeof(uint32_t) * (2 + (nr + 1) + (nr + 3)), 8);
	l->strings = l->symbols + (nr + 3) * sizeof(Elf64_Sym);
	l->string_bytes = lay_out_strings(l, names, needed);
	l->relocations = round_up(l->strings + l->string_bytes, 8);
	l->code = round_up(l->relocations + (nr + 1) * sizeof(Elf64_Rela), 16);
	l->text_end = l->code + COMMON_BYTES + nr * (STUB_BYTES + LAZY_BYTES);
	l->data = round_up(l->text_end, PAGE);
	l->dynamic = l->data;
	l->header = l->dynamic + NR_DYNAMIC * sizeof(Elf64_Dyn);
	l->bind = l->header + sizeof(struct stub_header);
	l->slots = l->bind + 8;
	l->end = l->slots + 8 * nr;
}

static uint64_t stub_at(const struct layout *l, uint64_t n)
{
	return l->code + COMMON_BYTES + n * STUB_BYTES;
}

static uint64_t lazy_at(const struct layout *l, uint64_t n)
{
	return l->code + COMMON_BYTES + l->nr * STUB_BYTES + n * LAZY_BYTES;
}

/* ------------------------------------------------------------------ parts */

static void put_headers(uint8_t *image, const struct layout *l)
{
	Elf64_Ehdr *e = (Elf64_Ehdr *)image;
	Elf64_Phdr *p = (Elf64_Phdr *)(image + sizeof(*e));

	*e = (Elf64_Ehdr){
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(*e),
		.e_ehsize = sizeof(*e),
		.e_phentsize = sizeof(*p),
		.e_phnum = NR_PROGRAM,
		.e_shentsize = sizeof(Elf64_Shdr),
	};
	p[0] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_filesz = l->text_end,
		.p_memsz = l->text_end,
		.p_align = PAGE,
	};
	p[1] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_offset = l->data,
		.p_vaddr = l->data,
		.p_paddr = l->data,
		.p_filesz = l->end - l->data,
		.p_memsz = l->end - l->data,
		.p_align = PAGE,
	};
	p[2] = p[1];
	p[2].p_type = PT_DYNAMIC;
	p[2].p_filesz = p[2].p_memsz = NR_DYNAMIC * sizeof(Elf64_Dyn);
	p[2].p_align = 8;
	p[3] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16};
}

static void put_symbols(uint8_t *image, const struct layout *l, const struct stub_names *names,
			const char *needed)
{
	Elf64_Sym *symbol = (Elf64_Sym *)(image + l->symbols);
	char *strings = (char *)image + l->strings;
	uint64_t at = 1;

	for (uint64_t n = 0; n < l->nr; n++) {
		symbol[1 + n] = (Elf64_Sym){
			.st_name = (Elf64_Word)at,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = 1, /* there are no sections; any that is defined */
			.st_value = stub_at(l, n),
			.st_size = STUB_BYTES,
		};
		at = (uint64_t)(stpcpy(strings + at, names->name[n]) + 1 - strings);
	}
	symbol[1 + l->nr] = (Elf64_Sym){
		.st_name = (Elf64_Word)l->mark,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
		.st_shndx = 1,
		.st_value = l->header,
		.st_size = sizeof(struct stub_header),
	};
	symbol[2 + l->nr] = (Elf64_Sym){
		.st_name = (Elf64_Word)l->binder,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
	};
	memcpy(strings + l->soname, SONAME, sizeof(SONAME));
	memcpy(strings + l->needed, needed, strlen(needed) + 1);
	memcpy(strings + l->binder, STUB_BIND, sizeof(STUB_BIND));
	memcpy(strings + l->mark, STUB_MARK, sizeof(STUB_MARK));
}

/* The hash function of the System V ABI. */
static uint32_t hash_of(const char *name)
{
	uint32_t h = 0;

	for (; *name; name++) {
		h = (h << 4) + (uint8_t)*name;
		h ^= (h & 0xf0000000u) >> 24;
		h &= 0x0fffffffu;
	}
	return h;
}

static void put_hash(uint8_t *image, const struct layout *l, const struct stub_names *names)
{
	const uint32_t nr = (uint32_t)l->nr + 1; /* the mark is the last one */
	uint32_t *hash = (uint32_t *)(image + l->hash), *bucket = hash + 2;
	uint32_t *chain = bucket + nr;

	hash[0] = nr;
	hash[1] = nr + 2;
	for (uint32_t n = 0; n < nr; n++) {
		const char *name = n < l->nr ? names->name[n] : STUB_MARK;
		uint32_t *first = &bucket[hash_of(name) % nr];

		chain[1 + n] = *first;
		*first = 1 + n;
	}
}

static void put_code(uint8_t *image, const struct layout *l)
{
	Elf64_Rela *relocation = (Elf64_Rela *)(image + l->relocations);

	put_common(image + l->code, l->code, l->header, l->bind);
	for (uint64_t n = 0; n < l->nr; n++) {
		uint64_t slot = l->slots + 8 * n;

		put_jump_through(image + stub_at(l, n), stub_at(l, n), slot);
		put_lazy(image + lazy_at(l, n), lazy_at(l, n), (uint32_t)n, l->code);
		relocation[n] = (Elf64_Rela){
			.r_offset = slot,
			.r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE),
			.r_addend = (int64_t)lazy_at(l, n),
		};
	}
	relocation[l->nr] = (Elf64_Rela){
		.r_offset = l->bind,
		.r_info = ELF64_R_INFO(2 + l->nr, R_X86_64_GLOB_DAT),
	};
}

static void put_dynamic(uint8_t *image, const struct layout *l)
{
	const Elf64_Dyn dynamic[NR_DYNAMIC] = {
		{DT_NEEDED, {l->needed}},
		{DT_SONAME, {l->soname}},
		{DT_HASH, {l->hash}},
		{DT_SYMTAB, {l->symbols}},
		{DT_SYMENT, {sizeof(Elf64_Sym)}},
		{DT_STRTAB, {l->strings}},
		{DT_STRSZ, {l->string_bytes}},
		{DT_RELA, {l->relocations}},
		{DT_RELASZ, {(l->nr + 1) * sizeof(Elf64_Rela)}},
		{DT_RELAENT, {sizeof(Elf64_Rela)}},
		{DT_FLAGS, {DF_BIND_NOW}},
		{DT_NULL, {0}},
	};
	const struct stub_header header = {
		.magic = STUB_MAGIC,
		.nr = l->nr,
		.slots = (int64_t)l->slots - (int64_t)l->header,
		.symbols = (int64_t)(l->symbols + sizeof(Elf64_Sym)) - (int64_t)l->header,
		.strings = (int64_t)l->strings - (int64_t)l->header,
	};

	memcpy(image + l->dynamic, dynamic, sizeof(dynamic));
	memcpy(image + l->header, &header, sizeof(header));
}

int stub_make(const struct stub_names *names, const char *needed, void **image, size_t *bytes)
{
	struct layout l;
	uint8_t *made;

#ifndef __x86_64__
	return -ENOTSUP;
#endif
	if (!names->nr || names->nr > FUNCTIONS_MAX)
		return -EINVAL;
	lay_out(&l, names, needed);
	made = calloc(1, l.end);
	if (!made)
		return -ENOMEM;
	put_headers(made, &l);
	put_symbols(made, &l, names, needed);
	put_hash(made, &l, names);
	put_code(made, &l);
	put_dynamic(made, &l);
	*image = made;
	*bytes = l.end;
	return 0;
}
