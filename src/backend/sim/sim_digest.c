/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests: of bytes what digest.h defines, by a key that is the same in all runs; without bytes a
 * number of what the chunk holds (sim_content.c). A digest takes the time of its few blocks and
 * runs beside kernels: that it takes a little of their device is not counted. Whoever takes it
 * though something wrote the chunk meanwhile is trapped.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/hash.h"
#include "src/base/log.h"

struct sim_digest {
	struct sim_op op;
	struct backend_chunk chunk;
	uint64_t bytes;
	uint32_t ticket;
	struct sim_content content; /* the chunk's, as it started */
	const char *spoiled;	    /* why it is of nothing that was ever there; NULL: it is not */
};

/* ------------------------------------------------------------------ running */

/* Whether a running kernel was declared to write the piece. */
static bool kernel_writes(struct sim *sim, struct sim_piece *piece, const struct sim_kernel *kernel)
{
	for (uint32_t i = 0; kernel && i < kernel->nr_uses; i++) {
		const struct weir_use *use = &kernel->uses[i];

		if (!use_writes(use))
			continue;
		if (sim_use_meets(use, sim_memory_alias(sim, piece), piece->bytes))
			return true;
		for (uint32_t n = 0; n < piece->nr_places; n++) {
			const struct sim_place *place = sim_piece_place(piece, n);
			const struct sim_region *region = place->region;

			if (sim_use_meets(use, region->base + place->unit * region->unit,
					  region->unit))
				return true;
		}
	}
	return false;
}

/* Why the piece is no longer, or not yet, what the digest is to be of; NULL: it is. */
static const char *digest_denied(struct sim *sim, struct sim_piece *piece,
				 const struct sim_digest *digest)
{
	const struct sim_move *move = piece ? piece->writes.first : NULL;

	if (!piece)
		return "it was destroyed";
	if (move && (move->op->started || move->op->seq < digest->op.seq))
		return "a copy that is not done writes it";
	for (uint32_t d = 0; d < sim->base.desc.nr_devices; d++)
		if (kernel_writes(sim, piece, sim->device[d].running))
			return "a running kernel writes it";
	return NULL;
}

static void digest_start(struct sim *sim, struct sim_op *op)
{
	struct sim_digest *digest = (struct sim_digest *)op;
	struct sim_piece *piece = sim_memory_chunk(sim, &digest->chunk);

	digest->spoiled = digest_denied(sim, piece, digest);
	if (piece)
		digest->content = sim_content(sim, piece);
	sim_engine_timer(op, sim->now_ns +
				     sim_ns_ceil(cost_digest_ns(&sim->base.desc, op->stream->device,
								digest->bytes)));
}

/* What stands for the digest of a piece's first bytes without them. */
static struct digest content_digest(struct sim *sim, struct sim_content content, uint64_t bytes)
{
	uint64_t first = bytes <= content.bytes ? content.id : hash_mix(0, ++sim->last_write);

	first = hash_mix(first, bytes);
	return (struct digest){{first % DIGEST_PRIME, hash_mix(first, 1) % DIGEST_PRIME}};
}

static void digest_event(struct sim *sim, struct sim_op *op)
{
	struct sim_digest *digest = (struct sim_digest *)op;
	struct sim_piece *piece = sim_memory_chunk(sim, &digest->chunk);
	struct sim_digest_slot *slot = &sim->digest[digest->ticket];

	if (!digest->spoiled)
		digest->spoiled = digest_denied(sim, piece, digest);
	if (!digest->spoiled && sim_content(sim, piece).id != digest->content.id)
		digest->spoiled = "it was written meanwhile";
	slot->done = true;
	slot->spoiled = digest->spoiled;
	slot->chunk = digest->chunk.handle;
	if (!digest->spoiled && sim->base.data == WEIR_DATA_REAL)
		slot->value =
			digest_of(&sim->digest_key, sim_memory_alias(sim, piece), digest->bytes);
	else if (!digest->spoiled)
		slot->value = content_digest(sim, digest->content, digest->bytes);
	sim_engine_done(sim, op, 0);
}

static const struct sim_op_kind digest_kind = {
	.ready = sim_engine_ready_always,
	.start = digest_start,
	.event = digest_event,
};

/* ------------------------------------------------------------------ queueing */

static int digest_locked(struct sim *sim, stream_id_t id, const struct backend_chunk *chunk,
			 uint64_t bytes, uint32_t *ticket)
{
	struct sim_stream *stream = sim_stream_find(sim, id);
	struct sim_piece *piece = sim_memory_chunk(sim, chunk);
	const struct weir_machine_desc *desc = &sim->base.desc;
	struct sim_digest *digest;
	uint32_t at = 0;

	if (!stream || !piece || backend_digest_check(&sim->base, stream->device, chunk, bytes))
		return -EINVAL;
	if (!(piece->devices & BACKEND_DEVICE_BIT(stream->device))) {
		log_error("sim: a digest on a stream of %s of a chunk that has no alias for it",
			  desc->device[stream->device].name);
		return -EACCES;
	}
	while (at < BACKEND_DIGESTS_MAX && sim->digest[at].taken)
		at++;
	if (at == BACKEND_DIGESTS_MAX)
		return -EBUSY;
	digest = calloc(1, sizeof(*digest));
	if (!digest)
		return -ENOMEM;
	digest->op.kind = &digest_kind;
	digest->chunk = *chunk;
	digest->bytes = bytes;
	digest->ticket = at;
	sim->digest[at] = (struct sim_digest_slot){.taken = true};
	*ticket = at;
	sim_engine_queue(sim, stream, &digest->op, desc->device[stream->device].launch_host_ns);
	sim_spend(sim, desc->device[stream->device].launch_host_ns);
	return 0;
}

int sim_digest(struct backend *b, stream_id_t id, const struct backend_chunk *chunk, uint64_t bytes,
	       uint32_t *ticket)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = digest_locked(sim, id, chunk, bytes, ticket);
	sim_leave(sim);
	return err;
}

static int digest_trap(const struct sim_digest_slot *slot)
{
	log_error("digest of chunk %llu: %s", (unsigned long long)slot->chunk, slot->spoiled);
	return -WEIR_ETRAP;
}

int sim_digest_take(struct backend *b, uint32_t ticket, struct digest *out)
{
	struct sim *sim = sim_of(b);
	struct sim_digest_slot *slot = &sim->digest[ticket % BACKEND_DIGESTS_MAX];
	int err = 0;

	sim_enter(sim);
	if (ticket >= BACKEND_DIGESTS_MAX || !slot->taken)
		err = -EINVAL;
	else if (!slot->done)
		err = -EBUSY;
	else if (out && slot->spoiled)
		err = digest_trap(slot);
	else if (out)
		*out = slot->value;
	if (slot->done)
		slot->taken = false;
	sim_leave(sim);
	return err;
}

int sim_digest_prepare(struct backend *b, uint32_t device)
{
	return device < b->desc.nr_devices ? 0 : -EINVAL;
}
