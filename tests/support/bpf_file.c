/* SPDX-License-Identifier: Apache-2.0 */
/* What bpf_file.h says. Sections: none, names, code, data, symbols, relocations of the code. */
#include "tests/support/bpf_file.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

enum { NONE, NAMES, CODE, DATA, SYMBOLS, RELOCATIONS, SECTIONS_NR };

#define SYMBOLS_MAX 16u
#define NAMES_MAX 1024u

struct out {
	uint8_t *bytes;
	size_t nr;
	char names[NAMES_MAX];
	uint32_t names_bytes;
	Elf64_Shdr section[SECTIONS_NR];
	Elf64_Sym symbol[SYMBOLS_MAX];
	uint32_t nr_symbols;
};

static uint32_t name(struct out *o, const char *text)
{
	const uint32_t at = o->names_bytes;

	if (at + strlen(text) + 1 > sizeof(o->names))
		abort();
	strcpy(o->names + at, text);
	o->names_bytes += (uint32_t)strlen(text) + 1;
	return at;
}

static uint32_t symbol(struct out *o, const char *text, uint8_t info, uint16_t section,
		       uint64_t value, uint64_t bytes)
{
	if (o->nr_symbols == SYMBOLS_MAX)
		abort();
	o->symbol[o->nr_symbols] = (Elf64_Sym){
		.st_name = name(o, text),
		.st_info = info,
		.st_shndx = section,
		.st_value = value,
		.st_size = bytes,
	};
	return o->nr_symbols++;
}

static void put(struct out *o, uint32_t section, const char *text, Elf64_Shdr head,
		const void *bytes)
{
	head.sh_name = name(o, text);
	head.sh_offset = o->nr;
	o->section[section] = head;
	o->bytes = realloc(o->bytes, o->nr + head.sh_size + 1);
	if (!o->bytes)
		abort();
	if (head.sh_size)
		memcpy(o->bytes + o->nr, bytes, head.sh_size);
	o->nr += head.sh_size;
}

static void put_relocations(struct out *o, const struct bpf_file *file)
{
	Elf64_Rel rel[ARRAY_LEN(file->relocation)];

	for (uint32_t r = 0; r < file->nr_relocations; r++) {
		const struct bpf_file_relocation *f = &file->relocation[r];
		/* The second symbol is the data's. */
		const uint32_t to =
			f->call ? symbol(o, f->call, ELF64_ST_INFO(STB_GLOBAL, 0), SHN_UNDEF, 0, 0)
				: 2;

		rel[r] = (Elf64_Rel){
			f->insn * sizeof(struct bpf_insn),
			ELF64_R_INFO((uint64_t)to, f->call ? R_BPF_64_32 : R_BPF_64_64)};
	}
	put(o, RELOCATIONS, ".rel.text",
	    (Elf64_Shdr){.sh_type = SHT_REL,
			 .sh_size = file->nr_relocations * sizeof(*rel),
			 .sh_link = SYMBOLS,
			 .sh_info = CODE},
	    rel);
}

void *bpf_file_make(const struct bpf_file *file, size_t *bytes)
{
	struct out o = {.nr = sizeof(Elf64_Ehdr), .names_bytes = 1, .nr_symbols = 1};
	Elf64_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				       EV_CURRENT},
			   .e_type = ET_REL,
			   .e_machine = EM_BPF,
			   .e_version = EV_CURRENT,
			   .e_ehsize = sizeof(head),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = SECTIONS_NR,
			   .e_shstrndx = NAMES};
	const uint64_t code_bytes = file->nr_insns * sizeof(*file->insn);

	o.bytes = malloc(o.nr);
	if (!o.bytes)
		abort();
	put(&o, CODE, ".text",
	    (Elf64_Shdr){.sh_type = SHT_PROGBITS,
			 .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			 .sh_size = code_bytes},
	    file->insn);
	put(&o, DATA, ".data",
	    (Elf64_Shdr){.sh_type = SHT_PROGBITS,
			 .sh_flags = SHF_ALLOC | SHF_WRITE,
			 .sh_size = file->data_bytes},
	    file->data);
	(void)symbol(&o, file->function ? file->function : "main",
		     ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), CODE, 0, code_bytes);
	(void)symbol(&o, file->variable ? file->variable : "data",
		     ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), DATA, 0, file->data_bytes);
	if (file->other)
		(void)symbol(&o, "other", ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), CODE,
			     file->other * sizeof(*file->insn), 0);
	put_relocations(&o, file);
	put(&o, SYMBOLS, ".symtab",
	    (Elf64_Shdr){.sh_type = SHT_SYMTAB,
			 .sh_size = o.nr_symbols * sizeof(Elf64_Sym),
			 .sh_link = NAMES},
	    o.symbol);
	o.section[NAMES] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
					.sh_size = o.names_bytes,
					.sh_offset = o.nr,
					.sh_name = name(&o, ".strtab")};
	o.section[NAMES].sh_size = o.names_bytes;
	o.bytes = realloc(o.bytes, o.nr + sizeof(o.names) + sizeof(o.section));
	if (!o.bytes)
		abort();
	memcpy(o.bytes + o.nr, o.names, o.names_bytes);
	head.e_shoff = o.nr + o.names_bytes;
	memcpy(o.bytes + head.e_shoff, o.section, sizeof(o.section));
	memcpy(o.bytes, &head, sizeof(head));
	*bytes = head.e_shoff + sizeof(o.section);
	return o.bytes;
}
