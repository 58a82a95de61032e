/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule for programs of which nothing is known but what they used so far. There are two rules,
 * and the one that would have found more blocks resident decides.
 *
 * Replace: what a bracket touches densely comes in, and who was not used for longest goes, since a
 * copy costs no more than use in place. So a program keeps what it used last, as long as it walks
 * over no more than fits. Only where a victim is used much more often does the range stay where it
 * is: TinyLFU's admission (G. Einziger, R. Friedman, B. Manes, ACM ToS 13:4, 2017).
 *
 * Keep: what is resident stays, and all else is used in place, unless it is used much more often. A
 * program that walks over more than fits, again and again, then finds the same part resident each
 * time, where the other rule evicts each range just before it is used (as bimodal insertion: M. K.
 * Qureshi, A. Jaleel, Y. N. Patt, S. C. Steely, J. Emer, ISCA 2007).
 *
 * Which of them: while Replace decides, what was resident as a trial began is what Keep would have.
 * A range of it that left and is used again is a gain for Keep; one that came since and is used
 * again, for Replace. While Keep decides, Replace would find a range whose last use is so short ago
 * that all used since fits; it is taken to find as large a share of the others. The duel needs no
 * second set of blocks, as the ghosts of ARC are (N. Megiddo, D. S. Modha, FAST 2003).
 *
 * What is touched sparsely comes in where there is room anyway. Blocks go to the nearest place with
 * room. All of it is integers and has no loop over ranges.
 */
#include "src/residency/decide.h"

#include "src/base/util.h"

/* Touches of each byte, on average, from which a copy is worth its bytes. */
#define DENSE 1.0

/* Uses count fully for as long as brackets use so many times the chunks that there are: longer than
 * most programs walk, short enough to forget a phase. */
#define MEMORY 16u

/* Used "much more often" is so many times, with a use to spare on either side. Less, and uses at
 * random make ranges change places for nothing; a walk whose order changes differs by one use. */
#define MARGIN 3u

/* So many of its intervals after its last use a victim is out of use, however often it was used: by
 * either rule. Keep waits for longer, since its ranges are not replaced by others in use. */
#define LATE 4u
#define OVERDUE 8u

/* Keep has to gain a block for every so many that are used: of equals, Replace is better, since
 * copies run beside kernels before them, and use in place does not. */
#define DRIFT 16u

/* Blocks beyond half of the memory that it has to gain: of a small memory a few say nothing. */
#define EVIDENCE 64u

static uint32_t nr_uses(const struct past *p)
{
	return p->range->uses + p->uses;
}

static uint32_t age(const struct past *p)
{
	return p->now - p->range->since;
}

/* Count what was long ago half. */
static void forget(const struct past *p)
{
	struct recency_range *r = p->range;

	if (!r->since)
		r->since = p->now;
	while (age(p) > (uint64_t)MEMORY * MAX(p->nr_chunks, 1u)) {
		uint32_t half = nr_uses(p) / 2;

		r->uses -= half; /* below 0: the sum counts, modulo 2^32 */
		r->had -= half;
		r->since += age(p) / 2;
	}
}

/* Whether one range is used much more often than another, or that one is out of use. */
static bool is_above(const struct past *p, const struct past *other)
{
	uint64_t uses = nr_uses(p);

	if (!uses)
		return false;
	return (uses - 1) * age(other) > MARGIN * (nr_uses(other) + UINT64_C(1)) * age(p) ||
	       (uses - 1) * other->idle > OVERDUE * (uint64_t)age(p);
}

static bool is_late(const struct past *p)
{
	return (uint64_t)p->idle * nr_uses(p) > LATE * (uint64_t)age(p);
}

/* ------------------------------------------------------------------ the duel */

/* What is resident is from now on what Keep would have. */
static void begin_trial(const struct past *p)
{
	struct recency *m = p->memory;

	m->trial++;
	m->balance = 0;
	m->began = p->now;
}

/* Replace decides, and a use finds blocks away. */
static void try_replace(const struct past *p, uint32_t nr)
{
	struct recency *m = p->memory;
	uint32_t drift = (p->now - m->began) / DRIFT;

	m->balance -= drift;
	m->began += drift * DRIFT;
	if (p->range->left == m->trial)
		m->balance += nr;
	if (m->balance > p->nr_chunks / 2 + EVIDENCE) {
		m->keep = true;
		m->nr_away = m->nr_soon = 0;
		m->began = p->now;
	} else if (m->balance < -(int64_t)(p->nr_chunks / 2)) {
		begin_trial(p);
	}
}

