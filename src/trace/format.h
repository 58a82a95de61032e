/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces as bytes: what the library writes and weir's commands read. docs/traces.md says it in
 * words.
 *
 * A file is a header of one page and then frames, each directly behind the one before, of events.
 * All words are little-endian and lie at multiples of their size; frames and events are multiples
 * of 8 bytes. A frame that is finished has its length and a checksum. The last one may not be: then
 * its events count up to the first that has no length yet, since an event's length is written after
 * all else of it. What is behind the last event is zero.
 */
#ifndef WEIR_TRACE_FORMAT_H
#define WEIR_TRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "traces are written as they lie in memory, which is to be little-endian"
#endif

#define TRACE_MAGIC "weir trc" /* without a NUL */
#define TRACE_VERSION 5u
/* Are read, too: version 4, in which devices lack their last word, plan_work_ns; version 3, in
 * which links also lack theirs, copy_host_ns; version 2, in which managed memory also lacks its
 * last word, context_bytes; and version 1, in which links lack one more, inplace_serial_random. */
#define TRACE_VERSION_OLDEST 1u
#define TRACE_HEADER_BYTES 4096u
#define TRACE_FRAME_MAX 65536u
#define TRACE_FRAME_MAGIC 0x6d617266u /* "fram" */
#define TRACE_NO_STREAM UINT16_MAX
#define TRACE_NO_PLACE UINT32_MAX
#define TRACE_USES_MAX 1000u /* of one event; the others follow in TRACE_USES */
#define TRACE_TEXT_MAX 255u  /* bytes of a name, without its NUL; longer ones are cut */

/* Zero up to header_bytes. */
struct trace_header {
	char magic[8];
	uint32_t version;
	uint32_t header_bytes; /* where the first frame is */
	uint32_t frame_max;
	uint32_t crc;  /* CRC-32C of what is above */
	uint64_t size; /* trace_size() of the file's pages; the one word that changes */
};

/* A size of whole pages that tells whether it is whole itself, in one word. */
static inline uint64_t trace_size(uint32_t pages)
{
	return (uint64_t)~pages << 32 | pages;
}

struct trace_frame {
	uint32_t magic;
	uint32_t bytes;	 /* with this header; 0: not finished */
	uint32_t crc;	 /* CRC-32C of all the frame, this being 0; 0 while not finished */
	uint32_t number; /* from 0 */
};

/* What every event begins with. */
struct trace_event {
	uint32_t bytes; /* with this; written last */
	uint16_t kind;
	uint16_t stream; /* the space's number of it; TRACE_NO_STREAM */
	uint64_t ns;	 /* by the machine's clock; of a call: when it returned */
};

enum trace_kind {
	TRACE_SPACE = 1, /* the first event */
	TRACE_MACHINE,	 /* a part of the machine's description; several follow TRACE_SPACE */
	TRACE_BUDGET,
	TRACE_MODE,
	TRACE_STREAM, /* a stream's device: before anything else of the stream */
	TRACE_NAME,
	TRACE_ALLOC,
	TRACE_FREE,
	TRACE_BEGIN,
	TRACE_USES, /* more uses of the event before */
	TRACE_END,
	TRACE_TIME,
	TRACE_HOST_BEGIN,
	TRACE_HOST_END,
	TRACE_WRITE,
	TRACE_READ,
	TRACE_SYNC,
	TRACE_ADVISE,
	TRACE_PREFETCH,
	TRACE_MOVE,
	TRACE_MOVED,
	TRACE_UNDONE,
	TRACE_PLACE,
	TRACE_PLAN,
	TRACE_UNPLAN,
	TRACE_MARK,
	TRACE_STOP, /* the last event, where recording ended as it should */
	TRACE_WAIT, /* since the call before the program waited for streams, for so long */
	TRACE_COMPARED,
	TRACE_KIND_END
};

#define TRACE_SPACE_SIMULATED 1u /* the machine is */
#define TRACE_SPACE_GUESSED 2u	 /* what brackets on streams write is a guess: all they name */

struct trace_space {
	struct trace_event event;
	uint64_t block_bytes;
	uint64_t devices;    /* a bit each, as in struct weir_space_config */
	uint64_t wall_ns;    /* since 1970 */
	uint32_t nr_places;  /* memories that it uses: its devices' own, others', the host's */
	uint32_t memory[17]; /* by place: its index */
	char weir[32];	     /* the version that wrote this */
	uint32_t flags;
	uint32_t reserved;
};

/* Parts of the description, each with its constants as words: see part.h. */
enum trace_part {
	TRACE_PART_MACHINE,
	TRACE_PART_MEMORY,
	TRACE_PART_DEVICE,
	TRACE_PART_LINK,
	TRACE_PART_VMM,
	TRACE_PART_UVM,
	TRACE_PART_KERNEL,
	TRACE_PART_PORT,
	TRACE_PART_NR
};

struct trace_machine {
	struct trace_event event;
	uint32_t part;
	uint32_t index; /* of several, each once, from 0 */
	uint64_t word[];
};

struct trace_budget {
	struct trace_event event;
	uint32_t memory;
	uint32_t reserved;
	uint64_t bytes;
	uint64_t took_ns; /* what the call took; older traces end before it */
};

struct trace_mode {
	struct trace_event event;
	uint32_t mode; /* enum weir_space_mode */
	uint32_t reserved;
};

struct trace_stream {
	struct trace_event event;
	uint32_t device;
	uint32_t reserved;
};

