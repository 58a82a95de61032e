/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel finds as it starts, and what traps it. Its mappings are looked at once, at its
 * start; changes under it are looked at as they are made. A use that covers whole groups of blocks
 * costs a look at their counts. And messages that begin beside others that they had to wait for.
 */
#include <stdio.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

void sim_kernel_trap(struct sim *sim, struct sim_kernel *kernel, const char *addr,
		     const char *reason)
{
	const struct sim_region *region = sim_region_at(sim, addr);

	if (kernel->err)
		return;
	kernel->err = -WEIR_ETRAP;
	if (region)
		log_error("kernel '%s' on stream %u: block %llu of reservation %p (offset %llu, "
			  "address %p): %s",
			  kernel->kernel->name, kernel->op.stream->id,
			  (unsigned long long)((uint64_t)(addr - region->base) / region->unit),
			  (void *)region->base, (unsigned long long)(addr - region->base),
			  (const void *)addr, reason);
	else
		log_error("kernel '%s' on stream %u: address %p: %s", kernel->kernel->name,
			  kernel->op.stream->id, (const void *)addr, reason);
}

bool sim_use_meets(const struct weir_use *use, const char *addr, uint64_t bytes)
{
	uintptr_t begin = (uintptr_t)use->addr, other = (uintptr_t)addr;

	return use_reads(use) && begin < other + bytes && other < begin + use->bytes;
}

/* Where kernels see bytes of a piece that a use meets; NULL: nowhere. Packets see its alias. */
static const char *piece_met_at(const struct sim *sim, struct sim_piece *piece, const char *alias,
				uint64_t bytes, const struct weir_use *use)
{
	if (sim_use_meets(use, alias, bytes))
		return alias;
	for (uint32_t i = 0; i < piece->nr_places; i++) {
		const struct sim_place *place = sim_piece_place(piece, i);
		const struct sim_region *region = place->region;
		const char *addr = region->base + place->unit * region->unit +
				   (alias - sim_memory_alias(sim, piece));

		if (sim_use_meets(use, addr, bytes))
			return addr;
	}
	return NULL;
}

/* Whether a copy or a packet was queued while the bracket was open that the kernel belongs to, and
 * says that the two have no order: the bracket's span is among those that it noted. */
static bool is_unordered(const struct sim_kernel *kernel, const uint64_t *span, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (span[i] == kernel->span)
			return true;
	return false;
}

/* Whether a list of a piece's goes on with a move that started or was queued before an op: those
 * that follow one that is neither are not, either. */
static bool goes_on(const struct sim_move *move, const struct sim_op *op)
{
	return move && (move->op->started || move->op->seq < op->seq);
}

/* Trap the kernel if a move that is neither done nor ordered behind it meets a use of it. written:
 * whether what the move writes is looked at, or what it reads. */
static void move_check(struct sim *sim, struct sim_kernel *kernel, const struct weir_use *use,
		       const struct sim_move *move, bool written, const char *why)
{
	const struct sim_copy *copy = (const struct sim_copy *)move->op;
	struct sim_piece *piece = written ? move->dst_piece : move->src_piece;
	const char *at;

	if (!piece || (!written && !use_writes(use)) ||
	    is_unordered(kernel, copy->span, copy->nr_spans))
		return;
	at = piece_met_at(sim, piece, written ? move->dst : move->src, move->bytes, use);
	if (at)
		sim_kernel_trap(sim, kernel, at, why);
}

static void piece_check_moves(struct sim *sim, struct sim_kernel *kernel,
			      const struct weir_use *use, const struct sim_piece *piece)
{
	const struct sim_move *m;

	for (m = piece->writes.first; goes_on(m, &kernel->op); m = m->write.next)
		move_check(sim, kernel, use, m, true,
			   "it moves: a copy that is not done writes it");
	for (m = piece->reads.first; goes_on(m, &kernel->op); m = m->read.next)
		move_check(sim, kernel, use, m, false,
			   "it moves: a copy that is not done reads what the kernel writes");
}

