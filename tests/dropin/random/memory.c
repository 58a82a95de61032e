/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers of a random program, and copies between them and the host. */
#include <stdlib.h>
#include <string.h>

#include "tests/dropin/random/random.h"

/* ------------------------------------------------------------------ slots */

#define SLOT_BYTES(t) ((t)->limit / 8 + 4096)

void slots_open(struct thread *t)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *slot = &t->slot[i];

		slot->pinned = i % 2;
		slot->expected = make(1, SLOT_BYTES(t));
		if (slot->pinned)
			CU(cuMemHostAlloc, (void **)&slot->at, SLOT_BYTES(t), 0);
		else
			slot->at = make(1, SLOT_BYTES(t));
	}
}

static void slot_compare(const struct slot *slot)
{
	size_t i = 0;

	while (i < slot->bytes && slot->at[i] == slot->expected[i])
		i++;
	if (i == slot->bytes)
		return;
	fail("operation %u compares buffer %u, %zu bytes at offset %zu, last written by operation "
	     "%u: byte %zu is %#x, not %#x",
	     slot->op, slot->number, slot->bytes, slot->off, slot->last, i, slot->at[i],
	     slot->expected[i]);
}

/* Its copy is done from here on. */
static void slot_end(struct thread *t, struct slot *slot)
{
	mark_sync(t, slot->mark);
	if (slot->checks)
		slot_compare(slot);
	slot->checks = false;
	slot->mark = (struct mark){0};
}

void slots_check(struct thread *t)
{
	for (unsigned i = 0; i < SLOTS; i++)
		slot_end(t, &t->slot[i]);
}

void slots_close(struct thread *t)
{
	slots_check(t);
	for (unsigned i = 0; i < SLOTS; i++) {
		if (t->slot[i].pinned)
			CU(cuMemFreeHost, t->slot[i].at);
		else
			free(t->slot[i].at);
		free(t->slot[i].expected);
	}
}

static struct slot *slot_take(struct thread *t)
{
	struct slot *slot = &t->slot[below(t, SLOTS)];

	slot_end(t, slot);
	return slot;
}

/* ------------------------------------------------------------------ copies from and to the host */

/* By any call that copies from the host. s: STREAMS for one that takes no stream. */
static void copy_in(struct thread *t, CUdeviceptr dst, const void *src, size_t bytes, unsigned s)
{
	const CUdeviceptr from = (uintptr_t)src;
	const bool unified = chance(t, 40);

	if (s == STREAMS && unified)
		CU(cuMemcpy, dst, from, bytes);
	else if (s == STREAMS)
		CU(cuMemcpyHtoD, dst, src, bytes);
	else if (unified)
		CU(cuMemcpyAsync, dst, from, bytes, t->stream[s].native);
	else
		CU(cuMemcpyHtoDAsync, dst, src, bytes, t->stream[s].native);
}

void buffer_write(struct thread *t, struct buffer *buffer, size_t off, const void *from,
		  size_t bytes)
{
	struct slot *slot = slot_take(t);
	unsigned s = chance(t, 30) ? STREAMS : stream_any(t);
	const unsigned on = s == STREAMS ? 0 : s;

	if (from)
		memcpy(slot->at, from, bytes);
	for (size_t i = 0; !from && i < bytes; i++)
		slot->at[i] = (unsigned char)(i % 8 ? slot->at[i - 1] * 5 + i : draw(t));
	say("buffer %u: %zu bytes to %zu from the host, on %u%s", buffer->number, bytes, off, on,
	    s == on ? "" : ", waiting");
	use(t, buffer, off, bytes, true);
	uses_wait(t, on);
	copy_in(t, buffer->addr + off, slot->at, bytes, s);
	slot->mark = uses_end(t, on);
	memcpy(buffer->shadow + off, slot->at, bytes);
}

static void copy_out(struct thread *t, void *dst, CUdeviceptr src, size_t bytes, unsigned s)
{
	const CUdeviceptr to = (uintptr_t)dst;
	const bool unified = chance(t, 30);

	if (s == STREAMS && unified)
		CU(cuMemcpy, to, src, bytes);
	else if (s == STREAMS)
		CU(cuMemcpyDtoH, dst, src, bytes);
	else if (unified)
		CU(cuMemcpyAsync, to, src, bytes, t->stream[s].native);
	else
		CU(cuMemcpyDtoHAsync, dst, src, bytes, t->stream[s].native);
}

