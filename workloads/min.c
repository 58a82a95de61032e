/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIN by intervals; see min.h and docs/oracle.md. Between two accesses of a block, of which the
 * second needs what the first left, the block either stays, which takes room in each step between
 * them, or is copied in again. So a walk over the steps keeps every such interval until there is no
 * room for all, and then drops those that end last.
 *
 * Kept intervals stand in one list for each step that they end before; a bitmap of the lists that
 * are not empty finds the last one. An access costs a constant, and an eviction a look at the
 * bitmap.
 */
#include "workloads/min.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

/* Deliberate faults for the test that must notice them. 1: what ends first is dropped. 2: a birth
 * counts as a copy in. 3: room is made without regard to the step's own set. 4: contents born in
 * place cannot stay. 5: contents that die are kept, too. 6: accesses in place at the neighbour need
 * nothing. 7: nothing stays for them. */
#ifndef MIN_MUTANT
#define MIN_MUTANT 0
#endif

#define NEVER UINT32_C(0x7fffffff)
#define NONE UINT32_MAX

/* A steady state is looked for during so many periods at least, and beyond them as long as no more
 * than so many accesses were looked at. */
#define PERIODS_MIN 4u
#define PERIODS_MAX 256u
#define ACCESSES_MAX UINT64_C(50000000)

/* What comes after an access. */
struct link {
	uint32_t due : 31;   /* step that needs the block resident, with these contents; NEVER */
	uint32_t needed : 1; /* the next access of any kind needs these contents */
};

struct block {
	struct link link;
	uint32_t next, prev; /* in the list of its link.due, while kept; NONE */
	bool kept, dirty;
};

/*
 * Invariants between two steps: a block is kept only with due != NEVER, and is in list[due] then;
 * nr_kept counts them; bit s of the bitmap is set when list[s] is not empty.
 */
struct min {
	const struct min_trace *trace;
	uint32_t capacity;
	enum min_level level;
	struct link *link; /* by access */
	struct block *block;
	uint32_t *list; /* by step: its first block, or NONE */
	uint64_t *bits; /* by step */
	uint32_t nr_kept;
};

/* Whether an access needs no room at a level. */
static bool in_place(const struct min_access *access, enum min_level level)
{
	bool near = access->near && level == MIN_BOTH && MIN_MUTANT != 6;

	return access->in_place && !near;
}

/* ------------------------------------------------------------------ what comes next */

/* Link the accesses of one period to what follows, backwards. block[].link: what comes after the
 * period, and then what comes first in it. */
static void link_period(struct min *min)
{
	const struct min_trace *trace = min->trace;

	for (uint32_t s = trace->nr_steps; s-- > 0;) {
		for (uint64_t a = trace->first[s]; a < trace->first[s + 1]; a++) {
			const struct min_access *access = &trace->access[a];
			struct link *link = &min->block[access->block].link;

			min->link[a] = *link;
			link->needed = !access->birth;
			if (access->birth && MIN_MUTANT != 5)
				link->due = NEVER;
			else if (!in_place(access, min->level) &&
				 !(MIN_MUTANT == 7 && access->near))
				link->due = s & NEVER;
		}
	}
}

/* The next access may lie in the next period, but not beyond. */
static void link_all(struct min *min)
{
	for (uint32_t b = 0; b < min->trace->nr_blocks; b++)
		min->block[b].link = (struct link){.due = NEVER};
	link_period(min);
	link_period(min);
}

/* ------------------------------------------------------------------ what is kept */

static void keep(struct min *min, uint32_t b)
{
	struct block *block = &min->block[b];
	uint32_t s = block->link.due;

	block->kept = true;
	block->prev = NONE;
	block->next = min->list[s];
	if (block->next != NONE)
		min->block[block->next].prev = b;
	min->list[s] = b;
	min->bits[s / 64] |= UINT64_C(1) << s % 64;
	min->nr_kept++;
}

static void unkeep(struct min *min, uint32_t b)
{
	struct block *block = &min->block[b];
	uint32_t s = block->link.due;

	block->kept = false;
	if (block->prev != NONE)
		min->block[block->prev].next = block->next;
	else
		min->list[s] = block->next;
	if (block->next != NONE)
		min->block[block->next].prev = block->prev;
	if (min->list[s] == NONE)
		min->bits[s / 64] &= ~(UINT64_C(1) << s % 64);
	min->nr_kept--;
}

