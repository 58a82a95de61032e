/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the faults test does to a space, as tables: steps before, steps that repeat until a plan is
 * followed, steps after; and those of spaces with three and four places. Ranges have letters;
 * together they are larger than the budget.
 */
#ifndef WEIR_TEST_FAULTS_SCRIPT_H
#define WEIR_TEST_FAULTS_SCRIPT_H

#include <stdint.h>

#define BLOCK 8192u
#define WORDS (BLOCK / 4u)

enum { A, B, C, D, SMALL, NR_RANGES };

static const uint32_t range_words[NR_RANGES] = {
	[A] = 10 * WORDS, [B] = 9 * WORDS - 100, [C] = 5 * WORDS, [D] = 4 * WORDS, [SMALL] = 300};

enum action {
	ALLOC,	   /* x */
	FREE,	   /* x */
	FILL,	   /* x is overwritten */
	ADD,	   /* x += y, in one bracket */
	GATHER,	   /* x += a few words of y */
	TWICE,	   /* x += y and y += x in one bracket that names the whole space */
	OPEN_ADD,  /* x += y in an open bracket that names y; of several devices as ADD */
	FIXED_ADD, /* x += y without a bracket */
	HOST_ADD,  /* the CPU: x += y */
	HOST_FILL, /* the CPU overwrites x */
	DISCARD,   /* x is dead */
	WRITE,	   /* part of x from a buffer */
	READ,	   /* x into a buffer, and compare */
	UP,	   /* prefetch x */
	DOWN,
	ASIDE,	/* to the second GPU's memory */
	BEYOND, /* to the third's */
	PREFER_HOST,
	PREFER_ASIDE,
	READ_MOSTLY,
	ACCESSED_BY, /* device 1 */
	ADVISE_NOTHING,
	TAKE_BACK, /* the second GPU's memory */
	LEND,	   /* it again */
	SET_FIXED,
	SET_PLANNED,
	SYNC,	    /* the stream */
	SYNC_ALL,   /* the space */
	LEAVE_OPEN, /* begin a bracket on x and never end it */
};

/* clang-format off */
static const char *const action_name[] = {
	[ALLOC] = "alloc", [FREE] = "free", [FILL] = "fill", [ADD] = "add", [GATHER] = "gather",
	[TWICE] = "twice", [OPEN_ADD] = "open-add", [FIXED_ADD] = "fixed-add",
	[HOST_ADD] = "host-add",
	[HOST_FILL] = "host-fill", [DISCARD] = "discard", [WRITE] = "write", [READ] = "read",
	[UP] = "up", [DOWN] = "down", [ASIDE] = "aside", [PREFER_HOST] = "prefer-host",
	[BEYOND] = "beyond", [PREFER_ASIDE] = "prefer-aside",
	[READ_MOSTLY] = "read-mostly", [ACCESSED_BY] = "accessed-by",
	[ADVISE_NOTHING] = "advise-nothing", [TAKE_BACK] = "take-back", [LEND] = "lend",
	[SET_FIXED] = "set-fixed",
	[SET_PLANNED] = "set-planned", [SYNC] = "sync", [SYNC_ALL] = "sync-all",
	[LEAVE_OPEN] = "leave-open",
};
/* clang-format on */

struct step {
	enum action action;
	uint8_t x, y;
	uint8_t stream;
};

/* clang-format off */
static const struct step before[] = {
	{ALLOC, A, 0, 0}, {ALLOC, B, 0, 0}, {ALLOC, C, 0, 0}, {ALLOC, SMALL, 0, 0},
	{FILL, A, 0, 0}, {WRITE, A, 0, 0}, {FILL, B, 0, 0}, {HOST_FILL, C, 0, 0},
	{FILL, SMALL, 0, 0}, {READ_MOSTLY, C, 0, 0},
};

/* What repeats: more than the budget in all, and in one bracket. */
static const struct step repeated[] = {
	{ALLOC, D, 0, 0}, {FILL, D, 0, 0}, {ADD, D, A, 0}, {ADD, B, A, 0}, {ADD, C, D, 0},
	{GATHER, SMALL, B, 0}, {FREE, D, 0, 0}, {ADD, A, C, 0},
};

/* The same where some launches may write anything, for all that is known, and none writes A. */
static const struct step repeated_open[] = {
	{ALLOC, D, 0, 0}, {FILL, D, 0, 0}, {ADD, D, A, 0}, {OPEN_ADD, B, A, 0}, {ADD, C, D, 0},
	{GATHER, SMALL, B, 0}, {FREE, D, 0, 0}, {ADD, C, B, 0},
};

