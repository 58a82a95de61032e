/* SPDX-License-Identifier: Apache-2.0 */
/* See arrays.h. */
#include "tests/dropin/arrays.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes);

struct api cu;
CUcontext context;
CUmodule module;
CUdeviceptr array[ARRAYS], out;

void check(CUresult result, const char *call, int line)
{
	if (!result)
		return;
	fprintf(stderr, "%s: line %d: %s: %d\n", program_invocation_short_name, line, call, result);
	exit(1);
}

CUfunction kernel(const char *name)
{
	CUfunction function = NULL;

	OK(cu.cuModuleGetFunction(&function, module, name));
	return function;
}

void launch(const char *name, CUstream stream, void **parameters)
{
	OK(cu.cuLaunchKernel(kernel(name), 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void fill(unsigned n, unsigned value, CUstream stream)
{
	uint64_t nr = WORDS, word = value;

	LAUNCH("fill", stream, &array[n], &nr, &word);
}

void use_all(unsigned time, CUstream stream)
{
	for (unsigned n = 0; n < ARRAYS; n++)
		fill(n, 1000 * time + n, stream);
	OK(cu.cuStreamSynchronize(stream));
}

void show(const char *what, CUdeviceptr addr, unsigned nr)
{
	uint32_t word[OUT];

	OK(cuMemcpyDtoH_v2(word, addr, nr * sizeof(*word)));
	printf("%s", what);
	for (unsigned i = 0; i < nr; i++)
		printf(" %u", word[i]);
	printf("\n");
	(void)fflush(stdout);
}

CUstream stream_make(void)
{
	CUstream stream;

	OK(cu.cuStreamCreate(&stream, NON_BLOCKING));
	return stream;
}

int arrays_main(int argc, char **argv, const struct arrays_case *cases)
{
	if (argc < 2 || argc > 3 || api_open(&cu, REACH_LINKED))
		return 1;
	OK(cu.cuInit(0));
	OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuModuleLoadData(&module, argc > 2 ? ARRAYS_IMAGE_OTHER : ARRAYS_IMAGE));
	OK(cu.cuMemAlloc(&out, OUT * sizeof(uint32_t)));
	for (unsigned n = 0; n < ARRAYS; n++)
		OK(cu.cuMemAlloc(&array[n], BYTES));
	use_all(1, NULL);
	while (cases->name && strcmp(argv[1], cases->name) != 0)
		cases++;
	if (!cases->name)
		return 1;
	cases->run();
	for (unsigned n = 0; n < ARRAYS; n++)
		show("at the end", array[n], 1);
	return 0;
}