static void slot_note(struct thread *t, struct slot *slot, const struct buffer *buffer, size_t off,
		      size_t bytes)
{
	slot->checks = true;
	slot->bytes = bytes;
	slot->off = off;
	slot->number = buffer->number;
	slot->op = t->op;
	slot->last = buffer->last;
}

static void check_piece(struct thread *t, struct buffer *buffer, size_t off, size_t bytes)
{
	struct slot *slot = slot_take(t);
	const unsigned s = chance(t, 25) ? STREAMS : stream_any(t), on = s == STREAMS ? 0 : s;

	say("buffer %u: %zu bytes at %zu are compared, on %u", buffer->number, bytes, off, on);
	use(t, buffer, off, bytes, false);
	uses_wait(t, on);
	copy_out(t, slot->at, buffer->addr + off, bytes, s);
	slot->mark = uses_end(t, on);
	slot_note(t, slot, buffer, off, bytes);
	memcpy(slot->expected, buffer->shadow + off, bytes);
}

void buffer_check(struct thread *t, struct buffer *buffer, size_t off, size_t bytes)
{
	while (bytes) {
		const size_t piece = bytes < SLOT_BYTES(t) ? bytes : SLOT_BYTES(t);

		check_piece(t, buffer, off, piece);
		off += piece;
		bytes -= piece;
	}
}

/* One end on the host, whose first byte is that of the slot. */
static struct end3d host_end(const struct rows *rows, struct slot *slot)
{
	struct end3d end = {.x = rows->x, .y = rows->y, .z = rows->z, .type = HOST};

	end.host = slot->at;
	end.pitch = rows->pitch;
	end.rows = rows->rows;
	return end;
}

static struct end2d flat(const struct end3d *end)
{
	return (struct end2d){end->x, end->y, end->type, end->host, end->device, NULL, end->pitch};
}

static void copy_rows(struct thread *t, const struct copy3d *copy, bool deep, unsigned s)
{
	const struct copy2d two = {flat(&copy->src), flat(&copy->dst), copy->width, copy->height};
	const CUstream stream = t->stream[s == STREAMS ? 0 : s].native;

	if (deep && s == STREAMS)
		CU(cuMemcpy3D, copy);
	else if (deep)
		CU(cuMemcpy3DAsync, copy, stream);
	else if (s == STREAMS && chance(t, 50))
		CU(cuMemcpy2DUnaligned, &two);
	else if (s == STREAMS)
		CU(cuMemcpy2D, &two);
	else
		CU(cuMemcpy2DAsync, &two, stream);
}

void buffer_rows(struct thread *t, struct buffer *buffer, bool check)
{
	struct slot *slot = slot_take(t);
	const unsigned s = chance(t, 40) ? STREAMS : stream_any(t), on = s == STREAMS ? 0 : s;
	const size_t least = buffer->bytes < SLOT_BYTES(t) ? buffer->bytes : SLOT_BYTES(t);
	const bool deep = chance(t, 40);
	struct rows here, there;
	struct copy3d copy;
	struct box box;
	size_t first;

	box_draw(t, least, deep, &box);
	rows_draw(t, buffer->bytes, &box, &here);
	rows_draw(t, SLOT_BYTES(t), &box, &there);
	first = rows_first(&here);
	copy.src = host_end(&there, slot);
	copy.dst = host_end(&here, slot);
	copy.dst.host = NULL;
	copy.dst.type = DEVICE;
	copy.dst.device = buffer->addr;
	if (check) {
		const struct end3d end = copy.src;

		copy.src = copy.dst;
		copy.dst = end;
	}
	copy.width = box.width;
	copy.height = box.height;
	copy.depth = box.depth;
	say("buffer %u: %zu x %zu x %zu from %zu, %s the host, on %u", buffer->number, box.width,
	    box.height, box.depth, first, check ? "to" : "from", on);
	use(t, buffer, first, rows_bytes(&here, &box), !check);
	uses_wait(t, on);
	for (size_t n = 0; n < box.height * box.depth; n++) {
		unsigned char *inside = buffer->shadow + row_at(&here, &box, n);
		const size_t outside = row_at(&there, &box, n);

		for (size_t i = 0; !check && i < box.width; i++)
			inside[i] = slot->at[outside + i] = (unsigned char)(n * 7 + i + t->op);
		if (check)
			memset(slot->at + outside, 0, box.width);
	}
	if (check)
		memcpy(slot->expected, slot->at, SLOT_BYTES(t));
	for (size_t n = 0; check && n < box.height * box.depth; n++)
		memcpy(slot->expected + row_at(&there, &box, n),
		       buffer->shadow + row_at(&here, &box, n), box.width);
	copy_rows(t, &copy, deep, s);
	slot->mark = uses_end(t, on);
	if (check)
		slot_note(t, slot, buffer, first, SLOT_BYTES(t));
}

