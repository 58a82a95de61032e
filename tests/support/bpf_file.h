/* SPDX-License-Identifier: Apache-2.0 */
/* Object files of eBPF, made from instructions: for tests of what compilers don't emit. */
#ifndef WEIR_TEST_BPF_FILE_H
#define WEIR_TEST_BPF_FILE_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

/* A relocation of an instruction: to the data section, or to a function that is called by name. */
struct bpf_file_relocation {
	uint32_t insn;
	const char *call; /* NULL: to the data */
};

/* A function, another one, "other", behind it, and a variable, which programs write. */
struct bpf_file {
	const char *function; /* its name; NULL: "main" */
	const struct bpf_insn *insn;
	uint32_t nr_insns;
	uint32_t other; /* its first instruction; 0: there is none */
	const void *data;
	uint32_t data_bytes;  /* 0: there is none */
	const char *variable; /* the name of all of it; NULL: "data" */
	struct bpf_file_relocation relocation[8];
	uint32_t nr_relocations;
};

/* The bytes of the object file. Freed by the caller. Ends the test without memory. */
void *bpf_file_make(const struct bpf_file *file, size_t *bytes);

#endif