/* The last step before `end` whose list is not empty; NONE. */
static uint32_t last_before(const struct min *min, uint32_t end)
{
	uint64_t word;

	for (uint32_t w = (end + 63) / 64; w-- > 0;) {
		word = min->bits[w];
		if (w == end / 64)
			word &= (UINT64_C(1) << end % 64) - 1;
		if (word)
			return w * 64 + log2_floor(word);
	}
	return NONE;
}

/* The kept block that is due last, seen from step s: lists before s belong to the next period.
 * None is due at s itself, since the step has taken them. */
static uint32_t farthest(const struct min *min, uint32_t s)
{
	uint32_t due = last_before(min, s);

	if (MIN_MUTANT == 1)
		for (due = (s + 1) % min->trace->nr_steps; min->list[due] == NONE;)
			due = (due + 1) % min->trace->nr_steps;
	if (due == NONE)
		due = last_before(min, min->trace->nr_steps);
	return min->list[due];
}

/* The block leaves: what is needed and not below is written back. */
static void leave(const struct block *block, struct min_count *count)
{
	count->write_backs += block->dirty && block->link.needed;
}

/* ------------------------------------------------------------------ a step */

/* Before the step: what it needs leaves its list, or is copied in; what it bears in place may stay
 * from now on. @return the size of the set that it needs. */
static uint32_t serve(struct min *min, uint32_t s, struct min_count *count)
{
	uint32_t nr = 0;

	for (uint64_t a = min->trace->first[s]; a < min->trace->first[s + 1]; a++) {
		const struct min_access *access = &min->trace->access[a];
		struct block *block = &min->block[access->block];

		if (in_place(access, min->level) && !access->birth)
			continue;
		if (block->kept) {
			unkeep(min, access->block);
		} else {
			count->copy_ins += !in_place(access, min->level) &&
					   (!access->birth || MIN_MUTANT == 2);
			block->dirty = false;
		}
		block->link = min->link[a];
		if (!in_place(access, min->level))
			nr++;
		else if (block->link.due != NEVER && MIN_MUTANT != 4)
			keep(min, access->block);
	}
	return MIN_MUTANT == 3 ? 0 : nr;
}

/* After the step: what it needed stays if that may pay. */
static void settle(struct min *min, uint32_t s, struct min_count *count)
{
	for (uint64_t a = min->trace->first[s]; a < min->trace->first[s + 1]; a++) {
		const struct min_access *access = &min->trace->access[a];
		struct block *block = &min->block[access->block];

		if (in_place(access, min->level) && !block->kept)
			continue;
		block->dirty |= access->write;
		block->link.needed = min->link[a].needed;
		if (in_place(access, min->level))
			continue;
		if (block->link.due == NEVER)
			leave(block, count);
		else
			keep(min, access->block);
	}
}

static void step(struct min *min, uint32_t s, struct min_count *count)
{
	uint32_t nr = serve(min, s, count);

	while (min->nr_kept + nr > min->capacity) {
		uint32_t b = farthest(min, s);

		leave(&min->block[b], count);
		unkeep(min, b);
	}
	settle(min, s, count);
}

void min_period(struct min *min, struct min_count *out)
{
	*out = (struct min_count){0};
	for (uint32_t s = 0; s < min->trace->nr_steps; s++)
		step(min, s, out);
}

/* ------------------------------------------------------------------ creation */

static uint32_t set_size(const struct min_trace *trace, enum min_level level, uint32_t s)
{
	uint32_t nr = 0;

	for (uint64_t a = trace->first[s]; a < trace->first[s + 1]; a++)
		nr += !in_place(&trace->access[a], level);
	return nr;
}

uint32_t min_largest_set(const struct min_trace *trace, enum min_level level, uint32_t *step_out)
{
	uint32_t largest = 0;

	*step_out = 0;
	for (uint32_t s = 0; s < trace->nr_steps; s++) {
		uint32_t nr = set_size(trace, level, s);

		if (nr > largest) {
			largest = nr;
			*step_out = s;
		}
	}
	return largest;
}

/* seen: by block, the last step that named it, or NONE. */
static int check_steps(const struct min_trace *trace, uint32_t *seen)
{
	if (trace->first[0])
		return -EINVAL;
	for (uint32_t s = 0; s < trace->nr_steps; s++) {
		if (trace->first[s + 1] < trace->first[s])
			return -EINVAL;
		for (uint64_t a = trace->first[s]; a < trace->first[s + 1]; a++) {
			uint32_t b = trace->access[a].block;

			if (b >= trace->nr_blocks || seen[b] == s ||
			    (trace->access[a].near && !trace->access[a].in_place))
				return -EINVAL;
			seen[b] = s;
		}
	}
	return 0;
}

