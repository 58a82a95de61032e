/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several links carry at once, between the host and two devices, of which no constants come
 * (ports.c measures those); and how long two devices take that wait for each other.
 */
#include <math.h>

#include "workloads/probe/internal.h"

#define LARGE_MAX (256 * MIB)
#define QUICK_LARGE_MAX (64 * MIB)

/* How long a flow would last alone, and how many copies it has, at most. */
#define ALONE_NS 30e6
#define COPIES_MAX PROBE_FLOW_TIMES_MAX
#define QUICK_COPIES_MAX 8u

#define WAYS_MAX 4u

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

/* ------------------------------------------------------------------ cases */

static void rates_keep(struct probe *p, const struct probe_pair *pair,
		       const struct several_case *of, const struct probe_together *t)
{
	struct fit_series all;

	for (uint32_t i = 0; i < of->nr; i++)
		(void)probe_keep(p, &t->per_s[i], NAN, of->how, "at_once.%s.%s_to_%s_bytes_per_s",
				 of->name, p->desc->memory[pair->memory[of->way[i].from]].name,
				 p->desc->memory[pair->memory[of->way[i].to]].name);
	probe_together_sum(t, 0, t->nr, &all);
	(void)probe_keep(p, &all, NAN, "all of these together", "at_once.%s.all_bytes_per_s",
			 of->name);
}

static bool case_possible(const struct probe_pair *pair, const struct several_case *of)
{
	for (uint32_t i = 0; i < of->nr; i++)
		if (!probe_way_exists(pair, of->way[i]))
			return false;
	return true;
}

static void flows_fill(const struct probe *p, const struct probe_pair *pair,
		       const struct several_case *of, struct probe_together *t)
{
	uint32_t most = p->options->quick ? QUICK_COPIES_MAX : COPIES_MAX;
	uint32_t nr_taken[PAIR_ENDS] = {0};

	for (t->nr = 0; t->nr < of->nr; t->nr++) {
		struct probe_way way = of->way[t->nr];
		uint32_t chunk[2];

		chunk[0] = nr_taken[way.from]++;
		chunk[1] = nr_taken[way.to]++;
		t->flow[t->nr] = probe_flow_of(p, pair, way, chunk, ALONE_NS, most);
	}
}

static int case_measure(struct probe *p, const struct probe_pair *pair,
			const struct several_case *of)
{
	struct probe_together t = {0};
	int err;

	if (!case_possible(pair, of)) {
		probe_assume(p, NAN, "no link between the two GPUs", "at_once.%s.all_bytes_per_s",
			     of->name);
		return 0;
	}
	flows_fill(p, pair, of, &t);
	err = probe_together_run(p, &t, p->repetitions);
	if (!err)
		rates_keep(p, pair, of, &t);
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
