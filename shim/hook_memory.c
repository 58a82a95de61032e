/* SPDX-License-Identifier: Apache-2.0 */
/* What the program calls to allocate and free; see memory.h for what becomes of it. */
#include <pthread.h>

#include "shim/captures.h"
#include "shim/hooks.h"
#include "shim/memory.h"
#include "shim/summary.h"
#include "src/base/util.h"

/* What the driver rounds the rows of a picture up to: CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT of all
 * GPUs that weir serves. */
#define PITCH_BYTES 512u

/* CU_MEMPOOL_ATTR_* */
enum { RESERVED_CURRENT = 5, RESERVED_HIGH = 6, USED_CURRENT = 7, USED_HIGH = 8 };

cu_result hook_cuInit(unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	cu_result result = real.cuInit(flags);

	if (result == CU_SUCCESS) {
		hooks_start();
		(void)pthread_once(&once, memory_check_gpu);
	}
	return result;
}

/* ------------------------------------------------------------------ allocating */

/* Whether the call is weir's to answer, which then ends with hook_leave(). */
static bool is_ours(bool arguments_are_good)
{
	if (!arguments_are_good || !hook_enter())
		return false;
	if (memory_manages())
		return true;
	hook_leave();
	return false;
}

cu_result hook_cuMemAlloc_v2(cu_ptr *addr, size_t bytes)
{
	cu_result result;

	if (!is_ours(addr && bytes))
		return real.cuMemAlloc_v2(addr, bytes);
	result = memory_alloc(addr, bytes);
	hook_leave();
	return result;
}

cu_result hook_cuMemAllocPitch_v2(cu_ptr *addr, size_t *pitch, size_t width, size_t height,
				  unsigned int element)
{
	const bool good = addr && pitch && width && height &&
			  (element == 4 || element == 8 || element == 16) &&
			  width <= SIZE_MAX - PITCH_BYTES &&
			  round_up(width, PITCH_BYTES) <= SIZE_MAX / height;
	cu_result result;

	if (!is_ours(good))
		return real.cuMemAllocPitch_v2(addr, pitch, width, height, element);
	result = memory_alloc(addr, round_up(width, PITCH_BYTES) * height);
	if (result == CU_SUCCESS)
		*pitch = round_up(width, PITCH_BYTES);
	hook_leave();
	return result;
}

/* In the order of a stream; as CU_NOT_SUPPORTED it is the driver's to answer. */
static cu_result alloc_ordered(cu_ptr *addr, size_t bytes, cu_stream stream)
{
	cu_result result;

	if (!is_ours(addr && bytes))
		return CU_NOT_SUPPORTED;
	result = memory_alloc_ordered(addr, bytes, stream);
	if (result == CU_NOT_SUPPORTED)
		summary_note_passed();
	hook_leave();
	return result;
}

cu_result hook_cuMemAllocAsync(cu_ptr *addr, size_t bytes, cu_stream stream)
{
	cu_result result = alloc_ordered(addr, bytes, stream);

	return result == CU_NOT_SUPPORTED ? real.cuMemAllocAsync(addr, bytes, stream) : result;
}

cu_result hook_cuMemAllocAsync_ptsz(cu_ptr *addr, size_t bytes, cu_stream stream)
{
	cu_result result = alloc_ordered(addr, bytes, hook_stream_thread(stream));

	return result == CU_NOT_SUPPORTED ? real.cuMemAllocAsync_ptsz(addr, bytes, stream) : result;
}

/* Whether a pool is a GPU's default one: what programs get that ask for none. Others have
 * properties of their own (another place, export to other processes), and are the driver's. */
static bool is_default_of(cu_pool pool, cu_device device)
{
	cu_pool preset;

	return device >= 0 && real.cuDeviceGetDefaultMemPool &&
	       !real.cuDeviceGetDefaultMemPool(&preset, device) && preset == pool;
}

static bool is_default(cu_pool pool)
{
	return is_default_of(pool, memory_device());
}

/* As is_default(); the first allocation decides which GPU that is. */
static bool is_for_default(cu_pool pool)
{
	cu_device device = memory_device();

	if (device < 0 && real.cuCtxGetDevice(&device))
		return false;
	return is_default_of(pool, device);
}

