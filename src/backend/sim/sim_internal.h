/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's structures, shared by its files alone. One lock, sim->lock, guards everything
 * here; functions below are called with it held unless they say otherwise.
 *
 * The files, each of which uses those before it only:
 *
 *   sim_memory.c   memories: chunks and plain allocations in them
 *   sim_times.c    what each device's time goes into
 *   sim_flow.c     flows over links
 *   sim_engine.c   clocks, ops, the order in which things happen
 *   sim_region.c   reservations and the mappings in them
 *   sim_content.c  what pieces hold, by number
 *   sim_stream.c   streams
 *   sim_fence.c    fences and what waits for one
 *   sim_access.c   brackets
 *   sim_uvm*.c     managed memory, see sim_uvm.h
 *   sim_exec.c     running a kernel's function, fenced in
 *   sim_trap.c     what a kernel finds as it starts, and what traps it
 *   sim_kernel.c   kernels: when they run, what they cost
 *   sim_packet.c   packets: kernels of the machine's own
 *   sim_digest.c   digests
 *   sim_map.c      mapping, under kernels that may run
 *   sim_copy.c     copies, beside kernels that may run
 *   sim.c          the table of operations, creation and end
 *
 * The engine is below what it runs: an op says by its kind what is to be done.
 */
#ifndef WEIR_BACKEND_SIM_INTERNAL_H
#define WEIR_BACKEND_SIM_INTERNAL_H

#include <pthread.h>
#include <stddef.h>

#include "src/backend/access.h"
#include "src/backend/sim/sim.h"
#include "src/backend/sim/sim_uvm.h"
#include "src/base/list.h"
#include "src/cost/cost.h"

#define SIM_NEVER UINT64_MAX
#define SIM_GROUP 64u /* units of a region that are counted together */
#define SIM_LARGE_PAGE (UINT64_C(2) << 20)
#define SIM_FENCE_BITS 48
#define SIM_ID_STEP (UINT32_C(1) << (64 - SIM_FENCE_BITS)) /* from one id of a slot to the next */

struct sim_kernel;
struct sim_region;
struct sim_op;
struct sim_stream;

static inline uint64_t sim_ns_ceil(double ns)
{
	uint64_t whole;

	if (!(ns < 9e18))
		return UINT64_C(9000000000000000000);
	whole = (uint64_t)ns;
	/* Rounding errors are far below this, and must not cost a nanosecond. */
	return ns - (double)whole > 1e-6 ? whole + 1 : whole;
}

/* ------------------------------------------------------------------ memory (sim_memory.c) */

/* One piece of a queued copy. It is in the lists of both pieces until its bytes have moved. */
struct sim_move_link {
	struct sim_move *next, **at; /* at: what points at this move */
};

struct sim_move {
	char *dst;
	const char *src;
	uint64_t bytes;
	uint32_t dst_memory, src_memory;
	struct sim_piece *dst_piece, *src_piece; /* NULL: a buffer of the program */
	struct sim_move_link write, read;	 /* in the lists of these */
	struct sim_op *op;			 /* a struct sim_copy's */
};

/* A piece's queued and running moves: those that started, then the others as they were queued. */
struct sim_moves {
	struct sim_move *first, **end; /* end: what is to point at one more; of none, not defined */
};

/* A unit of a reservation; region NULL: none. */
struct sim_place {
	struct sim_region *region;
	uint64_t unit;
};

/* Most chunks are mapped at no more block addresses than this: a piece has room for others only
 * from the first time on that it needs it. */
#define SIM_PLACES_FEW 2u

/* What a piece's first bytes are: those of equal numbers are equal. See sim_content.c. */
struct sim_content {
	uint64_t id, bytes;
};

/* A chunk, or a plain allocation. Immovable; found by its offset in its memory. */
struct sim_piece {
	uint64_t handle; /* 0: a plain allocation */
	uint64_t offset, bytes;
	uint64_t asked_bytes; /* <= bytes; uses of a plain allocation lie in these */
	uint32_t memory;
	uint32_t nr_places; /* block addresses that it is mapped at; see sim_piece_place() */
	uint64_t devices;   /* whose copy engines may use it: a chunk's alias is mapped for these */
	struct sim_place few[SIM_PLACES_FEW];
	struct sim_place *more; /* NULL, or room for the rest of BACKEND_PLACES_MAX; owned */
	struct sim_moves writes, reads; /* copies to and from it */
	struct sim_content content;	/* but for writes that no mapping was asked for */
};

