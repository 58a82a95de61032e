/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses ranges of equal size, one a launch, again and again, and allocates a
 * temporary of another size beside each launch: so nothing repeats that a plan could be made of.
 * What a pass is, and what is checked, is in docs/layers.md.
 */
#ifndef WEIR_LAYERS_H
#define WEIR_LAYERS_H

#include "workloads/layers/order.h"
#include "workloads/passes.h"
#include "workloads/passes_bound.h"
#include "workloads/touch/kernels.h"
#include "workloads/workload.h"

#define LAYERS_PAGE_BYTES 65536u /* what a warp takes at a time; ranges have whole ones */
#define LAYERS_BYTES_MAX (UINT64_C(1) << 42)
#define LAYERS_NO_SPLIT UINT32_MAX

struct layers_params {
	uint32_t nr_ranges;
	uint64_t range_bytes;
	enum layers_order order;
	bool write;	/* ranges are read and written, else read */
	double compute; /* kernel's bytes in GPU memory over those of the range; from 1 on */
	uint64_t seed;	/* any */
	uint32_t split; /* ranges advised to stay in GPU memory, all others: in the host's;
			 * LAYERS_NO_SPLIT: no advice */
	uint32_t passes, warm_up;      /* passes with the warm-up; > warm_up */
	bool check;		       /* read the ranges back at the end */
	uint32_t blocks, threads;      /* of a launch on a GPU; blocks 0: as many as are resident */
	workload_progress_fn progress; /* called with passes done; may be NULL */
	void *progress_arg;
};

/* Of a temporary, at most. */
uint64_t layers_temporary_bytes(const struct layers_params *p);

/* -EINVAL: a figure out of range, err says which. For programs that ask before they run. */
WEIR_MUST_CHECK int layers_params_check(const struct layers_params *p, char *err, size_t err_bytes);

/*
 * Run all passes. m: by this thread alone; on return nothing that the run allocated is left in it,
 * and no queued work. out: written on success only; passes_result_free() it. err: on failure one
 * line, cut to err_bytes. May be NULL.
 *
 * Wrong bytes are a result (out->passed), not an error. On a phantom machine nothing is compared.
 *
 * 0, or -ENOMEM: the manager cannot hold the ranges (a result); -EAGAIN: this computer has no
 * memory for what a run needs beside them; -EINTR: progress asked to stop; -EINVAL; or an error of
 * the manager. Blocks.
 */
WEIR_MUST_CHECK int layers_run(struct manager *m, const struct layers_params *p,
			       struct passes_result *out, char *err, size_t err_bytes);

/* Seconds that no pass takes less than, as passes_bound_s() has it. r: of a run. */
double layers_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		      const struct layers_params *p, const struct passes_result *r,
		      const struct passes_held *held);

#endif
