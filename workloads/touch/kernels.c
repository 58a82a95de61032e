/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on the CPU, for a table at an address; kernels.h says what they do. */
#include "workloads/touch/kernels.h"

#include "workloads/touch/cuda.h"

static void pages_cpu(const void *p)
{
	const struct touch_pages_args *a = p;
	const uint32_t nr = a->page_bytes / sizeof(*a->words);
	uint64_t sum = 0;

	for (uint64_t i = 0; i < a->order.nr_touched; i++) {
		uint64_t page = touch_page_at(&a->order, i);
		uint64_t *word = a->words + page * nr;
		uint64_t value = touch_first(a->seed, page, a->times);

		for (uint32_t j = 0; j < nr; j++) {
			if (a->access != TOUCH_WRITE)
				sum += word[j];
			if (a->access == TOUCH_BOTH)
				word[j] += TOUCH_TIMES;
			else if (a->access == TOUCH_WRITE)
				word[j] = value + j * TOUCH_STEP;
		}
	}
	*a->sum += sum;
}

static void layer_cpu(const void *p)
{
	const struct touch_layer_args *a = p;
	uint64_t sum = 0;
	struct touch_pages_args temporary = a->temporary;

	temporary.sum = &sum;
	pages_cpu(&a->range);
	pages_cpu(&temporary); /* once again would change nothing */
}

static void updates_cpu(const void *p)
{
	const struct touch_updates_args *a = p;

	for (uint64_t i = 0; i < a->nr; i++) {
		uint64_t update = touch_update(a->seed, i);

		a->words[update & (a->nr_words - 1)] += update;
	}
}

const struct weir_kernel touch_kernel_pages = {
	.name = "touch_pages", .cpu = pages_cpu, .cuda = touch_cuda_run_pages};
const struct weir_kernel touch_kernel_layer = {
	.name = "touch_layer", .cpu = layer_cpu, .cuda = touch_cuda_run_layer};
const struct weir_kernel touch_kernel_updates = {
	.name = "touch_updates", .cpu = updates_cpu, .cuda = touch_cuda_run_updates};