static inline struct sim_place *sim_piece_place(struct sim_piece *piece, uint32_t i)
{
	return i < SIM_PLACES_FEW ? &piece->few[i] : &piece->more[i - SIM_PLACES_FEW];
}

struct sim_extent {
	uint64_t offset, bytes;
};

/*
 * used_bytes = sum of bytes over pieces, and of what managed memory has taken of it, <= the
 * description's bytes. Pieces and free extents are
 * sorted by offset and together cover [0, alias_bytes) without overlap; no two free extents touch.
 */
struct sim_memory {
	int fd; /* -1: phantom */
	char *alias;
	uint64_t alias_bytes;
	uint64_t used_bytes;
	struct sim_piece **pieces;
	size_t nr_pieces, max_pieces;
	struct sim_extent *free; /* room for one more than max_pieces: freeing cannot fail */
	size_t nr_free;
};

struct sim;

int sim_memory_init(struct sim *sim, uint32_t memory);
void sim_memory_fini(struct sim *sim, uint32_t memory);
int sim_memory_alloc(struct sim *sim, uint32_t memory, uint64_t bytes, uint64_t align, bool chunk,
		     struct sim_piece **out);
void sim_memory_free(struct sim *sim, struct sim_piece *piece);
/* The piece that an alias lies in; NULL: none. */
struct sim_piece *sim_memory_piece_at(struct sim *sim, const void *alias);
char *sim_memory_alias(const struct sim *sim, const struct sim_piece *piece);
/* The live chunk that core means, or NULL. */
struct sim_piece *sim_memory_chunk(struct sim *sim, const struct backend_chunk *chunk);

/* ------------------------------------------------------------------ regions (sim_region.c) */

struct sim_mapping {
	struct sim_piece *piece; /* NULL: unmapped */
	uint64_t devices;
	enum backend_prot prot;
	int scratched; /* set by the fault handler: holds scratch pages */
	/* The last kernel that wrote this unit alone, by number; and the last of all when the
	 * piece's contents were asked for, or it was mapped. */
	uint64_t write, seen_write;
};

/* Counts over SIM_GROUP units: a use that covers them all asks these. */
struct sim_group {
	uint8_t in_memory[WEIR_MEMORIES_MAX];
	uint8_t readable[WEIR_DEVICES_MAX], writable[WEIR_DEVICES_MAX];
	uint8_t moving; /* units whose piece has queued copies */
	uint64_t write; /* the last kernel that wrote all units, by number; 0: none */
};

/* A reservation. Group counts agree with the mappings; nr_mapped and nr_host likewise. */
struct sim_region {
	char *base;
	uint64_t bytes, unit, nr_units;
	uint64_t nr_mapped;
	uint64_t nr_host; /* mappings that the CPU may use at any time */
	bool guarded;
	int scratched; /* some mapping is */
	struct sim_mapping *mapping;
	struct sim_group *group;
};

struct sim_region *sim_region_at(struct sim *sim, const void *addr);
/* The counts that copies queued to or from a mapped piece change: call before and after. */
void sim_region_piece_count(struct sim_piece *piece, int sign);
/* Have room for one more place of a piece. -EINVAL: it has all that it may have; -ENOMEM. */
int sim_piece_make_room(struct sim_piece *piece);
/* Make a unit's mapping another one: the one function that does. Its piece has room for it. */
void sim_mapping_set(struct sim_region *region, uint64_t unit, struct sim_mapping mapping);
/* Make a unit's pages what a mapping says. 0 or -ENOMEM, then as before. */
int sim_unit_place(struct sim *sim, const struct sim_region *region, uint64_t unit,
		   const struct sim_mapping *mapping);
/* CPU protection of a mapping outside kernels. */
int sim_region_cpu_prot(const struct sim_region *region, const struct sim_mapping *mapping);
/* Replace pages of a reservation: by a file's, or with fd -1 by fresh ones. Async-signal-safe. */
bool sim_pages_replace(char *addr, uint64_t bytes, int prot, int fd, uint64_t offset);
/* Put a unit's pages back to what its mapping says. 0 or -ENOMEM, then as before. */
int sim_region_remap(struct sim *sim, struct sim_region *region, uint64_t unit);
void sim_region_free(struct sim_region *region);

