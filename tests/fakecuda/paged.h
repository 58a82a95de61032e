/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels over a pool of paged memory for the fake driver: how they are queued with what they
 * touch, and the pool's own (struct weir_paged_kernels), which are the CPU's.
 */
#ifndef WEIR_FAKECUDA_PAGED_H
#define WEIR_FAKECUDA_PAGED_H

#include <errno.h>

#include "src/paging/view.h"
#include "tests/fakecuda/fakecuda.h"
#include "weir/paged.h"

#define FAKE_VIEW_TOUCHES (4 + 2 * WEIR_PAGED_RANGES_MAX)
#define FAKE_OWN_TOUCHES 16

/* What a kernel over a view touches: all words up to the last frame's, frames, ranges. Counts are
 * said to be read: the host may look at them while kernels add to them. */
static inline unsigned fake_view_touches(const struct weir_paged_view *v,
					 struct fakecuda_touch *touch)
{
	const struct pt_table *t = &v->table;
	char *begin = (char *)t->shared, *end = (char *)(t->owner + t->nr_frames);
	char *counts = (char *)v->counts;
	char *counted = (char *)(v->counts + WEIR_PAGED_STATS_NR * WEIR_PAGED_RANGES_MAX);
	unsigned nr = 0;

	touch[nr++] = (struct fakecuda_touch){begin, (size_t)(counts - begin), true};
	touch[nr++] = (struct fakecuda_touch){counts, (size_t)(counted - counts), false};
	touch[nr++] = (struct fakecuda_touch){counted, (size_t)(end - counted), true};
	touch[nr++] = (struct fakecuda_touch){v->frames, t->nr_frames << v->page_shift, true};
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		const struct pt_range *range = &v->range[i];

		if (!range->nr_pages)
			continue;
		touch[nr++] = (struct fakecuda_touch){range->entry, range->nr_pages * 8, true};
		touch[nr++] = (struct fakecuda_touch){range->host, range->bytes, true};
	}
	return nr;
}

/* Queue a function with a copy of its arguments, which touches up to FAKE_OWN_TOUCHES other places
 * too. 0 or -EIO. */
static inline int fake_view_queue_also(void *stream, void (*fn)(const void *), const void *args,
				       size_t bytes, const struct weir_paged_view *v,
				       const struct fakecuda_touch *own, unsigned nr_own)
{
	struct fakecuda_touch touch[FAKE_VIEW_TOUCHES + FAKE_OWN_TOUCHES];
	unsigned nr = fake_view_touches(v, touch);

	for (unsigned i = 0; i < nr_own; i++)
		touch[nr++] = own[i];
	return fakecuda_launch(stream, fn, args, bytes, touch, nr) ? -EIO : 0;
}

static inline int fake_view_queue(void *stream, void (*fn)(const void *), const void *args,
				  size_t bytes, const struct weir_paged_view *v)
{
	return fake_view_queue_also(stream, fn, args, bytes, v, NULL, 0);
}

struct fake_home {
	struct weir_paged_view view;
	struct weir_paged_left *left;
	int evict;
};

static inline void fake_home_fn(const void *args)
{
	const struct fake_home *home = args;

	view_home(&home->view, home->evict);
}

static inline void fake_settle_fn(const void *args)
{
	const struct fake_home *home = args;

	view_settle(&home->view, home->left);
}

static inline int fake_home(void *stream, const struct weir_paged_view *view, int evict)
{
	const struct fake_home args = {.view = *view, .evict = evict};

	return fake_view_queue(stream, fake_home_fn, &args, sizeof(args), view);
}

static inline int fake_settle(void *stream, const struct weir_paged_view *view,
			      struct weir_paged_left *left)
{
	const struct fake_home args = {.view = *view, .left = left};

	return fake_view_queue(stream, fake_settle_fn, &args, sizeof(args), view);
}

#endif