const char *sim_mapping_denied(const struct sim_mapping *mapping, uint32_t device, bool write)
{
	if (!mapping->piece)
		return "it is not mapped";
	if (!(mapping->devices & BACKEND_DEVICE_BIT(device)) || mapping->prot == BACKEND_PROT_NONE)
		return "it is not mapped for this device";
	if (write && mapping->prot == BACKEND_PROT_READ)
		return "it is read-only, and the use writes it";
	return NULL;
}

/* Whether a use is that of a packet's elements, which are some of what it spans. */
static bool is_elements(const struct sim_kernel *kernel, const struct weir_use *use)
{
	return kernel->packet && use == &kernel->uses[0];
}

/* A unit's mapping against a use of it; traps the kernel where it falls short. Of what lies between
 * a packet's elements it may. @return whether the unit is used. */
static bool unit_check(struct sim *sim, struct sim_kernel *kernel, const struct weir_use *use,
		       const struct sim_region *region, uint64_t unit)
{
	const struct sim_mapping *mapping = &region->mapping[unit];
	const char *addr = region->base + unit * region->unit;
	const char *denied =
		sim_mapping_denied(mapping, kernel->op.stream->device, use_writes(use));

	if (!denied)
		piece_check_moves(sim, kernel, use, mapping->piece);
	else if (!is_elements(kernel, use))
		sim_kernel_trap(sim, kernel, addr < (const char *)use->addr ? use->addr : addr,
				denied);
	return !denied && !kernel->err;
}

/* Whether a whole group of units lets a kernel have what a use wants, with nothing to look at. */
static bool group_open(const struct sim_group *group, uint32_t device, bool write, uint64_t nr)
{
	return !group->moving && (write ? group->writable[device] : group->readable[device]) == nr;
}

static void region_survey(struct sim *sim, struct sim_kernel *kernel, struct cost_use *cost,
			  const struct sim_region *region)
{
	const struct weir_use *use = cost->use;
	uint64_t begin = (uintptr_t)use->addr - (uintptr_t)region->base, end = begin + use->bytes;
	uint64_t unit = begin / region->unit, last = (end - 1) / region->unit;

	while (!kernel->err && unit <= last) {
		const struct sim_group *group = &region->group[unit / SIM_GROUP];
		uint64_t from = unit * region->unit, to = from + region->unit;
		uint64_t nr = region->nr_units - unit;

		nr = nr < SIM_GROUP ? nr : SIM_GROUP;
		if (unit % SIM_GROUP == 0 && from >= begin && from + nr * region->unit <= end &&
		    group_open(group, kernel->op.stream->device, use_writes(use), nr)) {
			for (uint32_t m = 0; m < sim->base.desc.nr_memories; m++)
				cost->bytes[m] += group->in_memory[m] * region->unit;
			unit += nr;
			continue;
		}
		from = MAX(from, begin);
		to = MIN(to, end);
		if (unit_check(sim, kernel, use, region, unit))
			cost->bytes[region->mapping[unit].piece->memory] += to - from;
		unit++;
	}
}

/* All elements of a packet are where its span is mapped. */
static void elements_survey(struct sim *sim, struct sim_kernel *kernel, struct cost_use *cost)
{
	uint64_t mapped = 0;

	for (uint32_t m = 0; m < sim->base.desc.nr_memories; m++)
		mapped += cost->bytes[m];
	if (!mapped)
		sim_kernel_trap(sim, kernel, cost->use->addr, "it is not mapped for this device");
	for (uint32_t m = 0; mapped && m < sim->base.desc.nr_memories; m++)
		cost->bytes[m] = (uint64_t)((double)cost->bytes[m] / (double)mapped *
					    (double)cost->use->bytes);
}

