/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which mechanism a message is sent: copies of its pieces by a copy engine, or packets. A packet
 * is packed by a kernel of the sender, by a list of its elements' indexes; copied as one piece; and
 * unpacked by a kernel of each subscriber.
 *
 * The choice is a function of what is known of the message, and of nothing else. Modelled times:
 *
 *   rate      what the link carries that way, but no more than each subscriber's part of what the
 *             sender's port has left, and than what the subscriber's port has left
 *   copies    load_ns + (s - 1) * queue + the longest of
 *               queue / (n * nr_batches) + engine + event_ns
 *               queue + engine / nr_batches + event_ns, with the rate to one subscriber
 *               queue + read_ns
 *             with s = nr_senders and n = nr_subscribers
 *   engine    nr_batches * latency_ns + nr_pieces * copy_ns + bytes / rate
 *   queue     n * nr_pieces * copy_host_ns: the host queues one batch after the other, for one
 *             sender after the other, and an engine begins one when all of its pieces are queued
 *   packets   load_ns + the longest of
 *               2 * s * n * k * call_ns + read_ns
 *             and unpack + the longest of
 *               2 * s * n * k * call_ns
 *               2 * (s - 1) * n * k * call_ns + call_ns + hop + the longest of
 *                 pack + bytes / rate
 *                 n * k * pack + one
 *                 2 * (n * k - 1) * call_ns + pack + one
 *                 pack + one + (k - 1) * (hop + one + the longer of pack and unpack)
 *               if s > 1: call_ns + k * hop + n * k * pack + (n * k - 1) * unpack + bytes / rate
 *             with k = nr_packets. Where the list has to be sent as well, there are 4 bytes more
 *             for each element and one more copy_ns
 *   hop       latency_ns + copy_ns + event_ns
 *   one       bytes / k over the rate with one subscriber
 *   pack      what a packet moves through the sender's memory, over pack_bytes_per_s: the list, the
 *             packet, and the whole sectors of 32 bytes that the elements lie in; launch_ns at
 *             least
 *   unpack    the same at the subscriber; sectors that are written in part are read, too
 *
 * On a simulated device both rates are its hbm_bytes_per_s. For a real one, weir info --measure
 * shows elements packed and unpacked a second, to be multiplied by such bytes of an element.
 *
 * Each subscriber has packets of its own, by its own list. The host launches the two kernels of one
 * and then those of the next, so that one packet is copied while the next one is packed: either the
 * sender's port has no pause from the first to the last, or the sender's kernels have none, or the
 * host. A subscriber's packets go through one chunk at each end: one is copied when the one before
 * is unpacked. While a packet is on its way the host launches the kernel that unpacks it. Where
 * several devices send to each other, the host launches for one after the other. If that is not
 * what takes the time, their packets are in phase: a device packs one for each subscriber, these
 * are copied side by side, and it unpacks what it was sent before it packs again.
 * Copies to several subscribers go side by side; what they share is the sender's port.
 *
 * Readers cannot go on before the host has launched their kernels, behind all that it queues:
 * read_ns. Where engines copy for longer than that, it is hidden behind them.
 *
 * Copies take none of the kernels' time, so they are chosen where they are there in time: in half
 * of what is left until the reader needs them. The other half of what the ports carry until then is
 * for messages that come later and have less time. For that question the load is not added to what
 * the other subscribers' copies take of the port, which it may have in it: the larger counts. Else
 * whatever is there first is chosen, of two alike copies.
 */
#ifndef WEIR_REPLICA_MECHANISM_H
#define WEIR_REPLICA_MECHANISM_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/weir.h"

enum mechanism { MECHANISM_COPIES, MECHANISM_PACKETS };

/* A message, and what it is sent over. */
struct mechanism_message {
	uint64_t bytes;		 /* > 0, to each subscriber: a multiple of element_bytes */
	uint64_t nr_pieces;	 /* > 0: runs of bytes that follow each other */
	uint64_t nr_batches;	 /* > 0: pieces are queued together in so many */
	uint64_t nr_packets;	 /* > 0, to each subscriber */
	uint32_t element_bytes;	 /* 1 to 16 */
	double density;		 /* bytes over those from the first to behind the last: to 1 */
	uint32_t nr_subscribers; /* > 0: devices that get about as much at the same time */
	uint32_t nr_senders;	 /* > 0: devices that send about as much at the same time */
	bool lists_known;	 /* sender and subscribers have the list already */
	double slack_ns;	 /* until a reader needs it; 0: unknown */
	double load_ns;		 /* the time of what ports have to carry before it */

	const struct weir_link_desc *link; /* to one of the subscribers: the slowest */
	bool a_to_b;			   /* the way that it is sent */
	double send_bytes_per_s;    /* what the sender's port has left for all; 0: it has none */
	double receive_bytes_per_s; /* the same of the subscriber whose port has least */
	double pack_bytes_per_s;    /* > 0, through the sender's memory: see above */
	double unpack_bytes_per_s;  /* > 0, through a subscriber's */
	double launch_ns;	    /* least time of a kernel */
	double call_ns;		    /* time of the host to launch one, with what belongs to it */
	double read_ns;		    /* time of the host until all readers' kernels are launched */
};

struct mechanism_choice {
	enum mechanism mechanism;
	double copies_ns, packets_ns; /* from when it may be sent until it may be read */
};

struct mechanism_choice mechanism_choose(const struct mechanism_message *message);

/* Whether copies are there in time. */
bool mechanism_in_time(const struct mechanism_message *message);

#endif
