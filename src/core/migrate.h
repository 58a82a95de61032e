/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a move, for migrate.c and compare.c. Lock held.
 */
#ifndef WEIR_CORE_MIGRATE_H
#define WEIR_CORE_MIGRATE_H

#include "src/core/space.h"

/* Unmap the block, but not what is stale. */
int migrate_unplug(struct weir_space *space, struct range *range, uint32_t i);

/* Give a block another home, and tell the mode if that is in its own memory, or was. */
void migrate_change_home(struct weir_space *space, struct range *range, uint32_t i,
			 const struct copies *to, enum weir_cause cause);

/* A chunk whose contents nobody needs any more goes back to its pool. NULL is allowed. */
void migrate_vacate(struct weir_space *space, struct chunk *chunk);

/* Add the block's copy from one of its chunks to another one to the batch of that path. */
int migrate_queue(struct weir_space *space, struct range *range, uint32_t i, const struct chunk *to,
		  const struct chunk *from, enum weir_cause cause);

/* The copy into home cannot be queued: back to the source. */
void migrate_undo(struct weir_space *space, struct range *range, uint32_t i);

#endif
