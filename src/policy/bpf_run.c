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
	uint32_t insn;	   /* its next one */
	uint64_t saved[4]; /* registers 6 to 9 */
};

struct vm {
	const struct bpf_object *object;
	struct bpf_run *run;
	const struct bpf_insn *insn; /* the present one */
	uint64_t budget;
	uint64_t reg[11];
	uint32_t nr_frames;
	struct frame frame[BPF_FRAMES_MAX - 1];
	int err; /* what ended the run; 0: nothing yet */
	char why[96];
	uint64_t stack[BPF_STACK_BYTES * BPF_FRAMES_MAX / sizeof(uint64_t)];
};

/* ------------------------------------------------------------------ memory */

/* Bytes at an address of the program; NULL: it may not, and the run ends. */
static void *access_bytes(struct vm *vm, uint64_t address, uint64_t nr, bool write)
{
	static const struct bpf_region none;
	const uint64_t number = address >> 32, offset = address & UINT32_MAX;
	const struct bpf_region *region =
		number < vm->object->nr_regions ? &vm->object->region[number] : &none;

	if (nr <= region->nr && offset <= region->nr - nr && (region->writable || !write))
		return (char *)region->bytes + offset;
	vm->err = -EFAULT;
	if (!region->nr)
		snprintf(vm->why, sizeof(vm->why), "%s of %llu bytes at 0x%llx, which is no region",
			 write ? "store" : "load", (unsigned long long)nr,
			 (unsigned long long)address);
	else
		snprintf(vm->why, sizeof(vm->why),
			 "%s of %llu bytes at offset %lld of a region of %u that is %s",
			 write ? "store" : "load", (unsigned long long)nr, (long long)offset,
			 region->nr, region->writable ? "writable" : "read-only");
	return NULL;
}

static uint64_t load(struct vm *vm, uint64_t address, uint32_t size)
{
	const void *bytes = access_bytes(vm, address, size, false);
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, size); /* little-endian, as the objects are */
	return value;
}

static void store(struct vm *vm, uint64_t address, uint32_t size, uint64_t value)
{
	void *bytes = access_bytes(vm, address, size, true);

	if (bytes)
		memcpy(bytes, &value, size);
}

static uint32_t size_of(uint8_t code)
{
	switch (BPF_SIZE(code)) {
	case BPF_B:
		return 1;
	case BPF_H:
		return 2;
	case BPF_W:
		return 4;
	default:
		return 8;
	}
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

static uint64_t divide(uint64_t a, uint64_t b, bool remainder)
{
	if (!b)
		return remainder ? a : 0;
	return remainder ? a % b : a / b;
}

/* The bytes of a value of so many bits, in the other order. */
static uint64_t swap(uint64_t value, int32_t bits)
{
	return __builtin_bswap64(value) >> (64 - bits);
}

/* An operation on registers; those of 32 bits get and give values without the upper half. */
static uint64_t arithmetic(const struct bpf_insn *insn, uint64_t a, uint64_t b, bool wide)
{
	const uint64_t shift = b & (wide ? 63 : 31);

	switch (BPF_OP(insn->code)) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
	case BPF_MOD:
		if (!insn->off)
			return divide(a, b, BPF_OP(insn->code) == BPF_MOD);
		return divide_signed(wide ? (int64_t)a : (int32_t)a, wide ? (int64_t)b : (int32_t)b,
				     BPF_OP(insn->code) == BPF_MOD);
	case BPF_OR:
		return a | b;
	case BPF_AND:
		return a & b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return a << shift;
	case BPF_RSH:
		return a >> shift;
	case BPF_ARSH:
		return (uint64_t)((wide ? (int64_t)a : (int32_t)a) >> shift);
	case BPF_NEG:
		return 0 - a;
	case BPF_MOV:
		return insn->off ? sign_extend(b, (uint32_t)insn->off) : b;
	default: /* BPF_END: of 64-bit class it swaps always, else unless the order is this one */
		if (wide || BPF_SRC(insn->code) == BPF_TO_BE)
			return swap(a, insn->imm);
		return insn->imm == 64 ? a : a & ((UINT64_C(1) << insn->imm) - 1);
	}
}

static void run_arithmetic(struct vm *vm)
{
	const struct bpf_insn *insn = vm->insn;
	const bool wide = BPF_CLASS(insn->code) == BPF_ALU64;
	const bool end = BPF_OP(insn->code) == BPF_END;
	uint64_t a = vm->reg[insn->dst_reg];
	uint64_t b = BPF_SRC(insn->code) == BPF_X && !end ? vm->reg[insn->src_reg]
							  : (uint64_t)(int64_t)insn->imm;

	if (!wide && !end) {
		a = (uint32_t)a;
		b = (uint32_t)b;
	}
	a = arithmetic(insn, a, b, wide);
	vm->reg[insn->dst_reg] = wide || end ? a : (uint32_t)a;
}

/* ------------------------------------------------------------------ jumps and calls */

static bool compare(uint8_t op, uint64_t a, uint64_t b, bool wide)
{
	const int64_t s = wide ? (int64_t)a : (int32_t)a, t = wide ? (int64_t)b : (int32_t)b;

	switch (op) {
	case BPF_JEQ:
		return a == b;
	case BPF_JNE:
		return a != b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	case BPF_JLT:
		return a < b;
	case BPF_JLE:
		return a <= b;
	case BPF_JSET:
		return a & b;
	case BPF_JSGT:
		return s > t;
	case BPF_JSGE:
		return s >= t;
	case BPF_JSLT:
		return s < t;
	default: /* BPF_JSLE */
		return s <= t;
	}
}

