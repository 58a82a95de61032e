/* SPDX-License-Identifier: Apache-2.0 */
/* See replay_bound.h. Finding a bound takes longer than replaying an epoch under most managers, so
 * epochs that are alike have theirs found once, and all managers of a budget share it. */
#include "cli/replay_bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/bound.h"

static bool same_uses(const struct trace *a, const struct trace *b)
{
	for (uint32_t u = 0; u < a->nr_uses; u++) {
		const struct trace_use *x = &a->uses[u], *y = &b->uses[u];

		if (x->life != y->life || x->granule != y->granule || x->offset != y->offset ||
		    x->bytes != y->bytes || x->read_bytes != y->read_bytes ||
		    x->write_bytes != y->write_bytes || x->kind != y->kind ||
		    x->pattern != y->pattern)
			return false;
	}
	return true;
}

/* Whether two parts ask for the same. */
static bool same_steps(const struct trace *a, const struct trace *b)
{
	if (a->nr_steps != b->nr_steps || a->nr_uses != b->nr_uses || a->nr_lives != b->nr_lives)
		return false;
	for (uint32_t s = 0; s < a->nr_steps; s++) {
		const struct trace_step *x = &a->steps[s], *y = &b->steps[s];

		if (x->nr_uses != y->nr_uses || x->ops < y->ops || x->ops > y->ops ||
		    !x->name != !y->name || (x->name && strcmp(x->name, y->name) != 0))
			return false;
	}
	for (uint32_t l = 0; l < a->nr_lives; l++) {
		const struct trace_life *x = &a->lives[l], *y = &b->lives[l];

		if (x->bytes != y->bytes || x->birth != y->birth || x->death != y->death)
			return false;
	}
	return same_uses(a, b);
}

/* Add the next epoch to nr kinds of them; takes the steps over. @return how many there are. */
static uint32_t add_epoch(struct replay_alike *alike, uint32_t nr, struct trace *steps)
{
	uint32_t i = 0;

	/* Times are the replayed machine's. */
	for (uint32_t s = 0; s < steps->nr_steps; s++)
		steps->steps[s].compute_ns = 0;
	while (i < nr && !same_steps(alike[i].steps, steps))
		i++;
	if (i < nr) {
		alike[i].nr++;
		trace_destroy(steps);
		return nr;
	}
	alike[nr] = (struct replay_alike){steps, 1};
	return nr + 1;
}

void replay_bound_init(struct replay_bound *b, const struct trace_file *file,
		       const struct replay_plan *plan, uint32_t warm_up,
		       const struct bench_params *params)
{
	struct trace_span *span = calloc(plan->nr_epochs + 1u, sizeof(*span));
	struct trace *steps;
	uint32_t nr = 0;
	char why[128];
	int err = 0;

	*b = (struct replay_bound){.params = params, .nr_epochs = plan->nr_epochs - warm_up};
	b->alike = calloc(b->nr_epochs + 1u, sizeof(*b->alike));
	if (!span || !b->alike)
		goto out;
	replay_epochs(file, span);
	for (uint32_t i = warm_up; !err && i < plan->nr_epochs; i++) {
		err = trace_file_steps(file, &span[i], &steps, why, sizeof(why));
		if (!err)
			nr = add_epoch(b->alike, nr, steps);
	}
	b->nr_alike = nr;
	if (err)
		replay_bound_fini(b);
out:
	free(span);
}

void replay_bound_fini(struct replay_bound *b)
{
	for (uint32_t i = 0; i < b->nr_alike; i++)
		trace_destroy(b->alike[i].steps);
	free(b->alike);
	*b = (struct replay_bound){0};
}

static double compute_s(const struct replay_bound *b, uint64_t budget_bytes,
			const uint64_t *near_bytes)
{
	double sum_s = 0;

	for (uint32_t i = 0; i < b->nr_alike; i++) {
		struct bound_result bound;

		if (bound_compute(b->alike[i].steps, &b->params->machine, b->params->device,
				  budget_bytes, near_bytes, &bound))
			return NAN;
		sum_s += bound.bound_s * b->alike[i].nr;
	}
	return b->nr_alike ? sum_s / b->nr_epochs : NAN;
}

double replay_bound_s(struct replay_bound *b, uint64_t budget_bytes, const uint64_t *near_bytes)
{
	const int near = near_bytes != NULL;

	if (b->known[near].budget_bytes != budget_bytes) {
		b->known[near].budget_bytes = budget_bytes;
		b->known[near].s = compute_s(b, budget_bytes, near_bytes);
	}
	return b->known[near].s;
}
