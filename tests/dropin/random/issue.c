/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the driver that do a step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/dropin/random/random.h"

/* ------------------------------------------------------------------ kernels */

static const char *const names[NR_KERNELS] = {
	[K_FILL] = "fill",	  [K_COPY] = "copy",	       [K_ADD] = "add",
	[K_SUM] = "sum",	  [K_GATHER] = "gather",       [K_LIST] = "list_sum",
	[K_TABLE] = "load_table", [K_ADDRESSES] = "addresses", [K_WAIT] = "wait_flag",
	[K_STORE] = "store_flag",
};

/* The image of the kernels. The caller frees it. */
static char *image_read(void)
{
	static const char fake[] = "fakecuda kernels\nglobal table 8\n";
	char *image = make(1, 1 << 20);
	FILE *file;
	size_t bytes;

	if (!options.kernels) {
		memcpy(image, fake, sizeof(fake));
		return image;
	}
	file = fopen(options.kernels, "r");
	bytes = file ? fread(image, 1, (1 << 20) - 1, file) : 0;
	if (!bytes || fclose(file))
		fail("%s cannot be read", options.kernels);
	return image;
}

void kernels_open(struct thread *t)
{
	char *image = image_read();

	CU(cuModuleLoadData, &t->module, image);
	CU(cuLibraryLoadData, &t->library, image, NULL, NULL, 0, NULL, NULL, 0);
	for (int k = 0; k < NR_KERNELS; k++) {
		CUkernel kernel;

		CU(cuModuleGetFunction, &t->function[0][k], t->module, names[k]);
		CU(cuLibraryGetKernel, &kernel, t->library, names[k]);
		/* A kernel of a library may be launched by its own handle, too. */
		t->function[1][k] = (CUfunction)kernel;
		if (k % 2)
			CU(cuKernelGetFunction, &t->function[1][k], kernel);
	}
	t->table = (struct buffer){.bytes = sizeof(CUdeviceptr), .pointers = true};
	CU(cuModuleGetGlobal, &t->table.addr, &t->table.bytes, t->module, "table");
	t->table.shadow = make(1, t->table.bytes);
	free(image);
}

void kernels_close(struct thread *t)
{
	CU(cuModuleUnload, t->module);
	CU(cuLibraryUnload, t->library);
	free(t->table.shadow);
}

/* All parameters have 8 bytes, but for the last one of some kernels. */
static bool ends_with_word(enum kernel kernel)
{
	return kernel == K_FILL || kernel == K_WAIT || kernel == K_STORE;
}

void launch(struct thread *t, enum kernel kernel, unsigned library, unsigned s,
	    void *const *parameters, unsigned nr)
{
	const CUstream stream = t->stream[s].native;
	const CUfunction function = t->function[library][kernel];
	struct launch_config config = {{64, 1, 1}, {256, 1, 1}, 0, stream, NULL, 0};
	size_t bytes = 8 * nr - (ends_with_word(kernel) ? 4 : 0);
	uint64_t buffer[8] = {0};
	void *extra[] = {(void *)1, buffer, (void *)2, &bytes, NULL}, *list[8];

	for (unsigned i = 0; i < nr; i++) {
		list[i] = parameters[i];
		memcpy(&buffer[i], parameters[i], i + 1 == nr && bytes % 8 ? 4 : 8);
	}
	switch (t->nr_launches++ % 4) {
	case 0:
		CU(cuLaunchKernel, function, 64, 1, 1, 256, 1, 1, 0, stream, list, NULL);
		break;
	case 1:
		CU(cuLaunchKernelEx, &config, function, list, NULL);
		break;
	case 2:
		CU(cuLaunchKernel, function, 64, 1, 1, 256, 1, 1, 0, stream, NULL, extra);
		break;
	default:
		CU(cuLaunchCooperativeKernel, function, 64, 1, 1, 256, 1, 1, 0, stream, list);
		break;
	}
}