void sim_kernel_survey(struct sim *sim, struct sim_kernel *kernel)
{
	uint32_t own = sim->base.desc.device[kernel->op.stream->device].memory;

	for (uint32_t i = 0; i < kernel->nr_uses && !kernel->err; i++) {
		const struct weir_use *use = &kernel->uses[i];
		const struct sim_region *region;
		struct sim_piece *piece;

		if (!use_reads(use))
			continue;
		region = sim_region_at(sim, use->addr);
		if (region && use->bytes <= region->bytes - ((uintptr_t)use->addr -
							     (uintptr_t)region->base)) {
			region_survey(sim, kernel, &kernel->costs[i], region);
			if (is_elements(kernel, use) && !kernel->err)
				elements_survey(sim, kernel, &kernel->costs[i]);
			continue;
		}
		if (!region && uvm_holds(sim, use->addr, use->bytes)) {
			/* By the time that it runs. */
			uint64_t there = uvm_in_place_bytes(sim, kernel->op.stream->device, use);

			kernel->costs[i].bytes[own] = use->bytes - there;
			kernel->costs[i].bytes[cost_host_memory(&sim->base.desc)] += there;
			continue;
		}
		piece = region ? NULL : sim_memory_piece_at(sim, use->addr);
		if (!piece || (piece->handle && !kernel->packet)) {
			sim_kernel_trap(sim, kernel, use->addr, "it is no longer allocated");
			return;
		}
		kernel->costs[i].bytes[piece->memory] = use->bytes;
		piece_check_moves(sim, kernel, use, piece);
	}
}

/* ------------------------------------------------------------------ changes under a kernel */

void sim_kernels_check_access(struct sim *sim, const struct sim_region *region, uint64_t unit,
			      enum backend_prot prot, uint64_t devices)
{
	const char *addr = region->base + unit * region->unit;

	for (uint32_t d = 0; d < sim->base.desc.nr_devices; d++) {
		struct sim_kernel *kernel = sim->device[d].running;

		for (uint32_t i = 0; kernel && i < kernel->nr_uses; i++) {
			const struct weir_use *use = &kernel->uses[i];

			if (!sim_use_meets(use, addr, region->unit))
				continue;
			if (!(devices & BACKEND_DEVICE_BIT(d)) || prot == BACKEND_PROT_NONE ||
			    (prot == BACKEND_PROT_READ && use_writes(use)))
				sim_kernel_trap(sim, kernel, addr,
						"its mapping was changed under the running kernel");
		}
	}
}

/* One move that starts while a kernel runs. */
static void kernel_check_move(struct sim *sim, struct sim_kernel *kernel,
			      const struct sim_move *move)
{
	for (uint32_t i = 0; i < kernel->nr_uses; i++) {
		const struct weir_use *use = &kernel->uses[i];

		move_check(sim, kernel, use, move, true,
			   "a copy began to write it under the running kernel");
		move_check(sim, kernel, use, move, false,
			   "a copy began to read what the running kernel writes");
	}
}

void sim_kernels_check_copy(struct sim *sim, const struct sim_copy *copy)
{
	for (uint32_t d = 0; d < sim->base.desc.nr_devices; d++)
		for (uint32_t i = 0; sim->device[d].running && i < copy->nr; i++)
			kernel_check_move(sim, sim->device[d].running, &copy->move[i]);
}

/* ------------------------------------------------------------------ packets beside others */

/* Where a use of another kernel's meets one of a packet's, block by block; NULL: nowhere. */
static const char *use_met_at(struct sim *sim, const struct weir_use *packet,
			      const struct weir_use *other)
{
	const struct sim_region *region = sim_region_at(sim, packet->addr);
	struct sim_piece *piece = region ? NULL : sim_memory_piece_at(sim, packet->addr);
	uint64_t offset = region ? (uint64_t)((char *)packet->addr - region->base) : 0;
	uint64_t end = offset + packet->bytes;
	const char *at = NULL;

	if (!region)
		return piece ? piece_met_at(sim, piece, packet->addr, packet->bytes, other) : NULL;
	while (offset < end && !at) {
		uint64_t within = offset % region->unit;
		uint64_t bytes = MIN(region->unit - within, end - offset);

		piece = region->mapping[offset / region->unit].piece;
		if (piece)
			at = piece_met_at(sim, piece, sim_memory_alias(sim, piece) + within, bytes,
					  other);
		offset += bytes;
	}
	return at;
}