static const struct step after[] = {
	{READ, B, 0, 0}, {HOST_ADD, A, C, 0}, {UP, A, 0, 0}, {ADD, A, B, 0}, {DOWN, A, 0, 0},
	{SYNC, 0, 0, 0}, {ADD, A, C, 1}, {SYNC, 0, 0, 1}, {ACCESSED_BY, B, 0, 0}, {ADD, C, B, 2},
	{SYNC, 0, 0, 2}, {PREFER_HOST, B, 0, 0}, {ADD, B, C, 0}, {ADVISE_NOTHING, B, 0, 0},
	{TWICE, A, B, 0}, {OPEN_ADD, C, A, 0}, {OPEN_ADD, B, C, 1}, {SYNC_ALL, 0, 0, 0},
	{SET_FIXED, 0, 0, 0}, {ALLOC, D, 0, 0}, {FIXED_ADD, A, B, 0}, {FREE, C, 0, 0},
	{SYNC, 0, 0, 0}, {ALLOC, C, 0, 0}, {SET_PLANNED, 0, 0, 0},
	{FILL, C, 0, 0}, {FILL, D, 0, 0}, {ADD, C, A, 0}, {HOST_FILL, D, 0, 0}, {ADD, B, D, 0},
	{FILL, A, 0, 0}, {DISCARD, D, 0, 0}, {FREE, SMALL, 0, 0}, {ADD, A, B, 0},
	{SYNC_ALL, 0, 0, 0}, {READ, A, 0, 0}, {READ, B, 0, 0}, {READ, C, 0, 0}, {SYNC_ALL, 0, 0, 0},
	{LEAVE_OPEN, A, 0, 0},
};

/* Between three places, each way; budgets are smaller. */
static const struct step places[] = {
	{ALLOC, A, 0, 0}, {ALLOC, C, 0, 0}, {FILL, A, 0, 0}, {FILL, C, 0, 0}, {ADD, C, A, 0},
	{ASIDE, C, 0, 0}, {UP, C, 0, 0}, {ADD, A, C, 0}, {DOWN, A, 0, 0}, {ASIDE, A, 0, 0},
	{DOWN, A, 0, 0}, {OPEN_ADD, A, C, 1}, {HOST_ADD, C, A, 0}, {ASIDE, A, 0, 0},
	{PREFER_ASIDE, A, 0, 0},
	{ADD, A, C, 0}, {ADD, C, A, 1}, {WRITE, A, 0, 0}, {DOWN, A, 0, 0},
	{ADVISE_NOTHING, A, 0, 0}, {UP, A, 0, 0},
	{ADD, A, C, 0}, {PREFER_HOST, A, 0, 0}, {ALLOC, D, 0, 0}, {OPEN_ADD, C, A, 2},
	{FILL, D, 0, 0}, {ADD, C, D, 0},
	{READ, A, 0, 0}, {ADVISE_NOTHING, A, 0, 0}, {DISCARD, D, 0, 0}, {FREE, D, 0, 0},
	{SET_FIXED, 0, 0, 0}, {FIXED_ADD, A, C, 0}, {SET_PLANNED, 0, 0, 0}, {ADD, A, C, 0},
	{SYNC_ALL, 0, 0, 0}, {READ, A, 0, 0}, {READ, C, 0, 0}, {SYNC_ALL, 0, 0, 0},
};

/* Between four places: to a neighbour, between two of them, while one's memory comes and goes. */
static const struct step neighbours[] = {
	{ALLOC, A, 0, 0}, {ALLOC, C, 0, 0}, {FILL, A, 0, 0}, {FILL, C, 0, 0}, {ADD, C, A, 0},
	{ASIDE, C, 0, 0}, {BEYOND, C, 0, 0}, {ADD, A, C, 0}, {ASIDE, C, 0, 0}, {ADD, C, A, 1},
	{BEYOND, A, 0, 0}, {DOWN, C, 0, 0}, {BEYOND, C, 0, 0}, {DOWN, C, 0, 0}, {ASIDE, C, 0, 0},
	{TAKE_BACK, 0, 0, 0}, {ADD, A, C, 0}, {LEND, 0, 0, 0}, {PREFER_ASIDE, A, 0, 0},
	{ADD, A, C, 0}, {WRITE, A, 0, 0}, {TAKE_BACK, 0, 0, 0}, {LEND, 0, 0, 0}, {UP, C, 0, 0},
	{ADD, C, A, 2}, {ASIDE, C, 0, 0}, {TAKE_BACK, 0, 0, 0}, {ADD, C, A, 2}, {BEYOND, C, 0, 0},
	{DOWN, C, 0, 0}, {READ, A, 0, 0}, {READ, C, 0, 0}, {SYNC_ALL, 0, 0, 0},
};
/* clang-format on */

#endif
