/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step machine as device code: compiled so that its headers stay CUDA C++, and with the layout
 * that the host's compiler gives them. Nobody launches it.
 */
#include <cstddef>

#include "weir/paging/pt_step.h"

static_assert(sizeof(struct pt_shared) == 6 * PT_LINE, "each word has a line");
static_assert(sizeof(struct pt_range) == 56, "as in C");
static_assert(offsetof(struct pt_table, nr_slots) == 60, "as in C");

/* One lane reaches a page, with nothing to copy. */
__global__ void pt_check_kernel(struct pt_table table, uint64_t id, unsigned op, int *out)
{
	struct pt_agent agent = {};
	enum pt_do verdict = pt_enter(&agent);

	while (!pt_final(verdict))
		verdict = pt_step(&table, &agent);
	verdict = pt_begin(&table, &agent, id, op);
	while (!pt_final(verdict)) {
		if (verdict == PT_SCAN)
			agent.scan_ok = !pt_slot_lags(&table, agent.slot, agent.global);
		verdict = pt_step(&table, &agent);
	}
	if (agent.pinned)
		pt_unpin(&table, id);
	*out = pt_hit(table.range[0].entry[0], true) && pt_settled(agent.seen, agent.epoch)
		       ? (int)verdict
		       : -1;
}
