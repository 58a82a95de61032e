/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and fences as the boundary names them. A fence is its stream's number + 1, shifted, and
 * its own number on the stream, from 1; numbers of streams are not used again, so that a fence
 * outlives its stream: it is done then.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"

#define FENCE_BITS 40
#define STREAMS_MAX ((UINT32_C(1) << (64 - FENCE_BITS)) - 2)
#define FENCE_TIMES_MIN UINT64_C(64)
#define FENCE_TIMES_MAX UINT64_C(65536)

static fence_t fence_pack(stream_id_t id, uint64_t number)
{
	return ((fence_t)id + 1) << FENCE_BITS | number;
}

static uint64_t fence_number(fence_t fence)
{
	return fence & ((UINT64_C(1) << FENCE_BITS) - 1);
}

struct sim_stream *stream_find(struct sim *sim, stream_id_t id)
{
	return id < sim->nr_streams ? sim->stream[id] : NULL;
}

/* A fence's stream, or NULL: it is gone, and the fence is done. False: there is no such fence. */
static bool fence_stream(struct sim *sim, fence_t fence, struct sim_stream **out)
{
	uint64_t id = (fence >> FENCE_BITS) - 1;

	*out = NULL;
	if (!fence)
		return true;
	if (id >= sim->nr_streams || !fence_number(fence))
		return false;
	*out = sim->stream[id];
	return !*out || fence_number(fence) <= (*out)->nr_recorded;
}

int fence_reached(struct sim *sim, fence_t fence)
{
	struct sim_stream *stream;

	if (!fence_stream(sim, fence, &stream))
		return -EINVAL;
	return !stream || fence_number(fence) <= stream->nr_done;
}

/* ------------------------------------------------------------------ streams */

static int streams_grow(struct sim *sim)
{
	uint32_t max = sim->max_streams ? 2 * sim->max_streams : 16;
	struct sim_stream **grown;

	if (sim->nr_streams < sim->max_streams)
		return 0;
	if (sim->nr_streams >= STREAMS_MAX)
		return -ENOMEM;
	grown = realloc(sim->active, max * sizeof(struct sim_stream *));
	if (!grown)
		return -ENOMEM;
	sim->active = grown;
	grown = realloc(sim->stream, max * sizeof(struct sim_stream *));
	if (!grown)
		return -ENOMEM;
	sim->stream = grown;
	sim->max_streams = max;
	return 0;
}

static int stream_create_locked(struct sim *sim, uint32_t device, enum backend_stream_kind kind,
				stream_id_t *out)
{
	struct sim_stream *stream;
	int err;

	err = streams_grow(sim);
	if (err)
		return err;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	stream->fence_ns = malloc(FENCE_TIMES_MIN * sizeof(*stream->fence_ns));
	if (!stream->fence_ns) {
		free(stream);
		return -ENOMEM;
	}
	stream->max_fences = FENCE_TIMES_MIN;
	stream->next_ns = SIM_NEVER;
	stream->device = device;
	stream->kind = kind;
	stream->id = sim->nr_streams;
	sim->stream[sim->nr_streams++] = stream;
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
		sim->stream[id] = NULL;
		stream_free(stream);
	}
	sim_leave(sim);
}

/* ------------------------------------------------------------------ fences */

/* Room for the time of one more fence. Below the maximum no slot is used twice, so that growing
 * keeps every fence where it is. */
static int fence_times_grow(struct sim_stream *stream)
{
	uint64_t max = 2 * stream->max_fences;
	uint64_t *grown;

	if (stream->nr_recorded + 1 < stream->max_fences || stream->max_fences >= FENCE_TIMES_MAX)
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

/* The unreported error of the work before a fence that is done; 0: none. */
static int fence_error(struct sim *sim, fence_t fence, bool report)
{
	struct sim_stream *stream;
	int err;

	if (!fence_stream(sim, fence, &stream) || !stream || !stream->error ||
	    fence_number(fence) < stream->error_fence)
		return 0;
	err = stream->error;
	if (report)
		stream->error = 0;
	return err;
}

int sim_fence_done(struct backend *b, fence_t fence)
{
	struct sim *sim = sim_of(b);
	int done;

	sim_enter(sim);
	done = fence_reached(sim, fence);
	if (done > 0 && fence_error(sim, fence, false))
		done = fence_error(sim, fence, false);
	sim_leave(sim);
	return done;
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
	return done < 0 ? done : fence_error(sim, fence, true);
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
		ns = stream->fence_ns[number & (stream->max_fences - 1)];
	sim_leave(sim);
	return ns;
}
