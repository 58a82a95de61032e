/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space and its ranges, as core and the mapped mode see them.
 *
 * Lock: one, space.lock, a leaf as far as weir is concerned: nothing of weir's is taken while it
 * is held but the locks of the memories' accounts and the log's. It protects every field of the
 * space, its ranges, blocks and pools. Allowed while it is held: backend calls that do not block.
 * Not allowed: backend calls that block (they would keep the migrator out; space_settle() drops the
 * lock around them), and asking others for memory.
 */
#ifndef WEIR_CORE_SPACE_H
#define WEIR_CORE_SPACE_H

#include <pthread.h>

#include "src/core/block.h"

/* Times that a call is made which must not fail, before it is given up. */
#define SPACE_TRIES 4
/* Chunks that no allocation may count on: copies on their way hold two. */
#define SPACE_CHUNKS_SPARE 2u
/* The least budget of a memory that has one, and what is not lent of it, in chunks. */
#define SPACE_CHUNKS_LEAST 2u
/* Smallest allocation unit of ranges below one block. */
#define SPACE_SMALL_ALIGN 256u

/* The newest copies of a range's blocks over a path. */
struct range_path {
	fence_t ready;	 /* into their homes */
	fence_t cleaned; /* into lower copies; writers wait for it */
};

/* Of a block of a range that several devices use. */
struct block_home {
	place_t own;  /* where it is resident: the memory of the device that last used it twice */
	place_t user; /* the memory of the device that used it last */
};

/*
 * One allocation, or an arena that small allocations are cut from. What a bracket touches comes
 * first, in the order in which it does: a bracket that moves nothing waits for little else than
 * these cache lines.
 * Invariants (range_check): the counts are those of a walk over block[]; a pooled range has no
 * pins.
 */
struct range {
	void *addr;	/* block-aligned; never changes */
	uint64_t bytes; /* as asked for; an arena: all of it */
	/* NULL: mapped, as is said here. Others are as in kind.h, and have no blocks. */
	const struct range_kind *kind; /* never changes, nor does number */
	uint32_t nr_blocks;	       /* never changes */
	bool arena;
	bool pooled;			   /* free, waiting for reuse */
	bool free_pending;		   /* freed inside an open bracket that names it */
	place_t own;			   /* where its blocks are resident, but for homes[] */
	life_t life;			   /* its present allocation; 0 while pooled */
	uint64_t mark;			   /* bracket being placed that names it */
	uint32_t mark_first, mark_last;	   /* hull of the blocks it names */
	uint32_t nr_resident, nr_unmapped; /* blocks at their own places; and not mapped */
	uint32_t nr_copying, nr_cleaning;  /* the first is the sum of nr_moving[] */
	uint32_t nr_dead, nr_clean;
	uint32_t pins;		  /* open brackets that name all of it, but for wide ones */
	uint32_t part_pins;	  /* sum of its blocks' pins */
	uint32_t nr_discards;	  /* open brackets that discard some of it */
	uint32_t nr_backed;	  /* the sum of nr_home[] */
	bracket_seq_t last_use;	  /* newest bracket that named all of it; of wide ones, those of
				     * earlier lives alone */
	bracket_seq_t last_write; /* newest of these that may have written it */
	/* The mode's: brackets that used some of it in its present life, discards among them; and
	 * when the last one did, in blocks that brackets used; 0: none yet. */
	uint32_t nr_uses, used_at;
	/* Of its blocks, by place: those that have their home there; and those on their way. */
	uint32_t nr_home[PLACES_MAX], nr_moving[PLACES_MAX];
	uint32_t nr_dirty[PLACES_MAX]; /* of the first, those of which no copy is below, or on its
					* way there */
	struct block_home *homes;      /* by block, where several devices use it; else NULL */
	bracket_seq_t last_part_use;   /* newest bracket that named any part of it */
	bracket_seq_t born; /* brackets up to it that named its bytes did so in an earlier life; of
			     * an arena: those that named any piece may have */
	uint64_t devices;   /* access list of mappings made from now on */
	uint64_t granted;   /* ... and of those that stand, at most: launches may be using them */
	/* In spaces of several devices: own memories of those that named it since it was last
	 * allocated while it was idle, a bit each. */
	uint64_t users;
	uint32_t nr_arriving; /* of nr_resident, those on their way */
	uint32_t nr_arrivals; /* times that a block came to rest at its own place */
	uint32_t stride;      /* of range_nth_block() */
	uint32_t nr_stale;
	uint32_t nr_unproved, nr_comparing;
	uint32_t nr_same, nr_changed;	   /* what comparisons found in its present life */
	uint32_t nr_replicated;		   /* allocations in it that have replicas */
	uint32_t first_stale;		   /* no block below it is stale */
	uint32_t number;		   /* by which the owner knows it */
	uint64_t traced_life;		   /* by which a trace knows its allocation; 0: none does */
	struct range_owner *owner;	   /* NULL: mapped, or removed */
	struct range_residency *residency; /* the mode's part; behind path[] */
	struct range_path *path;	   /* by path of the space; behind block[] */
	uint64_t wide_born, wide_freed;	   /* see struct wide */
	bool at_hand;			   /* range_is_at_hand(), when it was last counted */
	bracket_seq_t wide_past; /* newest wide one that may have used it in an earlier life */
	uint32_t *nr_astray;	 /* of struct wide; NULL: it is pooled, or of another kind */
	struct range *next_pooled;
	struct arena *small; /* an arena's allocations */
	struct block block[];
};

/* A use of a bracket, resolved. */
struct space_use {
	struct range *range;
	uint32_t first, nr;	   /* blocks */
	bool head_part, tail_part; /* first or last block only partly covered */
	bool ready;		   /* of another kind than mapped: its owner is to release it */
	bool atomic;		   /* declared as WEIR_ATOMIC: no order with others that were */
	bool stays;		   /* it may be touched, and is placed no better for that */
	bool hidden;		   /* ... by pointers that nobody knows of */
	bool freed;		   /* no use: what was queued before a weir_free() */
	bool elements; /* as WEIR_READ_ELEMENTS: of those that the device is subscribed to alone */
	enum weir_use_kind kind; /* WEIR_WRITE for the first of these, WEIR_READ for the other */
	enum weir_use_pattern pattern;
	uint32_t granule;
	uint64_t offset, bytes; /* in the range */
	double read_bytes, write_bytes;
	uint32_t placed;      /* blocks looked at ahead of placing, in the range's order */
	uint32_t nr_reserved; /* of a replicated range: pieces that its end may make */
	float unused;  /* of a guess: the share of its bytes that launches are not expected to
			* touch; negative where they touch them several times */
	float link_ns; /* of a guess that was in place: what that takes if they touch all of it */
};

