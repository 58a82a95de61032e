/* SPDX-License-Identifier: Apache-2.0 */
#include "workloads/passes_bound.h"

#include <math.h>

#include "src/cost/cost.h"

/* Bytes a second of links together: to and from the device's own memory, and the host's. */
struct rates {
	double in, out, host_in, host_out;
};

static double rate_between_gpus(const struct weir_link_desc *link, uint32_t from)
{
	return fmax(cost_copy_bytes_per_s(link, from), link->inplace_bytes_per_s);
}

/* A neighbour's links to the device and to the host carry more. */
static void add_neighbour(struct rates *r, const struct weir_machine_desc *desc, uint32_t own,
			  uint32_t memory)
{
	uint32_t host = cost_host_memory(desc);
	int near = cost_link_find(desc, own, memory), far = cost_link_find(desc, host, memory);

	if (near >= 0) {
		r->in += rate_between_gpus(&desc->link[near], memory);
		r->out += rate_between_gpus(&desc->link[near], own);
	}
	if (far >= 0) {
		r->host_in += cost_copy_bytes_per_s(&desc->link[far], host);
		r->host_out += cost_copy_bytes_per_s(&desc->link[far], memory);
	}
}

static double seconds(double bytes, double bytes_per_s)
{
	return bytes > 0 ? bytes / bytes_per_s : 0;
}

struct passes_beyond passes_beyond(uint64_t bytes, const struct passes_held *held,
				   uint64_t own_bytes)
{
	double own = bytes > own_bytes ? (double)(bytes - own_bytes) : 0, near = 0;

	for (uint32_t m = 0; held->near_bytes && m < WEIR_MEMORIES_MAX; m++)
		near += (double)held->near_bytes[m];
	return (struct passes_beyond){own, fmax(own - near, 0)};
}

double passes_bound_s(const struct weir_machine_desc *desc, uint32_t device, uint32_t nr_devices,
		      const struct passes_held *held, const struct passes_least *least)
{
	uint32_t first = desc->device[device].memory, host = cost_host_memory(desc);
	struct rates r = {0};

	for (uint32_t i = device; i < device + nr_devices; i++) {
		uint32_t own = desc->device[i].memory;
		int found = cost_link_find(desc, host, own);

		if (found < 0)
			continue;
		r.in += cost_copy_bytes_per_s(&desc->link[found], host);
		r.out += cost_copy_bytes_per_s(&desc->link[found], own);
	}
	r.host_in = r.in;
	r.host_out = r.out;
	for (uint32_t m = 0; held->near_bytes && m < desc->nr_memories; m++)
		if (held->near_bytes[m])
			add_neighbour(&r, desc, first, m);
	if (!(r.in > 0))
		return least->asked_bytes / least->hbm_bytes_per_s;
	return fmax(
		fmax(fmax(seconds(least->in.own, r.in), seconds(least->in.both, r.host_in)),
		     fmax(seconds(least->out.own, r.out), seconds(least->out.both, r.host_out))),
		least->asked_bytes / (least->hbm_bytes_per_s + r.in + r.out));
}
