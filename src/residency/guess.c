/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of guessed uses, from times: see guess.h. */
#include "src/residency/guess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

/* Kinds of launches that are told apart, a power of two; and entries that a key may have. Where all
 * of these are taken one loses its entry, and begins anew. */
#define ENTRIES (1u << 12)
#define WAYS 8u
/* Equations that are kept of each, and how often all of them are solved for a new one. */
#define KEPT 4u
#define SWEEPS 16
/* From so many times its shortest time on a launch waits for the link. */
#define WAITS 1.5
/* What is expected to that share of what is seen needs no work. */
#define NEAR 0.02
/* The share that plans reckon with of what was never in place. */
#define UNTRIED 0.5
/* Two equations with the same things in place, but for so much of their cosine. */
#define ALIKE 0.02

/* What one launch said. */
struct equation {
	float cost_ns[GUESS_USES_MAX];
	float ns;
	bool in_place;
};

struct guess {
	uint64_t key; /* 0: none */
	double shortest_ns, resident_ns;
	uint32_t nr; /* of those below, newest last */
	struct equation equation[KEPT];
	float share[GUESS_USES_MAX];
	bool tried[GUESS_USES_MAX]; /* it was in place once */
};

struct guesses {
	struct guess entry[ENTRIES];
};

struct guesses *guesses_create(void)
{
	return calloc(1, sizeof(struct guesses));
}

void guesses_destroy(struct guesses *guesses)
{
	free(guesses);
}

/* The number of an entry that a key may have. */
static uint32_t entry_of(uint64_t key, uint32_t way)
{
	return (uint32_t)((key / 2 + way) % ENTRIES);
}

static const struct guess *find(const struct guesses *guesses, uint64_t key)
{
	for (uint32_t way = 0; guesses && key && way < WAYS; way++)
		if (guesses->entry[entry_of(key, way)].key == key)
			return &guesses->entry[entry_of(key, way)];
	return NULL;
}

double guess_share(const struct guesses *guesses, uint64_t key, uint32_t n)
{
	const struct guess *guess = find(guesses, key);

	return guess && n < GUESS_USES_MAX ? (double)guess->share[n] : 1;
}

double guess_share_planned(const struct guesses *guesses, uint64_t key, uint32_t n)
{
	const struct guess *guess = find(guesses, key);
	const double share = guess_share(guesses, key, n);

	return guesses && key && n < GUESS_USES_MAX && !(guess && guess->tried[n])
		       ? MIN(share, UNTRIED)
		       : share;
}

double guess_resident_ns(const struct guesses *guesses, uint64_t key)
{
	const struct guess *guess = find(guesses, key);

	return guess ? guess->resident_ns : 0;
}

double guess_shortest_ns(const struct guesses *guesses, uint64_t key)
{
	const struct guess *guess = find(guesses, key);

	return guess ? guess->shortest_ns : 0;
}

/* The entry of a key, taken from another one if that has it. */
static struct guess *take(struct guesses *guesses, uint64_t key)
{
	struct guess *guess;
	uint32_t way = 0;

	while (way < WAYS && guesses->entry[entry_of(key, way)].key != key &&
	       guesses->entry[entry_of(key, way)].key)
		way++;
	guess = &guesses->entry[entry_of(key, way % WAYS)];
	if (guess->key == key)
		return guess;
	*guess = (struct guess){.key = key};
	for (uint32_t u = 0; u < GUESS_USES_MAX; u++)
		guess->share[u] = 1;
	return guess;
}

/* What the shares say that a launch takes, and the largest part of it. */
static double expected_ns(const struct guess *guess, const struct equation *e, double *largest)
{
	double sum = 0;

	*largest = 0;
	for (uint32_t u = 0; u < GUESS_USES_MAX; u++) {
		const double ns = (double)guess->share[u] * (double)e->cost_ns[u];

		*largest = MAX(*largest, ns);
		sum += ns;
	}
	return sum;
}

/* Whether the shares say something else than an equation, which is a bound where the launch did not
 * wait for the link. */
static bool differs(const struct guess *guess, const struct equation *e, double expected)
{
	const double ns = (double)e->ns;

	return expected > ns * (1 + NEAR) ||
	       (e->in_place && ns > WAITS * guess->shortest_ns && expected < ns * (1 - NEAR));
}

/* Make the shares fit one equation. @return whether they did not */
static bool solve(struct guess *guess, const struct equation *e)
{
	double largest, expected = expected_ns(guess, e, &largest);

	if (expected <= 0 || !differs(guess, e, expected))
		return false;
	for (uint32_t u = 0; u < GUESS_USES_MAX; u++) {
		const double share = (double)guess->share[u];
		const double part = share * (double)e->cost_ns[u] / largest;

		if (part > 0)
			guess->share[u] = (float)MIN(
				MAX(share * pow((double)e->ns / expected, part), GUESS_SHARE_MIN),
				GUESS_SHARE_MAX);
	}
	return true;
}

/* 1: the costs of two equations are in the same proportion; 0: they have none in common. */
static double likeness(const struct equation *a, const struct equation *b)
{
	double ab = 0, aa = 0, bb = 0;

	for (uint32_t u = 0; u < GUESS_USES_MAX; u++) {
		ab += (double)a->cost_ns[u] * (double)b->cost_ns[u];
		aa += (double)a->cost_ns[u] * (double)a->cost_ns[u];
		bb += (double)b->cost_ns[u] * (double)b->cost_ns[u];
	}
	return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* Add an equation, in place of one like it; else, if there are too many, of the one that is most
 * like it. */
static void keep(struct guess *guess, const struct equation *e)
{
	double most = 0;
	uint32_t at = 0;

	for (uint32_t n = 0; n < guess->nr; n++) {
		const double like = likeness(&guess->equation[n], e);

		if (like >= most) {
			most = like;
			at = n;
		}
	}
	if (guess->nr && (guess->nr == KEPT || most > 1 - ALIKE)) {
		guess->nr--;
		memmove(&guess->equation[at], &guess->equation[at + 1],
			(guess->nr - at) * sizeof(*e));
	}
	guess->equation[guess->nr++] = *e;
}

void guess_note(struct guesses *guesses, const struct guess_seen *seen)
{
	struct equation e = {.ns = (float)seen->ns, .in_place = seen->in_place};
	struct guess *guess;
	bool changed = true;
	double largest;

	if (seen->ns <= 0)
		return;
	guess = take(guesses, seen->key);
	if (guess->shortest_ns <= 0 || seen->ns < guess->shortest_ns)
		guess->shortest_ns = seen->ns;
	if (!seen->in_place)
		guess->resident_ns = seen->ns;
	for (uint32_t u = 0; u < MIN(seen->nr_uses, GUESS_USES_MAX); u++) {
		e.cost_ns[u] = (float)seen->cost_ns[u];
		guess->tried[u] |= seen->in_place && seen->cost_ns[u] > 0;
	}
	if (expected_ns(guess, &e, &largest) <= 0)
		return;
	keep(guess, &e);
	for (int sweep = 0; changed && sweep < SWEEPS; sweep++) {
		changed = false;
		for (uint32_t n = 0; n < guess->nr; n++)
			changed |= solve(guess, &guess->equation[n]);
	}
}
