/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that unmodified programs find here: see fakecuda.h for what each does. Words are
 * uint32_t. What a kernel reaches through memory is looked up as it starts, so that an address in
 * an array, in a list or in a variable is checked like one among the parameters.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "tests/fakecuda/fake.h"

#define WORD sizeof(uint32_t)

/* An array of addresses in an operation's memory; NULL: it may not read it. The caller frees it. */
static uint64_t *addresses_read(const struct op *op, uint64_t addr, uint64_t nr)
{
	uint64_t *out = malloc(nr * sizeof(*out) + 1);

	if (!out)
		fake_panic("no memory");
	if (op_read(op, addr, out, nr * sizeof(*out)))
		return out;
	free(out);
	return NULL;
}

/* ------------------------------------------------------------------ arrays */

struct fill_args {
	uint32_t *dst;
	uint64_t nr;
	uint32_t value;
};

static void fill_run(const void *args)
{
	const struct fill_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		a->dst[i] = a->value;
}

static void fill_touch(struct op *op)
{
	const struct fill_args *a = op->args;

	op_touch(op, (uintptr_t)a->dst, a->nr * WORD, true);
}

struct copy_args {
	uint32_t *dst;
	const uint32_t *src;
	uint64_t nr;
};

static void copy_run(const void *args)
{
	const struct copy_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		a->dst[i] = a->src[i];
}

static void copy_touch(struct op *op)
{
	const struct copy_args *a = op->args;

	op_touch(op, (uintptr_t)a->dst, a->nr * WORD, true);
	op_touch(op, (uintptr_t)a->src, a->nr * WORD, false);
}

struct add_args {
	uint32_t *dst;
	const uint32_t *a, *b;
	uint64_t nr;
};

static void add_run(const void *args)
{
	const struct add_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		a->dst[i] = a->a[i] + a->b[i];
}

static void add_touch(struct op *op)
{
	const struct add_args *a = op->args;

	op_touch(op, (uintptr_t)a->dst, a->nr * WORD, true);
	op_touch(op, (uintptr_t)a->a, a->nr * WORD, false);
	op_touch(op, (uintptr_t)a->b, a->nr * WORD, false);
}

struct scale_args {
	float *x;
	uint64_t nr;
	float factor;
};

static void scale_run(const void *args)
{
	const struct scale_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		a->x[i] *= a->factor;
}

static void scale_touch(struct op *op)
{
	const struct scale_args *a = op->args;

	op_touch(op, (uintptr_t)a->x, a->nr * sizeof(*a->x), true);
}

static void sum_run(const void *args)
{
	const struct copy_args *a = args;
	uint32_t sum = 0;

	for (uint64_t i = 0; i < a->nr; i++)
		sum += a->src[i];
	*a->dst = sum;
}

static void sum_touch(struct op *op)
{
	const struct copy_args *a = op->args;

	op_touch(op, (uintptr_t)a->dst, WORD, true);
	op_touch(op, (uintptr_t)a->src, a->nr * WORD, false);
}

/* ------------------------------------------------------------------ hidden addresses */

struct gather_args {
	uint32_t *dst;
	const uint32_t *const *from;
	uint64_t nr;
};

static void gather_run(const void *args)
{
	const struct gather_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		a->dst[i] = *a->from[i];
}

static void gather_touch(struct op *op)
{
	const struct gather_args *a = op->args;

	op_touch(op, (uintptr_t)a->dst, a->nr * WORD, true);
	op_touch(op, (uintptr_t)a->from, a->nr * sizeof(*a->from), false);
}

static void gather_find(struct op *op)
{
	const struct gather_args *a = op->args;
	uint64_t *from = addresses_read(op, (uintptr_t)a->from, a->nr);

	for (uint64_t i = 0; from && i < a->nr; i++)
		op_touch(op, from[i], WORD, false);
	free(from);
}

struct node {
	const struct node *next;
	uint64_t value;
};

struct list_args {
	uint32_t *out;
	const struct node *first;
	uint64_t nr; /* of nodes, at most */
};

static void list_run(const void *args)
{
	const struct list_args *a = args;
	const struct node *node = a->first;
	uint32_t sum = 0;

	for (uint64_t i = 0; node && i < a->nr; i++, node = node->next)
		sum += (uint32_t)node->value;
	*a->out = sum;
}

static void list_touch(struct op *op)
{
	const struct list_args *a = op->args;

	op_touch(op, (uintptr_t)a->out, WORD, true);
}

