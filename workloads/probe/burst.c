/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timing on the device. Work that is short beside the call that queues it would be timed at the
 * host's pace. So everything is queued behind a plug, a kernel that is known to last longer than
 * the queueing: when it ends, the rest stands in line.
 */
#include <errno.h>

#include "workloads/probe/internal.h"

/* What a call that queues something may take on a host that is not hurried. */
#define CALL_NS 20000.0
#define PLUG_NS_MIN 1e6

/* Each time the plug is this much longer. */
#define TRIES 4
#define LONGER 4.0

#define CALIBRATE_PASSES_MAX (UINT64_C(1) << 24)

static int plug_launch(struct probe *p, uint64_t passes)
{
	struct probe_work work;

	probe_work_read(p, &work, p->plug.addr, p->plug.bytes, passes);
	return p->b->ops->launch(p->b, p->stream[BACKEND_COMPUTE], &work.launch);
}

int probe_plug(struct probe *p, double ns, fence_t *plugged)
{
	int err = plug_launch(p, (uint64_t)(ns / p->plug_pass_ns) + 1);

	return err ? err : p->b->ops->fence_record(p->b, p->stream[BACKEND_COMPUTE], plugged);
}

int probe_fence_ns(struct probe *p, fence_t fence, double *ns)
{
	uint64_t at = p->b->observe->fence_time_ns(p->b, fence);

	*ns = (double)at;
	return at ? 0 : -EIO;
}

/* Time of one launch, the host's pace included. */
static int plug_time(struct probe *p, uint64_t passes, double *ns)
{
	const struct backend_ops *ops = p->b->ops;
	stream_id_t stream = p->stream[BACKEND_COMPUTE];
	double begin_ns, end_ns;
	fence_t begin, end;
	int err = ops->fence_record(p->b, stream, &begin);

	if (!err)
		err = plug_launch(p, passes);
	if (!err)
		err = ops->fence_record(p->b, stream, &end);
	if (!err)
		err = ops->fence_wait(p->b, end);
	if (!err)
		err = probe_fence_ns(p, begin, &begin_ns);
	if (!err)
		err = probe_fence_ns(p, end, &end_ns);
	if (!err)
		*ns = end_ns - begin_ns;
	return err;
}

int probe_plug_calibrate(struct probe *p)
{
	uint64_t passes = 16;
	double ns = 0;
	int err = plug_launch(p, 1); /* loads the kernel */

	while (!err && ns < PLUG_NS_MIN && passes < CALIBRATE_PASSES_MAX) {
		passes *= 4;
		err = plug_time(p, passes, &ns);
	}
	p->plug_pass_ns = ns > 1 ? ns / (double)passes : 1;
	return err;
}

/* One try. ahead: the host was done with queueing before the plug ended. */
static int burst_try(struct probe *p, struct probe_burst *bursts, uint32_t nr, double plug_ns,
		     bool *ahead)
{
	const struct backend_ops *ops = p->b->ops;
	fence_t plugged, begin[2], end[2];
	int err = probe_plug(p, plug_ns, &plugged), done;

	for (uint32_t i = 0; i < nr && !err; i++) {
		err = ops->stream_wait(p->b, p->stream[bursts[i].kind], plugged);
		if (!err)
			err = ops->fence_record(p->b, p->stream[bursts[i].kind], &begin[i]);
	}
	for (uint32_t i = 0; i < nr && !err; i++) {
		uint64_t before = ops->now_ns(p->b);

		err = bursts[i].queue(p, p->stream[bursts[i].kind], bursts[i].arg);
		bursts[i].host_ns = (double)(ops->now_ns(p->b) - before);
		if (!err)
			err = ops->fence_record(p->b, p->stream[bursts[i].kind], &end[i]);
	}
	if (err)
		return err;
	done = ops->fence_done(p->b, plugged);
	*ahead = !done;
	err = done < 0 ? done : 0;
	for (uint32_t i = 0; i < nr && !err; i++) {
		err = ops->fence_wait(p->b, end[i]);
		if (!err)
			err = probe_fence_ns(p, begin[i], &bursts[i].begin_ns);
		if (!err)
			err = probe_fence_ns(p, end[i], &bursts[i].end_ns);
	}
	return err;
}

int probe_burst_run(struct probe *p, struct probe_burst *bursts, uint32_t nr)
{
	double plug_ns = 0;
	bool ahead = false;
	int err = probe_continue(p);

	for (uint32_t i = 0; i < nr; i++)
		plug_ns += bursts[i].nr_calls * CALL_NS;
	plug_ns = plug_ns > PLUG_NS_MIN ? plug_ns : PLUG_NS_MIN;
	for (int tries = 0; tries < TRIES && !ahead && !err; tries++) {
		err = burst_try(p, bursts, nr, plug_ns, &ahead);
		plug_ns *= LONGER;
	}
	/* Clocks have grains: nothing takes no time. */
	for (uint32_t i = 0; i < nr && !err; i++)
		if (bursts[i].end_ns < bursts[i].begin_ns + 1)
			bursts[i].end_ns = bursts[i].begin_ns + 1;
	return err;
}

/* ------------------------------------------------------------------ launches, copies */

int probe_queue_launches(struct probe *p, stream_id_t stream, const void *launches)
{
	const struct probe_launches *l = launches;
	int err = 0;

	for (uint32_t i = 0; i < l->nr && !err; i++)
		err = p->b->ops->launch(p->b, stream, l->launch);
	return err;
}

int probe_queue_copies(struct probe *p, stream_id_t stream, const void *copies)
{
	const struct probe_copies *c = copies;
	int err = 0;

	for (uint32_t i = 0; i < c->times && !err; i++)
		err = p->b->ops->copy(p->b, stream, c->piece, c->nr_pieces);
	return err;
}

int probe_time_launch(struct probe *p, const struct weir_launch *launch, uint32_t nr, double *ns,
		      double *host_ns)
{
	const struct probe_launches launches = {launch, nr};
	struct probe_burst burst = {.kind = BACKEND_COMPUTE,
				    .queue = probe_queue_launches,
				    .arg = &launches,
				    .nr_calls = nr};
	int err = probe_burst_run(p, &burst, 1);

	if (err)
		return err;
	*ns = (burst.end_ns - burst.begin_ns) / nr;
	if (host_ns)
		*host_ns = burst.host_ns / nr;
	return 0;
}
