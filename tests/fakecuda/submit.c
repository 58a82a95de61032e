/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that queue work: copies, fills, prefetches, kernels. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/fake.h"

cu_result stream_for(cu_stream handle, struct stream **stream, int *context)
{
	cu_result result = context_current(context);

	if (result)
		return result;
	*stream = stream_find(handle, *context, &result);
	return *stream ? fake.context[(*stream)->context].error : result;
}

/* ------------------------------------------------------------------ copies */

static bool addr_is_device(uint64_t addr)
{
	const struct mapping *mapping = mapping_find(addr);

	return mapping &&
	       (mapping_is_plain(mapping) ||
		(mapping->kind == MAPPING_VMM && mapping->piece->location == CU_LOCATION_DEVICE));
}

cu_result op_submit(struct stream *stream, struct op *op, enum until until)
{
	bool program = false, host = false;
	uint64_t seq;

	if (stream->graph && !graph_takes(op)) {
		op_free(op);
		return CU_INVALID_VALUE;
	}
	for (size_t i = 0; i < op->nr_touches; i++) {
		program |= addr_is_program(op->touch[i].addr);
		host |= !addr_is_device(op->touch[i].addr);
	}
	stream_add(stream, op);
	seq = op->seq;
	if (until == UNTIL_DONE ? host : program && fake.config.pageable_blocks)
		return op_wait(stream, seq);
	return CU_SUCCESS;
}

static cu_result copy(cu_ptr dst, cu_ptr src, size_t bytes, cu_stream handle, enum until until)
{
	struct stream *stream;
	struct op *op;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result || !bytes)
		return result;
	if (!dst || !src)
		return CU_INVALID_VALUE;
	op = op_create(OP_COPY, 2);
	if (!op)
		return CU_OUT_OF_MEMORY;
	op->touch[0] = (struct touch){dst, bytes, true};
	op->touch[1] = (struct touch){src, bytes, false};
	return op_submit(stream, op, until);
}

cu_result fake_copy(cu_ptr dst, cu_ptr src, size_t bytes, cu_stream handle)
{
	cu_result result = call_enter(CALL_copy);

	return call_leave(result ? result : copy(dst, src, bytes, handle, UNTIL_QUEUED));
}

cu_result fake_copy_sync(cu_ptr dst, cu_ptr src, size_t bytes)
{
	cu_result result = call_enter(CALL_copy_sync);

	return call_leave(result ? result : copy(dst, src, bytes, NULL, UNTIL_DONE));
}

/* A copy whose ends the call names: what is said to be the device's is not the program's. */
static cu_result copy_between(enum call call, cu_ptr dst, bool dst_device, cu_ptr src,
			      bool src_device, size_t bytes, cu_stream stream, enum until until)
{
	cu_result result = call_enter(call);

	if (!result && bytes &&
	    ((dst_device && addr_is_program(dst)) || (src_device && addr_is_program(src))))
		result = CU_INVALID_VALUE;
	return call_leave(result ? result : copy(dst, src, bytes, stream, until));
}

cu_result fake_copy_htod(cu_ptr dst, const void *src, size_t bytes)
{
	return copy_between(CALL_copy_htod, dst, true, (uintptr_t)src, false, bytes, NULL,
			    UNTIL_DONE);
}

cu_result fake_copy_dtoh(void *dst, cu_ptr src, size_t bytes)
{
	return copy_between(CALL_copy_dtoh, (uintptr_t)dst, false, src, true, bytes, NULL,
			    UNTIL_DONE);
}

cu_result fake_copy_dtod(cu_ptr dst, cu_ptr src, size_t bytes)
{
	return copy_between(CALL_copy_dtod, dst, true, src, true, bytes, NULL, UNTIL_DONE);
}

cu_result fake_copy_htod_async(cu_ptr dst, const void *src, size_t bytes, cu_stream stream)
{
	return copy_between(CALL_copy_htod_async, dst, true, (uintptr_t)src, false, bytes, stream,
			    UNTIL_QUEUED);
}

cu_result fake_copy_dtoh_async(void *dst, cu_ptr src, size_t bytes, cu_stream stream)
{
	return copy_between(CALL_copy_dtoh_async, (uintptr_t)dst, false, src, true, bytes, stream,
			    UNTIL_QUEUED);
}

cu_result fake_copy_dtod_async(cu_ptr dst, cu_ptr src, size_t bytes, cu_stream stream)
{
	return copy_between(CALL_copy_dtod_async, dst, true, src, true, bytes, stream,
			    UNTIL_QUEUED);
}

