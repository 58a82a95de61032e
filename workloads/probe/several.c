/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several links carry at once, between the host and two devices, which a description has no
 * constants for; and how long two devices take that wait for each other.
 *
 * Copies run over all links of a case together. Each flow is timed copy by copy on the clock of its
 * device, from a point that all flows wait for. A flow's rate is what it has copied when
 * the first of them ends, since all of them run until then.
 */
#include <math.h>

#include "workloads/probe/internal.h"

#define LARGE_MAX (256 * MIB)
#define QUICK_LARGE_MAX (64 * MIB)

/* How long a flow would last alone, and how many copies it has, at most. */
#define ALONE_NS 30e6
#define COPIES_MAX 16u
#define QUICK_COPIES_MAX 8u

#define WAYS_MAX 4u
#define CALL_NS 20000.0
#define TRIES 4

/* Times that the two devices wait for each other. */
#define ROUNDS 64u

static const struct several_case {
	const char *name, *how;
	uint32_t nr;
	struct probe_way way[WAYS_MAX];
} cases[] = {
	{"to_gpus",
	 "copies from the host to two GPUs at once",
	 2,
	 {{PAIR_HOST, PAIR_ONE}, {PAIR_HOST, PAIR_OTHER}}},
	{"to_host",
	 "copies from two GPUs to the host at once",
	 2,
	 {{PAIR_ONE, PAIR_HOST}, {PAIR_OTHER, PAIR_HOST}}},
	{"host_both_ways",
	 "copies between the host and two GPUs, both ways at once",
	 4,
	 {{PAIR_HOST, PAIR_ONE},
	  {PAIR_ONE, PAIR_HOST},
	  {PAIR_HOST, PAIR_OTHER},
	  {PAIR_OTHER, PAIR_HOST}}},
	{"out",
	 "copies to the other GPU, and from that to the host, at once",
	 2,
	 {{PAIR_ONE, PAIR_OTHER}, {PAIR_OTHER, PAIR_HOST}}},
	{"in",
	 "copies from the host to the other GPU, and from that, at once",
	 2,
	 {{PAIR_HOST, PAIR_OTHER}, {PAIR_OTHER, PAIR_ONE}}},
	{"in_and_out",
	 "copies over both links of the other GPU, both ways at once",
	 4,
	 {{PAIR_ONE, PAIR_OTHER},
	  {PAIR_OTHER, PAIR_ONE},
	  {PAIR_OTHER, PAIR_HOST},
	  {PAIR_HOST, PAIR_OTHER}}},
};

/* A case at work. */
struct several {
	const struct several_case *of;
	struct probe_flow flow[WAYS_MAX];
	fence_t mark[WAYS_MAX][COPIES_MAX + 1]; /* the beginning, then the end of each copy */
	double ns[WAYS_MAX][COPIES_MAX + 1];	/* out: since the beginning */
	struct fit_series per_s[WAYS_MAX], all;
};

/* ------------------------------------------------------------------ timing */

static int flow_mark(struct probe *p, struct several *s, uint32_t i, uint32_t nr)
{
	return p->b->ops->fence_record(p->b, s->flow[i].stream, &s->mark[i][nr]);
}

/* Queue all flows behind a fence, a copy of each in turn. */
static int flows_queue(struct probe *p, struct several *s, fence_t plugged)
{
	int err = 0;

	for (uint32_t i = 0; i < s->of->nr && !err; i++) {
		err = p->b->ops->stream_wait(p->b, s->flow[i].stream, plugged);
		if (!err)
			err = flow_mark(p, s, i, 0);
	}
	for (uint32_t n = 1; n <= COPIES_MAX; n++)
		for (uint32_t i = 0; i < s->of->nr && !err; i++) {
			if (n > s->flow[i].nr)
				continue;
			err = probe_flow_queue(p, &s->flow[i]);
			if (!err)
				err = flow_mark(p, s, i, n);
		}
	return err;
}

