/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words in memory that streams wait for and write. An operation is a kernel of one word here; those
 * of one call are queued one by one, so that another call's may come between.
 */
#include <stdlib.h>

#include "tests/fakecuda/fake.h"

struct word_args {
	void *at;
	uint64_t value;
	bool wide; /* 64 bits */
	unsigned int how;
};

static uint64_t word_load(const struct word_args *a)
{
	return a->wide ? __atomic_load_n((uint64_t *)a->at, __ATOMIC_ACQUIRE)
		       : __atomic_load_n((uint32_t *)a->at, __ATOMIC_ACQUIRE);
}

static bool word_is_there(const struct word_args *a)
{
	uint64_t value = word_load(a);

	switch (a->how) {
	case CU_WAIT_EQ:
		return value == a->value;
	case CU_WAIT_AND:
		return value & a->value;
	case CU_WAIT_NOR:
		return ~(value | a->value) & (a->wide ? UINT64_MAX : UINT32_MAX);
	default: /* a distance, which may wrap */
		return a->wide ? (int64_t)(value - a->value) >= 0
			       : (int32_t)((uint32_t)value - (uint32_t)a->value) >= 0;
	}
}

static void word_wait(const void *args)
{
	for (unsigned tries = 0; !word_is_there(args); tries++)
		fake_wait(tries);
}

static void word_write(const void *args)
{
	const struct word_args *a = args;

	if (a->wide)
		__atomic_store_n((uint64_t *)a->at, a->value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)a->at, (uint32_t)a->value, __ATOMIC_RELEASE);
}

static cu_result word_op(cu_stream handle, cu_ptr addr, struct word_args args, bool write)
{
	const unsigned bytes = args.wide ? 8 : 4;
	struct stream *stream;
	struct op *op;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result)
		return result;
	if (!addr || addr % bytes || args.how > (write ? 0 : CU_WAIT_NOR))
		return CU_INVALID_VALUE;
	op = op_create(OP_KERNEL, 0);
	if (op)
		op->args = malloc(sizeof(args));
	if (!op || !op->args) {
		if (op)
			op_free(op);
		return CU_OUT_OF_MEMORY;
	}
	args.at = pointer(addr);
	*(struct word_args *)op->args = args;
	op->args_bytes = sizeof(args);
	op->fn = write ? word_write : word_wait;
	op_touch(op, addr, bytes, write);
	stream_add(stream, op);
	return CU_SUCCESS;
}

#define WORDS(member, bits, write)                                                       \
	cu_result fake_##member(cu_stream stream, cu_ptr addr, uint##bits##_t value,     \
				unsigned int flags)                                      \
	{                                                                                \
		const struct word_args args = {                                          \
			.value = value, .wide = (bits) == 64, .how = flags};             \
		cu_result result = call_enter(CALL_##member);                            \
                                                                                         \
		return call_leave(result ? result : word_op(stream, addr, args, write)); \
	}

WORDS(wait32, 32, false)
WORDS(wait32_v2, 32, false)
WORDS(wait64, 64, false)
WORDS(wait64_v2, 64, false)
WORDS(write32, 32, true)
WORDS(write32_v2, 32, true)
WORDS(write64, 64, true)
WORDS(write64_v2, 64, true)

static cu_result ops(cu_stream stream, unsigned int nr, const struct cu_stream_op *list,
		     unsigned int flags)
{
	cu_result result = !list || !nr || flags ? CU_INVALID_VALUE : CU_SUCCESS;

	for (unsigned int i = 0; !result && i < nr; i++) {
		const struct cu_stream_op *op = &list[i];
		const bool wide = op->kind == CU_OP_WAIT64 || op->kind == CU_OP_WRITE64;
		const bool write = op->kind == CU_OP_WRITE32 || op->kind == CU_OP_WRITE64;
		const struct word_args args = {.value = wide ? op->rest[0] : (uint32_t)op->rest[0],
					       .wide = wide,
					       .how = (unsigned int)op->rest[1]};

		if (!write && op->kind != CU_OP_WAIT32 && op->kind != CU_OP_WAIT64)
			return CU_NOT_SUPPORTED;
		result = word_op(stream, op->addr, args, write);
	}
	return result;
}

cu_result fake_stream_ops(cu_stream stream, unsigned int nr, struct cu_stream_op *list,
			  unsigned int flags)
{
	cu_result result = call_enter(CALL_stream_ops);

	return call_leave(result ? result : ops(stream, nr, list, flags));
}

cu_result fake_stream_ops_v2(cu_stream stream, unsigned int nr, struct cu_stream_op *list,
			     unsigned int flags)
{
	cu_result result = call_enter(CALL_stream_ops_v2);

	return call_leave(result ? result : ops(stream, nr, list, flags));
}
