/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicated ranges: what they are made of, and what the files of this folder call of each other.
 * docs/replica.md says why. Everything is guarded by the space's lock.
 *
 *   granule    a part of a range, as large as the machine's mapping granularity: what a copy is
 *              held and mapped by
 *   copy       of a granule: a chunk in a device's memory, or in the host's; or a part of the *one
 *              copy*, which is the mapped range at the address that weir_alloc() returned
 *   window     a device's own addresses for the range
 *   view       which copy a device's window shows of a granule: its own, another one, or none yet
 *   piece      bytes of the range, and the copies that have what was written there last
 *   message    a copy of such bytes to a copy that lacks them
 *   lane       the messages from one copy to another
 *   access     of a copy, by a bracket's launches or by a message
 *
 *   parts.c      what a use names, and where copies have it
 *   pieces.c     which copies have what was written last
 *   chunks.c     memory: what the space lends, and what is had of it
 *   copies.c     views: giving a device a copy of its own, and taking it away
 *   arrange.c    whose copies there is room for, where there is not room for all
 *   clock.c      what precedes what, by the waits that were made
 *   accesses.c   what an access waits for, on the device
 *   lanes.c      messages under way
 *   message.c    sending them
 *   parcel.c     by which mechanism
 *   lists.c      elements that devices are subscribed to
 *   list_memory.c  their numbers, in memory of the machine
 *   elements.c   subscribing to them
 *   packets.c    sending such elements side by side
 *   tracking.c   lists of what kernels were seen to read
 *   use.c        brackets that name windows, or the one copy
 *   slice.c      a part that is published while its bracket is open
 *   readings.c   who reads what a bracket writes
 *   publish.c    sending that, and subscriptions
 *   one.c        the one copy beside the moves of its blocks
 *   collapse.c   filling it for the host
 *   replicate.c  weir_replicate() and what else is public
 *   check.c      the invariants
 *   mechanism.c  the model of how long each mechanism takes
 */
#ifndef WEIR_REPLICA_REPLICA_H
#define WEIR_REPLICA_REPLICA_H

#include "src/core/kind.h"
#include "weir/replica.h"

/* Copies by number: the devices' by the place of their own memory, then these two. */
#define COPY_HOST WEIR_DEVICES_MAX
#define COPY_ONE (WEIR_DEVICES_MAX + 1)
#define COPIES_MAX (WEIR_DEVICES_MAX + 2)
#define COPY_NONE 0xffu

typedef uint32_t copies_t; /* a set of copies, a bit each */
#define COPY_BIT(copy) (UINT32_C(1) << (copy))
/* Bytes that were never written: what any copy has there will do. */
#define COPIES_ANY (COPY_BIT(COPIES_MAX) - 1)

/* From `start` to the start of the next one. */
struct piece {
	uint64_t start;
	copies_t current; /* have what was written last; never empty */
	copies_t listed;  /* these, and devices' that have it of the elements in their lists */
	uint8_t writer;	  /* the device that wrote it, by its place; else COPY_NONE, ... */
	uint64_t event;	  /* ... and with which of its events: see readings.c */
};

/* A memory of the space: where copies are, on an account whose budget the space lends. */
struct replica_memory {
	struct range_owner owner; /* first: an owner of windows is one of these */
	struct phys_client client;
	struct replicas *replicas;
	uint8_t copy; /* the copies that are there */
	/* Others needed the memory and had some: no more is asked for than is free. */
	bool yields;
	bool (*evict)(struct weir_space *space, uint8_t copy);	       /* copies_evict() */
	bool (*evict_packets)(struct weir_space *space, uint8_t copy); /* packets_evict() */
	bool taking;	      /* room is being made for this one: it gives none itself */
	uint32_t at, granule; /* the range, and the granule of it, that are looked at next */
	/* See arrange.c; of a device's own memory. */
	uint32_t nr_borrowed;	   /* views of its windows, of all ranges */
	double borrowed_ns;	   /* that uses of these took since the last look */
	double look_ns;		   /* so much of it is worth a look */
	bracket_seq_t arrange_seq; /* copies are exchanged when it is done; 0: none are */
};

struct replica_chunk {
	struct backend_chunk backend; /* handle 0: there is none */
	uint64_t devices;	      /* whose engines use it */
};

