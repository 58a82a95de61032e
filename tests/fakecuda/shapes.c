/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills of pictures and volumes, and copies between devices: each is one operation, with
 * a touch for each row. Arrays do not exist here. What a copy is from or to it is told by the kind
 * of memory, which is not compared with where the address lies.
 */
#include "src/base/util.h"
#include "tests/fakecuda/fake.h"

/* ------------------------------------------------------------------ copies */

/* The first byte of one end, of the row-th row; rows are counted through slices of height each. */
static bool end_row(const struct cu_end3d *end, size_t row, size_t height, uint64_t *addr)
{
	uint64_t base = end->type == CU_MEMORY_HOST ? (uintptr_t)end->host : end->device;
	uint64_t above = (end->z + row / height) * end->rows + end->y + row % height;

	*addr = base + above * end->pitch + end->x;
	return base && (end->type == CU_MEMORY_HOST || end->type == CU_MEMORY_DEVICE ||
			end->type == CU_MEMORY_UNIFIED);
}

static cu_result copy_rows(const struct cu_copy3d *copy, cu_stream handle, enum until until)
{
	struct stream *stream;
	struct op *op;
	int context;
	cu_result result = stream_for(handle, &stream, &context);
	const size_t nr = copy ? copy->height * copy->depth : 0;

	if (result)
		return result;
	if (!copy)
		return CU_INVALID_VALUE;
	if (!nr || !copy->width)
		return CU_SUCCESS;
	op = op_create(OP_COPY, 2 * nr);
	if (!op)
		return CU_OUT_OF_MEMORY;
	for (size_t row = 0; row < nr; row++) {
		struct touch *touch = &op->touch[2 * row];

		touch[0] = (struct touch){.bytes = copy->width, .write = true};
		touch[1] = (struct touch){.bytes = copy->width};
		if (!end_row(&copy->dst, row, copy->height, &touch[0].addr) ||
		    !end_row(&copy->src, row, copy->height, &touch[1].addr)) {
			op_free(op);
			return CU_INVALID_VALUE;
		}
	}
	return op_submit(stream, op, until);
}

/* A picture is a volume of one slice. */
static struct cu_end3d end_of_picture(const struct cu_end2d *end)
{
	return (struct cu_end3d){.x = end->x,
				 .y = end->y,
				 .type = end->type,
				 .host = end->host,
				 .device = end->device,
				 .array = end->array,
				 .pitch = end->pitch};
}

static cu_result picture(enum call call, const struct cu_copy2d *copy, cu_stream stream,
			 enum until until)
{
	cu_result result = call_enter(call);
	struct cu_copy3d volume;

	if (!result && !copy)
		result = CU_INVALID_VALUE;
	if (result)
		return call_leave(result);
	volume = (struct cu_copy3d){.src = end_of_picture(&copy->src),
				    .dst = end_of_picture(&copy->dst),
				    .width = copy->width,
				    .height = copy->height,
				    .depth = 1};
	return call_leave(copy_rows(&volume, stream, until));
}

static cu_result volume(enum call call, const struct cu_copy3d *copy, cu_stream stream,
			enum until until)
{
	cu_result result = call_enter(call);

	return call_leave(result ? result : copy_rows(copy, stream, until));
}

cu_result fake_copy2d(const struct cu_copy2d *copy)
{
	return picture(CALL_copy2d, copy, NULL, UNTIL_DONE);
}

cu_result fake_copy2d_unaligned(const struct cu_copy2d *copy)
{
	return picture(CALL_copy2d_unaligned, copy, NULL, UNTIL_DONE);
}

cu_result fake_copy2d_async(const struct cu_copy2d *copy, cu_stream stream)
{
	return picture(CALL_copy2d_async, copy, stream, UNTIL_QUEUED);
}

cu_result fake_copy3d(const struct cu_copy3d *copy)
{
	return volume(CALL_copy3d, copy, NULL, UNTIL_DONE);
}

cu_result fake_copy3d_async(const struct cu_copy3d *copy, cu_stream stream)
{
	return volume(CALL_copy3d_async, copy, stream, UNTIL_QUEUED);
}

/* Addresses say whose they are: contexts are not looked at, here and below. */
cu_result fake_copy3d_peer(const struct cu_copy3d *copy)
{
	return volume(CALL_copy3d_peer, copy, NULL, UNTIL_DONE);
}

cu_result fake_copy3d_peer_async(const struct cu_copy3d *copy, cu_stream stream)
{
	return volume(CALL_copy3d_peer_async, copy, stream, UNTIL_QUEUED);
}

static cu_result between(enum call call, cu_ptr dst, cu_ptr src, size_t bytes, cu_stream stream,
			 enum until until)
{
	const struct cu_copy3d copy = {.src = {.type = CU_MEMORY_DEVICE, .device = src},
				       .dst = {.type = CU_MEMORY_DEVICE, .device = dst},
				       .width = bytes,
				       .height = 1,
				       .depth = 1};

	return volume(call, &copy, stream, until);
}

cu_result fake_copy_peer(cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t bytes)
{
	(void)to, (void)from;
	return between(CALL_copy_peer, dst, src, bytes, NULL, UNTIL_DONE);
}

cu_result fake_copy_peer_async(cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t bytes,
			       cu_stream stream)
{
	(void)to, (void)from;
	return between(CALL_copy_peer_async, dst, src, bytes, stream, UNTIL_QUEUED);
}

/* ------------------------------------------------------------------ fills */

/* A picture of words, which begins at addr. */
struct rows {
	cu_ptr addr;
	size_t pitch, width, height;
	unsigned int word, word_bytes;
};

static cu_result fill_rows(const struct rows *rows, cu_stream handle, enum until until)
{
	struct stream *stream;
	struct op *op;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result || !rows->width || !rows->height)
		return result;
	if (!rows->addr || rows->addr % rows->word_bytes || rows->pitch % rows->word_bytes ||
	    (rows->height > 1 && rows->pitch / rows->word_bytes < rows->width))
		return CU_INVALID_VALUE;
	op = op_create(OP_FILL, rows->height);
	if (!op)
		return CU_OUT_OF_MEMORY;
	op->word = rows->word;
	op->word_bytes = rows->word_bytes;
	for (size_t row = 0; row < rows->height; row++)
		op->touch[row] = (struct touch){rows->addr + row * rows->pitch,
						rows->width * rows->word_bytes, true};
	return op_submit(stream, op, until);
}

static cu_result fill(enum call call, const struct rows *rows, cu_stream stream, enum until until)
{
	cu_result result = call_enter(call);

	return call_leave(result ? result : fill_rows(rows, stream, until));
}

#define FILLS(bits, type)                                                                       \
	cu_result fake_fill2d##bits(cu_ptr addr, size_t pitch, type word, size_t width,         \
				    size_t height)                                              \
	{                                                                                       \
		const struct rows rows = {addr, pitch, width, height, word, (bits) / 8};        \
                                                                                                \
		return fill(CALL_fill2d##bits, &rows, NULL, UNTIL_DONE);                        \
	}                                                                                       \
	cu_result fake_fill2d##bits##_async(cu_ptr addr, size_t pitch, type word, size_t width, \
					    size_t height, cu_stream stream)                    \
	{                                                                                       \
		const struct rows rows = {addr, pitch, width, height, word, (bits) / 8};        \
                                                                                                \
		return fill(CALL_fill2d##bits##_async, &rows, stream, UNTIL_QUEUED);            \
	}

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)
