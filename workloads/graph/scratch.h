/* SPDX-License-Identifier: Apache-2.0 */
/* Files without a name: nothing is left of them however the program ends. */
#ifndef WEIR_GRAPH_SCRATCH_H
#define WEIR_GRAPH_SCRATCH_H

/*
 * Make one.
 *
 * @param [in] folder  The first length bytes of it count.
 * @return its descriptor, open for reading and writing, to be closed; or a negative errno.
 */
int scratch_open(const char *folder, int length);

#endif
