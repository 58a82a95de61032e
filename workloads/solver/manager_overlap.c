/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a programmer does by hand who knows the program: each device computes its boundary first and
 * sends it to its neighbours, by copies on streams of their own, while the interior is computed.
 * The host waits for nothing.
 *
 * Each step of iteration k waits for just what it needs:
 *
 *   boundary(k)  interior(k-1) and boundary(k-1), whose elements it reads and whose input it
 *                writes, and the neighbours' copies(k-1) into its halos
 *   copies(k)    boundary(k) of the device that sends
 *   interior(k)  the same two as boundary(k)
 *
 * Two orders need no waiting of their own. A halo is overwritten after it was read: copies(k)
 * follow boundary(k) there, which follows copies(k-1) from the neighbour, which follow its
 * boundary(k-1), the last reader. And a boundary is overwritten by boundary(k+2) after it was sent,
 * in the same way, over the neighbour and back.
 *
 * A boundary of several steps has every second one on the interior's stream: that then waits for
 * boundary(k-1), the neighbours' copies(k-1) and interior(k-1), of which it may hold steps, as the
 * boundary's stream does.
 *
 * Kernels are on two streams that change places: boundary(k) is on the stream of interior(k-1), and
 * interior(k) on that of boundary(k-1). So the boundary begins at once where interior(k-1) ends,
 * while interior(k) begins as an event has gone from one stream to the other. The other way round
 * the interior, which fills the device, would be first, and the boundary last.
 */
#include "src/backend/machine.h"
#include "workloads/solver/slabs_lists.h"

struct overlap {
	struct solver_slabs slabs;
	struct weir_stream *other[WEIR_DEVICES_MAX];		      /* beside that of the slabs */
	struct weir_stream *send[WEIR_DEVICES_MAX][WEIR_DEVICES_MAX]; /* from, to; or NULL */
	/* Where elements of lists are unpacked, on the one that receives; or NULL. */
	struct weir_stream *receive[WEIR_DEVICES_MAX][WEIR_DEVICES_MAX];
	uint32_t nr_iterations; /* that have ended */
	/* Of the iteration before, 0: there is none. */
	fence_t interior_done[WEIR_DEVICES_MAX], boundary_done[WEIR_DEVICES_MAX];
	fence_t sent[WEIR_DEVICES_MAX][WEIR_DEVICES_MAX];
	fence_t unpacked[WEIR_DEVICES_MAX][WEIR_DEVICES_MAX]; /* the last packet, from and to */
	/* The boundary's stream has, in this iteration; and the interior's, for slices aside. */
	bool waited[WEIR_DEVICES_MAX], waited_aside[WEIR_DEVICES_MAX];
};

/* The stream of a device's boundary in the present iteration, or of the rest. */
static struct weir_stream *stream_of(const struct overlap *o, uint32_t d, bool boundary)
{
	return (o->nr_iterations + boundary) % 2 ? o->other[d] : o->slabs.stream[d];
}

static void destroy(struct solver_manager *m)
{
	struct overlap *o = (struct overlap *)m;

	for (uint32_t d = 0; d < m->nr_devices; d++) {
		weir_stream_destroy(o->other[d]);
		for (uint32_t to = 0; to < m->nr_devices; to++)
			weir_stream_destroy(o->send[d][to]);
		for (uint32_t to = 0; to < m->nr_devices; to++)
			weir_stream_destroy(o->receive[d][to]);
	}
	solver_slabs_destroy(m);
}

static int create(const struct solver_config *config, struct solver_manager **out)
{
	struct solver_slabs *s;
	struct overlap *o;
	int err = solver_slabs_create(config, &solver_manager_overlap, sizeof(*o), true, &s);

	if (err)
		return err;
	o = (struct overlap *)s;
	for (uint32_t d = 0; d < config->nr_devices && !err; d++) {
		err = weir_stream_create(config->machine, d, &o->other[d]);
		for (uint32_t to = 0; to < config->nr_devices && !err; to++)
			if (solver_slabs_share(s, d, to))
				err = weir_stream_create(config->machine, d, &o->send[d][to]);
		for (uint32_t to = 0; to < config->nr_devices && config->lists_by_hand && !err;
		     to++)
			if (to != d)
				err = weir_stream_create(config->machine, to, &o->receive[d][to]);
	}
	if (!err && config->lists_by_hand)
		err = solver_lists_create(s, config);
	if (err)
		destroy(&s->base);
	else
		*out = &s->base;
	return err;
}

static int record(const struct overlap *o, const struct weir_stream *stream, fence_t *out)
{
	struct backend *b = o->slabs.base.backend;

	return b->ops->fence_untimed(b, stream_id(stream), out);
}

static int wait_for(const struct overlap *o, const struct weir_stream *stream, fence_t fence)
{
	struct backend *b = o->slabs.base.backend;

	return fence ? b->ops->stream_wait(b, stream_id(stream), fence) : 0;
}

