/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of the plain managers; see plain.h. It decides nothing: where a tensor lies is
 * fixed when it is allocated, and kernels use it there.
 */
#include "managers/plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "managers/pool.h"
#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/base/util.h"
#include "src/cost/cost.h"

static struct plain *plain_of(struct manager *m)
{
	return (struct plain *)m;
}

/* Whether its memory is another device's. */
static bool is_near(const struct plain *plain)
{
	const struct weir_machine_desc *desc = &plain->manager.backend->desc;

	return plain->memory != desc->device[plain->manager.device].memory &&
	       desc->memory[plain->memory].kind == WEIR_MEMORY_HBM;
}

/* The memory that its kernels may use in place. */
static uint32_t inplace_memory(const struct plain *plain)
{
	return is_near(plain) ? plain->memory : cost_host_memory(&plain->manager.backend->desc);
}

/* The host memory that a device is linked to; by convention it is the link's end a. */
static int host_memory(const struct weir_machine_desc *desc, uint32_t device, uint32_t *out)
{
	for (uint32_t i = 0; i < desc->nr_links; i++) {
		const struct weir_link_desc *link = &desc->link[i];

		if (link->b == desc->device[device].memory &&
		    desc->memory[link->a].kind == WEIR_MEMORY_HOST) {
			*out = link->a;
			return 0;
		}
	}
	return -EINVAL;
}

int plain_near_memory(const struct manager_config *config, uint32_t *out)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++)
		if (config->near_bytes[i]) {
			*out = i;
			nr++;
		}
	if (nr == 1)
		return 0;
	log_error("%s other GPU's memory has a budget: name one", nr ? "more than one" : "no");
	return -EINVAL;
}

/* Which memory it is, and how much of it there may be. */
static int choose_memory(const struct weir_machine_desc *desc, const struct manager_config *config,
			 enum plain_where where, uint32_t *memory, uint64_t *budget_bytes)
{
	int err = 0;

	switch (where) {
	case PLAIN_OWN:
		*memory = desc->device[config->device].memory;
		*budget_bytes = config->gpu_budget_bytes;
		break;
	case PLAIN_HOST:
		err = host_memory(desc, config->device, memory);
		*budget_bytes = config->host_budget_bytes;
		break;
	case PLAIN_NEAR:
		err = plain_near_memory(config, memory);
		if (!err)
			*budget_bytes = config->near_bytes[*memory];
		break;
	}
	return err;
}

int plain_init(struct plain *plain, const struct manager_ops *ops,
	       const struct manager_config *config, enum plain_where where)
{
	struct backend *b = machine_backend(config->machine);
	const struct weir_machine_desc *desc = &b->desc;
	const char *options = where == PLAIN_NEAR ? "near" : "";
	uint64_t budget_bytes = 0;
	uint32_t memory = 0;
	int err;

	if (config->device >= desc->nr_devices ||
	    (config->options && strcmp(config->options, options) != 0))
		return -EINVAL;
	err = choose_memory(desc, config, where, &memory, &budget_bytes);
	if (!err)
		err = backend_budget(b, memory, &budget_bytes);
	if (err)
		return err;

	memset(plain, 0, sizeof(*plain));
	plain->manager.ops = ops;
	plain->manager.backend = b;
	plain->manager.device = config->device;
	plain->memory = memory;
	plain->budget_bytes = budget_bytes;
	b->observe->inplace_bytes(b, plain->manager.device, inplace_memory(plain),
				  plain->inplace_before);
	return b->ops->stream_create(b, plain->manager.device, BACKEND_COMPUTE, &plain->stream);
}

void plain_fini(struct plain *plain)
{
	struct backend *b = plain->manager.backend;

	b->ops->stream_destroy(b, plain->stream);
}

/* ------------------------------------------------------------------ another device's memory */

/* At an address of its own. */
struct plain_chunk {
	struct plain_chunk *next;
	struct backend_chunk chunk;
	void *addr;
};

static int chunk_map(const struct plain *plain, struct plain_chunk *chunk, uint64_t bytes)
{
	struct backend *b = plain->manager.backend;
	const uint64_t device = BACKEND_DEVICE_BIT(plain->manager.device);
	int err = b->ops->chunk_create(b, plain->memory, bytes, device, &chunk->chunk);

	if (err)
		return err;
	err = b->ops->va_reserve(b, bytes, bytes, &chunk->addr);
	if (err)
		goto err_chunk;
	err = b->ops->map(b, chunk->addr, &chunk->chunk, BACKEND_PROT_WRITE, device);
	if (err)
		goto err_release;
	return 0;

err_release:
	b->ops->va_release(b, chunk->addr, bytes);
err_chunk:
	b->ops->chunk_destroy(b, &chunk->chunk);
	return err;
}

static int chunk_get(struct plain *plain, uint64_t bytes, void **addr)
{
	const uint64_t granularity = plain->manager.backend->desc.vmm.granularity_bytes;
	struct plain_chunk *chunk = calloc(1, sizeof(*chunk));
	int err = chunk ? chunk_map(plain, chunk, round_up(bytes, granularity)) : -ENOMEM;

	if (err) {
		free(chunk);
		return err;
	}
	chunk->next = plain->chunks;
	plain->chunks = chunk;
	*addr = chunk->addr;
	return 0;
}

