/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pagerank by pulling: what is shared is a vector of what each vertex gives along each of its
 * edges. In each iteration a device computes that of its own vertices out of all of the vector
 * before. Under managers that send what is written a device has several launches, so that the first
 * vertices' are on their way while the others are computed.
 *
 * Vertices without edges give theirs to all; since edges are there in both directions nobody gives
 * to them, so that all of them have the same rank, which the host knows.
 */
#include <math.h>

#include "src/base/util.h"
#include "workloads/solver/edges.h"
#include "workloads/solver/graph.h"
#include "workloads/solver/internal.h"

#define DAMPING 0.85

/* The rank of a vertex without edges after some iterations, each of which is (1 - d) / n + d / n
 * times the sum of these ranks before. */
static double isolated_rank(const struct solver_graph *g, uint64_t iteration)
{
	const double n = (double)g->nr_vertices, kept = DAMPING * (double)g->nr_isolated / n;
	const double last = (1 - DAMPING) / n / (1 - kept);

	return last + (1 / n - last) * pow(kept, (double)iteration);
}

struct solver_pagerank_args solver_pagerank_args_of(const struct solver_graph *g,
						    uint64_t iteration)
{
	return (struct solver_pagerank_args){.base = (float)isolated_rank(g, iteration),
					     .damping = (float)DAMPING};
}

/* Queue the computation of some slices, all of them a device's: the slice-th step of it. begins: of
 * what the first iteration reads. */
static int compute(struct solver_job *job, uint32_t device, uint32_t out, bool begins,
		   uint32_t slice, struct solver_part_slices slices)
{
	const uint32_t first = slices.first, end = slices.end;
	const struct solver_params *p = job->p;
	const uint64_t slice_bytes = solver_slice_bytes(&p->shape);
	struct solver_pagerank_args args =
		solver_pagerank_args_of(p->graph, begins ? 0 : job->nr_done + 1);
	struct solver_rows_part part;
	struct solver_step step = {
		.device = device,
		.part = job->m->ops->split && !begins ? SOLVER_BOUNDARY : SOLVER_WHOLE,
		.slice = slice,
		.kernel = &solver_kernel_pagerank,
		.args = &args,
		.args_bytes = sizeof(args),
		.use = {{.array = out,
			 .offset = first * slice_bytes,
			 .bytes = (end - first) * slice_bytes,
			 .kind = WEIR_OVERWRITE}},
		.nr_uses = 1,
	};

	solver_edges_part(job, device, first, end - first, &part);
	args.rows = part.rows;
	args.out = job->m->ops->at(job->m, out, device, first * slice_bytes);
	step.own = part.own;
	step.nr_own = part.nr_own;
	if (!begins)
		solver_edges_vector(job, !out, device, &args.in);
	if (!begins)
		solver_edges_reads(job, !out, device, &part, &step);
	return job->m->ops->step(job->m, &step);
}

void solver_pagerank_fill(struct solver_job *job)
{
	for (uint32_t array = 0; array < SOLVER_RUN_ARRAYS && !job->status; array++) {
		int err = 0;

		for (uint32_t d = 0; d < job->p->devices && !err; d++) {
			const struct solver_part_slices all = {
				.first = solver_array_first(job->p, array, d),
				.end = solver_array_first(job->p, array, d + 1)};

			err = compute(job, d, array, true, 0, all);
		}
		err = err ? err : job->m->ops->iteration_end(job->m);
		solver_did(job, err, "filling the arrays");
	}
}

void solver_pagerank_iterate(struct solver_job *job)
{
	const uint32_t out = !(job->nr_done % 2), nr_launches = solver_launches(job, out);
	int err = 0;

	for (uint32_t i = 0; i < nr_launches; i++)
		for (uint32_t d = 0; d < job->p->devices && !err; d++) {
			const struct solver_part_slices part = solver_part_at(job, out, d, i);

			if (part.first < part.end)
				err = compute(job, d, out, false, i, part);
		}
	err = err ? err : job->m->ops->iteration_end(job->m);
	solver_did(job, err, "an iteration");
	job->nr_done++;
}
