/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run. Pieces are dealt while they are copied: a lane that has room gets the next one. What a
 * link carries depends on who else is busy, so a division by rates that were measured before would
 * be wrong where the links share something. At the end a piece goes to the lane that will be done
 * with it first, by what each has copied so far, so that the lanes end together.
 *
 * The host only deals; each lane's two copies are ordered by fences between its streams.
 */
#include <string.h>

#include "bench/relay/relay.h"
#include "bench/shared/say.h"
#include "src/base/util.h"

/* A way at work. */
struct side {
	struct relay *r;
	const struct relay_run *run;
	enum way way;
	struct lane *lane;
	uint32_t most; /* pieces that a lane has queued */
	uint32_t nr_pieces, nr_dealt, nr_done;
};

static uint32_t lane_under_way(const struct lane *lane)
{
	return lane->nr_queued - lane->nr_done;
}

/* ------------------------------------------------------------------ queueing */

/* Through a buffer of the lane, once what was in it has left. */
static int queue_staged(struct relay *r, struct lane *lane, uint32_t nr_buffers, void *to,
			const void *from, uint64_t bytes)
{
	const struct backend_ops *ops = r->b->ops;
	const uint32_t at = lane->nr_queued % nr_buffers;
	void *buffer = lane->buffer[at].alias;
	fence_t filled;
	int err = ops->stream_wait(r->b, lane->into, lane->left[at]);

	if (!err)
		err = relay_copy(r, lane->into, buffer, from, bytes);
	if (!err)
		err = ops->fence_untimed(r->b, lane->into, &filled);
	if (!err)
		err = ops->stream_wait(r->b, lane->from, filled);
	if (!err)
		err = relay_copy(r, lane->from, to, buffer, bytes);
	if (!err)
		err = ops->fence_untimed(r->b, lane->from, &lane->left[at]);
	if (!err)
		lane->arrived[lane->nr_queued % RELAY_QUEUED_MAX] = lane->left[at];
	return err;
}

static int queue_straight(struct side *s, struct lane *lane, void *to, const void *from)
{
	stream_id_t stream = s->way == WAY_IN ? lane->into : lane->from;
	fence_t *arrived = &lane->arrived[lane->nr_queued % RELAY_QUEUED_MAX];
	int err = relay_copy(s->r, stream, to, from, s->run->piece_bytes);

	return err ? err : s->r->b->ops->fence_untimed(s->r->b, stream, arrived);
}

static int side_queue(struct side *s, struct lane *lane)
{
	const uint64_t bytes = s->run->piece_bytes, at = s->nr_dealt * bytes;
	void *far = span_at(&s->r->far[s->way], at), *near = span_at(&s->r->near[s->way], at);
	void *to = s->way == WAY_IN ? near : far, *from = s->way == WAY_IN ? far : near;
	int err;

	if (s->run->queued || lane == s->lane)
		err = queue_straight(s, lane, to, from);
	else
		err = queue_staged(s->r, lane, s->run->nr_buffers, to, from, bytes);
	if (err)
		return say_error(err, "%s: queueing a piece",
				 s->r->b->desc.device[lane->device].name);
	lane->nr_queued++;
	s->nr_dealt++;
	return 0;
}

/* ------------------------------------------------------------------ dealing */

/* The lane for the next piece: that which will be done with it first of those that have room. Of
 * the last pieces each waits for that one even if it has none. */
static struct lane *side_choose(const struct side *s)
{
	const bool last = s->nr_pieces - s->nr_dealt <= s->run->nr_lanes * s->most;
	struct lane *best = NULL;
	double best_at = 0;

	for (uint32_t i = 0; i < s->run->nr_lanes; i++) {
		struct lane *lane = &s->lane[i];
		double at = (lane_under_way(lane) + 1.0) / MAX(lane->nr_done, 1u);

		if (!last && lane_under_way(lane) == s->most)
			continue;
		if (!best || at < best_at) {
			best = lane;
			best_at = at;
		}
	}
	return best && lane_under_way(best) < s->most ? best : NULL;
}

