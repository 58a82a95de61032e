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

void *tensors_any(const struct tensors *t)
{
	/* The tree's root node begins with the pointer to its tensor. */
	return t->tree ? (void *)(uintptr_t)(*(struct tensor **)t->tree)->addr : NULL;
}

static void tally(const void *node, VISIT visit, void *sum)
{
	if (visit == postorder || visit == leaf)
		*(uint64_t *)sum += (*(struct tensor *const *)node)->bytes;
}

int tensors_check(const struct tensors *t)
{
	uint64_t sum = 0;

	twalk_r(t->tree, tally, &sum);
	return sum == t->bytes ? 0 : -EUCLEAN;
}
