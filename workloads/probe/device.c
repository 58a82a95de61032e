/* SPDX-License-Identifier: Apache-2.0 */
/* What a device does with its own memory: streaming, pieces at random, products, launches,
 * allocations. */
#include <errno.h>
#include <math.h>

#include "workloads/gcn/cuda.h"
#include "workloads/gcn/kernels.h"
#include "workloads/probe/internal.h"

#define BUFFER_MAX (4 * GIB)
#define QUICK_BUFFER_MAX GIB

/* A row of what gathers and scatters work on. */
#define PIECE 1024u

#define EMPTY_LAUNCHES 256u

/* Rows and columns of the matrices. */
#define PRODUCT_MAX 8192u
#define QUICK_PRODUCT_MAX 4096u

#define LARGE_PAGE (2 * MIB)
#define ALLOCATIONS 3u

static struct weir_device_desc *result(struct probe *p)
{
	return &p->desc->device[p->device];
}

static const struct weir_device_desc *estimate(const struct probe *p)
{
	return &p->estimates->device[p->device];
}

/* ------------------------------------------------------------------ own memory */

/* Time a launch and add its rate, bytes read plus written, to a series, but for the first. */
static int rate_add(struct probe *p, const struct probe_work *work, uint32_t repetition,
		    struct fit_series *bytes_per_s)
{
	double ns;
	int err = probe_time_launch(p, &work->launch, 2, &ns, NULL);

	if (!err && repetition)
		fit_add(bytes_per_s, work->bytes / ns * 1e9);
	return err;
}

static int stream_rates(struct probe *p, const struct probe_buffer *buffer)
{
	struct fit_series copies = {0}, reads = {0};
	uint64_t half = buffer->bytes / 2;
	int err = probe_step(p, "%s: own memory, streaming", result(p)->name);

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct probe_work work;

		probe_work_copy(&work, buffer->addr, buffer->addr + half, half);
		err = rate_add(p, &work, i, &copies);
		if (err)
			break;
		probe_work_read(p, &work, buffer->addr, buffer->bytes, 1);
		err = rate_add(p, &work, i, &reads);
	}
	if (err)
		return err;
	result(p)->hbm_bytes_per_s =
		probe_keep(p, &copies, estimate(p)->hbm_bytes_per_s,
			   "a kernel that copies within its memory, bytes read plus written",
			   "device[%u].hbm_bytes_per_s", p->device);
	(void)probe_keep(p, &reads, NAN, "a kernel that only reads", "device[%u].read_bytes_per_s",
			 p->device);
	return 0;
}

static int random_rates(struct probe *p, const struct probe_buffer *buffer)
{
	struct fit_series updates = {0}, reads = {0};
	int err = probe_step(p, "%s: own memory, pieces at random", result(p)->name);

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct probe_work work;

		probe_work_update(p, &work, buffer->addr, buffer->bytes, PIECE, UINT32_MAX);
		err = rate_add(p, &work, i, &updates);
		if (err)
			break;
		probe_work_gather(p, &work, buffer->addr, buffer->bytes, PIECE, UINT32_MAX);
		err = rate_add(p, &work, i, &reads);
	}
	if (err)
		return err;
	result(p)->hbm_random_bytes_per_s =
		probe_keep(p, &updates, estimate(p)->hbm_random_bytes_per_s,
			   "a kernel that changes pieces of 1 KiB at random, read plus written",
			   "device[%u].hbm_random_bytes_per_s", p->device);
	(void)probe_keep(p, &reads, NAN, "a kernel that only reads pieces of 1 KiB at random",
			 "device[%u].random_read_bytes_per_s", p->device);
	return 0;
}

static int own_memory(struct probe *p)
{
	uint32_t memory = result(p)->memory;
	uint64_t bytes =
		probe_room(p, memory, p->options->quick ? QUICK_BUFFER_MAX : BUFFER_MAX, 1);
	struct probe_buffer buffer = {0};
	int err = probe_buffer_create(p, memory, bytes, &buffer);

	if (!err)
		err = stream_rates(p, &buffer);
	if (!err)
		err = random_rates(p, &buffer);
	probe_buffer_destroy(p, &buffer);
	return err;
}

