/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory of a node of the host's this process may take, by what the system says. */
#ifndef WEIR_HOST_MEMORY_H
#define WEIR_HOST_MEMORY_H

#include <stdint.h>

struct host_memory {
	uint64_t bytes;	     /* what there is for it, whoever has it now */
	uint64_t room_bytes; /* what it can take now; <= bytes */
};

/*
 * The smaller of what the node has (the whole host, where no other node has memory) and of what the
 * limits of the process's control groups leave, of version 1 and 2, those of the groups above
 * included. What the system would give back, pages of files, is room. A file that is not there, or
 * that does not read as it should, limits nothing.
 *
 * root: the folder where /proc and /sys are found; "", but in tests.
 */
struct host_memory host_memory_read(const char *root, int node);

#endif
