/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports: what one memory sends and receives over its links together. A hub is a memory, and around
 * it the devices that reach it: the host's with all devices, the first device's with its
 * neighbours. Copies between a hub and several of its devices run at once, each by the engines of
 * the device, so that no engine has two links to serve. The description's ports come of these.
 *
 * For the table alone: one kernel of the first device that stores to several neighbours, or loads
 * from them; and two devices that use the memory of a third one in place.
 */
#include <errno.h>
#include <math.h>

#include "src/base/util.h"
#include "src/cost/cost.h"
#include "workloads/probe/internal.h"

/* What is copied at a time, over each link. */
#define CHUNK_MAX (256 * MIB)
#define QUICK_CHUNK_MAX (128 * MIB)

/* What one kernel uses. Units are small, so that its warps are at all neighbours at any time. */
#define BUFFER_MAX (512 * MIB)
#define QUICK_BUFFER_MAX (128 * MIB)
#define UNIT_MAX (2 * MIB)

/* How long all flows of a case would take if one link carried them one after the other; and the
 * least number of copies of a flow, for which copies become smaller. */
#define CASE_NS 30e6
#define TIMES_MIN 3u
#define COPY_MIN MIB

/* There are many cases. */
#define REPETITIONS 3u
#define QUICK_REPETITIONS 2u

/* Numbers of links that are tried: 1, 2, 3, 4, 8, and all. */
#define NUMBERS_MAX 6u
_Static_assert(WEIR_DEVICES_MAX <= 16, "more numbers of links can be tried");
_Static_assert(NUMBERS_MAX *WEIR_MEMORIES_MAX <= WEIR_PORTS_MAX, "a description has no room");

/* Which way of a hub's links. */
enum way { SEND, RECEIVE, ONE_WAY, BOTH = ONE_WAY, WAYS };

static const char *const way_names[ONE_WAY] = {"send", "receive"};

struct hub {
	uint32_t memory;
	uint32_t nr;			   /* devices around it */
	uint32_t device[WEIR_DEVICES_MAX]; /* those */
	uint32_t link[WEIR_DEVICES_MAX];   /* of the hub to each */
	/* In the hub's memory for each device, and in each device's own; of one size. */
	struct backend_chunk chunk[WEIR_DEVICES_MAX], own[WEIR_DEVICES_MAX];
	uint32_t nr_chunks, nr_own; /* that are created */
	uint32_t nr_numbers, number[NUMBERS_MAX];
	/* What the memory sent, and received, over so many links together. */
	struct fit_series per_s[ONE_WAY][NUMBERS_MAX];
};

static uint32_t repetitions(const struct probe *p)
{
	return p->options->quick ? QUICK_REPETITIONS : REPETITIONS;
}

static const char *memory_name(const struct probe *p, uint32_t memory)
{
	return p->desc->memory[memory].name;
}

static void hub_init(const struct probe *p, uint32_t memory, struct hub *hub)
{
	hub->memory = memory;
	for (uint32_t d = 0; d < p->desc->nr_devices; d++) {
		int link = cost_link_find(p->desc, memory, p->desc->device[d].memory);

		if (link < 0)
			continue;
		hub->device[hub->nr] = d;
		hub->link[hub->nr++] = (uint32_t)link;
	}
	for (uint32_t n = 1; n < hub->nr; n = n < 4 ? n + 1 : n * 2)
		hub->number[hub->nr_numbers++] = n;
	if (hub->nr)
		hub->number[hub->nr_numbers++] = hub->nr;
}

/* ------------------------------------------------------------------ memory */

static void hub_free(struct probe *p, struct hub *hub)
{
	while (hub->nr_chunks)
		p->b->ops->chunk_destroy(p->b, &hub->chunk[--hub->nr_chunks]);
	while (hub->nr_own)
		p->b->ops->chunk_destroy(p->b, &hub->own[--hub->nr_own]);
}

static int hub_alloc_of(struct probe *p, struct hub *hub, uint64_t bytes)
{
	const struct backend_ops *ops = p->b->ops;
	int err = 0;

	for (uint32_t i = 0; i < hub->nr && !err; i++) {
		uint64_t device = BACKEND_DEVICE_BIT(hub->device[i]);

		err = ops->chunk_create(p->b, hub->memory, bytes, device, &hub->chunk[i]);
		if (err)
			break;
		hub->nr_chunks++;
		err = ops->chunk_create(p->b, p->desc->device[hub->device[i]].memory, bytes, device,
					&hub->own[i]);
		if (!err)
			hub->nr_own++;
	}
	if (err)
		hub_free(p, hub);
	return err;
}

