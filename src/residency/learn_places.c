/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plan has to know of a space's places: how much room there is, and what copies, use in
 * place and mapping calls cost there.
 */
#include <string.h>

#include "src/cost/cost.h"
#include "src/residency/residency.h"

/* Chunks of each neighbour that the plan leaves free, at most. */
#define NEAR_SPARE SPACE_BATCH_MAX
/* Of the rate at which neighbours may be used, what a plan counts on: it does not have the copies
 * to the host that make blocks clean, and a period may take less time than it says. The GCN of 20M
 * nodes, simulated on h200x2 at 150 GB/s, then uses 148; with 0.92 it is 157. */
#define NEAR_AIM 0.9

/* The link between a device's own memory and another place. */
static const struct weir_link_desc *link_to(const struct weir_space *space, place_t own,
					    place_t place)
{
	return &space->backend->desc.link[space_path(space, place, own)->link];
}

/* How many places below a plan tells apart, and which it takes for all that are alike: neighbours'
 * memories count as one, at the rate of the first. */
static uint32_t nr_below(const struct weir_space *space)
{
	return space_has_neighbours(space) ? PLAN_BELOW_MAX : 1;
}

static place_t place_below(const struct weir_space *space, uint32_t k)
{
	return k + 1 == nr_below(space) ? space_host(space) : (place_t)space->nr_devices;
}

/* What a use takes in place at a place. */
static void learn_rate(const struct weir_space *space, place_t own, double missed, place_t place,
		       const struct record_use *recorded, struct plan_rate *out)
{
	const struct weir_use declared = record_use_declared(recorded), *use = &declared;
	const struct weir_link_desc *link = link_to(space, own, place);
	double hit = cost_inplace_bytes_per_s(link, use, 1);
	double miss = cost_inplace_bytes_per_s(link, use, UINT64_MAX);
	double ns = cost_expansion(use) * 1e9 / miss;

	out->in_ns = recorded->read_bytes * ns;
	out->out_ns = recorded->write_bytes * ns;
	out->serial_ns = (out->in_ns + out->out_ns) * cost_serial(link, use->pattern);
	out->hit = miss / hit;
	out->reach_blocks = (1 - missed) * cost_reach_bytes(link, use) / (double)space->block_bytes;
}

void learn_place_rates(const struct weir_space *space, place_t own, double missed,
		       const struct record_use *recorded, struct plan_rate at[PLAN_BELOW_MAX])
{
	for (uint32_t k = 0; k < nr_below(space); k++)
		learn_rate(space, own, missed, place_below(space, k), recorded, &at[k]);
	/* Where neighbours are for copies, use in place there is worth no more than on the host. */
	if (space->residency->near_copy_only)
		at[0] = at[nr_below(space) - 1];
}

/* What uses move in place over a link, or over those to all neighbours: bytes each way, what these
 * take alone, ns, and of the sum what may not overlap. */
struct place_ns {
	double in, out, in_ns, out_ns, serial;
};

/* What uses take as modelled; if no random access hits a translation cache; and by the misses
 * alone that are modelled. */
enum { MODELLED, MISSED, REACHED, NR_TIMES };

/* Of a byte at a place where so many of the use lie, ns. */
static void byte_times(const struct weir_link_desc *link, const struct weir_use *use,
		       uint64_t footprint, double ns[NR_TIMES])
{
	double reached = MIN(cost_reach_bytes(link, use) / (double)footprint, 1);

	ns[MODELLED] = 1e9 / cost_inplace_bytes_per_s(link, use, footprint);
	ns[MISSED] = 1e9 / cost_inplace_bytes_per_s(link, use, UINT64_MAX);
	ns[REACHED] = ns[MISSED] * (use->pattern == WEIR_RANDOM ? 1 - reached : 1);
}

/* Adds what one of them takes, and to its link_ns by all of its bytes. */
static void add_link_ns(const struct weir_space *space, place_t own, struct space_use *use,
			place_t place, struct place_ns out[NR_TIMES])
{
	const struct weir_link_desc *link = link_to(space, own, place);
	struct weir_use declared = {.pattern = use->pattern,
				    .granule = use->granule,
				    .read_bytes = (uint64_t)use->read_bytes,
				    .write_bytes = (uint64_t)use->write_bytes};
	double all, touched, ns[NR_TIMES];
	uint32_t away = 0;

	for (uint32_t i = use->first; i < use->first + use->nr; i++)
		away += block_is_at(&use->range->block[i], place);
	if (!away || use->kind == WEIR_DISCARD)
		return;
	all = cost_expansion(&declared) * away / use->nr;
	touched = all * (1 - (double)use->unused);
	byte_times(link, &declared, away * space->block_bytes, ns);
	use->link_ns += (float)((use->read_bytes + use->write_bytes) * all * ns[MODELLED]);
	for (int k = 0; k < NR_TIMES; k++) {
		out[k].in += use->read_bytes * touched;
		out[k].out += use->write_bytes * touched;
		out[k].in_ns += use->read_bytes * touched * ns[k];
		out[k].out_ns += use->write_bytes * touched * ns[k];
		out[k].serial += (use->read_bytes + use->write_bytes) * touched * ns[k] *
				 cost_serial(link, use->pattern);
	}
}

/* The time of both ways: at the rate of both for as long as both last. */
static double both_ns(const struct weir_link_desc *link, const struct place_ns *t)
{
	double both = MIN(t->in, t->out), ns = both * 1e9 / link->inplace_both_bytes_per_s;

	if (t->in > both)
		ns += (t->in - both) * t->in_ns / t->in;
	if (t->out > both)
		ns += (t->out - both) * t->out_ns / t->out;
	return MAX(ns, MAX(t->in_ns, t->out_ns));
}