#define LAUNCH(t, kernel, library, s, ...)                     \
	launch(t, kernel, library, s, (void *[]){__VA_ARGS__}, \
	       sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))

static CUdeviceptr addr_of(const struct region *region)
{
	return region->buffer ? region->buffer->addr + region->off : 0;
}

static void issue_kernel(struct thread *t, const struct step *step, unsigned s)
{
	/* The variable that one of them reads is the module's. */
	const unsigned library = step->what != STEP_TABLE && step->way == 1;
	CUdeviceptr dst = addr_of(&step->dst), src = addr_of(&step->src), at;
	CUdeviceptr more = addr_of(&step->more);
	uint64_t nr = step->nr, base = step->base, stride = step->stride;
	uint32_t value = (uint32_t)step->value;

	switch (step->what) {
	case STEP_FILL:
		LAUNCH(t, K_FILL, library, s, &dst, &nr, &value);
		break;
	case STEP_COPY:
	case STEP_SUM:
		LAUNCH(t, step->what == STEP_SUM ? K_SUM : K_COPY, library, s, &dst, &src, &nr);
		break;
	case STEP_ADD:
		LAUNCH(t, K_ADD, library, s, &dst, &src, &more, &nr);
		break;
	case STEP_GATHER:
		at = step->array->at->addr + step->array->off;
		LAUNCH(t, K_GATHER, library, s, &dst, &at, &nr);
		break;
	case STEP_LIST:
		at = step->array->target[0].buffer->addr + step->array->target[0].off;
		LAUNCH(t, K_LIST, library, s, &dst, &at, &nr);
		break;
	case STEP_TABLE:
		LAUNCH(t, K_TABLE, library, s, &dst, &nr);
		break;
	default:
		LAUNCH(t, K_ADDRESSES, library, s, &dst, &base, &stride, &nr);
		break;
	}
}

/* ------------------------------------------------------------------ copies */

static struct end3d end_of(const struct region *region, const struct rows *rows)
{
	struct end3d end = {.x = rows->x, .y = rows->y, .z = rows->z, .type = DEVICE};

	end.device = region->buffer->addr;
	end.pitch = rows->pitch;
	end.rows = rows->rows;
	if (region->off % 2)
		end.type = UNIFIED;
	return end;
}

static void issue_rows(const struct step *step, CUstream stream)
{
	struct copy3d copy = {end_of(&step->src, &step->from), end_of(&step->dst, &step->to),
			      step->box.width, step->box.height, step->box.depth};
	const struct end3d *from = &copy.src, *to = &copy.dst;
	const struct copy2d two = {
		{from->x, from->y, from->type, NULL, from->device, NULL, from->pitch},
		{to->x, to->y, to->type, NULL, to->device, NULL, to->pitch},
		copy.width,
		copy.height};

	if (step->what == STEP_3D_PEER)
		copy.src.context = copy.dst.context = context;
	if (step->what == STEP_2D && step->sync && step->way)
		CU(cuMemcpy2D, &two);
	else if (step->what == STEP_2D && step->sync)
		CU(cuMemcpy2DUnaligned, &two);
	else if (step->what == STEP_2D)
		CU(cuMemcpy2DAsync, &two, stream);
	else if (step->what == STEP_3D && step->sync)
		CU(cuMemcpy3D, &copy);
	else if (step->what == STEP_3D)
		CU(cuMemcpy3DAsync, &copy, stream);
	else if (step->sync)
		CU(cuMemcpy3DPeer, &copy);
	else
		CU(cuMemcpy3DPeerAsync, &copy, stream);
}

