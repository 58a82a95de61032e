/* SPDX-License-Identifier: Apache-2.0 */
/* A small pool whose large requests share roots, for the tests of that. */
#ifndef WEIR_TEST_CHUNK_LARGE_H
#define WEIR_TEST_CHUNK_LARGE_H

#include "src/base/util.h"
#include "src/mem/chunk_internal.h"
#include "tests/support/driver.h"
#include "tests/unit/test_sim_machine.h"

#define ROOT KIB(256) /* of buddies */
#define SHARE MIB(1)  /* the largest that shares */
#define SHARED MIB(4) /* a root for those */
#define GRANULE KIB(4)

static struct backend *backend;
static struct chunk_pool *pool;
static struct chunk_pool_stats stats;

static inline void config_init(struct chunk_pool_config *config)
{
	struct weir_machine_desc desc;

	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &backend), 0);
	chunk_pool_config_init(config, backend, GPU0);
	config->root_bytes = ROOT;
	config->share_bytes = SHARE;
	config->idle_bytes = 2 * SHARED;
	config->idle_per_mille = 0;
	config->hold_peak = false;
}

static inline void open_pool(const struct chunk_pool_config *config)
{
	struct chunk_pool_config mine;

	if (!config) {
		config_init(&mine);
		config = &mine;
	}
	assert_int_equal(chunk_pool_create(config, &pool), 0);
}

static inline void look(void)
{
	assert_int_equal(chunk_pool_check(pool), 0);
	chunk_pool_stats(pool, &stats);
	assert_int_equal(stats.held_bytes, stats.allocated_bytes + stats.tail_bytes +
						   stats.free_bytes + stats.pending_bytes);
}

static inline void close_pool(void)
{
	look();
	assert_int_equal(stats.nr_chunks, 0);
	chunk_pool_destroy(pool);
	assert_int_equal(backend->ops->memory_used(backend, GPU0), 0);
	assert_int_equal(sim_leaks(backend), 0);
	backend->ops->destroy(backend);
}

static inline struct mem_chunk *get(uint64_t bytes)
{
	struct mem_chunk *chunk;

	assert_int_equal(chunk_alloc(pool, bytes, 0, NULL, &chunk), 0);
	return chunk;
}

static inline void put(struct mem_chunk *chunk)
{
	chunk_free(pool, chunk, 0);
}

static inline uint64_t handle_of(const struct mem_chunk *chunk)
{
	uint64_t offset;

	return chunk_root_of(chunk, &offset)->handle;
}

static inline uint64_t offset_of(const struct mem_chunk *chunk)
{
	uint64_t offset;

	(void)chunk_root_of(chunk, &offset);
	return offset;
}

#endif