/* ------------------------------------------------------------------ launches */

static int launches(struct probe *p)
{
	struct fit_series device = {0}, host = {0};
	struct probe_work work;
	int err = probe_step(p, "%s: launches", result(p)->name);

	probe_work_empty(&work);
	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		double ns, host_ns;

		err = probe_time_launch(p, &work.launch, EMPTY_LAUNCHES, &ns, &host_ns);
		if (err || !i)
			continue;
		fit_add(&device, ns);
		fit_add(&host, host_ns);
	}
	if (err)
		return err;
	result(p)->launch_ns = probe_round(probe_keep(p, &device, (double)estimate(p)->launch_ns,
						      "256 empty kernels that wait in line, each",
						      "device[%u].launch_ns", p->device));
	result(p)->launch_host_ns =
		probe_round(probe_keep(p, &host, (double)estimate(p)->launch_host_ns,
				       "256 launch calls beside a running kernel, each",
				       "device[%u].launch_host_ns", p->device));
	return 0;
}

/* ------------------------------------------------------------------ products of matrices */

/* Give back what the library keeps for the stream. A kernel, since these run with the device's
 * context. */
static void forget_cpu(const void *args)
{
	(void)args;
}

static int forget_cuda(void *stream, const void *args)
{
	(void)args;
	gcn_cuda_forget(stream);
	return 0;
}

static const struct weir_kernel forget_kernel = {
	.name = "forget", .cpu = forget_cpu, .cuda = forget_cuda};

static int product_time(struct probe *p, const struct probe_buffer *buffer, uint32_t n,
			struct fit_series *ops_per_s)
{
	const uint64_t matrix = (uint64_t)n * n * sizeof(float);
	const struct gcn_linear_args args = {
		.in = (const float *)(const void *)buffer->addr,
		.weight = (const float *)(const void *)(buffer->addr + matrix),
		.out = (float *)(void *)(buffer->addr + 2 * matrix),
		.bias = (const float *)(const void *)(buffer->addr + 3 * matrix),
		.nr = n,
		.width_in = n,
		.width_out = n,
	};
	const uint64_t bias = n * sizeof(float);
	const struct weir_use uses[] = {
		{.addr = buffer->addr,
		 .bytes = 2 * matrix,
		 .kind = WEIR_READ,
		 .read_bytes = 2 * matrix},
		{.addr = buffer->addr + 2 * matrix,
		 .bytes = matrix,
		 .kind = WEIR_OVERWRITE,
		 .write_bytes = matrix},
		{.addr = buffer->addr + 3 * matrix,
		 .bytes = bias,
		 .kind = WEIR_READ,
		 .read_bytes = bias},
	};
	const struct weir_launch launch = {.kernel = &gcn_kernel_linear,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = 3,
					   .ops = 2.0 * n * n * n};
	int err = 0;

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		double ns;

		err = probe_time_launch(p, &launch, 2, &ns, NULL);
		if (!err && i)
			fit_add(ops_per_s, launch.ops / ns * 1e9);
	}
	return err;
}

/* What stands in matrices: numbers of ordinary size. */
static int product_fill(struct probe *p, const struct probe_buffer *buffer)
{
	struct probe_work work;

	probe_work_write(&work, buffer->addr, buffer->bytes, UINT64_C(0x3f8ccccd3f8ccccd));
	return p->b->ops->launch(p->b, p->stream[BACKEND_COMPUTE], &work.launch);
}

static int products_measure(struct probe *p, struct fit_series *ops_per_s)
{
	uint64_t most = p->options->quick ? QUICK_PRODUCT_MAX : PRODUCT_MAX;
	uint32_t memory = result(p)->memory;
	/* Three matrices, and the bias in the place of a fourth. */
	uint64_t bytes = probe_room(p, memory, 4 * most * most * sizeof(float), 1);
	const struct weir_launch forget = {.kernel = &forget_kernel};
	struct probe_buffer buffer = {0};
	uint64_t n = 1;
	int err, forgotten;

	while (4 * (2 * n) * (2 * n) * sizeof(float) <= bytes)
		n *= 2;
	err = probe_buffer_create(p, memory, bytes, &buffer);
	if (err)
		return err;
	err = product_fill(p, &buffer);
	if (!err)
		err = product_time(p, &buffer, (uint32_t)n, ops_per_s);
	forgotten = p->b->ops->launch(p->b, p->stream[BACKEND_COMPUTE], &forget);
	probe_buffer_destroy(p, &buffer);
	return err ? err : forgotten;
}