static int hub_alloc(struct probe *p, struct hub *hub)
{
	uint64_t bytes = p->options->quick ? QUICK_CHUNK_MAX : CHUNK_MAX;
	int err;

	bytes = probe_room(p, hub->memory, bytes, hub->nr);
	for (uint32_t i = 0; i < hub->nr; i++)
		bytes = probe_room(p, p->desc->device[hub->device[i]].memory, bytes, 1);
	err = hub_alloc_of(p, hub, bytes);
	/* A machine may have less than it says, of memory that can be pinned above all. */
	while (err == -ENOMEM && bytes > p->b->desc.vmm.granularity_bytes) {
		bytes /= 2;
		err = hub_alloc_of(p, hub, bytes);
	}
	return err;
}

/* ------------------------------------------------------------------ copies */

/* Copies between the hub and its i-th device, one of nr flows that way. With both ways busy each
 * has half of the chunks. */
static struct probe_flow flow_of(const struct probe *p, const struct hub *hub, uint32_t i,
				 uint32_t nr, enum way way, bool both)
{
	const struct weir_link_desc *link = &p->desc->link[hub->link[i]];
	uint32_t own_memory = hub->own[i].memory;
	uint64_t bytes = both ? hub->own[i].bytes / 2 : hub->own[i].bytes;
	uint64_t offset = both && way == RECEIVE ? bytes : 0;
	char *at_hub = (char *)hub->chunk[i].alias + offset;
	char *at_device = (char *)hub->own[i].alias + offset;
	double rate = cost_copy_bytes_per_s(link, way == SEND ? hub->memory : own_memory);
	double most = rate * CASE_NS / 1e9 / nr;

	while (TIMES_MIN * (double)bytes > most && bytes > COPY_MIN)
		bytes /= 2;
	return (struct probe_flow){
		.device = hub->device[i],
		.kind = way == SEND ? BACKEND_COPY_IN : BACKEND_COPY_OUT,
		.piece = {.dst = way == SEND ? at_device : at_hub,
			  .src = way == SEND ? at_hub : at_device,
			  .bytes = bytes},
		.bytes = bytes,
		.overhead_ns = (double)(link->latency_ns + link->copy_ns),
		.nr = MAX(probe_flow_times(CASE_NS / nr, rate, bytes, PROBE_FLOW_TIMES_MAX),
			  TIMES_MIN),
	};
}

static double port_estimate(const struct probe *p, uint32_t memory, uint32_t links, enum way way)
{
	const struct weir_machine_desc *desc = p->estimates;

	for (uint32_t i = 0; i < desc->nr_ports; i++)
		if (desc->port[i].memory == memory && desc->port[i].links == links)
			return way == SEND ? desc->port[i].send_bytes_per_s
					   : desc->port[i].receive_bytes_per_s;
	return NAN;
}

static void case_keep(struct probe *p, struct hub *hub, uint32_t k, enum way way,
		      const struct probe_together *t)
{
	static const char *const how[ONE_WAY] = {"copies from it over so many links at once",
						 "copies to it over so many links at once"};
	const char *name = memory_name(p, hub->memory);
	uint32_t nr = hub->number[k];

	for (enum way w = SEND; w < ONE_WAY; w++) {
		struct fit_series both;

		if (way == BOTH) {
			probe_together_sum(t, w == SEND ? 0 : nr, nr, &both);
			(void)probe_keep(p, &both, NAN, "the same with both ways at once",
					 "ports.%s.both_ways.%s.%u_links_bytes_per_s", name,
					 way_names[w], nr);
		} else if (w == way) {
			probe_together_sum(t, 0, nr, &hub->per_s[w][k]);
			(void)probe_keep(
				p, &hub->per_s[w][k], port_estimate(p, hub->memory, nr, way),
				how[w], "ports.%s.%s.%u_links_bytes_per_s", name, way_names[w], nr);
		}
	}
}

