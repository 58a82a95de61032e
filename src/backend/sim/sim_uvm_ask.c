/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy's place in managed memory: what it sees of ranges and blocks, which is noted only while
 * one is set, and its two questions. What it answers is carried out in sim_uvm_move.c.
 *
 * Contexts are copies; of what a policy leaves in them, words go back to the notes. A window of
 * candidates may show one range several times: what the policy changed last there counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/util.h"
#include "src/policy/policy.h"

_Static_assert(UVM_PAGES == WEIR_POLICY_PAGES && UVM_LEVELS == WEIR_POLICY_LEVELS,
	       "a policy sees a block as it is");

static struct uvm_block_note *note_of(const struct uvm_block *block)
{
	return &block->range->note->block[block->index];
}

/* ------------------------------------------------------------------ notes */

/* The lowest number that no range has. */
static uint32_t free_number(const struct uvm *uvm)
{
	uint32_t number = 0;

	for (size_t i = 0; i < uvm->nr_ranges; i++)
		if (uvm->range[i]->note->number == number) {
			number++;
			i = (size_t)-1;
		}
	return number;
}

int uvm_note_create(struct sim *sim, struct uvm_range *range)
{
	struct uvm_note *note;

	if (!sim->uvm.policy)
		return 0;
	if (uvm_far_reserve(&sim->uvm, sim->base.desc.nr_devices, range->nr_blocks))
		return -ENOMEM;
	note = calloc(1, sizeof(*note) + range->nr_blocks * sizeof(note->block[0]));
	if (!note)
		return -ENOMEM;
	note->number = free_number(&sim->uvm);
	note->last_block = note->last_page = WEIR_POLICY_UNKNOWN;
	range->note = note;
	return 0;
}

void uvm_note_use(const struct sim *sim, struct uvm_block *block)
{
	struct uvm_block_note *note = note_of(block);

	if (note->used == sim->uvm.nr_steps)
		return;
	note->used = sim->uvm.nr_steps;
	note->uses++;
}

static void tell_moved(struct sim *sim, struct uvm_block *block, bool came, enum weir_cause cause)
{
	struct uvm_note *range = block->range->note;
	struct uvm_block_note *note = note_of(block);
	struct weir_policy_moved q = {
		.range_word = {range->word[0], range->word[1]},
		.block_word = {note->word[0], note->word[1]},
		.now = sim->uvm.nr_steps,
		.uses = came ? 0 : note->uses,
		.range = range->number,
		.block = block->index,
		.nr_blocks = block->range->nr_blocks,
		.nr_resident = range->nr_resident,
		.came = came,
		.cause = cause,
	};

	if (!policy_has(sim->uvm.policy, POLICY_MOVED))
		return;
	policy_moved(sim->uvm.policy, &q);
	memcpy(range->word, q.range_word, sizeof(range->word));
	memcpy(note->word, q.block_word, sizeof(note->word));
}

void uvm_note_came(struct sim *sim, struct uvm_block *block, bool is_new, enum weir_cause cause)
{
	struct uvm_block_note *note;

	if (!block->range->note)
		return;
	note = note_of(block);
	note->arrived = sim->uvm.nr_steps;
	if (!is_new)
		return;
	/* The step that it comes for is a use already. */
	note->uses = note->used && note->used == sim->uvm.nr_steps;
	note->nr_faults = 0;
	block->range->note->nr_resident++;
	tell_moved(sim, block, true, cause);
}

void uvm_note_left(struct sim *sim, struct uvm_block *block, enum weir_cause cause)
{
	if (!block->range->note)
		return;
	block->range->note->nr_resident--;
	tell_moved(sim, block, false, cause);
}

/* ------------------------------------------------------------------ faults */

static uint32_t free_blocks(const struct sim *sim, uint32_t device)
{
	const struct uvm_device *own = &sim->uvm.device[device];
	uint32_t memory = sim->base.desc.device[device].memory;
	uint64_t bytes = sim->base.desc.memory[memory].bytes - sim->memory[memory].used_bytes;

	return (uint32_t)(MIN(bytes, own->limit_bytes - own->chunk_bytes) / UVM_BLOCK_BYTES);
}

static void fill_fault(const struct sim *sim, const struct uvm_block *block, uint32_t page,
		       bool write, struct weir_policy_fault *q)
{
	const struct uvm_note *range = block->range->note;
	const struct uvm_block_note *note = note_of(block);

	*q = (struct weir_policy_fault){
		.range_word = {range->word[0], range->word[1]},
		.block_word = {note->word[0], note->word[1]},
		.now = sim->uvm.nr_steps,
		.range = range->number,
		.block = block->index,
		.nr_blocks = block->range->nr_blocks,
		.page = page,
		.nr_pages = block->nr_pages,
		.last_block = range->last_block,
		.last_page = range->last_page,
		.write = write,
		.free_blocks = free_blocks(sim, block->device),
		.threshold = sim->uvm.device[block->device].threshold,
	};
	memcpy(q->resident, block->gpu.word, sizeof(q->resident));
	uvm_tree_levels(&block->gpu, page, block->nr_pages, q->level);
}

bool uvm_ask_fault(struct sim *sim, struct uvm_block *block, uint32_t page, bool write,
		   struct uvm_pages *region, int32_t *more)
{
	const struct uvm_advice *advice = uvm_advice_of(block);
	struct uvm_note *range = block->range->note;
	struct uvm_pages all, own = uvm_pages_range(page, 1);
	struct weir_policy_fault q;
	bool answered = false;

