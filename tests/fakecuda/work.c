/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operations do and what they may touch: copies and fills through the fake's own view of
 * memory, kernels at the real addresses. And races: two operations are compared when the first of
 * them starts, by the bytes that they touch and by whether streams and events order them.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakecuda/fake.h"

struct op *op_create(enum op_kind kind, size_t nr_touches)
{
	struct op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->kind = kind;
	op->nr_touches = nr_touches;
	op->touch = calloc(nr_touches + 1, sizeof(*op->touch));
	if (op->touch)
		return op;
	free(op);
	return NULL;
}

struct op *op_copy(const struct op *op)
{
	struct op *copy = op_create(op->kind, op->nr_touches);

	if (!copy)
		return NULL;
	memcpy(copy->touch, op->touch, op->nr_touches * sizeof(*op->touch));
	copy->word = op->word;
	copy->word_bytes = op->word_bytes;
	copy->kernel = op->kernel;
	copy->fn = op->fn;
	copy->find = op->find;
	copy->args_bytes = op->args_bytes;
	copy->args = malloc(op->args_bytes + 1);
	if (!copy->args) {
		op_free(copy);
		return NULL;
	}
	if (op->args_bytes)
		memcpy(copy->args, op->args, op->args_bytes);
	return copy;
}

void record_put(struct record *record)
{
	if (record && !--record->refs)
		free(record);
}

void op_free(struct op *op)
{
	record_put(op->record);
	free(op->spans.at);
	free(op->touch);
	free(op->args);
	free(op);
}

void problem_note(const char *format, ...)
{
	va_list list;

	if (fake.problem[0])
		return;
	va_start(list, format);
	vsnprintf(fake.problem, sizeof(fake.problem), format, list);
	va_end(list);
}

const char *op_name(const struct op *op)
{
	switch (op->kind) {
	case OP_KERNEL:
		return "kernel";
	case OP_FILL:
		return "fill";
	case OP_ALLOC:
		return "stream-ordered allocation";
	case OP_FREE:
		return "stream-ordered free";
	default:
		return "copy";
	}
}

/* ------------------------------------------------------------------ where touches lie */

bool addr_is_program(uint64_t addr)
{
	size_t at = ranges_after(&fake.mappings, addr);
	const struct mapping *before = at ? (struct mapping *)fake.mappings.at[at - 1] : NULL;

	/* The pages of an allocation may go on behind it. */
	if (before && before->range.addr + before->piece->bytes > addr)
		return false;
	return !mapping_find(addr) && !ranges_find(&fake.reservations, addr);
}

/* Whether pages of the program are there at all; a copy of what is not is no reason to die. */
static bool pages_exist(uint64_t addr, uint64_t bytes)
{
	uint64_t page = page_up(1), begin = addr / page * page, end = page_up(addr + bytes);
	unsigned char seen[64];

	for (; begin < end; begin += page * sizeof(seen)) {
		uint64_t piece = page * sizeof(seen);

		if (mincore((void *)(uintptr_t)begin, end - begin < piece ? end - begin : piece,
			    seen))
			return false;
	}
	return true;
}

static void spans_add(struct spans *spans, struct span span)
{
	if (spans->nr == spans->max) {
		size_t max = spans->max ? 2 * spans->max : 16;
		struct span *grown = realloc(spans->at, max * sizeof(*grown));

		if (!grown)
			fake_panic("no memory");
		spans->at = grown;
		spans->max = max;
	}
	spans->at[spans->nr++] = span;
}

/* Plain memory of another device takes part in copies, not in kernels. */
bool access_allows(const struct mapping *mapping, const struct op *op, bool write)
{
	int need = write ? CU_ACCESS_READWRITE : CU_ACCESS_READ;

	if (mapping_is_plain(mapping) && op->kind != OP_KERNEL)
		return true;
	return (mapping->device[op->device] & need) == need;
}

/* The touch of a copy that begins in program memory. */
static bool program_resolve(const struct touch *touch, bool lenient, struct spans *spans)
{
	size_t at = ranges_after(&fake.mappings, touch->addr);
	bool meets =
		at < fake.mappings.nr && fake.mappings.at[at]->addr < touch->addr + touch->bytes;

	if (!lenient && (meets || !pages_exist(touch->addr, touch->bytes)))
		return false;
	spans_add(spans, (struct span){.begin = touch->addr,
				       .bytes = touch->bytes,
				       .data = (char *)(uintptr_t)touch->addr,
				       .write = touch->write});
	return true;
}

bool touch_resolve(const struct op *op, const struct touch *touch, bool lenient,
		   struct spans *spans)
{
	uint64_t addr = touch->addr, end = touch->addr + touch->bytes;

