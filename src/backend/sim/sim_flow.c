/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links as pipes that carry fluid: flows share what they go through max-min fairly, none faster
 * than its cap. That is the way of their link, and where the machine has ports also what the one
 * memory sends and the other receives over all the port's links. Rates change only when a flow
 * starts or ends, and between such points every flow moves on at its rate; so it is exact up to
 * rounding an end up to the next nanosecond. Without ports a link's flows depend on no others, and
 * only that link is looked at. With ports all of them are, once for all changes of a moment: see
 * sim_flows_settle().
 */
#include <math.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/util.h"

/* The least that a flow is given, in bytes a nanosecond: rounding must not leave it nothing. */
#define LEAST_RATE 1e-9

/* What is left of something that flows share, how many of them have no rate yet, and what each of
 * these could have: left / nr. */
struct share {
	double left, each;
	uint32_t nr;
};

/* All of it: each way of each link; what each memory's port sends, and receives. */
struct shares {
	struct share link[WEIR_LINKS_MAX][2];
	struct share port[WEIR_MEMORIES_MAX][2];
};

/* A flow's link, and at most one port at each end. */
#define SHARES_OF_FLOW 3

/* Carry the link's flows on to now. */
static void link_advance(struct sim_link *link, uint64_t now_ns)
{
	double ns = (double)(now_ns - link->since_ns);

	for (int back = 0; back < 2; back++)
		for (struct sim_flow *f = link->flows[back]; f; f = f->next) {
			f->remaining -= f->rate * ns;
			if (f->remaining < 0)
				f->remaining = 0;
		}
	link->since_ns = now_ns;
}

/* Max-min: whoever cannot use an equal share takes what it can; the others share the rest. */
static void direction_share(struct sim_flow *flows, double capacity)
{
	uint32_t nr_left = 0;
	bool settled = false;

	for (struct sim_flow *f = flows; f; f = f->next) {
		f->rate = 0;
		nr_left++;
	}
	while (nr_left && !settled) {
		double share = capacity / nr_left;

		settled = true;
		for (struct sim_flow *f = flows; f; f = f->next) {
			if (f->rate > 0 || f->cap > share)
				continue;
			f->rate = f->cap;
			capacity -= f->cap;
			nr_left--;
			settled = false;
		}
	}
	for (struct sim_flow *f = flows; f; f = f->next)
		if (!(f->rate > 0))
			f->rate = capacity / nr_left;
}

bool sim_flow_kind_runs(const struct sim *sim, uint32_t link, int back, enum sim_flow_kind kind)
{
	for (const struct sim_flow *f = sim->link[link].flows[back]; f; f = f->next)
		if (f->kind == kind)
			return true;
	return false;
}

/* What each way of a link can carry while the other is busy. */
static double duplex_rate(const struct sim *sim, uint32_t index)
{
	const struct weir_link_desc *desc = &sim->base.desc.link[index];

	double rate = desc->duplex_bytes_per_s;

	/* A kernel's requests for what it reads go the way of the copies, and of what it writes. */
	for (int back = 0; back < 2; back++) {
		if (!sim_flow_kind_runs(sim, index, back, SIM_FLOW_READ))
			continue;
		if (sim_flow_kind_runs(sim, index, !back, SIM_FLOW_COPY))
			rate = fmin(rate, desc->inplace_duplex_bytes_per_s);
		if (sim_flow_kind_runs(sim, index, !back, SIM_FLOW_WRITE))
			rate = fmin(rate, desc->inplace_both_bytes_per_s);
	}
	return rate;
}

/* What one way of a link can carry now, in bytes a nanosecond. */
static double direction_rate(const struct sim *sim, uint32_t index, int back)
{
	const struct weir_link_desc *desc = &sim->base.desc.link[index];
	const struct sim_link *link = &sim->link[index];
	double rate = back ? desc->b_to_a_bytes_per_s : desc->a_to_b_bytes_per_s;

	if (link->flows[0] && link->flows[1])
		rate = fmin(rate, duplex_rate(sim, index));
	return rate / 1e9;
}

/* Give every flow of a link the end that follows from its rate. The link is advanced to now. */
static void link_set_ends(struct sim *sim, uint32_t index)
{
	struct sim_link *link = &sim->link[index];

	link->end_ns = SIM_NEVER;
	for (int back = 0; back < 2; back++)
		for (struct sim_flow *f = link->flows[back]; f; f = f->next) {
			f->end_ns = sim->now_ns + sim_ns_ceil(f->remaining / f->rate);
			if (f->end_ns < link->end_ns)
				link->end_ns = f->end_ns;
		}
}

/* ------------------------------------------------------------------ ports */

static uint32_t flow_source(const struct sim *sim, const struct sim_flow *flow)
{
	const struct weir_link_desc *link = &sim->base.desc.link[flow->link];

	return flow->back ? link->b : link->a;
}