/* Where a packet meets another kernel, one of which writes there; NULL: nowhere. */
static const char *packet_met_at(struct sim *sim, const struct sim_kernel *packet,
				 const struct sim_kernel *other)
{
	const char *at = NULL;

	for (uint32_t i = 0; i < packet->nr_uses; i++)
		for (uint32_t k = 0; k < other->nr_uses && !at; k++)
			if (use_writes(&packet->uses[i]) || use_writes(&other->uses[k]))
				at = use_met_at(sim, &packet->uses[i], &other->uses[k]);
	return at;
}

/* Whether one kernel was queued before another on another stream. If it is not done when that one
 * could start, the two have no order. */
static bool is_before(const struct sim_kernel *kernel, const struct sim_kernel *other)
{
	return kernel->op.seq < other->op.seq && kernel->op.stream != other->op.stream;
}

/* Trap a packet that meets one of the kernels of a stream. */
static void stream_check_packet(struct sim *sim, struct sim_kernel *kernel,
				const struct sim_stream *stream)
{
	const struct sim_packet *packet = kernel->packet;

	for (const struct sim_op *op = stream->head; op && op->seq < kernel->op.seq;
	     op = op->next) {
		const struct sim_kernel *other = (const struct sim_kernel *)op;
		const char *at = NULL;

		if (op->kind->is_kernel && !other->packet && is_before(other, kernel) &&
		    !is_unordered(other, packet->span, packet->nr_spans))
			at = packet_met_at(sim, kernel, other);
		if (at)
			sim_kernel_trap(sim, kernel, at,
					"a kernel that is not done uses it, too, and one of the "
					"two writes: they have no order");
	}
}

void sim_kernel_check_packets(struct sim *sim, struct sim_kernel *kernel)
{
	/* Packets are in the order in which they were queued, as are the operations of a stream. */
	for (const struct list_link *l = sim->packets.next; l != &sim->packets; l = l->next) {
		const struct sim_packet *packet = packet_of(l);
		const char *at = NULL;

		if (packet->kernel->op.seq > kernel->op.seq)
			break;
		if (is_before(packet->kernel, kernel) &&
		    !is_unordered(kernel, packet->span, packet->nr_spans))
			at = packet_met_at(sim, packet->kernel, kernel);
		if (at)
			sim_kernel_trap(sim, kernel, at,
					"a packet that is not done uses it, too, and one of the "
					"two writes: they have no order");
	}
	for (uint32_t i = 0; kernel->packet && i < sim->nr_active; i++)
		stream_check_packet(sim, kernel, sim->active[i]);
}

/* ------------------------------------------------------------------ copies beside copies */

/* Of a piece's moves, by the list that they are in: one that is neither done nor queued behind the
 * copy on another stream, and meets some bytes. The copy did not wait for it. */
static const struct sim_move *move_beside(const struct sim_copy *copy, const struct sim_move *first,
					  bool written, const char *at, uint64_t bytes)
{
	const struct sim_move *m;

	for (m = first; goes_on(m, &copy->op); m = written ? m->write.next : m->read.next) {
		const char *other = written ? m->dst : m->src;

		if (((const struct sim_copy *)m->op)->beside && m->op->stream != copy->op.stream &&
		    other < at + bytes && at < other + m->bytes)
			return m;
	}
	return NULL;
}

/* Whether a packet that was queued before a move's copy, and is not done, is on another stream and
 * meets it, and one of the two writes there. */
static bool packet_beside(const struct sim *sim, const struct sim_kernel *packet,
			  const struct sim_move *move)
{
	bool meets = false;

	if (packet->op.stream == move->op->stream)
		return false;
	for (uint32_t i = 0; i < packet->nr_uses && !meets; i++) {
		const struct weir_use *use = &packet->uses[i];

		meets = move->dst_piece &&
			piece_met_at(sim, move->dst_piece, move->dst, move->bytes, use);
		if (use_writes(use) && move->src_piece)
			meets |= piece_met_at(sim, move->src_piece, move->src, move->bytes, use) !=
				 NULL;
	}
	return meets;
}

