/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fences, and what waits for one: streams, callers, chunks to be poisoned. A fence is the index of
 * its stream's slot + 1, shifted, and its own number there, from 1. Numbers go on when the slot is
 * used again, so that a fence outlives its stream and is done then.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"

#define FENCE_TIMES_MAX UINT64_C(65536)
#define POISON_WORD UINT32_C(0x7fa0dead) /* a signalling NaN */

static fence_t fence_pack(stream_id_t id, uint64_t number)
{
	return ((fence_t)(id % SIM_ID_STEP) + 1) << SIM_FENCE_BITS | number;
}

static uint64_t fence_number(fence_t fence)
{
	return fence & ((UINT64_C(1) << SIM_FENCE_BITS) - 1);
}

/* A fence's stream, or NULL: it is gone, and the fence is done. False: there is no such fence. */
static bool fence_stream(struct sim *sim, fence_t fence, struct sim_stream **out)
{
	uint64_t at = (fence >> SIM_FENCE_BITS) - 1, number = fence_number(fence);
	const struct sim_slot *slot;

	*out = NULL;
	if (!fence)
		return true;
	if (at >= sim->nr_slots || !number)
		return false;
	slot = &sim->slot[at];
	if (slot->stream && number > slot->nr_fences)
		*out = slot->stream;
	return number <= (*out ? (*out)->nr_recorded : slot->nr_fences);
}

int sim_fence_reached(struct sim *sim, fence_t fence)
{
	struct sim_stream *stream;

	if (!fence_stream(sim, fence, &stream))
		return -EINVAL;
	return !stream || fence_number(fence) <= stream->nr_done;
}

/* ------------------------------------------------------------------ poison */

static void poison_apply(struct sim *sim)
{
	struct sim_poison **at = &sim->poison;

	while (*at) {
		struct sim_poison *poison = *at;
		uint32_t *word = (uint32_t *)(void *)sim_memory_alias(sim, poison->piece);

		if (!sim_fence_reached(sim, poison->after)) {
			at = &poison->next;
			continue;
		}
		for (uint64_t i = 0; i < poison->piece->bytes / sizeof(*word); i++)
			word[i] = POISON_WORD;
		sim_content_renew(sim, poison->piece);
		*at = poison->next;
		free(poison);
	}
}

void sim_poison_forget(struct sim *sim, const struct sim_piece *piece)
{
	struct sim_poison **at = &sim->poison;

	while (*at) {
		struct sim_poison *poison = *at;

		if (piece && poison->piece != piece) {
			at = &poison->next;
			continue;
		}
		*at = poison->next;
		free(poison);
	}
}

void sim_poison(struct backend *b, const struct backend_chunk *chunk, fence_t after)
{
	struct sim *sim = sim_of(b);
	struct sim_poison *poison;
	struct sim_piece *piece;

	if (b->data != WEIR_DATA_REAL)
		return;
	poison = malloc(sizeof(*poison));
	if (!poison)
		return;
	sim_enter(sim);
	piece = sim_memory_chunk(sim, chunk);
	if (!piece || sim_fence_reached(sim, after) < 0) {
		log_error("sim: poison: no such chunk or fence");
		free(poison);
	} else {
		*poison = (struct sim_poison){sim->poison, piece, after};
		sim->poison = poison;
		poison_apply(sim);
	}
	sim_leave(sim);
}

/* ------------------------------------------------------------------ queueing */

/* The kinds of op: their stream has come to a mark, to a fence, or to a wait for one. */
static void mark_start(struct sim *sim, struct sim_op *op)
{
	struct sim_stream *stream = op->stream;

	stream->nr_done = op->fence;
	*sim_fence_ns_at(stream, stream->nr_done) = sim->now_ns;
	sim_engine_done(sim, op, 0);
}

static void fence_start(struct sim *sim, struct sim_op *op)
{
	mark_start(sim, op);
	poison_apply(sim);
	sim_engine_wake(sim);
}

static bool wait_ready(struct sim *sim, struct sim_op *op)
{
	return sim_fence_reached(sim, op->fence);
}

/* When a stream learns of a fence that is done: between devices with a link that is event_ns after
 * it was done, and else, or where it is forgotten when that was, at once. */
static uint64_t fence_seen_ns(struct sim *sim, fence_t fence, uint32_t device)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	uint64_t number = fence_number(fence);
	struct sim_stream *of;
	int link;

	if (!fence_stream(sim, fence, &of) || !of || of->device == device ||
	    number + of->max_fences <= of->nr_done)
		return sim->now_ns;
	link = cost_link_find(desc, desc->device[of->device].memory, desc->device[device].memory);
	return link < 0 ? sim->now_ns : *sim_fence_ns_at(of, number) + desc->link[link].event_ns;
}

static void wait_event(struct sim *sim, struct sim_op *op)
{
	sim_engine_done(sim, op, 0);
}