static uint32_t flow_target(const struct sim *sim, const struct sim_flow *flow)
{
	const struct weir_link_desc *link = &sim->base.desc.link[flow->link];

	return flow->back ? link->a : link->b;
}

void sim_ports_init(struct sim *sim)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t l = 0; l < desc->nr_links; l++)
		for (int end = 0; end < 2; end++) {
			uint32_t memory = end ? desc->link[l].b : desc->link[l].a;
			uint32_t other = end ? desc->link[l].a : desc->link[l].b;
			bool has = desc->memory[memory].kind == WEIR_MEMORY_HOST ||
				   desc->memory[other].kind != WEIR_MEMORY_HOST;

			for (uint32_t i = 0; i < desc->nr_ports && has; i++)
				sim->link[l].in_port[end] |= desc->port[i].memory == memory;
		}
}

/* How many of each port's links are busy: where its memory sends, and receives. */
static void ports_count(const struct sim *sim, uint32_t nr_busy[WEIR_MEMORIES_MAX][2])
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t l = 0; l < desc->nr_links; l++)
		for (int back = 0; back < 2; back++) {
			const struct sim_flow *flow = sim->link[l].flows[back];
			uint32_t from = back ? desc->link[l].b : desc->link[l].a;
			uint32_t to = back ? desc->link[l].a : desc->link[l].b;

			nr_busy[from][0] += flow && sim->link[l].in_port[back];
			nr_busy[to][1] += flow && sim->link[l].in_port[!back];
		}
}

/* What each port carries one way, by how many of its links are busy; INFINITY: whatever they do. */
static void ports_begin(const struct sim *sim, struct shares *shares)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	uint32_t nr_busy[WEIR_MEMORIES_MAX][2] = {{0}}, most[WEIR_MEMORIES_MAX][2] = {{0}};

	ports_count(sim, nr_busy);
	for (uint32_t m = 0; m < desc->nr_memories; m++)
		for (int receives = 0; receives < 2; receives++)
			shares->port[m][receives] = (struct share){.left = INFINITY};
	for (uint32_t i = 0; i < desc->nr_ports; i++) {
		const struct weir_port_desc *port = &desc->port[i];
		const double rate[2] = {port->send_bytes_per_s, port->receive_bytes_per_s};
		uint32_t m = port->memory;

		for (int receives = 0; receives < 2; receives++) {
			if (port->links > nr_busy[m][receives] || port->links <= most[m][receives])
				continue;
			most[m][receives] = port->links;
			shares->port[m][receives].left = rate[receives] / 1e9;
		}
	}
}

/* The flow after one, of all of the machine, by links; NULL: the first one, and after the last. */
static struct sim_flow *flow_next(const struct sim *sim, const struct sim_flow *flow)
{
	uint32_t way = flow ? 2 * flow->link + flow->back + 1 : 0;

	if (flow && flow->next)
		return flow->next;
	while (way < 2 * sim->base.desc.nr_links && !sim->link[way / 2].flows[way % 2])
		way++;
	return way < 2 * sim->base.desc.nr_links ? sim->link[way / 2].flows[way % 2] : NULL;
}

/* While a kernel reads and writes over links of its device's port, that carries no more each way
 * than the slowest of them: scatter-adds of an H200 get 332 GB/s of one neighbour as of three. */
static void ports_both_ways(const struct sim *sim, struct shares *shares)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	double both[WEIR_MEMORIES_MAX][2];

	for (uint32_t m = 0; m < desc->nr_memories; m++)
		both[m][0] = both[m][1] = INFINITY;
	for (const struct sim_flow *f = flow_next(sim, NULL); f; f = flow_next(sim, f)) {
		bool reads = f->kind == SIM_FLOW_READ;
		uint32_t own = reads ? flow_target(sim, f) : flow_source(sim, f);

		if (f->kind != SIM_FLOW_COPY && sim->link[f->link].in_port[reads != f->back])
			both[own][reads] = MIN(both[own][reads],
					       desc->link[f->link].inplace_both_bytes_per_s / 1e9);
	}
	for (uint32_t m = 0; m < desc->nr_memories; m++) {
		struct share *port = shares->port[m];

		if (!isfinite(both[m][0]) || !isfinite(both[m][1]))
			continue;
		port[0].left = MIN(port[0].left, both[m][0]);
		port[1].left = MIN(port[1].left, both[m][1]);
	}
}

/* What a flow shares with others. @return how many there are */
static uint32_t shares_of(const struct sim *sim, struct shares *shares, const struct sim_flow *flow,
			  struct share *of[SHARES_OF_FLOW])
{
	const bool *in_port = sim->link[flow->link].in_port;
	uint32_t nr = 0;

	of[nr++] = &shares->link[flow->link][flow->back];
	if (in_port[flow->back])
		of[nr++] = &shares->port[flow_source(sim, flow)][0];
	if (in_port[!flow->back])
		of[nr++] = &shares->port[flow_target(sim, flow)][1];
	return nr;
}