/* Wait for all flows and read when each copy was done. */
static int flows_times(struct probe *p, struct several *s)
{
	int err = 0;

	for (uint32_t i = 0; i < s->of->nr && !err; i++) {
		double begin_ns = 0;

		err = p->b->ops->fence_wait(p->b, s->mark[i][s->flow[i].nr]);
		for (uint32_t n = 0; n <= s->flow[i].nr && !err; n++) {
			double at_ns;

			err = probe_fence_ns(p, s->mark[i][n], &at_ns);
			if (!n)
				begin_ns = at_ns;
			s->ns[i][n] = at_ns - begin_ns;
		}
	}
	return err;
}

/* One try. ahead: the host was done with queueing before the plug ended. */
static int flows_try(struct probe *p, struct several *s, double plug_ns, bool *ahead)
{
	fence_t plugged;
	int err = probe_plug(p, plug_ns, &plugged), done;

	if (!err)
		err = flows_queue(p, s, plugged);
	if (err)
		return err;
	done = p->b->ops->fence_done(p->b, plugged);
	*ahead = !done;
	return done < 0 ? done : flows_times(p, s);
}

static int flows_run(struct probe *p, struct several *s)
{
	double plug_ns = CALL_NS * 2 * COPIES_MAX * s->of->nr;
	bool ahead = false;
	int err = probe_continue(p);

	for (int tries = 0; tries < TRIES && !ahead && !err; tries++) {
		err = flows_try(p, s, plug_ns, &ahead);
		plug_ns *= 4;
	}
	return err;
}

/* ------------------------------------------------------------------ rates */

/* Copies that a flow has done after some time, which is not beyond its last; parts of one count. */
static double copies_done(const double *ns, double at_ns)
{
	uint32_t n = 1;

	while (ns[n] < at_ns)
		n++;
	return n - 1 + (at_ns - ns[n - 1]) / fmax(ns[n] - ns[n - 1], 1);
}

static void rates_add(struct several *s)
{
	double until_ns = INFINITY, all = 0;

	for (uint32_t i = 0; i < s->of->nr; i++)
		until_ns = fmin(until_ns, s->ns[i][s->flow[i].nr]);
	for (uint32_t i = 0; i < s->of->nr; i++) {
		double bytes = copies_done(s->ns[i], until_ns) * (double)s->flow[i].piece.bytes;
		double per_s = bytes / fmax(until_ns, 1) * 1e9;

		fit_add(&s->per_s[i], per_s);
		all += per_s;
	}
	fit_add(&s->all, all);
}

static void rates_keep(struct probe *p, const struct probe_pair *pair, const struct several *s)
{
	const struct several_case *of = s->of;

	for (uint32_t i = 0; i < of->nr; i++)
		(void)probe_keep(p, &s->per_s[i], NAN, of->how, "at_once.%s.%s_to_%s_bytes_per_s",
				 of->name, p->desc->memory[pair->memory[of->way[i].from]].name,
				 p->desc->memory[pair->memory[of->way[i].to]].name);
	(void)probe_keep(p, &s->all, NAN, "all of these together", "at_once.%s.all_bytes_per_s",
			 of->name);
}

/* ------------------------------------------------------------------ cases */

static bool case_possible(const struct probe_pair *pair, const struct several_case *of)
{
	for (uint32_t i = 0; i < of->nr; i++)
		if (!probe_way_exists(pair, of->way[i]))
			return false;
	return true;
}

static int flows_open(struct probe *p, const struct probe_pair *pair, struct several *s)
{
	uint32_t most = p->options->quick ? QUICK_COPIES_MAX : COPIES_MAX;
	uint32_t nr_taken[PAIR_ENDS] = {0};
	int err = 0;

	for (uint32_t i = 0; i < s->of->nr && !err; i++) {
		struct probe_way way = s->of->way[i];
		uint32_t chunk[2];

		chunk[0] = nr_taken[way.from]++;
		chunk[1] = nr_taken[way.to]++;
		s->flow[i] = probe_flow_of(p, pair, way, chunk, ALONE_NS, most);
		err = probe_flow_open(p, &s->flow[i]);
	}
	return err;
}

