/* SPDX-License-Identifier: Apache-2.0 */
/* See bound.h; the proofs are in docs/solver.md. Times within are in nanoseconds. */
#include "workloads/solver/bound.h"

#include <math.h>

#include "src/base/util.h"
#include "src/cost/cost.h"
#include "workloads/solver/internal.h"

#define NS_PER_S 1e9
#define EDGES_MAX (2 * WEIR_DEVICES_MAX)
#define BEFORE_MAX 6u /* edges whose slices are at most one away: two have the same at most */

/* What all parts look at. */
struct bounded {
	const struct weir_machine_desc *desc;
	const struct solver_params *p;
	enum solver_sharing sharing;
	double slice_bytes;
	double exchanges; /* of slices between two neighbours, each way, within a pass */
};

/* ------------------------------------------------------------------ kernels */

/* The least time of launches on a device that compute the slices from first to before end. */
static double compute_ns(const struct bounded *b, uint32_t device, uint32_t first, uint32_t end)
{
	const struct weir_device_desc *dev = &b->desc->device[device];
	const double factor = cost_kernel_factor(b->desc, solver_kernel_of(b->p->kind)->name);
	const uint32_t read = MIN(end + 1, b->p->shape.slices) - (first ? first - 1 : 0);
	const double bytes = b->slice_bytes * (read + (end - first));

	return cost_resident_ns(dev, factor, bytes / dev->hbm_bytes_per_s * NS_PER_S, 0);
}

static double kernels_ns(const struct bounded *b)
{
	double most = 0;

	for (uint32_t d = 0; d < b->p->devices; d++)
		most = max_double(most, compute_ns(b, d, solver_first_slice(b->p, d),
						   solver_first_slice(b->p, d + 1)));
	return most * b->p->iterations;
}

/* ------------------------------------------------------------------ ports */

static uint32_t memory_of(const struct bounded *b, uint32_t device)
{
	return b->desc->device[device].memory;
}

static const struct weir_link_desc *link_of(const struct bounded *b, uint32_t from, uint32_t to)
{
	return &b->desc->link[cost_link_find(b->desc, memory_of(b, from), memory_of(b, to))];
}

/* A device and the next one: as many bytes each way. While both ways are busy each has the duplex
 * rate at most, else one has its own. */
static double link_ns(const struct bounded *b, uint32_t device)
{
	const struct weir_link_desc *link = link_of(b, device, device + 1);
	const double bytes = b->slice_bytes * b->exchanges;
	const double ab = link->a_to_b_bytes_per_s, ba = link->b_to_a_bytes_per_s;
	const double both = max_double(2 * link->duplex_bytes_per_s, max_double(ab, ba));

	return max_double(bytes / min_double(ab, ba), 2 * bytes / both) * NS_PER_S;
}

/* The most that a memory sends, or receives, over so many of its links together. */
static double port_rate(const struct bounded *b, uint32_t memory, uint32_t links, bool sends)
{
	double rate = INFINITY;
	uint32_t most = 0;

	for (uint32_t i = 0; i < b->desc->nr_ports; i++) {
		const struct weir_port_desc *port = &b->desc->port[i];

		if (port->memory != memory || port->links > links || port->links < most)
			continue;
		most = port->links;
		rate = sends ? port->send_bytes_per_s : port->receive_bytes_per_s;
	}
	return rate;
}

/* A device's slices to or from both neighbours, while one of these links is busy or both are. */
static double port_ns(const struct bounded *b, uint32_t device, bool sends)
{
	const uint32_t own = memory_of(b, device);
	double sum = 0, most = 0, rate;
	uint32_t links = 0;

	for (int64_t other = (int64_t)device - 1; other <= (int64_t)device + 1; other += 2) {
		if (other < 0 || other >= b->p->devices)
			continue;
		const uint32_t to = (uint32_t)other;

		rate = cost_copy_bytes_per_s(link_of(b, device, to),
					     sends ? own : memory_of(b, to));
		sum += rate;
		most = max_double(most, rate);
		links++;
	}
	rate = max_double(min_double(most, port_rate(b, own, 1, sends)),
			  min_double(sum, port_rate(b, own, links, sends)));
	return links * b->slice_bytes * b->exchanges / rate * NS_PER_S;
}