/* Over the first so many links, one way or both. */
static int case_measure(struct probe *p, struct hub *hub, uint32_t k, enum way way)
{
	struct probe_together t = {0};
	int err;

	for (enum way w = SEND; w < ONE_WAY; w++)
		for (uint32_t i = 0; i < hub->number[k] && (way == BOTH || w == way); i++)
			t.flow[t.nr++] = flow_of(p, hub, i, hub->number[k], w, way == BOTH);
	err = probe_together_run(p, &t, repetitions(p));
	if (!err)
		case_keep(p, hub, k, way, &t);
	return err;
}

static int hub_measure(struct probe *p, struct hub *hub)
{
	const char *name = memory_name(p, hub->memory);
	int err = probe_step(p, "what %s sends and receives over several links", name);

	if (err)
		return err;
	if (!hub->nr) {
		probe_assume(p, NAN, "no other GPU reaches its memory",
			     "ports.%s.send.1_links_bytes_per_s", name);
		return 0;
	}
	err = hub_alloc(p, hub);
	if (err)
		return err;
	for (enum way way = SEND; way < WAYS && !err; way++)
		for (uint32_t k = 0; k < hub->nr_numbers && !err; k++)
			err = case_measure(p, hub, k, way);
	hub_free(p, hub);
	return err;
}

/* ------------------------------------------------------------------ one kernel */

/* A kernel's rate, of several that follow each other. */
static int kernel_add(struct probe *p, const struct probe_work *work, uint64_t bytes, uint32_t nr,
		      struct fit_series *per_s)
{
	double ns;
	int err = probe_time_launch(p, &work->launch, nr, &ns, NULL);

	if (!err)
		fit_add(per_s, (double)bytes / ns * 1e9);
	return err;
}

/* A kernel of the hub's device uses a buffer that lies at its first so many neighbours. */
static int kernels_rounds(struct probe *p, const struct hub *hub, uint32_t nr_links,
			  const struct probe_buffer *buffer)
{
	const char *name = memory_name(p, hub->memory);
	double rate = p->desc->link[hub->link[0]].inplace_bytes_per_s;
	uint32_t nr = probe_flow_times(CASE_NS, rate, buffer->bytes, PROBE_FLOW_TIMES_MAX);
	struct fit_series stores = {0}, loads = {0};
	int err = 0;

	for (uint32_t i = 0; i <= repetitions(p) && !err; i++) {
		struct fit_series first = {0};
		struct probe_work work;

		probe_work_write(&work, buffer->addr, buffer->bytes, 0);
		err = kernel_add(p, &work, buffer->bytes, nr, i ? &stores : &first);
		if (err)
			break;
		probe_work_read(p, &work, buffer->addr, buffer->bytes, 1);
		err = kernel_add(p, &work, buffer->bytes, nr, i ? &loads : &first);
	}
	if (err)
		return err;
	(void)probe_keep(p, &stores, NAN, "stores of one kernel to so many neighbours",
			 "ports.%s.stores.%u_links_bytes_per_s", name, nr_links);
	(void)probe_keep(p, &loads, NAN, "loads of one kernel from so many neighbours",
			 "ports.%s.loads.%u_links_bytes_per_s", name, nr_links);
	return 0;
}

static int kernels_measure(struct probe *p, const struct hub *hub, uint32_t nr)
{
	double most = p->desc->link[hub->link[0]].inplace_bytes_per_s * CASE_NS / 1e9;
	uint64_t room = p->options->quick ? QUICK_BUFFER_MAX : BUFFER_MAX;
	uint64_t each = (uint64_t)fmin((double)room, most) / nr, unit;
	uint32_t memory[WEIR_DEVICES_MAX];
	struct probe_buffer buffer;
	int err;

	for (uint32_t i = 0; i < nr; i++) {
		memory[i] = p->desc->device[hub->device[i]].memory;
		each = probe_room(p, memory[i], each, 1);
	}
	unit = MIN(each, MAX(UNIT_MAX, p->b->desc.vmm.granularity_bytes));
	err = probe_buffer_create_turns(p, p->device, (struct probe_turns){memory, nr}, unit,
					(uint32_t)(each / unit) * nr, &buffer);
	if (err)
		return err;
	err = kernels_rounds(p, hub, nr, &buffer);
	probe_buffer_destroy(p, &buffer);
	return err;
}

