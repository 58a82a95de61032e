/* SPDX-License-Identifier: Apache-2.0 */
/* What the table contains, before, after, and what kernels make of it; see internal.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "workloads/touch/internal.h"

static uint64_t page_words(const struct touch *t)
{
	return t->p->page_bytes / sizeof(uint64_t);
}

uint64_t touch_order_sum(const struct touch_order *order, uint64_t nr, uint64_t seed,
			 uint64_t times)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < order->nr_touched; i++)
		sum += touch_first(seed, touch_page_at(order, i), times);
	return sum * nr + order->nr_touched * (nr * (nr - 1) / 2) * TOUCH_STEP;
}

uint64_t touch_sum(const struct touch *t)
{
	if (t->p->access == TOUCH_WRITE)
		return 0;
	return touch_order_sum(&t->order, page_words(t), t->p->seed, t->times);
}

/* ------------------------------------------------------------------ the whole table */

/* Odd, so that no difference of one word is lost. */
static uint64_t weight(uint64_t index)
{
	return touch_mix(index + 1) | 1;
}

/* Sum of words, each times its weight, of a table that was updated t->times times. */
static uint64_t weighed_updates(const struct touch *t)
{
	const struct touch_params *p = t->p;
	uint64_t mask = p->bytes / sizeof(uint64_t) - 1, sum = 0;

	for (uint64_t i = 0; i < p->updates; i++) {
		uint64_t update = touch_update(p->seed, i);

		sum += update * weight(update & mask);
	}
	return sum * t->times;
}

/* Hold a page to what it was before the first pass, in *sum, or word by word. */
static bool page_right(const struct touch *t, uint64_t page, const uint64_t *word, uint64_t *sum,
		       char *wrong, size_t wrong_bytes)
{
	bool updates = t->p->kind == TOUCH_GUPS;
	uint64_t value = touch_first(t->p->seed, page, updates ? 0 : t->times);

	for (uint64_t j = 0; j < page_words(t); j++) {
		uint64_t want = value + j * TOUCH_STEP;

		if (updates) {
			*sum += (word[j] - want) * weight(page * page_words(t) + j);
		} else if (word[j] != want) {
			snprintf(wrong, wrong_bytes,
				 "word %llu of page %llu is %016llx and not %016llx",
				 (unsigned long long)j, (unsigned long long)page,
				 (unsigned long long)word[j], (unsigned long long)want);
			return false;
		}
	}
	return true;
}

bool touch_check(struct touch *t, char *wrong, size_t wrong_bytes)
{
	uint64_t nr_pages = t->buffer_bytes / t->p->page_bytes, sum = 0;

	for (uint64_t page = 0; page < t->order.nr; page += nr_pages) {
		uint64_t nr = t->order.nr - page < nr_pages ? t->order.nr - page : nr_pages;
		int err = t->m->ops->read(t->m, t->buffer, t->words + page * page_words(t),
					  nr * t->p->page_bytes);

		if (err) {
			touch_fail(t, err, "reading the table failed: %s", weir_strerror(err));
			return false;
		}
		for (uint64_t i = 0; i < nr; i++)
			if (!page_right(t, page + i, t->buffer + i * page_words(t), &sum, wrong,
					wrong_bytes))
				return false;
	}
	if (t->p->kind != TOUCH_GUPS || sum == weighed_updates(t))
		return true;
	snprintf(wrong, wrong_bytes,
		 "the weighed sum of the table differs from that of its updates");
	return false;
}

int touch_distinct(const struct touch_params *p, uint64_t *out)
{
	uint64_t nr_words = p->bytes / sizeof(uint64_t), nr = 0;
	uint8_t *seen = calloc(1, nr_words / 8 + 1);

	if (!seen)
		return -ENOMEM;
	for (uint64_t i = 0; i < p->updates; i++) {
		uint64_t word = touch_update(p->seed, i) & (nr_words - 1);

		nr += !(seen[word / 8] >> word % 8 & 1);
		seen[word / 8] |= (uint8_t)(1u << word % 8);
	}
	free(seen);
	*out = nr;
	return 0;
}