static double ports_ns(const struct bounded *b)
{
	double most = 0;

	for (uint32_t d = 0; d < b->p->devices && b->p->devices > 1; d++) {
		most = max_double(most, max_double(port_ns(b, d, true), port_ns(b, d, false)));
		if (d + 1 < b->p->devices)
			most = max_double(most, link_ns(b, d));
	}
	return most;
}

/* ------------------------------------------------------------------ chains */

/* A slice that a neighbour reads, and what is computed from it. */
struct edge {
	uint32_t device, slice;
	double own_ns;		     /* of the launch that computes it */
	double end_ns;		     /* the longest chain that ends with that */
	uint32_t before[BEFORE_MAX]; /* edges that it is computed from, by their numbers */
	double after_ns[BEFORE_MAX]; /* the least time from the end of those to its own end */
	uint32_t nr_before;
};

/* The least time from the end of a launch that computes one edge to that of one that reads it. */
static double hop_ns(const struct bounded *b, const struct edge *from, const struct edge *to)
{
	const struct weir_link_desc *link;
	double rate;

	if (from->device == to->device)
		return to->own_ns;
	link = link_of(b, from->device, to->device);
	rate = cost_copy_bytes_per_s(link, memory_of(b, from->device));
	if (b->sharing == SOLVER_COPIED)
		return (double)(link->latency_ns + link->copy_ns) +
		       b->slice_bytes / rate * NS_PER_S + to->own_ns;
	return max_double(b->slice_bytes / rate * NS_PER_S, to->own_ns);
}

static uint32_t edges_of(const struct bounded *b, struct edge edge[EDGES_MAX])
{
	uint32_t nr = 0;

	for (uint32_t d = 0; d < b->p->devices; d++) {
		const uint32_t first = solver_first_slice(b->p, d);
		const uint32_t last = solver_first_slice(b->p, d + 1) - 1;

		if (d)
			edge[nr++] = (struct edge){.device = d, .slice = first};
		if (d + 1 < b->p->devices)
			edge[nr++] = (struct edge){.device = d, .slice = last};
	}
	for (uint32_t e = 0; e < nr; e++)
		edge[e].own_ns = compute_ns(b, edge[e].device, edge[e].slice, edge[e].slice + 1);
	for (uint32_t e = 0; e < nr; e++)
		for (uint32_t f = 0; f < nr; f++) {
			struct edge *to = &edge[e];

			if (edge[f].slice + 1 < to->slice || edge[f].slice > to->slice + 1)
				continue;
			to->after_ns[to->nr_before] = hop_ns(b, &edge[f], to);
			to->before[to->nr_before++] = f;
		}
	return nr;
}

/* Of one iteration more. */
static void chains_grow(struct edge edge[EDGES_MAX], uint32_t nr)
{
	double end_ns[EDGES_MAX];

	for (uint32_t e = 0; e < nr; e++) {
		end_ns[e] = 0;
		for (uint32_t i = 0; i < edge[e].nr_before; i++)
			end_ns[e] = max_double(end_ns[e], edge[edge[e].before[i]].end_ns +
								  edge[e].after_ns[i]);
	}
	for (uint32_t e = 0; e < nr; e++)
		edge[e].end_ns = end_ns[e];
}

static double chain_ns(const struct bounded *b)
{
	struct edge edge[EDGES_MAX];
	const uint32_t nr = edges_of(b, edge);
	double most = 0;

	for (uint32_t e = 0; e < nr; e++)
		edge[e].end_ns = edge[e].own_ns;
	for (uint32_t i = 1; i < b->p->iterations; i++)
		chains_grow(edge, nr);
	for (uint32_t e = 0; e < nr; e++)
		most = max_double(most, edge[e].end_ns);
	return most;
}

/* ------------------------------------------------------------------ all of it */

struct solver_bound solver_bound_of(const struct weir_machine_desc *desc,
				    const struct solver_params *p, enum solver_sharing sharing)
{
	const struct bounded b = {
		.desc = desc,
		.p = p,
		.sharing = sharing,
		.slice_bytes = (double)solver_slice_bytes(&p->shape),
		.exchanges = p->iterations - 1,
	};

	return (struct solver_bound){
		.kernels_s = kernels_ns(&b) / NS_PER_S,
		.ports_s = ports_ns(&b) / NS_PER_S,
		.chain_s = chain_ns(&b) / NS_PER_S,
	};
}

double solver_bound_s(const struct solver_bound *bound)
{
	return max_double(bound->kernels_s, max_double(bound->ports_s, bound->chain_s));
}
