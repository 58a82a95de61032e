/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of kernels (kernel_file.h): read where --kernels names a file, and found out where
 * --learn does. To learn, operations run one at a time, each is waited for, and memory that it does
 * not name is out of reach meanwhile; a launch that uses more ends the process, and who started it
 * keeps that (learn.h). Learning ends after a number of launches, or where one must not be waited
 * for: then all memory is mapped for good. Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_PROOF_H
#define WEIR_SHIM_PROOF_H

#include "shim/hooks.h"

struct infer_uses;
struct kernel_line;

/* Read the file, where there is one; before any launch. Ends the program where it is damaged. */
void proof_start(void);

/* --learn: whether there is no more to learn, and launches are the driver's alone. */
bool proof_has_ended(void);

/* --learn: wait until no other thread's operation runs; may be nested. @return false: learning has
 * ended, and there is no proof_leave() to follow. */
bool proof_enter(void);
void proof_leave(void);

/* --learn: end it, between proof_enter() and proof_leave(), while no bracket is open. */
void proof_stop(const char *why);

/*
 * What is known of a kernel whose launch has pointers at a set of places. --learn: from within.
 *
 * @param [out] line  NULL: nothing, and nothing can be kept.
 * @return why it may use any range; NULL: it uses what it names, or is to prove that.
 */
const char *proof_why_open(const char *name, uint64_t code, uint64_t places,
			   struct kernel_line **line);

/* --learn: whether a launch of such a kernel must not be waited for. line: may be NULL. */
bool proof_must_not_wait(const struct kernel_line *line);

/* --learn: wait for a stream, for --hold at most. Ends the program where that is too short. what:
 * the operation. */
void proof_wait(cu_stream stream, const char *what);

/* --learn: a launch of such a kernel is about to be queued, and names that. line: may be NULL. */
void proof_launch(const struct kernel_line *line, const struct infer_uses *uses);

/*
 * --learn: that launch came to a result; wait for it. A fault ends the process if the launch was to
 * use what it names, and so does a launch that does not end; who started the process is told.
 */
void proof_check(struct kernel_line *line, cu_stream stream, cu_result result, const char *name);

/* --learn: the process ends: write what was seen. */
void proof_end(void);

#endif
