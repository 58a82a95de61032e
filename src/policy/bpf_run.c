/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running eBPF. The code is well formed (bpf_check.c): registers, jumps and calls are what they are
 * taken for here. What a program computes is not: each access, and the budget, are looked at as it
 * runs. RFC 9669 is what instructions mean; division by zero is 0, a remainder of it the dividend.
 *
 * Each instruction jumps to the next one's code itself: a processor foretells these jumps better
 * than the single one of a switch in a loop.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/base/util.h"
#include "src/policy/bpf_internal.h"

/* A function that called another one. */
struct frame {
	const struct bpf_code *call;
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
	if (number >= vm->object->nr_regions || !vm->object->region[number].read_end)
		snprintf(vm->why, sizeof(vm->why), "%s of %llu bytes at 0x%llx, which is no region",
			 what, (unsigned long long)nr, (unsigned long long)address);
	else
		snprintf(vm->why, sizeof(vm->why),
			 "%s of %llu bytes at offset %u of a region of %u that is %s", what,
			 (unsigned long long)nr, (uint32_t)address,
			 vm->object->region[number].read_end,
			 vm->object->region[number].write_end ? "writable" : "read-only");
	return NULL;
}

/* Bytes at an address of the program, one at least; NULL: it may not use them, and the run ends. */
static void *access_bytes(struct vm *vm, uint64_t address, uint64_t nr, bool write)
{
	const uint64_t number = address >> 32, offset = address & UINT32_MAX;
	const struct bpf_span *span;
	uint64_t end;

	if (number >= BPF_REGIONS_MAX)
		return refuse(vm, address, nr, write);
	span = &vm->object->region[number];
	end = write ? span->write_end : span->read_end;
	return nr <= end && offset <= end - nr ? span->bytes + offset
					       : refuse(vm, address, nr, write);
}

/* The same of the few bytes of an instruction, whose end doesn't overflow. Nearly all accesses are
 * these: their refusal is left to the caller, so that it costs nothing. */
static inline void *access_size(const struct vm *vm, uint64_t address, uint32_t size, bool write)
{
	const uint64_t number = address >> 32, end = (address & UINT32_MAX) + size;
	const struct bpf_span *span;
	uint64_t last;

	if (number >= BPF_REGIONS_MAX && BPF_MUTANT != 2)
		return NULL;
	span = &vm->object->region[number];
	last = write && BPF_MUTANT != 3 ? span->write_end : span->read_end;
	return end <= last + (BPF_MUTANT == 1) ? span->bytes + (uint32_t)address : NULL;
}

static uint64_t sign_extend(uint64_t value, int32_t bits)
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

/* So many bits in the other order of bytes. */
static uint64_t swap(uint64_t value, uint64_t bits)
{
	return __builtin_bswap64(value) >> (64 - bits);
}

static uint64_t low(uint64_t value, uint64_t bits)
{
	return value & (UINT64_MAX >> (64 - bits));
}

/* ------------------------------------------------------------------ jumps and calls */

/* @return the instruction before the next one. */
static const struct bpf_code *run_call(struct vm *vm, const struct bpf_code *call)
{
	struct frame *frame = &vm->frame[vm->nr_frames];

	if (vm->nr_frames == ARRAY_LEN(vm->frame)) {
		vm->err = -ELOOP;
		snprintf(vm->why, sizeof(vm->why), "more than %u calls in each other",
			 BPF_FRAMES_MAX - 1);
		return call;
	}
	vm->nr_frames++;
	frame->call = call;
	memcpy(frame->saved, &vm->reg[6], sizeof(frame->saved));
	vm->reg[10] += BPF_STACK_BYTES;
	return vm->object->code + call->imm - 1;
}

static const struct bpf_code *run_exit(struct vm *vm)
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
	if (vm->err || !nr)
		return;
	to = access_bytes(vm, vm->reg[1], nr, true);
	if (to && helper != BPF_HELPER_MEMSET)
		from = access_bytes(vm, vm->reg[2], nr, false);
	if (!to || !from)
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
		const char *from = access_bytes(vm, vm->reg[1] + n, 1, false);

		if (!from || !*from)
			break;
		text[n++] = *from;
	}
	text[n] = 0;
	if (!vm->err)
		spend(vm, n);
	if (!vm->err && vm->run->log)
		vm->run->log(vm->run->log_arg, text, vm->reg[2]);
}

