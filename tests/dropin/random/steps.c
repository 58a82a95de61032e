/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: what a random program may have the device do, what it uses, and the same on the CPU. */
#include <string.h>

#include "tests/dropin/random/random.h"

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ------------------------------------------------------------------ rows */

size_t row_at(const struct rows *rows, const struct box *box, size_t n)
{
	const size_t slice = rows->z + n / box->height, row = rows->y + n % box->height;

	return (slice * rows->rows + row) * rows->pitch + rows->x;
}

size_t rows_first(const struct rows *rows)
{
	return (rows->z * rows->rows + rows->y) * rows->pitch + rows->x;
}

size_t rows_bytes(const struct rows *rows, const struct box *box)
{
	return row_at(rows, box, box->height * box->depth - 1) + box->width - rows_first(rows);
}

void box_draw(struct thread *t, size_t bytes, bool deep, struct box *box)
{
	box->depth = deep ? 1 + below(t, 3) : 1;
	box->height = 1 + below(t, 12);
	box->width = 1 + below(t, 600);
	/* Without gaps at least they have to fit. */
	while (box->width * box->height * box->depth > bytes)
		if (box->depth > 1)
			box->depth--;
		else if (box->height > 1)
			box->height--;
		else
			box->width = bytes;
}

/* With gaps where there is room for them. */
void rows_draw(struct thread *t, size_t bytes, const struct box *box, struct rows *rows)
{
	for (unsigned tries = 0; tries < 8; tries++) {
		*rows = (struct rows){.x = below(t, 9), .y = below(t, 4), .z = below(t, 2)};
		if (box->depth == 1)
			rows->z = 0;
		rows->pitch = rows->x + box->width + below(t, 50);
		rows->rows = rows->y + box->height + below(t, 3);
		if (rows_first(rows) + rows_bytes(rows, box) <= bytes)
			return;
	}
	*rows = (struct rows){.pitch = box->width, .rows = box->height};
}

/* ------------------------------------------------------------------ drawing */

/* Part of a buffer, at a multiple of unit and of as many bytes. */
static struct region region_draw(struct thread *t, struct buffer *buffer, size_t unit)
{
	const size_t nr = buffer->bytes / unit;
	struct region region = {buffer, 0, nr * unit};

	if (nr > 1 && chance(t, 60)) {
		const size_t first = below(t, nr);

		region.off = first * unit;
		region.bytes = (1 + below(t, nr - first)) * unit;
	}
	return region;
}

/* Two regions of the same size. */
static void regions_draw(struct thread *t, struct step *step, struct buffer *dst,
			 struct buffer *src, size_t unit)
{
	step->dst = region_draw(t, dst, unit);
	step->src = region_draw(t, src, unit);
	step->dst.bytes = step->src.bytes = least(step->dst.bytes, step->src.bytes);
	step->nr = step->dst.bytes / 4;
}

static void draw_rows(struct thread *t, struct step *step, struct buffer *dst, struct buffer *src)
{
	box_draw(t, least(dst->bytes, src->bytes), step->what != STEP_2D, &step->box);
	rows_draw(t, dst->bytes, &step->box, &step->to);
	rows_draw(t, src->bytes, &step->box, &step->from);
	step->dst = (struct region){dst, rows_first(&step->to), rows_bytes(&step->to, &step->box)};
	step->src =
		(struct region){src, rows_first(&step->from), rows_bytes(&step->from, &step->box)};
}

/* The bytes of a word that is filled with, or written. */
static size_t word_bytes(const struct step *step)
{
	return step->what == STEP_WORDS ? (step->way == 1 ? 8 : 4) : (size_t)1 << step->way;
}

/* Rows of words; off, pitch and width are multiples of one. */
static bool draw_set_2d(struct thread *t, struct step *step, struct buffer *dst)
{
	const size_t word = word_bytes(step);

	box_draw(t, dst->bytes / word, false, &step->box);
	rows_draw(t, dst->bytes / word, &step->box, &step->to);
	step->box.width *= word;
	step->to.x *= word;
	step->to.pitch *= word;
	step->dst = (struct region){dst, rows_first(&step->to), rows_bytes(&step->to, &step->box)};
	return true;
}