static int kernels_all(struct probe *p, const struct hub *hub)
{
	int err = probe_step(p, "a kernel of %s that uses several neighbours' memory",
			     memory_name(p, hub->memory));

	for (uint32_t k = 0; k < hub->nr_numbers && !err; k++)
		err = kernels_measure(p, hub, hub->number[k]);
	return err;
}

/* ------------------------------------------------------------------ two devices at a third one */

/* The first two devices, and the third one's memory. */
#define USERS 2u

struct third {
	uint32_t memory;
	const struct weir_link_desc *link[USERS]; /* of each to that memory */
	struct probe_buffer buffer[USERS];	  /* there */
	struct probe_buffer sum;		  /* of the second device, for what it reads */
};

static int third_rounds(struct probe *p, struct third *third, bool writes)
{
	const char *what = writes ? "written" : "read", *name = memory_name(p, third->memory);
	uint64_t *const sum[USERS] = {(uint64_t *)(void *)p->plug.addr,
				      (uint64_t *)(void *)third->sum.addr};
	struct probe_together t = {.nr = USERS};
	struct probe_work work[USERS];
	struct fit_series all;
	int err;

	for (uint32_t i = 0; i < USERS; i++) {
		const struct probe_buffer *buffer = &third->buffer[i];
		double rate = third->link[i]->inplace_bytes_per_s;

		if (writes)
			probe_work_write(&work[i], buffer->addr, buffer->bytes, 0);
		else
			probe_work_read_into(&work[i], sum[i], buffer->addr, buffer->bytes, 1);
		t.flow[i] = (struct probe_flow){.device = i,
						.kind = BACKEND_COMPUTE,
						.launch = &work[i].launch,
						.bytes = buffer->bytes,
						.nr = probe_flow_times(CASE_NS / USERS, rate,
								       buffer->bytes,
								       PROBE_FLOW_TIMES_MAX)};
	}
	err = probe_together_run(p, &t, repetitions(p));
	if (err)
		return err;
	for (uint32_t i = 0; i < USERS; i++)
		(void)probe_keep(p, &t.per_s[i], NAN, "kernels of two GPUs in a third one's memory",
				 "ports.%s.%s_by_two.%s_bytes_per_s", name, what,
				 memory_name(p, p->desc->device[i].memory));
	probe_together_sum(&t, 0, USERS, &all);
	(void)probe_keep(p, &all, NAN, "both of these together",
			 "ports.%s.%s_by_two.all_bytes_per_s", name, what);
	return 0;
}

static int third_alloc(struct probe *p, struct third *third)
{
	uint64_t most = p->options->quick ? QUICK_CHUNK_MAX : CHUNK_MAX;
	uint64_t bytes = probe_room(p, third->memory, most, USERS);
	uint64_t unit = MIN(bytes, MAX(UNIT_MAX, p->b->desc.vmm.granularity_bytes));
	uint32_t own = p->desc->device[1].memory;
	int err = 0;

	for (uint32_t i = 0; i < USERS && !err; i++)
		err = probe_buffer_create_turns(p, i, (struct probe_turns){&third->memory, 1}, unit,
						(uint32_t)(bytes / unit), &third->buffer[i]);
	if (!err)
		err = probe_buffer_create_turns(p, 1, (struct probe_turns){&own, 1},
						p->b->desc.vmm.granularity_bytes, 1, &third->sum);
	return err;
}

static int third_measure(struct probe *p)
{
	const char *why = p->desc->nr_devices > USERS ? NULL : "takes three GPUs";
	struct third third = {.memory = 0};
	int err = probe_step(p, "two GPUs that use a third one's memory");

	if (err)
		return err;
	for (uint32_t i = 0; i < USERS && !why; i++) {
		int link;

		third.memory = p->desc->device[USERS].memory;
		link = cost_link_find(p->desc, p->desc->device[i].memory, third.memory);
		if (link < 0)
			why = "the first two GPUs do not both reach the third one's memory";
		else
			third.link[i] = &p->desc->link[link];
	}
	if (why) {
		probe_assume(p, NAN, why, "ports.third.read_by_two.all_bytes_per_s");
		return 0;
	}
	err = third_alloc(p, &third);
	if (!err)
		err = third_rounds(p, &third, false);
	if (!err)
		err = third_rounds(p, &third, true);
	probe_buffer_destroy(p, &third.sum);
	for (uint32_t i = 0; i < USERS; i++)
		probe_buffer_destroy(p, &third.buffer[i]);
	return err;
}

