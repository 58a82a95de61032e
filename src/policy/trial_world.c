/* SPDX-License-Identifier: Apache-2.0 */
/* The world that trials of policies take place in: see trial.h. */
#include <string.h>

#include "src/base/util.h"
#include "src/policy/trial.h"

#define BLOCK_BYTES (UINT64_C(2) << 20)
#define GRANULE_PAGES 16u /* pages that share 64 KiB */

/* ------------------------------------------------------------------ random numbers */

/* A step by the golden section, and a mix of the bits, so that neighbouring seeds have nothing in
 * common. */
static uint64_t draw(struct trial_world *w)
{
	uint64_t x = w->random += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 31)) * 0xd6e8feb86659fd93u;
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
	return x ^ (x >> 32);
}

/* 0 to most, both included. */
static uint64_t below(struct trial_world *w, uint64_t most)
{
	return most == UINT64_MAX ? draw(w) : draw(w) % (most + 1);
}

static uint32_t below32(struct trial_world *w, uint32_t most)
{
	return (uint32_t)below(w, most);
}

static bool once_in(struct trial_world *w, uint32_t nr)
{
	return !below(w, nr - 1);
}

/* A number of any magnitude, 0 among them, to most. */
static uint64_t any(struct trial_world *w, uint64_t most)
{
	const uint64_t limit = most >> below(w, 63);

	return below(w, limit);
}

/* ------------------------------------------------------------------ ranges */

static void allocate(struct trial_world *w, struct trial_range *range)
{
	*range = (struct trial_range){.nr_blocks = 1 + (uint32_t)any(w, 1u << 20)};
}

void trial_world_init(struct trial_world *world, uint64_t seed)
{
	*world = (struct trial_world){.random = seed};
	for (uint32_t i = 0; i < TRIAL_RANGES; i++)
		allocate(world, &world->range[i]);
}

/* Let time go on: a step begins, and ranges come and go. */
static void pass_time(struct trial_world *w)
{
	struct trial_range *range = &w->range[below32(w, TRIAL_RANGES - 1)];

	w->now += any(w, 16);
	if (once_in(w, 1000))
		w->now += any(w, UINT64_C(1) << 40);
	if (once_in(w, 256))
		w->replay = !w->replay;
	if (once_in(w, 16))
		allocate(w, range);
	range->nr_resident = below32(w, range->nr_blocks);
	range->nr_dirty = below32(w, range->nr_resident);
}

static struct trial_range *show(struct trial_world *w, uint32_t at)
{
	w->shown[at] = below32(w, TRIAL_RANGES - 1);
	return &w->range[w->shown[at]];
}

/* Blocks behind those with words of their own share them. */
static uint64_t *block_word(struct trial_range *range, uint32_t block)
{
	return range->block_word[block % TRIAL_BLOCKS];
}

static void copy_words(uint64_t to[2], const uint64_t from[2])
{
	memcpy(to, from, 2 * sizeof(*to));
}

/* ------------------------------------------------------------------ contexts */

static void fill_range(struct trial_world *w, uint32_t at, struct weir_policy_range *out)
{
	const struct trial_range *range = show(w, at);

	*out = (struct weir_policy_range){
		.uses = any(w, 1u << 20),
		.touched_bytes = any(w, UINT64_C(1) << 44),
		.moved_age = any(w, w->now),
		.used_age = any(w, w->now),
		.number = w->shown[at],
		.nr_blocks = range->nr_blocks,
		.nr_resident = range->nr_resident,
		.nr_dirty = range->nr_dirty,
	};
	out->in_place_bytes = any(w, out->touched_bytes);
	copy_words(out->word, range->word);
}

