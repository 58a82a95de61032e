/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels on the CPU, for a table that they page for themselves: agents, each of which takes
 * every nr-th page or update. With one agent everything happens in one order.
 */
#include <errno.h>
#include <pthread.h>

#include "src/paging/paging.h"
#include "workloads/touch/cuda.h"
#include "workloads/touch/touch.h"

struct share {
	struct paging *pool;
	const struct touch_pages_args *pages;	  /* or NULL */
	const struct touch_updates_args *updates; /* or NULL */
	uint64_t sum;
	uint32_t range;
	uint32_t first, nr; /* which of how many shares it is */
	int err;
};

/* ------------------------------------------------------------------ pages */

static int page_span(struct paging_agent *agent, struct share *s, uint64_t page)
{
	const struct touch_pages_args *a = s->pages;
	uint64_t value = touch_first(a->seed, page, a->times);
	unsigned int flags = a->access == TOUCH_READ ? 0 : PAGING_WRITE;
	struct paging_span span;
	uint64_t *word;
	int err = paging_span_get(agent, s->range, page * a->page_bytes, flags, &span);

	if (err)
		return err;
	word = span.addr;
	for (uint32_t j = 0; j < a->page_bytes / sizeof(*word); j++) {
		if (a->access != TOUCH_WRITE)
			s->sum += word[j];
		if (a->access == TOUCH_BOTH)
			word[j] += TOUCH_TIMES;
		else if (a->access == TOUCH_WRITE)
			word[j] = value + j * TOUCH_STEP;
	}
	return paging_span_put(agent, &span);
}

/* A word that is read and changed is one access. */
static int page_elements(struct paging_agent *agent, struct share *s, uint64_t page)
{
	const struct touch_pages_args *a = s->pages;
	uint64_t value = touch_first(a->seed, page, a->times);
	int err = 0;

	for (uint32_t j = 0; j < a->page_bytes / sizeof(value) && !err; j++) {
		uint64_t offset = page * a->page_bytes + j * sizeof(value), word = 0;

		if (a->access == TOUCH_BOTH) {
			err = paging_add(agent, s->range, offset, sizeof(word), TOUCH_TIMES, &word);
		} else if (a->access == TOUCH_READ) {
			err = paging_read(agent, s->range, offset, &word, sizeof(word));
		} else {
			uint64_t new = value + j *TOUCH_STEP;

			err = paging_write(agent, s->range, offset, &new, sizeof(new));
		}
		s->sum += word;
	}
	return err;
}

static int share_pages(struct paging_agent *agent, struct share *s)
{
	const struct touch_pages_args *a = s->pages;
	int err = 0;

	for (uint64_t i = s->first; i < a->order.nr_touched && !err; i += s->nr) {
		uint64_t page = touch_page_at(&a->order, i);

		err = a->elements ? page_elements(agent, s, page) : page_span(agent, s, page);
	}
	return err;
}

/* ------------------------------------------------------------------ updates */

static int share_updates(struct paging_agent *agent, const struct share *s)
{
	const struct touch_updates_args *a = s->updates;
	uint64_t old;
	int err = 0;

	for (uint64_t i = s->first; i < a->nr && !err; i += s->nr) {
		uint64_t update = touch_update(a->seed, i), word = update & (a->nr_words - 1);

		err = paging_add(agent, s->range, word * sizeof(word), sizeof(word), update, &old);
	}
	return err;
}

/* ------------------------------------------------------------------ agents */

static void *share_run(void *arg)
{
	struct share *s = arg;
	struct paging_agent *agent;

	s->err = paging_enter(s->pool, &agent);
	if (s->err)
		return NULL;
	s->err = s->pages ? share_pages(agent, s) : share_updates(agent, s);
	if (s->err)
		paging_abandon(agent);
	else
		s->err = paging_leave(agent);
	return NULL;
}

/* All shares; the first on this thread. A thread that does not start has its share done here. */
static int shares_run(const struct weir_paged_view *view, struct share all, uint32_t nr,
		      uint64_t *sum)
{
	struct share share[TOUCH_AGENTS_MAX];
	pthread_t thread[TOUCH_AGENTS_MAX];
	bool started[TOUCH_AGENTS_MAX] = {false};
	/* After each page, since few of them are many accesses; elements as agents usually do. */
	int err = paging_over(view, all.pages && !all.pages->elements, &all.pool);

	if (err)
		return err;
	for (uint32_t i = 0; i < nr; i++) {
		share[i] = all;
		share[i].first = i;
		share[i].nr = nr;
		started[i] = i && !pthread_create(&thread[i], NULL, share_run, &share[i]);
	}
	for (uint32_t i = 0; i < nr; i++)
		if (!started[i])
			share_run(&share[i]);
	for (uint32_t i = 0; i < nr; i++) {
		if (started[i])
			pthread_join(thread[i], NULL);
		*sum += share[i].sum;
		err = err ? err : share[i].err;
	}
	paging_destroy(all.pool);
	return err;
}

static void paged_pages_cpu(const void *p)
{
	const struct touch_paged_pages_args *a = p;
	const struct share all = {.range = a->range, .pages = &a->pages};
	uint64_t sum = 0;
	int err = shares_run(&a->view, all, a->pages.shape.agents, &sum);

	*a->pages.sum += sum;
	if (err)
		*a->pages.shape.status = err;
}

static void paged_updates_cpu(const void *p)
{
	const struct touch_paged_updates_args *a = p;
	const struct share all = {.range = a->range, .updates = &a->updates};
	uint64_t sum = 0;
	int err = shares_run(&a->view, all, a->updates.shape.agents, &sum);

	if (err)
		*a->updates.shape.status = err;
}

const struct weir_kernel touch_kernel_paged_pages = {
	.name = "touch_paged_pages", .cpu = paged_pages_cpu, .cuda = touch_cuda_run_paged_pages};
const struct weir_kernel touch_kernel_paged_updates = {.name = "touch_paged_updates",
						       .cpu = paged_updates_cpu,
						       .cuda = touch_cuda_run_paged_updates};
