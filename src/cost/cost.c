/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model; cost.h gives its formulas.
 */
#include "src/cost/cost.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "src/base/util.h"

#define SECTOR_BYTES 32u
#define WORD_BYTES 4u
#define NS_PER_S 1e9
#define DIGEST_HBM_SHARE 11 /* a digest reads at one in so many of the HBM's rate */

int cost_link_find(const struct weir_machine_desc *desc, uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < desc->nr_links; i++) {
		const struct weir_link_desc *link = &desc->link[i];

		if ((link->a == a && link->b == b) || (link->a == b && link->b == a))
			return (int)i;
	}
	return -ENOENT;
}

double cost_port_bytes_per_s(const struct weir_machine_desc *desc, uint32_t memory, uint32_t links,
			     bool sends)
{
	double rate = INFINITY;
	uint32_t most = 0;

	for (uint32_t i = 0; i < desc->nr_ports; i++) {
		const struct weir_port_desc *port = &desc->port[i];

		if (port->memory != memory || port->links > links || port->links <= most)
			continue;
		most = port->links;
		rate = sends ? port->send_bytes_per_s : port->receive_bytes_per_s;
	}
	return rate;
}

uint32_t cost_host_memory(const struct weir_machine_desc *desc)
{
	for (uint32_t i = 0; i < desc->nr_memories; i++)
		if (desc->memory[i].kind == WEIR_MEMORY_HOST)
			return i;
	return 0;
}

double cost_copy_bytes_per_s(const struct weir_link_desc *link, uint32_t from)
{
	return from == link->a ? link->a_to_b_bytes_per_s : link->b_to_a_bytes_per_s;
}

double cost_sector_bytes(uint32_t granule)
{
	uint32_t align;

	if (!granule)
		granule = WORD_BYTES;
	align = MIN((uint32_t)lowest_bit(granule), SECTOR_BYTES);
	/* 32 bytes times (g + 32 - a) / 32 sectors */
	return (double)granule + (double)(SECTOR_BYTES - align);
}

double cost_expansion(const struct weir_use *use)
{
	if (use->pattern != WEIR_RANDOM)
		return 1;
	return cost_sector_bytes(use->granule) / (use->granule ? use->granule : WORD_BYTES);
}

double cost_kernel_factor(const struct weir_machine_desc *desc, const char *kernel)
{
	for (uint32_t i = 0; kernel && i < desc->nr_kernels; i++)
		if (!strcmp(desc->kernel[i].name, kernel))
			return desc->kernel[i].factor;
	return 1;
}

double cost_hbm_ns(const struct weir_device_desc *device, const struct weir_use *use)
{
	double bytes = ((double)use->read_bytes + (double)use->write_bytes) * cost_expansion(use);
	double rate = use->pattern == WEIR_RANDOM ? device->hbm_random_bytes_per_s
						  : device->hbm_bytes_per_s;

	return use->kind == WEIR_DISCARD ? 0 : bytes / rate * NS_PER_S;
}

double cost_resident_ns(const struct weir_device_desc *device, double factor, double hbm_ns,
			double ops)
{
	return max_double(factor * max_double(hbm_ns, ops / device->ops_per_s * NS_PER_S),
			  (double)device->launch_ns);
}

static bool is_update(const struct weir_use *use)
{
	return use->read_bytes && use->write_bytes;
}

double cost_serial(const struct weir_link_desc *link, enum weir_use_pattern pattern)
{
	return pattern == WEIR_RANDOM ? link->inplace_serial_random : link->inplace_serial;
}

double cost_reach_bytes(const struct weir_link_desc *link, const struct weir_use *use)
{
	return (double)link->inplace_reach_bytes / (is_update(use) ? 2 : 1);
}

