/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running eBPF. The code is well formed (bpf_check.c): registers, jumps and calls are what they are
 * taken for here. What a program computes is not: each access, and the budget, are looked at as it
 * runs. RFC 9669 is what instructions mean; division by zero is 0, a remainder of it the dividend.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/base/util.h"
#include "src/policy/bpf_internal.h"

/* A function that called another one. */
struct frame {
	const struct bpf_insn *call;
	uint64_t saved[4]; /* registers 6 to 9 */
};

struct vm {
	const struct bpf_object *object;
	struct bpf_run *run;
	uint64_t budget;
	uint64_t reg[11];
	uint32_t nr_frames;
	struct frame frame[BPF_FRAMES_MAX - 1];
	int err; /* what ended the run; 0: nothing yet */
	char why[96];
};

/* ------------------------------------------------------------------ memory */

/* An access that a program may not make ends the run. Kept out of the way of those that it may. */
__attribute__((cold, noinline)) static void *refuse(struct vm *vm, uint64_t address, uint64_t nr,
						    bool write)
{
	const uint64_t number = address >> 32;
	const char *what = write ? "store" : "load";

	vm->err = -EFAULT;
	if (number >= vm->object->nr_regions || !vm->object->region[number].nr)
		snprintf(vm->why, sizeof(vm->why), "%s of %llu bytes at 0x%llx, which is no region",
			 what, (unsigned long long)nr, (unsigned long long)address);
	else
		snprintf(vm->why, sizeof(vm->why),
			 "%s of %llu bytes at offset %u of a region of %u that is %s", what,
			 (unsigned long long)nr, (uint32_t)address, vm->object->region[number].nr,
			 vm->object->region[number].writable ? "writable" : "read-only");
	return NULL;
}

/* Bytes at an address of the program; NULL: it may not use them, and the run ends. */
static inline void *access_bytes(struct vm *vm, uint64_t address, uint64_t nr, bool write)
{
	const uint64_t number = address >> 32, offset = address & UINT32_MAX;
	const struct bpf_region *region = &vm->object->region[number];

	if (number < vm->object->nr_regions && nr <= region->nr && offset <= region->nr - nr &&
	    (region->writable || !write))
		return (char *)region->bytes + offset;
	return refuse(vm, address, nr, write);
}

static inline uint64_t load(struct vm *vm, uint64_t address, uint32_t size)
{
	const void *bytes = access_bytes(vm, address, size, false);
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, size); /* little-endian, as the objects are */
	return value;
}

static inline void store(struct vm *vm, uint64_t address, uint32_t size, uint64_t value)
{
	void *bytes = access_bytes(vm, address, size, true);

	if (bytes)
		memcpy(bytes, &value, size);
}

static uint64_t sign_extend(uint64_t value, uint32_t bits)
{
	return (uint64_t)((int64_t)(value << (64 - bits)) >> (64 - bits));
}

/* ------------------------------------------------------------------ arithmetic */

static uint64_t divide_signed(int64_t a, int64_t b, bool remainder)
{
	if (!b)
		return remainder ? (uint64_t)a : 0;
	if (b == -1)
		return remainder ? 0 : 0 - (uint64_t)a;
	return (uint64_t)(remainder ? a % b : a / b);
}

/* is_signed: an offset of 1 says so. */
static uint64_t divide(uint64_t a, uint64_t b, bool is_signed, bool wide)
{
	if (is_signed)
		return divide_signed(wide ? (int64_t)a : (int32_t)a, wide ? (int64_t)b : (int32_t)b,
				     false);
	return b ? a / b : 0;
}

static uint64_t modulo(uint64_t a, uint64_t b, bool is_signed, bool wide)
{
	if (is_signed)
		return divide_signed(wide ? (int64_t)a : (int32_t)a, wide ? (int64_t)b : (int32_t)b,
				     true);
	return b ? a % b : a;
}

/* What is moved: all, or so many bits with their sign. */
static uint64_t moved(uint64_t value, int16_t bits)
{
	return bits ? sign_extend(value, (uint32_t)bits) : value;
}

/* So many bits in the other order of bytes. */
static uint64_t swap(uint64_t value, int32_t bits)
{
	return __builtin_bswap64(value) >> (64 - bits);
}

