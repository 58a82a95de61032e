/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels on the CPU that page for themselves: threads, each an agent over the words of a view,
 * that share a kernel's work.
 */
#ifndef WEIR_AGENTS_H
#define WEIR_AGENTS_H

#include "src/paging/paging.h"

#define AGENTS_MAX 64u

/* An agent's share of the work: the first-th of nr. arg: everybody's. 0 or an error. */
typedef int (*agents_fn)(struct paging_agent *agent, uint32_t first, uint32_t nr, void *arg);

/*
 * Do all shares, the first on this thread. With one agent everything happens in one order. An agent
 * whose function fails is taken offline, whatever it holds.
 *
 * @param [in] quiesce_every  As for paging_over().
 * @param [in] nr             Agents, 1 to AGENTS_MAX.
 * @return 0, -ENOMEM, or the error of the first share that has one. Blocks.
 */
int agents_run(const struct weir_paged_view *view, uint32_t quiesce_every, uint32_t nr,
	       agents_fn fn, void *arg);

#endif
