/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program calls to make textures and tensor maps of memory. Kernels find addresses there
 * that no launch shows. Surfaces, and textures of arrays, are of the driver's own memory.
 */
#include "shim/evidence.h"
#include "shim/hooks.h"

/* The driver has an address from here on. @return its result */
static cu_result texture_of(cu_ptr addr, cu_result result)
{
	if (result == CU_SUCCESS && hook_enter()) {
		evidence_hidden(addr, "a texture lies in an allocation");
		hook_leave();
	}
	return result;
}

cu_result hook_cuTexObjectCreate TEXTURE
{
	cu_result result = real.cuTexObjectCreate(texture, resource, how, view);

	if (!resource)
		return result;
	if (resource->type == CU_RESOURCE_LINEAR)
		return texture_of(resource->linear.addr, result);
	return resource->type == CU_RESOURCE_PITCH ? texture_of(resource->rows.addr, result)
						   : result;
}

cu_result hook_cuTexRefSetAddress_v2 TEXTURE_REF
{
	return texture_of(addr, real.cuTexRefSetAddress_v2(offset, texture, addr, bytes));
}

cu_result hook_cuTexRefSetAddress2D_v2 TEXTURE_REF_2D
{
	return texture_of(addr, real.cuTexRefSetAddress2D_v2(texture, array, addr, pitch));
}

cu_result hook_cuTexRefSetAddress2D_v3 TEXTURE_REF_2D
{
	return texture_of(addr, real.cuTexRefSetAddress2D_v3(texture, array, addr, pitch));
}

/* A launch that is given the map names the allocation if its address stands in it. */
static cu_result map_of(const struct cu_tensor_map *map, const void *addr, cu_result result)
{
	if (result == CU_SUCCESS && map && hook_enter()) {
		evidence_encoded((cu_ptr)(uintptr_t)addr, map, sizeof(*map));
		hook_leave();
	}
	return result;
}

cu_result hook_cuTensorMapEncodeTiled MAP_TILED
{
	return map_of(map, addr,
		      real.cuTensorMapEncodeTiled(map, type, rank, addr, dims, strides, box, steps,
						  interleave, swizzle, l2, fill));
}

cu_result hook_cuTensorMapEncodeIm2col MAP_IM2COL
{
	return map_of(map, addr,
		      real.cuTensorMapEncodeIm2col(map, type, rank, addr, dims, strides, lower,
						   upper, channels, pixels, steps, interleave,
						   swizzle, l2, fill));
}

cu_result hook_cuTensorMapEncodeIm2colWide MAP_IM2COL_WIDE
{
	return map_of(map, addr,
		      real.cuTensorMapEncodeIm2colWide(map, type, rank, addr, dims, strides, lower,
						       upper, channels, pixels, steps, interleave,
						       wide, swizzle, l2, fill));
}

cu_result hook_cuTensorMapReplaceAddress MAP_ADDRESS
{
	return map_of(map, addr, real.cuTensorMapReplaceAddress(map, addr));
}