static void fill_admit(struct trial_world *w, struct weir_policy_admit *q)
{
	*q = (struct weir_policy_admit){
		.now = w->now,
		.use_read_bytes = any(w, UINT64_C(1) << 44),
		.use_write_bytes = any(w, UINT64_C(1) << 44),
		.all_blocks = 1 + any(w, 1u << 20),
		.block_bytes = BLOCK_BYTES,
		.in_ns = any(w, 1u << 24),
		.out_ns = any(w, 1u << 24),
		.in_place_ns = any(w, UINT64_C(1) << 40),
		.use_kind = below32(w, WEIR_DISCARD - 1),
		.use_random = below32(w, 1),
		.has_victim = below32(w, 1),
	};
	fill_range(w, 0, &q->range);
	/* A range of which blocks are not resident is asked for. */
	if (q->range.nr_resident == q->range.nr_blocks)
		q->range.nr_resident--;
	q->range.nr_dirty = MIN(q->range.nr_dirty, q->range.nr_resident);
	if (q->has_victim)
		fill_range(w, 1, &q->victim);
	q->free_blocks = any(w, q->all_blocks);
	q->use_bytes = 1 + below(w, q->range.nr_blocks * BLOCK_BYTES - 1);
}

static void fill_candidate(struct trial_world *w, uint32_t at, struct weir_policy_candidate *c)
{
	struct trial_range *range = show(w, at);

	*c = (struct weir_policy_candidate){
		.arrived_age = any(w, w->now),
		.used_age = any(w, w->now),
		.uses = any(w, 1u << 20),
		.next_use = !w->replay	    ? 0
			    : once_in(w, 4) ? WEIR_POLICY_NEVER
					    : 1 + any(w, 1u << 20),
		.range = w->shown[at],
		.block = below32(w, range->nr_blocks - 1),
		.nr_blocks = range->nr_blocks,
		.nr_resident = MAX(range->nr_resident, 1u),
		.nr_dirty = range->nr_dirty,
		.nr_faults = (uint32_t)any(w, 1u << 12),
	};
	copy_words(c->range_word, range->word);
	copy_words(c->block_word, block_word(range, c->block));
}

/* Candidates of a window, the oldest first. */
static void fill_window(struct trial_world *w, struct weir_policy_victim *q)
{
	for (uint32_t i = 0; i < q->nr; i++) {
		struct weir_policy_candidate *c = &q->candidate[i];

		fill_candidate(w, i, c);
		if (i)
			c->arrived_age = MIN(c->arrived_age, c[-1].arrived_age);
	}
	q->by_default = q->nr && !once_in(w, 4) ? below32(w, q->nr - 1) : WEIR_POLICY_UNKNOWN;
}

static void fill_victim(struct trial_world *w, struct weir_policy_victim *q)
{
	memset(q, 0, sizeof(*q));
	q->now = w->now;
	q->nr = once_in(w, 4) ? 1 + below32(w, WEIR_POLICY_CANDIDATES - 1) : WEIR_POLICY_CANDIDATES;
	q->nr_far = w->replay ? below32(w, WEIR_POLICY_FAR) : 0;
	/* The farthest first. */
	for (uint32_t i = 0; i < q->nr_far; i++) {
		struct weir_policy_candidate *c = &q->far[i];

		fill_candidate(w, WEIR_POLICY_CANDIDATES + i, c);
		if (i)
			c->next_use = MIN(c->next_use, c[-1].next_use);
	}
	w->nr_windows = once_in(w, 64) ? WEIR_POLICY_WINDOWS : 1 + below32(w, 3);
	fill_window(w, q);
}

bool trial_window(struct trial_world *w, struct weir_policy_victim *q)
{
	if (q->nr < WEIR_POLICY_CANDIDATES || q->window + 1 == w->nr_windows)
		return false;
	q->window++;
	q->chosen = 0;
	if (q->window + 1 == w->nr_windows && once_in(w, 2))
		q->nr = 1 + below32(w, WEIR_POLICY_CANDIDATES - 1);
	memset(q->candidate, 0, sizeof(q->candidate));
	fill_window(w, q);
	return true;
}

static bool is_set(const uint64_t *bits, uint32_t n)
{
	return bits[n / 64] >> n % 64 & 1;
}

/* Subtrees around the page, and what is in each. */
static void fill_levels(struct weir_policy_fault *q)
{
	for (uint32_t n = 0; n < WEIR_POLICY_LEVELS; n++) {
		const uint32_t first = q->page >> n << n;
		const uint32_t end = MIN(first + (1u << n), q->nr_pages);

		for (uint32_t page = first; page < end; page++)
			q->level[n] += is_set(q->resident, page) ||
				       page / GRANULE_PAGES == q->page / GRANULE_PAGES;
	}
}