static bool draw_add(struct thread *t, struct step *step, struct buffer *dst, struct buffer *src)
{
	struct buffer *more = buffer_any(t, dst);

	regions_draw(t, step, dst, src, 4);
	step->more = step->dst;
	if (chance(t, 50) && more) {
		step->more = region_draw(t, more, 4);
		step->nr = least(step->dst.bytes, step->more.bytes) / 4;
		step->dst.bytes = step->src.bytes = step->more.bytes = step->nr * 4;
	}
	return true;
}

/* One or two words; of 8 bytes, or in a list, where the address is a multiple of that. Not in what
 * was allocated in the order of a stream: there the driver of a real GPU refuses them. */
static bool draw_words(struct thread *t, struct step *step, struct buffer *dst)
{
	if (dst->ordered)
		return false;
	step->way = (unsigned)below(t, 3);
	step->dst = region_draw(t, dst, step->way == 2 ? 8 : word_bytes(step));
	step->dst.bytes = step->way ? 8 : 4;
	return dst->bytes >= 8;
}

bool step_draw(struct thread *t, struct step *step)
{
	static const enum what whats[] = {
		STEP_FILL,    STEP_COPY,  STEP_COPY,	STEP_ADD,    STEP_ADD,	STEP_SUM,
		STEP_ON,      STEP_ON,	  STEP_UNIFIED, STEP_PEER,   STEP_2D,	STEP_3D,
		STEP_3D_PEER, STEP_BATCH, STEP_SET,	STEP_SET_2D, STEP_WORDS};
	struct buffer *dst = buffer_any(t, NULL), *src = dst ? buffer_any(t, dst) : NULL;

	if (!src)
		return false;
	*step = (struct step){.what = whats[below(t, sizeof(whats) / sizeof(whats[0]))],
			      .value = draw(t),
			      .way = (unsigned)below(t, 3)};
	step->sync = step->what >= STEP_ON && step->what != STEP_BATCH &&
		     step->what != STEP_WORDS && chance(t, 20);
	switch (step->what) {
	case STEP_FILL:
		step->dst = region_draw(t, dst, 4);
		step->nr = step->dst.bytes / 4;
		return true;
	case STEP_ADD:
		return draw_add(t, step, dst, src);
	case STEP_COPY:
	case STEP_SUM:
		regions_draw(t, step, dst, src, 4);
		if (step->what == STEP_SUM)
			step->dst.bytes = 4;
		return true;
	case STEP_2D:
	case STEP_3D:
	case STEP_3D_PEER:
		draw_rows(t, step, dst, src);
		return true;
	case STEP_SET:
		step->dst = region_draw(t, dst, word_bytes(step));
		return true;
	case STEP_SET_2D:
		return draw_set_2d(t, step, dst);
	case STEP_WORDS:
		return draw_words(t, step, dst);
	default:
		regions_draw(t, step, dst, src, 1);
		return true;
	}
}

/* ------------------------------------------------------------------ what it uses */

static void region_use(struct thread *t, const struct region *region, bool write)
{
	if (region->buffer)
		use(t, region->buffer, region->off, region->bytes, write);
}

void step_uses(struct thread *t, const struct step *step)
{
	const struct array *array = step->array;

	region_use(t, &step->dst, true);
	region_use(t, &step->src, false);
	region_use(t, &step->more, false);
	/* Named, and not used. */
	for (unsigned n = 0; step->what == STEP_ADDRESSES && n < t->nr_buffers; n++)
		if (t->buffer[n]->bytes <= LOOKED_BYTES &&
		    step->base - t->buffer[n]->addr < t->buffer[n]->bytes)
			use(t, t->buffer[n], 0, t->buffer[n]->bytes, false);
	if (step->what == STEP_TABLE)
		use(t, &t->table, 0, t->table.bytes, false);
	if (array && !array->list)
		use(t, array->at, array->off, array->nr * sizeof(CUdeviceptr), false);
	for (unsigned i = 0; array && i < array->nr; i++)
		use(t, array->target[i].buffer, array->target[i].off, array->list ? 16 : 4, false);
}

