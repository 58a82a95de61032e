/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which mechanism elements of a list are sent: one copy of all from the first to the last, with
 * what lies between; a copy of each run of them; or packets. The model is mechanism.c's; what it is
 * told is found in constant time, whatever the number of elements.
 */
#include <math.h>

#include "src/cost/cost.h"
#include "src/replica/mechanism.h"
#include "src/replica/parcel.h"

/* How much of what ports can carry they are given. With all of it, messages that are late would
 * make brackets last longer, which then seem to leave ports the time for more. */
#define PORT_PART 0.8
#define NS_PER_S 1e9

/* What the port of a memory carries one way when so many of its links are busy; 0: it limits
 * nothing. */
static double port_rate(const struct weir_machine_desc *desc, uint32_t memory, uint32_t links,
			bool sends)
{
	double rate = cost_port_bytes_per_s(desc, memory, links, sends);

	return isfinite(rate) ? rate : 0;
}

/* Devices that are sent elements of the same bytes by one publication; who fetches is alone. */
static uint32_t nr_subscribers(const struct weir_space *space, const struct parcel *p)
{
	const struct replica *r = p->replica;
	struct list_part part;
	uint32_t nr = 0;

	if (r->replicas->kind == WEIR_FETCHED)
		return 1;
	for (uint32_t own = 0; own < space->nr_devices; own++)
		nr += own != p->from && r->list[own] &&
		      list_find(r->list[own], r->element_bytes, p->offset, p->end, &part);
	return MAX(nr, 1);
}

/* Devices that send elements of a range: who has a list of what it writes itself is one of several
 * that all do so. */
static uint32_t nr_senders(const struct weir_space *space, const struct parcel *p)
{
	const struct replica *r = p->replica;
	uint32_t nr = 0;

	for (uint32_t own = 0; own < space->nr_devices; own++)
		nr += r->list[own] != NULL;
	return p->from < WEIR_DEVICES_MAX && r->list[p->from] ? nr : 1;
}

/* A packet's elements are those of one part of the list, too. */
static uint64_t nr_packets(const struct parcel *p)
{
	uint64_t bytes = MAX(p->replica->element_bytes, sizeof(uint32_t));

	return div_round_up(p->part.nr * bytes, p->replica->replicas->packet_bytes);
}

/* What is sent alike by all mechanisms. */
static struct mechanism_message describe(const struct weir_space *space, const struct parcel *p,
					 uint32_t from, uint32_t to, uint32_t link)
{
	const struct weir_machine_desc *desc = &space->backend->desc;
	const struct weir_device_desc *receiver = space_device(space, p->to);
	const struct weir_device_desc *sender =
		p->from < WEIR_DEVICES_MAX ? space_device(space, p->from) : receiver;
	const double both_ns = (double)(sender->launch_host_ns + receiver->launch_host_ns);
	const uint32_t nr = nr_subscribers(space, p), nr_sending = nr_senders(space, p);
	bool a_to_b = desc->link[link].a == from;

	return (struct mechanism_message){
		.element_bytes = p->replica->element_bytes,
		.nr_subscribers = nr,
		.nr_senders = nr_sending,
		.lists_known = true,
		.link = &desc->link[link],
		.a_to_b = a_to_b,
		.send_bytes_per_s = port_rate(desc, from, nr, true),
		.receive_bytes_per_s = port_rate(desc, to, 1, false),
		.pack_bytes_per_s = sender->hbm_bytes_per_s,
		.unpack_bytes_per_s = receiver->hbm_bytes_per_s,
		.launch_ns = (double)MAX(sender->launch_ns, receiver->launch_ns),
		.call_ns = backend_packet_host_launches(&desc->link[link]) * both_ns / 2,
		.read_ns = MAX(nr, nr_sending) * (double)receiver->launch_host_ns,
		.slack_ns = learn_slack_ns(space, p->replica, p->from, p->to, p->offset, p->end),
		.load_ns = learn_load_ns(p->replica->replicas, p->from, p->to),
	};
}

/* What ports have to carry once all of it is copied. It is what counts there, however it is sent:
 * where some messages go as copies, packets of others wait for these. */
static void load_ports(const struct parcel *p, const struct mechanism_message *whole)
{
	const struct weir_link_desc *link = whole->link;
	double rate = whole->a_to_b ? link->a_to_b_bytes_per_s : link->b_to_a_bytes_per_s;
	double send = whole->send_bytes_per_s > 0 ? whole->send_bytes_per_s : rate;
	double receive = whole->receive_bytes_per_s > 0 ? whole->receive_bytes_per_s : rate;
	double bytes = (double)whole->bytes / PORT_PART * NS_PER_S;

	learn_load(p->replica->replicas, p->from, p->to, bytes / send, bytes / receive);
}

