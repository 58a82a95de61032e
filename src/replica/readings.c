/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who reads what a bracket writes. Each device's brackets are events in an order of its own, since
 * how those of several devices mix need not repeat. An event is known by its context: its uses and
 * those of the last few before it. Each piece of a range knows the event that wrote it, and what is
 * read of it by another device is a *reading* of that event.
 *
 * When a bracket ends, what was read both of the last event with its context and of the one before
 * that is expected to be read again, and is published. What was read once is not: a program that
 * does not repeat itself is sent nothing in vain for long. Readers that were not foreseen fetch
 * what they lack as they begin.
 *
 * With a context comes also how much time a message of its has, and how long its bracket takes:
 * by the times of the ends' fences, which are asked for once brackets are known to be done. By the
 * latter the ports' loads shrink (docs/replica.md).
 */
#include <math.h>
#include <stdlib.h>

#include "src/base/hash.h"
#include "src/replica/replica.h"

/* Events whose uses an event's context has; it is the same in loops of any length, and tells apart
 * what the same kernel writes at several points of one. */
#define CONTEXT 4u
/* Events that are known, of each device, and lists that contexts are found by. */
#define EVENTS (1u << 12)

/* What a device reads of what an event wrote. */
struct reading {
	uint32_t replica; /* its number */
	uint8_t to;
	bool elements; /* in its list alone */
	uint64_t offset, end;
	uint64_t behind; /* the device's event that had ended last when it read; 0: none */
};

struct event {
	uint64_t number;
	uint64_t shape, context;
	uint64_t previous; /* with the same context; 0: none, or not known */
	uint64_t older;	   /* the next event in the list of its context; 0: none */
	struct reading *reading;
	uint32_t nr, max;
	uint64_t behind;   /* the device's event that had ended last when this one ended */
	bracket_seq_t seq; /* of its bracket, ... */
	fence_t end;	   /* ... and its end, which was not asked for its time yet; 0: it was */
	uint64_t end_ns;   /* 0: it has not ended, is not done, or the backend does not know */
};

enum { SENDS, RECEIVES, NR_WAYS };

struct history {
	struct event event[EVENTS]; /* by number */
	uint64_t newest[EVENTS];    /* event in the list, by context % EVENTS; 0: none */
	uint64_t next;		    /* numbers begin at 1 */
	uint64_t ended;		    /* that ended last */
	uint64_t known;		    /* while what that one wrote is published: the newest of its
				     * context whose end's time is known; 0: none */
	/* What the port of the device's memory would have to carry when its last bracket ended, if
	 * all elements were sent by copies; by way. */
	double load_ns[NR_WAYS];
	double mean_ns; /* how long its brackets take */
};

static struct event *find(const struct replicas *rs, uint8_t own, uint64_t number)
{
	struct history *h = own < WEIR_DEVICES_MAX ? rs->history[own] : NULL;
	struct event *event = h && number ? &h->event[number % EVENTS] : NULL;

	return event && event->number == number ? event : NULL;
}

static uint64_t hash_uses(const struct use_list *uses, const struct weir_space *space)
{
	uint64_t hash = uses->nr;

	for (uint32_t u = 0; u < uses->nr; u++) {
		const struct space_use *use = &uses->use[u];
		uint64_t offset = 0;
		uint8_t copy = 0;
		const struct replica *r = replica_of_use(space, use, &copy, &offset);

		if (!r)
			continue;
		hash = hash_mix(hash, r->number);
		hash = hash_mix(hash, ((uint64_t)use->elements << 4 | use->kind) << 8 | copy);
		hash = hash_mix(hash, offset);
		hash = hash_mix(hash, use->bytes);
	}
	return hash;
}

uint64_t learn_begin(struct weir_space *space, const struct stream_slot *slot,
		     const struct use_list *uses)
{
	struct replicas *rs = replicas_of(space);
	struct history *h = rs->history[slot->own];
	struct event *event, *before;
	uint64_t *newest;

	if (!h)
		h = rs->history[slot->own] = calloc(1, sizeof(*h));
	if (!h)
		return 0;
	event = &h->event[++h->next % EVENTS];
	event->number = h->next;
	event->nr = 0;
	event->behind = event->seq = event->end = event->end_ns = 0;
	event->shape = event->context = hash_uses(uses, space);
	for (uint64_t n = 1; n < CONTEXT; n++) {
		before = find(rs, slot->own, h->next - n);
		event->context = hash_mix(event->context, before ? before->shape : 0);
	}
	newest = &h->newest[event->context % EVENTS];
	event->older = *newest;
	*newest = h->next;
	/* Other contexts' events may be in the list, too. */
	before = find(rs, slot->own, event->older);
	while (before && before->context != event->context)
		before = find(rs, slot->own, before->older);
	event->previous = before ? before->number : 0;
	return h->next;
}