/* Keep decides. Of all blocks used it found (elapsed - nr_away) / elapsed resident; Replace would
 * have found nr_soon / nr_away of those that were away. */
static void try_keep(const struct past *p, uint32_t nr)
{
	struct recency *m = p->memory;
	uint64_t elapsed = p->now - m->began, found;

	m->nr_away += nr;
	if (p->idle < p->nr_chunks)
		m->nr_soon += nr;
	if (m->nr_away < p->nr_chunks / 2 + 1)
		return;
	found = elapsed > m->nr_away ? elapsed - m->nr_away : 0;
	if (m->nr_soon * elapsed > found * m->nr_away && m->nr_soon * 8 >= m->nr_away) {
		m->keep = false;
		begin_trial(p);
	} else if (m->nr_away > 2 * (uint64_t)p->nr_chunks) {
		m->nr_away /= 2;
		m->nr_soon /= 2;
		m->began += (uint32_t)(elapsed / 2);
	}
}

/* Uses that found a range resident which came after the trial began: Replace's gain. */
static void credit(const struct past *p, uint32_t nr_resident)
{
	struct recency_range *r = p->range;
	uint32_t hits = nr_uses(p) - r->had;

	if (r->came != p->memory->trial || r->left == p->memory->trial || hits <= 1)
		return;
	p->memory->balance -= (int64_t)(hits - 1) * nr_resident;
	r->had += hits - 1;
}

void recency_moved(const struct past *p, bool came)
{
	struct recency_range *r = p->range;
	struct recency *m = p->memory;

	if (came) {
		r->came = m->trial;
		r->had = nr_uses(p);
	} else if (!m->keep && r->came != m->trial) {
		r->left = m->trial;
	}
}

/* ------------------------------------------------------------------ the answers */

/* Whether others go for what a use touches densely. */
static bool is_admitted(const struct bring_in *q)
{
	if (!q->victim.range)
		return !q->past.memory->keep;
	return q->past.memory->keep ? is_above(&q->past, &q->victim)
				    : !is_above(&q->victim, &q->past) || is_late(&q->victim);
}

/* What is not admitted takes free chunks, but for as many as first contents took before: they would
 * evict others for them. */
static struct brought_in stay(const struct bring_in *q)
{
	uint32_t level = q->nr_resident;

	if (q->nr_free > q->past.memory->reserve)
		level += q->nr_free - q->past.memory->reserve;
	return (struct brought_in){.level = MIN(level, q->nr_blocks)};
}

struct brought_in recency_bring_in(const struct bring_in *q)
{
	bool dense = q->touches >= DENSE;
	const struct brought_in all = {
		.level = q->nr_blocks, .evict_for_fresh = dense, .evict_for_moved = dense};
	struct recency *m = q->past.memory;

	if (!q->past.range)
		return all;
	forget(&q->past);
	if (q->victim.range)
		forget(&q->victim);
	if (!m->trial && q->nr_away)
		begin_trial(&q->past);
	if (dense && q->nr_away)
		(m->keep ? try_keep : try_replace)(&q->past, q->nr_away);
	if (q->nr_unbacked) {
		m->reserve = MAX(m->reserve, 2 * q->nr_unbacked);
		return all;
	}
	if (dense ? is_admitted(q) : !m->keep)
		return all;
	return stay(q);
}

/* Replace: who was not used for longest. Keep: who is used least often, or is out of use. */
uint64_t recency_give_up(const struct give_up *q)
{
	const struct past *p = &q->past;
	uint64_t interval;

	if (p->range && !p->memory->keep)
		credit(p, q->nr_resident);
	if (!p->range || !p->memory->keep)
		return q->idle + 2; /* 1: what is advised to stay */
	interval = ((uint64_t)age(p) << 8) / (nr_uses(p) + UINT64_C(1));
	return MAX(interval, ((uint64_t)p->idle << 8) / OVERDUE) + 2;
}

place_t recency_evict_to(const struct evict_to *q)
{
	place_t last = (place_t)(q->nr_places - 1);

	/* What is nowhere yet and gets no room above is going to be used where it comes. */
	if (q->copies_only && q->nr_unbacked)
		return last;
	for (place_t to = (place_t)(q->from + 1); to < last; to++)
		if (q->room[to])
			return to;
	return last;
}