/* The first packet that a move meets without an order; NULL: none. */
static const struct sim_kernel *move_packet(const struct sim *sim, const struct sim_move *move)
{
	for (const struct list_link *l = sim->packets.next; l != &sim->packets; l = l->next) {
		const struct sim_kernel *packet = packet_of(l)->kernel;

		if (packet->op.seq > move->op->seq)
			break; /* they are in the order in which they were queued */
		if (packet_beside(sim, packet, move))
			return packet;
	}
	return NULL;
}

/* The first copy that a move meets without an order; NULL: none. */
static const struct sim_move *move_copy(const struct sim_copy *copy, const struct sim_move *move)
{
	const struct sim_move *beside = NULL;

	if (move->dst_piece)
		beside = move_beside(copy, move->dst_piece->writes.first, true, move->dst,
				     move->bytes);
	if (move->dst_piece && !beside)
		beside = move_beside(copy, move->dst_piece->reads.first, false, move->dst,
				     move->bytes);
	if (move->src_piece && !beside)
		beside = move_beside(copy, move->src_piece->writes.first, true, move->src,
				     move->bytes);
	return beside;
}

int sim_copy_check_order(const struct sim *sim, const struct sim_copy *copy)
{
	for (uint32_t i = 0; copy->beside && i < copy->nr; i++) {
		const struct sim_move *move = &copy->move[i], *beside = move_copy(copy, move);
		const struct sim_kernel *packet = move_packet(sim, move);

		if (beside)
			log_error("copy of %llu bytes to %p on stream %u: it begins while one on "
				  "stream %u, of %llu bytes to %p, is not done, and one of the "
				  "two writes what the other uses: they have no order",
				  (unsigned long long)move->bytes, (void *)move->dst,
				  copy->op.stream->id, beside->op->stream->id,
				  (unsigned long long)beside->bytes, (void *)beside->dst);
		else if (packet)
			log_error("copy of %llu bytes to %p on stream %u: it begins while a packet "
				  "on stream %u is not done, and one of the two writes what the "
				  "other uses: they have no order",
				  (unsigned long long)move->bytes, (void *)move->dst,
				  copy->op.stream->id, packet->op.stream->id);
		if (beside || packet)
			return -WEIR_ETRAP;
	}
	return 0;
}

/* ------------------------------------------------------------------ brackets */

void sim_kernel_check_bracket(struct sim *sim, struct sim_stream *stream, struct sim_kernel *kernel)
{
	static const char written[] = "the bracket does not declare that it is written";
	static const char read[] = "the bracket does not declare that it is read";

	for (uint32_t i = 0; i < kernel->nr_uses; i++) {
		const struct weir_use *use = &kernel->uses[i];
		const struct sim_region *region = sim_region_at(sim, use->addr);

		if (region && region->guarded && use_reads(use) &&
		    !access_covers(stream->bracket, use))
			sim_kernel_trap(sim, kernel, use->addr, use_writes(use) ? written : read);
	}
}

void sim_kernel_check_order(struct sim *sim, struct sim_stream *stream, struct sim_kernel *kernel)
{
	for (uint32_t i = 0; i < sim->nr_slots && stream->bracket; i++) {
		const struct sim_stream *other = sim->slot[i].stream;
		const struct access_bracket *bracket;
		char why[160];
		uintptr_t at;

		if (!other || other == stream || !other->bracket)
			continue;
		bracket = access_conflict(stream->bracket, other->bracket, &at);
		if (!bracket)
			continue;
		snprintf(why, sizeof(why),
			 "a bracket of stream %u, with kernel '%s', is open and names it, too, and "
			 "one of the two writes: they have no order",
			 other->id, bracket->kernel->name);
		sim_kernel_trap(sim, kernel, (const char *)at, why);
	}
	access_launched(stream->bracket, kernel->kernel);
}