/* Whether something was read of an event. */
static bool has(const struct event *event, const struct reading *reading)
{
	for (uint32_t n = 0; event->reading && n < event->nr; n++) {
		const struct reading *e = &event->reading[n];

		if (e->replica == reading->replica && e->to == reading->to &&
		    e->elements == reading->elements && e->offset == reading->offset &&
		    e->end == reading->end)
			return true;
	}
	return false;
}

/* Without memory it is not known, and is fetched. */
static void reading_add(struct event *event, const struct reading *reading)
{
	uint32_t max = MAX(4u, 2 * event->max);
	struct reading *grown;

	if (has(event, reading)) /* again, as what is written once and read for ever */
		return;
	if (!event->reading || event->nr == event->max) {
		grown = realloc(event->reading, max * sizeof(*grown));
		if (!grown)
			return;
		event->reading = grown;
		event->max = max;
	}
	event->reading[event->nr++] = *reading;
}

void learn_read(struct replica *r, uint8_t to, uint64_t offset, uint64_t end, bool elements)
{
	const struct history *h = r->replicas->history[to];
	uint64_t behind = h ? h->ended : 0;

	while (offset < end) {
		uint32_t p = pieces_find(r, offset);
		uint64_t next = MIN(piece_end(r, p), end);
		struct event *event = find(r->replicas, r->piece[p].writer, r->piece[p].event);
		struct reading *last = event && event->nr ? &event->reading[event->nr - 1] : NULL;

		if (event && r->piece[p].writer != to) {
			if (last && last->replica == r->number && last->to == to &&
			    last->elements == elements && last->end == offset)
				last->end = next;
			else
				reading_add(event, &(struct reading){r->number, to, elements,
								     offset, next, behind});
		}
		offset = next;
	}
}

bool learn_nth(struct weir_space *space, const struct stream_slot *slot, uint32_t n,
	       struct learnt *out)
{
	const struct replicas *rs = replicas_of(space);
	const struct event *now = find(rs, slot->own, slot->shared_event);
	const struct event *last = now ? find(rs, slot->own, now->previous) : NULL;
	const struct event *before = last ? find(rs, slot->own, last->previous) : NULL;
	const struct reading *reading = before && n < last->nr ? &last->reading[n] : NULL;
	struct replica *r = reading ? rs->replica[reading->replica] : NULL;

	if (!reading) {
		if (now)
			rs->history[slot->own]->known = 0;
		return false;
	}
	*out = (struct learnt){.to = reading->to, .elements = reading->elements};
	if (r && r->subscription == WEIR_SUBSCRIBE_LEARNED && has(before, reading)) {
		out->replica = r;
		out->offset = reading->offset;
		out->end = MIN(reading->end, r->bytes);
	}
	return true;
}

/* ------------------------------------------------------------------ times */

/* Events of a context that are looked at: as many as a program is ahead of its devices. Of these,
 * the newest whose times are known count: one may have waited for something that others do not. */
#define AHEAD 64u
#define KNOWN 4u
/* Brackets whose time is the most that a port is thought to be behind, and brackets that their mean
 * time is of. */
#define BEHIND 64
#define MEAN 16

/* When an event's bracket was done; 0: that is not known. */
static uint64_t end_ns_of(const struct weir_space *space, struct event *event)
{
	struct backend *b = space->backend;

	if (event->end && event->seq <= space->done_seq) {
		event->end_ns = b->observe->fence_time_ns(b, event->end);
		event->end = 0;
	}
	return event->end_ns;
}

/* From the end of one device's event to that of another's; NAN: not known. */
static double between_ns(const struct weir_space *space, struct event *from, uint8_t own,
			 uint64_t number)
{
	struct event *to = find(replicas_of(space), own, number);
	uint64_t begin = end_ns_of(space, from), end = to ? end_ns_of(space, to) : 0;

	return begin && end ? (double)(int64_t)(end - begin) : NAN;
}

