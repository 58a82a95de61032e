/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/layers/order.h"

#include "src/base/util.h"
#include "workloads/touch/kernels.h"

const char *layers_order_name(enum layers_order order)
{
	static const char *const names[] = {"cyclic", "permuted", "random", "skewed", "moving"};

	return names[order];
}

/* Any number below n; each i has one of its own. */
static uint32_t draw(uint64_t seed, uint64_t i, uint32_t n)
{
	return (uint32_t)((touch_mix(seed + i * TOUCH_STEP) >> 32) * n >> 32);
}

/* Fisher and Yates (1938), as R. Durstenfeld has it (CACM 7:7, 1964). */
static void shuffle(uint32_t *list, uint32_t nr, uint64_t seed)
{
	for (uint32_t i = 0; i < nr; i++)
		list[i] = i;
	for (uint32_t i = nr; i > 1; i--) {
		uint32_t k = draw(seed, i, i), other = list[k];

		list[k] = list[i - 1];
		list[i - 1] = other;
	}
}

void layers_walk_init(struct layers_walk *walk, enum layers_order order, uint32_t nr, uint64_t seed)
{
	walk->order = order;
	walk->nr = nr;
	walk->seed = touch_mix(seed);
	walk->next = 0;
	shuffle(walk->rank, nr, ~walk->seed);
}

static uint32_t skewed(const struct layers_walk *walk, uint64_t i)
{
	uint32_t hot = MAX(walk->nr / 5, 1u);

	if (hot == walk->nr || draw(~walk->seed, i, 5))
		return walk->rank[draw(walk->seed, i, hot)];
	return walk->rank[hot + draw(walk->seed, i, walk->nr - hot)];
}

static uint32_t moving(const struct layers_walk *walk, uint64_t i)
{
	uint64_t set = MAX(walk->nr * 2 / 5, 1u);

	return (uint32_t)((i / (set * LAYERS_WALKS) * set + i % set) % walk->nr);
}

uint32_t layers_walk_next(struct layers_walk *walk)
{
	uint64_t i = walk->next++;

	switch (walk->order) {
	case LAYERS_PERMUTED:
		if (i % walk->nr == 0)
			shuffle(walk->permuted, walk->nr, touch_mix(walk->seed + i));
		return walk->permuted[i % walk->nr];
	case LAYERS_RANDOM:
		return draw(walk->seed, i, walk->nr);
	case LAYERS_SKEWED:
		return skewed(walk, i);
	case LAYERS_MOVING:
		return moving(walk, i);
	default:
		return (uint32_t)(i % walk->nr);
	}
}
