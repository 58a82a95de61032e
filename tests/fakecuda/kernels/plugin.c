/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libweir-test-fake.so: the test kernels (tests/gpu/kernels.h) for the fake driver. Each is the
 * CPU's, queued as a kernel that touches what its arguments name.
 */
#include "tests/fakecuda/plugin.h"
#include "tests/support/kernels.h"

const char *test_cuda_error(void)
{
	return error_text;
}

uint64_t test_cuda_abi(void)
{
	return test_cuda_abi_here();
}

int test_cuda_prepare(void)
{
	return 0;
}

/* Queue the CPU's kernel with these touches. */
#define QUEUE(name, stream, a, ...)                                                  \
	do {                                                                         \
		const struct fakecuda_touch touch[] = {__VA_ARGS__};                 \
                                                                                     \
		return queue(stream, #name, test_cpu_##name, a, sizeof(*(a)), touch, \
			     sizeof(touch) / sizeof(touch[0]));                      \
	} while (0)

int test_cuda_cells(void *stream, const void *args)
{
	const struct test_cells_args *a = args;
	struct fakecuda_touch touch[2] = {{a->addr, a->nr * a->words * 8, false},
					  WRITES(a->nr_wrong, 1)};

	/* Who only looks is no writer. */
	for (uint32_t i = 0; i < a->nr; i++)
		touch[0].write |= a->cell[i].put != 0;
	return queue(stream, "cells", test_cpu_cells, a, sizeof(*a), touch, 2);
}

int test_cuda_fill(void *stream, const void *args)
{
	const struct test_fill_args *a = args;

	QUEUE(fill, stream, a, WRITES(a->out, a->nr));
}

int test_cuda_add(void *stream, const void *args)
{
	const struct test_add_args *a = args;

	QUEUE(add, stream, a, READS(a->in, a->bytes), WRITES(a->out, a->bytes));
}

int test_cuda_churn(void *stream, const void *args)
{
	const struct test_churn_args *a = args;

	QUEUE(churn, stream, a, WRITES(a->data, a->nr));
}

int test_cuda_checksum(void *stream, const void *args)
{
	const struct test_checksum_args *a = args;

	QUEUE(checksum, stream, a, READS(a->in, a->nr), WRITES(a->sum, 1));
}

int test_cuda_gather(void *stream, const void *args)
{
	const struct test_gather_args *a = args;

	QUEUE(gather, stream, a, READS(a->in, a->nr_in), WRITES(a->out, a->nr));
}

int test_cuda_gate(void *stream, const void *args)
{
	const struct test_gate_args *a = args;

	QUEUE(gate, stream, a, WRITES(a->word, 2));
}

int test_cuda_spin(void *stream, const void *args)
{
	const struct test_spin_args *a = args;

	return queue(stream, "spin", test_cpu_spin, a, sizeof(*a), NULL, 0);
}

int test_cuda_count(void *stream, const void *args)
{
	const struct test_count_args *a = args;

	QUEUE(count, stream, a, WRITES(a->at, a->nr));
}

int test_cuda_rally(void *stream, const void *args)
{
	const struct test_rally_args *a = args;

	QUEUE(rally, stream, a, WRITES(a->ball, 2));
}

int test_cuda_poke(void *stream, const void *args)
{
	const struct test_poke_args *a = args;

	QUEUE(poke, stream, a, WRITES(a->addr, 1));
}