	if (end < addr)
		return lenient;
	if (op->kind == OP_COPY && addr_is_program(addr))
		return program_resolve(touch, lenient, spans);
	while (addr < end) {
		size_t at = ranges_after(&fake.mappings, addr);
		const struct mapping *mapping = NULL;
		uint64_t offset, bytes;

		if (at < fake.mappings.nr)
			mapping = (const struct mapping *)fake.mappings.at[at];
		if (!mapping || mapping->range.addr >= end)
			return lenient;
		if (!lenient &&
		    (mapping->range.addr > addr || !access_allows(mapping, op, touch->write)))
			return false;
		if (mapping->range.addr > addr)
			addr = mapping->range.addr;
		offset = addr - mapping->range.addr;
		bytes = mapping->range.bytes - offset;
		if (bytes > end - addr)
			bytes = end - addr;
		spans_add(spans, (struct span){.piece = mapping->piece,
					       .begin = offset,
					       .bytes = bytes,
					       .data = mapping->piece->shadow + offset,
					       .write = touch->write});
		addr += bytes;
	}
	return true;
}

void op_touch(struct op *op, uint64_t addr, uint64_t bytes, bool write)
{
	struct touch *touch = realloc(op->touch, (op->nr_touches + 2) * sizeof(*touch));

	if (!touch)
		fake_panic("no memory");
	op->touch = touch;
	if (bytes)
		touch[op->nr_touches++] = (struct touch){addr, bytes, write};
}

bool op_read(const struct op *op, uint64_t addr, void *out, uint64_t bytes)
{
	const struct touch touch = {addr, bytes, false};
	struct spans spans = {0};
	bool there = touch_resolve(op, &touch, false, &spans);
	size_t at = 0;

	for (size_t i = 0; there && i < spans.nr; i++) {
		memcpy((char *)out + at, spans.at[i].data, spans.at[i].bytes);
		at += spans.at[i].bytes;
	}
	free(spans.at);
	return there;
}

static bool op_resolve(const struct op *op, bool lenient, struct spans *spans)
{
	for (size_t i = 0; i < op->nr_touches; i++) {
		if (touch_resolve(op, &op->touch[i], lenient, spans))
			continue;
		problem_note("device %d: a %s must not %s %llu bytes at %#llx", op->device,
			     op_name(op), op->touch[i].write ? "write" : "read",
			     (unsigned long long)op->touch[i].bytes,
			     (unsigned long long)op->touch[i].addr);
		return false;
	}
	return true;
}

/* ------------------------------------------------------------------ races */

static int span_compare(const void *left, const void *right)
{
	const struct span *a = left, *b = right;

	if (a->piece != b->piece)
		return (uintptr_t)a->piece < (uintptr_t)b->piece ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return 0;
}

/* Whether two spans of different owners meet and one writes. Sorts them. */
static bool spans_conflict(struct span *span, size_t nr)
{
	uint64_t end[2][2]; /* how far owner's spans, and those that write, reach in this piece */

	qsort(span, nr, sizeof(*span), span_compare);
	for (size_t i = 0; i < nr; i++) {
		const struct span *s = &span[i];

		if (!i || s->piece != span[i - 1].piece)
			memset(end, 0, sizeof(end));
		if (s->begin < end[!s->owner][!s->write])
			return true;
		/* end[owner][0]: all, met by what writes; [1]: writing, met by what reads. */
		for (int writing = s->write; writing >= 0; writing--)
			if (end[s->owner][writing] < s->begin + s->bytes)
				end[s->owner][writing] = s->begin + s->bytes;
	}
	return false;
}

static bool ops_conflict(const struct op *a, const struct op *b)
{
	struct spans both = {0};
	bool conflict;
	size_t nr;

	for (size_t i = 0; i < a->spans.nr; i++)
		spans_add(&both, a->spans.at[i]);
	nr = both.nr;
	if (b->started)
		for (size_t i = 0; i < b->spans.nr; i++)
			spans_add(&both, b->spans.at[i]);
	else
		op_resolve(b, true, &both);
	for (size_t i = 0; i < both.nr; i++)
		both.at[i].owner = i >= nr;
	conflict = both.nr && spans_conflict(both.at, both.nr);
	free(both.at);
	return conflict;
}

/* Whether a, which starts, and b, of another stream, can meet and have not been compared yet. */
static bool ops_unordered(const struct op *a, unsigned a_slot, const struct op *b)
{
	if (!b->nr_touches || (a->kind == OP_KERNEL && b->kind == OP_KERNEL))
		return false;
	if (fake.config.copies_beside && (a->kind == OP_KERNEL || b->kind == OP_KERNEL))
		return false;
	/* What it finds that it touches was not known before. */
	if (b->started)
		return a->find || a->stamp > b->started;
	return b->clock.at[a_slot] < a->seq;
}

