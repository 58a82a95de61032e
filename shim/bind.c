/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver function's first call: the stub's slot leads here with the function's number and the
 * stub's header. The slot gets the address of what serves the function from then on, a function of
 * weir's own or the driver's, and the call goes on there with all its arguments as they were.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#include "shim/hooks.h"
#include "shim/real.h"
#include "shim/stub.h"

#ifdef __x86_64__
/*
 * On the stack: the function's number, the caller's return address. In r11: the header. Registers
 * that may hold arguments are kept (System V ABI, AMD64 supplement, "Parameter Passing"): a CUDA
 * function takes integers, pointers and floats.
 */
__asm__(".text\n"
	".globl " STUB_BIND "\n"
	".type " STUB_BIND ", @function\n"
	".p2align 4\n" STUB_BIND ":\n"
	"	.cfi_startproc\n"
	"	.cfi_def_cfa_offset 16\n"
	"	sub $208, %rsp\n"
	"	.cfi_adjust_cfa_offset 208\n"
	"	mov %rdi, 0(%rsp)\n"
	"	mov %rsi, 8(%rsp)\n"
	"	mov %rdx, 16(%rsp)\n"
	"	mov %rcx, 24(%rsp)\n"
	"	mov %r8, 32(%rsp)\n"
	"	mov %r9, 40(%rsp)\n"
	"	mov %rax, 48(%rsp)\n"
	"	mov %r10, 56(%rsp)\n"
	"	movups %xmm0, 64(%rsp)\n"
	"	movups %xmm1, 80(%rsp)\n"
	"	movups %xmm2, 96(%rsp)\n"
	"	movups %xmm3, 112(%rsp)\n"
	"	movups %xmm4, 128(%rsp)\n"
	"	movups %xmm5, 144(%rsp)\n"
	"	movups %xmm6, 160(%rsp)\n"
	"	movups %xmm7, 176(%rsp)\n"
	"	mov 208(%rsp), %rdi\n"
	"	mov %r11, %rsi\n"
	"	call dropin_bind\n"
	"	mov %rax, %r11\n"
	"	movups 176(%rsp), %xmm7\n"
	"	movups 160(%rsp), %xmm6\n"
	"	movups 144(%rsp), %xmm5\n"
	"	movups 128(%rsp), %xmm4\n"
	"	movups 112(%rsp), %xmm3\n"
	"	movups 96(%rsp), %xmm2\n"
	"	movups 80(%rsp), %xmm1\n"
	"	movups 64(%rsp), %xmm0\n"
	"	mov 56(%rsp), %r10\n"
	"	mov 48(%rsp), %rax\n"
	"	mov 40(%rsp), %r9\n"
	"	mov 32(%rsp), %r8\n"
	"	mov 24(%rsp), %rcx\n"
	"	mov 16(%rsp), %rdx\n"
	"	mov 8(%rsp), %rsi\n"
	"	mov 0(%rsp), %rdi\n"
	"	add $216, %rsp\n"
	"	.cfi_adjust_cfa_offset -216\n"
	"	jmp *%r11\n"
	"	.cfi_endproc\n"
	".size " STUB_BIND ", . - " STUB_BIND "\n");
#endif

/* What serves the function of a number. Called by the code above alone. */
__attribute__((used, visibility("hidden"))) void *dropin_bind(uint64_t n, struct stub_header *stub);

void *dropin_bind(uint64_t n, struct stub_header *stub)
{
	char *base = (char *)stub;
	void **slot = (void **)(base + stub->slots);
	const Elf64_Sym *symbol = (const Elf64_Sym *)(base + stub->symbols);
	const char *name = base + stub->strings + symbol[n].st_name;
	void *own, *driver;

	if (stub->magic != STUB_MAGIC || n >= stub->nr)
		abort();
	driver = real_find(name);
	own = hooks_find(name);
	if (!driver) {
		/* The driver was replaced while the program ran. */
		(void)fprintf(stderr, "weir: the CUDA driver has no %s any more\n", name);
		abort();
	}
	__atomic_store_n(&slot[n], own ? own : driver, __ATOMIC_SEQ_CST);
	return own ? own : driver;
}