static int case_measure(struct probe *p, const struct probe_pair *pair,
			const struct several_case *of)
{
	struct several s = {.of = of};
	int err;

	if (!case_possible(pair, of)) {
		probe_assume(p, NAN, "no link between the two GPUs", "at_once.%s.all_bytes_per_s",
			     of->name);
		return 0;
	}
	err = flows_open(p, pair, &s);
	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		err = flows_run(p, &s);
		if (!err && i)
			rates_add(&s);
	}
	for (uint32_t i = 0; i < of->nr; i++)
		probe_flow_close(p, &s.flow[i]);
	if (!err)
		rates_keep(p, pair, &s);
	return err;
}

int probe_several(struct probe *p, struct probe_pair *pair)
{
	uint64_t most = p->options->quick ? QUICK_LARGE_MAX : LARGE_MAX;
	int err = probe_step(p, "several links at once");

	if (!err)
		err = probe_pair_alloc(p, pair, probe_pair_room(p, pair, most, WAYS_MAX), WAYS_MAX);
	if (err)
		return err;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && !err; i++)
		err = case_measure(p, pair, &cases[i]);
	probe_pair_free(p, pair);
	return err;
}

/* ------------------------------------------------------------------ events */

/* Each of two streams waits for the other in turn. */
static int rounds_queue(struct probe *p, stream_id_t stream, const void *arg)
{
	const struct backend_ops *ops = p->b->ops;
	const stream_id_t pair[2] = {stream, *(const stream_id_t *)arg};
	int err = 0;

	for (uint32_t i = 0; i < 2 * ROUNDS && !err; i++) {
		fence_t fence;

		err = ops->fence_record(p->b, pair[i % 2], &fence);
		if (!err)
			err = ops->stream_wait(p->b, pair[!(i % 2)], fence);
	}
	return err;
}

/* Rounds of the measured device and another one. */
static int rounds_measure(struct probe *p, uint32_t device, struct fit_series *round)
{
	struct probe_flow other = {.device = device, .kind = BACKEND_COMPUTE};
	int err = probe_flow_open(p, &other);

	for (uint32_t i = 0; i <= p->repetitions && !err; i++) {
		struct probe_burst burst = {.kind = BACKEND_COMPUTE,
					    .queue = rounds_queue,
					    .arg = &other.stream,
					    .nr_calls = 4 * ROUNDS};

		err = probe_burst_run(p, &burst, 1);
		if (!err && i)
			fit_add(round, (burst.end_ns - burst.begin_ns) / ROUNDS);
	}
	probe_drain(p);
	probe_flow_close(p, &other);
	return err;
}

/* The device whose memory is at the link's end a; nr_devices: the host's. */
static uint32_t link_other(const struct probe *p, uint32_t link)
{
	uint32_t d = 0;

	while (d < p->desc->nr_devices && p->desc->device[d].memory != p->desc->link[link].a)
		d++;
	return d;
}

int probe_link_events(struct probe *p, uint32_t link)
{
	double estimate = (double)p->estimates->link[link].event_ns;
	uint32_t other = link_other(p, link);
	struct fit_series round = {0}, event;
	int err;

	if (other == p->desc->nr_devices) {
		probe_assume(p, estimate, "measured between two devices alone", "link[%u].event_ns",
			     link);
		return 0;
	}
	err = rounds_measure(p, other, &round);
	if (err)
		return err;
	fit_events(&round, &event);
	p->desc->link[link].event_ns = probe_round(probe_keep(
		p, &event, estimate, "two GPUs' streams that wait for each other: half a round",
		"link[%u].event_ns", link));
	return 0;
}

int probe_events(struct probe *p, const struct probe_pair *pair)
{
	struct fit_series round = {0};
	int err = probe_step(p, "two GPUs that wait for each other");

	if (!err)
		err = rounds_measure(p, pair->device[PAIR_OTHER], &round);
	if (!err)
		(void)probe_keep(p, &round, NAN,
				 "two GPUs' streams that wait for each other, there and back",
				 "events.round_ns");
	return err;
}
