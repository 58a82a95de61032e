/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls of the driver take that make textures and tensor maps of memory; as in cuda.h, to
 * which src/backend/cuda/abi_check.cu holds them.
 */
#ifndef WEIR_SHIM_TEXTURES_H
#define WEIR_SHIM_TEXTURES_H

#include <stddef.h>
#include <stdint.h>

#include "src/backend/cuda/driver.h"

/* CUresourcetype: the other kinds are arrays, which are the driver's memory. */
enum { CU_RESOURCE_LINEAR = 2, CU_RESOURCE_PITCH = 3 };

/* CUDA_RESOURCE_DESC */
struct cu_resource {
	int type;
	union {
		struct {
			cu_ptr addr;
			int format;
			unsigned int channels;
			size_t bytes;
		} linear;
		struct {
			cu_ptr addr;
			int format;
			unsigned int channels;
			size_t width, height, pitch; /* in elements, rows, bytes */
		} rows;
		int reserved[32];
	};
	unsigned int flags;
};

/* A tensor map, CUtensorMap: what is in it is the driver's. */
#define CU_TENSOR_MAP_WORDS 16u
struct cu_tensor_map {
	uint64_t word[CU_TENSOR_MAP_WORDS];
};

#define TEXTURE \
	(uint64_t * texture, const struct cu_resource *resource, const void *how, const void *view)
#define TEXTURE_REF (size_t * offset, void *texture, cu_ptr addr, size_t bytes)
#define TEXTURE_REF_2D (void *texture, const void *array, cu_ptr addr, size_t pitch)
#define MAP_TILED                                                                               \
	(struct cu_tensor_map * map, int type, uint32_t rank, void *addr, const uint64_t *dims, \
	 const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,   \
	 int swizzle, int l2, int fill)
#define MAP_IM2COL                                                                              \
	(struct cu_tensor_map * map, int type, uint32_t rank, void *addr, const uint64_t *dims, \
	 const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,        \
	 uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int l2, int fill)
#define MAP_IM2COL_WIDE                                                                         \
	(struct cu_tensor_map * map, int type, uint32_t rank, void *addr, const uint64_t *dims, \
	 const uint64_t *strides, int lower, int upper, uint32_t channels, uint32_t pixels,     \
	 const uint32_t *steps, int interleave, int wide, int swizzle, int l2, int fill)
#define MAP_ADDRESS (struct cu_tensor_map * map, void *addr)

#endif