/* Whether the use names all of a block that is one of its blocks. */
static inline bool use_covers(const struct space_use *use, uint32_t i)
{
	return !(use->head_part && i == use->first) &&
	       !(use->tail_part && i == use->first + use->nr - 1);
}

static inline bool use_writes(const struct space_use *use)
{
	return use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE;
}

/* What a bracket names, in an array that grows and serves one bracket after another. */
struct use_list {
	struct space_use *use;
	uint32_t nr, max;
	uint32_t nr_named; /* the first ones: what was declared. All others stay where they are */
	uint64_t wide;	   /* number of the bracket, if its launches may use any range; else 0 */
	bool all;	   /* it names the whole space; `use` has the ranges of then */
	bool kinds;	   /* some are of ranges of other kinds than mapped: see kind.h */
	bool unordered;	   /* all are atomic: brackets of such uses have no order with each other */
};

/* What a stream is doing. */
struct stream_slot {
	uint32_t number;
	struct weir_stream *stream;
	uint64_t stream_number; /* of the stream: its address may be that of one destroyed before */
	bool foreign; /* its device is none of the space's; in a fixed space that may be */
	place_t own;  /* else the memory of its device */
	bool open;
	bool placing;	      /* weir_begin() is at work in it */
	uint64_t launched;    /* in the open bracket, if its uses are guesses; else 0 */
	uint64_t guess;	      /* key of these; else 0 */
	uint64_t event;	      /* the open bracket's event in the record; 0: none */
	fence_t begin;	      /* the stream reached the open bracket; 0: nobody asks when */
	bool sampled;	      /* nobody but the trace does */
	bool calm;	      /* nothing moves, nor had to for the open bracket */
	bool groups;	      /* ... which may share a fence with others of the stream */
	bool barrier;	      /* the driver orders its work with that of other streams */
	uint32_t nr_unfenced; /* brackets that ended on it, last of all, and have no fence yet */
	uint32_t nr_refused;  /* times in a row that one was refused for them */
	bool ends;	      /* the stream is about to be destroyed */
	struct weir_space *space; /* never changes */
	struct use_list uses;	  /* of the open bracket, or of the one being placed */
	bracket_seq_t last_seq;	  /* the last bracket that ended on it */
	uint64_t ordered;	  /* mark of the bracket that comes after one of this stream */
	uint64_t accessed;	  /* the same of an access to a replicated range */
	uint64_t shared_event;	  /* the open bracket's, as replicated ranges know it; 0: none */
};

/* A bracket that ended and may not be done. */
struct ended_bracket {
	struct stream_slot *slot; /* the stream it was on */
	fence_t begin;
	fence_t end;	      /* 0: none yet: see fence.c */
	bool lost;	      /* there is none to be had: it counts as done */
	uint64_t event;	      /* its event in the record */
	uint64_t guess;	      /* key of its uses, if they are guesses; else 0 */
	bool in_place;	      /* something it named was not resident */
	bool sampled;	      /* its time is taken for the trace alone */
	struct use_list uses; /* kept until it is done, for the order of later brackets */
};

/* A block on its way; completes in the order queued, on each path. */
struct move {
	struct range *range;
	uint32_t block;
	enum weir_cause cause;
	fence_t fence;
	int err; /* of waiting for it */
};

/* First in, first out, grows. */
struct move_queue {
	struct move *move;
	uint32_t head, nr, max;
};

/* Blocks that lost a chunk and still show it, when another one is given it: see migrate_take(). */
#define SPACE_STALE_MAX 2u

/* Copies that wait to be queued as one batch on one path. */
#define SPACE_BATCH_MAX 16
struct copy_batch {
	struct backend_copy copy[SPACE_BATCH_MAX];
	struct move move[SPACE_BATCH_MAX];
	uint32_t nr;
};

/* What is copied from one place to another: its own stream, so that copies are done in order. */
struct path {
	place_t from, to;	       /* these never change */
	uint32_t link;		       /* of the machine, that the bytes cross, */
	enum weir_direction direction; /* and which way */
	stream_id_t stream;

	struct copy_batch batch;
	struct move_queue moving;
	bool unfenced; /* the last of them are queued and have no fence yet */
};

/*
 * Wide brackets: those whose launches may use any range (weir_begin_open()). What they declare has
 * uses; all else has none, or a bracket would cost some time for each range. Instead each has a
 * number, in the order of their begins, and a range says in which of them it lives: those with
 * numbers above its wide_born and, if it was freed while one of them was open, up to its
 * wide_freed. In their eyes all of such a range may be used and written, by atomics: it stays where
 * it is until they are done, and is freed no earlier than they end. All ranges are mapped as they
 * begin, and count as written from there on, since they are at hand, or are made so.
 */
struct wide {
	uint64_t last;		 /* number given last */
	uint64_t placing;	 /* of the one that begins; else 0 */
	uint64_t newest_open;	 /* largest of those that are open; 0: there is none */
	uint64_t ended;		 /* of the one that ended last, */
	bracket_seq_t ended_seq; /* and its number as an ended bracket */
	uint32_t nr_astray;	 /* ranges that live, and are not at hand: range_is_at_hand() */
	bool staying;		 /* what the one that begins may use stays from here on */
	bool frees;		 /* one may keep what was freed from being free */
	/* Brackets up to it that ended may have used addresses that have a new life since. */
	bracket_seq_t reborn;
};

struct compares;
struct settle;

/* A part of a pass that has a range's blocks backed: place_back(). */
struct back_pass {
	struct space_use part; /* whole blocks */
	uint32_t nth;	       /* blocks that are */
};

