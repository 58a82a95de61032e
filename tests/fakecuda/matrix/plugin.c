/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libweir-matrix-fake.so: the CUDA kernels on a matrix (workloads/matrix/cuda/plugin.h) for the
 * fake driver. Each is the CPU's, queued as a kernel that touches what its arguments name; those
 * that page run agents over the pool's words. WEIR_MATRIX_KERNELS names it.
 */
#include "tests/fakecuda/paged.h"
#include "tests/fakecuda/plugin.h"
#include "workloads/matrix/cuda/plugin.h"

const char *matrix_cuda_error(void)
{
	return error_text;
}

uint64_t matrix_cuda_abi(void)
{
	return matrix_cuda_abi_here();
}

static int refused(const char *name)
{
	snprintf(error_text, sizeof(error_text), "%s: no such matrix", name);
	return -EINVAL;
}

/* The vectors. @return how many touches these are */
static unsigned vector_touches(const struct matrix_args *a, bool columns,
			       struct fakecuda_touch *touch)
{
	touch[0] = (struct fakecuda_touch)READS(a->in, columns ? a->rows : a->columns);
	touch[1] = (struct fakecuda_touch)WRITES(a->out, columns ? a->columns : a->rows);
	return 2;
}

static int sweep(void *stream, const char *name, const struct weir_kernel *kernel,
		 const struct matrix_args *a, bool columns)
{
	struct fakecuda_touch touch[3] = {READS(a->elements, (size_t)a->rows * a->columns)};
	unsigned nr = 1 + vector_touches(a, columns, touch + 1);

	if (!matrix_cuda_bare_valid(a))
		return refused(name);
	return queue(stream, name, kernel->cpu, a, sizeof(*a), touch, nr);
}

static int paged_sweep(void *stream, const char *name, const struct weir_kernel *kernel,
		       const struct matrix_paged_args *a, bool columns)
{
	struct fakecuda_touch touch[FAKE_VIEW_TOUCHES + 2];
	unsigned nr = fake_view_touches(&a->view, touch);

	if (!matrix_cuda_paged_valid(a))
		return refused(name);
	nr += vector_touches(&a->matrix, columns, touch + nr);
	return queue(stream, name, kernel->cpu, a, sizeof(*a), touch, nr);
}

int matrix_cuda_rows(void *stream, const void *args)
{
	return sweep(stream, "rows", &matrix_kernel_rows, args, false);
}

int matrix_cuda_columns(void *stream, const void *args)
{
	return sweep(stream, "columns", &matrix_kernel_columns, args, true);
}

int matrix_cuda_paged_rows(void *stream, const void *args)
{
	return paged_sweep(stream, "paged_rows", &matrix_kernel_paged_rows, args, false);
}

int matrix_cuda_paged_columns(void *stream, const void *args)
{
	return paged_sweep(stream, "paged_columns", &matrix_kernel_paged_columns, args, true);
}

int matrix_cuda_add(void *stream, const void *args)
{
	const struct matrix_add_args *a = args;
	const struct fakecuda_touch touch[] = {READS(a->in, (size_t)a->nr * a->size),
					       WRITES(a->out, a->size)};

	if (!matrix_cuda_add_valid(a))
		return refused("add");
	return queue(stream, "add", matrix_kernel_add.cpu, a, sizeof(*a), touch, 2);
}

int matrix_cuda_home(void *stream, const struct weir_paged_view *view, int evict)
{
	return fake_home(stream, view, evict);
}

int matrix_cuda_settle(void *stream, const struct weir_paged_view *view,
		       struct weir_paged_left *left)
{
	return fake_settle(stream, view, left);
}
