/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mapping calls of a device's memory cost while something else runs: copies over each link,
 * each way, and a kernel that uses the neighbour's memory. What a driver makes wait, and in which
 * call, depends on that; a description has constants for what took most (vmm.c measures others).
 */
#include <math.h>
#include <stdio.h>

#include "src/base/util.h"
#include "src/cost/cost.h"
#include "workloads/probe/internal.h"

/* How long it runs meanwhile, the size of one copy, and how many there are at most. Copies take
 * less time than calls that are held up: a call that waits for one shows. */
#define BESIDE_NS 30e6
#define COPY_MAX (8 * MIB)
#define COPIES_MAX 1024u
#define QUICK_COPIES_MAX 512u

/* Of the neighbour's memory, read by a kernel at a time. */
#define KERNEL_MAX (256 * MIB)
#define QUICK_KERNEL_MAX (64 * MIB)
#define LAUNCHES_MAX 128u

static const struct probe_way ways[] = {
	{PAIR_HOST, PAIR_ONE},	 {PAIR_ONE, PAIR_HOST},	 {PAIR_HOST, PAIR_OTHER},
	{PAIR_OTHER, PAIR_HOST}, {PAIR_ONE, PAIR_OTHER}, {PAIR_OTHER, PAIR_ONE},
};

struct beside {
	const struct probe_buffer *crowd;
	uint32_t round; /* which of the crowd comes next */
	struct fit_series unmap, map, set_access;
};

/* Of unmapping: what it takes beside nothing, and more beside copies between the devices. */
struct unmapping {
	double alone_ns;
	struct fit_series more;
};

/* Calls until a fence is reached (0: without one), as many as there are to be; those that were over
 * before count. */
static int calls_measure(struct probe *p, struct beside *s, fence_t reached)
{
	uint64_t device = BACKEND_DEVICE_BIT(p->device);
	int done = 0;

	for (uint32_t i = 0; i < probe_nr_calls(p) && !done; i++) {
		struct probe_calls calls = {0};

		done = probe_remap(p, s->crowd, device, s->round++, &calls);
		if (!done && reached)
			done = p->b->ops->fence_done(p->b, reached);
		if (done)
			break;
		fit_add(&s->unmap, calls.unmap);
		fit_add(&s->map, calls.map);
		fit_add(&s->set_access, calls.set_access);
	}
	return done < 0 ? done : 0;
}

/* name: what runs beside the calls. */
static void calls_keep(struct probe *p, const struct beside *s, const char *how, const char *name)
{
	const struct {
		const char *call;
		const struct fit_series *series;
	} kept[] = {{"map", &s->map}, {"set_access", &s->set_access}, {"unmap", &s->unmap}};

	for (uint32_t i = 0; i < ARRAY_LEN(kept); i++)
		if (kept[i].series->nr)
			(void)probe_keep(p, kept[i].series, NAN, how, "beside.%s.%s_ns", name,
					 kept[i].call);
		else
			probe_assume(p, NAN, "no call was over before that was", "beside.%s.%s_ns",
				     name, kept[i].call);
}

static void unmapping_keep(struct probe *p, const struct unmapping *unmapping)
{
	double estimate = (double)p->estimates->vmm.unmap_busy_peer_ns;

	if (unmapping->more.nr)
		p->desc->vmm.unmap_busy_peer_ns = probe_round(probe_keep(
			p, &unmapping->more, estimate,
			"unmapping one granule of many beside copies between two devices, "
			"beyond that",
			"vmm.unmap_busy_peer_ns"));
	else
		probe_assume(p, estimate, "no call was over before copies between two devices were",
			     "vmm.unmap_busy_peer_ns");
}