static void fill_fault(struct trial_world *w, struct weir_policy_fault *q)
{
	struct trial_range *range = show(w, 0);
	const uint32_t density = below32(w, 3); /* none, a quarter, half, three quarters */

	memset(q, 0, sizeof(*q));
	q->now = w->now;
	q->range = w->shown[0];
	q->nr_blocks = range->nr_blocks;
	q->block = below32(w, q->nr_blocks - 1);
	q->nr_pages = once_in(w, 4) ? 1 + below32(w, WEIR_POLICY_PAGES - 1) : WEIR_POLICY_PAGES;
	q->page = below32(w, q->nr_pages - 1);
	for (uint32_t at = 0; density && at < q->nr_pages; at += 64) {
		const uint64_t x = draw(w), y = draw(w);
		const uint32_t beyond = at + 64 - MIN(at + 64, q->nr_pages);

		q->resident[at / 64] = (density == 1   ? x & y
					: density == 2 ? x
						       : x | y)
					       << beyond >>
				       beyond;
	}
	q->resident[q->page / 64] &= ~(UINT64_C(1) << q->page % 64);
	fill_levels(q);
	q->last_block = q->last_page = WEIR_POLICY_UNKNOWN;
	if (!once_in(w, 8)) {
		q->last_block = below32(w, q->nr_blocks - 1);
		q->last_page = below32(w, WEIR_POLICY_PAGES - 1);
	}
	q->write = below32(w, 1);
	q->free_blocks = (uint32_t)any(w, 1u << 20);
	q->threshold = once_in(w, 4) ? below32(w, 100) : 51;
	copy_words(q->range_word, range->word);
	copy_words(q->block_word, block_word(range, q->block));
}

static void fill_moved(struct trial_world *w, struct weir_policy_moved *q)
{
	struct trial_range *range = show(w, 0);

	*q = (struct weir_policy_moved){
		.now = w->now,
		.range = w->shown[0],
		.block = below32(w, range->nr_blocks - 1),
		.nr_blocks = range->nr_blocks,
		.came = below32(w, 1),
		.cause = below32(w, WEIR_CAUSE_NR - 1),
	};
	q->nr_resident = q->came ? MAX(range->nr_resident, 1u)
				 : MIN(range->nr_resident, range->nr_blocks - 1);
	q->uses = q->came ? 0 : any(w, 1u << 20);
	copy_words(q->range_word, range->word);
	copy_words(q->block_word, block_word(range, q->block));
}

void trial_context(struct trial_world *world, enum policy_hook hook, union trial_context *out)
{
	pass_time(world);
	switch (hook) {
	case POLICY_ADMIT:
		fill_admit(world, &out->admit);
		break;
	case POLICY_VICTIM:
		fill_victim(world, &out->victim);
		break;
	case POLICY_FAULT:
		fill_fault(world, &out->fault);
		break;
	default:
		fill_moved(world, &out->moved);
		break;
	}
}

/* ------------------------------------------------------------------ words */

static void take_words(struct trial_world *w, uint32_t at, const uint64_t word[2],
		       const uint64_t block[2], uint32_t number)
{
	struct trial_range *range = &w->range[w->shown[at]];

	copy_words(range->word, word);
	if (block)
		copy_words(block_word(range, number), block);
}

static void take_candidates(struct trial_world *w, uint32_t at,
			    const struct weir_policy_candidate *c, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		take_words(w, at + i, c[i].range_word, c[i].block_word, c[i].block);
}

void trial_take(struct trial_world *world, enum policy_hook hook, const union trial_context *from)
{
	switch (hook) {
	case POLICY_ADMIT:
		take_words(world, 0, from->admit.range.word, NULL, 0);
		if (from->admit.has_victim)
			take_words(world, 1, from->admit.victim.word, NULL, 0);
		break;
	case POLICY_VICTIM:
		take_candidates(world, 0, from->victim.candidate, from->victim.nr);
		take_candidates(world, WEIR_POLICY_CANDIDATES, from->victim.far,
				from->victim.nr_far);
		break;
	case POLICY_FAULT:
		take_words(world, 0, from->fault.range_word, from->fault.block_word,
			   from->fault.block);
		break;
	default:
		take_words(world, 0, from->moved.range_word, from->moved.block_word,
			   from->moved.block);
		break;
	}
}
