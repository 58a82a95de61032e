/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plain managers share: one compute stream, one memory that everything lies in, a budget
 * of it, and launches and copies that go straight to the machine. Each manager adds only its way
 * of allocating. Memory of another device is chunks that are mapped for this one; the rest is plain
 * allocations.
 */
#ifndef WEIR_PLAIN_H
#define WEIR_PLAIN_H

#include "managers/manager.h"

struct pool;
struct plain_chunk;

/* The memory that a manager allocates from. */
enum plain_where {
	PLAIN_OWN,  /* the device's */
	PLAIN_HOST, /* that the device is linked to */
	PLAIN_NEAR, /* another device's, which has a budget */
};

/*
 * Invariants: taken_bytes is the sum of what plain_get() gave and plain_put() did not take back;
 * taken_bytes <= budget_bytes.
 */
struct plain {
	struct manager manager;
	struct pool *pool; /* NULL for a manager that does not pool */
	uint32_t memory;
	struct plain_chunk *chunks; /* of another device's memory; NULL: none */
	stream_id_t stream;
	uint64_t budget_bytes;
	uint64_t taken_bytes, taken_peak_bytes;
	uint64_t inplace_before[BACKEND_DIRECTION_NR]; /* what the machine had counted before */
};

/*
 * -EINVAL: no such device, a budget beyond the memory, or options (plain managers have none, but
 * "near" of PLAIN_NEAR); of other devices' memories none has a budget, or several have. On error
 * there is nothing to undo.
 */
int plain_init(struct plain *plain, const struct manager_ops *ops,
	       const struct manager_config *config, enum plain_where where);

/* The one of other devices' memories that has a budget. -EINVAL, logged: none, or several. */
int plain_near_memory(const struct manager_config *config, uint32_t *out);

/* All that was allocated is given back before. Waits for queued work. */
void plain_fini(struct plain *plain);

/* Memory of the machine, at the machine's cost, within the budget. -ENOMEM: beyond either. */
int plain_get(struct plain *plain, uint64_t bytes, void **addr);
void plain_put(struct plain *plain, void *addr, uint64_t bytes);

void *plain_stream(struct manager *m);
int plain_launch(struct manager *m, const struct weir_launch *launch);
int plain_write(struct manager *m, void *addr, const void *data, uint64_t bytes);
int plain_read(struct manager *m, void *data, const void *addr, uint64_t bytes);
int plain_sync(struct manager *m);

/* peak_bytes is of the one memory: taken_peak_bytes, with a pool what its segments took. */
void plain_stats(struct manager *m, struct manager_stats *out);

/* A manager with a pool over plain_get(); used whole by those that pool. */
int plain_pooled_create(const struct manager_ops *ops, const struct manager_config *config,
			enum plain_where where, struct manager **out);
void plain_pooled_destroy(struct manager *m);
int plain_pooled_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr);
void plain_pooled_free(struct manager *m, void *addr);
int plain_pooled_check(struct manager *m);

#endif
