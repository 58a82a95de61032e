/* SPDX-License-Identifier: Apache-2.0 */
/* The model that mechanism.h describes. */
#include "src/replica/mechanism.h"

#include "src/base/util.h"

#define NS_PER_S 1e9
#define SECTOR 32.0
#define INDEX_BYTES 4.0
#define COPIES_PART 0.5 /* of the slack: how much of it copies may take */

/* Bytes a nanosecond, to each of so many subscribers. */
static double rate_of(const struct mechanism_message *m, uint32_t nr_subscribers)
{
	double rate = m->a_to_b ? m->link->a_to_b_bytes_per_s : m->link->b_to_a_bytes_per_s;

	if (m->send_bytes_per_s > 0)
		rate = MIN(rate, m->send_bytes_per_s / nr_subscribers);
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

static double hop_ns(const struct mechanism_message *m)
{
	double nr_copies = m->lists_known ? 1 : 2;

	return (double)m->link->latency_ns + nr_copies * (double)m->link->copy_ns +
	       (double)m->link->event_ns;
}

static double packets_ns(const struct mechanism_message *m)
{
	double bytes = (double)m->bytes, list = list_bytes(m), sectors = sector_bytes(m);
	/* Of a run the first and the last sector are written in part. */
	double read = MIN(sectors, 2 * (sectors - bytes));
	double k = (double)m->nr_packets, all = m->nr_subscribers * k;
	double others = 2 * (m->nr_senders - 1) * all * m->call_ns;
	double pack = kernel_ns(m, (list + bytes + sectors) / k, m->pack_bytes_per_s);
	double unpack = kernel_ns(m, (list + bytes + read + sectors) / k, m->unpack_bytes_per_s);
	double copied = m->lists_known ? bytes : bytes + list;
	double one = copied / k / rate_of(m, 1), hop = hop_ns(m);
	double side_by_side = copied / rate_of(m, m->nr_subscribers);
	double by_port = pack + side_by_side;
	double by_kernels = all * pack + one;
	double by_host = 2 * (all - 1) * m->call_ns + pack + one;
	double by_chunk = pack + one + (k - 1) * (hop + one + MAX(pack, unpack));
	double last = MAX(MAX(by_port, by_kernels), MAX(by_host, by_chunk));
	double in_phase = m->call_ns + k * hop + all * pack + (all - 1) * unpack + side_by_side;
	double by_calls = 2 * all * m->call_ns;
	double ns = others + MAX(m->call_ns + hop + last, by_calls);

	ns = unpack + (m->nr_senders > 1 ? MAX(ns, in_phase) : ns);
	return m->load_ns + MAX(ns, others + by_calls + m->read_ns);
}

/* Of an engine that copies one message, beside those of the others. */
static double engine_ns(const struct mechanism_message *m, uint32_t nr_subscribers)
{
	return (double)m->nr_batches * (double)m->link->latency_ns +
	       (double)m->nr_pieces * (double)m->link->copy_ns +
	       (double)m->bytes / rate_of(m, nr_subscribers);
}

/* Without what ports have to carry before it. */
static double copies_ns(const struct mechanism_message *m, uint32_t nr_subscribers)
{
	double batches = (double)m->nr_batches * m->nr_subscribers; /* of a sender */
	double queue =
		(double)m->nr_subscribers * (double)m->nr_pieces * (double)m->link->copy_host_ns;
	double others = (m->nr_senders - 1) * queue;
	double by_engine = others + queue / batches + engine_ns(m, nr_subscribers);
	double by_host = others + queue + engine_ns(m, 1) / (double)m->nr_batches;

	return MAX((double)m->link->event_ns + MAX(by_engine, by_host),
		   others + queue + m->read_ns);
}

bool mechanism_in_time(const struct mechanism_message *message)
{
	double ns = MAX(message->load_ns + copies_ns(message, 1),
			copies_ns(message, message->nr_subscribers));

	return ns <= message->slack_ns * COPIES_PART;
}

struct mechanism_choice mechanism_choose(const struct mechanism_message *message)
{
	struct mechanism_choice choice = {
		.copies_ns = message->load_ns + copies_ns(message, message->nr_subscribers),
		.packets_ns = packets_ns(message),
	};

	if (choice.packets_ns < choice.copies_ns && !mechanism_in_time(message))
		choice.mechanism = MECHANISM_PACKETS;
	return choice;
}