/* What core asks of the mode, which is built on it. */
struct space_ops {
	size_t range_bytes, block_bytes; /* of struct range_residency, and more for each block */
	/* The range is new, or freed: nothing is known of what it is used for. */
	void (*range_reset)(struct weir_space *space, struct range *range);
	/* Do what can be done now; may not wait. */
	void (*advance)(struct weir_space *space);
	void (*bracket_done)(struct weir_space *space, const struct ended_bracket *bracket);
	/* Whether nothing moves, nor is to: it is of no interest which brackets are done. */
	bool (*is_quiet)(const struct weir_space *space);
	/* A block came to its own memory, or left it. */
	void (*moved)(struct weir_space *space, struct range *range, uint32_t i, bool came,
		      enum weir_cause cause);
	/* A chunk of a device's own memory, as room_make(); a part of a pass. */
	int (*make_room)(struct weir_space *space, place_t own, uint32_t wanted,
			 struct settle *settle, struct chunk **out);
	/* Have a part's blocks backed, wherever there is room; a part of a pass. */
	int (*back)(struct weir_space *space, void *back_pass, struct settle *settle);
	/* Nobody pins some of a range any more. */
	void (*unpinned)(struct weir_space *space, struct range *range);
	/* A budget is another one from here on. */
	void (*resized)(struct weir_space *space);
	/* A copy failed; it counts as done. */
	void (*move_failed)(struct weir_space *space, const struct path *path,
			    const struct move *move, int err);
};

struct replicas;
struct tracing;

/*
 * What a space with replicated ranges asks of them (src/replica): brackets are told of, since those
 * order what replicas are sent. All with the lock.
 */
struct shared_ops {
	/* A part of the pass of weir_begin(), behind the placing. */
	int (*ready)(struct weir_space *space, struct stream_slot *slot, struct settle *settle);
	/* Queue what the bracket's launches wait for, behind the order of mapped ranges. */
	int (*open)(struct weir_space *space, struct stream_slot *slot);
	/* weir_begin() failed behind that. */
	void (*cancel)(struct weir_space *space, struct stream_slot *slot);
	/* Whether they are going to ask when brackets ended. */
	bool (*wants_times)(const struct weir_space *space);
	/* The bracket has ended, and has its fence. */
	void (*ended)(struct weir_space *space, const struct ended_bracket *bracket);
	/* Whether the uses of two brackets must not be open together. */
	bool (*contradict)(const struct weir_space *space, const struct space_use *a,
			   const struct space_use *b);
	/* Whether an open bracket has such uses, logged. */
	bool (*contradicts)(struct weir_space *space, const struct stream_slot *slot);
	/* A part of a pass: bring what was written last to a part of a mapped range whose blocks
	 * are backed and pinned, for the host; then filled(), with whether it was written. */
	int (*fill)(struct weir_space *space, struct space_use *part, struct settle *settle);
	void (*filled)(struct weir_space *space, struct space_use *part, bool written);
	/* A part of a pass: until nothing that they queued is under way. */
	int (*settle)(struct weir_space *space, struct settle *settle);
	void (*progress)(struct weir_space *space);
	/* Give back a chunk of what is lent to them in a memory, by copies that are elsewhere, too.
	 * @return whether there was one. */
	bool (*give)(struct weir_space *space, place_t place);
	/* A part of a pass: the same until they have no more than nr, moving what has to go.
	 * -ENOMEM: not all of it can. */
	int (*spill)(struct weir_space *space, place_t place, uint64_t nr, struct settle *settle);
	/* A bracket names the whole space: a use, like that of the arena, of each allocation in it
	 * that has replicas, for which there is room. @return the number of them. */
	uint32_t (*resolve)(const struct weir_space *space, const struct space_use *arena,
			    struct space_use *out);
	/* The space is about to be destroyed: nothing is asked of them. Without the lock. */
	void (*stop)(struct weir_space *space);
	/* The allocation at an offset of a mapped range is freed. */
	void (*freed)(struct weir_space *space, struct range *range, uint64_t offset);
	/* The space is destroyed; nothing is under way. */
	void (*fini)(struct weir_space *space);
};

/* Addresses that a space remembers the ranges of. */
#define RANGES_FOUND_BITS 8
#define RANGES_FOUND (1u << RANGES_FOUND_BITS)

struct weir_space {
	struct weir_machine *machine; /* these never change */
	pid_t process;		      /* that created it */
	struct backend *backend;
	uint32_t nr_devices;
	uint64_t block_bytes;
	uint32_t nr_places, nr_paths;
	uint64_t devices;	     /* a bit each; their own memories are the first places */
	uint32_t device[PLACES_MAX]; /* by place: whose own memory it is */

	pthread_mutex_t lock;
	pthread_cond_t placed; /* placing became false */
	bool placing;	       /* one weir_begin() makes its uses ready; may drop the lock */
	bool keep_marked;      /* ... and what it names is not to be moved for others */
	bool impatient;	       /* ... and it has waited for as long as it may: patience_ns */
	/* Brackets are made of guesses, and streams are the program's to order: so allocations and
	 * frees are in the order of the streams that they name, as in a fixed space. */
	bool guessed;
	/* While it is fixed: what the devices' own memories have no room for is refused (-ENOSPC),
	 * and does not lie elsewhere. */
	bool own_only;
	enum weir_space_mode mode;
	struct pmm pmm[PLACES_MAX]; /* by place */
	struct path *path;	    /* space_path() */
	struct compares *compares;  /* NULL: what may have been written is copied */
	/* All of them, pooled ones and arenas included. Decisions go by the first table: newest
	 * first, wherever the backend put them. */
	struct range **range, **by_addr;
	uint32_t nr_ranges, max_ranges;
	/* Where addresses that were asked for lately are, by a hash; NULL: not known. */
	struct range *found[RANGES_FOUND];
	struct range *pooled;	     /* last freed first */
	struct range *removed;	     /* of other kinds than mapped, until no bracket names them */
	struct list_link owners;     /* of ranges of other kinds */
	uint64_t nr_live_blocks;     /* of ranges that are not pooled */
	uint64_t nr_stale;	     /* blocks, over all ranges */
	uint64_t nr_calls, calls_ns; /* mapping calls, and the host's time in them */
	life_t last_life;

	struct stream_slot **slot; /* stay where they are: a begin may be at work in one */
	uint32_t nr_slots, max_slots;
	/* How long a bracket waits for launches before it uses in place what it would move, since
	 * they may wait for the bracket's own; 0: as long as it takes. */
	uint64_t patience_ns;
	/* The last one that was waited for in vain, and is not again, when that was given up, and
	 * the first one that did not wait for it. */
	bracket_seq_t stuck_seq, hasty_seq;
	uint64_t stuck_ns;
	uint64_t longest_ns; /* that one was waited for and not in vain, or would not have been */

