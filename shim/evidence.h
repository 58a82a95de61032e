/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence that kernels use more than what their launches name: addresses of live ranges where
 * kernels can read them. It is looked for where --mode fast trusts launches otherwise, in what the
 * program copies there, in small ranges that a kernel's first launches name, and in what the driver
 * makes textures of. Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_EVIDENCE_H
#define WEIR_SHIM_EVIDENCE_H

#include <stdbool.h>

#include "shim/hooks.h"

/* Copies above this are not looked at: arrays of pointers are small. */
#define EVIDENCE_BYTES_MAX (64u << 10)

/* The program copies bytes of its own to memory of the device. The driver reads them now or later;
 * what stands there now is looked at. */
void evidence_copied(cu_ptr dst, const void *src, uint64_t bytes);

/* One of the two, where the driver tells by the address what it copies from. */
void evidence_copied_unified(cu_ptr dst, cu_ptr src, uint64_t bytes);

/* The driver was given an address, for kernels that find it where no launch shows it. what: a few
 * words on that, for --explain. */
void evidence_hidden(cu_ptr addr, const char *what);

/* The same, unless the address stands in what the driver made of it, and which launches are given
 * among their parameters. */
void evidence_encoded(cu_ptr addr, const void *made, uint64_t bytes);

/* Wait for the work of a stream that is not captured, for EVIDENCE_WAIT_NS at most: it may be
 * waiting for what the program does next. @return whether it is done */
#define EVIDENCE_WAIT_NS UINT64_C(10000000)
bool evidence_becomes_idle(cu_stream stream);

/* What stands in a small range before a launch on a stream that names it. */
enum evidence_seen { EVIDENCE_NONE, EVIDENCE_FOUND, EVIDENCE_UNKNOWN };

/*
 * Look at a range of ours of at most EVIDENCE_BYTES_MAX, by a copy on a stream that is idle but for
 * what its bracket waits for. The bracket is open and names the range, which may move otherwise:
 * where small ones lie moves to the GPU once, when there is room.
 *
 * @param [in] stream  As in brackets.h; not captured.
 * @param [out] at     Room for the bytes.
 */
enum evidence_seen evidence_look(cu_stream stream, cu_ptr base, uint64_t bytes, void *at);

/* Memory is copied within the device: what holds addresses, its copy does, too. */
void evidence_copied_on(cu_ptr dst, cu_ptr src);

/* Whether the range that begins there was given addresses of others. */
bool evidence_of(cu_ptr base);

/* Whether memory that is none of weir's was, variables of modules say, or a texture or the like. */
bool evidence_elsewhere(void);

/* The range was freed; all were, and whatever held addresses of them leads nowhere. */
void evidence_forget(cu_ptr base);
void evidence_forget_all(void);

#endif
