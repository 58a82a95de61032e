/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/bins.h"

#include <stdlib.h>

#include "src/base/hash.h"

/* One stream and size. Stays when it is empty, since the next iteration has the same sizes, until
 * the stream is drained. */
struct bin {
	struct bin *next;
	void *stream;
	uint64_t bytes;
	uint64_t *addr;
	uint32_t nr, max;
};

#define FIRST_SLOTS 64u

static uint32_t slot_of(const struct bins *bins, const void *stream, uint64_t bytes)
{
	return (uint32_t)hash_mix(hash_mix(0, (uint64_t)(uintptr_t)stream), bytes) &
	       (bins->nr_slots - 1);
}

static struct bin *find(const struct bins *bins, const void *stream, uint64_t bytes)
{
	struct bin *bin = bins->nr_slots ? bins->bin[slot_of(bins, stream, bytes)] : NULL;

	while (bin && (bin->stream != stream || bin->bytes != bytes))
		bin = bin->next;
	return bin;
}

static bool grow(struct bins *bins)
{
	struct bins more = {.nr_slots = bins->nr_slots ? 2 * bins->nr_slots : FIRST_SLOTS};

	more.bin = calloc(more.nr_slots, sizeof(struct bin *));
	if (!more.bin)
		return bins->nr_slots != 0;
	for (uint32_t s = 0; s < bins->nr_slots; s++)
		while (bins->bin[s]) {
			struct bin *bin = bins->bin[s];
			struct bin **at = &more.bin[slot_of(&more, bin->stream, bin->bytes)];

			bins->bin[s] = bin->next;
			bin->next = *at;
			*at = bin;
		}
	free(bins->bin);
	bins->bin = more.bin;
	bins->nr_slots = more.nr_slots;
	return true;
}

static struct bin *add(struct bins *bins, void *stream, uint64_t bytes)
{
	struct bin *bin, **at;

	if (bins->nr >= bins->nr_slots && !grow(bins))
		return NULL;
	bin = calloc(1, sizeof(*bin));
	if (!bin)
		return NULL;
	bin->stream = stream;
	bin->bytes = bytes;
	at = &bins->bin[slot_of(bins, stream, bytes)];
	bin->next = *at;
	*at = bin;
	bins->nr++;
	return bin;
}

bool bins_put(struct bins *bins, const struct kept *range)
{
	struct bin *bin = find(bins, range->stream, range->bytes);

	if (!bin)
		bin = add(bins, range->stream, range->bytes);
	if (!bin)
		return false;
	if (bin->nr == bin->max) {
		uint32_t max = bin->max ? 2 * bin->max : 4;
		uint64_t *more = realloc(bin->addr, max * sizeof(*more));

		if (!more)
			return false;
		bin->addr = more;
		bin->max = max;
	}
	bin->addr[bin->nr++] = range->addr;
	bins->bytes += range->bytes;
	return true;
}

uint64_t bins_take(struct bins *bins, const void *stream, uint64_t bytes)
{
	struct bin *bin = find(bins, stream, bytes);

	if (!bin || !bin->nr)
		return 0;
	bins->bytes -= bytes;
	return bin->addr[--bin->nr];
}

static void drop(struct bins *bins, struct bin **at)
{
	struct bin *bin = *at;

	*at = bin->next;
	free(bin->addr);
	free(bin);
	bins->nr--;
}

bool bins_drain(struct bins *bins, const void *stream, bool any_stream, uint64_t least_bytes,
		struct kept *out)
{
	for (uint32_t s = 0; s < bins->nr_slots; s++)
		for (struct bin **at = &bins->bin[s], *bin; (bin = *at);) {
			if ((!any_stream && bin->stream != stream) || bin->bytes < least_bytes) {
				at = &bin->next;
				continue;
			}
			if (bin->nr) {
				bins->bytes -= bin->bytes;
				*out = (struct kept){bin->stream, bin->addr[--bin->nr], bin->bytes};
				return true;
			}
			drop(bins, at);
		}
	return false;
}

void bins_fini(struct bins *bins)
{
	for (uint32_t s = 0; s < bins->nr_slots; s++)
		while (bins->bin[s])
			drop(bins, &bins->bin[s]);
	free(bins->bin);
	*bins = (struct bins){0};
}
