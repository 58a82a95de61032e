/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows that run together. Each is timed, copy by copy or launch by launch, on the clock of its own
 * device, from a point that all flows wait for: clocks of two devices are never compared. A flow's
 * rate is what it has moved when the first of them ends, since all of them run until then. A
 * device that notices late that it may begin, as over links that others fill meanwhile, runs by
 * itself in the end: then a flow's rate is all that it moves, over the time that all of them take.
 */
#include <math.h>

#include "workloads/probe/internal.h"

#define CALL_NS 20000.0
#define TRIES 4
#define LATE 1.1      /* all take so many times as long as the longest, when one began late; */
#define LATE_NS 100e3 /* and so much more, which is what the host's clock may be off */

/* ------------------------------------------------------------------ timing */

static int flow_mark(struct probe *p, struct probe_together *t, uint32_t i, uint32_t nr)
{
	return p->b->ops->fence_record(p->b, t->flow[i].stream, &t->mark[i][nr]);
}

/* Queue all flows behind a fence, each once in turn. */
static int flows_queue(struct probe *p, struct probe_together *t, fence_t plugged)
{
	int err = 0;

	for (uint32_t i = 0; i < t->nr && !err; i++) {
		err = p->b->ops->stream_wait(p->b, t->flow[i].stream, plugged);
		if (!err)
			err = flow_mark(p, t, i, 0);
	}
	for (uint32_t n = 1; n <= PROBE_FLOW_TIMES_MAX; n++)
		for (uint32_t i = 0; i < t->nr && !err; i++) {
			if (n > t->flow[i].nr)
				continue;
			err = probe_flow_queue(p, &t->flow[i]);
			if (!err)
				err = flow_mark(p, t, i, n);
		}
	return err;
}

/* Wait for all flows and read when each copy was done. */
static int flows_times(struct probe *p, struct probe_together *t)
{
	int err = 0;

	for (uint32_t i = 0; i < t->nr && !err; i++) {
		double begin_ns = 0;

		err = p->b->ops->fence_wait(p->b, t->mark[i][t->flow[i].nr]);
		for (uint32_t n = 0; n <= t->flow[i].nr && !err; n++) {
			double at_ns;

			err = probe_fence_ns(p, t->mark[i][n], &at_ns);
			if (!n)
				begin_ns = at_ns;
			t->ns[i][n] = at_ns - begin_ns;
		}
	}
	return err;
}

/* One try. ahead: the host was done with queueing before the plug ended. */
static int flows_try(struct probe *p, struct probe_together *t, double plug_ns, bool *ahead)
{
	fence_t plugged;
	uint64_t begin_ns;
	int err = probe_plug(p, plug_ns, &plugged), done;

	if (!err)
		err = flows_queue(p, t, plugged);
	if (err)
		return err;
	done = p->b->ops->fence_done(p->b, plugged);
	*ahead = !done;
	err = done < 0 ? done : p->b->ops->fence_wait(p->b, plugged);
	begin_ns = p->b->ops->now_ns(p->b);
	err = err ? err : flows_times(p, t);
	t->all_ns = (double)(p->b->ops->now_ns(p->b) - begin_ns);
	return err;
}

static int flows_run(struct probe *p, struct probe_together *t)
{
	double plug_ns = CALL_NS * 2 * PROBE_FLOW_TIMES_MAX * t->nr;
	bool ahead = false;
	int err = probe_continue(p);

	for (int tries = 0; tries < TRIES && !ahead && !err; tries++) {
		err = flows_try(p, t, plug_ns, &ahead);
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

static void rates_add(struct probe_together *t)
{
	double until_ns = INFINITY, longest_ns = 0;
	bool late;

	for (uint32_t i = 0; i < t->nr; i++) {
		until_ns = fmin(until_ns, t->ns[i][t->flow[i].nr]);
		longest_ns = fmax(longest_ns, t->ns[i][t->flow[i].nr]);
	}
	late = t->all_ns > LATE * longest_ns + LATE_NS;
	for (uint32_t i = 0; i < t->nr; i++) {
		const struct probe_flow *flow = &t->flow[i];
		double nr = late ? flow->nr : copies_done(t->ns[i], until_ns);
		double ns = fmax((late ? t->all_ns : until_ns) - nr * flow->overhead_ns, 1);

		fit_add(&t->per_s[i], nr * (double)flow->bytes / ns * 1e9);
	}
}

int probe_together_run(struct probe *p, struct probe_together *t, uint32_t repetitions)
{
	int err = 0;

	for (uint32_t i = 0; i < t->nr && !err; i++)
		err = probe_flow_open(p, &t->flow[i]);
	for (uint32_t i = 0; i <= repetitions && !err; i++) {
		err = flows_run(p, t);
		if (!err && i)
			rates_add(t);
	}
	for (uint32_t i = 0; i < t->nr; i++)
		probe_flow_close(p, &t->flow[i]);
	return err;
}

void probe_together_sum(const struct probe_together *t, uint32_t first, uint32_t nr,
			struct fit_series *out)
{
	*out = (struct fit_series){0};
	for (uint32_t k = 0; k < t->per_s[first].nr; k++) {
		double all = 0;

		for (uint32_t i = first; i < first + nr; i++)
			all += t->per_s[i].value[k];
		fit_add(out, all);
	}
}