	uint32_t nr_open; /* brackets, host ones included */
	uint32_t nr_host_open;

	/* Ended brackets, see space_ended(). There is room for those that are open. */
	struct ended_bracket *ended;
	uint32_t max_ended;   /* a power of two, or 0 */
	uint32_t nr_unfenced; /* ended brackets without a fence, of all slots */
	bracket_seq_t last_seq, done_seq;
	bracket_seq_t shared_seq; /* newest that ended without a fence of its own */
	uint64_t nr_shared;	  /* those that did, ever; */
	uint64_t nr_refused;	  /* and times that the backend refused them one */
	/* Whether brackets may share fences now, as far as the owner of the streams knows, beside
	 * what the space does; with the lock. NULL: they may. */
	bool (*may_group)(void);

	struct wide wide;

	uint64_t nr_waits; /* for fences, ever */
	uint64_t mark;	   /* last value given to a range's mark */
	/* Grows when a block that could not give its chunk before may be able to: one came to rest,
	 * a stale mapping went, a range was freed, another bracket is placed. */
	uint64_t epoch;
	int error;   /* first error of finished work, until reported */
	bool poison; /* fill vacated and dead chunks */

	const struct space_ops *ops; /* never changes */
	struct residency *residency;
	struct replicas *shared; /* NULL: no range was ever replicated */
	const struct shared_ops *shared_ops;
	uint64_t access_mark;	  /* last value given to a slot's accessed */
	struct tracing *tracing;  /* NULL: no trace is written */
	uint32_t nr_traced_hosts; /* brackets of the CPU's that were in any trace */

	struct weir_space_stats stats;
};

/* ---- places and paths */

/* The host's memory. */
static inline place_t space_host(const struct weir_space *space)
{
	return (place_t)(space->nr_places - 1);
}

/* The place of a memory; -1: the space does not use it. */
static inline int space_place(const struct weir_space *space, uint32_t memory)
{
	for (uint32_t place = 0; place < space->nr_places; place++)
		if (space->pmm[place].memory == memory)
			return (int)place;
	return -1;
}

/* The path from one place to another one. They are in the order of where they lead to: towards the
 * device's own memory first. */
static inline struct path *space_path(const struct weir_space *space, place_t from, place_t to)
{
	return &space->path[to * (space->nr_places - 1) + from - (from > to)];
}

/* compare.c: blocks of a place that leave it and are being compared. */
uint32_t compare_nr(const struct weir_space *space, place_t from);

/* Blocks that are copied out of a place, or compared for that: queued, and with those that wait in
 * a batch. */
static inline uint32_t space_nr_leaving(const struct weir_space *space, place_t from)
{
	uint32_t nr = 0;

	for (uint32_t p = 0; p < space->nr_paths; p++)
		nr += space->path[p].from == from ? space->path[p].moving.nr : 0;
	return nr + compare_nr(space, from);
}

/* Copies on a path: queued, and those that wait in its batch; the n-th of them, oldest first. */
static inline uint32_t path_nr_moves(const struct path *path)
{
	return path->moving.nr + path->batch.nr;
}

static inline const struct move *path_move(const struct path *path, uint32_t n)
{
	const struct move_queue *moving = &path->moving;

	if (n < moving->nr)
		return &moving->move[(moving->head + n) % moving->max];
	return &path->batch.move[n - moving->nr];
}

/* Whether devices have nothing to do but to wait for the bracket that is being placed. */
static inline bool space_is_waited_for(const struct weir_space *space)
{
	return space->placing && space->done_seq == space->last_seq;
}

/* Whether it may use memory of GPUs other than its devices: places nr_devices and up. */
static inline bool space_has_neighbours(const struct weir_space *space)
{
	return space->nr_places > space->nr_devices + 1;
}

/* Whether a place is the memory of such a GPU. */
static inline bool space_is_near(const struct weir_space *space, place_t place)
{
	return place >= space->nr_devices && place != space_host(space);
}

/* The own memory of a device; -1: the device is none of the space's. */
static inline int space_own(const struct weir_space *space, uint32_t device)
{
	for (uint32_t place = 0; place < space->nr_devices; place++)
		if (space->device[place] == device)
			return (int)place;
	return -1;
}

/* The device whose own memory a place is. */
static inline const struct weir_device_desc *space_device(const struct weir_space *space,
							  place_t own)
{
	return &space->backend->desc.device[space->device[own]];
}

static inline uint32_t space_nr_to_leave(const struct weir_space *space, place_t from)
{
	uint32_t nr = space_nr_leaving(space, from);

	for (uint32_t p = 0; p < space->nr_paths; p++)
		nr += space->path[p].from == from ? space->path[p].batch.nr : 0;
	return nr;
}

/* Whether any copy is queued, or may be when a comparison is done. */
static inline bool space_is_copying(const struct weir_space *space)
{
	if (compare_nr(space, PLACE_OWN))
		return true;
	for (uint32_t p = 0; p < space->nr_paths; p++)
		if (space->path[p].moving.nr)
			return true;
	return false;
}

/* ---- range.c: ranges, pool, addresses */

/* Order in which blocks of a range are kept resident: any first n of them lie evenly, but for the
 * last one, which comes last: a part of it is hardly ever used. */
static inline uint32_t range_nth_block(const struct range *range, uint32_t n)
{
	uint32_t last = range->nr_blocks - 1;

	return n < last ? (uint32_t)((uint64_t)n * range->stride % last) : last;
}

/* Where a block of it is resident. */
static inline place_t range_block_own(const struct range *range, uint32_t i)
{
	return range->homes ? range->homes[i].own : range->own;
}

static inline uint32_t range_nr_resident(const struct range *range)
{
	return range->nr_resident;
}

static inline bool range_block_is_resident(const struct range *range, uint32_t i)
{
	return block_is_at(&range->block[i], range_block_own(range, i));
}

/* Whether it is at a place below the one where it is resident, and not moving. */
static inline bool range_block_is_settled_below(const struct range *range, uint32_t i)
{
	const struct copies *at = &range->block[i].at;

	return at->home && at->home->place != range_block_own(range, i) && !at->source;
}

/* The rank of a place for a block, as place_rank(). */
static inline place_t range_block_rank(const struct range *range, uint32_t i, place_t place)
{
	return place_rank(range_block_own(range, i), place);
}

