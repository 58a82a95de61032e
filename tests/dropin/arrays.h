/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that take several times the memory that a run under weir is given, for programs that use
 * some of it in ways that their launches do not show: all arrays are used between the steps that
 * matter, so that what nobody expects to be used is elsewhere by then. It includes nothing of weir,
 * but for what api.h declares.
 */
#ifndef WEIR_TESTS_DROPIN_ARRAYS_H
#define WEIR_TESTS_DROPIN_ARRAYS_H

#include "tests/dropin/api.h"

enum { NON_BLOCKING = 1, NO_TIMING = 2 };
enum { ARRAYS = 24, OUT = 48, WORDS = 1 << 14, BYTES = 4 * WORDS };
#define PER_THREAD ((CUstream)2) /* CU_STREAM_PER_THREAD */

/* The second has the same kernels, and is not the same. */
#define ARRAYS_IMAGE "fakecuda kernels\nglobal table 8\n"
#define ARRAYS_IMAGE_OTHER ARRAYS_IMAGE "global more 8\n"

extern struct api cu;
extern CUcontext context;
extern CUmodule module;
extern CUdeviceptr array[ARRAYS], out; /* out: OUT words for what kernels find */

/* End the program with a line, which names the call, if it failed. */
void check(CUresult result, const char *call, int line);
#define OK(call) check(call, #call, __LINE__)

CUfunction kernel(const char *name);
void launch(const char *name, CUstream stream, void **parameters);
#define LAUNCH(name, stream, ...) launch(name, stream, (void *[]){__VA_ARGS__})

/* Every word of the n-th array is value. */
void fill(unsigned n, unsigned value, CUstream stream);

/* Use all arrays, each with a word that is its own and that of the time, and wait. */
void use_all(unsigned time, CUstream stream);

/* Print words of the device's memory, OUT of them at most. */
void show(const char *what, CUdeviceptr addr, unsigned nr);

CUstream stream_make(void);

/* The main function of such a program: run the case that the first argument names, with the arrays
 * there and used; show them at the end. With a second one another image has the kernels. */
struct arrays_case {
	const char *name; /* NULL: behind the last one */
	void (*run)(void);
};
int arrays_main(int argc, char **argv, const struct arrays_case *cases);

#endif
