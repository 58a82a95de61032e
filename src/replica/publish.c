/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishing: as a bracket ends, what it wrote is sent to those that are going to read it, so that
 * it is there when they begin. It is a hint: what is not sent is fetched, and an error here is one
 * of the messages', which brackets that fetch hear of.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/replica/replica.h"

/* A part that a device is subscribed to. */
struct subscription {
	uint64_t offset, end;
	uint8_t own;
};

/* Send a device what it lacks of a part, where its window shows a copy of its own. */
static void publish(struct weir_space *space, struct replica *r, uint8_t to, uint64_t offset,
		    uint64_t end)
{
	if (r->dying || !copies_own(r, to, offset, end))
		return;
	r->replicas->kind = WEIR_PUBLISHED;
	(void)message_fill(space, r, NULL, to, offset, end, false);
	r->replicas->kind = WEIR_FETCHED;
}

/* The same of its list's elements. Granules that have none of these may have no memory there. */
static void publish_elements(struct weir_space *space, struct replica *r, uint8_t to,
			     uint64_t offset, uint64_t end)
{
	uint64_t view_end;

	r->replicas->kind = WEIR_PUBLISHED;
	for (; offset < end && !r->dying && r->list[to]; offset = view_end)
		if (copies_view(r, to, offset, &view_end) == to)
			(void)message_fill(space, r, NULL, to, offset, MIN(view_end, end), true);
	r->replicas->kind = WEIR_FETCHED;
}

void publish_to_subscribers(struct weir_space *space, struct replica *r, uint8_t from,
			    uint64_t offset, uint64_t end)
{
	if (r->subscription == WEIR_SUBSCRIBE_NONE)
		return;
	if (r->subscription == WEIR_SUBSCRIBE_ALL)
		for (uint32_t own = 0; own < space->nr_devices; own++)
			if (own != from && r->window[own])
				publish(space, r, (uint8_t)own, offset, end);
	for (uint32_t s = 0; s < r->nr_subscriptions; s++) {
		const struct subscription *sub = &r->subscribed[s];
		uint64_t first = MAX(offset, sub->offset), last = MIN(end, sub->end);

		if (sub->own != from && first < last)
			publish(space, r, sub->own, first, last);
	}
	for (uint32_t own = 0; own < space->nr_devices; own++)
		if (own != from && r->list[own])
			publish_elements(space, r, (uint8_t)own, offset, end);
}

static bool is_written_by(const struct piece *piece, const struct stream_slot *slot)
{
	return piece->writer == slot->own && piece->event == slot->shared_event;
}

/* Publish what a bracket wrote of a part that is going to be read: what was sent to others divides
 * it into pieces, which are sent together. */
static void publish_written(struct weir_space *space, const struct learnt *part,
			    const struct stream_slot *slot)
{
	struct replica *r = part->replica;
	uint64_t offset = part->offset, next;

	for (; offset < part->end; offset = next) {
		uint32_t p = pieces_find(r, offset);
		bool written = is_written_by(&r->piece[p], slot);

		while (written && piece_end(r, p) < part->end &&
		       is_written_by(&r->piece[p + 1], slot))
			p++;
		next = MIN(piece_end(r, p), part->end);
		if (written && part->elements)
			publish_elements(space, r, part->to, offset, next);
		else if (written)
			publish(space, r, part->to, offset, next);
	}
}

void publish_learnt(struct weir_space *space, const struct stream_slot *slot)
{
	struct learnt part;

	for (uint32_t n = 0; learn_nth(space, slot, n, &part); n++)
		if (part.replica)
			publish_written(space, &part, slot);
}

/* ------------------------------------------------------------------ subscriptions */

/* What a call names: a part of a replicated range, and a device's place. */
struct named {
	struct replica *r;
	uint64_t offset, end;
	uint8_t own;
};

static int find_part(struct weir_space *space, void *addr, uint64_t bytes, uint32_t device,
		     const char *call, struct named *out)
{
	int own = space_own(space, device);

	out->r = replica_find(space, addr, &out->offset);
	if (out->r && own >= 0 && out->r->window[own] && bytes &&
	    bytes <= out->r->bytes - out->offset) {
		out->end = out->offset + bytes;
		out->own = (uint8_t)own;
		return 0;
	}
	log_error("%s: %llu bytes at %p: no part of one replicated range that device %u has a "
		  "window for",
		  call, (unsigned long long)bytes, addr, device);
	return -EINVAL;
}

/* Take a part out of what a device is subscribed to. There is room for one more. */
static void cut(struct replica *r, uint8_t own, uint64_t offset, uint64_t end)
{
	for (uint32_t s = r->nr_subscriptions; s-- > 0;) {
		struct subscription *sub = &r->subscribed[s], was = *sub;

		if (was.own != own || was.end <= offset || end <= was.offset)
			continue;
		*sub = r->subscribed[--r->nr_subscriptions];
		if (was.offset < offset)
			r->subscribed[r->nr_subscriptions++] =
				(struct subscription){was.offset, offset, own};
		if (end < was.end)
			r->subscribed[r->nr_subscriptions++] =
				(struct subscription){end, was.end, own};
	}
}

static int reserve(struct replica *r, uint32_t nr)
{
	uint32_t max = MAX(8u, 2 * r->max_subscriptions);
	struct subscription *grown;

	if (r->nr_subscriptions + nr <= r->max_subscriptions)
		return 0;
	grown = realloc(r->subscribed, max * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	r->subscribed = grown;
	r->max_subscriptions = max;
	return 0;
}

static int ready_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	const struct named *named = arg;

	if (named->r->dying) /* another thread freed it meanwhile */
		return -EINVAL;
	return copies_ready(space, named->r, named->own, named->offset, named->end, settle);
}

int publish_prepare(struct weir_space *space, struct replica *r, uint8_t own, uint64_t offset,
		    uint64_t end)
{
	struct named named = {r, offset, end, own};
	int err;

	r->nr_busy++;
	err = space_settle(space, ready_pass, &named);
	r->nr_busy--;
	return err;
}

int weir_subscribe(struct weir_space *space, void *addr, uint64_t bytes, uint32_t device)
{
	struct named named;
	int err;

	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	err = find_part(space, addr, bytes, device, "subscribe", &named);
	if (!err)
		err = reserve(named.r, 2);
	if (!err)
		err = publish_prepare(space, named.r, named.own, named.offset, named.end);
	if (!err) {
		cut(named.r, named.own, named.offset, named.end);
		named.r->subscribed[named.r->nr_subscriptions++] =
			(struct subscription){named.offset, named.end, named.own};
	}
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

/* Whether a device's copy is the only one that has some of a part. */
static bool is_last(const struct replica *r, uint8_t own, uint64_t offset, uint64_t end)
{
	for (uint32_t p = pieces_find(r, offset); p < r->nr_pieces && r->piece[p].start < end; p++)
		if (r->piece[p].current == COPY_BIT(own))
			return true;
	return false;
}

int weir_unsubscribe(struct weir_space *space, void *addr, uint64_t bytes, uint32_t device)
{
	struct named named;
	int err;

	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	space_progress(space);
	err = find_part(space, addr, bytes, device, "unsubscribe", &named);
	if (!err && is_last(named.r, named.own, named.offset, named.end))
		err = -EBUSY;
	if (!err)
		err = reserve(named.r, 2);
	if (!err) {
		cut(named.r, named.own, named.offset, named.end);
		messages_retire(space, true); /* those that are done use no copy any more */
		copies_drop(space, named.r, named.own, named.offset, named.end);
	}
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}