/* Blocks that are at a place, and not moving. */
static inline uint32_t range_nr_settled(const struct range *range, place_t place)
{
	return range->nr_home[place] - range->nr_moving[place];
}

/* Blocks that are at a place below the one where they are resident, and not moving. */
static inline uint32_t range_nr_settled_below(const struct range *range)
{
	return range->nr_backed - range->nr_copying - (range->nr_resident - range->nr_arriving);
}

static inline uint32_t range_nr_unbacked(const struct range *range)
{
	return range->nr_blocks - range->nr_backed;
}

static inline bool range_is_moving(const struct range *range)
{
	return range->nr_copying != 0;
}

static inline void *range_block_addr(const struct weir_space *space, const struct range *range,
				     uint32_t i)
{
	return (char *)range->addr + (uint64_t)i * space->block_bytes;
}

/* Whether a wide bracket has nothing to do about a range as it begins: all of it is mapped, stands
 * still, and counts as written. */
static inline bool range_is_at_hand(const struct range *range)
{
	return !(range->nr_unmapped | range->nr_copying | range->nr_cleaning | range->nr_dead |
		 range->nr_clean);
}

/* Whether launches of the wide bracket of a number may use a range; 0: there is none. */
static inline bool range_is_in_wide(const struct range *range, uint64_t wide)
{
	return wide && wide > range->wide_born &&
	       (!range->free_pending || wide <= range->wide_freed);
}

/* wide.c: the following two, where that is not seen at once. */
bool wide_is_open(const struct weir_space *space, const struct range *range);
bracket_seq_t wide_find_use(const struct weir_space *space, const struct range *range);

/* Whether launches of an open wide bracket may use a range. */
static inline bool range_is_in_open(const struct weir_space *space, const struct range *range)
{
	return space->wide.newest_open && space->wide.newest_open > range->wide_born &&
	       (!range->free_pending || wide_is_open(space, range));
}

/* Newest wide bracket that ended and may have used a range in its present life; 0: none, or that is
 * done. */
static inline bracket_seq_t range_wide_use(const struct weir_space *space,
					   const struct range *range)
{
	if (!space->wide.ended || space->wide.last <= range->wide_born)
		return 0;
	if (range_is_in_wide(range, space->wide.ended))
		return space->wide.ended_seq;
	return space->wide.ended_seq > space->done_seq ? wide_find_use(space, range) : 0;
}

/* Whether the bracket being placed names any of the range, or may use it. */
static inline bool range_is_placing(const struct weir_space *space, const struct range *range)
{
	return range->mark == space->mark || range_is_in_wide(range, space->wide.placing);
}

/* Whether all blocks of a range are pinned by an open bracket. */
static inline bool range_is_pinned(const struct weir_space *space, const struct range *range)
{
	return range->pins || range_is_in_open(space, range);
}

/* Whether an open bracket, or the one being placed, names any of the range, or may use it. */
static inline bool range_is_named(const struct weir_space *space, const struct range *range)
{
	return range_is_pinned(space, range) || range->part_pins || range->nr_discards ||
	       (space->placing && range_is_placing(space, range));
}

/* Newest bracket that used all of a range, or may have; and the same of any part of it. */
static inline bracket_seq_t range_last_use(const struct weir_space *space,
					   const struct range *range)
{
	return MAX(range->last_use, range_wide_use(space, range));
}

static inline bracket_seq_t range_newest_use(const struct weir_space *space,
					     const struct range *range)
{
	return MAX(range_last_use(space, range), range->last_part_use);
}

/* Whether all brackets that used the range are done. */
static inline bool range_is_idle(const struct weir_space *space, const struct range *range)
{
	return range_newest_use(space, range) <= space->done_seq;
}

/* Newest bracket that used the block, or may have. */
static inline bracket_seq_t range_block_last_use(const struct weir_space *space,
						 const struct range *range, uint32_t i)
{
	return MAX(range_last_use(space, range), range->block[i].last_use);
}

/* Newest bracket that may have written the block. */
static inline bracket_seq_t range_block_last_write(const struct weir_space *space,
						   const struct range *range, uint32_t i)
{
	return MAX(MAX(range->last_write, range->block[i].last_write),
		   range_wide_use(space, range));
}

/* Whether the range is allocated: not freed, be it that an open bracket still names it. */
static inline bool range_lives(const struct range *range)
{
	return !range->pooled && !range->free_pending;
}

/* Whether a launch may be using the block at an address that is mapped to a chunk it gave away: it
 * cannot be mapped to another one now. */
static inline bool range_block_is_held(const struct weir_space *space, const struct range *range,
				       uint32_t i)
{
	return block_is_stale(&range->block[i]) &&
	       range_block_last_use(space, range, i) > space->done_seq;
}

/* Whether an open bracket names the block, or may use it. */
static inline bool range_block_is_pinned(const struct weir_space *space, const struct range *range,
					 uint32_t i)
{
	return range_is_pinned(space, range) || range->block[i].pins;
}

/* A new range, unbacked. -ENOMEM. */
int range_create(struct weir_space *space, uint32_t nr_blocks, struct range **out);

/* Bytes of addresses that a range has. */
static inline uint64_t range_span(const struct weir_space *space, const struct range *range)
{
	return range->kind ? range->bytes : range->nr_blocks * space->block_bytes;
}

/* A range of no blocks, for so many bytes at addresses that are not the space's. -ENOMEM; -EINVAL,
 * logged: part of it is another range. */
int range_create_bare(struct weir_space *space, void *addr, uint64_t bytes, struct range **out);

/*
 * Where blocks are resident from here on; nothing moves. A lower copy that would be above its
 * block's home by that is dropped.
 *
 * range_set_own: all blocks of a range; homes[] go, if it has them.
 * range_split: each block on its own from here on; now they are all where the range is. -ENOMEM
 * range_block_set_own: of a range with homes[].
 */
void range_set_own(struct weir_space *space, struct range *range, place_t own);
int range_split(struct range *range);
void range_block_set_own(struct weir_space *space, struct range *range, uint32_t i, place_t own);

/* It is in no table any more, and is found no more. */
void range_forget(struct weir_space *space, struct range *range);

/* Give back everything a range has. It is idle: not pinned, its brackets done, nothing moving. */
void range_destroy(struct weir_space *space, struct range *range);

