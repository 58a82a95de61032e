/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of managed memory a launch touches, and in which order. Time within the launch is
 * its progress, from 0 to 1.
 *
 *  - A streaming use comes to its blocks in order, evenly over the progress. Its threads wait for
 *    one page at a time, so that each of its faults is a batch of its own.
 *  - A random use is everywhere at once. With r expected touches of each block, it comes to every
 *    block r times, evenly over the progress; below 1 it comes once, to the expected number of
 *    distinct blocks. In each it touches the expected number of distinct pages. Threads that wait
 *    for one block do not keep others from going on to the next: its faults fill batches, one
 *    fault a block and batch.
 *
 * So a block that a random use needs again, and that was evicted to make room, comes in again in
 * the same launch, and evicts others. A launch ends however little memory there is: of the blocks
 * that a batch brings, each is touched, even if others of the same batch evict it.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/hash.h"
#include "src/base/util.h"
#include "src/policy/policy.h"

/* What a use touches of its range, and how far it is. */
struct visit {
	struct uvm_range *range;
	uint32_t first_page, last_page; /* of the range */
	uint32_t first, last;		/* blocks */
	bool write, random;
	double at;	    /* progress at which it next looks for what is missing; >= 1: done */
	uint32_t next;	    /* streaming: the next block */
	double step;	    /* random: progress between two looks */
	double block_share; /* random: of the blocks that are touched at all */
	uint32_t pages;	    /* random: touched in each of them */
};

/* Faults on one block that are still to come. */
struct pending {
	struct uvm_block *block;
	uint32_t page; /* streaming: the next page to look at; random: its ordinal */
	bool came;     /* a fault has brought part of it to the device */
};

/* A launch. */
struct touch {
	struct uvm_batch batch;
	struct pending *pending; /* batch_faults of them */
	uint32_t nr_visits;
	struct visit visit[];
};

/* ------------------------------------------------------------------ visits */

/* Pages, or blocks, of span bytes that one piece of granule bytes touches on average. */
static double spans_of_piece(uint64_t granule, uint64_t span)
{
	uint64_t align = granule & (~granule + 1);

	if (align > span)
		align = span;
	return (double)(granule + span - align) / (double)span;
}

static void visit_set_random(struct visit *visit, const struct weir_use *use)
{
	uint64_t granule = use->granule ? use->granule : sizeof(float);
	uint64_t bytes = MAX(use->read_bytes, use->write_bytes);
	double pieces = (double)bytes / (double)granule, of = (double)use->bytes;
	double touches =
		pieces * spans_of_piece(granule, UVM_BLOCK_BYTES) * (double)UVM_BLOCK_BYTES / of;
	double page_touches =
		pieces * spans_of_piece(granule, UVM_PAGE_BYTES) * (double)UVM_PAGE_BYTES / of;
	double pages;

	visit->random = true;
	visit->step = touches > 1 ? 1 / touches : 1;
	visit->block_share = 1 - exp(-touches);
	pages = visit->block_share > 0 ? UVM_PAGES * (1 - exp(-page_touches)) / visit->block_share
				       : 0;
	visit->pages = pages < 1 ? 1 : pages > UVM_PAGES ? UVM_PAGES : (uint32_t)(pages + 0.5);
}

static struct visit visit_of(struct uvm_range *range, const struct weir_use *use)
{
	uint64_t begin = (uint64_t)((const char *)use->addr - range->base);
	struct visit visit = {
		.range = range,
		.first_page = (uint32_t)(begin / UVM_PAGE_BYTES),
		.last_page = (uint32_t)((begin + use->bytes - 1) / UVM_PAGE_BYTES),
		.write = use_writes(use),
	};

	visit.first = visit.first_page / UVM_PAGES;
	visit.last = visit.last_page / UVM_PAGES;
	visit.next = visit.first;
	if (use->pattern == WEIR_RANDOM)
		visit_set_random(&visit, use);
	return visit;
}

