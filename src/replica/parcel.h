/* SPDX-License-Identifier: Apache-2.0 */
/* What a message brings, and by which mechanism. */
#ifndef WEIR_REPLICA_PARCEL_H
#define WEIR_REPLICA_PARCEL_H

#include "src/replica/lists.h"

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

/* ---- choose.c */

/* Choose by which mechanism elements of a list are sent; how is what it is by others. */
enum weir_replica_mechanism parcel_choose(const struct weir_space *space, const struct parcel *p);

#endif