/* The range that holds addr, pooled or not; NULL: none. */
struct range *range_find(struct weir_space *space, const void *addr);

/* Put a free range aside for reuse: its contents are dead. */
void range_pool_add(struct weir_space *space, struct range *range);

/* Where blocks of a range are wanted: so many in the device's own memory, so many on the host, the
 * others at neighbours, if there are any. planned: a plan that is there to stay says so, and
 * has not all resident. */
struct range_wanted {
	uint32_t resident, far;
	bool planned;
};

/*
 * Take a range of this size out of the pool. Not one with blocks that are held
 * (range_block_is_held()), nor one that would have to be waited for by a shared fence. Prefers one
 * that the slot's stream need not wait for, then one whose blocks are about where they are wanted
 * (each other one is mapping calls, which cannot be made ahead while it is in use), then the last
 * freed. slot: where it is used first; NULL: nobody said.
 *
 * NULL: there is none, or a new one is better. That is so where a plan says what is wanted, a new
 * one needs fewer mapping calls than any, and hardly any of the size are idle.
 */
struct range *range_pool_get(struct weir_space *space, uint32_t nr_blocks,
			     const struct stream_slot *slot, const struct range_wanted *wanted);

int range_check(const struct weir_space *space, const struct range *range);

/* ---- arena.c: allocations below one block, cut from ranges that are no eviction candidates */

/* Make an arena of a range of one block, or a range again of an empty arena. -ENOMEM. */
int arena_init(struct weir_space *space, struct range *range);
void arena_fini(struct range *range);

/* Cut a piece, born is that of struct range; -ENOSPC: there is none of the size; -ENOMEM. */
int arena_alloc(struct range *range, uint64_t bytes, bracket_seq_t born, void **addr);

/* The same of the piece that holds an offset. */
bracket_seq_t arena_born(const struct range *range, uint64_t offset);

/* Give the piece that begins at addr back: free from the next arena_settle() on. -EINVAL: there is
 * none. */
int arena_free(struct range *range, void *addr);

/* No open bracket names the arena: what was given back is free. @return whether anything was, and
 * nothing is left that is not. */
bool arena_settle(struct range *range);

/* Size of the piece that begins at addr or holds it; 0: none. */
uint64_t arena_find(const struct range *range, const void *addr, uint64_t *offset);

/* Where a trace's number of the piece is kept that holds an offset, and where that begins; it is 0
 * in a new one. And the same of the first piece in use from an offset on, which is then behind it;
 * NULL: there is none. */
uint64_t *arena_life(struct range *range, uint64_t offset, uint64_t *begin);
uint64_t *arena_next(struct range *range, uint64_t *offset, uint64_t *bytes);
/* Bytes of the pieces in use. */
uint64_t arena_used(const struct range *range);
void arena_destroy(struct arena *arena);
int arena_check(const struct range *range);

/* ---- fence.c: what is known of queued work */

/* Note an error of finished work. */
void space_note_error(struct weir_space *space, int err);

/* Whether a fence is known to be reached, which it may have been for some 100 us (fence_seen of
 * the backend). An error of its work is noted, and told: err may be NULL, and is left alone without
 * one. */
bool space_fence_done(struct weir_space *space, fence_t fence, int *err);

/* A fence for what is queued on one of the backend's streams; tries more than once. */
int space_fence_record(struct weir_space *space, stream_id_t stream, fence_t *out);

/* The same where nobody asks for its time. */
int space_fence_untimed(struct weir_space *space, stream_id_t stream, fence_t *out);

/* A fence is behind all brackets that ended on a slot's stream: those that have none have that. */
void space_fence_share(struct weir_space *space, struct stream_slot *slot, fence_t fence);

/* Record a fence for a slot's brackets that have none. */
int space_fence_slot(struct weir_space *space, struct stream_slot *slot);

/* The same of all slots: somebody wants to know what is done. What fails is tried again. */
void space_fence_all(struct weir_space *space);

/* Where that fails: wait a little, and try again; in the end the brackets are lost, and count as
 * done, since their context is. Blocks, without the lock. arg: the slot. */
void space_fence_again(void *arg);

/* ---- ended.c: streams, and brackets that ended on them */

/* The slot of a stream; NULL: it has none, since it had no bracket yet. */
struct stream_slot *space_slot_find(const struct weir_space *space,
				    const struct weir_stream *stream);

/* The same, created at first. NULL: no memory. */
struct stream_slot *space_slot(struct weir_space *space, struct weir_stream *stream);

/* An ended bracket, of those from done_seq + 1 to last_seq. Other entries have no more than an
 * array for uses. */
static inline struct ended_bracket *space_ended(const struct weir_space *space, bracket_seq_t seq)
{
	return &space->ended[seq & (space->max_ended - 1)];
}

/* Room for nr uses. -ENOMEM. */
int use_list_reserve(struct use_list *list, uint32_t nr);

/*
 * Give the ended bracket its number; room was reserved by space_ended_reserve(). uses: its uses,
 * swapped for an array that may be filled anew.
 */
bracket_seq_t space_ended_add(struct weir_space *space, const struct ended_bracket *bracket,
			      struct use_list *uses);

/* A bracket is done, before it counts as that: if it was waited for in vain, see whether longer
 * would have been right. */
void space_ended_retire(struct weir_space *space, bracket_seq_t seq);

/* Room for one more bracket beyond those that are open, whose ends then cannot fail for it. */
int space_ended_reserve(struct weir_space *space);

/* Whether all brackets that are not done ended on the slot's stream: their launches come before
 * those that are going to be queued there. And: all of these that named the range. */
bool space_is_before(const struct weir_space *space, const struct stream_slot *slot);
bool range_is_before(const struct weir_space *space, const struct range *range,
		     const struct stream_slot *slot);

/* ---- wide.c: see struct wide */

/* A bracket that is about to be placed is a wide one: its number. */
uint64_t wide_begin(struct weir_space *space);

/* That launches may touch a range, where it is: it is named by nobody. */
struct space_use wide_use(struct range *range);

/* The slot's bracket, which is one, opened; and has ended, as the last of all. */
void wide_opened(struct weir_space *space, const struct stream_slot *slot);
void wide_ended(struct weir_space *space, bracket_seq_t seq);

/* A range begins a life, or ends it: brackets that begin from here on may use it, or not. */
void wide_add(struct weir_space *space, struct range *range);
void wide_del(struct weir_space *space, struct range *range);

