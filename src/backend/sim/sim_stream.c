/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as the boundary names them. A slot is used again when its stream is destroyed: ids count
 * in their upper half how often it was.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"

#define STREAMS_MAX (SIM_ID_STEP - 1)
#define FENCE_TIMES_MIN UINT64_C(64)

struct sim_stream *sim_stream_find(struct sim *sim, stream_id_t id)
{
	uint32_t at = id % SIM_ID_STEP;

	return at < sim->nr_slots && sim->slot[at].id == id ? sim->slot[at].stream : NULL;
}

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
			(*out)->id += SIM_ID_STEP;
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
		sim_stream_free(stream);
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

	if (device >= b->desc.nr_devices || kind > BACKEND_URGENT)
		return -EINVAL;
	sim_enter(sim);
	err = stream_create_locked(sim, device, kind, out);
	sim_leave(sim);
	return err;
}

void sim_stream_free(struct sim_stream *stream)
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
	stream = sim_stream_find(sim, id);
	/* The caller should have waited; not to lose its work, wait for it. */
	while (!sim->in_progress && stream && stream->head && sim_engine_step(sim, SIM_NEVER))
		stream = sim_stream_find(sim, id);
	if (!stream || stream->head) {
		log_error("sim: destroying stream %u: %s", id, stream ? "busy" : "no such stream");
	} else {
		sim->slot[id % SIM_ID_STEP].stream = NULL;
		sim->slot[id % SIM_ID_STEP].nr_fences = stream->nr_recorded;
		sim_stream_free(stream);
	}
	sim_leave(sim);
}