static void races_check(const struct stream *stream, const struct op *op)
{
	for (int i = 0; i < STREAMS_MAX; i++) {
		const struct stream *other = fake.slot[i];

		if (!other || other == stream || stream_is_dead(other))
			continue;
		for (const struct op *o = other->first; o; o = o->next) {
			if (!ops_unordered(op, stream->slot, o) || !ops_conflict(op, o))
				continue;
			fake.nr_races++;
			problem_note("race: a %s on stream %#llx (%s %llu bytes at %#llx) and a %s "
				     "on stream %#llx (%s %llu bytes at %#llx)",
				     op_name(op), (unsigned long long)stream->number,
				     op->kernel ? op->kernel->name : "",
				     (unsigned long long)op->touch[0].bytes,
				     (unsigned long long)op->touch[0].addr, op_name(o),
				     (unsigned long long)other->number,
				     o->kernel ? o->kernel->name : "",
				     (unsigned long long)o->touch[0].bytes,
				     (unsigned long long)o->touch[0].addr);
		}
	}
}

/* Copies of one batch have no order: what one writes, none of them may touch. */
static void batch_check(const struct op *op)
{
	struct spans all = {0};
	const struct span *last = NULL;
	bool conflict;

	for (size_t i = 0; i < op->spans.nr; i++) {
		spans_add(&all, op->spans.at[i]);
		all.at[i].owner = op->spans.at[i].write;
	}
	conflict = all.nr && spans_conflict(all.at, all.nr);
	/* Writes against reads, that was, and sorted them; now writes against writes. */
	for (size_t i = 0; !conflict && i < all.nr; i++) {
		const struct span *s = &all.at[i];

		if (!s->write)
			continue;
		conflict = last && last->piece == s->piece && last->begin + last->bytes > s->begin;
		last = s;
	}
	free(all.at);
	if (!conflict)
		return;
	fake.nr_races++;
	problem_note(
		"race: copies of one call depend on each other (%zu copies, the last to %#llx)",
		op->nr_touches / 2, (unsigned long long)op->touch[0].addr);
}

/* ------------------------------------------------------------------ doing it */

static void copies_do(const struct op *op)
{
	const struct span *span = op->spans.at;
	size_t dst = 0;

	for (size_t i = 0; i + 1 < op->nr_touches; i += 2) {
		uint64_t left = op->touch[i].bytes, dst_at = 0, src_at = 0;
		size_t src = dst;

		/* The reading spans begin where the writing ones end. */
		for (uint64_t bytes = 0; bytes < left; src++)
			bytes += span[src].bytes;
		while (left) {
			uint64_t bytes = span[dst].bytes - dst_at;

			if (bytes > span[src].bytes - src_at)
				bytes = span[src].bytes - src_at;
			memmove(span[dst].data + dst_at, span[src].data + src_at, bytes);
			left -= bytes;
			dst_at += bytes;
			src_at += bytes;
			if (left && dst_at == span[dst].bytes) {
				dst++;
				dst_at = 0;
			}
			if (src_at == span[src].bytes) {
				src++;
				src_at = 0;
			}
		}
		dst = src;
	}
}

static void fill_do(const struct op *op)
{
	for (size_t i = 0; i < op->spans.nr; i++)
		for (uint64_t at = 0; at < op->spans.at[i].bytes; at += op->word_bytes)
			memcpy(op->spans.at[i].data + at, &op->word, op->word_bytes);
}

static void work_do(const struct op *op)
{
	switch (op->kind) {
	case OP_COPY:
		copies_do(op);
		break;
	case OP_FILL:
		fill_do(op);
		break;
	case OP_KERNEL:
		op->fn(op->args);
		break;
	default:
		break;
	}
}

/* A kernel begins, or has ended: let the CPU reach what it names, or no longer. */
static void touches_update(const struct op *op)
{
	if (op->kind != OP_KERNEL)
		return;
	for (size_t i = 0; i < op->nr_touches; i++)
		pages_update(op->touch[i].addr, op->touch[i].bytes);
	graves_close();
}

void op_run(struct stream *stream, struct op *op)
{
	if (!op->nr_touches && op->kind != OP_KERNEL)
		return;
	op->started = ++fake.stamp;
	if (op->find)
		op->find(op);
	if (!op_resolve(op, false, &op->spans)) {
		context_break(op->context, CU_ILLEGAL_ADDRESS);
		return;
	}
	races_check(stream, op);
	if (op->kind == OP_ALLOC || op->kind == OP_FREE)
		return;
	if (op->kind == OP_COPY)
		batch_check(op);
	stream->running = op;
	for (size_t i = 0; i < op->spans.nr; i++)
		if (op->spans.at[i].piece)
			piece_get(op->spans.at[i].piece);
	touches_update(op);
	pthread_mutex_unlock(&fake.lock);
	work_do(op);
	pthread_mutex_lock(&fake.lock);
	stream->running = NULL;
	touches_update(op);
	for (size_t i = 0; i < op->spans.nr; i++)
		if (op->spans.at[i].piece)
			piece_put(op->spans.at[i].piece);
	if (op->disturbed)
		context_break(op->context, CU_ILLEGAL_ADDRESS);
}
