/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the packets' kernels (packet.cu) and whoever launches them agree on. A kernel's one argument
 * is a struct backend_packet, by value. Its name, the first of these for elements of one byte:
 * weir_pack1, 2, 4, 8, 16, weir_unpack1, and so on.
 */
#ifndef WEIR_CUDA_PACKET_H
#define WEIR_CUDA_PACKET_H

/* Threads of a block, and blocks at most: several times what any GPU holds. */
#define PACKET_BLOCK 256u
#define PACKET_GRID_MAX 16384u

/* Groups of 16 bytes that a thread has in flight together: of small elements one is enough. */
#define PACKET_GROUPS(element_bytes) ((element_bytes) < 4 ? 1u : 4u)

#endif