/* A text; NUL at its end and up to the event's. */
struct trace_name {
	struct trace_event event;
	uint32_t number; /* 1 for the first one, then 2 ...; 0 stands for no name */
	uint32_t reserved;
	char text[];
};

#define TRACE_ALLOC_BEFORE 1u /* it was there before recording began */
#define TRACE_ALLOC_PAGED 2u  /* a range of another kind than mapped: a paged range, */
#define TRACE_ALLOC_WINDOW 4u /* or a device's window of a replicated one */

struct trace_alloc {
	struct trace_event event;
	uint64_t took_ns; /* of calls: from when it was made to when it returned */
	uint64_t life;	  /* 1 for the first one, then 2 ... */
	uint64_t bytes;
	uint32_t flags;
	uint32_t device;    /* of a window; else 0 */
	uint32_t number;    /* windows of one replicated range have one number; else 0 */
	uint32_t nr_blocks; /* 0: it has none, and never moves */
};

struct trace_free {
	struct trace_event event;
	uint64_t life;
	uint64_t took_ns;
};

/* As struct weir_use. */
struct trace_file_use {
	uint64_t life;
	uint8_t kind, pattern;
	uint16_t reserved;
	uint32_t granule;
	uint64_t offset; /* from the life's start */
	uint64_t bytes, read_bytes, write_bytes;
};

/* TRACE_BEGIN, TRACE_HOST_BEGIN. */
struct trace_begin {
	struct trace_event event;
	uint64_t took_ns;
	uint32_t number;  /* a host bracket's, from 1; else 0 */
	uint32_t nr_uses; /* of all; from TRACE_USES_MAX on they are in events that follow */
	struct trace_file_use use[];
};

struct trace_uses {
	struct trace_event event;
	struct trace_file_use use[];
};

#define TRACE_END_IN_PLACE 1u /* something that the bracket names was not in its device's memory */

struct trace_end {
	struct trace_event event;
	uint64_t took_ns;
	uint64_t bracket; /* its number: they grow */
	double ops;	  /* of its launches, added up */
	uint32_t kernel;  /* its launches' name; 0: none, or several */
	uint16_t flags;
	uint16_t several; /* 1: launches of several kernels */
};

struct trace_time {
	struct trace_event event;
	uint64_t bracket;
	uint64_t begin_ns, end_ns; /* on the device, by the machine's clock */
	uint32_t flags;		   /* TRACE_END_IN_PLACE */
	uint32_t reserved;
};

struct trace_host_end {
	struct trace_event event;
	uint64_t took_ns;
	uint32_t number;
	uint32_t reserved;
};

/* TRACE_WRITE, TRACE_READ, TRACE_PREFETCH. */
struct trace_part_of {
	struct trace_event event;
	uint64_t took_ns;
	uint64_t life, offset, bytes;
	uint32_t memory; /* a prefetch's; else 0 */
	uint32_t reserved;
};

/* TRACE_SYNC, TRACE_WAIT. */
struct trace_sync {
	struct trace_event event;
	uint64_t took_ns;
};

struct trace_advise {
	struct trace_event event;
	uint64_t life;
	uint32_t advice; /* enum weir_advice */
	uint32_t where;
	uint64_t took_ns; /* older traces end before it */
};

/* A copy of a block was queued. */
struct trace_move {
	struct trace_event event;
	uint64_t life; /* 0: of freed memory */
	uint32_t block;
	uint8_t from, to; /* places */
	uint8_t cause;	  /* enum weir_cause */
	uint8_t reserved;
};

/* TRACE_MOVED: the oldest copies between two places that were queued and are not done, are;
 * TRACE_UNDONE: the newest ones were not made after all. */
struct trace_moved {
	struct trace_event event;
	uint32_t from, to;
	uint32_t nr;
	uint32_t reserved;
};

/* Blocks went from one place to another by no copy: backed anew, or fallen to the copy below. The
 * same place: they were there when the life began. */
struct trace_place {
	struct trace_event event;
	uint64_t life; /* 0: of freed memory */
	uint32_t first, nr;
	uint32_t from, to; /* TRACE_NO_PLACE: nowhere */
};

/* What is known of a block's contents since the block's TRACE_COMPARED before. */
enum trace_compared_result {
	TRACE_COMPARED_FIRST, /* nothing: the digest is the first since it came up, or of all */
	TRACE_COMPARED_SAME,
	TRACE_COMPARED_CHANGED
};

/* A digest was taken of a block that came to its device, or left it. Brackets that were begun
 * before, and have the block, came before the digest; others come behind it. */
struct trace_compared {
	struct trace_event event;
	uint64_t life; /* 0: of freed memory, or of small allocations that share the block */
	uint32_t block;
	uint32_t result; /* enum trace_compared_result */
};

/* TRACE_PLAN, TRACE_UNPLAN: then all but the device is 0. */
struct trace_plan {
	struct trace_event event;
	uint32_t device;
	uint32_t nr_steps, nr_stages, nr_actions;
	double modelled_ns, compute_ns; /* of a period */
};

/* What lies between a mark of this name and the next mark belongs to no epoch. */
#define TRACE_PAUSE "pause"

struct trace_mark {
	struct trace_event event;
	char text[]; /* NUL at its end and up to the event's */
};

/* CRC-32C of bytes, a multiple of 4 of them at a multiple of 4; before: of what is in front of
 * them, 0 at first. */
uint32_t trace_crc(uint32_t before, const void *data, size_t bytes);

#endif
