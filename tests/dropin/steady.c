/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do the same in each of many passes over the arrays of arrays.h, one for each run:
 * "reads" reads them alone, "writes" writes them all; "slices" and its like add up a large
 * allocation slice by slice. A kernel of its own begins each pass. "many" makes many launches on a
 * stream, which then is captured, or destroyed, while they run. It prints what it read; the kernels
 * are those of tests/fakecuda/fakecuda.h. It includes nothing of
 * weir, but for what api.h declares.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/dropin/arrays.h"

typedef struct CUgraph_st *CUgraph;

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuGraphDestroy(CUgraph graph);

enum { PASSES = 12, SLICE_PASSES = 4, TIMES = 4, ROUNDS = 8, LAUNCHES = 200, RELAXED = 2 };
enum { SLICES = 17, SLICE_BYTES = 4 << 20, SLICE_WORDS = SLICE_BYTES / 4 };

static void pass_begin(uint64_t pass, CUstream stream)
{
	LAUNCH("store_flag", stream, &out, &pass);
}

static void reads(void)
{
	CUstream stream = stream_make();
	uint64_t nr = WORDS;

	for (uint64_t pass = 0; pass < PASSES; pass++) {
		pass_begin(pass, stream);
		for (unsigned n = 0; n < TIMES * ARRAYS; n++)
			LAUNCH("sum", stream, &out, &array[n / TIMES], &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("sum", out, 1);
	}
}

static void writes(void)
{
	CUstream stream = stream_make();

	for (unsigned pass = 0; pass < PASSES; pass++) {
		pass_begin(pass, stream);
		for (unsigned n = 0; n < TIMES * ARRAYS; n++)
			fill(n / TIMES, 1000 * pass + n, stream);
		OK(cu.cuStreamSynchronize(stream));
		show("filled", array[ARRAYS - 1], 1);
	}
}

/* A large allocation, whose slices a loop adds up, each by a launch that is given its address, and
 * sums so many slices from there on. Beside it all arrays are used. */
static void add_slices(unsigned nr_slices, bool writes)
{
	CUstream stream = stream_make();
	uint64_t nr = (uint64_t)nr_slices * SLICE_WORDS;
	CUdeviceptr all;

	OK(cu.cuMemAlloc(&all, (size_t)SLICES * SLICE_BYTES));
	for (unsigned n = 0; n < SLICES; n++)
		OK(cu.cuMemsetD32Async(all + (CUdeviceptr)n * SLICE_BYTES, n + 1, SLICE_WORDS,
				       stream));
	for (uint64_t pass = 0; pass < SLICE_PASSES; pass++) {
		pass_begin(pass, stream);
		for (unsigned n = 0; n + nr_slices <= SLICES; n++) {
			CUdeviceptr slice = all + (CUdeviceptr)n * SLICE_BYTES;
			uint64_t value = 1000 * pass + n;

			LAUNCH("sum", stream, &array[n], &slice, &nr);
			if (writes)
				LAUNCH("fill", stream, &slice, &nr, &value);
		}
		OK(cu.cuStreamSynchronize(stream));
		for (unsigned n = 0; n + nr_slices <= SLICES; n++)
			show("slice", array[n], 1);
	}
	OK(cu.cuMemFree(all));
}

static void slices(void)
{
	add_slices(1, false);
}

static void slices_written(void)
{
	add_slices(1, true);
}

/* Each launch uses more than the distance to the next one's address. */
static void strays(void)
{
	add_slices(3, false);
}

/* Nothing is captured. */
static void capture(CUstream stream)
{
	CUdeviceptr other;
	CUgraph graph;

	OK(cuStreamBeginCapture_v2(stream, RELAXED));
	OK(cu.cuMemAlloc(&other, 2 * BYTES));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphDestroy(graph));
	OK(cu.cuMemFree(other));
}

static void many(void)
{
	CUstream stream = stream_make();
	CUdeviceptr other;
	uint64_t nr = 4;

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned n = 0; n < LAUNCHES + round; n++)
			LAUNCH("sum", stream, &out, &array[n % 8], &nr);
		if (round % 2) {
			capture(stream);
			continue;
		}
		if (round & 2)
			OK(cu.cuStreamSynchronize(stream));
		OK(cu.cuStreamDestroy(stream));
		OK(cu.cuMemAlloc(&other, 3 * BYTES));
		stream = stream_make();
		OK(cu.cuMemFree(other));
	}
	OK(cu.cuStreamSynchronize(stream));
	show("sum", out, 1);
}

int main(int argc, char **argv)
{
	static const struct arrays_case cases[] = {
		{"reads", reads},   {"writes", writes},
		{"slices", slices}, {"slices-written", slices_written},
		{"strays", strays}, {"many", many},
		{NULL, NULL}};

	return arrays_main(argc, argv, cases);
}