cu_result hook_cuMemAllocFromPoolAsync(cu_ptr *addr, size_t bytes, cu_pool pool, cu_stream stream)
{
	cu_result result = CU_NOT_SUPPORTED;

	if (is_for_default(pool))
		result = alloc_ordered(addr, bytes, stream);
	return result == CU_NOT_SUPPORTED ? real.cuMemAllocFromPoolAsync(addr, bytes, pool, stream)
					  : result;
}

cu_result hook_cuMemAllocFromPoolAsync_ptsz(cu_ptr *addr, size_t bytes, cu_pool pool,
					    cu_stream stream)
{
	cu_result result = CU_NOT_SUPPORTED;

	if (is_for_default(pool))
		result = alloc_ordered(addr, bytes, hook_stream_thread(stream));
	return result == CU_NOT_SUPPORTED
		       ? real.cuMemAllocFromPoolAsync_ptsz(addr, bytes, pool, stream)
		       : result;
}

/* ------------------------------------------------------------------ freeing */

/* Whether an address begins an allocation of ours; then the call ends with hook_leave(). */
static bool is_our_begin(cu_ptr addr)
{
	cu_ptr base;

	if (!addr || !hook_enter())
		return false;
	if (memory_find(addr, &base, NULL) && base == addr)
		return true;
	hook_leave();
	return false;
}

cu_result hook_cuMemFree_v2(cu_ptr addr)
{
	cu_result result;

	if (!is_our_begin(addr))
		return real.cuMemFree_v2(addr);
	result = memory_free(addr);
	hook_leave();
	return result;
}

static cu_result free_ordered(cu_ptr addr, cu_stream stream)
{
	cu_result result;

	if (!is_our_begin(addr))
		return CU_NOT_SUPPORTED;
	result = memory_free_ordered(addr, stream);
	hook_leave();
	return result;
}

cu_result hook_cuMemFreeAsync(cu_ptr addr, cu_stream stream)
{
	cu_result result = free_ordered(addr, stream);

	return result == CU_NOT_SUPPORTED ? real.cuMemFreeAsync(addr, stream) : result;
}

cu_result hook_cuMemFreeAsync_ptsz(cu_ptr addr, cu_stream stream)
{
	cu_result result = free_ordered(addr, hook_stream_thread(stream));

	return result == CU_NOT_SUPPORTED ? real.cuMemFreeAsync_ptsz(addr, stream) : result;
}

cu_result hook_cuStreamDestroy_v2(cu_stream stream)
{
	bool stays = false;

	if (stream && hook_enter()) {
		captures_stream_ends(stream);
		stays = memory_stream_ends(stream);
		hook_leave();
	}
	return stays ? CU_SUCCESS : real.cuStreamDestroy_v2(stream);
}

/* ------------------------------------------------------------------ how much there is */

cu_result hook_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	uint64_t is_free, in_all;

	if (!is_ours(free && total))
		return real.cuMemGetInfo_v2(free, total);
	memory_info(&is_free, &in_all);
	*free = is_free;
	*total = in_all;
	hook_leave();
	return CU_SUCCESS;
}

cu_result hook_cuMemPoolGetAttribute(cu_pool pool, int attribute, void *value)
{
	struct memory_use use;

	if (!value || attribute < RESERVED_CURRENT || attribute > USED_HIGH || !is_default(pool))
		return real.cuMemPoolGetAttribute(pool, attribute, value);
	memory_use(&use);
	*(uint64_t *)value = attribute == RESERVED_CURRENT ? use.reserved
			     : attribute == RESERVED_HIGH  ? use.reserved_high
			     : attribute == USED_CURRENT   ? use.used
							   : use.used_high;
	return CU_SUCCESS;
}

cu_result hook_cuMemPoolSetAttribute(cu_pool pool, int attribute, void *value)
{
	/* The only value that these take. */
	if (value && (attribute == RESERVED_HIGH || attribute == USED_HIGH) &&
	    !*(uint64_t *)value && is_default(pool))
		memory_use_reset_high(attribute == USED_HIGH, attribute == RESERVED_HIGH);
	return real.cuMemPoolSetAttribute(pool, attribute, value);
}

cu_result hook_cuMemPoolTrimTo(cu_pool pool, size_t bytes)
{
	struct memory_use use;

	if (is_default(pool) && hook_enter()) {
		memory_use(&use);
		memory_trim(bytes > use.used ? bytes - use.used : 0);
		hook_leave();
	}
	return real.cuMemPoolTrimTo(pool, bytes);
}