static int check_trace(const struct min_trace *trace)
{
	uint32_t *seen;
	int err;

	if (!trace->nr_steps || trace->nr_steps > MIN_STEPS_MAX ||
	    trace->nr_blocks > MIN_BLOCKS_MAX)
		return -EINVAL;
	seen = malloc((trace->nr_blocks + 1u) * sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	memset(seen, 0xff, (trace->nr_blocks + 1u) * sizeof(*seen));
	err = check_steps(trace, seen);
	free(seen);
	return err;
}

int min_create(const struct min_trace *trace, uint32_t capacity, enum min_level level,
	       struct min **out)
{
	struct min *min;
	uint32_t largest_step;
	int err = check_trace(trace);

	if (err)
		return err;
	if (min_largest_set(trace, level, &largest_step) > capacity)
		return -ENOSPC;
	min = calloc(1, sizeof(*min));
	if (!min)
		return -ENOMEM;
	min->trace = trace;
	min->capacity = capacity;
	min->level = level;
	min->link = malloc((trace->first[trace->nr_steps] + 1) * sizeof(*min->link));
	min->block = calloc(trace->nr_blocks + 1u, sizeof(*min->block));
	min->list = malloc(trace->nr_steps * sizeof(*min->list));
	min->bits = calloc(trace->nr_steps / 64u + 1u, sizeof(*min->bits));
	if (!min->link || !min->block || !min->list || !min->bits) {
		min_destroy(min);
		return -ENOMEM;
	}
	memset(min->list, 0xff, trace->nr_steps * sizeof(*min->list));
	link_all(min);
	*out = min;
	return 0;
}

void min_destroy(struct min *min)
{
	if (!min)
		return;
	free(min->link);
	free(min->block);
	free(min->list);
	free(min->bits);
	free(min);
}

/* ------------------------------------------------------------------ the steady state */

/* What the future depends on: what is kept, and what of it is dirty. A byte a block. */
static uint8_t *copy_state(const struct min *min)
{
	uint8_t *state = malloc(min->trace->nr_blocks + 1u);

	for (uint32_t b = 0; state && b < min->trace->nr_blocks; b++)
		state[b] = min->block[b].kept ? 1 + min->block[b].dirty : 0;
	return state;
}

/* What is known of the periods gone through. */
struct history {
	uint8_t *state[PERIODS_MAX]; /* after each */
	struct min_count count[PERIODS_MAX];
	uint32_t nr;
};

/* The mean of the periods from `first` on. */
static void history_mean(const struct history *history, uint32_t first, bool exact,
			 struct min_steady *out)
{
	uint32_t nr = history->nr - first;
	struct min_count sum = {0};

	for (uint32_t p = first; p < history->nr; p++) {
		sum.copy_ins += history->count[p].copy_ins;
		sum.write_backs += history->count[p].write_backs;
	}
	*out = (struct min_steady){.copy_ins = (double)sum.copy_ins / nr,
				   .write_backs = (double)sum.write_backs / nr,
				   .nr_periods = nr,
				   .exact = exact};
}

/* Go through periods until one ends as an earlier one did. */
static int find_steady(struct min *min, struct history *history, struct min_steady *out)
{
	const size_t bytes = min->trace->nr_blocks;
	const uint64_t nr_accesses = min->trace->first[min->trace->nr_steps];

	while (history->nr < PERIODS_MAX &&
	       (history->nr < PERIODS_MIN || history->nr * nr_accesses < ACCESSES_MAX)) {
		uint8_t *state;

		min_period(min, &history->count[history->nr]);
		state = copy_state(min);
		if (!state)
			return -ENOMEM;
		history->state[history->nr++] = state;
		for (uint32_t p = history->nr - 1; p-- > 0;) {
			if (memcmp(state, history->state[p], bytes))
				continue;
			history_mean(history, p + 1, true, out);
			return 0;
		}
	}
	history_mean(history, history->nr / 2, false, out);
	return 0;
}

int min_steady(const struct min_trace *trace, uint32_t capacity, enum min_level level,
	       struct min_steady *out)
{
	struct history *history;
	struct min *min;
	int err = min_create(trace, capacity, level, &min);

	if (err)
		return err;
	history = calloc(1, sizeof(*history));
	err = history ? find_steady(min, history, out) : -ENOMEM;
	for (uint32_t p = 0; history && p < history->nr; p++)
		free(history->state[p]);
	free(history);
	min_destroy(min);
	return err;
}