/* A range is freed, and wide brackets may be using it. */
void wide_note_free(struct weir_space *space, struct range *range);

/* A range's counts changed. */
void wide_count(struct range *range);

/* 0 or -EUCLEAN, logged. */
int wide_check(const struct weir_space *space);

/* ---- space.c */

/* What core does on completions and in every call that enters it; the one place where it advances.
 * Lock held. space_progress_known: brackets without a fence stay without. */
void space_progress(struct weir_space *space);
void space_progress_known(struct weir_space *space);

/*
 * Create the parts of a space that are core's. config is checked and its defaults are filled in.
 * space_fini: all ranges are destroyed, all brackets done.
 */
int space_init(struct weir_space *space, struct weir_machine *machine,
	       const struct weir_space_config *config);
void space_fini(struct weir_space *space);

/* Blocks of a place whose contents are nowhere else, nor on their way. */
uint64_t space_nr_dirty(const struct weir_space *space, place_t place);

/* What the device's kernels used in place so far, by link and way: WEIR_CAUSE_INPLACE of a space's
 * link_bytes. */
void space_inplace_bytes(const struct weir_space *space,
			 uint64_t link_bytes[WEIR_LINKS_MAX][WEIR_DIRECTION_NR][WEIR_CAUSE_NR]);

/* Chunks of all budgets. */
uint64_t space_nr_chunks(const struct weir_space *space);

/* Whether the budgets have room for so many more blocks of ranges. */
bool space_has_room(const struct weir_space *space, uint32_t nr_blocks);

/* Every structure of the space; 0 or -EUCLEAN, logged. */
int space_check(const struct weir_space *space);

/*
 * For those who watch a space from outside; they take the lock.
 *
 * space_where: the place of each block of a part, or the one that it is moving to, in order of
 * address; PLACES_MAX: it is unbacked. bytes > 0, all of it inside one range. where: room for max;
 * where the part has more blocks, the first ones are told. @return how many were; 0: there is no
 * such part.
 * space_has: whether an address is one of the space's.
 * space_movable_chunks: chunks of the devices' own memories that the budgets leave to blocks that
 *   may move: those of arenas are not.
 */
uint32_t space_where(struct weir_space *space, const void *addr, uint64_t bytes, place_t *where,
		     uint32_t max);
bool space_has(struct weir_space *space, const void *addr);
uint64_t space_movable_chunks(struct weir_space *space);

/* One caller at a time makes blocks ready; the others wait their turn, which comes, since it waits
 * for brackets that ended and for copies only. */
void space_placing_begin(struct weir_space *space);
void space_placing_end(struct weir_space *space);

/*
 * ---- settle.c: passes, and the one loop that waits for them
 *
 * A pass makes something so, as far as it can without waiting. It returns 0 when that is done, an
 * error, or SETTLE_WAIT, having put into its struct settle what it needs first: a fence, memory
 * that others hold and do not use, or a call that may block. space_settle() then drops the lock,
 * waits for the fence, asks the others or makes the call, lets the space progress and calls the
 * pass again. A pass keeps in arg how far it is, and looks at everything else anew: while the lock
 * was dropped, others may have changed it. What only takes part in a pass has the same return
 * values.
 */
#define SETTLE_WAIT 1

struct settle {
	fence_t fence;	/* to be waited for; then the one that was */
	bool bracket;	/* it is one's end, which may never come: see patience_ns */
	int err;	/* of that wait, or of the work before the fence; it is noted, too */
	uint64_t bytes; /* not 0: to be asked for instead, in the memory of this place: */
	place_t place;
	uint32_t in_vain; /* places, a bit each, where others have nothing */
	/* Not NULL: to be called instead, without the lock; it notes in arg how it went. */
	void (*call)(void *arg);
	void *arg;
};

typedef int (*settle_pass_fn)(struct weir_space *space, void *arg, struct settle *settle);

/* The lock is dropped meanwhile. @return what the pass returned in the end: 0 or an error. */
int space_settle(struct weir_space *space, settle_pass_fn pass, void *arg);

/* The pass that waits until brackets up to seq are done. All of them have ended. _patiently: for
 * as long as the space is patient. */
void space_settle_seq(struct weir_space *space, bracket_seq_t seq);
void space_settle_patiently(struct weir_space *space, bracket_seq_t seq);

/*
 * What a pass can wait for; SETTLE_WAIT, or 0: there is no such thing, and the lock was not
 * dropped. Of brackets up to seq, the first that is not done; of the moves on a path, the first
 * (there is none, too, where the driver refuses a fence for it); the same on the first path that
 * has any, of those that lead out of a place, or into it, or of all; then of brackets.
 */
int settle_on_seq(struct weir_space *space, bracket_seq_t seq, struct settle *settle);
int settle_on_path(struct weir_space *space, struct path *path, struct settle *settle);
int settle_on_leaving(struct weir_space *space, place_t from, struct settle *settle);
int settle_on_coming(struct weir_space *space, place_t to, struct settle *settle);
int settle_on_any(struct weir_space *space, struct settle *settle);

/* The same of room for so many chunks at a place, or at the first below one, for blocks that are
 * resident at `own`, that others may have room for; where the last attempt there to get one
 * found no room, and others hold some. */
int settle_on_others(const struct weir_space *space, place_t place, uint64_t nr,
		     struct settle *settle);
int settle_on_others_below(const struct weir_space *space, place_t own, place_t place,
			   struct settle *settle);

/*
 * ---- migrate.c: one block from here to there. Lock held throughout. No block that is mapped anew
 * is held (range_block_is_held()).
 */

/*
 * Give an unbacked block a chunk and map it. The chunk is consumed; on an error it is
 * back in its pool.
 */
int migrate_back(struct weir_space *space, struct range *range, uint32_t i, struct chunk *chunk);

/*
 * Move a block up, to the place of the chunk: remap, and queue the copy unless its contents are
 * dead. The block is settled at a lower place, not pinned, and the brackets that named it are done.
 * The chunk is consumed as above. _unmapped: the address shows nothing after it.
 */
int migrate_fetch(struct weir_space *space, struct range *range, uint32_t i, struct chunk *chunk,
		  enum weir_cause cause);
int migrate_fetch_unmapped(struct weir_space *space, struct range *range, uint32_t i,
			   struct chunk *chunk, enum weir_cause cause);

