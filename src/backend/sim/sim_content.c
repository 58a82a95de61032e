/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pieces hold, by number, so that digests can be told apart without bytes: what a kernel is
 * declared to write, an upload and part of a copy have contents that nothing else has; a copy has
 * its source's. Writes by the CPU are not seen.
 *
 * A kernel marks what it writes with a number of its own, by units of a reservation or by groups of
 * them, as its start must not take longer for each chunk. A piece learns of that when somebody
 * asks what it holds, or when it is unmapped there.
 */
#include "src/backend/sim/sim_internal.h"
#include "src/base/hash.h"
#include "src/base/util.h"

/* What a write gave to a piece: a number that is equal for no other. */
static struct sim_content content_of(const struct sim_piece *piece, uint64_t write)
{
	uint64_t id = hash_mix(hash_mix(hash_mix(0, write), piece->memory), piece->offset);

	return (struct sim_content){.id = id, .bytes = piece->bytes};
}

struct sim_content sim_content(const struct sim *sim, struct sim_piece *piece)
{
	uint64_t latest = 0;

	for (uint32_t i = 0; i < piece->nr_places; i++) {
		const struct sim_place *place = sim_piece_place(piece, i);
		struct sim_mapping *mapping = &place->region->mapping[place->unit];
		const struct sim_group *group = &place->region->group[place->unit / SIM_GROUP];
		uint64_t write = MAX(mapping->write, group->write);

		if (write > mapping->seen_write)
			latest = MAX(latest, write);
		mapping->seen_write = sim->last_write;
	}
	if (latest)
		piece->content = content_of(piece, latest);
	return piece->content;
}

void sim_content_renew(struct sim *sim, struct sim_piece *piece)
{
	(void)sim_content(sim, piece);
	piece->content = content_of(piece, ++sim->last_write);
}

static void region_written(struct sim_region *region, const struct weir_use *use, uint64_t write)
{
	uint64_t offset = (uint64_t)((char *)use->addr - region->base);
	uint64_t unit = offset / region->unit, end = (offset + use->bytes - 1) / region->unit + 1;

	while (unit < end) {
		if (unit % SIM_GROUP == 0 && end - unit >= SIM_GROUP) {
			region->group[unit / SIM_GROUP].write = write;
			unit += SIM_GROUP;
		} else {
			region->mapping[unit++].write = write;
		}
	}
}

void sim_content_kernel(struct sim *sim, const struct sim_kernel *kernel)
{
	uint64_t write = ++sim->last_write;

	for (uint32_t i = 0; i < kernel->nr_uses; i++) {
		const struct weir_use *use = &kernel->uses[i];
		struct sim_region *region = sim_region_at(sim, use->addr);
		struct sim_piece *piece;

		if (!use_writes(use))
			continue;
		if (region) {
			region_written(region, use, write);
			continue;
		}
		piece = sim_memory_piece_at(sim, use->addr);
		if (piece)
			sim_content_renew(sim, piece);
	}
}

void sim_content_move(struct sim *sim, const struct sim_move *move)
{
	struct sim_piece *dst = move->dst_piece, *src = move->src_piece;
	struct sim_content from = {0}, to;
	uint64_t offset, same;

	if (!dst)
		return;
	to = sim_content(sim, dst);
	if (src)
		from = sim_content(sim, src);
	offset = (uint64_t)(move->dst - sim_memory_alias(sim, dst));
	same = to.id == from.id ? to.bytes : 0;
	/* The source's first bytes follow what is there of them. */
	if (src && offset <= same && move->src == sim_memory_alias(sim, src) + offset)
		dst->content = (struct sim_content){
			.id = from.id, .bytes = MAX(same, MIN(offset + move->bytes, from.bytes))};
	else
		sim_content_renew(sim, dst);
}
