/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `weir run` was told, as it reaches the program: in environment variables, which `weir run`
 * writes and the library in the program reads, and nobody else.
 */
#ifndef WEIR_SHIM_SETTINGS_H
#define WEIR_SHIM_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SETTINGS_DRIVER "WEIR_RUN_DRIVER"	  /* path of the CUDA driver */
#define SETTINGS_GPU "WEIR_RUN_GPU"		  /* number of the GPU; not set: the first used */
#define SETTINGS_GPU_BUDGET "WEIR_RUN_GPU_BUDGET" /* bytes; not set: what is free */
#define SETTINGS_HOST_BUDGET "WEIR_RUN_HOST_BUDGET"
#define SETTINGS_MODE "WEIR_RUN_MODE"	/* of enum settings_mode; not set: SETTINGS_FIXED */
#define SETTINGS_WHEN "WEIR_RUN_WHEN"	/* 1: oom */
#define SETTINGS_BLOCK "WEIR_RUN_BLOCK" /* bytes; not set: by the budget */
#define SETTINGS_HOLD "WEIR_RUN_HOLD"	/* ns; not set: 10 ms; with SETTINGS_LEARN 60 s */
#define SETTINGS_STATS "WEIR_RUN_STATS" /* a file */
#define SETTINGS_TRACE "WEIR_RUN_TRACE" /* a file */
#define SETTINGS_MARK "WEIR_RUN_MARK"	/* part of a kernel's name */
#define SETTINGS_MARK_EVERY "WEIR_RUN_MARK_EVERY"
#define SETTINGS_KERNELS "WEIR_RUN_KERNELS" /* a file: kernel_file.h */
#define SETTINGS_LEARN_LAUNCHES "WEIR_RUN_LEARN_LAUNCHES"
#define SETTINGS_LEARN_SHARED "WEIR_RUN_LEARN_SHARED" /* a file: learn.h */
#define SETTINGS_EXPLAIN "WEIR_RUN_EXPLAIN"	      /* 1 */
#define SETTINGS_QUIET "WEIR_RUN_QUIET"		      /* 1 */

/* What may move, and when. */
enum settings_mode {
	SETTINGS_FIXED,	 /* nothing */
	SETTINGS_SAFE,	 /* any kernel may use any range: all are mapped, and stay while it runs */
	SETTINGS_FAST,	 /* kernels use what their launches name, unless something says otherwise */
	SETTINGS_LISTED, /* those do that a file has as such; others may use any range */
	SETTINGS_LEARN,	 /* whether they do is found out */
};

/* As the user writes it, up to SETTINGS_FAST; others follow from other options. NULL: there is no
 * such mode. */
static inline const char *settings_mode_name(uint64_t mode)
{
	static const char *const name[] = {[SETTINGS_FIXED] = "fixed",
					   [SETTINGS_SAFE] = "safe",
					   [SETTINGS_FAST] = "fast",
					   [SETTINGS_LISTED] = "kernels",
					   [SETTINGS_LEARN] = "learn"};

	return mode < sizeof(name) / sizeof(name[0]) ? name[mode] : NULL;
}

struct settings {
	enum settings_mode mode;
	bool late; /* what moves does so from the first allocation on that does not fit */
	const char *driver;
	int gpu;			  /* -1: the first that is used */
	uint64_t gpu_budget, host_budget; /* 0: what is free */
	uint64_t block;			  /* 0: by the budget */
	uint64_t hold_ns;    /* that an operation waits for launches before it; 0: without end */
	const char *kernels; /* what is known of kernels, in the last two modes; else NULL */
	uint64_t learn_launches; /* after so many nothing is learnt any more */
	const char *learn_shared;
	const char *stats, *trace; /* NULL: none */
	const char *mark;    /* kernels whose names have it begin an epoch; NULL: the first does */
	uint64_t mark_every; /* so many launches of them are one epoch */
	bool explain, quiet;
};

/* The process's; read at the first call. Constant from then on. */
const struct settings *settings_get(void);

/* Whether blocks may move. */
static inline bool settings_moves(void)
{
	return settings_get()->mode != SETTINGS_FIXED;
}

/* Say "weir: " and a line, and end the program with status 2: what the user asked for cannot be
 * had. */
__attribute__((format(printf, 1, 2), noreturn)) void settings_fail(const char *format, ...);

#endif