/* In two pieces, which have no order. There is no such call for stream 0. */
static void issue_batch(const struct step *step, CUstream stream)
{
	struct copy_attributes attributes = {.order = 1};
	const size_t first = step->dst.bytes / 3;
	size_t bytes[] = {first, step->dst.bytes - first}, of[] = {0};
	CUdeviceptr dst[] = {addr_of(&step->dst), addr_of(&step->dst) + first};
	CUdeviceptr src[] = {addr_of(&step->src), addr_of(&step->src) + first};

	if (stream && first)
		CU(cuMemcpyBatchAsync, dst, src, bytes, 2, &attributes, of, 1, stream);
	else
		CU(cuMemcpyDtoDAsync, dst[0], src[0], step->dst.bytes, stream);
}

static void issue_copy(const struct step *step, CUstream stream)
{
	const CUdeviceptr dst = addr_of(&step->dst), src = addr_of(&step->src);
	const size_t bytes = step->dst.bytes;

	if (step->what == STEP_ON && step->sync)
		CU(cuMemcpyDtoD, dst, src, bytes);
	else if (step->what == STEP_ON)
		CU(cuMemcpyDtoDAsync, dst, src, bytes, stream);
	else if (step->what == STEP_UNIFIED && step->sync)
		CU(cuMemcpy, dst, src, bytes);
	else if (step->what == STEP_UNIFIED)
		CU(cuMemcpyAsync, dst, src, bytes, stream);
	else if (step->sync)
		CU(cuMemcpyPeer, dst, context, src, context, bytes);
	else
		CU(cuMemcpyPeerAsync, dst, context, src, context, bytes, stream);
}

/* ------------------------------------------------------------------ fills, words */

#define SET(step, stream, bits, type)                                                           \
	do {                                                                                    \
		const CUdeviceptr dst = addr_of(&(step)->dst);                                  \
		const size_t nr = (step)->dst.bytes / sizeof(type);                             \
		const size_t width = (step)->box.width / sizeof(type);                          \
		const size_t pitch = (step)->to.pitch, height = (step)->box.height;             \
		const type value = (type)(step)->value;                                         \
                                                                                                \
		if ((step)->what == STEP_SET && (step)->sync)                                   \
			CU(cuMemsetD##bits, dst, value, nr);                                    \
		else if ((step)->what == STEP_SET)                                              \
			CU(cuMemsetD##bits##Async, dst, value, nr, stream);                     \
		else if ((step)->sync)                                                          \
			CU(cuMemsetD2D##bits, dst, pitch, value, width, height);                \
		else                                                                            \
			CU(cuMemsetD2D##bits##Async, dst, pitch, value, width, height, stream); \
	} while (0)

static void issue_set(const struct step *step, CUstream stream)
{
	if (step->way == 0)
		SET(step, stream, 8, unsigned char);
	else if (step->way == 1)
		SET(step, stream, 16, unsigned short);
	else
		SET(step, stream, 32, unsigned int);
}

static void issue_words(const struct step *step, CUstream stream)
{
	const CUdeviceptr dst = addr_of(&step->dst);
	struct stream_op list[] = {
		{.kind = OP_WRITE32, .addr = dst, .value = (uint32_t)step->value},
		{.kind = OP_WRITE32, .addr = dst + 4, .value = step->value >> 32},
	};

	if (step->way == 0)
		CU(cuStreamWriteValue32, stream, dst, (uint32_t)step->value, 0);
	else if (step->way == 1)
		CU(cuStreamWriteValue64, stream, dst, step->value, 0);
	else
		CU(cuStreamBatchMemOp, stream, 2, list, 0);
}

void step_issue(struct thread *t, const struct step *step, unsigned s)
{
	const CUstream stream = t->stream[s].native;

	if (step->what < STEP_ON)
		issue_kernel(t, step, s);
	else if (step->what == STEP_2D || step->what == STEP_3D || step->what == STEP_3D_PEER)
		issue_rows(step, stream);
	else if (step->what == STEP_BATCH)
		issue_batch(step, stream);
	else if (step->what == STEP_SET || step->what == STEP_SET_2D)
		issue_set(step, stream);
	else if (step->what == STEP_WORDS)
		issue_words(step, stream);
	else
		issue_copy(step, stream);
}