/* @return all flows, none of which has a rate yet, in the order of flow_next() */
static struct sim_flow *shares_begin(struct sim *sim, struct shares *shares)
{
	struct sim_flow *all = NULL, **tail = &all;

	for (uint32_t l = 0; l < sim->base.desc.nr_links; l++)
		for (int back = 0; back < 2; back++)
			shares->link[l][back] =
				(struct share){.left = direction_rate(sim, l, back)};
	ports_begin(sim, shares);
	ports_both_ways(sim, shares);
	for (struct sim_flow *f = flow_next(sim, NULL); f; f = flow_next(sim, f)) {
		struct share *of[SHARES_OF_FLOW];
		uint32_t nr = shares_of(sim, shares, f, of);

		while (nr--) {
			of[nr]->nr++;
			of[nr]->each = of[nr]->left / of[nr]->nr;
		}
		*tail = f;
		tail = &f->unsettled;
	}
	*tail = NULL;
	return all;
}

/* The most that a flow without a rate could have if all took as much. */
static double flow_most(const struct sim *sim, struct shares *shares, const struct sim_flow *flow)
{
	struct share *of[SHARES_OF_FLOW];
	uint32_t nr = shares_of(sim, shares, flow, of);
	double most = flow->cap;

	while (nr--)
		most = MIN(most, of[nr]->each);
	return MAX(most, LEAST_RATE);
}

static void flow_settle(const struct sim *sim, struct shares *shares, const struct sim_flow *flow)
{
	struct share *of[SHARES_OF_FLOW];
	uint32_t nr = shares_of(sim, shares, flow, of);

	while (nr--) {
		of[nr]->left -= flow->rate;
		of[nr]->nr--;
		of[nr]->each = of[nr]->nr ? of[nr]->left / of[nr]->nr : 0;
	}
}

/* Max-min over links and ports: those that can have the least have it; the others share the rest.
 * Each round settles all that are held back by one thing, so that there are few rounds. */
static void all_share(struct sim *sim)
{
	struct shares shares;
	struct sim_flow *unsettled = shares_begin(sim, &shares);

	while (unsettled) {
		struct sim_flow **at = &unsettled;
		double least = INFINITY;

		for (struct sim_flow *f = unsettled; f; f = f->unsettled) {
			f->rate = flow_most(sim, &shares, f);
			least = MIN(least, f->rate);
		}
		while (*at) {
			struct sim_flow *flow = *at;

			if (flow->rate > least) {
				at = &flow->unsettled;
				continue;
			}
			flow_settle(sim, &shares, flow);
			*at = flow->unsettled;
		}
	}
}

/* What all flows move through each memory. */
static void all_through(struct sim *sim)
{
	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++)
		sim->through[m] = 0;
	for (struct sim_flow *f = flow_next(sim, NULL); f; f = flow_next(sim, f)) {
		/* A kernel's own end is its registers: it goes through the far memory alone. */
		if (f->kind != SIM_FLOW_WRITE)
			sim->through[flow_source(sim, f)] += f->rate;
		if (f->kind != SIM_FLOW_READ)
			sim->through[flow_target(sim, f)] += f->rate;
	}
}

void sim_flows_settle(struct sim *sim)
{
	if (!sim->flows_stale)
		return;
	sim->flows_stale = false;
	for (uint32_t l = 0; l < sim->base.desc.nr_links; l++)
		link_advance(&sim->link[l], sim->now_ns);
	all_share(sim);
	for (uint32_t l = 0; l < sim->base.desc.nr_links; l++)
		link_set_ends(sim, l);
	all_through(sim);
}

/* ------------------------------------------------------------------ flows come and go */

/* A link's flows are others. With ports that concerns all, and waits until the moment is over. */
static void flows_change(struct sim *sim, uint32_t index)
{
	if (sim->base.desc.nr_ports) {
		sim->flows_stale = true;
		return;
	}
	for (int back = 0; back < 2; back++)
		direction_share(sim->link[index].flows[back], direction_rate(sim, index, back));
	link_set_ends(sim, index);
}

void sim_flow_start(struct sim *sim, struct sim_flow *flow)
{
	struct sim_link *link = &sim->link[flow->link];
	struct sim_flow **tail = &link->flows[flow->back];

	link_advance(link, sim->now_ns);
	while (*tail)
		tail = &(*tail)->next;
	flow->next = NULL;
	flow->end_ns = SIM_NEVER;
	*tail = flow;
	flows_change(sim, flow->link);
}

struct sim_flow *sim_flow_take_ended(struct sim *sim, uint32_t index)
{
	struct sim_link *link = &sim->link[index];

	if (link->end_ns > sim->now_ns)
		return NULL;
	for (int back = 0; back < 2; back++)
		for (struct sim_flow **at = &link->flows[back]; *at; at = &(*at)->next) {
			struct sim_flow *flow = *at;

			if (flow->end_ns > sim->now_ns)
				continue;
			link_advance(link, sim->now_ns);
			*at = flow->next;
			flows_change(sim, index);
			return flow;
		}
	return NULL;
}