int sim_va_reserve(struct backend *b, uint64_t bytes, uint64_t unit, void **addr);
void sim_va_release(struct backend *b, void *addr, uint64_t bytes);
int sim_access_guard(struct backend *b, void *reservation, bool guarded);

/* ------------------------------------------------------------------ contents (sim_content.c) */

struct sim_content sim_content(const struct sim *sim, struct sim_piece *piece);
/* Something wrote a piece: it holds what no other piece does. */
void sim_content_renew(struct sim *sim, struct sim_piece *piece);
/* A kernel starts, whose uses are mapped. */
void sim_content_kernel(struct sim *sim, const struct sim_kernel *kernel);
/* The bytes of a move have moved. */
void sim_content_move(struct sim *sim, const struct sim_move *move);

/* ------------------------------------------------------------------ mapping (sim_map.c) */

/* What giving so many devices access to a piece takes beyond giving it to one. */
uint64_t sim_access_more_ns(const struct sim *sim, const struct sim_piece *piece, uint32_t nr);
int sim_chunk_add_devices(struct backend *b, const struct backend_chunk *chunk, uint64_t devices);
int sim_map(struct backend *b, void *addr, const struct backend_chunk *chunk,
	    enum backend_prot prot, uint64_t devices);
int sim_unmap(struct backend *b, void *addr);
int sim_set_access(struct backend *b, void *addr, enum backend_prot prot, uint64_t devices);

/* ------------------------------------------------------------------ brackets (sim_access.c) */

int sim_access_begin(struct backend *b, stream_id_t stream, const void *owner,
		     const struct weir_use *uses, uint32_t nr);
void sim_access_end(struct backend *b, stream_id_t stream, const void *owner);
int sim_access_narrow(struct backend *b, stream_id_t stream, const void *owner, const void *addr,
		      uint64_t bytes);

/* ------------------------------------------------------------------ flows (sim_flow.c) */

/* A copy's, or what a kernel reads or writes in place. */
enum sim_flow_kind { SIM_FLOW_COPY, SIM_FLOW_READ, SIM_FLOW_WRITE };

/* Bytes that cross a link in one direction for one op. remaining is as of the link's since_ns. */
struct sim_flow {
	struct sim_flow *next;
	struct sim_op *op;
	uint32_t link;
	uint32_t back; /* direction: 0 from a to b, 1 from b to a */
	enum sim_flow_kind kind;
	double remaining, cap, rate; /* bytes, bytes a ns, bytes a ns */
	uint64_t end_ns;
	struct sim_flow *unsettled; /* the next flow without a rate, while rates are found */
};

struct sim_link {
	struct sim_flow *flows[2];
	uint64_t since_ns;
	uint64_t end_ns; /* the first end of a flow; SIM_NEVER: none */
	/* Whether the port of the memory at its end a has it, and that of the other; constant. A
	 * host memory's port has all links, a device's those to other devices. */
	bool in_port[2];
};

/* Note which ports links are in. */
void sim_ports_init(struct sim *sim);
void sim_flow_start(struct sim *sim, struct sim_flow *flow);
/* Whether there is a flow of a kind over a link, one way. */
bool sim_flow_kind_runs(const struct sim *sim, uint32_t link, int back, enum sim_flow_kind kind);
/* With ports: give all flows their rates and ends, if some came or went since. */
void sim_flows_settle(struct sim *sim);
/* Take one flow that ends by now off its link, or NULL. */
struct sim_flow *sim_flow_take_ended(struct sim *sim, uint32_t link);

/* ------------------------------------------------------------------ ops (sim_engine.c) */

/* What the engine has an op do. An op without timer and flows has neither of the last two. */
struct sim_op_kind {
	bool is_copy;	/* the op is that of a struct sim_copy */
	bool is_kernel; /* the op is that of a struct sim_kernel */
	/* Whether it can start, as the head of its stream whose time has come. */
	bool (*ready)(struct sim *sim, struct sim_op *op);
	/* Start it; it may be done with that. */
	void (*start)(struct sim *sim, struct sim_op *op);
	/* The time of sim_engine_timer() has come. */
	void (*event)(struct sim *sim, struct sim_op *op);
	/* One of its flows has ended. */
	void (*flow_ended)(struct sim *sim, struct sim_op *op);
	/* As a device's running kernel, on a machine with ports: flows may have other rates. */
	void (*flows_changed)(struct sim *sim, struct sim_op *op);
};

