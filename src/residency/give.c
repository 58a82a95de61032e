/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a space gives others of the machine that have no room: chunks that are free, those of freed
 * ranges and of dead blocks, and lower copies, in that order, since the last cost a copy to have
 * again. Nothing that is valid and has no other copy, and nothing that queued work may use.
 */
#include "src/residency/residency.h"

uint64_t give_unused(struct phys_client *client, uint64_t bytes)
{
	struct weir_space *space = client->owner;
	uint64_t sum = 0;
	place_t place = 0;

	while (&space->pmm[place].client != client)
		place++;
	pthread_mutex_lock(&space->lock);
	space_progress(space); /* what is done by now is unused */
	do {
		sum += pmm_give(&space->pmm[place], bytes - sum);
	} while (sum < bytes && (migrate_drop_stale(space) || room_free(space, place, false)));
	pthread_mutex_unlock(&space->lock);
	return sum;
}
