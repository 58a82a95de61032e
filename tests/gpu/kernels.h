/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels for tests, as a shared library that is opened at run time: libweir-test-cuda.so for real
 * GPUs (kernels.cu), libweir-test-fake.so for the driver without a GPU (tests/fakecuda/kernels).
 * Test programs are plain C and run on whichever of the two they are given.
 *
 * For each kernel there is
 *
 *   int test_cuda_<name>(void *stream, const void *args);
 *
 * which queues it on a CUstream and does not wait. args is a struct test_<name>_args, read before
 * the call returns; its pointers are addresses that the stream's device reaches. The device's
 * primary context is current in the calling thread. Returns 0, or -EIO and a text in
 * test_cuda_error(). What queued kernels do wrong shows where the stream is waited for.
 *
 * Words are 64 bits wide and aligned; only `add` and `poke` take any address.
 */
#ifndef WEIR_TEST_GPU_KERNELS_H
#define WEIR_TEST_GPU_KERNELS_H

#include <stdint.h>

/* All kernels: X(name) */
#define TEST_KERNELS(X) \
	X(cells)        \
	X(fill)         \
	X(add)          \
	X(churn)        \
	X(checksum)     \
	X(gather)       \
	X(gate)         \
	X(spin)         \
	X(count)        \
	X(rally)        \
	X(poke)

#ifdef __cplusplus
extern "C" {
#endif

#define TEST_CELLS_MAX 64u

/* A piece of a kernel's part: what is expected in it and what is put there; 0: nothing. */
struct test_cell {
	uint32_t expect, put;
};

/* Cells of so many words, one behind the other. Words that are not as expected are counted in
 * *nr_wrong, which the kernel adds to. */
struct test_cells_args {
	uint64_t *addr;
	const uint64_t *as; /* the words are those of this address; NULL: their own */
	uint64_t words;	    /* of a cell */
	uint32_t *nr_wrong;
	uint32_t nr;
	struct test_cell cell[TEST_CELLS_MAX]; /* so many as nr says are looked at */
};

/* out[i] = test_word(seed, i) */
struct test_fill_args {
	uint64_t *out;
	uint64_t nr;
	uint32_t seed;
};

/* out[i] = in[i] + add, bytes; in may be out. */
struct test_add_args {
	const uint8_t *in;
	uint8_t *out;
	uint64_t bytes;
	uint8_t add;
};

/* data[i] += add, so often, each time through memory. */
struct test_churn_args {
	uint64_t *data;
	uint64_t nr, add;
	uint32_t rounds;
};

/* *sum += test_checksum_of(in[i], i), over all */
struct test_checksum_args {
	const uint64_t *in;
	uint64_t nr;
	uint64_t *sum;
};

/* out[i] = in[test_word(seed, i) % nr_in] */
struct test_gather_args {
	const uint64_t *in;
	uint64_t nr_in;
	uint64_t *out;
	uint64_t nr;
	uint32_t seed;
};

/* Spin until word[0] is not 0, which the CPU writes, or until so much time has passed: word[1] is
 * then set to 1. word is pinned host memory. */
struct test_gate_args {
	uint32_t *word;
	uint64_t most_ns;
};

/* Take so much time. */
struct test_spin_args {
	uint64_t ns;
};

/* at[i] += add, by atomics of system scope. */
struct test_count_args {
	uint64_t *at;
	uint64_t nr, add;
};

/* Two players, 0 and 1, each a kernel: add 1 to ball[0] whenever it is the player's turn, which it
 * is while that is even or odd, so often, by atomics of system scope. Until so much time has passed
 * without a turn: ball[1] is then set to 1. */
struct test_rally_args {
	uint32_t *ball;
	uint32_t player, turns;
	uint64_t most_ns;
};

/* Write one byte, wherever it may be. */
struct test_poke_args {
	uint8_t *addr;
	uint8_t value;
};

#define TEST_CUDA_EXPORT __attribute__((visibility("default")))

#define DECLARE(name) TEST_CUDA_EXPORT int test_cuda_##name(void *stream, const void *args);
TEST_KERNELS(DECLARE)
#undef DECLARE

/* test_cuda_abi_here() of the library: another number means that the two do not belong together. */
TEST_CUDA_EXPORT uint64_t test_cuda_abi(void);

/* What went wrong in the calling thread's last call that failed. Never NULL. */
TEST_CUDA_EXPORT const char *test_cuda_error(void);

/* Load every kernel onto the current device, so that no later launch waits for work that runs, as
 * a launch that has to load its kernel does. 0 or -EIO. */
TEST_CUDA_EXPORT int test_cuda_prepare(void);

/* Change the constant when a function or its meaning changes; sizes of arguments show anyway. */
static inline uint64_t test_cuda_abi_here(void)
{
	uint64_t abi = UINT64_C(1) << 32;

#define ADD_SIZE(name) abi = abi * 31 + sizeof(struct test_##name##_args);
	TEST_KERNELS(ADD_SIZE)
#undef ADD_SIZE
	return abi;
}

/* ------------------------------------------------------------------ values, the same everywhere */

#ifdef __CUDACC__
#define TEST_ANYWHERE __host__ __device__ static inline
#else
#define TEST_ANYWHERE static inline
#endif

/* The word that a seed puts at an address: one block taken for another shows. */
TEST_ANYWHERE uint64_t test_word_at(uint32_t seed, const void *addr)
{
	uint64_t word = seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)(uintptr_t)addr;

	return word ^ (word >> 31);
}

/* The word that a seed puts at an index, wherever that is; spread over all 64 bits. */
TEST_ANYWHERE uint64_t test_word(uint32_t seed, uint64_t i)
{
	uint64_t word = (seed + i * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);

	return word ^ (word >> 29);
}

/* What a word adds to a checksum: the order of words counts, that of additions does not. */
TEST_ANYWHERE uint64_t test_checksum_of(uint64_t word, uint64_t i)
{
	return (word ^ (word >> 32)) * (2 * i + 1);
}

#ifdef __cplusplus
}
#endif

#endif