static void run_call(struct vm *vm)
{
	struct frame *frame = &vm->frame[vm->nr_frames];

	if (vm->nr_frames == ARRAY_LEN(vm->frame)) {
		vm->err = -ELOOP;
		snprintf(vm->why, sizeof(vm->why), "more than %u calls in each other",
			 BPF_FRAMES_MAX - 1);
		return;
	}
	vm->nr_frames++;
	frame->insn = (uint32_t)(vm->insn - vm->object->insn) + 1;
	memcpy(frame->saved, &vm->reg[6], sizeof(frame->saved));
	vm->reg[10] += BPF_STACK_BYTES;
	vm->insn = vm->object->insn + vm->insn->imm;
}

/* @return whether it was the end of the run. */
static bool run_exit(struct vm *vm)
{
	const struct frame *frame;

	if (!vm->nr_frames)
		return true;
	frame = &vm->frame[--vm->nr_frames];
	memcpy(&vm->reg[6], frame->saved, sizeof(frame->saved));
	vm->reg[10] -= BPF_STACK_BYTES;
	vm->insn = vm->object->insn + frame->insn;
	return false;
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

static void run_helper(struct vm *vm)
{
	enum bpf_helper helper = (enum bpf_helper)vm->insn->imm;

	if (helper == BPF_HELPER_LOG)
		run_log(vm);
	else
		run_copy(vm, helper);
	vm->reg[0] = helper == BPF_HELPER_LOG ? 0 : vm->reg[1];
	vm->insn++;
}

/* @return whether it was the end of the run. */
static bool run_jump(struct vm *vm)
{
	const struct bpf_insn *insn = vm->insn;
	const bool wide = BPF_CLASS(insn->code) == BPF_JMP;
	uint64_t a = vm->reg[insn->dst_reg];
	uint64_t b = BPF_SRC(insn->code) == BPF_X ? vm->reg[insn->src_reg]
						  : (uint64_t)(int64_t)insn->imm;

	switch (BPF_OP(insn->code)) {
	case BPF_CALL:
		if (insn->src_reg == BPF_PSEUDO_CALL)
			run_call(vm);
		else
			run_helper(vm);
		return false;
	case BPF_EXIT:
		return run_exit(vm);
	case BPF_JA:
		vm->insn += 1 + (wide ? insn->off : insn->imm);
		return false;
	default:
		if (!wide) {
			a = (uint32_t)a;
			b = (uint32_t)b;
		}
		vm->insn += 1 + (compare(BPF_OP(insn->code), a, b, wide) ? insn->off : 0);
		return false;
	}
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
static void run_atomic(struct vm *vm, uint64_t address, uint32_t size)
{
	const struct bpf_insn *insn = vm->insn;
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

static void run_memory(struct vm *vm)
{
	const struct bpf_insn *insn = vm->insn;
	const uint32_t size = size_of(insn->code);
	const uint64_t offset = (uint64_t)(int64_t)insn->off;
	uint64_t value;

	switch (BPF_CLASS(insn->code)) {
	case BPF_LD: /* ld_imm64 */
		vm->reg[insn->dst_reg] = (uint32_t)insn[0].imm | (uint64_t)(uint32_t)insn[1].imm
									 << 32;
		vm->insn++;
		break;
	case BPF_LDX:
		value = load(vm, vm->reg[insn->src_reg] + offset, size);
		if (BPF_MODE(insn->code) == BPF_MEMSX)
			value = sign_extend(value, size * 8);
		vm->reg[insn->dst_reg] = value;
		break;
	case BPF_ST:
		store(vm, vm->reg[insn->dst_reg] + offset, size, (uint64_t)(int64_t)insn->imm);
		break;
	default: /* BPF_STX */
		if (BPF_MODE(insn->code) == BPF_ATOMIC)
			run_atomic(vm, vm->reg[insn->dst_reg] + offset, size);
		else
			store(vm, vm->reg[insn->dst_reg] + offset, size, vm->reg[insn->src_reg]);
	}
	vm->insn++;
}

/* ------------------------------------------------------------------ a run */

/* Run one instruction. @return whether it was the end of the run. */
static bool step(struct vm *vm)
{
	switch (BPF_CLASS(vm->insn->code)) {
	case BPF_ALU:
	case BPF_ALU64:
		run_arithmetic(vm);
		vm->insn++;
		return false;
	case BPF_JMP:
	case BPF_JMP32:
		return run_jump(vm);
	default:
		run_memory(vm);
		return false;
	}
}

int bpf_function_run(struct bpf_object *object, uint32_t function, struct bpf_run *run,
		     struct bpf_fault *fault)
{
	struct vm vm = {.object = object, .run = run, .budget = run->budget};
	uint32_t insn = object->function[function].first;

	object->region[BPF_REGION_STACK] = (struct bpf_region){vm.stack, sizeof(vm.stack), true};
	memcpy(&object->region[BPF_REGION_GIVEN], run->given, sizeof(run->given));
	for (uint32_t n = run->nr_given; n < BPF_GIVEN_MAX; n++)
		object->region[BPF_REGION_GIVEN + n] = (struct bpf_region){0};
	memcpy(&vm.reg[1], run->arg, sizeof(run->arg));
	vm.reg[10] = ((uint64_t)BPF_REGION_STACK << 32) + BPF_STACK_BYTES;
	vm.insn = object->insn + insn;
	while (!vm.err) {
		insn = (uint32_t)(vm.insn - object->insn);
		spend(&vm, 1);
		if (!vm.err && step(&vm))
			break;
	}
	run->budget = vm.budget;
	if (!vm.err) {
		run->answer = vm.reg[0];
		return 0;
	}
	fault->instruction = insn;
	bpf_where(object, insn, fault->text, sizeof(fault->text));
	snprintf(fault->text + strlen(fault->text), sizeof(fault->text) - strlen(fault->text),
		 ": %s", vm.why);
	return vm.err;
}