/* The workload that multiplies matrices has kernels of its own, which may be missing, or lack the
 * library that they stand on. */
static int products(struct probe *p)
{
	bool real = p->b->ops->stream_native(p->b, p->stream[BACKEND_COMPUTE]) != NULL;
	struct fit_series ops_per_s = {0};
	int err = probe_step(p, "%s: products of matrices", result(p)->name);

	if (err)
		return err;
	err = real ? gcn_cuda_load() : 0;
	if (!err)
		err = products_measure(p, &ops_per_s);
	if (real && (err == -ENOENT || err == -ELIBBAD)) {
		probe_assume(p, estimate(p)->ops_per_s,
			     "no kernels for products of matrices, or no cuBLAS",
			     "device[%u].ops_per_s", p->device);
		return 0;
	}
	if (err)
		return err;
	result(p)->ops_per_s = probe_keep(p, &ops_per_s, estimate(p)->ops_per_s,
					  "a product of square matrices of fp32",
					  "device[%u].ops_per_s", p->device);
	return 0;
}

/* ------------------------------------------------------------------ plain allocations */

/* Time of taking and giving back. */
static int allocation_time(struct probe *p, uint64_t bytes, double *ns)
{
	const struct backend_ops *ops = p->b->ops;
	uint64_t begin = ops->now_ns(p->b);
	void *addr;
	int err = ops->device_alloc(p->b, result(p)->memory, bytes, &addr);

	if (err)
		return err;
	ops->device_free(p->b, addr);
	*ns = (double)(ops->now_ns(p->b) - begin);
	*ns = *ns > 1 ? *ns : 1;
	return 0;
}

static int allocations(struct probe *p)
{
	uint64_t pages = probe_room(p, result(p)->memory, 2048 * LARGE_PAGE, 1) / LARGE_PAGE;
	struct fit_series fixed = {0}, each = {0};
	int err = probe_step(p, "%s: allocations", result(p)->name);

	if (!err && pages < 4) {
		probe_assume(p, (double)estimate(p)->malloc_ns, "too little memory",
			     "device[%u].malloc_ns", p->device);
		probe_assume(p, (double)estimate(p)->malloc_2mib_ns, "too little memory",
			     "device[%u].malloc_2mib_ns", p->device);
		return 0;
	}
	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct fit_point point[ALLOCATIONS];
		double fixed_ns, each_ns;

		/* One page, a quarter of what there is, and all. */
		for (uint32_t k = 0; k < ALLOCATIONS && !err; k++) {
			uint64_t nr = k == 0 ? 1 : k == 1 ? pages / 4 : pages;

			point[k].amount = (double)nr;
			err = allocation_time(p, nr * LARGE_PAGE, &point[k].ns);
		}
		if (err || !i)
			continue;
		fit_line(point, ALLOCATIONS, &fixed_ns, &each_ns);
		fit_add(&fixed, fixed_ns);
		fit_add(&each, each_ns);
	}
	if (err)
		return err;
	result(p)->malloc_ns =
		probe_round(probe_keep(p, &fixed, (double)estimate(p)->malloc_ns,
				       "allocating and freeing 2 MiB to 4 GiB: a line's beginning",
				       "device[%u].malloc_ns", p->device));
	result(p)->malloc_2mib_ns =
		probe_round(probe_keep(p, &each, (double)estimate(p)->malloc_2mib_ns,
				       "allocating and freeing 2 MiB to 4 GiB: a line's slope",
				       "device[%u].malloc_2mib_ns", p->device));
	return 0;
}

int probe_device(struct probe *p)
{
	int err = own_memory(p);

	if (!err)
		err = launches(p);
	if (!err)
		probe_assume(p, (double)estimate(p)->plan_work_ns, "plans are not made here",
			     "device[%u].plan_work_ns", p->device);
	if (!err)
		err = products(p);
	return err ? err : allocations(p);
}
