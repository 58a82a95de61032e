/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether code is well formed: what bpf_run.c relies on without looking. What a program computes is
 * none of this file's business.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/util.h"
#include "src/policy/bpf_internal.h"

struct check {
	const struct bpf_object *object;
	const struct bpf_function *function;
	uint32_t insn;
	char *err;
	size_t err_bytes;
};

__attribute__((format(printf, 2, 3))) static int wrong(const struct check *c, const char *format,
						       ...)
{
	char where[160], what[128];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	bpf_where(c->object, c->insn, where, sizeof(where));
	snprintf(c->err, c->err_bytes, "%s: %s: %s", c->object->name, where, what);
	return -EINVAL;
}

static int unknown(const struct check *c)
{
	const struct bpf_insn *insn = &c->object->insn[c->insn];

	return wrong(c,
		     "no instruction has code 0x%02x with registers %u and %u, offset %d and "
		     "immediate %d",
		     insn->code, insn->dst_reg, insn->src_reg, insn->off, insn->imm);
}

/* Whether an arithmetic instruction is one. */
static bool is_arithmetic(const struct bpf_insn *insn)
{
	const bool wide = BPF_CLASS(insn->code) == BPF_ALU64, reg = BPF_SRC(insn->code) == BPF_X;

	/* The part that is not used is 0: the immediate of two registers, or the second one. */
	if (BPF_OP(insn->code) != BPF_END && (reg ? insn->imm : insn->src_reg))
		return false;
	switch (BPF_OP(insn->code)) {
	case BPF_DIV:
	case BPF_MOD:
		return insn->off == 0 || insn->off == 1;
	case BPF_MOV:
		return !insn->off ||
		       (reg && (insn->off == 8 || insn->off == 16 || (wide && insn->off == 32)));
	case BPF_NEG:
		return !reg && !insn->off && !insn->imm;
	case BPF_END:
		return !insn->off && !insn->src_reg && (!wide || !reg) &&
		       (insn->imm == 16 || insn->imm == 32 || insn->imm == 64);
	default:
		return BPF_OP(insn->code) < BPF_END && !insn->off;
	}
}

/* Whether a load or a store is one. */
static bool is_memory(const struct bpf_insn *insn)
{
	const uint8_t mode = BPF_MODE(insn->code), size = BPF_SIZE(insn->code);

	switch (BPF_CLASS(insn->code)) {
	case BPF_LDX:
		return !insn->imm && (mode == BPF_MEM || (mode == BPF_MEMSX && size != BPF_DW));
	case BPF_ST:
		return mode == BPF_MEM && !insn->src_reg;
	default: /* BPF_STX */
		if (mode == BPF_MEM)
			return !insn->imm;
		if (mode != BPF_ATOMIC || (size != BPF_W && size != BPF_DW))
			return false;
		switch (insn->imm & ~BPF_FETCH) {
		case BPF_ADD:
		case BPF_OR:
		case BPF_AND:
		case BPF_XOR:
			return true;
		default:
			return insn->imm == BPF_XCHG || insn->imm == BPF_CMPXCHG;
		}
	}
}

static bool is_jump(const struct bpf_insn *insn)
{
	const bool wide = BPF_CLASS(insn->code) == BPF_JMP, reg = BPF_SRC(insn->code) == BPF_X;

	switch (BPF_OP(insn->code)) {
	case BPF_JA:
		return !reg && !insn->dst_reg && !insn->src_reg && !(wide ? insn->imm : insn->off);
	case BPF_CALL:
		return wide && !reg && !insn->dst_reg && !insn->off;
	case BPF_EXIT:
		return wide && !reg && !insn->dst_reg && !insn->src_reg && !insn->off && !insn->imm;
	default:
		return BPF_OP(insn->code) <= BPF_JSLE && !(reg ? insn->imm : insn->src_reg);
	}
}