static bool batch_is_valid(const cu_ptr *dst, const cu_ptr *src, const size_t *bytes, size_t nr,
			   const struct cu_copy_attributes *attributes, const size_t *first,
			   size_t nr_attributes)
{
	if (!dst || !src || !bytes || !nr || !attributes || !first || !nr_attributes ||
	    nr_attributes > nr || first[0])
		return false;
	for (size_t i = 0; i < nr; i++)
		if (!dst[i] || !src[i] || !bytes[i])
			return false;
	for (size_t i = 0; i < nr_attributes; i++)
		if (attributes[i].source_order < CU_SOURCE_ORDER_STREAM ||
		    attributes[i].source_order > 3 || (i && first[i] <= first[i - 1]) ||
		    first[i] >= nr)
			return false;
	return true;
}

cu_result fake_copy_batch(cu_ptr *dst, cu_ptr *src, size_t *bytes, size_t nr,
			  struct cu_copy_attributes *attributes, size_t *first,
			  size_t nr_attributes, cu_stream handle)
{
	cu_result result = call_enter(CALL_copy_batch);
	struct stream *stream;
	struct op *op;
	int context;

	if (!result)
		result = stream_for(handle, &stream, &context);
	if (!result &&
	    (!handle || !batch_is_valid(dst, src, bytes, nr, attributes, first, nr_attributes)))
		result = CU_INVALID_VALUE;
	if (result)
		return call_leave(result);
	op = op_create(OP_COPY, 2 * nr);
	if (!op)
		return call_leave(CU_OUT_OF_MEMORY);
	/* Their order is not promised: last to first. */
	for (size_t i = 0; i < nr; i++) {
		op->touch[2 * i] = (struct touch){dst[nr - 1 - i], bytes[nr - 1 - i], true};
		op->touch[2 * i + 1] = (struct touch){src[nr - 1 - i], bytes[nr - 1 - i], false};
	}
	return call_leave(op_submit(stream, op, UNTIL_QUEUED));
}

/* ------------------------------------------------------------------ fills */

static cu_result fill(cu_ptr addr, unsigned int word, unsigned word_bytes, size_t nr,
		      cu_stream handle, enum until until)
{
	struct stream *stream;
	struct op *op;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result || !nr)
		return result;
	if (!addr || addr % word_bytes || nr > SIZE_MAX / word_bytes)
		return CU_INVALID_VALUE;
	op = op_create(OP_FILL, 1);
	if (!op)
		return CU_OUT_OF_MEMORY;
	op->word = word;
	op->word_bytes = word_bytes;
	op->touch[0] = (struct touch){addr, nr * word_bytes, true};
	return op_submit(stream, op, until);
}

cu_result fake_fill(cu_ptr addr, unsigned int word, size_t nr, cu_stream handle)
{
	cu_result result = call_enter(CALL_fill);

	return call_leave(result ? result : fill(addr, word, 4, nr, handle, UNTIL_QUEUED));
}

cu_result fake_fill16_async(cu_ptr addr, unsigned short word, size_t nr, cu_stream handle)
{
	cu_result result = call_enter(CALL_fill16_async);

	return call_leave(result ? result : fill(addr, word, 2, nr, handle, UNTIL_QUEUED));
}

cu_result fake_fill8_async(cu_ptr addr, unsigned char byte, size_t nr, cu_stream handle)
{
	cu_result result = call_enter(CALL_fill8_async);

	return call_leave(result ? result : fill(addr, byte, 1, nr, handle, UNTIL_QUEUED));
}

cu_result fake_fill32(cu_ptr addr, unsigned int word, size_t nr)
{
	cu_result result = call_enter(CALL_fill32);

	return call_leave(result ? result : fill(addr, word, 4, nr, NULL, UNTIL_DONE));
}

cu_result fake_fill16(cu_ptr addr, unsigned short word, size_t nr)
{
	cu_result result = call_enter(CALL_fill16);

	return call_leave(result ? result : fill(addr, word, 2, nr, NULL, UNTIL_DONE));
}

cu_result fake_fill8(cu_ptr addr, unsigned char byte, size_t nr)
{
	cu_result result = call_enter(CALL_fill8);

	return call_leave(result ? result : fill(addr, byte, 1, nr, NULL, UNTIL_DONE));
}

/* ------------------------------------------------------------------ managed memory */

