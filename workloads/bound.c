/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound and its simple parts. The model is in bound_model.c; the relaxation's dual in
 * bound_dual.c, over the tables of bound_tables.c; the search for its prices in bound_ascent.c,
 * guided by bound_soft.c.
 */
#include "workloads/bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "workloads/bound_ascent.h"

#define NS_PER_S 1e9

/* Sums of some 1e5 terms, prices that add up to one but for rounding, and clocks in whole ns:
 * what all of that could add to the bound is taken off again. */
#define ROUNDING_SHARE 1e-9
#define ROUNDING_STEP_NS 1.0

/* What a launch uses that costs something in place, and the least time of a byte of it there: half
 * the time in and out. */
struct bracket {
	double used_bytes, least_ns, least_near_ns;
};

static void bracket_add(struct bracket *b, const struct bound_event *e, double bytes)
{
	double ns = (e->ns[0] + e->ns[2]) / 2 / bytes;
	double near_ns = (e->near_ns[0] + e->near_ns[1]) / 2 / bytes;

	if (!(ns > 0))
		return;
	if (!(b->used_bytes > 0) || ns < b->least_ns)
		b->least_ns = ns;
	if (!(b->used_bytes > 0) || near_ns < b->least_near_ns)
		b->least_near_ns = near_ns;
	b->used_bytes += bytes;
}

/*
 * The longer of a kernel alone and, of the bytes that it uses and the budget cannot hold, the time
 * in place, in and out at once and the cheapest bytes; at the host and at near memory at once where
 * there is some.
 */
static int bound_brackets(const struct bound_model *m, double *out)
{
	struct bracket *brackets = calloc((size_t)m->nr_steps + 1, sizeof(*brackets));
	double sum = 0;

	if (!brackets)
		return -ENOMEM;
	for (uint32_t p = 0; p < m->nr_pieces; p++) {
		const struct bound_piece *piece = &m->pieces[p];

		for (uint32_t i = 0; i < piece->nr_events; i++) {
			const struct bound_event *e = &m->events[piece->first_event + i];

			bracket_add(&brackets[e->step], e, piece->bytes);
		}
	}
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		const struct bracket *b = &brackets[i];
		double ns = b->least_ns;

		if (b->least_near_ns > 0)
			ns = 1 / (1 / ns + 1 / b->least_near_ns);
		sum += fmax(m->steps[i].alone_ns, fmax(0, b->used_bytes - m->budget_bytes) * ns);
	}
	*out = sum;
	free(brackets);
	return 0;
}

/*
 * Whether the budget holds, at every step, each piece from its first use to its last, and from the
 * start where its contents are from before. Then nothing need cross the link and no relaxation
 * gives more than the kernels' time: 1, or 0, or -ENOMEM.
 */
static int all_fits(const struct bound_model *m)
{
	double *change = calloc((size_t)m->nr_steps + 1, sizeof(*change)), held = 0;
	int fits = 1;

	if (!change)
		return -ENOMEM;
	for (uint32_t p = 0; p < m->nr_pieces; p++) {
		const struct bound_piece *piece = &m->pieces[p];
		const struct bound_event *first = &m->events[piece->first_event];

		change[first->flags & BOUND_LIVE_BEFORE ? 0 : first->step] += piece->bytes;
		change[first[piece->nr_events - 1].step + 1] -= piece->bytes;
	}
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		held += change[i];
		fits &= held <= m->budget_bytes;
	}
	free(change);
	return fits;
}

static double seconds(const struct bound_model *m, double ns)
{
	double less = ns * (1 - ROUNDING_SHARE) - ROUNDING_STEP_NS * m->nr_steps;

	return fmax(0, less) / NS_PER_S;
}

static void choose(struct bound_result *r)
{
	const double part[] = {
		[BOUND_BY_COMPUTE] = r->compute_s,
		[BOUND_BY_BRACKETS] = r->brackets_s,
		[BOUND_BY_PRICES] = r->prices_s,
	};

	r->part = BOUND_BY_COMPUTE;
	for (int p = BOUND_BY_BRACKETS; p <= BOUND_BY_PRICES; p++) {
		if (part[p] > part[r->part])
			r->part = (enum bound_part)p;
	}
	r->bound_s = part[r->part];
}

static int bound_of_model(const struct bound_model *m, struct bound_result *out)
{
	double brackets_ns, prices_ns = m->compute_ns;
	struct bound_result r;
	int err = bound_brackets(m, &brackets_ns), fits;

	if (err)
		return err;
	fits = all_fits(m);
	if (fits < 0)
		return fits;
	if (!fits) {
		err = bound_ascent(m, &prices_ns);
		if (err)
			return err;
	}
	r.compute_s = seconds(m, m->compute_ns);
	r.brackets_s = seconds(m, brackets_ns);
	r.prices_s = seconds(m, prices_ns);
	choose(&r);
	*out = r;
	return 0;
}

int bound_compute(const struct trace *trace, const struct weir_machine_desc *desc, uint32_t device,
		  uint64_t gpu_budget_bytes, const uint64_t near_bytes[WEIR_MEMORIES_MAX],
		  struct bound_result *out)
{
	struct bound_model *model;
	uint64_t most;
	int err = trace_check(trace);

	if (err)
		return err;
	err = weir_machine_check(desc, NULL, 0);
	if (err)
		return err;
	if (device >= desc->nr_devices)
		return -EINVAL;
	most = desc->memory[desc->device[device].memory].bytes;
	if (!gpu_budget_bytes || gpu_budget_bytes > most)
		gpu_budget_bytes = most;
	err = bound_model_create(trace, desc, device, gpu_budget_bytes, near_bytes, &model);
	if (err)
		return err;
	err = bound_of_model(model, out);
	bound_model_destroy(model);
	return err;
}

const char *bound_part_name(enum bound_part part)
{
	static const char *const names[] = {
		[BOUND_BY_COMPUTE] = "compute",
		[BOUND_BY_BRACKETS] = "brackets",
		[BOUND_BY_PRICES] = "prices",
	};

	return (unsigned)part < ARRAY_LEN(names) ? names[part] : "unknown";
}