/* What precedes a point of a stream: see clock.c. */
#define CLOCK_SLOTS 32u
#define CLOCK_ENTITIES (CLOCK_SLOTS + 64u)
#define CLOCK_ENDED 128u
struct clock {
	uint64_t known[CLOCK_ENTITIES]; /* the newest number, by entity; 0: none */
};

struct slot_clock {
	uint64_t stream_number; /* whose it is */
	struct clock clock;
};

struct ended_clock {
	bracket_seq_t seq; /* of the bracket, as it ended */
	struct clock clock;
};

struct message {
	uint64_t number;	/* on one of its lane's streams; 0: it is on another one */
	uint32_t entity;	/* with a number: of that stream */
	struct clock clock;	/* the same, as it was queued */
	uint64_t offset, bytes; /* in the range */
	struct replica *replica;
	struct list *list;   /* whose memory it uses; NULL: none's */
	bracket_seq_t after; /* it waits for that bracket; 0: for none that is known */
	stream_id_t stream;
	bool fenced; /* else no fence could be recorded behind it yet */
	fence_t fence;
};

/* A part of a copy that a bracket used which ended. */
struct used {
	bracket_seq_t seq;
	struct stream_slot *slot;
	uint64_t offset, end;
	bool writes, atomic;
};

/* The newest of them of a copy, as many as programs are ahead of their devices. */
#define USED_MAX 128u
struct used_list {
	struct used used[USED_MAX];
	uint32_t next;	    /* used[next % USED_MAX] is the oldest */
	bracket_seq_t lost; /* the newest that had no room any more */
};

struct lane_stream {
	bool made; /* whether there is one */
	stream_id_t stream;
	uint32_t entity;
	uint64_t number; /* of the newest message on it */
	struct clock clock;
};

/* Messages under way from one copy to another: first in, first out; grows. */
struct lane {
	uint8_t from, to;
	struct lane *next; /* that has messages */
	struct lane_stream
		out; /* of where from: copies that no bracket waits for as it begins; packs */
	struct lane_stream in;			  /* of where to: unpacks */
	struct replica_chunk out_chunk, in_chunk; /* for packets, at both ends; handle 0: none */
	struct message *message;
	uint32_t head, nr, max;
};

/*
 * A replicated range.
 * Invariants (check() in check.c): pieces begin at 0, ascend, end before bytes, and no two
 * neighbours are alike; a copy that is current has a chunk there, but where any will do, and is
 * listed, too; one that is listed alone is of a device with a list, and has a chunk where that has
 * elements; a view other than COPY_NONE has one.
 */
struct replica {
	struct replicas *replicas; /* these never change */
	uint32_t number;	   /* in replicas->replica[] */
	uint64_t bytes;
	uint32_t nr_granules;
	uint64_t devices; /* by place of their own memories */
	uint32_t element_bytes;
	enum weir_subscription subscription;
	struct range *one;   /* the one copy, ... */
	uint64_t one_offset; /* ... from here on, in it */

	void *window_addr[WEIR_DEVICES_MAX];		   /* by place, as window[] */
	struct range *window[WEIR_DEVICES_MAX];		   /* NULL: the device has none */
	struct replica_chunk *chunk[WEIR_DEVICES_MAX + 1]; /* by copy, then granule */
	struct replica_chunk tracked[WEIR_DEVICES_MAX];	   /* see tracking.c; handle 0: none */
	uint8_t *view[WEIR_DEVICES_MAX];		   /* by place, then granule */
	float *heat[WEIR_DEVICES_MAX];			   /* the same; NULL: see arrange.c */
	struct list *list[WEIR_DEVICES_MAX];		   /* by place: see lists.h; NULL: none */
	struct used_list *used[COPIES_MAX];		   /* by copy; NULL: no bracket used it */
	uint32_t nr_borrowed;				   /* views: see replica_borrows() */

	struct piece *piece; /* sorted by start */
	uint32_t nr_pieces, max_pieces;
	uint32_t nr_reserved;		 /* pieces more that open brackets may make when they end */
	struct subscription *subscribed; /* by weir_subscribe(): see publish.c */
	uint32_t nr_subscriptions, max_subscriptions;
	bool one_is_current; /* the one copy may have something current */

	uint32_t nr_busy; /* calls that wait and use it */
	bool dying;	  /* freed: goes when nothing is under way */
};

