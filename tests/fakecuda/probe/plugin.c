/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libweir-probe-fake.so: the CUDA kernels that measure (workloads/probe/cuda/plugin.h) for the fake
 * driver. Each is the CPU's, queued as a kernel that touches what its arguments name.
 * WEIR_PROBE_KERNELS names it.
 */
#include "tests/fakecuda/plugin.h"
#include "workloads/probe/cuda/plugin.h"

const char *probe_cuda_error(void)
{
	return error_text;
}

uint64_t probe_cuda_abi(void)
{
	return probe_cuda_abi_here();
}

/* Queue the CPU's kernel with these touches. */
#define QUEUE(name, stream, a, ...)                                                          \
	do {                                                                                 \
		const struct fakecuda_touch touch[] = {__VA_ARGS__};                         \
                                                                                             \
		return queue(stream, #name, probe_kernel_##name.cpu, a, sizeof(*(a)), touch, \
			     sizeof(touch) / sizeof(touch[0]));                              \
	} while (0)

static uint64_t buffer_bytes(const struct probe_pieces *pieces)
{
	return (uint64_t)pieces->piece * pieces->nr_all;
}

int probe_cuda_empty(void *stream, const void *args)
{
	return queue(stream, "empty", probe_kernel_empty.cpu, args, sizeof(struct probe_empty_args),
		     NULL, 0);
}

int probe_cuda_read(void *stream, const void *args)
{
	const struct probe_read_args *a = args;

	QUEUE(read, stream, a, {a->in, a->bytes, false}, {a->sum, sizeof(*a->sum), true});
}

int probe_cuda_write(void *stream, const void *args)
{
	const struct probe_write_args *a = args;

	QUEUE(write, stream, a, {a->out, a->bytes, true});
}

int probe_cuda_copy(void *stream, const void *args)
{
	const struct probe_copy_args *a = args;

	QUEUE(copy, stream, a, {a->in, a->bytes, false}, {a->out, a->bytes, true});
}

int probe_cuda_gather(void *stream, const void *args)
{
	const struct probe_gather_args *a = args;

	QUEUE(gather, stream, a, {a->in, buffer_bytes(&a->pieces), false},
	      {a->sum, sizeof(*a->sum), true});
}

int probe_cuda_update(void *stream, const void *args)
{
	const struct probe_update_args *a = args;

	QUEUE(update, stream, a, {a->data, buffer_bytes(&a->pieces), true});
}

int probe_cuda_add(void *stream, const void *args)
{
	const struct probe_add_args *a = args;

	QUEUE(add, stream, a, {a->data, buffer_bytes(&a->pieces), true});
}

int probe_cuda_list(void *stream, const void *args)
{
	const struct probe_list_args *a = args;

	QUEUE(list, stream, a, {a->list, a->nr * sizeof(*a->list), true});
}

int probe_cuda_mixed(void *stream, const void *args)
{
	const struct probe_mixed_args *a = args;
	uint64_t nr = (uint64_t)a->far_pieces.nr + a->near_pieces.nr;

	QUEUE(mixed, stream, a, {a->far, buffer_bytes(&a->far_pieces), false},
	      {a->near, buffer_bytes(&a->near_pieces), false},
	      {a->out, nr * a->far_pieces.piece, true});
}