/* ------------------------------------------------------------------ the same on the CPU */

static unsigned char *shadow_of(const struct region *region)
{
	return region->buffer ? region->buffer->shadow + region->off : NULL;
}

static uint32_t word_of(const unsigned char *at, uint64_t n)
{
	uint32_t word;

	memcpy(&word, at + 4 * n, sizeof(word));
	return word;
}

static void words_set(unsigned char *at, uint64_t value, size_t bytes, size_t word)
{
	for (size_t i = 0; i < bytes; i += word)
		memcpy(at + i, &value, word);
}

static void add_shadow(const struct step *step)
{
	unsigned char *dst = shadow_of(&step->dst);

	for (uint64_t i = 0; i < step->nr; i++) {
		const uint32_t sum =
			word_of(shadow_of(&step->src), i) + word_of(shadow_of(&step->more), i);

		memcpy(dst + 4 * i, &sum, sizeof(sum));
	}
}

static void sum_shadow(const struct step *step)
{
	uint32_t sum = 0;

	for (uint64_t i = 0; i < step->nr; i++)
		sum += word_of(shadow_of(&step->src), i);
	memcpy(shadow_of(&step->dst), &sum, sizeof(sum));
}

static void gather_shadow(const struct step *step)
{
	for (unsigned i = 0; i < step->array->nr; i++)
		memcpy(shadow_of(&step->dst) + 4 * i,
		       step->array->target[i].buffer->shadow + step->array->target[i].off, 4);
}

static void addresses_shadow(const struct step *step)
{
	for (uint64_t i = 0; i < step->nr; i++) {
		const uint64_t addr = step->base + i * step->stride;

		memcpy(shadow_of(&step->dst) + 8 * i, &addr, sizeof(addr));
	}
}

static void rows_shadow(const struct step *step)
{
	for (size_t n = 0; n < step->box.height * step->box.depth; n++) {
		unsigned char *dst = step->dst.buffer->shadow + row_at(&step->to, &step->box, n);

		if (step->what == STEP_SET_2D)
			words_set(dst, step->value, step->box.width, word_bytes(step));
		else
			memcpy(dst, step->src.buffer->shadow + row_at(&step->from, &step->box, n),
			       step->box.width);
	}
}

void step_shadow(struct thread *t, const struct step *step)
{
	unsigned char *const dst = shadow_of(&step->dst);

	(void)t;
	switch (step->what) {
	case STEP_FILL:
		words_set(dst, step->value, step->nr * 4, 4);
		break;
	case STEP_ADD:
		add_shadow(step);
		break;
	case STEP_SUM:
		sum_shadow(step);
		break;
	case STEP_GATHER:
		gather_shadow(step);
		break;
	case STEP_LIST:
		memcpy(dst, &step->array->sum, sizeof(step->array->sum));
		break;
	case STEP_ADDRESSES:
		addresses_shadow(step);
		break;
	case STEP_2D:
	case STEP_3D:
	case STEP_3D_PEER:
	case STEP_SET_2D:
		rows_shadow(step);
		break;
	case STEP_SET:
		words_set(dst, step->value, step->dst.bytes, word_bytes(step));
		break;
	case STEP_WORDS:
		words_set(dst, step->value, step->dst.bytes, step->way ? 8 : 4);
		break;
	default:
		memcpy(dst, shadow_of(&step->src),
		       step->what == STEP_COPY ? step->nr * 4 : step->dst.bytes);
		break;
	}
}

void step_do(struct thread *t, const struct step *step, unsigned s)
{
	if (step->sync)
		s = 0;
	say("step %d on %u%s: buffer %u from %zu, %zu bytes; buffer %u from %zu", step->what, s,
	    step->sync ? ", waiting" : "", step->dst.buffer->number, step->dst.off, step->dst.bytes,
	    step->src.buffer ? step->src.buffer->number : 0, step->src.off);
	step_uses(t, step);
	uses_wait(t, s);
	step_issue(t, step, s);
	(void)uses_end(t, s);
	step_shadow(t, step);
}
