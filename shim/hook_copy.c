/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program calls to copy and fill memory, to have streams wait for it, to run graphs, and
 * to launch kernels whose parameters other calls have set before. Looked at only where operations
 * have brackets. What a call uses is named exactly, but for parts of pictures and volumes, whose
 * whole ranges are named; where it is hard to tell, it may be anything.
 */
#include "shim/brackets.h"
#include "shim/evidence.h"
#include "shim/hooks.h"
#include "shim/memory.h"
#include "shim/proof.h"
#include "shim/settings.h"
#include "shim/summary.h"
#include "shim/when.h"
#include "src/base/util.h"
#include "weir/weir.h"

#define USES_MAX 32u /* of one call; of more it may be anything */

/* What a call uses. */
struct used {
	struct weir_use use[USES_MAX];
	uint32_t nr;
	bool any;
	bool passes; /* nobody asks, but for evidence */
};

/* A part of a range of ours. */
static void uses(struct used *used, cu_ptr addr, uint64_t bytes)
{
	cu_ptr base;
	uint64_t all;

	if (used->passes || !bytes || !memory_find(addr, &base, &all))
		return;
	if (used->nr == USES_MAX)
		used->any = true;
	else /* beyond its end the driver refuses it */
		used->use[used->nr++] = bracket_use(addr, MIN(bytes, base + all - addr));
}

/* The whole of one. */
static void uses_all(struct used *used, cu_ptr addr)
{
	cu_ptr base;
	uint64_t all;

	if (!used->passes && memory_find(addr, &base, &all))
		uses(used, base, all);
}

/* How many rows of a picture or volume may show addresses: where it is large, the first one says
 * what is said of whole ranges. */
static size_t rows_looked_at(size_t width, size_t height, size_t depth)
{
	const size_t max = EVIDENCE_BYTES_MAX;

	if (!width || !height || !depth)
		return 0;
	return width > max || height > max / width || depth > max / width / height ? 1
										   : height * depth;
}

static void uses_end3d(struct used *used, const struct cu_end3d *end)
{
	if (end->type != CU_MEMORY_ARRAY) {
		uses_all(used, end->device);
		uses_all(used, (cu_ptr)(uintptr_t)end->host);
	}
}

/* Where a row begins of an end that is no array; row: counted through all slices of height rows. */
static cu_ptr end3d(const struct cu_end3d *end, size_t row, size_t height)
{
	cu_ptr base = end->type == CU_MEMORY_HOST ? (cu_ptr)(uintptr_t)end->host : end->device;

	return base + ((end->z + row / height) * end->rows + end->y + row % height) * end->pitch +
	       end->x;
}

static void uses_3d(struct used *used, const struct cu_copy3d *copy)
{
	size_t rows;

	if (!copy)
		return;
	uses_end3d(used, &copy->src);
	uses_end3d(used, &copy->dst);
	if (copy->src.type == CU_MEMORY_ARRAY || copy->dst.type == CU_MEMORY_ARRAY)
		return;
	rows = rows_looked_at(copy->width, copy->height, copy->depth);
	for (size_t row = 0; row < rows; row++)
		evidence_copied_unified(end3d(&copy->dst, row, copy->height),
					end3d(&copy->src, row, copy->height), copy->width);
}

static struct cu_end3d as_3d(const struct cu_end2d *end)
{
	return (struct cu_end3d){
		.x = end->x,
		.y = end->y,
		.type = end->type,
		.host = end->host,
		.device = end->device,
		.array = end->array,
		.pitch = end->pitch,
	};
}

/* A picture is a volume of one slice. */
static void uses_2d(struct used *used, const struct cu_copy2d *copy)
{
	if (copy)
		uses_3d(used, &(struct cu_copy3d){as_3d(&copy->src), as_3d(&copy->dst), copy->width,
						  copy->height, 1});
}

static void uses_batch(struct used *used, const cu_ptr *dst, const cu_ptr *src, const size_t *bytes,
		       size_t nr)
{
	used->any = true;
	for (size_t i = 0; dst && src && bytes && i < nr; i++)
		evidence_copied_unified(dst[i], src[i], bytes[i]);
}

/* What waits for a word is not to be waited for in its turn. */
static void stop_learning(void)
{
	if (settings_get()->mode != SETTINGS_LEARN || !proof_enter())
		return;
	proof_stop("a stream waits for a word in memory");
	proof_leave();
}

static void uses_ops(struct used *used, const struct cu_stream_op *list, unsigned int nr)
{
	stop_learning();
	for (unsigned int i = 0; list && i < nr; i++)
		uses(used, list[i].addr, sizeof(uint32_t));
}

static void uses_anything(struct used *used)
{
	used->any = true;
}

/* ------------------------------------------------------------------ the hooks */

/* Open the bracket of a call that was entered; @return whether the call may go on, then
 * leave_with() follows it. */
