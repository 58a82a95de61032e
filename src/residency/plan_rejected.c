/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a search for levels has tried in vain. A third to a half of its trials repeat an earlier
 * one: where a step is cut off at nothing or at all of a life, a smaller step leads to the same
 * levels, and a pass that found nothing better is followed by one with some of the same trials.
 *
 * A table of fixed size, in which a trial takes the place of another one with the same place: what
 * is forgotten is run again. It knows hashes alone. Two trials with the same one, which is not to
 * be expected in a search, would cost it one of them.
 */
#include <stdlib.h>

#include "src/residency/plan_parts.h"

#define PLACE_BITS 13

struct trial {
	uint64_t hash;
	uint64_t work; /* 0: the place is free */
	double ns;
};

struct rejected {
	struct trial trial[1u << PLACE_BITS];
};

struct rejected *rejected_create(void)
{
	return calloc(1, sizeof(struct rejected));
}

void rejected_destroy(struct rejected *rejected)
{
	free(rejected);
}

static size_t place_of(uint64_t hash)
{
	return hash >> (64 - PLACE_BITS);
}

void rejected_add(struct rejected *rejected, uint64_t hash, double ns, uint64_t work)
{
	rejected->trial[place_of(hash)] = (struct trial){.hash = hash, .work = work, .ns = ns};
}

bool rejected_find(const struct rejected *rejected, uint64_t hash, double ns, uint64_t *work)
{
	const struct trial *trial = &rejected->trial[place_of(hash)];

	if (!trial->work || trial->hash != hash || trial->ns < ns)
		return false;
	*work = trial->work;
	return true;
}
