/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointers in memory that kernels follow, as far as every mode of `weir run` promises that they
 * may: arrays and lists that the program copied there, or copied on from there; those that kernels
 * stored in small buffers, before the first launch that follows them; a variable of the module.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/dropin/random/random.h"

#define NODE_BYTES 16u

static uint64_t target_addr(const struct array *array, unsigned i)
{
	return i < array->nr ? array->target[i].buffer->addr + array->target[i].off : 0;
}

void arrays_drop(struct thread *t, const struct buffer *buffer)
{
	for (unsigned a = 0; a < ARRAYS; a++) {
		struct array *array = &t->array[a];
		bool leads = array->at == buffer;

		for (unsigned i = 0; array->at && i < array->nr; i++)
			leads |= array->target[i].buffer == buffer;
		if (leads)
			array->at = NULL;
	}
}

static void free_by_pointer(struct thread *t, const struct buffer *buffer)
{
	for (unsigned n = 0; n < t->nr_buffers; n++)
		if (t->buffer[n] == buffer) {
			buffer_free(t, n);
			return;
		}
}

/* A place for another array; NULL: graphs use them all. */
static struct array *array_place(struct thread *t)
{
	struct array *array = &t->array[below(t, ARRAYS)];

	if (!array->at)
		return array;
	if (array->at->pins)
		return NULL;
	free_by_pointer(t, array->at);
	return array;
}

/* ------------------------------------------------------------------ making */

/* Addresses of words anywhere; stride: or of words in a row, in one buffer. */
static bool draw_targets(struct thread *t, struct array *array, uint64_t *stride)
{
	struct buffer *buffer = buffer_any(t, NULL);
	size_t words = buffer ? buffer->bytes / 4 : 0, step, first;

	array->nr = 1 + (unsigned)below(t, POINTERS);
	if (!buffer)
		return false;
	step = words / array->nr;
	first = below(t, words - (array->nr - 1) * step);
	for (unsigned i = 0; i < array->nr; i++) {
		if (stride) {
			array->target[i].buffer = buffer;
			array->target[i].off = (first + i * step) * 4;
			continue;
		}
		array->target[i].buffer = buffer_any(t, NULL);
		array->target[i].off = below(t, array->target[i].buffer->bytes / 4) * 4;
	}
	if (stride)
		*stride = step * 4;
	return true;
}

static void copy_array(struct thread *t, struct array *array)
{
	uint64_t addr[POINTERS];

	for (unsigned i = 0; i < array->nr; i++)
		addr[i] = target_addr(array, i);
	buffer_write(t, array->at, array->off, addr, array->nr * sizeof(addr[0]));
	array->shown = true;
}

static void store_addresses(struct thread *t, struct buffer *at, size_t off, uint64_t base,
			    uint64_t stride, unsigned nr)
{
	struct step step = {.what = STEP_ADDRESSES, .base = base, .stride = stride, .nr = nr};

	step.dst = (struct region){at, off, nr * sizeof(uint64_t)};
	step_do(t, &step, stream_any(t));
}

/* An array of addresses in a buffer of its own. */
static void plain_array(struct thread *t, struct array *array)
{
	const bool stored = chance(t, 40);
	uint64_t stride = 0;
	size_t bytes = POINTERS * 8 + below(t, SMALL_BYTES / 8 - POINTERS) * 8;

	if (!draw_targets(t, array, stored ? &stride : NULL))
		return;
	if (!stored && chance(t, 60))
		bytes = t->limit / 16 / 8 * 8;
	array->at = buffer_new(t, bytes, true);
	if (!array->at)
		return;
	array->off = below(t, (bytes - array->nr * sizeof(uint64_t)) / 8 + 1) * 8;
	array->shown = array->list = false;
	if (stored)
		store_addresses(t, array->at, array->off, target_addr(array, 0), stride, array->nr);
	else
		copy_array(t, array);
}

/* The same in another buffer, by a copy within the device; often the first one is gone then. from:
 * may be the array itself. */
static void array_again(struct thread *t, const struct array *from, struct array *array)
{
	static const enum what ways[] = {STEP_ON, STEP_UNIFIED, STEP_PEER};
	const size_t bytes = from->nr * sizeof(uint64_t);
	struct step step = {.what = ways[below(t, 3)], .sync = chance(t, 30)};
	struct buffer *old = from->at;

	step.src = (struct region){old, from->off, bytes};
	if (array != from)
		*array = *from;
	array->at = NULL;
	array->at = buffer_new(t, chance(t, 60) ? t->limit / 16 / 8 * 8 : SMALL_BYTES, true);
	if (!array->at)
		return;
	array->off = below(t, (array->at->bytes - bytes) / 8 + 1) * 8;
	step.dst = (struct region){array->at, array->off, bytes};
	step_do(t, &step, stream_any(t));
	if (chance(t, 60))
		free_by_pointer(t, old);
}

