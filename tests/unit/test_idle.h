/* SPDX-License-Identifier: Apache-2.0 */
/* A holder of memory that uses none of it, for tests of those who ask. */
#ifndef WEIR_TEST_IDLE_H
#define WEIR_TEST_IDLE_H

#include "src/phys/phys.h"
#include "tests/support/space.h"

/* Holds all that is free of a memory, in pieces of 1 MiB, and gives it when it is asked. */
static struct {
	struct phys_client client;
	struct backend_chunk chunk[64];
	uint32_t nr;
} idle;

static inline uint64_t idle_give(struct phys_client *client, uint64_t bytes)
{
	uint64_t given = 0;

	for (; idle.nr && given < bytes; given += MIB(1))
		phys_put(client, &idle.chunk[--idle.nr]);
	return given;
}

static inline void idle_open(struct test_space *t, uint32_t memory)
{
	memset(&idle, 0, sizeof(idle));
	phys_client_add(&idle.client, phys_of(t->machine, memory), "idle", PHYS_NO_LIMIT);
	while (!phys_take(&idle.client, MIB(1), &idle.chunk[idle.nr]))
		idle.nr++;
	phys_client_start(&idle.client, idle_give, NULL);
}

static inline void idle_close(void)
{
	phys_client_stop(&idle.client);
	(void)idle_give(&idle.client, UINT64_MAX);
	phys_client_del(&idle.client);
}

#endif
