/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links as pipes that carry fluid: flows share what they go through max-min fairly, none faster
 * than its cap. That is the way of their link, and where the machine has ports also what the one
 * memory sends and the other receives over all the port's links. Rates change only when a flow
 * starts or ends, and between such points every flow moves on at its rate; so it is exact up to
 * rounding an end up to the next nanosecond. Without ports a link's flows depend on no others, and
 * only that link is looked at.
 */
#include <math.h>

#include "src/backend/sim/sim_internal.h"

/* The least that a flow is given, in bytes a nanosecond: rounding must not leave it nothing. */
#define LEAST_RATE 1e-9

/* What is left of something that flows share, and how many of them have no rate yet. */
struct share {
	double left;
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

/* Whether a memory's port has a link: the host's has all, a device's those to other devices. */
static bool port_has(const struct sim *sim, uint32_t memory, uint32_t index)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	const struct weir_link_desc *link = &desc->link[index];
	uint32_t other = link->a == memory ? link->b : link->a;

	return (link->a == memory || link->b == memory) &&
	       (desc->memory[memory].kind == WEIR_MEMORY_HOST ||
		desc->memory[other].kind != WEIR_MEMORY_HOST);
}

/* What a port carries one way, by how many of its links are busy; INFINITY: whatever they do. */
static double port_rate(const struct sim *sim, uint32_t memory, bool receives)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	double rate = INFINITY;
	uint32_t nr_busy = 0, most = 0;

	for (uint32_t l = 0; l < desc->nr_links; l++)
		nr_busy += port_has(sim, memory, l) &&
			   sim->link[l].flows[(desc->link[l].b == memory) != receives];
	for (uint32_t i = 0; i < desc->nr_ports; i++) {
		const struct weir_port_desc *port = &desc->port[i];

		if (port->memory != memory || port->links > nr_busy || port->links <= most)
			continue;
		most = port->links;
		rate = (receives ? port->receive_bytes_per_s : port->send_bytes_per_s) / 1e9;
	}
	return rate;
}

/* What a flow shares with others. @return how many there are */
static uint32_t shares_of(const struct sim *sim, struct shares *shares, const struct sim_flow *flow,
			  struct share *of[SHARES_OF_FLOW])
{
	const uint32_t end[2] = {flow_source(sim, flow), flow_target(sim, flow)};
	uint32_t nr = 0;

	of[nr++] = &shares->link[flow->link][flow->back];
	for (int receives = 0; receives < 2; receives++)
		if (port_has(sim, end[receives], flow->link))
			of[nr++] = &shares->port[end[receives]][receives];
	return nr;
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

static void shares_begin(struct sim *sim, struct shares *shares)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t l = 0; l < desc->nr_links; l++)
		for (int back = 0; back < 2; back++)
			shares->link[l][back] = (struct share){direction_rate(sim, l, back), 0};
	for (uint32_t m = 0; m < desc->nr_memories; m++)
		for (int receives = 0; receives < 2; receives++)
			shares->port[m][receives] = (struct share){port_rate(sim, m, receives), 0};
	for (struct sim_flow *f = flow_next(sim, NULL); f; f = flow_next(sim, f)) {
		struct share *of[SHARES_OF_FLOW];
		uint32_t nr = shares_of(sim, shares, f, of);

		f->rate = 0;
		while (nr--)
			of[nr]->nr++;
	}
}

/* The most that a flow without a rate could have if all took as much. */
static double flow_most(const struct sim *sim, struct shares *shares, const struct sim_flow *flow)
{
	struct share *of[SHARES_OF_FLOW];
	uint32_t nr = shares_of(sim, shares, flow, of);
	double most = flow->cap;

	while (nr--)
		most = fmin(most, of[nr]->left / of[nr]->nr);
	return fmax(most, LEAST_RATE);
}

static void flow_settle(const struct sim *sim, struct shares *shares, struct sim_flow *flow,
			double rate)
{
	struct share *of[SHARES_OF_FLOW];
	uint32_t nr = shares_of(sim, shares, flow, of);

	flow->rate = rate;
	while (nr--) {
		of[nr]->left -= rate;
		of[nr]->nr--;
	}
}

/* Max-min over links and ports: whoever can have the least has it; the others share the rest. */
static void all_share(struct sim *sim)
{
	struct shares shares;

	shares_begin(sim, &shares);
	for (;;) {
		struct sim_flow *least = NULL;
		double rate = INFINITY;

		for (struct sim_flow *f = flow_next(sim, NULL); f; f = flow_next(sim, f)) {
			double most = f->rate > 0 ? INFINITY : flow_most(sim, &shares, f);

			if (most < rate) {
				least = f;
				rate = most;
			}
		}
		if (!least)
			break;
		flow_settle(sim, &shares, least, rate);
	}
	for (uint32_t l = 0; l < sim->base.desc.nr_links; l++)
		link_set_ends(sim, l);
}

double sim_flow_through(const struct sim *sim, uint32_t memory)
{
	double sum = 0;

	for (struct sim_flow *f = flow_next(sim, NULL); f; f = flow_next(sim, f)) {
		/* A kernel's own end is its registers: it goes through the far memory alone. */
		if ((f->kind != SIM_FLOW_WRITE && flow_source(sim, f) == memory) ||
		    (f->kind != SIM_FLOW_READ && flow_target(sim, f) == memory))
			sum += f->rate;
	}
	return sum;
}

/* ------------------------------------------------------------------ flows come and go */

/* Carry the flows that a change on a link may concern on to now. */
static void flows_advance(struct sim *sim, uint32_t index)
{
	if (!sim->base.desc.nr_ports)
		link_advance(&sim->link[index], sim->now_ns);
	for (uint32_t l = 0; sim->base.desc.nr_ports && l < sim->base.desc.nr_links; l++)
		link_advance(&sim->link[l], sim->now_ns);
}

/* Give these flows their rates and ends. */
static void flows_share(struct sim *sim, uint32_t index)
{
	if (sim->base.desc.nr_ports) {
		all_share(sim);
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

	flows_advance(sim, flow->link);
	while (*tail)
		tail = &(*tail)->next;
	flow->next = NULL;
	*tail = flow;
	flows_share(sim, flow->link);
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
			flows_advance(sim, index);
			*at = flow->next;
			flows_share(sim, index);
			return flow;
		}
	return NULL;
}
