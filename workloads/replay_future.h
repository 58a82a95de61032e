/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace uses next, for policies that choose by it while the trace is replayed: see struct
 * policy_future. Steps are its brackets, brackets of the CPU's, and copies to and from the
 * program's buffers. What a bracket discards is no use.
 */
#ifndef WEIR_REPLAY_FUTURE_H
#define WEIR_REPLAY_FUTURE_H

#include "src/policy/policy.h"
#include "workloads/trace_file.h"

struct replay_future;

/* queued: decisions are taken as launches and copies begin, which may be long after they were
 * queued; else as they are queued. 0 or -ENOMEM. */
int replay_future_create(const struct trace_file *file, bool queued, struct replay_future **out);
/* NULL is allowed. */
void replay_future_destroy(struct replay_future *future);

/* As long as it lives. */
const struct policy_future *replay_future_policy(const struct replay_future *future);

/* A life was allocated at an address, or what is there is about to be freed. All take NULL for the
 * future, and do nothing. 0 or -ENOMEM. */
int replay_future_alloc(struct replay_future *future, uint64_t life, const void *addr);
void replay_future_free(struct replay_future *future, const void *addr);

/* The next step begins, or is queued. */
void replay_future_step(struct replay_future *future);

/* A launch or a copy of that step is about to be queued. 0 or -ENOMEM. */
int replay_future_queue(struct replay_future *future);

#endif
