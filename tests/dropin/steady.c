/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do the same in each of many passes over the arrays of arrays.h, one for each run:
 * "reads" reads them alone, "writes" writes them all. A kernel of its own begins each pass. It
 * prints what it read; the kernels are those of tests/fakecuda/fakecuda.h. It includes nothing of
 * weir, but for what api.h declares.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/dropin/arrays.h"

enum { PASSES = 24, TIMES = 4 };

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

int main(int argc, char **argv)
{
	static const struct arrays_case cases[] = {
		{"reads", reads}, {"writes", writes}, {NULL, NULL}};

	return arrays_main(argc, argv, cases);
}
