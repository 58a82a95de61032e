/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls of the driver take that copy pictures and volumes, and lists of words for streams, as
 * cuda.h has them. It includes nothing of weir, as no program that weir finds does.
 */
#ifndef WEIR_TESTS_DROPIN_SHAPES_H
#define WEIR_TESTS_DROPIN_SHAPES_H

#include "tests/dropin/api.h"

enum { HOST = 1, DEVICE = 2, UNIFIED = 4 }; /* CU_MEMORYTYPE_* */
enum { WAIT_EQ = 1, OP_WAIT32 = 1, OP_WRITE32 = 2, OP_WAIT64 = 4, OP_WRITE64 = 5 };

struct end2d {
	size_t x, y;
	int type;
	void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};

struct copy2d {
	struct end2d src, dst;
	size_t width, height;
};

struct end3d {
	size_t x, y, z, level;
	int type;
	void *host;
	CUdeviceptr device;
	void *array, *context;
	size_t pitch, rows;
};

struct copy3d {
	struct end3d src, dst;
	size_t width, height, depth;
};

struct stream_op {
	uint32_t kind;
	uint64_t addr, value;
	uint32_t flags;
	uint64_t rest[2];
};

#endif