/* A list in one small buffer, its nodes in a mixed order. */
static void plain_list(struct thread *t, struct array *array)
{
	const bool stored = chance(t, 50);
	uint64_t nodes[2 * POINTERS] = {0};

	array->at = buffer_new(t, SMALL_BYTES, true);
	if (!array->at)
		return;
	array->off = below(t, 20) * NODE_BYTES;
	array->list = array->shown = true;
	array->nr = 2 + (unsigned)below(t, POINTERS - 1);
	array->sum = 0;
	for (unsigned i = 0; i < array->nr; i++) {
		array->target[i].buffer = array->at;
		array->target[i].off = array->off + (i * 7 + 3) % array->nr * NODE_BYTES;
		if (array->nr % 7 == 0)
			array->target[i].off = array->off + i * NODE_BYTES;
	}
	for (unsigned i = 0; i < array->nr; i++) {
		const size_t off = array->target[i].off;
		struct step step = {.what = STEP_FILL, .value = draw(t), .nr = 2};

		array->sum += (uint32_t)step.value;
		nodes[(off - array->off) / 8] = target_addr(array, i + 1);
		nodes[(off - array->off) / 8 + 1] = (uint32_t)step.value;
		if (!stored)
			continue;
		step.dst = (struct region){array->at, off + 8, 8};
		step_do(t, &step, stream_any(t));
		store_addresses(t, array->at, off, target_addr(array, i + 1), 0, 1);
	}
	array->shown = !stored;
	if (!stored)
		buffer_write(t, array->at, array->off, nodes, array->nr * NODE_BYTES);
}

void array_make(struct thread *t)
{
	struct array *array = array_place(t);
	const struct array *from = &t->array[below(t, ARRAYS)];

	if (!array)
		return;
	if (from->at && !from->list && from != array && chance(t, 50))
		array_again(t, from, array);
	else if (chance(t, 30))
		plain_list(t, array);
	else
		plain_array(t, array);
	if (array->at && !array->list && chance(t, 40))
		array_again(t, array, array);
}

/* ------------------------------------------------------------------ following */

/* A buffer that none of the addresses leads to. */
static struct buffer *draw_dst(struct thread *t, const struct array *array)
{
	for (unsigned tries = 0; tries < 8; tries++) {
		struct buffer *buffer = buffer_any(t, NULL);
		bool leads = !buffer;

		for (unsigned i = 0; i < array->nr; i++)
			leads |= array->target[i].buffer == buffer;
		if (!leads && buffer->bytes >= 4ul * array->nr)
			return buffer;
	}
	return NULL;
}

bool array_draw(struct thread *t, struct step *step)
{
	const struct array *array = &t->array[below(t, ARRAYS)];
	struct buffer *dst = array->at ? draw_dst(t, array) : NULL;
	size_t words;

	if (!dst)
		return false;
	*step = (struct step){.what = array->list ? STEP_LIST : STEP_GATHER,
			      .way = (unsigned)below(t, 3),
			      .nr = array->nr,
			      .array = array};
	words = array->list ? 1 : array->nr;
	step->dst = (struct region){dst, below(t, dst->bytes / 4 - words + 1) * 4, words * 4};
	return true;
}

/* ------------------------------------------------------------------ the variable; lists */

void table_do(struct thread *t)
{
	struct buffer *dst = buffer_any(t, NULL), *src = dst ? buffer_any(t, dst) : NULL;
	struct step step = {.what = STEP_TABLE};
	uint64_t addr;

	if (!src)
		return;
	step.src = (struct region){src, below(t, src->bytes / 4) * 4, 0};
	step.nr = 1 + below(t, (src->bytes - step.src.off) / 4);
	if (step.nr > dst->bytes / 4)
		step.nr = dst->bytes / 4;
	step.dst = (struct region){dst, 0, step.nr * 4};
	step.src.bytes = step.nr * 4;
	addr = src->addr + step.src.off;
	buffer_write(t, &t->table, 0, &addr, sizeof(addr));
	step_do(t, &step, stream_any(t));
}

/* Nodes are written into buffers that are used for other things, too, and are gone soon. */
void list_do(struct thread *t)
{
	struct step step = {.what = STEP_LIST, .nr = POINTERS};
	struct array array = {.list = true};
	struct buffer *dst = buffer_any(t, NULL);

	for (unsigned n = 0; n < t->nr_buffers && array.nr < POINTERS; n++) {
		struct buffer *buffer = t->buffer[n];
		const size_t places = buffer->bytes / NODE_BYTES;

		if (buffer == dst || buffer->pointers || !places)
			continue;
		array.target[array.nr].buffer = buffer;
		array.target[array.nr++].off = below(t, places) * NODE_BYTES;
	}
	if (!dst || array.nr < 2)
		return;
	for (unsigned i = 0; i < array.nr; i++) {
		const uint64_t node[2] = {target_addr(&array, i + 1), (uint32_t)draw(t)};

		array.sum += (uint32_t)node[1];
		buffer_write(t, array.target[i].buffer, array.target[i].off, node, sizeof(node));
	}
	step.array = &array;
	step.dst = (struct region){dst, below(t, dst->bytes / 4) * 4, 4};
	step_do(t, &step, stream_any(t));
}
