/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in eBPF, compiled by `clang -O2 -target bpf`: an object is loaded, the structure of its
 * code is checked, and its functions are interpreted. Nothing of the kernel's is used but the names
 * of instructions: no maps, no verifier, no compiler to machine code.
 *
 * An address that a program computes with is not one of the machine's: it is the number of a
 * region, times 2^32, plus an offset. Each load and store is checked as it is made: the region
 * exists, the offset and the size lie in it, and a store finds it writable. So no program reads or
 * writes anything else, whatever its code is; loops, calls and variable indexes need no proof. An
 * address without a region, 0 among them, is a fault, which ends the run with an error.
 *
 *   region 0           none
 *   region 1           the stack: BPF_STACK_BYTES for each of at most BPF_FRAMES_MAX frames
 *   regions 2 and up   what the caller of a run gives it, at most BPF_GIVEN_MAX
 *   behind these       the object's data sections, in the file's order: globals, constants
 *
 * Each instruction of a run costs 1 of its budget; copies and fills of memory 1 for 8 bytes more, a
 * log 1 for each character more.
 *
 * Instructions: those of RFC 9669 with all its conformance groups but packet and the maps of
 * ld_imm64: 32 and 64 bits, atomics, calls of functions of the object. Called by name: memcpy,
 * memmove, memset, as the compiler emits them, and weir_policy_log(text, number).
 *
 * Threads: an object may be loaded and destroyed by any thread, and run by one at a time.
 */
#ifndef WEIR_POLICY_BPF_H
#define WEIR_POLICY_BPF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BPF_STACK_BYTES 512u
#define BPF_FRAMES_MAX 8u
#define BPF_GIVEN_MAX 6u
#define BPF_REGION_STACK 1u
#define BPF_REGION_GIVEN 2u

/* The address of the n-th region that is given to a run, and of a byte of it. */
#define BPF_GIVEN_ADDRESS(n) ((uint64_t)(BPF_REGION_GIVEN + (n)) << 32)

/* The largest object: what is larger is no policy. */
#define BPF_OBJECT_MAX (16u << 20)

struct bpf_object;

/* Bytes that a program may use. */
struct bpf_region {
	void *bytes; /* borrowed for a run; may be NULL if nr is 0 */
	uint32_t nr; /* at most 2^31 */
	bool writable;
};

/* A run of a function. */
struct bpf_run {
	struct bpf_region given[BPF_GIVEN_MAX];
	uint32_t nr_given;
	uint64_t arg[5]; /* registers 1 to 5 at its beginning */
	uint64_t budget; /* of instructions; what is left of it after a run */
	void (*log)(void *arg, const char *text, uint64_t number); /* may be NULL */
	void *log_arg;
	uint64_t answer; /* register 0 at the end */
};

/* Why a run ended without an answer. */
struct bpf_fault {
	uint32_t instruction; /* by number, from the beginning of all code of the object */
	char text[160];	      /* "function, instruction N, file:line: what happened" */
};

/*
 * Load an object. Nothing of it runs. name: for messages.
 *
 * @param [in]  bytes  Of the file. Copied as far as needed.
 * @param [out] out    Owned by the caller: bpf_object_destroy().
 * @param [out] err    On failure one line: object, function, instruction, line, reason.
 * @return 0, -EINVAL (not such an object, or its code is not well formed), -ENOMEM.
 */
int bpf_object_load(const char *name, const void *bytes, size_t nr_bytes, struct bpf_object **out,
		    char *err, size_t err_bytes);

/* The same of a file. Also an error of opening or reading it. */
int bpf_object_open(const char *path, struct bpf_object **out, char *err, size_t err_bytes);

/* NULL is allowed. */
void bpf_object_destroy(struct bpf_object *object);

/* The number of a function with a name of its own (not static); -1: there is none. */
int bpf_function_find(const struct bpf_object *object, const char *name);

/*
 * Run a function to its end. Globals keep what runs leave in them.
 *
 * @param [in,out] run    See there. On a fault its answer is what it was.
 * @param [out]    fault  Written on failure.
 * @return 0; -EFAULT: an access outside of its regions; -ETIME: the budget is used up; -ELOOP: more
 *         frames than there are.
 */
int bpf_function_run(struct bpf_object *object, uint32_t function, struct bpf_run *run,
		     struct bpf_fault *fault);

/* Text of a file may have any bytes: control characters become '?', so that a line is one. */
void bpf_make_printable(char *text);

/* A global variable. */
struct bpf_global {
	const char *name; /* the object's */
	void *bytes;	  /* aligned as bytes are */
	uint32_t nr;
	bool constant; /* programs do not write it: it may be set before the first run, if it is
			* volatile: what compilers know of the others stands in the code */
	bool exported; /* not static */
	/* By the object's BTF; without it all are volatile unsigned integers. */
	bool is_signed, is_integer, is_volatile;
};

/* The n-th global. @return false: there are no more. */
bool bpf_global_nth(const struct bpf_object *object, uint32_t n, struct bpf_global *out);

/* One by name. @return false: there is none. */
bool bpf_global_find(const struct bpf_object *object, const char *name, struct bpf_global *out);

#endif