static uint64_t low(uint64_t value, int32_t bits)
{
	return value & (UINT64_MAX >> (64 - bits));
}

/* ------------------------------------------------------------------ jumps and calls */

/* @return the instruction before the next one. */
static const struct bpf_insn *run_call(struct vm *vm, const struct bpf_insn *insn)
{
	struct frame *frame = &vm->frame[vm->nr_frames];

	if (vm->nr_frames == ARRAY_LEN(vm->frame)) {
		vm->err = -ELOOP;
		snprintf(vm->why, sizeof(vm->why), "more than %u calls in each other",
			 BPF_FRAMES_MAX - 1);
		return insn;
	}
	vm->nr_frames++;
	frame->call = insn;
	memcpy(frame->saved, &vm->reg[6], sizeof(frame->saved));
	vm->reg[10] += BPF_STACK_BYTES;
	return vm->object->insn + insn->imm - 1;
}

static const struct bpf_insn *run_exit(struct vm *vm)
{
	const struct frame *frame = &vm->frame[--vm->nr_frames];

	memcpy(&vm->reg[6], frame->saved, sizeof(frame->saved));
	vm->reg[10] -= BPF_STACK_BYTES;
	return frame->call;
}

static void spend(struct vm *vm, uint64_t nr)
{
	if (vm->budget >= nr) {
		vm->budget -= nr;
		return;
	}
	vm->budget = 0;
	vm->err = -ETIME;
	snprintf(vm->why, sizeof(vm->why), "its budget of instructions is used up");
}

static void run_copy(struct vm *vm, enum bpf_helper helper)
{
	const uint64_t nr = vm->reg[3];
	const void *from = &nr;
	void *to;

	spend(vm, nr / 8);
	to = vm->err ? NULL : access_bytes(vm, vm->reg[1], nr, true);
	if (to && helper != BPF_HELPER_MEMSET)
		from = access_bytes(vm, vm->reg[2], nr, false);
	if (!to || !from || !nr)
		return;
	if (helper == BPF_HELPER_MEMSET)
		memset(to, (int)vm->reg[2], nr);
	else
		memmove(to, from, nr);
}

static void run_log(struct vm *vm)
{
	char text[64];
	uint32_t n = 0;

	while (n < sizeof(text) - 1 && !vm->err) {
		text[n] = (char)load(vm, vm->reg[1] + n, 1);
		if (vm->err || !text[n])
			break;
		n++;
	}
	text[n] = 0;
	if (!vm->err && vm->run->log)
		vm->run->log(vm->run->log_arg, text, vm->reg[2]);
}

static const struct bpf_insn *run_helper(struct vm *vm, const struct bpf_insn *insn)
{
	const enum bpf_helper helper = (enum bpf_helper)insn->imm;

	if (helper == BPF_HELPER_LOG)
		run_log(vm);
	else
		run_copy(vm, helper);
	vm->reg[0] = helper == BPF_HELPER_LOG ? 0 : vm->reg[1];
	return insn;
}

/* ------------------------------------------------------------------ loads and stores */

static uint64_t atomic_result(int32_t op, uint64_t old, uint64_t value)
{
	switch (op & ~BPF_FETCH) {
	case BPF_ADD:
		return old + value;
	case BPF_OR:
		return old | value;
	case BPF_AND:
		return old & value;
	case BPF_XOR:
		return old ^ value;
	default: /* an exchange */
		return value;
	}
}

/* Nobody else uses the memory while a program runs. */
static void run_atomic(struct vm *vm, const struct bpf_insn *insn, uint64_t address, uint32_t size)
{
	const uint64_t old = load(vm, address, size), value = vm->reg[insn->src_reg];
	const bool wide = size == 8;
	const uint64_t expected = wide ? vm->reg[0] : (uint32_t)vm->reg[0];

	if (vm->err)
		return;
	if (insn->imm != BPF_CMPXCHG || old == expected)
		store(vm, address, size, atomic_result(insn->imm, old, value));
	else
		store(vm, address, size, old);
	if (vm->err)
		return;
	if (insn->imm == BPF_CMPXCHG)
		vm->reg[0] = old;
	else if (insn->imm & BPF_FETCH)
		vm->reg[insn->src_reg] = old;
}

/* ------------------------------------------------------------------ a run */

/* Operations on a register and a register or a number. Those of 32 bits take and give values
 * without the upper half. */
