/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls of the driver take that copy pictures and volumes, and that have streams wait; as in
 * cuda.h, to which src/backend/cuda/abi_check.cu holds them.
 */
#ifndef WEIR_SHIM_COPIES_H
#define WEIR_SHIM_COPIES_H

#include <stddef.h>
#include <stdint.h>

#include "src/backend/cuda/driver.h"

/* The kinds of memory that a picture or a volume is copied from or to: CUmemorytype */
enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2, CU_MEMORY_ARRAY = 3, CU_MEMORY_UNIFIED = 4 };

/* One end of struct cu_copy2d, CUDA_MEMCPY2D */
struct cu_end2d {
	size_t x, y; /* bytes, rows */
	int type;
	void *host;
	cu_ptr device;
	void *array;
	size_t pitch;
};

struct cu_copy2d {
	struct cu_end2d src, dst;
	size_t width, height; /* bytes, rows */
};

/* One end of struct cu_copy3d, CUDA_MEMCPY3D; of CUDA_MEMCPY3D_PEER, too, up to its sizes */
struct cu_end3d {
	size_t x, y, z, level;
	int type;
	void *host;
	cu_ptr device;
	void *array, *context; /* the context in CUDA_MEMCPY3D_PEER alone */
	size_t pitch, rows;
};

struct cu_copy3d {
	struct cu_end3d src, dst;
	size_t width, height, depth;
};

/* CUstreamBatchMemOpParams: all operations with an address have it in the second word. */
struct cu_stream_op {
	uint32_t kind;
	cu_ptr addr;
	uint64_t rest[4];
};

#endif
