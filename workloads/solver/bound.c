/* SPDX-License-Identifier: Apache-2.0 */
/* See bound.h; the proofs are in docs/solver.md. Times within are in nanoseconds. */
#include "workloads/solver/bound.h"

#include <math.h>
#include <string.h>

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
	double slice_bytes; /* of als a row's */
	double exchanges;   /* of what is read after the first iteration, each way, within a pass */
	double iterations;
	const struct solver_round *rounds; /* of sssp, as many; else NULL */
};

/* ------------------------------------------------------------------ kernels */

static double factor_of(const struct bounded *b)
{
	return cost_kernel_factor(b->desc, solver_kernel_of(b->p->kind)->name);
}

/* What launches on a device that compute the slices from first to before end take of its HBM. */
static double compute_hbm_ns(const struct bounded *b, uint32_t device, uint32_t first, uint32_t end)
{
	const uint32_t read = MIN(end + 1, b->p->shape.slices) - (first ? first - 1 : 0);
	const double bytes = b->slice_bytes * (read + (end - first));

	return bytes / b->desc->device[device].hbm_bytes_per_s * NS_PER_S;
}

/* Their least time. */
static double compute_ns(const struct bounded *b, uint32_t device, uint32_t first, uint32_t end)
{
	return cost_resident_ns(&b->desc->device[device], factor_of(b),
				compute_hbm_ns(b, device, first, end), 0);
}

/* ---- of als, and of what runs on a graph, where there are no sides */

static uint32_t rows_of(const struct bounded *b, uint32_t side, uint32_t device)
{
	return solver_array_first(b->p, side, device + 1) - solver_array_first(b->p, side, device);
}

/* A device's launches that go through all of its edges: what they take of its HBM. */
static double edges_hbm_ns(const struct bounded *b, uint32_t device)
{
	const struct solver_share *share = &b->p->graph->split[b->p->devices]->share[device];
	const struct weir_device_desc *dev = &b->desc->device[device];
	const double rows = (double)rows_of(b, 0, device) * SOLVER_GRAPH_SLICE;
	const struct weir_use gathered = {
		.kind = WEIR_READ,
		.pattern = WEIR_RANDOM,
		.read_bytes = share->nr_edges * sizeof(float),
		.granule = sizeof(float),
	};
	const uint64_t edge_bytes = sizeof(uint32_t) + (b->rounds != NULL);
	const double streamed =
		rows * (sizeof(uint64_t) + sizeof(float)) + (double)(share->nr_edges * edge_bytes);

	return cost_hbm_ns(dev, &gathered) + streamed / dev->hbm_bytes_per_s * NS_PER_S;
}

static double als_side_hbm_ns(const struct bounded *b, uint32_t side, uint32_t device)
{
	const struct weir_device_desc *dev = &b->desc->device[device];
	const uint32_t nr = rows_of(b, side, device);
	const struct weir_use read = {
		.kind = WEIR_READ,
		.pattern = WEIR_RANDOM,
		.read_bytes = als_random_bytes(b->p, side, nr),
		.granule = SOLVER_WIDTH * sizeof(float),
	};
	const struct weir_use write = {.kind = WEIR_OVERWRITE,
				       .write_bytes = nr * (uint64_t)b->slice_bytes};

	return cost_hbm_ns(dev, &read) + cost_hbm_ns(dev, &write);
}

/* A device's launches that compute its rows of a side. */
static double side_hbm_ns(const struct bounded *b, uint32_t side, uint32_t device)
{
	if (b->p->graph)
		return edges_hbm_ns(b, device);
	return als_side_hbm_ns(b, side, device);
}

/* Their least time. */
static double side_ns(const struct bounded *b, uint32_t side, uint32_t device)
{
	return cost_resident_ns(&b->desc->device[device], factor_of(b),
				side_hbm_ns(b, side, device), 0);
}

/* What a device reads of another one's rows, all of which some launches compute, the index-th of
 * those that follow each other: of als all of a side; of a graph the elements that its edges come
 * from, of sssp those that are written; in place, no more than it reads of them in all. */
static double rows_bytes(const struct bounded *b, uint64_t index, uint32_t from, uint32_t to)
{
	const uint32_t side = b->p->kind == SOLVER_ALS ? index % 2 : 0;
	const double part = rows_of(b, side, from);
	const double all = solver_array_shape(b->p, side).slices;
	double bytes = part * b->slice_bytes, read;

	if (b->p->graph) {
		const struct solver_share *share = &b->p->graph->split[b->p->devices]->share[to];

		bytes = sizeof(float) * (b->rounds ? b->rounds[index].listed[from][to]
						   : (double)share->nr_listed_of[from]);
		read = (double)(share->nr_edges * sizeof(float));
	} else {
		read = (double)als_random_bytes(b->p, !side, rows_of(b, !side, to));
	}
	return b->sharing == SOLVER_COPIED ? bytes : min_double(bytes, part / all * read);
}