/* What a space has of them; made with the first one, gone with the space. */
struct replicas {
	struct weir_space *space;
	struct replica **replica; /* by number; NULL: none has it */
	uint32_t nr_replicas, max_replicas;
	struct replica_memory memory[PLACES_MAX]; /* by place; those between are not used */
	struct lane *lane[COPIES_MAX];		  /* by where from; NULL: none yet; then where to */
	struct lane *active;			  /* those that have messages */
	uint32_t nr_entities;			  /* lanes that have one */
	struct slot_clock slot_clock[CLOCK_SLOTS];   /* by slot's number */
	struct ended_clock ended_clock[CLOCK_ENDED]; /* by bracket's, of the newest */
	uint64_t granule_bytes;
	struct history *history[WEIR_DEVICES_MAX]; /* of each device's brackets */
	struct list *lists;			   /* all that there are */
	uint64_t packet_bytes;		 /* of a packet, and of a part of a list; at most */
	uint64_t nr_messages;		 /* under way */
	bracket_seq_t retired_seq;	 /* brackets that were done when messages were looked at */
	struct weir_replica_stats stats; /* what was sent so far */
	enum weir_message_kind kind;	 /* of what is sent now */
	bool move_nothing; /* for the limit of a benchmark: all is done but the copies */
	bool arrange_soon; /* for tests: as soon as it gains anything at all */
	/* For tests: elements of lists are sent by the mechanism of this number less 1; 0: by the
	 * one that is chosen. */
	uint32_t forced;
};

/* A part of a range as a copy has it. */
struct access {
	struct replica *replica;
	uint64_t offset, end;
	uint8_t copy;
	bool writes;
	bool message; /* by a message; else by launches */
	bool atomic;  /* no order with others by atomics */
};

extern const struct range_kind replica_kind;

static inline struct replicas *replicas_of(const struct weir_space *space)
{
	return space->shared;
}

/* The replicated range of a window. */
static inline struct replica *replica_of_window(const struct range *window)
{
	const struct replica_memory *memory = (const struct replica_memory *)window->owner;

	return memory->replicas->replica[window->number];
}

/* Whether a device's window shows a copy of a granule that is not the device's own. */
static inline bool replica_borrows(const struct replica *r, place_t own, uint32_t g)
{
	return r->view[own][g] != own && r->view[own][g] != COPY_NONE;
}

static inline place_t memory_place(const struct weir_space *space, uint8_t copy)
{
	return copy == COPY_HOST ? space_host(space) : (place_t)copy;
}

/* ---- parts.c */

/* Of a use: the replicated range that it names a part of, through a window or at the one copy;
 * NULL: none. *copy: COPY_ONE, or the device's, by its place; *offset: in the range. */
struct replica *replica_of_use(const struct weir_space *space, const struct space_use *use,
			       uint8_t *copy, uint64_t *offset);

/* Of a bracket that names the whole space: see struct shared_ops. */
uint32_t replica_resolve(const struct weir_space *space, const struct space_use *arena,
			 struct space_use *out);

/* Whether two uses, of brackets or of the host, must not be open together. */
bool replica_contradict(const struct weir_space *space, const struct space_use *a,
			const struct space_use *b);

/* The replicated range that an address is in, at its one copy or in a window; NULL: none. */
struct replica *replica_find(struct weir_space *space, const void *addr, uint64_t *offset);

/* Where a copy has a byte, for copies of bytes: its address, and how many follow there. *chunk:
 * NULL: the one copy's, which all engines of the space may use. */
char *copies_alias(const struct replica *r, uint8_t copy, uint64_t offset, uint64_t *bytes,
		   struct replica_chunk **chunk);

/* Which copy a device's window shows at an offset; *end: up to where. */
uint8_t copies_view(const struct replica *r, place_t own, uint64_t offset, uint64_t *end);

/* Whether a device's window shows a copy of its own all over a part. */
bool copies_own(const struct replica *r, uint8_t own, uint64_t offset, uint64_t end);

/* The memory where a copy has a byte, by its index in the machine. */
uint32_t copies_memory(const struct weir_space *space, const struct replica *r, uint8_t copy,
		       uint64_t offset);

/* ---- pieces.c */

/* The piece that a byte is in. */
uint32_t pieces_find(const struct replica *r, uint64_t offset);

static inline uint64_t piece_end(const struct replica *r, uint32_t p)
{
	return p + 1 < r->nr_pieces ? r->piece[p + 1].start : r->bytes;
}

/* Whether two neighbours are one piece. */
bool pieces_are_alike(const struct piece *a, const struct piece *b);

