/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which copies have what was written last: an array of pieces, sorted, as few as there can be.
 * Bytes, not granules: devices that write different parts of one granule do not disturb each other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/replica/replica.h"

uint32_t pieces_find(const struct replica *r, uint64_t offset)
{
	uint32_t above;

	SEARCH_SORTED(above, 0, r->nr_pieces, r->piece[above].start <= offset);
	return above - 1;
}

int pieces_reserve(struct replica *r, uint32_t nr)
{
	uint32_t wanted = r->nr_pieces + r->nr_reserved + nr, max = MAX(wanted, 2 * r->max_pieces);
	struct piece *piece;

	if (wanted <= r->max_pieces)
		return 0;
	piece = realloc(r->piece, max * sizeof(*piece));
	if (!piece)
		return -ENOMEM;
	r->piece = piece;
	r->max_pieces = max;
	return 0;
}

/* See that a piece begins at an offset. @return which. */
static uint32_t split(struct replica *r, uint64_t offset)
{
	uint32_t p;

	if (offset == r->bytes)
		return r->nr_pieces;
	p = pieces_find(r, offset);
	if (r->piece[p].start == offset)
		return p;
	memmove(&r->piece[p + 2], &r->piece[p + 1], (r->nr_pieces - p - 1) * sizeof(*r->piece));
	r->piece[p + 1] = r->piece[p];
	r->piece[p + 1].start = offset;
	r->nr_pieces++;
	return p + 1;
}

/* Join pieces from p to last with those before them, where they are alike. */
static void join(struct replica *r, uint32_t p, uint32_t last)
{
	uint32_t to = p;

	for (uint32_t from = p; from < r->nr_pieces; from++) {
		if (from > last && to == from)
			return;
		if (from <= last && to && pieces_are_alike(&r->piece[to - 1], &r->piece[from]))
			continue;
		r->piece[to++] = r->piece[from];
	}
	r->nr_pieces = to;
}

bool pieces_are_alike(const struct piece *a, const struct piece *b)
{
	return a->current == b->current && a->listed == b->listed && a->writer == b->writer &&
	       a->event == b->event;
}

void pieces_write(struct replica *r, uint64_t offset, uint64_t end, uint8_t copy, uint8_t writer,
		  uint64_t event)
{
	uint32_t first = split(r, offset), last = split(r, end);

	for (uint32_t p = first; p < last; p++) {
		if (WEIR_MUTANT != 16 || r->piece[p].current == COPIES_ANY)
			r->piece[p].current = 0;
		r->piece[p].current |= COPY_BIT(copy);
		r->piece[p].listed = r->piece[p].current;
		r->piece[p].writer = writer;
		r->piece[p].event = event;
	}
	r->one_is_current |= copy == COPY_ONE;
	join(r, first, MIN(last, r->nr_pieces - 1));
}

/* A copy becomes current, or listed, or neither. */
static void change(struct replica *r, uint64_t offset, uint64_t end, uint8_t copy, bool current,
		   bool listed)
{
	uint32_t first = split(r, offset), last = split(r, end);

	for (uint32_t p = first; p < last; p++) {
		struct piece *piece = &r->piece[p];

		if (piece->current == COPIES_ANY) /* what was never written, until it is */
			continue;
		if (!listed) {
			piece->current &= ~COPY_BIT(copy);
			piece->listed &= ~COPY_BIT(copy);
			continue;
		}
		piece->listed |= COPY_BIT(copy);
		if (current)
			piece->current |= COPY_BIT(copy);
	}
	r->one_is_current |= current && copy == COPY_ONE;
	join(r, first, MIN(last, r->nr_pieces - 1));
}

void pieces_add(struct replica *r, uint64_t offset, uint64_t end, uint8_t copy)
{
	change(r, offset, end, copy, true, true);
}

void pieces_drop(struct replica *r, uint64_t offset, uint64_t end, uint8_t copy)
{
	change(r, offset, end, copy, false, false);
}

void pieces_add_listed(struct replica *r, uint64_t offset, uint64_t end, uint8_t copy)
{
	change(r, offset, end, copy, WEIR_MUTANT == 20, true);
}

void pieces_forget_list(struct replica *r, uint8_t own)
{
	for (uint32_t p = 0; p < r->nr_pieces; p++)
		if (!(r->piece[p].current & COPY_BIT(own)))
			r->piece[p].listed &= ~COPY_BIT(own);
	join(r, 0, r->nr_pieces - 1);
}