/* Something queued on a stream. The head of a stream's queue is started or blocked. */
struct sim_op {
	struct sim_op *next;
	struct sim_stream *stream;
	const struct sim_op_kind *kind;
	bool started;
	bool waiting; /* a kernel for which the device is busy, since ready_ns */
	uint64_t ready_ns;
	uint64_t seq; /* in the order of queueing, over all streams */
	uint64_t earliest_ns;
	fence_t fence; /* of a wait: what for; of a fence or mark: its number on the stream */
};

/* What a kernel's time is made of, but for its use in place, which its flows tell. */
struct sim_parts {
	uint64_t ns[BACKEND_TIME_NR];
};

/* A kernel. uses, args and flows lie behind it. */
struct sim_kernel {
	struct sim_op op;
	const struct weir_kernel *kernel;
	void *args;
	struct weir_use *uses;
	struct cost_use *costs;
	uint32_t nr_uses;
	void (*finish)(struct sim *sim, struct sim_kernel *kernel); /* as it ends; or NULL */
	bool prefetch;		  /* no kernel: its use's part of managed memory is to come */
	uint32_t prefetch_memory; /* there */
	uint32_t nr_flows;	  /* still running */
	double ops;
	uint64_t started_ns;
	uint64_t serial_ns; /* that it takes when all else of it is done */
	/* Where it shares its HBM, from begin_ns on: what of its HBM time is left at hbm_since_ns,
	 * and how much of that passes in a nanosecond then. Its operations and launch last until
	 * least_end_ns. hbm_pace 0: it does not share. */
	double hbm_left_ns, hbm_pace;
	uint64_t begin_ns, hbm_since_ns, least_end_ns;
	struct sim_parts parts;
	bool timed_out;		   /* the time beside the flows, or after them, has passed */
	int err;		   /* what its stream will report */
	uint64_t span;		   /* of its stream's brackets as it was queued; 0: none was open */
	struct sim_packet *packet; /* NULL, or its arguments: it is a packet's */
	struct sim_flow flow[];
};

/* A packet that is queued or runs. Its kernel has the uses of backend_packet_launch(). */
struct sim_packet {
	struct backend_packet args;
	struct sim_kernel *kernel;
	struct list_link link; /* in sim->packets */
	/* Of the streams whose open brackets it has no order with: their spans. */
	uint32_t nr_spans;
	uint64_t span[];
};

static inline const struct sim_packet *packet_of(const struct list_link *link)
{
	return (const void *)((const char *)link - offsetof(struct sim_packet, link));
}

/* What a caller that waits for a copy hears. */
struct sim_outcome {
	bool done;
	int err;
};

/* A batch of moves; those from next on have not moved. [next, segment) move together. */
struct sim_copy {
	struct sim_op op;
	struct sim_flow flow;
	enum { SIM_COPY_BATCH, SIM_COPY_UPLOAD, SIM_COPY_DOWNLOAD } kind;
	uint64_t service_ns; /* of managed memory that it finds elsewhere, not yet waited for */
	int err;	     /* found as it started */
	bool over_link;	     /* the segment has a flow */
	bool setting_up;     /* its flow has not started */
	struct sim_outcome *outcome;
	uint32_t next, segment, nr;
	/* Of the streams whose open brackets it has no order with: their spans. Behind move[]. */
	uint64_t *span;
	uint32_t nr_spans;
	bool beside; /* it came by copy_beside */
	struct sim_move move[];
};

/* fences: numbers nr_before + 1..nr_done are done. active <=> head. */
struct sim_stream {
	stream_id_t id;
	uint32_t device;
	enum backend_stream_kind kind;
	struct sim_op *head, *tail;
	uint64_t next_ns;   /* the head's next event; SIM_NEVER: it waits for another's */
	uint64_t nr_before; /* fences of earlier streams in its slot */
	uint64_t nr_recorded, nr_done; /* counted with those */
	uint64_t *fence_ns; /* times of the last max_fences fences, see sim_fence_ns_at() */
	uint64_t max_fences;
	int error; /* first unreported one, of work before fence number error_fence */
	uint64_t error_fence;
	struct access_bracket *bracket; /* innermost */
	uint64_t span; /* while any is open: a number of this time alone, over all streams */
};