	if (!range)
		return false;
	note_of(block)->nr_faults++;
	/* Where a preferred memory says what comes, nothing is asked. */
	if (policy_has(sim->uvm.policy, POLICY_FAULT) &&
	    (!advice || advice->preferred == UVM_NOWHERE)) {
		fill_fault(sim, block, page, write, &q);
		answered = policy_fault(sim->uvm.policy, &q);
		memcpy(range->word, q.range_word, sizeof(range->word));
		memcpy(note_of(block)->word, q.block_word, sizeof(q.block_word));
	}
	range->last_block = block->index;
	range->last_page = page;
	if (!answered)
		return false;
	all = uvm_pages_range(0, block->nr_pages);
	memcpy(region->word, q.bring, sizeof(region->word));
	*region = uvm_pages_and(region, &all);
	*region = uvm_pages_or(region, &own);
	*more = q.more;
	return true;
}

/* ------------------------------------------------------------------ evictions */

/* A victim that is being asked for: the window of candidates that is shown. */
struct asking {
	struct sim *sim;
	const struct uvm_block *held;
	struct uvm_block *next; /* in the list: the first one that no window has shown */
	uint32_t window, nr;
	struct uvm_block *block[WEIR_POLICY_CANDIDATES];
	uint64_t range_word[WEIR_POLICY_CANDIDATES][2]; /* as they were shown */
	struct uvm_block *far[WEIR_POLICY_FAR];
};

static struct uvm_block *skip_held(struct uvm_block *block, const struct uvm_block *held)
{
	return block && block == held ? block->newer : block;
}

static void fill_candidate(const struct sim *sim, const struct uvm_block *block,
			   struct weir_policy_candidate *out)
{
	const struct uvm_note *range = block->range->note;
	const struct uvm_block_note *note = note_of(block);
	struct uvm_pages twice;

	out->range_word[0] = range->word[0];
	out->range_word[1] = range->word[1];
	out->block_word[0] = note->word[0];
	out->block_word[1] = note->word[1];
	out->arrived_age = sim->uvm.nr_steps - note->arrived;
	out->used_age = sim->uvm.nr_steps - note->used;
	out->uses = note->uses;
	out->next_use = uvm_next_use(sim, block);
	out->range = range->number;
	out->block = block->index;
	out->nr_blocks = block->range->nr_blocks;
	out->nr_resident = out->nr_dirty = note->nr_pages;
	out->nr_faults = note->nr_faults;
	/* Only what was advised has pages here and on the host. */
	if (block->range->advice) {
		twice = uvm_pages_and(&block->gpu, &block->host);
		out->nr_dirty -= uvm_pages_count(&twice);
	}
}

/* Show the candidates that follow. */
static void show(struct asking *asking, struct weir_policy_victim *q)
{
	for (asking->nr = 0; asking->next && asking->nr < WEIR_POLICY_CANDIDATES; asking->nr++) {
		struct uvm_block *block = asking->next;

		fill_candidate(asking->sim, block, &q->candidate[asking->nr]);
		memcpy(asking->range_word[asking->nr], block->range->note->word,
		       sizeof(asking->range_word[0]));
		asking->block[asking->nr] = block;
		asking->next = skip_held(block->newer, asking->held);
	}
	q->nr = asking->nr;
}

/* Show those of all that are used again latest. */
static void show_far(struct asking *asking, uint32_t device, struct weir_policy_victim *q)
{
	q->nr_far = uvm_far_find(asking->sim, device, asking->far);
	for (uint32_t n = 0; n < q->nr_far; n++)
		fill_candidate(asking->sim, asking->far[n], &q->far[n]);
}

static void take_words(const struct asking *asking, const struct weir_policy_victim *q)
{
	for (uint32_t i = 0; i < asking->nr; i++) {
		const struct weir_policy_candidate *c = &q->candidate[i];
		uint64_t *word = asking->block[i]->range->note->word;

		memcpy(note_of(asking->block[i])->word, c->block_word, sizeof(c->block_word));
		for (int w = 0; w < 2; w++)
			if (c->range_word[w] != asking->range_word[i][w])
				word[w] = c->range_word[w];
	}
}

static bool next_window(void *arg, struct weir_policy_victim *q)
{
	struct asking *asking = arg;

	if (!asking->next)
		return false;
	take_words(asking, q);
	show(asking, q);
	q->window = ++asking->window;
	q->by_default = WEIR_POLICY_UNKNOWN;
	return true;
}

struct uvm_block *uvm_ask_victim(struct sim *sim, uint32_t device)
{
	const struct uvm_device *own = &sim->uvm.device[device];
	struct uvm_block *oldest = skip_held(own->oldest, own->held);
	struct asking asking = {.sim = sim, .held = own->held, .next = oldest};
	struct weir_policy_victim q = {.now = sim->uvm.nr_steps};
	bool answered;

	if (!oldest || !policy_has(sim->uvm.policy, POLICY_VICTIM))
		return oldest;
	show(&asking, &q);
	show_far(&asking, device, &q);
	answered = policy_victim(sim->uvm.policy, &q, next_window, &asking);
	take_words(&asking, &q);
	if (!answered)
		return oldest;
	return q.chosen < WEIR_POLICY_CANDIDATES ? asking.block[q.chosen]
						 : asking.far[q.chosen - WEIR_POLICY_CANDIDATES];
}