/* Whether elements can be packed and unpacked: both devices have them all in their windows. */
static bool may_pack(const struct parcel *p)
{
	const struct replica *r = p->replica;

	return p->from < WEIR_DEVICES_MAX && p->list->home.backend.handle &&
	       p->bytes == p->part.nr * r->element_bytes &&
	       copies_own(r, p->from, p->offset, p->end) && copies_own(r, p->to, p->offset, p->end);
}

/* Pieces that are copied: no fewer than runs of bytes, and than granules, which are not copied
 * together. */
static void set_pieces(struct mechanism_message *m, uint64_t nr_runs, uint64_t granule_bytes)
{
	m->nr_pieces = MAX(nr_runs, div_round_up(m->bytes, granule_bytes));
	m->nr_batches = div_round_up(m->nr_pieces, PARCEL_BATCH_MAX);
}

enum weir_replica_mechanism parcel_choose(const struct weir_space *space, const struct parcel *p,
					  bool packets)
{
	uint32_t forced = p->replica->replicas->forced;
	uint32_t from = copies_memory(space, p->replica, p->from, p->offset);
	uint32_t to = copies_memory(space, p->replica, p->to, p->offset);
	int link = from == to ? -1 : cost_link_find(&space->backend->desc, from, to);
	const uint64_t granule = p->replica->replicas->granule_bytes;
	struct mechanism_message all, elements;
	struct mechanism_choice whole, choice;
	bool runs, in_time;

	packets = packets && may_pack(p);
	if (forced)
		return forced - 1 == WEIR_SENT_PACKETS && !packets ? WEIR_SENT_RUNS : forced - 1;
	if (link < 0 || p->part.nr_runs == 1)
		return WEIR_SENT_WHOLE;
	all = elements = describe(space, p, from, to, (uint32_t)link);
	all.bytes = p->end - p->offset;
	all.nr_packets = 1;
	all.density = 1;
	set_pieces(&all, 1, granule);
	whole = mechanism_choose(&all);
	load_ports(p, &all);
	elements.bytes = p->part.nr * elements.element_bytes;
	elements.nr_packets = nr_packets(p);
	set_pieces(&elements, p->part.nr_runs, granule);
	elements.density = MIN((double)elements.bytes / (double)all.bytes, 1);
	choice = mechanism_choose(&elements);
	runs = p->part.nr_runs <= PARCEL_RUNS_MAX && choice.copies_ns < whole.copies_ns;
	in_time = mechanism_in_time(runs ? &elements : &all);
	if (packets && !in_time && choice.packets_ns < (runs ? choice.copies_ns : whole.copies_ns))
		return WEIR_SENT_PACKETS;
	return runs ? WEIR_SENT_RUNS : WEIR_SENT_WHOLE;
}

const char *replica_mechanism_name(enum weir_replica_mechanism how)
{
	static const char *const names[] = {[WEIR_SENT_WHOLE] = "whole",
					    [WEIR_SENT_RUNS] = "runs",
					    [WEIR_SENT_PACKETS] = "packets"};

	return names[how];
}

void parcel_begin(const struct weir_space *space, const struct parcel *p)
{
	static const char *const reasons[] = {
		[WEIR_FETCHED] = "fetched", [WEIR_PUBLISHED] = "published"};
	const struct backend_message message = {
		.range = p->replica->number,
		.offset = p->offset,
		.end = p->end,
		.bytes = p->bytes,
		.from = (uint16_t)copies_memory(space, p->replica, p->from, p->offset),
		.to = (uint16_t)copies_memory(space, p->replica, p->to, p->offset),
		.mechanism = replica_mechanism_name(p->how),
		.reason = reasons[p->replica->replicas->kind],
	};

	space->backend->observe->message_begin(space->backend, &message);
}

static void count(const struct weir_space *space, const struct parcel *p)
{
	const struct weir_machine_desc *desc = &space->backend->desc;
	struct weir_replica_stats *stats = &p->replica->replicas->stats;
	enum weir_message_kind kind = p->replica->replicas->kind;
	uint32_t a = copies_memory(space, p->replica, p->from, p->offset);
	uint32_t b = copies_memory(space, p->replica, p->to, p->offset);
	int link = a == b ? -1 : cost_link_find(desc, a, b);

	stats->nr_messages[kind]++;
	stats->message_bytes[kind] += p->bytes;
	stats->nr_sent[p->how]++;
	stats->sent_bytes[p->how] += p->bytes;
	if (link >= 0)
		stats->link_bytes[link][desc->link[link].a == a ? WEIR_A_TO_B : WEIR_B_TO_A]
				 [kind] += p->bytes;
	stats->nr_local += a == b;
	stats->local_bytes += a == b ? p->bytes : 0;
}

void parcel_end(const struct weir_space *space, const struct parcel *p, int err)
{
	space->backend->observe->message_end(space->backend, !err);
	if (!err)
		count(space, p);
}
