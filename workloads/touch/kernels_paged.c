/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels on the CPU, for a table that they page for themselves: agents, each of which takes
 * every nr-th page or update.
 */
#include <stdatomic.h>

#include "workloads/agents.h"
#include "workloads/touch/cuda.h"

/* ------------------------------------------------------------------ pages */

/* What the agents of a pass share. */
struct pass {
	const struct touch_pages_args *pages;
	uint32_t range;
	atomic_uint_fast64_t sum;
};

static int page_span(struct paging_agent *agent, const struct pass *pass, uint64_t page,
		     uint64_t *sum)
{
	const struct touch_pages_args *a = pass->pages;
	uint64_t value = touch_first(a->seed, page, a->times);
	unsigned int flags = a->access == TOUCH_READ ? 0 : PAGING_WRITE;
	struct paging_span span;
	uint64_t *word;
	int err =
		paging_span_get(agent, pass->range, page * a->page_bytes,
				flags | PAGING_TOUCHES(a->page_bytes / TOUCH_SECTOR_BYTES), &span);

	if (err)
		return err;
	word = span.addr;
	for (uint32_t j = 0; j < a->page_bytes / sizeof(*word); j++) {
		if (a->access != TOUCH_WRITE)
			*sum += word[j];
		if (a->access == TOUCH_BOTH)
			word[j] += TOUCH_TIMES;
		else if (a->access == TOUCH_WRITE)
			word[j] = value + j * TOUCH_STEP;
	}
	return paging_span_put(agent, &span);
}

/* A word a lane: what the lanes of a warp do together is one access. */
static int page_elements(struct paging_agent *agent, const struct pass *pass, uint64_t page,
			 uint64_t *sum)
{
	const struct touch_pages_args *a = pass->pages;
	const uint64_t first = touch_first(a->seed, page, a->times);
	uint64_t word[TOUCH_LANES];
	int err = 0;

	for (uint32_t j = 0; j < a->page_bytes / sizeof(*word) && !err; j += TOUCH_LANES) {
		uint64_t offset = page * a->page_bytes + j * sizeof(*word);

		if (a->access != TOUCH_WRITE)
			err = paging_read_n(agent, pass->range, offset, word, sizeof(word));
		for (uint32_t k = 0; k < TOUCH_LANES && !err; k++) {
			if (a->access == TOUCH_WRITE) {
				word[k] = first + (j + k) * TOUCH_STEP;
			} else {
				*sum += word[k];
				word[k] += TOUCH_TIMES;
			}
		}
		if (a->access != TOUCH_READ && !err)
			err = paging_write_n(agent, pass->range, offset, word, sizeof(word));
	}
	return err;
}

static int share_pages(struct paging_agent *agent, uint32_t first, uint32_t nr, void *arg)
{
	struct pass *pass = arg;
	const struct touch_pages_args *a = pass->pages;
	uint64_t sum = 0;
	int err = 0;

	for (uint64_t i = first; i < a->order.nr_touched && !err; i += nr) {
		uint64_t page = touch_page_at(&a->order, i);

		err = a->elements ? page_elements(agent, pass, page, &sum)
				  : page_span(agent, pass, page, &sum);
	}
	atomic_fetch_add(&pass->sum, sum);
	return err;
}

static void paged_pages_cpu(const void *p)
{
	const struct touch_paged_pages_args *a = p;
	struct pass pass = {.pages = &a->pages, .range = a->range};
	/* After each page, since few of them are many accesses; elements as agents usually do. */
	int err =
		agents_run(&a->view, !a->pages.elements, a->pages.shape.agents, share_pages, &pass);

	*a->pages.sum += pass.sum;
	if (err)
		*a->pages.shape.status = err;
}

/* ------------------------------------------------------------------ updates */

static int share_updates(struct paging_agent *agent, uint32_t first, uint32_t nr, void *arg)
{
	const struct touch_paged_updates_args *p = arg;
	const struct touch_updates_args *a = &p->updates;
	uint64_t old;
	int err = 0;

	for (uint64_t i = first; i < a->nr && !err; i += nr) {
		uint64_t update = touch_update(a->seed, i), word = update & (a->nr_words - 1);

		err = paging_add(agent, p->range, word * sizeof(word), sizeof(word), update, &old);
	}
	return err;
}

static void paged_updates_cpu(const void *p)
{
	struct touch_paged_updates_args a = *(const struct touch_paged_updates_args *)p;
	int err = agents_run(&a.view, 0, a.updates.shape.agents, share_updates, &a);

	if (err)
		*a.updates.shape.status = err;
}

const struct weir_kernel touch_kernel_paged_pages = {
	.name = "touch_paged_pages", .cpu = paged_pages_cpu, .cuda = touch_cuda_run_paged_pages};
const struct weir_kernel touch_kernel_paged_updates = {.name = "touch_paged_updates",
						       .cpu = paged_updates_cpu,
						       .cuda = touch_cuda_run_paged_updates};
