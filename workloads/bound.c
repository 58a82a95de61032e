/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound and its simple parts; the model, its dual and the search for prices are in
 * bound_model.c, bound_dual.c and bound_ascent.c.
 */
#include "workloads/bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "workloads/bound_ascent.h"

#define NS_PER_S 1e9

/* Sums of some 1e5 terms, prices that add up to one but for rounding, and clocks in whole ns:
 * what all of that could add to the bound is taken off again. */
#define ROUNDING_SHARE 1e-9
#define ROUNDING_STEP_NS 1.0

/* By step, for the bounds that look at one step at a time. */
struct alone {
	double *hbm_ns, *relief;
	double *used_bytes; /* of the pieces that cost something in place */
	double *least_ns;   /* of such a byte: half of its time in and out */
};

static int alone_init(struct alone *a, uint32_t nr_steps)
{
	size_t n = (size_t)nr_steps + 1;

	a->hbm_ns = calloc(n, sizeof(*a->hbm_ns));
	a->relief = calloc(n, sizeof(*a->relief));
	a->used_bytes = calloc(n, sizeof(*a->used_bytes));
	a->least_ns = calloc(n, sizeof(*a->least_ns));
	return a->hbm_ns && a->relief && a->used_bytes && a->least_ns ? 0 : -ENOMEM;
}

static void alone_fini(struct alone *a)
{
	free(a->hbm_ns);
	free(a->relief);
	free(a->used_bytes);
	free(a->least_ns);
}

static void alone_fill(struct alone *a, const struct bound_model *m)
{
	bound_step_reliefs(m, a->hbm_ns, a->relief);
	for (uint32_t p = 0; p < m->nr_pieces; p++) {
		const struct bound_piece *piece = &m->pieces[p];

		for (uint32_t i = 0; i < piece->nr_events; i++) {
			const struct bound_event *e = &m->events[piece->first_event + i];
			double ns = (e->ns[0] + e->ns[2]) / 2 / piece->bytes;

			if (!(ns > 0))
				continue;
			if (!(a->used_bytes[e->step] > 0) || ns < a->least_ns[e->step])
				a->least_ns[e->step] = ns;
			a->used_bytes[e->step] += piece->bytes;
		}
	}
}

/* The kernels, and the brackets: the longer of a kernel alone and, of the bytes that it uses and
 * the budget cannot hold, the time in place, in and out at once and the cheapest bytes. */
static int bound_alone(const struct bound_model *m, double *kernels_ns, double *brackets_ns)
{
	struct alone a = {0};
	int err = alone_init(&a, m->nr_steps);

	if (err)
		goto out;
	alone_fill(&a, m);
	*kernels_ns = *brackets_ns = 0;
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		double time[BOUND_RESOURCE_NR];
		double ns = bound_step_alone(&m->steps[i], a.hbm_ns[i], a.relief[i], time);
		double beyond = fmax(0, a.used_bytes[i] - m->budget_bytes);

		*kernels_ns += ns;
		*brackets_ns += fmax(ns, beyond * a.least_ns[i]);
	}
out:
	alone_fini(&a);
	return err;
}

static double seconds(const struct bound_model *m, double ns)
{
	double less = ns * (1 - ROUNDING_SHARE) - ROUNDING_STEP_NS * m->nr_steps;

	return fmax(0, less) / NS_PER_S;
}

static void choose(struct bound_result *r)
{
	const double part[] = {
		[BOUND_BY_KERNELS] = r->kernels_s,
		[BOUND_BY_BRACKETS] = r->brackets_s,
		[BOUND_BY_LINK] = r->link_s,
		[BOUND_BY_PRICES] = r->prices_s,
	};

	r->part = BOUND_BY_KERNELS;
	for (int p = BOUND_BY_BRACKETS; p <= BOUND_BY_PRICES; p++) {
		if (part[p] > part[r->part])
			r->part = (enum bound_part)p;
	}
	r->bound_s = part[r->part];
}

static int bound_of_model(const struct bound_model *m, const struct trace *trace,
			  struct bound_result *out)
{
	struct bound_result r = {.compute_s = m->compute_ns / NS_PER_S};
	double kernels_ns, brackets_ns, link_ns, prices_ns;
	int err = bound_alone(m, &kernels_ns, &brackets_ns);

	if (err)
		return err;
	err = bound_ascent(m, trace, BOUND_ASCENT_LINK, &link_ns);
	if (err)
		return err;
	err = bound_ascent(m, trace, BOUND_ASCENT_ALL, &prices_ns);
	if (err)
		return err;
	r.kernels_s = seconds(m, kernels_ns);
	r.brackets_s = seconds(m, brackets_ns);
	r.link_s = seconds(m, link_ns);
	r.prices_s = seconds(m, prices_ns);
	choose(&r);
	*out = r;
	return 0;
}

int bound_compute(const struct trace *trace, const struct weir_machine_desc *desc, uint32_t device,
		  uint64_t gpu_budget_bytes, struct bound_result *out)
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
	err = bound_model_create(trace, desc, device, gpu_budget_bytes, &model);
	if (err)
		return err;
	err = bound_of_model(model, trace, out);
	bound_model_destroy(model);
	return err;
}

const char *bound_part_name(enum bound_part part)
{
	static const char *const names[] = {
		[BOUND_BY_KERNELS] = "kernels",
		[BOUND_BY_BRACKETS] = "brackets",
		[BOUND_BY_LINK] = "link",
		[BOUND_BY_PRICES] = "prices",
	};

	return (unsigned)part < sizeof(names) / sizeof(names[0]) ? names[part] : "unknown";
}
