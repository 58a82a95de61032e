/* SPDX-License-Identifier: Apache-2.0 */
/* A moment between two passes of a workload, and what went on in between. */
#ifndef WEIR_MOMENT_H
#define WEIR_MOMENT_H

#include "managers/manager.h"

struct moment {
	uint64_t now_ns; /* by the machine's clock */
	double cpu_s;	 /* of this process, user and system */
	struct manager_pages pages;
};

/*
 * Reading statistics is no part of a pass, nor is what a manager does between the end of its last
 * launch and the return of its sync(): moment_begin() looks at the clocks last, moment_end() first,
 * and after a sync.
 */
void moment_begin(struct manager *m, struct moment *out);
void moment_end(struct manager *m, struct moment *out);

double moment_seconds(const struct moment *begin, const struct moment *end);

/* What kernels paged from begin to end, added to *out. */
void moment_pages_add(const struct moment *begin, const struct moment *end,
		      struct manager_pages *out);

#endif