/* Neighbours' memories count as one behind one link, as in plans: their links share a port. */
struct link_times learn_link_times(const struct weir_space *space, place_t own,
				   struct space_use *uses, uint32_t nr_uses)
{
	struct link_times times = {0};
	struct place_ns ns[NR_TIMES] = {{0}};

	for (uint32_t u = 0; u < nr_uses; u++)
		uses[u].link_ns = 0;
	for (uint32_t place = 0; place < space->nr_places; place++) {
		const struct weir_link_desc *link;
		double missed_ns;

		if (place == own)
			continue;
		if (place <= space->nr_devices || place == space_host(space))
			memset(ns, 0, sizeof(ns));
		for (uint32_t u = 0; u < nr_uses; u++)
			add_link_ns(space, own, &uses[u], (place_t)place, ns);
		link = link_to(space, own, (place_t)place);
		missed_ns = both_ns(link, &ns[MISSED]);
		times.ns = MAX(times.ns, both_ns(link, &ns[MODELLED]));
		if (missed_ns > times.missed_ns) {
			times.missed_ns = missed_ns;
			times.reached_ns = both_ns(link, &ns[REACHED]);
		}
		if (ns[MODELLED].serial > 0)
			times.serial =
				MAX(times.serial, ns[MODELLED].serial / (ns[MODELLED].in_ns +
									 ns[MODELLED].out_ns));
	}
	return times;
}

double learn_hbm_ns(const struct weir_space *space, place_t own, const struct space_use *use)
{
	const struct weir_use declared = {.bytes = use->bytes,
					  .kind = use->kind,
					  .pattern = use->pattern,
					  .granule = use->granule,
					  .read_bytes = (uint64_t)use->read_bytes,
					  .write_bytes = (uint64_t)use->write_bytes};

	return cost_hbm_ns(space_device(space, own), &declared);
}

/* Blocks of a device's own memory that its plan may count on: all but the arenas', and what is
 * there of ranges that several devices use. */
static uint32_t plan_budget(const struct weir_space *space, place_t own)
{
	uint64_t budget = space->pmm[own].max_chunks, taken = 0;

	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		const struct range *range = space->range[r];

		if (range->arena && range->own == own)
			taken += range->nr_blocks;
		else if (range->homes)
			taken += range->nr_home[own];
	}
	return (uint32_t)(budget > taken ? budget - taken : 1);
}

/* What copies and mapping calls of a place below cost. */
static struct plan_below learn_below(const struct weir_space *space, place_t own, place_t place)
{
	const struct weir_link_desc *link = link_to(space, own, place);
	const struct weir_vmm_desc *vmm = &space->backend->desc.vmm;
	double bytes = (double)space->block_bytes, piece = (double)link->copy_ns;
	double in = cost_copy_bytes_per_s(link, space->pmm[place].memory);
	double out = cost_copy_bytes_per_s(link, space->pmm[own].memory);
	bool host = place == space_host(space);
	double host_mib = host ? bytes / (1 << 20) : 0;

	return (struct plan_below){
		.in_ns = bytes * 1e9 / in + piece,
		.out_ns = bytes * 1e9 / out + piece,
		.duplex_ns = bytes * 1e9 / link->duplex_bytes_per_s + piece,
		.inplace_duplex_ns = bytes * 1e9 / link->inplace_duplex_bytes_per_s,
		.inplace_both_ns = bytes * 1e9 / link->inplace_both_bytes_per_s,
		.map_ns = (double)(vmm->map_ns + vmm->set_access_ns) +
			  host_mib * (double)vmm->set_access_host_mib_ns,
		.unmap_ns = (double)vmm->unmap_ns + host_mib * (double)vmm->unmap_host_mib_ns,
	};
}

/* Blocks that one device's plan may count on at neighbours: copies on their way take room, too. */
static uint32_t near_budget(const struct weir_space *space)
{
	uint64_t budget = 0;

	for (uint32_t place = space->nr_devices; place + 1 < space->nr_places; place++) {
		uint64_t max = space->pmm[place].max_chunks;

		budget += max - MIN(max / 8, NEAR_SPARE);
	}
	return (uint32_t)MIN(budget / space->nr_devices, UINT32_MAX);
}

/* By what each neighbour may be burdened with, of which each device's plan has its part: what is at
 * neighbours is spread over them. What is copied from there to the host, to be clean, is not in the
 * plan. */
static double near_block_ns(const struct weir_space *space)
{
	const double nr = space_host(space) - space->nr_devices;
	const double rate = NEAR_AIM * space->residency->near_bytes_per_s * nr / space->nr_devices;

	return rate > 0 ? (double)space->block_bytes * 1e9 / rate : 0;
}

void learn_places(const struct weir_space *space, place_t own, struct plan_input *input)
{
	const struct weir_vmm_desc *vmm = &space->backend->desc.vmm;

	input->budget_blocks = plan_budget(space, own);
	input->near_blocks = near_budget(space);
	input->nr_below = nr_below(space);
	input->near_block_ns = near_block_ns(space);
	input->map_ns = (double)(vmm->map_ns + vmm->set_access_ns);
	input->unmap_ns = (double)vmm->unmap_ns;
	input->map_busy_ns = (double)vmm->set_access_busy_in_ns;
	input->map_busy_host_ns = (double)vmm->set_access_busy_ns;
	input->unmap_busy_ns = (double)vmm->unmap_busy_peer_ns;
	for (uint32_t k = 0; k < input->nr_below; k++)
		input->below[k] = learn_below(space, own, place_below(space, k));
}
