/* SPDX-License-Identifier: Apache-2.0 */
/* Messages under way, by the copies that they go between. */
#include <errno.h>
#include <stdlib.h>

#include "src/replica/lists.h"

/* Messages are looked at as so many brackets more are done, or when so many are under way. */
#define RETIRE_BRACKETS 8u
#define RETIRE_MESSAGES 256u

/* Room for two more messages. */
static int lane_reserve(struct lane *lane)
{
	uint32_t max = MAX(16u, 2 * lane->max);
	struct message *message;

	if (lane->nr + 2 <= lane->max)
		return 0;
	message = malloc(max * sizeof(*message));
	if (!message)
		return -ENOMEM;
	for (uint32_t n = 0; n < lane->nr; n++)
		message[n] = lane->message[(lane->head + n) % lane->max];
	free(lane->message);
	lane->message = message;
	lane->max = max;
	lane->head = 0;
	return 0;
}

int lane_get(struct replicas *rs, uint8_t from, uint8_t to, struct lane **out)
{
	int err;

	if (!rs->lane[from])
		rs->lane[from] = calloc(COPIES_MAX, sizeof(*rs->lane[from]));
	if (!rs->lane[from])
		return -ENOMEM;
	err = lane_reserve(&rs->lane[from][to]);
	if (err)
		return err;
	*out = &rs->lane[from][to];
	(*out)->from = from;
	(*out)->to = to;
	return 0;
}

int lane_stream(struct weir_space *space, struct lane_stream *stream, place_t own)
{
	int err;

	if (stream->made)
		return 0;
	err = space->backend->ops->stream_create(space->backend, space->device[own], BACKEND_URGENT,
						 &stream->stream);
	if (err)
		return err;
	stream->entity = CLOCK_SLOTS + replicas_of(space)->nr_entities++;
	stream->made = true;
	return 0;
}

void lane_number(struct lane_stream *stream, struct message *m)
{
	m->number = ++stream->number;
	m->entity = stream->entity;
	clock_learn(&stream->clock, stream->entity, m->number, NULL);
	m->clock = stream->clock;
}

void lanes_fini(struct replicas *rs)
{
	struct backend *b = rs->space->backend;

	for (uint32_t from = 0; from < COPIES_MAX; from++) {
		for (uint32_t to = 0; rs->lane[from] && to < COPIES_MAX; to++) {
			struct lane *lane = &rs->lane[from][to];

			if (lane->out.made)
				b->ops->stream_destroy(b, lane->out.stream);
			if (lane->in.made)
				b->ops->stream_destroy(b, lane->in.stream);
			free(lane->message);
		}
		free(rs->lane[from]);
		rs->lane[from] = NULL;
	}
}

int lane_fence(struct weir_space *space, struct lane *lane)
{
	for (uint32_t n = lane->nr; n-- > 0 && !lane_nth(lane, n)->fenced;) {
		struct message *m = lane_nth(lane, n);
		int err = space_fence_untimed(space, m->stream, &m->fence);

		if (err)
			return err;
		m->fenced = true;
	}
	return 0;
}

static bool uses_one(const struct lane *lane)
{
	return lane->from == COPY_ONE || lane->to == COPY_ONE;
}

/* Pin the blocks of the one copy that a message uses, or unpin them. */
static void pin_one(struct replica *r, const struct message *m, int by)
{
	uint32_t first = one_first_block(r, m->offset);
	uint32_t last = one_last_block(r, m->offset + m->bytes);

	for (uint32_t i = first; i <= last; i++)
		r->one->block[i].pins += (uint32_t)by;
	r->one->part_pins += (uint32_t)by * (last - first + 1);
}

void lane_add(struct lane *lane, const struct message *m)
{
	struct replicas *rs = m->replica->replicas;
	struct message *added;

	if (!lane->nr) {
		lane->next = rs->active;
		rs->active = lane;
	}
	added = lane_nth(lane, lane->nr++);
	*added = *m;
	added->after = m->number ? clock_last_bracket(&m->clock) : 0;
	rs->nr_messages++;
	if (m->list)
		m->list->nr_users++;
	if (uses_one(lane))
		pin_one(m->replica, m, 1);
}

static void lane_retire(struct weir_space *space, struct lane *lane, bool all)
{
	space_note_error(space, lane_fence(space, lane));
	while (lane->nr) {
		const struct message *m = lane_nth(lane, 0);

		/* Many are under way, and to ask costs a call of the driver. */
		if (!all && m->after > space->done_seq)
			return;
		if (!m->fenced || !space_fence_done(space, m->fence, NULL))
			return;
		lane->head = (lane->head + 1) % lane->max;
		lane->nr--;
		m->replica->replicas->nr_messages--;
		if (m->list)
			list_unuse(space, m->list);
		if (!uses_one(lane))
			continue;
		pin_one(m->replica, m, -1);
		space->epoch++;
		space->ops->unpinned(space, m->replica->one);
	}
}

void messages_retire(struct weir_space *space, bool all)
{
	struct replicas *rs = replicas_of(space);
	struct lane **at = &rs->active;

	/* To ask costs a call of the driver for each lane; what is done and not asked for keeps
	 * nobody waiting. */
	if (!all && space->done_seq < rs->retired_seq + RETIRE_BRACKETS &&
	    rs->nr_messages < RETIRE_MESSAGES)
		return;
	rs->retired_seq = space->done_seq;
	while (*at) {
		struct lane *lane = *at;

		lane_retire(space, lane, all);
		if (lane->nr)
			at = &lane->next;
		else
			*at = lane->next;
	}
}

int messages_settle(struct weir_space *space, struct settle *settle)
{
	struct lane *lane;
	int err;

	messages_retire(space, true);
	lane = replicas_of(space)->active;
	if (!lane)
		return 0;
	err = lane_fence(space, lane);
	if (err)
		return err;
	settle->fence = lane_nth(lane, 0)->fence;
	return SETTLE_WAIT;
}

bool message_uses(const struct replica *r, uint8_t copy, uint64_t offset, uint64_t end)
{
	for (const struct lane *lane = r->replicas->active; lane; lane = lane->next)
		for (uint32_t n = 0; n < lane->nr; n++) {
			const struct message *m = lane_nth(lane, n);

			if ((lane->from == copy || lane->to == copy || copy == COPY_NONE) &&
			    m->replica == r && m->offset < end && offset < m->offset + m->bytes)
				return true;
		}
	return false;
}
