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
#include <search.h>
#include <stdlib.h>

#include "managers/plain.h"

#define ALIGN_BYTES 512u

/* One live allocation. */
struct tensor {
	void *addr; /* first: the tree compares keys by it */
	uint64_t bytes;
};

/* Invariant: plain.taken_bytes = sum of the tensors' bytes. */
struct malloc_manager {
	struct plain plain;
	void *tensors; /* tree of struct tensor, by address (tsearch) */
};

static struct malloc_manager *malloc_of(struct manager *m)
{
	return (struct malloc_manager *)m;
}

static int compare_addr(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct tensor *)a)->addr;
	uintptr_t y = (uintptr_t)((const struct tensor *)b)->addr;

	return (x > y) - (x < y);
}

static int malloc_create(const struct manager_config *config, struct manager **out)
{
	struct malloc_manager *self = calloc(1, sizeof(*self));
	int err;

	if (!self)
		return -ENOMEM;
	err = plain_init(&self->plain, &manager_malloc, config, WEIR_MEMORY_HBM);
	if (err) {
		free(self);
		return err;
	}
	*out = &self->plain.manager;
	return 0;
}

static void tensor_delete(struct malloc_manager *self, struct tensor *tensor)
{
	tdelete(tensor, &self->tensors, compare_addr);
	plain_put(&self->plain, tensor->addr, tensor->bytes);
	free(tensor);
}

static void malloc_destroy(struct manager *m)
{
	struct malloc_manager *self = malloc_of(m);

	if (!m)
		return;
	(void)plain_sync(m); /* an error of queued work has nobody left to hear it */
	/* The tree's root node begins with the pointer to its tensor. */
	while (self->tensors)
		tensor_delete(self, *(struct tensor **)self->tensors);
	plain_fini(&self->plain);
	free(self);
}

static int malloc_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	struct malloc_manager *self = malloc_of(m);
	struct tensor *tensor;
	int err;

	(void)name;
	if (!bytes)
		return -EINVAL;
	if (bytes > UINT64_MAX - ALIGN_BYTES)
		return -ENOMEM;
	tensor = calloc(1, sizeof(*tensor));
	if (!tensor)
		return -ENOMEM;
	tensor->bytes = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
	err = plain_get(&self->plain, tensor->bytes, &tensor->addr);
	if (err)
		goto err_free;
	if (!tsearch(tensor, &self->tensors, compare_addr)) {
		err = -ENOMEM;
		goto err_put;
	}
	*addr = tensor->addr;
	return 0;

err_put:
	plain_put(&self->plain, tensor->addr, tensor->bytes);
err_free:
	free(tensor);
	return err;
}

static void malloc_free(struct manager *m, void *addr)
{
	struct malloc_manager *self = malloc_of(m);
	struct tensor key = {.addr = addr};
	void *node;

	node = addr ? tfind(&key, &self->tensors, compare_addr) : NULL;
	if (node)
		tensor_delete(self, *(struct tensor **)node);
}

static void tally(const void *node, VISIT visit, void *sum)
{
	if (visit == postorder || visit == leaf)
		*(uint64_t *)sum += (*(struct tensor *const *)node)->bytes;
}

static int malloc_check(struct manager *m)
{
	const struct malloc_manager *self = malloc_of(m);
	uint64_t sum = 0;

	twalk_r(self->tensors, tally, &sum);
	if (sum != self->plain.taken_bytes || sum > self->plain.budget_bytes)
		return -EUCLEAN;
	return 0;
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