/* ------------------------------------------------------------------ buffers */

size_t bytes_any(struct thread *t)
{
	const size_t most = t->limit / 8, kind = below(t, 10);
	size_t bytes;

	/* Often of few sizes, which memory that was freed fits. */
	if (chance(t, 40))
		return kind < 5 ? 1024 : kind < 7 ? 4096 : most / 8 / 4 * 4;
	if (kind < 2)
		bytes = 4 + below(t, 2000);
	else if (kind < 7)
		bytes = most / 16 + below(t, most / 4);
	else
		bytes = most / 2 + below(t, most / 2);
	return bytes / 4 * 4;
}

/* All of it is written, in one of the ways to do that. */
static void buffer_init(struct thread *t, struct buffer *buffer)
{
	struct step step = {.what = STEP_SET, .value = draw(t), .way = 0};

	step.dst = (struct region){buffer, 0, buffer->bytes};
	if (chance(t, 40)) {
		step.what = STEP_FILL;
		step.nr = buffer->bytes / 4;
	} else if (chance(t, 30) && buffer->bytes <= SLOT_BYTES(t)) {
		buffer_write(t, buffer, 0, NULL, buffer->bytes);
		return;
	}
	step_do(t, &step, stream_any(t));
}

struct buffer *buffer_new(struct thread *t, size_t bytes, bool pointers)
{
	struct buffer *buffer;
	unsigned s = stream_any(t);

	if (t->nr_buffers == BUFFERS)
		return NULL;
	buffer = make(1, sizeof(*buffer));
	buffer->number = ++t->nr_made;
	buffer->bytes = bytes;
	buffer->shadow = make(1, bytes);
	buffer->pointers = pointers;
	buffer->ordered = chance(t, 60);
	say("buffer %u: %zu bytes, %s %u", buffer->number, bytes,
	    buffer->ordered ? "in the order of" : "not in that of", s);
	if (buffer->ordered) {
		CU(cuMemAllocAsync, &buffer->addr, bytes, t->stream[s].native);
		use(t, buffer, 0, bytes, true);
		(void)uses_end(t, s);
	} else {
		CU(cuMemAlloc, &buffer->addr, bytes);
	}
	t->buffer[t->nr_buffers++] = buffer;
	t->bytes += bytes;
	buffer_init(t, buffer);
	return buffer;
}

void buffer_drop(struct thread *t, unsigned n)
{
	struct buffer *buffer = t->buffer[n];

	arrays_drop(t, buffer);
	t->bytes -= buffer->bytes;
	t->buffer[n] = t->buffer[--t->nr_buffers];
}

void buffer_free(struct thread *t, unsigned n)
{
	struct buffer *buffer = t->buffer[n];
	const unsigned s = stream_any(t);

	if (buffer->pins)
		return;
	buffer_drop(t, n);
	if (chance(t, buffer->ordered ? 80 : 30)) {
		say("buffer %u is freed in the order of %u", buffer->number, s);
		use(t, buffer, 0, buffer->bytes, true);
		uses_wait(t, s);
		uses_forget(t);
		CU(cuMemFreeAsync, buffer->addr, t->stream[s].native);
	} else {
		say("buffer %u is freed", buffer->number);
		/* What cuMemAlloc() gave is freed once all work is done. */
		if (buffer->ordered || chance(t, 50))
			buffer_sync(t, buffer);
		/* Under weir it waits for the context, which spoils others' captures. */
		pthread_rwlock_wrlock(&captures);
		CU(cuMemFree, buffer->addr);
		pthread_rwlock_unlock(&captures);
	}
	free(buffer->shadow);
	free(buffer);
}

struct buffer *buffer_any(struct thread *t, const struct buffer *but)
{
	const size_t first = below(t, t->nr_buffers ? t->nr_buffers : 1);

	for (size_t i = 0; i < t->nr_buffers; i++) {
		struct buffer *buffer = t->buffer[(first + i) % t->nr_buffers];

		if (buffer != but && !buffer->pointers)
			return buffer;
	}
	return NULL;
}
