/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose kernels read memory through textures and tensor maps, one for each run, on the
 * memory of arrays.h. It prints what it read, so that a run under weir can be compared with one
 * without. It includes nothing of weir, but for what api.h declares.
 */
#include <string.h>

#include "tests/dropin/arrays.h"

enum { LINEAR = 2, PITCH = 3, WORD_FORMAT = 3 }; /* CUresourcetype, CUarray_format */
enum { WORD_TYPE = 2, PITCH_BYTES = 2048, WIDTH = 500, ROWS = 8 };

/* CUDA_RESOURCE_DESC */
struct resource {
	int type;
	union {
		struct {
			CUdeviceptr addr;
			int format;
			unsigned channels;
			size_t bytes;
		} linear;
		struct {
			CUdeviceptr addr;
			int format;
			unsigned channels;
			size_t width, height, pitch;
		} rows;
		int reserved[32];
	};
	unsigned flags;
};

/* CUtensorMap */
struct map {
	_Alignas(64) uint64_t word[16];
};

typedef const uint64_t *sizes;
typedef const uint32_t *counts;
CUresult cuTexObjectCreate(uint64_t *texture, const struct resource *resource, const void *how,
			   const void *view);
CUresult cuTexObjectDestroy(uint64_t texture);
CUresult cuTexRefCreate(void **texture);
CUresult cuTexRefDestroy(void *texture);
CUresult cuTexRefSetAddress_v2(size_t *offset, void *texture, CUdeviceptr addr, size_t bytes);
CUresult cuTexRefSetAddress2D_v3(void *texture, const void *array, CUdeviceptr addr, size_t pitch);
CUresult cuTensorMapEncodeTiled(struct map *map, int type, uint32_t rank, void *addr, sizes dims,
				sizes strides, counts box, counts steps, int interleave,
				int swizzle, int l2, int fill);
CUresult cuTensorMapEncodeIm2col(struct map *map, int type, uint32_t rank, void *addr, sizes dims,
				 sizes strides, const int *lower, const int *upper,
				 uint32_t channels, uint32_t pixels, counts steps, int interleave,
				 int swizzle, int l2, int fill);
CUresult cuTensorMapEncodeIm2colWide(struct map *map, int type, uint32_t rank, void *addr,
				     sizes dims, sizes strides, int lower, int upper,
				     uint32_t channels, uint32_t pixels, counts steps,
				     int interleave, int wide, int swizzle, int l2, int fill);
CUresult cuTensorMapReplaceAddress(struct map *map, void *addr);

/* CUDA_TEXTURE_DESC: as it is where nothing is asked for. */
static const char how[256];

/* ------------------------------------------------------------------ textures */

static uint64_t texture_of(const struct resource *resource)
{
	uint64_t texture;

	OK(cuTexObjectCreate(&texture, resource, how, NULL));
	return texture;
}

static void read_texture(uint64_t texture, uint64_t nr, CUstream stream)
{
	LAUNCH("read_texture", stream, &out, &texture, &nr);
	OK(cu.cuStreamSynchronize(stream));
	show("read", out, (unsigned)nr);
}

/* Each array through its own texture; all but the first are elsewhere by then. */
static void linear(void)
{
	CUstream stream = stream_make();

	for (unsigned n = 0; n < ARRAYS; n += 7) {
		struct resource resource = {.type = LINEAR, .linear = {.addr = array[n]}};
		uint64_t texture;

		resource.linear.format = WORD_FORMAT;
		resource.linear.channels = 1;
		resource.linear.bytes = BYTES;
		texture = texture_of(&resource);
		use_all(n + 2, stream);
		read_texture(texture, ARRAYS, stream);
		OK(cuTexObjectDestroy(texture));
	}
}

static void picture(void)
{
	struct resource resource = {.type = PITCH, .rows = {.addr = array[3]}};
	CUstream stream = stream_make();
	uint64_t texture;

	resource.rows.format = WORD_FORMAT;
	resource.rows.channels = 1;
	resource.rows.width = 10;
	resource.rows.height = ROWS;
	resource.rows.pitch = PITCH_BYTES;
	texture = texture_of(&resource);
	for (unsigned time = 2; time < 5; time++) {
		use_all(time, stream);
		read_texture(texture, 10 * (ROWS / 2), stream);
	}
	OK(cuTexObjectDestroy(texture));
}

/* No kernel of today reads through them: nothing is to go wrong. */
static void reference(void)
{
	CUstream stream = stream_make();
	size_t offset = 1;
	void *texture;

	OK(cuTexRefCreate(&texture));
	OK(cuTexRefSetAddress_v2(&offset, texture, array[1], BYTES));
	OK(cuTexRefSetAddress2D_v3(texture, how, array[2], PITCH_BYTES));
	use_all(2, stream);
	OK(cuTexRefDestroy(texture));
}

/* ------------------------------------------------------------------ tensor maps */

static void read_map(struct map *map, CUstream stream)
{
	uint64_t nr = ARRAYS;

	LAUNCH("read_map", stream, &out, map, &nr);
	OK(cu.cuStreamSynchronize(stream));
	show("read", out, ARRAYS);
}

static void encode(struct map *map, unsigned n, unsigned way)
{
	const uint64_t dims[3] = {WORDS / 4, 2, 2}, strides[2] = {BYTES / 4, BYTES / 2};
	const uint32_t box[3] = {64, 1, 1}, steps[3] = {1, 1, 1};
	const int corner[1] = {0};
	void *addr = (void *)(uintptr_t)array[n];

	if (way == 0)
		OK(cuTensorMapEncodeTiled(map, WORD_TYPE, 3, addr, dims, strides, box, steps, 0, 0,
					  0, 0));
	else if (way == 1)
		OK(cuTensorMapEncodeIm2col(map, WORD_TYPE, 3, addr, dims, strides, corner, corner,
					   32, 32, steps, 0, 0, 0, 0));
	else if (way == 2)
		OK(cuTensorMapEncodeIm2colWide(map, WORD_TYPE, 3, addr, dims, strides, 0, 0, 32, 32,
					       steps, 0, 0, 2, 0, 0));
	else
		OK(cuTensorMapReplaceAddress(map, addr));
}

/* Each array through its own map, encoded in one way after the other. */
static void maps(void)
{
	CUstream stream = stream_make();
	struct map map = {.word = {0}};

	for (unsigned n = 0; n < 8; n++) {
		encode(&map, 3 * n, n % 4);
		use_all(n + 2, stream);
		read_map(&map, stream);
	}
}

int main(int argc, char **argv)
{
	static const struct arrays_case cases[] = {{"linear", linear},
						   {"picture", picture},
						   {"reference", reference},
						   {"maps", maps},
						   {NULL, NULL}};

	return arrays_main(argc, argv, cases);
}
