/* SPDX-License-Identifier: Apache-2.0 */
/* The handles of weir.h, a machine's and a stream's, as the library sees them: what is behind. */
#ifndef WEIR_BACKEND_MACHINE_H
#define WEIR_BACKEND_MACHINE_H

#include "src/backend/backend.h"

/* The machine handle over any backend; it owns the backend from then on. -ENOMEM: it does not. */
int machine_wrap(struct backend *b, struct weir_machine **out);
struct backend *machine_backend(const struct weir_machine *machine);

/* Put a wrapper of a machine's backend in its place, before anything is made on the machine. */
void machine_set_backend(struct weir_machine *machine, struct backend *wrapper);

/* What a layer above keeps with a machine until it is closed, one thing in all: made by the first
 * call, over the machine's backend as it is then. NULL: it could not be made. */
void *machine_kept(struct weir_machine *machine, void *(*make)(struct backend *b),
		   void (*destroy)(void *kept));

/* What a space that is about to be made is called in messages: 1, then one more each. */
uint32_t machine_space_number(struct weir_machine *machine);

/* Streams, and pools of plain memory, that the machine has: one more, or one fewer. */
void machine_stream_count(struct weir_machine *machine, bool more);
void machine_pool_count(struct weir_machine *machine, bool more);

/* Whether it is a simulated one. */
bool machine_is_simulated(const struct weir_machine *machine);

/*
 * How long the program waited in weir_stream_sync(), in all, while somebody asked for it.
 * machine_waits_count: somebody does, or no more. machine_wait_begin: returns the time by the
 * machine's clock, for machine_wait_end(); 0: nobody asks.
 */
void machine_waits_count(struct weir_machine *machine, bool more);
uint64_t machine_waited_ns(const struct weir_machine *machine);
uint64_t machine_wait_begin(const struct weir_machine *machine);
void machine_wait_end(struct weir_machine *machine, uint64_t since_ns);

stream_id_t stream_id(const struct weir_stream *stream);
uint32_t stream_device(const struct weir_stream *stream);
/* Its own for good, from 1 on: another stream may be made at the address of one that is gone. */
uint64_t stream_number(const struct weir_stream *stream);
struct weir_machine *stream_machine(const struct weir_stream *stream);

/* Note that a kernel was launched: what weir_stream_launch() does, for launches by other ways. The
 * name stays where it is. */
void stream_kernel_note(struct weir_stream *stream, const char *name);

/* The kernel that weir_stream_launch() launched since the last call of this: its name, "" if there
 * were several, NULL if none. *ops: what these launches declared of them, together; may be NULL. */
const char *stream_kernel_take(struct weir_stream *stream, double *ops);

#endif