/* Of a device, in an iteration: of its HBM, and the least time. */
static double device_hbm_ns(const struct bounded *b, uint32_t d)
{
	double ns;

	if (b->p->graph)
		ns = edges_hbm_ns(b, d);
	else if (b->p->kind == SOLVER_ALS)
		ns = side_hbm_ns(b, RATINGS_USERS, d) + side_hbm_ns(b, RATINGS_ITEMS, d);
	else
		ns = compute_hbm_ns(b, d, solver_first_slice(b->p, d),
				    solver_first_slice(b->p, d + 1));
	return factor_of(b) * ns;
}

static double device_ns(const struct bounded *b, uint32_t d)
{
	if (b->p->graph)
		return side_ns(b, 0, d);
	if (b->p->kind == SOLVER_ALS)
		return side_ns(b, RATINGS_USERS, d) + side_ns(b, RATINGS_ITEMS, d);
	return compute_ns(b, d, solver_first_slice(b->p, d), solver_first_slice(b->p, d + 1));
}

static double kernels_ns(const struct bounded *b)
{
	double most = 0;

	for (uint32_t d = 0; d < b->p->devices; d++)
		most = max_double(most, device_ns(b, d));
	return most * b->iterations;
}

/* The busiest device's bytes. */
static double hbm_ns(const struct bounded *b)
{
	double most = 0;

	for (uint32_t d = 0; d < b->p->devices; d++)
		most = max_double(most, device_hbm_ns(b, d));
	return most * b->iterations;
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

/* What a device reads of what another one computes within a pass. */
static double sent_bytes(const struct bounded *b, uint32_t from, uint32_t to)
{
	const struct solver_params *p = b->p;
	double bytes = 0;

	if (b->rounds) {
		for (uint64_t i = 0; i < (uint64_t)b->exchanges; i++)
			bytes += rows_bytes(b, i, from, to);
		return bytes;
	}
	if (p->graph)
		return b->exchanges * rows_bytes(b, 0, from, to);
	if (p->kind != SOLVER_ALS)
		return from + 1 == to || to + 1 == from ? b->slice_bytes * b->exchanges : 0;
	for (uint32_t side = 0; side < 2; side++) {
		const double times = p->iterations - (side == RATINGS_ITEMS);

		bytes += times * rows_bytes(b, side, from, to);
	}
	return bytes;
}

/* Two devices. While both ways are busy each has the duplex rate at most, else one has its own. */
static double link_ns(const struct bounded *b, uint32_t one, uint32_t other)
{
	const struct weir_link_desc *link = link_of(b, one, other);
	const double there = sent_bytes(b, one, other), back = sent_bytes(b, other, one);
	const double out = cost_copy_bytes_per_s(link, memory_of(b, one));
	const double in = cost_copy_bytes_per_s(link, memory_of(b, other));
	const double both = max_double(2 * link->duplex_bytes_per_s, max_double(out, in));

	return max_double(max_double(there / out, back / in), (there + back) / both) * NS_PER_S;
}

/* The most that a device sends or receives, with any number of the links busy that it needs. */
static double device_rate(const struct bounded *b, uint32_t device, bool sends)
{
	double link_rate[WEIR_DEVICES_MAX], sum = 0, most = 0;
	uint32_t nr = 0;

	for (uint32_t other = 0; other < b->p->devices; other++) {
		const uint32_t from = sends ? device : other, to = sends ? other : device;
		uint32_t at = nr;
		double rate;

		if (other == device || !(sent_bytes(b, from, to) > 0))
			continue;
		rate = cost_copy_bytes_per_s(link_of(b, from, to), memory_of(b, from));
		/* The fastest first. */
		for (; at && link_rate[at - 1] < rate; at--)
			link_rate[at] = link_rate[at - 1];
		link_rate[at] = rate;
		nr++;
	}
	for (uint32_t i = 0; i < nr; i++) {
		sum += link_rate[i];
		most = max_double(
			most, min_double(sum, cost_port_bytes_per_s(b->desc, memory_of(b, device),
								    i + 1, sends)));
	}
	return most;
}

/* What a device sends to all others, or receives from them. */
static double port_bytes(const struct bounded *b, uint32_t device, bool sends)
{
	double bytes = 0;

	for (uint32_t other = 0; other < b->p->devices; other++)
		if (other != device)
			bytes +=
				sends ? sent_bytes(b, device, other) : sent_bytes(b, other, device);
	return bytes;
}

static double port_ns(const struct bounded *b, uint32_t device, bool sends)
{
	const double bytes = port_bytes(b, device, sends);

	return bytes > 0 ? bytes / device_rate(b, device, sends) * NS_PER_S : 0;
}

static double ports_ns(const struct bounded *b)
{
	double most = 0;

	for (uint32_t d = 0; d < b->p->devices; d++) {
		most = max_double(most, max_double(port_ns(b, d, true), port_ns(b, d, false)));
		for (uint32_t other = 0; other < d; other++)
			if (sent_bytes(b, d, other) > 0)
				most = max_double(most, link_ns(b, d, other));
	}
	return most;
}

/* ------------------------------------------------------------------ memories */

/* The share of a memory's rate that its ports may carry at the most: the simulator leaves kernels
 * the rest in any case. */
#define HBM_MOST 0.9

/* The most that a memory sends, or receives, over any of its links; INFINITY: it has no port. */
static double port_most(const struct bounded *b, uint32_t memory, bool sends)
{
	double fastest = 0, most = 0;

	if (!isfinite(cost_port_bytes_per_s(b->desc, memory, WEIR_MEMORIES_MAX, sends)))
		return INFINITY;
	for (uint32_t i = 0; i < b->desc->nr_links; i++) {
		const struct weir_link_desc *link = &b->desc->link[i];

		if (link->a == memory || link->b == memory)
			fastest = max_double(fastest, max_double(link->a_to_b_bytes_per_s,
								 link->b_to_a_bytes_per_s));
	}
	for (uint32_t links = 1; links < WEIR_MEMORIES_MAX; links++)
		most = max_double(most,
				  min_double(links * fastest,
					     cost_port_bytes_per_s(b->desc, memory, links, sends)));
	return most;
}

/* What kernels and messages take of a device's memory in a pass, one after the other. */
static double memory_ns(const struct bounded *b, uint32_t device)
{
	const uint32_t memory = memory_of(b, device);
	const double rate = b->desc->device[device].hbm_bytes_per_s;
	const double bytes = port_bytes(b, device, true) + port_bytes(b, device, false);

	if (b->sharing != SOLVER_COPIED ||
	    port_most(b, memory, true) + port_most(b, memory, false) > HBM_MOST * rate)
		return 0;
	return b->iterations * device_hbm_ns(b, device) + bytes / rate * NS_PER_S;
}

static double memories_ns(const struct bounded *b)
{
	double most = 0;

	for (uint32_t d = 0; d < b->p->devices; d++)
		most = max_double(most, memory_ns(b, d));
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

/* ---- of als: each launch of a side reads what all launches of the other one wrote before; of a
 * graph, what those of the iteration before wrote */

/* When a device can begin the next side: all others' rows are there. begin_ns: when devices begin
 * this one. */
static double next_ns(const struct bounded *b, uint64_t index, uint32_t to,
		      const double begin_ns[WEIR_DEVICES_MAX])
{
	const uint32_t side = b->p->kind == SOLVER_ALS ? index % 2 : 0;
	double last = begin_ns[to] + side_ns(b, side, to), first = INFINITY, bytes = 0;

	for (uint32_t from = 0; from < b->p->devices; from++) {
		const struct weir_link_desc *link;
		double message = 0, end = begin_ns[from] + side_ns(b, side, from);

		/* The host knows what changed. */
		if (b->rounds)
			last = max_double(last, end);
		if (from == to || !(rows_bytes(b, index, from, to) > 0))
			continue;
		link = link_of(b, from, to);
		if (b->sharing == SOLVER_COPIED)
			message = (double)(link->latency_ns + link->copy_ns);
		/* The last rows, a message later; the first, as soon as a launch is done. */
		if (!b->rounds)
			last = max_double(last, end + message);
		/* Of sssp a launch computes, and another one writes. */
		first = min_double(first, begin_ns[from] + message +
						  (double)b->desc->device[from].launch_ns *
							  (b->rounds ? 2 : 1));
		bytes += rows_bytes(b, index, from, to);
	}
	if (b->sharing == SOLVER_COPIED && bytes > 0)
		last = max_double(last, first + bytes / device_rate(b, to, false) * NS_PER_S);
	return last;
}

static double sides_ns(const struct bounded *b)
{
	double begin_ns[WEIR_DEVICES_MAX] = {0}, next[WEIR_DEVICES_MAX], most = 0;
	const uint64_t nr = (b->p->graph ? 1 : 2) * (uint64_t)b->iterations;

	for (uint64_t i = 0; i + 1 < nr; i++) {
		for (uint32_t d = 0; d < b->p->devices; d++)
			next[d] = next_ns(b, i, d, begin_ns);
		memcpy(begin_ns, next, sizeof(begin_ns));
	}
	for (uint32_t d = 0; d < b->p->devices; d++)
		most = max_double(most, begin_ns[d] + side_ns(b, RATINGS_ITEMS, d));
	return most;
}

/* ------------------------------------------------------------------ all of it */

static struct bounded bounded_of(const struct weir_machine_desc *desc,
				 const struct solver_params *p, const struct solver_result *result,
				 enum solver_sharing sharing)
{
	const struct solver_shape shape = solver_array_shape(p, 0);
	const bool sssp = result && p->kind == SOLVER_SSSP;
	const uint32_t nr = sssp ? result->nr_iterations : p->iterations;

	return (struct bounded){
		.desc = desc,
		.p = p,
		.sharing = sharing,
		.slice_bytes = (double)solver_slice_bytes(&shape),
		.exchanges = nr ? nr - 1 : 0,
		.iterations = nr,
		.rounds = sssp ? result->rounds : NULL,
	};
}

struct solver_bound solver_bound_of(const struct weir_machine_desc *desc,
				    const struct solver_params *p,
				    const struct solver_result *result, enum solver_sharing sharing)
{
	const struct bounded b = bounded_of(desc, p, result, sharing);

	return (struct solver_bound){
		.kernels_s = kernels_ns(&b) / NS_PER_S,
		.hbm_s = hbm_ns(&b) / NS_PER_S,
		.ports_s = ports_ns(&b) / NS_PER_S,
		.memories_s = memories_ns(&b) / NS_PER_S,
		.chain_s = (p->kind == SOLVER_ALS || p->graph ? sides_ns : chain_ns)(&b) / NS_PER_S,
	};
}

struct solver_bound solver_bound_measured(const struct solver_bound *model,
					  const struct solver_bound *single, double single_s)
{
	const double shorter = min_double(1, single_s / single->kernels_s);
	struct solver_bound bound = *model;

	bound.kernels_s =
		max_double(model->hbm_s / single->hbm_s * single_s, model->kernels_s * shorter);
	bound.memories_s *= shorter;
	bound.chain_s *= shorter;
	return bound;
}

double solver_bound_s(const struct solver_bound *bound)
{
	return max_double(max_double(bound->kernels_s, bound->ports_s),
			  max_double(bound->memories_s, bound->chain_s));
}

double solver_als_messages(const struct weir_machine_desc *desc, const struct solver_params *p,
			   uint32_t side)
{
	const struct bounded b = bounded_of(desc, p, NULL, SOLVER_COPIED);
	double messages = 0, launches = 0;

	for (uint32_t to = 0; to < p->devices; to++) {
		const double bytes = (solver_array_shape(p, side).slices - rows_of(&b, side, to)) *
				     b.slice_bytes;
		const double rate = device_rate(&b, to, false);

		if (bytes > 0)
			messages = max_double(messages, bytes / rate * NS_PER_S);
		/* It sends about as much as it receives. */
		launches = max_double(
			launches, side_ns(&b, side, to) +
					  2 * bytes / desc->device[to].hbm_bytes_per_s * NS_PER_S);
	}
	return messages / launches;
}

/* Of an element that is packed and unpacked: its number and the packet, each read or written twice,
 * and the sector that it lies in, read once and then read and written. */
#define PACKED_BYTES (4 * 4 + 3 * 32)

bool solver_lists_pay(const struct weir_machine_desc *desc, const struct solver_params *p)
{
	const struct solver_params one = {.kind = SOLVER_PAGERANK,
					  .shape = p->shape,
					  .graph = p->graph,
					  .iterations = 2, /* what is sent in one is read */
					  .devices = p->devices};
	const struct bounded b = bounded_of(desc, &one, NULL, SOLVER_COPIED);
	double whole = 0, lists = 0;

	for (uint32_t d = 0; d < p->devices && p->devices > 1; d++) {
		const double kernels = device_ns(&b, d), rate = device_rate(&b, d, false);
		const double listed = port_bytes(&b, d, false) / sizeof(float);
		const double others = (double)(p->shape.slices - rows_of(&b, 0, d));
		const double packed =
			listed * PACKED_BYTES / desc->device[d].hbm_bytes_per_s * NS_PER_S;

		whole = max_double(whole,
				   max_double(kernels, others * b.slice_bytes / rate * NS_PER_S));
		lists = max_double(lists, max_double(kernels + packed,
						     listed * sizeof(float) / rate * NS_PER_S));
	}
	return lists < whole;
}
