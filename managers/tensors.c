/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live allocations in a tree of the C library's; see tensors.h. Allocates no memory but for notes.
 */
#include "managers/tensors.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

struct tensor {
	const void *addr;
	uint64_t bytes;
};

static int compare_addr(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct tensor *)a)->addr;
	uintptr_t y = (uintptr_t)((const struct tensor *)b)->addr;

	return (x > y) - (x < y);
}

int tensors_add(struct tensors *t, void *addr, uint64_t bytes)
{
	struct tensor *tensor = malloc(sizeof(*tensor));

	if (!tensor)
		return -ENOMEM;
	*tensor = (struct tensor){addr, bytes};
	if (!tsearch(tensor, &t->tree, compare_addr)) {
		free(tensor);
		return -ENOMEM;
	}
	t->bytes += bytes;
	return 0;
}

uint64_t tensors_take(struct tensors *t, const void *addr)
{
	const struct tensor key = {.addr = addr};
	void *node = tfind(&key, &t->tree, compare_addr);
	struct tensor *tensor;
	uint64_t bytes;

	if (!node)
		return 0;
	tensor = *(struct tensor **)node;
	bytes = tensor->bytes;
	tdelete(tensor, &t->tree, compare_addr);
	free(tensor);
	t->bytes -= bytes;
	return bytes;
}

/* An address, the first one, is as what it lies in. */
static int compare_inside(const void *a, const void *b)
{
	const struct tensor *key = a, *tensor = b;
	uintptr_t x = (uintptr_t)key->addr, y = (uintptr_t)tensor->addr;

	return x < y ? -1 : x - y >= tensor->bytes;
}

uint64_t tensors_find(const struct tensors *t, const void *addr, const void **begin)
{
	const struct tensor key = {.addr = addr}, *tensor;
	void *node = tfind(&key, &t->tree, compare_inside);

	if (!node)
		return 0;
	tensor = *(struct tensor **)node;
	*begin = tensor->addr;
	return tensor->bytes;
}

void *tensors_any(const struct tensors *t)
{
	/* The tree's root node begins with the pointer to its tensor. */
	return t->tree ? (void *)(uintptr_t)(*(struct tensor **)t->tree)->addr : NULL;
}

struct visitor {
	void (*fn)(void *arg, void *addr, uint64_t bytes);
	void *arg;
};

static void visit_one(const void *node, VISIT visit, void *arg)
{
	const struct tensor *tensor = *(struct tensor *const *)node;
	const struct visitor *visitor = arg;

	if (visit == postorder || visit == leaf)
		visitor->fn(visitor->arg, (void *)(uintptr_t)tensor->addr, tensor->bytes);
}

void tensors_each(const struct tensors *t, void (*fn)(void *arg, void *addr, uint64_t bytes),
		  void *arg)
{
	struct visitor visitor = {fn, arg};

	twalk_r(t->tree, visit_one, &visitor);
}

static void tally(void *sum, void *addr, uint64_t bytes)
{
	(void)addr;
	*(uint64_t *)sum += bytes;
}

int tensors_check(const struct tensors *t)
{
	uint64_t sum = 0;

	tensors_each(t, tally, &sum);
	return sum == t->bytes ? 0 : -EUCLEAN;
}
