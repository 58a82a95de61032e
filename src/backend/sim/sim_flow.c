/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links as pipes that carry fluid: the flows in a direction share it max-min fairly, none faster
 * than its cap. Rates change only when a flow starts or ends, and between such points every flow
 * moves on at its rate; so the work is linear in the flows of one link, and exact up to rounding
 * an end up to the next nanosecond.
 */
#include <math.h>

#include "src/backend/sim/sim_internal.h"

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

/* Give every flow of a link its rate and its end. The link is advanced to now. */
static void link_share(struct sim *sim, uint32_t index)
{
	const struct weir_link_desc *desc = &sim->base.desc.link[index];
	const double alone[2] = {desc->a_to_b_bytes_per_s, desc->b_to_a_bytes_per_s};
	struct sim_link *link = &sim->link[index];
	bool duplex = link->flows[0] && link->flows[1];

	link->end_ns = SIM_NEVER;
	for (int back = 0; back < 2; back++) {
		double capacity = alone[back];

		if (duplex)
			capacity = fmin(capacity, duplex_rate(sim, index));
		direction_share(link->flows[back], capacity / 1e9);
		for (struct sim_flow *f = link->flows[back]; f; f = f->next) {
			f->end_ns = sim->now_ns + sim_ns_ceil(f->remaining / f->rate);
			if (f->end_ns < link->end_ns)
				link->end_ns = f->end_ns;
		}
	}
}

void sim_flow_start(struct sim *sim, struct sim_flow *flow)
{
	struct sim_link *link = &sim->link[flow->link];
	struct sim_flow **tail = &link->flows[flow->back];

	link_advance(link, sim->now_ns);
	while (*tail)
		tail = &(*tail)->next;
	flow->next = NULL;
	*tail = flow;
	link_share(sim, flow->link);
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
			link_share(sim, index);
			return flow;
		}
	return NULL;
}