/* Whether an instruction is one, by its kind. */
static bool is_known(const struct bpf_insn *insn)
{
	switch (BPF_CLASS(insn->code)) {
	case BPF_ALU:
	case BPF_ALU64:
		return is_arithmetic(insn);
	case BPF_JMP:
	case BPF_JMP32:
		return is_jump(insn);
	case BPF_LD: /* of which this one is left; relocated, a map's has a register */
		return bpf_is_wide(insn) && !insn->off && !insn->src_reg;
	default:
		return is_memory(insn);
	}
}

static bool writes_register(const struct bpf_insn *insn)
{
	const uint8_t class = BPF_CLASS(insn->code);

	return class == BPF_ALU || class == BPF_ALU64 || class == BPF_LDX || class == BPF_LD;
}

static int check_call(const struct check *c, const struct bpf_insn *insn)
{
	if (insn->src_reg == BPF_PSEUDO_CALL) {
		const uint32_t to = (uint32_t)insn->imm;

		if (to < c->object->nr_insns && bpf_function_of(c->object, to)->first == to)
			return 0;
		return wrong(c, "a call of what is no function of the object");
	}
	if (!insn->src_reg && insn->imm > BPF_HELPER_NONE && insn->imm < BPF_HELPER_NR)
		return 0;
	if (!insn->src_reg)
		return wrong(c,
			     "a call of helper number %d: programs here call memcpy, memmove, "
			     "memset and weir_policy_log, by name",
			     insn->imm);
	return wrong(c, "a call through a register, or of a function of the kernel");
}

/* That a jump ends at an instruction of the function. */
static int check_target(const struct check *c, const struct bpf_insn *insn)
{
	const bool far = insn->code == (BPF_JMP32 | BPF_JA);
	const int64_t to = (int64_t)c->insn + 1 + (far ? insn->imm : insn->off);
	const int64_t first = c->function->first, end = first + c->function->nr;

	if ((to < first || to >= end) && BPF_MUTANT != 5)
		return wrong(c, "a jump out of the function");
	if (to > first && bpf_is_wide(&c->object->insn[to - 1]))
		return wrong(c, "a jump into the middle of an instruction");
	return 0;
}

static int check_insn(const struct check *c)
{
	const struct bpf_insn *insn = &c->object->insn[c->insn];
	const uint32_t last = c->function->first + c->function->nr - 1;
	const uint8_t class = BPF_CLASS(insn->code), op = BPF_OP(insn->code);
	const bool jump = class == BPF_JMP || class == BPF_JMP32;

	if (!is_known(insn))
		return unknown(c);
	if (insn->dst_reg > 10 || insn->src_reg > 10)
		return wrong(c, "there is no register %u", MAX(insn->dst_reg, insn->src_reg));
	if (writes_register(insn) && insn->dst_reg == 10)
		return wrong(c, "register 10 is written, which has the frame's address");
	if (BPF_MODE(insn->code) == BPF_ATOMIC && class == BPF_STX && insn->imm & BPF_FETCH &&
	    insn->imm != BPF_CMPXCHG && insn->src_reg == 10)
		return wrong(c, "register 10 is written, which has the frame's address");
	if (bpf_is_wide(insn)) {
		const struct bpf_insn *second = insn + 1;

		if (c->insn == last || second->code || second->dst_reg || second->src_reg ||
		    second->off)
			return wrong(c, "an instruction of two parts without the second one");
	}
	if (c->insn + bpf_is_wide(insn) == last && !(jump && (op == BPF_EXIT || op == BPF_JA)))
		return wrong(c, "the function runs on behind its end");
	if (jump && op == BPF_CALL)
		return check_call(c, insn);
	return jump && op != BPF_EXIT ? check_target(c, insn) : 0;
}

int bpf_check(const struct bpf_object *object, char *err, size_t err_bytes)
{
	struct check c = {.object = object, .err = err, .err_bytes = err_bytes};
	int rc = 0;

	for (uint32_t f = 0; f < object->nr_functions && !rc; f++) {
		c.function = &object->function[f];
		c.insn = c.function->first;
		while (c.insn < c.function->first + c.function->nr && !rc) {
			rc = check_insn(&c);
			c.insn += 1 + bpf_is_wide(&object->insn[c.insn]);
		}
	}
	return rc;
}
