/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule for programs of which nothing is known but what they used so far: what weir does without
 * a plan and without a policy (it calls these functions itself), and the policy of recency.c. There
 * are two rules, and the one that would have found more blocks resident decides.
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
 * What is touched sparsely comes in where there is room anyway. All of it is integers and has no
 * loop over ranges.
 */
#ifndef WEIR_POLICIES_RECENCY_H
#define WEIR_POLICIES_RECENCY_H

#include <stdbool.h>
#include <stdint.h>

/* Uses count fully for as long as brackets use so many times the chunks that there are: longer than
 * most programs walk, short enough to forget a phase. */
#define RECENCY_MEMORY 16u

/* Used "much more often" is so many times, with a use to spare on either side. Less, and uses at
 * random make ranges change places for nothing; a walk whose order changes differs by one use. */
#define RECENCY_MARGIN 3u

/* So many of its intervals after its last use a victim is out of use, however often it was used: by
 * either rule. Keep waits for longer, since its ranges are not replaced by others in use. */
#define RECENCY_LATE 4u
#define RECENCY_OVERDUE 8u

/* Keep has to gain a block for every so many that are used: of equals, Replace is better, since
 * copies run beside kernels before them, and use in place does not. */
#define RECENCY_DRIFT 16u

/* Blocks beyond half of the memory that it has to gain: of a small memory a few say nothing. */
#define RECENCY_EVIDENCE 64u

/* Kept of a range, for a life: 16 bytes, as a range's words have. Zeroed at first. */
struct recency_range {
	uint32_t uses;	     /* to add to struct past's, modulo 2^32: older ones are left out */
	uint32_t since;	     /* time that uses are counted from; 0: it was not used yet */
	uint32_t had;	     /* uses, as something of it last came */
	uint16_t came, left; /* trials in which something of it last came, and last left */
};

/* Kept of a device's own memory. Zeroed at first. */
struct recency {
	uint16_t trial;	  /* number of the present one; 0: none yet */
	bool keep;	  /* what is resident stays */
	uint32_t reserve; /* free chunks that are left for first contents */
	uint32_t began;	  /* time from which on the figures below count */
	int64_t balance;  /* !keep: blocks that would have been found resident, were it set */
	uint64_t nr_away; /* keep: blocks that uses found away, ... */
	uint64_t nr_soon; /* ... and those of them whose use before was a short time ago */
};

/* What uses of a range were so far. Time is the number of blocks that brackets used of ranges whose
 * own place is the same, a life's first use left out, modulo 2^32. */
struct past {
	struct recency_range *range; /* NULL: not known, and nothing else is */
	struct recency *memory;
	uint32_t now;
	uint32_t idle;	    /* time since its last use */
	uint32_t uses;	    /* in its present life */
	uint32_t nr_chunks; /* that the memory has for the space */
};

/* A use of a range that is not all resident. */
struct recency_use {
	struct past past;
	struct past victim;   /* of who would be evicted from first, for want of chunks */
	bool dense;	      /* it touches each byte once or more, on average: worth a copy */
	uint32_t nr_blocks;   /* of the range */
	uint32_t nr_resident; /* of them now */
	uint32_t nr_unbacked; /* of them, that have no contents yet */
	uint32_t nr_away;     /* blocks of the use that have, and are not resident */
	uint32_t nr_free;     /* chunks that are, or could be at once */
};

static inline uint32_t recency_uses(const struct past *p)
{
	return p->range->uses + p->uses;
}

static inline uint32_t recency_age(const struct past *p)
{
	return p->now - p->range->since;
}

/* Count what was long ago half. */
static inline void recency_forget(const struct past *p)
{
	struct recency_range *r = p->range;
	const uint64_t most = (uint64_t)RECENCY_MEMORY * (p->nr_chunks ? p->nr_chunks : 1);

	if (!r->since)
		r->since = p->now;
	while (recency_age(p) > most) {
		uint32_t half = recency_uses(p) / 2;

		r->uses -= half; /* below 0: the sum counts, modulo 2^32 */
		r->had -= half;
		r->since += recency_age(p) / 2;
	}
}

/* Whether one range is used much more often than another, or that one is out of use. */
static inline bool recency_is_above(const struct past *p, const struct past *other)
{
	uint64_t uses = recency_uses(p), age = recency_age(p);

	if (!uses)
		return false;
	return (uses - 1) * recency_age(other) >
		       RECENCY_MARGIN * (recency_uses(other) + UINT64_C(1)) * age ||
	       (uses - 1) * other->idle > RECENCY_OVERDUE * age;
}

static inline bool recency_is_late(const struct past *p)
{
	return (uint64_t)p->idle * recency_uses(p) > RECENCY_LATE * (uint64_t)recency_age(p);
}

