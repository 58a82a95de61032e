/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of replicated ranges, and what a window's range asks of its owner. */
#include <errno.h>

#include "src/base/log.h"
#include "src/replica/parcel.h"

static int fail(const struct replica *r, const char *what)
{
	log_error("replicated range %u of %llu bytes: %s", r->number, (unsigned long long)r->bytes,
		  what);
	return -EUCLEAN;
}

/* Whether a copy has a chunk for each granule of a part. */
static bool has_chunks(const struct replica *r, uint8_t copy, uint64_t offset, uint64_t end)
{
	uint64_t granule = r->replicas->granule_bytes;

	for (uint64_t g = offset / granule; g <= (end - 1) / granule; g++)
		if (!r->chunk[copy] || !r->chunk[copy][g].backend.handle)
			return false;
	return true;
}

/* Whether a device that counts as having its list's elements of a piece has a list, and a chunk
 * wherever there are any. */
static bool is_listed(const struct replica *r, uint8_t own, uint64_t offset, uint64_t end)
{
	uint64_t granule = r->replicas->granule_bytes;
	struct list_part part;

	for (; r->list[own] && offset < end; offset = round_up(offset + 1, granule)) {
		uint64_t next = MIN(round_up(offset + 1, granule), end);

		if (list_find(r->list[own], r->element_bytes, offset, next, &part) &&
		    !has_chunks(r, own, offset, next))
			return false;
	}
	return r->list[own];
}

/* The same of copies in a piece. */
static int check_copies(const struct replica *r, uint32_t p)
{
	const struct piece *piece = &r->piece[p];

	if (piece->current & ~piece->listed)
		return fail(r, "a copy is current and not listed");
	for (uint8_t c = 0; c <= COPY_HOST && piece->current != COPIES_ANY; c++) {
		if (piece->current & COPY_BIT(c)) {
			if (!has_chunks(r, c, piece->start, piece_end(r, p)))
				return fail(r, "a copy is current that has no chunk");
		} else if (piece->listed & COPY_BIT(c)) {
			if (c == COPY_HOST || !is_listed(r, c, piece->start, piece_end(r, p)))
				return fail(r, "a copy is listed that has no list or no chunk");
		}
	}
	return 0;
}

static int check_pieces(const struct replica *r)
{
	if (!r->nr_pieces || r->piece[0].start || r->nr_pieces + r->nr_reserved > r->max_pieces)
		return fail(r, "its pieces do not begin at 0, or there is no room for all");
	for (uint32_t p = 0; p < r->nr_pieces; p++) {
		const struct piece *piece = &r->piece[p];
		int err;

		if (piece->start >= piece_end(r, p) || !piece->current ||
		    (p && pieces_are_alike(piece, &r->piece[p - 1])))
			return fail(r, "pieces are empty, current nowhere, or alike");
		err = check_copies(r, p);
		if (err)
			return err;
		if (piece->current != COPIES_ANY && piece->current & COPY_BIT(COPY_ONE) &&
		    !r->one_is_current)
			return fail(r, "the one copy is current, and that is not known");
	}
	return 0;
}

static int check_views(const struct weir_space *space, const struct replica *r)
{
	uint32_t nr_borrowed = 0;

	for (uint32_t own = 0; own < space->nr_devices; own++)
		for (uint32_t g = 0; r->window[own] && g < r->nr_granules; g++) {
			uint8_t view = r->view[own][g];

			if (view == COPY_NONE)
				continue;
			nr_borrowed += replica_borrows(r, (place_t)own, g);
			if (view > COPY_HOST || !r->chunk[view] ||
			    !r->chunk[view][g].backend.handle)
				return fail(r, "a window shows a copy that has no chunk");
		}
	return nr_borrowed == r->nr_borrowed ? 0 : fail(r, "borrowed views are not counted");
}

/* Of a device's windows, of all ranges. */
static uint32_t nr_borrowed(const struct weir_space *space, place_t own)
{
	const struct replicas *rs = replicas_of(space);
	uint32_t nr = 0;

	for (uint32_t n = 0; n < rs->nr_replicas; n++)
		for (uint32_t g = 0; own < space->nr_devices && rs->replica[n] &&
				     rs->replica[n]->window[own] && g < rs->replica[n]->nr_granules;
		     g++)
			nr += replica_borrows(rs->replica[n], own, g);
	return nr;
}

/* Once for each range, by its first window. */
static int check(const struct weir_space *space, const struct range *window)
{
	const struct replica *r = replica_of_window(window);
	int err;

	if (!r || r->window[__builtin_ctzll(r->devices)] != window)
		return r ? 0 : -EUCLEAN;
	err = check_pieces(r);
	if (!err)
		err = check_views(space, r);
	if (err)
		return err;
	for (uint32_t place = 0; place < space->nr_places; place++) {
		const struct replica_memory *memory = &r->replicas->memory[place];

		if (memory->replicas && memory->nr_borrowed != nr_borrowed(space, (place_t)place))
			return fail(r, "borrowed views of its memories are not counted");
		if (memory->replicas &&
		    phys_held(&memory->client) != chunks_bytes(space, memory->copy))
			return fail(r, "its memories' accounts do not hold what it has");
	}
	return 0;
}

/* weir_read() and weir_write() of a part of a window go through the one copy. */
static int copy(struct range_owner *owner, uint32_t number, uint64_t offset, const void *in,
		void *out, uint64_t bytes)
{
	const struct replica_memory *memory = (const struct replica_memory *)owner;
	struct weir_space *space = memory->replicas->space;
	const struct replica *r;
	char *addr;

	pthread_mutex_lock(&space->lock);
	r = memory->replicas->replica[number];
	addr = (char *)r->one->addr + r->one_offset + offset;
	pthread_mutex_unlock(&space->lock);
	return in ? weir_write(space, addr, in, bytes) : weir_read(space, out, addr, bytes);
}

const struct range_kind replica_kind = {
	.name = "a replicated",
	.windows = true,
	.copy = copy,
	.check = check,
};
