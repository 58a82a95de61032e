/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user is told: a line when the program's memory is made, one when the first of it has no
 * room on the GPU, and at the end what there was of it, also as JSON. Lines go to standard error
 * and begin with "weir: ". Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_SUMMARY_H
#define WEIR_SHIM_SUMMARY_H

#include "shim/hooks.h"

/* An amount of memory as text: "20.00 GB", "33.6 MB", "4.1 kB". */
struct summary_text {
	char text[32];
};
struct summary_text summary_bytes(uint64_t bytes);

/* Say a line, cut to 1,000 bytes. */
__attribute__((format(printf, 1, 2))) void summary_say(const char *format, ...);

/* The space is made; after a reset of the context once more. */
void summary_begin(void);

/* An allocation took memory that was not kept for it; one was refused, both budgets being full. */
void summary_note_taken(void);
void summary_note_refused(uint64_t bytes);

/* What an operation ends with that was not queued, which is returned: that there is no memory for
 * what it uses is said once. */
cu_result summary_note_unready(cu_result result);

/* An allocation of so many bytes has no room in the GPU's budget, and memory begins to move. */
void summary_note_switched(uint64_t bytes);

/* An allocation was the driver's to make: graphs, other contexts. */
void summary_note_passed(void);

/* What the driver's call ended with, which is returned: the first report of a fault is
 * explained. */
cu_result summary_note_result(cu_result result);

/* What is free cannot be given back: an error of the machine. */
void summary_note_lost(uint64_t bytes);

#endif
