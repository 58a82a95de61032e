/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the eBPF interpreter share.
 *
 *   bpf_object.c  objects as a whole: loading, finding functions, destroying
 *   bpf_elf.c     an object file: sections, symbols, relocations
 *   bpf_btf.c     its type and line information
 *   bpf_check.c   whether code is well formed
 *   bpf_where.c   where an instruction is; names that are fit to be printed
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

/*
 * For tests/integration/policy_mutants.sh: a deliberate fault. Accesses may 1: be a byte behind a
 * region; 2: be of a region that is none; 3: write what is read-only. 4: A run may take an
 * instruction more than its budget has. 5: A jump may end outside of its function.
 */
#ifndef BPF_MUTANT
#define BPF_MUTANT 0
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
	bool exported, is_signed, is_integer, is_volatile;
};

/* Where an instruction comes from. */
struct bpf_line {
	uint32_t instruction, line;
	const char *file; /* in strings; no directory */
};

/* An instruction as it runs: its operands are of the width that it takes. */
struct bpf_code {
	uint16_t op; /* its code, or an enum bpf_op */
	uint8_t dst, src;
	int32_t off;  /* of an address; of a jump, the instructions to skip */
	uint64_t imm; /* a number; of a call, the function's first instruction or the helper */
};

/* What one code does that depends on more than the code. */
enum bpf_op {
	BPF_OP_MOVE_SIGNED = 256, /* moves with a sign; off is the number of bits */
	BPF_OP_MOVE_SIGNED_32,
	BPF_OP_HELPER, /* calls of a helper */
	BPF_OPS
};

/* A region as accesses see it. A number without a region has ends of 0, and no bytes. */
struct bpf_span {
	char *bytes;
	uint32_t read_end, write_end;
};

#define BPF_REGIONS_MAX 64u
#define BPF_REGION_DATA (BPF_REGION_GIVEN + BPF_GIVEN_MAX) /* the first data section's */

struct bpf_object {
	char *name;
	/* All code, one section behind the other. A call of a function has the number of the
	 * instruction in its immediate, one of a helper that of the helper. */
	struct bpf_insn *insn;
	struct bpf_code *code; /* the same by number; the second part of a wide one is not used */
	uint32_t nr_insns;
	struct bpf_function *function; /* sorted by first; they cover all code */
	uint32_t nr_functions;
	/* By number; the bytes of data sections and of the stack are owned. What is given is that
	 * of the present or the last run. */
	struct bpf_span region[BPF_REGIONS_MAX];
	uint32_t nr_regions;
	struct bpf_variable *variable;
	uint32_t nr_variables;
	struct bpf_line *line; /* sorted by instruction */
	uint32_t nr_lines;
	char *strings; /* of the BTF; NULL: none */
};

/* ld_imm64 is two. */
static inline bool bpf_is_wide(const struct bpf_insn *insn)
{
	return insn->code == (BPF_LD | BPF_IMM | BPF_DW);
}

/* The function that has an instruction. */
const struct bpf_function *bpf_function_of(const struct bpf_object *object, uint32_t insn);

/* "function, instruction N, file:line", N from the function's beginning. */
void bpf_where(const struct bpf_object *object, uint32_t insn, char *text, size_t bytes);

/* Fill an object that has its name alone from an object file. @return 0, -EINVAL or -ENOMEM with a
 * text in err; the object is to be destroyed even so. */
int bpf_elf_read(struct bpf_object *object, const void *bytes, size_t nr_bytes, char *err,
		 size_t err_bytes);

/* Whether all code is well formed: known instructions, registers, jumps inside a function to
 * instructions, calls of functions, no end that runs on. */
int bpf_check(const struct bpf_object *object, char *err, size_t err_bytes);

/* The form of a checked instruction that runs; of a wide one from its both parts. */
struct bpf_code bpf_decode(const struct bpf_insn *insn);

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