/* Pages of a block that a visit may touch: [*first, *last]. */
static void visit_pages(const struct visit *visit, uint32_t index, uint32_t *first, uint32_t *last)
{
	*first = index == visit->first ? visit->first_page % UVM_PAGES : 0;
	*last = index == visit->last ? visit->last_page % UVM_PAGES
				     : visit->range->block[index].nr_pages - 1;
}

/* Whether a random visit comes to a block at all: spread evenly, and the same in every run. */
static bool visit_comes_to(const struct visit *visit, uint32_t index)
{
	if (!visit->random || visit->block_share > 1 - 1e-9)
		return true;
	return (double)(hash_mix(hash_mix(0, index + 1), 2) >> 11) * 0x1p-53 < visit->block_share;
}

/* The next page of a pending block that a visit touches and that the device cannot use; false: it
 * can use them all. */
static bool pending_page(const struct visit *visit, uint32_t device, struct pending *pending,
			 uint32_t *page)
{
	const struct uvm_block *block = pending->block;
	const struct uvm_pages there = uvm_usable(block, device, visit->write);
	uint32_t first, last;

	visit_pages(visit, block->index, &first, &last);
	if (!visit->random) {
		*page = uvm_pages_next_missing(&there, MAX(pending->page, first));
		pending->page = *page;
		return *page <= last;
	}
	for (; pending->page < visit->pages; pending->page++) {
		*page = uvm_random_page(pending->page);
		if (*page >= first && *page <= last && !uvm_pages_has(&there, *page))
			return true;
	}
	return false;
}

/* The first block from index on that must be looked at; last + 1: none. */
static uint32_t next_away(const struct touch *touch, const struct visit *visit, uint32_t index)
{
	bool alone = touch->batch.sim->base.desc.nr_devices == 1;
	const struct uvm_range *range = visit->range;

	while (index <= visit->last) {
		uint64_t word = range->away[index / 64] >> index % 64;

		if (word & 1 || (!alone && range->block[index].device != touch->batch.device))
			return index;
		if (!alone)
			index++;
		else
			index += word ? (uint32_t)__builtin_ctzll(word) : 64 - index % 64;
	}
	return visit->last + 1;
}

/* Find the first block from index on that a visit finds something missing of; false: none. */
static bool visit_find(const struct touch *touch, const struct visit *visit, uint32_t index,
		       struct pending *out)
{
	uint32_t page;