/* The newest event of a context whose end is known, from one on; NULL: none. */
static struct event *known_from(const struct weir_space *space, uint8_t own, uint64_t number)
{
	const struct replicas *rs = replicas_of(space);
	struct event *event = find(rs, own, number);

	for (uint32_t n = 0; n < AHEAD && event && !end_ns_of(space, event); n++)
		event = find(rs, own, event->previous);
	return event && event->end_ns ? event : NULL;
}

/* A bracket took so long; NAN: that is not known, and nothing is of the load either. */
static void ports_pass(struct history *h, double ns)
{
	if (ns >= 0)
		h->mean_ns += (ns - h->mean_ns) / MEAN;
	for (int way = 0; way < NR_WAYS; way++)
		h->load_ns[way] =
			ns >= 0 ? MIN(MAX(h->load_ns[way] - ns, 0), BEHIND * h->mean_ns) : 0;
}

void learn_ended(struct weir_space *space, const struct ended_bracket *ended)
{
	struct replicas *rs = replicas_of(space);
	uint8_t own = ended->slot->own;
	struct event *event = find(rs, own, ended->slot->shared_event), *known;
	struct history *h = rs->history[own];
	double ns = NAN;

	if (!event)
		return;
	event->seq = space->last_seq;
	event->end = ended->end;
	event->behind = h->ended;
	h->ended = event->number;
	if (!rs->lists)
		return;
	known = known_from(space, own, event->previous);
	h->known = known ? known->number : 0;
	for (uint32_t n = 0; n < KNOWN && known; n++) {
		ns = fmin(ns, -between_ns(space, known, own, known->behind));
		known = find(rs, own, known->previous);
	}
	ports_pass(h, ns);
}

/* The least time that a reader of some bytes of an event had; NAN: not known. */
static double slack_of(const struct weir_space *space, const struct replica *r, struct event *event,
		       uint8_t to, uint64_t offset, uint64_t end)
{
	double least = NAN;

	for (uint32_t n = 0; n < event->nr; n++) {
		const struct reading *reading = &event->reading[n];

		if (reading->replica == r->number && reading->to == to && reading->elements &&
		    reading->offset < end && offset < reading->end)
			least = fmin(least, between_ns(space, event, to, reading->behind));
	}
	return least;
}

double learn_slack_ns(const struct weir_space *space, const struct replica *r, uint8_t from,
		      uint8_t to, uint64_t offset, uint64_t end)
{
	const struct replicas *rs = r->replicas;
	const struct history *h = from < WEIR_DEVICES_MAX ? rs->history[from] : NULL;
	struct event *event = h ? find(rs, from, h->known) : NULL;
	double least = NAN;

	for (uint32_t n = 0; n < KNOWN && event; n++) {
		least = fmin(least, slack_of(space, r, event, to, offset, end));
		event = find(rs, from, event->previous);
	}
	return least > 0 ? least : 0;
}

void learn_load(struct replicas *rs, uint8_t from, uint8_t to, double send_ns, double receive_ns)
{
	if (from < WEIR_DEVICES_MAX && rs->history[from] && rs->lists)
		rs->history[from]->load_ns[SENDS] += send_ns;
	if (to < WEIR_DEVICES_MAX && rs->history[to] && rs->lists)
		rs->history[to]->load_ns[RECEIVES] += receive_ns;
}

double learn_load_ns(const struct replicas *rs, uint8_t from, uint8_t to)
{
	const struct history *sender = from < WEIR_DEVICES_MAX ? rs->history[from] : NULL;
	const struct history *receiver = to < WEIR_DEVICES_MAX ? rs->history[to] : NULL;

	return MAX(sender ? sender->load_ns[SENDS] : 0, receiver ? receiver->load_ns[RECEIVES] : 0);
}

void learn_fini(struct replicas *rs)
{
	for (uint32_t own = 0; own < WEIR_DEVICES_MAX; own++) {
		for (uint32_t e = 0; rs->history[own] && e < EVENTS; e++)
			free(rs->history[own]->event[e].reading);
		free(rs->history[own]);
	}
}
