/* SPDX-License-Identifier: Apache-2.0 */
/* See slabs_lists.h. */
#include "workloads/solver/slabs_lists.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/util.h"

#define UNIT 4u	    /* packets begin at multiples of so many elements, 16 bytes */
#define SECTOR 32.0 /* bytes */

static struct solver_pair *pair_of(const struct solver_slabs *s, uint32_t from, uint32_t to)
{
	return &s->pair[from * s->base.nr_devices + to];
}

/* The first of a list's elements that is not before this one. */
static uint64_t list_find(const struct solver_list *list, uint64_t element)
{
	uint64_t at;

	SEARCH_SORTED(at, 0, list->nr, list->element[at] < element);
	return at;
}

/* ------------------------------------------------------------------ memory */

static int memory_create(struct solver_slabs *s, struct solver_pair *pair, uint32_t end,
			 uint32_t device, const uint32_t *element)
{
	struct backend *b = s->base.backend;
	const uint32_t memory = b->desc.device[device].memory;
	const uint64_t bytes = pair->nr * sizeof(*element);
	void *addr;
	int err = b->ops->device_alloc(b, memory, bytes, &addr);

	if (!err) {
		pair->index[end] = addr;
		err = b->ops->upload(b, stream_id(s->stream[device]), addr,
				     b->data == WEIR_DATA_PHANTOM ? NULL : element, bytes);
	}
	for (uint32_t i = 0; i < SOLVER_ARRAYS_MAX && !err; i++) {
		if (!s->layout[i].nr_devices)
			continue;
		err = b->ops->device_alloc(b, memory, bytes, &addr);
		if (!err)
			pair->packet[i][end] = addr;
	}
	return err;
}

int solver_lists_create(struct solver_slabs *s, const struct solver_config *config)
{
	const uint64_t *offset = s->layout[0].offset;
	const uint32_t nr = s->base.nr_devices;
	int err = 0;

	s->pair = calloc((size_t)nr * nr, sizeof(*s->pair));
	if (!s->pair)
		return -EAGAIN;
	for (uint32_t i = 0; i < nr * nr && !err; i++) {
		const uint32_t from = i / nr, to = i % nr;
		struct solver_pair *pair = &s->pair[i];

		s->list[to] = config->list[to];
		if (from == to)
			continue;
		pair->first = list_find(&s->list[to], offset[from] / sizeof(float));
		pair->nr = list_find(&s->list[to], offset[from + 1] / sizeof(float)) - pair->first;
		if (!pair->nr)
			continue;
		err = memory_create(s, pair, 0, from, s->list[to].element + pair->first);
		err = err ? err : memory_create(s, pair, 1, to, s->list[to].element + pair->first);
	}
	return err;
}

void solver_lists_destroy(struct solver_slabs *s)
{
	const uint32_t nr = s->base.nr_devices;
	struct backend *b = s->base.backend;

	for (uint32_t i = 0; s->pair && i < nr * nr; i++)
		for (int end = 0; end < 2; end++) {
			b->ops->device_free(b, s->pair[i].index[end]);
			for (uint32_t k = 0; k < SOLVER_ARRAYS_MAX; k++)
				b->ops->device_free(b, s->pair[i].packet[k][end]);
		}
	free(s->pair);
}

/* ------------------------------------------------------------------ sending */

/* The elements of a part, as a packet of a pair: with up to three before it, which the packet may
 * have as well, since they are what they were. nr 0: none. */
static struct backend_packet packet_of(struct solver_slabs *s, const struct solver_use *written,
				       uint32_t from, uint32_t to, int end, uint64_t *at)
{
	const struct solver_pair *pair = pair_of(s, from, to);
	const struct solver_list *list = &s->list[to];
	const uint64_t first = list_find(list, written->offset / sizeof(float));
	const uint64_t last = list_find(list, (written->offset + written->bytes) / sizeof(float));
	struct backend_packet p = {.element_bytes = sizeof(float), .unpack = end};
	double density, sectors;

	if (first == last)
		return p;
	*at = (first - pair->first) / UNIT * UNIT;
	p.nr = last - pair->first - *at;
	p.elements = solver_slabs_at(&s->base, written->array, end ? to : from, 0);
	p.packet = pair->packet[written->array][end] + *at;
	p.index = pair->index[end] + *at;
	p.first = list->element[pair->first + *at];
	p.last = list->element[last - 1];
	/* Elements lie anywhere. */
	density = (double)p.nr / (p.last - p.first + 1.0);
	sectors = ((p.last - p.first) * sizeof(float) / SECTOR + 1) *
		  (1 - pow(1 - density, SECTOR / sizeof(float)));
	p.sector_bytes = (uint64_t)(SECTOR * ceil(min_double(sectors, (double)p.nr)));
	return p;
}

int solver_lists_send(struct solver_slabs *s, struct weir_stream *stream,
		      const struct solver_use *written, uint32_t from, uint32_t to,
		      enum weir_cause cause)
{
	struct backend *b = s->base.backend;
	const struct solver_pair *pair = pair_of(s, from, to);
	uint64_t at;
	const struct backend_packet p = packet_of(s, written, from, to, 0, &at);
	struct backend_copy copy;
	struct solver_use part;
	int err;

	if (!p.nr)
		return 0;
	copy = (struct backend_copy){.dst = pair->packet[written->array][1] + at,
				     .src = p.packet,
				     .bytes = p.nr * sizeof(float)};
	part = (struct solver_use){
		.array = written->array,
		.offset = (uint64_t)p.first * sizeof(float),
		.bytes = (p.last - p.first + UINT64_C(1)) * sizeof(float),
	};
	solver_slabs_begin(s, from, to, &part, copy.bytes, WEIR_SENT_PACKETS, cause);
	err = b->ops->packet(b, stream_id(stream), &p);
	err = err ? err : b->ops->copy(b, stream_id(stream), &copy, 1);
	b->observe->message_end(b, !err);
	return err;
}

int solver_lists_receive(struct solver_slabs *s, struct weir_stream *stream,
			 const struct solver_use *written, uint32_t from, uint32_t to)
{
	struct backend *b = s->base.backend;
	uint64_t at;
	const struct backend_packet p = packet_of(s, written, from, to, 1, &at);

	return p.nr ? b->ops->packet(b, stream_id(stream), &p) : 0;
}
