/* SPDX-License-Identifier: Apache-2.0 */
/* All managers of solvers. */
#include <math.h>
#include <string.h>

#include "src/backend/machine.h"
#include "workloads/solver/manager.h"

const struct solver_manager_ops *const solver_managers[] = {
	&solver_manager_single,	    &solver_manager_memcpy,	    &solver_manager_overlap,
	&solver_manager_rdl,	    &solver_manager_weir,	    &solver_manager_weir_all,
	&solver_manager_weir_whole, &solver_manager_weir_nopublish, NULL,
};

struct weir_use solver_use_at(const struct solver_use *use, void *addr, uint64_t bytes)
{
	const bool reads = use->kind == WEIR_READ;
	struct weir_use out = {
		.addr = addr,
		.bytes = bytes,
		.kind = use->kind,
		.read_bytes = reads ? bytes : 0,
		.write_bytes = reads ? 0 : bytes,
	};

	if (use->random_bytes) {
		out.pattern = WEIR_RANDOM;
		out.granule = use->granule;
		out.read_bytes = (uint64_t)ceil((double)use->random_bytes * (double)bytes /
						(double)use->bytes);
	}
	return out;
}

/* Step 0's stream has all by now that the step waits for. */
static int turn_wait(struct solver_manager *m, const struct weir_stream *stream,
		     const struct solver_step *step)
{
	const struct backend_ops *ops = m->backend->ops;
	fence_t *begun = &m->begun[step->device];

	if (!step->in_turn || step->part != SOLVER_BOUNDARY || step->slice > 1)
		return 0;
	if (!step->slice)
		return ops->fence_untimed(m->backend, stream_id(stream), begun);
	return *begun ? ops->stream_wait(m->backend, stream_id(stream), *begun) : 0;
}

int solver_step_launch(struct solver_manager *m, struct weir_stream *stream,
		       const struct solver_step *step, const struct weir_launch *launch)
{
	int err = turn_wait(m, stream, step);

	err = err ? err : weir_stream_launch(stream, launch);
	return err || !step->done
		       ? err
		       : m->backend->ops->fence_untimed(m->backend, stream_id(stream), step->done);
}

const struct solver_manager_ops *solver_manager_find(const char *name)
{
	for (unsigned int i = 0; solver_managers[i]; i++)
		if (strcmp(solver_managers[i]->name, name) == 0)
			return solver_managers[i];
	return NULL;
}