/* Room for nr more pieces beside those that are reserved. @return 0 or -ENOMEM. */
int pieces_reserve(struct replica *r, uint32_t nr);

/*
 * What becomes of bytes of the range; there is room for two more pieces.
 * pieces_write: a copy alone has what was written last, with an event of the device whose place is
 *   writer, or by others (COPY_NONE).
 * pieces_add, pieces_drop: a copy has it as well, or not any more.
 * pieces_add_listed: a device's has it of the elements in its list.
 */
void pieces_write(struct replica *r, uint64_t offset, uint64_t end, uint8_t copy, uint8_t writer,
		  uint64_t event);
void pieces_add(struct replica *r, uint64_t offset, uint64_t end, uint8_t copy);
void pieces_drop(struct replica *r, uint64_t offset, uint64_t end, uint8_t copy);
void pieces_add_listed(struct replica *r, uint64_t offset, uint64_t end, uint8_t copy);
/* A device's list is another one, or none, from here on. */
void pieces_forget_list(struct replica *r, uint8_t own);

/* ---- chunks.c */

enum chunks_from {
	CHUNKS_FREE, /* what is lent already, or free */
	CHUNKS_LENT, /* also what the space's other ranges give for it, and packets' */
	CHUNKS_ANY,  /* also other copies' memory */
};

/*
 * A chunk on the account of the memory where a copy is. A part of a pass; settle NULL: where it
 * would wait there is none. @return 0, SETTLE_WAIT, -ENOMEM, or an error of the machine.
 */
int chunks_get(struct weir_space *space, uint8_t copy, uint64_t bytes, enum chunks_from from,
	       struct settle *settle, struct replica_chunk *out);
/* There may be none. */
void chunks_put(struct weir_space *space, uint8_t copy, struct replica_chunk *chunk);
/* See that an engine of a device, as a mask, may use a chunk. NULL: all may. */
int chunks_allow(struct weir_space *space, struct replica_chunk *chunk, uint64_t device);

/* Bytes of all chunks in the memory where a copy is. */
uint64_t chunks_bytes(const struct weir_space *space, uint8_t copy);

/* ---- copies.c */

void memories_init(struct replicas *rs);
void memories_fini(struct replicas *rs);

/*
 * A part of a pass: see that a device's window shows something of each granule of a part, and a
 * copy of its own as far as there is room. @return 0, SETTLE_WAIT, -ENOMEM, or an error of the
 * machine.
 */
int copies_ready(struct weir_space *space, struct replica *r, place_t own, uint64_t offset,
		 uint64_t end, struct settle *settle);

/* Give up a copy, in a memory, of a granule that nobody uses and that has nothing that is not
 * elsewhere, too. @return whether there was one. */
bool copies_evict(struct weir_space *space, uint8_t copy);

/* The budget that is lent in a memory is no more than is needed for what is there. */
void copies_lend_back(struct weir_space *space, struct replica_memory *memory);

/* struct shared_ops */
bool copies_give(struct weir_space *space, place_t place);
int copies_spill(struct weir_space *space, place_t place, uint64_t nr, struct settle *settle);

/* Have a device's window show a copy of its own, if nobody uses the window there and there is a
 * chunk for it, free or of packets. @return 0, -EBUSY, -ENOMEM, or an error of the machine. */
int copies_bring(struct weir_space *space, struct replica *r, place_t own, uint32_t granule);
/* Have a window that shows another one's copy show that which is to be asked now. -EBUSY, or an
 * error of the machine. */
int copies_borrow(struct weir_space *space, struct replica *r, place_t own, uint32_t granule);
/* Give up a device's copy, as copies_evict(); windows that showed it show another one. */
bool copies_let_go(struct weir_space *space, struct replica *r, place_t own, uint32_t granule);

/* Give up a device's copies of whole granules of a part, where they can go. */
void copies_drop(struct weir_space *space, struct replica *r, uint8_t copy, uint64_t offset,
		 uint64_t end);

/* Give up the chunks of everything; nothing is under way. Errors are noted. */
void copies_drop_all(struct replica *r);

/* ---- arrange.c */

/* A bracket of a device ended, and used a part of a copy. */
void arrange_note(struct weir_space *space, place_t own, const struct space_use *use,
		  const struct access *access);

/* A part of the pass of a device's bracket, before anything is ready: exchange copies for others,
 * if that is worth while. */
int arrange(struct weir_space *space, place_t own, struct settle *settle);

/* ---- clock.c */

