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
#include "src/cost/cost.h"
#include "src/backend/machine.h"

static struct plain *plain_of(struct manager *m)
{
	return (struct plain *)m;
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

int plain_init(struct plain *plain, const struct manager_ops *ops,
	       const struct manager_config *config, enum weir_memory_kind kind)
{
	struct backend *b = machine_backend(config->machine);
	const struct weir_machine_desc *desc = &b->desc;
	uint64_t budget_bytes;
	uint32_t memory;
	int err;

	if (config->device >= desc->nr_devices || (config->options && config->options[0]))
		return -EINVAL;
	memory = desc->device[config->device].memory;
	if (kind == WEIR_MEMORY_HOST) {
		err = host_memory(desc, config->device, &memory);
		if (err)
			return err;
	}
	budget_bytes =
		kind == WEIR_MEMORY_HOST ? config->host_budget_bytes : config->gpu_budget_bytes;
	err = backend_budget(b, memory, &budget_bytes);
	if (err)
		return err;

	memset(plain, 0, sizeof(*plain));
	plain->manager.ops = ops;
	plain->manager.backend = b;
	plain->manager.device = config->device;
	plain->memory = memory;
	plain->budget_bytes = budget_bytes;
	b->observe->inplace_bytes(b, plain->manager.device, cost_host_memory(&b->desc),
				  plain->inplace_before);
	return b->ops->stream_create(b, plain->manager.device, BACKEND_COMPUTE, &plain->stream);
}

void plain_fini(struct plain *plain)
{
	struct backend *b = plain->manager.backend;

	b->ops->stream_destroy(b, plain->stream);
}

int plain_get(struct plain *plain, uint64_t bytes, void **addr)
{
	struct backend *b = plain->manager.backend;
	int err;

	if (bytes > plain->budget_bytes - plain->taken_bytes)
		return -ENOMEM;
	err = b->ops->device_alloc(b, plain->memory, bytes, addr);
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
	return m->backend->ops->fence_wait(m->backend, fence);
}

void plain_stats(struct manager *m, struct manager_stats *out)
{
	const struct plain *plain = plain_of(m);
	uint64_t inplace[BACKEND_DIRECTION_NR];

	memset(out, 0, sizeof(*out));
	out->peak_bytes[plain->memory] = plain->taken_peak_bytes;
	m->backend->observe->inplace_bytes(m->backend, plain->manager.device,
					   cost_host_memory(&m->backend->desc), inplace);
	for (int i = 0; i < BACKEND_DIRECTION_NR; i++)
		out->bytes[i][WEIR_CAUSE_INPLACE] = inplace[i] - plain->inplace_before[i];
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
			enum weir_memory_kind kind, struct manager **out)
{
	struct plain *plain = calloc(1, sizeof(*plain));
	struct pool_source source = {.get = source_get, .put = source_put, .arg = plain};
	int err;

	if (!plain)
		return -ENOMEM;
	err = plain_init(plain, ops, config, kind);
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
