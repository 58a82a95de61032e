/* SPDX-License-Identifier: Apache-2.0 */
/* Checked instructions of eBPF in the form that runs: what depends on more than an instruction's
 * code is decided once, here. */
#include "src/policy/bpf_internal.h"

/* The number that tells an instruction apart from all others. */
static uint16_t op_of(const struct bpf_insn *insn)
{
	const uint8_t class = BPF_CLASS(insn->code);
	const bool alu = class == BPF_ALU || class == BPF_ALU64;

	if (alu && BPF_OP(insn->code) == BPF_MOV && insn->off)
		return class == BPF_ALU64 ? BPF_OP_MOVE_SIGNED : BPF_OP_MOVE_SIGNED_32;
	if (insn->code == (BPF_JMP | BPF_CALL) && !insn->src_reg)
		return BPF_OP_HELPER;
	return insn->code;
}

struct bpf_code bpf_decode(const struct bpf_insn *insn)
{
	struct bpf_code code = {
		.op = op_of(insn),
		.dst = insn->dst_reg,
		.src = insn->src_reg,
		.off = insn->off,
		.imm = (uint64_t)(int64_t)insn->imm,
	};

	if (insn->code == (BPF_JMP32 | BPF_JA))
		code.off = insn->imm;
	if (bpf_is_wide(insn))
		code.imm = (uint32_t)insn[0].imm | (uint64_t)(uint32_t)insn[1].imm << 32;
	return code;
}