/* Note which of a lane's pieces arrived. */
static int lane_look(struct side *s, struct lane *lane, bool *idle)
{
	while (lane_under_way(lane)) {
		int done = s->r->b->ops->fence_done(
			s->r->b, lane->arrived[lane->nr_done % RELAY_QUEUED_MAX]);

		if (done < 0)
			return say_error(done, "%s: a piece",
					 s->r->b->desc.device[lane->device].name);
		if (!done)
			return 0;
		lane->nr_done++;
		s->nr_done++;
		lane->end_ns = s->r->b->ops->now_ns(s->r->b);
		*idle = false;
	}
	return 0;
}

static int side_step(struct side *s, bool *idle)
{
	struct lane *lane;
	int err = 0;

	for (uint32_t i = 0; i < s->run->nr_lanes && !err; i++)
		err = lane_look(s, &s->lane[i], idle);
	while (!err && s->nr_dealt < s->nr_pieces && (lane = side_choose(s))) {
		err = side_queue(s, lane);
		*idle = false;
	}
	return err;
}

/* ------------------------------------------------------------------ a run */

static void side_begin(struct side *s, struct relay *r, const struct relay_run *run, enum way way)
{
	*s = (struct side){.r = r, .run = run, .way = way, .lane = r->lane[way]};
	s->most = run->nr_buffers + RELAY_AHEAD;
	s->nr_pieces = run->way[way] ? (uint32_t)(r->bytes / run->piece_bytes) : 0;
	for (uint32_t i = 0; i < run->nr_lanes; i++) {
		struct lane *lane = &s->lane[i];

		memset(lane->left, 0, sizeof(lane->left));
		lane->nr_queued = lane->nr_done = 0;
		lane->end_ns = 0;
	}
}

static bool side_done(const struct side *s)
{
	return s->nr_done == s->nr_pieces;
}

/* One way is done: what has arrived by now. */
static void rates_note(const struct side side[WAY_NR], uint64_t ns, struct relay_outcome *out)
{
	out->ns = ns;
	for (int way = 0; way < WAY_NR; way++)
		out->gb_per_s[way] = (double)side[way].nr_done *
				     (double)side[way].run->piece_bytes / (double)MAX(ns, 1u);
}

static void lanes_note(const struct side *s, struct relay_outcome *out)
{
	uint64_t first = UINT64_MAX, last = 0;

	for (uint32_t i = 0; i < s->run->nr_lanes; i++) {
		out->nr[s->way][i] = s->lane[i].nr_done;
		first = MIN(first, s->lane[i].end_ns);
		last = MAX(last, s->lane[i].end_ns);
	}
	out->apart_ns[s->way] = last - first;
}

int relay_run(struct relay *r, const struct relay_run *run, struct relay_outcome *out)
{
	struct side side[WAY_NR];
	uint64_t start;
	int err = 0;

	*out = (struct relay_outcome){0};
	for (int way = 0; way < WAY_NR; way++)
		side_begin(&side[way], r, run, (enum way)way);
	if (run->load)
		load_begin(run->load);
	start = r->b->ops->now_ns(r->b);
	while (!err && !(side_done(&side[WAY_IN]) && side_done(&side[WAY_OUT]))) {
		bool idle = true;

		for (int way = 0; way < WAY_NR && !err; way++) {
			err = side_step(&side[way], &idle);
			if (!err && run->way[way] && !out->ns && side_done(&side[way]))
				rates_note(side, r->b->ops->now_ns(r->b) - start, out);
		}
		if (!err && run->load)
			err = load_step(r, run->load);
		if (!err && idle)
			relay_look_again(r);
	}
	if (!err && run->load)
		err = load_end(r, run->load);
	for (int way = 0; way < WAY_NR && !err; way++)
		lanes_note(&side[way], out);
	return err;
}
