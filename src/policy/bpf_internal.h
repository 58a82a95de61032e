/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the eBPF interpreter share.
 *
 *   bpf_elf.c     an object file: sections, symbols, relocations
 *   bpf_btf.c     its type and line information
 *   bpf_check.c   whether code is well formed
 *   bpf_run.c     running it
 *   bpf_global.c  its variables
 */
#ifndef WEIR_POLICY_BPF_INTERNAL_H
#define WEIR_POLICY_BPF_INTERNAL_H

#include <linux/bpf.h>

#include "src/policy/bpf.h"

/* Not in older <linux/bpf.h>. */
#ifndef BPF_MEMSX
#define BPF_MEMSX 0x80
#endif

/* Functions that a program calls by name: the immediate of such a call. */
enum bpf_helper {
	BPF_HELPER_NONE,
	BPF_HELPER_MEMCPY,
	BPF_HELPER_MEMMOVE,
	BPF_HELPER_MEMSET,
	BPF_HELPER_LOG,
	BPF_HELPER_NR
};

struct bpf_function {
	char *name;	    /* owned */
	uint32_t first, nr; /* instructions */
	bool global;	    /* others may ask for it by name */
};

struct bpf_variable {
	char *name; /* owned */
	uint32_t region, offset, nr;
	bool is_signed, is_integer;
};

/* Where an instruction comes from. */
struct bpf_line {
	uint32_t instruction, line;
	const char *file; /* in strings; no directory */
};

struct bpf_object {
	char *name;
	/* All code, one section behind the other. A call of a function has the number of the
	 * instruction in its immediate, one of a helper that of the helper. */
	struct bpf_insn *insn;
	uint32_t nr_insns;
	struct bpf_function *function; /* sorted by first; they cover all code */
	uint32_t nr_functions;
	/* By number; the bytes of data sections and of the stack are owned. What is given is that of
	 * the present or the last run. */
	struct bpf_region *region;
	uint32_t nr_regions;
	struct bpf_variable *variable;
	uint32_t nr_variables;
	struct bpf_line *line; /* sorted by instruction */
	uint32_t nr_lines;
	char *strings; /* of the BTF; NULL: none */
};

#define BPF_REGION_DATA (BPF_REGION_GIVEN + BPF_GIVEN_MAX) /* the first data section's */

/* ld_imm64 is two. */
static inline bool bpf_is_wide(const struct bpf_insn *insn)
{
	return insn->code == (BPF_LD | BPF_IMM | BPF_DW);
}

/* The function that has an instruction. */
const struct bpf_function *bpf_function_of(const struct bpf_object *object, uint32_t insn);

/* "function, instruction N, file:line", N from the function's beginning. */
void bpf_where(const struct bpf_object *object, uint32_t insn, char *text, size_t bytes);

/* Whether all code is well formed: known instructions, registers, jumps inside a function to
 * instructions, calls of functions, no end that runs on. */
int bpf_check(const struct bpf_object *object, char *err, size_t err_bytes);

/* Take types of variables and lines from .BTF and .BTF.ext, where they are; what is not well formed
 * there is left out. code_first: by section of the file, its first instruction + 1; 0: no code. */
struct bpf_btf {
	const uint8_t *btf, *ext;
	size_t btf_bytes, ext_bytes;
	/* The first instruction of a code section by its name; UINT32_MAX: no such. */
	uint32_t (*section_first)(void *arg, const char *name, uint32_t *nr);
	void *arg;
};
int bpf_btf_read(struct bpf_object *object, const struct bpf_btf *btf);

#endif