static void list_find(struct op *op)
{
	const struct list_args *a = op->args;
	struct node node = {.next = a->first};

	for (uint64_t i = 0; node.next && i < a->nr; i++) {
		op_touch(op, (uintptr_t)node.next, sizeof(node), false);
		if (!op_read(op, (uintptr_t)node.next, &node, sizeof(node)))
			return;
	}
}

struct table_args {
	uint32_t *dst;
	uint64_t nr;
	const uint32_t *const *table; /* the variable */
};

static void table_run(const void *args)
{
	const struct table_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		a->dst[i] = (*a->table)[i];
}

static void table_touch(struct op *op)
{
	const struct table_args *a = op->args;

	op_touch(op, (uintptr_t)a->dst, a->nr * WORD, true);
	op_touch(op, (uintptr_t)a->table, sizeof(*a->table), false);
}

static void table_find(struct op *op)
{
	const struct table_args *a = op->args;
	uint64_t table;

	if (op_read(op, (uintptr_t)a->table, &table, sizeof(table)))
		op_touch(op, table, a->nr * WORD, false);
}

struct addresses_args {
	uint64_t *dst;
	uint64_t base, stride, nr;
};

static void addresses_run(const void *args)
{
	const struct addresses_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		a->dst[i] = a->base + i * a->stride;
}

static void addresses_touch(struct op *op)
{
	const struct addresses_args *a = op->args;

	op_touch(op, (uintptr_t)a->dst, a->nr * sizeof(*a->dst), true);
}

/* ------------------------------------------------------------------ flags */

struct flag_args {
	uint32_t *flag;
	uint32_t value;
};

static void wait_run(const void *args)
{
	const struct flag_args *a = args;

	for (unsigned tries = 0; __atomic_load_n(a->flag, __ATOMIC_ACQUIRE) != a->value; tries++)
		fake_wait(tries);
}

static void wait_touch(struct op *op)
{
	const struct flag_args *a = op->args;

	op_touch(op, (uintptr_t)a->flag, WORD, false);
}

static void store_run(const void *args)
{
	const struct flag_args *a = args;

	__atomic_store_n(a->flag, a->value, __ATOMIC_RELEASE);
}

static void store_touch(struct op *op)
{
	const struct flag_args *a = op->args;

	op_touch(op, (uintptr_t)a->flag, WORD, true);
}

/* ------------------------------------------------------------------ all of them */

static const struct kernel kernels[] = {
	{"fill", 3, {8, 8, 4}, NULL, fill_run, fill_touch, NULL},
	{"copy", 3, {8, 8, 8}, NULL, copy_run, copy_touch, NULL},
	{"add", 4, {8, 8, 8, 8}, NULL, add_run, add_touch, NULL},
	{"scale", 3, {8, 8, 4}, NULL, scale_run, scale_touch, NULL},
	{"sum", 3, {8, 8, 8}, NULL, sum_run, sum_touch, NULL},
	{"gather", 3, {8, 8, 8}, NULL, gather_run, gather_touch, gather_find},
	{"list_sum", 3, {8, 8, 8}, NULL, list_run, list_touch, list_find},
	{"load_table", 2, {8, 8}, "table", table_run, table_touch, table_find},
	{"addresses", 4, {8, 8, 8, 8}, NULL, addresses_run, addresses_touch, NULL},
	{"wait_flag", 2, {8, 4}, NULL, wait_run, wait_touch, NULL},
	{"store_flag", 2, {8, 4}, NULL, store_run, store_touch, NULL},
};

const struct kernel *kernel_nth(unsigned n)
{
	if (n < PACKET_KERNELS)
		return &packet_kernels[n];
	if (n < LIBRARY_KERNELS)
		return &digest_kernel;
	n -= LIBRARY_KERNELS;
	if (n < TEXTURE_KERNELS)
		return &texture_kernels[n];
	n -= TEXTURE_KERNELS;
	return n < ARRAY_LEN(kernels) ? &kernels[n] : NULL;
}

size_t kernel_offset(const struct kernel *kernel, unsigned parameter)
{
	size_t offset = 0;

	for (unsigned i = 0;; i++) {
		size_t bytes = i < kernel->nr_parameters ? kernel->parameter_bytes[i] : 1;
		size_t align = bytes < 8 ? bytes : 8;

		offset = (offset + align - 1) / align * align;
		if (i == parameter)
			return offset;
		offset += bytes;
	}
}