/* Either, by where the block is. */
int migrate_up(struct weir_space *space, struct range *range, uint32_t i, struct chunk *chunk,
	       enum weir_cause cause);

/*
 * Move a settled block down; not pinned, the brackets that named it done. A dead one is unbacked;
 * others are copied to `lower`; or without one, being clean, keep their lower copy; or, if that is
 * unproved, are copied into it. lower: at a place below the block's that has no valid lower copy of
 * it; consumed on success, unless the block is dead. *freed: whether its chunk came free at once.
 * The block is left unmapped: most are fetched before anybody uses them there, and are spared a
 * mapping call each way.
 */
int migrate_evict(struct weir_space *space, struct range *range, uint32_t i, struct chunk *lower,
		  enum weir_cause cause, bool *freed);

/*
 * Give the chunk of block i of `from` to block n of `to`, at once, though launches may still be
 * using it where it was: mapped at both addresses until they are done, and at those that gave it on
 * before, SPACE_STALE_MAX at most. from: resident, dead or clean, not pinned. to: dead, unbacked or
 * settled at another place, idle. The launches that use `to` must come after those that used `from`
 * (range_is_before()). So a chunk changes hands without the device being idle meanwhile.
 */
int migrate_take(struct weir_space *space, struct range *from, uint32_t i, struct range *to,
		 uint32_t n);

/* Unmap what migrate_take() and the like left mapped and nobody uses any more, some at a time.
 * @return whether there was any */
bool migrate_drop_stale(struct weir_space *space);

/* Unmap one such block, if it is one; it is not held. */
int migrate_unstale(struct weir_space *space, struct range *range, uint32_t i);

/*
 * Copy a settled, dirty block to the chunk, at a lower place, while it stays: evicting it then
 * costs no copy. No bracket that may write it is open or not done. The chunk is consumed as above.
 */
int migrate_clean(struct weir_space *space, struct range *range, uint32_t i, struct chunk *lower);

/* Take away the chunk of a dead block, at any place; idle as above. _later: of a freed range; its
 * address may show the chunk until migrate_drop_stale(). */
int migrate_unback(struct weir_space *space, struct range *range, uint32_t i);
int migrate_unback_later(struct weir_space *space, struct range *range, uint32_t i);

/* Drop a block's lower copy. */
void migrate_drop_lower(struct weir_space *space, struct range *range, struct block *block);

/* The block is written, or its contents die (`dead`): its lower copy is none any more, or
 * unproved. */
void migrate_set_dead(struct weir_space *space, struct range *range, struct block *block,
		      bool dead);

/*
 * Queue the copies gathered so far on all paths. On success all that is under way has its
 * fence. On an error the blocks of the batch are where they were before; or, where no fence could
 * be recorded, on their way until a later call records one.
 */
int migrate_flush(struct weir_space *space);

/* Record the fence of moves on a path that have none. @return 0 or the driver's error. */
int migrate_fence(struct weir_space *space, struct path *path);

/* Whether a move that has this fence is under way on a path. */
bool migrate_pending(const struct path *path, fence_t fence);

/* A wait for the fence failed: so did the moves up to it, if it is one of theirs. */
void migrate_note_error(struct weir_space *space, fence_t fence, int err);

/* Map a block that is unmapped. */
int migrate_mend(struct weir_space *space, struct range *range, uint32_t i);

/* Let the CPU touch a block that is on the host, or not. */
int migrate_set_access(struct weir_space *space, const struct range *range, uint32_t i, bool host);

/* Give the mappings of a range access for these devices. */
int migrate_set_devices(struct weir_space *space, struct range *range, uint64_t devices);

/* Finish the moves that are done. */
void migrate_retire(struct weir_space *space);

/*
 * ---- compare.c: whether a block changed while it was on the device
 *
 * Where nobody declares what is written, a written block keeps its lower copy, unproved, and what
 * leaves the device's own memory is compared with it first, by digests (docs/backend.md): one is
 * taken before the block may be written, and kept in it. Lock held.
 */

/* A space of one device, and no range, compares from here on. -ENOTSUP: it cannot; -ENOMEM; or the
 * driver's error. compare_fini: nothing is under way. */
int compare_init(struct weir_space *space);
void compare_fini(struct weir_space *space);

/* The stream of its digests, for tests. */
stream_id_t compare_stream(const struct weir_space *space);

/* Whether a block that leaves is to be compared. */
bool compare_is_wanted(const struct weir_space *space, const struct block *block,
		       enum weir_cause cause);

/* An eviction as migrate_evict() makes it, to the block's lower copy, that compares first. -EBUSY:
 * that cannot be done, and the block is as it was, or unmapped. */
int compare_evict(struct weir_space *space, struct range *range, uint32_t i, enum weir_cause cause);

/*
 * A bracket begins on the slot's stream, which waits for copies into what it names: of blocks that
 * its launches may write for the first time digests are taken, and the stream waits for them, too.
 * None is where other streams' launches are under way, or of what was of no use the last times, but
 * now and then. _forget_arrived: what is not taken yet is of no interest, as when a bracket does
 * not begin after all.
 */
void compare_begins(struct weir_space *space, const struct stream_slot *slot);
void compare_forget_arrived(struct weir_space *space);

/* Whether digests of blocks that came up are under way which launches of the slot's stream might
 * spoil: it does not come behind them. settle_on_arrived: wait for them before its bracket begins,
 * a part of a pass; what is not done then is forgotten. */
bool compare_is_spoiled(const struct weir_space *space, const struct stream_slot *slot);
int settle_on_arrived(struct weir_space *space, const struct stream_slot *slot,
		      struct settle *settle);

/* The range is destroyed; none of its blocks is being compared. */
void compare_forget_range(struct weir_space *space, const struct range *range);

/* The block is wanted and does not wait: it stays at home as if it had not been compared. */
void compare_cancel(struct weir_space *space, struct range *range, uint32_t i);

/* Let a use's blocks that are being compared go on: a part of a pass; those that the space has no
 * more patience for are cancelled. */
int compare_settle(struct weir_space *space, const struct space_use *use, struct settle *settle);

/* See to comparisons that are done, whose copies are then queued; wait for the first. As
 * migrate_retire() and settle_on_path(). */
void compare_retire(struct weir_space *space);
int settle_on_compared(struct weir_space *space, struct settle *settle);

#endif