/* What is not on the stream itself: on the one of each is what was on the other's before. */
static int boundary_wait(struct overlap *o, uint32_t d, bool aside)
{
	struct weir_stream *stream = stream_of(o, d, !aside);
	bool *waited = aside ? &o->waited_aside[d] : &o->waited[d];
	int err;

	if (*waited)
		return 0;
	*waited = true;
	err = wait_for(o, stream, aside ? o->interior_done[d] : o->boundary_done[d]);
	for (uint32_t from = 0; from < o->slabs.base.nr_devices && !err; from++)
		err = wait_for(o, stream, o->sent[from][d]);
	return err;
}

/* Whether it has anything to send. */
static bool writes(const struct solver_step *step)
{
	bool any = false;

	for (uint32_t i = 0; i < step->nr_uses; i++)
		any |= step->use[i].kind != WEIR_READ;
	return any;
}

/* All of a part, or what the other one's list has of it. */
static int part_send(struct overlap *o, const struct solver_use *written, uint32_t from,
		     uint32_t to)
{
	struct weir_stream *send = o->send[from][to], *receive = o->receive[from][to];
	fence_t sent;
	int err;

	if (!o->slabs.pair)
		return solver_slabs_send(&o->slabs, send, written, from, to, WEIR_CAUSE_PREFETCH);
	/* Packets of parts that follow each other have up to three elements in common. */
	err = wait_for(o, send, o->unpacked[from][to]);
	err = err ? err
		  : solver_lists_send(&o->slabs, send, written, from, to, WEIR_CAUSE_PREFETCH);
	err = err ? err : record(o, send, &sent);
	err = err ? err : wait_for(o, receive, sent);
	err = err ? err : solver_lists_receive(&o->slabs, receive, written, from, to);
	return err ? err : record(o, receive, &o->unpacked[from][to]);
}

/* What a step wrote, behind what is queued on its stream so far. */
static int boundary_send(struct overlap *o, const struct solver_step *step,
			 const struct weir_stream *after)
{
	const uint32_t d = step->device, nr = o->slabs.base.nr_devices;
	fence_t written;
	int err = record(o, after, &written);

	for (uint32_t i = 1; i < nr && !err; i++) {
		struct weir_stream *send = o->send[d][(d + i) % nr];

		if (!send)
			continue;
		err = wait_for(o, send, written);
		for (uint32_t k = 0; k < step->nr_uses && !err; k++)
			if (step->use[k].kind != WEIR_READ)
				err = part_send(o, &step->use[k], d, (d + i) % nr);
	}
	return err;
}

static int step(struct solver_manager *m, const struct solver_step *step)
{
	struct overlap *o = (struct overlap *)m;
	const uint32_t d = step->device;
	const bool boundary = step->part == SOLVER_BOUNDARY;
	const bool aside = boundary && solver_slice_is_aside(step->slice);
	struct weir_stream *stream = stream_of(o, d, boundary && !aside);
	int err = boundary ? boundary_wait(o, d, aside) : wait_for(o, stream, o->interior_done[d]);

	if (!err)
		err = solver_slabs_launch(&o->slabs, stream, step);
	if (!err && step->part != SOLVER_INTERIOR && writes(step))
		err = boundary_send(o, step, stream);
	return err;
}

static int iteration_end(struct solver_manager *m)
{
	struct overlap *o = (struct overlap *)m;
	int err = 0;

	for (uint32_t d = 0; d < m->nr_devices && !err; d++) {
		o->waited[d] = o->waited_aside[d] = false;
		err = record(o, stream_of(o, d, false), &o->interior_done[d]);
		err = err ? err : record(o, stream_of(o, d, true), &o->boundary_done[d]);
		for (uint32_t to = 0; to < m->nr_devices && !err; to++)
			if (o->send[d][to])
				err = record(o,
					     o->receive[d][to] ? o->receive[d][to] : o->send[d][to],
					     &o->sent[d][to]);
	}
	o->nr_iterations++;
	o->slabs.nr_written = 0;
	return err;
}

static int sync(struct solver_manager *m)
{
	struct overlap *o = (struct overlap *)m;
	int first = solver_slabs_sync(m);

	for (uint32_t d = 0; d < m->nr_devices; d++) {
		int err = weir_stream_sync(o->other[d]);

		first = first ? first : err;
		for (uint32_t to = 0; to < m->nr_devices; to++) {
			err = o->send[d][to] ? weir_stream_sync(o->send[d][to]) : 0;
			first = first ? first : err;
			err = o->receive[d][to] ? weir_stream_sync(o->receive[d][to]) : 0;
			first = first ? first : err;
		}
	}
	return first;
}

const struct solver_manager_ops solver_manager_overlap = {
	.name = "overlap",
	.help = "by hand: the boundary first, copied while the interior is computed",
	.split = true,
	.by_hand = true,
	.create = create,
	.destroy = destroy,
	.alloc = solver_slabs_alloc,
	.at = solver_slabs_at,
	.step = step,
	.iteration_end = iteration_end,
	.sync = sync,
	.read = solver_slabs_read,
	.stats = solver_slabs_stats,
	.check = solver_slabs_check,
};
