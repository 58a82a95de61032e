/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which levels of a plan without folded loops belong together: those of one life, or of the lives
 * that are alike, at one step of a loop's body, in all iterations. A search that moves them as one
 * has as few levels as the loop's body has, not as many as its iterations.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/residency/plan_parts.h"

/* Tie what a later iteration's step uses to what the first iteration's does. place: by folded life,
 * where the latter is. */
static void tie_step(const struct stages *folded, const struct stages *unfolded, uint32_t first,
		     uint32_t step, const uint32_t *place, struct ties *ties)
{
	const struct stage *from = &unfolded->stage[first], *to = &unfolded->stage[step];

	for (uint32_t i = to->first_life; i < to->first_life + to->nr_lives; i++) {
		const uint32_t l = unfolded->life_of[unfolded->life[i].life];
		const uint32_t at = place[folded->tracked[l]];

		if (at < from->first_life || at >= from->first_life + from->nr_lives ||
		    folded->tracked[unfolded->life_of[unfolded->life[at].life]] !=
			    folded->tracked[l] ||
		    unfolded->blocks[unfolded->life[at].life] !=
			    unfolded->blocks[unfolded->life[i].life])
			continue;
		ties->first[i] = at;
		ties->next[i] = ties->next[at];
		ties->next[at] = i;
	}
}

static void tie_loop(const struct stages *folded, const struct stages *unfolded,
		     const struct stage *loop, uint32_t *place, struct ties *ties)
{
	for (uint32_t body = 0; body < loop->nr_body; body++) {
		const uint32_t first = loop->first_step + body;
		const struct stage *stage = &unfolded->stage[first];

		for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++)
			place[folded->tracked[unfolded->life_of[unfolded->life[i].life]]] = i;
		for (uint32_t n = 1; n < loop->nr_iterations; n++)
			tie_step(folded, unfolded, first, first + n * loop->nr_body, place, ties);
	}
}

int ties_create(const struct stages *folded, const struct stages *unfolded, struct ties *ties)
{
	uint32_t *place = calloc(folded->nr_tracked + 1u, sizeof(*place));

	ties->first = malloc((unfolded->nr_lives + 1u) * sizeof(*ties->first));
	ties->next = malloc((unfolded->nr_lives + 1u) * sizeof(*ties->next));
	if (!place || !ties->first || !ties->next) {
		free(place);
		ties_destroy(ties);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < unfolded->nr_lives; i++) {
		ties->first[i] = i;
		ties->next[i] = TIES_END;
	}
	for (uint32_t g = 0; g < folded->nr_stages; g++)
		if (folded->stage[g].nr_iterations > 1)
			tie_loop(folded, unfolded, &folded->stage[g], place, ties);
	free(place);
	return 0;
}

void ties_destroy(struct ties *ties)
{
	free(ties->first);
	free(ties->next);
}

/* The folded stage's stage_life of a folded life. */
static uint32_t find_life(const struct stages *folded, uint32_t g, uint32_t t)
{
	const struct stage *stage = &folded->stage[g];
	uint32_t i = stage->first_life;

	while (folded->life[i].life != t)
		i++;
	return i;
}

void ties_levels(const struct stages *folded, const struct stages *unfolded,
		 const struct ties *ties, const double *level, double *out)
{
	for (uint32_t g = 0; g < unfolded->nr_stages; g++) {
		const struct stage *stage = &unfolded->stage[g];

		for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
			const uint32_t l = unfolded->life_of[unfolded->life[i].life];

			if (ties->first[i] != i)
				out[i] = out[ties->first[i]];
			else
				/* The last iteration's lives may be smaller. */
				out[i] = MIN(level[find_life(folded, folded->stage_of_step[g],
							     folded->tracked[l])],
					     unfolded->blocks[unfolded->life[i].life]);
		}
	}
}