#define OPERANDS_64_X (a = reg[i->dst_reg], b = reg[i->src_reg])
#define OPERANDS_64_K (a = reg[i->dst_reg], b = (uint64_t)(int64_t)i->imm)
#define OPERANDS_32_X (a = (uint32_t)reg[i->dst_reg], b = (uint32_t)reg[i->src_reg])
#define OPERANDS_32_K (a = (uint32_t)reg[i->dst_reg], b = (uint32_t)i->imm)

#define ARITHMETIC_CASE(code, operands, type, value) \
	case (code):                                 \
		operands;                            \
		reg[i->dst_reg] = (type)(value);     \
		break;
#define ARITHMETIC(op, of_64, of_32)                                              \
	ARITHMETIC_CASE(BPF_ALU64 | (op) | BPF_X, OPERANDS_64_X, uint64_t, of_64) \
	ARITHMETIC_CASE(BPF_ALU64 | (op) | BPF_K, OPERANDS_64_K, uint64_t, of_64) \
	ARITHMETIC_CASE(BPF_ALU | (op) | BPF_X, OPERANDS_32_X, uint32_t, of_32)   \
	ARITHMETIC_CASE(BPF_ALU | (op) | BPF_K, OPERANDS_32_K, uint32_t, of_32)

/* Jumps; s and t are the operands with their signs. */
#define JUMP_CASE(code, operands, type, condition)          \
	case (code):                                        \
		operands;                                   \
		s = (type)a, t = (type)b, (void)s, (void)t; \
		i += (condition) ? i->off : 0;              \
		break;
#define JUMP(op, condition)                                                    \
	JUMP_CASE(BPF_JMP | (op) | BPF_X, OPERANDS_64_X, int64_t, condition)   \
	JUMP_CASE(BPF_JMP | (op) | BPF_K, OPERANDS_64_K, int64_t, condition)   \
	JUMP_CASE(BPF_JMP32 | (op) | BPF_X, OPERANDS_32_X, int32_t, condition) \
	JUMP_CASE(BPF_JMP32 | (op) | BPF_K, OPERANDS_32_K, int32_t, condition)

/* Loads, and stores of a register and of a number. */
#define SOURCE (reg[i->src_reg] + (uint64_t)(int64_t)i->off)
#define TARGET (reg[i->dst_reg] + (uint64_t)(int64_t)i->off)
#define FAIL              \
	if (vm->err)      \
		goto out; \
	break
#define MEMORY(size, bytes)                                                          \
	case BPF_LDX | BPF_MEM | (size):                                             \
		reg[i->dst_reg] = load(vm, SOURCE, bytes);                           \
		FAIL;                                                                \
	case BPF_LDX | BPF_MEMSX | (size):                                           \
		reg[i->dst_reg] = sign_extend(load(vm, SOURCE, bytes), 8 * (bytes)); \
		FAIL;                                                                \
	case BPF_STX | BPF_MEM | (size):                                             \
		store(vm, TARGET, bytes, reg[i->src_reg]);                           \
		break;                                                               \
	case BPF_ST | BPF_MEM | (size):                                              \
		store(vm, TARGET, bytes, (uint64_t)(int64_t)i->imm);                 \
		FAIL;