/* The clock of a slot's stream; NULL: it has none. */
struct clock *clock_of_slot(struct replicas *rs, const struct stream_slot *slot);
/* Whether what an entity did up to a number precedes. NULL: nothing is known. */
bool clock_knows(const struct clock *clock, uint32_t entity, uint64_t number);
/* A stream waited for that; then: the entity's clock at that point, or NULL. */
void clock_learn(struct clock *clock, uint32_t entity, uint64_t number, const struct clock *then);
/* The newest bracket that precedes; 0: none is known. */
bracket_seq_t clock_last_bracket(const struct clock *clock);
void clock_bracket_ended(struct replicas *rs, const struct stream_slot *slot, bracket_seq_t seq);
/* The clock of a bracket as it ended; NULL: it is not known any more. */
const struct clock *clock_of_bracket(const struct replicas *rs, bracket_seq_t seq);

/* ---- accesses.c */

/* A stream that is to wait. */
struct waiter {
	stream_id_t stream;
	const struct stream_slot *slot; /* whose it is; NULL: a lane's */
	struct clock *clock;		/* NULL: it has none */
};

/* Make a stream wait, on the device, for a message, which has a fence. */
int message_wait(struct weir_space *space, const struct waiter *w, const struct message *m);

/* The same for what is under way on others and conflicts with an access. */
int access_wait(struct weir_space *space, const struct waiter *waiter, const struct access *access);

/* A bracket that ended made an access, behind those noted before. */
void access_note(struct weir_space *space, const struct access *access, struct stream_slot *slot,
		 bracket_seq_t seq);

/* Whether an open bracket of another slot overwrites some of an access: has no contents of its own
 * to lose, and would lose what it stores. */
bool access_is_overwritten(const struct weir_space *space, const struct access *access);

/* Whether no bracket that is open or not done (or is being placed) names a granule through a
 * device's window. */
bool access_window_is_idle(const struct weir_space *space, const struct replica *r, place_t own,
			   uint32_t granule, bool placing);

/* ---- lanes.c */

/* The lane from one copy to another, with room for two more messages. -ENOMEM. */
int lane_get(struct replicas *rs, uint8_t from, uint8_t to, struct lane **out);
/* See that a lane has a stream, of a device by its place. */
int lane_stream(struct weir_space *space, struct lane_stream *stream, place_t own);
/* What is queued on a lane's stream by now is a message of this number. */
void lane_number(struct lane_stream *stream, struct message *m);
/* A message is under way, for which there is room. Blocks of the one copy that it uses stay where
 * they are until it is done. */
void lane_add(struct lane *lane, const struct message *m);
/* See that the messages of a lane have fences. */
int lane_fence(struct weir_space *space, struct lane *lane);
void lanes_fini(struct replicas *rs);

/* Take note of messages that are done. Unless all are wanted the backend is asked only now and
 * then, and not of those that wait for a bracket which is not known to be done: who gives away what
 * a message may use wants all. */
void messages_retire(struct weir_space *space, bool all);
/* A part of a pass: until no message is under way. */
int messages_settle(struct weir_space *space, struct settle *settle);

/* Whether a message reads or writes some bytes of a copy; of any: COPY_NONE. */
bool message_uses(const struct replica *r, uint8_t copy, uint64_t offset, uint64_t end);

/* The next lane from number *at on; NULL: there is none. */
static inline struct lane *lane_next(const struct replicas *rs, uint32_t *at)
{
	while (*at < WEIR_DEVICES_MAX * COPIES_MAX) {
		uint32_t n = (*at)++;

		if (rs->lane[n / COPIES_MAX])
			return &rs->lane[n / COPIES_MAX][n % COPIES_MAX];
	}
	return NULL;
}

static inline struct message *lane_nth(const struct lane *lane, uint32_t n)
{
	return &lane->message[(lane->head + n) % lane->max];
}

/* ---- message.c */

/* Bring to a copy what it lacks of a part, on the stream of a bracket that is being placed, or
 * (slot NULL) on lanes of their own. elements: of those in its device's list alone, where there is
 * one; the device's window shows that copy all over the part. */
int message_fill(struct weir_space *space, struct replica *r, const struct stream_slot *slot,
		 uint8_t to, uint64_t offset, uint64_t end, bool elements);

/* ---- readings.c */

/* A bracket with such uses opens on a slot's stream. @return the event's number; 0: it is not
 * known. */
