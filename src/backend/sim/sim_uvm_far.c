/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks that are used again latest, for a policy that chooses by it: a heap of a device's
 * blocks by the step of their next use. That step stays what it is until it is over, or until the
 * block's range is known to the future at all: a range that is being allocated is not used again so
 * far. So entries are looked through once a step for those that are over, and the few that are
 * found are held against the future before they are believed.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/util.h"
#include "src/policy/policy.h"

static const struct policy_future *future_of(const struct sim *sim)
{
	return sim->uvm.policy ? sim->uvm.policy->future : NULL;
}

uint64_t uvm_next_use(const struct sim *sim, const struct uvm_block *block)
{
	const struct policy_future *future = future_of(sim);
	const char *addr = block->range->base + block->index * UVM_BLOCK_BYTES;

	return future ? future->next_use(future->arg, addr, block->nr_pages * UVM_PAGE_BYTES) : 0;
}

/* As struct uvm_far_entry has it. */
static uint64_t next_step(const struct sim *sim, const struct uvm_block *block)
{
	const struct policy_future *future = future_of(sim);
	uint64_t steps = uvm_next_use(sim, block);

	if (!future)
		return 0;
	return steps == WEIR_POLICY_NEVER ? UINT64_MAX : future->now(future->arg) + steps + 1;
}

/* ------------------------------------------------------------------ the heap */

static bool is_farther(const struct uvm_far_entry *a, const struct uvm_far_entry *b)
{
	return a->next != b->next ? a->next > b->next : a->order < b->order;
}

static uint32_t *place_of(const struct uvm_block *block)
{
	return &block->range->note->block[block->index].far;
}

static void put(struct uvm_far *far, uint32_t at, struct uvm_far_entry entry)
{
	far->entry[at] = entry;
	*place_of(entry.block) = at + 1;
}

/* Take an entry from a place to where it belongs above it. @return where that is. */
static uint32_t move_up(struct uvm_far *far, uint32_t at)
{
	const struct uvm_far_entry entry = far->entry[at];

	for (; at > 0 && is_farther(&entry, &far->entry[(at - 1) / 2]); at = (at - 1) / 2)
		put(far, at, far->entry[(at - 1) / 2]);
	put(far, at, entry);
	return at;
}

static void move_down(struct uvm_far *far, uint32_t at)
{
	const struct uvm_far_entry entry = far->entry[at];

	for (uint32_t child; (child = 2 * at + 1) < far->nr; at = child) {
		if (child + 1 < far->nr && is_farther(&far->entry[child + 1], &far->entry[child]))
			child++;
		if (!is_farther(&far->entry[child], &entry))
			break;
		put(far, at, far->entry[child]);
	}
	put(far, at, entry);
}

int uvm_far_reserve(struct uvm *uvm, uint32_t nr_devices, uint32_t nr_blocks)
{
	uint64_t nr = nr_blocks;

	if (!uvm->policy->future)
		return 0;
	for (size_t i = 0; i < uvm->nr_ranges; i++)
		nr += uvm->range[i]->nr_blocks;
	for (uint32_t d = 0; d < nr_devices; d++) {
		struct uvm_far *far = &uvm->device[d].far;
		struct uvm_far_entry *more;

		if (nr <= far->max)
			continue;
		more = nr <= UINT32_MAX / 2 ? reallocarray(far->entry, 2 * nr, sizeof(*more))
					    : NULL;
		if (!more)
			return -ENOMEM;
		far->entry = more;
		far->max = (uint32_t)(2 * nr);
	}
	return 0;
}

void uvm_far_fini(struct uvm_far *far)
{
	free(far->entry);
}

void uvm_far_add(struct sim *sim, uint32_t device, struct uvm_block *block)
{
	struct uvm_far *far = &sim->uvm.device[device].far;

	if (!block->range->note || far->nr == far->max)
		return;
	far->entry[far->nr] = (struct uvm_far_entry){
		.next = next_step(sim, block), .order = far->nr_orders++, .block = block};
	(void)move_up(far, far->nr++);
}

void uvm_far_del(struct uvm_device *device, struct uvm_block *block)
{
	struct uvm_far *far = &device->far;
	uint32_t at;

	if (!block->range->note || !*place_of(block))
		return;
	at = *place_of(block) - 1;
	*place_of(block) = 0;
	far->nr--;
	if (at == far->nr)
		return;
	far->entry[at] = far->entry[far->nr];
	move_down(far, move_up(far, at));
}

/* ------------------------------------------------------------------ finding */

/* Bring entries up to date whose step is over. What is above an entry was looked at before. */
static void look_through(const struct sim *sim, struct uvm_far *far, uint64_t now)
{
	if (far->now == now)
		return;
	far->now = now;
	for (uint32_t at = 0; at < far->nr; at++) {
		struct uvm_far_entry *entry = &far->entry[at];

		if (entry->next > now)
			continue;
		entry->next = next_step(sim, entry->block);
		(void)move_up(far, at);
	}
}

/* The first entries of a heap are below one another: the next one is always a child of one that
 * was taken. */
static uint32_t find_first(const struct uvm_far *far, const struct uvm_block *held,
			   struct uvm_block **out)
{
	uint32_t open[WEIR_POLICY_FAR + 2] = {0}, nr_open = far->nr > 0, nr = 0;

	while (nr_open && nr < WEIR_POLICY_FAR) {
		uint32_t best = 0, at;

		for (uint32_t i = 1; i < nr_open; i++)
			if (is_farther(&far->entry[open[i]], &far->entry[open[best]]))
				best = i;
		at = open[best];
		open[best] = open[--nr_open];
		if (far->entry[at].block != held)
			out[nr++] = far->entry[at].block;
		for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < far->nr; child++)
			open[nr_open++] = child;
	}
	return nr;
}

/* Whether all entries that were found are as the future has them; those that are not are now. */
static bool are_right(const struct sim *sim, struct uvm_far *far, struct uvm_block *const *found,
		      uint32_t nr)
{
	bool right = true;

	for (uint32_t n = 0; n < nr; n++) {
		uint32_t at = *place_of(found[n]) - 1;
		uint64_t next = next_step(sim, found[n]);

		if (far->entry[at].next == next)
			continue;
		right = false;
		far->entry[at].next = next;
		move_down(far, move_up(far, at));
	}
	return right;
}

uint32_t uvm_far_find(struct sim *sim, uint32_t device, struct uvm_block **out)
{
	const struct policy_future *future = future_of(sim);
	struct uvm_device *own = &sim->uvm.device[device];
	uint32_t nr;

	if (!future)
		return 0;
	look_through(sim, &own->far, future->now(future->arg));
	do
		nr = find_first(&own->far, own->held, out);
	while (!are_right(sim, &own->far, out, nr));
	return nr;
}