/* Calls while a flow runs. unmapping: to add to; NULL: nothing. */
static int flow_measure(struct probe *p, const struct probe_buffer *crowd, struct probe_flow *flow,
			const char *how, const char *name, struct unmapping *unmapping)
{
	struct beside s = {.crowd = crowd};
	fence_t reached = 0;
	int err = probe_continue(p);

	if (!err)
		err = probe_flow_open(p, flow);
	for (uint32_t i = 0; i < flow->nr && !err; i++)
		err = probe_flow_queue(p, flow);
	if (!err)
		err = p->b->ops->fence_record(p->b, flow->stream, &reached);
	if (!err)
		err = calls_measure(p, &s, reached);
	probe_flow_close(p, flow);
	if (err)
		return err;
	calls_keep(p, &s, how, name);
	for (uint32_t i = 0; unmapping && i < s.unmap.nr; i++)
		fit_add(&unmapping->more, fmax(s.unmap.value[i] - unmapping->alone_ns, 0));
	return 0;
}

static int copies_measure(struct probe *p, const struct probe_pair *pair,
			  const struct probe_buffer *crowd, struct unmapping *unmapping)
{
	uint32_t most = p->options->quick ? QUICK_COPIES_MAX : COPIES_MAX;
	const uint32_t first[2] = {0, 0};
	int err = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(ways) && !err; i++) {
		const char *from = p->desc->memory[pair->memory[ways[i].from]].name;
		const char *to = p->desc->memory[pair->memory[ways[i].to]].name;
		bool peers = ways[i].from != PAIR_HOST && ways[i].to != PAIR_HOST;
		struct probe_flow flow;
		char name[2 * WEIR_NAME_MAX + 4];

		if (!probe_way_exists(pair, ways[i]))
			continue;
		(void)snprintf(name, sizeof(name), "%s_to_%s", from, to);
		flow = probe_flow_of(p, pair, ways[i], first, BESIDE_NS, most);
		err = flow_measure(p, crowd, &flow, "a mapping call of many, beside such copies",
				   name, peers ? unmapping : NULL);
	}
	return err;
}

/* A kernel of the first device reads the other's memory. */
static int kernels_measure(struct probe *p, const struct probe_pair *pair,
			   const struct probe_buffer *crowd)
{
	static const char how[] = "a mapping call of many, beside a kernel that reads there";
	uint32_t memory = pair->memory[PAIR_OTHER];
	uint64_t most = p->options->quick ? QUICK_KERNEL_MAX : KERNEL_MAX;
	int link = cost_link_find(p->desc, pair->memory[PAIR_ONE], memory);
	struct probe_buffer buffer = {0};
	struct probe_flow flow;
	struct probe_work work;
	char name[WEIR_NAME_MAX + 16];
	int err;

	(void)snprintf(name, sizeof(name), "kernels_at_%s", p->desc->memory[memory].name);
	if (link < 0)
		return 0;
	err = probe_buffer_create(p, memory, probe_room(p, memory, most, 2), &buffer);
	if (err)
		return err;
	probe_work_read(p, &work, buffer.addr, buffer.bytes, 1);
	flow = (struct probe_flow){.device = p->device,
				   .kind = BACKEND_COMPUTE,
				   .launch = &work.launch,
				   .bytes = buffer.bytes,
				   .nr = probe_flow_times(BESIDE_NS,
							  p->desc->link[link].inplace_bytes_per_s,
							  buffer.bytes, LAUNCHES_MAX)};
	err = flow_measure(p, crowd, &flow, how, name, NULL);
	probe_buffer_destroy(p, &buffer);
	return err;
}

int probe_beside(struct probe *p, struct probe_pair *pair)
{
	struct probe_buffer crowd = {0};
	struct beside nothing = {.crowd = &crowd};
	struct unmapping unmapping = {0};
	int err = probe_step(p, "mapping calls beside other things");

	if (!err)
		err = probe_crowd_create(p, pair->memory[PAIR_ONE], &crowd);
	if (!err)
		err = calls_measure(p, &nothing, 0);
	if (!err) {
		calls_keep(p, &nothing, "a mapping call of many, beside nothing", "nothing");
		unmapping.alone_ns = fit_median(&nothing.unmap);
		err = probe_pair_alloc(p, pair, probe_pair_room(p, pair, COPY_MAX, 2), 1);
	}
	if (!err)
		err = copies_measure(p, pair, &crowd, &unmapping);
	if (!err)
		err = kernels_measure(p, pair, &crowd);
	probe_pair_free(p, pair);
	probe_buffer_destroy(p, &crowd);
	if (!err)
		unmapping_keep(p, &unmapping);
	return err;
}