/* ------------------------------------------------------------------ the description */

static bool is_host(const struct probe *p, uint32_t memory)
{
	return p->desc->memory[memory].kind == WEIR_MEMORY_HOST;
}

/* Links between a device's memory and other devices'. fastest: what the best of them carries each
 * way. @return how many there are */
static uint32_t peer_links(const struct probe *p, uint32_t memory, double fastest[ONE_WAY])
{
	uint32_t nr = 0;

	fastest[SEND] = fastest[RECEIVE] = 0;
	for (uint32_t l = 0; l < p->desc->nr_links; l++) {
		const struct weir_link_desc *link = &p->desc->link[l];
		uint32_t other = link->a == memory ? link->b : link->a;

		if ((link->a != memory && link->b != memory) || is_host(p, other))
			continue;
		nr++;
		fastest[SEND] = fmax(fastest[SEND], cost_copy_bytes_per_s(link, memory));
		fastest[RECEIVE] = fmax(fastest[RECEIVE], cost_copy_bytes_per_s(link, other));
	}
	return nr;
}

/* A port of a memory with the hub's k-th number of links; it is the hub's own or like it. */
static struct weir_port_desc *port_add(struct probe *p, const struct hub *hub, uint32_t memory,
				       uint32_t k)
{
	static const char *const how[2][ONE_WAY] = {
		{"copies from the first GPU's memory over so many links at once: GPUs are alike",
		 "copies to the first GPU's memory over so many links at once: GPUs are alike"},
		{"copies from this memory over so many links at once",
		 "copies to this memory over so many links at once"}};
	uint32_t at = p->desc->nr_ports++;
	struct weir_port_desc *port = &p->desc->port[at];
	double per_s[ONE_WAY];

	for (enum way w = SEND; w < ONE_WAY; w++)
		per_s[w] = probe_keep_again(
			p, &hub->per_s[w][k], port_estimate(p, memory, hub->number[k], w),
			how[memory == hub->memory][w], "port[%u].%s_bytes_per_s", at, way_names[w]);
	*port = (struct weir_port_desc){.memory = memory,
					.links = hub->number[k],
					.send_bytes_per_s = per_s[SEND],
					.receive_bytes_per_s = per_s[RECEIVE]};
	return port;
}

/* Those of what was measured are replaced. One link of the host's has its own rate. That a GPU has
 * a port with one link says that its kernels share the memory's rate; it holds back no link. */
static void ports_write(struct probe *p, const struct hub *host, const struct hub *gpu)
{
	struct weir_machine_desc *desc = p->desc;
	uint32_t nr_kept = 0;

	for (uint32_t i = 0; i < desc->nr_ports; i++)
		if (desc->port[i].memory != host->memory &&
		    (!gpu->nr || is_host(p, desc->port[i].memory)))
			desc->port[nr_kept++] = desc->port[i];
	desc->nr_ports = nr_kept;
	for (uint32_t k = 0; k < host->nr_numbers; k++)
		if (host->number[k] > 1)
			(void)port_add(p, host, host->memory, k);
	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		uint32_t memory = desc->device[d].memory;
		double fastest[ONE_WAY];
		uint32_t nr = peer_links(p, memory, fastest);

		for (uint32_t k = 0; k < gpu->nr_numbers && gpu->number[k] <= nr; k++) {
			struct weir_port_desc *port = port_add(p, gpu, memory, k);

			if (port->links > 1)
				continue;
			port->send_bytes_per_s = fmax(port->send_bytes_per_s, fastest[SEND]);
			port->receive_bytes_per_s =
				fmax(port->receive_bytes_per_s, fastest[RECEIVE]);
		}
	}
}

int probe_ports(struct probe *p)
{
	struct hub host = {.nr = 0}, gpu = {.nr = 0};
	int err;

	hub_init(p, cost_host_memory(p->desc), &host);
	hub_init(p, p->desc->device[p->device].memory, &gpu);
	err = hub_measure(p, &host);
	if (!err)
		err = hub_measure(p, &gpu);
	if (!err)
		err = kernels_all(p, &gpu);
	if (!err)
		err = third_measure(p);
	if (!err)
		ports_write(p, &host, &gpu);
	return err;
}
