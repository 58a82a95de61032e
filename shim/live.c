/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/live.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

/* The first that begins behind an address. */
static uint32_t behind(const struct live *live, uint64_t addr)
{
	uint32_t at;

	SEARCH_SORTED(at, 0, live->nr, live->range[at].addr <= addr);
	return at;
}

bool live_add(struct live *live, uint64_t addr, uint64_t bytes)
{
	uint32_t at;

	if (live->nr == live->max) {
		uint32_t max = MAX(64u, 2 * live->max);
		struct live_range *more = realloc(live->range, max * sizeof(*more));

		if (!more)
			return false;
		live->range = more;
		live->max = max;
	}
	at = behind(live, addr);
	memmove(&live->range[at + 1], &live->range[at], (live->nr - at) * sizeof(*live->range));
	live->range[at] = (struct live_range){addr, bytes};
	live->nr++;
	return true;
}

uint64_t live_remove(struct live *live, uint64_t addr)
{
	uint32_t at = behind(live, addr);
	uint64_t bytes;

	if (!at || live->range[at - 1].addr != addr)
		return 0;
	bytes = live->range[at - 1].bytes;
	live->nr--;
	memmove(&live->range[at - 1], &live->range[at], (live->nr + 1 - at) * sizeof(*live->range));
	return bytes;
}

bool live_find(const struct live *live, uint64_t addr, uint64_t *base, uint64_t *bytes)
{
	uint32_t at = behind(live, addr);
	const struct live_range *range;

	if (!at)
		return false;
	range = &live->range[at - 1];
	if (addr - range->addr >= range->bytes)
		return false;
	if (base)
		*base = range->addr;
	if (bytes)
		*bytes = range->bytes;
	return true;
}

void live_fini(struct live *live)
{
	free(live->range);
	*live = (struct live){0};
}
