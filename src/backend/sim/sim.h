/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine. What it models:
 *
 *  - Memories are sparse files mapped at their aliases (real), or addresses alone (phantom). A
 *    memory is a number of bytes: like a driver that maps any physical pages, it does not fragment.
 *  - Time is virtual. The application's clock moves by what its calls cost and by what they wait
 *    for. Progress functions are a second agent, the migrator, with a clock of its own: it starts
 *    when work completes, or when it is done with what it did before. Mapping and creating calls
 *    of both agents take turns.
 *  - What is done aside (op aside) is run at once, by the caller's thread, and is over when the
 *    virtual time that it takes has passed; one begins when the one before is over. Machines none
 *    of whose devices has plan_work_ns lack the op.
 *  - A device runs one kernel at a time, those of urgent streams first, then in the order in which
 *    they became ready, for the time that src/cost/cost.h gives with the mappings at its start.
 *    Copy streams run beside it, one batch at a time each.
 *  - Flows over a link (one for each copy, one for a kernel's use in place each way) share each
 *    direction max-min fairly. A direction carries its own rate, or the link's duplex rate while
 *    the other direction is busy. Where the description has ports, a flow shares those of both its
 *    ends as well, and kernels get what flows leave of their HBM's rate.
 *  - Copies within one HBM go at half its streaming rate, within host memory at the duplex rate of
 *    the stream's host link; neither takes part of a link.
 *  - Managed memory follows the driver's mechanism (sim_uvm.h): a launch waits while what it
 *    touches comes to its device, and what came in first is evicted to make room. Its bytes do not
 *    move.
 *  - Effects come in the order of virtual time: a kernel's function runs at its start, a copy's
 *    bytes move at its end. A dependency left out shows as wrong bytes, or is trapped.
 *
 * What is trapped: a launch whose use names a block that is not mapped, not mapped for its device,
 * or read-only and written; or one that moves (a copy writes it, or reads what the launch writes,
 * and is neither complete nor ordered behind the launch); a use of a guarded reservation that the
 * stream's bracket does not cover; with real bytes, a touch of a guarded reservation beyond the
 * launch's uses; and a block unmapped under a running kernel. The kernel is not run, or goes on
 * with scratch pages; its stream reports -WEIR_ETRAP; the log names kernel, reservation and block.
 *
 * What is not modelled: docs/simulator.md; of managed memory, docs/uvm-model.md.
 */
#ifndef WEIR_BACKEND_SIM_H
#define WEIR_BACKEND_SIM_H

#include "src/backend/backend.h"

/* desc passes weir_machine_check(). */
int sim_create(const struct weir_machine_desc *desc, enum weir_data data, struct backend **out);

/* Chunks, mappings, reservations, plain and managed allocations, streams and tickets of digests
 * that are alive. b is a simulator. */
int sim_leaks(struct backend *b);

/* Have calls that simulate for long ask whether to stop, with the lock held: once stop() is not 0,
 * what touches managed memory fails with -EINTR. NULL: none asks. b is a simulator, still idle. */
void sim_set_stop(struct backend *b, int (*stop)(void));

#endif