/* Where a fence's time is kept. */
static inline uint64_t *sim_fence_ns_at(const struct sim_stream *stream, uint64_t number)
{
	return &stream->fence_ns[(number - stream->nr_before) & (stream->max_fences - 1)];
}

/* Where a stream is found. When it is destroyed, the slot goes to another one. */
struct sim_slot {
	struct sim_stream *stream; /* NULL: none */
	stream_id_t id;		   /* of the last stream there */
	uint64_t nr_fences;	   /* of those that were destroyed; all are done */
};

struct sim_device {
	struct sim_kernel *running;
	uint32_t nr_copies[2]; /* that its streams run from its memory, and to it */
	double inplace_bytes[WEIR_MEMORIES_MAX][BACKEND_DIRECTION_NR];
	uint64_t time_ns[BACKEND_TIME_NR]; /* of kernels that ended, and idle up to now */
};

/* A digest's place, by its ticket. */
struct sim_digest_slot {
	bool taken, done;
	const char *spoiled; /* why it is of nothing that was ever there; NULL: it is not */
	uint64_t chunk;	     /* handle */
	struct digest value;
};

struct sim_poison {
	struct sim_poison *next;
	struct sim_piece *piece;
	fence_t after;
};

struct sim_progress {
	void (*fn)(void *arg);
	void *arg;
};

/* What was done aside, and when that is over: done(arg). */
struct sim_aside {
	struct sim_aside *next;
	void (*done)(void *arg);
	void *arg;
	uint64_t at_ns;
};

/*
 * now_ns is the application's clock and the engine's: events up to it have happened. While
 * in_progress, the thread that runs the progress functions is the migrator and every other one
 * waits to get in.
 */
struct sim {
	struct backend base;
	struct backend_ops ops;
	struct backend_observe_ops observe;
	pthread_mutex_t lock;
	pthread_cond_t idle; /* in_progress has become false */
	uint64_t now_ns;
	uint64_t migrator_ns;
	uint64_t driver_ns; /* the driver's lock is free from here on */
	uint64_t wake_ns;   /* when the migrator runs next */
	bool in_progress;
	bool stepping;	    /* an event happens: not a call that queues */
	bool allocating;    /* the application is inside a call that allocates, frees or maps */
	bool rescan;	    /* an op is done: others may start */
	bool holds_kernels; /* none starts yet */
	pthread_t progress_thread;
	struct sim_progress *progress;
	size_t nr_progress;
	struct sim_aside *aside; /* by at_ns, which is in the order in which they were given */
	struct sim_memory memory[WEIR_MEMORIES_MAX];
	struct sim_device device[WEIR_DEVICES_MAX];
	struct sim_link link[WEIR_LINKS_MAX];
	/* Of a machine with ports: whether flows came or went since they got their rates; and the
	 * bytes a nanosecond that they move through each memory. What a kernel uses in place goes
	 * through the memory that it lies in, not through its own device's. */
	bool flows_stale;
	double through[WEIR_MEMORIES_MAX];
	struct sim_region **region; /* sorted by address */
	size_t nr_regions, max_regions;
	struct sim_slot *slot;	    /* of streams */
	struct sim_stream **active; /* with something queued; room for all */
	uint32_t nr_slots, max_slots, nr_active;
	uint64_t last_span; /* given to a stream whose bracket opened */
	struct uvm uvm;
	struct list_link packets; /* in the order of queueing */
	int (*stop)(void);	  /* see sim_set_stop(); or NULL */
	struct sim_poison *poison;
	uint64_t last_handle, last_seq;
	uint64_t last_write; /* the number of the last kernel that wrote, or other change */
	struct digest_key digest_key;
	struct sim_digest_slot digest[BACKEND_DIGESTS_MAX];
};

static inline struct sim *sim_of(struct backend *b)
{
	return (struct sim *)b;
}

