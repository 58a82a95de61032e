/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc: one allocation of GPU memory per tensor, given back when the tensor is freed. What a
 * program without a pool does; the cost of the two calls, and the wait for the device that freeing
 * implies, are the point of this baseline.
 *
 * The budget counts what tensors ask for, rounded up to the 512 bytes that such allocations align
 * to.
 */
#include <errno.h>
#include <stdlib.h>

#include "managers/plain.h"
#include "managers/tensors.h"
#include "src/base/util.h"

#define ALIGN_BYTES 512u

/* Invariant: plain.taken_bytes = tensors.bytes. */
struct malloc_manager {
	struct plain plain;
	struct tensors tensors;
};

static struct malloc_manager *malloc_of(struct manager *m)
{
	return (struct malloc_manager *)m;
}

static int malloc_create(const struct manager_config *config, struct manager **out)
{
	struct malloc_manager *self = calloc(1, sizeof(*self));
	int err;

	if (!self)
		return -ENOMEM;
	err = plain_init(&self->plain, &manager_malloc, config, PLAIN_OWN);
	if (err) {
		free(self);
		return err;
	}
	*out = &self->plain.manager;
	return 0;
}

static void malloc_free(struct manager *m, void *addr)
{
	struct malloc_manager *self = malloc_of(m);
	uint64_t bytes = tensors_take(&self->tensors, addr);

	if (bytes)
		plain_put(&self->plain, addr, bytes);
}

static void malloc_destroy(struct manager *m)
{
	struct malloc_manager *self = malloc_of(m);
	void *addr;

	if (!m)
		return;
	(void)plain_sync(m); /* an error of queued work has nobody left to hear it */
	while ((addr = tensors_any(&self->tensors)) != NULL)
		malloc_free(m, addr);
	plain_fini(&self->plain);
	free(self);
}

static int malloc_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	struct malloc_manager *self = malloc_of(m);
	void *got;
	int err;

	(void)name;
	if (!bytes)
		return -EINVAL;
	if (bytes > UINT64_MAX - ALIGN_BYTES)
		return -ENOMEM;
	bytes = round_up(bytes, ALIGN_BYTES);
	err = plain_get(&self->plain, bytes, &got);
	if (err)
		return err;
	err = tensors_add(&self->tensors, got, bytes);
	if (err) {
		plain_put(&self->plain, got, bytes);
		return err;
	}
	*addr = got;
	return 0;
}

static int malloc_check(struct manager *m)
{
	const struct malloc_manager *self = malloc_of(m);

	if (self->tensors.bytes != self->plain.taken_bytes ||
	    self->plain.taken_bytes > self->plain.budget_bytes)
		return -EUCLEAN;
	return tensors_check(&self->tensors);
}

const struct manager_ops manager_malloc = {
	.name = "malloc",
	.help = "one allocation of GPU memory per tensor",
	.create = malloc_create,
	.destroy = malloc_destroy,
	.alloc = malloc_alloc,
	.free = malloc_free,
	.stream = plain_stream,
	.launch = plain_launch,
	.write = plain_write,
	.read = plain_read,
	.sync = plain_sync,
	.stats = plain_stats,
	.check = malloc_check,
};
