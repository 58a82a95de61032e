/* SPDX-License-Identifier: Apache-2.0 */
/* The model that mechanism.h describes. */
#include "src/replica/mechanism.h"

#include "src/base/util.h"

#define NS_PER_S 1e9
#define SECTOR 32.0
#define INDEX_BYTES 4.0
#define COPIES_PART 0.5 /* of the slack: how much of it copies may take */

/* Bytes a nanosecond, to each subscriber. */
static double rate_of(const struct mechanism_message *m)
{
	double rate = m->a_to_b ? m->link->a_to_b_bytes_per_s : m->link->b_to_a_bytes_per_s;

	if (m->send_bytes_per_s > 0)
		rate = MIN(rate, m->send_bytes_per_s / m->nr_subscribers);
	if (m->receive_bytes_per_s > 0)
		rate = MIN(rate, m->receive_bytes_per_s);
	return rate / NS_PER_S;
}

static double list_bytes(const struct mechanism_message *m)
{
	return (double)m->bytes / m->element_bytes * INDEX_BYTES;
}

/* Bytes of the sectors that the elements lie in. A run that begins at any element lies in that many
 * on average; where runs are near each other they share some, and there are no more than all. */
static double sector_bytes(const struct mechanism_message *m)
{
	double apart = (double)m->bytes + (double)m->nr_pieces * (SECTOR - m->element_bytes);

	return MAX(MIN(apart, (double)m->bytes / m->density), (double)m->bytes);
}

static double kernel_ns(const struct mechanism_message *m, double bytes, double bytes_per_s)
{
	return MAX(bytes / bytes_per_s * NS_PER_S, m->launch_ns);
}

static double packets_ns(const struct mechanism_message *m, double rate)
{
	double bytes = (double)m->bytes, list = list_bytes(m), sectors = sector_bytes(m);
	/* Of a run the first and the last sector are written in part. */
	double read = MIN(sectors, 2 * (sectors - bytes));
	double pack = kernel_ns(m, list + bytes + sectors, m->pack_bytes_per_s);
	double unpack = kernel_ns(m, list + bytes + read + sectors, m->unpack_bytes_per_s);
	double copied = m->lists_known ? bytes : bytes + list;
	double nr_copies = m->lists_known ? 1 : 2;

	return m->load_ns + m->calls_ns + pack + (double)m->link->latency_ns +
	       nr_copies * (double)m->link->copy_ns + copied / rate + (double)m->link->event_ns +
	       unpack;
}

bool mechanism_in_time(const struct mechanism_message *message, double copies_ns)
{
	return copies_ns <= message->slack_ns * COPIES_PART;
}

struct mechanism_choice mechanism_choose(const struct mechanism_message *message)
{
	const struct weir_link_desc *link = message->link;
	double rate = rate_of(message);
	struct mechanism_choice choice = {
		.copies_ns = message->load_ns + (double)link->latency_ns +
			     (double)message->nr_pieces * (double)link->copy_ns +
			     (double)message->bytes / rate + (double)link->event_ns,
		.packets_ns = packets_ns(message, rate),
	};

	if (choice.packets_ns < choice.copies_ns && !mechanism_in_time(message, choice.copies_ns))
		choice.mechanism = MECHANISM_PACKETS;
	return choice;
}
