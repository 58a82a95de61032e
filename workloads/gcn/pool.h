/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run the parts of one kernel. Parts are handed out as threads come free, so a part
 * must write what no other part touches, and its result may not depend on who ran it.
 */
#ifndef WEIR_GCN_POOL_H
#define WEIR_GCN_POOL_H

#include <stdint.h>

struct gcn_pool;

typedef void (*gcn_pool_fn)(const void *arg, uint64_t part);

/* Threads: the caller of gcn_pool_run() counts as one. 0: one a processor. -ENOMEM, -EAGAIN. */
int gcn_pool_create(uint32_t nr_threads, struct gcn_pool **out);

/* No run is in progress. NULL is allowed. */
void gcn_pool_destroy(struct gcn_pool *pool);

/* Threads of a pool; 1 for NULL. */
uint32_t gcn_pool_threads(const struct gcn_pool *pool);

/* Run fn(arg, 0) .. fn(arg, nr_parts - 1) and return when all are done. NULL runs them in turn,
 * here. From one thread at a time; fn may not call it. */
void gcn_pool_run(struct gcn_pool *pool, uint64_t nr_parts, gcn_pool_fn fn, const void *arg);

#endif
