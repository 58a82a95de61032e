/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libweir-touch-fake.so: the CUDA kernels that touch a table (workloads/touch/cuda/plugin.h) for
 * the fake driver. Each is the CPU's, queued as a kernel that touches what its arguments name;
 * those that page run agents over the pool's words. WEIR_TOUCH_KERNELS names it.
 */
#include "tests/fakecuda/paged.h"
#include "tests/fakecuda/plugin.h"
#include "workloads/touch/cuda/plugin.h"

const char *touch_cuda_error(void)
{
	return error_text;
}

uint64_t touch_cuda_abi(void)
{
	return touch_cuda_abi_here();
}

int touch_cuda_pages(void *stream, const void *args)
{
	const struct touch_pages_args *a = args;
	const struct fakecuda_touch touch[] = {
		{a->words, a->order.nr * a->page_bytes, a->access != TOUCH_READ},
		{a->sum, sizeof(*a->sum), true}};

	return queue(stream, "pages", touch_kernel_pages.cpu, a, sizeof(*a), touch, 2);
}

int touch_cuda_layer(void *stream, const void *args)
{
	const struct touch_layer_args *a = args;
	const struct touch_pages_args *range = &a->range, *temporary = &a->temporary;
	const struct fakecuda_touch touch[] = {
		{range->words, range->order.nr * range->page_bytes, range->access != TOUCH_READ},
		{temporary->words, temporary->order.nr * temporary->page_bytes, true},
		{range->sum, sizeof(*range->sum), true}};

	return queue(stream, "layer", touch_kernel_layer.cpu, a, sizeof(*a), touch, 3);
}

int touch_cuda_updates(void *stream, const void *args)
{
	const struct touch_updates_args *a = args;
	const struct fakecuda_touch touch[] = {{a->words, a->nr_words * sizeof(*a->words), true}};

	return queue(stream, "updates", touch_kernel_updates.cpu, a, sizeof(*a), touch, 1);
}

int touch_cuda_paged_pages(void *stream, const void *args)
{
	const struct touch_paged_pages_args *a = args;

	return fake_view_queue(stream, touch_kernel_paged_pages.cpu, a, sizeof(*a), &a->view);
}

int touch_cuda_paged_updates(void *stream, const void *args)
{
	const struct touch_paged_updates_args *a = args;

	return fake_view_queue(stream, touch_kernel_paged_updates.cpu, a, sizeof(*a), &a->view);
}

int touch_cuda_home(void *stream, const struct weir_paged_view *view, int evict)
{
	return fake_home(stream, view, evict);
}

int touch_cuda_settle(void *stream, const struct weir_paged_view *view,
		      struct weir_paged_left *left)
{
	return fake_settle(stream, view, left);
}
