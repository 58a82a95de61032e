/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and tensor maps of memory, and the kernels that read through them. Elements are words; a
 * tensor map is of one dimension. Where its address stands is what the real driver does not say:
 * here in its first word, with FAKECUDA_HIDE_MAPS in the environment in a form that nobody knows.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/fake.h"

#define WORD sizeof(uint32_t)
#define MAP_MAGIC UINT64_C(0x70616d2d656b6166) /* "fake-map" */

/* A texture, or a reference to one, which has no memory at first. */
struct texture {
	bool reference;
	struct cu_resource resource;
};

static struct texture *texture_find(uint64_t handle, bool reference, cu_result *result)
{
	void **at = table_at(&fake.textures, TEXTURE_BASE, handle);
	struct texture *texture = at ? *at : NULL;

	*result = texture && texture->reference == reference ? CU_SUCCESS : CU_INVALID_VALUE;
	return *result ? NULL : texture;
}

void textures_fini(void)
{
	for (size_t i = 0; i < fake.textures.nr; i++) {
		free(fake.textures.at[i]);
		fake.textures.at[i] = NULL;
	}
}

/* ------------------------------------------------------------------ textures */

static cu_result texture_new(uint64_t *handle, bool reference, const struct cu_resource *resource)
{
	struct texture *texture = calloc(1, sizeof(*texture));

	if (!texture)
		return CU_OUT_OF_MEMORY;
	texture->reference = reference;
	if (resource)
		texture->resource = *resource;
	*handle = table_add(&fake.textures, TEXTURE_BASE, texture);
	if (!*handle)
		free(texture);
	return *handle ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

static bool resource_is_valid(const struct cu_resource *resource)
{
	if (!resource || resource->flags)
		return false;
	if (resource->type == CU_RESOURCE_LINEAR)
		return resource->linear.addr && resource->linear.bytes;
	return resource->type == CU_RESOURCE_PITCH && resource->rows.addr && resource->rows.width &&
	       resource->rows.height && resource->rows.pitch >= resource->rows.width * WORD;
}

cu_result fake_texture_create(uint64_t *handle, const struct cu_resource *resource, const void *how,
			      const void *view)
{
	cu_result result = call_enter(CALL_texture_create);
	int context;

	(void)view;
	if (!result)
		result = context_current(&context);
	if (!result && (!handle || !how || !resource_is_valid(resource)))
		result = CU_INVALID_VALUE;
	return call_leave(result ? result : texture_new(handle, false, resource));
}

static cu_result texture_drop(uint64_t handle, bool reference)
{
	cu_result result;
	struct texture *texture = texture_find(handle, reference, &result);

	if (texture) {
		*table_at(&fake.textures, TEXTURE_BASE, handle) = NULL;
		free(texture);
	}
	return result;
}

cu_result fake_texture_destroy(uint64_t handle)
{
	cu_result result = call_enter(CALL_texture_destroy);

	return call_leave(result ? result : texture_drop(handle, false));
}

/* ------------------------------------------------------------------ references: no kernel's */

cu_result fake_reference_create(void **texture)
{
	cu_result result = call_enter(CALL_reference_create);
	uint64_t handle = 0;

	if (!result)
		result = texture ? texture_new(&handle, true, NULL) : CU_INVALID_VALUE;
	if (!result)
		*texture = pointer(handle);
	return call_leave(result);
}

cu_result fake_reference_destroy(void *texture)
{
	cu_result result = call_enter(CALL_reference_destroy);

	return call_leave(result ? result : texture_drop((uintptr_t)texture, true));
}

cu_result fake_reference_linear(size_t *offset, void *handle, cu_ptr addr, size_t bytes)
{
	cu_result result = call_enter(CALL_reference_linear);
	struct texture *texture;

	if (result)
		return call_leave(result);
	texture = texture_find((uintptr_t)handle, true, &result);
	if (!texture)
		return call_leave(result);
	texture->resource = (struct cu_resource){.type = CU_RESOURCE_LINEAR,
						 .linear = {.addr = addr, .bytes = bytes}};
	if (offset)
		*offset = 0;
	return call_leave(CU_SUCCESS);
}

static cu_result reference_rows(enum call call, void *handle, cu_ptr addr, size_t pitch)
{
	cu_result result = call_enter(call);
	struct texture *texture;

	if (result)
		return call_leave(result);
	texture = texture_find((uintptr_t)handle, true, &result);
	if (texture)
		texture->resource = (struct cu_resource){.type = CU_RESOURCE_PITCH,
							 .rows = {.addr = addr, .pitch = pitch}};
	return call_leave(result);
}

cu_result fake_reference_rows_v2(void *texture, const void *array, cu_ptr addr, size_t pitch)
{
	(void)array;
	return reference_rows(CALL_reference_rows_v2, texture, addr, pitch);
}

cu_result fake_reference_rows_v3(void *texture, const void *array, cu_ptr addr, size_t pitch)
{
	(void)array;
	return reference_rows(CALL_reference_rows_v3, texture, addr, pitch);
}

/* ------------------------------------------------------------------ tensor maps */

static uint64_t map_key(void)
{
	return fake.config.hide_maps ? UINT64_C(0x5a5a5a5a5a5a5a5a) : 0;
}

static cu_result map_encode(struct cu_tensor_map *map, uint32_t rank, const void *addr,
			    const uint64_t *dims)
{
	if (!map || rank < 1 || rank > 5 || !addr || (uintptr_t)addr % 16 || !dims || !dims[0])
		return CU_INVALID_VALUE;
	*map = (struct cu_tensor_map){.word = {(uintptr_t)addr ^ map_key(), dims[0]}};
	map->word[CU_TENSOR_MAP_WORDS - 1] = MAP_MAGIC;
	return CU_SUCCESS;
}

cu_result fake_map_tiled MAP_TILED
{
	cu_result result = call_enter(CALL_map_tiled);

	(void)type, (void)strides, (void)box, (void)steps, (void)interleave, (void)swizzle;
	(void)l2, (void)fill;
	return call_leave(result ? result : map_encode(map, rank, addr, dims));
}

cu_result fake_map_im2col MAP_IM2COL
{
	cu_result result = call_enter(CALL_map_im2col);

	(void)type, (void)strides, (void)lower, (void)upper, (void)channels, (void)pixels;
	(void)steps, (void)interleave, (void)swizzle, (void)l2, (void)fill;
	return call_leave(result ? result : map_encode(map, rank, addr, dims));
}

cu_result fake_map_im2col_wide MAP_IM2COL_WIDE
{
	cu_result result = call_enter(CALL_map_im2col_wide);

	(void)type, (void)strides, (void)lower, (void)upper, (void)channels, (void)pixels;
	(void)steps, (void)interleave, (void)wide, (void)swizzle, (void)l2, (void)fill;
	return call_leave(result ? result : map_encode(map, rank, addr, dims));
}

cu_result fake_map_address MAP_ADDRESS
{
	cu_result result = call_enter(CALL_map_address);

	if (!result && (!map || map->word[CU_TENSOR_MAP_WORDS - 1] != MAP_MAGIC))
		result = CU_INVALID_VALUE;
	return call_leave(result ? result : map_encode(map, 1, addr, &map->word[1]));
}

/* ------------------------------------------------------------------ kernels */

/* What the kernel is given, and behind it what the texture is when it starts. */
struct texture_args {
	uint32_t *dst;
	uint64_t texture, nr;
	struct cu_resource resource;
};

/* Words in a row of it, and the bytes from one row to the next. */
static void shape_of(const struct texture_args *a, uint64_t *addr, uint64_t *width, uint64_t *pitch)
{
	const struct cu_resource *resource = &a->resource;
	const bool linear = resource->type == CU_RESOURCE_LINEAR;

	*addr = linear ? resource->linear.addr : resource->rows.addr;
	*width = linear ? a->nr : resource->rows.width;
	*pitch = linear ? a->nr * WORD : resource->rows.pitch;
}

static void texture_run(const void *args)
{
	const struct texture_args *a = args;
	uint64_t addr, width, pitch;

	shape_of(a, &addr, &width, &pitch);
	for (uint64_t i = 0; i < a->nr; i++)
		a->dst[i] = ((const uint32_t *)pointer(addr + i / width * pitch))[i % width];
}

static void texture_touch(struct op *op)
{
	const struct texture_args *a = op->args;

	op_touch(op, (uintptr_t)a->dst, a->nr * WORD, true);
}

static void texture_find_memory(struct op *op)
{
	struct texture_args *a = realloc(op->args, sizeof(*a));
	const struct texture *texture;
	uint64_t addr, width, pitch;
	cu_result result;

	if (!a)
		fake_panic("no memory");
	op->args = a;
	texture = texture_find(a->texture, false, &result);
	a->resource =
		texture ? texture->resource : (struct cu_resource){.type = CU_RESOURCE_LINEAR};
	shape_of(a, &addr, &width, &pitch);
	for (uint64_t i = 0; i < a->nr; i += width)
		op_touch(op, addr + i / width * pitch,
			 (a->nr - i < width ? a->nr - i : width) * WORD, false);
}

struct map_args {
	uint32_t *dst;
	struct cu_tensor_map map;
	uint64_t nr;
};

static uint64_t map_addr(const struct map_args *a)
{
	return a->map.word[CU_TENSOR_MAP_WORDS - 1] == MAP_MAGIC && a->nr <= a->map.word[1]
		       ? a->map.word[0] ^ map_key()
		       : 0;
}

static void map_run(const void *args)
{
	const struct map_args *a = args;

	memcpy(a->dst, pointer(map_addr(a)), a->nr * WORD);
}

static void map_touch(struct op *op)
{
	const struct map_args *a = op->args;

	op_touch(op, (uintptr_t)a->dst, a->nr * WORD, true);
	op_touch(op, map_addr(a), a->nr * WORD, false);
}

const struct kernel texture_kernels[TEXTURE_KERNELS] = {
	{"read_texture", 3, {8, 8, 8}, NULL, texture_run, texture_touch, texture_find_memory},
	{"read_map", 3, {8, sizeof(struct cu_tensor_map), 8}, NULL, map_run, map_touch, NULL},
};
