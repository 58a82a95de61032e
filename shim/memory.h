/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the program's one managed GPU: allocations are ranges of a space. Results are the
 * driver's, as the program gets them. Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_MEMORY_H
#define WEIR_SHIM_MEMORY_H

#include <stdbool.h>

#include "shim/hooks.h"

struct infer;
struct weir_space;
struct weir_stream;

/* Whether allocations of the current context are weir's: not where a kernel's fault has broken it,
 * which the driver then says of every call. The first that asks makes its GPU the
 * managed one where `weir run` named none, and its space. */
bool memory_manages(void);

/* Some call had this result. */
void memory_note_result(cu_result result);

/* The driver has started: say if it has no GPU of the number that `weir run` named. */
void memory_check_gpu(void);

/* Whether allocations of a size share blocks, which never move. */
bool memory_stays(uint64_t bytes);

/* Allocate, for use on any stream. CU_OUT_OF_MEMORY: both budgets are full. */
cu_result memory_alloc(cu_ptr *addr, uint64_t bytes);

/*
 * The same in the order of a stream: of its work, what was queued before may still use what the
 * memory was.
 * @return CU_NOT_SUPPORTED: the stream is of another context, or captured; the driver is asked.
 */
cu_result memory_alloc_ordered(cu_ptr *addr, uint64_t bytes, cu_stream stream);

/* Whether an address is in an allocation of ours, and which one. base, bytes: may be NULL. */
bool memory_find(cu_ptr addr, cu_ptr *base, uint64_t *bytes);

/* Free what memory_alloc*() gave: once all work of the context is done, or in the order of a
 * stream. */
cu_result memory_free(cu_ptr addr);
cu_result memory_free_ordered(cu_ptr addr, cu_stream stream);

/* Brackets that ended on any stream without a fence have one when this returns. */
void memory_fence_all(void);

/* The stream is about to be destroyed. @return whether it stays until its work is done, and is then
 * destroyed here: this waits for nothing */
bool memory_stream_ends(cu_stream stream);

/* A context ends, and its streams do: those that are not the managed one's are forgotten, and found
 * again where they live. */
void memory_context_ends(void);

/* The primary context of a device is about to be reset: all its memory goes. */
void memory_reset(cu_device device);

/* The last warning: what of a memory could not be had, though a budget has room. "": none. */
const char *memory_warning(void);

/* What knows the live allocations and the kernels, and the space; NULL: there is none yet. */
struct infer *memory_infer(void);
struct weir_space *memory_space(void);

/* The space's name of a stream that is not captured into a graph (streams_is_queue()). The default
 * stream has one of its own. NULL: it is of another context. */
struct weir_stream *memory_stream(cu_stream stream);

/* A stream of weir's own, the calling thread's, for brackets of what is queued where the space has
 * no name for it. NULL: no memory. */
struct weir_stream *memory_stream_own(void);

/* What the program is told: of both budgets together. */
void memory_info(uint64_t *free, uint64_t *total);

/* The managed device; -1: none yet. */
int memory_device(void);

/* Bytes of live allocations, and most of them at a time; the same with what is kept for reuse. */
struct memory_use {
	uint64_t used, used_high, reserved, reserved_high;
};
void memory_use(struct memory_use *out);
void memory_use_reset_high(bool used, bool reserved);

/* Give back what is kept for reuse beyond so many bytes. */
void memory_trim(uint64_t keep_bytes);

/* The steps of when.h: from here on allocations may lie in the host's memory; and memory moves, now
 * that all is done that was queued before. @return 0 or an error of the space's */
void memory_let_spill(void);
int memory_set_moving(void);

/* What the process did, for its last words: see summary.c. */
struct memory_account {
	int device; /* the one that is managed, or was; -1: none */
	uint64_t gpu_budget, host_budget, block_bytes;
	uint64_t gpu_high, host_high; /* of the space's memory, at most */
	uint64_t used_high;	      /* of allocations, at most */
	uint64_t in_bytes, out_bytes; /* that moved to the GPU's memory, and from it */
	/* That left it and were compared with what the host had; of these, what was the same. */
	uint64_t compared_bytes, same_bytes;
	uint64_t nr_waits;     /* brackets that waited for memory */
	uint64_t nr_grouped;   /* those that ended without an event of their own, */
	uint64_t nr_ungrouped; /* and times that the driver refused them one */
	uint64_t nr_allocs, nr_reused, nr_refused;
};
void memory_account(struct memory_account *out);

/* Whether that can be asked for: false if a lock is not free for 2 s, as it may be for ever
 * where a signal's handler ends the process and its thread holds a lock of the driver's. */
bool memory_answers(void);

#endif