static void run_helper(struct vm *vm, const struct bpf_code *i)
{
	const enum bpf_helper helper = (enum bpf_helper)i->imm;

	if (helper == BPF_HELPER_LOG)
		run_log(vm);
	else
		run_copy(vm, helper);
	vm->reg[0] = helper == BPF_HELPER_LOG ? 0 : vm->reg[1];
}

/* ------------------------------------------------------------------ loads and stores */

static uint64_t atomic_result(uint64_t op, uint64_t old, uint64_t value)
{
	switch (op & ~(uint64_t)BPF_FETCH) {
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

/* Nobody else uses the memory while a program runs. An exchange that does not happen stores what is
 * there. */
static void run_atomic(struct vm *vm, const struct bpf_code *i, uint32_t size)
{
	void *bytes = access_bytes(vm, vm->reg[i->dst] + (uint64_t)(int64_t)i->off, size, true);
	uint64_t old = 0, result;

	if (!bytes)
		return;
	memcpy(&old, bytes, size); /* little-endian, as the objects are */
	result = atomic_result(i->imm, old, vm->reg[i->src]);
	if (i->imm == BPF_CMPXCHG && old != (size == 8 ? vm->reg[0] : (uint32_t)vm->reg[0]))
		result = old;
	memcpy(bytes, &result, size);
	if (i->imm == BPF_CMPXCHG)
		vm->reg[0] = old;
	else if (i->imm & BPF_FETCH)
		vm->reg[i->src] = old;
}

/* ------------------------------------------------------------------ a run */

/* clang-format takes operators in macros for pointers, and addresses of labels for them, too. */
/* clang-format off */

/*
 * Instructions with operands a and b, which are s and t with their signs, and what each makes of
 * them. A line stands for four: of 64 and of 32 bits, with a register (X) or a number (K). Those of
 * 32 bits take and give values without the upper half.
 */
#define ARITHMETIC(FOUR) \
	FOUR(ADD, a + b) \
	FOUR(SUB, a - b) \
	FOUR(MUL, a * b) \
	FOUR(DIV, divide(a, b, i->off, bits == 64)) \
	FOUR(MOD, modulo(a, b, i->off, bits == 64)) \
	FOUR(OR, a | b) \
	FOUR(AND, a & b) \
	FOUR(XOR, a ^ b) \
	FOUR(LSH, a << (b & (bits - 1))) \
	FOUR(RSH, a >> (b & (bits - 1))) \
	FOUR(ARSH, s >> (b & (bits - 1))) \
	FOUR(MOV, b)

#define JUMPS(FOUR) \
	FOUR(JEQ, a == b) \
	FOUR(JNE, a != b) \
	FOUR(JGT, a > b) \
	FOUR(JGE, a >= b) \
	FOUR(JLT, a < b) \
	FOUR(JLE, a <= b) \
	FOUR(JSET, a & b) \
	FOUR(JSGT, s > t) \
	FOUR(JSGE, s >= t) \
	FOUR(JSLT, s < t) \
	FOUR(JSLE, s <= t)

/* Loads, with a sign and without, and stores of a register and of a number, by size. */
#define MEMORY(FOUR) FOUR(B, 8) FOUR(H, 16) FOUR(W, 32) FOUR(DW, 64)

/* The others: their code, a label, and what they do. */
#define OTHERS(ONE)                                                                             \
	ONE(BPF_ALU64 | BPF_NEG, negate_64, reg[i->dst] = 0 - reg[i->dst])                      \
	ONE(BPF_ALU | BPF_NEG, negate_32, reg[i->dst] = (uint32_t)(0 - reg[i->dst]))            \
	ONE(BPF_ALU64 | BPF_END, swap_64, reg[i->dst] = swap(reg[i->dst], i->imm))              \
	ONE(BPF_ALU | BPF_END | BPF_TO_BE, to_big, reg[i->dst] = swap(reg[i->dst], i->imm))     \
	ONE(BPF_ALU | BPF_END | BPF_TO_LE, to_little, reg[i->dst] = low(reg[i->dst], i->imm))   \
	ONE(BPF_OP_MOVE_SIGNED, move_signed_64, reg[i->dst] = sign_extend(reg[i->src], i->off)) \
	ONE(BPF_OP_MOVE_SIGNED_32, move_signed_32,                                              \
	    reg[i->dst] = (uint32_t)sign_extend(reg[i->src], i->off))                           \
	ONE(BPF_LD | BPF_IMM | BPF_DW, load_number, (reg[i->dst] = i->imm, i++))                \
	ONE(BPF_JMP | BPF_JA, jump, i += i->off)                                                \
	ONE(BPF_JMP32 | BPF_JA, jump_far, i += i->off)                                          \
	ONE(BPF_STX | BPF_ATOMIC | BPF_W, atomic_32, run_atomic(vm, i, 4); CHECK)               \
	ONE(BPF_STX | BPF_ATOMIC | BPF_DW, atomic_64, run_atomic(vm, i, 8); CHECK)              \
	ONE(BPF_JMP | BPF_CALL, call, i = run_call(vm, i); CHECK)                               \
	ONE(BPF_OP_HELPER, helper, vm->budget = budget; run_helper(vm, i); budget = vm->budget; \
	    CHECK)                                                                              \
	ONE(BPF_JMP | BPF_EXIT, exit, if (!vm->nr_frames) goto out; i = run_exit(vm))
#define CHECK        \
	if (vm->err) \
	goto out

/* Where the code of each instruction is, which has the instruction's name as its label. */
#define ARITHMETIC_LABELS(name, value) \
	[BPF_ALU64 | BPF_##name | BPF_X] = &&name##_64_X, \
	[BPF_ALU64 | BPF_##name | BPF_K] = &&name##_64_K, \
	[BPF_ALU | BPF_##name | BPF_X] = &&name##_32_X, \
	[BPF_ALU | BPF_##name | BPF_K] = &&name##_32_K,
#define JUMP_LABELS(name, condition) \
	[BPF_JMP | BPF_##name | BPF_X] = &&name##_64_X, \
	[BPF_JMP | BPF_##name | BPF_K] = &&name##_64_K, \
	[BPF_JMP32 | BPF_##name | BPF_X] = &&name##_32_X, \
	[BPF_JMP32 | BPF_##name | BPF_K] = &&name##_32_K,
#define MEMORY_LABELS(size, bits) \
	[BPF_LDX | BPF_MEM | BPF_##size] = &&load_##bits, \
	[BPF_LDX | BPF_MEMSX | BPF_##size] = &&load_signed_##bits, \
	[BPF_STX | BPF_MEM | BPF_##size] = &&store_##bits, \
	[BPF_ST | BPF_MEM | BPF_##size] = &&store_number_##bits,
/* clang-format on */
/* NOLINTBEGIN(bugprone-macro-parentheses) -- labels and statements have none */
#define OTHER_LABEL(code, label, does) [code] = &&label,
#define OTHER_ONE(code, label, does) \
	label:                       \
	does;                        \
	NEXT;
/* NOLINTEND(bugprone-macro-parentheses) */

/* Go on with the next instruction. */
#define NEXT                        \
	do {                        \
		i++;                \
		if (!budget)        \
			goto spent; \
		budget--;           \
		goto *label[i->op]; \
	} while (0)

#define OPERANDS(width, second)                                            \
	const uint##width##_t a = (uint##width##_t)reg[i->dst];            \
	const uint##width##_t b = (uint##width##_t)(second);               \
	const int##width##_t s = (int##width##_t)a, t = (int##width##_t)b; \
	const uint32_t bits = (width);                                     \
	(void)a, (void)s, (void)t, (void)bits

#define ARITHMETIC_ONE(label, width, second, value)     \
	label : {                                       \
		OPERANDS(width, second);                \
		reg[i->dst] = (uint##width##_t)(value); \
	}                                               \
	NEXT;
#define ARITHMETIC_FOUR(name, value)                        \
	ARITHMETIC_ONE(name##_64_X, 64, reg[i->src], value) \
	ARITHMETIC_ONE(name##_64_K, 64, i->imm, value)      \
	ARITHMETIC_ONE(name##_32_X, 32, reg[i->src], value) \
	ARITHMETIC_ONE(name##_32_K, 32, i->imm, value)

#define JUMP_ONE(label, width, second, condition) \
	label : {                                 \
		OPERANDS(width, second);          \
		if (condition)                    \
			i += i->off;              \
	}                                         \
	NEXT;
#define JUMP_FOUR(name, condition)                        \
	JUMP_ONE(name##_64_X, 64, reg[i->src], condition) \
	JUMP_ONE(name##_64_K, 64, i->imm, condition)      \
	JUMP_ONE(name##_32_X, 32, reg[i->src], condition) \
	JUMP_ONE(name##_32_K, 32, i->imm, condition)

/* at: the bytes of an access, relative to a register. */
#define ACCESS(base, size, write)                                       \
	const uint64_t address = reg[base] + (uint64_t)(int64_t)i->off; \
	void *at = access_size(vm, address, size, write);               \
	if (!at) {                                                      \
		(void)refuse(vm, address, size, write);                 \
		goto out;                                               \
	}
#define LOAD_ONE(label, width, type)                 \
	label : {                                    \
		ACCESS(i->src, (width) / 8, false)   \
		uint##width##_t value;               \
		memcpy(&value, at, sizeof(value));   \
		reg[i->dst] = (uint64_t)(type)value; \
	}                                            \
	NEXT;
#define STORE_ONE(label, width, number)                                  \
	label : {                                                        \
		ACCESS(i->dst, (width) / 8, true)                        \
		const uint##width##_t value = (uint##width##_t)(number); \
		memcpy(at, &value, sizeof(value));                       \
	}                                                                \
	NEXT;
#define MEMORY_FOUR(size, bits)                           \
	LOAD_ONE(load_##bits, bits, uint##bits##_t)       \
	LOAD_ONE(load_signed_##bits, bits, int##bits##_t) \
	STORE_ONE(store_##bits, bits, reg[i->src])        \
	STORE_ONE(store_number_##bits, bits, i->imm)

/* Run from an instruction on until the end, or an error, which is in vm. @return the last one. */
static const struct bpf_code *run_code(struct vm *vm, const struct bpf_code *i)
{
	static const void *const label[BPF_OPS] = {
		/* cppcheck-suppress internalAstError -- it doesn't know addresses of labels */
		ARITHMETIC(ARITHMETIC_LABELS) JUMPS(JUMP_LABELS) MEMORY(MEMORY_LABELS)
			OTHERS(OTHER_LABEL)};
	uint64_t *reg = vm->reg;
	/* Here, since registers of the machine are fast. */
	uint64_t budget = vm->budget + (BPF_MUTANT == 4);

	i--;
	NEXT;
	ARITHMETIC(ARITHMETIC_FOUR)
	JUMPS(JUMP_FOUR)
	MEMORY(MEMORY_FOUR)
	OTHERS(OTHER_ONE)
spent:
	vm->budget = 0;
	spend(vm, 1);
	return i;
out:
	vm->budget = budget;
	return i;
}

/* Regions of a run's own. */
static void give(struct bpf_object *object, const struct bpf_run *run)
{
	for (uint32_t n = 0; n < BPF_GIVEN_MAX; n++) {
		const struct bpf_region *from = &run->given[n];
		struct bpf_span *to = &object->region[BPF_REGION_GIVEN + n];

		*to = (struct bpf_span){0};
		if (n < run->nr_given)
			*to = (struct bpf_span){from->bytes, from->nr,
						from->writable ? from->nr : 0};
	}
}

int bpf_function_run(struct bpf_object *object, uint32_t function, struct bpf_run *run,
		     struct bpf_fault *fault)
{
	struct vm vm;
	const struct bpf_code *last;

	vm.object = object;
	vm.run = run;
	vm.budget = run->budget;
	vm.nr_frames = 0;
	vm.err = 0;
	give(object, run);
	memset(vm.reg, 0, sizeof(vm.reg));
	memcpy(&vm.reg[1], run->arg, sizeof(run->arg));
	vm.reg[10] = ((uint64_t)BPF_REGION_STACK << 32) + BPF_STACK_BYTES;
	last = run_code(&vm, object->code + object->function[function].first);
	run->budget = vm.budget;
	if (!vm.err) {
		run->answer = vm.reg[0];
		return 0;
	}
	fault->instruction = (uint32_t)(last - object->code);
	bpf_where(object, fault->instruction, fault->text, sizeof(fault->text));
	snprintf(fault->text + strlen(fault->text), sizeof(fault->text) - strlen(fault->text),
		 ": %s", vm.why);
	bpf_make_printable(fault->text);
	return vm.err;
}