static void chunk_put(struct plain *plain, void *addr)
{
	struct backend *b = plain->manager.backend;
	struct plain_chunk **at = &plain->chunks, *chunk;

	while ((*at)->addr != addr)
		at = &(*at)->next;
	chunk = *at;
	*at = chunk->next;
	/* What kernels use of it is done before it goes. */
	(void)plain_sync(&plain->manager);
	if (!b->ops->unmap(b, addr)) {
		b->ops->va_release(b, addr, chunk->chunk.bytes);
		b->ops->chunk_destroy(b, &chunk->chunk);
	}
	free(chunk);
}

/* ------------------------------------------------------------------ within the budget */

int plain_get(struct plain *plain, uint64_t bytes, void **addr)
{
	struct backend *b = plain->manager.backend;
	int err;

	if (bytes > plain->budget_bytes - plain->taken_bytes)
		return -ENOMEM;
	err = is_near(plain) ? chunk_get(plain, bytes, addr)
			     : b->ops->device_alloc(b, plain->memory, bytes, addr);
	if (err)
		return err;
	plain->taken_bytes += bytes;
	if (plain->taken_peak_bytes < plain->taken_bytes)
		plain->taken_peak_bytes = plain->taken_bytes;
	return 0;
}

void plain_put(struct plain *plain, void *addr, uint64_t bytes)
{
	struct backend *b = plain->manager.backend;

	if (is_near(plain))
		chunk_put(plain, addr);
	else
		b->ops->device_free(b, addr);
	plain->taken_bytes -= bytes;
}

void *plain_stream(struct manager *m)
{
	return m->backend->ops->stream_native(m->backend, plain_of(m)->stream);
}

int plain_launch(struct manager *m, const struct weir_launch *launch)
{
	return m->backend->ops->launch(m->backend, plain_of(m)->stream, launch);
}

int plain_write(struct manager *m, void *addr, const void *data, uint64_t bytes)
{
	return m->backend->ops->upload(m->backend, plain_of(m)->stream, addr, data, bytes);
}

int plain_read(struct manager *m, void *data, const void *addr, uint64_t bytes)
{
	return m->backend->ops->download(m->backend, plain_of(m)->stream, data, addr, bytes);
}

int plain_sync(struct manager *m)
{
	fence_t fence;
	int err;

	err = m->backend->ops->fence_record(m->backend, plain_of(m)->stream, &fence);
	if (err)
		return err;
	return m->backend->ops->fence_wait_awake(m->backend, fence);
}

void plain_stats(struct manager *m, struct manager_stats *out)
{
	const struct plain *plain = plain_of(m);
	const uint32_t memory = inplace_memory(plain);
	uint64_t inplace[BACKEND_DIRECTION_NR];

	memset(out, 0, sizeof(*out));
	out->peak_bytes[plain->memory] = plain->taken_peak_bytes;
	m->backend->observe->inplace_bytes(m->backend, m->device, memory, inplace);
	for (int i = 0; i < BACKEND_DIRECTION_NR; i++)
		*manager_traffic(m, memory, (enum backend_direction)i, WEIR_CAUSE_INPLACE, out) =
			inplace[i] - plain->inplace_before[i];
}

/* ------------------------------------------------------------------ with a pool */

static int source_get(void *arg, uint64_t bytes, void **addr)
{
	return plain_get(arg, bytes, addr);
}

static void source_put(void *arg, void *addr, uint64_t bytes)
{
	plain_put(arg, addr, bytes);
}

int plain_pooled_create(const struct manager_ops *ops, const struct manager_config *config,
			enum plain_where where, struct manager **out)
{
	struct plain *plain = calloc(1, sizeof(*plain));
	struct pool_source source = {.get = source_get, .put = source_put, .arg = plain};
	int err;

	if (!plain)
		return -ENOMEM;
	err = plain_init(plain, ops, config, where);
	if (err)
		goto err_free;
	err = pool_create(&source, &plain->pool);
	if (err)
		goto err_fini;
	*out = &plain->manager;
	return 0;

err_fini:
	plain_fini(plain);
err_free:
	free(plain);
	return err;
}

void plain_pooled_destroy(struct manager *m)
{
	struct plain *plain = plain_of(m);

	if (!m)
		return;
	/* Queued kernels may still use what goes back, and an error of theirs has nobody left to
	 * hear it. */
	(void)plain_sync(m);
	pool_destroy(plain->pool);
	plain_fini(plain);
	free(plain);
}

int plain_pooled_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	(void)name;
	return pool_alloc(plain_of(m)->pool, bytes, addr);
}

void plain_pooled_free(struct manager *m, void *addr)
{
	/* Reuse follows in stream order, so queued work is no obstacle. */
	(void)pool_free(plain_of(m)->pool, addr);
}

int plain_pooled_check(struct manager *m)
{
	const struct plain *plain = plain_of(m);
	struct pool_stats stats;
	int err;

	err = pool_check(plain->pool);
	if (err)
		return err;
	pool_stats(plain->pool, &stats);
	if (stats.reserved_bytes != plain->taken_bytes || plain->taken_bytes > plain->budget_bytes)
		return -EUCLEAN;
	return 0;
}
