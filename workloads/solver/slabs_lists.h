/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending the elements of lists by hand, instead of all of a part: a kernel packs them on the
 * device that wrote them, a copy takes the packet to the one that reads them, and a kernel there
 * puts them into its halo. Lists and packets have memory on both devices.
 */
#ifndef WEIR_SOLVER_SLABS_LISTS_H
#define WEIR_SOLVER_SLABS_LISTS_H

#include "workloads/solver/slabs.h"

/* What one device reads of another one's slab. */
struct solver_pair {
	uint64_t first, nr; /* of the reader's list */
	uint32_t *index[2]; /* that, at the one that writes and at the one that reads */
	/* Packets of all of it, by array, so that those of two iterations are apart. */
	float *packet[SOLVER_ARRAYS_MAX][2];
};

/* Borrows the configuration's lists for as long as the manager is there. */
int solver_lists_create(struct solver_slabs *s, const struct solver_config *config);
void solver_lists_destroy(struct solver_slabs *s);

/* Elements of what a device wrote that another one reads: queue their packing and the copy, on a
 * stream of the one; and then their unpacking, on a stream of the other. None: nothing. */
int solver_lists_send(struct solver_slabs *s, struct weir_stream *stream,
		      const struct solver_use *written, uint32_t from, uint32_t to,
		      enum weir_cause cause);
int solver_lists_receive(struct solver_slabs *s, struct weir_stream *stream,
			 const struct solver_use *written, uint32_t from, uint32_t to);

#endif
