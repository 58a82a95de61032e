/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets of the space around what the program gives to the driver: launches, copies, fills. They
 * are opened where blocks may move (--mode safe, fast), so that what an operation uses is there and
 * stays until it is done; and where a trace is recorded. Uses are WEIR_ATOMIC: they order nothing,
 * since the program's own streams and events are its order.
 *
 * A stream has one open bracket at a time: threads that share a stream take turns, each for the
 * call that it makes. Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_BRACKETS_H
#define WEIR_SHIM_BRACKETS_H

#include "shim/hooks.h"

struct stream_turn;
struct weir_stream;
struct weir_use;

/* An operation under way. Zeroed: none. */
struct bracket {
	struct weir_stream *stream; /* NULL: no bracket is open */
	struct stream_turn *turn;   /* the stream is the caller's */
	/* Where stream is one of weir's own, in the place of the operation's: */
	struct weir_stream *of; /* the operation's, ordered with it by events; NULL: none */
	cu_stream waits;	/* the operation's, which the end waits for; NULL: for none */
	bool barrier;		/* the operation's stream is the default one of all threads */
	cu_stream proves;	/* --learn: the same */
	bool has_turn;		/* --learn: no other operation runs meanwhile, see proof.h */
};

/* Whether operations have brackets: blocks may move, or there is a trace. With --when oom the first
 * ones have none, see when.h. */
bool brackets_are_on(void);

/* What a use of bytes is called here. */
struct weir_use bracket_use(uint64_t addr, uint64_t bytes);

/* What an operation uses, as far as that is known. */
struct bracket_uses {
	struct weir_use *use; /* what is not live any more is left out */
	uint32_t nr;
	uint32_t nr_likely; /* the first of them: the others are there for all cases */
	bool any;	    /* the operation may use any range, beside those */
	uint64_t launched;  /* 0: they are exact; else a number of what is launched, which uses
			     * some of what the likely ones name */
};

/**
 * Open a bracket for what the program is about to queue on a stream.
 *
 * What is captured into a graph runs in the brackets of the graph's launches. But the driver
 * refuses to capture copies whose memory is not mapped, so that of copies and fills is mapped until
 * the bracket is closed. Without effect where a kernel is captured, or where only a trace is
 * recorded and no bracket can be opened.
 *
 * @param [in] stream  As hook_stream_all() and hook_stream_thread() name it. One of another
 *                     context, which the space has no events for, is waited for by
 *                     bracket_close(). NULL: nothing is queued, but the driver looks at memory.
 * @param [in,out] uses  What it uses.
 * @return CU_SUCCESS, or what the operation is to end with: what it uses cannot be made ready.
 */
cu_result bracket_open(struct bracket *bracket, cu_stream stream, struct bracket_uses *uses);

/* Open one for a call that queues nothing, but may look at any memory: all of it is mapped. */
cu_result bracket_open_all(struct bracket *bracket);

/* Close it, whatever became of the operation. name: of the kernel, or the call; outlives the
 * process's use of weir. */
void bracket_close(struct bracket *bracket, const char *name);

/* Operations that were given a bracket, and that were not and should have been. */
struct brackets_account {
	uint64_t nr, nr_uses; /* opened, and the uses that they named */
	uint64_t nr_rare;     /* of the uses, those that were not likely */
	uint64_t nr_any;      /* of the brackets, those that might use any range */
	uint64_t nr_missed;
};
void brackets_account(struct brackets_account *out);

/* An operation failed or was missed for want of a bracket. */
void brackets_note_missed(void);

#endif
