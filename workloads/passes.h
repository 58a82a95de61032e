/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads that go over what a manager holds again and again, each time for the same result:
 * what a pass takes and moves, and what became of all of them. A pass is timed from the device idle
 * to the end of its kernels, by the machine's clock.
 */
#ifndef WEIR_PASSES_H
#define WEIR_PASSES_H

#include "managers/manager.h"

/* Arrays are of the passes that count. */
struct passes_result {
	uint32_t nr_passes;
	double *pass_s;			  /* device idle to device idle */
	double *pass_cpu_s;		  /* of this process meanwhile */
	uint64_t *pass_begin_ns;	  /* by the machine's clock */
	struct manager_pages pages;	  /* of these passes together */
	uint64_t read_bytes, write_bytes; /* that the kernels ask for in one */
	uint64_t distinct_bytes;	  /* of what is managed that it touches */
	bool checked;			  /* something was compared, */
	bool passed;			  /* and was right */
	char wrong[128];		  /* what was not, else empty */
};

/* passed, and nothing else. -EAGAIN: this computer has no memory for it. */
int passes_result_init(struct passes_result *r, uint32_t nr_passes);
void passes_result_free(struct passes_result *r);

/* A moment between two passes. */
struct pass_moment {
	uint64_t now_ns;
	double cpu_s; /* of the process, user and system */
	struct manager_pages pages;
};

/* Wait until the device is idle, and, if drain and the manager can, nothing of what is managed is
 * in its memory. 0 or an error of the manager. */
int pass_idle(struct manager *m, bool drain);

/* The clocks of a moment, and nothing else. */
void pass_clock(struct backend *b, struct pass_moment *out);

/* Before a pass, the device idle. */
void pass_begin(struct manager *m, struct pass_moment *out);

/* After the sync() behind its last launch. Reading statistics is no part of a pass, nor is what a
 * manager does between the end of that launch and the return of its sync(). */
void pass_end(struct manager *m, struct pass_moment *out);

/* Add a pass that counts, the pass-th. */
void pass_note(struct passes_result *r, uint32_t pass, const struct pass_moment *begin,
	       const struct pass_moment *end);

#endif