/* Run from an instruction on until the end, or an error, which is in vm. @return the last one. */
static const struct bpf_insn *run_insns(struct vm *vm, const struct bpf_insn *i)
{
	uint64_t *reg = vm->reg, a, b;
	uint64_t budget = vm->budget; /* here, since registers of the machine are fast */
	int64_t s, t;

	for (;; i++) {
		if (!budget) {
			spend(vm, UINT64_MAX);
			return i;
		}
		budget--;
		switch (i->code) {
			ARITHMETIC(BPF_ADD, a + b, a + b)
			ARITHMETIC(BPF_SUB, a - b, a - b)
			ARITHMETIC(BPF_MUL, a * b, a * b)
			ARITHMETIC(BPF_DIV, divide(a, b, i->off, true), divide(a, b, i->off, false))
			ARITHMETIC(BPF_MOD, modulo(a, b, i->off, true), modulo(a, b, i->off, false))
			ARITHMETIC(BPF_OR, a | b, a | b)
			ARITHMETIC(BPF_AND, a & b, a & b)
			ARITHMETIC(BPF_XOR, a ^ b, a ^ b)
			ARITHMETIC(BPF_LSH, a << (b & 63), a << (b & 31))
			ARITHMETIC(BPF_RSH, a >> (b & 63), a >> (b & 31))
			ARITHMETIC(BPF_ARSH, (int64_t)a >> (b & 63), (int32_t)a >> (b & 31))
			ARITHMETIC(BPF_MOV, moved(b, i->off), moved(b, i->off))
			ARITHMETIC_CASE(BPF_ALU64 | BPF_NEG, OPERANDS_64_K, uint64_t, 0 - a)
			ARITHMETIC_CASE(BPF_ALU | BPF_NEG, OPERANDS_32_K, uint32_t, 0 - a)
			ARITHMETIC_CASE(BPF_ALU64 | BPF_END, OPERANDS_64_K, uint64_t,
					swap(a, i->imm))
			ARITHMETIC_CASE(BPF_ALU | BPF_END | BPF_TO_BE, OPERANDS_64_K, uint64_t,
					swap(a, i->imm))
			ARITHMETIC_CASE(BPF_ALU | BPF_END | BPF_TO_LE, OPERANDS_64_K, uint64_t,
					low(a, i->imm))
			JUMP(BPF_JEQ, a == b)
			JUMP(BPF_JNE, a != b)
			JUMP(BPF_JGT, a > b)
			JUMP(BPF_JGE, a >= b)
			JUMP(BPF_JLT, a < b)
			JUMP(BPF_JLE, a <= b)
			JUMP(BPF_JSET, a & b)
			JUMP(BPF_JSGT, s > t)
			JUMP(BPF_JSGE, s >= t)
			JUMP(BPF_JSLT, s < t)
			JUMP(BPF_JSLE, s <= t)
			MEMORY(BPF_B, 1)
			MEMORY(BPF_H, 2)
			MEMORY(BPF_W, 4)
			MEMORY(BPF_DW, 8)
		case BPF_JMP | BPF_JA:
			i += i->off;
			break;
		case BPF_JMP32 | BPF_JA:
			i += i->imm;
			break;
		case BPF_LD | BPF_IMM | BPF_DW:
			reg[i->dst_reg] = (uint32_t)i[0].imm | (uint64_t)(uint32_t)i[1].imm << 32;
			i++;
			break;
		case BPF_STX | BPF_ATOMIC | BPF_W:
			run_atomic(vm, i, TARGET, 4);
			FAIL;
		case BPF_STX | BPF_ATOMIC | BPF_DW:
			run_atomic(vm, i, TARGET, 8);
			FAIL;
		case BPF_JMP | BPF_CALL:
			vm->budget = budget;
			i = i->src_reg ? run_call(vm, i) : run_helper(vm, i);
			budget = vm->budget;
			FAIL;
		case BPF_JMP | BPF_EXIT:
			if (!vm->nr_frames)
				goto out;
			i = run_exit(vm);
			break;
		default: /* bpf_check() lets no other pass */
			__builtin_unreachable();
		}
	}
out:
	vm->budget = budget;
	return i;
}

int bpf_function_run(struct bpf_object *object, uint32_t function, struct bpf_run *run,
		     struct bpf_fault *fault)
{
	struct vm vm = {.object = object, .run = run, .budget = run->budget};
	const struct bpf_insn *last;

	memcpy(&object->region[BPF_REGION_GIVEN], run->given, sizeof(run->given));
	for (uint32_t n = run->nr_given; n < BPF_GIVEN_MAX; n++)
		object->region[BPF_REGION_GIVEN + n] = (struct bpf_region){0};
	memcpy(&vm.reg[1], run->arg, sizeof(run->arg));
	vm.reg[10] = ((uint64_t)BPF_REGION_STACK << 32) + BPF_STACK_BYTES;
	last = run_insns(&vm, object->insn + object->function[function].first);
	run->budget = vm.budget;
	if (!vm.err) {
		run->answer = vm.reg[0];
		return 0;
	}
	fault->instruction = (uint32_t)(last - object->insn);
	bpf_where(object, fault->instruction, fault->text, sizeof(fault->text));
	snprintf(fault->text + strlen(fault->text), sizeof(fault->text) - strlen(fault->text),
		 ": %s", vm.why);
	return vm.err;
}