/* Take the lock, as the application or, from a progress function, as the migrator. */
void sim_enter(struct sim *sim);
void sim_leave(struct sim *sim);
/* The caller's clock. */
uint64_t sim_agent_ns(const struct sim *sim);
/* Let the caller spend time. Runs events, and progress functions without the lock. */
void sim_spend(struct sim *sim, uint64_t ns);
/* The same, in a call that allocates, frees or maps. */
void sim_spend_allocating(struct sim *sim, uint64_t ns);
/* And takes the driver's lock for it. */
void sim_spend_driver(struct sim *sim, uint64_t ns);
/* Let the next event happen; false: there is none by limit_ns. */
bool sim_engine_step(struct sim *sim, uint64_t limit_ns);
/* Queue an op; it is filled but for seq and earliest_ns (after the caller's clock by delay_ns). */
void sim_engine_queue(struct sim *sim, struct sim_stream *stream, struct sim_op *op,
		      uint64_t delay_ns);
/* The started op's next event. */
void sim_engine_timer(struct sim_op *op, uint64_t at_ns);
/* The started op is done; err is what its stream reports. */
void sim_engine_done(struct sim *sim, struct sim_op *op, int err);
/* For kinds of op that wait for nothing. */
bool sim_engine_ready_always(struct sim *sim, struct sim_op *op);
/* What is done aside takes so long from now on, or from when the one before is over, and is over
 * then: the engine does not wait for it, and its clock may stop short of it. */
void sim_engine_aside(struct sim *sim, struct sim_aside *aside, uint64_t ns);
/* Have those be over that end by a time. */
void sim_engine_asides_end(struct sim *sim, uint64_t until_ns);
/* Have the migrator run, unless this happens in a call that queues. */
void sim_engine_wake(struct sim *sim);

/* In a call of the application that frees: run until what is queued now on a device (or on all:
 * WEIR_DEVICES_MAX) is done. */
void sim_engine_drain(struct sim *sim, uint32_t device);

/* ------------------------------------------------------------------ times (sim_times.c) */

/* Account for the devices' idle time up to a moment, before the clock goes there. */
void sim_times_pass(struct sim *sim, uint64_t until_ns);
/* Account for a kernel that ends now. */
void sim_times_kernel_ended(struct sim *sim, const struct sim_kernel *kernel);

/* ------------------------------------------------------------------ streams (sim_stream.c) */

struct sim_stream *sim_stream_find(struct sim *sim, stream_id_t id);
void sim_stream_free(struct sim_stream *stream);
int sim_stream_create(struct backend *b, uint32_t device, enum backend_stream_kind kind,
		      stream_id_t *out);
void sim_stream_destroy(struct backend *b, stream_id_t id);

/* ------------------------------------------------------------------ fences (sim_fence.c) */

/* 1: a fence is done; 0: not yet; -EINVAL: there is none such. */
int sim_fence_reached(struct sim *sim, fence_t fence);
/* Forget what was to be poisoned of a piece, or with NULL, of all. */
void sim_poison_forget(struct sim *sim, const struct sim_piece *piece);
int sim_stream_wait(struct backend *b, stream_id_t id, fence_t fence);
int sim_fence_record(struct backend *b, stream_id_t id, fence_t *out);
int sim_fence_mark(struct backend *b, stream_id_t id, fence_t *out);
int sim_fence_done(struct backend *b, fence_t fence);
int sim_fence_wait(struct backend *b, fence_t fence);
uint64_t sim_fence_time_ns(struct backend *b, fence_t fence);
void sim_poison(struct backend *b, const struct backend_chunk *chunk, fence_t after);

/* ------------------------------------------------------------------ copies (sim_copy.c) */

/* The piece that [addr, addr + bytes) lies in, by its alias or as plain memory; NULL: none. */
struct sim_piece *sim_piece_of(struct sim *sim, const void *addr, uint64_t bytes);
/* Note the spans of the streams that have brackets open, of nr_slots at most. @return how many. */
uint32_t sim_spans_note(const struct sim *sim, uint64_t *span);
/* Take its moves off the pieces' lists, done or dropped. */
void sim_copy_detach(struct sim_copy *copy);
/* Whether a copy from one memory to another is under way when the caller's clock shows what it
 * does. */
bool sim_copy_runs(const struct sim *sim, uint32_t from, uint32_t to);
int sim_copy(struct backend *b, stream_id_t id, const struct backend_copy *copies, uint32_t nr);
int sim_copy_beside(struct backend *b, stream_id_t id, const struct backend_copy *copies,
		    uint32_t nr);