static bool open_for(struct bracket *bracket, cu_stream stream, struct used *used,
		     cu_result *result)
{
	*result = bracket_open(
		bracket, stream,
		&(struct bracket_uses){
			.use = used->use, .nr = used->nr, .nr_likely = used->nr, .any = used->any});
	if (*result)
		hook_leave();
	return *result == CU_SUCCESS;
}

static cu_result leave_with(struct bracket *bracket, const char *name, cu_result result)
{
	bracket_close(bracket, name);
	hook_leave();
	return summary_note_result(result);
}

static cu_result leave_passed(cu_result result)
{
	when_passed();
	hook_leave();
	return result;
}

/* One hook: its parameters, the same as arguments, its stream, and what it uses. */
#define HOOK(symbol, parameters, arguments, stream, what)           \
	cu_result hook_##symbol parameters                          \
	{                                                           \
		struct used used;                                   \
		struct bracket bracket;                             \
		cu_result result;                                   \
                                                                    \
		if (!brackets_are_on() || !hook_enter())            \
			return real.symbol arguments;               \
		used.nr = 0;                                        \
		used.any = false;                                   \
		used.passes = when_pass(stream);                    \
		what;                                               \
		if (used.passes)                                    \
			return leave_passed(real.symbol arguments); \
		if (!open_for(&bracket, stream, &used, &result))    \
			return result;                              \
		result = real.symbol arguments;                     \
		return leave_with(&bracket, #symbol, result);       \
	}

/* On the default stream, and on one that the call names. */
#define HOOKS_SYNC(symbol, parameters, arguments, what)             \
	HOOK(symbol, parameters, arguments, CU_STREAM_LEGACY, what) \
	HOOK(symbol##_ptds, parameters, arguments, CU_STREAM_PER_THREAD, what)
#define HOOKS_ASYNC(symbol, parameters, arguments, what)                   \
	HOOK(symbol, parameters, arguments, hook_stream_all(stream), what) \
	HOOK(symbol##_ptsz, parameters, arguments, hook_stream_thread(stream), what)

/* clang-format off */
#define BOTH_USED uses(&used, dst, bytes), uses(&used, src, bytes)
#define TO_DEVICE uses(&used, dst, bytes), evidence_copied(dst, src, bytes)
#define WITHIN_DEVICE BOTH_USED, evidence_copied_on(dst, src)
#define TO_DEVICE_UNIFIED BOTH_USED, evidence_copied_unified(dst, src, bytes)

HOOKS_SYNC(cuMemcpy, COPY, (dst, src, bytes), (TO_DEVICE_UNIFIED))
HOOKS_ASYNC(cuMemcpyAsync, COPY_ASYNC, (dst, src, bytes, stream), (TO_DEVICE_UNIFIED))
HOOKS_SYNC(cuMemcpyPeer, COPY_PEER, (dst, to, src, from, bytes), (WITHIN_DEVICE))
HOOKS_ASYNC(cuMemcpyPeerAsync, COPY_PEER_ASYNC, (dst, to, src, from, bytes, stream),
	    (WITHIN_DEVICE))
HOOKS_SYNC(cuMemcpyHtoD_v2, FROM_HOST, (dst, src, bytes), (TO_DEVICE))
HOOKS_ASYNC(cuMemcpyHtoDAsync_v2, FROM_HOST_ASYNC, (dst, src, bytes, stream), (TO_DEVICE))
HOOKS_SYNC(cuMemcpyDtoH_v2, TO_HOST, (dst, src, bytes), uses(&used, src, bytes))
HOOKS_ASYNC(cuMemcpyDtoHAsync_v2, TO_HOST_ASYNC, (dst, src, bytes, stream), uses(&used, src, bytes))
HOOKS_SYNC(cuMemcpyDtoD_v2, COPY, (dst, src, bytes), (WITHIN_DEVICE))
HOOKS_ASYNC(cuMemcpyDtoDAsync_v2, COPY_ASYNC, (dst, src, bytes, stream), (WITHIN_DEVICE))
HOOKS_SYNC(cuMemcpyDtoA_v2, TO_ARRAY, (array, offset, src, bytes), uses(&used, src, bytes))
HOOKS_SYNC(cuMemcpyAtoD_v2, FROM_ARRAY, (dst, array, offset, bytes), uses(&used, dst, bytes))
HOOKS_SYNC(cuMemcpy2D_v2, COPY_2D, (copy), uses_2d(&used, copy))
HOOKS_SYNC(cuMemcpy2DUnaligned_v2, COPY_2D, (copy), uses_2d(&used, copy))
HOOKS_ASYNC(cuMemcpy2DAsync_v2, COPY_2D_ASYNC, (copy, stream), uses_2d(&used, copy))
HOOKS_SYNC(cuMemcpy3D_v2, COPY_3D, (copy), uses_3d(&used, copy))
HOOKS_ASYNC(cuMemcpy3DAsync_v2, COPY_3D_ASYNC, (copy, stream), uses_3d(&used, copy))
HOOKS_SYNC(cuMemcpy3DPeer, COPY_3D, (copy), uses_3d(&used, copy))
HOOKS_ASYNC(cuMemcpy3DPeerAsync, COPY_3D_ASYNC, (copy, stream), uses_3d(&used, copy))
HOOKS_ASYNC(cuMemcpyBatchAsync, BATCH_12,
	    (dst, src, bytes, nr, attributes, indices, nr_attributes, failed, stream),
	    uses_batch(&used, dst, src, bytes, nr))
HOOKS_ASYNC(cuMemcpyBatchAsync_v2, BATCH_13,
	    (dst, src, bytes, nr, attributes, indices, nr_attributes, stream),
	    uses_batch(&used, dst, src, bytes, nr))
HOOKS_ASYNC(cuMemcpy3DBatchAsync, BATCH_3D_12, (nr, list, failed, flags, stream),
	    uses_anything(&used))
HOOKS_ASYNC(cuMemcpy3DBatchAsync_v2, BATCH_3D_13, (nr, list, flags, stream), uses_anything(&used))
HOOKS_ASYNC(cuMemBatchDecompressAsync, DECOMPRESS, (list, nr, flags, failed, stream),
	    uses_anything(&used))

#define FILL_WORDS(bits) uses(&used, dst, nr * ((bits) / 8))

HOOKS_SYNC(cuMemsetD8_v2, FILL(unsigned char), (dst, value, nr), FILL_WORDS(8))
HOOKS_SYNC(cuMemsetD16_v2, FILL(unsigned short), (dst, value, nr), FILL_WORDS(16))
HOOKS_SYNC(cuMemsetD32_v2, FILL(unsigned int), (dst, value, nr), FILL_WORDS(32))
HOOKS_ASYNC(cuMemsetD8Async, FILL_ASYNC(unsigned char), (dst, value, nr, stream), FILL_WORDS(8))
HOOKS_ASYNC(cuMemsetD16Async, FILL_ASYNC(unsigned short), (dst, value, nr, stream), FILL_WORDS(16))
HOOKS_ASYNC(cuMemsetD32Async, FILL_ASYNC(unsigned int), (dst, value, nr, stream), FILL_WORDS(32))
HOOKS_SYNC(cuMemsetD2D8_v2, FILL_2D(unsigned char), (dst, pitch, value, width, height),
	   uses_all(&used, dst))
HOOKS_SYNC(cuMemsetD2D16_v2, FILL_2D(unsigned short), (dst, pitch, value, width, height),
	   uses_all(&used, dst))
HOOKS_SYNC(cuMemsetD2D32_v2, FILL_2D(unsigned int), (dst, pitch, value, width, height),
	   uses_all(&used, dst))
HOOKS_ASYNC(cuMemsetD2D8Async, FILL_2D_ASYNC(unsigned char),
	    (dst, pitch, value, width, height, stream), uses_all(&used, dst))
HOOKS_ASYNC(cuMemsetD2D16Async, FILL_2D_ASYNC(unsigned short),
	    (dst, pitch, value, width, height, stream), uses_all(&used, dst))
HOOKS_ASYNC(cuMemsetD2D32Async, FILL_2D_ASYNC(unsigned int),
	    (dst, pitch, value, width, height, stream), uses_all(&used, dst))

#define FLAG_HOOKS(symbol, word) \
	HOOKS_ASYNC(symbol, FLAG(word), (stream, addr, value, flags), \
		    uses(&used, addr, sizeof(word)))
#define WAIT_HOOKS(symbol, word) \
	HOOKS_ASYNC(symbol, FLAG(word), (stream, addr, value, flags), \
		    (stop_learning(), uses(&used, addr, sizeof(word))))

WAIT_HOOKS(cuStreamWaitValue32, uint32_t)
WAIT_HOOKS(cuStreamWaitValue32_v2, uint32_t)
WAIT_HOOKS(cuStreamWaitValue64, uint64_t)
WAIT_HOOKS(cuStreamWaitValue64_v2, uint64_t)
FLAG_HOOKS(cuStreamWriteValue32, uint32_t)
FLAG_HOOKS(cuStreamWriteValue32_v2, uint32_t)
FLAG_HOOKS(cuStreamWriteValue64, uint64_t)
FLAG_HOOKS(cuStreamWriteValue64_v2, uint64_t)
HOOKS_ASYNC(cuStreamBatchMemOp, FLAGS, (stream, nr, list, flags), uses_ops(&used, list, nr))
HOOKS_ASYNC(cuStreamBatchMemOp_v2, FLAGS, (stream, nr, list, flags), uses_ops(&used, list, nr))

HOOKS_ASYNC(cuGraphLaunch, GRAPH, (graph, stream), uses_anything(&used))

HOOK(cuLaunch, LAUNCH_ONE, (function), CU_STREAM_LEGACY, uses_anything(&used))
HOOK(cuLaunchGrid, LAUNCH_GRID, (function, width, height), CU_STREAM_LEGACY, uses_anything(&used))
HOOK(cuLaunchGridAsync, LAUNCH_GRID_ASYNC, (function, width, height, stream),
     hook_stream_all(stream), uses_anything(&used))
/* clang-format on */
