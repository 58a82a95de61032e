/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and fences as the boundary names them. A fence is the index of its stream's slot + 1,
 * shifted, and its own number there, from 1. A slot is used again when its stream is destroyed:
 * fences' numbers go on, so that a fence outlives its stream and is done then; streams' ids count
 * in their upper half how often it was.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"

#define FENCE_BITS 48
#define ID_STEP (UINT32_C(1) << (64 - FENCE_BITS)) /* from one id of a slot to the next */
#define STREAMS_MAX (ID_STEP - 1)
#define FENCE_TIMES_MIN UINT64_C(64)
#define FENCE_TIMES_MAX UINT64_C(65536)

static fence_t fence_pack(stream_id_t id, uint64_t number)
{
	return ((fence_t)(id % ID_STEP) + 1) << FENCE_BITS | number;
}

static uint64_t fence_number(fence_t fence)
{
	return fence & ((UINT64_C(1) << FENCE_BITS) - 1);
}

struct sim_stream *stream_find(struct sim *sim, stream_id_t id)
{
	uint32_t at = id % ID_STEP;

	return at < sim->nr_slots && sim->slot[at].id == id ? sim->slot[at].stream : NULL;
}

/* A fence's stream, or NULL: it is gone, and the fence is done. False: there is no such fence. */
static bool fence_stream(struct sim *sim, fence_t fence, struct sim_stream **out)
{
	uint64_t at = (fence >> FENCE_BITS) - 1, number = fence_number(fence);
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

int fence_reached(struct sim *sim, fence_t fence)
{
	struct sim_stream *stream;

	if (!fence_stream(sim, fence, &stream))
		return -EINVAL;
	return !stream || fence_number(fence) <= stream->nr_done;
}

/* ------------------------------------------------------------------ streams */

static int slots_grow(struct sim *sim)
{
	uint32_t max = sim->max_slots ? 2 * sim->max_slots : 16;
	struct sim_stream **active;
	struct sim_slot *slot;

	if (sim->nr_slots < sim->max_slots)
		return 0;
	if (sim->nr_slots >= STREAMS_MAX) {
		log_error("sim: %u streams are there, as many as there can be: destroy some",
			  STREAMS_MAX);
		return -ENOMEM;
	}
	active = realloc(sim->active, max * sizeof(struct sim_stream *));
	if (!active)
		return -ENOMEM;
	sim->active = active;
	slot = realloc(sim->slot, max * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	sim->slot = slot;
	sim->max_slots = max;
	return 0;
}

/* A slot without a stream, with the id of the next one there. */
static int slot_get(struct sim *sim, struct sim_slot **out)
{
	int err;

	for (uint32_t i = 0; i < sim->nr_slots; i++)
		if (!sim->slot[i].stream) {
			*out = &sim->slot[i];
			(*out)->id += ID_STEP;
			return 0;
		}
	err = slots_grow(sim);
	if (err)
		return err;
	*out = &sim->slot[sim->nr_slots];
	**out = (struct sim_slot){.id = sim->nr_slots++};
	return 0;
}

static int stream_create_locked(struct sim *sim, uint32_t device, enum backend_stream_kind kind,
				stream_id_t *out)
{
	struct sim_stream *stream = calloc(1, sizeof(*stream));
	struct sim_slot *slot;
	int err = -ENOMEM;

	if (!stream)
		return -ENOMEM;
	stream->fence_ns = malloc(FENCE_TIMES_MIN * sizeof(*stream->fence_ns));
	if (stream->fence_ns)
		err = slot_get(sim, &slot);
	if (err) {
		stream_free(stream);
		return err;
	}
	stream->nr_before = stream->nr_recorded = stream->nr_done = slot->nr_fences;
	stream->max_fences = FENCE_TIMES_MIN;
	stream->next_ns = SIM_NEVER;
	stream->device = device;
	stream->kind = kind;
	stream->id = slot->id;
	slot->stream = stream;
	*out = stream->id;
	return 0;
}

int sim_stream_create(struct backend *b, uint32_t device, enum backend_stream_kind kind,
		      stream_id_t *out)
{
	struct sim *sim = sim_of(b);
	int err;

	if (device >= b->desc.nr_devices ||
	    (kind != BACKEND_COMPUTE && kind != BACKEND_COPY_IN && kind != BACKEND_COPY_OUT))
		return -EINVAL;
	sim_enter(sim);
	err = stream_create_locked(sim, device, kind, out);
	sim_leave(sim);
	return err;
}

void stream_free(struct sim_stream *stream)
{
	while (stream->bracket) {
		struct access_bracket *bracket = stream->bracket;

		stream->bracket = bracket->outer;
		access_bracket_free(bracket);
	}
	free(stream->fence_ns);
	free(stream);
}

void sim_stream_destroy(struct backend *b, stream_id_t id)
{
	struct sim *sim = sim_of(b);
	struct sim_stream *stream;

	sim_enter(sim);
	stream = stream_find(sim, id);
	/* The caller should have waited; not to lose its work, wait for it. */
	while (!sim->in_progress && stream && stream->head && engine_step(sim, SIM_NEVER))
		stream = stream_find(sim, id);
	if (!stream || stream->head) {
		log_error("sim: destroying stream %u: %s", id, stream ? "busy" : "no such stream");
	} else {
		sim->slot[id % ID_STEP].stream = NULL;
		sim->slot[id % ID_STEP].nr_fences = stream->nr_recorded;
		stream_free(stream);
	}
	sim_leave(sim);
}

/* ------------------------------------------------------------------ fences */

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

static int op_queue(struct sim *sim, stream_id_t id, enum sim_op_kind kind, fence_t fence,
		    fence_t *out)
{
	struct sim_stream *stream = stream_find(sim, id);
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
	op->fence = kind == SIM_OP_WAIT ? fence : ++stream->nr_recorded;
	if (out)
		*out = fence_pack(id, op->fence);
	engine_queue(sim, stream, op, 0);
	return 0;
}

int sim_stream_wait(struct backend *b, stream_id_t id, fence_t fence)
{
	struct sim *sim = sim_of(b);
	int err = -EINVAL;

	sim_enter(sim);
	if (stream_find(sim, id) && fence_reached(sim, fence) >= 0)
		err = op_queue(sim, id, SIM_OP_WAIT, fence, NULL);
	sim_leave(sim);
	return err;
}

static int fence_queue(struct sim *sim, stream_id_t id, enum sim_op_kind kind, fence_t *out)
{
	int err;

	sim_enter(sim);
	err = op_queue(sim, id, kind, 0, out);
	sim_leave(sim);
	return err;
}

int sim_fence_record(struct backend *b, stream_id_t id, fence_t *out)
{
	return fence_queue(sim_of(b), id, SIM_OP_FENCE, out);
}

int sim_fence_mark(struct backend *b, stream_id_t id, fence_t *out)
{
	return fence_queue(sim_of(b), id, SIM_OP_MARK, out);
}

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
	done = fence_reached(sim, fence);
	err = done > 0 ? fence_error_take(sim, fence) : 0;
	sim_leave(sim);
	return err ? err : done;
}

static int fence_wait_locked(struct sim *sim, fence_t fence)
{
	int done;

	while (!(done = fence_reached(sim, fence))) {
		/* The migrator must not block. */
		if (sim->in_progress)
			return -EDEADLK;
		if (!engine_step(sim, SIM_NEVER)) {
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
		ns = *fence_ns_at(stream, number);
	sim_leave(sim);
	return ns;
}