uint64_t learn_begin(struct weir_space *space, const struct stream_slot *slot,
		     const struct use_list *uses);
/* A device reads a part; elements: those in its list alone. */
void learn_read(struct replica *r, uint8_t to, uint64_t offset, uint64_t end, bool elements);
/* A part that is going to be read by a device, as it was before. */
struct learnt {
	struct replica *replica; /* NULL: none; it is to be passed over */
	uint64_t offset, end;
	uint8_t to;
	bool elements; /* those in its list alone */
};
/* The slot's bracket ended: the n-th part that is read of what such a bracket writes, if it wrote
 * it, from 0 on. @return false: there are no more, which ends the looking. */
bool learn_nth(struct weir_space *space, const struct stream_slot *slot, uint32_t n,
	       struct learnt *out);
/*
 * How much time a message has, and what is before it. A context's last times say so: how long after
 * the end of the device's bracket before its own one ended, and how long after that each reader had
 * ended what it did before it read. Of spaces with lists alone.
 * learn_ended: a slot's bracket ended; before anything that it wrote is published.
 * learn_slack_ns: of what it wrote until a device reads its elements of a part; 0: not known.
 * learn_load: the ports of two copies' memories have so much more to carry, were all of it copied.
 * learn_load_ns: what the busier one would have to carry by now.
 */
void learn_ended(struct weir_space *space, const struct ended_bracket *ended);
double learn_slack_ns(const struct weir_space *space, const struct replica *r, uint8_t from,
		      uint8_t to, uint64_t offset, uint64_t end);
void learn_load(struct replicas *rs, uint8_t from, uint8_t to, double send_ns, double receive_ns);
double learn_load_ns(const struct replicas *rs, uint8_t from, uint8_t to);
void learn_fini(struct replicas *rs);

/* ---- publish.c */

/* The slot's bracket ended: publish what is going to be read of what it wrote. */
void publish_learnt(struct weir_space *space, const struct stream_slot *slot);
/* A device wrote a part: publish it to those that are subscribed to it. */
void publish_to_subscribers(struct weir_space *space, struct replica *r, uint8_t from,
			    uint64_t offset, uint64_t end);
/* Give a device copies of its own of a part, as far as there is room; waits. */
int publish_prepare(struct weir_space *space, struct replica *r, uint8_t own, uint64_t offset,
		    uint64_t end);

/* ---- one.c */

/* The blocks of the one copy that have the first and the last of some bytes. */
static inline uint32_t one_first_block(const struct replica *r, uint64_t offset)
{
	return (uint32_t)((r->one_offset + offset) / r->replicas->space->block_bytes);
}

static inline uint32_t one_last_block(const struct replica *r, uint64_t end)
{
	return one_first_block(r, end - 1);
}

/* Blocks of the one copy get contents by other means than the space's moves. */
void one_revive(struct weir_space *space, struct replica *r, uint64_t offset, uint64_t end);

/* Make a stream wait for the space's moves of them. */
int one_wait(struct weir_space *space, const struct replica *r, stream_id_t stream, uint64_t offset,
	     uint64_t end);

/* Some bytes were written elsewhere: blocks that have nothing more that is current are dead. */
void one_forget(struct weir_space *space, struct replica *r, uint64_t offset, uint64_t end);

/* Whether what the one copy alone should have from an offset on is lost; *end: up to where that
 * holds, or does not, at most what it was. */
bool one_is_lost(const struct weir_space *space, const struct replica *r, copies_t current,
		 uint64_t offset, uint64_t *end);

/* ---- use.c, collapse.c: of struct shared_ops, and called as that says */

int use_ready(struct weir_space *space, struct stream_slot *slot, struct settle *settle);
int use_open(struct weir_space *space, struct stream_slot *slot);
void use_cancel(struct weir_space *space, struct stream_slot *slot);
void use_ended(struct weir_space *space, const struct ended_bracket *ended);
bool use_contradicts(struct weir_space *space, const struct stream_slot *slot);

int one_fill(struct weir_space *space, struct space_use *part, struct settle *settle);
void one_filled(struct weir_space *space, struct space_use *part, bool written);

/* ---- parcel.c */

/* For people and results: "whole", "runs", "packets". */
const char *replica_mechanism_name(enum weir_replica_mechanism how);

/* ---- replicate.c */

/* For benchmarks: whatever a space with replicated ranges should send is taken to be there. */
void replicas_move_nothing(struct weir_space *space);

#endif
