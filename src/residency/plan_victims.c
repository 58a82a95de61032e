/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which lives are evicted, kept while the model goes from stage to stage.
 *
 * A life's place depends on its next use alone, which changes when it is used and not before. So
 * places are fixed ahead of time: there is one for each use (struct stage_life) in the order of
 * their ranks, once for contents that are read there, once for contents that are overwritten; and
 * one for each life that has no next use before it dies. Seen from stage g, the farthest next use
 * is the first rank of g itself, a period later, and the nearest is the last one before that: the
 * walk begins there and goes round. A set of bits says which places are taken, and a second one
 * which words of the first are not empty, so that a walk over thousands of empty places is short.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/residency/plan_parts.h"

#define NO_PLACE UINT32_MAX
#define WORD_BITS 64u

/* Parts of the places, in the order in which they are walked. */
enum part { PART_GONE, PART_UNREAD, PART_READ, PART_NR };

struct victims {
	const struct stages *stages;
	uint32_t first[PART_NR + 1]; /* places of each part */
	uint32_t *place;	     /* by life, or NO_PLACE */
	uint64_t *word, *summary;    /* places that are taken; words that are not 0 */
	uint32_t nr_words;
};

int victims_create(const struct stages *stages, struct victims **out)
{
	struct victims *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->stages = stages;
	v->first[PART_UNREAD] = stages->nr_tracked;
	v->first[PART_READ] = v->first[PART_UNREAD] + stages->nr_lives;
	v->first[PART_NR] = v->first[PART_READ] + stages->nr_lives;
	v->nr_words = v->first[PART_NR] / WORD_BITS + 1;
	v->place = malloc((stages->nr_tracked + 1u) * sizeof(*v->place));
	v->word = malloc(v->nr_words * sizeof(*v->word));
	v->summary = malloc((v->nr_words / WORD_BITS + 1) * sizeof(*v->summary));
	if (!v->place || !v->word || !v->summary) {
		victims_destroy(v);
		return -ENOMEM;
	}
	victims_clear(v);
	*out = v;
	return 0;
}

void victims_destroy(struct victims *v)
{
	if (!v)
		return;
	free(v->place);
	free(v->word);
	free(v->summary);
	free(v);
}

void victims_clear(struct victims *v)
{
	memset(v->place, 0xff, v->stages->nr_tracked * sizeof(*v->place));
	memset(v->word, 0, v->nr_words * sizeof(*v->word));
	memset(v->summary, 0, (v->nr_words / WORD_BITS + 1) * sizeof(*v->summary));
}

void victims_drop(struct victims *v, uint32_t life)
{
	uint32_t place = v->place[life], w = place / WORD_BITS;

	if (place == NO_PLACE)
		return;
	v->place[life] = NO_PLACE;
	v->word[w] &= ~(1ull << place % WORD_BITS);
	if (!v->word[w])
		v->summary[w / WORD_BITS] &= ~(1ull << w % WORD_BITS);
}

void victims_put(struct victims *v, uint32_t life, uint32_t g, uint32_t use)
{
	const struct stages *s = v->stages;
	const struct stage_life *next = &s->life[use];
	uint32_t place, w;

	if (span_distance(&s->alive[life], s->nr_stages, g, next->stage) == UINT32_MAX)
		place = v->first[PART_GONE] + life;
	else
		place = v->first[next->overwritten ? PART_UNREAD : PART_READ] + next->rank;
	if (place == v->place[life])
		return;
	victims_drop(v, life);
	w = place / WORD_BITS;
	v->place[life] = place;
	v->word[w] |= 1ull << place % WORD_BITS;
	v->summary[w / WORD_BITS] |= 1ull << w % WORD_BITS;
}

/* The first place taken from one on; NO_PLACE: none. */
static uint32_t find_taken(const struct victims *v, uint32_t from)
{
	uint32_t w = from / WORD_BITS, i;
	uint64_t bits = v->word[w] >> from % WORD_BITS;

	if (bits)
		return from + (uint32_t)__builtin_ctzll(bits);
	w++;
	i = w / WORD_BITS;
	bits = w < v->nr_words ? v->summary[i] >> w % WORD_BITS << w % WORD_BITS : 0;
	while (!bits) {
		if (++i * WORD_BITS >= v->nr_words)
			return NO_PLACE;
		bits = v->summary[i];
	}
	w = i * WORD_BITS + (uint32_t)__builtin_ctzll(bits);
	return w * WORD_BITS + (uint32_t)__builtin_ctzll(v->word[w]);
}

/* Go on with a walk at a place. */
static bool walk(const struct victims *v, struct victim *victim, uint32_t from)
{
	const struct stages *s = v->stages;

	for (;;) {
		enum part part = victim->part;
		uint32_t turn = v->first[part] + (part == PART_GONE ? 0 : victim->start);
		uint32_t end = victim->wrapped ? turn : v->first[part + 1];

		victim->place = from < end ? find_taken(v, from) : NO_PLACE;
		if (victim->place < end)
			break;
		if (!victim->wrapped) {
			victim->wrapped = true;
			from = v->first[part];
			continue;
		}
		if (part + 1 == PART_NR)
			return false;
		victim->part = part + 1;
		victim->wrapped = false;
		from = v->first[part + 1] + victim->start;
	}
	victim->unread = victim->part != PART_READ;
	if (victim->part == PART_GONE) {
		victim->life = victim->place;
		victim->group = UINT32_MAX;
	} else {
		uint32_t use = s->by_rank[victim->place - v->first[victim->part]];

		victim->life = s->life[use].life;
		victim->group = s->life[use].stage;
	}
	return true;
}

bool victims_first(const struct victims *v, uint32_t g, struct victim *victim)
{
	const struct stage *stage = &v->stages->stage[g];

	*victim = (struct victim){
		.part = PART_GONE,
		.start = v->stages->nr_lives - stage->first_life - stage->nr_lives,
	};
	return walk(v, victim, 0);
}

bool victims_next(const struct victims *v, struct victim *victim)
{
	return walk(v, victim, victim->place + 1);
}