	for (index = next_away(touch, visit, index); index <= visit->last;
	     index = next_away(touch, visit, index + 1)) {
		*out = (struct pending){.block = &visit->range->block[index]};
		if (visit_comes_to(visit, index) &&
		    pending_page(visit, touch->batch.device, out, &page))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ service */

/*
 * Service what is pending to its end: a batch has one fault of each block. Where memory holds fewer
 * blocks than are pending, they evict one another. One that came and went has been touched: what
 * else of it is missing waits until the visit next comes by.
 */
static int service(struct touch *touch, const struct visit *visit, uint32_t nr)
{
	const uint32_t device = touch->batch.device;
	uint32_t nr_faults, page;
	int err;

	do {
		if (touch->batch.sim->stop && touch->batch.sim->stop())
			return -EINTR;
		nr_faults = 0;
		for (uint32_t i = 0; i < nr; i++) {
			struct pending *pending = &touch->pending[i];

			if (pending->came && pending->block->device != device)
				continue;
			if (!pending_page(visit, device, pending, &page))
				continue;
			err = uvm_fault(&touch->batch, pending->block, page, visit->write);
			if (err)
				return err;
			pending->came = pending->block->device == device;
			nr_faults++;
		}
		uvm_batch_end(&touch->batch);
	} while (nr_faults);
	return 0;
}

/* A streaming visit's next block. */
static int visit_stream(struct touch *touch, struct visit *visit)
{
	touch->pending[0] = (struct pending){.block = &visit->range->block[visit->next]};
	visit->next++;
	return service(touch, visit, 1);
}

/* All of a random visit's blocks, as they are missing now. */
static int visit_everywhere(struct touch *touch, struct visit *visit)
{
	uint32_t room = touch->batch.sim->base.desc.uvm.batch_faults, nr = 0;
	uint32_t index = visit->first;
	int err;

	while (visit_find(touch, visit, index, &touch->pending[nr])) {
		index = touch->pending[nr].block->index + 1;
		if (++nr < room)
			continue;
		err = service(touch, visit, nr);
		if (err)
			return err;
		nr = 0;
	}
	visit->at += visit->step;
	return service(touch, visit, nr);
}

/* When a visit next finds something missing, not before now; >= 1: not any more. */
static double visit_due(const struct touch *touch, struct visit *visit, double now)
{
	uint32_t nr = visit->last - visit->first + 1, passed;
	struct pending found;

	if (visit->random) {
		if (visit->at < now)
			visit->at = now;
		return visit->at < 1 && visit_find(touch, visit, visit->first, &found) ? visit->at
										       : 1;
	}
	/* What it has come past may be evicted, and does not matter to it. What it comes to just
	 * now it has not passed, however that was rounded. */
	passed = visit->first + (uint32_t)ceil(fmax(now * nr - 1e-6, 0));
	if (visit->next < passed)
		visit->next = passed;
	if (!visit_find(touch, visit, visit->next, &found))
		return 1;
	visit->next = found.block->index;
	return (double)(visit->next - visit->first) / nr;
}

/* Let the launch run to its end. */
static int touch_run(struct touch *touch)
{
	double now = 0;

	for (;;) {
		uint32_t next = touch->nr_visits;
		struct visit *visit;
		double due = 1;
		int err;

		for (uint32_t i = 0; i < touch->nr_visits; i++) {
			double at = visit_due(touch, &touch->visit[i], now);

			if (at < due) {
				due = at;
				next = i;
			}
		}
		if (next == touch->nr_visits)
			return 0;
		now = due;
		visit = &touch->visit[next];
		err = visit->random ? visit_everywhere(touch, visit) : visit_stream(touch, visit);
		if (err)
			return err;
	}
}

/* What policies see of a launch: as it starts, each block that it is to touch is used. */
static void touch_note(const struct touch *touch)
{
	struct sim *sim = touch->batch.sim;
	const struct policy_future *future = sim->uvm.policy->future;

	sim->uvm.nr_steps++;
	if (future)
		future->begin(future->arg);
	for (uint32_t i = 0; i < touch->nr_visits; i++) {
		const struct visit *visit = &touch->visit[i];

		for (uint32_t k = visit->first; k <= visit->last; k++)
			if (visit_comes_to(visit, k))
				uvm_note_use(sim, &visit->range->block[k]);
	}
}

int uvm_touch(struct sim *sim, uint32_t device, const struct weir_use *uses, uint32_t nr_uses,
	      struct uvm_cost *cost)
{
	struct touch *touch = calloc(1, sizeof(*touch) + nr_uses * sizeof(touch->visit[0]));
	int err = -ENOMEM;

	if (!touch)
		return err;
	touch->pending = calloc(sim->base.desc.uvm.batch_faults, sizeof(*touch->pending));
	if (!touch->pending)
		goto out_free;
	touch->batch = (struct uvm_batch){.sim = sim, .device = device, .cost = cost};
	for (uint32_t i = 0; i < nr_uses; i++) {
		struct uvm_range *range = uvm_range_at(sim, uses[i].addr);

		if (range && use_reads(&uses[i]))
			touch->visit[touch->nr_visits++] = visit_of(range, &uses[i]);
	}
	if (sim->uvm.policy)
		touch_note(touch);
	err = touch_run(touch);
	if (sim->uvm.policy && sim->uvm.policy->future)
		sim->uvm.policy->future->end(sim->uvm.policy->future->arg);
	free(touch->pending);
out_free:
	free(touch);
	return err;
}