double cost_inplace_bytes_per_s(const struct weir_link_desc *link, const struct weir_use *use,
				uint64_t footprint)
{
	double piece = cost_sector_bytes(use->granule), reach = cost_reach_bytes(link, use);
	double rate = link->inplace_bytes_per_s;

	if (use->pattern != WEIR_RANDOM)
		return rate;
	rate = min_double(rate, link->inplace_small_per_s *
					min_double(piece, (double)link->inplace_request_bytes));
	if ((double)footprint > reach) {
		double misses_per_s = is_update(use) ? link->inplace_update_large_per_s
						     : link->inplace_large_per_s;

		rate = min_double(rate, misses_per_s / (1 - reach / (double)footprint) * piece);
	}
	return rate;
}

/* The flow over a link in a direction, made on first use. Until cost_kernel() is done its
 * bytes_per_s holds seconds, and random those of random uses. */
static struct cost_flow *flow_get(struct cost_kernel *cost, uint32_t memory, uint32_t link,
				  bool a_to_b, bool reads)
{
	struct cost_flow *flow;

	for (uint32_t i = 0; i < cost->nr_flows; i++)
		if (cost->flow[i].memory == memory && cost->flow[i].a_to_b == a_to_b)
			return &cost->flow[i];
	flow = &cost->flow[cost->nr_flows++];
	*flow = (struct cost_flow){
		.memory = memory, .link = link, .a_to_b = a_to_b, .reads = reads};
	return flow;
}

static int use_in_place(const struct weir_machine_desc *desc, uint32_t own,
			const struct cost_use *part, uint32_t memory, struct cost_kernel *cost)
{
	const struct weir_use *use = part->use;
	double fraction = (double)part->bytes[memory] / (double)use->bytes;
	double expansion = cost_expansion(use);
	int found = cost_link_find(desc, memory, own);
	const struct weir_link_desc *link;
	double rate;

	if (found < 0)
		return -EINVAL;
	link = &desc->link[found];
	rate = cost_inplace_bytes_per_s(link, use, part->bytes[memory]);
	for (int out = 0; out < 2; out++) {
		double declared = fraction * (double)(out ? use->write_bytes : use->read_bytes);
		struct cost_flow *flow;

		if (!(declared > 0))
			continue;
		*(out ? &cost->written_bytes[memory] : &cost->read_bytes[memory]) += declared;
		flow = flow_get(cost, memory, (uint32_t)found, (link->a == memory) != out, !out);
		flow->bytes += declared * expansion;
		flow->bytes_per_s += declared * expansion / rate;
		if (use->pattern == WEIR_RANDOM)
			flow->random += declared * expansion / rate;
	}
	return 0;
}

/* Time of up to two opposite flows over one link; back may be NULL. */
static double flows_ns(const struct weir_link_desc *link, const struct cost_flow *flow,
		       const struct cost_flow *back)
{
	double alone, back_alone, shared, back_shared, first;

	alone = min_double(flow->bytes_per_s,
			   flow->a_to_b ? link->a_to_b_bytes_per_s : link->b_to_a_bytes_per_s);
	if (!back)
		return flow->bytes / alone * NS_PER_S;
	back_alone = min_double(back->bytes_per_s,
				back->a_to_b ? link->a_to_b_bytes_per_s : link->b_to_a_bytes_per_s);
	shared = min_double(alone, link->inplace_both_bytes_per_s);
	back_shared = min_double(back_alone, link->inplace_both_bytes_per_s);
	/* Both at the shared rate until the shorter is done, then the rest at its own. */
	first = min_double(flow->bytes / shared, back->bytes / back_shared);
	return (first + max_double((flow->bytes - first * shared) / alone,
				   (back->bytes - first * back_shared) / back_alone)) *
	       NS_PER_S;
}

/* The flow over the i-th one's link the other way; NULL: there is none. */
static const struct cost_flow *flow_back(const struct cost_kernel *cost, uint32_t i)
{
	for (uint32_t j = 0; j < cost->nr_flows; j++)
		if (j != i && cost->flow[j].link == cost->flow[i].link)
			return &cost->flow[j];
	return NULL;
}