static cu_result prefetch(cu_ptr addr, size_t bytes, struct cu_location to, unsigned int flags,
			  cu_stream handle)
{
	const struct mapping *mapping = mapping_find(addr);
	struct stream *stream;
	struct op *op;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result)
		return result;
	if (flags || !bytes || !mapping || mapping->kind != MAPPING_MANAGED ||
	    bytes > mapping->range.addr + mapping->range.bytes - addr)
		return CU_INVALID_VALUE;
	if (to.type == CU_LOCATION_DEVICE ? device_check(to.id)
					  : to.type == CU_LOCATION_HOST_NUMA && to.id)
		return CU_INVALID_DEVICE;
	if (to.type < CU_LOCATION_DEVICE || to.type > CU_LOCATION_HOST_NUMA)
		return CU_INVALID_VALUE;
	op = op_create(OP_NOTHING, 0);
	if (!op)
		return CU_OUT_OF_MEMORY;
	stream_add(stream, op);
	return CU_SUCCESS;
}

cu_result fake_managed_prefetch(cu_ptr addr, size_t bytes, struct cu_location to,
				unsigned int flags, cu_stream handle)
{
	cu_result result = call_enter(CALL_managed_prefetch);

	return call_leave(result ? result : prefetch(addr, bytes, to, flags, handle));
}

/* Whether managed memory may be advised of a place; the memory of a device, or the host's. */
static cu_result advise_place(int advice, struct cu_location place)
{
	bool device = place.type == CU_LOCATION_DEVICE;

	if (advice < CU_ADVISE_READ_MOSTLY || advice > CU_ADVISE_UNSET_ACCESSED_BY)
		return CU_INVALID_VALUE;
	if (advice <= CU_ADVISE_UNSET_READ_MOSTLY || advice == CU_ADVISE_UNSET_PREFERRED)
		return CU_SUCCESS;
	if (device)
		return device_check(place.id);
	if (place.type == CU_LOCATION_HOST)
		return CU_SUCCESS;
	/* A node of the host may be preferred; none accesses. */
	if (place.type != CU_LOCATION_HOST_NUMA || advice != CU_ADVISE_PREFERRED)
		return CU_INVALID_VALUE;
	return place.id ? CU_INVALID_DEVICE : CU_SUCCESS;
}

/* Its bytes are in one place here, whatever is advised. */
static cu_result advise(cu_ptr addr, size_t bytes, int advice, struct cu_location place)
{
	const struct mapping *mapping = mapping_find(addr);

	if (!bytes || !mapping || mapping->kind != MAPPING_MANAGED ||
	    bytes > mapping->range.addr + mapping->range.bytes - addr)
		return CU_INVALID_VALUE;
	return advise_place(advice, place);
}

cu_result fake_managed_advise(cu_ptr addr, size_t bytes, int advice, struct cu_location place)
{
	cu_result result = call_enter(CALL_managed_advise);

	return call_leave(result ? result : advise(addr, bytes, advice, place));
}

/* ------------------------------------------------------------------ kernels of tests */

static cu_result launch(void *handle, void (*fn)(const void *args), const void *args, size_t bytes,
			const struct fakecuda_touch *touch, unsigned nr)
{
	struct stream *stream;
	struct op *op;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result)
		return result;
	if (!fn || (bytes && !args) || (nr && !touch))
		return CU_INVALID_VALUE;
	if (stream->context != context)
		return CU_INVALID_HANDLE;
	op = op_create(OP_KERNEL, nr);
	if (!op)
		return CU_OUT_OF_MEMORY;
	op->args = malloc(bytes + 1);
	if (!op->args) {
		op_free(op);
		return CU_OUT_OF_MEMORY;
	}
	if (bytes)
		memcpy(op->args, args, bytes);
	op->args_bytes = bytes;
	op->fn = fn;
	op->nr_touches = 0;
	for (unsigned i = 0; i < nr; i++)
		if (touch[i].bytes)
			op->touch[op->nr_touches++] = (struct touch){
				(uintptr_t)touch[i].addr, touch[i].bytes, touch[i].write};
	stream_add(stream, op);
	return CU_SUCCESS;
}

int fakecuda_launch(void *stream, void (*fn)(const void *args), const void *args, size_t bytes,
		    const struct fakecuda_touch *touch, unsigned nr)
{
	cu_result result = call_enter(CALL_launch);

	return call_leave(result ? result : launch(stream, fn, args, bytes, touch, nr));
}
