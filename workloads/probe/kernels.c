/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on the CPU, for simulated machines with real bytes; kernels.h says what they do. */
#include "workloads/probe/kernels.h"

#include <string.h>

#include "workloads/probe/cuda.h"

static uint64_t sum_words(const void *in, uint64_t bytes)
{
	const uint64_t *word = in;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < bytes / sizeof(*word); i++)
		sum += word[i];
	return sum;
}

static void empty_cpu(const void *p)
{
	(void)p;
}

static void read_cpu(const void *p)
{
	const struct probe_read_args *a = p;

	/* Once is enough: time is not what this finds. */
	*a->sum += a->passes * sum_words(a->in, a->bytes);
}

static void write_cpu(const void *p)
{
	const struct probe_write_args *a = p;
	uint64_t *word = a->out;

	for (uint64_t i = 0; i < a->bytes / sizeof(*word); i++)
		word[i] = a->value;
}

static void copy_cpu(const void *p)
{
	const struct probe_copy_args *a = p;

	memcpy(a->out, a->in, a->bytes);
}

static uint64_t piece_offset(const struct probe_pieces *pieces, uint32_t i)
{
	return (uint64_t)probe_piece_at(pieces, i) * pieces->piece;
}

static void gather_cpu(const void *p)
{
	const struct probe_gather_args *a = p;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < a->pieces.nr; i++)
		sum += sum_words((const char *)a->in + piece_offset(&a->pieces, i),
				 a->pieces.piece);
	*a->sum += sum;
}

static void update_cpu(const void *p)
{
	const struct probe_update_args *a = p;

	for (uint32_t i = 0; i < a->pieces.nr; i++) {
		uint64_t *word = (uint64_t *)((char *)a->data + piece_offset(&a->pieces, i));

		for (uint32_t w = 0; w < a->pieces.piece / sizeof(*word); w++)
			word[w]++;
	}
}

static void add_cpu(const void *p)
{
	const struct probe_add_args *a = p;

	for (uint32_t i = 0; i < a->pieces.nr; i++) {
		char *piece = (char *)a->data + piece_offset(&a->pieces, i);
		float *x = (float *)(void *)piece;

		for (uint32_t k = 0; k < a->pieces.piece / sizeof(*x); k++)
			x[k] += 1;
	}
}

static void mixed_cpu(const void *p)
{
	const struct probe_mixed_args *a = p;
	uint32_t piece = a->far_pieces.piece, far = 0, near = 0;
	char *out = a->out;

	while (near < a->near_pieces.nr) {
		for (uint32_t i = 0; i < PROBE_MIXED_FAR; i++, out += piece)
			memcpy(out, (const char *)a->far + piece_offset(&a->far_pieces, far++),
			       piece);
		for (uint32_t i = 0; i < PROBE_MIXED_NEAR; i++, out += piece)
			memcpy(out, (const char *)a->near + piece_offset(&a->near_pieces, near++),
			       piece);
	}
}

static void list_cpu(const void *p)
{
	const struct probe_list_args *a = p;

	for (uint32_t i = 0; i < a->nr; i++)
		a->list[i] = probe_list_at(i, a->step);
}

#define KERNEL(kernel)                                     \
	const struct weir_kernel probe_kernel_##kernel = { \
		.name = #kernel, .cpu = kernel##_cpu, .cuda = probe_cuda_run_##kernel};
PROBE_CUDA_KERNELS(KERNEL)