double cost_kernel_link_ns(const struct weir_machine_desc *desc, const struct cost_kernel *cost)
{
	double ns = 0;

	for (uint32_t i = 0; i < cost->nr_flows; i++) {
		const struct cost_flow *flow = &cost->flow[i];

		ns = max_double(ns, flows_ns(&desc->link[flow->link], flow, flow_back(cost, i)));
	}
	return ns;
}

/* What does not overlap of the shorter time, by the uses of up to two opposite flows. */
static double flows_serial(const struct weir_link_desc *link, const struct cost_flow *flow,
			   const struct cost_flow *back)
{
	double time = flow->bytes / flow->bytes_per_s, random = flow->random * time;

	if (back) {
		double back_time = back->bytes / back->bytes_per_s;

		time += back_time;
		random += back->random * back_time;
	}
	random /= time;
	return random * cost_serial(link, WEIR_RANDOM) +
	       (1 - random) * cost_serial(link, WEIR_STREAM);
}

/* What does not overlap. home_ns: HBM time of what is in the device's own memory. */
static double serial_ns(const struct weir_machine_desc *desc, const struct cost_kernel *cost,
			double home_ns)
{
	double ns = 0;

	if (cost->hbm_ns > 0)
		home_ns *= max_double(cost->hbm_ns, cost->ops_ns) / cost->hbm_ns;
	for (uint32_t i = 0; i < cost->nr_flows; i++) {
		const struct cost_flow *flow = &cost->flow[i], *back = flow_back(cost, i);
		const struct weir_link_desc *link = &desc->link[flow->link];

		if (!back || flow < back)
			ns += flows_serial(link, flow, back) *
			      min_double(home_ns, flows_ns(link, flow, back));
	}
	return ns;
}

int cost_kernel(const struct weir_machine_desc *desc, uint32_t device, const char *kernel,
		const struct cost_use *uses, uint32_t nr_uses, double ops, struct cost_kernel *out)
{
	const struct weir_device_desc *dev = &desc->device[device];
	double factor = cost_kernel_factor(desc, kernel);
	struct cost_kernel cost;
	double home_ns = 0;

	memset(&cost, 0, sizeof(cost));
	cost.ops_ns = factor * (ops / dev->ops_per_s * NS_PER_S);
	cost.launch_ns = (double)dev->launch_ns;
	for (uint32_t i = 0; i < nr_uses; i++) {
		const struct weir_use *use = uses[i].use;
		double hbm_ns = factor * cost_hbm_ns(dev, use);

		cost.hbm_ns += hbm_ns;
		home_ns += hbm_ns * (double)uses[i].bytes[dev->memory] / (double)use->bytes;
		for (uint32_t m = 0; m < desc->nr_memories; m++) {
			int err;

			if (m == dev->memory || !uses[i].bytes[m])
				continue;
			err = use_in_place(desc, dev->memory, &uses[i], m, &cost);
			if (err)
				return err;
		}
	}
	for (uint32_t i = 0; i < cost.nr_flows; i++) {
		cost.flow[i].random /= cost.flow[i].bytes_per_s;
		cost.flow[i].bytes_per_s = cost.flow[i].bytes / cost.flow[i].bytes_per_s;
	}
	cost.serial_ns = serial_ns(desc, &cost, home_ns);
	*out = cost;
	return 0;
}

double cost_kernel_alone_ns(const struct weir_machine_desc *desc, const struct cost_kernel *cost)
{
	return max_double(max_double(max_double(cost->hbm_ns, cost->ops_ns),
				     cost_kernel_link_ns(desc, cost)),
			  cost->launch_ns) +
	       cost->serial_ns;
}

double cost_digest_ns(const struct weir_machine_desc *desc, uint32_t device, uint64_t bytes)
{
	const struct weir_device_desc *dev = &desc->device[device];

	return (double)dev->launch_ns +
	       (double)bytes * DIGEST_HBM_SHARE / dev->hbm_bytes_per_s * NS_PER_S;
}