int sim_upload(struct backend *b, stream_id_t id, void *dst, const void *data, uint64_t bytes);
int sim_download(struct backend *b, stream_id_t id, void *data, const void *src, uint64_t bytes);

/* ------------------------------------------------------------------ traps (sim_trap.c) */

/* Have a kernel fail, with a message that names the block at addr; the first reason counts. */
void sim_kernel_trap(struct sim *sim, struct sim_kernel *kernel, const char *addr,
		     const char *reason);
/* Whether [addr, addr + bytes) meets a use. */
bool sim_use_meets(const struct weir_use *use, const char *addr, uint64_t bytes);
/* Look at everything that a kernel names, as it starts: where it lies goes to its costs. */
void sim_kernel_survey(struct sim *sim, struct sim_kernel *kernel);
/* Trap a running kernel that needs more of a unit than it has from here on. */
void sim_kernels_check_access(struct sim *sim, const struct sim_region *region, uint64_t unit,
			      enum backend_prot prot, uint64_t devices);
/* Trap running kernels that use what the copy is about to move. */
void sim_kernels_check_copy(struct sim *sim, const struct sim_copy *copy);
/* As a copy of copy_beside starts: -WEIR_ETRAP, logged, if another such one, or a packet, is under
 * way that writes what it uses, or uses what it writes. */
int sim_copy_check_order(const struct sim *sim, const struct sim_copy *copy);
/* As a kernel is queued: what touches a guarded reservation is covered by the stream's bracket. */
void sim_kernel_check_bracket(struct sim *sim, struct sim_stream *stream,
			      struct sim_kernel *kernel);
/* And brackets that are open together do not write what the other one names: they have no order. */
void sim_kernel_check_order(struct sim *sim, struct sim_stream *stream, struct sim_kernel *kernel);

/* As all that a kernel is ordered behind is done: trap it if a packet was queued before it on
 * another stream, is not done, and one of the two writes what the other uses; of a packet, the same
 * for any kernel. Launches of brackets that were open as a packet was queued are let be. */
void sim_kernel_check_packets(struct sim *sim, struct sim_kernel *kernel);
/* Why a device may not use a unit's mapping; NULL: it may. */
const char *sim_mapping_denied(const struct sim_mapping *mapping, uint32_t device, bool write);

/* ------------------------------------------------------------------ kernels (sim_kernel.c) */

/* Make a kernel of a launch that is valid, with copies of its uses and arguments; NULL: no memory.
 * Then queue it, which takes the host's time for so many launches. */
struct sim_kernel *sim_kernel_create(const struct sim *sim, const struct weir_launch *launch);
void sim_kernel_queue(struct sim *sim, struct sim_stream *stream, struct sim_kernel *kernel,
		      uint32_t nr_launches);
/* Whether there is memory for a use: in a reservation, managed, or plain. */
bool sim_use_valid(struct sim *sim, uint32_t device, const struct weir_use *use);
int sim_launch(struct backend *b, stream_id_t id, const struct weir_launch *launch);
/* Takes the device as a kernel does. */
int sim_managed_prefetch(struct backend *b, stream_id_t id, void *addr, uint64_t bytes,
			 uint32_t memory);

/* ------------------------------------------------------------------ packets (sim_packet.c) */

int sim_packet(struct backend *b, stream_id_t id, const struct backend_packet *packet);

/* ------------------------------------------------------------------ digests (sim_digest.c) */

int sim_digest(struct backend *b, stream_id_t id, const struct backend_chunk *chunk, uint64_t bytes,
	       uint32_t *ticket);
int sim_digest_take(struct backend *b, uint32_t ticket, struct digest *out);
int sim_digest_prepare(struct backend *b, uint32_t device);

/* ------------------------------------------------------------------ execution (sim_exec.c) */

/* Where a kernel first touched what it had not declared; addr NULL: nowhere. */
struct sim_fault {
	const char *addr;
	bool write;
};

/*
 * Run a kernel's function with access to its uses and to what is open to kernels anyway. Its uses
 * are mapped. 0, faults or not; -ENOMEM: the host refused to change protections, and it did not
 * run.
 */
int sim_exec_run(struct sim *sim, const struct sim_kernel *kernel, struct sim_fault *fault);

#endif