/* ---- The duel */

/* What is resident is from now on what Keep would have. */
static inline void recency_begin_trial(const struct past *p)
{
	struct recency *m = p->memory;

	m->trial++;
	m->balance = 0;
	m->began = p->now;
}

/* Replace decides, and a use finds blocks away. */
static inline void recency_try_replace(const struct past *p, uint32_t nr)
{
	struct recency *m = p->memory;
	uint32_t drift = (p->now - m->began) / RECENCY_DRIFT;

	m->balance -= drift;
	m->began += drift * RECENCY_DRIFT;
	if (p->range->left == m->trial)
		m->balance += nr;
	if (m->balance > p->nr_chunks / 2 + RECENCY_EVIDENCE) {
		m->keep = true;
		m->nr_away = m->nr_soon = 0;
		m->began = p->now;
	} else if (m->balance < -(int64_t)(p->nr_chunks / 2)) {
		recency_begin_trial(p);
	}
}

/* Keep decides. Of all blocks used it found (elapsed - nr_away) / elapsed resident; Replace would
 * have found nr_soon / nr_away of those that were away. */
static inline void recency_try_keep(const struct past *p, uint32_t nr)
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
		recency_begin_trial(p);
	} else if (m->nr_away > 2 * (uint64_t)p->nr_chunks) {
		m->nr_away /= 2;
		m->nr_soon /= 2;
		m->began += (uint32_t)(elapsed / 2);
	}
}

/* Uses that found a range resident which came after the trial began: Replace's gain. To be called
 * as victims are ranked. */
static inline void recency_credit(const struct past *p, uint32_t nr_resident)
{
	struct recency_range *r = p->range;
	uint32_t hits = recency_uses(p) - r->had;

	if (p->memory->keep || r->came != p->memory->trial || r->left == p->memory->trial ||
	    hits <= 1)
		return;
	p->memory->balance -= (int64_t)(hits - 1) * nr_resident;
	r->had += hits - 1;
}

/* A block of a range came, or leaves; uses are those before. */
static inline void recency_moved(const struct past *p, bool came)
{
	struct recency_range *r = p->range;
	struct recency *m = p->memory;

	if (came) {
		r->came = m->trial;
		r->had = recency_uses(p);
	} else if (!m->keep && r->came != m->trial) {
		r->left = m->trial;
	}
}

/* ---- The answers */

/* Whether others go for what a use touches densely. */
static inline bool recency_is_admitted(const struct recency_use *q)
{
	bool keep = q->past.memory->keep;

	if (!q->victim.range)
		return !keep;
	return keep ? recency_is_above(&q->past, &q->victim)
		    : !recency_is_above(&q->victim, &q->past) || recency_is_late(&q->victim);
}

/* What is not admitted takes free chunks, but for as many as first contents took before: they would
 * evict others for them. */
static inline uint32_t recency_stay(const struct recency_use *q)
{
	uint32_t reserve = q->past.memory->reserve;
	uint32_t level = q->nr_resident + (q->nr_free > reserve ? q->nr_free - reserve : 0);

	return level < q->nr_blocks ? level : q->nr_blocks;
}

/* How many blocks of the range should be resident. *evict: others may go for them. */
static inline uint32_t recency_admit(const struct recency_use *q, bool *evict)
{
	struct recency *m = q->past.memory;

	recency_forget(&q->past);
	if (q->victim.range)
		recency_forget(&q->victim);
	if (!m->trial && q->nr_away)
		recency_begin_trial(&q->past);
	if (q->dense && q->nr_away && m->keep)
		recency_try_keep(&q->past, q->nr_away);
	else if (q->dense && q->nr_away)
		recency_try_replace(&q->past, q->nr_away);
	*evict = q->dense;
	if (q->nr_unbacked) {
		if (m->reserve < 2 * q->nr_unbacked)
			m->reserve = 2 * q->nr_unbacked;
		return q->nr_blocks;
	}
	if (q->dense ? recency_is_admitted(q) : !m->keep)
		return q->nr_blocks;
	*evict = false;
	return recency_stay(q);
}

/* Who goes: the highest. Replace: who was not used for longest; not_used counts brackets. Keep: who
 * is used least often, or is out of use. */
static inline uint64_t recency_rank(const struct past *p, uint64_t not_used)
{
	uint64_t interval, overdue;

	if (!p->memory->keep)
		return not_used;
	interval = ((uint64_t)recency_age(p) << 8) / (recency_uses(p) + UINT64_C(1));
	overdue = ((uint64_t)p->idle << 8) / RECENCY_OVERDUE;
	return interval > overdue ? interval : overdue;
}

#endif
