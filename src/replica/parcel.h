/* SPDX-License-Identifier: Apache-2.0 */
/* What a message brings, and by which mechanism. */
#ifndef WEIR_REPLICA_PARCEL_H
#define WEIR_REPLICA_PARCEL_H

#include "src/replica/lists.h"

/* Copies of one message, at most: each takes the host's time, too. */
#define PARCEL_RUNS_MAX 256u
/* Of these, copies that are queued together. */
#define PARCEL_BATCH_MAX 64u

/* One copy has all of it, the other one lacks it. */
struct parcel {
	struct replica *replica;
	uint8_t from, to;
	uint64_t offset, end; /* in the range, from the first byte to behind the last */
	uint64_t bytes;	      /* that are sent: fewer where it has gaps */
	enum weir_replica_mechanism how;
	/* But where all from offset to end is sent: the elements that are. */
	const struct list *list;
	struct list_part part;
};

/* ---- parcel.c */

/* By which mechanism elements of a list are to be sent; packets: whether these will do. */
enum weir_replica_mechanism parcel_choose(const struct weir_space *space, const struct parcel *p,
					  bool packets);

/* What the calling thread queues in between is a parcel; err 0: it was sent, and is counted. */
void parcel_begin(const struct weir_space *space, const struct parcel *p);
void parcel_end(const struct weir_space *space, const struct parcel *p, int err);

/* ---- packets.c */

/* Of a packet, and of a part of a list in device memory. */
#define PACKET_BYTES (UINT64_C(16) << 20)

/* Send elements of a list as packets, on the lane's streams. @return 0; -ENOMEM: there is no room
 * for them; or an error of the machine. Then some may have been sent. */
int packets_send(struct weir_space *space, const struct parcel *p);

/* Give back some of what packets and lists have in a memory. @return whether there was any. */
bool packets_evict(struct weir_space *space, uint8_t copy);
/* Nothing is under way. */
void packets_fini(struct weir_space *space);

#endif
