/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two workloads on one table: pagein touches every page of it once a pass, gups adds to random
 * words. docs/pagein.md says exactly what is done and how it is checked.
 *
 * They know managers, not residency. Where the manager's memory is paged by kernels themselves, the
 * kernels that do so are launched, else the same ones with plain addresses.
 */
#ifndef WEIR_TOUCH_H
#define WEIR_TOUCH_H

#include "workloads/agents.h"
#include "workloads/passes.h"
#include "workloads/touch/kernels.h"
#include "workloads/workload.h"

#define TOUCH_SEED_DEFAULT 2025u
#define TOUCH_BYTES_MAX (UINT64_C(1) << 40)
#define TOUCH_UPDATES_MAX (UINT64_C(1) << 32)
#define TOUCH_STRIDE_MIN 33u /* pages: further than what drivers bring in around a fault of 4 KiB */
#define TOUCH_THREADS_MAX 1024u
#define TOUCH_BLOCKS_MAX (1u << 16)

enum touch_kind { TOUCH_PAGEIN, TOUCH_GUPS };
enum touch_pattern { TOUCH_STREAM, TOUCH_RANDOM, TOUCH_STRIDED, TOUCH_PATTERN_NR };

struct touch_params {
	enum touch_kind kind;
	uint64_t bytes;		    /* of the table: whole pages; for gups a power of two */
	uint32_t page_bytes;	    /* 4, 8, 16 or 64 KiB */
	uint64_t updates;	    /* gups: a pass */
	uint64_t seed;		    /* any */
	uint32_t passes;	    /* in all, warm-up included; > 0 */
	uint32_t warm_up;	    /* of them */
	enum touch_pattern pattern; /* pagein, as those below */
	enum touch_access access;
	uint64_t
		pages; /* touched in a pass, the first of the pattern; 0: all. Others: reads only */
	bool elements; /* word by word, not by pages */
	bool warm;     /* what a pass left on the device is there for the next one */
	bool check;    /* read the table back at the end */
	struct touch_shape shape;
	workload_progress_fn progress; /* called with passes done; may be NULL */
	void *progress_arg;
};

/* -EINVAL: a figure out of range, err says which. For programs that ask before they run. */
WEIR_MUST_CHECK int touch_params_check(const struct touch_params *p, char *err, size_t err_bytes);

/*
 * Run all passes. m: by this thread alone; on return nothing that the run allocated is left in it,
 * and no queued work. out: written on success only; passes_result_free() it. err: on failure one
 * line, cut to err_bytes. May be NULL.
 *
 * Wrong bytes are a result (out->passed), not an error. On a phantom machine nothing is compared.
 *
 * 0, or -ENOMEM: the manager cannot hold the table (a result), or the host what a run needs beside
 * it; -EINTR: progress asked to stop; -EINVAL; or an error of the manager. Blocks.
 */
WEIR_MUST_CHECK int touch_run(struct manager *m, const struct touch_params *p,
			      struct passes_result *out, char *err, size_t err_bytes);

/* What pages of nr words, each written `times` times, add up to, in an order of them: what
 * touch_kernel_pages adds to its sum. */
uint64_t touch_order_sum(const struct touch_order *order, uint64_t nr, uint64_t seed,
			 uint64_t times);

/* "stream", "random", "strided"; "read", "write", "both". Static. */
const char *touch_pattern_name(enum touch_pattern pattern);
const char *touch_access_name(enum touch_access access);

#endif