static void wait_start(struct sim *sim, struct sim_op *op)
{
	uint64_t at_ns = fence_seen_ns(sim, op->fence, op->stream->device);

	if (at_ns > sim->now_ns)
		sim_engine_timer(op, at_ns);
	else
		sim_engine_done(sim, op, 0);
}

static const struct sim_op_kind mark_kind = {
	.ready = sim_engine_ready_always,
	.start = mark_start,
};

static const struct sim_op_kind fence_kind = {
	.ready = sim_engine_ready_always,
	.start = fence_start,
};

static const struct sim_op_kind wait_kind = {
	.ready = wait_ready,
	.start = wait_start,
	.event = wait_event,
};

/* Room for the time of one more fence. Below the maximum no slot is used twice, so that growing
 * keeps every fence where it is. */
static int fence_times_grow(struct sim_stream *stream)
{
	uint64_t max = 2 * stream->max_fences, nr = stream->nr_recorded - stream->nr_before;
	uint64_t *grown;

	if (nr + 1 < stream->max_fences || stream->max_fences >= FENCE_TIMES_MAX)
		return 0;
	grown = realloc(stream->fence_ns, max * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	stream->fence_ns = grown;
	stream->max_fences = max;
	return 0;
}

static int op_queue(struct sim *sim, stream_id_t id, const struct sim_op_kind *kind, fence_t fence,
		    fence_t *out)
{
	struct sim_stream *stream = sim_stream_find(sim, id);
	struct sim_op *op;
	int err;

	if (!stream)
		return -EINVAL;
	err = fence_times_grow(stream);
	if (err)
		return err;
	op = calloc(1, sizeof(*op));
	if (!op)
		return -ENOMEM;
	op->kind = kind;
	op->fence = kind == &wait_kind ? fence : ++stream->nr_recorded;
	if (out)
		*out = fence_pack(id, op->fence);
	sim_engine_queue(sim, stream, op, 0);
	return 0;
}

int sim_stream_wait(struct backend *b, stream_id_t id, fence_t fence)
{
	struct sim *sim = sim_of(b);
	int err = -EINVAL;

	sim_enter(sim);
	if (sim_stream_find(sim, id) && sim_fence_reached(sim, fence) >= 0)
		err = op_queue(sim, id, &wait_kind, fence, NULL);
	sim_leave(sim);
	return err;
}

static int fence_queue(struct sim *sim, stream_id_t id, const struct sim_op_kind *kind,
		       fence_t *out)
{
	int err;

	sim_enter(sim);
	err = op_queue(sim, id, kind, 0, out);
	sim_leave(sim);
	return err;
}

int sim_fence_record(struct backend *b, stream_id_t id, fence_t *out)
{
	return fence_queue(sim_of(b), id, &fence_kind, out);
}

int sim_fence_mark(struct backend *b, stream_id_t id, fence_t *out)
{
	return fence_queue(sim_of(b), id, &mark_kind, out);
}

/* ------------------------------------------------------------------ asking and waiting */

/* The error of the work before a fence that is done, once; 0: none. */
static int fence_error_take(struct sim *sim, fence_t fence)
{
	struct sim_stream *stream;
	int err;

	if (!fence_stream(sim, fence, &stream) || !stream || !stream->error ||
	    fence_number(fence) < stream->error_fence)
		return 0;
	err = stream->error;
	stream->error = 0;
	return err;
}

int sim_fence_done(struct backend *b, fence_t fence)
{
	struct sim *sim = sim_of(b);
	int done, err;

	sim_enter(sim);
	done = sim_fence_reached(sim, fence);
	err = done > 0 ? fence_error_take(sim, fence) : 0;
	sim_leave(sim);
	return err ? err : done;
}

static int fence_wait_locked(struct sim *sim, fence_t fence)
{
	int done;

	while (!(done = sim_fence_reached(sim, fence))) {
		/* The migrator must not block. */
		if (sim->in_progress)
			return -EDEADLK;
		if (!sim_engine_step(sim, SIM_NEVER)) {
			log_error("sim: nothing is left that could reach fence %llx",
				  (unsigned long long)fence);
			return -EDEADLK;
		}
	}
	return done < 0 ? done : fence_error_take(sim, fence);
}

int sim_fence_wait(struct backend *b, fence_t fence)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = fence_wait_locked(sim, fence);
	sim_leave(sim);
	return err;
}

uint64_t sim_fence_time_ns(struct backend *b, fence_t fence)
{
	struct sim *sim = sim_of(b);
	struct sim_stream *stream;
	uint64_t ns = 0, number = fence_number(fence);

	sim_enter(sim);
	if (fence_stream(sim, fence, &stream) && stream && number && number <= stream->nr_done &&
	    number + stream->max_fences > stream->nr_done)
		ns = *sim_fence_ns_at(stream, number);
	sim_leave(sim);
	return ns;
}
